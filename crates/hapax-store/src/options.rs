//! What can be chosen when a store is opened. The defaults are what production wants; the rest is for tests.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::Clock;

use crate::limits;
use crate::tally::Tally;

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// How long one renewal of the session lasts (L4).
    pub term: Duration,
    /// Whether a store that is not there is made, and one of an older hapax is brought up to date. Where not, it is refused.
    pub create: bool,
    /// Whether the store renews its session by itself. A test that wants sessions to lapse does not.
    pub heartbeat: bool,
    /// Whether the store sweeps by itself.
    pub sweeper: bool,
    /// Whether a change wakes watchers. Off only in tests of the fall-back.
    pub notify: bool,
    /// Whether watched claims are looked at every 250 ms in case a notification was lost. Off only in tests.
    pub poll: bool,
    /// Settled outcomes that are answered from memory (B7); 0 switches the table off.
    pub table_entries: usize,
    /// Bytes of settled outcomes that are answered from memory (B7).
    pub table_bytes: usize,
    /// How long the table of one of several processes answers without hearing from the store; 2 s at most (B7).
    pub table_validity: Duration,
    /// How long a command of unknown fate is sent again before the store reports that it is unavailable (L13).
    pub patience: Duration,
    /// Leases of one tenant that are open at once, beside those of processes (H12).
    pub leases_of_tenant: usize,
    /// Bytes of the largest outcome that anybody is going to report: an embedded store grants a claim only while there is
    /// room for it on disk (B5). `Embedded::reckon_with` raises it later; where larger ones come, they are kept while they fit, and reckoned with from then on.
    pub largest_outcome: usize,
    /// The clock to use instead of the store's own. Production leaves it empty (L12).
    pub clock: Option<Arc<dyn Clock>>,
    /// What the store notes of its own work.
    pub tally: Arc<Tally>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            term: limits::SESSION_TERM,
            create: true,
            heartbeat: true,
            sweeper: true,
            notify: true,
            poll: true,
            table_entries: limits::TABLE_ENTRIES,
            table_bytes: limits::TABLE_BYTES,
            table_validity: limits::TABLE_VALIDITY,
            patience: limits::PATIENCE,
            leases_of_tenant: limits::LEASES_OF_TENANT,
            largest_outcome: limits::LARGEST_OUTCOME,
            clock: None,
            tally: Arc::default(),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("term", &self.term).finish_non_exhaustive()
    }
}
