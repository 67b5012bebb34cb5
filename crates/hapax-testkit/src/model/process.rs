//! What a process does: it carries out the commands of the product's own [`Turn`] and tells it what happened.
//!
//! What a call does next is [`Turn::command`]'s to say. `work` is what is done in between, `debts` what is left when the call is over, and
//! `told` holds against the history what its caller is told.

use hapax_core::advice::{Delay, LastWord};
use hapax_core::turn::{Command, Debt, Due, Event, Standing, Turn};
use hapax_core::{Answer, Doubt, Effect, Ending, Kept, Ran, Report, Verdict, View};

use super::config::Work;
use super::flaw::{Flaw, Look, advance};
use super::ledger::{Step, number};
use super::properties::{Rule, Sighting};
use super::world::{Call, Copy, DAY, Message, Process, Tag, Told, small};

impl Step<'_> {
    pub(super) fn process(&mut self, index: usize) -> &mut Process {
        &mut self.world.processes[index]
    }

    /// What clock and session say to a call that is about to begin (L4): no lapse since its claim was sent or confirmed, and no give-up.
    fn standing(&self, index: usize) -> Standing {
        let Process { session, call, .. } = self.world.processes[index];
        if self.config.work == Work::Remote && call.asked_on != self.world.day {
            return Standing::TooLate(Delay::Ledger);
        }
        if call.sure && self.world.is_live(session) { Standing::Sure } else { Standing::Unsure }
    }

    fn look(&self, index: usize) -> Look {
        let Process { session, call, .. } = self.world.processes[index];
        Look { lives: self.world.is_live(session), renewed: call.renewed }
    }

    /// The call of this process after this event.
    fn after(&self, index: usize, turn: Turn, event: Event) -> Turn {
        advance(self.config.flaw, turn, event, self.look(index), self.config.patience())
    }

    /// Whether a look at clock and session now lets the work begin.
    pub(super) fn begins(&self, index: usize) -> bool {
        let Some(turn) = self.world.processes[index].turn else { return false };
        self.after(index, turn, Event::Standing(self.standing(index))).command() == Command::Run
    }

    /// Something happened to the call that is under way.
    pub(super) fn on(&mut self, index: usize, event: Event) {
        self.on_kept(index, event, None);
    }

    /// The same, where the ledger has this outcome.
    fn on_kept(&mut self, index: usize, event: Event, kept: Option<&Kept>) {
        let Some(turn) = self.world.processes[index].turn else { return };
        let next = self.after(index, turn, event);
        self.process(index).turn = Some(next);
        match next.command() {
            Command::Report { due, .. } => {
                let call = &mut self.process(index).call;
                call.report = Some(Told::of(due, call.report));
            }
            Command::Claim => self.process(index).call.unanswered = false,
            Command::End(last) => self.end_call(index, next, last, kept),
            _ => {}
        }
    }

    /// A new caller comes. Its give-up counts from here, before any grant.
    fn begin_call(&mut self, index: usize) {
        let patience = self.config.patience();
        let process = self.process(index);
        process.callers += 1;
        process.turn = Some(Turn::new(patience));
        self.new_attempt(index);
    }

    fn new_attempt(&mut self, index: usize) {
        let (day, live) = (self.world.day, self.world.is_live(self.world.processes[index].session));
        let process = self.process(index);
        process.attempts += 1;
        process.call =
            Call { asked_on: day, sure: live, heard_from: process.call.heard_from, ..Call::default() };
    }

    /// A caller comes, and its claim is answered.
    pub(super) fn call(&mut self, index: usize) {
        self.begin_call(index);
        if self.has_flaw(Flaw::BurnAfterSuccess) {
            return self.look_before(index);
        }
        self.send_claim(index);
    }

    /// A caller comes, and its claim goes off without an answer.
    pub(super) fn call_lost(&mut self, index: usize) {
        self.begin_call(index);
        self.lose(index);
    }

    /// The flaw: a caller that sees nothing runs.
    fn look_before(&mut self, index: usize) {
        match self.view() {
            Some(View::Settled(kept)) => self.on_kept(index, kept_event(&kept), Some(&kept)),
            _ => self.hold_unclaimed(index),
        }
    }

    /// A flaw's grant: an epoch that no ledger gave.
    pub(super) fn hold_unclaimed(&mut self, index: usize) {
        let world = &mut self.world;
        let epoch = world.next_epoch;
        world.history.life_of[usize::from(epoch)] = world.history.life;
        world.next_epoch += 1;
        self.process(index).call.epoch = epoch;
        self.on(index, Event::Granted { may_have_run: false, must_ask: false });
    }

    /// The command that is under way reaches the ledger, and its answer comes back.
    pub(super) fn send(&mut self, index: usize) {
        match self.world.processes[index].command() {
            Some(Command::Claim) => self.send_claim(index),
            Some(Command::Clear) => self.send_held(index, Report::Cleared),
            Some(Command::Renew) => self.renew(index),
            Some(Command::Report { .. }) => self.report(index),
            _ => self.pay(index),
        }
    }

    /// Sends the claim of the present attempt, for the first time or again.
    fn send_claim(&mut self, index: usize) {
        let verdict = self.claim(index);
        if self.process(index).call.unanswered && matches!(verdict, Verdict::Granted(_)) {
            self.seen.add(Sighting::Resent);
        }
        self.heard(index);
        match verdict {
            Verdict::Granted(grant) => {
                self.process(index).call.epoch = number(grant.epoch);
                self.process(index).call.unanswered = false;
                let may_have_run = grant.earlier_may_have_run;
                self.on(index, Event::Granted { may_have_run, must_ask: grant.must_ask });
            }
            Verdict::Replay(kept) => self.on_kept(index, kept_event(&kept), Some(&kept)),
            Verdict::Held { .. } => self.on(index, Event::Held),
            Verdict::InDoubt { .. } => self.on(index, Event::InDoubt),
            Verdict::Mismatch { .. } => self.on(index, Event::Differs),
            Verdict::Spent => {
                self.on(index, Event::Spent);
                if self.world.processes[index].turn.is_some() {
                    self.new_attempt(index);
                }
            }
        }
    }

    pub(super) fn claim(&mut self, index: usize) -> Verdict {
        let Process { session, attempts, .. } = self.world.processes[index];
        let ask = self.ask(small(index), attempts, session);
        match self.apply(&hapax_core::Command::Claim(ask)) {
            Answer::Verdict(verdict) => verdict,
            other => unreachable!("a claim was answered with {other:?}"),
        }
    }

    /// Renews the session, and the claim with it, before anything is begun.
    fn renew(&mut self, index: usize) {
        self.world.live |= 1 << self.world.processes[index].session;
        self.send_held(index, Report::Renew);
    }

    /// Sends a report after which the call goes on.
    fn send_held(&mut self, index: usize, report: Report) {
        let renews = report == Report::Renew;
        let Process { session, call, .. } = self.world.processes[index];
        let ending = self.send_report(session, call.epoch, report);
        self.heard(index);
        match ending {
            Ending::Renewed { .. } => {
                self.seen.add(if renews { Sighting::Renewed } else { Sighting::AskedNo });
                self.confirm(index, renews);
                self.on(index, Event::Renewed);
            }
            Ending::Settled(kept) | Ending::AlreadySettled(kept) => {
                self.on_kept(index, kept_event(&kept), Some(&kept));
            }
            _ => {
                if self.has_flaw(Flaw::RenewAfterLoss) {
                    self.confirm(index, renews);
                }
                self.on(index, Event::LostLease);
            }
        }
    }

    /// The ledger has confirmed the lease.
    fn confirm(&mut self, index: usize, renews: bool) {
        let live = self.world.is_live(self.world.processes[index].session);
        let watches = self.has_flaw(Flaw::BeginAfterRenewal);
        let call = &mut self.process(index).call;
        call.sure = live;
        call.renewed |= renews && watches;
    }

    /// The ledger has answered the call.
    fn heard(&mut self, index: usize) {
        let from = self.world.history.present_from();
        let call = &mut self.process(index).call;
        if call.heard_from == 0 {
            call.heard_from = from;
        }
    }

    /// The command that is under way goes off without an answer.
    pub(super) fn lose(&mut self, index: usize) {
        let Process { session, attempts, call, .. } = self.world.processes[index];
        let (process, epoch) = (small(index), call.epoch);
        let message = match (self.world.processes[index].command(), call.report) {
            (Some(Command::Claim), _) => {
                self.process(index).call.unanswered = true;
                Message::Claim { process, attempt: attempts, session }
            }
            (Some(Command::Clear), _) => Message::Clear { epoch },
            (Some(Command::Report { .. }), Some(report)) => Message::Report { process, epoch, report },
            other => unreachable!("{other:?} is no message"),
        };
        self.float(message);
    }

    pub(super) fn float(&mut self, message: Message) {
        self.world.losses += 1;
        self.world.floating = Some(message);
    }

    /// The ledger does not answer, and the call ends without it.
    pub(super) fn give_up(&mut self, index: usize) {
        self.on(index, Event::Unheard(LastWord::Away));
        if self.world.processes[index].debt != Debt::Nothing {
            self.seen.add(Sighting::EndedUnheard);
        }
    }

    /// Nobody waits for the call any more, and it stops where it is.
    pub(super) fn stop(&mut self, index: usize) {
        let Some(turn) = self.process(index).turn.take() else { return };
        if turn.command() == Command::Run {
            self.orphan(self.world.processes[index].call.epoch);
        }
        if turn.debt() != Debt::Nothing {
            self.seen.add(Sighting::Dropped);
        }
        self.owe(index, turn.debt());
    }

    /// Looks at clock and session. What is done in the process itself is done at once.
    pub(super) fn check(&mut self, index: usize) {
        let standing = self.standing(index);
        self.on(index, Event::Standing(standing));
        let begun = self.world.processes[index].command() == Some(Command::Run);
        // These flaws run what the ledger never granted.
        let claimed = !self.has_flaw(Flaw::BurnAfterSuccess) && !self.has_flaw(Flaw::GuessUnknownCommit);
        if begun && claimed && !self.stands(self.world.processes[index].call.epoch) {
            self.world.broken.add(Rule::BegunUnderLease);
        }
    }

    /// Reports what is known, for the first time or again.
    fn report(&mut self, index: usize) {
        let Process { session, call, .. } = self.world.processes[index];
        let told = call.report.expect("it is under way");
        if self.has_flaw(Flaw::BurnAfterSuccess) {
            return self.burn(index, told);
        }
        let ending = self.send_report(session, call.epoch, told.report());
        self.heard(index);
        match ending {
            Ending::Settled(kept) | Ending::AlreadySettled(kept) => {
                self.on_kept(index, kept_event(&kept), Some(&kept));
            }
            Ending::Released => self.on(index, Event::Released),
            Ending::InDoubt => self.on(index, Event::InDoubt),
            Ending::LostLease | Ending::Renewed { .. } => self.on(index, Event::LostLease),
        }
    }

    /// The flaw: records after the work.
    fn burn(&mut self, index: usize, told: Told) {
        let Process { session, attempts, .. } = self.world.processes[index];
        if let Told::Settle(tag) = told {
            let ask = self.ask(small(index), attempts, session);
            if let Some(kept) = self.set(ask, tag) {
                self.answer(kept, self.world.history.life);
            }
        }
        self.process(index).turn = None;
        self.owe(index, Debt::Nothing);
    }

    /// A call that lost its lease answers from the ledger (L5).
    pub(super) fn read_ledger(&mut self, index: usize) {
        self.seen.add(Sighting::LostLease);
        self.read(index);
    }

    fn read(&mut self, index: usize) {
        self.heard(index);
        match self.view() {
            Some(View::Settled(kept)) => self.on_kept(index, kept_event(&kept), Some(&kept)),
            Some(View::Held { .. }) => self.on(index, Event::Held),
            Some(View::InDoubt { .. }) => self.on(index, Event::InDoubt),
            Some(View::Released { .. }) => self.on(index, Event::GivenBack),
            None => self.on(index, Event::Gone),
        }
    }

    /// A waiter looks again (L9). Returns whether it has stopped waiting.
    pub(super) fn wake(&mut self, index: usize) -> bool {
        match self.view() {
            Some(View::Held { .. }) => return false,
            Some(View::Settled(_)) => self.seen.add(Sighting::Attached),
            Some(View::InDoubt { .. }) => self.seen.add(Sighting::WaiterSawDoubt),
            Some(View::Released { .. }) | None => self.seen.add(Sighting::WaiterSawRelease),
        }
        self.read(index);
        true
    }

    /// The call is over: its caller is told, and what it owes is left to be paid.
    fn end_call(&mut self, index: usize, turn: Turn, last: LastWord, kept: Option<&Kept>) {
        self.tell(index, turn);
        if let LastWord::Kept(_) = last {
            self.finish(index, kept);
        }
        self.process(index).turn = None;
        self.owe(index, turn.debt());
    }

    /// An outcome is the caller's answer.
    fn finish(&mut self, index: usize, kept: Option<&Kept>) {
        let own = match self.world.processes[index].call.report {
            Some(Told::Settle(tag)) if self.has_flaw(Flaw::AnswerOwnResult) => Some(tag),
            _ => None,
        };
        // Without an outcome of the ledger a flaw has made one up.
        let tag = own.or(kept.map(|kept| Tag::of(&kept.outcome))).unwrap_or(Tag::Succeeded(0));
        self.answer(tag, self.world.history.life);
        if let (true, Some(kept)) = (self.config.switches.table, kept) {
            let settled = kept.settled_at.since(hapax_core::Timestamp::ZERO).as_secs() / DAY.as_secs() - 1;
            let day = u8::try_from(settled).expect("the model's days are few");
            self.process(index).copy = Some(Copy { tag, life: self.world.history.life, day });
        }
    }
}

fn kept_event(kept: &Kept) -> Event {
    Event::Kept { effect: Tag::of(&kept.outcome).effect(), may_have_run: kept.earlier_may_have_run }
}

impl Tag {
    /// What it tells of the work. In the model a refusal has done nothing.
    pub(super) fn effect(self) -> Effect {
        match self {
            Tag::Succeeded(_) | Tag::Stated => Effect::Done,
            Tag::Refused(_) => Effect::Nothing,
            Tag::Erased => Effect::Unclear,
        }
    }
}

impl Told {
    /// What is reported where this is due; an outcome was put in its place before.
    fn of(due: Due, before: Option<Told>) -> Told {
        match due {
            Due::Settle => before.expect("an outcome was put here"),
            Due::NotRun => Told::ReleaseNo,
            Due::MayHaveRun => Told::ReleasePerhaps,
            Due::Doubt => Told::Doubt,
        }
    }

    pub(super) fn report(self) -> Report {
        match self {
            Told::Settle(tag) => tag.settle(),
            Told::ReleaseNo => Report::Release(Ran::No),
            Told::ReleasePerhaps => Report::Release(Ran::Perhaps),
            Told::Doubt => Report::Doubt(Doubt::Stated),
        }
    }
}
