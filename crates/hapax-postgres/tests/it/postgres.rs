//! The PostgreSQL store as several processes share it: waking, forgetting, taking over, listing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_core::{
    ClaimId, Clock as _, Counts, Decision, Ending, Epoch, Filter, Inspect as _, Kind, Ledger as _, Operated,
    Ran, Report, Rerun, Retention, StateName, Terms, Verb, Verdict, View, Watch as _,
};
use hapax_postgres::{Postgres, guard};
use hapax_store::conformance::{DAY, granted, ok, request};
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

use crate::server::Database;

/// Long enough for anything that is meant to happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Options that leave everything to the test.
pub(crate) fn by_hand() -> Options {
    Options { heartbeat: false, sweeper: false, ..Options::default() }
}

/// Opens a store.
pub(crate) async fn open(database: &Database, options: Options) -> Postgres {
    Postgres::open(database.url(), options).await.unwrap()
}

/// A connection of the test's own.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Claims a key and settles it.
pub(crate) async fn settle(store: &Postgres, key: &str, text: &str) -> ClaimId {
    let (id, epoch) = hold(store, key).await;
    let ending = store.report(id, epoch, Report::Settle(ok(text), DAY), vec![]).await.unwrap();
    assert!(matches!(ending, Ending::Settled(_)), "{ending:?}");
    id
}

/// Claims a key.
pub(crate) async fn hold(store: &Postgres, key: &str) -> (ClaimId, Epoch) {
    let request = request(key, "body", Terms::default());
    (request.identity.claim_id(), granted(store, &request).await.epoch)
}

/// Asks for a key like somebody else.
pub(crate) async fn ask(store: &Postgres, key: &str) -> Verdict {
    store.claim(request(key, "body", Terms::default())).await.unwrap()
}

/// The text that a replay brings.
pub(crate) fn replayed(verdict: &Verdict) -> Option<&[u8]> {
    match verdict {
        Verdict::Replay(kept) => match &kept.outcome {
            hapax_core::Outcome::Succeeded(bytes) => Some(bytes),
            _ => None,
        },
        _ => None,
    }
}

fn decision(seen: Epoch, verb: Verb) -> Decision {
    Decision { seen, verb, actor: "ann".into(), reason: "test".into() }
}

#[tokio::test]
async fn what_one_process_settles_another_replays() {
    let database = Database::fresh().await;
    let (first, second) = (open(&database, by_hand()).await, open(&database, by_hand()).await);
    assert_ne!(first.session().id, second.session().id);
    let (id, epoch) = hold(&first, "k").await;
    assert!(matches!(ask(&second, "k").await, Verdict::Held { .. }));
    first.report(id, epoch, Report::Settle(ok("paid"), DAY), vec![]).await.unwrap();
    assert_eq!(replayed(&ask(&second, "k").await), Some(&b"paid"[..]));
}

#[tokio::test]
async fn a_lapsed_claim_is_taken_over_under_a_larger_epoch_l6() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let options = Options { clock: Some(Arc::new(clock.clone())), ..by_hand() };
    let (first, second) = (open(&database, options.clone()).await, open(&database, options).await);
    let safe = |key: &str| request(key, "body", Terms { rerun: Rerun::Safe, ..Terms::default() });
    let old = granted(&first, &safe("safe")).await;
    let (doubted, doubted_epoch) = hold(&first, "unsafe").await;
    clock.advance(first.session().term);
    second.renew_session().await.unwrap();
    let new = granted(&second, &safe("safe")).await;
    assert!(new.epoch > old.epoch);
    assert_eq!(new.operation_id, old.operation_id);
    let id = safe("safe").identity.claim_id();
    let late = first.report(id, old.epoch, Report::Settle(ok("late"), DAY), vec![]).await.unwrap();
    assert_eq!(late, Ending::LostLease);
    assert!(matches!(ask(&second, "unsafe").await, Verdict::InDoubt { .. }));
    let true_outcome = Report::Settle(ok("true"), DAY);
    let settled = first.report(doubted, doubted_epoch, true_outcome, vec![]).await.unwrap();
    assert!(matches!(settled, Ending::Settled(_)), "a true outcome is never thrown away (L5): {settled:?}");
}

#[tokio::test]
async fn what_operators_decide_leaves_nothing_behind_l8() {
    let database = Database::fresh().await;
    let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
    let number = async |sql: &str| -> i64 { client.query_one(sql, &[]).await.unwrap().get(0) };
    let purged = settle(&store, "purged", "secret").await;
    let seen = store.record(purged).await.unwrap().unwrap().claim.epoch;
    store.decide(purged, decision(seen, Verb::Purge)).await.unwrap();
    assert_eq!(number("SELECT count(*) FROM hapax.outcomes").await, 0, "a purge destroys the bytes");
    let (doubted, epoch) = hold(&store, "doubted").await;
    store.report(doubted, epoch, Report::Doubt(hapax_core::Doubt::Stated), vec![]).await.unwrap();
    assert_eq!(number("SELECT count(*) FROM hapax.unsettled").await, 1);
    store.decide(doubted, decision(epoch, Verb::Settle(ok("by hand"), DAY))).await.unwrap();
    assert_eq!(number("SELECT count(*) FROM hapax.unsettled").await, 0, "it is not in doubt any more");
    let seen = store.record(doubted).await.unwrap().unwrap().claim.epoch;
    store.decide(doubted, decision(seen, Verb::Erase)).await.unwrap();
    assert_eq!(number("SELECT count(*) FROM hapax.outcomes WHERE bytes IS NOT NULL").await, 0);
    let reopened = settle(&store, "reopened", "secret").await;
    let seen = async || store.record(reopened).await.unwrap().unwrap().claim.epoch;
    store.decide(reopened, decision(seen().await, Verb::Reopen)).await.unwrap();
    let set_aside = "SELECT count(*) FROM hapax.audit WHERE bytes IS NOT NULL";
    assert_eq!(number(set_aside).await, 1);
    store.decide(reopened, decision(seen().await, Verb::Erase)).await.unwrap();
    assert_eq!(number(set_aside).await, 0, "what was set aside is destroyed, too (B9)");
    let leaving = "SELECT count(*) FROM hapax.claims WHERE leaving";
    assert_eq!(number(leaving).await, 0, "memory tables may have what is left of it");
}

#[tokio::test]
async fn a_notification_alone_wakes_a_waiter_that_has_not_read_l9() {
    let database = Database::fresh().await;
    let options = Options { poll: false, ..by_hand() };
    let (runner, waiter) = (open(&database, options.clone()).await, open(&database, options).await);
    let (id, epoch) = hold(&runner, "k").await;
    let mut watch = waiter.watch(id);
    // Past the first wake, which tells that the mark is made.
    timeout(SOON, watch.changed()).await.expect("woken when the mark is made");
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Held { .. })));
    runner.report(id, epoch, Report::Settle(ok("done"), DAY), vec![]).await.unwrap();
    timeout(SOON, watch.changed()).await.expect("woken by the settle");
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Settled(_))));
}

#[tokio::test]
async fn a_release_and_a_doubt_elsewhere_wake_too_l9() {
    let database = Database::fresh().await;
    let options = Options { poll: false, ..by_hand() };
    let (runner, waiter) = (open(&database, options.clone()).await, open(&database, options).await);
    for report in [Report::Release(Ran::No), Report::Doubt(hapax_core::Doubt::Failed)] {
        let (id, epoch) = hold(&runner, &format!("{report:?}").replace(['(', ')'], "")).await;
        let mut watch = waiter.watch(id);
        assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Held { .. })));
        runner.report(id, epoch, report, vec![]).await.unwrap();
        timeout(SOON, watch.changed()).await.expect("woken");
        assert!(!matches!(waiter.peek(id).await.unwrap(), Some(View::Held { .. })));
    }
}

#[tokio::test]
async fn a_watch_wakes_at_lease_end_l6() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let options = Options { clock: Some(Arc::new(clock.clone())), ..by_hand() };
    let (runner, waiter) = (open(&database, options.clone()).await, open(&database, options).await);
    let (id, _) = hold(&runner, "k").await;
    let mut watch = waiter.watch(id);
    assert!(matches!(waiter.peek(id).await.unwrap(), Some(View::Held { .. })));
    clock.advance(runner.session().term);
    let in_doubt = timeout(SOON, async {
        while !matches!(waiter.peek(id).await.unwrap(), Some(View::InDoubt { .. })) {
            watch.changed().await;
        }
    });
    in_doubt.await.expect("woken when the lease ended");
}

#[tokio::test]
async fn what_was_purged_here_is_replayed_nowhere_b7() {
    let database = Database::fresh().await;
    let options = Options { sweeper: false, ..Options::default() };
    let (first, second) = (open(&database, options.clone()).await, open(&database, options).await);
    for round in 0..20 {
        let key = format!("k{round}");
        let id = settle(&first, &key, "old").await;
        second.renew_session().await.unwrap();
        for _ in 0..2 {
            assert_eq!(replayed(&ask(&second, &key).await), Some(&b"old"[..]));
        }
        let epoch = first.record(id).await.unwrap().unwrap().claim.epoch;
        let done = first.decide(id, decision(epoch, Verb::Purge)).await.unwrap();
        assert_eq!(done, Operated::Done(None));
        assert!(matches!(ask(&second, &key).await, Verdict::Granted(_)), "its table must have forgotten");
    }
}

#[tokio::test]
async fn a_purge_waits_out_the_table_of_a_silent_process_b7() {
    let database = Database::fresh().await;
    let first = open(&database, by_hand()).await;
    // It neither listens nor beats: its table answers for two seconds from its last renewal.
    let silent = open(&database, Options { notify: false, ..by_hand() }).await;
    let id = settle(&first, "k", "old").await;
    assert_eq!(replayed(&ask(&silent, "k").await), Some(&b"old"[..]));
    let renewed = Instant::now();
    silent.renew_session().await.unwrap();
    assert_eq!(replayed(&ask(&silent, "k").await), Some(&b"old"[..]));
    let epoch = first.record(id).await.unwrap().unwrap().claim.epoch;
    first.decide(id, decision(epoch, Verb::Erase)).await.unwrap();
    assert!(renewed.elapsed() > Duration::from_millis(1_500), "only after {:?}", renewed.elapsed());
    let Verdict::Replay(kept) = ask(&silent, "k").await else { panic!("the key stays burned") };
    assert_eq!(kept.outcome, hapax_core::Outcome::Erased);
}

#[tokio::test]
async fn a_grant_is_remembered_until_it_is_reported_on_whichever_way_that_goes_b7() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, connect(database.url()).await);
    let settle = || Report::Settle(ok("done"), DAY);
    let doubt = || Report::Doubt(hapax_core::Doubt::Stated);
    // The second of two reports finds that the claim is not held any more.
    let ways = [
        vec![settle()],
        vec![Report::Release(Ran::No), settle()],
        vec![doubt(), settle()],
        vec![Report::Release(Ran::No)],
        vec![doubt()],
    ];
    for (number, reports) in ways.into_iter().enumerate() {
        let (id, epoch) = hold(&store, &format!("k{number}")).await;
        assert_eq!(store.grants_known(), 1);
        for report in reports.clone() {
            store.report(id, epoch, report, vec![]).await.unwrap();
        }
        assert_eq!(store.grants_known(), 0, "after {reports:?}");
    }
    // Settled where this process does not see it: it hears of that when it reports.
    let (id, epoch) = hold(&store, "guarded").await;
    let tx = client.transaction().await.unwrap();
    guard(&tx, id, epoch, &ok("done"), DAY).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(store.grants_known(), 1);
    let ending = store.report(id, epoch, settle(), vec![]).await.unwrap();
    assert!(matches!(ending, Ending::AlreadySettled(_)), "{ending:?}");
    assert_eq!(store.grants_known(), 0);
    // What goes on is remembered.
    let (id, epoch) = hold(&store, "renewed").await;
    store.report(id, epoch, Report::Renew, vec![]).await.unwrap();
    assert_eq!(store.grants_known(), 1);
}

#[tokio::test]
async fn a_table_that_nobody_keeps_valid_does_not_answer_b7() {
    let database = Database::fresh().await;
    let store = open(&database, by_hand()).await;
    settle(&store, "k", "old").await;
    assert_eq!(replayed(&ask(&store, "k").await), Some(&b"old"[..]));
    connect(database.url()).await.batch_execute("DELETE FROM hapax.claims").await.unwrap();
    assert!(matches!(ask(&store, "k").await, Verdict::Granted(_)));
}

#[tokio::test]
async fn a_valid_table_answers_without_the_database_b7() {
    let database = Database::fresh().await;
    let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
    settle(&store, "k", "old").await;
    // For two seconds from here.
    store.renew_session().await.unwrap();
    assert_eq!(replayed(&ask(&store, "k").await), Some(&b"old"[..]));
    client.batch_execute("DELETE FROM hapax.claims").await.unwrap();
    assert_eq!(replayed(&ask(&store, "k").await), Some(&b"old"[..]));
}

#[tokio::test]
async fn what_was_settled_here_is_replayed_without_the_database_b7() {
    let database = Database::fresh().await;
    let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
    store.renew_session().await.unwrap();
    settle(&store, "k", "new").await;
    // What counts is that it was put into the table; that is still good for two seconds from here.
    store.renew_session().await.unwrap();
    client.batch_execute("DELETE FROM hapax.claims").await.unwrap();
    assert_eq!(replayed(&ask(&store, "k").await), Some(&b"new"[..]));
}

#[tokio::test]
async fn a_table_that_could_not_follow_begins_empty_b7() {
    // What it should have forgotten is no longer told: by the time it was silent, or because its session is gone.
    for forgetting in ["hapax.invalidations", "hapax.invalidations, hapax.sessions"] {
        let database = Database::fresh().await;
        let deaf = Options { notify: false, ..by_hand() };
        let (silent, other) = (open(&database, deaf).await, open(&database, by_hand()).await);
        silent.renew_session().await.unwrap();
        let id = settle(&silent, "k", "old").await;
        assert_eq!(replayed(&ask(&silent, "k").await), Some(&b"old"[..]));
        let seen = other.record(id).await.unwrap().unwrap().claim.epoch;
        let client = connect(database.url()).await;
        if forgetting.contains("sessions") {
            client.batch_execute("UPDATE hapax.sessions SET table_until = 0").await.unwrap();
        }
        other.decide(id, decision(seen, Verb::Purge)).await.unwrap();
        for table in forgetting.split(", ") {
            client.batch_execute(&format!("DELETE FROM {table}")).await.unwrap();
        }
        silent.renew_session().await.unwrap();
        let told = ask(&silent, "k").await;
        assert!(matches!(told, Verdict::Granted(_)), "without {forgetting}: {told:?}");
    }
}

#[tokio::test]
async fn a_session_whose_number_belongs_to_somebody_else_begins_anew_l4() {
    // After a restore the number may have been given out again; only the token tells.
    let database = Database::fresh().await;
    let store = open(&database, by_hand()).await;
    let old = store.session().id;
    let theirs = "UPDATE hapax.sessions SET token = gen_random_uuid(), until = 0";
    let client = connect(database.url()).await;
    client.batch_execute(theirs).await.unwrap();
    store.renew_session().await.unwrap();
    assert_ne!(store.session().id, old);
    let sql = "SELECT count(*) FROM hapax.sessions WHERE until = 0";
    let untouched: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(untouched, 1, "somebody else's session is not renewed");
}

#[tokio::test]
async fn a_session_whose_row_is_gone_begins_anew_l4() {
    let database = Database::fresh().await;
    let store = open(&database, by_hand()).await;
    let (id, epoch) = hold(&store, "k").await;
    let old = store.session();
    connect(database.url()).await.batch_execute("DELETE FROM hapax.sessions").await.unwrap();
    store.renew_session().await.unwrap();
    assert_ne!(store.session().id, old.id);
    assert!(matches!(store.peek(id).await.unwrap(), Some(View::InDoubt { .. })), "what it held has lapsed");
    let late = store.report(id, epoch, Report::Settle(ok("true"), DAY), vec![]).await.unwrap();
    assert!(matches!(late, Ending::Settled(_)));
}

#[tokio::test]
async fn a_closed_store_has_let_go_of_everything_l4() {
    let database = Database::fresh().await;
    let (first, second) = (open(&database, by_hand()).await, open(&database, by_hand()).await);
    hold(&first, "k").await;
    first.close().await.unwrap();
    assert!(matches!(ask(&second, "k").await, Verdict::InDoubt { .. }));
    let error = first.claim(request("k", "body", Terms::default())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
}

#[tokio::test]
async fn an_outcome_that_was_tampered_with_is_not_handed_out_b8() {
    let database = Database::fresh().await;
    let store = open(&database, by_hand()).await;
    settle(&store, "bad", "paid 10").await;
    settle(&store, "good", "paid 10").await;
    let tamper = "UPDATE hapax.outcomes SET bytes = 'paid 99' \
                  WHERE digest = (SELECT digest FROM hapax.claims ORDER BY epoch LIMIT 1)";
    connect(database.url()).await.batch_execute(tamper).await.unwrap();
    let error = store.claim(request("bad", "body", Terms::default())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert_eq!(replayed(&ask(&store, "good").await), Some(&b"paid 10"[..]), "others are not touched by it");
}

#[tokio::test]
async fn a_thousand_claims_at_once_share_commits_b3() {
    let database = Database::fresh().await;
    let store = open(&database, by_hand()).await;
    let client = connect(database.url()).await;
    let commits = async || -> i64 {
        let sql = "SELECT count(*) FROM hapax.tally";
        client.query_one(sql, &[]).await.unwrap().get(0)
    };
    let mut callers = JoinSet::new();
    for number in 0..1_000 {
        let store = store.clone();
        callers.spawn(async move { settle(&store, &format!("k{number}"), "done").await });
    }
    callers.join_all().await;
    let batches = commits().await;
    assert!(
        batches < 1_000,
        "2,000 commands of one shelf left {batches} rows in the tally, one for each commit"
    );
}

#[tokio::test]
async fn plans_made_on_empty_tables_stay_good() {
    let database = Database::fresh().await;
    let store = open(&database, Options { table_entries: 0, ..by_hand() }).await;
    let client = connect(database.url()).await;
    let burst = async |name: &'static str| {
        let mut callers = JoinSet::new();
        for number in 0..64 {
            let store = store.clone();
            callers.spawn(async move {
                let key = format!("{name}{number}");
                settle(&store, &key, "done").await;
                assert!(replayed(&ask(&store, &key).await).is_some());
            });
        }
        callers.join_all().await;
    };
    burst("empty").await;
    let grow = "INSERT INTO hapax.claims SELECT sha256(int8send(n)), n, 0, 0, 0, 9e18::bigint, 1, 1, 'S', 'h', 'n', \
                    false, false, gen_random_uuid(), gen_random_uuid(), '\\x00', '\\x00', '\\x00', NULL \
                FROM generate_series(1, 20000) n; \
                INSERT INTO hapax.outcomes SELECT 9e18::bigint, n, sha256(int8send(n)), 'N', 201, 0, NULL \
                FROM generate_series(1, 20000) n; \
                INSERT INTO hapax.sessions (token, opened_at, last, until, acked, table_until) \
                SELECT gen_random_uuid(), 0, 0, 0, 0, 0 FROM generate_series(1, 5000)";
    client.batch_execute(grow).await.unwrap();
    let seq_reads = async || -> i64 {
        let sql = "SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables \
                   WHERE schemaname = 'hapax' AND relname IN ('claims', 'outcomes', 'sessions')";
        // What was counted is told when a backend is idle for a while.
        tokio::time::sleep(Duration::from_secs(2)).await;
        client.query_one(sql, &[]).await.unwrap().get(0)
    };
    let before = seq_reads().await;
    burst("full").await;
    let after = seq_reads().await;
    assert!(after - before < 20_000, "{} rows were read by sequential scans", after - before);
}

/// Everything that a listing gives, page by page.
async fn list_all(store: &Postgres, filter: &Filter, limit: usize) -> Vec<String> {
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(filter, after.as_deref(), limit).await.unwrap();
        assert!(page.items.len() <= limit);
        keys.extend(page.items.iter().map(|record| record.identity.key().as_str().to_owned()));
        after = page.next;
        if after.is_none() {
            keys.sort();
            return keys;
        }
    }
}

#[tokio::test]
async fn lists_and_counts_are_the_same_before_and_after_the_sweeper_has_met_the_claims_l17() {
    let database = Database::fresh().await;
    let store = open(&database, by_hand()).await;
    for number in 0..7 {
        settle(&store, &format!("settled{number}"), "x").await;
        hold(&store, &format!("held{number}")).await;
        let (id, epoch) = hold(&store, &format!("released{number}")).await;
        store.report(id, epoch, Report::Release(Ran::No), vec![]).await.unwrap();
        let (id, epoch) = hold(&store, &format!("in_doubt{number}")).await;
        store.report(id, epoch, Report::Doubt(hapax_core::Doubt::Stated), vec![]).await.unwrap();
    }
    let operation = Some("conformance.op".to_owned());
    for _ in 0..2 {
        for state in StateName::ALL {
            let filter = Filter { state: Some(state), ..Filter::default() };
            let expected: Vec<String> = (0..7).map(|number| format!("{}{number}", state.as_str())).collect();
            assert_eq!(list_all(&store, &filter, 3).await, expected);
            let filter = Filter { operation: operation.clone(), ..filter };
            assert_eq!(list_all(&store, &filter, 100).await, expected);
            let elsewhere = Filter { tenant: Some("nobody".into()), ..filter };
            assert_eq!(list_all(&store, &elsewhere, 3).await, Vec::<String>::new());
        }
        assert_eq!(list_all(&store, &Filter::default(), 5).await.len(), 28);
        let counts = Counts { held: 7, settled: 7, in_doubt: 7, released: 7 };
        assert_eq!(store.count(&Filter::default()).await.unwrap(), counts);
        let filter = Filter { operation: operation.clone(), ..Filter::default() };
        assert_eq!(store.count(&filter).await.unwrap(), counts);
        store.sweep(100).await.unwrap();
    }
    let client = connect(database.url()).await;
    let left: i64 = client.query_one("SELECT count(*) FROM hapax.tally", &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "the second time the sweeper had folded everything");
}

#[tokio::test]
async fn what_is_due_is_swept_in_chunks_l10() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let options = Options { clock: Some(Arc::new(clock.clone())), ..by_hand() };
    let store = open(&database, options).await;
    for number in 0..10 {
        let (id, epoch) = hold(&store, &format!("s{number}")).await;
        let short = Report::Settle(ok("x"), Retention::For(Duration::from_secs(60)));
        store.report(id, epoch, short, vec![]).await.unwrap();
        hold(&store, &format!("h{number}")).await;
    }
    settle(&store, "kept", "x").await;
    clock.advance(Duration::from_secs(61));
    let (mut forgotten, mut in_doubt, mut rounds) = (0, 0, 0);
    loop {
        let report = store.sweep(4).await.unwrap();
        assert!(report.forgotten + report.in_doubt <= 4);
        (forgotten, in_doubt, rounds) =
            (forgotten + report.forgotten, in_doubt + report.in_doubt, rounds + 1);
        if !report.more {
            break;
        }
    }
    assert_eq!((forgotten, in_doubt), (10, 10), "after {rounds} rounds");
    let counts = store.count(&Filter::default()).await.unwrap();
    assert_eq!(counts, Counts { settled: 1, in_doubt: 10, ..Counts::default() });
    assert!(clock.now() > hapax_core::Timestamp::ZERO);
    let client = connect(database.url()).await;
    let outcomes: i64 = client.query_one("SELECT count(*) FROM hapax.outcomes", &[]).await.unwrap().get(0);
    assert_eq!(outcomes, 1);
}
