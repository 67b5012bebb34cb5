//! Waiters on PostgreSQL are woken by being told, where only the look every 250 ms would find it out otherwise (L9).
//! So nobody looks here.

use hapax_core::{
    ClaimId, Decision, Inspect as _, Ledger as _, Operated, Ran, Report, Verb, View, Watch as _,
};
use hapax_postgres::Postgres;
use hapax_store::Options;
use hapax_store::conformance::{DAY, ok};
use tokio::time::timeout;

use crate::postgres::{SOON, by_hand, connect, hold, open};
use crate::server::{Database, is_alone, run_alone};

fn never_looking() -> Options {
    Options { poll: false, ..by_hand() }
}

type Watch = <Postgres as hapax_core::Ledger>::Watch;

async fn woken(watch: &mut Watch, why: &str) {
    timeout(SOON, watch.changed()).await.unwrap_or_else(|_| panic!("never woken {why}"));
}

/// A waiter whose mark is made.
async fn watch(waiter: &Postgres, id: ClaimId) -> Watch {
    let mut watch = waiter.watch(id);
    woken(&mut watch, "when the mark was made").await;
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Held { .. })));
    watch
}

/// In a process of its own, because fail points are the whole process's.
async fn release_of_unknown_fate() {
    let database = Database::fresh().await;
    let (runner, waiter) = (open(&database, by_hand()).await, open(&database, never_looking()).await);
    let (id, epoch) = hold(&runner, "k").await;
    let mut watch = watch(&waiter, id).await;
    fail::cfg("postgres.after_commit", "1*return").unwrap();
    runner.report(id, epoch, Report::Release(Ran::No), vec![]).await.unwrap();
    woken(&mut watch, "although it was found out that the release was committed").await;
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Released { .. })));
}

#[tokio::test]
async fn waiters_hear_of_a_commit_whose_answer_was_lost_l9() {
    if is_alone() {
        return release_of_unknown_fate().await;
    }
    run_alone("postgres_waking::waiters_hear_of_a_commit_whose_answer_was_lost_l9", &[]);
}

#[tokio::test]
async fn a_mark_that_went_with_its_row_is_made_again_for_a_new_waiter_l9() {
    let database = Database::fresh().await;
    let (runner, waiter) = (open(&database, by_hand()).await, open(&database, never_looking()).await);
    let (id, epoch) = hold(&runner, "k").await;
    let former = watch(&waiter, id).await;
    // As if the claim had gone and were granted anew.
    let client = connect(database.url()).await;
    client.batch_execute("UPDATE hapax.claims SET watched = false").await.unwrap();
    drop(former);
    let mut later = waiter.watch(id);
    woken(&mut later, "when the mark was made again").await;
    runner.report(id, epoch, Report::Settle(ok("done"), DAY), vec![]).await.unwrap();
    woken(&mut later, "by the settle").await;
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Settled(_))));
}

#[tokio::test]
async fn whoever_goes_on_waiting_for_a_claim_that_was_granted_anew_is_marked_again_l9() {
    let database = Database::fresh().await;
    let (runner, waiter) = (open(&database, by_hand()).await, open(&database, never_looking()).await);
    let (id, epoch) = hold(&runner, "k").await;
    let mut watch = watch(&waiter, id).await;
    // Settled, purged and granted anew before the waiter comes to look.
    runner.report(id, epoch, Report::Settle(ok("first"), DAY), vec![]).await.unwrap();
    let (actor, reason) = ("ann".to_owned(), "test".to_owned());
    let purge = Decision { seen: epoch, verb: Verb::Purge, actor, reason };
    assert_eq!(runner.decide(id, purge).await.unwrap(), Operated::Done(None));
    let (_, epoch) = hold(&runner, "k").await;
    // Who waits for this one hears last of all that was told so far.
    let (last, last_epoch) = hold(&runner, "last").await;
    let mut hearing = self::watch(&waiter, last).await;
    runner.report(last, last_epoch, Report::Settle(ok("done"), DAY), vec![]).await.unwrap();
    woken(&mut hearing, "by the last settle").await;
    woken(&mut watch, "by the first settle").await;
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Held { .. })));
    runner.report(id, epoch, Report::Settle(ok("second"), DAY), vec![]).await.unwrap();
    loop {
        woken(&mut watch, "by the second settle").await;
        if matches!(waiter.peek(id).await.unwrap(), Some(View::Settled(_))) {
            return;
        }
    }
}
