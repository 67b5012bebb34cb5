//! The ports on the handle: what can be answered from memory is, the rest goes to the writer or to a reader.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::audit::{AuditEvent, Note, Setting};
use hapax_core::journal::{Append, Checkpoint, Erasure, Event, Head, Listed, Stream, StreamFilter};
use hapax_core::lane::{self, LaneAnswer, LaneCommand, LaneId, LaneView};
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{
    Answer, AttemptId, ClaimId, ClaimRequest, Command, Counts, Decision, Ending, Epoch, Error, Filter,
    Identity, Inspect, Journal, Lanes, Lease, Leases, Leaves, Ledger, Operated, OperationId, Outcome, Page,
    Record, Registry, Report, Retention, Scope, Session, SessionId, SetAnswer, Shelf, SweepReport, Verdict,
    View,
};
use hapax_store::hub::Watch;
use hapax_store::parts::{filter, lane_mark};

use super::job::{Done, LaneTold, What};
use super::{Embedded, audit, events, lanes, list, shared, streams};
use crate::limits;

/// The writer answered a command with the answer to another one, which only a defect can bring about.
fn confused() -> Error {
    Error::internal("the store answered another command than was asked")
}

impl Embedded {
    async fn step(
        &self,
        claim: ClaimId,
        command: Command,
        identity: Option<Identity>,
        events: Vec<Append>,
    ) -> Result<Answer, Error> {
        match self.send(What::Step { claim, command, identity, events }).await? {
            Done::Step(answer) => Ok(answer),
            _ => Err(confused()),
        }
    }

    async fn lane(&self, id: &LaneId, told: LaneTold) -> Result<LaneAnswer, Error> {
        lane::check(id)?;
        match self.send(What::Lane(id.clone(), told)).await? {
            Done::Lane(answer) => Ok(answer),
            _ => Err(confused()),
        }
    }
}

impl Ledger for Embedded {
    type Watch = Watch;

    async fn claim(&self, request: ClaimRequest) -> Result<Verdict, Error> {
        let state = &self.core.state;
        state.check()?;
        let (claim, own) = (request.identity.claim_id(), state.sessions.own());
        if let Some(verdict) = state.table.claim(&claim, request.ask_without_leaves(own), state.clock.now()) {
            return Ok(verdict);
        }
        let ask = request.ask(own);
        match self.step(claim, Command::Claim(ask), Some(request.identity), Vec::new()).await? {
            Answer::Verdict(verdict) => Ok(verdict),
            _ => Err(confused()),
        }
    }

    async fn report(
        &self,
        claim: ClaimId,
        epoch: Epoch,
        report: Report,
        events: Vec<Append>,
    ) -> Result<Ending, Error> {
        report.check_events(&events)?;
        match self.step(claim, Command::Hold(epoch, report), None, events).await? {
            Answer::Ending(ending) => Ok(ending),
            _ => Err(confused()),
        }
    }

    async fn set(
        &self,
        request: ClaimRequest,
        outcome: Outcome,
        retention: Retention,
    ) -> Result<SetAnswer, Error> {
        let ask = request.ask(self.core.state.sessions.own());
        let claim = request.identity.claim_id();
        match self
            .step(claim, Command::Set(ask, outcome, retention), Some(request.identity), Vec::new())
            .await?
        {
            Answer::Set(answer) => Ok(answer),
            _ => Err(confused()),
        }
    }

    async fn peek(&self, claim: ClaimId) -> Result<Option<View>, Error> {
        let state = &self.core.state;
        state.check()?;
        if let Some(view) = state.table.peek(&claim, state.clock.now()) {
            return Ok(Some(view));
        }
        self.core.desk.read(move |reader| reader.peek(&claim)).await
    }

    async fn asked(&self, claim: ClaimId) -> Result<Option<Leaves>, Error> {
        self.core.state.check()?;
        let stored = self.core.desk.read(move |reader| reader.load(&claim)).await?;
        Ok(stored.and_then(|stored| stored.claim.leaves))
    }

    async fn locate(&self, operation: OperationId, caller: &Scope) -> Result<Option<Identity>, Error> {
        let found = self.find(operation).await?.map(|record| record.identity);
        Ok(found.filter(|identity| identity.is_visible_to(caller)))
    }

    fn watch(&self, claim: ClaimId) -> Watch {
        self.core.state.hub.watch(claim)
    }

    fn session(&self) -> Session {
        self.core.state.sessions.session()
    }
}

impl Embedded {
    async fn lease(&self, what: What) -> Result<Lease, Error> {
        match self.send(what).await? {
            Done::Lease(lease) => Ok(lease),
            _ => Err(confused()),
        }
    }
}

impl Leases for Embedded {
    async fn open_lease(&self, scope: &Scope, term: Duration) -> Result<Lease, Error> {
        Lease::check_term(term)?;
        self.lease(What::OpenLease(scope.clone(), term)).await
    }

    async fn renew_lease(&self, scope: &Scope, lease: SessionId) -> Result<Lease, Error> {
        self.lease(What::RenewLease(scope.clone(), lease)).await
    }

    async fn end_lease(&self, scope: &Scope, lease: SessionId) -> Result<(), Error> {
        self.send(What::EndLease(scope.clone(), lease)).await.map(|_| ())
    }

    async fn claim_under(&self, lease: SessionId, request: ClaimRequest) -> Result<Verdict, Error> {
        if lease == self.core.state.sessions.own() {
            return Err(Lease::over());
        }
        let (claim, ask) = (request.identity.claim_id(), request.ask(lease));
        match self.step(claim, Command::Claim(ask), Some(request.identity), Vec::new()).await? {
            Answer::Verdict(verdict) => Ok(verdict),
            _ => Err(confused()),
        }
    }
}

impl Lanes for Embedded {
    type LaneWatch = Watch;

    async fn enter(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        claim: Option<ClaimId>,
    ) -> Result<LaneAnswer, Error> {
        self.lane(lane, LaneTold::Enter(ticket, claim)).await
    }

    async fn begin(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        tool: &str,
        max_run: Duration,
    ) -> Result<LaneAnswer, Error> {
        lane::check_tool(tool)?;
        let begin = LaneCommand::Begin { ticket, tool: tool.to_owned(), max_run };
        self.lane(lane, LaneTold::Command(begin)).await
    }

    async fn leave(&self, lane: &LaneId, ticket: AttemptId, confirmed: bool) -> Result<(), Error> {
        self.lane(lane, LaneTold::Command(LaneCommand::Leave { ticket, confirmed })).await.map(|_| ())
    }

    async fn look(&self, lane: &LaneId) -> Result<LaneView, Error> {
        lane::check(lane)?;
        self.core.state.check()?;
        let lane = lane.clone();
        self.core.desk.read(move |reader| lanes::look(reader, &lane)).await
    }

    fn watch_lane(&self, lane: &LaneId) -> Watch {
        self.core.state.hub.watch(lane.digest())
    }
}

impl Journal for Embedded {
    async fn append(&self, write: Append) -> Result<Head, Error> {
        match self.send(What::Append(write)).await? {
            Done::Appended(head) => Ok(*head),
            _ => Err(confused()),
        }
    }

    async fn head(&self, stream: &Stream) -> Result<Option<Head>, Error> {
        self.core.state.check()?;
        let stream = stream.clone();
        self.core
            .desk
            .read(move |reader| Ok(events::find(&reader.conn, &stream)?.map(|(_, head)| head)))
            .await
    }

    async fn read(&self, stream: &Stream, from: u64, limit: usize) -> Result<Vec<Event>, Error> {
        self.core.state.check()?;
        let stream = stream.clone();
        self.core.archive.read(move |reader| streams::read(&reader.conn, &stream, from, limit)).await
    }

    async fn checkpoint(&self, stream: &Stream) -> Result<Option<Checkpoint>, Error> {
        self.core.state.check()?;
        let stream = stream.clone();
        self.core.archive.read(move |reader| streams::checkpoint(&reader.conn, &stream)).await
    }

    async fn list_streams(
        &self,
        filter: &StreamFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Listed>, Error> {
        self.core.state.check()?;
        let (filter, after) = (filter.clone(), after.map(str::to_owned));
        self.core.archive.read(move |reader| reader.list_streams(&filter, after.as_deref(), limit)).await
    }
}

impl Registry for Embedded {
    async fn get(&self, id: &DocumentId) -> Result<Option<Document>, Error> {
        self.core.state.check()?;
        let id = id.clone();
        self.core.desk.read(move |reader| shared::get(&reader.conn, &id)).await
    }

    async fn put(&self, id: &DocumentId, expect: u64, body: Bytes) -> Result<u64, Error> {
        match self.send(What::Put { id: id.clone(), expect, body }).await? {
            Done::Version(version) => Ok(version),
            _ => Err(confused()),
        }
    }

    async fn delete(&self, id: &DocumentId, expect: u64) -> Result<(), Error> {
        self.send(What::Delete { id: id.clone(), expect }).await.map(|_| ())
    }

    async fn list_documents(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, Error> {
        self.core.state.check()?;
        let (kind, after) = (kind.to_owned(), after.unwrap_or_default().to_owned());
        self.core.archive.read(move |reader| shared::list(&reader.conn, &kind, &after, limit)).await
    }
}

impl Inspect for Embedded {
    async fn record(&self, claim: ClaimId) -> Result<Option<Record>, Error> {
        self.core.state.check()?;
        self.core.desk.read(move |reader| reader.record(&claim)).await
    }

    async fn find(&self, operation: OperationId) -> Result<Option<Record>, Error> {
        self.core.state.check()?;
        self.core.desk.read(move |reader| reader.find(operation)).await
    }

    async fn list(&self, filter: &Filter, after: Option<&str>, limit: usize) -> Result<Page<Record>, Error> {
        self.core.state.check()?;
        let (wanted, after) = (filter.clone(), filter::page_mark(after)?);
        self.core.archive.read(move |reader| list::list(reader, &wanted, after.cast_signed(), limit)).await
    }

    async fn count(&self, filter: &Filter) -> Result<Counts, Error> {
        self.core.state.check()?;
        filter::countable(filter)?;
        let wanted = filter.clone();
        self.core.archive.read(move |reader| list::count(reader, &wanted)).await
    }

    async fn shelves(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Shelf>, Error> {
        self.core.state.check()?;
        filter::countable(filter)?;
        let (wanted, after) = (filter.clone(), shelf_mark(after)?);
        self.core.archive.read(move |reader| list::shelves(reader, &wanted, after, limit)).await
    }

    async fn decide_with(
        &self,
        claim: ClaimId,
        decision: Decision,
        events: Vec<Append>,
    ) -> Result<Operated, Error> {
        match self.step(claim, Command::Operate(decision), None, events).await? {
            Answer::Operated(operated) => Ok(operated),
            _ => Err(confused()),
        }
    }

    async fn decide_setting(
        &self,
        id: &DocumentId,
        expect: u64,
        body: Option<Bytes>,
        setting: Setting,
    ) -> Result<(), Error> {
        self.send(What::Set { id: id.clone(), expect, body, setting }).await.map(|_| ())
    }

    async fn lanes(&self, after: Option<&str>, limit: usize) -> Result<Page<LaneId>, Error> {
        self.core.state.check()?;
        let after = after.map(lane_mark::read_mark).transpose()?;
        self.core.archive.read(move |reader| lanes::page(&reader.conn, after.as_ref(), limit)).await
    }

    async fn note(&self, note: Note) -> Result<(), Error> {
        self.send(What::Note(note)).await.map(|_| ())
    }

    async fn sweep(&self, limit: usize) -> Result<SweepReport, Error> {
        self.core.state.check()?;
        let limit = limit.min(limits::SWEEP_CHUNK);
        let mut due = self.core.archive.read(move |reader| reader.due(limit + 1)).await?;
        let more = due.len() > limit;
        due.truncate(limit);
        if due.is_empty() {
            return Ok(SweepReport { more, ..SweepReport::default() });
        }
        match self.send(What::Sweep(due)).await? {
            Done::Swept(report) => Ok(SweepReport { more, ..report }),
            _ => Err(confused()),
        }
    }

    async fn has_set_aside(&self, operation: OperationId) -> Result<bool, Error> {
        self.core.state.check()?;
        self.core.archive.read(move |reader| audit::has_set_aside(&reader.conn, operation)).await
    }

    async fn erase_events(
        &self,
        stream: &Stream,
        subject: &str,
        from: u64,
        limit: usize,
    ) -> Result<Erasure, Error> {
        let (stream, subject) = (stream.clone(), subject.to_owned());
        match self.send(What::Erase { stream, subject, from, limit }).await? {
            Done::Erased(erasure) => Ok(erasure),
            _ => Err(confused()),
        }
    }

    async fn audit(&self, after: Option<&str>, limit: usize) -> Result<Page<AuditEvent>, Error> {
        self.core.state.check()?;
        let before = audit_mark(after)?;
        self.core.archive.read(move |reader| audit::page(&reader.conn, before, limit)).await
    }
}

/// Reads a page mark of a list of shelves.
pub(super) fn shelf_mark(after: Option<&str>) -> Result<Option<[String; 3]>, Error> {
    Ok(after.map(Shelf::read_mark).transpose()?.map(|names| names.map(str::to_owned)))
}

/// The audit runs from the newest entry to the oldest.
pub(super) fn audit_mark(after: Option<&str>) -> Result<i64, Error> {
    match after {
        None => Ok(i64::MAX),
        Some(_) => Ok(filter::page_mark(after)?.cast_signed()),
    }
}
