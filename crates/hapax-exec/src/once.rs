//! `once`: the only driver of the claim protocol, read from top to bottom.
//!
//! [`Executor::enter`] asks for the claim, and answers from the ledger if another call has it. [`Held::begin`] makes sure of the
//! lease, [`Running::run`] runs the work, and [`Running::conclude`] reports how it ended. What comes next is decided by the pure
//! machine [`hapax_core::turn`]; here its commands are carried out and the answers told to it.
//!
//! Two things hold a turn, one after the other: an `Asking` until the claim is granted, and from then on a `Holding` (in
//! `lease.rs`), which is inside of [`Held`] before the work begins and of [`Running`] afterwards. Whatever happens to these futures on
//! the way (an error, a panic, a drop), what holds the turn sees in its `Drop` that the ledger hears what is known.

use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hapax_core::advice::{History, LastWord, Why, Work, unkeyed};
use hapax_core::journal::Append;
use hapax_core::turn::{self, Command, Deadline, Event, Patience, Turn};
use hapax_core::{
    AttemptId, ClaimId, ClaimRequest, Doubt, Effect, Epoch, Grant, Identity, Kept, Kind, Ledger, OperationId,
    Outcome, Recipe, RecipeId, Report, Verdict,
};

use crate::attach::{self, Found, Silence};
use crate::call::{Attach, Attempt, Call, Concluded, Done, Ended, How, OnRelease, Reconcile, Reconciled};
use crate::clock::boot_time;
use crate::error::{Error, Mismatch, Particulars, asked, last_word};
use crate::late::Contradicted;
use crate::lease::{GONE, Holding, Running, Told};
use crate::owed::{Debt, Owed};
use crate::peers::{Installation, Peers};
use crate::spool::Spool;
use crate::under::{OwnSession, Under};

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
    /// What is shared with the other processes on the ledger. Without it nothing is, but the claims.
    pub installation: Option<Arc<dyn Installation>>,
}

/// Runs work once. Cheap to clone.
pub struct Executor<L>(Arc<Shared<L>>);

/// What all calls of an executor share.
pub(crate) struct Shared<L> {
    pub(crate) ledger: L,
    pub(crate) owed: Owed<L>,
    pub(crate) contradicted: Contradicted,
    pub(crate) spool: Option<Spool>,
    pub(crate) dead_letter: Option<Arc<dyn DeadLetter>>,
    pub(crate) peers: Peers,
}

impl<L: Ledger> Executor<L> {
    /// An executor without a spool.
    pub fn new(ledger: L) -> Self {
        Executor(Arc::new(Shared::new(ledger)))
    }

    /// The fingerprint recipe with this id, whichever process of the installation has it (K6).
    pub async fn recipe(&self, id: RecipeId) -> Result<Option<Recipe>, hapax_core::Error> {
        self.0.peers.recipe(id).await
    }

    /// An executor as set up. Outcomes that an earlier process left in the spool are settled before this returns, but for those of
    /// claims that cannot be read, which are tried again (L15).
    pub async fn open(ledger: L, settings: Settings) -> Result<Self, Error> {
        let mut shared = Shared::new(ledger);
        shared.dead_letter = settings.dead_letter;
        shared.peers = Peers::new(settings.installation, &shared.ledger.session());
        if let Some(folder) = settings.spool {
            let spool = Spool::open(folder)?;
            let owed = spool.settle_all(&shared.ledger, &shared.contradicted).await?;
            owed.into_iter().for_each(|debt| shared.owed.owe(debt));
            shared.spool = Some(spool);
        }
        Ok(Executor(Arc::new(shared)))
    }

    /// Returns once nothing is owed to the ledger any more: every report that a call has left behind is heard, or was given up. For a
    /// process that is about to end its session, with a bound of its own: what is still owed then lapses with the session.
    pub async fn debts_paid(&self) {
        self.0.owed.paid().await;
    }

    /// How many reports the ledger has not heard yet, and how many outcomes lie in the spool or have a place there.
    pub fn waiting(&self) -> (usize, usize) {
        (self.0.owed.waiting(), self.0.spool.as_ref().map_or(0, Spool::waiting))
    }

    /// The ledger it runs on.
    pub fn ledger(&self) -> &L {
        &self.0.ledger
    }

    /// Whether this process still identifies claims as the others do, where its session has lapsed since it last agreed with them (K6).
    /// Every call looks at it by itself; this is for whoever tells that the process can serve.
    pub async fn agree(&self) -> Result<(), hapax_core::Error> {
        let session = self.0.ledger.session();
        match self.0.peers.is_agreed(&session) {
            true => Ok(()),
            false => self.0.peers.agree(&session).await,
        }
    }

    /// How many true outcomes this executor saw refused because an operator had settled the claim otherwise (L8). Each was
    /// logged as an error, and the audit has both outcomes.
    pub fn contradicted(&self) -> u64 {
        self.0.contradicted.count()
    }

    /// Makes `work` happen once, and returns its outcome: from this run, from an earlier one, or from one that this call
    /// waited for. The outcome is recorded before this returns it (L3).
    pub fn once<F, Fut, E>(&self, mut call: Call, work: F) -> impl Future<Output = Result<Done, Error>>
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = E>,
        E: Into<Concluded>,
    {
        let question = call.reconcile.take();
        async move {
            match self.enter(call, work).await? {
                Entered::Done(done) => Ok(done),
                // Most calls do not come here, and need not carry along what the work takes.
                Entered::Held(held, work) => Box::pin(held.carry_out(question, work)).await,
                Entered::Unkeyed(work) => Box::pin(pass_through(work)).await,
                Entered::Differs(error, _) => Err(error),
            }
        }
    }

    /// Asks for the claim, and answers from the ledger if another call has it. What the work takes, the payload, comes back with the
    /// right to do it; a call that waits for another one's outcome with no prospect of a turn of its own has dropped it (L9).
    pub fn enter<P>(
        &self,
        call: Call,
        payload: P,
    ) -> impl Future<Output = Result<Entered<Held<L>, P>, Error>> {
        self.ask(call, payload, OwnSession)
    }

    /// The way into every call, under whichever lease.
    pub(crate) fn ask<P, U: Under<L>>(
        &self,
        call: Call,
        payload: P,
        under: U,
    ) -> impl Future<Output = Result<Entered<U::Right, P>, Error>> {
        // Made here and not in the future, which would keep the call and the payload twice.
        let mut asking = call.identity.clone().map(|identity| Asking::new(&self.0, identity, call, under));
        let mut payload = Some(payload);
        async move {
            let Some(asking) = &mut asking else {
                return payload.take().map(Entered::Unkeyed).ok_or_else(unwanted);
            };
            loop {
                let event = match asking.turn.command() {
                    Command::Claim => asking.claim().await,
                    Command::Rehash(recipe) => Box::pin(asking.rehash(recipe)).await,
                    Command::Wait => {
                        if asking.turn.retries() == 0 {
                            payload = None;
                            asking.call.forget_what_was_asked();
                        }
                        Box::pin(asking.wait()).await
                    }
                    Command::Pause => Event::Rested(Box::pin(asking.pause()).await),
                    Command::End(LastWord::Kept(_)) => return asking.done().map(Entered::Done),
                    Command::End(LastWord::Differs) => match payload.take() {
                        Some(payload) => return Ok(Entered::Differs(asking.error(), payload)),
                        None => return Err(asking.error()),
                    },
                    Command::End(_) => return Err(asking.error()),
                    // Granted: every other command is for the holder to carry out.
                    _ => {
                        let granted = U::granted(asking).zip(payload.take());
                        return granted
                            .map(|(right, payload)| Entered::Held(right, payload))
                            .ok_or_else(unwanted);
                    }
                };
                asking.turn = asking.turn.on(event);
            }
        }
    }

    /// Work that was begun elsewhere under this lease, to be concluded here. Dropped before its end is known, it owes the ledger
    /// nothing: the lease is not this process's own.
    pub fn running(&self, claim: ClaimId, epoch: Epoch, call: Call) -> Running<L> {
        let deadline = Deadline::new(boot_time(), &self.0.ledger.session(), &call.terms);
        Running(Box::new(Holding {
            shared: self.0.clone(),
            turn: Turn::running(Patience::new(call.terms.rerun), History::MayHaveRun),
            deadline,
            identity: call.identity,
            claim,
            epoch,
            operation_id: None,
            attempt: None,
            retention: call.retention,
            attach: call.attach,
            given_up_as: call.given_up_as,
            owes: false,
            told: Told::default(),
        }))
    }
}

impl<L: Ledger> Shared<L> {
    fn new(ledger: L) -> Self {
        let contradicted = Contradicted::default();
        let owed = Owed::new(ledger.clone(), contradicted.clone());
        let peers = Peers::new(None, &ledger.session());
        Shared { ledger, owed, contradicted, spool: None, dead_letter: None, peers }
    }
}

/// A call that asks for its claim. Dropped while the ledger has not answered, what it asked for under this process's own session is
/// handed back behind the scenes (L13).
pub(crate) struct Asking<'a, L: Ledger, U: Under<L>> {
    shared: &'a Arc<Shared<L>>,
    pub(crate) under: U,
    turn: Turn,
    identity: Identity,
    call: Call,
    deadline: Option<Deadline>,
    /// What was sent and is not answered yet: if this is dropped now, the ledger may have granted it.
    request: Option<ClaimRequest>,
    attempt: Option<AttemptId>,
    grant: Option<Grant>,
    silence: Silence,
    heard: Heard,
}

/// What the ledger said, beside the word that the turn understands.
#[derive(Default)]
struct Heard {
    kept: Option<(Kept, How)>,
    operation_id: Option<OperationId>,
    doubt: Option<Doubt>,
    mismatch: Option<Box<Mismatch>>,
    cause: Option<String>,
    lease_over: bool,
    /// The attempt, which a holder elsewhere has named, is used up.
    spent: bool,
}

impl<'a, L: Ledger, U: Under<L>> Asking<'a, L, U> {
    fn new(shared: &'a Arc<Shared<L>>, identity: Identity, call: Call, under: U) -> Self {
        let retries = match call.on_release {
            OnRelease::Fail => 0,
            OnRelease::Retry(times) => u8::try_from(times).unwrap_or(u8::MAX),
        };
        let rejects = call.attach == Attach::Reject;
        let patience = Patience { rejects, retries, ..Patience::new(call.terms.rerun) };
        let turn = Turn::new(Patience { asks: under.asks(patience.asks), ..patience });
        Asking {
            shared,
            under,
            turn,
            identity,
            call,
            deadline: None,
            request: None,
            attempt: None,
            grant: None,
            silence: Silence::default(),
            heard: Heard::default(),
        }
    }

    /// Asks for a grant.
    async fn claim(&mut self) -> Event {
        fail::fail_point!("once.asking");
        let ledger = &self.shared.ledger;
        // The clock first, and one look at the session for all that follows: a process that is stopped here must not take the term
        // that it saw before for one that lasts from now on (L4), nor the others' agreement for one that still holds (K6).
        let (asked_at, session) = (boot_time(), ledger.session());
        if !self.shared.peers.is_agreed(&session)
            && let Err(error) = Box::pin(self.shared.peers.agree(&session)).await
        {
            return self.unheard(&error);
        }
        self.deadline = Some(Deadline::new(asked_at, &session, &self.call.terms));
        let request = request(&self.identity, &self.call, self.under.attempt());
        self.attempt = Some(request.attempt);
        self.request = Some(request.clone());
        match in_time(pin!(self.under.claim(ledger, request)), self.call.ask_within).await {
            Ok(verdict) => {
                self.request = None;
                self.hear(verdict)
            }
            Err(error) => self.unheard(&error),
        }
    }

    fn hear(&mut self, verdict: Verdict) -> Event {
        self.heard.spent = !U::OWN && verdict == Verdict::Spent;
        match verdict {
            Verdict::Granted(grant) => {
                self.grant = Some(grant);
                Event::Granted { may_have_run: grant.earlier_may_have_run, must_ask: grant.must_ask }
            }
            Verdict::Replay(kept) => {
                let event = kept_event(&kept);
                self.heard.kept = Some((kept, How::Replayed));
                event
            }
            Verdict::Held { operation_id, .. } => {
                self.heard.operation_id = Some(operation_id);
                Event::Held
            }
            Verdict::Mismatch { operation_id, recipe, leaves, keep_until } => {
                self.heard.operation_id = Some(operation_id);
                // What it was hashed by before this was asked.
                let by = self.heard.mismatch.take().and_then(|before| before.recipe);
                let by = by.filter(|by| by.id() == recipe);
                self.heard.mismatch = Some(Box::new(Mismatch { leaves, recipe: by, keep_until }));
                match recipe == self.call.fingerprint.recipe {
                    true => Event::Differs,
                    false => Event::OtherRecipe(recipe),
                }
            }
            Verdict::InDoubt { operation_id, reason, .. } => {
                (self.heard.operation_id, self.heard.doubt) = (Some(operation_id), Some(reason));
                Event::InDoubt
            }
            Verdict::Spent => Event::Spent,
        }
    }

    /// Hashes what is asked by the recipe that the claim was made with.
    async fn rehash(&mut self, recipe: RecipeId) -> Event {
        let Some(asked) = self.call.rehash.clone() else { return Event::Rehashed(false) };
        match in_time(pin!(self.shared.peers.recipe(recipe)), self.call.ask_within).await {
            Ok(Some(recipe)) => {
                self.call.fingerprint = asked.rehash(&recipe);
                self.heard.mismatch.get_or_insert_default().recipe = Some(recipe);
                Event::Rehashed(true)
            }
            Ok(None) => Event::Rehashed(false),
            Err(error) => self.unheard(&error),
        }
    }

    /// Waits for the holder's outcome.
    async fn wait(&mut self) -> Event {
        let claim = self.identity.claim_id();
        let found = match attach::wait(&self.shared.ledger, claim, self.call.attach.bound()).await {
            Ok(found) => found,
            Err(error) => return self.unheard(&error),
        };
        let event = found.event();
        match found {
            Found::Settled(kept) => self.heard.kept = Some((kept, How::Attached)),
            Found::InDoubt { doubt, .. } => self.heard.doubt = Some(doubt),
            Found::Free | Found::Gone(_) => self.heard.cause = Some(GONE.into()),
            Found::Released(_) | Found::GivenBack(_) | Found::StillHeld(_) => {}
        }
        event
    }

    async fn pause(&mut self) -> bool {
        self.silence.pause(self.call.attach.bound()).await
    }

    fn unheard(&mut self, error: &hapax_core::Error) -> Event {
        self.heard.cause = Some(format!("{error:#}"));
        self.heard.lease_over = !U::OWN && error.kind() == Kind::LostLease;
        Event::Unheard(last_word(error))
    }

    fn done(&mut self) -> Result<Done, Error> {
        match (self.heard.kept.take(), self.turn.advice()) {
            (Some((kept, how)), Some(advice)) => Ok(Done { executed: advice.executed, ..done(kept, how) }),
            _ => Err(self.error()),
        }
    }

    fn error(&mut self) -> Error {
        let Some(advice) = self.turn.advice() else {
            return hapax_core::Error::internal("a call ended before it was answered").into();
        };
        let Heard { operation_id, doubt, mismatch, mut cause, lease_over, spent, .. } =
            std::mem::take(&mut self.heard);
        if lease_over {
            return Error::lease_over(cause);
        }
        if spent {
            return Error::told(asked(LastWord::GivenBackByAnother), Particulars::default());
        }
        if cause.is_none() && operation_id.is_none() && advice.why == Why::InProgress {
            cause = Some("the claim changed hands too often while this call asked for it".into());
        }
        Error::told(advice, Particulars { operation_id, doubt, mismatch, cause, ..Particulars::default() })
    }

    /// What was granted, and on which claim.
    pub(crate) fn grant(&self) -> Option<(ClaimId, Grant)> {
        Some((self.identity.claim_id(), self.grant?))
    }

    /// The work is to be done here, under the lease of this process.
    pub(crate) fn held(&mut self) -> Option<Held<L>> {
        let (grant, deadline) = (self.grant?, self.deadline?);
        let holding = Holding {
            shared: self.shared.clone(),
            turn: self.turn,
            deadline,
            claim: self.identity.claim_id(),
            identity: Some(self.identity.clone()),
            epoch: grant.epoch,
            operation_id: Some(grant.operation_id),
            attempt: self.attempt,
            retention: self.call.retention,
            attach: self.call.attach,
            given_up_as: self.call.given_up_as,
            owes: true,
            told: Told::default(),
        };
        Some(Held { holding: Box::new(holding) })
    }
}

impl<L: Ledger, U: Under<L>> Drop for Asking<'_, L, U> {
    fn drop(&mut self) {
        if U::OWN
            && self.turn.debt() == turn::Debt::Abandon
            && let Some(request) = self.request.take()
        {
            self.shared.owed.owe(Debt::Abandon(request));
        }
    }
}

impl<L> Clone for Executor<L> {
    fn clone(&self) -> Self {
        Executor(self.0.clone())
    }
}

impl<L> std::fmt::Debug for Executor<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

/// What asking for a claim led to.
#[derive(Debug)]
pub enum Entered<R, P> {
    /// There is an outcome.
    Done(Done),
    /// The work is this call's to do: its right to, which is a [`Held`] or a [`Lent`](crate::Lent).
    Held(R, P),
    /// There is no key: the work is done without a promise (E2).
    Unkeyed(P),
    /// The key was used for another request; the payload can tell what differs.
    Differs(Error, P),
}

/// The right to do the work of one call. Dropped before it begins, it is given back.
pub struct Held<L: Ledger> {
    holding: Box<Holding<L>>,
}

/// What became of a call between its grant and the first byte.
#[derive(Debug)]
pub enum Begun<L: Ledger> {
    /// There is an outcome already.
    Done(Done),
    /// The work may begin.
    Running(Running<L>),
}

impl<L: Ledger> Held<L> {
    /// What the work is told about the attempt it runs in.
    pub fn attempt(&self) -> Attempt {
        self.holding.attempt()
    }

    /// Everything between the grant and the first byte: asks whether an earlier attempt happened if that must be known (L6), and
    /// makes sure of the lease (L4). `ask` is called at most once.
    pub async fn begin<F, Fut>(self, ask: F) -> Result<Begun<L>, Error>
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Reconciled>,
    {
        match self.begin_if(ask, async || true).await? {
            Some(begun) => Ok(begun),
            None => Err(hapax_core::Error::internal("a call was declined that nobody looked at").into()),
        }
    }

    /// The same with a look of the caller's own, after the last renewal and before the first byte: what was asked before a renewal
    /// proves nothing after it. Where it says no, the claim is given back and there is nothing to run: `None`.
    pub async fn begin_if<F, Fut>(
        mut self,
        ask: F,
        mut look: impl AsyncFnMut() -> bool,
    ) -> Result<Option<Begun<L>>, Error>
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Reconciled>,
    {
        fail::fail_point!("once.granted");
        let mut ask = Some(ask);
        loop {
            let holding = &mut *self.holding;
            let event = match holding.turn.command() {
                Command::Reconcile => match ask.take() {
                    Some(ask) => Box::pin(holding.reconcile(ask)).await,
                    None => Event::Unknown,
                },
                Command::Clear => holding.renew(Report::Cleared).await,
                Command::Check => match holding.check(&mut look).await {
                    Some(event) => event,
                    None => return self.give_back(Vec::new()).await.map(|_| None),
                },
                Command::Renew => holding.renew(Report::Renew).await,
                Command::Run => return Ok(Some(Begun::Running(Running(self.holding)))),
                // It is over, or will not begin.
                _ => return self.holding.close().await.map(|done| Some(Begun::Done(done))),
            };
            holding.on(event);
        }
    }

    /// All that follows a grant: makes sure of the lease, runs the work, reports. For work that needs no steps of its own in between.
    async fn carry_out<F, Fut, E>(self, question: Option<Reconcile>, work: F) -> Result<Done, Error>
    where
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = E>,
        E: Into<Concluded>,
    {
        let ask = async |attempt| match question {
            Some(ask) => ask(attempt).await,
            None => Reconciled::Unknown,
        };
        match self.begin(ask).await? {
            Begun::Done(done) => Ok(done),
            Begun::Running(running) => {
                let attempt = running.attempt();
                let ended = running.run(async { work(attempt).await }).await;
                let concluded = running.judged(ended);
                running.conclude(concluded).await
            }
        }
    }

    /// Gives the claim back: nothing was run. The events are recorded with that (L18); where their streams have moved on, the claim is
    /// given back without them, and this is `false`.
    pub async fn give_back(self, events: Vec<Append>) -> Result<bool, Error> {
        self.holding.give_back(events).await
    }
}

impl<L: Ledger> std::fmt::Debug for Held<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Held").field(&self.holding.turn).finish()
    }
}

/// A payload was let go of, and is needed all the same: a defect.
fn unwanted() -> Error {
    hapax_core::Error::internal("work was granted that nobody is to do").into()
}

/// What the ledger says, unless it takes too long. What it says at once needs no timer.
async fn in_time<T>(
    mut asking: Pin<&mut impl Future<Output = Result<T, hapax_core::Error>>>,
    within: Option<Duration>,
) -> Result<T, hapax_core::Error> {
    let at_once = std::future::poll_fn(|cx| match asking.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => Poll::Ready(None),
    });
    match (at_once.await, within) {
        (Some(answer), _) => answer,
        (None, None) => asking.await,
        (None, Some(within)) => tokio::time::timeout(within, asking)
            .await
            .unwrap_or_else(|_| Err(hapax_core::Error::unavailable("the ledger has not answered in time"))),
    }
}

fn request(identity: &Identity, call: &Call, attempt: AttemptId) -> ClaimRequest {
    ClaimRequest {
        identity: identity.clone(),
        attempt,
        operation_id: OperationId::mint(&identity.claim_id()),
        fingerprint: call.fingerprint,
        leaves: call.leaves.clone(),
        terms: call.terms.clone(),
    }
}

/// What a kept outcome tells a call that has not brought it.
pub(crate) fn kept_event(kept: &Kept) -> Event {
    Event::Kept { effect: Effect::of(&kept.outcome), may_have_run: kept.earlier_may_have_run }
}

/// A kept outcome as it is handed out.
pub(crate) fn done(kept: Kept, how: How) -> Done {
    let executed = Effect::of(&kept.outcome).executed(History::of(kept.earlier_may_have_run));
    Done {
        value: kept.outcome,
        how,
        operation_id: Some(kept.operation_id),
        keep_until: Some(kept.keep_until),
        executed,
        events_written: false,
    }
}

/// No key, no claim, no promise (E2).
async fn pass_through<F, Fut, E>(work: F) -> Result<Done, Error>
where
    F: FnOnce(Attempt) -> Fut,
    Fut: Future<Output = E>,
    E: Into<Concluded>,
{
    let failed = |work, cause| {
        Err(Error::told(unkeyed(work), Particulars { cause: Some(cause), ..Particulars::default() }))
    };
    let Concluded { ended, effect, .. } =
        work(Attempt { claim: None, epoch: None, operation_id: None }).await.into();
    match ended {
        Ended::Settled(value) => {
            let executed = effect.unwrap_or_else(|| Effect::of(&value)).executed(History::Unasked);
            let how = How::PassedThrough;
            Ok(Done { value, how, operation_id: None, keep_until: None, executed, events_written: false })
        }
        Ended::NotRun(cause) => failed(Work::NotRun, cause),
        Ended::Unknown(cause) | Ended::Doubt(_, cause) => failed(Work::MayHaveRun, cause),
    }
}

#[cfg(test)]
mod tests;
