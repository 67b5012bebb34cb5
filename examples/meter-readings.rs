//! A handler that tells its senders' repetitions apart by itself, because they send nothing that would (case C).
//!
//! Meters post their readings until they are answered, and give them no id. What makes two of them the same only the handler knows: the
//! meter and the time of the reading. It derives a token from those, and stores each reading once. On a repetition it gives the first
//! answer again, and says so in `Idempotency-Handler-Hit`: the edge in front counts that, and takes it out of the answer.
//!
//! ```text
//! cargo run -p hapax-tower --example meter-readings
//! curl -i localhost:3001/readings -d '{"meter": "m-7", "taken_at": "2026-11-18T12:00:00Z", "kwh": 4711}'
//! curl -i localhost:3001/readings -d '{"meter": "m-7", "taken_at": "2026-11-18T12:00:00Z", "kwh": 4711}'   # the same number
//! ```
//!
//! At the edge its route is `policy = "HANDLER_INTERNAL_C"`: an `Idempotency-Key` has no effect there and does not come here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use hapax_core::{Identity, Key, Ledger, Operation, Project, Recipe, RequestParts, Scope, Source};
use hapax_core::{Subject, Tenant, Width};
use hapax_exec::{Call, Executor, Failure, How, Reason};
use hapax_sqlite::Embedded;
use hapax_store::{Lifecycle as _, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Embedded::open(std::env::temp_dir().join("hapax-meter-readings"), Options::default())?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3001").await?;
    axum::serve(listener, app(Executor::new(store.clone())))
        .with_graceful_shutdown(async { tokio::signal::ctrl_c().await.unwrap_or(()) })
        .await?;
    store.close().await?;
    Ok(())
}

/// What the handler works with.
struct Meters<L> {
    executor: Executor<L>,
    /// How many readings were stored.
    stored: AtomicU64,
}

/// The service, with its claims on this executor's ledger.
pub(crate) fn app<L: Ledger>(executor: Executor<L>) -> Router {
    let meters = Arc::new(Meters { executor, stored: AtomicU64::new(0) });
    Router::new().route("/readings", post(take::<L>)).with_state(meters)
}

async fn take<L: Ledger>(State(meters): State<Arc<Meters<L>>>, headers: HeaderMap, body: String) -> Response {
    let Some(call) = call(&headers, &body) else {
        return (StatusCode::BAD_REQUEST, "a reading has a meter and a time\n").into_response();
    };
    let done = meters.executor.run(call, |_| async { Ok::<_, Failure>(meters.store(&body)) }).await;
    let answer = |status, text: String| (status, text).into_response();
    match done {
        Ok(done) => {
            let mut response = answer(StatusCode::CREATED, format!("reading {}\n", done.value));
            if done.how != How::Executed {
                response.headers_mut().insert("idempotency-handler-hit", "true".parse().expect("plain text"));
            }
            response
        }
        Err(error) if matches!(error.reason(), Reason::Mismatch(_)) => {
            answer(StatusCode::CONFLICT, "this meter has sent another reading for that time\n".into())
        }
        Err(error) => answer(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

/// What is claimed: the token, for the tenant and project that the edge has made out, whichever credential the reading came with.
fn call(headers: &HeaderMap, body: &str) -> Option<Call> {
    let reading: serde_json::Value = serde_json::from_str(body).ok()?;
    let token = format!("{} {}", reading["meter"].as_str()?, reading["taken_at"].as_str()?);
    let told = |name: &str| headers.get(name)?.to_str().ok();
    let scope = match (told("x-tenant-id"), told("x-project-id"), told("x-subject")) {
        (Some(tenant), Some(project), Some(subject)) => {
            Scope::new(Tenant::new(tenant).ok()?, Project::new(project).ok()?, Subject::parse(subject).ok()?)
        }
        // Without an edge in front.
        _ => Scope::local(),
    };
    let (operation, key) = (Operation::new("readings.store").ok()?, Key::new(token).ok()?);
    let identity = Identity::new(Source::Derived, scope, Width::Project, operation, key);
    // The same reading, however it is written.
    let asked =
        Recipe::json().fingerprint(&RequestParts { body: body.as_bytes(), ..RequestParts::default() });
    Some(Call::of(identity).fingerprint(asked))
}

impl<L> Meters<L> {
    /// The work that must not happen twice.
    fn store(&self, _: &str) -> u64 {
        self.stored.fetch_add(1, Ordering::SeqCst) + 1
    }
}
