//! Who the caller is (A): from the head of a request, before anything else is done for it.

use hapax_core::{Project, Scope, Subject, Tenant};

use crate::settings::Level;

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The tenant.
    pub tenant: Tenant,
    /// The project; without it no project's routes can be reached.
    pub project: Option<Project>,
    /// The subject.
    pub subject: Subject,
    /// How far it reaches.
    pub level: Level,
}

impl Principal {
    /// The scope of this caller on a route of this level; `None` where it does not reach that far (A6).
    pub fn scope(&self, level: Level) -> Option<Scope> {
        let project = match level {
            Level::Project => self.project.clone()?,
            _ if self.level < level => return None,
            Level::Tenant => Project::tenant_level(),
            Level::Platform => Project::platform_level(),
        };
        Some(Scope::new(self.tenant.clone(), project, self.subject.clone()))
    }
}
