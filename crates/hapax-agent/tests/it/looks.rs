//! The look between the grant and the first byte: what was so before the claim proves nothing after it (J2).

use hapax_agent::durable::{Error, Executions, Resume};
use hapax_core::{Inspect as _, Scope, State};
use hapax_exec::Executor;
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;
use serde_json::json;

use crate::world::{Calls, at, creation, id, step};

#[tokio::test]
async fn an_execution_that_was_paused_or_taken_after_the_grant_calls_no_tool_j2() {
    for taken in [false, true] {
        let store = Faulty::new(Memory::open(Options::default()));
        let executions = Executions::new(Executor::new(store.clone()), Scope::local());
        let run = executions.create(creation("e-1")).await.unwrap();
        let (other, calls) = (executions.clone(), Calls::default());
        store.after_next_claim(move || async move {
            let e = id("e-1");
            match taken {
                true => drop(other.resume(&e, Resume { force: true, ..Resume::default() }).await.unwrap()),
                false => other.pause(&e, "wait").await.unwrap(),
            }
        });
        let (work, tools) = (step("e-1", at(0, 0), "unsafe", json!(1)), calls.tools());
        let told = run.step(work.clone(), tools.get("unsafe").unwrap().as_ref()).await;
        assert!(matches!(told, Err(Error::Fenced)), "{told:?}");
        assert_eq!(calls.count(), 0);
        let claim = work.identity(executions.scope()).unwrap().claim_id();
        let state = store.inner().record(claim).await.unwrap().unwrap().claim.state;
        assert!(matches!(state, State::Released { .. }), "the claim is given back: {state:?}");
    }
}

#[tokio::test]
async fn a_report_whose_answer_is_lost_writes_its_result_once_l18() {
    let store = Faulty::new(Memory::open(Options::default()));
    let executions = Executions::new(Executor::new(store.clone()), Scope::local());
    let run = executions.create(creation("e-1")).await.unwrap();
    let (work, calls) = (step("e-1", at(0, 0), "unsafe", json!(1)), Calls::default());
    let tools = calls.tools();
    let tool = tools.get("unsafe").unwrap().as_ref();
    store.lose_reports(1);
    // Its caller hears nothing for certain; asked again, the ledger knows.
    let _ = run.step(work.clone(), tool).await;
    for _ in 0..200 {
        if run.step(work.clone(), tool).await.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    run.step(work, tool).await.unwrap();
    assert_eq!(calls.count(), 1);
    let events = executions.read(&id("e-1"), 0, 100).await.unwrap();
    let results = events.iter().filter(|event| event.event_type == "TOOL_CALL_RESULT").count();
    assert_eq!((events.len(), results), (3, 1));
}
