//! Looking at claims: list, show, count (L17).
//!
//! The questions are the same over HTTP and for `hapax claims --store`, so what answers them takes any store that can be
//! inspected.

use hapax_api::{
    Claim, ClaimOrder, Claims, ClaimsQuery, Counts, CountsQuery, DoubtReason, OutcomeKind, Role,
    operations as op,
};
use hapax_core::limits::MAX_PAGE;
use hapax_core::{
    Error, Filter, Inspect, ListOrder, Operation, OperationId, Outcome, Project, Record, Registry, State,
    Subject, Tenant,
};

use super::access::Operator;
use super::{AdminState, instances, newest, view};
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::{ListenerCode, Refusal};
use crate::node::KeptAnswers;
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
        order: ListOrder::Oldest,
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
    if let Some(tenant) = &query.tenant {
        Tenant::new(tenant)?;
    }
    check_scope(query.project.as_deref(), query.subject.as_deref())?;
    if let Some(operation) = &query.operation {
        Operation::new(operation)?;
    }
    Ok(())
}

/// The same of a project and a subject as claims have them.
pub(super) fn check_scope(project: Option<&str>, subject: Option<&str>) -> Result<(), Error> {
    // What a claim has in the place of a project or subject that does not count for it.
    let stands_for = |text: &str| ["_any", "_tenant", "_platform"].contains(&text);
    if let Some(project) = project.filter(|project| !stands_for(project)) {
        Project::new(project)?;
    }
    if let Some(subject) = subject.filter(|subject| !stands_for(subject)) {
        let form = "a subject is written as user:ID, service:ID, tenant_member:ID or client:ID";
        Subject::parse(subject).map_err(|error| Error::invalid(form).with_detail(error))?;
    }
    Ok(())
}

pub(super) fn before(age: std::time::Duration) -> hapax_core::Timestamp {
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
pub(crate) async fn list(
    store: &(impl Inspect + Registry),
    query: &ClaimsQuery,
    answers: &KeptAnswers,
) -> Result<Claims, Error> {
    let (filter, limit) = (by_first_name(store, filter(query)?).await?, page_size(query.limit)?);
    let opened_after = query.opened_after.as_ref().map(|time| parse_utc(time.as_str())).transpose()?;
    let fits = |record: &Record| {
        opened_after.is_none_or(|after| record.claim.opened_at >= after) && has_become(record, query)
    };
    let mut page = match query.order {
        Some(ClaimOrder::Newest) => newest::list(store, query, &filter, limit, fits, opened_after).await?,
        Some(ClaimOrder::Oldest) | None => store.list(&filter, query.after.as_deref(), limit).await?,
    };
    page.items.retain(fits);
    let damaged = view::damaged(&page.damaged);
    let claims = page.items.iter().map(|record| view::claim_with_status(record, answers)).collect();
    Ok(Claims { claims, next: page.next, damaged, looked_at: page.looked_at })
}

/// Whether the claim is in doubt for the reason, or has the kind of outcome, that is asked for.
fn has_become(record: &Record, query: &ClaimsQuery) -> bool {
    let (mut doubt, mut kind) = (None, None);
    match &record.claim.state {
        State::InDoubt { reason, .. } => doubt = Some(DoubtReason::from(*reason)),
        State::Settled { outcome, .. } => {
            kind = Some(match outcome {
                Outcome::Succeeded(_) => OutcomeKind::Succeeded,
                Outcome::Refused(_) => OutcomeKind::Refused,
                Outcome::NotKept { .. } => OutcomeKind::NotKept,
                Outcome::Erased => OutcomeKind::Erased,
            });
        }
        _ => {}
    }
    query.doubt.is_none_or(|wanted| doubt == Some(wanted))
        && query.outcome.is_none_or(|wanted| kind == Some(wanted))
}

/// How many claims there are in each state.
pub(crate) async fn count(store: &(impl Inspect + Registry), query: &CountsQuery) -> Result<Counts, Error> {
    let CountsQuery { tenant, project, operation } = query.clone();
    let filter = filter(&ClaimsQuery { tenant, project, operation, ..ClaimsQuery::default() })?;
    let filter = by_first_name(store, filter).await?;
    Ok(view::counts(&store.count(&filter).await?))
}

/// One claim; `None` where it is absent.
pub(crate) async fn show(
    store: &impl Inspect,
    id: OperationId,
    answers: &KeptAnswers,
) -> Result<Option<Claim>, Error> {
    Ok(store.find(id).await?.as_ref().map(|record| view::claim_with_status(record, answers)))
}

pub(super) async fn get_list(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ListClaims>,
) -> Result<Claims, Refusal> {
    let listed = list(&state.store, &asked.query, &state.answers).await;
    let mut claims = listed.map_err(|error| match newest::has_too_many(&error) {
        true => Refusal::listener(ListenerCode::TooManyShelves, error.message(), None),
        false => error.into(),
    })?;
    claims.claims.iter_mut().for_each(|claim| hide_key(claim, operator.role));
    Ok(claims)
}

/// On a public route a caller who knows a key gets its answer (A2), and an answer is more than this role may see.
pub(super) fn hide_key(claim: &mut Claim, role: Role) {
    if role < Role::Operate && claim.subject == Subject::anonymous().as_str() {
        claim.key = HIDDEN.into();
        claim.upstream_key = None;
    }
}

/// What stands in the place of a key that is not shown. No key looks like it.
const HIDDEN: &str = "(not shown)";

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
    let mut claim = match asked.query.outcome {
        true => view::claim_with_outcome(&record, &state.answers),
        false => view::claim_with_status(&record, &state.answers),
    };
    instances::tell(&state, &record, &mut claim).await;
    hide_key(&mut claim, operator.role);
    Ok(claim)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_who_only_looks_does_not_see_the_key_of_a_public_route_a2() {
        let claim = |subject: &str| -> Claim {
            let json = serde_json::json!({
                "operation_id": "op_a7c1f4a9e6790c96f8d1c8f3e3f63f3c", "tenant": "a", "project": "b", "subject": subject, "operation": "o",
                "key": "k", "source": "header", "scope": "subject", "epoch": "1.1", "operation_epoch": "1",
                "fingerprint": {"recipe": "0", "digest": "0"}, "rerun": "unsafe", "opened_at": "2026-11-15T22:52:49Z",
                "granted_at": "2026-11-15T22:52:49Z", "state": "held",
            });
            serde_json::from_value(json).unwrap()
        };
        for (subject, role, shown) in [
            ("client:anonymous", Role::Read, HIDDEN),
            ("client:anonymous", Role::Operate, "k"),
            ("user:alice", Role::Read, "k"),
        ] {
            let mut claim = claim(subject);
            hide_key(&mut claim, role);
            assert_eq!(claim.key, shown, "{subject}");
        }
    }
}
