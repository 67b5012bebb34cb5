//! Actions of agents: their receipts, lanes, alerts, and decisions about those of unknown fate (X, L8).

use hapax_agent::actions::alerts::{self, Raised};
use hapax_agent::actions::approvals::{self, Choice, Decision, InDoubt};
use hapax_agent::actions::{read, receipts};
use hapax_agent::durable::{self, verify_page};
use hapax_api::{
    ActionDecision, Alert, Alerts, Approval, Approvals, BrokenChain, Decided, Done, Json, Lane, LaneClaim,
    LaneTicket, LaneTool, Lanes as LanePage, Receipt, Receipts, ReceiptsHead, ReceiptsVerified, Role,
    operations as op,
};
use hapax_core::lane::{LaneId, LaneView, Ticket};
use hapax_core::{
    ClaimId, Error, Inspect as _, Journal as _, Lanes as _, Operated, OperationId, Project, Record, Tenant,
};
use serde_json::value::RawValue;

use super::AdminState;
use super::access::Operator;
use super::claims::{find, page_size};
use super::decide::{actor, done_or_not, reason};
use super::view::moment;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::parse_utc;

fn operation_id(text: Option<&str>) -> Option<hapax_api::OperationId> {
    text.and_then(|text| text.parse::<OperationId>().ok()).map(Into::into)
}

pub(super) async fn list_receipts(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ListReceipts>,
) -> Result<Receipts, Refusal> {
    let query = asked.query;
    let Some(tenant) = query.tenant else {
        return Err(Refusal::malformed("say `tenant`: each has receipts of its own"));
    };
    let time = |text: Option<String>| text.as_deref().map(parse_utc).transpose();
    let sought = read::Sought {
        project: query.project,
        entity: query.entity,
        key: query.key,
        decision: query.decision.map(|decision| decision.as_str().to_owned()),
        since: time(query.since)?,
        until: time(query.until)?,
    };
    let (tenant, most) = (Tenant::new(tenant)?, page_size(query.limit)?);
    let page = read::read(&state.store, state.answers.seal(), &tenant, &sought, query.after, most).await?;
    let told = |read| {
        let receipt = receipt(read);
        Receipt { args: shown_to(&operator, receipt.args), ..receipt }
    };
    Ok(Receipts {
        receipts: page.receipts.into_iter().map(told).collect(),
        next: page.next,
        looked_at: page.looked_at,
    })
}

/// Arguments are told to those who may decide: as with kept bodies, they are the callers' own data.
fn shown_to(operator: &Operator, args: Option<Json>) -> Option<Json> {
    args.filter(|_| operator.needs(Role::Operate).is_ok())
}

fn receipt(read: read::Read) -> Receipt {
    let said = read.receipt.unwrap_or_default();
    let decision: Option<ActionDecision> = said.decision.parse().ok();
    Receipt {
        seq: read.seq,
        at: moment(read.at),
        // What a person says is in place, is.
        ok: said.ok || decision == Some(ActionDecision::Confirm),
        decision,
        rule: said.rule,
        project: said.project,
        connector: said.connector,
        tool: said.tool,
        entity_key: said.entity_key,
        key: said.idempotency_key,
        args_digest: said.args_digest,
        args: said.args.map(Json),
        error: said.error,
        code: said.code,
        operation_id: operation_id(said.operation_id.as_deref()),
        by: said.by,
        reason: said.reason,
        hash: read.hash,
    }
}

fn no_receipts() -> Refusal {
    Refusal::not_found("there are no receipts of this tenant")
}

pub(super) async fn receipts_head(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ReceiptsHead>,
) -> Result<ReceiptsHead, Refusal> {
    let tenant = Tenant::new(&*asked.id)?;
    let head = state.store.head(&receipts::stream(&tenant)?).await?.ok_or_else(no_receipts)?;
    Ok(ReceiptsHead {
        tenant: tenant.as_str().to_owned(),
        receipts: head.length,
        hash: head.hash.map(|hash| hash.to_hex()),
        schema_version: head.chain.version(),
        updated_at: moment(head.updated_at),
    })
}

pub(super) async fn verify_receipts(
    state: AdminState,
    _: Operator,
    asked: Asked<op::VerifyReceipts>,
) -> Result<ReceiptsVerified, Refusal> {
    let stream = receipts::stream(&Tenant::new(&*asked.id)?)?;
    let most = match asked.query.limit.unwrap_or(hapax_api::limits::PAGE_EVENTS) {
        limit @ 1..=hapax_api::limits::PAGE_EVENTS => limit,
        _ => return Err(Error::invalid("a page has 1 to 256 receipts").into()),
    };
    let checked = verify_page(&state.store, &stream, asked.query.from.unwrap_or(0), most).await;
    let (report, next) = checked.map_err(|error| match error {
        durable::Error::NotFound => no_receipts(),
        durable::Error::Store(error) => error.into(),
        other => Error::internal(other.to_string()).into(),
    })?;
    Ok(ReceiptsVerified {
        receipts: report.events,
        erased: report.erased,
        hash: report.hash,
        broken: report.broken.map(|broken| BrokenChain { position: broken.position, what: broken.what }),
        next,
    })
}

pub(super) async fn list_lanes(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ListLanes>,
) -> Result<LanePage, Refusal> {
    let query = asked.query;
    let (tenant, project) =
        (query.tenant.map(Tenant::new).transpose()?, query.project.map(Project::new).transpose()?);
    let most = page_size(query.limit)?;
    if let Some(entity) = query.entity {
        let (Some(tenant), Some(project)) = (tenant, project) else {
            return Err(Refusal::malformed("say `tenant` and `project`: an entity counts within them"));
        };
        let id = LaneId { tenant, project, entity };
        let view = state.store.look(&id).await?;
        let lanes = lane(&state, &id, view, true).await?;
        return Ok(LanePage { lanes: lanes.into_iter().collect(), next: None });
    }
    let page = state.store.lanes(query.after.as_deref(), most).await?;
    let mut lanes = Vec::new();
    for id in page.items {
        let is_meant = tenant.as_ref().is_none_or(|tenant| *tenant == id.tenant)
            && project.as_ref().is_none_or(|project| *project == id.project);
        if is_meant {
            let view = state.store.look(&id).await?;
            lanes.extend(lane(&state, &id, view, query.idle).await?);
        }
    }
    Ok(LanePage { lanes, next: page.next })
}

/// A lane; `None` where nothing happens in it and that is not asked for.
async fn lane(state: &AdminState, id: &LaneId, view: LaneView, idle: bool) -> Result<Option<Lane>, Error> {
    let served = view.served().copied();
    if !idle && view.lane.tickets.is_empty() && view.lane.closed_by.is_none() {
        return Ok(None);
    }
    let closed_by = match view.lane.closed_by {
        Some(claim) => lane_claim(state, claim).await?,
        None => None,
    };
    let tool = |kept: &hapax_core::lane::RecentTool| LaneTool {
        tool: kept.name.clone(),
        count: kept.times.len(),
        last: kept.times.last().copied().and_then(moment),
    };
    Ok(Some(Lane {
        tenant: id.tenant.as_str().to_owned(),
        project: id.project.as_str().to_owned(),
        entity_key: id.entity.clone(),
        waiting: view.lane.tickets.len() - usize::from(served.is_some()),
        served: match served {
            Some(ticket) => Some(lane_ticket(state, ticket).await?),
            None => None,
        },
        closed_by,
        recent: view.lane.recent.tools().iter().map(tool).collect(),
    }))
}

async fn lane_ticket(state: &AdminState, ticket: Ticket) -> Result<LaneTicket, Error> {
    let claim = match ticket.claim {
        Some(claim) => lane_claim(state, claim).await?,
        None => None,
    };
    Ok(LaneTicket { claim, begun: ticket.begun, until: moment(ticket.until) })
}

async fn lane_claim(state: &AdminState, claim: ClaimId) -> Result<Option<LaneClaim>, Error> {
    let record = state.store.record(claim).await?;
    Ok(record.map(|record| LaneClaim {
        operation_id: record.claim.operation_id.into(),
        key: record.identity.key().as_str().to_owned(),
        state: record.claim.state.name().into(),
    }))
}

pub(super) async fn list_approvals(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ListApprovals>,
) -> Result<Approvals, Refusal> {
    let query = asked.query;
    let tenant = query.tenant.map(Tenant::new).transpose()?;
    let project = query.project.map(Project::new).transpose()?;
    let (tenant, project) = (tenant.as_ref().map(Tenant::as_str), project.as_ref().map(Project::as_str));
    let most = page_size(query.limit)?;
    let (found, next) =
        approvals::waiting(&state.store, tenant, project, query.after.as_deref(), most).await?;
    Ok(Approvals { approvals: found.into_iter().map(approval).collect(), next })
}

fn approval(waits: InDoubt) -> Approval {
    let InDoubt { operation_id, tenant, project, key, digest, epoch, since, reason, cause, place, .. } =
        waits;
    let (entity_key, tool) = place.map_or((None, None), |place| (Some(place.entity_key), place.tool));
    Approval {
        operation_id: operation_id.into(),
        tenant,
        project,
        key,
        digest,
        epoch: epoch.into(),
        since: moment(since),
        doubt: reason.into(),
        entity_key,
        tool,
        cause,
    }
}

/// The claim of an action.
async fn action(state: &AdminState, id: &str) -> Result<Record, Refusal> {
    let record = find(state, id).await?;
    match approvals::is_action(&record) {
        true => Ok(record),
        false => Err(Refusal::not_found("this operation is no action of an agent: see `hapax claims`")),
    }
}

pub(super) async fn show_approval(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ShowApproval>,
) -> Result<Approval, Refusal> {
    let record = action(&state, &asked.id).await?;
    let waits = approvals::shown(&state.store, &record).await?;
    waits.map(approval).ok_or_else(|| {
        let state = record.claim.state.name().as_str();
        Refusal::not_found(format!("this action waits for nobody: its claim is {state}"))
    })
}

pub(super) async fn confirm(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ConfirmAction>,
) -> Result<Decided, Refusal> {
    let body = asked.body;
    let result = body.result.map(|result| RawValue::from_string(result.0.to_string())).transpose();
    let result = result.map_err(|error| Refusal::malformed(error.to_string()))?;
    let decision = Decision {
        digest: body.digest,
        epoch: body.epoch.as_str().parse()?,
        choice: Choice::Confirm(result),
        by: actor(&operator.name, body.by.as_deref())?,
        reason: reason(body.reason)?,
    };
    decided(&state, &asked.id, decision, Done::Settle).await
}

pub(super) async fn release(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ReleaseAction>,
) -> Result<Decided, Refusal> {
    let body = asked.body;
    let decision = Decision {
        digest: body.digest,
        epoch: body.epoch.as_str().parse()?,
        choice: Choice::Release { force: body.force },
        by: actor(&operator.name, body.by.as_deref())?,
        reason: reason(body.reason)?,
    };
    decided(&state, &asked.id, decision, Done::Release).await
}

async fn decided(state: &AdminState, id: &str, decision: Decision, done: Done) -> Result<Decided, Refusal> {
    let record = action(state, id).await?;
    let seen = decision.epoch;
    let actor = decision.by.clone();
    let operated = match approvals::decide(&state.store, state.answers.seal(), &record, decision).await? {
        // What was decided meanwhile is told as that, whatever the claim is by now.
        Operated::NotApplicable(_) if record.claim.epoch != seen => {
            Operated::Changed { epoch: record.claim.epoch }
        }
        operated => operated,
    };
    done_or_not(state, &record, operated, done, &actor).await
}

pub(super) async fn list_alerts(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ListAlerts>,
) -> Result<Alerts, Refusal> {
    let query = asked.query;
    let tenant = query.tenant.map(Tenant::new).transpose()?;
    let (tenant, most) = (tenant.as_ref().map(Tenant::as_str), page_size(query.limit)?);
    let seal = state.answers.seal();
    let (found, next) = alerts::list(&state.store, seal, tenant, query.after.as_deref(), most).await?;
    let told = |raised| {
        let alert = alert(raised);
        Alert { args: shown_to(&operator, alert.args), ..alert }
    };
    Ok(Alerts { alerts: found.into_iter().map(told).collect(), next })
}

fn alert(raised: Raised) -> Alert {
    let (id, at) = (raised.id.into(), moment(raised.at));
    let Some(said) = raised.alert else {
        return Alert {
            id,
            at,
            tenant: String::new(),
            project: String::new(),
            connector: String::new(),
            tool: String::new(),
            entity_key: String::new(),
            key: None,
            args_digest: String::new(),
            args: None,
            rule: None,
            operation_id: None,
        };
    };
    Alert {
        id,
        at,
        tenant: said.tenant,
        project: said.project,
        connector: said.connector,
        tool: said.tool,
        entity_key: said.entity_key,
        key: said.idempotency_key,
        args_digest: said.args_digest,
        args: said.args.and_then(|args| serde_json::from_str(args.get()).ok()).map(Json),
        rule: said.rule,
        operation_id: operation_id(Some(&said.operation_id)),
    }
}

pub(super) async fn acknowledge(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::AcknowledgeAlert>,
) -> Result<Alert, Refusal> {
    let (by, reason) = (actor(&operator.name, asked.body.by.as_deref())?, reason(asked.body.reason)?);
    let seen = alerts::acknowledge(&state.store, state.answers.seal(), &asked.id, &by, &reason).await?;
    let seen =
        seen.ok_or_else(|| Refusal::not_found("there is no such alert, or somebody has acknowledged it"))?;
    tracing::info!(alert = seen.id, actor = by, "an operator acknowledged an alert");
    Ok(alert(seen))
}
