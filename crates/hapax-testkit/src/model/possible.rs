//! Everything that can happen next: for a process, what its call's [`Command`] allows.

use hapax_core::StateName;
use hapax_core::turn::{Command, Debt};

use super::actions::{Action, Decides};
use super::config::{Config, Work};
use super::flaw::Flaw;
use super::ledger::Step;
use super::work::{End, Reply};
use super::world::{Process, World, bit};

/// Everything that can happen in this world.
pub(super) fn possible(step: &Step<'_>, actions: &mut Vec<Action>) {
    if step.world.broken.any() {
        return;
    }
    let possible = Possible { config: step.config, world: &step.world, step };
    for index in 0..step.config.processes {
        possible.of_process(index, actions);
        possible.of_faults(index, actions);
    }
    possible.of_surroundings(actions);
    possible.of_operators(actions);
}

struct Possible<'a> {
    config: &'a Config,
    world: &'a World,
    step: &'a Step<'a>,
}

impl Possible<'_> {
    fn may_lose(&self) -> bool {
        self.config.switches.loss && self.world.losses < self.config.losses
    }

    fn of_process(&self, index: usize, actions: &mut Vec<Action>) {
        let Process { up, debt, call, .. } = self.world.processes[index];
        let Some(command) = self.world.processes[index].command() else {
            return match debt {
                _ if !up => {}
                Debt::Nothing => self.idle(index, actions),
                _ => actions.push(Action::Send(index)),
            };
        };
        push_if(self.config.switches.stop && command != Command::Wait, Action::Stop(index), actions);
        let unheard = self.config.switches.unheard;
        match command {
            Command::Claim => {
                let guesses = call.unanswered && self.config.flaw == Some(Flaw::GuessUnknownCommit);
                push_if(guesses, Action::Guess(index), actions);
                push_if(!call.unanswered && self.may_lose(), Action::Lose(index), actions);
                actions.push(Action::Send(index));
                push_if(unheard, Action::GiveUp(index), actions);
            }
            Command::Clear | Command::Report { .. } => {
                actions.push(Action::Send(index));
                push_if(self.may_lose(), Action::Lose(index), actions);
                push_if(unheard, Action::GiveUp(index), actions);
            }
            // A renewal that arrives late is a session that is revived.
            Command::Renew => {
                push_if(self.config.switches.revive, Action::Send(index), actions);
                push_if(unheard, Action::GiveUp(index), actions);
            }
            Command::Wait => actions.push(Action::Wake(index)),
            Command::Reconcile => self.asking(index, call.epoch, actions),
            Command::Check => self.checking(index, call.epoch, actions),
            Command::Run if self.config.work == Work::Guarded => {
                actions.push(Action::Guard(index));
                push_if(self.may_lose(), Action::GuardLost(index), actions);
            }
            Command::Run => self.ends(index, call.epoch, actions),
            Command::Read => {
                actions.push(Action::Read(index));
                push_if(unheard, Action::GiveUp(index), actions);
            }
            Command::Rehash(_) | Command::Pause | Command::End(_) => {
                unreachable!(
                    "all of them hash alike, no waiter claims for itself, and what is over is not under way"
                )
            }
        }
    }

    fn idle(&self, index: usize, actions: &mut Vec<Action>) {
        let process = self.world.processes[index];
        // Processes are alike: the next one begins only after the one before it has.
        let in_order = index == 0 || process.callers > 0 || self.world.processes[index - 1].callers > 0;
        if process.callers >= self.config.callers || !in_order {
            return;
        }
        actions.push(Action::Call(index));
        push_if(self.may_lose(), Action::CallLost(index), actions);
        let kept = process.copy.is_some_and(|copy| copy.day == self.world.day);
        push_if(kept, Action::TableAnswer(index), actions);
    }

    /// Work in the process itself takes effect at once or never, so it ends together with the look that lets it begin.
    fn checking(&self, index: usize, epoch: u8, actions: &mut Vec<Action>) {
        if self.config.work == Work::Local && self.step.begins(index) {
            self.ends(index, epoch, actions);
        } else {
            actions.push(Action::Check(index));
        }
    }

    fn asking(&self, index: usize, epoch: u8, actions: &mut Vec<Action>) {
        let switches = self.config.switches;
        let done = self.step.known_to_work(epoch).is_some();
        push_if(switches.ask_yes && done, Action::Ask(index, Reply::Yes), actions);
        push_if(switches.ask_no && !done, Action::Ask(index, Reply::No), actions);
        push_if(switches.ask_unknown, Action::Ask(index, Reply::Unknown), actions);
    }

    fn ends(&self, index: usize, epoch: u8, actions: &mut Vec<Action>) {
        let switches = self.config.switches;
        let accepted = epoch >= self.world.refuses_below;
        let end = |end| Action::End(index, end);
        push_if(accepted, end(End::Succeeded), actions);
        push_if(switches.refused && accepted, end(End::Refused), actions);
        push_if(switches.not_run || !accepted, end(End::NotRun), actions);
        push_if(switches.unknown && accepted, end(End::UnknownDone), actions);
        push_if(switches.unknown, end(End::UnknownNot), actions);
    }

    fn of_faults(&self, index: usize, actions: &mut Vec<Action>) {
        let process = self.world.processes[index];
        // The tasks of an embedded store's one process live and die together.
        let alone = !self.config.embedded || index == 0;
        if !process.up {
            push_if(alone, Action::Restart(index), actions);
            return;
        }
        let crashes = self.config.switches.crash && self.world.crashes < self.config.crashes;
        push_if(crashes && process.callers > 0 && alone, Action::Crash(index), actions);
        push_if(process.copy.is_some(), Action::DropCopy(index), actions);
    }

    fn of_surroundings(&self, actions: &mut Vec<Action>) {
        let (world, switches) = (self.world, self.config.switches);
        for session in 0..world.sessions {
            let live = world.is_live(session);
            let mut processes = world.processes[..self.config.processes].iter();
            let owned = processes.any(|process| process.session == session && process.up);
            // The lapse of a session that holds nothing changes nothing.
            push_if(switches.lapse && live && world.holds(session), Action::Lapse(session), actions);
            push_if(switches.revive && !live && owned, Action::Revive(session), actions);
        }
        push_if(world.floating.is_some(), Action::Arrive, actions);
        for epoch in (0..world.next_epoch).filter(|epoch| world.orphans & bit(*epoch) != 0) {
            actions.push(Action::OrphanEffect(epoch));
        }
        push_if(switches.time && world.day < self.config.days, Action::Day, actions);
        push_if(switches.sweep && world.claim.0.is_some(), Action::Sweep, actions);
    }

    fn of_operators(&self, actions: &mut Vec<Action>) {
        let (world, switches) = (self.world, self.config.switches);
        let Some(claim) = &world.claim.0 else { return };
        if world.decisions >= self.config.decisions {
            return;
        }
        let settled = claim.state.name() == StateName::Settled;
        push_if(switches.release && !settled, Action::Operate(Decides::Release), actions);
        push_if(switches.force && !settled, Action::Operate(Decides::ForceRelease), actions);
        push_if(switches.settle && !settled, Action::Operate(Decides::Settle), actions);
        push_if(switches.reopen && settled, Action::Operate(Decides::Reopen), actions);
        push_if(switches.purge && settled, Action::Operate(Decides::Purge), actions);
        push_if(switches.erase && settled, Action::Operate(Decides::Erase), actions);
    }
}

fn push_if(possible: bool, action: Action, actions: &mut Vec<Action>) {
    if possible {
        actions.push(action);
    }
}
