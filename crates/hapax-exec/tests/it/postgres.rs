//! `once` on PostgreSQL: the burst of 200 in one process and in three, woken by notification alone and by polling alone.

use std::path::Path;
use std::sync::Arc;

use hapax_exec::{Ended, Executor, How, Settings};
use hapax_postgres::Postgres;
use hapax_store::Options;
use hapax_testkit::faulty::Faulty;
use hapax_testkit::lines::Lines;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use crate::attach::burst;
use crate::lent::a_grant_is_lent_and_concluded_elsewhere;
use crate::{call, claim_id, eventually};

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

async fn stores(url: &str, number: usize, options: &Options) -> Vec<Postgres> {
    let mut stores = Vec::new();
    for _ in 0..number {
        stores.push(Postgres::open(url, options.clone()).await.unwrap());
    }
    stores
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_run_it_once_in_one_process() {
    let url = database().await;
    let one = stores(&url, 1, &Options::default()).await;
    for round in 0..3 {
        burst(&one, &format!("round{round}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_in_three_processes_are_woken_by_notification_alone() {
    let url = database().await;
    let three = stores(&url, 3, &Options { poll: false, ..Options::default() }).await;
    for round in 0..3 {
        burst(&three, &format!("round{round}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_lent_at_one_instance_and_concluded_at_another_m1() {
    let url = database().await;
    let two = stores(&url, 2, &Options::default()).await;
    a_grant_is_lent_and_concluded_elsewhere(two[0].clone(), two[1].clone()).await;
}

/// How many polls go by until 200 callers who wait at the second store are woken by the end of a run at the first.
async fn polls_until_woken(two: &[Postgres], key: &'static str) -> u64 {
    let (go, started) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let first = tokio::spawn({
        let (executor, go, started) = (Executor::new(two[0].clone()), go.clone(), started.clone());
        async move {
            let work = |_| async move {
                started.notify_one();
                go.notified().await;
                Ended::succeeded("done")
            };
            executor.once(call(key), work).await.unwrap()
        }
    });
    started.notified().await;
    let ledgers: Vec<_> = (0..200).map(|_| Faulty::new(two[1].clone())).collect();
    let mut waiters = JoinSet::new();
    for ledger in &ledgers {
        let executor = Executor::new(ledger.clone());
        waiters.spawn(async move {
            executor.once(call(key), |_| async { Ended::succeeded("never") }).await.unwrap()
        });
    }
    eventually("all of them wait", async || ledgers.iter().all(|ledger| ledger.peeks() > 0)).await;
    go.notify_one();
    let first = first.await.unwrap();
    let before = two[1].polls();
    let answers = waiters.join_all().await;
    let polls = two[1].polls() - before;
    assert!(answers.iter().all(|done| done.value == first.value && done.how == How::Attached));
    polls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_elsewhere_are_woken_by_at_most_two_polls_when_every_notification_is_lost() {
    let url = database().await;
    let two = stores(&url, 2, &Options { notify: false, ..Options::default() }).await;
    let mut seen = Vec::new();
    // Polls go on while 200 callers read what they were woken for, which takes a busy machine its time.
    for key in ["one", "two", "three", "four", "five"] {
        seen.push(polls_until_woken(&two, key).await);
        if seen.last() <= Some(&2) {
            return;
        }
    }
    panic!("{seen:?} polls went by before the last waiter was woken");
}

#[tokio::test]
async fn a_spooled_outcome_of_a_damaged_claim_keeps_no_executor_from_opening_l15() {
    let (lines, _guard) = Lines::listen();
    let (url, folder) = (database().await, tempfile::tempdir().unwrap());
    let store = Postgres::open(&url, Options::default()).await.unwrap();
    let settings = |folder: &Path| Settings { spool: Some(folder.to_owned()), ..Settings::default() };
    for key in ["broken", "whole"] {
        let ledger = Faulty::new(store.clone());
        let folder = folder.path().join(key);
        let executor = Executor::open(ledger.clone(), settings(&folder)).await.unwrap();
        let away = ledger.clone();
        let work = |_| async move {
            away.set_away(true);
            Ended::succeeded("paid")
        };
        let error = executor.once(call(key), work).await.unwrap_err();
        assert_eq!(error.code(), "outcome-pending");
    }
    // The process "dies": what it owed is gone, the files are not.
    let copy = tempfile::tempdir().unwrap();
    for key in ["broken", "whole"] {
        let entry = std::fs::read_dir(folder.path().join(key)).unwrap().next().unwrap().unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let waiting = || std::fs::read_dir(copy.path()).unwrap().map(|entry| entry.unwrap().path());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let digest = claim_id("broken");
    let spoil = "UPDATE hapax.claims c SET state = 'D', note = 'l', until = NULL, terms = '\\x' \
                 FROM hapax.claims was WHERE c.digest = $1 AND was.digest = $1 RETURNING was.terms";
    let terms: Vec<u8> = client.query_one(spoil, &[&&digest.as_bytes()[..]]).await.unwrap().get(0);
    let executor = Executor::open(store.clone(), settings(copy.path())).await.expect("it opens");
    let left: Vec<_> = waiting().collect();
    assert!(matches!(left[..], [ref path] if path.display().to_string().contains(&digest.to_string())));
    let told = lines.told();
    assert!(told.contains("ERROR") && told.contains(&left[0].display().to_string()), "{told}");
    let done = executor.once(call("whole"), |_| async { Ended::succeeded("again") }).await.unwrap();
    assert_eq!(done.how, How::Replayed);
    // Somebody repairs the claim.
    let repair = "UPDATE hapax.claims SET terms = $2 WHERE digest = $1";
    client.execute(repair, &[&&digest.as_bytes()[..], &terms]).await.unwrap();
    eventually("its outcome is settled", async || waiting().next().is_none()).await;
    let done = executor.once(call("broken"), |_| async { Ended::succeeded("again") }).await.unwrap();
    assert_eq!((done.how, done.value), (How::Replayed, hapax_core::Outcome::Succeeded("paid".into())));
}
