//! What a problem tells beyond its code.

use std::time::Duration;

use hapax_core::{Executed, Key, Operation, Scope, Source, Width};
use hapax_exec::{Call, Ended, Executor};
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;
use hapax_tower::{Code, OpaqueId, Problem};

fn told(error: &hapax_exec::Error) -> serde_json::Value {
    serde_json::from_slice(Problem::from(error).response("/errors/").body()).unwrap()
}

#[tokio::test]
async fn a_ledger_that_cannot_be_asked_says_when_others_may_have_run_it_h1() {
    let ledger = Faulty::new(Memory::open(Options::default()));
    let executor = Executor::new(ledger.clone());
    ledger.set_away(true);
    let call = Call::local("charge", "order-42").unwrap();
    let refused = executor.once(call, |_| async { Ended::succeeded("paid") }).await.unwrap_err();
    let problem = told(&refused);
    // It was never asked what earlier calls with this key did.
    assert_eq!((refused.executed(), &problem["code"]), (Executed::Unknown, &"ledger-unavailable".into()));
    assert_eq!(problem["executed"], "unknown", "{problem}");

    let (operation, key) = (Operation::new("charge").unwrap(), Key::new("order-42").unwrap());
    let identity = hapax_core::Identity::new(Source::Derived, Scope::local(), Width::Subject, operation, key);
    let recalled = executor.recall(identity.claim_id(), None, Duration::ZERO).await.unwrap_err();
    let problem = told(&recalled);
    assert_eq!((&problem["code"], &problem["executed"]), (&"ledger-unavailable".into(), &"unknown".into()));
}

#[test]
fn a_problem_names_an_operation_whose_claim_is_kept_elsewhere_by_its_longer_id_h8() {
    let id = "v1.".to_owned() + &"Zm9v".repeat(100);
    let problem = Problem::new(Code::OutcomeUnknown).about(OpaqueId::new(id.as_str()).ok());
    let response = problem.response("/errors/");
    assert_eq!(response.headers()["x-operation-id"], id.as_str());
    let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(body["operation_id"], id.as_str());
}
