//! Durable executions as operators see them, decide about their steps and order about them: over HTTP, by the command line through a
//! real server, and beside it (J6, L8, B8, M2, M4).

use std::path::Path;

use hapax::Store;
use hapax_agent::durable::{
    Coordinates, Declaration, ExecutionId, Executions, PlannedCall, Resume, Run, Step, StepEnd, StepResult,
    ToolError, Tools,
};
use hapax_core::{Project, Scope, Subject, Tenant};
use hapax_exec::Executor;
use hapax_store::{Lifecycle as _, Options};
use serde_json::{Value, json};

use crate::claims_cli::Told;
use crate::durable::{called, created, executions};
use crate::office::{OPERATOR, Office, READER, carried_out, each};
use crate::rig::{Ground, Hapax, Kind};
use crate::webhooks_cli::{json_of, run};

const WHOSE: &str = "tenant=acme&project=web";

fn path(id: &str, more: &str) -> String {
    format!("/v1/executions/{id}{more}")
}

async fn shown(office: &Office, id: &str) -> Value {
    let shown = office.get(&path(id, &format!("?{WHOSE}"))).await;
    assert_eq!(shown.status, 200, "{}", shown.body);
    shown.json()
}

/// An execution that is paused because of a step that nobody knows the end of.
async fn in_doubt(executions: &Executions<Store>, id: &str) -> Run<Store> {
    let run = created(executions, id).await;
    let (end, _) = called(&run, Err(ToolError::Unknown("cut".into()))).await;
    assert!(matches!(end, StepEnd::Waits(_)), "{end:?}");
    run.pause("a person decides").await.unwrap();
    run
}

/// Calls the step again that [`called`] calls; the tool must not be reached.
async fn again(run: &Run<Store>) -> StepEnd {
    let tools = Tools::new().function("pay", Declaration::NonIdempotent, |_, _| async {
        panic!("it is called again");
    });
    let at = Coordinates { iteration: 0, call: 0 };
    let planned = PlannedCall::new("pay", json!({ "text": "secret" }));
    let step = Step::new(run.id(), at, &planned, Declaration::NonIdempotent).unwrap();
    run.step(step, tools.get("pay").unwrap().as_ref()).await.unwrap()
}

fn decision(step: &Value, more: Value) -> Value {
    let mut body = json!({
        "tenant": "acme", "project": "web", "reason": "the bank says so", "by": "alice",
        "iteration": step["iteration"], "call": step["call"], "digest": step["digest"], "epoch": step["epoch"],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn order(version: &Value) -> Value {
    json!({"tenant": "acme", "project": "web", "version": version, "reason": "a look first", "by": "alice"})
}

#[tokio::test]
async fn executions_are_listed_and_shown_with_their_events_in_pages_m4() {
    each(async |office| {
        let (alice, other) = (executions(office, "user:alice"), executions(office, "user:bob"));
        let run = created(&alice, "e-1").await;
        called(&run, Ok(json!({ "text": "secret" }))).await;
        run.complete_iteration(0, &json!({ "text": "secret" })).await.unwrap();
        in_doubt(&other, "e-2").await;
        let globex = Scope::new(
            Tenant::new("globex").unwrap(),
            Project::new("web").unwrap(),
            Subject::parse("user:eve").unwrap(),
        );
        created(&alice.of(globex), "e-1").await;
        let ids = async |query: &str| {
            let page = office.get(&format!("/v1/executions?{query}")).await.json();
            assert_eq!(page["next"], Value::Null);
            let names = page["executions"].as_array().unwrap().iter();
            names
                .map(|one| format!("{}/{}", one["tenant"], one["execution_id"]).replace('"', ""))
                .collect::<Vec<_>>()
        };
        assert_eq!(ids("").await, ["acme/e-1", "acme/e-2", "globex/e-1"]);
        assert_eq!(ids("tenant=acme").await, ["acme/e-1", "acme/e-2"]);
        assert_eq!(ids("status=PAUSED").await, ["acme/e-2"]);
        assert_eq!(ids("agent=nobody").await, [""; 0]);
        assert_eq!(ids("project=web&agent=clerk&idle_for=0s").await.len(), 3);
        assert_eq!(ids("idle_for=1h").await, [""; 0]);
        let first = office.get("/v1/executions?limit=1").await.json();
        let next = first["next"].as_str().unwrap();
        assert_eq!(ids(&format!("after={next}")).await, ["acme/e-2", "globex/e-1"]);
        for bad in ["status=running", "idle_for=long", "limit=0", "tenant=NOPE!", "colour=red"] {
            assert_eq!(office.get(&format!("/v1/executions?{bad}")).await.status, 400, "{bad}");
        }
        let one = shown(office, "e-1").await;
        for (name, value) in [
            ("status", json!("RUNNING")),
            ("agent", json!("clerk")),
            ("subject", json!("user:alice")),
            ("runs", json!(true)),
            ("events", json!(4)),
        ] {
            assert_eq!(one[name], value, "{name}");
        }
        // Of another tenant or project, and without saying whose.
        for absent in ["?tenant=acme&project=app", "?tenant=hooli&project=web"] {
            assert_eq!(office.get(&path("e-1", absent)).await.status, 404, "{absent}");
        }
        assert_eq!(office.get(&path("e%20", &format!("?{WHOSE}"))).await.status, 404);
        assert_eq!(office.get(&path("e-1", "?tenant=acme")).await.status, 400);
        // What is kept is told to those who may decide.
        for told in [format!("?{WHOSE}&checkpoint=true"), format!("/events?{WHOSE}&payloads=true")] {
            let told = path("e-1", &told);
            assert_eq!(office.get(&told).await.status, 403, "{told}");
            let told = office.send("GET", &told, OPERATOR, "").await;
            assert!(told.status == 200 && told.body.contains("secret"), "{}", told.body);
        }
        let (mut kinds, mut from) = (Vec::new(), json!(0));
        while !from.is_null() {
            let page = office.get(&path("e-1", &format!("/events?{WHOSE}&limit=3&from={from}"))).await;
            assert!(page.status == 200 && !page.body.contains("secret"), "{}", page.body);
            let page = page.json();
            let events = page["events"].as_array().unwrap();
            assert!((1..=3).contains(&events.len()), "{page}");
            for event in events {
                // A step leads to its claim.
                let id = event["operation_id"].as_str();
                assert_eq!(id.is_some(), event["type"] == "TOOL_CALL_INTENT", "{event}");
                if let Some(id) = id {
                    assert_eq!(office.get(&format!("/v1/claims/{id}")).await.status, 200);
                }
            }
            kinds.extend(events.iter().map(|event| event["type"].as_str().unwrap().to_owned()));
            from = page["next"].clone();
        }
        assert_eq!(
            kinds,
            ["EXECUTION_CREATED", "TOOL_CALL_INTENT", "TOOL_CALL_RESULT", "ITERATION_COMPLETE"]
        );
    })
    .await;
}

#[tokio::test]
async fn a_chain_is_checked_in_pages_to_its_end_j3() {
    each(async |office| {
        let run = created(&executions(office, "user:alice"), "e-1").await;
        called(&run, Ok(json!(1))).await;
        let (mut found, mut from, mut pages) = (0, json!(0), 0);
        while !from.is_null() {
            let page = office.get(&path("e-1", &format!("/verify?{WHOSE}&limit=2&from={from}"))).await.json();
            assert_eq!(page["broken"], Value::Null, "{page}");
            found += page["events"].as_u64().unwrap();
            (from, pages) = (page["next"].clone(), pages + 1);
        }
        assert_eq!((found, pages), (3, 2));
        // Where it grew no further, the end is checked again.
        let end = office.get(&path("e-1", &format!("/verify?{WHOSE}&from=3"))).await.json();
        assert_eq!((&end["events"], &end["broken"], &end["next"]), (&json!(0), &Value::Null, &Value::Null));
        assert_eq!(office.get(&path("none", &format!("/verify?{WHOSE}"))).await.status, 404);
    })
    .await;
}

#[tokio::test]
async fn a_decision_about_a_step_is_about_what_was_seen_and_counts_once_j6() {
    each(async |office| {
        let alice = executions(office, "user:alice");
        let run = in_doubt(&alice, "e-1").await;
        let waits = path("e-1", &format!("/waiting?{WHOSE}"));
        let told = office.get(&waits).await;
        assert!(told.status == 200 && !told.body.contains("secret"), "{}", told.body);
        let told = office.send("GET", &waits, OPERATOR, "").await.json();
        let step = &told["waiting"][0];
        assert_eq!(step["args"], json!({ "text": "secret" }));
        assert_eq!((&step["tool"], &step["declaration"]), (&json!("pay"), &json!("NON_IDEMPOTENT")));
        let decide = path("e-1", "/decide");
        let confirm = || json!({"decision": "confirm", "result": {"paid": true}});
        for (what, with) in [
            ("digest", json!({"digest": "00"})),
            ("epoch", json!({"epoch": "9.9"})),
            ("iteration", json!({"iteration": 1})),
            ("call", json!({"call": 1})),
        ] {
            let mut body = decision(step, confirm());
            body.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
            let refused = office.post(&decide, body).await;
            assert_eq!((refused.status, &refused.code()[..]), (409, "execution-not-applicable"), "{what}");
        }
        for (what, body) in [
            ("confirm without a result", json!({"decision": "confirm"})),
            ("fail without words", json!({"decision": "fail"})),
            ("force of a confirmation", json!({"decision": "confirm", "result": 1, "force": true})),
            ("a result of a rerun", json!({"decision": "rerun", "result": null})),
        ] {
            assert_eq!(office.post(&decide, decision(step, body)).await.status, 400, "{what}");
        }
        let reader = office.send("POST", &decide, READER, &decision(step, confirm()).to_string()).await;
        assert_eq!(reader.status, 403);
        let audit = office.get("/v1/audit").await.json();
        assert_eq!(carried_out(&audit), Vec::<Value>::new(), "nothing was decided so far");
        let done = office.post(&decide, decision(step, confirm())).await;
        assert_eq!((done.status, &done.json()["status"]), (200, &json!("PAUSED")), "{}", done.body);
        assert_eq!(office.post(&decide, decision(step, confirm())).await.status, 409, "it counts once");
        assert_eq!(office.get(&waits).await.json()["waiting"], json!([]));
        let audit = office.get("/v1/audit").await.json();
        let decided = carried_out(&audit);
        assert_eq!(decided.len(), 1, "{audit}");
        assert_eq!(decided[0]["actor"], "ops/alice");
        // The execution goes on with what was decided, and the tool is not called.
        let run = alice.resume(run.id(), Resume::default()).await.unwrap();
        let value = json!({ "paid": true });
        assert_eq!(again(&run).await, StepEnd::Done(StepResult::Answered { value }));
    })
    .await;
}

#[tokio::test]
async fn orders_are_about_the_version_that_was_seen_and_are_in_the_audit_l8() {
    each(async |office| {
        let alice = executions(office, "user:alice");
        let run = created(&alice, "e-1").await;
        called(&run, Ok(json!(1))).await;
        let version = shown(office, "e-1").await["version"].clone();
        let stale = json!(version.as_u64().unwrap() - 1);
        for verb in ["pause", "resume", "cancel", "archive"] {
            let refused = office.post(&path("e-1", &format!("/{verb}")), order(&stale)).await;
            assert_eq!((refused.status, &refused.code()[..]), (409, "execution-changed"), "{verb}");
        }
        let refused = office.post(&path("e-1", "/resume"), order(&version)).await;
        assert_eq!(
            (refused.status, &refused.code()[..]),
            (409, "execution-not-applicable"),
            "its runner lives"
        );
        let refused = office.post(&path("e-1", "/archive"), order(&version)).await;
        assert_eq!(
            (refused.status, &refused.code()[..]),
            (409, "execution-not-applicable"),
            "it has not ended"
        );
        assert_eq!(carried_out(&office.get("/v1/audit").await.json()), Vec::<Value>::new());
        let paused = office.post(&path("e-1", "/pause"), order(&version)).await.json();
        assert_eq!((&paused["status"], &paused["runs"]), (&json!("PAUSED"), &json!(false)));
        assert!(run.stands().await.is_err(), "its runner is fenced off");
        let twice = office.post(&path("e-1", "/pause"), order(&paused["version"])).await;
        assert_eq!(twice.status, 409);
        let resumed = office.post(&path("e-1", "/resume"), order(&paused["version"])).await.json();
        assert_eq!((&resumed["status"], &resumed["runs"]), (&json!("RECOVERING"), &json!(false)));
        // Whoever looks for executions whose runner has gone finds it, and takes it.
        let recovering = hapax_core::journal::Status::Recovering;
        let (found, _) = hapax_agent::durable::lapsed(&office.store, recovering, None, 10).await.unwrap();
        assert_eq!(found.len(), 1);
        let taken = alice.resume(&found[0].id, Resume::default()).await.unwrap();
        taken.stands().await.unwrap();
        let running = shown(office, "e-1").await;
        assert_eq!((&running["status"], &running["runs"]), (&json!("RUNNING"), &json!(true)));
        let mut forced = order(&running["version"]);
        forced["force"] = json!(true);
        let forced = office.post(&path("e-1", "/resume"), forced).await.json();
        assert_eq!(forced["status"], "RECOVERING");
        let cancelled = office.post(&path("e-1", "/cancel"), order(&forced["version"])).await.json();
        assert_eq!(cancelled["status"], "FAILED");
        for verb in ["pause", "resume", "cancel"] {
            let refused = office.post(&path("e-1", &format!("/{verb}")), order(&cancelled["version"])).await;
            assert_eq!((refused.status, &refused.code()[..]), (409, "execution-not-applicable"), "{verb}");
        }
        let archived = office.post(&path("e-1", "/archive"), order(&cancelled["version"])).await.json();
        assert_eq!(archived["purged"], 1, "{archived}");
        let audit = office.get("/v1/audit").await.json();
        let verbs: Vec<_> = carried_out(&audit).iter().rev().map(|event| event["verb"].clone()).collect();
        let told = ["execution-pause", "execution-resume", "execution-resume", "execution-cancel", "purge"];
        assert_eq!(verbs, told, "{audit}");
        let id = ExecutionId::new("e-1").unwrap();
        assert!(alice.get(&id, 0, 1).await.is_ok(), "its journal stays");
    })
    .await;
}

/// Writes executions into the store of a server that is yet to start: one with a step in doubt, one that is running and whose process
/// has gone.
async fn written(ground: &Ground) {
    let store = Store::open(&ground.store, Options::default()).await.unwrap();
    let scope = Scope::new(
        Tenant::new("acme").unwrap(),
        Project::new("web").unwrap(),
        Subject::parse("user:alice").unwrap(),
    );
    let executions = Executions::new(Executor::new(store.clone()), scope);
    in_doubt(&executions, "e-1").await;
    let run = created(&executions, "e-2").await;
    called(&run, Ok(json!({ "text": "a-canary-in-the-journal" }))).await;
    store.close().await.unwrap();
}

async fn of(edge: &Hapax, verb: &str, id: &str, more: &[&str]) -> Told {
    let mut args = vec!["executions", verb, id, "--tenant", "acme", "--project", "web"];
    args.extend(more);
    run(edge, "", &args).await
}

fn lines(told: &Told) -> Vec<Value> {
    assert_eq!(told.code, 0, "{}", told.err);
    told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_are_looked_at_and_decided_about_on_the_command_line_m2() {
    let ground = Ground::new(Kind::Embedded).await;
    written(&ground).await;
    let edge = ground.serve().await;
    let listed = lines(&run(&edge, "", &["executions", "list", "--json"]).await);
    assert_eq!(listed.iter().map(|one| &one["execution_id"]).collect::<Vec<_>>(), ["e-1", "e-2"]);
    let table = run(&edge, "", &["executions", "list", "--status", "paused"]).await;
    assert!(
        table.code == 0 && table.out.contains("e-1") && !table.out.contains("e-2"),
        "{}{}",
        table.out,
        table.err
    );
    let shown = of(&edge, "show", "e-1", &[]).await;
    assert!(shown.code == 0 && shown.out.contains("status      PAUSED"), "{}{}", shown.out, shown.err);
    let events = lines(&of(&edge, "show", "e-2", &["--events", "--payloads", "--json"]).await);
    assert_eq!(events.len(), 3);
    assert_eq!(events[2]["payload"]["result"]["value"]["text"], "a-canary-in-the-journal");
    assert_eq!(of(&edge, "show", "e-3", &[]).await.code, 1);
    assert_eq!(of(&edge, "show", "a/b", &[]).await.code, 2);
    // What waits says how to decide.
    let waiting = run(&edge, "", &["executions", "waiting"]).await;
    assert!(
        waiting.code == 0 && waiting.out.contains("hapax executions decide e-1 --tenant acme"),
        "{}",
        waiting.out
    );
    let step = &lines(&of(&edge, "waiting", "e-1", &["--json"]).await)[0];
    assert_eq!((&step["tool"], &step["args"]["text"]), (&json!("pay"), &json!("secret")));
    let at = ["--iteration", "0", "--call", "0", "--reason", "the bank says so"];
    let decide = async |more: &[&str]| of(&edge, "decide", "e-1", &[&at[..], more].concat()).await;
    assert_eq!(decide(&[]).await.code, 2, "it says nothing");
    assert_eq!(decide(&["--confirm", "{"]).await.code, 2, "no JSON");
    let stale = decide(&["--confirm", "1", "--epoch", "9.9"]).await;
    assert!(stale.code == 1 && stale.err.contains("look again"), "{}", stale.err);
    let done = decide(&["--confirm", "{\"paid\": true}"]).await;
    assert_eq!((done.code, done.out.as_str()), (0, "confirm e-1 PAUSED\n"), "{}", done.err);
    assert_eq!(decide(&["--confirm", "1"]).await.code, 1, "it counts once");
    let none = run(&edge, "", &["executions", "waiting"]).await;
    assert!(
        none.code == 0 && none.out.is_empty() && none.err.contains("nothing waits"),
        "{}{}",
        none.out,
        none.err
    );
    // Orders.
    let reason = ["--reason", "a look first"];
    let resumed = of(&edge, "resume", "e-1", &reason).await;
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "e-1 RECOVERING\n"), "{}", resumed.err);
    assert_eq!(of(&edge, "archive", "e-1", &reason).await.code, 1, "it has not ended");
    let cancelled = json_of(&of(&edge, "cancel", "e-1", &["--reason", "enough", "--json"]).await);
    assert_eq!(cancelled["status"], "FAILED");
    let archived = of(&edge, "archive", "e-1", &reason).await;
    assert_eq!(
        (archived.code, archived.out.as_str()),
        (0, "e-1 archived, 1 claims purged\n"),
        "{}",
        archived.err
    );
    let refused = of(&edge, "pause", "e-1", &reason).await;
    assert!(refused.code == 1 && refused.err.contains("has ended"), "{}", refused.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_is_exported_and_imported_on_the_command_line_j7_m2() {
    let ground = Ground::new(Kind::Embedded).await;
    written(&ground).await;
    let edge = ground.serve().await;
    let out = ground.folder.path().join("e-1.jsonl").display().to_string();
    assert_eq!(of(&edge, "export", "none", &["--out", &out]).await.code, 1, "there is no such execution");
    let exported = of(&edge, "export", "e-1", &["--out", &out]).await;
    assert_eq!((exported.code, exported.out.as_str()), (0, ""), "{}", exported.err);
    assert_eq!(of(&edge, "export", "e-1", &["--out", &out]).await.code, 2, "the file is there");
    let printed = of(&edge, "export", "e-1", &["--out", "-"]).await;
    let text = std::fs::read_to_string(&out).unwrap();
    assert_eq!((printed.code, &printed.out), (0, &text), "{}", printed.err);
    let events = shown_by(&edge, "e-1").await["events"].as_u64().unwrap();
    assert_eq!(text.lines().count() as u64, events + 1);
    // Into another server, and there once.
    let elsewhere = Ground::new(Kind::Embedded).await;
    let there = elsewhere.serve().await;
    let import = async |file: &str, project: &str| {
        let to = ["--tenant", "acme", "--project", project, "--reason", "we move", "--by", "alice"];
        run(&there, "", &[&["executions", "import", file][..], &to].concat()).await
    };
    for _ in 0..2 {
        let imported = import(&out, "web").await;
        assert_eq!((imported.code, imported.out.as_str()), (0, "e-1 PAUSED\n"), "{}", imported.err);
    }
    assert_eq!(shown_by(&there, "e-1").await["events"], events + 1, "and that it was imported");
    let waiting = run(&there, "", &["executions", "waiting"]).await;
    assert!(waiting.out.contains("hapax executions decide e-1"), "{}{}", waiting.out, waiting.err);
    let audit = there.ask("GET /v1/audit?verb=execution-import", "").await.json();
    let told = &audit["events"][0];
    assert_eq!((&told["reason"], &told["setting"]), (&json!("we move"), &json!("execution/acme/web/e-1")));
    assert!(told["actor"].as_str().unwrap().ends_with("/alice"), "{told}");
    // What is not sound is refused, says where, and leaves nothing behind.
    let bad = elsewhere.folder.path().join("bad.jsonl").display().to_string();
    std::fs::write(&bad, text.replace("secret", "Secret")).unwrap();
    let refused = import(&bad, "app").await;
    assert!(refused.code == 1 && refused.err.contains("broken at position"), "{}", refused.err);
    std::fs::write(&bad, "no lines").unwrap();
    assert_eq!(import(&bad, "app").await.code, 2);
    assert_eq!(import("/none/such", "app").await.code, 2);
    let listed = lines(&run(&there, "", &["executions", "list", "--project", "app", "--json"]).await);
    assert_eq!(listed.len(), 0, "{listed:?}");
    // A token that may only read exports nothing and imports nothing: what an execution has kept is told to operators.
    let page = edge.ask(&format!("GET {}", path("e-1", &format!("/export?{WHOSE}&from=0"))), "").await;
    assert_eq!(page.status, 400, "`from` goes with `until`");
}

async fn shown_by(edge: &Hapax, id: &str) -> Value {
    edge.ask(&format!("GET {}", path(id, &format!("?{WHOSE}"))), "").await.json()
}

#[tokio::test]
async fn what_waits_is_found_whatever_the_status_of_its_execution_is_j6() {
    each(async |office| {
        let alice = executions(office, "user:alice");
        in_doubt(&alice, "paused").await;
        for id in ["running", "failed"] {
            let run = created(&alice, id).await;
            called(&run, Err(ToolError::Unknown("cut".into()))).await;
            if id == "failed" {
                run.fail("no").await.unwrap();
            }
        }
        created(&alice, "fine").await;
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = office.get(&format!("/v1/waiting-steps?limit=2{after}")).await;
            assert!(page.status == 200 && !page.body.contains("secret"), "{}", page.body);
            let page = page.json();
            found.extend(page["waiting"].as_array().unwrap().iter().map(|one| {
                assert_eq!((&one["step"]["tool"], &one["step"]["why"]), (&json!("pay"), &json!("in-doubt")));
                format!("{} {}", one["execution_id"], one["status"]).replace('"', "")
            }));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(found, ["failed FAILED", "paused PAUSED", "running RUNNING"]);
        assert_eq!(
            office.get("/v1/waiting-steps?project=app&tenant=acme").await.json()["waiting"],
            json!([])
        );
        let told = office.send("GET", "/v1/waiting-steps", OPERATOR, "").await;
        assert!(told.body.contains("secret"), "{}", told.body);
        for may_not in [path("paused", &format!("/export?{WHOSE}"))] {
            assert_eq!(office.get(&may_not).await.status, 403, "{may_not}");
        }
        let import = "/v1/executions?tenant=acme&project=web&reason=no";
        assert_eq!(office.send("POST", import, READER, "").await.status, 403);
    })
    .await;
}

/// Changes one byte of what is kept, wherever it is kept.
fn tamper(folder: &Path, marker: &[u8]) -> usize {
    let mut changed = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            changed += tamper(&path, marker);
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let places: Vec<_> = (0..bytes.len().saturating_sub(marker.len()))
            .filter(|at| bytes[*at..].starts_with(marker))
            .collect();
        for at in &places {
            bytes[*at] ^= 1;
        }
        if !places.is_empty() {
            std::fs::write(&path, bytes).unwrap();
        }
        changed += places.len();
    }
    changed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journals_are_verified_beside_their_server_and_a_changed_byte_is_found_j3_b8() {
    let ground = Ground::new(Kind::Embedded).await;
    written(&ground).await;
    let edge = ground.serve().await;
    let config = ground.folder.path().join("hapax.toml").display().to_string();
    let verify =
        async |more: &[&str]| ground.run(&[&["verify", "--config", &config][..], more].concat()).await;
    let sound = verify(&[]).await;
    assert_eq!(sound.code, 0, "{}{}", sound.out, sound.err);
    assert!(sound.out.contains("sound  execution/acme/web/e-2  3 events"), "{}", sound.out);
    let one = lines(&verify(&["--execution", "e-2", "--json"]).await);
    assert_eq!((one.len(), &one[0]["events"], &one[0]["broken"]), (1, &json!(3), &Value::Null));
    let absent = verify(&["--execution", "e-9"]).await;
    assert!(absent.code == 1 && absent.err.contains("no execution e-9"), "{}", absent.err);
    assert_eq!(verify(&["--execution", "a/b"]).await.code, 2);
    edge.kill();
    assert!(tamper(&ground.folder.path().join("data"), b"a-canary-in-the-journal") > 0);
    let broken = verify(&[]).await;
    assert_eq!(broken.code, 1, "{}{}", broken.out, broken.err);
    assert!(broken.out.contains("broken  execution/acme/web/e-2  at position 2:"), "{}", broken.out);
    assert!(broken.out.contains("sound  execution/acme/web/e-1"), "{}", broken.out);
    // The server says so, too, and shows none of it as if it were what was written.
    let edge = ground.serve().await;
    let page = edge.ask(&format!("GET {}", path("e-2", &format!("/verify?{WHOSE}"))), "").await.json();
    assert_eq!((&page["broken"]["position"], &page["next"]), (&json!(2), &Value::Null), "{page}");
    let events = edge.ask(&format!("GET {}", path("e-2", &format!("/events?{WHOSE}"))), "").await;
    assert_eq!(events.problem(), (409, "execution-not-applicable".into()));
}
