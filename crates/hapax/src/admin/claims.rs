//! Looking at claims: list, show, count (L17).
//!
//! The questions are the same over HTTP and for `hapax claims --store`, so what answers them takes any store that can be
//! inspected.

use hapax_api::{Claim, Claims, ClaimsQuery, Counts, CountsQuery, Role, operations as op};
use hapax_core::limits::MAX_PAGE;
use hapax_core::{
    Error, Filter, Inspect, Operation, OperationId, Project, Record, Registry, Subject, Tenant,
};

use super::access::Operator;
use super::{AdminState, view};
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::operations::first_name;
use crate::when::{now, parse_span, parse_utc};

fn filter(query: &ClaimsQuery) -> Result<Filter, Error> {
    let opened_before = match (&query.opened_before, &query.age) {
        (Some(_), Some(_)) => return Err(Error::invalid("say opened_before or age, not both")),
        (Some(time), None) => Some(parse_utc(time.as_str())?),
        (None, Some(age)) => Some(before(parse_span(age)?)),
        (None, None) => None,
    };
    check_names(query)?;
    Ok(Filter {
        tenant: query.tenant.clone(),
        project: query.project.clone(),
        subject: query.subject.clone(),
        operation: query.operation.clone(),
        key: query.key.clone(),
        state: query.state.map(Into::into),
        opened_before,
    })
}

/// A slip of the pen must not look like a tenant or a subject for whom there are no claims.
fn check_names(query: &ClaimsQuery) -> Result<(), Error> {
    // What a claim has in the place of a project or subject that does not count for it.
    let stands_for = |text: &str| ["_any", "_tenant", "_platform"].contains(&text);
    if let Some(tenant) = &query.tenant {
        Tenant::new(tenant)?;
    }
    if let Some(project) = query.project.as_deref().filter(|project| !stands_for(project)) {
        Project::new(project)?;
    }
    if let Some(subject) = query.subject.as_deref().filter(|subject| !stands_for(subject)) {
        let form = "a subject is written as user:ID, service:ID, tenant_member:ID or client:ID";
        Subject::parse(subject).map_err(|error| Error::invalid(form).with_detail(error))?;
    }
    if let Some(operation) = &query.operation {
        Operation::new(operation)?;
    }
    Ok(())
}

fn before(age: std::time::Duration) -> hapax_core::Timestamp {
    let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    hapax_core::Timestamp::from_micros(now().as_micros().saturating_sub(micros))
}

/// Checks the size of a page.
pub(super) fn page_size(limit: Option<usize>) -> Result<usize, Error> {
    match limit.unwrap_or(limits::PAGE) {
        limit @ 1..=MAX_PAGE => Ok(limit),
        _ => Err(Error::invalid("a page has 1 to 1000 records")),
    }
}

/// Claims are kept under the first name of their operation; they are found by every name that it had (K6).
async fn by_first_name(store: &impl Registry, mut filter: Filter) -> Result<Filter, Error> {
    if let Some(name) = &filter.operation {
        filter.operation = Some(first_name(store, name).await?);
    }
    Ok(filter)
}

/// One page of claims.
pub(crate) async fn list(store: &(impl Inspect + Registry), query: &ClaimsQuery) -> Result<Claims, Error> {
    let filter = by_first_name(store, filter(query)?).await?;
    let page = store.list(&filter, query.after.as_deref(), page_size(query.limit)?).await?;
    let damaged = view::damaged(&page.damaged);
    Ok(Claims { claims: page.items.iter().map(view::claim).collect(), next: page.next, damaged })
}

/// How many claims there are in each state.
pub(crate) async fn count(store: &(impl Inspect + Registry), query: &CountsQuery) -> Result<Counts, Error> {
    let CountsQuery { tenant, project, operation } = query.clone();
    let filter = filter(&ClaimsQuery { tenant, project, operation, ..ClaimsQuery::default() })?;
    let filter = by_first_name(store, filter).await?;
    Ok(view::counts(&store.count(&filter).await?))
}

/// One claim; `None` where it is absent.
pub(crate) async fn show(store: &impl Inspect, id: OperationId) -> Result<Option<Claim>, Error> {
    Ok(store.find(id).await?.as_ref().map(view::claim))
}

pub(super) async fn get_list(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ListClaims>,
) -> Result<Claims, Refusal> {
    Ok(list(&state.store, &asked.query).await?)
}

pub(super) async fn get_count(
    state: AdminState,
    _: Operator,
    asked: Asked<op::CountClaims>,
) -> Result<Counts, Refusal> {
    Ok(count(&state.store, &asked.query).await?)
}

pub(super) async fn get_one(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ShowClaim>,
) -> Result<Claim, Refusal> {
    if asked.query.outcome {
        // What a customer was answered is more than what an operator needs in order to look around.
        operator.needs(Role::Operate)?;
    }
    let record = find(&state, &asked.id).await?;
    Ok(match asked.query.outcome {
        true => view::claim_with_outcome(&record, &state.answers),
        false => view::claim(&record),
    })
}

/// The claim of an operation id.
pub(super) async fn find(state: &AdminState, id: &str) -> Result<Record, Refusal> {
    let id: OperationId = id.parse()?;
    state.store.find(id).await?.ok_or_else(|| {
        Refusal::not_found(format!(
            "there is no claim {id}: it never was, is past its retention, or was purged"
        ))
    })
}
