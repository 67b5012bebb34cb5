//! Waiting for another holder's outcome (L9).
//!
//! A waiter keeps no body and never becomes an attempt. It subscribes, then reads, then waits: a change between reading and
//! waiting is not missed. Who wakes it, across processes too, is the store's affair.

use std::time::Duration;

use hapax_core::advice::LastWord;
use hapax_core::turn::Event;
use hapax_core::{Backoff, ClaimId, Doubt, Kept, Ledger, OperationId, View, Watch};
use tokio::time::sleep;

use crate::call::{Done, How};
use crate::error::{Error, Particulars, asked, last_word};
use crate::limits;
use crate::once::{Executor, done, kept_event};

impl<L: Ledger> Executor<L> {
    /// What is kept for a claim, for a caller who lost the answer (H7). `None` where nothing was settled and no attempt is under
    /// way. Nothing is run. A claim that is held is waited for at most this long.
    ///
    /// An attempt that fails meanwhile is an error, as for all who wait (L9), and so is one that failed before: whether it is asked
    /// for by its key or by this `operation`, and by one that waits or does not, the answer is the same. To a caller that asks for
    /// another operation the key is free. An outcome that was gone as soon as it was there is an error, too.
    pub async fn recall(
        &self,
        claim: ClaimId,
        operation: Option<OperationId>,
        bound: Duration,
    ) -> Result<Option<Done>, Error> {
        let (last, operation_id, doubt) = match wait(self.ledger(), claim, bound).await {
            Ok(Found::Settled(kept)) => return Ok(Some(done(kept, How::Replayed))),
            Ok(Found::Free) => return Ok(None),
            Ok(Found::Released(failed)) if operation.is_some_and(|asked| asked != failed) => return Ok(None),
            Ok(Found::Released(failed) | Found::GivenBack(failed)) => {
                (LastWord::GivenBackByAnother, Some(failed), None)
            }
            Ok(Found::Gone(operation_id)) => (LastWord::Gone, Some(operation_id), None),
            Ok(Found::InDoubt { doubt, operation_id }) => {
                (LastWord::InDoubt, Some(operation_id), Some(doubt))
            }
            Ok(Found::StillHeld(operation_id)) => (LastWord::Held, Some(operation_id), None),
            // A ledger that cannot be asked does not say that nothing was done.
            Err(error) => {
                let particulars = Particulars { cause: Some(format!("{error:#}")), ..Particulars::default() };
                return Err(Error::told(asked(last_word(&error)), particulars));
            }
        };
        Err(Error::told(asked(last), Particulars { operation_id, doubt, ..Particulars::default() }))
    }
}

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
    /// It was held, and then it was given back.
    GivenBack(OperationId),
    /// It was held, and then it was gone. What is given back leaves a trace: an outcome has come and expired at once (L10, H9), or
    /// an operator has put an end to it.
    Gone(OperationId),
    /// The bound was reached first.
    StillHeld(OperationId),
}

impl Found {
    /// What it means to a call that has seen another holder.
    pub(crate) fn event(&self) -> Event {
        match self {
            Found::Settled(kept) => kept_event(kept),
            Found::InDoubt { .. } => Event::InDoubt,
            // Somebody had it when this was asked for.
            Found::Free | Found::Gone(_) => Event::Gone,
            Found::Released(_) => Event::Silent,
            Found::GivenBack(_) => Event::GivenBack,
            Found::StillHeld(_) => Event::Held,
        }
    }
}

/// What a call waits for that may claim for itself, while no attempt is under way and it is not granted either: the former run must
/// be silent for a while (`quiet`), which only the ledger knows the end of.
#[derive(Default)]
pub(crate) struct Silence {
    backoff: Backoff,
    waited: Duration,
}

impl Silence {
    /// Waits before it is asked again. False once all these pauses have taken as long as the bound.
    pub(crate) async fn pause(&mut self, bound: Duration) -> bool {
        let left = bound.saturating_sub(self.waited);
        let pause = self.backoff.pause(limits::SILENCE_PAUSE).min(left);
        self.waited += pause;
        sleep(pause).await;
        !left.is_zero()
    }
}

/// Waits until the claim is no longer held, at most this long. The ledger is read at least once.
pub(crate) async fn wait<L: Ledger>(
    ledger: &L,
    claim: ClaimId,
    bound: Duration,
) -> Result<Found, hapax_core::Error> {
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
