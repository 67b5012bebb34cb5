//! Who waits for which claim, within this process (L9).
//!
//! A thousand waiters of one claim share one entry. The entry goes when its last waiter does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use hapax_core::ClaimId;
use hapax_core::port;
use tokio::sync::watch;

/// The waiters of a store.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    watched: Arc<Mutex<HashMap<ClaimId, watch::Sender<u64>>>>,
}

impl Hub {
    /// Starts to watch a claim.
    pub fn watch(&self, claim: ClaimId) -> Watch {
        let changes = self.lock().entry(claim).or_insert_with(|| watch::Sender::new(0)).subscribe();
        Watch { claim, changes: Some(changes), hub: self.clone() }
    }

    /// Wakes everybody who watches a claim.
    pub fn wake(&self, claim: &ClaimId) {
        if let Some(sender) = self.lock().get(claim) {
            sender.send_modify(|change| *change += 1);
        }
    }

    /// Whether anybody watches anything. Cheaper than asking for each claim.
    pub fn is_idle(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether anybody here watches a claim.
    pub fn watches(&self, claim: &ClaimId) -> bool {
        self.lock().contains_key(claim)
    }

    /// Every watched claim.
    pub fn watched(&self) -> Vec<ClaimId> {
        self.lock().keys().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClaimId, watch::Sender<u64>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One waiter.
#[derive(Debug)]
pub struct Watch {
    claim: ClaimId,
    changes: Option<watch::Receiver<u64>>,
    hub: Hub,
}

impl port::Watch for Watch {
    async fn changed(&mut self) {
        let closed = match &mut self.changes {
            Some(changes) => changes.changed().await.is_err(),
            None => true,
        };
        if closed {
            // The hub is gone: nothing will ever change again. The waiter's own bound ends the wait.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.hub.lock();
        self.changes = None;
        if watched.get(&self.claim).is_some_and(|sender| sender.receiver_count() == 0) {
            watched.remove(&self.claim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Watch as _;

    #[tokio::test]
    async fn a_change_after_the_subscription_wakes_everybody_and_the_last_to_leave_cleans_up() {
        let (hub, claim) = (Hub::default(), ClaimId::from_bytes([1; 32]));
        let (mut first, mut second) = (hub.watch(claim), hub.watch(claim));
        assert_eq!(hub.watched(), [claim]);
        hub.wake(&claim);
        first.changed().await;
        second.changed().await;
        drop(first);
        assert!(hub.watches(&claim));
        drop(second);
        assert!(hub.is_idle());
    }
}
