//! Waiting for somebody else's outcome (L9).
//!
//! A waiter keeps no body and never becomes an attempt. It subscribes, then reads, then waits: a change between reading and
//! waiting is not missed. Who wakes it, across processes too, is the store's affair.

use std::time::Duration;

use hapax_core::{ClaimId, Doubt, Error, Kept, Ledger, OperationId, View, Watch};
use tokio::time::sleep;

use crate::limits;

/// What a wait ended with.
pub(crate) enum Found {
    /// The outcome.
    Settled(Kept),
    /// Nobody knows.
    InDoubt {
        /// Why.
        doubt: Doubt,
        /// Of which run.
        operation_id: OperationId,
    },
    /// It was given back, or is gone.
    Free {
        /// Whether it was held when this began to wait.
        was_held: bool,
    },
    /// The bound was reached first.
    StillHeld(OperationId),
}

/// What a call waits for that may claim for itself, while nobody runs the work and it is not granted either: the former run must
/// be silent for a while (`quiet`), which only the ledger knows the end of.
#[derive(Default)]
pub(crate) struct Silence {
    pause: Duration,
    waited: Duration,
}

impl Silence {
    /// Waits before it is asked again. False once all these pauses have taken as long as the bound.
    pub(crate) async fn pause(&mut self, bound: Duration) -> bool {
        let left = bound.saturating_sub(self.waited);
        let (first, longest) = limits::SILENCE_PAUSE;
        self.pause = (self.pause * 2).clamp(first, longest);
        self.waited += self.pause.min(left);
        sleep(self.pause.min(left)).await;
        !left.is_zero()
    }
}

/// Waits until the claim is no longer held, at most this long. The ledger is read at least once.
pub(crate) async fn wait<L: Ledger>(ledger: &L, claim: ClaimId, bound: Duration) -> Result<Found, Error> {
    let mut watch = ledger.watch(claim);
    let first = read(ledger, claim).await?;
    let Found::StillHeld(holder) = first else { return Ok(first) };
    if bound.is_zero() {
        return Ok(first);
    }
    let wait = async {
        loop {
            watch.changed().await;
            match read(ledger, claim).await? {
                Found::StillHeld(_) => {}
                Found::Free { .. } => return Ok(Found::Free { was_held: true }),
                found => return Ok(found),
            }
        }
    };
    tokio::time::timeout(bound, wait).await.unwrap_or(Ok(Found::StillHeld(holder)))
}

async fn read<L: Ledger>(ledger: &L, claim: ClaimId) -> Result<Found, Error> {
    Ok(match ledger.peek(claim).await? {
        Some(View::Settled(kept)) => Found::Settled(kept),
        Some(View::InDoubt { reason, operation_id, .. }) => Found::InDoubt { doubt: reason, operation_id },
        Some(View::Released { .. }) | None => Found::Free { was_held: false },
        Some(View::Held { operation_id, .. }) => Found::StillHeld(operation_id),
    })
}
