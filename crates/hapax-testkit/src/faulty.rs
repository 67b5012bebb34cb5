//! A ledger that misbehaves on command: away, or carrying out commands whose answers get lost.
//!
//! It wraps a real one, so what it lets through is decided by the rules.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_core::journal::Append;
use hapax_core::{
    ClaimId, ClaimRequest, Ending, Epoch, Error, Identity, Journal, Leases, Leaves, Ledger, OperationId,
    Report, Scope, Session, SessionId, Verdict, View, forward,
};

/// A ledger with faults.
#[derive(Clone, Debug)]
pub struct Faulty<L> {
    ledger: L,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    away: AtomicBool,
    lost_claims: AtomicUsize,
    lost_reports: AtomicUsize,
    last_reports: AtomicUsize,
    refused_claims: AtomicUsize,
    refused_reports: AtomicUsize,
    damaged: Mutex<Option<ClaimId>>,
    time_left: Mutex<Option<Duration>>,
    lapses: AtomicU64,
    claims: AtomicUsize,
    reports: AtomicUsize,
    peeks: AtomicUsize,
    locates: AtomicUsize,
    after_session: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    after_claim: Mutex<Option<Meanwhile>>,
    after_peek: Mutex<Option<Meanwhile>>,
    before_report: Mutex<Option<Meanwhile>>,
    after_report: Mutex<Option<Meanwhile>>,
}

/// What happens while somebody is not looking.
type Meanwhile = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl<L: Ledger> Faulty<L> {
    /// A ledger without faults so far.
    pub fn new(ledger: L) -> Self {
        Faulty { ledger, faults: Arc::default() }
    }

    /// Whether it cannot be reached: nothing is carried out.
    pub fn set_away(&self, away: bool) {
        self.faults.away.store(away, Ordering::SeqCst);
    }

    /// The next claims are carried out, but their answers are lost.
    pub fn lose_claims(&self, number: usize) {
        self.faults.lost_claims.store(number, Ordering::SeqCst);
    }

    /// The next reports are carried out, but their answers are lost.
    pub fn lose_reports(&self, number: usize) {
        self.faults.lost_reports.store(number, Ordering::SeqCst);
    }

    /// The next reports are not carried out: the ledger is there, and something is wrong with it.
    pub fn refuse_reports(&self, number: usize) {
        self.faults.refused_reports.store(number, Ordering::SeqCst);
    }

    /// The next claims are not carried out: the ledger is there, and something is wrong with it.
    pub fn refuse_claims(&self, number: usize) {
        self.faults.refused_claims.store(number, Ordering::SeqCst);
    }

    /// Which claim cannot be read.
    pub fn damage(&self, claim: Option<ClaimId>) {
        *lock(&self.faults.damaged) = claim;
    }

    /// So many reports are carried out and answered, then it is away.
    pub fn go_away_after_reports(&self, number: usize) {
        self.faults.last_reports.store(number, Ordering::SeqCst);
    }

    /// Lets the session look as if its term were over, as after a suspend, until it is renewed.
    pub fn set_no_time_left(&self, none: bool) {
        self.set_time_left(none.then_some(Duration::ZERO));
    }

    /// Lets the session look as if this much of its term were left until it is renewed; `None`: as much as is.
    pub fn set_time_left(&self, left: Option<Duration>) {
        *lock(&self.faults.time_left) = left;
    }

    /// The session has lapsed and was renewed since.
    pub fn lapse(&self) {
        self.faults.lapses.fetch_add(1, Ordering::SeqCst);
    }

    /// The next look at the session is taken, then this happens, and only then does the process go on.
    pub fn after_next_session(&self, meanwhile: impl FnOnce() + Send + 'static) {
        *lock(&self.faults.after_session) = Some(Box::new(meanwhile));
    }

    /// The next claim is carried out, then this happens, and only then is it answered.
    pub fn after_next_claim<F, Fut>(&self, meanwhile: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        *lock(&self.faults.after_claim) = Some(Box::new(|| Box::pin(meanwhile())));
    }

    /// The next read is made, then this happens, and only then is it answered.
    pub fn after_next_peek<F, Fut>(&self, meanwhile: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        *lock(&self.faults.after_peek) = Some(Box::new(|| Box::pin(meanwhile())));
    }

    /// This happens before the next report is carried out.
    pub fn before_next_report<F, Fut>(&self, meanwhile: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        *lock(&self.faults.before_report) = Some(Box::new(|| Box::pin(meanwhile())));
    }

    /// The next report is carried out, then this happens, and only then is it answered.
    pub fn after_next_report<F, Fut>(&self, meanwhile: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        *lock(&self.faults.after_report) = Some(Box::new(|| Box::pin(meanwhile())));
    }

    /// How many claims were asked for.
    pub fn claims(&self) -> usize {
        self.faults.claims.load(Ordering::SeqCst)
    }

    /// How many reports were sent.
    pub fn reports(&self) -> usize {
        self.faults.reports.load(Ordering::SeqCst)
    }

    /// How many reads were asked for.
    pub fn peeks(&self) -> usize {
        self.faults.peeks.load(Ordering::SeqCst)
    }

    /// How many public ids were looked up.
    pub fn locates(&self) -> usize {
        self.faults.locates.load(Ordering::SeqCst)
    }

    /// The ledger behind.
    pub fn inner(&self) -> &L {
        &self.ledger
    }

    /// Asks for a claim, unless a fault comes in between.
    async fn asked(
        &self,
        claim: ClaimId,
        asking: impl Future<Output = Result<Verdict, Error>>,
    ) -> Result<Verdict, Error> {
        self.faults.claims.fetch_add(1, Ordering::SeqCst);
        self.reachable()?;
        if *lock(&self.faults.damaged) == Some(claim) {
            return Err(Error::corrupt("the claim cannot be read"));
        }
        if take(&self.faults.refused_claims) {
            return Err(Error::internal("the ledger refused a claim"));
        }
        let verdict = asking.await;
        happen(&self.faults.after_claim).await;
        if take(&self.faults.lost_claims) {
            return Err(Error::unavailable("the answer to a claim was lost"));
        }
        verdict
    }

    fn reachable(&self) -> Result<(), Error> {
        match self.faults.away.load(Ordering::SeqCst) {
            true => Err(Error::unavailable("the ledger is away")),
            false => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn happen(once: &Mutex<Option<Meanwhile>>) {
    let meanwhile = lock(once).take();
    if let Some(meanwhile) = meanwhile {
        meanwhile().await;
    }
}

/// Takes one from a counter that is not used up.
fn take(counter: &AtomicUsize) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

/// Hands a call to the ledger behind, if that can be reached.
macro_rules! reached {
    ($self:ident, $ledger:ident => $call:expr) => {{
        $self.reachable()?;
        let $ledger = &$self.ledger;
        $call
    }};
}

impl<L: Ledger> Ledger for Faulty<L> {
    type Watch = L::Watch;

    async fn claim(&self, request: ClaimRequest) -> Result<Verdict, Error> {
        self.asked(request.identity.claim_id(), self.ledger.claim(request)).await
    }

    async fn report(
        &self,
        claim: ClaimId,
        epoch: Epoch,
        report: Report,
        events: Vec<Append>,
    ) -> Result<Ending, Error> {
        self.faults.reports.fetch_add(1, Ordering::SeqCst);
        happen(&self.faults.before_report).await;
        self.reachable()?;
        if take(&self.faults.refused_reports) {
            return Err(Error::internal("the ledger refused a report"));
        }
        let ending = self.ledger.report(claim, epoch, report, events).await;
        if let Ok(Ending::Renewed { .. }) = ending {
            self.set_time_left(None);
        }
        happen(&self.faults.after_report).await;
        if take(&self.faults.last_reports) && self.faults.last_reports.load(Ordering::SeqCst) == 0 {
            self.set_away(true);
        }
        if take(&self.faults.lost_reports) {
            return Err(Error::unavailable("the answer to a report was lost"));
        }
        ending
    }

    forward!(reached => set);

    async fn peek(&self, claim: ClaimId) -> Result<Option<View>, Error> {
        self.faults.peeks.fetch_add(1, Ordering::SeqCst);
        self.reachable()?;
        let view = self.ledger.peek(claim).await;
        happen(&self.faults.after_peek).await;
        view
    }

    async fn asked(&self, claim: ClaimId) -> Result<Option<Leaves>, Error> {
        self.faults.peeks.fetch_add(1, Ordering::SeqCst);
        self.reachable()?;
        self.ledger.asked(claim).await
    }

    async fn locate(&self, operation: OperationId, caller: &Scope) -> Result<Option<Identity>, Error> {
        self.faults.locates.fetch_add(1, Ordering::SeqCst);
        self.reachable()?;
        self.ledger.locate(operation, caller).await
    }

    fn watch(&self, claim: ClaimId) -> L::Watch {
        self.ledger.watch(claim)
    }

    fn session(&self) -> Session {
        let session = self.ledger.session();
        let left = lock(&self.faults.time_left).unwrap_or(session.left);
        let lapses = session.lapses + self.faults.lapses.load(Ordering::SeqCst);
        let meanwhile = lock(&self.faults.after_session).take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        Session { left, lapses, ..session }
    }
}

impl<L: Ledger + Journal> Journal for Faulty<L> {
    forward!(reached => append, head, read, checkpoint, list_streams);
}

impl<L: Leases> Leases for Faulty<L> {
    forward!(reached => open_lease, renew_lease, end_lease);

    async fn claim_under(&self, lease: SessionId, request: ClaimRequest) -> Result<Verdict, Error> {
        self.asked(request.identity.claim_id(), self.ledger.claim_under(lease, request)).await
    }
}
