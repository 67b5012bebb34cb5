//! What an embedded store keeps from one process to the next.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::{Terms, Verb};
use hapax_core::journal::{Append, Author, NewEvent, Status, Stream};
use hapax_core::lane::{LaneAnswer, LaneId};
use hapax_core::registry::DocumentId;
use hapax_core::{
    AttemptId, Claim, Counts, Decision, Ending, Filter, Inspect as _, Journal as _, Kind, Lanes as _,
    Leases as _, Ledger as _, Operated, Outcome, Project, Registry as _, Report, Rerun, Retention, Scope,
    StateName, Tenant, Verdict, View, Watch as _,
};
use hapax_sqlite::Embedded;
use hapax_store::conformance::{DAY, granted, ok, request};
use hapax_store::{Lifecycle as _, Options, limits};
use hapax_testkit::clock::VirtualClock;

use crate::shared::{
    ask, fill, frozen, outcome_of, part, play, retried, runtime, settle, settle_until_killed, snapshot,
};

fn lane() -> LaneId {
    LaneId {
        tenant: Tenant::new("acme").unwrap(),
        project: Project::new("prod").unwrap(),
        entity: "order:7".into(),
    }
}

#[tokio::test]
async fn claims_outcomes_journals_documents_and_the_audit_are_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::new();
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    fill(&store, 0..50).await;
    let stream = Stream::new("receipts/acme").unwrap();
    let mut append = Append::new(stream.clone(), Author::Anyone { version: None });
    append.events = vec![NewEvent::new("A", "{}")];
    (append.status, append.checkpoint) = (Some(Status::Running), Some(Bytes::from_static(b"state")));
    let head = store.append(append).await.unwrap();
    let document = DocumentId::new("api-key", "k1").unwrap();
    store.put(&document, 0, Bytes::from_static(b"one")).await.unwrap();
    let epoch = settle(&store, "reopened", ok("old"), DAY).await;
    let decision = Decision { seen: epoch, verb: Verb::Reopen, actor: "ann".into(), reason: "wrong".into() };
    let done = store.decide(ask("reopened").identity.claim_id(), decision).await.unwrap();
    assert!(matches!(done, Operated::Done(Some(_))));
    let audit = store.audit(None, 10).await.unwrap();
    let (listed, counted) = (list_all(&store).await, store.count(&Filter::default()).await.unwrap());
    assert_eq!(counted, Counts { settled: 50, released: 1, ..Counts::default() });
    store.close().await.unwrap();
    assert_eq!(store.peek(ask("key-0").identity.claim_id()).await.unwrap_err().kind(), Kind::Unavailable);

    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    for number in 0..50 {
        let key = format!("key-{number}");
        assert_eq!(retried(&store, &key).await, Ok(outcome_of(&key)));
    }
    assert_eq!(store.head(&stream).await.unwrap(), Some(head));
    assert_eq!(store.read(&stream, 0, 10).await.unwrap().len(), 1);
    assert_eq!(store.get(&document).await.unwrap().map(|found| found.version), Some(1));
    assert_eq!(store.audit(None, 10).await.unwrap(), audit);
    assert_eq!(list_all(&store).await, listed);
    assert_eq!(store.count(&Filter::default()).await.unwrap(), counted);
    let found = store.verify().await.unwrap();
    assert!(found.is_sound(), "{found:?}");
}

async fn list_all(store: &Embedded) -> Vec<Claim> {
    let page = store.list(&Filter::default(), None, 1000).await.unwrap();
    page.items.into_iter().map(|record| record.claim).collect()
}

#[tokio::test]
async fn opening_for_writing_ends_what_former_processes_held_b6() {
    // B6, L6.
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::new();
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    let safe = Terms { rerun: Rerun::Safe, ..Terms::default() };
    let quiet = Terms { quiet: Duration::from_secs(30), ..safe.clone() };
    granted(&store, &ask("unsafe")).await;
    granted(&store, &request("safe", "body", safe.clone())).await;
    granted(&store, &request("quiet", "body", quiet.clone())).await;
    store.enter(&lane(), AttemptId::from_bytes([1; 16]), None).await.unwrap();
    let former = store.session().id;
    drop(store);

    clock.advance(Duration::from_secs(1));
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    assert!(store.session().id > former);
    assert!(matches!(store.claim(ask("unsafe")).await.unwrap(), Verdict::InDoubt { .. }));
    let again = store.claim(request("safe", "body", safe)).await.unwrap();
    assert!(matches!(again, Verdict::Granted(_)), "{again:?}");
    let soon = store.claim(request("quiet", "body", quiet.clone())).await.unwrap();
    assert!(matches!(soon, Verdict::Held { .. }), "{soon:?}");
    let served = store.enter(&lane(), AttemptId::from_bytes([2; 16]), None).await.unwrap();
    assert_eq!(served, LaneAnswer::Served, "a ticket of a former session is skipped");
    clock.advance(Duration::from_secs(30));
    let later = store.claim(request("quiet", "body", quiet)).await.unwrap();
    assert!(matches!(later, Verdict::Granted(_)), "{later:?}");
}

#[tokio::test]
async fn opening_for_writing_ends_the_session_of_a_process_that_was_killed() {
    // B6, L6: nobody has said good-bye, and by its own term the session would live on.
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::new();
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    granted(&store, &ask("held")).await;
    let left = snapshot(folder.path());
    clock.advance(Duration::from_secs(1));
    let next = Embedded::open(left.path(), frozen(&clock)).unwrap();
    assert!(matches!(next.claim(ask("held")).await.unwrap(), Verdict::InDoubt { .. }));
}

#[tokio::test]
async fn a_lease_that_is_not_the_processs_own_goes_on_after_reopening_m1() {
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::new();
    let (minute, scope) = (Duration::from_secs(60), Scope::local());
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    let (lease, lapsed) = (
        store.open_lease(&scope, minute).await.unwrap().id,
        store.open_lease(&scope, minute / 2).await.unwrap().id,
    );
    let request = ask("held");
    let id = request.identity.claim_id();
    let Verdict::Granted(grant) = store.claim_under(lease, request).await.unwrap() else {
        panic!("not granted")
    };
    let own = granted(&store, &ask("own")).await;
    store.close().await.unwrap();
    clock.advance(minute / 2);
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    assert!(matches!(store.peek(id).await.unwrap(), Some(View::Held { .. })));
    let ended = store.peek(ask("own").identity.claim_id()).await.unwrap();
    assert!(matches!(ended, Some(View::InDoubt { .. })), "{ended:?} {own:?}");
    assert_eq!(store.renew_lease(&scope, lapsed).await.unwrap_err().kind(), Kind::LostLease);
    store.renew_lease(&scope, lease).await.unwrap();
    let next = store.open_lease(&scope, minute).await.unwrap().id;
    assert!(next > lease && next > store.session().id, "no id is given out twice");
    clock.advance(minute);
    assert!(matches!(store.peek(id).await.unwrap(), Some(View::InDoubt { .. })));
    let report = Report::Settle(Outcome::Succeeded("late".into()), Retention::Forever);
    assert!(matches!(store.report(id, grant.epoch, report, vec![]).await.unwrap(), Ending::Settled(_)));
}

#[tokio::test]
async fn leases_that_are_over_are_forgotten_unless_they_hold_something_m1_l6() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, minute, scope) = (VirtualClock::new(), Duration::from_secs(60), Scope::local());
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    let quiet = Terms { rerun: Rerun::Safe, quiet: minute, ..Terms::default() };
    let asked = || request("quiet", "body", quiet.clone());
    let lease = store.open_lease(&scope, minute).await.unwrap().id;
    assert!(matches!(store.claim_under(lease, asked()).await.unwrap(), Verdict::Granted(_)));
    clock.advance(minute / 2);
    store.renew_lease(&scope, lease).await.unwrap();
    store.end_lease(&scope, lease).await.unwrap();
    // No sweeper has come by yet.
    for _ in 0..2 {
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..64 {
            let (store, scope) = (store.clone(), scope.clone());
            callers.spawn(async move {
                for _ in 0..limits::LEASES_KNOWN / 64 + 1 {
                    let lease = store.open_lease(&scope, minute).await.unwrap().id;
                    store.end_lease(&scope, lease).await.unwrap();
                }
            });
        }
        callers.join_all().await;
    }
    clock.advance(minute / 2 + Duration::from_secs(1));
    let next = store.claim(asked()).await.unwrap();
    assert!(matches!(next, Verdict::Held { .. }), "it was heard of half a minute ago: {next:?}");
    clock.advance(minute / 2);
    assert!(matches!(store.claim(asked()).await.unwrap(), Verdict::Granted(_)));
    store.close().await.unwrap();
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    let rows: u32 = database.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
    assert!(rows as usize <= limits::LEASES_KNOWN + 2, "{rows}");
}

#[tokio::test]
async fn a_former_session_is_remembered_for_as_long_as_it_holds_something() {
    // L6: quiet counts from the last sign of the session, however many others there were since.
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::new();
    let quiet = Terms { rerun: Rerun::Safe, quiet: Duration::from_secs(30), ..Terms::default() };
    let asked = || request("quiet", "body", quiet.clone());
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    granted(&store, &asked()).await;
    clock.advance(Duration::from_secs(20));
    store.renew_session().await.unwrap();
    drop(store);
    // Thousands of openings later.
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    let much_later =
        "INSERT INTO sessions (id, started_at, last_at, until, ended, crc) VALUES (5000, 0, 0, 0, 1, 0)";
    database.execute(much_later, []).unwrap();
    drop(database);
    for _ in 0..2 {
        drop(Embedded::open(folder.path(), frozen(&clock)).unwrap());
    }
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    clock.advance(Duration::from_secs(20));
    let soon = store.claim(asked()).await.unwrap();
    assert!(matches!(soon, Verdict::Held { .. }), "{soon:?}");
    clock.advance(Duration::from_secs(10));
    granted(&store, &asked()).await;
}

#[tokio::test]
async fn a_lapsed_claim_is_listed_as_what_it_has_become_before_it_is_swept() {
    // L6, L17.
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), frozen(&VirtualClock::new())).unwrap();
    granted(&store, &ask("lapsed")).await;
    drop(store);
    let store = Embedded::open(folder.path(), frozen(&VirtualClock::new())).unwrap();
    let doubts = Filter { state: Some(StateName::InDoubt), ..Filter::default() };
    assert_eq!(store.list(&doubts, None, 10).await.unwrap().items.len(), 1);
    assert_eq!(
        store.count(&Filter::default()).await.unwrap().held,
        1,
        "counts are those of the stored states"
    );
    let swept = store.sweep(10).await.unwrap();
    assert_eq!((swept.in_doubt, swept.more), (1, false));
    assert_eq!(store.count(&Filter::default()).await.unwrap().in_doubt, 1);
}

#[tokio::test]
async fn a_second_opener_is_refused_and_told_which_store() {
    // B8.
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    let refused = Embedded::open(folder.path(), Options::default()).unwrap_err();
    assert_eq!(refused.kind(), Kind::Unavailable);
    assert!(refused.message().contains(folder.path().to_str().unwrap()), "{refused}");
    drop(store);
    Embedded::open(folder.path(), Options::default()).unwrap();
}

#[tokio::test]
async fn a_closed_store_can_be_opened_while_handles_on_it_remain() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    fill(&store, 0..5).await;
    store.close().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(store.claim(ask("key-1")).await.unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(store.count(&Filter::default()).await.unwrap_err().kind(), Kind::Unavailable);
    let again = Embedded::open(folder.path(), Options::default()).unwrap();
    assert_eq!(retried(&again, "key-1").await, Ok(outcome_of("key-1")));
    assert_eq!(store.session().left, Duration::ZERO);
}

#[tokio::test]
async fn a_store_of_a_newer_hapax_is_refused() {
    // B8.
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(folder.path(), Options::default()).unwrap());
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    database.execute_batch("UPDATE store SET oldest_compatible = 7; PRAGMA user_version = 9").unwrap();
    drop(database);
    for error in [
        Embedded::open(folder.path(), Options::default()).unwrap_err(),
        Embedded::open_read_only(folder.path()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.message().contains("newer hapax"), "{error}");
    }
}

#[tokio::test]
async fn an_epoch_is_never_given_out_again() {
    // L4.
    let folder = tempfile::tempdir().unwrap();
    let mut last = None;
    for opening in 0..5 {
        let store = Embedded::open(folder.path(), Options::default()).unwrap();
        for number in 0..3 {
            let epoch = granted(&store, &ask(&format!("{opening}-{number}"))).await.epoch;
            assert!(Some(epoch) > last, "{epoch} after {last:?}");
            last = Some(epoch);
        }
    }
    assert_eq!(Embedded::renew_incarnation(folder.path()).unwrap(), 2);
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    let epoch = granted(&store, &ask("restored")).await.epoch;
    assert_eq!((epoch.incarnation(), Some(epoch) > last), (2, true));
}

#[tokio::test]
async fn a_clock_that_is_set_back_revives_nothing() {
    // L12, within a process and from one process to the next.
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::new();
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    let minute = Retention::For(Duration::from_secs(60));
    settle(&store, "one", ok("one"), minute).await;
    settle(&store, "two", ok("two"), minute).await;
    let start = hapax_core::Clock::now(&clock);
    clock.advance(Duration::from_secs(60));
    // The store has seen, and written, that the minute is over.
    granted(&store, &ask("other")).await;
    clock.set(start);
    assert_eq!(store.peek(ask("one").identity.claim_id()).await.unwrap(), None);
    assert!(matches!(store.claim(ask("one")).await.unwrap(), Verdict::Granted(_)));
    drop(store);
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    assert!(matches!(store.claim(ask("two")).await.unwrap(), Verdict::Granted(_)));
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_was_told() {
    // L3: a child claims and settles, says so, and is killed in the middle of it.
    if let Some(folder) = part() {
        let store = Embedded::open(folder, Options::default()).unwrap();
        settle_until_killed(&store, "key");
    }
    let folder = tempfile::tempdir().unwrap();
    let this = "reopening::a_process_that_is_killed_loses_nothing_that_it_was_told";
    let mut child = play(this, folder.path(), "").spawn().unwrap();
    let mut told = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The harness writes its own words in front of the first line.
        if let Some((_, key)) = line.unwrap().split_once("settled ") {
            told.push(key.to_owned());
        }
        if told.len() == 200 {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(told.len() >= 200);
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    runtime().block_on(async {
        for key in &told {
            assert_eq!(retried(&store, key).await, Ok(outcome_of(key)));
        }
        assert!(store.verify().await.unwrap().is_sound());
    });
}

#[tokio::test]
async fn whoever_watches_is_woken_when_the_lease_ends() {
    // L6: nobody asks and nothing is swept; time alone ends the lease.
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::new();
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    let id = ask("watched").identity.claim_id();
    granted(&store, &ask("watched")).await;
    let mut watch = store.watch(id);
    assert!(matches!(store.peek(id).await.unwrap(), Some(View::Held { .. })));
    // The beginning of a watch wakes once; what counts is the end of the lease.
    while tokio::time::timeout(Duration::from_millis(600), watch.changed()).await.is_ok() {}
    clock.advance(store.session().term);
    tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.unwrap();
    assert!(matches!(store.peek(id).await.unwrap(), Some(View::InDoubt { .. })));
}

#[tokio::test]
async fn the_sweeper_works_through_more_than_one_chunk_by_itself() {
    // L10.
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::new();
    let store = Embedded::open(folder.path(), Options { sweeper: true, ..frozen(&clock) }).unwrap();
    let mut settled = tokio::task::JoinSet::new();
    for number in 0..1300 {
        let store = store.clone();
        settled.spawn(async move { settle(&store, &format!("swept-{number}"), ok("one"), DAY).await });
    }
    settled.join_all().await;
    clock.advance(Duration::from_secs(86_400));
    let swept = async {
        while store.count(&Filter::default()).await.unwrap() != Counts::default() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), swept).await.unwrap();
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    let outcomes: i64 = database.query_row("SELECT count(*) FROM outcomes", [], |row| row.get(0)).unwrap();
    assert_eq!(outcomes, 0, "what belongs to a claim goes with it");
}

#[tokio::test]
async fn an_expired_key_is_opened_again_in_a_new_place() {
    // L10, L17: places on a shelf are in order of opening, so that a listing by age can stop.
    let folder = tempfile::tempdir().unwrap();
    let clock = VirtualClock::new();
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    settle(&store, "again", ok("one"), Retention::For(Duration::from_secs(60))).await;
    settle(&store, "kept", ok("two"), DAY).await;
    clock.advance(Duration::from_secs(60));
    granted(&store, &ask("again")).await;
    let old = Filter { opened_before: Some(hapax_core::Clock::now(&clock)), ..Filter::default() };
    let page = store.list(&old, None, 10).await.unwrap();
    let keys: Vec<&str> = page.items.iter().map(|record| record.identity.key().as_str()).collect();
    assert_eq!(keys, ["kept"]);
    assert_eq!(
        store.count(&Filter::default()).await.unwrap(),
        Counts { held: 1, settled: 1, ..Counts::default() }
    );
    assert!(store.verify().await.unwrap().is_sound());
}

#[tokio::test]
async fn a_report_that_is_sent_again_changes_nothing() {
    // L13: what was carried out once is answered from the record.
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    let asked = ask("twice");
    let first = granted(&store, &asked).await;
    assert_eq!(granted(&store, &asked).await, first, "the same attempt gets the same grant");
    let settle = || Report::Settle(Outcome::NotKept { status: 204 }, DAY);
    let id = asked.identity.claim_id();
    store.report(id, first.epoch, settle(), Vec::new()).await.unwrap();
    let again = store.report(id, first.epoch, settle(), Vec::new()).await.unwrap();
    assert!(matches!(again, hapax_core::Ending::AlreadySettled(_)));
    assert_eq!(store.count(&Filter::default()).await.unwrap(), Counts { settled: 1, ..Counts::default() });
}

#[test]
fn a_store_that_is_not_there_is_made_only_where_that_is_wanted_b1() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("data")] {
        let refused = Embedded::open(&path, Options { create: false, ..Options::default() }).unwrap_err();
        assert_eq!(refused.kind(), hapax_core::Kind::Unavailable);
        assert!(refused.message().contains(&format!("there is no store in {}", path.display())), "{refused}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is made");
    drop(Embedded::open(folder.path(), Options::default()).unwrap());
    drop(Embedded::open(folder.path(), Options { create: false, ..Options::default() }).unwrap());
}

#[test]
fn what_a_store_keeps_is_its_users_alone_b9() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let private = |folder: &std::path::Path| {
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.iter().any(|file| file.ends_with("hapax.db-wal")), "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new/store");
    let store = Embedded::open(&new, Options::default()).unwrap();
    assert_eq!((mode(&new), mode(new.parent().unwrap())), (0o700, 0o700));
    private(&new);
    drop(store);
    // One that an earlier hapax has made, in a folder that its user wants like this.
    let open = std::fs::Permissions::from_mode;
    std::fs::set_permissions(&new, open(0o755)).unwrap();
    std::fs::set_permissions(new.join("hapax.db"), open(0o644)).unwrap();
    std::fs::set_permissions(new.join("hapax.lock"), open(0o644)).unwrap();
    let store = Embedded::open(&new, Options::default()).unwrap();
    assert_eq!(mode(&new), 0o755);
    private(&new);
    drop(store);
}

#[test]
fn a_store_that_was_opened_by_a_relative_path_stays_open_when_its_process_goes_elsewhere_b8() {
    // In a process of its own, because the working directory is the whole process's.
    if part().is_some() {
        return runtime().block_on(async {
            let store = Embedded::open("data", Options::default()).unwrap();
            fill(&store, 0..1).await;
            std::env::set_current_dir("/").unwrap();
            fill(&store, 1..2).await;
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let this =
        "reopening::a_store_that_was_opened_by_a_relative_path_stays_open_when_its_process_goes_elsewhere_b8";
    let output = play(this, folder.path(), "exec 2>&1; cd \"$HAPAX_TEST_PART\" &&").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn a_store_whose_database_is_a_link_to_elsewhere_is_opened_b8() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = || Embedded::open(folder.path(), Options::default()).unwrap();
    let store = open();
    fill(&store, 0..1).await;
    store.close().await.unwrap();
    drop(store);
    for (name, moved) in
        [("hapax.db", "store.db"), ("hapax.db-wal", "store.db-wal"), ("hapax.db-shm", "store.db-shm")]
    {
        // The two beside the database are there or not, as SQLite left them.
        let _ = std::fs::rename(folder.path().join(name), elsewhere.path().join(moved));
    }
    let link = folder.path().join("hapax.db");
    std::os::unix::fs::symlink(elsewhere.path().join("store.db"), link).unwrap();
    for number in 1..3 {
        let store = open();
        fill(&store, number..number + 1).await;
        for key in 0..=number {
            let key = format!("key-{key}");
            assert_eq!(retried(&store, &key).await, Ok(outcome_of(&key)));
        }
        store.close().await.unwrap();
    }
    // Its log is where the database is.
    let store = open();
    std::fs::remove_file(elsewhere.path().join("store.db-wal")).unwrap();
    let error = store.claim(ask("new")).await.unwrap_err();
    assert!(error.message().contains("removed or replaced"), "{error:#}");
}
