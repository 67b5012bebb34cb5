//! The same request twice, one after the other and at the same time: a caller that has not heard an answer asks again (J2, J4, J6).

use std::time::Duration;

use hapax::Store;
use hapax_agent::durable::{
    AgentId, Choice, Creation, Decision, Error, Lending, Plan, PlannedCall, Resume, Run, StepEnd, StepResult,
    Stop, ToolError, Waits, parse_runner, verify,
};
use hapax_core::claim::audit::CONTRADICTED;
use hapax_core::{AppendId, AttemptId, Inspect as _, Leases as _, Scope};
use serde_json::{Value, json};

use crate::world::{Script, World, at, creation, id, kinds, on_each_store, step};

on_each_store! {
    a_checkpoint_that_is_sent_many_times_at_once_completes_one_iteration_j2,
    of_many_plans_at_once_one_is_recorded_and_all_are_told_it_j4,
    of_many_intents_at_once_one_is_recorded_and_the_tool_is_called_once_j5,
    an_attempt_to_resume_is_one_runner_however_often_it_is_made_j2,
    an_end_that_is_told_again_is_the_same_end_and_what_is_paused_takes_no_events_j2,
    an_attempt_that_was_used_for_something_else_is_refused_j2,
    the_truth_that_comes_after_an_operators_word_is_in_the_audit_l8,
    an_effect_key_of_other_work_waits_for_a_person_j6,
    a_decision_about_a_result_that_was_not_kept_is_in_the_audit_and_counts_once_l8,
}

/// The same runner as many requests know it: each with what it has read by itself.
async fn requests(world: &World, run: &Run<Store>, count: usize) -> Vec<Run<Store>> {
    let mut requests = Vec::new();
    for _ in 0..count {
        let runner = parse_runner(&run.runner()).unwrap();
        requests.push(world.executions().run(run.id(), runner).await.unwrap());
    }
    requests
}

async fn count(world: &World, name: &str, kind: &str) -> usize {
    kinds(&world.executions(), name).await.iter().filter(|found| *found == kind).count()
}

async fn a_checkpoint_that_is_sent_many_times_at_once_completes_one_iteration_j2(world: World) {
    for (round, many) in [2, 2, 8, 8].into_iter().enumerate() {
        let name = format!("e-{round}");
        let run = world.create(&name).await;
        let sent = requests(&world, &run, many)
            .await
            .into_iter()
            .map(|run| tokio::spawn(async move { run.complete_iteration(0, &json!({ "n": 1 })).await }));
        for told in futures_util::future::join_all(sent).await {
            let told = told.unwrap();
            assert!(matches!(told, Ok(()) | Err(Error::WrongIteration { present: 1, .. })), "{told:?}");
        }
        assert_eq!(count(&world, &name, "ITERATION_COMPLETE").await, 1, "{many} at once");
        let again = requests(&world, &run, 1).await.remove(0);
        assert_eq!((again.iteration(), again.state().unwrap()), (1, json!({ "n": 1 })));
        let resumed =
            world.executions().resume(&id(&name), Resume { force: true, ..Resume::default() }).await.unwrap();
        assert_eq!(resumed.iteration(), 1);
    }
}

async fn of_many_plans_at_once_one_is_recorded_and_all_are_told_it_j4(world: World) {
    for (round, many) in [2, 8].into_iter().enumerate() {
        let name = format!("e-{round}");
        let run = world.create(&name).await;
        let sent = requests(&world, &run, many).await.into_iter().enumerate().map(|(number, run)| {
            let calls = vec![PlannedCall::new("safe", json!(number))];
            tokio::spawn(async move { run.record_plan(Plan::Act { calls, parallel: false }).await.unwrap() })
        });
        let mut told = Vec::new();
        for plan in futures_util::future::join_all(sent).await {
            told.push(plan.unwrap());
        }
        assert_eq!(count(&world, &name, "PLAN_RECORDED").await, 1, "{many} at once");
        let recorded = requests(&world, &run, 1).await.remove(0).plan().unwrap();
        assert!(told.iter().all(|plan| Some(plan) == recorded.as_ref()), "{told:?} {recorded:?}");
    }
}

async fn of_many_intents_at_once_one_is_recorded_and_the_tool_is_called_once_j5(world: World) {
    let run = world.create("e-1").await;
    let sent = requests(&world, &run, 8).await.into_iter().map(|run| {
        let tools = world.calls.tools();
        tokio::spawn(async move {
            let tool = tools.get("unsafe").unwrap().clone();
            run.step(step("e-1", at(0, 0), "unsafe", json!(1)), tool.as_ref()).await.unwrap()
        })
    });
    let value = json!({ "call": 1 });
    for end in futures_util::future::join_all(sent).await {
        assert_eq!(end.unwrap(), StepEnd::Done(StepResult::Answered { value: value.clone() }));
    }
    assert_eq!((count(&world, "e-1", "TOOL_CALL_INTENT").await, world.calls.count()), (1, 1));
}

async fn an_attempt_to_resume_is_one_runner_however_often_it_is_made_j2(world: World) {
    let executions = world.executions();
    world.create("e-1").await.pause("wait").await.unwrap();
    let lease = world.store.open_lease(&Scope::local(), Duration::from_secs(600)).await.unwrap();
    let attempt = AttemptId::random();
    let how = || Resume { lease: Some(lease.id), attempt: Some(attempt), ..Resume::default() };
    let resume = async || executions.resume(&id("e-1"), how()).await;
    let both = tokio::join!(resume(), resume());
    let run = both.0.unwrap();
    assert_eq!(both.1.unwrap().runner(), run.runner());
    // Its lease lasts: another attempt is refused, and the same one has its answer again.
    let other = Resume { attempt: Some(AttemptId::random()), ..how() };
    assert!(matches!(executions.resume(&id("e-1"), other.clone()).await, Err(Error::Fenced)));
    run.complete_iteration(0, &json!(7)).await.unwrap();
    let again = executions.resume(&id("e-1"), how()).await.unwrap();
    assert_eq!((again.runner(), again.iteration(), again.state().unwrap()), (run.runner(), 1, json!(7)));
    for kind in ["EXECUTION_RECOVERING", "EXECUTION_RESUMED"] {
        assert_eq!(count(&world, "e-1", kind).await, 1, "{kind}");
    }
    // An attempt is used up once the execution was paused, or another runner has it.
    again.pause("wait").await.unwrap();
    assert!(matches!(executions.resume(&id("e-1"), how()).await, Err(Error::NotApplicable(_))));
    executions.resume(&id("e-1"), other).await.unwrap();
    assert!(matches!(executions.resume(&id("e-1"), how()).await, Err(Error::Fenced)));
    world.store.end_lease(&Scope::local(), lease.id).await.unwrap();
    let late = executions.resume(&id("e-1"), how()).await;
    assert!(late.is_err(), "{late:?}");
}

async fn an_end_that_is_told_again_is_the_same_end_and_what_is_paused_takes_no_events_j2(world: World) {
    let run = world.create("e-1").await;
    let paused = run.pause("lunch").await.unwrap();
    for request in requests(&world, &run, 2).await {
        assert_eq!(request.pause("lunch").await.unwrap(), paused);
    }
    let request = requests(&world, &run, 1).await.remove(0);
    let other = Plan::Act { calls: vec![], parallel: false };
    for refused in [
        request.append("NOTE", &json!(1), None).await.err(),
        request.complete_iteration(0, &json!(1)).await.err(),
        request.record_plan(other).await.err(),
        request.complete(&json!(1)).await.err(),
        request.fail("no").await.err(),
        request.pause("dinner").await.err(),
    ] {
        assert!(matches!(refused, Some(Error::NotApplicable(_))), "{refused:?}");
    }
    assert_eq!(kinds(&world.executions(), "e-1").await, ["EXECUTION_CREATED", "EXECUTION_PAUSED"]);
    let run = world.executions().resume(&id("e-1"), Resume::default()).await.unwrap();
    // A step that was begun and has no result keeps it from its end.
    world.calls.end([Err(ToolError::Unknown("cut".into()))]);
    let tools = world.calls.tools();
    let tool = tools.get("unsafe").unwrap().as_ref();
    run.step(step("e-1", at(0, 0), "unsafe", json!(1)), tool).await.unwrap();
    assert!(matches!(run.complete(&json!(1)).await, Err(Error::NotApplicable(_))));
    let failed = run.fail("no").await.unwrap();
    for request in requests(&world, &run, 2).await {
        assert_eq!(request.fail("no").await.unwrap(), failed);
        assert!(matches!(request.fail("another").await, Err(Error::Ended)));
    }
    let run = world.create("e-2").await;
    let completed = run.complete(&json!({ "b": 1, "a": 2 })).await.unwrap();
    for request in requests(&world, &run, 2).await {
        assert_eq!(request.complete(&json!({ "a": 2, "b": 1 })).await.unwrap(), completed);
        assert!(matches!(request.complete(&json!(2)).await, Err(Error::Ended)));
    }
    // A cancelled execution has the reason that programs compare, and what was said beside it.
    world.create("e-3").await;
    world.executions().cancel(&id("e-3"), "enough").await.unwrap();
    let events = world.executions().read(&id("e-3"), 1, 1).await.unwrap();
    let why: Value = serde_json::from_str(events[0].payload.as_ref().unwrap().get()).unwrap();
    assert_eq!(why, json!({ "reason": "cancelled", "detail": "enough" }));
}

async fn an_attempt_that_was_used_for_something_else_is_refused_j2(world: World) {
    let executions = world.executions();
    let attempt = AttemptId::random();
    let new = || Creation { attempt: Some(attempt), ..creation("e-1") };
    let run = executions.create(new()).await.unwrap();
    assert_eq!(executions.create(new()).await.unwrap().runner(), run.runner());
    for other in [
        Creation { input: json!(1), ..new() },
        Creation { agent: AgentId::new("another").unwrap(), ..new() },
        Creation { chain: hapax_core::journal::Chain::V1, ..new() },
    ] {
        let refused = executions.create(other).await;
        assert!(matches!(refused, Err(Error::NotApplicable(_))), "{refused:?}");
    }
    let append = AppendId::random();
    let version = run.append_as(append, "N", &json!(1), None).await.unwrap();
    for request in requests(&world, &run, 2).await {
        assert_eq!(request.append_as(append, "N", &json!(1), None).await.unwrap(), version);
        for (kind, payload) in [("OTHER", json!(1)), ("N", json!(2))] {
            let refused = request.append_as(append, kind, &payload, None).await;
            assert!(matches!(refused, Err(Error::NotApplicable(_))), "{refused:?}");
        }
    }
    assert_eq!(kinds(&executions, "e-1").await, ["EXECUTION_CREATED", "N"]);
}

async fn settles_refused(world: &World) -> usize {
    let page = world.store.audit(None, 100).await.unwrap();
    page.items.iter().filter(|event| event.verb == CONTRADICTED).count()
}

fn decision(seen: &hapax_agent::durable::Waiting, choice: Choice) -> Decision {
    Decision {
        at: seen.at,
        digest: seen.intent.digest.clone(),
        epoch: seen.epoch,
        choice,
        by: "ann".into(),
        reason: "the bank says so".into(),
    }
}

async fn the_truth_that_comes_after_an_operators_word_is_in_the_audit_l8(world: World) {
    let executions = world.executions();
    for (number, choice) in
        [Choice::Confirm(json!("a guess")), Choice::Fail("a guess".into())].into_iter().enumerate()
    {
        let name = format!("e-{number}");
        let lease = world.store.open_lease(&Scope::local(), Duration::from_secs(600)).await.unwrap();
        let run = world.create(&name).await;
        let work = step(&name, at(0, 0), "unsafe", json!(1));
        let Lending::Lent(lent, _) = run.begin_step(work, lease.id, AttemptId::random()).await.unwrap()
        else {
            panic!("it is free");
        };
        // The holder has gone silent, and is still at it.
        world.store.end_lease(&Scope::local(), lease.id).await.unwrap();
        let seen = executions.waiting(&id(&name)).await.unwrap().remove(0);
        executions.decide(&id(&name), decision(&seen, choice)).await.unwrap();
        let finish = async |ended| executions.finish_step(&id(&name), at(0, 0), lent.epoch, ended).await;
        // That it has not run is no outcome.
        assert!(matches!(finish(Err(ToolError::NotRun("no".into()))).await, Err(Error::Fenced)));
        assert_eq!(settles_refused(&world).await, 2 * number);
        assert!(matches!(finish(Ok(json!("the truth"))).await, Err(Error::Fenced)));
        assert_eq!(settles_refused(&world).await, 2 * number + 1, "{name}");
        // The execution has gone on since.
        let run = requests(&world, &run, 1).await.remove(0);
        run.complete_iteration(0, &json!({})).await.unwrap();
        let late = finish(Err(ToolError::Refused("no such card".into()))).await;
        assert!(matches!(late, Err(Error::WrongIteration { present: 1, .. })), "{late:?}");
        assert_eq!(settles_refused(&world).await, 2 * number + 2, "{name}");
        let stream = executions.stream(&id(&name)).unwrap();
        assert!(verify(&world.store, &stream).await.unwrap().is_sound());
    }
}

async fn an_effect_key_of_other_work_waits_for_a_person_j6(world: World) {
    let executions = world.executions();
    let agent = |args: Value| {
        let call = PlannedCall { effect_key: Some("invoice:7".into()), ..PlannedCall::new("unsafe", args) };
        let script = Script { calls: vec![call], ..Script::default() };
        hapax_agent::durable::DurableLoop::new(script, world.calls.tools())
    };
    agent(json!(1)).run(&world.create("e-1").await).await.unwrap();
    let other = agent(json!(2));
    let stop = other.run(&world.create("e-2").await).await.unwrap();
    assert!(matches!(&stop, Stop::Paused(why) if why.contains("effect key")), "{stop:?}");
    let seen = executions.waiting(&id("e-2")).await.unwrap().remove(0);
    assert_eq!(seen.why, Waits::KeyTaken);
    let rerun = executions.decide(&id("e-2"), decision(&seen, Choice::Rerun { force: true })).await;
    assert!(matches!(rerun, Err(Error::NotApplicable(_))), "{rerun:?}");
    executions.decide(&id("e-2"), decision(&seen, Choice::Fail("it was billed".into()))).await.unwrap();
    assert_eq!(executions.waiting(&id("e-2")).await.unwrap(), []);
    let run = executions.resume(&id("e-2"), Resume::default()).await.unwrap();
    let stop = other.run(&run).await.unwrap();
    assert_eq!(stop, Stop::Completed(json!({ "seen": [{ "error": "it was billed" }] })));
    assert_eq!(world.calls.count(), 1);
}

async fn a_decision_about_a_result_that_was_not_kept_is_in_the_audit_and_counts_once_l8(world: World) {
    world.calls.end([Ok(json!("x".repeat(hapax_agent::limits::MAX_RESULT_BYTES)))]);
    let agent = world.agent(&[("unsafe", json!(1))]);
    agent.run(&world.create("e-1").await).await.unwrap();
    let executions = world.executions();
    let seen = executions.waiting(&id("e-1")).await.unwrap().remove(0);
    let decide = async |answer: &str| {
        executions.decide(&id("e-1"), decision(&seen, Choice::Confirm(json!(answer)))).await
    };
    let both = tokio::join!(decide("one"), decide("two"));
    let done = [&both.0, &both.1].into_iter().filter(|told| told.is_ok()).count();
    assert_eq!(done, 1, "{both:?}");
    let page = world.store.audit(None, 100).await.unwrap();
    let told: Vec<_> = page.items.iter().filter(|event| event.verb == "execution-confirm").collect();
    assert!(!told.is_empty(), "{:?}", page.items);
    assert!(told.iter().all(|event| event.actor == "ann" && event.reason == "the bank says so"), "{told:?}");
}
