//! Steps: one claim each, with intent and result in the journal, however the tool ends (J4–J6, L18).

use hapax_agent::durable::{
    Choice, Decision, DurableLoop, Error, PlannedCall, Resume, StepEnd, StepResult, Stop, ToolError, Waiting,
    Waits, tool_key,
};
use hapax_core::{Inspect as _, State};
use serde_json::json;

use crate::world::{Script, World, at, id, kinds, on_each_store, step};

on_each_store! {
    a_tool_is_called_once_with_its_key_and_its_result_is_in_the_journal_j5_l18,
    a_tool_that_has_not_run_is_called_again_and_a_loop_that_gets_nowhere_pauses,
    a_call_of_unknown_end_waits_for_a_person_who_decides_once_j6,
    an_idempotent_tool_is_called_again_with_the_same_key_j6,
    a_person_allows_another_run_or_says_that_it_failed_j6,
    an_effect_key_is_one_effect_of_two_executions_j5,
    a_result_that_is_too_large_waits_for_a_person,
    calls_at_the_same_time_all_come_to_their_end,
    other_work_at_the_same_place_is_refused_and_pauses_j4,
}

fn answer(number: u64) -> StepResult {
    StepResult::Answered { value: json!({ "call": number }) }
}

async fn a_tool_is_called_once_with_its_key_and_its_result_is_in_the_journal_j5_l18(world: World) {
    let run = world.create("e-1").await;
    let tools = world.calls.tools();
    let step = step("e-1", at(0, 0), "unsafe", json!({ "b": 1, "a": [true] }));
    for _ in 0..3 {
        let end = run.step(step.clone(), tools.get("unsafe").unwrap().as_ref()).await.unwrap();
        assert_eq!(end, StepEnd::Done(answer(1)));
    }
    assert_eq!(world.calls.count(), 1);
    let context = &world.calls.contexts()[0];
    assert_eq!(context.idempotency_key, tool_key(&id("e-1"), at(0, 0)));
    let executions = world.executions();
    assert_eq!(
        kinds(&executions, "e-1").await,
        ["EXECUTION_CREATED", "TOOL_CALL_INTENT", "TOOL_CALL_RESULT"]
    );
    let events = executions.read(&id("e-1"), 1, 2).await.unwrap();
    let payload: serde_json::Value = serde_json::from_str(events[1].payload.as_ref().unwrap().get()).unwrap();
    assert_eq!(
        (&payload["result"]["value"], &payload["digest"]),
        (&json!({ "call": 1 }), &json!(step.digest()))
    );
    let claim = step.identity(executions.scope()).unwrap().claim_id();
    let record = world.store.record(claim).await.unwrap().unwrap();
    assert_eq!(record.identity.operation().as_str(), "step.unsafe");
    assert_eq!(Some(record.claim.epoch), context.epoch);
    let State::Settled { keep_until, .. } = record.claim.state else { panic!("{:?}", record.claim.state) };
    assert_eq!(keep_until, hapax_core::Timestamp::NEVER);
}

async fn a_tool_that_has_not_run_is_called_again_and_a_loop_that_gets_nowhere_pauses(world: World) {
    let not_run = || Err(ToolError::NotRun("the line is busy".into()));
    world.calls.end([not_run(), Err(ToolError::Refused("no such card".into()))]);
    let run = world.create("e-1").await;
    let stop = world.agent(&[("unsafe", json!(1))]).run(&run).await.unwrap();
    assert_eq!(stop, Stop::Completed(json!({ "seen": [{ "error": "no such card" }] })));
    assert_eq!(world.calls.count(), 2);
    let epochs: Vec<_> = world.calls.contexts().iter().map(|context| context.epoch).collect();
    assert!(epochs[0] < epochs[1], "{epochs:?}");
    let told = kinds(&world.executions(), "e-1").await;
    assert_eq!(told.iter().filter(|kind| *kind == "TOOL_CALL_RELEASED").count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|kind| *kind == "TOOL_CALL_RESULT").count(), 1, "{told:?}");

    world.calls.end((0..10).map(|_| not_run()));
    let run = world.create("e-2").await;
    let stop = world.agent(&[("unsafe", json!(1))]).run(&run).await.unwrap();
    assert!(matches!(&stop, Stop::Paused(why) if why.contains("the line is busy")), "{stop:?}");
    assert_eq!(world.calls.count(), 5, "three times in one life");
    assert_eq!(world.executions().status(&id("e-2")).await.unwrap().status, "PAUSED");
}

async fn waiting(world: &World, execution: &str) -> Waiting {
    let mut waiting = world.executions().waiting(&id(execution)).await.unwrap();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    waiting.remove(0)
}

fn decision(waiting: &Waiting, choice: Choice) -> Decision {
    Decision {
        at: waiting.at,
        digest: waiting.intent.digest.clone(),
        epoch: waiting.epoch,
        choice,
        by: "ann".into(),
        reason: "asked the bank".into(),
    }
}

async fn a_call_of_unknown_end_waits_for_a_person_who_decides_once_j6(world: World) {
    for (number, tool) in ["unsafe", "undeclared"].into_iter().enumerate() {
        let name = format!("e-{number}");
        world.calls.end([Err(ToolError::Unknown("the line was cut".into()))]);
        let run = world.create(&name).await;
        let agent = world.agent(&[(tool, json!({ "cents": 5 }))]);
        assert!(matches!(agent.run(&run).await.unwrap(), Stop::Paused(_)));
        let calls = world.calls.count();
        let told = kinds(&world.executions(), &name).await;
        assert_eq!(told[3..], ["TOOL_CALL_IN_DOUBT", "EXECUTION_PAUSED"], "{told:?}");
        // To resume it changes nothing: nobody knows more.
        let run = world.executions().resume(&id(&name), Resume::default()).await.unwrap();
        assert!(matches!(agent.run(&run).await.unwrap(), Stop::Paused(_)));
        assert_eq!(world.calls.count(), calls);

        let seen = waiting(&world, &name).await;
        assert_eq!((seen.at, &seen.intent.args), (at(0, 0), &json!({ "cents": 5 })));
        let executions = world.executions();
        let confirm = || Choice::Confirm(json!({ "paid": true }));
        let good = decision(&seen, confirm());
        let refused = [
            Decision { at: at(0, 1), ..good.clone() },
            Decision { at: at(1, 0), ..good.clone() },
            Decision { digest: "0".repeat(64), ..good.clone() },
            Decision { epoch: hapax_core::Epoch::from_packed(seen.epoch.packed() + 1), ..good.clone() },
        ];
        for refused in refused {
            let told = executions.decide(&id(&name), refused.clone()).await;
            assert!(matches!(told, Err(Error::NotApplicable(_))), "{refused:?}: {told:?}");
        }
        for unsaid in
            [Decision { by: String::new(), ..good.clone() }, Decision { reason: "\n".into(), ..good.clone() }]
        {
            assert!(matches!(executions.decide(&id(&name), unsaid).await, Err(Error::Invalid(_))));
        }
        let other = world.create(&format!("other-{number}")).await;
        let told = executions.decide(other.id(), good.clone()).await;
        assert!(matches!(told, Err(Error::NotApplicable(_))), "another execution: {told:?}");
        executions.decide(&id(&name), good.clone()).await.unwrap();
        let again = executions.decide(&id(&name), good).await;
        assert!(matches!(again, Err(Error::NotApplicable(_))), "{again:?}");
        let told = kinds(&executions, &name).await;
        assert_eq!(told[told.len() - 2..], ["TOOL_CALL_DECIDED", "TOOL_CALL_RESULT"]);
        let audit = world.store.audit(None, 1).await.unwrap().items.remove(0);
        assert_eq!((&audit.verb[..], &audit.actor[..]), ("resolve-settle", "ann"));

        let run = executions.resume(&id(&name), Resume::default()).await.unwrap();
        let stop = agent.run(&run).await.unwrap();
        assert_eq!(stop, Stop::Completed(json!({ "seen": [{ "value": { "paid": true } }] })));
        assert_eq!(world.calls.count(), calls, "the tool was not called again");
        assert_eq!(executions.waiting(&id(&name)).await.unwrap(), []);
    }
}

async fn an_idempotent_tool_is_called_again_with_the_same_key_j6(world: World) {
    world.calls.end([Err(ToolError::Unknown("the line was cut".into()))]);
    let run = world.create("e-1").await;
    let stop = world.agent(&[("safe", json!(1))]).run(&run).await.unwrap();
    assert_eq!(stop, Stop::Completed(json!({ "seen": [{ "value": { "call": 2 } }] })));
    let contexts = world.calls.contexts();
    assert_eq!(contexts[0].idempotency_key, contexts[1].idempotency_key);
    assert!(contexts[0].epoch < contexts[1].epoch);
}

async fn a_person_allows_another_run_or_says_that_it_failed_j6(world: World) {
    let executions = world.executions();
    for (name, choice) in
        [("rerun", Choice::Rerun { force: true }), ("fail", Choice::Fail("the bank says no".into()))]
    {
        world.calls.end([Err(ToolError::Unknown("the line was cut".into()))]);
        let run = world.create(name).await;
        let agent = world.agent(&[("unsafe", json!(1))]);
        agent.run(&run).await.unwrap();
        let calls = world.calls.count();
        executions.decide(&id(name), decision(&waiting(&world, name).await, choice)).await.unwrap();
        let run = executions.resume(&id(name), Resume::default()).await.unwrap();
        let stop = agent.run(&run).await.unwrap();
        let (seen, more) = match name {
            "rerun" => (json!({ "value": { "call": calls + 1 } }), 1),
            _ => (json!({ "error": "the bank says no" }), 0),
        };
        assert_eq!(stop, Stop::Completed(json!({ "seen": [seen] })));
        assert_eq!(world.calls.count(), calls + more, "{name}");
    }
}

async fn an_effect_key_is_one_effect_of_two_executions_j5(world: World) {
    let call =
        |args| PlannedCall { effect_key: Some("invoice:7".into()), ..PlannedCall::new("unsafe", args) };
    let agent = |args| {
        let script = Script { calls: vec![call(args)], ..Script::default() };
        DurableLoop::new(script, world.calls.tools())
    };
    for name in ["e-1", "e-2"] {
        let stop = agent(json!(1)).run(&world.create(name).await).await.unwrap();
        assert_eq!(stop, Stop::Completed(json!({ "seen": [{ "value": { "call": 1 } }] })), "{name}");
    }
    assert_eq!(world.calls.count(), 1);
    let other = agent(json!(2)).run(&world.create("e-3").await).await.unwrap();
    assert!(matches!(&other, Stop::Paused(why) if why.contains("effect key")), "{other:?}");
    assert_eq!(world.calls.count(), 1);
}

async fn a_result_that_is_too_large_waits_for_a_person(world: World) {
    world.calls.end([Ok(json!("x".repeat(hapax_agent::limits::MAX_RESULT_BYTES)))]);
    let run = world.create("e-1").await;
    let agent = world.agent(&[("unsafe", json!(1))]);
    assert!(matches!(agent.run(&run).await.unwrap(), Stop::Paused(_)));
    let seen = waiting(&world, "e-1").await;
    assert_eq!(seen.why, Waits::NotKept);
    let executions = world.executions();
    executions.decide(&id("e-1"), decision(&seen, Choice::Confirm(json!("short")))).await.unwrap();
    let again = executions.decide(&id("e-1"), decision(&seen, Choice::Confirm(json!("shorter")))).await;
    assert!(matches!(again, Err(Error::NotApplicable(_))), "{again:?}");
    let run = executions.resume(&id("e-1"), Resume::default()).await.unwrap();
    let stop = agent.run(&run).await.unwrap();
    assert_eq!(stop, Stop::Completed(json!({ "seen": [{ "value": "short" }] })));
    assert_eq!(world.calls.count(), 1);
}

async fn calls_at_the_same_time_all_come_to_their_end(world: World) {
    let calls: Vec<_> = (0..12).map(|number| PlannedCall::new("unsafe", json!(number))).collect();
    let script = Script { calls, parallel: true, ..Script::default() };
    let agent = DurableLoop::new(script, world.calls.tools());
    world.calls.end([Err(ToolError::Unknown("cut".into()))]);
    let run = world.create("e-1").await;
    assert!(matches!(agent.run(&run).await.unwrap(), Stop::Paused(_)));
    assert_eq!(world.calls.count(), 12, "the others were made");
    let seen = waiting(&world, "e-1").await;
    world.executions().decide(&id("e-1"), decision(&seen, Choice::Confirm(json!("by hand")))).await.unwrap();
    let run = world.executions().resume(&id("e-1"), Resume::default()).await.unwrap();
    let Stop::Completed(output) = agent.run(&run).await.unwrap() else { panic!("it is done") };
    assert_eq!(output["seen"].as_array().unwrap().len(), 12);
    assert_eq!(world.calls.count(), 12);
}

async fn other_work_at_the_same_place_is_refused_and_pauses_j4(world: World) {
    let run = world.create("e-1").await;
    let tools = world.calls.tools();
    let tool = tools.get("unsafe").unwrap().as_ref();
    run.step(step("e-1", at(0, 0), "unsafe", json!({ "cents": 1 })), tool).await.unwrap();
    for other in [
        step("e-1", at(0, 0), "unsafe", json!({ "cents": 2 })),
        step("e-1", at(0, 0), "safe", json!({ "cents": 1 })),
    ] {
        let told = run.step(other, tool).await;
        assert!(matches!(told, Err(Error::PlanDiverged { at: place }) if place == at(0, 0)), "{told:?}");
    }
    // The same work in another order of its members is the same work.
    let end = run.step(step("e-1", at(0, 0), "unsafe", json!({ "cents": 1 })), tool).await.unwrap();
    assert_eq!(end, StepEnd::Done(answer(1)));
    assert_eq!(world.calls.count(), 1);
    let stop = world.agent(&[("unsafe", json!({ "cents": 3 }))]).run(&run).await.unwrap();
    assert!(matches!(&stop, Stop::Paused(why) if why.contains("diverged")), "{stop:?}");
    assert_eq!(world.executions().status(&id("e-1")).await.unwrap().status, "PAUSED");
}
