//! Waiting for somebody else's outcome (L9).
//!
//! A waiter keeps no body and never becomes an attempt. It subscribes, then reads, then waits: a change between reading and
//! waiting is not missed. Who wakes it, across processes too, is the store's affair.

use std::time::Duration;

use hapax_core::{ClaimId, Doubt, Executed, Kept, Ledger, OperationId, View, Watch};

use crate::call::{Attach, Done, How};
use crate::error::{Error, Reason};
use crate::once::{Executor, done};

impl<L: Ledger> Executor<L> {
    /// What is kept for a claim, for a caller who lost the answer (H7). `None` where nothing was settled and nobody is at it.
    /// Nothing is run. A claim that is held is waited for at most this long.
    ///
    /// An attempt that fails meanwhile is an error, as for all who wait (L9). One that failed before is known to whoever asks
    /// for this `operation`; to others the key is free.
    pub async fn recall(
        &self,
        claim: ClaimId,
        operation: Option<OperationId>,
        bound: Duration,
    ) -> Result<Option<Done>, Error> {
        let found = wait(&self.ledger, claim, bound).await;
        // Whoever cannot be asked does not say that nothing was done.
        match found.map_err(|error| Error::from(error).unsure())? {
            Found::Settled(kept) => Ok(Some(done(kept, How::Replayed))),
            Found::Released(failed) if operation == Some(failed) => Err(given_back(failed)),
            Found::Released(_) | Found::Free => Ok(None),
            Found::GivenBack(failed) => Err(given_back(failed)),
            Found::InDoubt { doubt, operation_id } => {
                Err(Error::new(Reason::OutcomeUnknown { doubt: Some(doubt) }).about(operation_id))
            }
            Found::StillHeld(operation_id) => Err(Error::new(Reason::InProgress).about(operation_id)),
        }
    }

    /// Waits for whoever runs it (L9), or only looks.
    pub(crate) async fn attach(
        &self,
        claim: ClaimId,
        how: Attach,
        operation_id: OperationId,
    ) -> Result<Done, Error> {
        let bound = match how {
            Attach::Wait(bound) => bound,
            Attach::Reject => Duration::ZERO,
        };
        let found = wait(&self.ledger, claim, bound).await;
        match found.map_err(|error| Error::from(error).while_others_had_it(operation_id))? {
            Found::Settled(kept) => Ok(done(kept, How::Attached)),
            Found::InDoubt { doubt, .. } => {
                Err(Error::new(Reason::OutcomeUnknown { doubt: Some(doubt) }).about(operation_id))
            }
            Found::Free | Found::Released(_) | Found::GivenBack(_) => Err(given_back(operation_id)),
            Found::StillHeld(_) => Err(Error::new(Reason::InProgress).about(operation_id)),
        }
    }
}

fn given_back(operation_id: OperationId) -> Error {
    Error::new(Reason::AttemptFailed { executed: Executed::Unknown }).about(operation_id)
}

/// What a wait ended with.
enum Found {
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
async fn wait<L: Ledger>(ledger: &L, claim: ClaimId, bound: Duration) -> Result<Found, hapax_core::Error> {
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

async fn read<L: Ledger>(ledger: &L, claim: ClaimId) -> Result<Found, hapax_core::Error> {
    Ok(match ledger.peek(claim).await? {
        Some(View::Settled(kept)) => Found::Settled(kept),
        Some(View::InDoubt { reason, operation_id, .. }) => Found::InDoubt { doubt: reason, operation_id },
        Some(View::Released { operation_id }) => Found::Released(operation_id),
        None => Found::Free,
        Some(View::Held { operation_id, .. }) => Found::StillHeld(operation_id),
    })
}
