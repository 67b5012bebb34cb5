//! What the handles and the threads of an open store share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hapax_core::Error;
use hapax_store::hub::Hub;
use hapax_store::table::Table;
use hapax_store::{Options, Tally};

use super::session::{Guarded, Sessions};

/// An open store's common ground.
pub(super) struct State {
    pub(super) clock: Arc<Guarded>,
    pub(super) sessions: Sessions,
    pub(super) hub: Hub,
    pub(super) table: Table,
    /// Whether a change wakes those who watch.
    pub(super) notify: bool,
    /// Bytes of the largest outcome that anybody is going to report (B5).
    largest: AtomicUsize,
    closed: AtomicBool,
    /// What the store notes of its own work.
    pub(super) tally: Arc<Tally>,
    stopped: OnceLock<Error>,
}

impl State {
    pub(super) fn new(clock: Arc<Guarded>, sessions: Sessions, table: Table, options: &Options) -> Self {
        let (hub, closed, stopped) = (Hub::default(), AtomicBool::new(false), OnceLock::new());
        let tally = options.tally.clone();
        let (notify, largest) = (options.notify, AtomicUsize::new(options.largest_outcome));
        State { clock, sessions, hub, table, notify, largest, closed, tally, stopped }
    }

    /// From now on outcomes of so many bytes may come. Never less than before: nobody knows when the last one of those comes that
    /// were asked for under the former bound.
    pub(super) fn reckon_with(&self, outcome: usize) {
        self.largest.fetch_max(outcome, Ordering::SeqCst);
    }

    /// Bytes of the largest outcome that anybody is going to report.
    pub(super) fn largest_outcome(&self) -> usize {
        self.largest.load(Ordering::SeqCst)
    }

    /// Refuses to go on with a store that is closed or has stopped.
    pub(super) fn check(&self) -> Result<(), Error> {
        if let Some(error) = self.stopped() {
            return Err(error);
        }
        if self.closed.load(Ordering::Acquire) { Err(closed()) } else { Ok(()) }
    }

    /// From now on nothing is accepted.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// The store stops after a failed write: nobody knows what reached the disk until it is opened again
    /// (B4).
    pub(super) fn stop(&self, detail: &str) -> Error {
        self.stop_with("the store has stopped after a failed write; it must be opened again", detail)
    }

    /// The store stops because a file of it is not there any more: what it writes would be gone with the process, and another one
    /// may have opened the store since (B8).
    pub(super) fn stop_without(&self, file: &str) -> Error {
        tracing::error!(
            file,
            "a file of the store was removed or replaced while it was open: the store stops"
        );
        self.stop_with("the store has stopped: a file of it was removed or replaced while it was open", file)
    }

    fn stop_with(&self, message: &'static str, detail: &str) -> Error {
        self.sessions.give_up();
        self.stopped.get_or_init(|| Error::unavailable(message).with_detail(detail)).clone()
    }

    /// Why the store has stopped, if it has.
    pub(super) fn stopped(&self) -> Option<Error> {
        self.stopped.get().cloned()
    }
}

/// The store was closed.
pub(super) fn closed() -> Error {
    Error::unavailable("the store is closed")
}
