//! A server whose keys work, in memory, with one fault planted where a test asks for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;

/// How long the work takes: long enough to be in flight.
const WORK_TAKES: Duration = Duration::from_millis(200);

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Keys have no effect at all.
    RunsAlways,
    /// The kept answer, whatever is asked.
    OldAnswer,
    /// Callers are not told apart.
    LeaksToOthers,
    /// Paths are not told apart.
    IgnoresPath,
    /// Whoever comes second in a race gets nothing, and is told that all is well.
    EmptySuccess,
    /// An empty key is a key.
    EmptyIsShared,
    /// Of two lines the first is the key.
    FirstLineWins,
    /// A long key breaks it.
    LongIs500,
    /// The quotes are part of the key.
    QuotesAreKept,
    /// Not a fault: all answers are alike.
    SaysNothing,
    /// Not a fault: keys stand in `PayPal-Request-Id`, quotes are part of them.
    OtherHeader,
    /// Not a fault: keys stand in the body.
    InBody,
    /// As before, and of two members the last counts.
    InBodyLastWins,
}

/// What a key stands for.
struct Kept {
    body: Bytes,
    answer: Option<String>,
}

/// Whose key it is, where, and the key.
type Id = (String, String, String);

struct World {
    fault: Fault,
    runs: AtomicU64,
    requests: AtomicU64,
    kept: Mutex<HashMap<Id, Kept>>,
}

/// A running server; it ends with its runtime.
pub(crate) struct Planted {
    world: Arc<World>,
    port: u16,
    _runtime: tokio::runtime::Runtime,
}

impl Planted {
    pub(crate) fn start(fault: Fault) -> Planted {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (runs, requests) = (AtomicU64::new(0), AtomicU64::new(0));
        let world = Arc::new(World { fault, runs, requests, kept: Mutex::default() });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new()
            .route("/charges", post(charge))
            .route("/refunds", post(charge))
            .route("/docs/keys", get(|| async { "what keys are for" }))
            .layer(from_fn_with_state(world.clone(), count))
            .with_state(world.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Planted { world, port, _runtime: runtime }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// How many requests arrived.
    pub(crate) fn requests(&self) -> u64 {
        self.world.requests.load(Ordering::SeqCst)
    }
}

async fn count(State(world): State<Arc<World>>, request: Request, next: Next) -> Response {
    world.requests.fetch_add(1, Ordering::SeqCst);
    next.run(request).await
}

async fn charge(
    State(world): State<Arc<World>>,
    uri: axum::http::Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if serde_json::from_slice::<serde_json::Value>(&body).is_err() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    if world.fault == Fault::RunsAlways {
        return created(&world.work().await, false);
    }
    let key = match key(world.fault, &headers, &body) {
        Ok(key) => key,
        Err(status) => return problem(status),
    };
    let caller = headers.get(AUTHORIZATION).map_or("", |value| value.to_str().unwrap()).to_owned();
    let caller = if world.fault == Fault::LeaksToOthers { String::new() } else { caller };
    let path = if world.fault == Fault::IgnoresPath { "" } else { uri.path() };
    let id = (caller, path.to_owned(), key);
    if let Some(told) = world.claim(&id, &body) {
        return told;
    }
    let answer = world.work().await;
    world.kept.lock().unwrap().get_mut(&id).unwrap().answer = Some(answer.clone());
    created(&answer, false)
}

impl World {
    /// What a key that was used before gets; nothing where the work has to be done.
    fn claim(&self, id: &Id, body: &Bytes) -> Option<Response> {
        let mut kept = self.kept.lock().unwrap();
        let Some(known) = kept.get(id) else {
            kept.insert(id.clone(), Kept { body: body.clone(), answer: None });
            return None;
        };
        let looks = self.fault != Fault::OldAnswer && !id.2.is_empty();
        if looks && known.body != body {
            return Some(problem(StatusCode::UNPROCESSABLE_ENTITY));
        }
        Some(match &known.answer {
            Some(answer) => created(answer, true),
            None if self.fault == Fault::EmptySuccess => StatusCode::CREATED.into_response(),
            None => problem(StatusCode::CONFLICT),
        })
    }

    /// The effect. It has a number, so that everybody can count.
    async fn work(&self) -> String {
        tokio::time::sleep(WORK_TAKES).await;
        let number = self.runs.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            Fault::SaysNothing => "{\"done\": true}".into(),
            _ => format!("{{\"number\": {number}}}"),
        }
    }
}

fn key(fault: Fault, headers: &HeaderMap, body: &[u8]) -> Result<String, StatusCode> {
    match fault {
        Fault::InBody | Fault::InBodyLastWins => {
            let twice = String::from_utf8_lossy(body).matches("\"request_id\"").count() > 1;
            let json: serde_json::Value = serde_json::from_slice(body).unwrap();
            let key = json["request_id"].as_str().filter(|key| (1..256).contains(&key.len()));
            // Nothing is asked for.
            let amount = json.get("amount").is_some();
            return key
                .filter(|_| amount && (!twice || fault == Fault::InBodyLastWins))
                .map(str::to_owned)
                .ok_or(StatusCode::BAD_REQUEST);
        }
        Fault::OtherHeader => {
            let lines: Vec<_> = headers.get_all("paypal-request-id").iter().collect();
            let [line] = lines[..] else { return Err(StatusCode::BAD_REQUEST) };
            let fits = (1..256).contains(&line.len());
            return if fits { Ok(line.to_str().unwrap().to_owned()) } else { Err(StatusCode::BAD_REQUEST) };
        }
        _ => {}
    }
    let lines: Vec<_> =
        headers.get_all("idempotency-key").iter().map(|line| line.to_str().unwrap()).collect();
    let line = match lines[..] {
        [line] => line,
        [line, _] if fault == Fault::FirstLineWins => line,
        _ => return Err(StatusCode::BAD_REQUEST),
    };
    if line.is_empty() && fault == Fault::EmptyIsShared {
        return Ok(String::new());
    }
    if line.len() > 255 {
        let broken = fault == Fault::LongIs500;
        return Err(if broken { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::BAD_REQUEST });
    }
    let bare = line.strip_prefix('"').and_then(|line| line.strip_suffix('"')).unwrap_or(line);
    if bare.is_empty() || bare.contains('"') {
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok(if fault == Fault::QuotesAreKept { line } else { bare }.to_owned())
}

fn created(answer: &str, replayed: bool) -> Response {
    let mut response =
        (StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], answer.to_owned()).into_response();
    if replayed {
        response.headers_mut().insert("idempotent-replayed", "true".parse().unwrap());
    }
    response
}

fn problem(status: StatusCode) -> Response {
    let kind = [(CONTENT_TYPE, "application/problem+json")];
    let mut response = (status, kind, r#"{"type": "/docs/keys"}"#).into_response();
    if status == StatusCode::CONFLICT {
        response.headers_mut().insert(RETRY_AFTER, "1".parse().unwrap());
    }
    response
}
