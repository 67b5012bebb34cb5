//! `run`: once for functions that return values instead of bytes.

use hapax_core::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;

use hapax_core::Ledger;

use crate::call::{Attempt, Call, Done, Ended};
use crate::error::{Error, Reason};
use crate::once::Executor;

/// How a function failed, in terms of what may happen next (E3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing was done: the same key may try again.
    Retryable(String),
    /// It can never succeed: this is kept, and every retry gets it.
    Terminal(String),
    /// It may have been done: what follows depends on the call's rerun.
    Unknown(String),
}

impl<L: Ledger> Executor<L> {
    /// Makes a function happen once. Its value is kept as JSON; a terminal failure is kept too, and comes back as
    /// [`Reason::Refused`].
    pub async fn run<T, F, Fut>(&self, call: Call, work: F) -> Result<Done<T>, Error>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let done = self.once(call, |attempt| async move { ended(work(attempt).await) }).await?;
        let (how, operation_id, keep_until) = (done.how, done.operation_id, done.keep_until);
        let (executed, events_written) = (done.executed, done.events_written);
        let value = match &done.value {
            Outcome::Succeeded(bytes) => serde_json::from_slice(bytes)
                .map_err(|error| Error::kept(Reason::Corrupt, executed, operation_id).because(error))?,
            Outcome::Refused(bytes) => {
                let message = String::from_utf8_lossy(bytes).into_owned();
                let reason = Reason::Refused(bytes.clone());
                return Err(Error::kept(reason, executed, operation_id).because(message));
            }
            Outcome::NotKept { status } => {
                return Err(Error::kept(Reason::NotKept { status: *status }, executed, operation_id));
            }
            Outcome::Erased => {
                let error = Error::kept(Reason::NotKept { status: 0 }, executed, operation_id);
                return Err(error.because("it was kept and has been erased"));
            }
        };
        Ok(Done { value, how, operation_id, keep_until, executed, events_written })
    }
}

fn ended<T: Serialize>(result: Result<T, Failure>) -> Ended {
    match result {
        Ok(value) => match serde_json::to_vec(&value) {
            Ok(bytes) => Ended::succeeded(bytes),
            // The work was done, so its key stays burned; only its value cannot be kept.
            Err(_) => Ended::Settled(Outcome::NotKept { status: 0 }),
        },
        Err(Failure::Retryable(cause)) => Ended::NotRun(cause),
        Err(Failure::Terminal(cause)) => Ended::refused(cause),
        Err(Failure::Unknown(cause)) => Ended::Unknown(cause),
    }
}
