//! Waiting for somebody else's outcome (L9).
//!
//! A waiter keeps no body and never becomes an attempt. It subscribes, then reads, then waits: a change between reading and
//! waiting is not missed. Who wakes it, across processes too, is the store's affair.

use std::time::Duration;

use hapax_core::{ClaimId, Doubt, Error, Kept, Ledger, OperationId, View, Watch};

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
    /// There is nothing, or not any more.
    Free,
    /// It had been given back before it was looked at.
    Released(OperationId),
    /// It was held, and then it was given back, or gone.
    GivenBack(OperationId),
    /// The bound was reached first.
    StillHeld(OperationId),
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
                Found::Free | Found::Released(_) => return Ok(Found::GivenBack(holder)),
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
        Some(View::Released { operation_id }) => Found::Released(operation_id),
        None => Found::Free,
        Some(View::Held { operation_id, .. }) => Found::StillHeld(operation_id),
    })
}
