//! From one claim to what belongs to it: claims of the same key, the same request under another key, and what happened to it.

use hapax_api::{
    Found, LookupQuery, Related, Shelves, ShelvesQuery, Timeline, TimelineEvent, TimelineSource,
    operations as op,
};
use hapax_core::{
    Error, Filter, Identity, Inspect as _, Key, ListOrder, Operation, Project, Record, Scope, Source, State,
    Subject, Tenant, Timestamp, Width,
};

use super::access::Operator;
use super::claims::{find, hide_key, page_size};
use super::{AdminState, audit, view};
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::operations::first_name;

/// Every width that an answer can have.
const WIDTHS: [Width; 3] = [Width::Subject, Width::Project, Width::Tenant];

pub(super) async fn shelves(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ListShelves>,
) -> Result<Shelves, Refusal> {
    let ShelvesQuery { tenant, project, limit, after } = asked.query;
    let filter = Filter { tenant, project, ..Filter::default() };
    let page = state.store.shelves(&filter, after.as_deref(), page_size(limit)?).await?;
    let shelf = |shelf: hapax_core::Shelf| hapax_api::Shelf {
        tenant: shelf.tenant,
        project: shelf.project,
        operation: shelf.operation,
        held: shelf.counts.held,
        settled: shelf.counts.settled,
        in_doubt: shelf.counts.in_doubt,
        released: shelf.counts.released,
    };
    Ok(Shelves { shelves: page.items.into_iter().map(shelf).collect(), next: page.next })
}

pub(super) async fn lookup(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::LookupClaims>,
) -> Result<Found, Refusal> {
    let LookupQuery { tenant, project, subject, key, operation } = asked.query;
    let scope = Scope::new(Tenant::new(tenant)?, Project::new(project)?, Subject::parse(&subject)?);
    let operations = match operation {
        Some(name) => vec![first_name(&state.store, &name).await?],
        None => operations_of(&state, &scope).await?,
    };
    let (found, looked_at) = at(&state, &scope, &Key::new(key)?, &operations).await?;
    let mut claims: Vec<_> =
        found.iter().map(|record| view::claim_with_status(record, &state.answers)).collect();
    claims.iter_mut().for_each(|claim| hide_key(claim, operator.role));
    Ok(Found { claims, looked_at })
}

/// The operations that a project has claims on, those among them whose answers all projects of its tenant share.
async fn operations_of(state: &AdminState, scope: &Scope) -> Result<Vec<String>, Refusal> {
    let tenant = Filter { tenant: Some(scope.tenant().as_str().to_owned()), ..Filter::default() };
    let most = limits::LOOKUP_READS / (Source::ALL.len() * WIDTHS.len());
    let page = state.store.shelves(&tenant, None, most).await?;
    if page.next.is_some() {
        return Err(Refusal::malformed("this tenant has claims on too many operations: name the operation"));
    }
    let mut operations: Vec<_> = page.items.into_iter().map(|shelf| shelf.operation).collect();
    operations.sort_unstable();
    operations.dedup();
    Ok(operations)
}

/// The claims of this key on these operations, each found by its own digest.
async fn at(
    state: &AdminState,
    scope: &Scope,
    key: &Key,
    operations: &[String],
) -> Result<(Vec<Record>, usize), Error> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    for operation in operations {
        let operation = Operation::new(operation)?;
        for source in Source::ALL {
            for width in WIDTHS {
                let identity = Identity::new(source, scope.clone(), width, operation.clone(), key.clone());
                looked_at += 1;
                found.extend(state.store.record(identity.claim_id()).await?);
            }
        }
    }
    Ok((found, looked_at))
}

pub(super) async fn related(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::RelateClaim>,
) -> Result<Related, Refusal> {
    let record = find(&state, &asked.id).await?;
    let scope = record.identity.scope().clone();
    let operations = operations_of(&state, &scope).await.unwrap_or_default();
    let (same_key, mut looked_at) = at(&state, &scope, record.identity.key(), &operations).await?;
    let same_request = same_request(&state, &record, &mut looked_at).await?;
    let others = |found: Vec<Record>| {
        let others = found.iter().filter(|other| other.claim.operation_id != record.claim.operation_id);
        let mut claims: Vec<_> =
            others.map(|record| view::claim_with_status(record, &state.answers)).collect();
        claims.iter_mut().for_each(|claim| hide_key(claim, operator.role));
        claims
    };
    Ok(Related { same_key: others(same_key), same_request: others(same_request), looked_at })
}

/// Claims of the same shelf with the same request, opened at most so long before or after.
async fn same_request(
    state: &AdminState,
    record: &Record,
    looked_at: &mut usize,
) -> Result<Vec<Record>, Error> {
    let parts = record.identity.scope().narrowed(record.identity.width());
    let (opened, mut found) = (record.claim.opened_at, Vec::new());
    let filter = Filter {
        tenant: Some(parts.tenant().to_owned()),
        project: Some(parts.project().to_owned()),
        operation: Some(record.identity.operation().as_str().to_owned()),
        opened_before: Some(opened.after(limits::RELATED_WITHIN)),
        order: ListOrder::Newest,
        ..Filter::default()
    };
    let (from, mut after, mut scanned) = (opened.before(limits::RELATED_WITHIN), None::<String>, 0);
    loop {
        let page = state.store.list(&filter, after.as_deref(), hapax_core::limits::MAX_PAGE).await?;
        scanned += page.looked_at;
        let over = page.items.last().is_some_and(|last| last.claim.opened_at < from);
        let same = |other: &Record| {
            other.claim.fingerprint == record.claim.fingerprint && other.claim.opened_at >= from
        };
        found.extend(page.items.into_iter().filter(same));
        after = page.next;
        if over || after.is_none() || scanned >= limits::RELATED_SCAN {
            *looked_at += scanned;
            return Ok(found);
        }
    }
}

pub(super) async fn timeline(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ClaimTimeline>,
) -> Result<Timeline, Refusal> {
    let record = find(&state, &asked.id).await?;
    let mut events = of_ledger(&record, view::status(&record, &state.answers));
    for event in audit::about(&state, record.claim.operation_id).await? {
        let told = view::event(&event);
        let outcome = told.refused.as_ref().map(|code| format!(", refused: {code}")).unwrap_or_default();
        events.push(TimelineEvent {
            at: told.at,
            source: TimelineSource::Audit,
            text: format!("{}{outcome}", told.verb),
            kind: told.verb,
            more: Some(told.reason).filter(|reason| !reason.is_empty()),
            actor: Some(told.actor).filter(|actor| !actor.is_empty()),
        });
    }
    events.sort_by(|one, other| one.at.cmp(&other.at));
    Ok(Timeline { events, seen_since: None })
}

/// What the claim itself says.
fn of_ledger(record: &Record, status: Option<u16>) -> Vec<TimelineEvent> {
    let claim = &record.claim;
    let event = |at: Timestamp, kind: &str, text: String, more: Option<String>| TimelineEvent {
        at: view::time(at),
        source: TimelineSource::Ledger,
        kind: kind.to_owned(),
        text,
        more,
        actor: None,
    };
    let epoch = Some(format!("epoch {}", claim.epoch));
    let mut events = vec![event(claim.opened_at, "held", "First granted".into(), None)];
    if claim.granted_at != claim.opened_at {
        events.push(event(claim.granted_at, "held", "Granted again".into(), epoch));
    }
    match &claim.state {
        State::Held { .. } => {}
        State::Settled { settled_at, by, .. } => {
            let by = hapax_api::SettledBy::from(*by);
            let status = status.map(|status| format!(": {status}")).unwrap_or_default();
            events.push(event(*settled_at, "settled", format!("Settled by the {by}{status}"), None));
        }
        State::InDoubt { reason, since, asked_at } => {
            let (reason, cause) =
                (hapax_api::DoubtReason::from(*reason), claim.cause.as_ref().map(ToString::to_string));
            events.push(event(*since, "in_doubt", format!("In doubt: {reason}"), cause));
            events.extend(asked_at.map(|at| event(at, "in_doubt", "The service was asked".into(), None)));
        }
        State::Released { since, ran } => {
            let ran = match hapax_api::Ran::from(*ran) {
                hapax_api::Ran::No => "the work did not run",
                hapax_api::Ran::Waived => "the work may have run; it was let run again",
                hapax_api::Ran::Perhaps => "the work may have run",
            };
            let text = "Released: the next request runs".to_owned();
            events.push(event(*since, "released", text, Some(ran.to_owned())));
        }
    }
    events
}
