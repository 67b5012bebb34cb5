//! The work itself: how it ends, what it has done, and what it answers when it is asked about an earlier attempt.

use hapax_core::advice::Work as Came;
use hapax_core::turn::{Due, Event};
use hapax_core::{Effect, Ending};

use super::config::Work;
use super::flaw::Flaw;
use super::ledger::Step;
use super::properties::{Rule, Sighting};
use super::world::{Began, Message, Process, Tag, Told, bit, small};

/// How the work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was done.
    Succeeded,
    /// A terminal error; nothing was done.
    Refused,
    /// It certainly did not run.
    NotRun,
    /// It was done, and nobody heard of it.
    UnknownDone,
    /// Nobody heard of it, and it is not done yet.
    UnknownNot,
}

/// What the work says when it is asked whether an earlier attempt ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// It did; this came of it.
    Yes,
    /// It did not, and never will under this key.
    No,
    /// Nobody knows.
    Unknown,
}

impl Step<'_> {
    /// The work has come to its end.
    pub(super) fn end(&mut self, index: usize, end: End) {
        let epoch = self.world.processes[index].call.epoch;
        match end {
            End::Succeeded => {
                self.effect(epoch);
                if self.has_flaw(Flaw::AnswerBeforeStore) {
                    self.answer(Tag::Succeeded(epoch), self.world.history.life);
                }
                self.settle(index, Tag::Succeeded(epoch));
            }
            End::Refused => {
                self.world.history.refused |= bit(epoch);
                self.settle(index, Tag::Refused(epoch));
            }
            End::NotRun => self.on(index, Event::Ended(Due::NotRun, Came::NotRun)),
            End::UnknownDone => {
                self.effect(epoch);
                self.unknown(index);
            }
            End::UnknownNot => {
                self.orphan(epoch);
                self.unknown(index);
            }
        }
    }

    fn settle(&mut self, index: usize, tag: Tag) {
        self.process(index).call.report = Some(Told::Settle(tag));
        self.on(index, Event::Ended(Due::Settle, Came::Ended(tag.effect())));
    }

    /// Nobody knows whether the work was done.
    pub(super) fn unknown(&mut self, index: usize) {
        self.on(index, Event::Ended(Due::MayHaveRun, Came::MayHaveRun));
    }

    /// A call that nobody waits for any more. Work in the process itself ends with it.
    pub(super) fn orphan(&mut self, epoch: u8) {
        if self.config.work == Work::Remote {
            self.world.orphans |= bit(epoch);
        }
    }

    /// The work is done, once more or for the first time.
    pub(super) fn effect(&mut self, epoch: u8) {
        let life = self.world.history.life_of[usize::from(epoch)];
        self.watch_rerun(life);
        let guarded = self.config.work == Work::Guarded;
        let world = &mut self.world;
        let effects = &mut world.history.effects[usize::from(life)];
        *effects = (*effects + 1).min(2);
        if *effects > 1 && (guarded || self.config.rerun != hapax_core::Rerun::Safe) {
            world.broken.add(Rule::OneEffect);
        }
        if !guarded && world.history.over & bit(epoch) != 0 {
            world.broken.add(Rule::ReleasedIsOver);
        }
        if world.history.denied & bit(epoch) != 0 {
            world.broken.add(Rule::NoMeansNone);
        }
        world.history.succeeded |= bit(epoch);
    }

    fn watch_rerun(&self, life: u8) {
        if life != self.world.history.life {
            return;
        }
        match self.world.history.began {
            Began::First | Began::Erase => {}
            Began::Expiry => self.seen.add(Sighting::ExpiryRerun),
            Began::Release => self.seen.add(Sighting::ReleaseRerun),
            Began::Reopen => self.seen.add(Sighting::ReopenRerun),
            Began::Purge => self.seen.add(Sighting::PurgeRerun),
        }
    }

    /// The application commits its own write and the settle together: both or neither (L16).
    pub(super) fn commit_guarded(&mut self, session: u8, epoch: u8) -> bool {
        let settled =
            matches!(self.send_report(session, epoch, Tag::Succeeded(epoch).settle()), Ending::Settled(_));
        self.seen.add(if settled { Sighting::GuardSettled } else { Sighting::GuardRefused });
        if settled {
            self.effect(epoch);
        }
        settled
    }

    /// The application's transaction is the work: what it has committed is settled already, and what it has not did not run.
    pub(super) fn guard(&mut self, index: usize) {
        let Process { session, call, .. } = self.world.processes[index];
        if self.commit_guarded(session, call.epoch) {
            self.settle(index, Tag::Succeeded(call.epoch));
        } else {
            self.on(index, Event::Ended(Due::NotRun, Came::NotRun));
        }
    }

    /// Nobody knows whether the transaction commits.
    pub(super) fn guard_lost(&mut self, index: usize) {
        let epoch = self.world.processes[index].call.epoch;
        self.float(Message::Guard { epoch });
        self.unknown(index);
    }

    /// What the work can tell of the operation that this epoch belongs to: the first run that took effect.
    pub(super) fn known_to_work(&self, epoch: u8) -> Option<Tag> {
        let history = &self.world.history;
        let asked = if self.has_flaw(Flaw::AnswerForTheKey) { !0 } else { history.operation_of(epoch) };
        let done = history.succeeded & asked;
        (done != 0).then(|| Tag::Succeeded(small(done.trailing_zeros() as usize)))
    }

    /// Asks the work whether an earlier attempt of this operation ran; it says the truth (L6).
    pub(super) fn ask_work(&mut self, index: usize, reply: Reply) {
        let epoch = self.world.processes[index].call.epoch;
        match (reply, self.known_to_work(epoch)) {
            (Reply::Yes, Some(done)) => {
                self.seen.add(Sighting::AskedYes);
                self.process(index).call.report = Some(Told::Settle(done));
                self.on(index, Event::Happened(Effect::Done));
            }
            (Reply::No, _) => {
                self.world.refuses_below = self.world.refuses_below.max(epoch);
                self.on(index, Event::Never);
            }
            _ => self.on(index, Event::Unknown),
        }
    }
}
