//! Runners: who may write, who goes on, and what a resumed execution does and does not do again (J2, J4).

use std::sync::atomic::Ordering;

use hapax_agent::durable::{
    Creation, Declaration, DurableLoop, Error, Executions, Lending, Plan, PlannedCall, Resume, Step, StepEnd,
    Stop, Tools, lapsed, verify,
};
use hapax_core::journal::Status;
use hapax_core::{AttemptId, Inspect as _, Leases as _, Project, Scope, State, Tenant};
use hapax_exec::{Call, Ended, Executor};
use serde_json::json;
use std::time::Duration;

use crate::world::{Script, World, at, creation, id, kinds, on_each_store, step};

on_each_store! {
    an_execution_is_made_read_and_listed_in_its_project_alone_j1,
    a_runner_that_was_replaced_writes_nothing_but_results_j2,
    an_execution_is_resumed_when_its_lease_has_lapsed_or_by_force_j2,
    the_recorded_plan_is_replayed_whatever_the_planner_says_now_j4,
    an_open_intent_asks_the_ledger_j5,
    what_cannot_be_accepted_writes_nothing,
    a_loop_is_paused_and_cancelled,
    what_was_erased_and_is_needed_ends_the_execution_b9,
    a_step_is_lent_and_finished_elsewhere_m1,
    an_execution_is_archived_when_nothing_is_open_j5,
}

async fn an_execution_is_made_read_and_listed_in_its_project_alone_j1(world: World) {
    let executions = world.executions();
    for name in ["a", "b", "c"] {
        world.create(name).await;
    }
    assert!(matches!(executions.create(creation("a")).await, Err(Error::AlreadyExists)));
    let run = executions.resume(&id("b"), Resume { force: true, ..Resume::default() }).await.unwrap();
    run.append("NOTE", &json!({ "text": "hello" }), None).await.unwrap();
    run.complete_iteration(0, &json!({ "n": 1 })).await.unwrap();
    let got = executions.get(&id("b"), 0, 100).await.unwrap();
    let shown = serde_json::to_value(&got).unwrap();
    assert_eq!(
        (&shown["executionId"], &shown["agentId"], &shown["status"], &shown["checkpoint"]),
        (&json!("b"), &json!("planner"), &json!("RUNNING"), &json!({ "n": 1 }))
    );
    let event = &shown["events"][3];
    assert_eq!(
        (&event["seq"], &event["eventType"], &event["schemaVersion"]),
        (&json!(3), &json!("NOTE"), &json!(2))
    );
    assert_eq!(event["payload"], json!({ "text": "hello" }));
    assert!(
        event["timestamp"].as_str().unwrap().ends_with('Z') && event["hash"].as_str().unwrap().len() == 64
    );
    let (page, next) = executions.list(None, None, 2).await.unwrap();
    let (rest, end) = executions.list(None, next.as_deref(), 2).await.unwrap();
    let names: Vec<&str> = page.iter().chain(&rest).map(|listing| listing.id.as_str()).collect();
    assert_eq!((names, end), (vec!["a", "b", "c"], None));
    assert_eq!(executions.list(Some(Status::Paused), None, 10).await.unwrap().0.len(), 0);

    let (tenant, subject) = (Tenant::new("local").unwrap(), Scope::local().subject().unwrap().clone());
    let other = executions.of(Scope::new(tenant, Project::new("other").unwrap(), subject));
    for told in [other.status(&id("a")).await.err(), other.resume(&id("a"), Resume::default()).await.err()] {
        assert!(matches!(told, Some(Error::NotFound)), "{told:?}");
    }
    assert!(matches!(other.status(&id("never-was")).await, Err(Error::NotFound)));
    assert_eq!(other.list(None, None, 10).await.unwrap().0.len(), 0);
    other.create(creation("a")).await.unwrap();
}

async fn a_runner_that_was_replaced_writes_nothing_but_results_j2(world: World) {
    let (old, executions) = (world.create("e-1").await, world.executions());
    let tools = world.calls.tools();
    let tool = tools.get("unsafe").unwrap().as_ref();
    let first = step("e-1", at(0, 0), "unsafe", json!(1));
    let new = executions.resume(&id("e-1"), Resume { force: true, ..Resume::default() }).await.unwrap();
    let before = executions.status(&id("e-1")).await.unwrap();
    let refused = [
        old.record_plan(Plan::Act { calls: vec![], parallel: false }).await.err(),
        old.complete_iteration(0, &json!({})).await.err(),
        old.append("NOTE", &json!(1), None).await.err(),
        old.pause("no").await.err(),
        old.complete(&json!(1)).await.err(),
        old.step(first.clone(), tool).await.err(),
    ];
    assert!(refused.iter().all(|error| matches!(error, Some(Error::Fenced))), "{refused:?}");
    assert_eq!(executions.status(&id("e-1")).await.unwrap(), before, "nothing is written");
    assert_eq!(world.calls.count(), 0);

    // It is replaced while its tool runs: the result counts, and nothing else does.
    let (take, store) = (executions.clone(), world.store.clone());
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let slot = seen.clone();
    let slow = Tools::new().function("unsafe", Declaration::NonIdempotent, move |_, _| {
        let (take, slot, store) = (take.clone(), slot.clone(), store.clone());
        async move {
            let _ = &store;
            let newer = take.resume(&id("e-1"), Resume { force: true, ..Resume::default() }).await.unwrap();
            *slot.lock().unwrap() = Some(newer);
            Ok(json!("late"))
        }
    });
    let end = new.step(first.clone(), slow.get("unsafe").unwrap().as_ref()).await.unwrap();
    assert!(matches!(end, StepEnd::Done(_)));
    assert!(matches!(new.complete_iteration(0, &json!({})).await, Err(Error::Fenced)));
    let newest = seen.lock().unwrap().take().unwrap();
    let end = newest.step(first, tool).await.unwrap();
    assert_eq!(end, StepEnd::Done(hapax_agent::durable::StepResult::Answered { value: json!("late") }));
    assert_eq!(world.calls.count(), 0, "the newest runner found the result in the ledger");
    let told = kinds(&executions, "e-1").await;
    assert_eq!(told.iter().filter(|kind| *kind == "TOOL_CALL_RESULT").count(), 1, "{told:?}");
    assert!(verify(&world.store, &executions.stream(&id("e-1")).unwrap()).await.unwrap().is_sound());
}

async fn an_execution_is_resumed_when_its_lease_has_lapsed_or_by_force_j2(world: World) {
    let executions = world.executions();
    let lease = world.store.open_lease(&Scope::local(), Duration::from_secs(3600)).await.unwrap();
    let with_lease = |name| Creation { lease: Some(lease.id), ..creation(name) };
    let run = executions.create(with_lease("e-1")).await.unwrap();
    assert!(matches!(executions.resume(&id("e-1"), Resume::default()).await, Err(Error::Fenced)));
    assert_eq!(lapsed(&world.store, Status::Running, None, 10).await.unwrap().0.len(), 0);
    world.store.end_lease(&Scope::local(), lease.id).await.unwrap();
    let (found, _) = lapsed(&world.store, Status::Running, None, 10).await.unwrap();
    assert_eq!(found.iter().map(|listing| listing.id.as_str()).collect::<Vec<_>>(), ["e-1"]);
    // Two at once: one gets it.
    let name = id("e-1");
    let (one, two) = tokio::join!(
        executions.resume(&name, Resume::default()),
        executions.resume(&name, Resume::default())
    );
    assert_eq!([&one, &two].iter().filter(|taken| taken.is_ok()).count(), 1, "{one:?} {two:?}");
    assert!([&one, &two].iter().any(|taken| matches!(taken, Err(Error::Fenced))), "{one:?} {two:?}");
    assert!(matches!(run.pause("no").await, Err(Error::Fenced)));
    let won = one.or(two).unwrap();
    won.pause("lunch").await.unwrap();
    // Nobody runs what is paused: it is resumed whether that lease lasts or not.
    let next = executions.resume(&id("e-1"), Resume::default()).await.unwrap();
    assert!(matches!(won.stands().await, Err(Error::Fenced)));
    next.stands().await.unwrap();
    next.complete(&json!(null)).await.unwrap();
    assert!(matches!(
        executions.resume(&id("e-1"), Resume { force: true, ..Resume::default() }).await,
        Err(Error::Ended)
    ));
    assert!(matches!(next.append("NOTE", &json!(1), None).await, Err(Error::Ended)));
}

async fn the_recorded_plan_is_replayed_whatever_the_planner_says_now_j4(world: World) {
    let (run, executions) = (world.create("e-1").await, world.executions());
    let first = Plan::Act {
        calls: vec![PlannedCall::new("unsafe", json!(1)), PlannedCall::new("safe", json!(2))],
        parallel: false,
    };
    run.record_plan(first.clone()).await.unwrap();
    let tools = world.calls.tools();
    run.step(step("e-1", at(0, 0), "unsafe", json!(1)), tools.get("unsafe").unwrap().as_ref()).await.unwrap();
    drop(run);
    let other = Script::of(&[("undeclared", json!("something else"))]);
    let asked = other.asked.clone();
    let run = executions.resume(&id("e-1"), Resume { force: true, ..Resume::default() }).await.unwrap();
    assert_eq!(run.plan().unwrap(), Some(first));
    let stop = DurableLoop::new(other, tools).run(&run).await.unwrap();
    assert_eq!(
        stop,
        Stop::Completed(json!({ "seen": [{ "value": { "call": 1 } }, { "value": { "call": 2 } }] }))
    );
    assert_eq!(asked.load(Ordering::SeqCst), 1, "it is asked about the second iteration alone");
    assert_eq!(world.calls.count(), 2);
}

/// What runs executions can be given to any runtime.
#[test]
fn what_runs_an_execution_can_be_spawned() {
    fn spawned<T: Send>(_: impl FnOnce() -> T) {}
    fn of<T>() -> T {
        unreachable!("it is compiled, and never called")
    }
    type Of = Executions<hapax::Store>;
    spawned(|| async {
        of::<DurableLoop<Script>>().run(&of::<hapax_agent::durable::Run<hapax::Store>>()).await
    });
    spawned(|| async {
        of::<hapax_agent::durable::Run<hapax::Store>>()
            .step(of(), of::<std::sync::Arc<dyn hapax_agent::durable::Tool>>().as_ref())
            .await
    });
    spawned(|| async { of::<Of>().resume(&id("e"), Resume::default()).await });
    spawned(|| async { of::<Of>().create(creation("e")).await });
    spawned(|| async { of::<Of>().decide(&id("e"), of()).await });
    spawned(|| async { of::<Of>().waiting(&id("e")).await });
    spawned(|| async { of::<Of>().archive(&id("e"), "", "").await });
    spawned(|| async { of::<Of>().import(&mut std::io::Cursor::new(Vec::<u8>::new())).await });
    spawned(|| async { of::<hapax_agent::durable::Run<hapax::Store>>().begin_step(of(), of(), of()).await });
    spawned(|| async { verify(&of::<hapax::Store>(), &of()).await });
}

/// An execution whose intent is written, and whose process is gone; and how its claim stands.
async fn an_open_intent_asks_the_ledger_j5(world: World) {
    let executions = world.executions();
    let work = step("x", at(0, 0), "unsafe", json!(1));
    let tools = world.calls.tools();
    let tool = tools.get("unsafe").unwrap().as_ref();
    let open = async |name: &str| {
        let run = world.create(name).await;
        // The tool certainly did not run: the intent is there, and the claim is free.
        world.calls.end([Err(hapax_agent::durable::ToolError::NotRun("not yet".into()))]);
        let planned = step(name, at(0, 0), "unsafe", json!(1));
        assert!(matches!(run.step(planned.clone(), tool).await.unwrap(), StepEnd::Failed(_)));
        (planned, executions.resume(&id(name), Resume { force: true, ..Resume::default() }).await.unwrap())
    };
    // Released: it runs.
    let (planned, run) = open("released").await;
    let calls = world.calls.count();
    assert!(matches!(run.step(planned, tool).await.unwrap(), StepEnd::Done(_)));
    assert_eq!(world.calls.count(), calls + 1);
    // Settled, and the result is not in the journal: it comes there, once.
    let (planned, run) = open("settled").await;
    let bare = |planned: &Step| -> Call { planned.call(executions.scope()).unwrap() };
    let outcome = || async { Ended::succeeded(r#"{"value":"kept"}"#) };
    executions.executor().once(bare(&planned), |_| outcome()).await.unwrap();
    let calls = world.calls.count();
    for _ in 0..2 {
        let end = run.step(planned.clone(), tool).await.unwrap();
        assert_eq!(end, StepEnd::Done(hapax_agent::durable::StepResult::Answered { value: json!("kept") }));
    }
    assert_eq!(world.calls.count(), calls);
    assert_eq!(
        kinds(&executions, "settled").await.iter().filter(|kind| *kind == "TOOL_CALL_RESULT").count(),
        1
    );
    // Held: it waits for the holder.
    let (planned, run) = open("held").await;
    let (begun, go) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
    let holder = async {
        let work = |_| async {
            begun.notify_one();
            go.notified().await;
            Ended::succeeded(r#"{"value":"the holder's"}"#)
        };
        executions.executor().once(bare(&planned), work).await.unwrap();
    };
    let waiter = async {
        begun.notified().await;
        let calls = world.calls.count();
        let (end, ()) = tokio::join!(run.step(planned.clone(), tool), async { go.notify_one() });
        assert_eq!(
            end.unwrap(),
            StepEnd::Done(hapax_agent::durable::StepResult::Answered { value: json!("the holder's") })
        );
        assert_eq!(world.calls.count(), calls);
    };
    tokio::join!(holder, waiter);
    // Absent: an intent whose claim was never made.
    let run = world.create("x").await;
    let calls = world.calls.count();
    let absent = work.identity(executions.scope()).unwrap().claim_id();
    assert_eq!(world.store.record(absent).await.unwrap(), None);
    assert!(matches!(run.step(work, tool).await.unwrap(), StepEnd::Done(_)));
    assert_eq!(world.calls.count(), calls + 1);
}

async fn what_cannot_be_accepted_writes_nothing(world: World) {
    let (run, executions) = (world.create("e-1").await, world.executions());
    let before = executions.status(&id("e-1")).await.unwrap();
    let far = json!({ "n": 9_007_199_254_740_993_u64 });
    let large = json!("x".repeat(5 * 1024 * 1024));
    let call = |tool: &str, args| Plan::Act { calls: vec![PlannedCall::new(tool, args)], parallel: false };
    let many = Plan::Act { calls: vec![PlannedCall::new("t", json!(1)); 257], parallel: false };
    let invalid = [
        run.append("NOTE", &far, None).await.err(),
        run.append("NOTE", &large, None).await.err(),
        run.append("", &json!(1), None).await.err(),
        run.append(&"x".repeat(51), &json!(1), None).await.err(),
        run.append("TOOL_CALL_RESULT", &json!(1), None).await.err(),
        run.complete_iteration(0, &far).await.err(),
        run.complete_iteration(0, &large).await.err(),
        run.record_plan(call("a b", json!(1))).await.err(),
        run.record_plan(call(&"x".repeat(124), json!(1))).await.err(),
        run.record_plan(call("t", far)).await.err(),
        run.record_plan(many).await.err(),
        run.record_plan(Plan::Finish(json!(1))).await.err(),
    ];
    for (number, error) in invalid.iter().enumerate() {
        assert!(matches!(error, Some(Error::Invalid(_))), "{number}: {error:?}");
    }
    let wrong = run.complete_iteration(3, &json!({})).await;
    assert!(matches!(wrong, Err(Error::WrongIteration { asked: 3, present: 0 })), "{wrong:?}");
    let stale = run.append("NOTE", &json!(1), Some(9)).await;
    assert!(matches!(stale, Err(Error::VersionConflict { expected: 9, found: 1 })), "{stale:?}");
    let stale = run.append("NOTE", &json!(1), Some(0)).await;
    assert!(matches!(stale, Err(Error::VersionConflict { expected: 0, found: 1 })), "{stale:?}");
    assert!(matches!(executions.resume(&id("none"), Resume::default()).await, Err(Error::NotFound)));
    assert_eq!(executions.status(&id("e-1")).await.unwrap(), before, "nothing is written");
    assert_eq!(run.append("NOTE", &json!(1), Some(1)).await.unwrap(), 2);
}

async fn a_loop_is_paused_and_cancelled(world: World) {
    let executions = world.executions();
    for (name, cancel) in [("paused", false), ("cancelled", true)] {
        let run = world.create(name).await;
        let agent = world.agent(&[("unsafe", json!(1))]);
        match cancel {
            true => agent.control().cancel(),
            false => agent.control().pause(),
        }
        agent.control().pause();
        let stop = agent.run(&run).await.unwrap();
        let expected = if cancel {
            Stop::Failed("cancelled".into())
        } else {
            Stop::Paused("it was asked to pause".into())
        };
        assert_eq!(stop, expected);
    }
    assert_eq!(executions.status(&id("paused")).await.unwrap().status, "PAUSED");
    assert_eq!(executions.status(&id("cancelled")).await.unwrap().status, "FAILED");
    // From elsewhere: its runner is fenced off, and what its tool has done is kept.
    let (run, elsewhere) = (world.create("e-1").await, executions.clone());
    let tools = Tools::new().function("unsafe", Declaration::NonIdempotent, move |_, _| {
        let elsewhere = elsewhere.clone();
        async move {
            elsewhere.cancel(&id("e-1"), "too dear").await.unwrap();
            Ok(json!("done"))
        }
    });
    let told = DurableLoop::new(Script::of(&[("unsafe", json!(1))]), tools).run(&run).await;
    assert!(matches!(told, Err(Error::Ended)), "{told:?}");
    let claim = step("e-1", at(0, 0), "unsafe", json!(1)).identity(executions.scope()).unwrap().claim_id();
    let state = world.store.record(claim).await.unwrap().unwrap().claim.state;
    assert!(matches!(state, State::Settled { .. }), "a true outcome is kept: {state:?}");
    assert_eq!(executions.status(&id("e-1")).await.unwrap().status, "FAILED");
    let events = executions.read(&id("e-1"), 0, 100).await.unwrap();
    assert!(
        events
            .last()
            .unwrap()
            .payload
            .as_ref()
            .unwrap()
            .get()
            .contains(r#""detail":"too dear","reason":"cancelled""#)
    );
}

async fn what_was_erased_and_is_needed_ends_the_execution_b9(world: World) {
    let executions = world.executions();
    let run = world.create("e-1").await;
    run.record_plan(Plan::Act { calls: vec![PlannedCall::new("safe", json!(1))], parallel: false })
        .await
        .unwrap();
    let whole = world.create("e-2").await;
    world.agent(&[("unsafe", json!("the secret"))]).run(&whole).await.unwrap();
    let open = world.create("e-3").await;
    world.calls.end([Err(hapax_agent::durable::ToolError::Unknown("cut".into()))]);
    world.agent(&[("unsafe", json!(1))]).run(&open).await.unwrap();
    let (tenant, subject) = (Tenant::new("local").unwrap(), Scope::local().subject().unwrap().clone());
    let by = ("ann", "she asked for it");
    let other = hapax_core::Subject::parse("user:bob").unwrap();
    assert_eq!(executions.erase_subject((&tenant, None), &other, None, by).await.unwrap().events, 0);
    let erased = executions.erase_subject((&tenant, None), &subject, None, by).await.unwrap();
    assert_eq!((erased.results, erased.left, erased.next), (1, 1, None));
    for name in ["e-1", "e-2"] {
        let events = executions.read(&id(name), 0, 100).await.unwrap();
        assert!(events.iter().all(|event| event.payload.is_none()), "{name}");
        assert!(verify(&world.store, &executions.stream(&id(name)).unwrap()).await.unwrap().is_sound());
    }
    let claim =
        step("e-2", at(0, 0), "unsafe", json!("the secret")).identity(executions.scope()).unwrap().claim_id();
    assert_eq!(world.store.record(claim).await.unwrap(), None, "nothing could find it afterwards");
    let resumed = executions.resume(&id("e-1"), Resume { force: true, ..Resume::default() }).await;
    assert!(matches!(resumed, Err(Error::Erased)), "{resumed:?}");
    assert_eq!(executions.status(&id("e-1")).await.unwrap().status, "FAILED");
    assert_eq!(executions.waiting(&id("e-3")).await.unwrap().len(), 1, "a person can still decide");
}

async fn a_step_is_lent_and_finished_elsewhere_m1(world: World) {
    let executions = world.executions();
    let lease = world.store.open_lease(&Scope::local(), Duration::from_secs(60)).await.unwrap();
    let run = executions.create(Creation { lease: Some(lease.id), ..creation("e-1") }).await.unwrap();
    let work = step("e-1", at(0, 0), "unsafe", json!(1));
    let attempt = AttemptId::random();
    let begin = async |run: &hapax_agent::durable::Run<_>, attempt| match run
        .begin_step(work.clone(), lease.id, attempt)
        .await
        .unwrap()
    {
        Lending::Lent(lent, context) => (lent, context),
        other => panic!("{other:?}"),
    };
    let (lent, context) = begin(&run, attempt).await;
    assert_eq!((context.epoch, context.idempotency_key), (Some(lent.epoch), work.key()));
    // Another instance, which knows nothing but the runner's id; and the same attempt again.
    let elsewhere = Executions::new(Executor::new(world.store.clone()), Scope::local());
    let runner = hapax_agent::durable::parse_runner(&run.runner()).unwrap();
    let there = elsewhere.run(&id("e-1"), runner).await.unwrap();
    assert_eq!(begin(&there, attempt).await.0.epoch, lent.epoch);
    let held = there.begin_step(work.clone(), lease.id, AttemptId::random()).await.unwrap();
    assert!(matches!(held, Lending::Held), "{held:?}");
    let before = elsewhere.status(&id("e-1")).await.unwrap();
    let others = hapax_core::Epoch::from_packed(lent.epoch.packed() - 1);
    let told = there.finish_step(&work, others, Ok(json!("not mine"))).await;
    assert!(told.is_err(), "{told:?}");
    assert_eq!(elsewhere.status(&id("e-1")).await.unwrap(), before, "nothing is written");
    for _ in 0..2 {
        let end = there.finish_step(&work, lent.epoch, Ok(json!("done"))).await.unwrap();
        assert_eq!(end, StepEnd::Done(hapax_agent::durable::StepResult::Answered { value: json!("done") }));
    }
    let again = run.begin_step(work.clone(), lease.id, AttemptId::random()).await.unwrap();
    assert!(matches!(again, Lending::Done(_)), "{again:?}");
    assert!(matches!(elsewhere.run(&id("e-1"), hapax_core::RunnerId::random()).await, Err(Error::Fenced)));
    // Not while it is paused: what is begun must still be wanted.
    run.pause("wait").await.unwrap();
    let paused =
        there.begin_step(step("e-1", at(0, 1), "unsafe", json!(2)), lease.id, AttemptId::random()).await;
    assert!(matches!(paused, Err(Error::NotApplicable(_))), "{paused:?}");
}

async fn an_execution_is_archived_when_nothing_is_open_j5(world: World) {
    let executions = world.executions();
    let run = world.create("e-1").await;
    world.calls.end([Ok(json!("done")), Err(hapax_agent::durable::ToolError::Unknown("cut".into()))]);
    let effect = PlannedCall { effect_key: Some("invoice:9".into()), ..PlannedCall::new("safe", json!(2)) };
    let script =
        Script { calls: vec![effect.clone(), PlannedCall::new("unsafe", json!(1))], ..Script::default() };
    DurableLoop::new(script, world.calls.tools()).run(&run).await.unwrap();
    let archive = async || executions.archive(&id("e-1"), "ann", "tidy").await;
    assert!(matches!(archive().await, Err(Error::NotApplicable(_))), "it has not ended");
    executions.cancel(&id("e-1"), "").await.unwrap();
    let told = archive().await;
    assert!(matches!(&told, Err(Error::NotApplicable(what)) if what.contains("in_doubt")), "{told:?}");
    // A doubt of what has ended is decided about all the same.
    let seen = executions.waiting(&id("e-1")).await.unwrap().remove(0);
    let decision = hapax_agent::durable::Decision {
        at: seen.at,
        digest: seen.intent.digest,
        epoch: seen.epoch,
        choice: hapax_agent::durable::Choice::Fail("never mind".into()),
        by: "ann".into(),
        reason: "cancelled".into(),
    };
    executions.decide(&id("e-1"), decision).await.unwrap();
    assert_eq!(archive().await.unwrap().purged, 1);
    let claim = |planned: &Step| planned.identity(executions.scope()).unwrap().claim_id();
    let plain = step("e-1", at(0, 1), "unsafe", json!(1));
    assert_eq!(world.store.record(claim(&plain)).await.unwrap(), None);
    let kept = Step::new(&id("e-1"), at(0, 0), &effect, Declaration::Idempotent).unwrap();
    assert!(world.store.record(claim(&kept)).await.unwrap().is_some(), "effects outlive the archive");
    assert!(
        matches!(executions.create(creation("e-1")).await, Err(Error::AlreadyExists)),
        "its id is used up"
    );
    assert!(verify(&world.store, &executions.stream(&id("e-1")).unwrap()).await.unwrap().is_sound());
}
