//! The store's own threads beside the writer: one renews the session, one sweeps and looks after those who wait.
//!
//! The heart beats in a thread that does nothing else and waits for nobody: neither a slow disk nor busy request cores
//! can let a session lapse that is alive (L4).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use hapax_core::claim::current;
use hapax_core::{ClaimId, Epoch, StateName};
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use super::claims;
use super::fault::Fault;
use super::job::{Done, Job, What};
use super::reader::Reader;
use super::state::State;
use crate::limits;

/// Renews the session until the store is closed.
pub(super) fn beat(state: &Arc<State>, jobs: &Sender<Job>, every: Duration, stop: &Receiver<()>) {
    while matches!(stop.recv_timeout(every), Err(RecvTimeoutError::Timeout)) {
        if state.check().is_err() {
            return;
        }
        state.sessions.renew(state.clock.moment());
        // Written down by the writer as soon as it can; a full queue brings a batch that does it anyway.
        let _ = jobs.try_send(Job { what: What::Beat, reply: None });
    }
}

/// What the second thread does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) sweep: bool,
    pub(super) poll: bool,
}

/// Sweeps, and wakes those whose claim time has changed.
pub(super) struct Keeper {
    pub(super) state: Arc<State>,
    pub(super) jobs: Sender<Job>,
    pub(super) reader: Reader,
    pub(super) rounds: Rounds,
    /// How the watched claims stood when they were last looked at.
    pub(super) seen: HashMap<ClaimId, Option<(Epoch, StateName)>>,
}

impl Keeper {
    /// Works until the store is closed.
    pub(super) fn run(mut self, stop: &Receiver<()>) {
        let mut next_sweep = Instant::now() + limits::SWEEP_EVERY;
        while matches!(stop.recv_timeout(limits::POLL_EVERY), Err(RecvTimeoutError::Timeout)) {
            if self.state.check().is_err() {
                return;
            }
            // What fails now is tried again in the next round.
            if self.rounds.poll {
                let _ = self.poll();
            }
            if self.rounds.sweep && Instant::now() >= next_sweep {
                let began = Instant::now();
                let more = self.sweep().unwrap_or(false);
                // With more to do, the next chunk comes after a pause in which claims have the writer for themselves.
                next_sweep = Instant::now() + if more { began.elapsed() * 2 } else { limits::SWEEP_EVERY };
            }
        }
    }

    /// One chunk; `true` when there is more.
    fn sweep(&self) -> Result<bool, Fault> {
        let mut due = self.reader.due(limits::SWEEP_CHUNK + 1)?;
        let more = due.len() > limits::SWEEP_CHUNK;
        due.truncate(limits::SWEEP_CHUNK);
        if due.is_empty() {
            return Ok(false);
        }
        let (reply, answer) = oneshot::channel();
        let sent = self.jobs.try_send(Job { what: What::Sweep(due), reply: Some(reply) });
        match sent.is_ok().then(|| answer.blocking_recv()) {
            // A chunk in which nothing could be swept would come again at once.
            Some(Ok(Ok(Done::Swept(done)))) => Ok(more && done.forgotten + done.released + done.in_doubt > 0),
            _ => Ok(false),
        }
    }

    /// Looks at what is watched. Changes are announced by the writer; here are those that time alone brings about, such as
    /// the end of a lease, and with notification switched off all of them.
    fn poll(&mut self) -> Result<(), Fault> {
        let watched = self.state.hub.watched();
        self.seen.retain(|claim, _| watched.contains(claim));
        for claim in watched {
            let standing = self.standing(&claim)?;
            if self.seen.insert(claim, standing) != Some(standing) {
                self.state.hub.wake(&claim);
            }
        }
        Ok(())
    }

    fn standing(&self, id: &ClaimId) -> Result<Option<(Epoch, StateName)>, Fault> {
        let Some(stored) = claims::load(&self.reader.conn, id)? else { return Ok(None) };
        let now = self.reader.now(&stored.claim, self.reader.clock.now())?;
        Ok(current(Some(&stored.claim), &now).map(|claim| (claim.epoch, claim.state.name())))
    }
}
