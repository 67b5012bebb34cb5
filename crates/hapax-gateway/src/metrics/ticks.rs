//! What is counted about schedules and their ticks (S1). There are as many labels as schedules are configured, which is bounded.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{Metrics, Text};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Schedule {
    schedule: Text,
}

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    dispatched: Family<Schedule, Counter>,
    late: Family<Schedule, Counter>,
    missed: Family<Schedule, Counter>,
    skipped: Family<Schedule, Counter>,
    signatures_refused: Counter,
}

impl Ticks {
    /// Makes the counters known under their names.
    pub(super) fn register(&self, registry: &mut Registry) {
        let Ticks { dispatched, late, missed, skipped, signatures_refused } = self;
        registry.register("hapax_ticks_dispatched", "Ticks whose claims were made", dispatched.clone());
        registry.register("hapax_ticks_late", "Ticks that were dispatched late", late.clone());
        registry.register(
            "hapax_ticks_missed",
            "Ticks that were not dispatched, or not to their end",
            missed.clone(),
        );
        registry.register(
            "hapax_ticks_skipped",
            "Ticks that were left out because an earlier one had not ended",
            skipped.clone(),
        );
        registry.register(
            "hapax_schedule_signatures_refused",
            "Requests signed as a schedule's whose signature did not hold",
            signatures_refused.clone(),
        );
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
        let label = Schedule { schedule: Text(schedule.clone()) };
        let families: &[&Family<Schedule, Counter>] = match tick {
            Tick::Dispatched => &[&self.ticks.dispatched],
            Tick::DispatchedLate => &[&self.ticks.dispatched, &self.ticks.late],
            Tick::Missed => &[&self.ticks.missed],
            Tick::Skipped => &[&self.ticks.skipped],
        };
        for family in families {
            family.get_or_create(&label).inc_by(count);
        }
    }

    /// A request that was signed as a schedule's was refused.
    pub(crate) fn schedule_signature_refused(&self) {
        self.ticks.signatures_refused.inc();
    }
}
