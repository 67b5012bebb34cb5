//! How long a connection may stay as it is. One timer for each connection, which is looked at seldom: what happens on a
//! connection only moves a deadline, so that a request costs no timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock;

const NEVER: u64 = u64::MAX;

/// The deadlines of one connection, in milliseconds from its beginning.
#[derive(Debug)]
pub(super) struct Pulse {
    begun: Instant,
    header_timeout: Duration,
    idle_timeout: Duration,
    /// For the end of a head, or of the silence between two requests.
    quiet: AtomicU64,
    /// For a client that takes nothing of what is written.
    stalled: AtomicU64,
    running: AtomicUsize,
}

impl Pulse {
    pub(super) fn new(header_timeout: Duration, idle_timeout: Duration) -> Arc<Self> {
        let pulse = Pulse {
            begun: clock::now(),
            header_timeout,
            idle_timeout,
            quiet: AtomicU64::new(NEVER),
            stalled: AtomicU64::new(NEVER),
            running: AtomicUsize::new(0),
        };
        pulse.head_begins();
        Arc::new(pulse)
    }

    fn after(&self, span: Duration) -> u64 {
        u64::try_from((self.begun.elapsed() + span).as_millis()).unwrap_or(NEVER)
    }

    /// A first byte of a head has come.
    pub(super) fn head_begins(&self) {
        if self.is_quiet() {
            self.quiet.store(self.after(self.header_timeout), Relaxed);
        }
    }

    /// A request has come. It runs until the guard is dropped, with its answer written.
    pub(super) fn request_begins(self: &Arc<Self>) -> Busy {
        self.running.fetch_add(1, Relaxed);
        self.quiet.store(NEVER, Relaxed);
        Busy(Arc::clone(self))
    }

    /// Whether no request runs.
    pub(super) fn is_quiet(&self) -> bool {
        self.running.load(Relaxed) == 0
    }

    /// The client takes nothing.
    pub(super) fn write_stalls(&self) {
        self.stalled.store(self.after(self.idle_timeout), Relaxed);
    }

    /// The client has taken something. The end of an answer may still be on its way when nothing runs any more.
    pub(super) fn write_moves(&self) {
        self.stalled.store(NEVER, Relaxed);
        if self.is_quiet() {
            self.quiet.store(self.after(self.idle_timeout), Relaxed);
        }
    }

    /// When to look again; `None` when the time is over.
    ///
    /// No deadline is ever set that lies nearer than the shorter of the two time-outs, so looking that often misses none.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let deadline = self.quiet.load(Relaxed).min(self.stalled.load(Relaxed));
        let now = self.after(Duration::ZERO);
        if deadline <= now {
            return None;
        }
        let pause = Duration::from_millis(deadline - now);
        Some(clock::now() + pause.min(self.header_timeout).min(self.idle_timeout))
    }
}

/// One request that runs.
#[derive(Debug)]
pub(super) struct Busy(Arc<Pulse>);

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Relaxed) == 1 {
            self.0.quiet.store(self.0.after(self.0.idle_timeout), Relaxed);
        }
    }
}
