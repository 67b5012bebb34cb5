//! Waiting for somebody else's outcome (L9).
//!
//! A waiter keeps no body and never becomes an attempt. It subscribes, then reads, then waits: a change between reading and
//! waiting is not missed. Who wakes it, across processes too, is the store's affair.

use std::time::Duration;

use hapax_core::{ClaimId, Doubt, Executed, Kept, Ledger, OperationId, View, Watch};
use tokio::time::sleep;

use crate::call::{Attach, Done, How};
use crate::error::{Error, Reason};
use crate::limits;
use crate::once::{Executor, done};

impl<L: Ledger> Executor<L> {
    /// What is kept for a claim, for a caller who lost the answer (H7). `None` where nothing was settled and nobody is at it.
    /// Nothing is run. A claim that is held is waited for at most this long.
    ///
    /// An attempt that fails meanwhile is an error, as for all who wait (L9), and so is one that failed before: whether it is asked
    /// for by its key or by this `operation`, and by one that waits or does not, the answer is the same. To whoever asks for another
    /// operation the key is free. An outcome that was gone as soon as it was there is an error, too.
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
            Found::Released(failed) if operation.is_none_or(|asked| asked == failed) => {
                Err(given_back(failed))
            }
            Found::Released(_) | Found::Free => Ok(None),
            Found::GivenBack(failed) => Err(given_back(failed)),
            Found::Gone(operation_id) => Err(Error::gone(operation_id)),
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
        match self.attach_or_ask(claim, how, operation_id).await? {
            Waited::Done(done) => Ok(done),
            Waited::Failed | Waited::Silent => Err(given_back(operation_id)),
        }
    }

    /// The same for a call that may claim for itself.
    pub(crate) async fn attach_or_ask(
        &self,
        claim: ClaimId,
        how: Attach,
        operation_id: OperationId,
    ) -> Result<Waited, Error> {
        let found = wait(&self.ledger, claim, how.bound()).await;
        match found.map_err(|error| Error::from(error).while_others_had_it(operation_id))? {
            Found::Settled(kept) => Ok(Waited::Done(done(kept, How::Attached))),
            Found::InDoubt { doubt, .. } => {
                Err(Error::new(Reason::OutcomeUnknown { doubt: Some(doubt) }).about(operation_id))
            }
            Found::GivenBack(_) => Ok(Waited::Failed),
            Found::Released(_) => Ok(Waited::Silent),
            // Somebody had it when this was asked for.
            Found::Free | Found::Gone(_) => Err(Error::gone(operation_id)),
            Found::StillHeld(_) => Err(Error::new(Reason::InProgress).about(operation_id)),
        }
    }
}

/// What a call that may claim for itself has waited for.
pub(crate) enum Waited {
    /// The outcome.
    Done(Done),
    /// An attempt that failed.
    Failed,
    /// Nobody: the former run is not yet known to be silent.
    Silent,
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
    /// It was held, and then it was given back.
    GivenBack(OperationId),
    /// It was held, and then it was gone. What is given back leaves a trace: an outcome has come and expired at once (L10, H9), or
    /// somebody has put an end to it.
    Gone(OperationId),
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
                Found::Released(_) => return Ok(Found::GivenBack(holder)),
                Found::Free => return Ok(Found::Gone(holder)),
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
