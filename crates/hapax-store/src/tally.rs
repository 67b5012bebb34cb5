//! What a store notes of its own work, for whoever watches the process (O1): how much was appended, and when it was swept last.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::parts::clock;

/// What one handle on a store has noted. A store that is opened several times notes each by itself.
#[derive(Debug)]
pub struct Tally {
    appends: AtomicU64,
    swept: Mutex<Instant>,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { appends: AtomicU64::default(), swept: Mutex::new(clock::now()) }
    }
}

impl Tally {
    /// Appends to journals that were written, repeated ones among them.
    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::Relaxed)
    }

    /// How long ago the sweeper had nothing more to do, or it was another process's turn to sweep.
    pub fn sweep_lag(&self) -> Duration {
        self.swept.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// So many appends were written.
    pub fn appended(&self, appends: usize) {
        self.appends.fetch_add(appends as u64, Ordering::Relaxed);
    }

    /// The sweeper has nothing more to do for now.
    pub fn swept(&self) {
        *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = clock::now();
    }
}
