//! The history of an embedded store, and what must be found of it at each time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use hapax_core::claim::Verb;
use hapax_core::{
    Clock as _, Decision, Epoch, Filter, Inspect as _, Ledger as _, Report, Retention, Timestamp, Verdict,
};
use hapax_sqlite::{Embedded, EmbeddedReader};
use hapax_store::conformance::ok;
use hapax_store::conformance::random::Random;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;

use crate::shared::{ask, frozen, merge_soon};

/// How many entries the index has, and how many notes there are.
pub(crate) fn sizes(folder: &Path) -> (i64, i64) {
    let database = rusqlite::Connection::open(folder.join("hapax.db")).unwrap();
    let sql = "SELECT (SELECT count(*) FROM finder), recent_to - recent_from FROM store";
    database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

/// Keys in a history.
pub(crate) const KEYS: usize = 300;

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
pub(crate) async fn live_through(seed: u64) {
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
