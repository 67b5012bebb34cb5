//! What the handles, the tasks of the store's threads and the connections share.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::{Claim, ClaimId, Epoch, Error, SessionId};
use hapax_store::Options;
use hapax_store::parts::clock;
use hapax_store::table::Table;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::appends::Appending;
use super::batch::Item;
use super::clock::Quiet;
use super::desk::Job;
use super::link::Database;
use super::queue::{Queue, closed_error};
use super::read::Read;
use super::session::{Beat, Standing};
use super::watchers::Watchers;
use crate::limits;

/// Everything that is shared.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) database: Arc<Database>,
    pub(super) session: Standing,
    pub(super) table: Table,
    pub(super) watchers: Watchers,
    pub(super) batches: Queue<Item>,
    /// Connections that have served a batch, of those that are there.
    pub(super) batch_lines: AtomicUsize,
    pub(super) appends: Queue<Appending>,
    pub(super) reads: Queue<Read>,
    pub(super) desk: Queue<Job>,
    /// Commands of this process to one lane take turns before they go to the desk: there they would only make each other's write fail.
    lane_turns: [tokio::sync::Mutex<()>; limits::LANE_TURNS],
    pub(super) heart: mpsc::Sender<Beat>,
    /// Sessions that seem to have been renewed in the future, as the sweeper sees them.
    pub(super) ahead: Mutex<Quiet>,
    /// Sessions that seem to have ended long ago, as the sweeper sees them.
    pub(super) over: Mutex<Quiet>,
    /// Wakes the store's threads to end.
    stop: Notify,
    /// Claims granted to this process and not yet settled, to fill the table when they are.
    granted: Mutex<HashMap<ClaimId, Claim>>,
}

impl Shared {
    pub(super) fn new(
        options: Options,
        database: Arc<Database>,
        session: Standing,
        heart: mpsc::Sender<Beat>,
    ) -> Shared {
        Shared {
            table: Table::new(&options, true),
            watchers: Watchers::new(options.notify),
            batches: Queue::new(limits::BATCHES_IN_FLIGHT),
            batch_lines: AtomicUsize::new(0),
            appends: Queue::new(1),
            reads: Queue::new(1),
            desk: Queue::new(limits::DESK_CONNECTIONS),
            lane_turns: std::array::from_fn(|_| tokio::sync::Mutex::new(())),
            ahead: Mutex::default(),
            over: Mutex::default(),
            stop: Notify::new(),
            granted: Mutex::default(),
            options,
            database,
            session,
            heart,
        }
    }

    /// Until when a command that is asked for now is sent again.
    pub(super) fn deadline(&self) -> Instant {
        clock::timer_now() + self.options.patience
    }

    /// The turn of a command to this lane, or to another one that shares its turns.
    pub(super) async fn lane_turn(&self, lane: &ClaimId) -> tokio::sync::MutexGuard<'_, ()> {
        self.lane_turns[usize::from(lane.as_bytes()[0]) % limits::LANE_TURNS].lock().await
    }

    /// Renews the session now.
    pub(super) async fn renew(&self) -> Result<(), Error> {
        let (reply, renewed) = oneshot::channel();
        match self.heart.try_send(Beat::Renew(reply)) {
            Ok(()) => renewed.await.unwrap_or_else(|_| Err(closed_error())),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Error::unavailable("too many wait for a renewal")),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(closed_error()),
        }
    }

    /// The session that is granted what is claimed now. One that has lapsed or is about to is renewed first: after an outage the
    /// connections for claims may be back before the heart's, and what they are granted would be lapsed from the beginning (L4).
    pub(super) async fn standing(&self) -> Result<SessionId, Error> {
        let session = self.session.session();
        if self.options.heartbeat && session.left < session.term / limits::RENEWALS_PER_TERM {
            self.renew().await?;
        }
        Ok(self.session.known().id)
    }

    /// Remembers a grant until it is settled.
    pub(super) fn remember(&self, id: ClaimId, claim: Claim) {
        if self.options.table_entries == 0 {
            return;
        }
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        if granted.len() >= limits::GRANTS_KNOWN {
            // Grants that nobody ever reported on. The table fills from reading, too.
            granted.clear();
        }
        granted.insert(id, claim);
    }

    /// The grant of this epoch, if it was remembered.
    pub(super) fn recall(&self, id: &ClaimId, epoch: Epoch) -> Option<Claim> {
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        granted.remove(id).filter(|claim| claim.epoch == epoch)
    }

    /// How many grants are remembered.
    pub(super) fn grants_known(&self) -> usize {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns when the store is closed.
    pub(super) async fn closed(&self) {
        self.stop.notified().await;
        // For the next thread.
        self.stop.notify_one();
    }

    /// Stops everything: nothing more is taken, and what waits is told so.
    pub(super) fn close(&self) {
        self.batches.close();
        self.appends.close();
        self.reads.close();
        self.desk.close();
        self.stop.notify_one();
    }
}
