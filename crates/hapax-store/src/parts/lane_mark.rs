//! Where a page of lanes ends, the same in every store.

use hapax_core::lane::LaneId;
use hapax_core::{Error, Project, Tenant};

/// A lane as the mark of a page that ends with it.
pub fn mark(lane: &LaneId) -> String {
    format!("{}/{}/{}", lane.tenant.as_str(), lane.project.as_str(), lane.entity)
}

/// Reads a mark back. Only an entity has slashes.
pub fn read_mark(mark: &str) -> Result<LaneId, Error> {
    let unknown = || Error::invalid("`after` is not where a page of lanes starts");
    let mut parts = mark.splitn(3, '/');
    let mut part = || parts.next().ok_or_else(unknown);
    let (tenant, project, entity) = (part()?, part()?, part()?);
    let project = match project {
        "_tenant" => Project::tenant_level(),
        "_platform" => Project::platform_level(),
        name => Project::new(name).map_err(|_| unknown())?,
    };
    Ok(LaneId { tenant: Tenant::new(tenant).map_err(|_| unknown())?, project, entity: entity.to_owned() })
}

/// A lane by the names that a row has.
pub fn named(tenant: &str, project: &str, entity: &str) -> Result<LaneId, Error> {
    read_mark(&format!("{tenant}/{project}/{entity}")).map_err(|_| {
        Error::corrupt("the names of a lane are none").with_detail(format!("{tenant} {project}"))
    })
}
