//! The server's clock is set forward or back while processes share a PostgreSQL store (L12).

use std::sync::Arc;
use std::time::Duration;

use hapax_core::lane::{LaneAnswer, LaneId};
use hapax_core::{
    AttemptId, Clock as _, Decision, Ending, Filter, Inspect as _, Lanes as _, Leases as _, Ledger as _,
    Operated, Project, Report, Rerun, Scope, StateName, SweepReport, Tenant, Terms, Timestamp, Verb, Verdict,
    View,
};
use hapax_postgres::{Postgres, limits};
use hapax_store::conformance::{DAY, granted, ok, request};
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::postgres::{ask, by_hand, connect, hold, open, replayed, settle};
use crate::server::{Database, until};

const SECOND: Duration = Duration::from_secs(1);

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap()
}

async fn on(database: &Database, clock: &VirtualClock) -> Postgres {
    open(database, Options { clock: Some(Arc::new(clock.clone())), ..by_hand() }).await
}

/// Sets the clock that the server's functions go by.
async fn set_server_forward(client: &Client, by: Duration) {
    let sql = format!(
        "CREATE OR REPLACE FUNCTION hapax.clock() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE \
         RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {}::bigint",
        micros(by)
    );
    client.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn a_clock_that_is_set_forward_takes_nothing_from_a_living_holder_l12() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let (holder, gone) = (on(&database, &clock).await, on(&database, &clock).await);
    let (judge, beaten) = (on(&database, &clock).await, on(&database, &clock).await);
    let term = holder.session().term;
    let (lapsed, _) = hold(&gone, "lapsed").await;
    clock.advance(term + SECOND);
    for store in [&holder, &judge, &beaten] {
        store.renew_session().await.unwrap();
    }
    let terms = |rerun| Terms { rerun, quiet: 2 * SECOND, ..Terms::default() };
    let asks = [Rerun::Safe, Rerun::Unsafe].map(|rerun| request(&format!("{rerun:?}"), "body", terms(rerun)));
    let mut held = Vec::new();
    for ask in &asks {
        held.push((ask.identity.claim_id(), granted(&holder, ask).await.epoch));
    }
    let lane = LaneId {
        tenant: Tenant::new("acme").unwrap(),
        project: Project::new("shop").unwrap(),
        entity: "account 1".into(),
    };
    let ticket = AttemptId::random();
    holder.enter(&lane, ticket, None).await.unwrap();
    // A place in which nothing has begun ends by the clock; one in which something runs lasts as long as that may.
    assert_eq!(holder.begin(&lane, ticket, "hold", 3_600 * SECOND).await.unwrap(), LaneAnswer::Served);
    clock.advance(SECOND);
    clock.set(clock.now().after(4 * term));
    // One hears of it when it judges, the other when it renews itself.
    beaten.renew_session().await.unwrap();
    for store in [&judge, &beaten] {
        for (ask, (id, _)) in asks.iter().zip(&held) {
            assert!(matches!(store.peek(*id).await.unwrap(), Some(View::Held { .. })), "{ask:?}");
            let again = request(ask.identity.key().as_str(), "body", ask.terms.clone());
            let told = store.claim(again).await.unwrap();
            assert!(matches!(told, Verdict::Held { .. }), "{told:?}");
        }
        let entered = store.enter(&lane, AttemptId::random(), None).await.unwrap();
        assert!(matches!(entered, LaneAnswer::Waiting { .. }), "{entered:?}");
        let seen = store.peek(lapsed).await.unwrap();
        assert!(matches!(seen, Some(View::InDoubt { .. })), "what had lapsed is not revived: {seen:?}");
        store.sweep(100).await.unwrap();
        let listed = Filter { state: Some(StateName::Held), ..Filter::default() };
        assert_eq!(store.list(&listed, None, 10).await.unwrap().items.len(), 2);
    }
    // Its next beat comes, and everything is as before.
    holder.renew_session().await.unwrap();
    clock.advance(term - SECOND);
    let settle = Report::Settle(ok("done"), DAY);
    let ending = holder.report(held[0].0, held[0].1, settle, Vec::new()).await.unwrap();
    assert!(matches!(ending, Ending::Settled(_)), "{ending:?}");
    assert!(matches!(judge.peek(held[1].0).await.unwrap(), Some(View::Held { .. })));
    clock.advance(SECOND);
    assert!(matches!(judge.peek(held[1].0).await.unwrap(), Some(View::InDoubt { .. })));
}

#[tokio::test]
async fn a_holder_that_dies_when_the_clock_is_set_forward_lapses_within_a_term_l12() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let (holder, judge) = (on(&database, &clock).await, on(&database, &clock).await);
    let term = holder.session().term;
    let (id, _) = hold(&holder, "k").await;
    clock.advance(term / 2);
    for _ in 0..2 {
        clock.set(clock.now().after(10 * term));
        assert!(matches!(ask(&judge, "k").await, Verdict::Held { .. }), "half of its term is left");
    }
    // Nobody renews anything: what was seen once is not seen again and again.
    for _ in 0..9 {
        clock.advance(term / 10);
        judge.peek(id).await.unwrap();
    }
    clock.advance(term / 10);
    assert!(matches!(ask(&judge, "k").await, Verdict::InDoubt { .. }));
}

#[tokio::test]
async fn a_holder_that_died_before_the_clock_was_set_back_lapses_after_a_term_l12() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let (dead, living) = (on(&database, &clock).await, on(&database, &clock).await);
    let (sweeping, client) = (on(&database, &clock).await, connect(database.url()).await);
    let term = dead.session().term;
    // It was ahead for a while, and that was seen.
    clock.set(clock.now().after(10 * term));
    for store in [&dead, &living, &sweeping] {
        store.renew_session().await.unwrap();
    }
    hold(&dead, "dead").await;
    hold(&living, "living").await;
    clock.set(Timestamp::from_micros(clock.now().as_micros() - micros(20 * term)));
    let none = SweepReport::default();
    assert_eq!(sweeping.sweep(100).await.unwrap(), none);
    clock.advance(term / 2);
    living.renew_session().await.unwrap();
    sweeping.renew_session().await.unwrap();
    clock.advance(term / 2 - SECOND);
    assert_eq!(sweeping.sweep(100).await.unwrap(), none);
    assert!(matches!(ask(&sweeping, "dead").await, Verdict::Held { .. }), "a second of its term may be left");
    clock.advance(SECOND);
    let report = sweeping.sweep(100).await.unwrap();
    assert_eq!(report.in_doubt, 1, "it shows without traffic (L6): {report:?}");
    assert!(matches!(ask(&sweeping, "dead").await, Verdict::InDoubt { .. }));
    assert!(matches!(ask(&sweeping, "living").await, Verdict::Held { .. }));
    let ahead = "SELECT count(*) FROM hapax.sessions WHERE last > $1";
    let ahead: i64 = client.query_one(ahead, &[&clock.now().as_micros()]).await.unwrap().get(0);
    assert_eq!(ahead, 0);
}

#[tokio::test]
async fn what_was_granted_before_the_clock_was_set_back_is_swept_when_its_holder_dies_later_l6_l12() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let (holder, sweeping) = (on(&database, &clock).await, on(&database, &clock).await);
    let term = holder.session().term;
    let renew = async || {
        for store in [&holder, &sweeping] {
            store.renew_session().await.unwrap();
        }
    };
    clock.set(clock.now().after(10 * term));
    renew().await;
    hold(&holder, "k").await;
    clock.set(Timestamp::from_micros(clock.now().as_micros() - micros(10 * term)));
    clock.advance(SECOND);
    renew().await;
    assert_eq!(sweeping.sweep(100).await.unwrap(), SweepReport::default(), "its holder lives");
    clock.advance(term);
    let report = sweeping.sweep(100).await.unwrap();
    assert_eq!(report.in_doubt, 1, "it shows without traffic (L6): {report:?}");
}

#[tokio::test]
async fn a_living_session_is_not_forgotten_when_the_clock_is_set_forward_by_days_l4_l12() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let (holder, _dead) = (on(&database, &clock).await, on(&database, &clock).await);
    let (sweeping, client) = (on(&database, &clock).await, connect(database.url()).await);
    let (term, days) = (holder.session().term, Duration::from_secs(8 * 24 * 60 * 60));
    clock.set(clock.now().after(days));
    set_server_forward(&client, days).await;
    sweeping.renew_session().await.unwrap();
    sweeping.sweep(100).await.unwrap();
    // Its next beat is yet to come.
    hold(&holder, "k").await;
    let told = ask(&sweeping, "k").await;
    assert!(matches!(told, Verdict::Held { .. }), "its holder lives: {told:?}");
    clock.advance(term - SECOND);
    holder.renew_session().await.unwrap();
    sweeping.sweep(100).await.unwrap();
    let sessions = async || -> i64 {
        client.query_one("SELECT count(*) FROM hapax.sessions", &[]).await.unwrap().get(0)
    };
    assert_eq!(sessions().await, 3, "a second of each term may be left");
    clock.advance(SECOND);
    sweeping.sweep(100).await.unwrap();
    assert_eq!(sessions().await, 2, "who has been silent for a term is dead");
    assert!(matches!(ask(&sweeping, "k").await, Verdict::Held { .. }));
}

#[tokio::test]
async fn the_rows_of_leases_that_are_over_go_with_the_next_sweeps_m1() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let (store, client) = (on(&database, &clock).await, connect(database.url()).await);
    let (scope, minute) = (Scope::local(), Duration::from_secs(60));
    let ended = store.open_lease(&scope, 60 * minute).await.unwrap().id;
    store.end_lease(&scope, ended).await.unwrap();
    let lapsed = store.open_lease(&scope, minute).await.unwrap().id;
    let open = store.open_lease(&scope, 60 * minute).await.unwrap().id;
    let rows = async || -> Vec<u64> {
        let sql = "SELECT id FROM hapax.sessions WHERE term IS NOT NULL ORDER BY id";
        let rows = client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, i64>(0).cast_unsigned()).collect()
    };
    store.sweep(100).await.unwrap();
    assert_eq!(rows().await, [ended.0, lapsed.0, open.0]);
    clock.advance(limits::LEASE_KEPT + SECOND);
    store.sweep(100).await.unwrap();
    assert_eq!(rows().await, [lapsed.0, open.0]);
    clock.advance(minute);
    store.sweep(100).await.unwrap();
    clock.advance(minute);
    store.sweep(100).await.unwrap();
    assert_eq!(rows().await, [open.0]);
    store.renew_lease(&scope, open).await.unwrap();
}

#[tokio::test]
async fn what_was_purged_leaves_every_table_although_the_clock_is_set_forward_b7_l12() {
    let (database, deaf) = (Database::fresh().await, || Options { notify: false, ..by_hand() });
    let (operator, reader) = (open(&database, deaf()).await, open(&database, deaf()).await);
    let client = connect(database.url()).await;
    let (keys, mut purging, mut purges) = (["first", "second"], JoinSet::new(), Vec::new());
    for key in keys {
        let id = settle(&operator, key, "old").await;
        let seen = operator.record(id).await.unwrap().unwrap().claim.epoch;
        let decision = Decision { seen, verb: Verb::Purge, actor: "ann".into(), reason: "asked to".into() };
        purges.push((id, decision));
    }
    reader.renew_session().await.unwrap();
    for key in keys {
        assert_eq!(replayed(&ask(&reader, key).await), Some(&b"old"[..]));
    }
    for (id, decision) in purges {
        let operator = operator.clone();
        purging.spawn(async move { operator.decide(id, decision).await });
    }
    let told = async |number: i64| -> bool {
        let sql = "SELECT count(*) = $1 FROM hapax.invalidations";
        client.query_one(sql, &[&number]).await.unwrap().get(0)
    };
    until(async || told(2).await).await;
    set_server_forward(&client, 100 * SECOND).await;
    for purged in purging.join_all().await {
        assert_eq!(purged.unwrap(), Operated::Done(None));
    }
    // The sweeper comes by before the other process's next beat, which is in time.
    operator.sweep(100).await.unwrap();
    assert!(!told(2).await, "they seem to be old");
    reader.renew_session().await.unwrap();
    for key in keys {
        let told = ask(&reader, key).await;
        assert!(matches!(told, Verdict::Granted(_)), "{key} was purged: {told:?}");
    }
}
