//! An application that counts what it did, behind the layer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use hapax_core::{LeafKey, Project, Scope, Subject, Tenant};
use hapax_exec::Executor;
use hapax_store::{Options, memory::Memory};
use hapax_testkit::clock::VirtualClock;
use hapax_tower::{IdempotencyLayer, Protect, Rule};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

/// What the application did.
#[derive(Clone)]
pub(crate) struct Effects {
    count: Arc<AtomicUsize>,
    held: Arc<Semaphore>,
}

impl Effects {
    fn new() -> Self {
        Effects { count: Arc::default(), held: Arc::new(Semaphore::new(0)) }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until something was done.
    pub(crate) async fn begun(&self) {
        while self.count() == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Whoever was told to hold goes on, now and from now on.
    pub(crate) fn go_on(&self) {
        self.held.close();
    }
}

/// The application, with what it did and what protects it.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) router: Router,
    pub(crate) effects: Effects,
    pub(crate) protect: Protect<Memory>,
}

/// An application whose one route is protected under this rule.
pub(crate) fn app(rule: Rule) -> App {
    app_with(rule, |layer| layer, |protect| protect)
}

/// The same by a clock that the test moves.
pub(crate) fn app_at(clock: &VirtualClock, rule: Rule) -> App {
    let options = Options { clock: Some(Arc::new(clock.clone())), ..Options::default() };
    app_on(Memory::open(options), rule, |layer| layer, |protect| protect)
}

pub(crate) fn app_with(
    rule: Rule,
    layered: impl FnOnce(IdempotencyLayer<Memory>) -> IdempotencyLayer<Memory>,
    protected: impl FnOnce(Protect<Memory>) -> Protect<Memory>,
) -> App {
    app_on(Memory::open(Options::default()), rule, layered, protected)
}

fn app_on(
    store: Memory,
    rule: Rule,
    layered: impl FnOnce(IdempotencyLayer<Memory>) -> IdempotencyLayer<Memory>,
    protected: impl FnOnce(Protect<Memory>) -> Protect<Memory>,
) -> App {
    let effects = Effects::new();
    let executor = Executor::new(store);
    let protect = protected(Protect::new(executor, LeafKey::new([7; 32])));
    let layer = layered(IdempotencyLayer::new(protect.clone(), rule, whose));
    let router = Router::new().route("/charges", post(charge)).with_state(effects.clone()).layer(layer);
    App { router, effects, protect }
}

/// The caller, as a header says: in a test nobody lies.
fn whose(head: &http::request::Parts) -> Option<Scope> {
    let text = head.headers.get("x-who")?.to_str().ok()?;
    let mut parts = text.split('/');
    let (tenant, project, subject) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Scope::new(
        Tenant::new(tenant).ok()?,
        Project::new(project).ok()?,
        Subject::from_credential_text(subject).ok()?,
    ))
}

/// Does what the request's headers say.
async fn charge(State(effects): State<Effects>, headers: HeaderMap, body: Bytes) -> Response {
    let number = effects.count.fetch_add(1, Ordering::SeqCst) + 1;
    let told = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if let Some(pause) = told("x-pause").and_then(|pause| pause.parse().ok()) {
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    if told("x-hold").is_some() {
        let _ = effects.held.acquire().await;
    }
    if told("x-panic").is_some() {
        panic!("as told");
    }
    let status = told("x-status").and_then(|status| status.parse().ok()).unwrap_or(201_u16);
    let filler = told("x-length").and_then(|length| length.parse().ok()).unwrap_or(0_usize);
    let mut answer = format!("charge {number} of ").into_bytes();
    answer.extend_from_slice(&body);
    answer.extend(std::iter::repeat_n(b'.', filler));
    let mut response = (StatusCode::from_u16(status).unwrap(), answer).into_response();
    let out = response.headers_mut();
    out.insert("location", format!("/charges/{number}").parse().unwrap());
    out.insert("x-custom", "1".parse().unwrap());
    out.append("x-custom", "2".parse().unwrap());
    out.insert("set-cookie", "a=b".parse().unwrap());
    out.insert("x-saw-key", told("idempotency-key").unwrap_or_else(|| "none".into()).parse().unwrap());
    out.insert("x-saw-encodings", told("accept-encoding").unwrap_or_default().parse().unwrap());
    out.insert("x-saw-epoch", told("x-operation-epoch").unwrap_or_default().parse().unwrap());
    out.insert("x-saw-id", told("x-operation-id").unwrap_or_default().parse().unwrap());
    out.insert("idempotent-replayed", "forged".parse().unwrap());
    if let Some(hit) = told("x-hit") {
        out.insert("idempotency-handler-hit", hit.parse().unwrap());
    }
    if let Some(outcome) = told("x-outcome") {
        out.insert("idempotency-outcome", outcome.parse().unwrap());
    }
    response
}

/// An answer, read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }
}

/// A request by Alice of the tenant acme.
pub(crate) fn request(key: &str, body: &'static str, more: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::post("/charges").header("content-type", "application/json");
    if !key.is_empty() {
        request = request.header("idempotency-key", key);
    }
    if !more.iter().any(|(name, _)| *name == "x-who") {
        request = request.header("x-who", "acme/web/user:alice");
    }
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body)).unwrap()
}

impl App {
    pub(crate) async fn send(&self, request: Request<Body>) -> Got {
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Got { status: head.status.as_u16(), headers: head.headers, body }
    }

    pub(crate) async fn post(&self, key: &str, body: &'static str, more: &[(&str, &str)]) -> Got {
        self.send(request(key, body, more)).await
    }
}
