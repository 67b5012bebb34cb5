//! Executions as operators meet them among claims: decisions about steps, and erasing what is kept of a subject (J5, B9).

use hapax::Store;
use hapax_agent::durable::{
    AgentId, Creation, Declaration, Error, ExecutionId, Executions, PlannedCall, Run, Step, StepEnd,
    ToolError, Tools, verify,
};
use hapax_core::{Inspect as _, Project, Scope, Subject, Tenant};
use serde_json::{Value, json};

use crate::office::{Office, carried_out, each};

pub(crate) fn executions(office: &Office, subject: &str) -> Executions<Store> {
    let scope = Scope::new(
        Tenant::new("acme").unwrap(),
        Project::new("web").unwrap(),
        Subject::parse(subject).unwrap(),
    );
    Executions::new(office.executor.clone(), scope)
}

pub(crate) async fn created(executions: &Executions<Store>, id: &str) -> Run<Store> {
    let (id, agent) = (ExecutionId::new(id).unwrap(), AgentId::new("clerk").unwrap());
    executions.create(Creation::new(id, agent, json!({ "text": "secret" }))).await.unwrap()
}

/// Makes one call, which ends like this; the public id of its claim.
pub(crate) async fn called(run: &Run<Store>, end: Result<serde_json::Value, ToolError>) -> (StepEnd, String) {
    let tools = Tools::new().function("pay", Declaration::NonIdempotent, move |_, _| {
        let end = end.clone();
        async move { end }
    });
    let at = hapax_agent::durable::Coordinates { iteration: 0, call: 0 };
    let planned = PlannedCall::new("pay", json!({ "text": "secret" }));
    let step = Step::new(run.id(), at, &planned, Declaration::NonIdempotent).unwrap();
    let end = run.step(step.clone(), tools.get("pay").unwrap().as_ref()).await.unwrap();
    let claim = step.identity(run.executions().scope()).unwrap().claim_id();
    let record = run.executions().executor().ledger().record(claim).await.unwrap().unwrap();
    (end, record.claim.operation_id.to_string())
}

#[tokio::test]
async fn the_claims_commands_refuse_a_step_and_name_the_right_one_j5() {
    each(async |office| {
        let executions = executions(office, "user:alice");
        let (end, doubt) =
            called(&created(&executions, "doubt").await, Err(ToolError::Unknown("cut".into()))).await;
        assert!(matches!(end, StepEnd::Waits(_)), "{end:?}");
        let (end, settled) = called(&created(&executions, "settled").await, Ok(json!(1))).await;
        assert!(matches!(end, StepEnd::Done(_)), "{end:?}");
        for (id, verb, more) in [
            (&doubt, "resolve", json!({ "release": true, "force": true })),
            (&doubt, "resolve", json!({ "settle": { "status": 201 } })),
            (&settled, "reopen", json!({})),
            (&settled, "purge", json!({})),
        ] {
            let before = office.claim(id).await;
            let mut body = json!({ "epoch": before["epoch"], "reason": "a slip" });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let refused = office.decide(id, verb, body).await;
            assert_eq!((refused.status, &refused.code()[..]), (409, "claim-not-applicable"), "{verb}");
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains("hapax executions decide"), "{detail}");
            assert_eq!(office.claim(id).await, before, "{verb}");
        }
        let audit = office.get("/v1/audit").await.json();
        assert_eq!(carried_out(&audit), Vec::<Value>::new());
        assert_eq!(audit["events"].as_array().unwrap().len(), 4, "what was refused is told: {audit}");
        // What is kept of it may be destroyed all the same.
        let body = json!({ "epoch": office.claim(&settled).await["epoch"], "reason": "asked" });
        assert_eq!(office.decide(&settled, "erase", body).await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn a_subjects_executions_are_erased_with_its_claims_b9() {
    each(async |office| {
        let (alice, bob) = (executions(office, "user:alice"), executions(office, "user:bob"));
        let run = created(&alice, "alices").await;
        called(&run, Ok(json!({ "text": "secret" }))).await;
        run.complete_iteration(0, &json!({ "text": "secret" })).await.unwrap();
        let kept = created(&bob, "bobs").await;
        called(&created(&alice, "open").await, Err(ToolError::Unknown("cut".into()))).await;
        let (mut events, mut erased, mut left, mut after) = (0, 0, 0, json!(null));
        for round in 0.. {
            assert!(round < 20, "it comes to an end");
            let mut body = json!({ "tenant": "acme", "subject": "user:alice", "reason": "she asked" });
            if !after.is_null() {
                body["after"] = after;
            }
            let page = office.post("/v1/claims/erase", body).await;
            assert_eq!(page.status, 200, "{}", page.body);
            let page = page.json();
            events += page["events"].as_u64().unwrap();
            erased += page["erased"].as_u64().unwrap();
            left += page["left"].as_u64().unwrap();
            after = page["next"].clone();
            if after.is_null() {
                break;
            }
        }
        assert_eq!((events, erased, left), (4, 1, 1), "the execution with an open step is left");
        let shown = alice.get(run.id(), 0, 100).await.unwrap();
        assert!(shown.events.iter().all(|event| event.payload.is_none()) && shown.checkpoint.is_none());
        assert!(verify(&office.store, &alice.stream(run.id()).unwrap()).await.unwrap().is_sound());
        assert!(bob.get(kept.id(), 0, 1).await.unwrap().events[0].payload.is_some());
        let resumed =
            alice.resume(run.id(), hapax_agent::durable::Resume { force: true, ..Default::default() }).await;
        assert!(matches!(resumed, Err(Error::Erased)), "its checkpoint is gone: {resumed:?}");
    })
    .await;
}
