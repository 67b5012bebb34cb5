//! The bounded table of settled outcomes that stands in front of a store, so that a replay costs no I/O (B7).
//!
//! It keeps whole settled claims and lets [`step`] decide on them, so it never answers what the store would not. Where
//! several processes share a store, an entry answers only while the table is valid, and the session's heartbeat extends
//! that; a store with one process never lets it end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hapax_core::claim::view;
use hapax_core::{
    Answer, Ask, Change, Claim, ClaimId, Command, Epoch, Now, Sign, State, Timestamp, Verdict, View, step,
};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::options::Options;
use crate::parts::clock::boot_time;

/// Settled claims in memory.
#[derive(Clone)]
pub struct Table {
    entries: Option<Arc<Cache<ClaimId, Arc<Claim>, Weight>>>,
    /// Microseconds of boot time until which entries may answer.
    valid_until: Arc<AtomicU64>,
    /// Counts removals, so that what was read before one is not put in after it.
    removals: Arc<AtomicU64>,
}

/// What one entry costs besides its outcome: the claim, its keys and the table's own bookkeeping.
const ENTRY_OVERHEAD: u64 = 512;

/// An entry weighs at least its share of the bytes, so one capacity bounds both bytes and entries.
#[derive(Clone)]
struct Weight {
    least: u64,
}

impl Weighter<ClaimId, Arc<Claim>> for Weight {
    fn weight(&self, _: &ClaimId, claim: &Arc<Claim>) -> u64 {
        let outcome = match &claim.state {
            State::Settled { outcome, .. } => outcome.len() as u64,
            _ => 0,
        };
        (outcome + ENTRY_OVERHEAD).max(self.least)
    }
}

/// A mark taken before a read; see [`Table::put_read`].
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

impl Table {
    /// A table within the options' bounds, which answers until [`Table::valid_for`] says otherwise when `shared`, and for
    /// ever when not.
    pub fn new(options: &Options, shared: bool) -> Self {
        let bytes = options.table_bytes as u64;
        let entries = (options.table_entries > 0).then(|| {
            let weight = Weight { least: (bytes / options.table_entries as u64).max(1) };
            Arc::new(Cache::with_weighter(options.table_entries, bytes, weight))
        });
        let valid_until = if shared { 0 } else { u64::MAX };
        Table { entries, valid_until: Arc::new(AtomicU64::new(valid_until)), removals: Arc::default() }
    }

    /// Answers a claim if the table can: a replay, or a mismatch with a settled claim.
    pub fn claim(&self, id: &ClaimId, ask: Ask, time: Timestamp) -> Option<Verdict> {
        let claim = self.get(id)?;
        match step(Some(&claim), &Command::Claim(ask), &settled_now(time)) {
            (Change::None, Answer::Verdict(verdict @ (Verdict::Replay(_) | Verdict::Mismatch { .. }))) => {
                Some(verdict)
            }
            _ => None,
        }
    }

    /// Answers a reader if the table can.
    pub fn peek(&self, id: &ClaimId, time: Timestamp) -> Option<View> {
        let claim = self.get(id)?;
        view(Some(&claim), &settled_now(time))
    }

    /// Takes note of what a claim became. Call it in the order of the commits.
    pub fn put(&self, id: ClaimId, claim: &Claim) {
        let Some(entries) = &self.entries else { return };
        match claim.state {
            State::Settled { .. } => entries.insert(id, Arc::new(claim.clone())),
            _ => self.remove(&id),
        }
    }

    /// A mark to take before a read whose result may be put in.
    pub fn mark(&self) -> Mark {
        Mark(self.removals.load(Ordering::SeqCst))
    }

    /// Takes note of a settled claim that was read after `mark`, unless something was removed since.
    pub fn put_read(&self, mark: Mark, id: ClaimId, claim: &Claim) {
        if self.removals.load(Ordering::SeqCst) != mark.0 {
            return;
        }
        self.put(id, claim);
        if self.removals.load(Ordering::SeqCst) != mark.0 {
            self.remove(&id);
        }
    }

    /// Forgets a claim.
    pub fn remove(&self, id: &ClaimId) {
        self.removals.fetch_add(1, Ordering::SeqCst);
        if let Some(entries) = &self.entries {
            entries.remove(id);
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.removals.fetch_add(1, Ordering::SeqCst);
        if let Some(entries) = &self.entries {
            entries.clear();
        }
    }

    /// Lets entries answer for this long from `since`, a boot time read before the store was asked.
    pub fn valid_for(&self, since: Duration, validity: Duration) {
        let until = u64::try_from((since + validity).as_micros()).unwrap_or(u64::MAX);
        self.valid_until.fetch_max(until, Ordering::SeqCst);
    }

    fn get(&self, id: &ClaimId) -> Option<Arc<Claim>> {
        let claim = self.entries.as_ref()?.get(id)?;
        let valid_until = self.valid_until.load(Ordering::SeqCst);
        (valid_until == u64::MAX || boot_time().as_micros() < u128::from(valid_until)).then_some(claim)
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}

/// What is decided about a settled claim depends on the time alone.
fn settled_now(time: Timestamp) -> Now {
    Now { time, next_epoch: Epoch::from_packed(u64::MAX), holder: Sign::UNKNOWN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hapax_core::{AttemptId, Fingerprint, OperationId, Outcome, Report, Retention, SessionId, Terms};

    fn id(number: u8) -> ClaimId {
        ClaimId::from_bytes([number; 32])
    }

    fn ask(number: u8, body: &[u8]) -> Ask {
        Ask {
            attempt: AttemptId::random(),
            operation_id: OperationId::for_claim(&id(number), [0; 6]),
            fingerprint: Fingerprint::of_bytes(body),
            leaves: None,
            terms: Terms::default(),
            session: SessionId(1),
        }
    }

    fn after(claim: Option<&Claim>, command: &Command) -> Claim {
        let time = Timestamp::from_micros(1);
        let sign = Sign { last: time, until: Timestamp::from_micros(100) };
        let now = Now { time, next_epoch: Epoch::new(1, 1).unwrap(), holder: sign };
        let (Change::Put(claim), _) = step(claim, command, &now) else { panic!("nothing changed") };
        claim
    }

    fn held(number: u8) -> Claim {
        after(None, &Command::Claim(ask(number, b"10")))
    }

    fn settled(number: u8, bytes: usize) -> Claim {
        let held = held(number);
        let outcome = Outcome::Succeeded(Bytes::from(vec![b'x'; bytes]));
        after(Some(&held), &Command::Hold(held.epoch, Report::Settle(outcome, Retention::Forever)))
    }

    fn answers(table: &Table, number: u8) -> bool {
        table.peek(&id(number), Timestamp::from_micros(2)).is_some()
    }

    fn table() -> Table {
        Table::new(&Options::default(), false)
    }

    #[test]
    fn a_table_answers_a_replay_and_a_mismatch_and_leaves_everything_else_to_the_store() {
        // B7
        let (table, time) = (table(), Timestamp::from_micros(2));
        table.put(id(1), &settled(1, 1));
        assert!(matches!(table.claim(&id(1), ask(1, b"10"), time), Some(Verdict::Replay(_))));
        assert!(matches!(table.claim(&id(1), ask(1, b"99"), time), Some(Verdict::Mismatch { .. })));
        assert_eq!(table.claim(&id(2), ask(2, b"10"), time), None);
        assert_eq!(table.claim(&id(1), ask(1, b"10"), Timestamp::NEVER), None, "what has expired is absent");
    }

    #[test]
    fn a_shared_table_answers_only_while_it_is_valid() {
        // B7
        let table = Table::new(&Options::default(), true);
        table.put(id(1), &settled(1, 1));
        assert!(!answers(&table, 1), "nobody has made it valid");
        let now = boot_time();
        table.valid_for(Duration::ZERO, now);
        assert!(!answers(&table, 1), "its time is over");
        table.valid_for(now, Duration::from_secs(60));
        assert!(answers(&table, 1));
        table.valid_for(Duration::ZERO, now);
        assert!(answers(&table, 1), "an older answer takes nothing away");
    }

    #[test]
    fn what_is_no_longer_settled_is_forgotten() {
        // B7
        let table = table();
        table.put(id(1), &settled(1, 1));
        table.put(id(1), &held(1));
        assert!(!answers(&table, 1));
    }

    #[test]
    fn what_was_read_before_a_removal_is_not_put_in_after_it() {
        // B7: a purge that falls between reading and remembering must not be undone by the remembering.
        let removals: [fn(&Table); 3] =
            [|table| table.remove(&id(1)), |table| table.put(id(1), &held(1)), |table| table.clear()];
        for (which, removal) in removals.into_iter().enumerate() {
            let table = table();
            let before = table.mark();
            removal(&table);
            table.put_read(before, id(1), &settled(1, 1));
            assert!(!answers(&table, 1), "removal {which}");
            table.put_read(table.mark(), id(1), &settled(1, 1));
            assert!(answers(&table, 1));
        }
    }

    #[test]
    fn a_removal_beside_the_remembering_leaves_nothing() {
        // B7: however the two fall, whoever removes last knows that it is gone.
        let table = table();
        let claim = settled(1, 1);
        for _ in 0..20_000 {
            let mark = table.mark();
            std::thread::scope(|scope| {
                let _ = scope.spawn(|| table.put_read(mark, id(1), &claim));
                table.remove(&id(1));
            });
            assert!(!answers(&table, 1));
        }
    }

    #[test]
    fn a_table_is_bounded_by_entries_and_by_bytes() {
        // B7
        let count = |table: &Table| (0..200).filter(|number| answers(table, *number)).count();
        let many = Table::new(&Options { table_entries: 20, ..Options::default() }, false);
        (0..200).for_each(|number| many.put(id(number), &settled(number, 1)));
        assert!((1..=20).contains(&count(&many)), "{} entries", count(&many));
        let bytes = 20 * 10_240;
        let large = Table::new(&Options { table_bytes: bytes, ..Options::default() }, false);
        (0..200).for_each(|number| large.put(id(number), &settled(number, 10_000)));
        assert!((1..=20).contains(&count(&large)), "{} entries of 10 kB", count(&large));
        let none = Table::new(&Options { table_entries: 0, ..Options::default() }, false);
        none.put(id(1), &settled(1, 1));
        assert!(!answers(&none, 1));
    }
}
