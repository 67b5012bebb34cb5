//! What is counted about schedules and their ticks (S1). There are as many labels as schedules are configured, which is bounded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::families as family;
use super::text::Text;
use super::{Metrics, Tally};

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    dispatched: Tally<1>,
    late: Tally<1>,
    missed: Tally<1>,
    skipped: Tally<1>,
}

impl Ticks {
    /// Writes all of them out.
    pub(super) fn write(&self, text: &mut Text) {
        let Ticks { dispatched, late, missed, skipped } = self;
        dispatched.write(&family::TICKS_DISPATCHED, text);
        late.write(&family::TICKS_LATE, text);
        missed.write(&family::TICKS_MISSED, text);
        skipped.write(&family::TICKS_SKIPPED, text);
    }
}

/// What became of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// Its claim was made, in time.
    Dispatched,
    /// Its claim was made, late.
    DispatchedLate,
    /// It was not dispatched, or not to its end.
    Missed,
    /// It was left out because an earlier one had not ended.
    Skipped,
}

impl Metrics {
    /// So many ticks of this schedule came to this.
    pub fn ticks(&self, schedule: &Arc<str>, tick: Tick, count: u64) {
        let tallies: &[&Tally<1>] = match tick {
            Tick::Dispatched => &[&self.ticks.dispatched],
            Tick::DispatchedLate => &[&self.ticks.dispatched, &self.ticks.late],
            Tick::Missed => &[&self.ticks.missed],
            Tick::Skipped => &[&self.ticks.skipped],
        };
        for tally in tallies {
            tally.add([schedule], count);
        }
    }

    /// A request that was signed as a schedule's was refused.
    pub(crate) fn schedule_signature_refused(&self) {
        self.tick_signatures_refused.fetch_add(1, Ordering::Relaxed);
    }
}
