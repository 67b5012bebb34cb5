//! One caller's way: claim, begin, report, answer. As `once` has to go it.

use hapax_core::{
    Answer, Ask, AttemptId, ClaimId, Command, Doubt, Ending, Epoch, Fingerprint, OperationId, Outcome, Ran,
    RecipeId, Report, Rerun, SessionId, Timestamp, Verdict, View,
};

use super::network::{TERM, epoch};
use super::{Event, Simulation, millis};
use crate::model::Flaw;

/// A process, as it sees itself.
pub(super) struct Process {
    pub(super) life: u32,
    pub(super) up: bool,
    pub(super) session: u64,
    pub(super) suspended_until: Timestamp,
    /// Until when its session certainly lives.
    sure_until: Timestamp,
    /// How often it found that its session may have lapsed.
    gaps: u32,
}

impl Process {
    pub(super) fn new(session: u64, now: Timestamp) -> Self {
        Process {
            life: 0,
            up: true,
            session,
            suspended_until: Timestamp::ZERO,
            sure_until: now.after(TERM),
            gaps: 0,
        }
    }

    pub(super) fn renewed(&mut self, sent: Timestamp, now: Timestamp) {
        if now >= self.sure_until {
            self.gaps += 1;
        }
        self.sure_until = self.sure_until.max(sent.after(TERM));
    }

    pub(super) fn restarted(&mut self, session: u64, now: Timestamp) {
        *self = Process { life: self.life, ..Process::new(session, now) };
    }
}

/// What the work remembers of a key.
#[derive(Clone, Default)]
pub(super) struct Upstream {
    done: Option<Outcome>,
    refuses_below: Option<Epoch>,
}

/// How the work ended, as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ended {
    Succeeded,
    Refused,
    NotRun,
    Unknown,
}

/// One caller.
pub(super) struct Task {
    pub(super) process: usize,
    pub(super) key: usize,
    pub(super) waits_for: Option<usize>,
    phase: Phase,
    attempts: u32,
    asked_at: Timestamp,
    epoch: Option<Epoch>,
    /// How often the process's session may have lapsed before the ledger last confirmed the claim.
    gaps: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    New,
    Claiming,
    Abandoning,
    Waiting { looks: u32 },
    Holding,
    Asking,
    Renewing,
    Clearing,
    Running,
    Reporting(Report),
    Done,
}

impl Task {
    pub(super) fn new(process: usize, key: usize) -> Self {
        Task {
            process,
            key,
            waits_for: None,
            phase: Phase::New,
            attempts: 0,
            asked_at: Timestamp::ZERO,
            epoch: None,
            gaps: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// The process died; whoever had begun is gone.
    pub(super) fn crash(&mut self) {
        if self.phase != Phase::New {
            self.phase = Phase::Done;
            self.waits_for = None;
        }
    }
}

impl Simulation {
    /// The process in this life of it, if it is still in it.
    pub(super) fn alive(&self, process: usize, life: u32) -> Option<&Process> {
        Some(&self.processes[process]).filter(|process| process.up && process.life == life)
    }

    fn go(&mut self, task: usize, phase: Phase) {
        self.tasks[task].phase = phase;
    }

    fn life_of(&self, task: usize) -> u32 {
        self.processes[self.tasks[task].process].life
    }

    pub(super) fn start(&mut self, task: usize) {
        if !self.processes[self.tasks[task].process].up {
            let wait = self.rng.millis(1_000, 20_000);
            return self.after(wait, Event::Start { task });
        }
        self.tasks[task].attempts += 1;
        self.tasks[task].asked_at = self.now;
        self.go(task, Phase::Claiming);
        self.send_claim(task);
    }

    fn send_claim(&mut self, task: usize) {
        let ask = self.ask(task);
        self.send(task, Command::Claim(ask));
    }

    fn ask(&self, index: usize) -> Ask {
        let task = &self.tasks[index];
        let mut attempt = [0; 16];
        attempt[..8].copy_from_slice(&(index as u64).to_be_bytes());
        attempt[8..12].copy_from_slice(&task.attempts.to_be_bytes());
        let mut tail = [0; 6];
        tail.copy_from_slice(&attempt[6..12]);
        Ask {
            attempt: AttemptId::from_bytes(attempt),
            operation_id: OperationId::for_claim(&ClaimId::from_bytes([7; 32]), tail),
            fingerprint: Fingerprint { recipe: RecipeId(1), digest: [task.key as u8; 32] },
            leaves: None,
            terms: self.setting.terms(),
            session: SessionId(self.processes[task.process].session),
        }
    }

    fn report(&mut self, task: usize, report: Report) {
        let epoch = self.epoch_of(task);
        self.send(task, Command::Hold(epoch, report));
    }

    fn epoch_of(&self, task: usize) -> Epoch {
        self.tasks[task].epoch.expect("a grant came before")
    }

    /// No answer: the same command again, or the caller gives up before anything was begun (L13).
    pub(super) fn time_out(&mut self, task: usize, life: u32, message: usize) {
        let waits = self.tasks[task].waits_for == Some(message);
        if !waits || self.alive(self.tasks[task].process, life).is_none() {
            return;
        }
        if self.tasks[task].phase == Phase::Claiming && self.rng.one_in(4) {
            self.history.count("abandoned");
            self.go(task, Phase::Abandoning);
        }
        self.history.count("sent again");
        let command = self.messages[message].command.clone();
        self.send(task, command);
    }

    pub(super) fn hear(&mut self, task: usize, life: u32, message: usize) {
        let waits = self.tasks[task].waits_for == Some(message);
        if !waits || self.alive(self.tasks[task].process, life).is_none() {
            return;
        }
        self.tasks[task].waits_for = None;
        let state = &self.messages[message];
        let (sent, claim_life) = (state.sent, state.claim_life);
        match state.answer.clone() {
            Some(Answer::Verdict(verdict)) => self.hear_verdict(task, verdict, sent, claim_life),
            Some(Answer::Ending(ending)) => self.hear_ending(task, ending, sent, claim_life),
            other => unreachable!("a task was answered with {other:?}"),
        }
    }

    fn hear_verdict(&mut self, task: usize, verdict: Verdict, sent: Timestamp, claim_life: usize) {
        let abandoning = self.tasks[task].phase == Phase::Abandoning;
        match verdict {
            Verdict::Granted(grant) => {
                self.tasks[task].epoch = Some(grant.epoch);
                if abandoning {
                    return self.conclude(task, Report::Release(Ran::No));
                }
                self.confirm(task, sent);
                self.go(task, if grant.must_ask { Phase::Asking } else { Phase::Holding });
                // Getting ready takes its time.
                let wait = if self.rng.one_in(4) { self.rng.millis(10, 40_000) } else { millis(1) };
                let life = self.life_of(task);
                self.after(wait, Event::GoOn { task, life });
            }
            _ if abandoning => self.go(task, Phase::Done),
            Verdict::Replay(kept) => self.answer(task, &kept.outcome, claim_life),
            Verdict::Held { .. } => self.wait(task, 0),
            Verdict::InDoubt { .. } | Verdict::Mismatch { .. } => self.retry(task),
            Verdict::Spent => self.retry(task),
        }
    }

    /// The ledger confirmed the claim at some time after this was sent.
    fn confirm(&mut self, task: usize, sent: Timestamp) {
        let process = &self.processes[self.tasks[task].process];
        // If the session may have lapsed by the time it was sent, nothing is sure.
        let sure = sent < process.sure_until;
        self.tasks[task].gaps = if sure { process.gaps } else { process.gaps.wrapping_sub(1) };
    }

    fn retry(&mut self, task: usize) {
        if self.tasks[task].attempts >= 4 {
            return self.go(task, Phase::Done);
        }
        self.go(task, Phase::New);
        let wait = self.rng.millis(500, 60_000);
        self.after(wait, Event::Start { task });
    }

    fn wait(&mut self, task: usize, looks: u32) {
        self.go(task, Phase::Waiting { looks });
        let wait = self.rng.millis(250, 8_000);
        let life = self.life_of(task);
        self.after(wait, Event::GoOn { task, life });
    }

    pub(super) fn go_on(&mut self, task: usize, life: u32) {
        if self.alive(self.tasks[task].process, life).is_none() {
            return;
        }
        match self.tasks[task].phase.clone() {
            Phase::Waiting { looks } => self.look_again(task, looks),
            Phase::Holding => self.begin_work(task),
            Phase::Asking => self.ask_work(task),
            _ => {}
        }
    }

    /// A waiter never becomes an attempt (L9).
    fn look_again(&mut self, task: usize, looks: u32) {
        let key = self.tasks[task].key;
        match self.ledger.view(key, self.now) {
            Some(View::Settled(kept)) => {
                self.history.count("attached");
                self.answer(task, &kept.outcome, self.history.life(key));
            }
            Some(View::Held { .. }) if looks < 5 => self.wait(task, looks + 1),
            _ => self.retry(task),
        }
    }

    /// Begins, if nothing can have happened to the claim since the ledger confirmed it (L4).
    fn begin_work(&mut self, task: usize) {
        let state = &self.tasks[task];
        let process = &self.processes[state.process];
        let in_time = !self.setting.is_remote() || self.now < state.asked_at.after(self.setting.give_up);
        if !in_time {
            self.history.count("gave up before it began");
            return self.conclude(task, Report::Release(Ran::No));
        }
        let ignores_gaps = self.setting.flaw == Some(Flaw::BeginOnRevivedSession);
        let no_gap = state.gaps == process.gaps || ignores_gaps;
        if !no_gap || self.now.after(TERM / 3) > process.sure_until {
            self.history.count("renewed first");
            self.go(task, Phase::Renewing);
            return self.report(task, Report::Renew);
        }
        self.go(task, Phase::Running);
        let how = *self.rng.pick(&[
            Ended::Succeeded,
            Ended::Succeeded,
            Ended::Refused,
            Ended::NotRun,
            Ended::Unknown,
        ]);
        if self.setting.is_remote() { self.call(task, how) } else { self.run_here(task, how) }
    }

    /// Work in the process itself: its effect comes at once or never.
    fn run_here(&mut self, task: usize, how: Ended) {
        let (key, epoch) = (self.tasks[task].key, self.epoch_of(task));
        if how == Ended::Succeeded || (how == Ended::Unknown && self.rng.one_in(2)) {
            self.have_effect(key, epoch);
        }
        self.end_after(task, how, 1, 50_000);
    }

    /// Work elsewhere: the call may arrive at any time until the give-up, whatever its caller hears.
    fn call(&mut self, task: usize, how: Ended) {
        let (key, epoch) = (self.tasks[task].key, self.epoch_of(task));
        let until = self.tasks[task].asked_at.after(self.setting.give_up);
        let left = u64::try_from(until.since(self.now).as_millis()).unwrap_or(u64::MAX).max(1);
        if matches!(how, Ended::Succeeded | Ended::Unknown) {
            let travel = self.rng.below(left.min(20_000));
            self.after(millis(travel), Event::Effect { key, epoch: epoch.counter(), until });
            let hears = if how == Ended::Succeeded { travel + 1 } else { self.rng.below(left) };
            return self.end_after(task, how, hears, hears + 1);
        }
        self.end_after(task, how, 1, left.max(2));
    }

    fn end_after(&mut self, task: usize, how: Ended, from: u64, to: u64) {
        let (wait, life) = (self.rng.millis(from, to), self.life_of(task));
        self.after(wait, Event::Ended { task, life, how });
    }

    pub(super) fn effect(&mut self, key: usize, counter: u64, until: Timestamp) {
        if self.now < until {
            self.have_effect(key, epoch(counter));
        }
    }

    fn have_effect(&mut self, key: usize, epoch: Epoch) {
        if self.upstream[key].refuses_below.is_some_and(|below| epoch < below) {
            return self.history.count("refused by the work");
        }
        let outcome = success(epoch);
        self.history.effect(key, epoch);
        self.history.brought(key, outcome.clone());
        self.upstream[key].done.get_or_insert(outcome);
    }

    pub(super) fn work_ended(&mut self, task: usize, life: u32, how: Ended) {
        let running = self.tasks[task].phase == Phase::Running;
        if !running || self.alive(self.tasks[task].process, life).is_none() {
            return;
        }
        let (key, epoch) = (self.tasks[task].key, self.epoch_of(task));
        let release_all = self.setting.flaw == Some(Flaw::ReleaseOnAnyError);
        // A call that the work refused because somebody asked did not run.
        let refused = self.upstream[key].refuses_below.is_some_and(|below| epoch < below);
        let report = match how {
            _ if refused => Report::Release(Ran::Perhaps),
            Ended::Succeeded => settle(success(epoch), self.setting.retention),
            Ended::Refused => {
                let outcome = Outcome::Refused(epoch.to_string().into());
                self.history.brought(key, outcome.clone());
                settle(outcome, self.setting.retention)
            }
            Ended::NotRun => Report::Release(Ran::No),
            Ended::Unknown if release_all => Report::Release(Ran::No),
            Ended::Unknown => Report::Release(Ran::Perhaps),
        };
        self.conclude(task, report);
    }

    fn conclude(&mut self, task: usize, report: Report) {
        self.go(task, Phase::Reporting(report.clone()));
        self.report(task, report);
    }

    /// Asks the work whether an earlier attempt ran; it says the truth (L6).
    fn ask_work(&mut self, task: usize) {
        let (key, epoch) = (self.tasks[task].key, self.epoch_of(task));
        debug_assert_eq!(self.setting.rerun, Rerun::Ask, "nobody else must ask");
        match (&self.upstream[key].done, self.rng.below(3)) {
            (_, 0) => {
                self.history.count("asked: unknown");
                self.conclude(task, Report::Doubt(Doubt::Stated));
            }
            (Some(done), _) => {
                let report = settle(done.clone(), self.setting.retention);
                self.history.count("asked: yes");
                self.conclude(task, report);
            }
            (None, _) => {
                self.history.count("asked: no");
                let below = &mut self.upstream[key].refuses_below;
                *below = (*below).max(Some(epoch));
                self.go(task, Phase::Clearing);
                self.report(task, Report::Cleared);
            }
        }
    }

    fn hear_ending(&mut self, task: usize, ending: Ending, sent: Timestamp, claim_life: usize) {
        let phase = self.tasks[task].phase.clone();
        match (phase, ending) {
            (Phase::Renewing | Phase::Clearing, Ending::Renewed { .. }) => {
                let process = self.tasks[task].process;
                self.processes[process].renewed(sent, self.now);
                self.confirm(task, sent);
                self.go(task, Phase::Holding);
                self.begin_work(task);
            }
            (Phase::Renewing | Phase::Clearing, _) => self.conclude(task, Report::Release(Ran::No)),
            (Phase::Reporting(Report::Settle(own, _)), Ending::LostLease | Ending::AlreadySettled(_))
                if self.setting.flaw == Some(Flaw::AnswerOwnResult) =>
            {
                self.answer(task, &own, claim_life);
            }
            (_, Ending::Settled(kept) | Ending::AlreadySettled(kept)) => {
                self.answer(task, &kept.outcome, claim_life);
            }
            (_, Ending::LostLease) => self.read_ledger(task),
            _ => self.retry(task),
        }
    }

    /// Whoever lost its lease answers from the ledger (L5).
    fn read_ledger(&mut self, task: usize) {
        let key = self.tasks[task].key;
        match self.ledger.view(key, self.now) {
            Some(View::Settled(kept)) => self.answer(task, &kept.outcome, self.history.life(key)),
            _ => self.retry(task),
        }
    }

    fn answer(&mut self, task: usize, outcome: &Outcome, claim_life: usize) {
        self.history.answered(self.tasks[task].key, outcome, claim_life);
        self.go(task, Phase::Done);
    }
}

/// The outcome of the run under this epoch.
fn success(epoch: Epoch) -> Outcome {
    Outcome::Succeeded(epoch.to_string().into())
}

fn settle(outcome: Outcome, retention: hapax_core::Retention) -> Report {
    Report::Settle(outcome, retention)
}
