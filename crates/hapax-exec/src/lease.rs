//! The right to run, and what is owed to the ledger if its future stops here.
//!
//! A future can be dropped at any await. A [`Holding`] carries the call's [`Turn`], which knows at each of them what the ledger must
//! still hear; dropped, it hands that to `Owed`, which goes on until the ledger has heard it. So a cancelled call is dealt with at
//! once, not when its lease lapses (E3, L13).

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt as _;
use hapax_core::advice::{Advice, Delay, LastWord, Work, advice};
use hapax_core::journal::Append;
use hapax_core::turn::{self, Command, Deadline, Due, Event, Standing, Turn};
use hapax_core::{
    AttemptId, ClaimId, Doubt, Effect, Ending, Epoch, Identity, Kept, Ledger, OperationId, Outcome, Ran,
    Report, Retention,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::attach::{self, Found};
use crate::call::{Attach, Attempt, Concluded, Done, Ended, How, Reconciled};
use crate::clock::boot_time;
use crate::error::{Error, Particulars, last_word};
use crate::once::{Shared, done, kept_event};
use crate::owed::{Debt, may_be_about_events};
use crate::spool::{self, Entry};
use crate::{late, limits};

/// A lease and everything that belongs to its call, from the grant to the end. A [`Held`](crate::Held) has one whose work has not begun,
/// a [`Running`] one whose work has.
pub(crate) struct Holding<L: Ledger> {
    pub(crate) shared: Arc<Shared<L>>,
    pub(crate) turn: Turn,
    pub(crate) deadline: Deadline,
    pub(crate) identity: Option<Identity>,
    pub(crate) claim: ClaimId,
    pub(crate) epoch: Epoch,
    pub(crate) operation_id: Option<OperationId>,
    /// `None` where the work was begun elsewhere.
    pub(crate) attempt: Option<AttemptId>,
    pub(crate) retention: Retention,
    pub(crate) attach: Attach,
    pub(crate) given_up_as: Option<Doubt>,
    /// Whether the ledger hears of it when this is dropped before its end is known. Of work that was begun elsewhere this process knows
    /// nothing but what it is told; a report that it was given is owed like any other.
    pub(crate) owes: bool,
    pub(crate) told: Told,
}

/// What is told to the ledger, and what it said.
#[derive(Default)]
pub(crate) struct Told {
    /// The report that is under way, with its journal events.
    report: Option<(Report, Vec<Append>)>,
    /// The outcome's place in the spool, written already or not; whoever delivers the outcome clears it.
    pub(crate) spooled: Option<Arc<Entry>>,
    kept: Option<(Kept, How)>,
    doubt: Option<Doubt>,
    cause: Option<String>,
    events_written: bool,
    /// Whether the outcome is an earlier attempt's, which somebody told of.
    reconciled: bool,
}

impl<L: Ledger> Holding<L> {
    pub(crate) fn attempt(&self) -> Attempt {
        Attempt { claim: Some(self.claim), epoch: Some(self.epoch), operation_id: self.operation_id }
    }

    pub(crate) fn on(&mut self, event: Event) {
        self.turn = self.turn.on(event);
    }

    /// Asks whether an earlier attempt happened (L6). A question that panics is not answered.
    pub(crate) async fn reconcile<F, Fut>(&mut self, ask: F) -> Event
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Reconciled>,
    {
        let from = boot_time();
        let asking = AssertUnwindSafe(async { ask(self.attempt()).await }).catch_unwind();
        let answer = asking.await.unwrap_or(Reconciled::Unknown);
        self.deadline.asked(from, boot_time());
        match answer {
            Reconciled::Happened(outcome) => {
                let effect = Effect::of(&outcome);
                self.told.report = Some((Report::Settle(outcome, self.retention), Vec::new()));
                self.told.reconciled = true;
                Event::Happened(effect)
            }
            Reconciled::Never => Event::Never,
            // The doubt stays the one it was, whatever is given as its reason here; the ledger knows it. It also knows the outcome,
            // if another holder has brought one meanwhile (L5).
            Reconciled::Unknown => {
                self.told.report = Some((Report::Doubt(Doubt::Stated), Vec::new()));
                Event::Unknown
            }
        }
    }

    /// Whether work may begin now. `look` is asked after the last renewal and before the first byte, and what it takes counts; where
    /// it says no: `None`.
    pub(crate) async fn check(&mut self, look: &mut impl AsyncFnMut() -> bool) -> Option<Event> {
        let first = self.standing();
        if first != Standing::Sure {
            return Some(Event::Standing(first));
        }
        look().await.then(|| Event::Standing(self.standing()))
    }

    /// The session first, then the clock: where the process is stopped in between, the clock shows it.
    fn standing(&self) -> Standing {
        let session = self.shared.ledger.session();
        self.deadline.standing(boot_time(), &session)
    }

    /// Renews the lease, or says that no earlier attempt ran, which renews it as well.
    pub(crate) async fn renew(&mut self, report: Report) -> Event {
        let (sent, session, renews) = (boot_time(), self.shared.ledger.session(), report == Report::Renew);
        match self.shared.ledger.report(self.claim, self.epoch, report, Vec::new()).await {
            Ok(Ending::Renewed { .. }) => {
                let broken = self.deadline.is_broken(sent);
                // Only a renewal lengthens the session; what else is confirmed lasts as long as that had left.
                let term = if renews { session.term } else { session.left };
                self.deadline.confirmed(sent, term);
                if !broken {
                    return Event::Renewed;
                }
                match Box::pin(self.shared.peers.agree(&self.shared.ledger.session())).await {
                    Ok(()) => Event::Renewed,
                    Err(error) => self.unheard(&error),
                }
            }
            Ok(Ending::Settled(kept) | Ending::AlreadySettled(kept)) => {
                let event = kept_event(&kept);
                self.told.kept = Some((kept, How::Replayed));
                event
            }
            Ok(_) => Event::LostLease,
            Err(error) => self.unheard(&error),
        }
    }

    fn unheard(&mut self, error: &hapax_core::Error) -> Event {
        self.told.cause = Some(format!("{error:#}"));
        Event::Unheard(last_word(error))
    }

    /// Takes over how the work ended.
    pub(crate) fn concluded(&mut self, concluded: Concluded) {
        let work = work_of(&concluded);
        let Concluded { ended, events, .. } = concluded;
        let (due, report, cause) = match ended {
            Ended::Settled(outcome) => (Due::Settle, Report::Settle(outcome, self.retention), None),
            Ended::NotRun(cause) => (Due::NotRun, Report::Release(Ran::No), Some(cause)),
            Ended::Unknown(cause) => {
                self.told.doubt = Some(Doubt::Failed);
                (Due::MayHaveRun, Report::Release(Ran::Perhaps), Some(cause))
            }
            Ended::Doubt(doubt, cause) => {
                self.told.doubt = Some(doubt);
                (Due::Doubt, Report::Doubt(doubt), Some(cause))
            }
        };
        let report = match &cause {
            Some(cause) => report.because(cause),
            None => report,
        };
        self.told.cause = cause;
        self.told.report = Some((report, events));
        self.on(Event::Ended(due, work));
    }

    /// From the report to the end: tells the ledger how it ended, and answers with what the ledger has (L3, L5).
    pub(crate) async fn close(mut self: Box<Self>) -> Result<Done, Error> {
        let last = self.last_word().await;
        self.end(last)
    }

    async fn last_word(&mut self) -> LastWord {
        loop {
            let event = match self.turn.command() {
                Command::Report { due, bare } => self.report(due, bare).await,
                Command::Read => Box::pin(self.read()).await,
                Command::End(last) => return last,
                // Not before the work has ended, or will not begin.
                _ => return LastWord::Broken,
            };
            self.on(event);
        }
    }

    /// Reports. An outcome that the ledger takes long to confirm is put into the spool meanwhile (L15).
    async fn report(&mut self, due: Due, bare: bool) -> Event {
        if due == Due::Settle {
            fail::fail_point!("once.settling");
        }
        if self.told.report.is_none() {
            self.told.cause = Some(late_cause(self.turn.delay()).into());
        }
        let (report, events) = self.told.report.get_or_insert_with(|| (Report::Release(Ran::No), Vec::new()));
        if bare {
            // The journal has moved on without us, but the report is true all the same.
            events.clear();
        }
        let (report, events) = (report.clone(), events.clone());
        let has_events = !events.is_empty();
        let shared = self.shared.clone();
        let ending = {
            let mut telling = pin!(shared.ledger.report(self.claim, self.epoch, report, events));
            // Without a runtime there is no timer either: what takes long is waited for.
            let spool = shared.spool.as_ref().filter(|_| due == Due::Settle);
            match spool.filter(|_| Handle::try_current().is_ok()) {
                None => telling.await,
                Some(spool) => match timeout(limits::SPOOL_AFTER, telling.as_mut()).await {
                    Ok(ending) => ending,
                    Err(_) => {
                        self.take_place(spool);
                        telling.await
                    }
                },
            }
        };
        match ending {
            Err(error) if has_events && may_be_about_events(&error) => Event::Conflict,
            Err(error) if due == Due::Settle => Box::pin(self.keep_for_later(&error)).await,
            Err(error) => {
                self.told.cause.get_or_insert_with(|| format!("{error:#}"));
                Event::Unheard(LastWord::Away)
            }
            Ok(ending) => {
                if due == Due::Settle {
                    fail::fail_point!("once.settled");
                }
                self.told.events_written = has_events;
                Box::pin(self.clear_place(&ending)).await;
                self.heard(ending)
            }
        }
    }

    /// What the ledger made of a report.
    fn heard(&mut self, ending: Ending) -> Event {
        // Of work that was begun elsewhere only the epoch is known here, and that alone has just settled.
        let just_now = matches!(ending, Ending::Settled(_));
        match ending {
            Ending::Settled(kept) | Ending::AlreadySettled(kept) => {
                let own = self.attempt.map_or(just_now, |attempt| kept.attempt == attempt)
                    && kept.epoch == self.epoch;
                let effect = match self.turn.work() {
                    Work::Ended(effect) if own => effect,
                    _ => Effect::of(&kept.outcome),
                };
                let may_have_run = kept.earlier_may_have_run;
                self.tell_dead_letter(&kept);
                self.told.kept = Some((kept, if own { How::Executed } else { How::Replayed }));
                Event::Kept { effect, may_have_run }
            }
            Ending::Released => Event::Released,
            Ending::InDoubt => Event::InDoubt,
            Ending::LostLease | Ending::Renewed { .. } => {
                self.told.events_written = false;
                Event::LostLease
            }
        }
    }

    /// Another holder may have the claim now: whatever was done here, the caller gets what the ledger says (L5).
    async fn read(&mut self) -> Event {
        (self.told.cause, self.told.doubt) = (None, None);
        let found = match attach::wait(&self.shared.ledger, self.claim, self.attach.bound()).await {
            Ok(found) => found,
            Err(error) => {
                self.told.cause = Some(format!("{error:#}"));
                return Event::Unheard(match last_word(&error) {
                    LastWord::Invalid => LastWord::Away,
                    last => last,
                });
            }
        };
        let event = found.event();
        match found {
            Found::Settled(kept) => {
                if let Some((Report::Settle(outcome, _), _)) = &self.told.report {
                    self.shared.contradicted.compare(&kept, self.epoch, outcome);
                }
                self.told.kept = Some((kept, How::Attached));
            }
            Found::InDoubt { doubt, .. } => self.told.doubt = Some(doubt),
            Found::Released(_) | Found::GivenBack(_) => {
                self.told.cause = Some("the claim had another holder meanwhile, who gave it back".into());
            }
            Found::Free | Found::Gone(_) => self.told.cause = Some(GONE.into()),
            Found::StillHeld(_) => {}
        }
        event
    }

    /// The call is over.
    fn end(&mut self, last: LastWord) -> Result<Done, Error> {
        let Some(advice) = self.turn.advice() else {
            let told = hapax_core::Error::internal("a call ended before its work");
            return Err(told.into());
        };
        if let (LastWord::Kept(_), Some((kept, how))) = (last, self.told.kept.take()) {
            let how = if self.told.reconciled { How::Replayed } else { how };
            let events_written = self.told.events_written;
            return Ok(Done { executed: advice.executed, events_written, ..done(kept, how) });
        }
        Err(Error::told(
            advice,
            Particulars {
                operation_id: self.operation_id,
                doubt: self.told.doubt,
                cause: self.told.cause.take(),
                events_written: self.told.events_written,
                ..Particulars::default()
            },
        ))
    }

    /// Gives the claim back: nothing was run. Tells whether the events were written.
    pub(crate) async fn give_back(mut self: Box<Self>, events: Vec<Append>) -> Result<bool, Error> {
        self.told.report = Some((Report::Release(Ran::No), events));
        self.on(Event::Standing(Standing::TooLate(Delay::None)));
        match self.last_word().await {
            LastWord::GivenBack | LastWord::Kept(_) => Ok(self.told.events_written),
            last => self.end(last).map(|done| done.events_written),
        }
    }

    fn tell_dead_letter(&self, kept: &Kept) {
        let sink = self.shared.dead_letter.as_ref().zip(self.identity.as_ref());
        if let (Some((sink, identity)), Outcome::Refused(_)) = (sink, &kept.outcome) {
            // A sink that panics must not cost the caller an outcome that is recorded.
            let told = AssertUnwindSafe(|| sink.refused(identity, kept.operation_id, &kept.outcome));
            let _ = std::panic::catch_unwind(told);
        }
    }

    /// A spool that is full has no place: then it is as if there were none.
    fn take_place(&mut self, spool: &spool::Spool) {
        let Some((Report::Settle(outcome, retention), events)) = &self.told.report else { return };
        if let Ok(entry) = spool.reserve(self.claim, self.epoch, outcome, *retention, events) {
            entry.clone().write_meanwhile();
            self.told.spooled = Some(entry);
        }
    }

    /// The ledger has heard the outcome: its place in the spool is cleared.
    async fn clear_place(&mut self, ending: &Ending) {
        let Some(entry) = self.told.spooled.clone() else { return };
        // What cannot be found out is taken for refused, and set aside.
        let of = (self.claim, self.epoch);
        let settled = spool::is_settled_for_good(&self.shared.ledger, of, ending).await.unwrap_or(false);
        if settled && !matches!(ending, Ending::Settled(_) | Ending::AlreadySettled(_)) {
            late::tell_too_late(of);
        }
        entry.heard_meanwhile(settled);
        self.told.spooled = None;
    }

    /// The work has answered and the ledger is away: the outcome goes to the spool before the caller is told (L15). If this is
    /// dropped meanwhile, the report is owed, and its place in the spool is known.
    pub(crate) async fn keep_for_later(&mut self, error: &hapax_core::Error) -> Event {
        self.told.cause = Some(format!("{error:#}"));
        let (claim, operation_id) = (self.claim, self.operation_id.map(tracing::field::display));
        let (Some(spool), Some((Report::Settle(outcome, retention), events))) =
            (&self.shared.spool, &self.told.report)
        else {
            return Event::Unheard(LastWord::Away);
        };
        let reserve = || spool.reserve(claim, self.epoch, outcome, *retention, events);
        let written = match self.told.spooled.clone().map_or_else(reserve, Ok) {
            Ok(entry) => {
                self.told.spooled = Some(entry.clone());
                // Where it could not be written, no thread that had begun to before may still do so: nothing would clear it.
                entry.clone().write().await.inspect_err(|_| entry.heard_meanwhile(true))
            }
            Err(full) => Err(full),
        };
        match written {
            Ok(()) => {
                tracing::warn!(%claim, operation_id, "the ledger is away: an outcome was put into the spool");
                Event::Unheard(LastWord::Spooled)
            }
            Err(full) => {
                self.told.spooled = None;
                tracing::error!(%claim, operation_id, %full, "an outcome could not be put into the spool");
                self.told.cause = Some(format!("{error:#}; {full:#}"));
                Event::Unheard(LastWord::Away)
            }
        }
    }
}

/// What work that has ended like this came to.
fn work_of(concluded: &Concluded) -> Work {
    match &concluded.ended {
        Ended::Settled(outcome) => Work::Ended(concluded.effect.unwrap_or_else(|| Effect::of(outcome))),
        Ended::NotRun(_) => Work::NotRun,
        Ended::Unknown(_) | Ended::Doubt(..) => Work::MayHaveRun,
    }
}

/// Why work did not begin.
fn late_cause(delay: Delay) -> &'static str {
    match delay {
        Delay::Service => "the service took the time of the call when it was asked about an earlier attempt",
        Delay::None | Delay::Ledger => "the lease or the time of the call had run out before the work began",
    }
}

/// Why an outcome that somebody waited for is not there.
pub(crate) const GONE: &str = "its holder came to an end, and its outcome is not kept any more";

impl<L: Ledger> Drop for Holding<L> {
    fn drop(&mut self) {
        let nothing = || (Report::Release(Ran::No), Vec::new());
        let (report, events) = match self.turn.debt() {
            turn::Debt::Nothing | turn::Debt::Abandon => return,
            turn::Debt::Pending => self.told.report.take().unwrap_or_else(nothing),
            _ if !self.owes => return,
            turn::Debt::NotRun => nothing(),
            turn::Debt::MayHaveRun => (Report::Release(Ran::Perhaps), Vec::new()),
        };
        let (claim, epoch, spooled) = (self.claim, self.epoch, self.told.spooled.take());
        self.shared.owed.owe(Debt::Report { claim, epoch, report, events, spooled });
    }
}

/// What became of work that was run under a lease.
#[derive(Debug)]
pub enum WorkResult<T> {
    /// It came to its end.
    Ended(T),
    /// It panicked, with this message.
    Panicked(String),
    /// Its time was over before it had ended.
    GivenUp,
    /// Its time was over before it began.
    NotBegun,
}

/// The right to do the work of one call, which has begun. Dropped, it may have run.
pub struct Running<L: Ledger>(pub(crate) Box<Holding<L>>);

impl<L: Ledger> Running<L> {
    /// What the work is told about the attempt it runs in.
    pub fn attempt(&self) -> Attempt {
        self.0.attempt()
    }

    /// Runs the work. Once its time is over it is not polled any more, however long the process was stopped in between.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> WorkResult<T> {
        fail::fail_point!("once.dispatching");
        let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
        let ended = match self.0.deadline.give_up_at() {
            None => Some(work.await),
            Some(until) => {
                let (mut begun, mut clock) = (false, pin!(None));
                let ended = std::future::poll_fn(|cx| {
                    if boot_time() >= until {
                        return Poll::Ready(None);
                    }
                    begun = true;
                    if let Poll::Ready(ended) = work.as_mut().poll(cx) {
                        return Poll::Ready(Some(ended));
                    }
                    if clock.is_none() {
                        clock.set(Some(tokio::time::sleep(until.saturating_sub(boot_time()))));
                    }
                    match clock.as_mut().as_pin_mut() {
                        Some(clock) => clock.poll(cx).map(|()| None),
                        None => Poll::Pending,
                    }
                });
                let ended = ended.await;
                if !begun {
                    return WorkResult::NotBegun;
                }
                ended
            }
        };
        fail::fail_point!("once.worked");
        match ended {
            Some(Ok(ended)) => WorkResult::Ended(ended),
            Some(Err(panic)) => WorkResult::Panicked(panic_message(&panic).to_owned()),
            None => WorkResult::GivenUp,
        }
    }

    /// What the ledger is to hear of work that was run.
    pub fn judged<T: Into<Concluded>>(&self, result: WorkResult<T>) -> Concluded {
        match result {
            WorkResult::Ended(ended) => ended.into(),
            WorkResult::Panicked(message) => Ended::Unknown(format!("the work panicked: {message}")).into(),
            WorkResult::GivenUp => {
                let cause = "it took too long and was given up".into();
                match self.0.given_up_as {
                    Some(doubt) => Ended::Doubt(doubt, cause).into(),
                    None => Ended::Unknown(cause).into(),
                }
            }
            WorkResult::NotBegun => {
                Ended::NotRun("the time of the call was over before the work began".into()).into()
            }
        }
    }

    /// What a caller is told that leaves while its call goes on: during the work, or once that has ended like this and the ledger has
    /// yet to record it.
    pub fn not_yet(&self, concluded: Option<&Concluded>) -> Advice {
        let work = concluded.map_or(Work::MayHaveRun, work_of);
        advice(work, self.0.turn.history(), LastWord::NotYet, Delay::None, false)
    }

    /// Reports how the work ended, and answers with what the ledger has. The outcome is recorded before this returns it (L3).
    pub async fn conclude(mut self, concluded: impl Into<Concluded>) -> Result<Done, Error> {
        self.0.concluded(concluded.into());
        self.0.close().await
    }
}

impl<L: Ledger> std::fmt::Debug for Running<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Running").field(&self.0.turn).finish()
    }
}

fn panic_message(panic: &Box<dyn std::any::Any + Send>) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
