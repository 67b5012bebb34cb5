//! A store by its URL: one type for programs that learn at start which store they have (B1).

use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::audit::{AuditEvent, Note, Setting};
use hapax_core::journal::{Append, Checkpoint, Erasure, Event, Head, Listed, Stream, StreamFilter};
use hapax_core::lane::{LaneAnswer, LaneId, LaneView};
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{
    AttemptId, ClaimId, ClaimRequest, Counts, Decision, Ending, Epoch, Error, Filter, Identity, Inspect,
    Journal, Lanes, Lease, Leases, Leaves, Ledger, Operated, OperationId, Outcome, Page, Record, Registry,
    Report, Retention, Scope, Session, SessionId, SetAnswer, Shelf, SweepReport, Timestamp, Verdict, View,
};

#[cfg(feature = "embedded")]
use crate::embedded::Embedded;
use crate::hub::Watch;
use crate::memory::Memory;
use crate::options::Options;
#[cfg(feature = "postgres")]
use crate::postgres::Postgres;
use crate::tally::Tally;
use crate::{Lifecycle, Overview, limits};

/// The environment variable that names a store where nothing else does.
pub const STORE_VARIABLE: &str = "HAPAX_STORE";

/// One of the stores.
#[derive(Clone, Debug)]
pub enum Store {
    /// `memory:`
    Memory(Memory),
    /// `embedded:PATH`
    #[cfg(feature = "embedded")]
    Embedded(Embedded),
    /// `postgres://user@host:port/database`
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
}

impl Store {
    /// Opens the store that a URL names: `memory:`, `embedded:PATH` or `postgres://…`.
    pub async fn open(url: &str, options: Options) -> Result<Store, Error> {
        Self::check(url)?;
        match url.split_once(':') {
            Some(("memory", "")) => Ok(Store::Memory(Memory::open(options))),
            #[cfg(feature = "embedded")]
            Some(("embedded", path)) => Embedded::open(path, options).map(Store::Embedded),
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => Postgres::open(url, options).await.map(Store::Postgres),
            _ => Err(unknown()),
        }
    }

    /// Whether a URL names a store that could be opened. Nothing is opened, and nobody is asked whether it is there.
    pub fn check(url: &str) -> Result<(), Error> {
        if url.is_empty() || url.len() > limits::MAX_URL_BYTES {
            return Err(unknown());
        }
        match url.split_once(':') {
            Some(("memory", "")) => Ok(()),
            #[cfg(feature = "embedded")]
            Some(("embedded", path)) if !path.is_empty() => Ok(()),
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => Postgres::check(url),
            _ => Err(unknown()),
        }
    }

    /// From now on outcomes of so many bytes may come: an embedded store makes sure that there is room for them (B5).
    pub fn reckon_with(&self, largest_outcome: usize) {
        #[cfg(feature = "embedded")]
        if let Store::Embedded(store) = self {
            store.reckon_with(largest_outcome);
        }
        #[cfg(not(feature = "embedded"))]
        let _ = largest_outcome;
    }

    /// What an operator must know about this kind of store, in one sentence.
    pub fn notice(&self) -> &'static str {
        match self {
            Store::Memory(_) => {
                "the memory store FORGETS EVERYTHING when this process ends: for development only"
            }
            #[cfg(feature = "embedded")]
            Store::Embedded(_) => "the embedded store is for a single instance only: a second one is refused",
            #[cfg(feature = "postgres")]
            Store::Postgres(_) => "the PostgreSQL store is shared by every instance that opens it",
        }
    }
}

fn unknown() -> Error {
    Error::invalid("a store is named as memory:, embedded:PATH or postgres://user@host:port/database")
}

/// Hands a call to whichever store it is.
macro_rules! each {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            Store::Memory($store) => $call,
            #[cfg(feature = "embedded")]
            Store::Embedded($store) => $call,
            #[cfg(feature = "postgres")]
            Store::Postgres($store) => $call,
        }
    };
}

impl Store {
    /// What it notes of its own work.
    pub fn tally(&self) -> &Tally {
        each!(self, store => store.tally())
    }
}

impl Ledger for Store {
    type Watch = Watch;

    async fn claim(&self, request: ClaimRequest) -> Result<Verdict, Error> {
        each!(self, store => store.claim(request).await)
    }

    async fn report(
        &self,
        claim: ClaimId,
        epoch: Epoch,
        report: Report,
        events: Vec<Append>,
    ) -> Result<Ending, Error> {
        let appends = events.len();
        let ending = each!(self, store => store.report(claim, epoch, report, events).await)?;
        self.tally().appended(appends);
        Ok(ending)
    }

    async fn set(
        &self,
        request: ClaimRequest,
        outcome: Outcome,
        retention: Retention,
    ) -> Result<SetAnswer, Error> {
        each!(self, store => store.set(request, outcome, retention).await)
    }

    async fn peek(&self, claim: ClaimId) -> Result<Option<View>, Error> {
        each!(self, store => store.peek(claim).await)
    }

    async fn asked(&self, claim: ClaimId) -> Result<Option<Leaves>, Error> {
        each!(self, store => store.asked(claim).await)
    }

    async fn locate(&self, operation: OperationId, caller: &Scope) -> Result<Option<Identity>, Error> {
        each!(self, store => store.locate(operation, caller).await)
    }

    fn watch(&self, claim: ClaimId) -> Watch {
        each!(self, store => store.watch(claim))
    }

    fn session(&self) -> Session {
        each!(self, store => store.session())
    }
}

impl Lifecycle for Store {
    async fn renew_session(&self) -> Result<(), Error> {
        each!(self, store => store.renew_session().await)
    }

    async fn is_shared(&self) -> Result<bool, Error> {
        each!(self, store => store.is_shared().await)
    }

    async fn time(&self) -> Result<Timestamp, Error> {
        each!(self, store => store.time().await)
    }

    async fn overview(&self) -> Result<Overview, Error> {
        each!(self, store => store.overview().await)
    }

    async fn close(&self) -> Result<(), Error> {
        each!(self, store => store.close().await)
    }
}

impl Leases for Store {
    async fn open_lease(&self, scope: &Scope, term: Duration) -> Result<Lease, Error> {
        each!(self, store => store.open_lease(scope, term).await)
    }

    async fn renew_lease(&self, scope: &Scope, lease: SessionId) -> Result<Lease, Error> {
        each!(self, store => store.renew_lease(scope, lease).await)
    }

    async fn end_lease(&self, scope: &Scope, lease: SessionId) -> Result<(), Error> {
        each!(self, store => store.end_lease(scope, lease).await)
    }

    async fn claim_under(&self, lease: SessionId, request: ClaimRequest) -> Result<Verdict, Error> {
        each!(self, store => store.claim_under(lease, request).await)
    }
}

impl Lanes for Store {
    type LaneWatch = Watch;

    async fn enter(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        claim: Option<ClaimId>,
    ) -> Result<LaneAnswer, Error> {
        each!(self, store => store.enter(lane, ticket, claim).await)
    }

    async fn begin(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        tool: &str,
        max_run: Duration,
    ) -> Result<LaneAnswer, Error> {
        each!(self, store => store.begin(lane, ticket, tool, max_run).await)
    }

    async fn leave(&self, lane: &LaneId, ticket: AttemptId, confirmed: bool) -> Result<(), Error> {
        each!(self, store => store.leave(lane, ticket, confirmed).await)
    }

    async fn look(&self, lane: &LaneId) -> Result<LaneView, Error> {
        each!(self, store => store.look(lane).await)
    }

    fn watch_lane(&self, lane: &LaneId) -> Watch {
        each!(self, store => store.watch_lane(lane))
    }
}

impl Journal for Store {
    async fn append(&self, write: Append) -> Result<Head, Error> {
        let head = each!(self, store => store.append(write).await)?;
        self.tally().appended(1);
        Ok(head)
    }

    async fn head(&self, stream: &Stream) -> Result<Option<Head>, Error> {
        each!(self, store => store.head(stream).await)
    }

    async fn read(&self, stream: &Stream, from: u64, limit: usize) -> Result<Vec<Event>, Error> {
        each!(self, store => store.read(stream, from, limit).await)
    }

    async fn checkpoint(&self, stream: &Stream) -> Result<Option<Checkpoint>, Error> {
        each!(self, store => store.checkpoint(stream).await)
    }

    async fn list_streams(
        &self,
        filter: &StreamFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Listed>, Error> {
        each!(self, store => store.list_streams(filter, after, limit).await)
    }
}

impl Registry for Store {
    async fn get(&self, id: &DocumentId) -> Result<Option<Document>, Error> {
        each!(self, store => store.get(id).await)
    }

    async fn put(&self, id: &DocumentId, expect: u64, body: Bytes) -> Result<u64, Error> {
        each!(self, store => store.put(id, expect, body).await)
    }

    async fn delete(&self, id: &DocumentId, expect: u64) -> Result<(), Error> {
        each!(self, store => store.delete(id, expect).await)
    }

    async fn list_documents(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, Error> {
        each!(self, store => store.list_documents(kind, after, limit).await)
    }
}

impl Inspect for Store {
    async fn record(&self, claim: ClaimId) -> Result<Option<Record>, Error> {
        each!(self, store => store.record(claim).await)
    }

    async fn find(&self, operation: OperationId) -> Result<Option<Record>, Error> {
        each!(self, store => store.find(operation).await)
    }

    async fn list(&self, filter: &Filter, after: Option<&str>, limit: usize) -> Result<Page<Record>, Error> {
        each!(self, store => store.list(filter, after, limit).await)
    }

    async fn count(&self, filter: &Filter) -> Result<Counts, Error> {
        each!(self, store => store.count(filter).await)
    }

    async fn shelves(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Shelf>, Error> {
        each!(self, store => store.shelves(filter, after, limit).await)
    }

    async fn decide_with(
        &self,
        claim: ClaimId,
        decision: Decision,
        events: Vec<Append>,
    ) -> Result<Operated, Error> {
        let appends = events.len();
        let operated = each!(self, store => store.decide_with(claim, decision, events).await)?;
        self.tally().appended(appends);
        Ok(operated)
    }

    async fn decide_setting(
        &self,
        id: &DocumentId,
        expect: u64,
        body: Option<Bytes>,
        setting: Setting,
    ) -> Result<(), Error> {
        each!(self, store => store.decide_setting(id, expect, body, setting).await)
    }

    async fn lanes(&self, after: Option<&str>, limit: usize) -> Result<Page<LaneId>, Error> {
        each!(self, store => store.lanes(after, limit).await)
    }

    async fn note(&self, note: Note) -> Result<(), Error> {
        each!(self, store => store.note(note).await)
    }

    async fn sweep(&self, limit: usize) -> Result<SweepReport, Error> {
        each!(self, store => store.sweep(limit).await)
    }

    async fn has_set_aside(&self, operation: OperationId) -> Result<bool, Error> {
        each!(self, store => store.has_set_aside(operation).await)
    }

    async fn erase_events(
        &self,
        stream: &Stream,
        subject: &str,
        from: u64,
        limit: usize,
    ) -> Result<Erasure, Error> {
        each!(self, store => store.erase_events(stream, subject, from, limit).await)
    }

    async fn audit(&self, after: Option<&str>, limit: usize) -> Result<Page<AuditEvent>, Error> {
        each!(self, store => store.audit(after, limit).await)
    }
}
