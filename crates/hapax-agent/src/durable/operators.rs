//! What operators ask and order: executions of all tenants, and an order about the version that was seen (L8, M4).
//!
//! Operators run nothing themselves. A resumed execution has a runner that no process is, so that whoever looks for executions whose
//! runner has gone takes it.

use hapax_core::claim::audit::Setting;
use hapax_core::journal::{Append, Author, Runner, Status, StreamFilter};
use hapax_core::registry::DocumentId;
use hapax_core::{Inspect, Journal, Kind, Ledger, Project, Registry, SessionId, Tenant, Timestamp};

use super::error::Error;
use super::event::{Because, kind};
use super::execution::{self, ExecutionId, Listing, PREFIX, Summary};
use super::run::send;
use super::stream::Executions;
use crate::limits;

/// The kind of the registry's documents about what operators ordered.
const KIND: &str = "executions";

/// A lease that no process has and that has lapsed: stores number theirs from the other end.
const GONE: SessionId = SessionId(i64::MAX.unsigned_abs());

/// Which executions are looked for.
#[derive(Clone, Debug, Default)]
pub struct Sought {
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// Of this project.
    pub project: Option<Project>,
    /// With this status.
    pub status: Option<Status>,
    /// Of this agent.
    pub agent: Option<String>,
    /// Not written to since.
    pub idle_since: Option<Timestamp>,
}

/// Executions in the order of tenant, project and id, after a page mark. A page may hold fewer than asked for and still have a next one.
pub async fn sought<S: Journal>(
    store: &S,
    sought: &Sought,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<Listing>, Option<String>), Error> {
    let mut prefix = PREFIX.to_owned();
    if let Some(tenant) = &sought.tenant {
        prefix = format!("{prefix}{}/", tenant.as_str());
        if let Some(project) = &sought.project {
            prefix = format!("{prefix}{}/", project.as_str());
        }
    }
    let page = store.list_streams(&StreamFilter { prefix, status: sought.status }, after, limit).await?;
    let listed = page.items.into_iter().filter_map(|listed| {
        let (tenant, project, id) = execution::parts_of(&listed.stream)?;
        let head = &listed.head;
        let fits = sought.project.as_ref().is_none_or(|wanted| *wanted == project)
            && (sought.agent.is_none() || sought.agent == head.agent)
            && sought.idle_since.is_none_or(|since| head.updated_at <= since);
        let summary = Summary::of(&id, head);
        fits.then_some(Listing { tenant, project, id, summary, lives: listed.lives })
    });
    Ok((listed.collect(), page.next))
}

/// What an operator orders about an execution as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nobody goes on until it is resumed.
    Pause,
    /// Whoever looks for executions whose runner has gone may take it.
    Resume {
        /// Also from a runner whose lease lasts.
        force: bool,
    },
    /// It fails.
    Cancel,
}

/// What the audit is told of an order, or of a decision that changes no claim.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// What is done.
    pub verb: &'a str,
    /// Who does it.
    pub by: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl<S: Journal + Ledger + Inspect + Registry> Executions<S> {
    /// Tells the audit what an operator does about an execution, before it is done.
    pub async fn write_down(&self, id: &ExecutionId, before: &str, told: &Told<'_>) -> Result<(), Error> {
        let Told { verb, by, reason } = *told;
        let name = format!("{}/{}/{}", self.scope().tenant().as_str(), self.project()?.as_str(), id.as_str());
        let document = DocumentId::new(KIND, &name)?;
        for _ in 0..limits::AUDIT_TRIES {
            let version = self.store().get(&document).await?.map_or(0, |document| document.version);
            let setting = Setting {
                verb: format!("execution-{verb}"),
                actor: by.to_owned(),
                reason: reason.to_owned(),
                name: format!("execution/{name}"),
                before: Some(before.to_owned()),
                after: Some(verb.to_owned()),
            };
            let body = Some(verb.to_owned().into());
            match self.store().decide_setting(&document, version, body, setting).await {
                Err(error) if error.kind() == Kind::Conflict => {}
                done => return Ok(done?),
            }
        }
        let what = "other operators keep ordering about this execution";
        Err(Error::Store(hapax_core::Error::unavailable(what)))
    }
}

impl<S: Journal + Ledger> Executions<S> {
    /// An execution as it is listed.
    pub async fn listing(&self, id: &ExecutionId) -> Result<Listing, Error> {
        let (stream, head) = self.head(id).await?;
        let filter = StreamFilter { prefix: stream.as_str().to_owned(), status: None };
        let found = self.store().list_streams(&filter, None, 1).await?;
        // Both from one look where it is there.
        let first = found.items.into_iter().find(|listed| listed.stream == stream);
        let (head, lives) = first.map_or((head, false), |listed| (listed.head, listed.lives));
        let (tenant, project) = (self.scope().tenant().clone(), self.project()?.clone());
        Ok(Listing { tenant, project, id: id.clone(), summary: Summary::of(id, &head), lives })
    }

    /// Carries an order out about the version that was seen: where the execution was written to meanwhile, nothing is done.
    pub async fn order(
        &self,
        id: &ExecutionId,
        order: Order,
        version: u64,
        reason: &str,
    ) -> Result<(), Error> {
        let (stream, head) = self.head(id).await?;
        if order == Order::Pause && head.status == Some(Status::Paused) {
            return Err(Error::NotApplicable("the execution is paused already".into()));
        }
        let (kind, status, because) = match order {
            Order::Pause => (kind::PAUSED, Status::Paused, Because::of(reason)),
            Order::Resume { .. } => (kind::RECOVERING, Status::Recovering, Because::of(reason)),
            Order::Cancel => (kind::FAILED, Status::Failed, Because::cancelled(reason)),
        };
        let event = self.event(&stream, kind, &because)?;
        // Who paused it has stopped, or was not its runner any more from then on.
        let force = match order {
            Order::Resume { force } => force || head.status == Some(Status::Paused),
            Order::Pause | Order::Cancel => true,
        };
        let author = Author::Successor { runner: Runner::fresh(GONE), version, force };
        let mut write = Append::new(stream, author).with(vec![event]);
        write.status = Some(status);
        match send(self.store(), write).await {
            Err(Error::Fenced) => Err(Error::NotApplicable(
                "the lease of its runner lasts: wait until that has gone, or force it".into(),
            )),
            done => done.map(|_| ()),
        }
    }
}
