//! Executions as JSON lines: out, in, and what an import leaves to people (J5, J7).

use std::io::Cursor;

use hapax::Store;
use hapax_agent::durable::{Choice, Creation, Decision, Error, Executions, Resume, Stop, ToolError, verify};
use hapax_core::journal::Chain;
use hapax_core::{Project, Scope};
use hapax_exec::Executor;
use hapax_store::Options;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::world::{World, creation, id, kinds, on_each_store};

on_each_store! {
    an_execution_goes_on_in_another_store_and_its_open_steps_wait_for_a_person_j5_j7,
    an_export_that_was_changed_is_refused_at_its_place_and_nothing_is_written_j3_j7,
    an_export_of_the_source_is_kept_to_the_byte_j3,
}

async fn export(executions: &Executions<Store>, text: &str) -> Result<String, Error> {
    let mut export = executions.export(&id(text)).await?;
    let mut lines = Vec::new();
    while let Some(page) = export.next().await? {
        lines.extend(page);
    }
    Ok(String::from_utf8(lines).unwrap())
}

async fn elsewhere(project: &str) -> Executions<Store> {
    let store = Store::open("memory:", Options::default()).await.unwrap();
    let local = Scope::local();
    let (tenant, subject) = (local.tenant().clone(), local.subject().unwrap().clone());
    let scope = Scope::new(tenant, Project::new(project).unwrap(), subject);
    Executions::new(Executor::new(store), scope)
}

async fn import(executions: &Executions<Store>, text: &str) -> Result<(), Error> {
    executions.import(&mut Cursor::new(text.as_bytes())).await.map(|_| ())
}

async fn an_execution_goes_on_in_another_store_and_its_open_steps_wait_for_a_person_j5_j7(world: World) {
    for chain in [Chain::V1, Chain::V2] {
        let name = format!("e-{}", chain.version());
        let executions = world.executions();
        let run = executions.create(Creation { chain, ..creation(&name) }).await.unwrap();
        let calls = world.calls.count();
        world.calls.end([Ok(json!("first")), Err(ToolError::Unknown("cut".into()))]);
        let agent = world.agent(&[("unsafe", json!(1)), ("undeclared", json!(2)), ("safe", json!(3))]);
        assert!(matches!(agent.run(&run).await.unwrap(), Stop::Paused(_)));
        let text = export(&executions, &name).await.unwrap();
        for project in ["local", "other"] {
            let there = elsewhere(project).await;
            import(&there, &text).await.unwrap();
            assert_eq!(there.status(&id(&name)).await.unwrap().status, "PAUSED");
            let length = there.status(&id(&name)).await.unwrap().length;
            import(&there, &text).await.unwrap();
            assert_eq!(there.status(&id(&name)).await.unwrap().length, length, "the same import again");
            let other = text.replacen("\"agentId\":\"planner\"", "\"agentId\":\"another\"", 1);
            assert!(matches!(import(&there, &other).await, Err(Error::AlreadyExists)));
            let before: Vec<Value> =
                text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
            let events = there.read(&id(&name), 0, 100).await.unwrap();
            for (event, before) in events.iter().zip(&before) {
                let event = serde_json::to_value(event).unwrap();
                for field in ["seq", "eventType", "timestamp", "payload", "schemaVersion"] {
                    assert_eq!(event[field], before[field], "{field}");
                }
                if chain == Chain::V1 || project == "local" {
                    assert_eq!(event["hash"], before["hash"]);
                }
            }
            // The step that was open is in doubt; it does not run by itself.
            let run = there.resume(&id(&name), Resume::default()).await.unwrap();
            assert!(matches!(agent.run(&run).await.unwrap(), Stop::Paused(_)));
            let seen = there.waiting(&id(&name)).await.unwrap().remove(0);
            let decision = Decision {
                at: seen.at,
                digest: seen.intent.digest,
                epoch: seen.epoch,
                choice: Choice::Confirm(json!("second")),
                by: "ann".into(),
                reason: "seen".into(),
            };
            there.decide(&id(&name), decision).await.unwrap();
            let run = there.resume(&id(&name), Resume::default()).await.unwrap();
            let Stop::Completed(output) = agent.run(&run).await.unwrap() else { panic!("it is done") };
            let seen = output["seen"].as_array().unwrap();
            assert_eq!(seen[..2], [json!({ "value": "first" }), json!({ "value": "second" })]);
            let store = there.executor().ledger();
            assert!(verify(store, &there.stream(&id(&name)).unwrap()).await.unwrap().is_sound());
        }
        assert_eq!(world.calls.count(), calls + 4, "two there, and the third one in each other store");
    }
}

async fn an_export_that_was_changed_is_refused_at_its_place_and_nothing_is_written_j3_j7(world: World) {
    for chain in [Chain::V1, Chain::V2] {
        let name = format!("e-{}", chain.version());
        let executions = world.executions();
        let run = executions.create(Creation { chain, ..creation(&name) }).await.unwrap();
        for number in 0..3 {
            run.append("NOTE", &json!({ "n": number }), None).await.unwrap();
        }
        run.complete_iteration(0, &json!({ "state": 1 })).await.unwrap();
        let text = export(&executions, &name).await.unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let there = elsewhere("local").await;
        let refused = async |lines: Vec<String>| import(&there, &lines.join("\n")).await.unwrap_err();
        let place = |error: &Error| match error {
            Error::ExecutionCorrupted { position, .. } => Some(*position),
            _ => None,
        };
        let owned = || lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        for at in 1..lines.len() {
            let mut without = owned();
            without.remove(at);
            let error = refused(without).await;
            // A cut tail is missed at the first event that is not there.
            assert_eq!(place(&error), Some(at as u64 - 1), "{chain:?} {error:?}");
            let mut changed = owned();
            changed[at] = changed[at].replace("\"n\":1", "\"n\":7").replace("planner", "planned");
            changed[at] = changed[at].replace("\"iteration\":0", "\"iteration\":1");
            if changed[at] != lines[at] {
                let error = refused(changed).await;
                assert_eq!(place(&error), Some(at as u64 - 1), "{chain:?} {error:?}");
            }
        }
        let mut swapped = owned();
        swapped.swap(2, 3);
        assert_eq!(place(&refused(swapped).await), Some(1));
        if chain == Chain::V2 {
            let mut other = owned();
            other[0] = other[0].replace("\"state\":1", "\"state\":2");
            assert_eq!(place(&refused(other).await), Some(4), "the checkpoint");
        }
        // A checkpoint that the export does not name is that of the last event which has one; no other one is taken.
        let seq = "\"checkpointSeq\":4";
        assert!(lines[0].contains(seq));
        for (there, instead) in [
            (seq, "\"checkpointSeq\":3"),
            (seq, "\"checkpointSeq\":5"),
            ("\"checkpoint\":{\"state\":1}", "\"checkpoint\":null"),
        ] {
            let mut other = owned();
            other[0] = other[0].replace(there, instead);
            assert_ne!(other[0], lines[0]);
            let error = refused(other).await;
            assert!(place(&error).is_some(), "{instead}: {error:?}");
        }
        let mut newer = owned();
        newer[0] = newer[0].replace("\"schemaVersion\":", "\"schemaVersion\":7");
        assert!(matches!(refused(newer).await, Error::UnsupportedSchemaVersion { .. }));
        for bad in ["", "{}", "not json", "[]"] {
            assert!(matches!(import(&there, bad).await, Err(Error::Invalid(_))), "{bad}");
        }
        let long = format!("{}\n{{\"a\":\"{}\"}}", lines[0], "x".repeat(9 * 1024 * 1024));
        assert!(matches!(import(&there, &long).await, Err(Error::Invalid(_))));
        assert!(matches!(there.status(&id(&name)).await, Err(Error::NotFound)), "nothing is written");
    }
}

/// Payloads as another program wrote them: canonical they are not, and hashed as they stand.
async fn an_export_of_the_source_is_kept_to_the_byte_j3(world: World) {
    for (name, named) in [("kairo-1", ",\"checkpointSeq\":2"), ("kairo-2", "")] {
        of_the_source(&world, name, named).await;
    }
}

async fn of_the_source(world: &World, name: &str, named: &str) {
    let payloads = [r#"{"b": 1.50, "a":"é"}"#, r#"[1, 2,  3]"#, r#"{"iterationIndex":0}"#];
    let kinds_of = ["MODEL_CALL", "TOOL_CALL", "ITERATION_COMPLETE"];
    let mut hash = "GENESIS".to_owned();
    let mut lines = vec![format!(
        r#"{{"executionId":"{name}","agentId":"react","status":"RUNNING","version":3,"schemaVersion":1,"checkpoint":{{"messages":[]}}{named},"unknown":true}}"#
    )];
    for (seq, payload) in payloads.iter().enumerate() {
        hash = Sha256::digest(format!("{hash}{payload}")).iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push(format!(
            r#"{{"seq":{seq},"eventType":"{}","timestamp":"2026-03-01T12:00:0{seq}Z","payload":{payload},"hash":"{hash}","schemaVersion":1}}"#,
            kinds_of[seq]
        ));
    }
    let executions = world.executions();
    import(&executions, &lines.join("\n")).await.unwrap();
    let events = executions.read(&id(name), 0, 10).await.unwrap();
    for (event, payload) in events.iter().zip(payloads) {
        assert_eq!(event.payload.as_ref().unwrap().get(), payload, "to the byte");
    }
    assert_eq!(events[2].hash, hash);
    assert_eq!(events[1].timestamp.as_deref(), Some("2026-03-01T12:00:01.000000Z"));
    assert_eq!(kinds(&executions, name).await[3..], ["EXECUTION_IMPORTED"]);
    let run = executions.resume(&id(name), Resume::default()).await.unwrap();
    assert_eq!((run.iteration(), run.state().unwrap()), (1, json!({ "messages": [] })));
    assert!(verify(&world.store, &executions.stream(&id(name)).unwrap()).await.unwrap().is_sound());
    let again = export(&executions, name).await.unwrap();
    assert!(again.contains(payloads[0]) && again.contains(payloads[1]));
}
