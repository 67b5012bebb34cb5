//! The transactional guard on PostgreSQL: the business write and the outcome, both or neither (L16).

use std::sync::Arc;
use std::time::Duration;

use hapax_core::journal::{Append, Author, NewEvent, Stream};
use hapax_core::{
    Ending, Epoch, Inspect as _, Journal as _, Kind, Ledger as _, Ran, Report, Rerun, Retention, Terms,
    Verdict, View, Watch as _,
};
use hapax_postgres::{Postgres, guard, guard_with};
use hapax_store::Options;
use hapax_store::conformance::{DAY, granted, ok, request};
use hapax_testkit::clock::VirtualClock;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::postgres::{SOON, ask, by_hand, connect, hold, open, replayed, settle};
use crate::server::Database;

async fn shop(database: &Database) -> Client {
    let client = connect(database.url()).await;
    client.batch_execute("CREATE TABLE payments (amount integer)").await.unwrap();
    client
}

async fn payments(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM payments", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn the_payment_and_its_outcome_commit_together_l16() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, shop(&database).await);
    let (id, epoch) = hold(&store, "k").await;
    let tx = client.transaction().await.unwrap();
    tx.execute("INSERT INTO payments VALUES (10)", &[]).await.unwrap();
    let kept = guard(&tx, id, epoch, &ok("paid"), Retention::Forever).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(payments(&client).await, 1);
    assert_eq!(replayed(&ask(&store, "k").await), Some(&b"paid"[..]));
    let told = store.report(id, epoch, Report::Settle(ok("own"), DAY), vec![]).await.unwrap();
    assert_eq!(told, Ending::AlreadySettled(kept), "`once` answers from the ledger (L5)");
}

fn paid() -> Vec<Append> {
    let stream = Stream::new("receipts/acme").unwrap();
    vec![Append::new(stream, Author::Anyone { version: Some(0) }).with(vec![NewEvent::new("PAID", "{}")])]
}

#[tokio::test]
async fn the_events_of_a_guarded_outcome_commit_with_it_or_not_at_all_l16_l18() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, shop(&database).await);
    let stream = Stream::new("receipts/acme").unwrap();
    let (id, epoch) = hold(&store, "k").await;
    let written = async || store.read(&stream, 0, 10).await.unwrap().len();
    for (commits, events) in [(false, 0), (true, 1)] {
        let tx = client.transaction().await.unwrap();
        guard_with(&tx, id, epoch, &ok("paid"), DAY, &paid()).await.unwrap();
        match commits {
            true => tx.commit().await.unwrap(),
            false => tx.rollback().await.unwrap(),
        }
        assert_eq!(written().await, events);
    }
    assert_eq!(replayed(&ask(&store, "k").await), Some(&b"paid"[..]));
    // The stream has moved on: the application has to roll back, and can do without the events then.
    let (other, epoch) = hold(&store, "other").await;
    let tx = client.transaction().await.unwrap();
    let told = guard_with(&tx, other, epoch, &ok("paid"), DAY, &paid()).await;
    assert_eq!(told.unwrap_err().kind(), Kind::Conflict);
    tx.rollback().await.unwrap();
    assert_eq!(written().await, 1);
    assert!(matches!(store.peek(other).await.unwrap(), Some(View::Held { .. })));
}

#[tokio::test]
async fn neither_happens_when_the_application_rolls_back_l16() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, shop(&database).await);
    let (id, epoch) = hold(&store, "k").await;
    let tx = client.transaction().await.unwrap();
    tx.execute("INSERT INTO payments VALUES (10)", &[]).await.unwrap();
    guard(&tx, id, epoch, &ok("paid"), DAY).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(payments(&client).await, 0);
    assert!(matches!(store.peek(id).await.unwrap(), Some(View::Held { .. })));
    let settled = store.report(id, epoch, Report::Settle(ok("later"), DAY), vec![]).await.unwrap();
    assert!(matches!(settled, Ending::Settled(_)));
}

#[tokio::test]
async fn a_stale_epoch_fails_the_transaction_l16() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, shop(&database).await);
    let (id, epoch) = hold(&store, "k").await;
    let stale = Epoch::from_packed(epoch.packed() - 1);
    let tx = client.transaction().await.unwrap();
    tx.execute("INSERT INTO payments VALUES (10)", &[]).await.unwrap();
    let error = guard(&tx, id, stale, &ok("paid"), DAY).await.unwrap_err();
    assert_eq!(error.kind(), Kind::LostLease);
    drop(tx);
    assert_eq!(payments(&client).await, 0);
    let settled_id = settle(&store, "settled", "first").await;
    let tx = client.transaction().await.unwrap();
    let epoch = store.record(settled_id).await.unwrap().unwrap().claim.epoch;
    let again = guard(&tx, settled_id, epoch, &ok("second"), DAY).await.unwrap_err();
    assert_eq!(again.kind(), Kind::LostLease, "what is settled already must not be paid again");
}

/// 64 callers on other keys.
async fn burst(store: &Postgres, name: &'static str) {
    let mut callers = JoinSet::new();
    for number in 0..64 {
        let store = store.clone();
        callers.spawn(async move { settle(&store, &format!("{name}{number}"), "done").await });
    }
    callers.join_all().await;
}

/// Runs this while the application has rows locked, and looks again and again whether anybody waits for it.
async fn beside<T>(database: &Database, application: i32, what: impl Future<Output = T>) -> T {
    let client = connect(database.url()).await;
    let look = async {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
        loop {
            let waiting: i64 = client.query_one(sql, &[&application]).await.unwrap().get(0);
            assert_eq!(waiting, 0, "somebody waits for the application's transaction");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        done = timeout(SOON, what) => done.expect("the open transaction stalled the others"),
        () = look => unreachable!("it looks for as long as the others take"),
    }
}

/// The process that serves this connection.
async fn process_of(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn an_open_transaction_of_the_application_stalls_nobody_else_b3() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, shop(&database).await);
    let (id, epoch) = hold(&store, "locked").await;
    let application = process_of(&client).await;
    let tx = client.transaction().await.unwrap();
    guard(&tx, id, epoch, &ok("paid"), DAY).await.unwrap();
    // In the same batches: whoever asks for the locked claim, and the holder's own settle.
    let mut own = JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        own.spawn(async move { store.report(id, epoch, Report::Settle(ok("own"), DAY), vec![]).await });
    }
    let asking = {
        let store = store.clone();
        tokio::spawn(async move { ask(&store, "locked").await })
    };
    let others = async {
        burst(&store, "beside").await;
        asking.await.unwrap()
    };
    let told = beside(&database, application, others).await;
    assert!(matches!(told, Verdict::Held { .. }), "busy is held, not lost: {told:?}");
    assert!(own.try_join_next().is_none(), "the holder waits until the transaction has ended");
    tx.commit().await.unwrap();
    for ending in timeout(SOON, own.join_all()).await.unwrap() {
        assert!(matches!(ending, Ok(Ending::AlreadySettled(_))), "{ending:?}");
    }
}

#[tokio::test]
async fn settles_that_come_alone_wait_for_no_locked_row_either_b3() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, shop(&database).await);
    let mut held = Vec::new();
    for key in ["one", "two"] {
        held.push(hold(&store, key).await);
    }
    let application = process_of(&client).await;
    let tx = client.transaction().await.unwrap();
    let mut own = JoinSet::new();
    // One for each batch that can be under way.
    for (id, epoch) in held {
        guard(&tx, id, epoch, &ok("paid"), DAY).await.unwrap();
        let store = store.clone();
        own.spawn(async move { store.report(id, epoch, Report::Settle(ok("own"), DAY), vec![]).await });
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    beside(&database, application, settle(&store, "free", "done")).await;
    tx.commit().await.unwrap();
    for ending in timeout(SOON, own.join_all()).await.unwrap() {
        assert!(matches!(ending, Ok(Ending::AlreadySettled(_))), "{ending:?}");
    }
}

/// What is left of a claim that the next one who asks is granted.
#[derive(Clone, Copy, Debug)]
enum Grantable {
    Lapsed,
    Released,
    Expired,
}

#[tokio::test]
async fn whoever_could_be_granted_a_claim_that_is_locked_is_not_told_that_it_is_held_b3_l9() {
    // Whoever is told so waits for its holder, and finds that there is none.
    for left in [Grantable::Lapsed, Grantable::Released, Grantable::Expired] {
        let (database, clock) = (Database::fresh().await, VirtualClock::new());
        let patience = Duration::from_secs(2);
        let options = Options { clock: Some(Arc::new(clock.clone())), patience, ..by_hand() };
        let (store, mut client) = (open(&database, options).await, connect(database.url()).await);
        let safe = || request("k", "body", Terms { rerun: Rerun::Safe, ..Terms::default() });
        let (id, epoch) = (safe().identity.claim_id(), granted(&store, &safe()).await.epoch);
        let report = match left {
            Grantable::Lapsed => None,
            Grantable::Released => Some(Report::Release(Ran::No)),
            Grantable::Expired => Some(Report::Settle(ok("old"), DAY)),
        };
        if let Some(report) = report {
            store.report(id, epoch, report, vec![]).await.unwrap();
        }
        clock.advance(Duration::from_secs(86_400));
        let application = process_of(&client).await;
        let tx = client.transaction().await.unwrap();
        tx.query("SELECT FROM hapax.claims FOR UPDATE", &[]).await.unwrap();
        let told = beside(&database, application, store.claim(safe())).await;
        assert_eq!(told.map_err(|error| error.kind()), Err(Kind::Unavailable), "{left:?}");
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.claim(safe()).await }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waiting.is_finished(), "{left:?}");
        tx.rollback().await.unwrap();
        let told = timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
        assert!(matches!(told, Verdict::Granted(_)), "{left:?}: {told:?}");
    }
}

#[tokio::test]
async fn waiters_hear_of_the_applications_commit_l9() {
    let database = Database::fresh().await;
    let mut client = shop(&database).await;
    let store = open(&database, by_hand()).await;
    let waiter = open(&database, Options { poll: false, ..by_hand() }).await;
    let (id, epoch) = hold(&store, "k").await;
    let mut watch = waiter.watch(id);
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Held { .. })));
    // The beginning of a watch wakes, too; what counts is the commit.
    while timeout(Duration::from_millis(300), watch.changed()).await.is_ok() {}
    let tx = client.transaction().await.unwrap();
    guard(&tx, id, epoch, &ok("paid"), DAY).await.unwrap();
    tx.commit().await.unwrap();
    timeout(SOON, watch.changed()).await.expect("woken");
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Settled(_))));
}

#[tokio::test]
async fn a_watch_that_begins_while_the_application_has_the_claim_locked_still_wakes_l9() {
    let database = Database::fresh().await;
    let mut client = shop(&database).await;
    let store = open(&database, by_hand()).await;
    let waiter = open(&database, Options { poll: false, ..by_hand() }).await;
    let (id, epoch) = hold(&store, "k").await;
    let tx = client.transaction().await.unwrap();
    guard(&tx, id, epoch, &ok("paid"), DAY).await.unwrap();
    let mut watch = waiter.watch(id);
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Held { .. })));
    tokio::time::sleep(Duration::from_millis(50)).await;
    tx.commit().await.unwrap();
    let woken = timeout(SOON, async {
        while !matches!(waiter.peek(id).await.unwrap(), Some(View::Settled(_))) {
            watch.changed().await;
        }
    });
    woken.await.expect("woken");
}
