//! Durable executions: looked at, ordered about, and their waiting steps decided about by operators (J6, L8, M4).
//!
//! The server runs none. Its orders move executions between runners, or end them; what is decided about a step is carried out by
//! `hapax-agent` in one transaction with the step's claim.

use hapax_agent::durable::{
    self, Choice, Coordinates, Decision, Declaration, ExecutionId, Listing, Order, Sought, Told, Waiting,
    Waits, sought, tool_key, verify_page,
};
use hapax_api::{
    AllWaiting, BrokenChain, DecideStep, Execution, ExecutionArchived, ExecutionConflict, ExecutionEvent,
    ExecutionEvents, ExecutionStatus, Executions, Json, OrderExecution, Repeatable, ResumeExecution, Role,
    StepDecision, Time, Verified, WaitingOf, WaitingStep, WaitingSteps, WaitsFor, operations as op,
};
use hapax_core::journal::Status;
use hapax_core::{Error, Kind, Project, Scope, Subject, Tenant};
use hapax_exec::Executor;
use serde_json::value::RawValue;

use super::AdminState;
use super::access::Operator;
use super::claims::{before, page_size};
use super::decide::{actor, reason};
use crate::Store;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::parse_span;

/// One execution that is meant.
pub(super) struct Meant {
    pub(super) executions: durable::Executions<Store>,
    pub(super) id: ExecutionId,
}

/// The executions of a tenant and project, which must be named.
pub(super) fn of(
    state: &AdminState,
    tenant: Option<&str>,
    project: Option<&str>,
) -> Result<durable::Executions<Store>, Refusal> {
    let (Some(tenant), Some(project)) = (tenant, project) else {
        return Err(Refusal::malformed("say `tenant` and `project`: an id counts within them"));
    };
    // Steps are a project's, whoever has asked for them.
    let scope = Scope::new(Tenant::new(tenant)?, project_of(project)?, Subject::anonymous());
    let executor = Executor::new(state.store.clone());
    Ok(durable::Executions::new(executor, scope).sealed(state.answers.seal()))
}

fn project_of(text: &str) -> Result<Project, Error> {
    match text {
        "_tenant" => Ok(Project::tenant_level()),
        "_platform" => Ok(Project::platform_level()),
        name => Project::new(name),
    }
}

impl Meant {
    pub(super) fn of(
        state: &AdminState,
        id: &str,
        tenant: Option<&str>,
        project: Option<&str>,
    ) -> Result<Self, Refusal> {
        let executions = of(state, tenant, project)?;
        let Ok(id) = ExecutionId::new(id) else { return Err(told(durable::Error::NotFound)) };
        Ok(Meant { executions, id })
    }

    async fn listing(&self) -> Result<Listing, Refusal> {
        self.executions.listing(&self.id).await.map_err(told)
    }

    pub(super) async fn shown(&self) -> Result<Execution, Refusal> {
        Ok(view(self.listing().await?)?)
    }
}

/// What an operator is told.
pub(super) fn told(error: durable::Error) -> Refusal {
    use durable::Error as E;
    match error {
        E::NotFound => Refusal::not_found("there is no such execution in this tenant and project"),
        E::Invalid(detail) => Refusal::malformed(detail),
        E::Store(error) => error.into(),
        E::VersionConflict { .. } => Refusal::Execution(ExecutionConflict::Changed, error.to_string()),
        E::Call(error) => {
            Error::unavailable("the ledger could not be asked about a step").with_detail(error).into()
        }
        other => Refusal::Execution(ExecutionConflict::NotApplicable, other.to_string()),
    }
}

pub(super) fn view(listing: Listing) -> Result<Execution, Error> {
    let Listing { tenant, project, summary, lives, .. } = listing;
    Ok(Execution {
        execution_id: summary.execution_id,
        tenant: tenant.as_str().to_owned(),
        project: project.as_str().to_owned(),
        subject: summary.subject,
        agent: summary.agent_id,
        status: summary.status.parse().map_err(|_| Error::corrupt("an execution has no status"))?,
        version: summary.version,
        events: summary.length,
        schema_version: summary.schema_version,
        runs: lives,
        created_at: summary.created_at.map(Time::from),
        updated_at: summary.updated_at.map(Time::from),
        checkpoint: None,
    })
}

/// What was written as JSON.
fn json(raw: &RawValue) -> Result<Json, Error> {
    let value = serde_json::from_str(raw.get());
    value.map(Json).map_err(|_| Error::corrupt("what an execution keeps is not JSON"))
}

fn events_page(limit: Option<usize>, usual: usize) -> Result<usize, Error> {
    match limit.unwrap_or(usual) {
        limit @ 1..=hapax_api::limits::PAGE_EVENTS => Ok(limit),
        _ => Err(Error::invalid("a page has 1 to 256 events")),
    }
}

pub(super) async fn get_list(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ListExecutions>,
) -> Result<Executions, Refusal> {
    let query = asked.query;
    let wanted = Sought {
        tenant: query.tenant.map(Tenant::new).transpose()?,
        project: query.project.as_deref().map(project_of).transpose()?,
        status: query.status.map(status),
        agent: query.agent,
        idle_since: query.idle_for.as_deref().map(parse_span).transpose()?.map(before),
    };
    let most = page_size(query.limit)?;
    let (found, next) = sought(&state.store, &wanted, query.after.as_deref(), most).await.map_err(told)?;
    let executions = found.into_iter().map(view).collect::<Result<_, _>>()?;
    Ok(Executions { executions, next })
}

fn status(status: ExecutionStatus) -> Status {
    match status {
        ExecutionStatus::Running => Status::Running,
        ExecutionStatus::Paused => Status::Paused,
        ExecutionStatus::Recovering => Status::Recovering,
        ExecutionStatus::Completed => Status::Completed,
        ExecutionStatus::Failed => Status::Failed,
    }
}

pub(super) async fn show(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ShowExecution>,
) -> Result<Execution, Refusal> {
    let query = asked.query;
    let meant = Meant::of(&state, &asked.id, query.tenant.as_deref(), query.project.as_deref())?;
    if query.checkpoint {
        operator.needs(Role::Operate)?;
    }
    let mut shown = meant.shown().await?;
    if query.checkpoint {
        let bytes = meant.executions.checkpoint(&meant.id).await.map_err(told)?.flatten();
        let value = bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        let value = value.map_err(|_| Error::corrupt("the checkpoint of an execution is not JSON"))?;
        shown.checkpoint = Some(Json(value.unwrap_or_default()));
    }
    Ok(shown)
}

pub(super) async fn events(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ListExecutionEvents>,
) -> Result<ExecutionEvents, Refusal> {
    let query = asked.query;
    let meant = Meant::of(&state, &asked.id, query.tenant.as_deref(), query.project.as_deref())?;
    if query.payloads {
        operator.needs(Role::Operate)?;
    }
    let (from, most) = (query.from.unwrap_or(0), events_page(query.limit, limits::PAGE)?);
    let found = meant.executions.read(&meant.id, from, most).await.map_err(told)?;
    let next = found.last().map(|event| event.seq + 1);
    let length = meant.listing().await?.summary.length;
    let claims = meant.executions.claims_of(&meant.id, &found).await.map_err(told)?;
    let one = |event: durable::ExecutionEvent| {
        let payload = event.payload.as_deref().filter(|_| query.payloads).map(json).transpose()?;
        Ok(ExecutionEvent {
            seq: event.seq,
            event_type: event.event_type,
            at: event.timestamp.map(Time::from),
            hash: event.hash,
            erased: event.payload.is_none(),
            operation_id: claims.get(&event.seq).map(|id| (*id).into()),
            payload,
        })
    };
    let events = found.into_iter().map(one).collect::<Result<_, Error>>()?;
    Ok(ExecutionEvents { events, next: next.filter(|next| *next < length) })
}

pub(super) async fn verify(
    state: AdminState,
    _: Operator,
    asked: Asked<op::VerifyExecution>,
) -> Result<Verified, Refusal> {
    let query = asked.query;
    let meant = Meant::of(&state, &asked.id, query.tenant.as_deref(), query.project.as_deref())?;
    let stream = meant.executions.stream(&meant.id).map_err(told)?;
    let most = events_page(query.limit, hapax_api::limits::PAGE_EVENTS)?;
    let checked = verify_page(&state.store, &stream, query.from.unwrap_or(0), most).await;
    let (report, next) = checked.map_err(told)?;
    Ok(Verified {
        events: report.events,
        erased: report.erased,
        hash: report.hash,
        broken: report.broken.map(|broken| BrokenChain { position: broken.position, what: broken.what }),
        next,
    })
}

pub(super) async fn waiting(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ListWaiting>,
) -> Result<WaitingSteps, Refusal> {
    let query = asked.query;
    let meant = Meant::of(&state, &asked.id, query.tenant.as_deref(), query.project.as_deref())?;
    let found = meant.executions.waiting(&meant.id).await.map_err(told)?;
    let tells = operator.needs(Role::Operate).is_ok();
    Ok(WaitingSteps { waiting: found.into_iter().map(|step| waits(&meant.id, step, tells)).collect() })
}

pub(super) async fn all_waiting(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ListAllWaiting>,
) -> Result<AllWaiting, Refusal> {
    let query = asked.query;
    let wanted = Sought {
        tenant: query.tenant.map(Tenant::new).transpose()?,
        project: query.project.as_deref().map(project_of).transpose()?,
        ..Sought::default()
    };
    let most = page_size(query.limit)?;
    let (found, next) = sought(&state.store, &wanted, query.after.as_deref(), most).await.map_err(told)?;
    let (mut all, tells) = (Vec::new(), operator.needs(Role::Operate).is_ok());
    for listing in found {
        let (tenant, project) = (listing.tenant.as_str(), listing.project.as_str());
        let its = of(&state, Some(tenant), Some(project))?;
        let waiting = match its.waiting(&listing.id).await {
            Ok(waiting) => waiting,
            Err(durable::Error::Store(error)) if error.kind() != Kind::Corrupt => return Err(error.into()),
            // One that cannot be read hides no other one.
            Err(error) => {
                let execution = listing.id.as_str();
                tracing::warn!(tenant, project, execution, %error, "an execution's steps cannot be told");
                continue;
            }
        };
        let status: ExecutionStatus =
            listing.summary.status.parse().map_err(|_| Error::corrupt("an execution has no status"))?;
        all.extend(waiting.into_iter().map(|step| WaitingOf {
            execution_id: listing.id.as_str().to_owned(),
            tenant: tenant.to_owned(),
            project: project.to_owned(),
            status,
            step: waits(&listing.id, step, tells),
        }));
    }
    Ok(AllWaiting { waiting: all, next })
}

fn waits(id: &ExecutionId, step: Waiting, tells: bool) -> WaitingStep {
    let Waiting { at, intent, why, epoch, operation_id } = step;
    WaitingStep {
        iteration: at.iteration,
        call: at.call,
        tool: intent.tool,
        args: Some(Json(intent.args)).filter(|_| tells),
        digest: intent.digest,
        epoch: epoch.into(),
        operation_id: operation_id.into(),
        key: tool_key(id, at),
        effect_key: intent.effect_key,
        declaration: match intent.declaration {
            Declaration::Idempotent => Repeatable::Idempotent,
            Declaration::NonIdempotent => Repeatable::NonIdempotent,
            Declaration::Unknown => Repeatable::Unknown,
        },
        why: match &why {
            Waits::InDoubt(_) => WaitsFor::InDoubt,
            Waits::NotKept => WaitsFor::NotKept,
            Waits::KeyTaken => WaitsFor::EffectKeyTaken,
        },
        doubt: match why {
            Waits::InDoubt(doubt) => doubt.map(Into::into),
            Waits::NotKept | Waits::KeyTaken => None,
        },
    }
}

pub(super) async fn decide(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::DecideStep>,
) -> Result<Execution, Refusal> {
    let body = asked.body;
    let meant = Meant::of(&state, &asked.id, Some(&body.tenant), Some(&body.project))?;
    let choice = choice(&body)?;
    let (by, reason) = (actor(&operator.name, body.by.as_deref())?, reason(body.reason)?);
    let decision = Decision {
        at: Coordinates { iteration: body.iteration, call: body.call },
        digest: body.digest,
        epoch: body.epoch.as_str().parse()?,
        choice,
        by: by.clone(),
        reason,
    };
    meant.executions.decide(&meant.id, decision).await.map_err(told)?;
    let (execution, decision) = (meant.id.as_str(), body.decision.as_str());
    tracing::info!(execution, decision, actor = by, "an operator decided about a step");
    meant.shown().await
}

fn choice(body: &DecideStep) -> Result<Choice, Refusal> {
    match (body.decision, &body.result, &body.error, body.force) {
        (StepDecision::Confirm, Some(Json(value)), None, false) => Ok(Choice::Confirm(value.clone())),
        (StepDecision::Rerun, None, None, force) => Ok(Choice::Rerun { force }),
        (StepDecision::Fail, None, Some(error), false) => Ok(Choice::Fail(reason(error.clone())?)),
        _ => Err(Refusal::malformed(
            "`confirm` goes with `result`, `fail` with `error`, `rerun` with or without `force`",
        )),
    }
}

/// An order as it was sent.
struct Ordered {
    order: Order,
    version: u64,
    reason: String,
    by: Option<String>,
}

pub(super) async fn pause(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::PauseExecution>,
) -> Result<Execution, Refusal> {
    plainly(&state, &operator, &asked.id, asked.body, Order::Pause).await
}

pub(super) async fn cancel(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::CancelExecution>,
) -> Result<Execution, Refusal> {
    plainly(&state, &operator, &asked.id, asked.body, Order::Cancel).await
}

async fn plainly(
    state: &AdminState,
    operator: &Operator,
    id: &str,
    body: OrderExecution,
    order: Order,
) -> Result<Execution, Refusal> {
    let OrderExecution { tenant, project, version, reason, by } = body;
    let meant = Meant::of(state, id, Some(&tenant), Some(&project))?;
    carry_out(operator, &meant, Ordered { order, version, reason, by }).await
}

pub(super) async fn resume(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ResumeExecution>,
) -> Result<Execution, Refusal> {
    let ResumeExecution { tenant, project, version, force, reason, by } = asked.body;
    let meant = Meant::of(&state, &asked.id, Some(&tenant), Some(&project))?;
    carry_out(&operator, &meant, Ordered { order: Order::Resume { force }, version, reason, by }).await
}

/// The audit tells of an order first: what cannot be written down is not done.
async fn carry_out(operator: &Operator, meant: &Meant, asked: Ordered) -> Result<Execution, Refusal> {
    let (by, why) = (actor(&operator.name, asked.by.as_deref())?, reason(asked.reason)?);
    let listing = as_seen(meant, asked.version).await?;
    let found = Status::parse(&listing.summary.status);
    if found.is_some_and(Status::is_terminal) {
        return Err(told(durable::Error::Ended));
    }
    let is_paused = found == Some(Status::Paused);
    let verb = match asked.order {
        Order::Pause => "pause",
        Order::Resume { force: false } if listing.lives && !is_paused => {
            let detail = "the lease of its runner lasts: wait until that has gone, or force it";
            return Err(Refusal::Execution(ExecutionConflict::NotApplicable, detail.into()));
        }
        Order::Resume { .. } => "resume",
        Order::Cancel => "cancel",
    };
    if verb == "pause" && is_paused {
        let detail = "the execution is paused already";
        return Err(Refusal::Execution(ExecutionConflict::NotApplicable, detail.into()));
    }
    let note = Told { verb, by: &by, reason: &why };
    meant.executions.write_down(&meant.id, &listing.summary.status, &note).await.map_err(told)?;
    let (execution, actor) = (meant.id.as_str(), &by);
    tracing::info!(verb, actor, reason = why, execution, "an operator ordered");
    let ordered = meant.executions.order(&meant.id, asked.order, asked.version, &why).await;
    ordered.map_err(told)?;
    meant.shown().await
}

/// The execution, if it has the version that was seen.
async fn as_seen(meant: &Meant, version: u64) -> Result<Listing, Refusal> {
    let listing = meant.listing().await?;
    match listing.summary.version {
        found if found == version => Ok(listing),
        found => Err(told(durable::Error::VersionConflict { expected: version, found })),
    }
}

pub(super) async fn archive(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ArchiveExecution>,
) -> Result<ExecutionArchived, Refusal> {
    let OrderExecution { tenant, project, version, reason: why, by } = asked.body;
    let meant = Meant::of(&state, &asked.id, Some(&tenant), Some(&project))?;
    let (by, why) = (actor(&operator.name, by.as_deref())?, reason(why)?);
    let listing = as_seen(&meant, version).await?;
    // Each claim that goes leaves an audit event of its own.
    let archived = meant.executions.archive(&meant.id, &by, &why).await.map_err(told)?;
    tracing::info!(
        execution = meant.id.as_str(),
        purged = archived.purged,
        actor = by,
        "an execution was archived"
    );
    Ok(ExecutionArchived { execution: view(listing)?, purged: archived.purged })
}
