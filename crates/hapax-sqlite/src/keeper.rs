//! The store's own threads beside the writer: one renews the session, one sweeps and looks after those who
//! wait.
//!
//! The heart beats in a thread that does nothing else and waits for nobody: neither a slow disk nor busy
//! request cores can let a session lapse that is alive (L4).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use hapax_core::claim::current;
use hapax_core::{ClaimId, Epoch, StateName, Timestamp};
use hapax_store::parts::clock;
use tokio::sync::mpsc::Sender;

use super::fault::Fault;
use super::job::{Done, Job, What};
use super::reader::Reader;
use super::reply;
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
    pub(super) seen: HashMap<ClaimId, Seen>,
}

impl Keeper {
    /// Works until the store is closed.
    pub(super) fn run(mut self, stop: &Receiver<()>) {
        let mut next_sweep = clock::now() + limits::SWEEP_EVERY;
        while matches!(stop.recv_timeout(limits::POLL_EVERY), Err(RecvTimeoutError::Timeout)) {
            if self.state.check().is_err() {
                return;
            }
            // What fails now is tried again in the next round.
            if self.rounds.poll {
                let _ = self.poll();
            }
            if self.rounds.sweep && clock::now() >= next_sweep {
                let began = clock::now();
                let more = self.sweep().unwrap_or(false);
                // With more to do, the next chunk comes after a pause in which claims have the writer for
                // themselves.
                next_sweep = clock::now() + if more { began.elapsed() * 2 } else { limits::SWEEP_EVERY };
            }
        }
    }

    /// One chunk; `true` when there is more.
    fn sweep(&self) -> Result<bool, Fault> {
        let mut due = self.reader.due(limits::SWEEP_CHUNK + 1)?;
        let more = due.len() > limits::SWEEP_CHUNK;
        due.truncate(limits::SWEEP_CHUNK);
        if !more {
            self.state.tally.swept();
        }
        if due.is_empty() {
            return Ok(false);
        }
        let (reply, answer) = reply::pair();
        let sent = self.jobs.try_send(Job { what: What::Sweep(due), reply: Some(reply) });
        match sent.is_ok().then(|| answer.block()) {
            // A chunk in which nothing could be swept would come again at once.
            Some(Some(Ok(Done::Swept(done)))) => {
                Ok(more && done.forgotten + done.released + done.in_doubt > 0)
            }
            _ => Ok(false),
        }
    }

    /// Looks at what is watched. The writer announces what commands change; here is what time alone changes,
    /// such as the end of a lease, and with notification switched off everything.
    fn poll(&mut self) -> Result<(), Fault> {
        let watched: HashSet<ClaimId> = self.state.hub.watched().into_iter().collect();
        self.seen.retain(|claim, _| watched.contains(claim));
        let now = self.reader.clock.now();
        for claim in watched {
            let before = self.seen.get(&claim);
            if self.state.notify && before.is_some_and(|seen| now < seen.until) {
                continue;
            }
            let seen = self.standing(&claim, now)?;
            if before.is_none_or(|before| before.standing != seen.standing) {
                self.state.hub.wake(&claim);
            }
            self.seen.insert(claim, seen);
        }
        Ok(())
    }

    fn standing(&self, id: &ClaimId, time: Timestamp) -> Result<Seen, Fault> {
        let Some(stored) = self.reader.load(id)? else {
            return Ok(Seen { standing: None, until: time.after(limits::SWEEP_EVERY) });
        };
        let now = self.reader.now(&stored.claim, time)?;
        let claim = current(Some(&stored.claim), &now);
        let until = match &stored.claim.state {
            hapax_core::State::Held { run_until } => now.holder.until.min(*run_until),
            // It may be granted meanwhile, and then lapse.
            _ => time.after(limits::SWEEP_EVERY),
        };
        Ok(Seen { standing: claim.map(|claim| (claim.epoch, claim.state.name())), until: until.max(time) })
    }
}

/// How a watched claim stood.
pub(super) struct Seen {
    /// `None` when it was absent.
    standing: Option<(Epoch, StateName)>,
    /// Until when time alone does not change it, as far as could be known.
    until: Timestamp,
}
