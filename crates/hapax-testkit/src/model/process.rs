//! What a process does: it claims, begins, reports, and answers its caller only with what the ledger
//! confirmed.

use hapax_core::{Answer, Command, Doubt, Ending, Kept, Ran, Report, Verdict, View};

use super::config::{Config, Work};
use super::flaw::Flaw;
use super::ledger::{Turn, epoch, number};
use super::properties::{Rule, Sighting};
use super::world::{Began, Copy, DAY, Message, Phase, Process, Tag, Told, World, bit, small};

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

/// Whether a process may begin now (L4): no lapse since the ledger confirmed the claim, and no give-up
/// either.
pub(super) fn may_begin(config: &Config, world: &World, index: usize) -> bool {
    let process = world.processes[index];
    let Phase::Holding { must_ask: false, sure, .. } = process.phase else { return false };
    let sure = sure || config.flaw == Some(Flaw::BeginOnRevivedSession);
    let in_time = config.work != Work::Remote || process.asked_on == world.day;
    sure && in_time && world.is_live(process.session)
}

impl Turn<'_> {
    pub(super) fn process(&mut self, index: usize) -> &mut Process {
        &mut self.world.processes[index]
    }

    fn go(&mut self, index: usize, phase: Phase) {
        self.process(index).phase = phase;
    }

    /// A new caller comes. Its give-up counts from here, before any grant.
    pub(super) fn open(&mut self, index: usize) {
        let day = self.world.day;
        let process = self.process(index);
        process.callers += 1;
        process.asked_on = day;
    }

    /// A new caller asks.
    pub(super) fn claim(&mut self, index: usize) {
        self.open(index);
        if self.has_flaw(Flaw::BurnAfterSuccess) {
            return self.look_before(index);
        }
        self.send_claim(index, false);
    }

    /// The flaw: whoever sees nothing runs.
    fn look_before(&mut self, index: usize) {
        match self.view() {
            Some(View::Settled(kept)) => self.finish(index, &kept),
            _ => self.hold_unclaimed(index),
        }
    }

    /// A flaw's grant: an epoch that no ledger gave.
    pub(super) fn hold_unclaimed(&mut self, index: usize) {
        let world = &mut self.world;
        let epoch = world.next_epoch;
        world.history.life_of[usize::from(epoch)] = world.history.life;
        world.next_epoch += 1;
        self.go(index, Phase::Holding { epoch, must_ask: false, sure: true });
    }

    /// Sends the claim of the present caller, for the first time or again.
    pub(super) fn send_claim(&mut self, index: usize, again: bool) {
        let Process { session, callers, phase, .. } = *self.process(index);
        let ask = self.ask(small(index), callers, session);
        let Answer::Verdict(verdict) = self.apply(&Command::Claim(ask)) else {
            unreachable!("a claim is answered with a verdict");
        };
        if again && matches!(verdict, Verdict::Granted(_)) {
            self.seen.add(Sighting::Resent);
        }
        self.hear(index, &verdict, phase == Phase::Abandoning);
    }

    fn hear(&mut self, index: usize, verdict: &Verdict, abandoning: bool) {
        match verdict {
            Verdict::Granted(grant) if abandoning => {
                self.seen.add(Sighting::Abandoned);
                self.go(index, Phase::Reporting { epoch: number(grant.epoch), report: Told::ReleaseNo });
            }
            _ if abandoning => self.go(index, Phase::Idle),
            Verdict::Granted(grant) => {
                let sure = self.world.is_live(self.world.processes[index].session);
                let epoch = number(grant.epoch);
                self.go(index, Phase::Holding { epoch, must_ask: grant.must_ask, sure });
            }
            Verdict::Replay(kept) => self.finish(index, kept),
            Verdict::Held { .. } if self.has_flaw(Flaw::AnswerPlaceholder) => {
                self.answer(Tag::Succeeded(0), self.world.history.life);
                self.go(index, Phase::Idle);
            }
            Verdict::Held { .. } if self.config.switches.attach => self.go(index, Phase::Waiting),
            _ => self.go(index, Phase::Idle),
        }
    }

    /// Renews a claim whose session lapsed, before anything is begun.
    pub(super) fn renew(&mut self, index: usize) {
        let Process { session, phase: Phase::Holding { epoch, must_ask, .. }, .. } = *self.process(index)
        else {
            return;
        };
        self.world.live |= 1 << session;
        match self.send(session, epoch, Report::Renew) {
            Ending::Renewed { .. } => {
                self.seen.add(Sighting::Renewed);
                self.go(index, Phase::Holding { epoch, must_ask, sure: true });
            }
            _ => self.go(index, Phase::Reporting { epoch, report: Told::ReleaseNo }),
        }
    }

    pub(super) fn end(&mut self, index: usize, epoch: u8, end: End) {
        let report = match end {
            End::Succeeded => {
                self.effect(epoch);
                if self.has_flaw(Flaw::AnswerBeforeStore) {
                    self.answer(Tag::Succeeded(epoch), self.world.history.life);
                }
                Told::Settle(Tag::Succeeded(epoch))
            }
            End::Refused => {
                self.world.history.refused |= bit(epoch);
                Told::Settle(Tag::Refused(epoch))
            }
            End::NotRun => Told::ReleaseNo,
            End::UnknownDone => {
                self.effect(epoch);
                self.unknown()
            }
            End::UnknownNot => {
                self.orphan(epoch);
                self.unknown()
            }
        };
        self.go(index, Phase::Reporting { epoch, report });
    }

    pub(super) fn unknown(&self) -> Told {
        if self.has_flaw(Flaw::ReleaseOnAnyError) { Told::ReleaseNo } else { Told::ReleasePerhaps }
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
        world.history.succeeded |= bit(epoch);
        world.done = world.done.or(Some(epoch));
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
        let settled = matches!(self.send(session, epoch, Tag::Succeeded(epoch).settle()), Ending::Settled(_));
        self.seen.add(if settled { Sighting::GuardSettled } else { Sighting::GuardRefused });
        if settled {
            self.effect(epoch);
        }
        settled
    }

    pub(super) fn guard(&mut self, index: usize, epoch: u8) {
        let session = self.process(index).session;
        let phase = if self.commit_guarded(session, epoch) {
            Phase::Reporting { epoch, report: Told::Settle(Tag::Succeeded(epoch)) }
        } else {
            Phase::Lost
        };
        self.go(index, phase);
    }

    pub(super) fn ask_work(&mut self, index: usize, epoch: u8, reply: Reply) {
        let phase = match (reply, self.world.done) {
            (Reply::Yes, Some(done)) => {
                self.seen.add(Sighting::AskedYes);
                Phase::Reporting { epoch, report: Told::Settle(Tag::Succeeded(done)) }
            }
            (Reply::No, _) => {
                self.world.refuses_below = self.world.refuses_below.max(epoch);
                Phase::Clearing { epoch }
            }
            _ => Phase::Reporting { epoch, report: Told::Doubt },
        };
        self.go(index, phase);
    }

    pub(super) fn clear(&mut self, index: usize, number: u8) {
        let session = self.process(index).session;
        let phase = match self.send(session, number, Report::Cleared) {
            Ending::Renewed { .. } => {
                self.seen.add(Sighting::AskedNo);
                Phase::Holding { epoch: number, must_ask: false, sure: self.world.is_live(session) }
            }
            _ => Phase::Reporting { epoch: number, report: Told::ReleaseNo },
        };
        self.go(index, phase);
    }

    /// Reports what is known, for the first time or again.
    pub(super) fn report(&mut self, index: usize, epoch: u8, told: Told) {
        let Process { session, callers, .. } = *self.process(index);
        if self.has_flaw(Flaw::BurnAfterSuccess) {
            return self.burn(index, callers, told);
        }
        let own = match told {
            Told::Settle(tag) if self.has_flaw(Flaw::AnswerOwnResult) => Some(tag),
            _ => None,
        };
        match (self.send(session, epoch, told.report()), own) {
            (Ending::AlreadySettled(_) | Ending::LostLease, Some(tag)) => {
                self.answer(tag, self.world.history.life);
                self.go(index, Phase::Idle);
            }
            (Ending::Settled(kept) | Ending::AlreadySettled(kept), _) => self.finish(index, &kept),
            (Ending::LostLease, _) => self.go(index, Phase::Lost),
            _ => self.go(index, Phase::Idle),
        }
    }

    /// The flaw: records after the work.
    fn burn(&mut self, index: usize, callers: u8, told: Told) {
        if let Told::Settle(tag) = told {
            let session = self.process(index).session;
            let ask = self.ask(small(index), callers, session);
            if let Some(kept) = self.set(ask, tag) {
                self.answer(kept, self.world.history.life);
            }
        }
        self.go(index, Phase::Idle);
    }

    /// Whoever lost its lease answers from the ledger (L5).
    pub(super) fn read_ledger(&mut self, index: usize) {
        self.seen.add(Sighting::LostLease);
        match self.view() {
            Some(View::Settled(kept)) => self.finish(index, &kept),
            _ => self.go(index, Phase::Idle),
        }
    }

    /// A waiter looks again (L9). Returns whether it has stopped waiting.
    pub(super) fn wake(&mut self, index: usize) -> bool {
        match self.view() {
            Some(View::Held { .. }) => return false,
            Some(View::Settled(kept)) => {
                self.seen.add(Sighting::Attached);
                self.finish(index, &kept);
            }
            Some(View::InDoubt { .. }) => {
                self.seen.add(Sighting::WaiterSawDoubt);
                self.go(index, Phase::Idle);
            }
            Some(View::Released { .. }) | None => {
                self.seen.add(Sighting::WaiterSawRelease);
                self.go(index, Phase::Idle);
            }
        }
        true
    }

    /// The ledger confirmed an outcome: the caller gets it.
    fn finish(&mut self, index: usize, kept: &Kept) {
        let (tag, life) = (Tag::of(&kept.outcome), self.world.history.life);
        self.answer(tag, life);
        if self.config.switches.table {
            let settled = kept.settled_at.since(hapax_core::Timestamp::ZERO).as_secs() / DAY.as_secs() - 1;
            let day = u8::try_from(settled).expect("the model's days are few");
            self.process(index).copy = Some(Copy { tag, life, day });
        }
        self.go(index, Phase::Idle);
    }

    /// Answers a caller with an outcome of this life.
    pub(super) fn answer(&mut self, tag: Tag, life: u8) {
        let world = &mut self.world;
        let history = &mut world.history;
        let true_one = match tag {
            Tag::Succeeded(epoch) => history.succeeded & bit(epoch) != 0,
            Tag::Refused(epoch) => history.refused & bit(epoch) != 0,
            Tag::Stated => history.stated,
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
    pub(super) fn answer_from_table(&mut self, index: usize, copy: Copy) {
        self.process(index).callers += 1;
        self.seen.add(Sighting::TableAnswered);
        if copy.life < self.world.history.returned_life {
            self.world.broken.add(Rule::ReturnedIsSeen);
        }
        self.answer(copy.tag, copy.life);
    }

    /// A command arrives that its sender does not wait for any more.
    pub(super) fn arrive(&mut self, message: Message) {
        let before = self.world.claim.clone();
        match message {
            Message::Claim { process, caller, session } => {
                let ask = self.ask(process, caller, session);
                self.apply(&Command::Claim(ask));
            }
            Message::Report { process, epoch, report } => {
                let session = self.world.processes[usize::from(process)].session;
                self.send(session, epoch, report.report());
            }
            Message::Clear { epoch: number } => {
                self.hold(epoch(number), Report::Cleared);
            }
            Message::Guard { epoch } => {
                self.commit_guarded(0, epoch);
            }
        }
        if before != self.world.claim {
            self.seen.add(Sighting::LateArrival);
        }
    }
}

impl Told {
    fn report(self) -> Report {
        match self {
            Told::Settle(tag) => tag.settle(),
            Told::ReleaseNo => Report::Release(Ran::No),
            Told::ReleasePerhaps => Report::Release(Ran::Perhaps),
            Told::Doubt => Report::Doubt(Doubt::Stated),
        }
    }
}
