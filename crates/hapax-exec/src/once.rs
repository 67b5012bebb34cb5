//! `once`: the only driver of the claim protocol, read from top to bottom.
//!
//! Claim; answer from the ledger if somebody else has it; otherwise make sure of the lease, run the work, and report how it
//! ended. Whatever happens to this future on the way (an error, a panic, a drop), the [`Lease`] sees to it that the ledger
//! hears what is known. How the store keeps claims, and what the rules are, is not decided here.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use hapax_core::journal::Append;
use hapax_core::{
    AttemptId, ClaimId, ClaimRequest, Doubt, Ending, Executed, Grant, Identity, Kept, Ledger, OperationId,
    Outcome, Ran, Report, Verdict,
};
use rustix::time::{ClockId, clock_gettime};

use crate::attach::{Silence, Waited};
use crate::call::{Attach, Attempt, Call, Done, Ended, How, OnRelease, Reconciled};
use crate::error::{Error, Reason};
use crate::late::Contradicted;
use crate::lease::{Asking, Lease};
use crate::limits;
use crate::owed::Owed;
use crate::spool::Spool;

/// Sees terminal failures; cannot change what is kept (E5).
pub trait DeadLetter: Send + Sync + 'static {
    /// A call ended with a terminal error, which has just been recorded.
    fn refused(&self, identity: &Identity, operation_id: OperationId, outcome: &Outcome);
}

/// How an executor is set up.
#[derive(Clone, Default)]
pub struct Settings {
    /// Where outcomes go while the ledger is away (L15). Without it such an outcome is unknown to its caller.
    pub spool: Option<PathBuf>,
    /// Who sees terminal failures.
    pub dead_letter: Option<Arc<dyn DeadLetter>>,
}

/// Runs work once.
pub struct Executor<L> {
    pub(crate) ledger: L,
    pub(crate) owed: Owed<L>,
    contradicted: Contradicted,
    spool: Option<Spool>,
    dead_letter: Option<Arc<dyn DeadLetter>>,
}

impl<L: Ledger> Executor<L> {
    /// An executor without a spool.
    pub fn new(ledger: L) -> Self {
        let contradicted = Contradicted::default();
        let owed = Owed::new(ledger.clone(), contradicted.clone());
        Executor { ledger, owed, contradicted, spool: None, dead_letter: None }
    }

    /// An executor as set up. Outcomes that an earlier process left in the spool are settled before this returns, but for those of
    /// claims that cannot be read, which are tried again (L15).
    pub async fn open(ledger: L, settings: Settings) -> Result<Self, Error> {
        let mut executor = Self::new(ledger);
        executor.dead_letter = settings.dead_letter;
        if let Some(folder) = settings.spool {
            let spool = Spool::open(folder)?;
            let owed = spool.settle_all(&executor.ledger, &executor.contradicted).await?;
            owed.into_iter().for_each(|debt| executor.owed.owe(debt));
            executor.spool = Some(spool);
        }
        Ok(executor)
    }

    /// The ledger it runs on.
    pub fn ledger(&self) -> &L {
        &self.ledger
    }

    /// How many true outcomes this executor saw refused because an operator had settled the claim otherwise (L8). Each was
    /// logged as an error, and the audit has both outcomes.
    pub fn contradicted(&self) -> u64 {
        self.contradicted.count()
    }

    /// Makes `work` happen once, and returns its outcome: from this run, from an earlier one, or from one that this call
    /// waited for. The outcome is recorded before this returns it (L3).
    pub async fn once<F, Fut>(&self, call: Call, work: F) -> Result<Done, Error>
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Ended>,
    {
        let mut work = Some(work);
        let entered = self.enter(call, || work = None).await?;
        match (entered, work) {
            (Entered::Done(done), _) => Ok(done),
            // Most calls do not come here, and need not carry along what the work takes.
            (Entered::Held(held), Some(work)) => Box::pin(self.carry_out(held, work)).await,
            (Entered::Unkeyed, Some(work)) => Box::pin(pass_through(work)).await,
            (_, None) => Err(changed_hands()),
        }
    }

    /// The first half of [`once`](Self::once): claims, and answers from the ledger if somebody else has it. For those who must
    /// keep what the work takes apart from what asking takes.
    ///
    /// `waits` is called before this waits for somebody else's outcome with no prospect of a turn of its own: from then on
    /// nothing of what was asked is needed (L9).
    pub async fn enter(&self, mut call: Call, waits: impl FnOnce()) -> Result<Entered<L>, Error> {
        let Some(identity) = call.identity.clone() else { return Ok(Entered::Unkeyed) };
        let mut retries = match call.on_release {
            OnRelease::Fail => 0,
            OnRelease::Retry(times) => times,
        };
        let (mut asks, mut silence, mut seen) = (0, Silence::default(), None);
        while asks < limits::ASKS {
            asks += 1;
            let request = request(&identity, &call);
            let attempt = request.attempt;
            let asked_at = boot_time();
            let unbroken_until = asked_at + self.ledger.session().left.min(call.terms.max_run);
            let verdict = self.ask(request, call.ask_within).await.map_err(|error| match seen {
                Some(operation_id) => error.while_others_had_it(operation_id),
                None => error,
            });
            match verdict? {
                Verdict::Granted(grant) => {
                    call.forget_what_was_asked();
                    let lease = Lease::new(&self.owed, identity.claim_id(), grant.epoch);
                    let held = Held {
                        identity,
                        attempt,
                        grant,
                        call,
                        asked_at,
                        unbroken_until,
                        asked_too_long: false,
                        lease,
                    };
                    return Ok(Entered::Held(Box::new(held)));
                }
                Verdict::Replay(kept) => return Ok(Entered::Done(done(kept, How::Replayed))),
                Verdict::Held { operation_id, .. } if call.attach == Attach::Reject => {
                    return Err(Error::new(Reason::InProgress).about(operation_id));
                }
                Verdict::Held { operation_id, .. } if retries == 0 => {
                    waits();
                    call.forget_what_was_asked();
                    let waited = self.attach(identity.claim_id(), call.attach, operation_id).await;
                    return waited.map(Entered::Done);
                }
                Verdict::Held { operation_id, .. } => {
                    seen = Some(operation_id);
                    match self.attach_or_ask(identity.claim_id(), call.attach, operation_id).await? {
                        Waited::Done(done) => return Ok(Entered::Done(done)),
                        Waited::Failed => retries -= 1,
                        // Nothing was tried and failed: no retry is used up, and time bounds how often it is asked.
                        Waited::Silent if silence.pause(call.attach.bound()).await => asks -= 1,
                        Waited::Silent => return Err(Error::new(Reason::InProgress).about(operation_id)),
                    }
                }
                Verdict::Mismatch { operation_id, recipe, leaves, keep_until } => {
                    let again = call.rehash.as_ref().filter(|_| recipe != call.fingerprint.recipe);
                    match again.and_then(|asked| asked.rehash(recipe)) {
                        Some(fingerprint) => (call.fingerprint, seen) = (fingerprint, Some(operation_id)),
                        None => {
                            let reason = Reason::Mismatch { leaves, keep_until };
                            return Err(Error::new(reason).about(operation_id));
                        }
                    }
                }
                Verdict::InDoubt { operation_id, reason, .. } => {
                    return Err(
                        Error::new(Reason::OutcomeUnknown { doubt: Some(reason) }).about(operation_id)
                    );
                }
                Verdict::Spent => {}
            }
        }
        Err(changed_hands())
    }

    /// Asks for a grant. A claim that is given up on before the ledger has answered is handed back behind the scenes (L13).
    async fn ask(&self, request: ClaimRequest, within: Option<Duration>) -> Result<Verdict, Error> {
        fail::fail_point!("once.asking");
        let asking = Asking::new(&self.owed, request.clone());
        let verdict = in_time(pin!(self.ledger.claim(request)), within).await?;
        asking.answered();
        Ok(verdict)
    }

    /// The second half of [`once`](Self::once), everything under the lease: ask if somebody must be asked, make sure of the
    /// lease, run, report.
    pub async fn carry_out<F, Fut>(&self, mut held: Box<Held<L>>, work: F) -> Result<Done, Error>
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Ended>,
    {
        fail::fail_point!("once.granted");
        if held.grant.must_ask {
            match self.reconcile(&mut held).await? {
                Asked::Never => {}
                Asked::Ended(done) => return Ok(done),
            }
        }
        if !self.is_sure_of(&mut held).await? {
            if held.asked_too_long {
                let late = "whoever was asked about an earlier attempt took the time of the call";
                let ended = self.conclude(held, Ended::NotRun(late.into())).await;
                return ended.map_err(Error::after_asking_too_long);
            }
            let late = "the lease or the time of the call had run out before the work began";
            return self.conclude(held, Ended::NotRun(late.into())).await;
        }
        held.lease.dispatched();
        fail::fail_point!("once.dispatching");
        let ended = {
            let work = pin!(AssertUnwindSafe(async { work(held.attempt()).await }).catch_unwind());
            run(work, held.time_left(), held.call.given_up_as).await
        };
        fail::fail_point!("once.worked");
        self.conclude(held, ended).await
    }

    /// Asks whether an earlier attempt happened (L6).
    async fn reconcile(&self, held: &mut Held<L>) -> Result<Asked, Error> {
        let had_time = !held.is_out_of_time();
        let answer = match &held.call.reconcile {
            Some(ask) => {
                AssertUnwindSafe(ask(held.attempt())).catch_unwind().await.unwrap_or(Reconciled::Unknown)
            }
            None => Reconciled::Unknown,
        };
        held.asked_too_long = had_time && held.is_out_of_time();
        match answer {
            Reconciled::Happened(outcome) => {
                let done = self.settle(held, outcome, Vec::new()).await?;
                Ok(Asked::Ended(Done { how: How::Replayed, ..done }))
            }
            Reconciled::Never => match held.lease.report(&self.ledger, Report::Cleared, Vec::new()).await {
                Ok(Ending::Renewed { .. }) => {
                    held.grant.earlier_may_have_run = false;
                    Ok(Asked::Never)
                }
                Ok(_) => self.what_the_ledger_says(held).await.map(Asked::Ended),
                Err(error) => Err(held.untouched(error.into())),
            },
            // The doubt stays the one it was, whatever is given as its reason here; the ledger knows it. It also knows the
            // outcome, if somebody else has brought one meanwhile (L5).
            Reconciled::Unknown => {
                match held.lease.report(&self.ledger, Report::Doubt(Doubt::Stated), Vec::new()).await {
                    Ok(Ending::AlreadySettled(kept)) => Ok(Asked::Ended(done(kept, How::Replayed))),
                    Ok(_) => self.what_the_ledger_says(held).await.map(Asked::Ended),
                    Err(error) => {
                        Err(Error::from(error).after_the_work_began().about(held.grant.operation_id))
                    }
                }
            }
        }
    }

    /// Just before the work starts: is enough of the lease left, on a clock that counts suspend? Else renew first, and look again:
    /// the process may have been stopped while the answer was on its way (L4).
    ///
    /// A session that lapsed and was renewed since the claim was sent has enough left, too, but others may have acted in
    /// between: then only the ledger knows whose the claim is. Work that must be given up by now does not begin.
    async fn is_sure_of(&self, held: &mut Held<L>) -> Result<bool, Error> {
        for _ in 0..limits::RENEWALS {
            if held.is_out_of_time() {
                return Ok(false);
            }
            let session = self.ledger.session();
            let unbroken = boot_time() < held.unbroken_until;
            if unbroken && session.left >= session.term / limits::TERM_PART_LEFT {
                return Ok(true);
            }
            let sent = boot_time();
            let renewed = held.lease.report(&self.ledger, Report::Renew, Vec::new()).await;
            match renewed.map_err(|error| held.untouched(error.into()))? {
                Ending::Renewed { .. } => held.renewed(sent, session.term),
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Reports how the work ended.
    async fn conclude(&self, mut held: Box<Held<L>>, ended: Ended) -> Result<Done, Error> {
        let operation_id = held.grant.operation_id;
        let (report, cause) = match ended {
            Ended::Settled(outcome) => return self.settle(&mut held, outcome, Vec::new()).await,
            Ended::SettledWith(outcome, events) => return self.settle(&mut held, outcome, events).await,
            Ended::NotRun(cause) => (Report::Release(Ran::No), cause),
            Ended::Unknown(cause) => (Report::Release(Ran::Perhaps), cause),
            Ended::Doubt(doubt, cause) => (Report::Doubt(doubt), cause),
        };
        let gives_back = report == Report::Release(Ran::No);
        let certain = gives_back && !held.grant.earlier_may_have_run;
        let doubt = if let Report::Doubt(doubt) = report { doubt } else { Doubt::Failed };
        // The ledger may be away: then the lease owes the report, and the caller is told what is known here.
        let ending = held.lease.report(&self.ledger, report.because(&cause), Vec::new()).await.unwrap_or(
            match gives_back {
                true => Ending::Released,
                false => Ending::InDoubt,
            },
        );
        match ending {
            Ending::Released => {
                let executed = if certain { Executed::No } else { Executed::Unknown };
                Err(Error::new(Reason::AttemptFailed { executed }).about(operation_id).because(cause))
            }
            Ending::InDoubt => {
                let reason = Reason::OutcomeUnknown { doubt: Some(doubt) };
                Err(Error::new(reason).about(operation_id).because(cause))
            }
            Ending::AlreadySettled(kept) | Ending::Settled(kept) => Ok(held.done(kept)),
            Ending::LostLease | Ending::Renewed { .. } => self.what_the_ledger_says(&held).await,
        }
    }

    /// Records the outcome; without that nobody is answered with it (L3).
    async fn settle(&self, held: &mut Held<L>, outcome: Outcome, events: Vec<Append>) -> Result<Done, Error> {
        fail::fail_point!("once.settling");
        let report = Report::Settle(outcome.clone(), held.call.retention);
        let ending = match held.lease.tell(&self.ledger, report, events, self.spool.as_ref()).await {
            Ok(ending) => ending,
            Err(error) => return Err(Box::pin(self.keep_for_later(held, error)).await),
        };
        fail::fail_point!("once.settled");
        match ending {
            Ending::Settled(kept) | Ending::AlreadySettled(kept) => {
                self.tell_dead_letter(held, &kept);
                Ok(held.done(kept))
            }
            _ => {
                self.contradicted.refused(&self.ledger, held.claim(), held.grant.epoch, &outcome).await;
                let said = self.what_the_ledger_says(held).await;
                said.map_err(Error::although_it_was_done)
            }
        }
    }

    /// The work has answered and the ledger is away: the outcome goes to the spool before the caller is told (L15). If this is
    /// dropped meanwhile, the lease owes the report, and knows of the place in the spool.
    async fn keep_for_later(&self, held: &mut Held<L>, error: hapax_core::Error) -> Error {
        let (claim, epoch, operation_id) = (held.claim(), held.grant.epoch, held.grant.operation_id);
        let unknown = Error::new(Reason::OutcomeUnknown { doubt: None }).about(operation_id);
        let (Some(spool), Some((Report::Settle(outcome, retention), events))) =
            (&self.spool, held.lease.due())
        else {
            return unknown.because(format!("{error:#}"));
        };
        let reserve = || spool.reserve(claim, epoch, outcome, *retention, events);
        let written = match held.lease.place().map_or_else(reserve, Ok) {
            Ok(entry) => {
                held.lease.spooled(Some(entry.clone()));
                // Where it could not be written, nobody who had begun to before may still do so: no one would clear it.
                entry.clone().write().await.inspect_err(|_| entry.heard_meanwhile(true))
            }
            Err(full) => Err(full),
        };
        match written {
            Ok(()) => {
                tracing::warn!(%claim, %operation_id, "the ledger is away: an outcome was put into the spool");
                Error::new(Reason::OutcomePending).about(operation_id).because(format!("{error:#}"))
            }
            Err(full) => {
                held.lease.spooled(None);
                tracing::error!(%claim, %operation_id, %full, "an outcome could not be put into the spool");
                unknown.because(format!("{error:#}; {full:#}"))
            }
        }
    }

    /// Somebody else has the claim now: whatever was done here, the caller gets what the ledger says (L5).
    async fn what_the_ledger_says(&self, held: &Held<L>) -> Result<Done, Error> {
        let operation_id = held.grant.operation_id;
        let said = self.attach(held.claim(), held.call.attach, operation_id).await;
        said.map_err(|error| error.after_the_work_began().about(operation_id))
    }

    fn tell_dead_letter(&self, held: &Held<L>, kept: &Kept) {
        if let (Some(sink), Outcome::Refused(_)) = (&self.dead_letter, &kept.outcome) {
            // A sink that panics must not cost the caller an outcome that is recorded.
            let told = AssertUnwindSafe(|| sink.refused(&held.identity, kept.operation_id, &kept.outcome));
            let _ = std::panic::catch_unwind(told);
        }
    }
}

impl<L: Clone> Clone for Executor<L> {
    fn clone(&self) -> Self {
        Executor {
            ledger: self.ledger.clone(),
            owed: self.owed.clone(),
            contradicted: self.contradicted.clone(),
            spool: self.spool.clone(),
            dead_letter: self.dead_letter.clone(),
        }
    }
}

impl<L> std::fmt::Debug for Executor<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

/// What asking for a claim led to.
pub enum Entered<L: Ledger> {
    /// There is an outcome.
    Done(Done),
    /// The work is this call's to do.
    Held(Box<Held<L>>),
    /// There is no key: whoever does the work does it without a promise (E2).
    Unkeyed,
}

/// The right to do the work of one call. Dropped without having been carried out, it is given back.
pub struct Held<L: Ledger> {
    identity: Identity,
    attempt: AttemptId,
    grant: Grant,
    call: Call,
    /// Boot time before the claim was sent.
    asked_at: Duration,
    /// Boot time until which the lease was certain to last when the claim was sent: for as long as the session and `max_run`.
    unbroken_until: Duration,
    /// Whether whoever was asked about an earlier attempt used up the time of this call.
    asked_too_long: bool,
    lease: Lease<L>,
}

impl<L: Ledger> Held<L> {
    fn claim(&self) -> ClaimId {
        self.identity.claim_id()
    }

    fn attempt(&self) -> Attempt {
        Attempt {
            claim: Some(self.claim()),
            epoch: Some(self.grant.epoch),
            operation_id: Some(self.grant.operation_id),
        }
    }

    /// How long the work may still take until it is given up; `None` where it never is. An operator may release a doubt
    /// that long after the grant, so it counts from before the claim was sent and not from when the work began (L8).
    fn time_left(&self) -> Option<Duration> {
        let give_up = self.call.terms.give_up;
        (!give_up.is_zero()).then(|| give_up.saturating_sub(boot_time().saturating_sub(self.asked_at)))
    }

    /// The ledger has confirmed the lease. That is certain only from when it was asked for, and only until `max_run` ends.
    fn renewed(&mut self, sent: Duration, term: Duration) {
        self.unbroken_until = (sent + term).min(self.asked_at + self.call.terms.max_run);
    }

    fn is_out_of_time(&self) -> bool {
        self.time_left().is_some_and(|left| left.is_zero())
    }

    /// An error before this attempt began: whether anything ran is known only if no earlier one may have.
    fn untouched(&self, error: Error) -> Error {
        let error = error.about(self.grant.operation_id);
        if self.grant.earlier_may_have_run { error.unsure() } else { error }
    }

    /// What is kept counts as executed here if this attempt settled it, by itself or through the guard.
    fn done(&self, kept: Kept) -> Done {
        let own = kept.attempt == self.attempt && kept.epoch == self.grant.epoch;
        done(kept, if own { How::Executed } else { How::Replayed })
    }
}

/// Time since the machine started, suspend included: what a lease is measured on (L4).
fn boot_time() -> Duration {
    let read = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(read.tv_sec).unwrap_or(0), u32::try_from(read.tv_nsec).unwrap_or(0))
}

/// What became of an earlier attempt.
enum Asked {
    Never,
    Ended(Done),
}

/// What the ledger says, unless it takes too long. What it says at once needs no timer.
async fn in_time(
    mut claiming: Pin<&mut impl Future<Output = Result<Verdict, hapax_core::Error>>>,
    within: Option<Duration>,
) -> Result<Verdict, hapax_core::Error> {
    let at_once = std::future::poll_fn(|cx| match claiming.as_mut().poll(cx) {
        Poll::Ready(verdict) => Poll::Ready(Some(verdict)),
        Poll::Pending => Poll::Ready(None),
    });
    match (at_once.await, within) {
        (Some(verdict), _) => verdict,
        (None, None) => claiming.await,
        (None, Some(within)) => tokio::time::timeout(within, claiming).await.unwrap_or_else(|_| {
            Err(hapax_core::Error::unavailable("the ledger has not said in time whose turn it is"))
        }),
    }
}

fn request(identity: &Identity, call: &Call) -> ClaimRequest {
    let fresh = ClaimRequest::new(identity.clone(), call.fingerprint);
    ClaimRequest { leaves: call.leaves.clone(), terms: call.terms.clone(), ..fresh }
}

/// Whoever ran it could not, and gave it back.
fn changed_hands() -> Error {
    Error::new(Reason::InProgress).because("the claim changed hands too often while this call asked for it")
}

pub(crate) fn done(kept: Kept, how: How) -> Done {
    let (operation_id, keep_until) = (Some(kept.operation_id), Some(kept.keep_until));
    Done { value: kept.outcome, how, operation_id, keep_until }
}

/// Runs the work. A panic, or the end of its time, leaves it unknown whether the work was done. Work whose time is over is not
/// polled any more, however long the process was stopped in between.
async fn run(
    mut work: Pin<&mut impl Future<Output = std::thread::Result<Ended>>>,
    time_left: Option<Duration>,
    given_up_as: Option<Doubt>,
) -> Ended {
    let ended = match time_left {
        None => work.await,
        Some(left) => {
            let until = boot_time() + left;
            let mut begun = false;
            let mut clock = pin!(None);
            let polled = std::future::poll_fn(|cx| {
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
            let ended = polled.await;
            match (ended, begun) {
                (Some(ended), _) => ended,
                (None, false) => {
                    return Ended::NotRun("the time of the call was over before the work began".into());
                }
                (None, true) => {
                    let cause = "it took too long and was given up".into();
                    return match given_up_as {
                        Some(doubt) => Ended::Doubt(doubt, cause),
                        None => Ended::Unknown(cause),
                    };
                }
            }
        }
    };
    ended.unwrap_or_else(|panic| Ended::Unknown(format!("the work panicked: {}", panic_message(&panic))))
}

fn panic_message(panic: &Box<dyn std::any::Any + Send>) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// No key, no claim, no promise (E2).
async fn pass_through<F, Fut>(work: F) -> Result<Done, Error>
where
    F: FnOnce(Attempt) -> Fut,
    Fut: Future<Output = Ended>,
{
    let failed = |executed, cause| Err(Error::new(Reason::AttemptFailed { executed }).because(cause));
    match work(Attempt { claim: None, epoch: None, operation_id: None }).await {
        Ended::Settled(value) | Ended::SettledWith(value, _) => {
            Ok(Done { value, how: How::PassedThrough, operation_id: None, keep_until: None })
        }
        Ended::NotRun(cause) => failed(Executed::No, cause),
        Ended::Unknown(cause) | Ended::Doubt(_, cause) => failed(Executed::Unknown, cause),
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::View;
    use hapax_store::Options;
    use hapax_store::memory::Memory;
    use hapax_testkit::faulty::Faulty;

    use super::*;

    #[tokio::test]
    async fn a_place_in_the_spool_that_was_given_up_is_not_written_by_somebody_who_comes_late_l15() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Faulty::new(Memory::open(Options::default()));
        let settings = Settings { spool: Some(folder.path().to_owned()), ..Settings::default() };
        let executor = Executor::open(ledger.clone(), settings).await.unwrap();
        let call = Call::local("charge", "order-42").unwrap().body(b"10 EUR");
        let Ok(Entered::Held(mut held)) = executor.enter(call, || {}).await else { panic!("not granted") };
        let (claim, epoch) = (held.claim(), held.grant.epoch);
        let (outcome, retention) = (Outcome::Succeeded("paid".into()), limits::RETENTION);

        // The place was taken because the ledger was slow, and the thread that writes it has not got that far yet.
        let spool = executor.spool.clone().unwrap();
        let entry = spool.reserve(claim, epoch, &outcome, retention, &[]).unwrap();
        held.lease.spooled(Some(entry.clone()));
        ledger.set_away(true);
        let report = Report::Settle(outcome, retention);
        let away = held.lease.report(&ledger, report, Vec::new()).await.unwrap_err();
        std::fs::remove_dir(folder.path()).unwrap();
        let error = executor.keep_for_later(&mut held, away).await;
        assert_eq!(error.code(), "outcome-unknown");
        std::fs::create_dir(folder.path()).unwrap();
        entry.write().await.unwrap();

        drop(held);
        ledger.set_away(false);
        let bound = std::time::Instant::now() + Duration::from_secs(30);
        let left = || std::fs::read_dir(folder.path()).unwrap().count();
        while left() > 0 || !matches!(ledger.peek(claim).await, Ok(Some(View::Settled(_)))) {
            assert!(std::time::Instant::now() < bound, "{} files are left behind", left());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
