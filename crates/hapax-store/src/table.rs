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

use crate::clock::boot_time;
use crate::options::Options;

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
    pub fn claim(&self, id: &ClaimId, ask: &Ask, time: Timestamp) -> Option<Verdict> {
        let claim = self.get(id)?;
        match step(Some(&claim), &Command::Claim(ask.clone()), &settled_now(time)) {
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
