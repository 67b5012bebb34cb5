//! The store that forgets: everything in this process's memory, for development and tests (B1).
//!
//! It keeps what the rules decided under one mutex, which is never held across an await. Several handles on one world
//! ([`Memory::join`]) stand for several processes on one store.

mod journals;
mod sweeper;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::audit::{AuditEvent, Note, Setting};
use hapax_core::claim::{is_lapsed_repeat, view};
use hapax_core::journal::{Append, Checkpoint, Erasure, Event, Head, Listed, Stream, StreamFilter};
use hapax_core::lane::{self, LaneAnswer, LaneCommand, LaneId, LaneView, Ticket};
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{
    Answer, AttemptId, Change, ClaimId, ClaimRequest, Clock, Command, Counts, Decision, Ending, Epoch, Error,
    Filter, Identity, Inspect, Journal, Lanes, Lease, Leases, Leaves, Ledger, Operated, OperationId, Outcome,
    Page, Record, Registry, Report, Retention, Scope, Session, SessionId, SetAnswer, Shelf, SweepReport,
    Timestamp, Verdict, View, step,
};

use crate::hub::{Hub, Watch};
use crate::options::Options;
use crate::parts::clock::SystemClock;
use crate::parts::confused;
use crate::tally::Tally;
use crate::{Lifecycle, limits};
use sweeper::Sweeper;
use world::World;

/// A handle on a world in memory, with a session of its own.
#[derive(Clone)]
pub struct Memory {
    world: Arc<Mutex<World>>,
    hub: Hub,
    clock: Arc<dyn Clock>,
    options: Options,
    session: SessionId,
}

impl Memory {
    /// A new, empty world.
    pub fn open(options: Options) -> Self {
        let clock = options.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::default()));
        let mut world = World::default();
        let session = world.start_session(clock.now(), &options);
        let (world, hub) = (Arc::new(Mutex::new(world)), Hub::default());
        if options.sweeper {
            let tally = options.tally.clone();
            Sweeper { world: Arc::downgrade(&world), hub: hub.clone(), clock: clock.clone(), tally }.start();
        }
        Memory { world, hub, clock, options, session }
    }

    /// Another session on the same world, as another process would have it.
    pub fn join(&self) -> Self {
        let session = self.lock().start_session(self.clock.now(), &self.options);
        Memory { session, ..self.clone() }
    }

    /// What it notes of its own work.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.options.tally
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever watches a claim that changed.
    fn told(&self, claim: &ClaimId, (answer, changed): (Answer, world::Changed)) -> Answer {
        if changed {
            self.hub.wake(claim);
        }
        answer
    }

    /// What a claim that is there answers without being changed.
    fn look(&self, request: &ClaimRequest) -> Option<Verdict> {
        let command = Command::Claim(request.ask_without_leaves(self.session));
        let (now, world) = (self.clock.now(), self.lock());
        let present = world.claim(&request.identity.claim_id())?;
        match step(Some(present), &command, &world.moment(Some(present), now)) {
            (Change::None, Answer::Verdict(verdict)) => Some(verdict),
            _ => None,
        }
    }

    fn apply(
        &self,
        claim: ClaimId,
        command: &Command,
        identity: Option<&hapax_core::Identity>,
    ) -> Result<Answer, Error> {
        let now = self.clock.now();
        let applied = self.lock().apply(claim, command, identity, now)?;
        Ok(self.told(&claim, applied))
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Ledger for Memory {
    type Watch = Watch;

    async fn claim(&self, request: ClaimRequest) -> Result<Verdict, Error> {
        if let Some(verdict) = self.look(&request) {
            return Ok(verdict);
        }
        let command = Command::Claim(request.ask(self.session));
        match self.apply(request.identity.claim_id(), &command, Some(&request.identity))? {
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
        let now = self.clock.now();
        let applied = {
            let mut world = self.lock();
            if matches!(report, Report::Renew) {
                world.renew_session(self.session, now, &self.options);
                world.renew_lease_of(&claim, epoch, now);
            }
            world.apply_with(claim, &Command::Hold(epoch, report), &events, now)?
        };
        match self.told(&claim, applied) {
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
        let command = Command::Set(request.ask(self.session), outcome, retention);
        match self.apply(request.identity.claim_id(), &command, Some(&request.identity))? {
            Answer::Set(answer) => Ok(answer),
            _ => Err(confused()),
        }
    }

    async fn peek(&self, claim: ClaimId) -> Result<Option<View>, Error> {
        let world = self.lock();
        let stored = world.claim(&claim);
        Ok(view(stored, &world.moment(stored, self.clock.now())))
    }

    async fn asked(&self, claim: ClaimId) -> Result<Option<Leaves>, Error> {
        Ok(self.lock().claim(&claim).and_then(|claim| claim.leaves.clone()))
    }

    async fn locate(&self, operation: OperationId, caller: &Scope) -> Result<Option<Identity>, Error> {
        let found = self.find(operation).await?.map(|record| record.identity);
        Ok(found.filter(|identity| identity.is_visible_to(caller)))
    }

    fn watch(&self, claim: ClaimId) -> Watch {
        self.hub.watch(claim)
    }

    fn session(&self) -> Session {
        let now = self.clock.now();
        let left = self.lock().sign(self.session, now).until.since(now);
        Session { id: self.session, term: self.options.term, left, lapses: 0 }
    }
}

impl Leases for Memory {
    async fn open_lease(&self, scope: &Scope, term: Duration) -> Result<Lease, Error> {
        Lease::check_term(term)?;
        self.lock().open_lease(scope, term, self.options.leases_of_tenant, self.clock.now())
    }

    async fn renew_lease(&self, scope: &Scope, lease: SessionId) -> Result<Lease, Error> {
        let (now, mut world) = (self.clock.now(), self.lock());
        world.check_lease(lease, scope, now)?;
        world.renew_lease(lease, now).ok_or_else(Lease::over)
    }

    async fn end_lease(&self, scope: &Scope, lease: SessionId) -> Result<(), Error> {
        let (now, mut world) = (self.clock.now(), self.lock());
        if world.check_lease(lease, scope, now).is_ok() {
            world.end_lease(lease, now);
        }
        Ok(())
    }

    async fn claim_under(&self, lease: SessionId, request: ClaimRequest) -> Result<Verdict, Error> {
        let (claim, now) = (request.identity.claim_id(), self.clock.now());
        let ask = request.ask(lease);
        let applied = {
            let mut world = self.lock();
            world.check_lease(lease, request.identity.scope(), now)?;
            let before = world.claim(&claim);
            if is_lapsed_repeat(before, &ask, &world.moment(before, now)) {
                return Err(Lease::over());
            }
            world.apply(claim, &Command::Claim(ask), Some(&request.identity), now)?
        };
        match self.told(&claim, applied) {
            Answer::Verdict(verdict) => Ok(verdict),
            _ => Err(confused()),
        }
    }
}

impl Lifecycle for Memory {
    async fn renew_session(&self) -> Result<(), Error> {
        self.lock().renew_session(self.session, self.clock.now(), &self.options);
        Ok(())
    }

    async fn is_shared(&self) -> Result<bool, Error> {
        Ok(false)
    }

    async fn time(&self) -> Result<Timestamp, Error> {
        Ok(self.clock.now())
    }

    async fn close(&self) -> Result<(), Error> {
        self.lock().end_session(self.session, self.clock.now());
        Ok(())
    }
}

impl Memory {
    fn lane(&self, id: &LaneId, command: impl FnOnce(Timestamp) -> LaneCommand) -> Result<LaneAnswer, Error> {
        lane::check(id)?;
        let now = self.clock.now();
        let (answer, changed) = self.lock().lane(id, &command(now), now);
        if changed {
            self.hub.wake(&id.digest());
        }
        Ok(answer)
    }
}

impl Lanes for Memory {
    type LaneWatch = Watch;

    async fn enter(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        claim: Option<ClaimId>,
    ) -> Result<LaneAnswer, Error> {
        let place = |now| Ticket::new(ticket, self.session, claim, now, self.options.term);
        self.lane(lane, |now| LaneCommand::Enter(place(now)))
    }

    async fn begin(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        tool: &str,
        max_run: Duration,
    ) -> Result<LaneAnswer, Error> {
        lane::check_tool(tool)?;
        self.lane(lane, |_| LaneCommand::Begin { ticket, tool: tool.to_owned(), max_run })
    }

    async fn leave(&self, lane: &LaneId, ticket: AttemptId, confirmed: bool) -> Result<(), Error> {
        self.lane(lane, |_| LaneCommand::Leave { ticket, confirmed }).map(|_| ())
    }

    async fn look(&self, lane: &LaneId) -> Result<LaneView, Error> {
        lane::check(lane)?;
        Ok(self.lock().look_at_lane(lane, self.clock.now()))
    }

    fn watch_lane(&self, lane: &LaneId) -> Watch {
        self.hub.watch(lane.digest())
    }
}

impl Journal for Memory {
    async fn append(&self, write: Append) -> Result<Head, Error> {
        self.lock().append(&write, self.clock.now())
    }

    async fn head(&self, stream: &Stream) -> Result<Option<Head>, Error> {
        Ok(self.lock().journals.get(stream).map(|journal| journal.head.clone()))
    }

    async fn read(&self, stream: &Stream, from: u64, limit: usize) -> Result<Vec<Event>, Error> {
        self.lock().journals.get(stream).map_or(Ok(Vec::new()), |journal| journal.read(stream, from, limit))
    }

    async fn checkpoint(&self, stream: &Stream) -> Result<Option<Checkpoint>, Error> {
        self.lock().journals.get(stream).map_or(Ok(None), |journal| journal.checkpoint(stream))
    }

    async fn list_streams(
        &self,
        filter: &StreamFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Listed>, Error> {
        let now = self.clock.now();
        Ok(self.lock().list_streams(filter, after, limit, now))
    }
}

impl Registry for Memory {
    async fn get(&self, id: &DocumentId) -> Result<Option<Document>, Error> {
        Ok(self.lock().documents.get(id).cloned())
    }

    async fn put(&self, id: &DocumentId, expect: u64, body: Bytes) -> Result<u64, Error> {
        self.lock().put_document(id, expect, body, self.clock.now())
    }

    async fn delete(&self, id: &DocumentId, expect: u64) -> Result<(), Error> {
        self.lock().delete_document(id, expect)
    }

    async fn list_documents(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, Error> {
        let world = self.lock();
        let of_kind = world.documents.values().filter(|document| document.id.kind() == kind);
        Ok(of_kind
            .filter(|document| after.is_none_or(|after| document.id.id() > after))
            .take(limit)
            .cloned()
            .collect())
    }
}

impl Inspect for Memory {
    async fn record(&self, claim: ClaimId) -> Result<Option<Record>, Error> {
        Ok(self.lock().record(&claim, self.clock.now()))
    }

    async fn find(&self, operation: OperationId) -> Result<Option<Record>, Error> {
        Ok(self.lock().find(operation, self.clock.now()))
    }

    async fn list(&self, filter: &Filter, after: Option<&str>, limit: usize) -> Result<Page<Record>, Error> {
        self.lock().list(filter, after, limit, self.clock.now())
    }

    async fn count(&self, filter: &Filter) -> Result<Counts, Error> {
        self.lock().count(filter)
    }

    async fn shelves(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Shelf>, Error> {
        self.lock().shelves(filter, after, limit)
    }

    async fn decide_with(
        &self,
        claim: ClaimId,
        decision: Decision,
        events: Vec<Append>,
    ) -> Result<Operated, Error> {
        let now = self.clock.now();
        let applied = self.lock().apply_with(claim, &Command::Operate(decision), &events, now)?;
        match self.told(&claim, applied) {
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
        let (mut world, now) = (self.lock(), self.clock.now());
        match body {
            Some(body) => _ = world.put_document(id, expect, body, now)?,
            None => world.delete_document(id, expect)?,
        }
        world.write_down(setting.event(now));
        Ok(())
    }

    async fn lanes(&self, after: Option<&str>, limit: usize) -> Result<Page<LaneId>, Error> {
        self.lock().lanes_page(after, limit)
    }

    async fn note(&self, note: Note) -> Result<(), Error> {
        self.lock().write_down(note.event(self.clock.now()));
        Ok(())
    }

    async fn sweep(&self, limit: usize) -> Result<SweepReport, Error> {
        let (report, changed) = self.lock().sweep(limit.min(limits::SWEEP_CHUNK), self.clock.now())?;
        changed.iter().for_each(|claim| self.hub.wake(claim));
        Ok(report)
    }

    async fn has_set_aside(&self, operation: OperationId) -> Result<bool, Error> {
        Ok(self.lock().has_set_aside(operation))
    }

    async fn erase_events(
        &self,
        stream: &Stream,
        subject: &str,
        from: u64,
        limit: usize,
    ) -> Result<Erasure, Error> {
        let mut world = self.lock();
        let journal = world.journals.get_mut(stream);
        Ok(journal.map(|journal| journal.erase(subject, from, limit)).unwrap_or_default())
    }

    async fn audit(&self, after: Option<&str>, limit: usize) -> Result<Page<AuditEvent>, Error> {
        self.lock().audit_page(after, limit)
    }
}
