//! What is to happen once: whose, what, under which key, and on which terms.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::DoubtEnds;
use hapax_core::journal::Append;
use hapax_core::{
    ClaimId, Doubt, Effect, Epoch, Error, Executed, Fingerprint, Identity, Key, LazyLeaves, Operation,
    OperationId, Outcome, Recipe, Rerun, Retention, Scope, Source, Terms, Timestamp, Width,
};

use crate::limits;

/// What is to happen once.
#[derive(Clone)]
pub struct Call {
    pub(crate) identity: Option<Identity>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) leaves: Option<LazyLeaves>,
    pub(crate) ask_within: Option<Duration>,
    pub(crate) terms: Terms,
    pub(crate) given_up_as: Option<Doubt>,
    pub(crate) retention: Retention,
    pub(crate) attach: Attach,
    pub(crate) on_release: OnRelease,
    pub(crate) reconcile: Option<Reconcile>,
    pub(crate) rehash: Option<Arc<dyn Rehash>>,
}

/// A request that can be hashed under another recipe than it was (L2). The executor finds the recipe.
pub trait Rehash: Send + Sync {
    /// The fingerprint under this recipe.
    fn rehash(&self, recipe: &Recipe) -> Fingerprint;
}

impl<F: Fn(&Recipe) -> Fingerprint + Send + Sync> Rehash for F {
    fn rehash(&self, recipe: &Recipe) -> Fingerprint {
        self(recipe)
    }
}

/// What a second caller does while the first one runs (L9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// Waits this long at most.
    Wait(Duration),
    /// Is told at once that it is in progress.
    Reject,
}

impl Attach {
    /// How long at most.
    pub(crate) fn bound(self) -> Duration {
        match self {
            Attach::Wait(bound) => bound,
            Attach::Reject => Duration::ZERO,
        }
    }
}

/// What a second caller does when the first one gives the claim back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRelease {
    /// Is told that the attempt failed.
    Fail,
    /// Claims for itself, at most this often.
    Retry(u32),
}

/// What somebody who can know says about an earlier attempt (L6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconciled {
    /// It was done, and this was its outcome.
    Happened(Outcome),
    /// It was not done, and never will be under this key.
    Never,
    /// Nobody can say.
    Unknown,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type Reconcile = Arc<dyn Fn(Attempt) -> BoxFuture<Reconciled> + Send + Sync>;

impl Call {
    /// A call under a key of this scope.
    pub fn new(scope: Scope, operation: &str, key: &str) -> Result<Self, Error> {
        let (operation, key) = (Operation::new(operation)?, Key::new(key)?);
        Ok(Self::of(Identity::new(Source::Derived, scope, Width::Subject, operation, key)))
    }

    /// A call of a program that has no tenants (E2).
    pub fn local(operation: &str, key: &str) -> Result<Self, Error> {
        Self::new(Scope::local(), operation, key)
    }

    /// A call with an identity that was made elsewhere.
    pub fn of(identity: Identity) -> Self {
        Call { identity: Some(identity), ..Self::unkeyed() }
    }

    /// A call without a key: the work runs, and nothing is kept (E2).
    pub fn unkeyed() -> Self {
        Call {
            identity: None,
            fingerprint: Fingerprint::none(),
            leaves: None,
            ask_within: None,
            terms: Terms::default(),
            given_up_as: None,
            retention: limits::RETENTION,
            attach: Attach::Wait(limits::ATTACH),
            on_release: OnRelease::Fail,
            reconcile: None,
            rehash: None,
        }
    }

    /// What is asked, as bytes: the same key with other bytes is refused.
    #[must_use]
    pub fn body(self, body: &[u8]) -> Self {
        self.fingerprint(Fingerprint::of_bytes(body))
    }

    /// What is asked, hashed elsewhere.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = fingerprint;
        self
    }

    /// Keyed hashes of what is asked, to explain a later mismatch (H10).
    #[must_use]
    pub fn leaves(mut self, leaves: impl Into<LazyLeaves>) -> Self {
        self.leaves = Some(leaves.into());
        self
    }

    /// How to hash what is asked under another recipe, in case the claim was made under one (L2).
    #[must_use]
    pub fn rehash(mut self, rehash: Arc<impl Rehash + 'static>) -> Self {
        self.rehash = Some(rehash);
        self
    }

    /// How long the ledger may take to say whose turn it is; after that it counts as away, and what it grants all the same is
    /// given back (L13, L14). By default it may take as long as it takes. Needs tokio's timer.
    #[must_use]
    pub fn ask_within(mut self, within: Duration) -> Self {
        self.ask_within = Some(within);
        self
    }

    /// May the work run again when nobody knows whether it ran? By default it may not (L6).
    #[must_use]
    pub fn rerun(mut self, rerun: Rerun) -> Self {
        self.terms.rerun = rerun;
        self
    }

    /// With a safe rerun: how long a former run must have been silent (L6).
    #[must_use]
    pub fn quiet(mut self, quiet: Duration) -> Self {
        self.terms.quiet = quiet;
        self
    }

    /// How long one attempt may be renewed (L4).
    #[must_use]
    pub fn max_run(mut self, max_run: Duration) -> Self {
        self.terms.max_run = max_run;
        self
    }

    /// Ends the work after this long; whether it happened is then unknown (L7).
    #[must_use]
    pub fn give_up(mut self, give_up: Duration) -> Self {
        self.terms.give_up = give_up;
        self
    }

    /// Work that is given up is in doubt for this reason, also where it may run again (P6).
    #[must_use]
    pub fn given_up_as(mut self, doubt: Doubt) -> Self {
        self.given_up_as = Some(doubt);
        self
    }

    /// What becomes of a doubt that nobody resolves (L10).
    #[must_use]
    pub fn doubt_ends(mut self, ends: DoubtEnds) -> Self {
        self.terms.doubt = Some(ends);
        self
    }

    /// How long the outcome is kept.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// What to do while somebody else runs it.
    #[must_use]
    pub fn attach(mut self, attach: Attach) -> Self {
        self.attach = attach;
        self
    }

    /// What to do when somebody else gives it back.
    #[must_use]
    pub fn on_release(mut self, on_release: OnRelease) -> Self {
        self.on_release = on_release;
        self
    }

    /// Whom to ask whether an earlier attempt happened; with it the call's rerun is `Ask` (L6). [`Executor::once`] asks; a caller
    /// that takes the steps by itself hands its question to [`Held::begin`].
    ///
    /// [`Executor::once`]: crate::Executor::once
    /// [`Held::begin`]: crate::Held::begin
    #[must_use]
    pub fn reconcile<F, Fut>(mut self, ask: F) -> Self
    where
        F: Fn(Attempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reconciled> + Send + 'static,
    {
        self.terms.rerun = Rerun::Ask;
        self.reconcile = Some(Arc::new(move |attempt| Box::pin(ask(attempt))));
        self
    }

    /// Lets go of what only a claim that is still to be sent needs.
    pub(crate) fn forget_what_was_asked(&mut self) {
        self.rehash = None;
        self.leaves = None;
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("identity", &self.identity)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

/// What the work is told about the attempt it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The claim, for the transactional guard (L16); `None` without a key.
    pub claim: Option<ClaimId>,
    /// The fencing number to hand downstream; `None` without a key.
    pub epoch: Option<Epoch>,
    /// The public id; `None` without a key.
    pub operation_id: Option<OperationId>,
}

/// How the work ended.
#[derive(Clone, Debug)]
pub enum Ended {
    /// It came to an end that is kept.
    Settled(Outcome),
    /// It certainly did not run: the claim is given back.
    NotRun(String),
    /// It failed, and may have run: given back where running again is safe, in doubt elsewhere (L7).
    Unknown(String),
    /// Nobody can know, whatever the terms say.
    Doubt(Doubt, String),
}

/// How the work ended, with what belongs to it.
#[derive(Clone, Debug)]
pub struct Concluded {
    /// How it ended.
    pub ended: Ended,
    /// Journal events that are recorded together with that (L18). Where a guard has settled the claim in the application's own
    /// transaction (L16), they belong to that.
    pub events: Vec<Append>,
    /// What the work has done, where the outcome alone does not tell: the bytes of a refusal may be an answer with a status.
    pub effect: Option<Effect>,
}

impl From<Ended> for Concluded {
    fn from(ended: Ended) -> Self {
        Concluded { ended, events: Vec::new(), effect: None }
    }
}

impl Ended {
    /// The work was done.
    pub fn succeeded(bytes: impl Into<Bytes>) -> Self {
        Ended::Settled(Outcome::Succeeded(bytes.into()))
    }

    /// The work ended with a terminal error, which is kept like a success.
    pub fn refused(bytes: impl Into<Bytes>) -> Self {
        Ended::Settled(Outcome::Refused(bytes.into()))
    }
}

impl Ended {
    /// The same, with journal events that must be recorded together with it (L18).
    pub fn with(self, events: Vec<Append>) -> Concluded {
        Concluded { events, ..self.into() }
    }
}

/// How the caller came by an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// This call ran the work.
    Executed,
    /// The outcome was kept from an earlier call.
    Replayed,
    /// Another call ran the work while this one waited.
    Attached,
    /// There was no key; the work ran and nothing was kept.
    PassedThrough,
}

/// An outcome, and how the caller came by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<T = Outcome> {
    /// What came of it.
    pub value: T,
    /// How the caller came by it.
    pub how: How,
    /// The public id of the run that did the work; `None` without a key.
    pub operation_id: Option<OperationId>,
    /// Until when the outcome is kept, on the store's clock; `None` without a key.
    pub keep_until: Option<Timestamp>,
    /// Whether the work was executed under this key, as far as the outcome tells (E6).
    pub executed: Executed,
    /// Whether the journal events that the work gave along were recorded with its outcome (L18). Where the journal had moved on, the
    /// outcome was kept without them.
    pub events_written: bool,
}
