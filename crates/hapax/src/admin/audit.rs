//! What operators did: `GET /v1/audit`, newest first (M4), and what they note about claims.

use std::collections::HashMap;

use hapax_api::{Audit, AuditQuery, Claim, operations as op};
use hapax_core::claim::audit::{AuditEvent, Note};
use hapax_core::limits::MAX_PAGE;
use hapax_core::{Error, Inspect as _, OperationId, Timestamp};

use super::access::Operator;
use super::claims::{find, hide_key, page_size};
use super::decide::{actor, reason};
use super::gate::{REFUSED, claim_as_it_is};
use super::{AdminState, view};
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::parse_utc;

/// Which entries are meant.
struct Wanted {
    operation: Option<OperationId>,
    actor: Option<String>,
    verb: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Wanted {
    fn of(query: &AuditQuery) -> Result<Wanted, Error> {
        let time =
            |time: &Option<hapax_api::Time>| time.as_ref().map(|time| parse_utc(time.as_str())).transpose();
        Ok(Wanted {
            operation: query.operation_id.as_ref().map(|id| id.as_str().parse()).transpose()?,
            actor: query.actor.clone(),
            verb: query.verb.clone(),
            since: time(&query.since)?,
            until: time(&query.until)?,
        })
    }

    fn means(&self, event: &AuditEvent) -> bool {
        let verb = event.verb.split_once(REFUSED).map_or(event.verb.as_str(), |(verb, _)| verb);
        let by = |wanted: &String| {
            event.actor == *wanted
                || event.actor.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        self.operation.is_none_or(|wanted| event.operation_id() == Some(wanted))
            && self.actor.as_ref().is_none_or(by)
            && self.verb.as_ref().is_none_or(|wanted| verb == wanted)
            && self.since.is_none_or(|since| event.at >= since)
            && self.until.is_none_or(|until| event.at < until)
    }

    fn is_all(&self) -> bool {
        let Wanted { operation, actor, verb, since, until } = self;
        operation.is_none() && actor.is_none() && verb.is_none() && since.is_none() && until.is_none()
    }
}

pub(super) async fn get(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::Audit>,
) -> Result<Audit, Refusal> {
    let (limit, wanted) = (page_size(asked.query.limit)?, Wanted::of(&asked.query)?);
    let (found, next) = search(&state, &wanted, asked.query.after, limit).await?;
    let mut audit = Audit { events: found.iter().map(view::event).collect(), next };
    name_claims(&state, &operator, &mut audit).await?;
    Ok(audit)
}

/// Entries that are meant, up to a bound of those that are looked at. A page may be empty and still have a next one.
async fn search(
    state: &AdminState,
    wanted: &Wanted,
    mut after: Option<String>,
    limit: usize,
) -> Result<(Vec<AuditEvent>, Option<String>), Error> {
    if wanted.is_all() {
        let page = state.store.audit(after.as_deref(), limit).await?;
        return Ok((page.items, page.next));
    }
    let mut found = Vec::new();
    for _ in 0..limits::AUDIT_PAGES {
        // No more than still fit, so that a page's mark is that of its last entry.
        let page = state.store.audit(after.as_deref(), (limit - found.len()).clamp(1, MAX_PAGE)).await?;
        let past = wanted.since.is_some_and(|since| page.items.last().is_some_and(|last| last.at < since));
        found.extend(page.items.into_iter().filter(|event| wanted.means(event)));
        after = page.next.filter(|_| !past);
        if after.is_none() || found.len() >= limit {
            break;
        }
    }
    Ok((found, after))
}

/// Everything that is known about one operation, as far back as is looked.
pub(super) async fn about(state: &AdminState, operation: OperationId) -> Result<Vec<AuditEvent>, Error> {
    let wanted = Wanted { operation: Some(operation), actor: None, verb: None, since: None, until: None };
    Ok(search(state, &wanted, None, MAX_PAGE).await?.0)
}

/// Adds key and tenant of the claims that are still there.
async fn name_claims(state: &AdminState, operator: &Operator, audit: &mut Audit) -> Result<(), Error> {
    let mut known: HashMap<String, Option<Claim>> = HashMap::new();
    for event in &mut audit.events {
        let Some(id) = event.operation_id.as_ref().map(|id| id.as_str().to_owned()) else { continue };
        if !known.contains_key(&id) && known.len() < limits::AUDIT_CLAIMS {
            let found = match id.parse() {
                Ok(operation) => state.store.find(operation).await?,
                Err(_) => None,
            };
            let claim = found.as_ref().map(|record| {
                let mut claim = view::claim(record);
                hide_key(&mut claim, operator.role);
                claim
            });
            known.insert(id.clone(), claim);
        }
        if let Some(Some(claim)) = known.get(&id) {
            (event.key, event.tenant) = (Some(claim.key.clone()), Some(claim.tenant.clone()));
        }
    }
    Ok(())
}

pub(super) async fn note(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::NoteClaim>,
) -> Result<Claim, Refusal> {
    let (actor, reason) = (actor(&operator.name, asked.body.by.as_deref())?, reason(asked.body.reason)?);
    let record = find(&state, &asked.id).await?;
    let note = Note { verb: "note".into(), actor, reason, about: claim_as_it_is(&record.claim) };
    state.store.note(note).await?;
    Ok(view::claim(&record))
}
