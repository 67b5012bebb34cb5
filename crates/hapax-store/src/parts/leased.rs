//! How many leases that are not a process's own may be open: so many of each tenant, and so many of all together (H12).
//!
//! For the stores that one process keeps. A lease that has lapsed is noticed when its place is needed; until when a lease runs is
//! known to the store.

use std::collections::{HashMap, HashSet};

use hapax_core::{Error, SessionId};

use crate::limits;

/// The open leases of each tenant, perhaps with some that are over.
#[derive(Debug, Default)]
pub struct OpenLeases {
    tenants: HashMap<String, HashSet<SessionId>>,
    /// With how many leases the store looks for those that it need not know any more.
    crowded: usize,
}

impl OpenLeases {
    /// Refuses one more lease of a tenant that has as many as it may have.
    pub fn check(
        &mut self,
        tenant: &str,
        most: usize,
        is_open: impl Fn(SessionId) -> bool,
    ) -> Result<(), Error> {
        if let Some(own) = self.tenants.get_mut(tenant).filter(|own| own.len() >= most) {
            own.retain(|id| is_open(*id));
            if own.len() >= most {
                return Err(too_many());
            }
        }
        if self.count() >= limits::LEASES {
            self.tenants.retain(|_, own| {
                own.retain(|id| is_open(*id));
                !own.is_empty()
            });
            if self.count() >= limits::LEASES {
                return Err(Error::too_many("too many leases are open"));
            }
        }
        Ok(())
    }

    /// One more is open.
    pub fn opened(&mut self, tenant: &str, id: SessionId) {
        match self.tenants.get_mut(tenant) {
            Some(own) => _ = own.insert(id),
            None => _ = self.tenants.insert(tenant.to_owned(), HashSet::from([id])),
        }
    }

    fn count(&self) -> usize {
        self.tenants.values().map(HashSet::len).sum()
    }

    /// Whether a store that knows so many leases should look which of them are over and hold nothing any more.
    pub fn is_crowded(&self, known: usize) -> bool {
        known >= self.crowded.max(limits::LEASES_KNOWN)
    }

    /// It has looked, and knows so many still: those that are open, and those whose claims the sweeper has not come to. It looks
    /// again when there are twice as many.
    pub fn looked(&mut self, known: usize) {
        self.crowded = known * 2;
    }
}

/// This tenant has as many open leases as it may have.
pub fn too_many() -> Error {
    Error::too_many("too many leases of this tenant are open")
}
