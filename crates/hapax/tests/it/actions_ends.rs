//! How plans end that are not let come to their end: by signals, kills, and a server that is told to end (X1, H11, L8).

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::actions_cli::{WHOSE, asked, doubtful, ground, hold, run, written};
use crate::application::App;
use crate::rig::caller::ALICE;
use crate::rig::process::eventually;
use crate::rig::{BRIEF, Ground, Kind, hapax};

/// Holds of some orders, each on an entity of its own.
fn holds(numbers: &[u32]) -> Value {
    let one = |number: &u32| {
        let key = format!("hold:{number}");
        json!({
            "connector": "magento", "tool": "orders.hold", "args": { "order": number }, "entity_key": key, "idempotency_key": key
        })
    };
    numbers.iter().map(one).collect()
}

/// `hapax actions run` as a process.
fn spawned(ground: &Ground, plan: &Value) -> Child {
    let (config, plan) = written(ground, plan);
    let mut args = vec!["actions", "run", "--config", &config, "--plan", &plan];
    args.extend(WHOSE);
    hapax(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn ended(process: Child) -> (Option<i32>, String, String) {
    let output = tokio::task::spawn_blocking(move || process.wait_with_output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn codes(results: &Value) -> Vec<(bool, Option<&str>)> {
    let results = results.as_array().unwrap();
    results.iter().map(|result| (result["ok"].as_bool().unwrap(), result["code"].as_str())).collect()
}

const ONE_DONE: [(bool, Option<&str>); 3] =
    [(true, None), (false, Some("stopping")), (false, Some("stopping"))];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_end_begins_no_further_action_of_a_plan_x1_h11() {
    let ground = ground(Kind::Embedded).await;
    let mut edge = ground.serve().await;
    ground.service.hold();
    let app = App::new(&edge, ALICE);
    let asking = tokio::spawn(async move { app.post("/v1/plans", holds(&[1, 2, 3])).await });
    ground.service.reached(1).await;
    edge.terminate();
    edge.tells("finishing what is running").await;
    ground.service.let_go();
    let results = asking.await.unwrap();
    assert_eq!(codes(&results), ONE_DONE, "{results:#}");
    assert_eq!(edge.ended().await.code(), Some(0), "{}", edge.told());
    assert_eq!(ground.service.count(), 1);
    let edge = ground.serve().await;
    let results = App::new(&edge, ALICE).post("/v1/plans", holds(&[1, 2, 3])).await;
    assert_eq!((&results[0]["decision"], ground.service.count()), (&json!("DEDUP"), 3), "{results:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_told_to_end_lets_its_action_end_and_tells_what_was_not_begun_x10() {
    for signal in [Signal::INT, Signal::TERM] {
        let ground = ground(Kind::Embedded).await;
        ground.service.hold();
        let process = spawned(&ground, &holds(&[1, 2, 3]));
        let id = Pid::from_child(&process);
        ground.service.reached(1).await;
        kill_process(id, signal).unwrap();
        // It has heard the signal when it says so; then the service answers.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        ground.service.let_go();
        let (code, out, err) = ended(process).await;
        let results: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {err}"));
        assert_eq!((code, codes(&results)), (Some(1), ONE_DONE.to_vec()), "{err}");
        assert!(err.contains("told again, it is cut off"), "{err}");
        assert_eq!(ground.service.count(), 1);
        let (code, results) = run(&ground, &holds(&[1, 2, 3])).await;
        assert_eq!(
            (code, &results[0]["decision"]),
            (0, &json!("DEDUP")),
            "nothing is in doubt: {results:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_told_to_end_twice_ends_at_once_with_what_was_done() {
    let ground = ground(Kind::Embedded).await;
    ground.service.hold();
    let process = spawned(&ground, &holds(&[1, 2]));
    let id = Pid::from_child(&process);
    ground.service.reached(1).await;
    kill_process(id, Signal::TERM).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    kill_process(id, Signal::TERM).unwrap();
    let (code, out, err) = ended(process).await;
    assert_eq!((code, out.trim()), (Some(1), "[]"), "{err}");
    assert!(err.contains("it is not known whether the last action happened"), "{err}");
    ground.service.let_go();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_action_whose_process_was_killed_entity_and_tool_are_told_before_and_after_the_decision_l8_x8()
{
    let mut ground = doubtful().await;
    ground.lease = BRIEF;
    ground.service.hold();
    let mut process = spawned(&ground, &json!([hold()]));
    ground.service.reached(1).await;
    process.kill().unwrap();
    process.wait().unwrap();
    ground.service.let_go();
    let edge = ground.serve().await;
    let waiting = async || asked(&ground, &edge, &["approvals", "list"]).await.1;
    eventually("the action is in doubt", async || waiting().await.len() == 1).await;
    let waiting = waiting().await.remove(0);
    assert_eq!(
        (&waiting["entity_key"], &waiting["tool"], &waiting["cause"]),
        (&json!("ship-risk:SO-10884"), &json!("orders.hold"), &Value::Null),
        "{waiting:#}"
    );
    let (id, admin) = (waiting["operation_id"].as_str().unwrap(), format!("http://{}", edge.admin));
    for args in [vec!["approvals", "list"], vec!["approvals", "show", id]] {
        let told = ground.run(&[args, vec!["--admin", &admin]].concat()).await;
        assert!(told.out.contains("orders.hold") && told.out.contains("ship-risk:SO-10884"), "{}", told.out);
    }
    let confirm = ["approvals", "confirm", id, "--reason", "the order is on hold"];
    assert_eq!(asked(&ground, &edge, &confirm).await.0, 0);
    let of_entity = ["receipts", "list", "--tenant", "acme", "--entity", "ship-risk:SO-10884"];
    let (_, receipts) = asked(&ground, &edge, &of_entity).await;
    assert_eq!(
        (&receipts[0]["decision"], &receipts[0]["tool"]),
        (&json!("confirm"), &json!("orders.hold")),
        "{receipts:#?}"
    );
}
