//! A handler that settles its own claim, as the transactional guard does (L16).

use std::sync::Arc;

use axum::body::Body;
use axum::routing::post;
use axum::{Extension, Router};
use bytes::Bytes;
use hapax_core::claim::Report;
use hapax_core::{ClaimId, LeafKey, Ledger as _, Outcome, Retention, Scope};
use hapax_exec::{Attempt, Executor, Seal};
use hapax_store::{Options, memory::Memory};
use hapax_tower::{IdempotencyLayer, Keep, Protect, Rule};
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

/// An application whose handler settles with this before it answers.
fn app(
    protect: Protect<Memory>,
    rule: Rule,
    outcome: impl Fn(&Attempt) -> Outcome + Clone + Send + Sync + 'static,
) -> Router {
    let ledger = protect.executor().ledger().clone();
    let layer = IdempotencyLayer::new(protect, rule, |_| Some(Scope::local()));
    let charge = move |Extension(attempt): Extension<Attempt>| async move {
        let report = Report::Settle(outcome(&attempt), Retention::Forever);
        ledger.report(attempt.claim.unwrap(), attempt.epoch.unwrap(), report, Vec::new()).await.unwrap();
        let mut answer = answer(201);
        answer.headers_mut().insert("set-cookie", HeaderValue::from_static("session=1"));
        answer
    };
    Router::new().route("/charges", post(charge)).layer(layer)
}

fn answer(status: u16) -> Response<Body> {
    Response::builder().status(status).header("location", "/charges/1").body(Body::from("charged")).unwrap()
}

/// The status, the `Location` and the body of what a caller gets.
async fn charged(app: &Router) -> (u16, Option<String>, Bytes) {
    let response = call(app).await;
    let location = header(&response, "location");
    (response.status().as_u16(), location, response.into_body())
}

async fn call(app: &Router) -> Response<Bytes> {
    let request = Request::post("/charges").header("idempotency-key", "k-1").body(Body::empty()).unwrap();
    let (head, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

fn header(response: &Response<Bytes>, name: &str) -> Option<String> {
    response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
}

fn rule() -> Rule {
    Rule::new("charges.create").unwrap()
}

/// One that keeps outcomes as they are, and one that seals them.
fn protects() -> [Protect<Memory>; 2] {
    let seal = Arc::new(Seal::new(vec![[7; 32]]).unwrap());
    [None, Some(seal)].map(|seal| {
        let executor = Executor::new(Memory::open(Options::default()));
        Protect::new(executor, LeafKey::new([7; 32])).sealed(seal)
    })
}

#[tokio::test]
async fn what_a_handler_settles_in_its_own_transaction_is_its_answer_l16() {
    for protect in protects() {
        let keeping = protect.clone();
        let app = app(protect, rule(), move |attempt| {
            let answer = answer(201).map(|_| Bytes::from("charged"));
            keeping.outcome(&rule(), attempt.claim.unwrap(), answer)
        });
        for _ in 0..3 {
            let wanted = (201, Some("/charges/1".to_owned()), Bytes::from("charged"));
            assert_eq!(charged(&app).await, wanted);
        }
    }
}

#[tokio::test]
async fn no_more_is_kept_of_a_handlers_own_outcome_than_the_rule_says_b9_l16() {
    let head = Rule { keep: Keep::Head, ..rule() };
    let fact = Rule { keep: Keep::Fact, ..rule() };
    let short = Rule { max_kept_response: "charged".len() - 1, ..rule() };
    for (rule, kept) in [(head, true), (fact, false), (short, false)] {
        for protect in protects() {
            let (keeping, own) = (protect.clone(), rule.clone());
            let app = app(protect, rule.clone(), move |attempt| {
                let answer = answer(201).map(|_| Bytes::from("charged"));
                let outcome = keeping.outcome(&own, attempt.claim.unwrap(), answer);
                assert_eq!(matches!(outcome, Outcome::NotKept { status: 201 }), !kept, "{outcome:?}");
                outcome
            });
            let (status, _, body) = charged(&app).await;
            assert_eq!((status, &body[..]), (201, &b"charged"[..]), "the first caller gets all of it");
            let (status, location, body) = charged(&app).await;
            match kept {
                true => assert_eq!((status, location.is_some(), body.len()), (201, true, 0)),
                false => assert_eq!((status, location), (409, None)),
            }
            assert!(!String::from_utf8_lossy(&body).contains("charged"));
        }
    }
}

#[tokio::test]
async fn a_handlers_own_outcome_is_a_refusal_where_its_status_is_one_l16() {
    let [protect, _] = protects();
    let claim = ClaimId::from_bytes([7; 32]);
    for (status, refused) in [(201, false), (302, false), (402, true), (500, true)] {
        for keep in [Keep::Full, Keep::Head] {
            let outcome =
                protect.outcome(&Rule { keep, ..rule() }, claim, answer(status).map(|_| Bytes::new()));
            assert_eq!(matches!(outcome, Outcome::Refused(_)), refused, "{status} {keep:?}");
        }
    }
}

#[tokio::test]
async fn the_caller_of_a_handler_that_settles_by_itself_is_the_first_one_h3_l16() {
    for (settled, same) in [("charged", true), ("otherwise", false)] {
        for (protect, sealed) in protects().into_iter().zip([false, true]) {
            let keeping = protect.clone();
            let app = app(protect, rule(), move |attempt| {
                let answer = answer(201).map(|_| Bytes::from(settled));
                keeping.outcome(&rule(), attempt.claim.unwrap(), answer)
            });
            let (first, again) = (call(&app).await, call(&app).await);
            for answer in [&first, &again] {
                assert_eq!(answer.body(), settled, "everybody gets what is kept");
            }
            let told = |answer| header(answer, "idempotent-replayed");
            assert_eq!((told(&first), told(&again)), (None, Some("true".into())), "sealed: {sealed}");
            let cookie = |answer| header(answer, "set-cookie").is_some();
            assert_eq!((cookie(&first), cookie(&again)), (same, false), "sealed: {sealed}");
        }
    }
}
