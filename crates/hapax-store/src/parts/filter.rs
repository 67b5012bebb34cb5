//! Which records a filter means, for stores that look at records one by one.

use hapax_core::{Claim, Counts, Error, Filter, Identity, ListOrder, Record, StateName};

/// Whether a record is meant.
pub fn matches(filter: &Filter, record: &Record) -> bool {
    is_meant(filter, &record.identity, &record.claim)
}

/// Whether this claim of this identity is meant.
pub fn is_meant(filter: &Filter, identity: &Identity, claim: &Claim) -> bool {
    let parts = identity.scope().narrowed(identity.width());
    let same = |asked: &Option<String>, found: &str| asked.as_deref().is_none_or(|asked| asked == found);
    same(&filter.tenant, parts.tenant())
        && same(&filter.project, parts.project())
        && same(&filter.subject, parts.subject())
        && same(&filter.operation, identity.operation().as_str())
        && same(&filter.key, identity.key().as_str())
        && filter.state.is_none_or(|state| state == claim.state.name())
        && filter.opened_before.is_none_or(|before| claim.opened_at < before)
}

/// Whether the newest come first. Claims lie side by side on the shelf of one tenant, project and operation, and nowhere else.
pub fn newest_first(filter: &Filter) -> Result<bool, Error> {
    let Filter { tenant, project, operation, order, .. } = filter;
    match order {
        ListOrder::Oldest => Ok(false),
        ListOrder::Newest if tenant.is_some() && project.is_some() && operation.is_some() => Ok(true),
        ListOrder::Newest => {
            Err(Error::invalid("the newest claims are listed of one tenant, project and operation"))
        }
    }
}

/// Counting knows the shelves (tenant, project, operation) and nothing finer.
pub fn countable(filter: &Filter) -> Result<(), Error> {
    if filter.subject.is_some() || filter.key.is_some() || filter.opened_before.is_some() {
        return Err(Error::invalid("claims are counted by tenant, project, operation and state only"));
    }
    Ok(())
}

/// Adds one claim to the counts.
pub fn add(counts: &mut Counts, state: StateName, number: u64) {
    match state {
        StateName::Held => counts.held += number,
        StateName::Settled => counts.settled += number,
        StateName::InDoubt => counts.in_doubt += number,
        StateName::Released => counts.released += number,
    }
}

/// Reads a page mark that a listing gave out.
pub fn page_mark(after: Option<&str>) -> Result<u64, Error> {
    after.map_or(Ok(0), |mark| {
        mark.parse().map_err(|_| Error::invalid("that is no page mark of this listing"))
    })
}
