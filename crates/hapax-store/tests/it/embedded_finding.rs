//! How an embedded store finds claims: by notes at first, by its index later.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use hapax_core::claim::Verb;
use hapax_core::{
    Clock as _, Decision, Epoch, Filter, Inspect as _, Kind, Ledger as _, Report, Retention, Timestamp,
    Verdict,
};
use hapax_store::conformance::random::Random;
use hapax_store::conformance::{DAY, granted, ok};
use hapax_store::embedded::{Embedded, EmbeddedReader};
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;

use crate::embedded::{
    ask, begin_alike, fill, frozen, merge_soon, outcome_of, part, play, retried, runtime, settle,
    settle_until_killed,
};

/// How many entries the index has, and how many notes there are.
fn sizes(folder: &Path) -> (i64, i64) {
    let database = rusqlite::Connection::open(folder.join("hapax.db")).unwrap();
    let sql = "SELECT (SELECT count(*) FROM finder), recent_to - recent_from FROM store";
    database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

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
    let this =
        "embedded_finding::a_process_that_is_killed_between_two_merges_loses_no_claim_and_finds_none_twice";
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

/// Keys in a history.
const KEYS: usize = 300;

/// A store, and what whoever knows its whole history says of each key.
struct History {
    folder: tempfile::TempDir,
    clock: VirtualClock,
    store: Option<Embedded>,
    /// Reads on through everything that is written.
    beside: EmbeddedReader,
    /// The epoch of each key that is kept, and until when it is.
    kept: BTreeMap<usize, (Epoch, Option<Timestamp>)>,
    random: Random,
}

impl History {
    fn new(seed: u64) -> History {
        let (folder, clock) = (tempfile::tempdir().unwrap(), VirtualClock::new());
        let store = Self::open(folder.path(), &clock);
        let beside = Embedded::open_read_only(folder.path()).unwrap();
        let (kept, random) = (BTreeMap::new(), Random::new(seed));
        History { folder, clock, store: Some(store), beside, kept, random }
    }

    /// Without a table in front, so that the index is asked.
    fn open(folder: &Path, clock: &VirtualClock) -> Embedded {
        Embedded::open(folder, Options { table_entries: 0, ..frozen(clock) }).unwrap()
    }

    fn store(&self) -> Embedded {
        self.store.clone().unwrap()
    }

    async fn go_on(&mut self) {
        match self.random.below(16) {
            0..10 => self.use_some().await,
            10..13 => self.purge_one().await,
            13 => self.clock.advance(Duration::from_secs(20)),
            14 => while self.store().sweep(20).await.unwrap().more {},
            _ => {
                self.store.take().unwrap().close().await.unwrap();
                self.store = Some(Self::open(self.folder.path(), &self.clock));
            }
        }
        let now = self.clock.now();
        self.kept.retain(|_, (_, until)| until.is_none_or(|until| now < until));
    }

    /// Several callers at once: what is kept comes back, and what is not is granted.
    async fn use_some(&mut self) {
        let keys: BTreeSet<usize> = (0..=self.random.below(8)).map(|_| self.random.below(KEYS)).collect();
        let mut calls = tokio::task::JoinSet::new();
        for key in keys {
            let (store, retention) = (self.store(), self.random.of(&[Retention::Forever, MINUTE]));
            calls.spawn(async move {
                let request = ask(&key.to_string());
                let Verdict::Granted(grant) = store.claim(request.clone()).await.unwrap() else {
                    return (key, None);
                };
                let report = Report::Settle(ok("done"), retention);
                store.report(request.identity.claim_id(), grant.epoch, report, Vec::new()).await.unwrap();
                (key, Some((grant.epoch, retention)))
            });
        }
        for (key, granted) in calls.join_all().await {
            assert_eq!(granted.is_none(), self.kept.contains_key(&key), "key {key}: {granted:?}");
            if let Some((epoch, retention)) = granted {
                let until = (retention == MINUTE).then(|| self.clock.now().after(Duration::from_secs(60)));
                self.kept.insert(key, (epoch, until));
            }
        }
    }

    async fn purge_one(&mut self) {
        let keys: Vec<usize> = self.kept.keys().copied().collect();
        if keys.is_empty() {
            return;
        }
        let key = self.random.of(&keys);
        let (seen, _) = self.kept.remove(&key).unwrap();
        let decision = Decision { seen, verb: Verb::Purge, actor: "ann".into(), reason: "asked".into() };
        self.store().decide(ask(&key.to_string()).identity.claim_id(), decision).await.unwrap();
    }

    /// Everybody who looks finds what is kept and nothing else.
    async fn compare(&self) {
        for key in 0..KEYS {
            let id = ask(&key.to_string()).identity.claim_id();
            let kept = self.kept.get(&key);
            let record = self.store().record(id).await.unwrap();
            assert_eq!(
                record.as_ref().map(|record| record.claim.epoch),
                kept.map(|kept| kept.0),
                "key {key}"
            );
            assert_eq!(self.store().peek(id).await.unwrap().is_some(), kept.is_some(), "key {key}");
            if let Some(record) = record {
                let found = self.store().find(record.claim.operation_id).await.unwrap().unwrap();
                assert_eq!(found.identity, record.identity);
            }
            // A reader has a clock of its own, and does not know what has expired on this one.
            if let Some((epoch, None)) = kept {
                let record = self.beside.record(id).await.unwrap().unwrap();
                assert_eq!(record.claim.epoch, *epoch, "key {key}, beside the writer");
            }
        }
        while self.store().sweep(1_000).await.unwrap().more {}
        assert_eq!(self.store().count(&Filter::default()).await.unwrap().settled, self.kept.len() as u64);
        for found in [self.store().verify().await.unwrap(), self.beside.verify().await.unwrap()] {
            assert!(found.is_sound(), "{found:?}");
        }
    }
}

const MINUTE: Retention = Retention::For(Duration::from_secs(60));

/// Goes through a history of claims that are made, expire, are purged, swept and made again.
async fn live_through(seed: u64) {
    merge_soon();
    let mut history = History::new(seed);
    for turn in 0..1_500 {
        history.go_on().await;
        if turn % 100 == 99 {
            history.compare().await;
        }
    }
    let (entries, notes) = sizes(history.folder.path());
    assert!(entries > 100 && notes < 8 * 8, "{entries} entries, {notes} notes");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_claim_is_found_once_and_no_other_whatever_has_happened_l1() {
    live_through(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_that_begin_alike_are_told_apart_whatever_has_happened_l1() {
    begin_alike();
    let alike: BTreeSet<i64> = (0..KEYS).map(|key| beginning(&key.to_string())).collect();
    assert!(alike.len() < KEYS - 20, "{} beginnings of {KEYS} digests", alike.len());
    live_through(2).await;
}

/// What the index knows of a key's digest while digests begin alike.
fn beginning(key: &str) -> i64 {
    let digest = ask(key).identity.claim_id();
    i64::from_be_bytes(digest.as_bytes()[..8].try_into().unwrap()) & (0x3f << 58 | 0xf << 28)
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
