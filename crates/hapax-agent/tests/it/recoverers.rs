//! Several processes that resume what they find lapsed: each execution goes to one of them, and its chain does not fork (J4).

use std::process::{Command, Stdio};
use std::time::Duration;

use hapax::Store;
use hapax_agent::durable::{AgentId, Creation, Executions, Order, Stop, verify};
use hapax_core::journal::Status;
use hapax_core::{Leases as _, Scope};
use hapax_exec::Executor;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::upstream::CountingFile;
use serde_json::json;

use crate::world::{Calls, Script, World, creation, database, id};

const STORE: &str = "HAPAX_TEST_RECOVERER_STORE";
const WINS: &str = "HAPAX_TEST_RECOVERER_WINS";
const EXECUTIONS: usize = 30;

/// What one process does: it looks for executions whose runner is gone, and takes what it can.
async fn recover(url: &str, wins: &CountingFile) {
    let store = Store::open(url, Options::default()).await.unwrap();
    let executions = Executions::new(Executor::new(store.clone()), Scope::local());
    let agent =
        hapax_agent::durable::DurableLoop::new(Script::of(&[("unsafe", json!(1))]), Calls::default().tools());
    while executions.list(Some(Status::Completed), None, 100).await.unwrap().0.len() < EXECUTIONS {
        for (id, stop) in agent.recover(&executions, &planner()).await.unwrap() {
            assert!(matches!(stop, Ok(Stop::Completed(_))), "{id}: {stop:?}");
            wins.record(id.as_str(), "won").unwrap();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    store.close().await.unwrap();
}

fn planner() -> AgentId {
    AgentId::new("planner").unwrap()
}

/// What its runner has left, wherever that died, and what an operator has resumed; of this agent alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_round_takes_what_has_no_runner_and_nothing_else_j4() {
    let world = World::memory().await;
    let (executions, store) = (world.executions(), &world.store);
    let lease = store.open_lease(&Scope::local(), Duration::from_secs(600)).await.unwrap();
    let gone = |name: &str| Creation { lease: Some(lease.id), ..creation(name) };
    executions.create(gone("running")).await.unwrap();
    executions.create(Creation { agent: AgentId::new("another").unwrap(), ..gone("other") }).await.unwrap();
    executions.create(gone("ordered")).await.unwrap();
    let version = executions.status(&id("ordered")).await.unwrap().version;
    executions.order(&id("ordered"), Order::Resume { force: true }, version, "go on").await.unwrap();
    world.create("alive").await;
    world.create("paused").await.pause("wait").await.unwrap();
    store.end_lease(&Scope::local(), lease.id).await.unwrap();
    let agent = world.agent(&[("safe", json!(1))]);
    let mut recovered = agent.recover(&executions, &planner()).await.unwrap();
    recovered.sort_by(|one, other| one.0.cmp(&other.0));
    let names: Vec<_> = recovered.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(names, ["ordered", "running"]);
    assert!(recovered.iter().all(|(_, stop)| matches!(stop, Ok(Stop::Completed(_)))), "{recovered:?}");
    assert!(agent.recover(&executions, &planner()).await.unwrap().is_empty());
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// As a child: one of the processes. Alone: three of them.
#[test]
fn of_three_processes_one_wins_each_execution_and_no_chain_forks_postgres_j4() {
    if let (Ok(store), Ok(wins)) = (std::env::var(STORE), std::env::var(WINS)) {
        runtime().block_on(recover(&store, &CountingFile::new(wins)));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let wins = CountingFile::new(folder.path().join("wins"));
    let url = runtime().block_on(async {
        let url = database().await;
        let store = Store::open(&url, Options::default()).await.unwrap();
        let executions = Executions::new(Executor::new(store.clone()), Scope::local());
        let lease = store.open_lease(&Scope::local(), Duration::from_secs(600)).await.unwrap();
        for number in 0..EXECUTIONS {
            let new = Creation { lease: Some(lease.id), ..creation(&format!("e-{number}")) };
            executions.create(new).await.unwrap();
        }
        // From here on all of them have lapsed.
        store.end_lease(&Scope::local(), lease.id).await.unwrap();
        store.close().await.unwrap();
        url
    });
    let children: Vec<_> = (0..3)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let name =
                "recoverers::of_three_processes_one_wins_each_execution_and_no_chain_forks_postgres_j4";
            command.args(["--exact", name, "--nocapture"]).env(STORE, &url).env(WINS, wins.path());
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let won = wins.effects().unwrap();
    let processes: std::collections::BTreeSet<u32> = won.iter().map(|win| win.process).collect();
    assert!(processes.len() >= 2, "several took part: {processes:?}");
    runtime().block_on(async {
        let store = Store::open(&url, Options::default()).await.unwrap();
        let executions = Executions::new(Executor::new(store.clone()), Scope::local());
        for number in 0..EXECUTIONS {
            let name = format!("e-{number}");
            assert_eq!(wins.count(&name).unwrap(), 1, "{name}");
            let stream = executions.stream(&id(&name)).unwrap();
            let report = verify(&store, &stream).await.unwrap();
            assert!(report.is_sound() && report.status.as_deref() == Some("COMPLETED"), "{report:?}");
            let events = executions.read(&id(&name), 0, 100).await.unwrap();
            let recovered = events.iter().filter(|event| event.event_type == "EXECUTION_RECOVERING").count();
            assert_eq!(recovered, 1, "{name}");
        }
        store.close().await.unwrap();
    });
}
