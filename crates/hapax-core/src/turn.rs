//! The driver of the claim protocol as a pure machine: what one call does next (E1).
//!
//! A [`Turn`] holds no bytes of a request, no ids and no clock. Its phase determines the [`Command`]; an [`Event`] gives the next
//! phase. `hapax_exec::once` is its async shell: it carries out the commands and translates the ledger's answers into events. The
//! model checker and the simulation drive the very same machine, so that what they explore is what runs.
//!
//! What a call owes the ledger where it stops is [`Turn::debt`]; what its caller is told is [`Turn::advice`]. [`Deadline`] is the
//! only arithmetic on time. The words here carry no data: a [`Debt`] says what kind of report is owed, and `hapax_exec::owed` has a
//! type of the same name that holds the report.
//!
//! Most calls go one of two ways. A first call: `Claim` → `Check` → `Run` → `Report` → `End`. A retry: `Claim` → `End`, or
//! `Claim` → `Wait` → `End` while the first call still runs. What becomes of a claim when a call stops on its way is a table in
//! ARCHITECTURE.md, *When it stops half-way*.
//!
//! One transition deserves a reason: a renewal that comes back as lost ends in a report that nothing was run, not in a look at the
//! ledger. The holder knows that it has begun nothing, and where nobody else has taken the claim since, saying so frees it; a look
//! would only find the doubt that the lapse left behind.

use std::time::Duration;

use crate::advice::{Advice, Delay, Effect, History, LastWord, Work, advice};
use crate::claim::{Rerun, Terms};
use crate::fingerprint::RecipeId;
use crate::limits;
use crate::port::Session;

/// What one call does: the state of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    phase: Phase,
    work: Work,
    history: History,
    patience: Patience,
    delay: Delay,
    /// Whether the journal events of the report were refused, and it is told without them.
    bare: bool,
}

/// What a call may do beyond asking once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Patience {
    /// It does not wait for another holder.
    pub rejects: bool,
    /// Whether its work may run again after doubt.
    pub safe: bool,
    /// How often it claims for itself after another holder has given the claim back.
    pub retries: u8,
    /// How often it may ask for the claim.
    pub asks: u8,
    /// How often it may renew its lease before its work begins.
    pub renewals: u8,
}

impl Patience {
    /// The usual: it waits, and leaves retries to its caller.
    pub fn new(rerun: Rerun) -> Self {
        let (asks, renewals) = (limits::ASKS, limits::RENEWALS);
        Patience { rejects: false, safe: rerun == Rerun::Safe, retries: 0, asks, renewals }
    }
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Claiming,
    Rehashing(RecipeId),
    Waiting,
    Pausing,
    Reconciling,
    Clearing,
    Checking,
    Renewing,
    Running,
    Reporting(Due),
    Reading,
    Over(LastWord, Debt),
}

/// What is reported; its bytes are the shell's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Due {
    /// The outcome.
    Settle,
    /// Nothing was run.
    NotRun,
    /// It failed, and may have run.
    MayHaveRun,
    /// Nobody can know.
    Doubt,
}

/// What the ledger must still hear of a call that stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Debt {
    /// Nothing.
    Nothing,
    /// The claim again, to find out whether it was granted; then it is given back (L13).
    Abandon,
    /// That nothing was run.
    NotRun,
    /// That it may have run.
    MayHaveRun,
    /// The report that is under way, until it is heard.
    Pending,
}

/// What is to be done now, or is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Send the claim; after [`Event::Spent`] under a fresh attempt id.
    Claim,
    /// Hash what is asked by this recipe.
    Rehash(RecipeId),
    /// Wait for the holder's outcome, within the call's bound.
    Wait,
    /// Wait a little before the claim is sent again.
    Pause,
    /// Ask whether an earlier attempt happened.
    Reconcile,
    /// Report that none did and none will.
    Clear,
    /// Look at the clock and the session.
    Check,
    /// Renew the lease.
    Renew,
    /// Begin the work, or go on with it.
    Run,
    /// Report how it ended.
    Report {
        /// What.
        due: Due,
        /// Without the journal events that belong to it.
        bare: bool,
    },
    /// Read what the ledger says: somebody else may have the claim by now (L5).
    Read,
    /// The call is over.
    End(LastWord),
}

/// What has happened. Each is grouped with the command that it answers first; `Kept`, `Held` and `InDoubt` also answer `Wait` and
/// `Read`, and `Kept` and `InDoubt` a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    // To `Claim`.
    /// The claim was granted.
    Granted {
        /// An earlier attempt may have run.
        may_have_run: bool,
        /// It must be found out first whether one did.
        must_ask: bool,
    },
    /// There is an outcome.
    Kept {
        /// What it tells of the work.
        effect: Effect,
        /// An attempt before the one that settled it may have run.
        may_have_run: bool,
    },
    /// Somebody holds the claim.
    Held,
    /// The key was used for another request.
    Differs,
    /// The claim was hashed by this recipe, and not by the one that was used to ask.
    OtherRecipe(RecipeId),
    /// The claim is in doubt.
    InDoubt,
    /// This attempt had its grant and gave it back.
    Spent,
    // To `Rehash`.
    /// Whether this process knows the recipe.
    Rehashed(bool),
    // To `Wait` and `Read`.
    /// The holder gave the claim back.
    GivenBack,
    /// Nobody holds the claim, and it is not granted either: a former run must be silent first.
    Silent,
    /// The claim is absent.
    Gone,
    // To `Pause`.
    /// Whether time is left for another try.
    Rested(bool),
    // To `Reconcile`.
    /// An earlier attempt happened.
    Happened(Effect),
    /// None did, and none will.
    Never,
    /// Nobody knows.
    Unknown,
    // To `Check`; and to `Reconcile`, where the call is given back unasked.
    /// What clock and session say.
    Standing(Standing),
    // To `Run`.
    /// The work has ended.
    Ended(Due, Work),
    // To `Clear` and `Renew`.
    /// The lease goes on.
    Renewed,
    // To `Report`; a lost lease to `Clear` and `Renew`, too.
    /// The claim was given back as reported.
    Released,
    /// Another epoch is current.
    LostLease,
    /// The journal has moved on: the report was not written.
    Conflict,
    // To whatever is sent to the ledger.
    /// No answer, or one that does not help: `Away`, `Spooled`, `Damaged`, `Invalid` or `Broken`.
    Unheard(LastWord),
}

/// Whether work may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It may.
    Sure,
    /// Not before the lease is renewed.
    Unsure,
    /// It may not any more.
    TooLate(Delay),
}

impl Turn {
    /// A call that has asked nothing yet.
    pub fn new(patience: Patience) -> Self {
        let patience = Patience { asks: patience.asks.saturating_sub(1), ..patience };
        let (work, history) = (Work::Untouched, History::Unasked);
        Turn { phase: Phase::Claiming, work, history, patience, delay: Delay::None, bare: false }
    }

    /// A call whose work was begun elsewhere, under a lease that is still current.
    pub fn running(patience: Patience, history: History) -> Self {
        Turn { phase: Phase::Running, history, work: Work::MayHaveRun, ..Self::new(patience) }
    }

    /// What is to be done now, or is under way.
    pub fn command(self) -> Command {
        match self.phase {
            Phase::Claiming => Command::Claim,
            Phase::Rehashing(recipe) => Command::Rehash(recipe),
            Phase::Waiting => Command::Wait,
            Phase::Pausing => Command::Pause,
            Phase::Reconciling => Command::Reconcile,
            Phase::Clearing => Command::Clear,
            Phase::Checking => Command::Check,
            Phase::Renewing => Command::Renew,
            Phase::Running => Command::Run,
            Phase::Reporting(due) => Command::Report { due, bare: self.bare },
            Phase::Reading => Command::Read,
            Phase::Over(last, _) => Command::End(last),
        }
    }

    /// The call after this event. An event that the phase cannot have is a defect: the call ends, and owes what it owed.
    #[must_use]
    pub fn on(self, event: Event) -> Self {
        match self.phase {
            Phase::Claiming => self.answered(event),
            Phase::Rehashing(_) => match event {
                Event::Rehashed(true) => self.claiming(),
                Event::Rehashed(false) => self.over(LastWord::OtherRecipe),
                Event::Unheard(last) => self.over(last),
                _ => self.broken(event),
            },
            Phase::Waiting => self.waited(event),
            Phase::Pausing => match event {
                // Nothing was tried and failed: no ask is used up, and time bounds how often it is asked.
                Event::Rested(true) => self.at(Phase::Claiming),
                Event::Rested(false) => self.over(LastWord::Held),
                _ => self.broken(event),
            },
            Phase::Reconciling => self.reconciled(event),
            Phase::Clearing | Phase::Checking | Phase::Renewing => self.readied(event),
            Phase::Running => match event {
                Event::Ended(due, work) => Turn { work, ..self }.at(Phase::Reporting(due)),
                _ => self.broken(event),
            },
            Phase::Reporting(_) => self.reported(event),
            Phase::Reading => self.read(event),
            Phase::Over(..) => self.broken(event),
        }
    }

    /// The answer to a claim.
    fn answered(self, event: Event) -> Self {
        let seen = Turn { history: History::MayHaveRun, ..self };
        match event {
            Event::Granted { may_have_run, must_ask } => {
                let history = History::of(may_have_run);
                let next = if must_ask { Phase::Reconciling } else { Phase::Checking };
                Turn { history, ..self }.at(next)
            }
            Event::Kept { effect, may_have_run } => self.kept(effect, may_have_run),
            Event::Held if self.patience.rejects => seen.over(LastWord::Held),
            Event::Held => seen.at(Phase::Waiting),
            Event::Differs => self.over(LastWord::Differs),
            Event::OtherRecipe(recipe) => seen.at(Phase::Rehashing(recipe)),
            Event::InDoubt => seen.over(LastWord::InDoubt),
            Event::Spent => self.claiming(),
            Event::Unheard(last) => self.at(Phase::Over(last, Debt::Abandon)),
            _ => self.broken(event),
        }
    }

    /// What came of waiting for another holder.
    fn waited(self, event: Event) -> Self {
        let retries = self.patience.retries;
        match event {
            Event::Kept { effect, may_have_run } => self.kept(effect, may_have_run),
            Event::InDoubt => self.over(LastWord::InDoubt),
            Event::Gone => self.over(LastWord::Gone),
            Event::Held => self.over(LastWord::Held),
            Event::GivenBack | Event::Silent if retries == 0 => self.over(LastWord::GivenBackByAnother),
            Event::GivenBack => {
                let patience = Patience { retries: retries - 1, ..self.patience };
                Turn { patience, ..self }.claiming()
            }
            Event::Silent => self.at(Phase::Pausing),
            Event::Unheard(last) => self.over(last),
            _ => self.broken(event),
        }
    }

    /// What is known of an earlier attempt.
    fn reconciled(self, event: Event) -> Self {
        match event {
            Event::Happened(effect) => {
                Turn { work: Work::Ended(effect), ..self }.at(Phase::Reporting(Due::Settle))
            }
            Event::Never => self.at(Phase::Clearing),
            Event::Unknown => Turn { history: History::Doubted, ..self }.at(Phase::Reporting(Due::Doubt)),
            // Given back unasked.
            Event::Standing(Standing::TooLate(delay)) => self.too_late(delay),
            _ => self.broken(event),
        }
    }

    /// Everything between the grant and the first byte.
    fn readied(self, event: Event) -> Self {
        match (self.phase, event) {
            (Phase::Clearing, Event::Renewed) => Turn { history: History::Clean, ..self }.at(Phase::Checking),
            (Phase::Clearing, Event::LostLease | Event::Kept { .. }) => self.taken(),
            (Phase::Checking, Event::Standing(Standing::Sure)) => {
                Turn { work: Work::MayHaveRun, ..self }.at(Phase::Running)
            }
            (Phase::Checking, Event::Standing(Standing::Unsure)) => {
                match self.patience.renewals.checked_sub(1) {
                    Some(renewals) => {
                        let patience = Patience { renewals, ..self.patience };
                        Turn { patience, ..self }.at(Phase::Renewing)
                    }
                    None => self.too_late(Delay::Ledger),
                }
            }
            (Phase::Checking, Event::Standing(Standing::TooLate(delay))) => self.too_late(delay),
            // The process may have been stopped while the answer was on its way: only another look makes it sure (L4).
            (Phase::Renewing, Event::Renewed) => self.at(Phase::Checking),
            (Phase::Renewing, Event::LostLease) => self.too_late(Delay::Ledger),
            (Phase::Renewing, Event::Kept { effect, may_have_run }) => self.kept(effect, may_have_run),
            (Phase::Clearing | Phase::Renewing, Event::Unheard(last)) => {
                self.at(Phase::Over(last, Debt::NotRun))
            }
            _ => self.broken(event),
        }
    }

    /// What the ledger made of a report.
    fn reported(self, event: Event) -> Self {
        match event {
            Event::Kept { effect, may_have_run } => self.kept(effect, may_have_run),
            Event::Released => self.over(LastWord::GivenBack),
            // A doubt that was only asked about is the one it was before: the ledger knows which (L6).
            Event::InDoubt if self.history == History::Doubted => self.at(Phase::Reading),
            Event::InDoubt => self.over(LastWord::InDoubt),
            Event::LostLease => self.taken(),
            Event::Conflict if !self.bare => Turn { bare: true, ..self },
            Event::Unheard(last) => self.at(Phase::Over(last, Debt::Pending)),
            _ => self.broken(event),
        }
    }

    /// What the ledger says; it has the last word (L5).
    fn read(self, event: Event) -> Self {
        match event {
            Event::Kept { effect, may_have_run } => self.kept(effect, may_have_run),
            Event::InDoubt => self.over(LastWord::InDoubt),
            Event::Held => self.over(LastWord::Held),
            Event::GivenBack | Event::Silent => self.over(LastWord::GivenBackByAnother),
            Event::Gone => self.over(LastWord::Gone),
            // What the ledger cannot accept here is a question of ours, and no fault of the call.
            Event::Unheard(LastWord::Invalid) => self.over(LastWord::Away),
            Event::Unheard(last) => self.over(last),
            _ => self.broken(event),
        }
    }

    /// There is an outcome. The ledger speaks for the attempts before it, since the key was last absent; of what this call has run
    /// itself it may have forgotten.
    fn kept(self, effect: Effect, may_have_run: bool) -> Self {
        let history = match self.work {
            Work::Untouched | Work::NotRun => History::of(may_have_run),
            Work::MayHaveRun | Work::Ended(_) if may_have_run => History::MayHaveRun,
            Work::MayHaveRun | Work::Ended(_) => self.history,
        };
        Turn { history, ..self }.over(LastWord::Kept(effect))
    }

    /// Asks for the claim once more, while asks last.
    fn claiming(self) -> Self {
        match self.patience.asks.checked_sub(1) {
            Some(asks) => Turn { patience: Patience { asks, ..self.patience }, ..self }.at(Phase::Claiming),
            None => self.over(LastWord::Held),
        }
    }

    fn too_late(self, delay: Delay) -> Self {
        Turn { delay, ..self }.at(Phase::Reporting(Due::NotRun))
    }

    fn taken(self) -> Self {
        Turn { history: History::Taken, ..self }.at(Phase::Reading)
    }

    fn at(self, phase: Phase) -> Self {
        Turn { phase, ..self }
    }

    fn over(self, last: LastWord) -> Self {
        self.at(Phase::Over(last, Debt::Nothing))
    }

    fn broken(self, event: Event) -> Self {
        debug_assert!(false, "{event:?} cannot happen to {self:?}");
        self.at(Phase::Over(LastWord::Broken, self.debt()))
    }

    /// What the ledger must hear if the call stops here: dropped, panicked, or over.
    pub fn debt(self) -> Debt {
        match self.phase {
            Phase::Claiming => Debt::Abandon,
            Phase::Rehashing(_) | Phase::Waiting | Phase::Pausing | Phase::Reading => Debt::Nothing,
            Phase::Reconciling | Phase::Clearing | Phase::Checking | Phase::Renewing => Debt::NotRun,
            Phase::Running => Debt::MayHaveRun,
            Phase::Reporting(_) => Debt::Pending,
            Phase::Over(_, debt) => debt,
        }
    }

    /// What the caller is told: at the end, or where it leaves while its call goes on. `None` before the work has begun.
    pub fn advice(self) -> Option<Advice> {
        let last = match self.phase {
            Phase::Over(last, _) => last,
            Phase::Running | Phase::Reporting(_) if self.work != Work::Untouched => LastWord::NotYet,
            _ => return None,
        };
        Some(advice(self.work, self.history, last, self.delay, self.patience.safe))
    }

    /// What this call's own work came to.
    pub fn work(self) -> Work {
        self.work
    }

    /// What the call has learned of earlier attempts.
    pub fn history(self) -> History {
        self.history
    }

    /// Why the time of the call was over before its work began.
    pub fn delay(self) -> Delay {
        self.delay
    }

    /// How often the call may still claim for itself.
    pub fn retries(self) -> u8 {
        self.patience.retries
    }
}

/// What became of a debt that is paid behind the scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paid {
    /// The claim had been granted, or is now: it must be given back.
    Granted,
    /// The ledger has heard it, or there is nothing to tell.
    Heard,
    /// No answer.
    Unheard,
}

impl Debt {
    /// What is still owed after that. A claim that nobody wants any more and that was granted is given back like any other.
    #[must_use]
    pub fn on(self, paid: Paid) -> Self {
        match (self, paid) {
            (Debt::Abandon, Paid::Granted) => Debt::NotRun,
            (debt, Paid::Unheard) => debt,
            (_, Paid::Heard | Paid::Granted) => Debt::Nothing,
        }
    }
}

/// The times of one call, on a clock that counts suspend (L4, L8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// When the claim was sent.
    asked_at: Duration,
    /// Until when the lease is certain to have lasted without a break.
    unbroken_until: Duration,
    /// How long the call may reach the work; zero: for ever.
    give_up: Duration,
    max_run: Duration,
    /// Whether the service took the time of the call when it was asked about an earlier attempt.
    asked_too_long: bool,
}

impl Deadline {
    /// A call whose claim is sent now.
    pub fn new(now: Duration, session: &Session, terms: &Terms) -> Self {
        Deadline {
            asked_at: now,
            unbroken_until: now.saturating_add(session.left.min(terms.max_run)),
            give_up: terms.give_up,
            max_run: terms.max_run,
            asked_too_long: false,
        }
    }

    /// The ledger has confirmed the lease for this long: for a whole term if the session was renewed with it, else for what that had
    /// left. That is certain only from when it was asked to, and only until `max_run` ends.
    pub fn confirmed(&mut self, sent: Duration, lasts: Duration) {
        let renewed = sent.saturating_add(lasts);
        self.unbroken_until = renewed.min(self.asked_at.saturating_add(self.max_run));
    }

    /// Whether the session may have lapsed since the claim was sent or confirmed.
    pub fn is_broken(&self, now: Duration) -> bool {
        now >= self.unbroken_until
    }

    /// The service was asked about an earlier attempt between these two moments.
    pub fn asked(&mut self, from: Duration, to: Duration) {
        self.asked_too_long |= !self.is_over(from) && self.is_over(to);
    }

    /// Whether work may begin now. A session that lapsed and was renewed since has time left, too, but others may have acted in
    /// between: then only the ledger knows whose the claim is.
    pub fn standing(&self, now: Duration, session: &Session) -> Standing {
        if self.is_over(now) {
            let delay = if self.asked_too_long { Delay::Service } else { Delay::Ledger };
            return Standing::TooLate(delay);
        }
        if now >= self.asked_at.saturating_add(self.max_run) {
            return Standing::TooLate(Delay::Ledger);
        }
        let enough = session.left >= session.term / limits::TERM_PART_LEFT;
        if !self.is_broken(now) && enough { Standing::Sure } else { Standing::Unsure }
    }

    /// Until when the work may be polled; `None` where it is never given up. An operator may release a doubt that long after the
    /// grant, so it counts from before the claim was sent and not from when the work began (L8).
    pub fn give_up_at(&self) -> Option<Duration> {
        (!self.give_up.is_zero()).then(|| self.asked_at.saturating_add(self.give_up))
    }

    fn is_over(&self, now: Duration) -> bool {
        self.give_up_at().is_some_and(|until| now >= until)
    }
}

#[cfg(test)]
mod tests;
