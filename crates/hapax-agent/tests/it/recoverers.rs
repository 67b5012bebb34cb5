//! Several processes that resume what they find lapsed: each execution goes to one of them, and its chain does not fork (J4).

use std::process::{Command, Stdio};
use std::time::Duration;

use hapax::Store;
use hapax_agent::durable::{Error, Executions, Resume, lapsed, verify};
use hapax_core::journal::Status;
use hapax_core::{Leases as _, Scope};
use hapax_exec::Executor;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::upstream::CountingFile;
use serde_json::json;

use crate::world::{Calls, Script, creation, database, id};

const STORE: &str = "HAPAX_TEST_RECOVERER_STORE";
const WINS: &str = "HAPAX_TEST_RECOVERER_WINS";
const EXECUTIONS: usize = 30;

/// What one process does: it looks for executions whose runner is gone, and takes what it can.
async fn recover(url: &str, wins: &CountingFile) -> usize {
    let store = Store::open(url, Options::default()).await.unwrap();
    let executions = Executions::new(Executor::new(store.clone()), Scope::local());
    let agent =
        hapax_agent::durable::DurableLoop::new(Script::of(&[("unsafe", json!(1))]), Calls::default().tools());
    let mut refused = 0;
    loop {
        let (found, _) = lapsed(&store, Status::Running, None, 100).await.unwrap();
        let open = executions.list(Some(Status::Completed), None, 100).await.unwrap().0.len();
        if found.is_empty() && open == EXECUTIONS {
            break;
        }
        for listing in found {
            match executions.resume(&listing.id, Resume::default()).await {
                Ok(run) => {
                    wins.record(listing.id.as_str(), "won").unwrap();
                    agent.run(&run).await.unwrap();
                }
                Err(Error::Fenced | Error::Ended | Error::VersionConflict { .. }) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    store.close().await.unwrap();
    refused
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
            let new =
                hapax_agent::durable::Creation { lease: Some(lease.id), ..creation(&format!("e-{number}")) };
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
