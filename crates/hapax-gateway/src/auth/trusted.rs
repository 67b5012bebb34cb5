//! What a trusted peer says about its caller in headers (A3). Who is trusted is decided by [`super::Authenticator`]; from
//! anybody else these headers have no effect.

use hapax_core::{Project, Subject, Tenant};
use http::{HeaderMap, HeaderName};

use super::{AuthError, Principal, level_named, only};
use crate::settings::Level;

/// The header of the tenant.
pub const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");
/// The header of the project; without it the caller reaches no project's routes.
pub const PROJECT: HeaderName = HeaderName::from_static("x-project-id");
/// The header of the subject, as hapax writes it: `user:alice`, other characters percent-encoded (K4).
pub const SUBJECT: HeaderName = HeaderName::from_static("x-subject");
/// The header of the level: `project` (default), `tenant` or `platform`. Read only where the settings say so.
pub const LEVEL: HeaderName = HeaderName::from_static("x-level");

/// The principal that the headers name; `None` where there is none of them. Half a principal is an error, not a reason to
/// look for other credentials.
pub(super) fn principal(headers: &HeaderMap, reads_level: bool) -> Result<Option<Principal>, AuthError> {
    let (tenant, project) = (only(headers, &TENANT)?, only(headers, &PROJECT)?);
    let level = if reads_level { only(headers, &LEVEL)? } else { None };
    let subject = only(headers, &SUBJECT)?;
    let (tenant, subject) = match (tenant, subject) {
        (Some(tenant), Some(subject)) => (tenant, subject),
        (None, None) if project.is_none() && level.is_none() => return Ok(None),
        _ => return Err(AuthError::invalid("a trusted peer named only a part of its caller")),
    };
    let tenant = Tenant::new(tenant).map_err(|error| AuthError::unfit(&error))?;
    let project = project.map(Project::new).transpose().map_err(|error| AuthError::unfit(&error))?;
    // Strict, so that no two texts mean one subject.
    let subject = Subject::parse(subject).map_err(|error| AuthError::unfit(&error))?;
    if subject.is_reserved() {
        return Err(AuthError::invalid("a trusted peer named a subject that is reserved for hapax"));
    }
    let level = match level {
        Some(word) => level_named(word).ok_or_else(|| AuthError::invalid("x-level is no level"))?,
        None => Level::Project,
    };
    Ok(Some(Principal::new(tenant, project, subject, level)))
}
