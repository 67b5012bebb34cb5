//! What can happen next, and how it changes the world.

use hapax_core::{Answer, Command, Decision, Operated, StateName, Verb};

use super::config::{Config, Work};
use super::flaw::Flaw;
use super::ledger::{Turn, number};
use super::process::{End, Reply, may_begin};
use super::properties::{Rule, Sighting};
use super::world::{Epochs, Message, Phase, Tag, Told, World, bit, small};

/// One thing that can happen. Processes and sessions are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A caller comes to a process, which claims.
    Claim(usize),
    /// The same, but the claim goes off without an answer.
    ClaimLost(usize),
    /// The same claim is sent again.
    Resend(usize),
    /// The caller is sent away while nobody knows what became of its claim.
    Abandon(usize),
    /// A planted flaw: the claim is taken for granted.
    Guess(usize),
    /// A lapsed session and its claim are renewed.
    Renew(usize),
    /// A grant is given back before anything was begun.
    GiveBack(usize),
    /// The work is called.
    Begin(usize),
    /// The work ends.
    End(usize, End),
    /// The application's transaction commits, with the settle in it.
    Guard(usize),
    /// Nobody knows whether the application's transaction commits.
    GuardLost(usize),
    /// The work is asked whether it ran.
    Ask(usize, Reply),
    /// The ledger is told that nothing ran.
    Clear(usize),
    /// The same, without an answer.
    ClearLost(usize),
    /// The ledger is told how it ended.
    Report(usize),
    /// The same, without an answer.
    ReportLost(usize),
    /// The ledger is read after a lost lease.
    ReadLedger(usize),
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

/// Everything that can happen in this world.
pub(super) fn possible(config: &Config, world: &World, actions: &mut Vec<Action>) {
    if world.broken.any() {
        return;
    }
    let turn = Possible { config, world };
    for index in 0..config.processes {
        turn.of_process(index, actions);
        turn.of_faults(index, actions);
    }
    turn.of_surroundings(actions);
    turn.of_operators(actions);
}

struct Possible<'a> {
    config: &'a Config,
    world: &'a World,
}

impl Possible<'_> {
    fn may_lose(&self) -> bool {
        self.config.switches.loss && self.world.losses < self.config.losses
    }

    fn of_process(&self, index: usize, actions: &mut Vec<Action>) {
        match self.world.processes[index].phase {
            Phase::Idle => self.idle(index, actions),
            Phase::Down => {}
            Phase::Unsure => {
                actions.push(Action::Resend(index));
                self.push_if(self.config.switches.abandon, Action::Abandon(index), actions);
                self.push_if(
                    self.config.flaw == Some(Flaw::GuessUnknownCommit),
                    Action::Guess(index),
                    actions,
                );
            }
            Phase::Abandoning => actions.push(Action::Resend(index)),
            Phase::Waiting => actions.push(Action::Wake(index)),
            Phase::Holding { must_ask, sure, .. } => self.holding(index, must_ask, sure, actions),
            Phase::Clearing { .. } => {
                actions.push(Action::Clear(index));
                self.push_if(self.may_lose(), Action::ClearLost(index), actions);
            }
            Phase::Running { epoch } => self.ends(index, epoch, actions),
            Phase::Reporting { .. } => {
                actions.push(Action::Report(index));
                self.push_if(self.may_lose(), Action::ReportLost(index), actions);
            }
            Phase::Lost => actions.push(Action::ReadLedger(index)),
        }
    }

    fn idle(&self, index: usize, actions: &mut Vec<Action>) {
        let process = self.world.processes[index];
        // Processes are alike: the next one begins only after the one before it has.
        let in_order = index == 0 || process.callers > 0 || self.world.processes[index - 1].callers > 0;
        if process.callers >= self.config.callers || !in_order {
            return;
        }
        actions.push(Action::Claim(index));
        self.push_if(self.may_lose(), Action::ClaimLost(index), actions);
        let kept = process.copy.is_some_and(|copy| copy.day == self.world.day);
        self.push_if(kept, Action::TableAnswer(index), actions);
    }

    fn holding(&self, index: usize, must_ask: bool, sure: bool, actions: &mut Vec<Action>) {
        self.push_if(!sure && self.config.switches.revive, Action::Renew(index), actions);
        if must_ask {
            return self.asking(index, actions);
        }
        if self.config.work == Work::Guarded {
            actions.push(Action::Guard(index));
            self.push_if(self.may_lose(), Action::GuardLost(index), actions);
        } else if !may_begin(self.config, self.world, index) {
            actions.push(Action::GiveBack(index));
        } else if self.config.work == Work::Remote {
            actions.push(Action::Begin(index));
        } else if let Some(epoch) = self.world.processes[index].phase.epoch() {
            self.ends(index, epoch, actions);
        }
    }

    fn asking(&self, index: usize, actions: &mut Vec<Action>) {
        let switches = self.config.switches;
        let done = self.world.done.is_some();
        self.push_if(switches.ask_yes && done, Action::Ask(index, Reply::Yes), actions);
        self.push_if(switches.ask_no && !done, Action::Ask(index, Reply::No), actions);
        self.push_if(switches.ask_unknown, Action::Ask(index, Reply::Unknown), actions);
    }

    fn ends(&self, index: usize, epoch: u8, actions: &mut Vec<Action>) {
        let switches = self.config.switches;
        let accepted = epoch >= self.world.refuses_below;
        let end = |end| Action::End(index, end);
        self.push_if(accepted, end(End::Succeeded), actions);
        self.push_if(switches.refused && accepted, end(End::Refused), actions);
        self.push_if(switches.not_run || !accepted, end(End::NotRun), actions);
        self.push_if(switches.unknown && accepted, end(End::UnknownDone), actions);
        self.push_if(switches.unknown, end(End::UnknownNot), actions);
    }

    fn of_faults(&self, index: usize, actions: &mut Vec<Action>) {
        let process = self.world.processes[index];
        let switches = self.config.switches;
        if process.phase == Phase::Down {
            // The tasks of an embedded store's one process are started together.
            self.push_if(!self.config.embedded || index == 0, Action::Restart(index), actions);
            return;
        }
        let crashes = switches.crash && self.world.crashes < self.config.crashes;
        let begun = process.callers > 0;
        self.push_if(
            crashes && begun && (!self.config.embedded || index == 0),
            Action::Crash(index),
            actions,
        );
        self.push_if(process.copy.is_some(), Action::DropCopy(index), actions);
    }

    fn of_surroundings(&self, actions: &mut Vec<Action>) {
        let (world, switches) = (self.world, self.config.switches);
        for session in 0..world.sessions {
            let live = world.is_live(session);
            let owner = world.processes[..self.config.processes]
                .iter()
                .find(|process| process.session == session && process.phase != Phase::Down);
            // The lapse of a session that holds nothing changes nothing.
            self.push_if(
                switches.lapse && live && self.world.holds(session),
                Action::Lapse(session),
                actions,
            );
            self.push_if(switches.revive && !live && owner.is_some(), Action::Revive(session), actions);
        }
        self.push_if(world.floating.is_some(), Action::Arrive, actions);
        for epoch in (0..world.next_epoch).filter(|epoch| world.orphans & bit(*epoch) != 0) {
            actions.push(Action::OrphanEffect(epoch));
        }
        self.push_if(switches.time && world.day < self.config.days, Action::Day, actions);
        self.push_if(switches.sweep && world.claim.0.is_some(), Action::Sweep, actions);
    }

    fn of_operators(&self, actions: &mut Vec<Action>) {
        let (world, switches) = (self.world, self.config.switches);
        let Some(claim) = &world.claim.0 else { return };
        if world.decisions >= self.config.decisions {
            return;
        }
        let settled = claim.state.name() == StateName::Settled;
        self.push_if(switches.release && !settled, Action::Operate(Decides::Release), actions);
        self.push_if(switches.force && !settled, Action::Operate(Decides::ForceRelease), actions);
        self.push_if(switches.settle && !settled, Action::Operate(Decides::Settle), actions);
        self.push_if(switches.reopen && settled, Action::Operate(Decides::Reopen), actions);
        self.push_if(switches.purge && settled, Action::Operate(Decides::Purge), actions);
        self.push_if(switches.erase && settled, Action::Operate(Decides::Erase), actions);
    }

    fn push_if(&self, possible: bool, action: Action, actions: &mut Vec<Action>) {
        if possible {
            actions.push(action);
        }
    }
}

impl Turn<'_> {
    /// Lets one thing happen. Returns whether it changed anything.
    pub(super) fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Crash(_)
            | Action::Restart(_)
            | Action::Lapse(_)
            | Action::Revive(_)
            | Action::Arrive
            | Action::OrphanEffect(_)
            | Action::Day
            | Action::Sweep
            | Action::DropCopy(_) => self.happen(action),
            Action::Operate(decides) => {
                if !self.operate(decides) {
                    return false;
                }
            }
            Action::Wake(index) => {
                if !self.wake(index) {
                    return false;
                }
            }
            _ => self.proceed(action),
        }
        self.settle_accounts();
        true
    }

    /// What a process does of its own accord.
    fn proceed(&mut self, action: Action) {
        match action {
            Action::Claim(index) => self.claim(index),
            Action::Resend(index) => self.send_claim(index, true),
            Action::Abandon(index) => self.process(index).phase = Phase::Abandoning,
            Action::Guess(index) => self.hold_unclaimed(index),
            Action::Renew(index) => self.renew(index),
            Action::ReadLedger(index) => self.read_ledger(index),
            Action::TableAnswer(index) => {
                if let Some(copy) = self.process(index).copy {
                    self.answer_from_table(index, copy);
                }
            }
            Action::ClaimLost(index) => self.lose_claim(index),
            Action::GiveBack(index)
            | Action::Begin(index)
            | Action::End(index, _)
            | Action::Guard(index)
            | Action::GuardLost(index)
            | Action::Ask(index, _)
            | Action::Clear(index)
            | Action::ClearLost(index)
            | Action::Report(index)
            | Action::ReportLost(index) => {
                let phase = self.process(index).phase;
                let epoch = phase.epoch().expect("these are done under an epoch");
                self.proceed_under(action, index, phase, epoch);
            }
            _ => unreachable!("{action:?} is no process's own"),
        }
    }

    /// What a process does under its epoch.
    fn proceed_under(&mut self, action: Action, index: usize, phase: Phase, epoch: u8) {
        match (action, phase) {
            (Action::GiveBack(_), _) => {
                self.process(index).phase = Phase::Reporting { epoch, report: Told::ReleaseNo };
            }
            (Action::Begin(_), _) => self.process(index).phase = Phase::Running { epoch },
            (Action::End(_, end), _) => self.end(index, epoch, end),
            (Action::Guard(_), _) => self.guard(index, epoch),
            (Action::GuardLost(_), _) => {
                self.lose(Message::Guard { epoch });
                self.process(index).phase = Phase::Unsure;
            }
            (Action::Ask(_, reply), _) => self.ask_work(index, epoch, reply),
            (Action::Clear(_), _) => self.clear(index, epoch),
            (Action::ClearLost(_), _) => self.lose(Message::Clear { epoch }),
            (Action::Report(_), Phase::Reporting { report, .. }) => self.report(index, epoch, report),
            (Action::ReportLost(_), Phase::Reporting { report, .. }) => {
                self.lose(Message::Report { process: small(index), epoch, report });
            }
            other => unreachable!("{other:?} cannot be"),
        }
    }

    fn lose(&mut self, message: Message) {
        self.world.losses += 1;
        self.world.floating = Some(message);
    }

    fn lose_claim(&mut self, index: usize) {
        self.open(index);
        let process = self.process(index);
        process.phase = Phase::Unsure;
        let (caller, session) = (process.callers, process.session);
        self.lose(Message::Claim { process: small(index), caller, session });
    }

    /// What happens to the processes.
    fn happen(&mut self, action: Action) {
        match action {
            Action::Crash(index) => self.crash(index),
            Action::Restart(index) => self.restart(index),
            Action::Lapse(session) => self.lapse(session),
            Action::Revive(session) => self.world.live |= 1 << session,
            Action::Arrive => {
                if let Some(message) = self.world.floating.take() {
                    self.arrive(message);
                }
            }
            Action::OrphanEffect(epoch) => {
                self.world.orphans &= !bit(epoch);
                if epoch >= self.world.refuses_below {
                    self.seen.add(Sighting::OrphanEffect);
                    self.effect(epoch);
                }
            }
            Action::Day => self.pass_day(),
            Action::Sweep => {
                if let Some(epoch) = self.world.claim.0.as_ref().map(|claim| claim.epoch) {
                    self.apply(&Command::Sweep(epoch));
                }
            }
            Action::DropCopy(index) => {
                let old = self.process(index).copy.take();
                if self.world.history.returning && old.is_some() {
                    self.seen.add(Sighting::TableInvalidated);
                }
            }
            _ => unreachable!("{action:?} does not happen by itself"),
        }
    }

    fn crash(&mut self, index: usize) {
        self.world.crashes += 1;
        let crashed = if self.config.embedded { 0..self.config.processes } else { index..index + 1 };
        for index in crashed {
            let process = self.process(index);
            let phase = std::mem::replace(&mut process.phase, Phase::Down);
            process.copy = None;
            if let Phase::Running { epoch } = phase {
                self.orphan(epoch);
            }
            if phase.epoch().is_some() {
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
            process.session = session;
            process.phase = Phase::Idle;
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
            if let Phase::Holding { sure, .. } = &mut process.phase {
                *sure = false;
            }
        }
    }

    /// A day is longer than the give-up: calls that have not reached the work never will.
    fn pass_day(&mut self) {
        self.world.day += 1;
        if self.config.work != Work::Remote {
            return;
        }
        self.world.orphans = 0;
        let report = self.unknown();
        for process in &mut self.world.processes {
            if let Phase::Running { epoch } = process.phase {
                process.phase = Phase::Reporting { epoch, report };
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
        let answer = self.apply(&Command::Operate(decision));
        let done = matches!(answer, Answer::Operated(Operated::Done(_)));
        if done {
            self.world.decisions += 1;
            self.world.history.stated |= decides == Decides::Settle;
        }
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

    /// Sessions that neither hold nor may begin anything are alike: a process renews its session before it
    /// claims.
    fn forget_sessions(&mut self) {
        for session in 0..self.world.sessions {
            let owner = self.world.processes.iter().find(|process| process.session == session);
            let busy = owner.is_some_and(|owner| owner.phase.epoch().is_some());
            if busy || self.world.holds(session) {
                continue;
            }
            let up = owner.is_some_and(|owner| owner.phase != Phase::Down);
            self.world.live = self.world.live & !(1 << session) | u8::from(up) << session;
        }
    }

    /// What must hold after everything that happens.
    fn settle_accounts(&mut self) {
        self.let_return();
        self.forget_sessions();
        let world = &mut self.world;
        let answered = world.history.answered[usize::from(world.history.life)];
        if answered.is_some() && answered != world.settled() {
            world.broken.add(Rule::AcknowledgedIsRecorded);
        }
        let epochs = world.processes.iter().filter_map(|process| process.phase.epoch());
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
