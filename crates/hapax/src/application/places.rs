//! The places of claims that were granted here, in their tenants' shares (H12).
//!
//! A place is given back when the claim is settled or released here. A claim whose lease has lapsed, or that was concluded at another
//! instance, is noticed when its place is needed: then the ledger is asked which of them are held.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hapax_core::{ClaimId, Identity, Ledger, Tenant, View};
use hapax_gateway::Gateway;
use hapax_gateway::admit::ClaimPlace;
use hapax_tower::Problem;

use crate::{Store, clock, limits};

/// By tenant.
#[derive(Default)]
pub(crate) struct Places(Mutex<HashMap<Tenant, Share>>);

#[derive(Default)]
struct Share {
    held: HashMap<ClaimId, ClaimPlace>,
    looked_at: Option<Instant>,
}

impl Places {
    /// A place for what may become a new claim.
    pub(super) async fn take(
        &self,
        gateway: &Gateway<Store, Store>,
        store: &Store,
        identity: &Identity,
    ) -> Result<ClaimPlace, Problem> {
        match gateway.place_of(identity).await {
            Err(_) if self.give_back_what_is_over(store, identity.scope().tenant()).await => {
                gateway.place_of(identity).await
            }
            taken => taken,
        }
    }

    /// The claim was granted: from now on its place counts until it is over.
    pub(super) fn keep(&self, identity: &Identity, mut place: ClaimPlace) {
        if !place.granted() {
            return;
        }
        let mut tenants = self.lock();
        let share = tenants.entry(identity.scope().tenant().clone()).or_default();
        // The former grant of the claim is over, or is this one, told again.
        if let Some(former) = share.held.insert(identity.claim_id(), place) {
            former.end();
        }
    }

    /// The claim was settled or released here.
    pub(super) fn give_back(&self, identity: &Identity) {
        let mut tenants = self.lock();
        let tenant = identity.scope().tenant();
        let Some(share) = tenants.get_mut(tenant) else { return };
        if let Some(place) = share.held.remove(&identity.claim_id()) {
            place.end();
        }
        if share.held.is_empty() {
            tenants.remove(tenant);
        }
    }

    /// Asks the ledger which of a tenant's claims are held no more, now and then; whether there are such.
    async fn give_back_what_is_over(&self, store: &Store, tenant: &Tenant) -> bool {
        let claims: Vec<ClaimId> = {
            let mut tenants = self.lock();
            let Some(share) = tenants.get_mut(tenant) else { return false };
            let is_early = |at: Instant| at.elapsed() < limits::PLACES_LOOKED_AT_EVERY;
            if share.looked_at.is_some_and(is_early) {
                return false;
            }
            share.looked_at = Some(clock::now());
            share.held.keys().copied().collect()
        };
        let mut over = Vec::new();
        // A ledger that is away is asked no further: the caller is told of the bound, and looks again.
        let looking = async {
            for claim in claims {
                match store.peek(claim).await {
                    Ok(Some(View::Held { .. })) => {}
                    Ok(_) => over.push(claim),
                    Err(_) => break,
                }
            }
        };
        let _ = tokio::time::timeout(limits::PLACES_LOOKED_AT_FOR, looking).await;
        let mut tenants = self.lock();
        let Some(share) = tenants.get_mut(tenant) else { return true };
        over.iter().filter_map(|claim| share.held.remove(claim)).for_each(ClaimPlace::end);
        !over.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, Share>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
