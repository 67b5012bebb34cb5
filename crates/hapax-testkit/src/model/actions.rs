//! What can happen, and how it changes the world.

use hapax_core::turn::{Command, Debt};
use hapax_core::{Answer, Decision, Operated, StateName, Verb};

use super::config::Work;
use super::flaw::Flaw;
use super::ledger::{Step, number};
use super::properties::{Rule, Sighting};
use super::work::{End, Reply};
use super::world::{Call, Epochs, Tag, bit};

/// One thing that can happen. Processes and sessions are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A caller comes to a process, which claims and is answered.
    Call(usize),
    /// The same, but the claim goes off without an answer.
    CallLost(usize),
    /// What a call says to the ledger, or still owes it, is answered: the same command again where it went off before.
    Send(usize),
    /// It goes off without an answer.
    Lose(usize),
    /// The ledger does not answer, and the call ends without it.
    GiveUp(usize),
    /// The call is dropped where it is.
    Stop(usize),
    /// A planted flaw: the claim is taken for granted.
    Guess(usize),
    /// A look at clock and session, and the work begins if they allow it.
    Check(usize),
    /// The work ends.
    End(usize, End),
    /// The application's transaction commits, with the settle in it.
    Guard(usize),
    /// Nobody knows whether the application's transaction commits.
    GuardLost(usize),
    /// The work is asked whether it ran.
    Ask(usize, Reply),
    /// The ledger is read after a lost lease.
    Read(usize),
    /// A waiter looks again.
    Wake(usize),
    /// A caller is answered from memory.
    TableAnswer(usize),
    /// A copy's validity runs out, or its process acknowledges that it dropped it.
    DropCopy(usize),
    /// A process dies.
    Crash(usize),
    /// It is started again.
    Restart(usize),
    /// A session's term is over.
    Lapse(u8),
    /// A session is renewed after its term was over.
    Revive(u8),
    /// A lost command arrives.
    Arrive,
    /// A call takes effect that nobody waits for.
    OrphanEffect(u8),
    /// A day passes.
    Day,
    /// The sweeper comes by.
    Sweep,
    /// An operator decides.
    Operate(Decides),
}

/// What an operator decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decides {
    /// Release, if it is certain that nothing runs any more.
    Release,
    /// Release, whatever runs.
    ForceRelease,
    /// Settle with an outcome of the operator's.
    Settle,
    /// Reopen.
    Reopen,
    /// Purge.
    Purge,
    /// Erase.
    Erase,
}

impl Step<'_> {
    /// Lets one thing happen. Returns whether it changed anything.
    pub(super) fn act(&mut self, action: Action) -> bool {
        let changed = match action {
            Action::Operate(decides) => self.operate(decides),
            Action::Wake(index) => self.wake(index),
            _ => {
                self.proceed(action);
                true
            }
        };
        if changed {
            self.settle_accounts();
        }
        changed
    }

    fn proceed(&mut self, action: Action) {
        match action {
            Action::Call(index) => self.call(index),
            Action::CallLost(index) => self.call_lost(index),
            Action::Send(index) => self.send(index),
            Action::Lose(index) => self.lose(index),
            Action::GiveUp(index) => self.give_up(index),
            Action::Stop(index) => self.stop(index),
            Action::Guess(index) => self.hold_unclaimed(index),
            Action::Check(index) => self.check(index),
            Action::End(index, end) => {
                if self.world.processes[index].command() == Some(Command::Check) {
                    self.check(index);
                }
                self.end(index, end);
            }
            Action::Guard(index) => self.guard(index),
            Action::GuardLost(index) => self.guard_lost(index),
            Action::Ask(index, reply) => self.ask_work(index, reply),
            Action::Read(index) => self.read_ledger(index),
            Action::TableAnswer(index) => self.answer_from_table(index),
            Action::DropCopy(index) => self.drop_copy(index),
            Action::Crash(index) => self.crash(index),
            Action::Restart(index) => self.restart(index),
            Action::Lapse(session) => self.lapse(session),
            Action::Revive(session) => self.world.live |= 1 << session,
            Action::Arrive => {
                if let Some(message) = self.world.floating.take() {
                    self.arrive(message);
                }
            }
            Action::OrphanEffect(epoch) => self.orphan_effect(epoch),
            Action::Day => self.pass_day(),
            Action::Sweep => {
                if let Some(epoch) = self.world.claim.0.as_ref().map(|claim| claim.epoch) {
                    self.apply(&hapax_core::Command::Sweep(epoch));
                }
            }
            Action::Operate(_) | Action::Wake(_) => unreachable!("these may change nothing"),
        }
    }

    fn orphan_effect(&mut self, epoch: u8) {
        self.world.orphans &= !bit(epoch);
        if epoch >= self.world.refuses_below {
            self.seen.add(Sighting::OrphanEffect);
            self.effect(epoch);
        }
    }

    fn drop_copy(&mut self, index: usize) {
        let old = self.process(index).copy.take();
        if self.world.history.returning && old.is_some() {
            self.seen.add(Sighting::TableInvalidated);
        }
    }

    /// A process dies, with its calls and what they owed.
    fn crash(&mut self, index: usize) {
        self.world.crashes += 1;
        let crashed = if self.config.embedded { 0..self.config.processes } else { index..index + 1 };
        for index in crashed {
            let process = self.process(index);
            let (held, command, epoch) = (process.epoch(), process.command(), process.call.epoch);
            (process.up, process.turn, process.debt) = (false, None, Debt::Nothing);
            (process.call, process.copy) = (Call::default(), None);
            if command == Some(Command::Run) {
                self.orphan(epoch);
            }
            if held.is_some() {
                self.seen.add(Sighting::Crashed);
            }
        }
    }

    fn restart(&mut self, index: usize) {
        let session = self.world.sessions;
        self.world.sessions += 1;
        if self.config.embedded {
            self.end_former_sessions();
        }
        self.world.live |= 1 << session;
        let restarted = if self.config.embedded { 0..self.config.processes } else { index..index + 1 };
        for index in restarted {
            let process = self.process(index);
            (process.up, process.session) = (true, session);
        }
    }

    /// Opening an embedded store ends all former sessions (B6).
    fn end_former_sessions(&mut self) {
        let held = self.world.claim.0.as_ref().is_some_and(|claim| claim.state.name() == StateName::Held);
        if held && self.world.live != 0 {
            self.seen.add(Sighting::RestartEndedLease);
        }
        self.world.live = 0;
    }

    /// Every holder notices that its term was over, by a clock that counts suspend (L4).
    fn lapse(&mut self, session: u8) {
        self.world.live &= !(1 << session);
        for process in self.world.processes.iter_mut().filter(|process| process.session == session) {
            process.call.sure = false;
        }
    }

    /// A day is longer than the give-up: calls that have not reached the work never will.
    fn pass_day(&mut self) {
        self.world.day += 1;
        if self.config.work != Work::Remote {
            return;
        }
        self.world.orphans = 0;
        for index in 0..self.config.processes {
            if self.world.processes[index].command() == Some(Command::Run) {
                self.unknown(index);
            }
        }
    }

    fn operate(&mut self, decides: Decides) -> bool {
        let verb = match decides {
            Decides::Release => Verb::Release { force: false },
            Decides::ForceRelease => Verb::Release { force: true },
            Decides::Settle => Tag::Stated.resolve(),
            Decides::Reopen => Verb::Reopen,
            Decides::Purge => Verb::Purge,
            Decides::Erase => Verb::Erase,
        };
        let Some(claim) = &self.world.claim.0 else { return false };
        let (seen, settled) = (claim.epoch, claim.kept().is_some());
        let decision = Decision { seen, verb, actor: String::new(), reason: String::new() };
        let answer = self.apply(&hapax_core::Command::Operate(decision));
        let done = matches!(answer, Answer::Operated(Operated::Done(_)));
        self.world.decisions += u8::from(done);
        if done && settled {
            self.decide_on(bit(number(seen)));
        }
        done
    }

    /// Nobody who saw the same as an operator before can be told that their decision was carried out, too.
    fn decide_on(&mut self, settled: Epochs) {
        if self.world.history.decided & settled != 0 {
            self.world.broken.add(Rule::OneOperatorWins);
        }
        self.world.history.decided |= settled;
    }

    /// Sessions that hold nothing are alike: a process that is up renews its own.
    fn forget_sessions(&mut self) {
        for session in 0..self.world.sessions {
            if self.world.holds(session) {
                continue;
            }
            let mut processes = self.world.processes.iter();
            let up = processes.any(|process| process.session == session && process.up);
            self.world.live = self.world.live & !(1 << session) | u8::from(up) << session;
        }
    }

    /// What must hold after everything that happens.
    fn settle_accounts(&mut self) {
        self.let_return();
        self.forget_sessions();
        self.tell_all();
        let world = &mut self.world;
        let answered = world.history.answered[usize::from(world.history.life)];
        if answered.is_some() && answered != world.settled() {
            world.broken.add(Rule::AcknowledgedIsRecorded);
        }
        let epochs = world.processes.iter().filter_map(super::world::Process::epoch);
        let mut held = 0;
        for epoch in epochs {
            if held & bit(epoch) != 0 {
                world.broken.add(Rule::OneHolder);
            }
            held |= bit(epoch);
        }
    }

    /// A purge, reopen or erase returns when no copy from before it is left.
    fn let_return(&mut self) {
        let history = &self.world.history;
        let old = |copy: &super::world::Copy| copy.life < history.life;
        let waits = self.world.processes.iter().any(|process| process.copy.as_ref().is_some_and(old));
        if history.returning && (!waits || self.has_flaw(Flaw::TableWithoutValidity)) {
            let history = &mut self.world.history;
            history.returning = false;
            history.returned_life = history.life;
        }
    }
}
