//! How an embedded store finds claims: by notes at first, by its index later.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use hapax_core::claim::Verb;
use hapax_core::{Decision, Filter, Inspect as _, Kind, Ledger as _, Retention, Verdict};
use hapax_sqlite::Embedded;
use hapax_store::Options;
use hapax_store::conformance::{DAY, granted, ok};
use hapax_testkit::clock::VirtualClock;

use crate::history::{live_through, sizes};
use crate::shared::{
    ask, fill, frozen, merge_soon, outcome_of, part, play, retried, runtime, settle, settle_until_killed,
};

#[tokio::test]
async fn a_claim_is_found_whether_the_index_knows_it_or_only_a_note_does() {
    // L1, B8: by its key, by its public id, by a reader beside the writer, and after reopening.
    let folder = tempfile::tempdir().unwrap();
    merge_soon();
    let options = || Options { table_entries: 0, ..Options::default() };
    let mut store = Embedded::open(folder.path(), options()).unwrap();
    for round in 0..3 {
        fill(&store, round * 100..(round + 1) * 100).await;
        let (entries, notes) = sizes(folder.path());
        assert!(entries > 50 && entries < (round as i64 + 1) * 100 && notes < 8 * 8, "{entries}, {notes}");
        let beside = Embedded::open_read_only(folder.path()).unwrap();
        for number in 0..(round + 1) * 100 {
            let key = format!("key-{number}");
            assert_eq!(retried(&store, &key).await, Ok(outcome_of(&key)));
            let record = beside.record(ask(&key).identity.claim_id()).await.unwrap().unwrap();
            let found = store.find(record.claim.operation_id).await.unwrap().unwrap();
            assert_eq!(found.identity, ask(&key).identity);
        }
        assert_eq!(store.verify().await.unwrap(), beside.verify().await.unwrap());
        assert!(store.verify().await.unwrap().is_sound());
        drop((store, beside));
        store = Embedded::open(folder.path(), options()).unwrap();
    }
}

#[tokio::test]
async fn what_is_swept_is_not_found_again_whether_the_index_knew_it_or_not() {
    // L10: a key whose claim is gone is granted anew, once.
    let folder = tempfile::tempdir().unwrap();
    merge_soon();
    let clock = VirtualClock::new();
    let mut store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    let minute = Retention::For(Duration::from_secs(60));
    for number in 0..60 {
        settle(&store, &format!("key-{number}"), ok("one"), if number % 3 == 0 { DAY } else { minute }).await;
    }
    clock.advance(Duration::from_secs(60));
    assert_eq!(store.sweep(1_000).await.unwrap().forgotten, 40);
    for reopened in [false, true] {
        if reopened {
            drop(store);
            store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
        }
        assert!(store.verify().await.unwrap().is_sound());
        for number in 0..60 {
            let found = store.record(ask(&format!("key-{number}")).identity.claim_id()).await.unwrap();
            assert_eq!(found.is_some(), number % 3 == 0, "{number}");
        }
    }
    for number in (0..60).filter(|number| number % 3 != 0) {
        let key = format!("key-{number}");
        granted(&store, &ask(&key)).await;
        assert!(!matches!(store.claim(ask(&key)).await.unwrap(), Verdict::Granted(_)));
    }
    let counts = store.count(&Filter::default()).await.unwrap();
    assert_eq!((counts.held, counts.settled), (40, 20));
    assert!(store.verify().await.unwrap().is_sound());
}

#[test]
fn a_process_that_is_killed_between_two_merges_loses_no_claim_and_finds_none_twice() {
    // L1, L3: several lives of one store, each killed while it merges.
    if let Some(folder) = part() {
        merge_soon();
        let store = Embedded::open(folder, Options::default()).unwrap();
        settle_until_killed(&store, &format!("key-{}", std::process::id()));
    }
    let folder = tempfile::tempdir().unwrap();
    let this = "finding::a_process_that_is_killed_between_two_merges_loses_no_claim_and_finds_none_twice";
    let mut told: Vec<String> = Vec::new();
    for life in 1..=4 {
        let mut child = play(this, folder.path(), "").spawn().unwrap();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            // The harness writes its own words in front of the first line.
            if let Some((_, key)) = line.unwrap().split_once("settled ") {
                told.push(key.to_owned());
            }
            if told.len() == life * 150 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    merge_soon();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    let (entries, _) = sizes(folder.path());
    assert!(entries > 100, "{entries}");
    runtime().block_on(async {
        assert!(store.verify().await.unwrap().is_sound());
        for key in &told {
            assert_eq!(retried(&store, key).await, Ok(outcome_of(key)));
        }
    });
}

#[tokio::test]
async fn a_store_that_has_lost_notes_is_refused() {
    // B8, L1: a claim that only a lost note knew could be granted again.
    for damage in [
        "DELETE FROM recent",
        "UPDATE recent SET notes = substr(notes, 1, 16)",
        "UPDATE recent SET notes = zeroblob(length(notes))",
        "UPDATE store SET recent_to = recent_from",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), Options::default()).unwrap();
        fill(&store, 0..5).await;
        drop(store);
        let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
        database.execute_batch(damage).unwrap();
        drop(database);
        let error = Embedded::open(folder.path(), Options::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{damage}: {error:#}");
        let error =
            async { Embedded::open_read_only(folder.path())?.record(ask("key-1").identity.claim_id()).await };
        assert_eq!(error.await.unwrap_err().kind(), Kind::Corrupt, "{damage}");
    }
}

#[tokio::test]
async fn a_store_whose_index_cannot_be_read_grants_nothing_b8() {
    // Neither the sieve nor a note takes the place of what the index would say.
    let folder = tempfile::tempdir().unwrap();
    merge_soon();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    fill(&store, 0..100).await;
    drop(store);
    let database = folder.path().join("hapax.db");
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'finder'";
    let root: u32 =
        rusqlite::Connection::open(&database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[(root as usize - 1) * 4096..][..4096].fill(0xff);
    std::fs::write(&database, bytes).unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    for number in 0..100 {
        let asked = [ask(&format!("key-{number}")), ask(&format!("new-{number}"))];
        for error in [store.claim(asked[0].clone()).await, store.claim(asked[1].clone()).await] {
            assert_eq!(error.unwrap_err().kind(), Kind::Corrupt);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_claim_is_found_once_and_no_other_whatever_has_happened_l1() {
    live_through(1).await;
}

#[test]
fn whoever_looks_after_a_grant_finds_it_while_others_look_and_purge_l3() {
    // Readers share what they know of the notes, and each has a view of its own.
    let folder = tempfile::tempdir().unwrap();
    merge_soon();
    let store = Embedded::open(folder.path(), Options { table_entries: 0, ..Options::default() }).unwrap();
    runtime().block_on(async {
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..8 {
            let store = store.clone();
            callers.spawn(async move {
                for number in 0..120 {
                    let key = format!("key-{caller}-{number}");
                    let id = ask(&key).identity.claim_id();
                    assert!(store.peek(id).await.unwrap().is_none());
                    let seen = settle(&store, &key, ok("done"), DAY).await;
                    let (peeked, record) = tokio::join!(store.peek(id), store.record(id));
                    assert!(peeked.unwrap().is_some() && record.unwrap().is_some(), "{key}");
                    if number % 3 == 0 {
                        let (actor, reason) = ("ann".into(), "asked".into());
                        let purge = Decision { seen, verb: Verb::Purge, actor, reason };
                        store.decide(id, purge).await.unwrap();
                        let (peeked, record) = tokio::join!(store.peek(id), store.record(id));
                        assert!(peeked.unwrap().is_none() && record.unwrap().is_none(), "{key}");
                    }
                }
            });
        }
        callers.join_all().await;
        assert!(store.verify().await.unwrap().is_sound());
    });
}
