//! Whether what callers are told is true: outcomes, and "no" and "yes" of the product's own [`Turn::advice`], held against what happened.
//!
//! A caller may leave at any time, so what it would be told is looked at after everything that happens.

use hapax_core::Executed;
use hapax_core::turn::Turn;

use super::ledger::Step;
use super::properties::{Rule, Sighting};
use super::world::{Epochs, Message, Process, Tag, World, bit};

impl Step<'_> {
    /// A caller is told what this call knows now.
    pub(super) fn tell(&mut self, index: usize, turn: Turn) {
        let Some(advice) = turn.advice() else { return };
        let heard_from = self.world.processes[index].call.heard_from;
        let world = &mut self.world;
        let history = &mut world.history;
        match advice.executed {
            Executed::No => {
                let granted = (bit(world.next_epoch) - 1) & !(bit(history.present_from()) - 1);
                if history.succeeded & granted != 0 {
                    world.broken.add(Rule::NoMeansNone);
                }
                history.denied |= granted;
                self.seen.add(Sighting::ToldNo);
            }
            Executed::Yes => {
                let seen = !(bit(heard_from) - 1);
                if (history.succeeded | history.stated) & seen == 0 {
                    world.broken.add(Rule::YesMeansOne);
                }
                self.seen.add(Sighting::ToldYes);
            }
            Executed::Unknown => self.seen.add(Sighting::ToldUnknown),
        }
    }

    /// Callers that leave now are told what is known by now.
    pub(super) fn tell_all(&mut self) {
        for index in 0..self.config.processes {
            if let Some(turn) = self.world.processes[index].turn {
                self.tell(index, turn);
            }
        }
        // What can never have an effect any more need not be remembered.
        self.world.history.denied &= self.world.can_still_run();
    }

    /// Answers a caller with an outcome of this life.
    pub(super) fn answer(&mut self, tag: Tag, life: u8) {
        let world = &mut self.world;
        let history = &mut world.history;
        let true_one = match tag {
            Tag::Succeeded(epoch) => history.succeeded & bit(epoch) != 0,
            Tag::Refused(epoch) => history.refused & bit(epoch) != 0,
            Tag::Stated => history.stated != 0,
            Tag::Erased => history.erased,
        };
        if !true_one {
            world.broken.add(Rule::NothingInvented);
        }
        let before = history.answered[usize::from(life)].replace(tag);
        if before.is_some_and(|before| before != tag) {
            world.broken.add(Rule::OneOutcome);
        }
        if life == history.life && history.set_aside == Some(tag) {
            world.broken.add(Rule::SetAsideStays);
        }
    }

    /// A caller is answered from memory (B7).
    pub(super) fn answer_from_table(&mut self, index: usize) {
        let Some(copy) = self.world.processes[index].copy else { return };
        self.process(index).callers += 1;
        self.seen.add(Sighting::TableAnswered);
        if copy.life < self.world.history.returned_life {
            self.world.broken.add(Rule::ReturnedIsSeen);
        }
        self.answer(copy.tag, copy.life);
    }
}

impl World {
    /// The epochs under which the work may still be done.
    fn can_still_run(&self) -> Epochs {
        let running = self.processes.iter().filter_map(Process::runs).fold(0, |all, epoch| all | bit(epoch));
        let committing = match self.floating {
            Some(Message::Guard { epoch }) => bit(epoch),
            _ => 0,
        };
        self.orphans | running | committing
    }
}
