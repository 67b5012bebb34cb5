//! Where a request goes: on to a service, under a turn of the ledger or as it comes.

pub(crate) mod forward;
mod headers;
pub(crate) mod pass;
mod reconcile;
mod tries;

use std::sync::{Arc, Mutex, PoisonError};

use crate::settings::Upstream;
use crate::upstream::Pool;
use forward::Forward;

/// Where a keyed request goes if the ledger grants it.
pub(crate) enum Outlet {
    /// To a service.
    Forward(Forward),
}

/// The connections of this thread, by service: a few, which are found sooner than a name is hashed. A reload that changes a
/// service starts anew with it.
#[derive(Default)]
pub(crate) struct Pools(Mutex<Vec<(Arc<Upstream>, Pool)>>);

impl Pools {
    pub(super) fn of(&self, upstream: &Arc<Upstream>) -> Result<Pool, hapax_core::Error> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(known, _)| Arc::ptr_eq(known, upstream)) {
            return Ok(pool.clone());
        }
        let pool = Pool::new(upstream.clone())?;
        pools.retain(|(known, _)| known.name != upstream.name);
        pools.push((upstream.clone(), pool.clone()));
        Ok(pool)
    }
}
