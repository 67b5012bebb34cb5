//! The ports besides the ledger: each method is one piece of work at the desk.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::audit::{AuditEvent, Note, Setting};
use hapax_core::journal::{Append, Checkpoint, Erasure, Event, Head, Listed, Stream, StreamFilter};
use hapax_core::lane::{self, LaneAnswer, LaneCommand, LaneId, LaneView};
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{
    Answer, AttemptId, Change, Claim, ClaimId, Command, Counts, Decision, Epoch, Error, Filter, Inspect,
    Journal, Lanes, Operated, OperationId, Page, Record, Registry, Shelf, State, SweepReport, step,
};
use hapax_store::hub::Watch;
use hapax_store::parts::clock::boot_time;
use hapax_store::parts::{filter, lane_mark};

use super::change::Order;
use super::clock::Quiet;
use super::desk::Resend;
use super::failure::Failure;
use super::lanes::Told;
use super::link::Link;
use super::row::{get, packed};
use super::watchers::tell_forget;
use super::{Postgres, confused, journal, lanes, list, registry, sweep};
use crate::limits;

impl Postgres {
    async fn lane(&self, id: &LaneId, told: Told) -> Result<LaneAnswer, Error> {
        lane::check(id)?;
        let (shared, id) = (self.shared.clone(), id.clone());
        let _turn = self.shared.lane_turn(&id.digest()).await;
        let work = async move |link: &mut Link| lanes::carry_out(&shared, link, &id, &told).await;
        self.shared.ask(Resend::Always, work).await
    }
}

impl Lanes for Postgres {
    type LaneWatch = Watch;

    async fn enter(
        &self,
        lane: &LaneId,
        ticket: AttemptId,
        claim: Option<ClaimId>,
    ) -> Result<LaneAnswer, Error> {
        self.lane(lane, Told::Enter(ticket, claim)).await
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
        self.lane(lane, Told::Command(begin)).await
    }

    async fn leave(&self, lane: &LaneId, ticket: AttemptId, confirmed: bool) -> Result<(), Error> {
        self.lane(lane, Told::Command(LaneCommand::Leave { ticket, confirmed })).await.map(|_| ())
    }

    async fn look(&self, lane: &LaneId) -> Result<LaneView, Error> {
        lane::check(lane)?;
        let (shared, lane) = (self.shared.clone(), lane.clone());
        let work = async move |link: &mut Link| lanes::look(&shared, link, &lane).await;
        self.shared.ask(Resend::Always, work).await
    }

    fn watch_lane(&self, lane: &LaneId) -> Watch {
        self.shared.watchers.watch_lane(lane.digest())
    }
}

impl Journal for Postgres {
    async fn append(&self, write: Append) -> Result<Head, Error> {
        self.shared.append(write).await
    }

    async fn head(&self, stream: &Stream) -> Result<Option<Head>, Error> {
        let stream = stream.clone();
        self.shared.ask(Resend::Always, async move |link: &mut Link| journal::head(link, &stream).await).await
    }

    async fn read(&self, stream: &Stream, from: u64, limit: usize) -> Result<Vec<Event>, Error> {
        let stream = stream.clone();
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| journal::read(link, &stream, from, limit).await)
            .await
    }

    async fn checkpoint(&self, stream: &Stream) -> Result<Option<Checkpoint>, Error> {
        let stream = stream.clone();
        let read = async move |link: &mut Link| journal::checkpoint(link, &stream).await;
        self.shared.ask(Resend::Always, read).await
    }

    async fn list_streams(
        &self,
        filter: &StreamFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Listed>, Error> {
        let (shared, filter, after) = (self.shared.clone(), filter.clone(), after.map(str::to_owned));
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| {
                journal::list(link, &filter, after.as_deref(), limit, &shared.session).await
            })
            .await
    }
}

impl Registry for Postgres {
    async fn get(&self, id: &DocumentId) -> Result<Option<Document>, Error> {
        let id = id.clone();
        self.shared.ask(Resend::Always, async move |link: &mut Link| registry::read(link, &id).await).await
    }

    async fn put(&self, id: &DocumentId, expect: u64, body: Bytes) -> Result<u64, Error> {
        let (shared, id) = (self.shared.clone(), id.clone());
        self.shared
            .ask(Resend::BeforeCommit, async move |link: &mut Link| {
                registry::put(link, &id, expect, &body, shared.session.given_time(), None).await
            })
            .await
    }

    async fn delete(&self, id: &DocumentId, expect: u64) -> Result<(), Error> {
        let id = id.clone();
        self.shared
            .ask(Resend::BeforeCommit, async move |link: &mut Link| {
                registry::delete(link, &id, expect, None, None).await
            })
            .await
    }

    async fn list_documents(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, Error> {
        let (kind, after) = (kind.to_owned(), after.map(str::to_owned));
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| {
                registry::list(link, &kind, after.as_deref(), limit).await
            })
            .await
    }
}

impl Inspect for Postgres {
    async fn record(&self, claim: ClaimId) -> Result<Option<Record>, Error> {
        let seen = self.shared.read(claim).await?;
        let now = seen.now();
        seen.stored.as_ref().map_or(Ok(None), |stored| list::record(stored, &now))
    }

    async fn find(&self, operation: OperationId) -> Result<Option<Record>, Error> {
        let shared = self.shared.clone();
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| {
                list::find(link, operation, &shared.session).await
            })
            .await
    }

    async fn list(&self, filter: &Filter, after: Option<&str>, limit: usize) -> Result<Page<Record>, Error> {
        let place = list::Place::read(after)?;
        let (shared, filter) = (self.shared.clone(), filter.clone());
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| {
                list::page(link, &filter, place, limit, &shared.session).await
            })
            .await
    }

    async fn count(&self, filter: &Filter) -> Result<Counts, Error> {
        filter::countable(filter)?;
        let filter = filter.clone();
        self.shared.ask(Resend::Always, async move |link: &mut Link| list::count(link, &filter).await).await
    }

    async fn shelves(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Shelf>, Error> {
        filter::countable(filter)?;
        let after = after.map(Shelf::read_mark).transpose()?.map(|names| names.map(str::to_owned));
        let (filter, after) = (filter.clone(), after.unwrap_or_default());
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| {
                list::shelves(link, &filter, &after, limit).await
            })
            .await
    }

    async fn decide_with(
        &self,
        claim: ClaimId,
        decision: Decision,
        events: Vec<Append>,
    ) -> Result<Operated, Error> {
        let seen_before = decision.seen;
        let command = Command::Operate(decision);
        loop {
            let seen = self.shared.read(claim).await?;
            let stored = seen.stored.as_ref().map(|stored| &stored.claim);
            let answer = match (step(stored, &command, &seen.now()), stored) {
                ((Change::None, answer), _) => answer,
                (_, Some(Claim { state: State::Settled { .. }, epoch, .. })) => {
                    self.send_away(claim, *epoch).await?;
                    self.decide_locking(claim, command.clone(), events.clone()).await?
                }
                _ => self.decide_locking(claim, command.clone(), events.clone()).await?,
            };
            match answer {
                // Another operator was at it in between, and tables may answer for it again.
                Answer::Operated(Operated::Changed { epoch }) if epoch == seen_before => {}
                Answer::Operated(operated) => return Ok(operated),
                _ => return Err(confused()),
            }
        }
    }

    async fn decide_setting(
        &self,
        id: &DocumentId,
        expect: u64,
        body: Option<Bytes>,
        setting: Setting,
    ) -> Result<(), Error> {
        let (shared, id) = (self.shared.clone(), id.clone());
        self.shared
            .ask(Resend::BeforeCommit, async move |link: &mut Link| {
                let (time, setting) = (shared.session.given_time(), Some(&setting));
                match &body {
                    Some(body) => registry::put(link, &id, expect, body, time, setting).await.map(drop),
                    None => registry::delete(link, &id, expect, time, setting).await,
                }
            })
            .await
    }

    async fn lanes(&self, after: Option<&str>, limit: usize) -> Result<Page<LaneId>, Error> {
        let after = after.map(lane_mark::read_mark).transpose()?;
        let work = async move |link: &mut Link| lanes::page(link, after.as_ref(), limit).await;
        self.shared.ask(Resend::Always, work).await
    }

    async fn note(&self, note: Note) -> Result<(), Error> {
        let shared = self.shared.clone();
        self.shared
            .ask(Resend::BeforeCommit, async move |link: &mut Link| {
                registry::write_down(link, &note, shared.session.given_time()).await
            })
            .await
    }

    async fn sweep(&self, limit: usize) -> Result<SweepReport, Error> {
        sweep::round(&self.shared, limit, Duration::ZERO, &mut Vec::new()).await
    }

    async fn has_set_aside(&self, operation: OperationId) -> Result<bool, Error> {
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| list::has_set_aside(link, operation).await)
            .await
    }

    async fn erase_events(
        &self,
        stream: &Stream,
        subject: &str,
        from: u64,
        limit: usize,
    ) -> Result<Erasure, Error> {
        let (shared, stream, subject) = (self.shared.clone(), stream.clone(), subject.to_owned());
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| {
                journal::erase(link, &stream, &subject, from, limit, &shared.session).await
            })
            .await
    }

    async fn audit(&self, after: Option<&str>, limit: usize) -> Result<Page<AuditEvent>, Error> {
        let before = filter::page_mark(after)?;
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| list::audit(link, before, limit).await)
            .await
    }
}

impl Postgres {
    async fn decide_locking(
        &self,
        id: ClaimId,
        command: Command,
        events: Vec<Append>,
    ) -> Result<Answer, Error> {
        self.shared
            .order(Resend::BeforeCommit, Order { id, command, identity: None, events, lease: None })
            .await
    }

    /// Makes sure that no memory table answers for a settled claim that is about to be changed: returns when
    /// every process has forgotten it, or its table may no longer answer (B7). So the change shows everywhere
    /// at once.
    async fn send_away(&self, claim: ClaimId, epoch: Epoch) -> Result<(), Error> {
        let notify = self.shared.options.notify;
        let number: Option<i64> = self
            .shared
            .ask(Resend::Always, async move |link: &mut Link| {
                let (digest, epoch) = (&claim.as_bytes()[..], packed(epoch));
                let row = link.query_opt("SELECT hapax.send_away($1, $2)", &[&digest, &epoch]).await?;
                let Some(row) = row else {
                    let sql = "SELECT EXISTS (SELECT FROM hapax.claims \
                               WHERE digest = $1 AND epoch = $2 AND state = 'S')";
                    let locked: bool = get(&link.query_one(sql, &[&digest, &epoch]).await?, 0)?;
                    return if locked { Err(Failure::Busy) } else { Ok(None) };
                };
                if notify {
                    // If it does not get through, the next beat of every process brings it.
                    let _ = tell_forget(link).await;
                }
                Ok(Some(get(&row, 0)?))
            })
            .await?;
        self.shared.table.remove(&claim);
        match number {
            Some(number) => self.wait_until_forgotten(number).await,
            None => Ok(()),
        }
    }

    /// This process's own table has forgotten already.
    async fn wait_until_forgotten(&self, number: i64) -> Result<(), Error> {
        let own = self.shared.session.known().id.0.cast_signed();
        let quiet = Mutex::new(Quiet::default());
        self.shared
            .ask(Resend::Always, async move |link: &mut Link| {
                let rows = link.query(STILL_ANSWERING, &[&own, &number]).await?;
                let read = |row| Ok((get(row, 0)?, get(row, 1)?));
                let others = rows.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
                // The server's clock may have been set back: what is seen not to have been renewed for as long as a table may
                // answer at all is not waited for (L12).
                let mut quiet = quiet.lock().unwrap_or_else(PoisonError::into_inner);
                let since = quiet.look(&others, boot_time());
                match since.iter().any(|since| *since < limits::TABLE_VALIDITY) {
                    true => Err(Failure::Later),
                    false => Ok(()),
                }
            })
            .await
    }
}

/// The tables that have not followed and may still answer. Each row is locked before its validity is looked
/// at: a renewal that is under way has perhaps not seen what is to be forgotten, and must be seen here; one
/// that comes later sees it.
const STILL_ANSWERING: &str = "\
    WITH others AS MATERIALIZED (SELECT id, table_until FROM hapax.sessions WHERE id <> $1 AND acked < $2 FOR SHARE) \
    SELECT id, table_until FROM others WHERE table_until > hapax.clock()";
