//! Where a tick goes: the route of its operation as it is now, and the claim that the tick has there.

use hapax_core::{ClaimId, Key, Project, Retention, Scope, Source, Subject, Tenant, Width};
use hapax_gateway::settings::{Route, Settings};
use hapax_tower::{Claimant, Rule};

use super::definition::Definition;
use super::state::millis;

/// Where a tick goes, and the claim that it has there.
pub(super) struct Place {
    pub(super) route: Route,
    pub(super) claim: ClaimId,
    pub(super) retention: Retention,
}

/// The claim of a tick with this key.
pub(crate) fn claim_of(settings: &Settings, definition: &Definition, key: &str) -> Option<ClaimId> {
    place(settings, definition, key).map(|place| place.claim)
}

/// Where a tick with this key goes; `None` where no route takes it any more.
pub(super) fn place(settings: &Settings, definition: &Definition, key: &str) -> Option<Place> {
    let own = |route: &&Route| {
        route.rule.as_ref().is_some_and(|rule| rule.operation.as_str() == definition.operation)
    };
    let route = settings.routes.iter().find(own)?.clone();
    let rule: &Rule = route.rule.as_ref()?;
    let (tenant, project) = (Tenant::new(&definition.tenant).ok()?, Project::new(&definition.project).ok()?);
    let scope = Scope::new(tenant, project, Subject::scheduler());
    let claimant =
        Claimant { source: Source::Header, scope, width: Width::Subject, key: Key::new(key).ok()? };
    let claim = claimant.under(rule).claim_id();
    let retention = rule.retention;
    Some(Place { route, claim, retention })
}

/// Before this, a tick's outcome could have been forgotten.
pub(super) fn oldest(retention: Option<Retention>, now: i64) -> i64 {
    match retention {
        Some(Retention::For(kept) | Retention::SinceGrant(kept)) => now.saturating_sub(millis(kept / 2)),
        Some(Retention::Forever) | None => i64::MIN,
    }
}

/// A claim as the document has it.
pub(crate) fn hex(claim: &ClaimId) -> String {
    claim.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what [`hex`] gave.
pub(crate) fn claim_id(text: &str) -> Option<ClaimId> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(ClaimId::from_bytes(bytes))
}
