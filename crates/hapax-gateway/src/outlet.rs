//! Where a request goes: on to a service, under a turn of the ledger or as it comes.

pub(crate) mod delegate;
pub(crate) mod forward;
mod headers;
pub(crate) mod pass;
mod reconcile;
mod tries;

use std::sync::{Arc, Mutex, PoisonError};

use hapax_tower::{Code, Problem};

use crate::settings::{Cluster, Upstream};
use crate::upstream::Pool;
use delegate::{ClusterPool, Delegate};
use forward::Forward;

/// Where a keyed request goes if the ledger grants it.
pub(crate) enum Outlet {
    /// To a service.
    Forward(Forward),
    /// To a handler of a cluster, which keeps the claim: the ledger is not asked.
    Delegate(Delegate),
}

/// The connections of this thread, by service: a few, which are found sooner than a name is hashed. A reload that changes a
/// service starts anew with it.
#[derive(Default)]
pub(crate) struct Pools {
    services: Mutex<Vec<(Arc<Upstream>, Pool)>>,
    clusters: Mutex<Vec<(Arc<Upstream>, Arc<ClusterPool>)>>,
}

impl Pools {
    pub(super) fn of(&self, upstream: &Arc<Upstream>) -> Result<Pool, hapax_core::Error> {
        let mut pools = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(known, _)| Arc::ptr_eq(known, upstream)) {
            return Ok(pool.clone());
        }
        let pool = Pool::new(upstream.clone())?;
        pools.retain(|(known, _)| known.name != upstream.name);
        pools.push((upstream.clone(), pool.clone()));
        Ok(pool)
    }

    /// The connections to the nodes of a cluster.
    pub(super) fn cluster(
        &self,
        upstream: &Arc<Upstream>,
        cluster: &Cluster,
    ) -> Result<Arc<ClusterPool>, Problem> {
        let mut pools = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(known, _)| Arc::ptr_eq(known, upstream)) {
            return Ok(pool.clone());
        }
        let pool = ClusterPool::new(upstream, cluster);
        let pool =
            pool.map_err(|error| Problem::new(Code::UpstreamUnreachable).because(format!("{error:#}")))?;
        let pool = Arc::new(pool);
        pools.retain(|(known, _)| known.name != upstream.name);
        pools.push((upstream.clone(), pool.clone()));
        Ok(pool)
    }
}
