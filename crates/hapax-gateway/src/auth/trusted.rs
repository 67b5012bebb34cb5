//! What a trusted peer says about its caller in headers (A3), or in a key (K3). Who is trusted is decided by
//! [`super::Authenticator`]; from anybody else these headers have no effect.

use hapax_core::{Project, Scope, Subject, Tenant};
use http::{HeaderMap, HeaderName};

use super::{AuthError, Principal, level_named, only};
use crate::settings::{Fixed, Level};

/// The header of the tenant.
pub const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");
/// The header of the project; without it the caller reaches no project's routes.
pub const PROJECT: HeaderName = HeaderName::from_static("x-project-id");
/// The header of the subject, as hapax writes it: `user:alice`, other characters percent-encoded (K4).
pub const SUBJECT: HeaderName = HeaderName::from_static("x-subject");
/// The header of the level: `project` (default), `tenant` or `platform`. Read only where the settings say so.
pub const LEVEL: HeaderName = HeaderName::from_static("x-level");

/// The principal that the headers name; `None` where there is none of them. Half a principal is an error, not a reason to
/// look for other credentials, unless what is missing is fixed.
pub(super) fn principal(
    headers: &HeaderMap,
    reads_level: bool,
    fixed: &Fixed,
) -> Result<Option<Principal>, AuthError> {
    let (tenant, project) = (only(headers, &TENANT)?, only(headers, &PROJECT)?);
    let level = if reads_level { only(headers, &LEVEL)? } else { None };
    let subject = only(headers, &SUBJECT)?;
    if tenant.is_none() && subject.is_none() && project.is_none() && level.is_none() {
        return Ok(None);
    }
    let tenant = tenant.map(Tenant::new).transpose().map_err(|error| AuthError::unfit(&error))?;
    let Some((subject, (tenant, of_tenant))) = subject.zip(fixed.complete(tenant, None)) else {
        return Err(AuthError::invalid("a trusted peer named only a part of its caller"));
    };
    let project = project.or(of_tenant.as_ref().map(Project::as_str));
    // Strict, so that no two texts mean one subject.
    let subject = Subject::parse(subject).map_err(|error| AuthError::unfit(&error))?;
    let level = match level {
        Some(word) => Some(level_named(word).ok_or_else(|| AuthError::invalid("x-level is no level"))?),
        None => None,
    };
    named(tenant, project, subject, level, reads_level).map(Some)
}

/// The caller whom a peer names. In the project's place an edge writes the level of the route (K4); that is believed where a level
/// is, and where the subject has it anyhow.
fn named(
    tenant: Tenant,
    project: Option<&str>,
    subject: Subject,
    level: Option<Level>,
    reads_level: bool,
) -> Result<Principal, AuthError> {
    if subject.is_reserved() {
        return Err(AuthError::invalid("a trusted peer named a subject that is reserved for hapax"));
    }
    let place = project.and_then(sentinel);
    let project = project.filter(|_| place.is_none()).map(Project::new).transpose();
    let project = project.map_err(|error| AuthError::unfit(&error))?;
    if place.is_some() && level.is_some_and(|level| Some(level) != place) {
        return Err(AuthError::invalid("a trusted peer named two levels"));
    }
    let believed = level.or(place).filter(|_| reads_level).unwrap_or_default();
    let principal = Principal::new(tenant, project, subject, believed);
    match place {
        Some(place) if principal.level < place => {
            Err(AuthError::invalid("a trusted peer named a level, and its word for that is not taken"))
        }
        _ => Ok(principal),
    }
}

/// The scope, on a route of this level, of whom a peer names in a key alone: what it could say in headers, and no more (A6, K4).
pub(crate) fn scope_in_key(told: &Scope, level: Level, reads_level: bool) -> Option<Scope> {
    let project = told.project().map(Project::as_str);
    if let Some(subject) = told.subject() {
        return named(told.tenant().clone(), project, subject.clone(), None, reads_level).ok()?.scope(level);
    }
    // The peer has dropped who asks. How far that caller reaches can still stand in the project's place.
    let reaches = project.and_then(sentinel).unwrap_or_default();
    (reaches == level && (reads_level || level == Level::Project)).then(|| told.clone())
}

/// The level that stands in a project's place.
fn sentinel(project: &str) -> Option<Level> {
    let is = |sentinel: Project| sentinel.as_str() == project;
    match project.starts_with('_') {
        true if is(Project::tenant_level()) => Some(Level::Tenant),
        true if is(Project::platform_level()) => Some(Level::Platform),
        _ => None,
    }
}
