//! Sweeping on PostgreSQL: by itself, and of several processes one at a time (L6, L10).

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{Filter, Inspect as _, Ledger as _, Report, Retention, SweepReport};
use hapax_postgres::Postgres;
use hapax_store::Options;
use hapax_store::conformance::ok;
use hapax_testkit::clock::VirtualClock;
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::postgres::{SOON, by_hand, connect, hold, open};
use crate::server::{Database, until, until_somebody_waits};

#[tokio::test]
async fn what_time_alone_has_changed_shows_without_traffic_l6() {
    let database = Database::fresh().await;
    let options = Options { heartbeat: false, term: Duration::from_secs(2), ..Options::default() };
    let (first, second) = (open(&database, options.clone()).await, open(&database, options).await);
    hold(&first, "lapses").await;
    let swept = timeout(SOON, async {
        while second.count(&Filter::default()).await.unwrap().in_doubt == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    swept.await.expect("the gauge is true without traffic (L6)");
}

/// Leaves an outcome that a sweep takes away.
async fn expire(store: &Postgres, key: &str) {
    let (id, epoch) = hold(store, key).await;
    let at_once = Retention::For(Duration::from_micros(1));
    store.report(id, epoch, Report::Settle(ok("done"), at_once), vec![]).await.unwrap();
}

async fn is_swept(client: &Client) -> bool {
    let sql = "SELECT NOT EXISTS (SELECT FROM hapax.outcomes)";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Returns when a sweeper asks whether it is its turn. What it did before that, it has done.
async fn until_it_comes_by(database: &Database, client: &mut Client) {
    let tx = client.transaction().await.unwrap();
    tx.batch_execute("LOCK TABLE hapax.sweeper IN EXCLUSIVE MODE").await.unwrap();
    until_somebody_waits(database, "hapax.sweeper").await;
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn whoever_does_not_have_the_turn_does_not_sweep_l10() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, connect(database.url()).await);
    // As far ahead as a turn may be.
    let not_over = "UPDATE hapax.sweeper SET until = hapax.clock() + 29 * 1000000::bigint";
    client.batch_execute(not_over).await.unwrap();
    expire(&store, "first").await;
    let _sweeper = open(&database, Options { heartbeat: false, ..Options::default() }).await;
    for _ in 0..3 {
        client.batch_execute(not_over).await.unwrap();
        until_it_comes_by(&database, &mut client).await;
    }
    assert!(!is_swept(&client).await, "it is somebody else's turn");
    client.batch_execute("UPDATE hapax.sweeper SET until = 0").await.unwrap();
    until(async || is_swept(&client).await).await;
    // Its own turn is no reason to wait.
    client.batch_execute(not_over).await.unwrap();
    expire(&store, "second").await;
    until(async || is_swept(&client).await).await;
}

#[tokio::test]
async fn a_turn_from_before_the_clock_was_set_back_is_over_l12() {
    let database = Database::fresh().await;
    let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
    let set_back = "UPDATE hapax.sweeper SET until = hapax.clock() + 3600 * 1000000::bigint";
    client.batch_execute(set_back).await.unwrap();
    expire(&store, "k").await;
    let _sweeper = open(&database, Options { heartbeat: false, ..Options::default() }).await;
    until(async || is_swept(&client).await).await;
}

#[tokio::test]
async fn a_claim_that_cannot_be_visited_keeps_the_sweeper_from_no_other_l6_l10() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let options = Options { clock: Some(Arc::new(clock.clone())), ..by_hand() };
    let (store, mut client) = (open(&database, options).await, connect(database.url()).await);
    let (broken, locked) = (hold(&store, "broken").await.0, hold(&store, "locked").await.0);
    hold(&store, "lapses").await;
    expire(&store, "expires").await;
    // Whatever the order is in which they are visited.
    let spoil = "UPDATE hapax.claims SET terms = '\\x' WHERE digest = $1";
    client.execute(spoil, &[&&broken.as_bytes()[..]]).await.unwrap();
    clock.advance(store.session().term);
    let tx = client.transaction().await.unwrap();
    let lock = "SELECT FROM hapax.claims WHERE digest = $1 FOR UPDATE";
    tx.query(lock, &[&&locked.as_bytes()[..]]).await.unwrap();
    let report = timeout(SOON, store.sweep(500)).await.unwrap().unwrap();
    assert_eq!(report, SweepReport { forgotten: 1, in_doubt: 1, failed: 1, ..SweepReport::default() });
    tx.rollback().await.unwrap();
    let report = store.sweep(500).await.unwrap();
    assert_eq!(report, SweepReport { in_doubt: 1, failed: 1, ..SweepReport::default() });
}
