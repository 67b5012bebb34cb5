//! A handler that settles its own claim, as the transactional guard does (L16).

use std::sync::Arc;

use axum::body::Body;
use axum::routing::post;
use axum::{Extension, Router};
use bytes::Bytes;
use hapax_core::claim::Report;
use hapax_core::{LeafKey, Ledger as _, Outcome, Retention, Scope};
use hapax_exec::{Attempt, Executor};
use hapax_store::{Options, memory::Memory};
use hapax_tower::{IdempotencyLayer, Protect, Rule, Seal};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

/// An application whose handler settles with this before it answers.
fn app(
    protect: Protect<Memory>,
    outcome: impl Fn(&Attempt) -> Outcome + Clone + Send + Sync + 'static,
) -> Router {
    let ledger = protect.executor().ledger().clone();
    let layer =
        IdempotencyLayer::new(protect, Rule::new("charges.create").unwrap(), |_| Some(Scope::local()));
    let charge = move |Extension(attempt): Extension<Attempt>| async move {
        let report = Report::Settle(outcome(&attempt), Retention::Forever);
        ledger.report(attempt.claim.unwrap(), attempt.epoch.unwrap(), report, Vec::new()).await.unwrap();
        answer(201)
    };
    Router::new().route("/charges", post(charge)).layer(layer)
}

fn answer(status: u16) -> Response<Body> {
    Response::builder().status(status).header("location", "/charges/1").body(Body::from("charged")).unwrap()
}

async fn charged(app: &Router) -> (u16, Option<String>, Bytes) {
    let request = Request::post("/charges").header("idempotency-key", "k-1").body(Body::empty()).unwrap();
    let (head, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let location = head.headers.get("location").map(|value| value.to_str().unwrap().to_owned());
    (head.status.as_u16(), location, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn what_a_handler_settles_in_its_own_transaction_is_its_answer_l16() {
    let seal = Arc::new(Seal::new(vec![[7; 32]]).unwrap());
    for seal in [None, Some(seal)] {
        let executor = Executor::new(Memory::open(Options::default()));
        let protect = Protect::new(executor, LeafKey::new([7; 32])).sealed(seal);
        let keeping = protect.clone();
        let app = app(protect, move |attempt| {
            let answer = answer(201).map(|_| Bytes::from("charged"));
            keeping.outcome(attempt.claim.unwrap(), answer)
        });
        for _ in 0..3 {
            let wanted = (201, Some("/charges/1".to_owned()), Bytes::from("charged"));
            assert_eq!(charged(&app).await, wanted);
        }
    }
}
