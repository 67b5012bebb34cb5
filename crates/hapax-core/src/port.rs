//! The ports: what hapax asks of a store. `hapax-store`, `hapax-sqlite` and `hapax-postgres` implement them; the conformance suite of
//! the first says what they mean, for other people's stores too. What stands in front of a store hands calls on with [`forward!`](crate::forward).
//!
//! Every method that changes something is durable when it returns `Ok`. After an `Err` of kind `Unavailable` nobody knows
//! whether the command was carried out; sending the same command again finds out (L13).

mod forward;

use std::future::Future;
use std::time::Duration;

#[doc(hidden)]
pub use bytes::Bytes;

use crate::Terms;
use crate::claim::audit::{AuditEvent, Note, Setting};
use crate::claim::{Ask, Claim, Decision, Ending, Operated, Report, SetAnswer, StateName, Verdict, View};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, LazyLeaves, Leaves};
use crate::id::{AttemptId, Epoch, OperationId, SessionId};
use crate::identity::{ClaimId, Identity};
use crate::journal::{Append, Checkpoint, Erasure, Event, Head, Listed, Stream, StreamFilter};
use crate::lane::{LaneAnswer, LaneId, LaneView};
use crate::outcome::{Outcome, Retention};
use crate::registry::{Document, DocumentId};
use crate::scope::Scope;
use crate::time::Timestamp;

/// A request for a grant, before the store adds its session.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Whose claim, on what.
    pub identity: Identity,
    /// The attempt that asks.
    pub attempt: AttemptId,
    /// The public id to use if the claim is absent.
    pub operation_id: OperationId,
    /// What is asked.
    pub fingerprint: Fingerprint,
    /// Keyed hashes of what is asked.
    pub leaves: Option<LazyLeaves>,
    /// What the grant should be made under.
    pub terms: Terms,
}

impl ClaimRequest {
    /// A request with a fresh attempt and default terms.
    pub fn new(identity: Identity, fingerprint: Fingerprint) -> Self {
        let operation_id = OperationId::mint(&identity.claim_id());
        ClaimRequest {
            identity,
            attempt: AttemptId::random(),
            operation_id,
            fingerprint,
            leaves: None,
            terms: Terms::default(),
        }
    }

    /// The command that a store's session sends.
    pub fn ask(&self, session: SessionId) -> Ask {
        Ask {
            attempt: self.attempt,
            operation_id: self.operation_id,
            fingerprint: self.fingerprint,
            leaves: self.leaves.as_ref().map(LazyLeaves::get),
            terms: self.terms.clone(),
            session,
        }
    }

    /// The same without the keyed hashes. Only for what is decided about a claim that is there: what is granted keeps them.
    pub fn ask_without_leaves(&self, session: SessionId) -> Ask {
        Ask {
            attempt: self.attempt,
            operation_id: self.operation_id,
            fingerprint: self.fingerprint,
            leaves: None,
            terms: self.terms.clone(),
            session,
        }
    }
}

/// A process's registration with a store, as the process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// How long one renewal lasts.
    pub term: Duration,
    /// How much of the term is certainly left, on a clock that counts suspend (L4).
    pub left: Duration,
    /// How often it was renewed after it may have lapsed. While it had lapsed, other processes may have changed what they take for
    /// granted only while this one is not there (K6).
    pub lapses: u64,
}

/// The claims. `hapax_exec::once` is the only caller of [`Ledger::claim`] (E1).
pub trait Ledger: Clone + Send + Sync + 'static {
    /// Wakes when a claim may have changed.
    type Watch: Watch;

    /// Asks for a grant (L2). A grant is durable before this returns (L3).
    fn claim(&self, request: ClaimRequest) -> impl Future<Output = Result<Verdict, Error>> + Send;

    /// Reports as the holder of an epoch (L5). `events` are appended in the same transaction (L18); where one of them is refused,
    /// nothing is written and the error's kind is `Conflict` or `Fenced`. A report that changes nothing, because it was sent before,
    /// has its events written already; where it has not, it is a `Conflict` too, unless the lease is lost. A renewal takes no events.
    /// [`Report::Renew`] renews the session as well.
    fn report(
        &self,
        claim: ClaimId,
        epoch: Epoch,
        report: Report,
        events: Vec<Append>,
    ) -> impl Future<Output = Result<Ending, Error>> + Send;

    /// Keeps an outcome where nothing is (E4).
    fn set(
        &self,
        request: ClaimRequest,
        outcome: Outcome,
        retention: Retention,
    ) -> impl Future<Output = Result<SetAnswer, Error>> + Send;

    /// Reads a claim; `None` when it is absent.
    fn peek(&self, claim: ClaimId) -> impl Future<Output = Result<Option<View>, Error>> + Send;

    /// The keyed hashes of what was asked under a claim; `None` when it is absent or keeps none. Whether its outcome is still to be had
    /// is [`peek`](Ledger::peek)'s to say (H7).
    fn asked(&self, claim: ClaimId) -> impl Future<Output = Result<Option<Leaves>, Error>> + Send;

    /// What a public id stands for, if that is this caller's to read; `None` when it is absent or somebody else's, at the
    /// same cost (H7).
    fn locate(
        &self,
        operation: OperationId,
        caller: &Scope,
    ) -> impl Future<Output = Result<Option<Identity>, Error>> + Send;

    /// Starts to watch a claim. Subscribe, then read, then wait: a change after this call wakes the watch (L9).
    fn watch(&self, claim: ClaimId) -> Self::Watch;

    /// This process's session.
    fn session(&self) -> Session;
}

/// A lease that is not the process's own, as it stands at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its id, a session's. It is a number and no secret: it counts only together with the scope that the lease was opened for.
    pub id: SessionId,
    /// When it lapses unless it is renewed, on the store's clock.
    pub until: Timestamp,
}

impl Lease {
    /// Checks a term: between 1 second and 1 hour.
    pub fn check_term(term: Duration) -> Result<(), Error> {
        let (shortest, longest) = crate::limits::LEASE_TERM;
        if (shortest..=longest).contains(&term) {
            return Ok(());
        }
        Err(Error::invalid("the term of a lease is between 1 second and 1 hour"))
    }

    /// The lease has lapsed, was ended, or never was in this scope; or it has not the grant that was asked for again.
    pub fn over() -> Error {
        Error::lost_lease("the lease is over: open another one and claim again, as another attempt")
    }
}

/// Leases that are not the process's own: what a caller over the network holds hangs on a lease that it renews by itself (M1).
///
/// They can be renewed, ended and claimed under at every instance of a store, and lapse on the store's clock. What a lapsed one held
/// is dealt with as after the lapse of a session (L6); its holder's settle counts under the current epoch, at every instance (L5). A
/// lease that is over is never renewed. [`Report::Renew`] of a claim renews the lease that the claim hangs on.
///
/// A lease belongs to the scope that it was opened for: to any other it is absent.
///
/// A lease outlives the process that opened it, also in an embedded store, which ends the sessions of processes when it is opened
/// (B6): its holder is somebody else, and does not notice that the server was started again.
pub trait Leases: Ledger {
    /// Opens a lease for this scope that lasts for a term, which each renewal begins anew.
    fn open_lease(&self, scope: &Scope, term: Duration) -> impl Future<Output = Result<Lease, Error>> + Send;

    /// Renews a lease of this scope for its term; an error of kind `LostLease` where it is over.
    fn renew_lease(
        &self,
        scope: &Scope,
        lease: SessionId,
    ) -> impl Future<Output = Result<Lease, Error>> + Send;

    /// Ends a lease of this scope: what it held has lapsed at once. To end one that is over changes nothing.
    fn end_lease(&self, scope: &Scope, lease: SessionId) -> impl Future<Output = Result<(), Error>> + Send;

    /// Asks for a grant as [`Ledger::claim`] does, under this lease of the request's scope; an error of kind `LostLease` where it is
    /// over. Unlike a process, its holder begins the work without another look at the lease: an attempt that asks again gets its
    /// grant only while that stands, under the lease that it hangs on ([`is_lapsed_repeat`](crate::claim::is_lapsed_repeat)).
    fn claim_under(
        &self,
        lease: SessionId,
        request: ClaimRequest,
    ) -> impl Future<Output = Result<Verdict, Error>> + Send;
}

/// A subscription to the changes of one claim.
pub trait Watch: Send + 'static {
    /// Returns when the claim may have changed since the last return, or since the subscription. May wake for nothing.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// The lanes (X3). What a command does is decided by [`lane::step`](crate::lane::step). Each looks at the claim that closes the lane
/// after it has read the lane, and keeps what was decided only if the lane is still what it read.
pub trait Lanes: Clone + Send + Sync + 'static {
    /// Wakes when a lane may have changed.
    type LaneWatch: Watch;

    /// Takes a place for an action with this claim (a read has none), or asks how far it has moved. Repeating it with the same ticket
    /// keeps the place.
    fn enter(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        claim: Option<ClaimId>,
    ) -> impl Future<Output = Result<LaneAnswer, Error>> + Send;

    /// Tells that the action of this ticket begins: it invokes this tool, and may run this long. It may, where the answer is
    /// [`Served`](LaneAnswer::Served); any other answer means that it must not. Takes no place, and said again changes nothing.
    fn begin(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        tool: &str,
        max_run: Duration,
    ) -> impl Future<Output = Result<LaneAnswer, Error>> + Send;

    /// Gives a place up. `confirmed` tells that the ledger has confirmed a settle or a release of its claim; otherwise that claim
    /// closes the lane until it is over.
    fn leave(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        confirmed: bool,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Reads a lane as it stands now, and writes nothing.
    fn look(&self, lane: &LaneId) -> impl Future<Output = Result<LaneView, Error>> + Send;

    /// Starts to watch a lane. Subscribe, then look, then wait: a command after this call that changed the lane wakes the watch. What
    /// time makes of it does not, nor what becomes of the claim that closes it: that one has a watch of its own.
    fn watch_lane(&self, lane: &LaneId) -> Self::LaneWatch;
}

/// The journals (J2). What a write does is decided by [`journal::append`](crate::journal::append).
pub trait Journal: Clone + Send + Sync + 'static {
    /// Appends to a stream. Sent again under the same id it writes nothing and answers the head that it made.
    ///
    /// Where the error's kind is `Conflict` or `Fenced`, nothing is written: the stream has moved on, is at its end or is not there;
    /// or another runner has it.
    fn append(&self, write: Append) -> impl Future<Output = Result<Head, Error>> + Send;

    /// The end of a stream; `None` when it does not exist.
    fn head(&self, stream: &Stream) -> impl Future<Output = Result<Option<Head>, Error>> + Send;

    /// Reads events in order, from a sequence number on: at most `limit`, and fewer where they are large, but at least one unless
    /// the stream has none there. Each is checked to follow the one before it; a chain that does not hold is an error of kind
    /// `Corrupt` which names the place.
    fn read(
        &self,
        stream: &Stream,
        from: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Event>, Error>> + Send;

    /// A stream's latest checkpoint, checked against the event that it belongs to.
    fn checkpoint(&self, stream: &Stream) -> impl Future<Output = Result<Option<Checkpoint>, Error>> + Send;

    /// Lists streams in the order of their names, after the given one.
    fn list_streams(
        &self,
        filter: &StreamFilter,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Page<Listed>, Error>> + Send;
}

/// The shared documents.
pub trait Registry: Clone + Send + Sync + 'static {
    /// Reads a document.
    fn get(&self, id: &DocumentId) -> impl Future<Output = Result<Option<Document>, Error>> + Send;

    /// Writes a document that has this version (0: does not exist) and returns its new one; otherwise `Conflict`.
    fn put(
        &self,
        id: &DocumentId,
        expect: u64,
        body: Bytes,
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Deletes a document that has this version; otherwise `Conflict`.
    fn delete(&self, id: &DocumentId, expect: u64) -> impl Future<Output = Result<(), Error>> + Send;

    /// Lists the documents of a kind in the order of their ids, after the given one.
    fn list_documents(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Document>, Error>> + Send;
}

/// A claim with what it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Whose claim, on what.
    pub identity: Identity,
    /// The claim as it stands, time taken into account.
    pub claim: Claim,
}

/// Which claims are meant. Empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Of this project.
    pub project: Option<String>,
    /// Of this subject, as it is rendered (`user:alice`).
    pub subject: Option<String>,
    /// On this operation.
    pub operation: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// In this state.
    pub state: Option<StateName>,
    /// Granted from absent before this.
    pub opened_before: Option<Timestamp>,
    /// In which order they are listed; a count has none.
    pub order: ListOrder,
}

/// In which order claims are listed. Of a claim that was taken over, the place may be that of its first grant or of its present one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// Tenant by tenant, project by project and operation by operation, and of each the oldest first.
    #[default]
    Oldest,
    /// The newest first, of one tenant, project and operation. A claim that is taken over while it is not listed yet may be passed by.
    Newest,
}

/// One page of a listing. A page may hold fewer records than asked for and still have a next one.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<String>,
    /// What was passed by because it cannot be read. It may be among what was asked for, or not.
    pub damaged: Vec<Damaged>,
    /// How many records were looked at to find these.
    pub looked_at: usize,
}

impl<T> Page<T> {
    /// A page on which nothing was passed by.
    pub fn new(items: Vec<T>, next: Option<String>) -> Self {
        let looked_at = items.len();
        Page { items, next, damaged: Vec::new(), looked_at }
    }
}

/// A record that cannot be read: one of them keeps nobody from the others (L17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// What it is found by: the operation id, or where it lies if that cannot be read either.
    pub id: String,
    /// What is wrong with it.
    pub error: String,
}

/// How many claims there are, by the state that is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Held.
    pub held: u64,
    /// Settled.
    pub settled: u64,
    /// In doubt.
    pub in_doubt: u64,
    /// Released.
    pub released: u64,
}

/// The claims of one tenant, project and operation, which lie side by side, with how many there are by the state that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelf {
    /// The tenant.
    pub tenant: String,
    /// The project.
    pub project: String,
    /// The operation.
    pub operation: String,
    /// How many there are.
    pub counts: Counts,
}

impl Shelf {
    /// Where a list of shelves goes on after this one.
    pub fn mark(&self) -> String {
        format!("{}/{}/{}", self.tenant, self.project, self.operation)
    }

    /// The tenant, project and operation that a mark names.
    pub fn read_mark(mark: &str) -> Result<[&str; 3], Error> {
        let mut parts = mark.splitn(3, '/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(tenant), Some(project), Some(operation)) => Ok([tenant, project, operation]),
            _ => Err(Error::invalid("that is no page mark of this listing")),
        }
    }
}

/// What one round of sweeping did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Claims that became absent.
    pub forgotten: u64,
    /// Lapsed claims that were released.
    pub released: u64,
    /// Lapsed claims that are in doubt now.
    pub in_doubt: u64,
    /// Claims that were due and could not be visited: they cannot be read, or not be written now. The others were.
    pub failed: u64,
    /// Whether more was due than one round does.
    pub more: bool,
}

/// The operators' port: reads without a scope, decisions, sweeping. Only the `hapax` program uses it.
pub trait Inspect: Clone + Send + Sync + 'static {
    /// A claim by its identity's digest.
    fn record(&self, claim: ClaimId) -> impl Future<Output = Result<Option<Record>, Error>> + Send;

    /// A claim by its public id.
    fn find(&self, operation: OperationId) -> impl Future<Output = Result<Option<Record>, Error>> + Send;

    /// Lists claims in pages without reading the whole store (L17).
    fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Page<Record>, Error>> + Send;

    /// Counts claims by state (L17). Tenant, project and operation can be given; other filters are refused.
    fn count(&self, filter: &Filter) -> impl Future<Output = Result<Counts, Error>> + Send;

    /// Lists shelves in the order of their names: of a tenant, project or operation where the filter has them; its other parts are
    /// refused. A shelf stays when its last claim has gone.
    fn shelves(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Page<Shelf>, Error>> + Send;

    /// Carries out an operator's decision, with its audit event (L8). `events` are appended in the same transaction (L18); where one
    /// of them is refused, nothing is written and the error's kind is `Conflict` or `Fenced`. A decision that changes nothing writes none.
    fn decide_with(
        &self,
        claim: ClaimId,
        decision: Decision,
        events: Vec<Append>,
    ) -> impl Future<Output = Result<Operated, Error>> + Send;

    /// The same without events.
    fn decide(
        &self,
        claim: ClaimId,
        decision: Decision,
    ) -> impl Future<Output = Result<Operated, Error>> + Send {
        self.decide_with(claim, decision, Vec::new())
    }

    /// Writes a document that has this version (0: does not exist), or deletes it where there is no body, with the audit event
    /// of the operator who wants it so (L8); otherwise `Conflict`.
    fn decide_setting(
        &self,
        id: &DocumentId,
        expect: u64,
        body: Option<Bytes>,
        setting: Setting,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Lists the lanes that something is kept of: actions that wait or run, a claim that closes it, or what began lately. They come in an
    /// order of the store's own.
    fn lanes(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Page<LaneId>, Error>> + Send;

    /// Writes an entry of the audit, and changes nothing else (L8).
    fn note(&self, note: Note) -> impl Future<Output = Result<(), Error>> + Send;

    /// Sweeps what is due, at most `limit` claims (L10).
    fn sweep(&self, limit: usize) -> impl Future<Output = Result<SweepReport, Error>> + Send;

    /// Whether the audit keeps an outcome of this operation, which an erase would destroy (B9).
    fn has_set_aside(&self, operation: OperationId) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Destroys the payloads of a stream's events that have the data of this subject, with their salts and the checkpoint that
    /// belongs to one of them: those of the next `limit` events from this place on (B9). The chain can still be checked.
    fn erase_events(
        &self,
        stream: &Stream,
        subject: &str,
        from: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Erasure, Error>> + Send;

    /// The audit, newest first.
    fn audit(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Page<AuditEvent>, Error>> + Send;
}
