//! The ledger of the model: [`step`] decides every command, and what it decided is entered into the history.
//!
//! The planted flaws that concern the ledger are wrapped around it here; without one, nothing but [`step`] is
//! called.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::view;
use hapax_core::{
    Answer, Ask, AttemptId, Change, Claim, ClaimId, Command, Ending, Epoch, Fingerprint, Grant, Now,
    Operated, OperationId, Outcome, RecipeId, Report, Rerun, Retention, SessionId, SetAnswer, Sign, State,
    Terms, Timestamp, Verb, Verdict, View, step,
};

use super::config::{Config, Work};
use super::flaw::Flaw;
use super::properties::{Rule, Sighting, Sightings};
use super::world::{Began, Stored, Tag, World, bit};

/// Shorter than a day.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// An outcome is kept for less than a day.
const RETENTION: Retention = Retention::For(Duration::from_secs(12 * 60 * 60));
/// What the operator states.
const STATED: u8 = 0xff;

/// One transition in the making.
pub(super) struct Step<'a> {
    pub(super) config: &'a Config,
    pub(super) seen: &'a Sightings,
    pub(super) world: World,
}

impl Step<'_> {
    pub(super) fn has_flaw(&self, flaw: Flaw) -> bool {
        self.config.flaw == Some(flaw)
    }

    /// Lets a command be decided, keeps what was decided, and enters it into the history.
    pub(super) fn apply(&mut self, command: &Command) -> Answer {
        let now = self.now();
        let before = self.world.claim.0.take();
        let (mut change, mut answer) = step(before.as_ref(), command, &now);
        self.plant(before.as_ref(), command, &mut change, &mut answer);
        let granted = matches!((&change, &answer), (Change::Put(_), Answer::Verdict(Verdict::Granted(_))));
        let after = match change {
            Change::None => before.clone(),
            Change::Put(claim) => Some(claim),
            Change::Remove => None,
        };
        self.watch(before.as_ref(), command, &answer, &now);
        self.begin_life(before.as_ref(), after.as_ref(), command, &answer);
        self.open(before.as_ref(), after.as_ref());
        self.number(after.as_ref(), granted);
        self.state(command, &answer, after.as_ref());
        self.world.claim = Stored(after);
        answer
    }

    /// The view of a reader.
    pub(super) fn view(&self) -> Option<View> {
        view(self.world.claim.0.as_ref(), &self.now())
    }

    /// Whether the lease under this epoch stands, as the ledger sees it.
    pub(super) fn stands(&self, number: u8) -> bool {
        let present = self.world.claim.0.as_ref().is_some_and(|claim| claim.epoch == epoch(number));
        present && matches!(self.view(), Some(View::Held { .. }))
    }

    fn now(&self) -> Now {
        let holder = self.world.claim.0.as_ref().map_or(Sign::UNKNOWN, |claim| self.sign(claim.session));
        Now { time: self.world.time(), next_epoch: epoch(self.world.next_epoch), holder }
    }

    fn sign(&self, session: SessionId) -> Sign {
        let live = u8::try_from(session.0).is_ok_and(|session| self.world.is_live(session));
        if live { Sign { last: self.world.time(), until: Timestamp::NEVER } } else { Sign::UNKNOWN }
    }

    /// The request of a process's attempt.
    pub(super) fn ask(&self, process: u8, attempt_number: u8, session: u8) -> Ask {
        let config = self.config;
        let rerun = if self.has_flaw(Flaw::TakeoverWhenUnsafe) { Rerun::Safe } else { config.rerun };
        let mut attempt = [0; 16];
        attempt[..2].copy_from_slice(&[process, attempt_number]);
        Ask {
            attempt: AttemptId::from_bytes(attempt),
            operation_id: OperationId::for_claim(
                &ClaimId::from_bytes([1; 32]),
                [process, attempt_number, 0, 0, 0, 0],
            ),
            fingerprint: Fingerprint { recipe: RecipeId(1), digest: [0; 32] },
            leaves: None,
            terms: Terms {
                rerun,
                quiet: if config.quiet { HOUR } else { Duration::ZERO },
                max_run: HOUR * 24 * 365,
                give_up: if config.work == Work::Remote { HOUR } else { Duration::ZERO },
                doubt: None,
            },
            session: SessionId(u64::from(session)),
        }
    }

    /// The flaws of a ledger.
    fn plant(&self, before: Option<&Claim>, command: &Command, change: &mut Change, answer: &mut Answer) {
        let (Some(before), Change::Put(after)) = (before, change) else { return };
        match (command, answer) {
            (Command::Claim(_), Answer::Verdict(Verdict::Granted(Grant { epoch, .. })))
                if self.has_flaw(Flaw::ReuseEpoch) =>
            {
                (*epoch, after.epoch) = (before.epoch, before.epoch);
            }
            (Command::Operate(decision), _)
                if self.has_flaw(Flaw::ReopenKeepsEpoch) && decision.verb == Verb::Reopen
                    || self.has_flaw(Flaw::EraseKeepsEpoch) && decision.verb == Verb::Erase =>
            {
                after.epoch = before.epoch;
            }
            _ => {}
        }
    }

    /// A new life begins where running again has been allowed explicitly, or the outcome was erased.
    fn begin_life(
        &mut self,
        before: Option<&Claim>,
        after: Option<&Claim>,
        command: &Command,
        answer: &Answer,
    ) {
        let Some(before) = before else { return };
        let began = match (command, answer) {
            (Command::Operate(decision), Answer::Operated(Operated::Done(_))) => match decision.verb {
                Verb::Release { .. } => Began::Release,
                Verb::Reopen => Began::Reopen,
                Verb::Purge => Began::Purge,
                Verb::Erase => Began::Erase,
                Verb::Settle(..) => return,
            },
            _ if before.kept().is_some() && after.is_none_or(|after| after.kept().is_none()) => Began::Expiry,
            _ => return,
        };
        let history = &mut self.world.history;
        history.life += 1;
        history.began = began;
        if began == Began::Erase {
            // Nothing may run again.
            let life = usize::from(history.life);
            history.effects[life] = history.effects[life - 1];
            history.erased = true;
        }
        let gone = before.kept().map(|kept| Tag::of(&kept.outcome)).filter(|tag| *tag != Tag::Erased);
        if let (Began::Reopen | Began::Erase, Some(gone)) = (began, gone) {
            history.set_aside = Some(gone);
        }
        history.returning |= matches!(began, Began::Reopen | Began::Purge | Began::Erase);
        if let Command::Operate(decision) = command
            && decision.verb == (Verb::Release { force: false })
        {
            history.over = bit(self.world.next_epoch) - 1;
        }
    }

    /// Notes that the key was absent: what is granted from there on is another operation.
    fn open(&mut self, before: Option<&Claim>, after: Option<&Claim>) {
        let operation = |claim: &Claim| (claim.operation_id, claim.opened_at);
        if before.is_some() && before.map(operation) != after.map(operation) {
            self.world.history.opened |= bit(self.world.next_epoch);
        }
    }

    /// Notes that an operator stated an outcome.
    fn state(&mut self, command: &Command, answer: &Answer, after: Option<&Claim>) {
        if let (Command::Operate(decision), Answer::Operated(Operated::Done(_)), Some(after)) =
            (command, answer, after)
            && matches!(decision.verb, Verb::Settle(..))
        {
            self.world.history.stated |= bit(number(after.epoch));
        }
    }

    /// Enters a new epoch into the history.
    fn number(&mut self, after: Option<&Claim>, granted: bool) {
        let Some(after) = after else { return };
        let world = &mut self.world;
        if after.epoch == epoch(world.next_epoch) {
            world.history.life_of[usize::from(world.next_epoch)] = world.history.life;
            world.next_epoch += 1;
        } else if granted {
            world.broken.add(Rule::EpochsIncrease);
        }
    }

    /// Notes what is worth seeing at least once.
    fn watch(&self, before: Option<&Claim>, command: &Command, answer: &Answer, now: &Now) {
        match (command, answer) {
            (Command::Claim(ask), Answer::Verdict(verdict)) => self.watch_verdict(before, ask, verdict, now),
            (Command::Hold(_, report), Answer::Ending(ending)) => {
                self.watch_ending(before, report, ending, now)
            }
            (Command::Operate(decision), Answer::Operated(operated)) => {
                self.watch_operator(&decision.verb, operated, before, now);
            }
            (Command::Sweep(_), Answer::Swept(swept)) => match swept {
                hapax_core::Swept::Kept => {}
                hapax_core::Swept::Forgotten => self.seen.add(Sighting::SweptAway),
                hapax_core::Swept::Released => self.seen.add(Sighting::SweptToReleased),
                hapax_core::Swept::InDoubt => self.seen.add(Sighting::SweptToDoubt),
            },
            _ => {}
        }
    }

    fn watch_verdict(&self, before: Option<&Claim>, ask: &Ask, verdict: &Verdict, now: &Now) {
        let own = before.is_some_and(|before| before.attempt == ask.attempt);
        let lapsed = before.is_some_and(|before| is_lapsed(before, now));
        match verdict {
            Verdict::Granted(_) if !own && lapsed => self.seen.add(Sighting::Takeover),
            Verdict::Granted(_) => self.seen.add(Sighting::Granted),
            Verdict::Replay(kept) if kept.outcome == Outcome::Erased => {
                self.seen.add(Sighting::ErasedReplayed)
            }
            Verdict::Replay(_) => self.seen.add(Sighting::Replayed),
            Verdict::Held { .. } if lapsed || before.is_some_and(is_released) => {
                self.seen.add(Sighting::QuietWaited);
            }
            Verdict::Held { .. } => self.seen.add(Sighting::Held),
            Verdict::InDoubt { .. } => self.seen.add(Sighting::InDoubt),
            Verdict::Spent => self.seen.add(Sighting::Spent),
            Verdict::Mismatch { .. } => {}
        }
        let asked =
            before.is_some_and(|before| matches!(before.state, State::InDoubt { asked_at: Some(_), .. }));
        if asked && matches!(verdict, Verdict::Granted(_)) {
            self.seen.add(Sighting::AskedAgain);
        }
    }

    fn watch_ending(&self, before: Option<&Claim>, report: &Report, ending: &Ending, now: &Now) {
        let Some(before) = before else { return };
        match (report, ending) {
            (Report::Settle(outcome, _), Ending::Settled(_)) => {
                if matches!(outcome, Outcome::Refused(_)) {
                    self.seen.add(Sighting::RefusedKept);
                }
                match before.state {
                    State::Held { .. } if is_lapsed(before, now) => {
                        self.seen.add(Sighting::LateSettleAfterLapse)
                    }
                    State::InDoubt { .. } => self.seen.add(Sighting::LateSettleOutOfDoubt),
                    State::Released { .. } => self.seen.add(Sighting::LateSettleOutOfReleased),
                    _ => {}
                }
            }
            (Report::Settle(..), Ending::LostLease) if before.kept().is_some_and(is_stated) => {
                self.seen.add(Sighting::SettleContradicted);
            }
            (Report::Release(hapax_core::Ran::No), Ending::Released) => match before.state {
                State::InDoubt { .. } => self.seen.add(Sighting::TakenBack),
                State::Held { .. } => self.seen.add(Sighting::NotRunReleased),
                _ => {}
            },
            (Report::Release(hapax_core::Ran::Perhaps), Ending::Released) => {
                self.seen.add(Sighting::UnknownReleased);
            }
            (Report::Release(hapax_core::Ran::Perhaps), Ending::InDoubt) => {
                self.seen.add(Sighting::UnknownDoubted);
            }
            (Report::Doubt(_), Ending::InDoubt) => self.seen.add(Sighting::AskedUnknown),
            _ => {}
        }
    }

    fn watch_operator(&self, verb: &Verb, operated: &Operated, before: Option<&Claim>, now: &Now) {
        match (verb, operated) {
            (Verb::Release { force: false }, Operated::Done(_)) => {
                self.seen.add(Sighting::OperatorReleased);
                if before.is_some_and(|before| self.was_asked_by_who_lives(before)) {
                    self.seen.add(Sighting::AskedReleased);
                }
            }
            (Verb::Release { force: true }, Operated::Done(_)) => {
                let recent = before.is_some_and(|before| now.time < before.granted_at.after(HOUR));
                if recent || now.time < now.holder.until {
                    self.seen.add(Sighting::OperatorForced);
                }
            }
            (Verb::Release { force: false }, Operated::MayStillRun { .. }) => {
                self.seen.add(Sighting::OperatorMustWait);
            }
            (Verb::Settle(..), Operated::Done(_)) => self.seen.add(Sighting::OperatorSettled),
            _ => {}
        }
    }

    /// Whether the last attempt asked in vain, and its process has not gone silent since.
    fn was_asked_by_who_lives(&self, claim: &Claim) -> bool {
        let asker = &self.world.processes[usize::from(claim.attempt.as_bytes()[0])];
        matches!(claim.state, State::InDoubt { asked_at: Some(_), .. }) && self.world.is_live(asker.session)
    }

    /// Reports, and sees to it that a true outcome is not refused.
    pub(super) fn send_report(&mut self, session: u8, number: u8, report: Report) -> Ending {
        let settles = matches!(report, Report::Settle(..));
        let owed = settles
            && self
                .world
                .claim
                .0
                .as_ref()
                .is_some_and(|claim| claim.epoch == epoch(number) && claim.kept().is_none());
        let ending = if self.has_flaw(Flaw::FenceByTime) {
            self.send_by_time(session, report)
        } else {
            self.hold(epoch(number), report)
        };
        if owed && !matches!(ending, Ending::Settled(_)) {
            self.world.broken.add(Rule::TrueOutcomeIsKept);
        }
        ending
    }

    pub(super) fn hold(&mut self, epoch: Epoch, report: Report) -> Ending {
        match self.apply(&Command::Hold(epoch, report)) {
            Answer::Ending(ending) => ending,
            other => unreachable!("a report was answered with {other:?}"),
        }
    }

    /// The flaw: time decides who may write, and who writes last is right.
    fn send_by_time(&mut self, session: u8, report: Report) -> Ending {
        let live = self.world.is_live(session);
        let Some(claim) = self.world.claim.0.as_mut().filter(|_| live) else { return Ending::LostLease };
        if claim.kept().is_some() && matches!(report, Report::Settle(..)) {
            claim.state = State::Held { run_until: Timestamp::NEVER };
        }
        let epoch = claim.epoch;
        self.hold(epoch, report)
    }

    /// The flaw: records after the work what nobody claimed.
    pub(super) fn set(&mut self, ask: Ask, tag: Tag) -> Option<Tag> {
        match self.apply(&Command::Set(ask, tag.outcome(), RETENTION)) {
            Answer::Set(SetAnswer::Stored(kept) | SetAnswer::Present(View::Settled(kept))) => {
                Some(Tag::of(&kept.outcome))
            }
            _ => None,
        }
    }
}

impl Tag {
    pub(super) fn of(outcome: &Outcome) -> Tag {
        match outcome {
            Outcome::Succeeded(bytes) if bytes[..] == [STATED] => Tag::Stated,
            Outcome::Succeeded(bytes) => Tag::Succeeded(bytes[0]),
            Outcome::Refused(bytes) => Tag::Refused(bytes[0]),
            Outcome::Erased => Tag::Erased,
            other => unreachable!("the model keeps no {other:?}"),
        }
    }

    pub(super) fn outcome(self) -> Outcome {
        match self {
            Tag::Succeeded(epoch) => Outcome::Succeeded(Bytes::copy_from_slice(&[epoch])),
            Tag::Refused(epoch) => Outcome::Refused(Bytes::copy_from_slice(&[epoch])),
            Tag::Stated => Outcome::Succeeded(Bytes::from_static(&[STATED])),
            Tag::Erased => Outcome::Erased,
        }
    }

    pub(super) fn settle(self) -> Report {
        Report::Settle(self.outcome(), RETENTION)
    }

    pub(super) fn resolve(self) -> Verb {
        Verb::Settle(self.outcome(), RETENTION)
    }
}

/// The epoch with this number.
pub(super) fn epoch(number: u8) -> Epoch {
    Epoch::new(1, u64::from(number)).expect("the model's epochs are small")
}

/// The number of an epoch.
pub(super) fn number(epoch: Epoch) -> u8 {
    u8::try_from(epoch.counter()).expect("the model's epochs are small")
}

fn is_lapsed(claim: &Claim, now: &Now) -> bool {
    matches!(claim.state, State::Held { .. }) && now.time >= now.holder.until
}

fn is_released(claim: &Claim) -> bool {
    matches!(claim.state, State::Released { .. })
}

fn is_stated(kept: hapax_core::Kept) -> bool {
    Tag::of(&kept.outcome) == Tag::Stated
}
