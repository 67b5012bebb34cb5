//! What lies between the processes and the ledger: latency, loss, commands that arrive late. And the ledger
//! itself.

use std::time::Duration;

use hapax_core::claim::view;
use hapax_core::{Answer, Change, Claim, Command, Epoch, Now, SessionId, Sign, Timestamp, View, step};

use super::history::Moment;
use super::{Event, Simulation, secs};

/// A session's term (L4).
pub(super) const TERM: Duration = secs_const(30);

const fn secs_const(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The claims and the sessions.
pub(super) struct Ledger {
    pub(super) claims: Vec<Option<Claim>>,
    sessions: Vec<Sign>,
    epochs: u64,
}

/// A command on its way, and then its answer.
pub(super) struct Message {
    pub(super) task: usize,
    /// The life of the process that sent it.
    pub(super) life: u32,
    pub(super) key: usize,
    pub(super) command: Command,
    pub(super) answer: Option<Answer>,
    /// The life of the claim in which it was decided.
    pub(super) claim_life: usize,
    /// The moment at which it was.
    pub(super) moment: Moment,
    pub(super) sent: Timestamp,
}

impl Ledger {
    pub(super) fn new(keys: usize) -> Self {
        Ledger { claims: vec![None; keys], sessions: Vec::new(), epochs: 0 }
    }

    pub(super) fn start_session(&mut self, now: Timestamp) -> u64 {
        self.sessions.push(Sign { last: now, until: now.after(TERM) });
        self.sessions.len() as u64 - 1
    }

    pub(super) fn renew_session(&mut self, session: u64, now: Timestamp) {
        if let Some(sign) = self.sessions.get_mut(session as usize) {
            *sign = Sign { last: now, until: now.after(TERM) };
        }
    }

    pub(super) fn view(&self, key: usize, time: Timestamp) -> Option<View> {
        view(self.claims[key].as_ref(), &self.now(key, time))
    }

    /// Whether the lease under this epoch stands.
    pub(super) fn stands(&self, key: usize, epoch: Epoch, time: Timestamp) -> bool {
        let present = self.claims[key].as_ref().is_some_and(|claim| claim.epoch == epoch);
        present && matches!(self.view(key, time), Some(View::Held { .. }))
    }

    fn now(&self, key: usize, time: Timestamp) -> Now {
        let sign = |claim: &Claim| self.sign(claim.session);
        let holder = self.claims[key].as_ref().map_or(Sign::UNKNOWN, sign);
        Now { time, next_epoch: epoch(self.epochs + 1), holder }
    }

    fn sign(&self, session: SessionId) -> Sign {
        self.sessions.get(session.0 as usize).copied().unwrap_or(Sign::UNKNOWN)
    }
}

/// An epoch by its counter.
pub(super) fn epoch(counter: u64) -> Epoch {
    Epoch::new(1, counter).expect("a simulation uses few epochs")
}

impl Simulation {
    /// Lets a command be decided, and checks what was decided.
    pub(super) fn apply(&mut self, key: usize, command: &Command) -> Answer {
        let now = self.ledger.now(key, self.now);
        let before = self.ledger.claims[key].take();
        let (change, answer) = step(before.as_ref(), command, &now);
        let after = match change {
            Change::None => before.clone(),
            Change::Put(claim) => Some(claim),
            Change::Remove => None,
        };
        if after.as_ref().is_some_and(|after| after.epoch == now.next_epoch) {
            self.ledger.epochs += 1;
        }
        self.history.decided(key, before.as_ref(), after.as_ref(), command, &answer, self.now);
        self.ledger.claims[key] = after;
        self.tell(|_| format!("  key {key}: {}", said(&answer)));
        answer
    }

    /// Sends a command: mostly it arrives soon, sometimes late, sometimes never.
    pub(super) fn send(&mut self, task: usize, command: Command) {
        let message = self.messages.len();
        let (key, process) = (self.tasks[task].key, self.tasks[task].process);
        let life = self.processes[process].life;
        let (moment, sent) = (Moment::default(), self.now);
        self.messages.push(Message { task, life, key, command, answer: None, claim_life: 0, moment, sent });
        self.tasks[task].waits_for = Some(message);
        if self.rng.permille(self.setting.late) {
            let wait = self.rng.millis(1_000, 400_000);
            self.after(wait, Event::Arrive { message });
        } else if !self.rng.permille(self.setting.loss) {
            let wait = self.latency();
            self.after(wait, Event::Arrive { message });
        }
        let patience = self.rng.millis(1_000, 4_000);
        self.after(patience, Event::TimedOut { task, life, message });
    }

    pub(super) fn latency(&mut self) -> Duration {
        if self.rng.one_in(20) { self.rng.millis(50, 3_000) } else { self.rng.millis(1, 20) }
    }

    pub(super) fn arrive(&mut self, message: usize) {
        let Message { task, life, key, ref command, .. } = self.messages[message];
        let command = command.clone();
        if let Command::Hold(_, hapax_core::Report::Renew) = command {
            let process = &self.processes[self.tasks[task].process];
            if process.life == life {
                self.ledger.renew_session(process.session, self.now);
            }
        }
        let answer = self.apply(key, &command);
        let (claim_life, moment) = (self.history.life(key), self.history.moment(key));
        let message_state = &mut self.messages[message];
        message_state.answer = Some(answer);
        (message_state.claim_life, message_state.moment) = (claim_life, moment);
        if !self.rng.permille(self.setting.loss) {
            let wait = self.latency();
            self.after(wait, Event::Answer { task, life, message });
        }
    }

    /// A process renews its session a third of the term apart.
    pub(super) fn heartbeat(&mut self, process: usize, life: u32) {
        let Some(state) = self.alive(process, life) else { return };
        let session = state.session;
        if self.tasks.iter().all(|task| task.is_done()) {
            return;
        }
        let sent = self.now;
        if !self.rng.permille(self.setting.loss) {
            let wait = self.latency();
            self.after(wait, Event::Renew { process, life, session, sent });
        }
        self.after(TERM / 3, Event::Heartbeat { process, life });
    }

    pub(super) fn renew_session(&mut self, process: usize, life: u32, session: u64, sent: Timestamp) {
        self.ledger.renew_session(session, self.now);
        if !self.rng.permille(self.setting.loss) {
            let wait = self.latency();
            self.after(wait, Event::Renewed { process, life, sent });
        }
    }

    /// The term counts from when the renewal was sent: the ledger's own count began later.
    pub(super) fn session_renewed(&mut self, process: usize, life: u32, sent: Timestamp) {
        if self.alive(process, life).is_some() {
            self.processes[process].renewed(sent);
        }
    }

    pub(super) fn sweep(&mut self) {
        for key in 0..self.setting.keys {
            if let Some(epoch) = self.ledger.claims[key].as_ref().map(|claim| claim.epoch) {
                self.apply(key, &Command::Sweep(epoch));
            }
        }
        if self.tasks.iter().any(|task| !task.is_done()) {
            let wait = self.rng.millis(5_000, 200_000);
            self.after(wait + secs(1), Event::Sweep);
        }
    }
}

/// An answer in one short line.
fn said(answer: &Answer) -> String {
    let mut text = format!("{answer:?}");
    if let Some((end, _)) = text.char_indices().nth(160) {
        text.truncate(end);
    }
    text
}
