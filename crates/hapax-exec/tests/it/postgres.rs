//! `once` on PostgreSQL: the burst of 200 in one process and in three, woken by notification alone and by polling alone.

use std::sync::Arc;

use hapax_exec::{Ended, Executor, How};
use hapax_store::Options;
use hapax_store::postgres::Postgres;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use crate::attach::burst;
use crate::call;

/// A database of its own on the server that `cargo xtask test` starts.
async fn database() -> String {
    let server = std::env::var("HAPAX_TEST_POSTGRES").expect(
        "this test needs a PostgreSQL server: run `cargo xtask test`, or `cargo xtask postgres -- cargo test …`",
    );
    let name = format!("hapax_exec_{:?}", hapax_core::AttemptId::random()).replace("at_", "");
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

async fn executors(url: &str, number: usize, options: &Options) -> Vec<Executor<Postgres>> {
    let mut executors = Vec::new();
    for _ in 0..number {
        executors.push(Executor::new(Postgres::open(url, options.clone()).await.unwrap()));
    }
    executors
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_run_it_once_in_one_process() {
    let url = database().await;
    let one = executors(&url, 1, &Options::default()).await;
    for round in 0..3 {
        burst(&one, &format!("round{round}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_in_three_processes_are_woken_by_notification_alone() {
    let url = database().await;
    let three = executors(&url, 3, &Options { poll: false, ..Options::default() }).await;
    for round in 0..3 {
        burst(&three, &format!("round{round}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_elsewhere_are_woken_by_at_most_two_polls_when_every_notification_is_lost() {
    let url = database().await;
    let two = executors(&url, 2, &Options { notify: false, ..Options::default() }).await;
    let (go, started) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let first = tokio::spawn({
        let (executor, go, started) = (two[0].clone(), go.clone(), started.clone());
        async move {
            let work = |_| async move {
                started.notify_one();
                go.notified().await;
                Ended::succeeded("done")
            };
            executor.once(call("polled"), work).await.unwrap()
        }
    });
    started.notified().await;
    let mut waiters = JoinSet::new();
    for _ in 0..200 {
        let executor = two[1].clone();
        waiters.spawn(async move {
            executor.once(call("polled"), |_| async { Ended::succeeded("never") }).await.unwrap()
        });
    }
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    go.notify_one();
    let first = first.await.unwrap();
    let before = two[1].ledger().polls();
    let answers = waiters.join_all().await;
    let polls = two[1].ledger().polls() - before;
    assert!(answers.iter().all(|done| done.value == first.value && done.how == How::Attached));
    assert!(polls <= 2, "{polls} polls went by before the last waiter was woken");
}
