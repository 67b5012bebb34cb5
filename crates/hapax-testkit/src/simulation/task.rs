//! One caller's way: the async shell of `once`, without the async.
//!
//! What a call does next is [`Turn::command`]'s to say, and what it still owes is [`Debt`]'s. Here its commands go into the network,
//! what comes back becomes events, and what its caller is told goes into the history. `work` is what is done in between.

use hapax_core::advice::LastWord;
use hapax_core::turn::{self, Deadline, Debt, Due, Event as Heard, Paid, Patience, Standing, Turn};
use hapax_core::{
    Answer, Ask, AttemptId, ClaimId, Command, Effect, Ending, Epoch, Fingerprint, Kept, OperationId, Outcome,
    Ran, RecipeId, Report, Session, SessionId, Timestamp, Verdict, View,
};

use super::history::Moment;
use super::network::TERM;
use super::{Event, Simulation};
use crate::clock::START;
use crate::model::Flaw;
use crate::model::flaw::{Look, advance};

/// Calls of one task at most.
const CALLS: u32 = 4;
/// How often a waiter looks.
const LOOKS: u32 = 5;

/// A process, as it sees itself.
pub(super) struct Process {
    pub(super) life: u32,
    pub(super) up: bool,
    pub(super) session: u64,
    pub(super) suspended_until: Timestamp,
    /// Until when its session certainly lives.
    sure_until: Timestamp,
}

impl Process {
    pub(super) fn new(session: u64, now: Timestamp) -> Self {
        Process { life: 0, up: true, session, suspended_until: Timestamp::ZERO, sure_until: now.after(TERM) }
    }

    pub(super) fn renewed(&mut self, sent: Timestamp) {
        self.sure_until = self.sure_until.max(sent.after(TERM));
    }

    pub(super) fn restarted(&mut self, session: u64, now: Timestamp) {
        *self = Process { life: self.life, ..Process::new(session, now) };
    }

    /// What it is sure of. A session that lapsed and was renewed since has time left as well: that is [`Deadline`]'s to know.
    fn session(&self, now: Timestamp) -> Session {
        Session { id: SessionId(self.session), term: TERM, left: self.sure_until.since(now), lapses: 0 }
    }
}

/// One caller.
pub(super) struct Task {
    pub(super) process: usize,
    pub(super) key: usize,
    pub(super) waits_for: Option<usize>,
    /// The call that is under way.
    pub(super) turn: Option<Turn>,
    pub(super) epoch: Option<Epoch>,
    deadline: Option<Deadline>,
    /// What the ledger must still hear of a call that is over.
    debt: Debt,
    /// What is reported; the machine knows no bytes.
    report: Option<Report>,
    /// What the ledger keeps, and in which life of the claim.
    kept: Option<(Outcome, usize)>,
    /// The first and the last moment at which the ledger answered this call.
    heard: Option<(Moment, Moment)>,
    calls: u32,
    attempts: u32,
    looks: u32,
    renewed: bool,
    done: bool,
}

impl Task {
    pub(super) fn new(process: usize, key: usize) -> Self {
        Task {
            process,
            key,
            waits_for: None,
            turn: None,
            epoch: None,
            deadline: None,
            debt: Debt::Nothing,
            report: None,
            kept: None,
            heard: None,
            calls: 0,
            attempts: 0,
            looks: 0,
            renewed: false,
            done: false,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The process died; whoever had begun is gone, with what it owed.
    pub(super) fn crash(&mut self) {
        if self.turn.take().is_some() || self.debt != Debt::Nothing {
            (self.debt, self.waits_for, self.done) = (Debt::Nothing, None, true);
        }
    }

    /// When a call that begins now must have reached the work.
    pub(super) fn give_up_at(&self) -> Option<Timestamp> {
        self.deadline.and_then(|deadline| deadline.give_up_at()).map(|at| START.after(at))
    }
}

impl Simulation {
    /// The process in this life of it, if it is still in it.
    pub(super) fn alive(&self, process: usize, life: u32) -> Option<&Process> {
        Some(&self.processes[process]).filter(|process| process.up && process.life == life)
    }

    pub(super) fn life_of(&self, task: usize) -> u32 {
        self.processes[self.tasks[task].process].life
    }

    pub(super) fn epoch_of(&self, task: usize) -> Epoch {
        self.tasks[task].epoch.expect("a grant came before")
    }

    /// The process's clock, which counts suspend.
    fn boot_time(&self) -> std::time::Duration {
        self.now.since(START)
    }

    fn session_of(&self, task: usize) -> Session {
        self.processes[self.tasks[task].process].session(self.now)
    }

    fn patience(&self) -> Patience {
        Patience {
            rejects: self.setting.rejects,
            retries: self.setting.retries,
            ..Patience::new(self.setting.rerun)
        }
    }

    pub(super) fn start(&mut self, task: usize) {
        if !self.processes[self.tasks[task].process].up {
            let wait = self.rng.millis(1_000, 20_000);
            return self.after(wait, Event::Start { task });
        }
        let turn = Turn::new(self.patience());
        let state = &mut self.tasks[task];
        state.calls += 1;
        state.attempts += 1;
        (state.turn, state.epoch, state.report) = (Some(turn), None, None);
        (state.kept, state.heard, state.renewed) = (None, None, false);
        self.carry_out(task);
    }

    /// Something happened to the call that is under way.
    pub(super) fn on(&mut self, task: usize, event: Heard) {
        let Some(turn) = self.tasks[task].turn else { return };
        let session = self.session_of(task);
        let look = Look { lives: session.left >= TERM / 3, renewed: self.tasks[task].renewed };
        let next = advance(self.setting.flaw, turn, event, look, self.patience());
        self.tell(|_| format!("  task {task}: {event:?}, then {:?}", next.command()));
        self.tasks[task].turn = Some(next);
        self.rewrite(task, turn, next);
        // Its caller may leave at any time, and is told what is known by then.
        self.told(task, next);
        self.carry_out(task);
    }

    /// What the caller is told now. Where the ledger speaks last, that is as old as its answer; any other word must be true now.
    fn told(&mut self, task: usize, turn: Turn) {
        let key = self.tasks[task].key;
        let (Some(advice), Some((first, answered))) = (turn.advice(), self.tasks[task].heard) else { return };
        let heard = match turn.command() {
            turn::Command::End(last) => last.is_the_ledgers(),
            _ => false,
        };
        let last = if heard { answered } else { self.history.moment(key) };
        self.history.told(key, advice.executed, first, last);
    }

    /// What a flaw makes of the bytes that belong to an event.
    fn rewrite(&mut self, task: usize, before: Turn, after: Turn) {
        let (key, own) = (self.tasks[task].key, self.tasks[task].report.clone());
        let Some(Report::Settle(own, _)) = own else { return };
        let life = self.history.life(key);
        match (self.setting.flaw, before.command(), after.command()) {
            (Some(Flaw::AnswerBeforeStore), turn::Command::Run, turn::Command::Report { .. }) => {
                self.history.answered(key, &own, life);
            }
            (
                Some(Flaw::AnswerOwnResult),
                turn::Command::Report { .. },
                turn::Command::End(LastWord::Kept(_)),
            ) => {
                self.tasks[task].kept = Some((own, life));
            }
            _ => {}
        }
    }

    /// Does what the machine says.
    fn carry_out(&mut self, task: usize) {
        let Some(turn) = self.tasks[task].turn else { return };
        match turn.command() {
            turn::Command::Claim => {
                let terms = self.setting.terms();
                let deadline = Deadline::new(self.boot_time(), &self.session_of(task), &terms);
                (self.tasks[task].deadline, self.tasks[task].looks) = (Some(deadline), 0);
                self.send_claim(task);
            }
            turn::Command::Wait | turn::Command::Pause => self.go_on_after(task, 250, 8_000),
            // Getting ready takes its time; so does whatever comes between an answer and the first byte.
            turn::Command::Reconcile | turn::Command::Check => {
                let to = if self.rng.one_in(4) { 40_000 } else { 2 };
                self.go_on_after(task, 1, to);
            }
            turn::Command::Clear => self.send_report(task, Report::Cleared),
            turn::Command::Renew => {
                self.history.count("renewed first");
                self.send_report(task, Report::Renew);
            }
            turn::Command::Run => self.begin_work(task),
            turn::Command::Report { due, .. } => {
                let report = match due {
                    Due::Settle | Due::Doubt => self.tasks[task].report.clone().expect("it has ended"),
                    Due::NotRun => Report::Release(Ran::No),
                    Due::MayHaveRun => Report::Release(Ran::Perhaps),
                };
                self.tasks[task].report = Some(report.clone());
                self.send_report(task, report);
            }
            turn::Command::Read => {
                let event = self.look_at_ledger(task, true);
                self.on(task, event);
            }
            turn::Command::End(last) => self.end(task, turn, last),
            turn::Command::Rehash(_) => unreachable!("all of them hash alike"),
        }
    }

    fn go_on_after(&mut self, task: usize, from: u64, to: u64) {
        let (wait, life) = (self.rng.millis(from, to), self.life_of(task));
        self.after(wait, Event::GoOn { task, life });
    }

    pub(super) fn go_on(&mut self, task: usize, life: u32) {
        let Some(turn) = self.tasks[task].turn else { return };
        if self.alive(self.tasks[task].process, life).is_none() {
            return;
        }
        match turn.command() {
            turn::Command::Wait => self.look_again(task),
            turn::Command::Pause => {
                let in_time = !self.rng.one_in(3);
                self.on(task, Heard::Rested(in_time));
            }
            turn::Command::Reconcile => self.ask_work(task),
            turn::Command::Check => self.check(task),
            _ => {}
        }
    }

    /// Looks at clock and session (L4). What follows, follows at once.
    fn check(&mut self, task: usize) {
        let (now, session) = (self.boot_time(), self.session_of(task));
        let deadline = self.tasks[task].deadline.expect("the claim was sent");
        let standing = deadline.standing(now, &session);
        if matches!(standing, Standing::TooLate(_)) {
            self.history.count("gave up before it began");
        }
        self.on(task, Heard::Standing(standing));
    }

    /// A waiter never becomes an attempt (L9), unless it may claim for itself.
    fn look_again(&mut self, task: usize) {
        let first = self.tasks[task].looks == 0;
        let event = self.look_at_ledger(task, !first);
        if event == Heard::Held && self.tasks[task].looks < LOOKS {
            self.tasks[task].looks += 1;
            return self.go_on_after(task, 250, 8_000);
        }
        if matches!(event, Heard::Kept { .. }) {
            self.history.count("attached");
        }
        self.on(task, event);
    }

    /// What a reader sees; `held` says whether it saw another holder itself.
    fn look_at_ledger(&mut self, task: usize, held: bool) -> Heard {
        let key = self.tasks[task].key;
        self.heard_at(task, self.history.moment(key));
        match self.ledger.view(key, self.now) {
            Some(View::Settled(kept)) => self.keep(task, kept, self.history.life(key)),
            Some(View::Held { .. }) => Heard::Held,
            Some(View::InDoubt { .. }) => Heard::InDoubt,
            Some(View::Released { .. }) if held => Heard::GivenBack,
            Some(View::Released { .. }) => Heard::Silent,
            None => Heard::Gone,
        }
    }

    fn keep(&mut self, task: usize, kept: Kept, life: usize) -> Heard {
        let effect = effect_of(&kept.outcome);
        self.tasks[task].kept = Some((kept.outcome, life));
        Heard::Kept { effect, may_have_run: kept.earlier_may_have_run }
    }

    fn heard_at(&mut self, task: usize, moment: Moment) {
        let first = self.tasks[task].heard.map_or(moment, |(first, _)| first);
        self.tasks[task].heard = Some((first, moment));
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

    fn send_report(&mut self, task: usize, report: Report) {
        let epoch = self.epoch_of(task);
        self.send(task, Command::Hold(epoch, report));
    }

    /// No answer: the same command again, or the call gives up.
    pub(super) fn time_out(&mut self, task: usize, life: u32, message: usize) {
        let waits = self.tasks[task].waits_for == Some(message);
        if !waits || self.alive(self.tasks[task].process, life).is_none() {
            return;
        }
        if let Some(turn) = self.tasks[task].turn
            && self.rng.one_in(4)
        {
            return self.give_up(task, turn);
        }
        self.history.count("sent again");
        let command = self.messages[message].command.clone();
        self.send(task, command);
    }

    /// The call ends without an answer, or its caller leaves it alone. What it owes is paid (L13).
    fn give_up(&mut self, task: usize, turn: Turn) {
        self.tasks[task].waits_for = None;
        let command = turn.command();
        if command == turn::Command::Claim {
            self.history.count("abandoned");
        }
        if self.rng.one_in(2) {
            self.history.count("dropped");
            return self.owe(task, turn.debt());
        }
        let spooled = matches!(command, turn::Command::Report { due: Due::Settle, .. }) && self.rng.one_in(2);
        self.on(task, Heard::Unheard(if spooled { LastWord::Spooled } else { LastWord::Away }));
    }

    pub(super) fn hear(&mut self, task: usize, life: u32, message: usize) {
        let waits = self.tasks[task].waits_for == Some(message);
        if !waits || self.alive(self.tasks[task].process, life).is_none() {
            return;
        }
        self.tasks[task].waits_for = None;
        let state = &self.messages[message];
        let (sent, claim_life, moment) = (state.sent, state.claim_life, state.moment);
        let answer = state.answer.clone();
        self.heard_at(task, moment);
        if self.tasks[task].turn.is_none() {
            return self.hear_of_debt(task, answer);
        }
        let event = match answer {
            Some(Answer::Verdict(verdict)) => self.verdict(task, verdict, claim_life),
            Some(Answer::Ending(ending)) => self.ending(task, ending, sent, claim_life),
            other => unreachable!("a task was answered with {other:?}"),
        };
        self.on(task, event);
    }

    fn verdict(&mut self, task: usize, verdict: Verdict, claim_life: usize) -> Heard {
        match verdict {
            Verdict::Granted(grant) => {
                self.tasks[task].epoch = Some(grant.epoch);
                Heard::Granted { may_have_run: grant.earlier_may_have_run, must_ask: grant.must_ask }
            }
            Verdict::Replay(kept) => self.keep(task, kept, claim_life),
            Verdict::Held { .. } => Heard::Held,
            Verdict::InDoubt { .. } => Heard::InDoubt,
            Verdict::Mismatch { .. } => Heard::Differs,
            Verdict::Spent => {
                self.tasks[task].attempts += 1;
                Heard::Spent
            }
        }
    }

    fn ending(&mut self, task: usize, ending: Ending, sent: Timestamp, claim_life: usize) -> Heard {
        match ending {
            Ending::Renewed { .. } => {
                self.confirmed(task, sent);
                Heard::Renewed
            }
            Ending::Settled(kept) | Ending::AlreadySettled(kept) => self.keep(task, kept, claim_life),
            Ending::Released => Heard::Released,
            Ending::InDoubt => Heard::InDoubt,
            Ending::LostLease => {
                if self.setting.flaw == Some(Flaw::RenewAfterLoss) {
                    self.confirmed(task, sent);
                }
                Heard::LostLease
            }
        }
    }

    /// The ledger confirmed the lease at some time after this was sent. A renewal has renewed the session as well.
    fn confirmed(&mut self, task: usize, sent: Timestamp) {
        let renews = self.tasks[task].turn.is_some_and(|turn| turn.command() == turn::Command::Renew);
        let process = &mut self.processes[self.tasks[task].process];
        if renews {
            process.renewed(sent);
        }
        let session = process.session(sent);
        if let Some(deadline) = &mut self.tasks[task].deadline {
            let lasts = if renews { session.term } else { session.left };
            deadline.confirmed(sent.since(START), lasts);
        }
        self.tasks[task].renewed |= renews;
    }

    /// The call is over. An outcome is its caller's answer.
    fn end(&mut self, task: usize, turn: Turn, last: LastWord) {
        if let (LastWord::Kept(_), Some((outcome, life))) = (last, self.tasks[task].kept.take()) {
            self.history.answered(self.tasks[task].key, &outcome, life);
            self.tasks[task].calls = CALLS;
        }
        self.owe(task, turn.debt());
    }

    fn owe(&mut self, task: usize, debt: Debt) {
        self.tasks[task].turn = None;
        self.tasks[task].debt = debt;
        self.pay(task);
    }

    /// Tells the ledger what is owed, until there is nothing left.
    fn pay(&mut self, task: usize) {
        match self.tasks[task].debt {
            Debt::Nothing => self.retry(task),
            Debt::Abandon => self.send_claim(task),
            Debt::NotRun => self.send_report(task, Report::Release(Ran::No)),
            Debt::MayHaveRun => self.send_report(task, Report::Release(Ran::Perhaps)),
            Debt::Pending => {
                let report = self.tasks[task].report.clone().expect("it was under way");
                self.send_report(task, report);
            }
        }
    }

    fn hear_of_debt(&mut self, task: usize, answer: Option<Answer>) {
        let paid = match answer {
            Some(Answer::Verdict(Verdict::Granted(grant))) => {
                self.tasks[task].epoch = Some(grant.epoch);
                Paid::Granted
            }
            _ => Paid::Heard,
        };
        self.tasks[task].debt = self.tasks[task].debt.on(paid);
        self.pay(task);
    }

    /// Whoever was not answered comes again, some time later.
    fn retry(&mut self, task: usize) {
        if self.tasks[task].calls >= CALLS {
            self.tasks[task].done = true;
            return;
        }
        let wait = self.rng.millis(500, 60_000);
        self.after(wait, Event::Start { task });
    }

    /// It is known how it ended, and what is to be reported of it.
    pub(super) fn ended(&mut self, task: usize, event: Heard, report: Option<Report>) {
        self.tasks[task].report = report;
        self.on(task, event);
    }

    pub(super) fn is_running(&self, task: usize) -> bool {
        self.tasks[task].turn.is_some_and(|turn| turn.command() == turn::Command::Run)
    }
}

/// What an outcome tells of the work: here a refusal has done nothing.
pub(super) fn effect_of(outcome: &Outcome) -> Effect {
    match outcome {
        Outcome::Refused(_) => Effect::Nothing,
        other => Effect::of(other),
    }
}
