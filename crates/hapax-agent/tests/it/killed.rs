//! The example's process, killed at any time and started again: always the same end, and one effect for each tool that must not be
//! called twice.

#[path = "../../examples/agent.rs"]
#[allow(unreachable_pub, missing_docs, reason = "it is the example's source")]
mod agent;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hapax::Store;
use hapax_agent::durable::{ExecutionId, Executions, Stop, verify};
use hapax_core::Scope;
use hapax_exec::Executor;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::upstream::CountingFile;
use serde_json::json;

const ORDERS: u64 = 4;
/// What the child is told by its parent.
const STORE: &str = "HAPAX_TEST_AGENT_STORE";
const EFFECTS: &str = "HAPAX_TEST_AGENT_EFFECTS";

fn args(store: &str, effects: &std::path::Path) -> agent::Args {
    let (store, effects) = (store.to_owned(), effects.to_owned());
    agent::Args { store, effects, execution: "orders".into(), orders: ORDERS, term_ms: 30_000 }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// What must have happened in the end, whoever died on the way.
async fn check(store: &str, effects: &CountingFile) {
    let store = Store::open(store, Options::default()).await.unwrap();
    let executions = Executions::new(Executor::new(store.clone()), Scope::local());
    let id = ExecutionId::new("orders").unwrap();
    let summary = executions.status(&id).await.unwrap();
    assert_eq!(summary.status, "COMPLETED");
    let all = ["stock.reserve", "card.charge", "mail.send"];
    let state: serde_json::Value =
        serde_json::from_slice(&executions.checkpoint(&id).await.unwrap().unwrap().unwrap()).unwrap();
    assert_eq!(state, json!({ "handled": vec![all; usize::try_from(ORDERS).unwrap()] }));
    for order in 0..ORDERS {
        for tool in all {
            let count = effects.count(&format!("{tool} order-{order}")).unwrap();
            // An idempotent tool may be called again with its key.
            let fits = if tool == "stock.reserve" { count >= 1 } else { count == 1 };
            assert!(fits, "{tool} of order {order}: {count}");
        }
    }
    let report = verify(&store, &executions.stream(&id).unwrap()).await.unwrap();
    assert!(report.is_sound() && report.events > 4 * ORDERS, "{report:?}");
    store.close().await.unwrap();
}

/// Alone it runs the example to its end; as a child, on the store of its parent, until it is killed.
#[test]
fn the_example_comes_to_its_end() {
    if let (Ok(store), Ok(effects)) = (std::env::var(STORE), std::env::var(EFFECTS)) {
        let stop = runtime().block_on(agent::live(&args(&store, effects.as_ref()))).unwrap();
        assert!(matches!(stop, Stop::Completed(_)), "{stop:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (store, effects) =
        (format!("embedded:{}", folder.path().join("store").display()), folder.path().join("effects"));
    let stop = runtime().block_on(agent::live(&args(&store, &effects))).unwrap();
    assert!(matches!(stop, Stop::Completed(_)), "{stop:?}");
    runtime().block_on(check(&store, &CountingFile::new(&effects)));
}

fn child(store: &str, effects: &std::path::Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "killed::the_example_comes_to_its_end", "--nocapture"]);
    command.env(STORE, store).env(EFFECTS, effects);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn an_example_that_is_killed_again_and_again_does_each_thing_once_j4_j8() {
    let folder = tempfile::tempdir().unwrap();
    let (store, effects) =
        (format!("embedded:{}", folder.path().join("store").display()), folder.path().join("effects"));
    let counted = CountingFile::new(&effects);
    // Killed when it has had so many effects, or after a moment where it has none left to make.
    let mut kills = 0;
    for number in 1..=3 * usize::try_from(ORDERS).unwrap() {
        let mut victim = child(&store, &effects);
        let mut ended = None;
        while counted.effects().unwrap().len() < number && ended.is_none() {
            std::thread::sleep(Duration::from_micros(300));
            ended = victim.try_wait().unwrap();
        }
        if let Some(status) = ended {
            assert!(status.success(), "a child that was not killed came to its end: {status}");
            break;
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        kills += 1;
    }
    assert!(kills >= 6, "it was killed {kills} times");
    let status = child(&store, &effects).wait().unwrap();
    assert!(status.success(), "{status}");
    runtime().block_on(check(&store, &counted));
}
