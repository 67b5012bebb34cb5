//! Why a call has no outcome to hand out, named by what the caller must do.
//!
//! What a caller is told is decided by [`hapax_core::advice`] alone; an [`Error`] is that advice with the data that belongs to it.

use std::fmt;

use hapax_core::advice::{Delay, History, LastWord, Why, Work, advice};
use hapax_core::{Advice, Doubt, Executed, Kind, Leaves, OperationId, Recipe, Retry, Timestamp};

/// The one error of this crate.
#[derive(Clone, Debug)]
pub struct Error {
    reason: Reason,
    advice: Advice,
    operation_id: Option<OperationId>,
    cause: Option<String>,
    events_written: bool,
}

/// Why there is no outcome to hand out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The call itself cannot be accepted.
    Invalid,
    /// The key was used for something else.
    Mismatch(Box<Mismatch>),
    /// Somebody is running it, and this caller has waited long enough or would not wait.
    InProgress,
    /// Nobody knows whether the work happened.
    OutcomeUnknown {
        /// Why, where the ledger says.
        doubt: Option<Doubt>,
    },
    /// The attempt ended without an outcome, and the claim was given back.
    AttemptFailed {
        /// Whether the work may have run all the same.
        executed: Executed,
    },
    /// The work has ended, but the ledger was away; the outcome is in the spool and will be settled.
    OutcomePending,
    /// The lease that the call asked under has lapsed, was ended, or is not of the call's scope: nothing was granted.
    LeaseOver,
    /// The ledger cannot be asked. This call ran nothing; whether others may have, [`Error::executed`] says.
    Unavailable,
    /// The kept outcome is a terminal error; these are its bytes.
    Refused(bytes::Bytes),
    /// The key is used up, and its answer was not kept. Whether the work was done, [`Error::executed`] says as far as the status tells.
    NotKept {
        /// The status the first caller saw; 0 where there was none.
        status: u16,
    },
    /// Stored bytes cannot be trusted or understood.
    Corrupt,
    /// hapax contradicted itself.
    Internal,
}

/// What is known of the request that a key was used for.
#[derive(Clone, Debug, Default)]
pub struct Mismatch {
    /// Keyed hashes of it, to say what differs.
    pub leaves: Option<Leaves>,
    /// The recipe that both were compared by, where it is another one than the call's: the claim was made with it.
    pub recipe: Option<Recipe>,
    /// Until when its outcome is kept, if it has one.
    pub keep_until: Option<Timestamp>,
}

/// What belongs to an error beside the advice.
#[derive(Debug, Default)]
pub(crate) struct Particulars {
    pub(crate) operation_id: Option<OperationId>,
    pub(crate) doubt: Option<Doubt>,
    pub(crate) mismatch: Option<Box<Mismatch>>,
    pub(crate) cause: Option<String>,
    /// Whether the journal events of a failed attempt were recorded with its report.
    pub(crate) events_written: bool,
}

impl Error {
    /// What a caller is told, with the data that belongs to it.
    pub(crate) fn told(advice: Advice, particulars: Particulars) -> Self {
        let Particulars { operation_id, doubt, mismatch, cause, events_written } = particulars;
        let reason = match advice.why {
            Why::KeyReused => Reason::Mismatch(mismatch.unwrap_or_default()),
            Why::Malformed => Reason::Invalid,
            Why::Damaged => Reason::Corrupt,
            Why::NotKept => Reason::NotKept { status: 0 },
            Why::InProgress | Why::UpstreamTimeout => Reason::InProgress,
            Why::OutcomeUnknown => Reason::OutcomeUnknown { doubt },
            Why::OutcomePending => Reason::OutcomePending,
            Why::LedgerAway => Reason::Unavailable,
            Why::LedgerLate | Why::NotReached | Why::AttemptFailed => {
                Reason::AttemptFailed { executed: advice.executed }
            }
            Why::Outcome | Why::Broken => Reason::Internal,
        };
        Error { reason, advice, operation_id, cause, events_written }
    }

    /// There is an outcome, and it is no answer that the caller could use.
    pub(crate) fn kept(reason: Reason, executed: Executed, operation_id: Option<OperationId>) -> Self {
        let why = match reason {
            Reason::Corrupt => Why::Damaged,
            Reason::NotKept { .. } => Why::NotKept,
            _ => Why::Outcome,
        };
        let advice = Advice { why, executed, retry: Retry::Never };
        Error { reason, advice, operation_id, cause: None, events_written: false }
    }

    /// There is no lease to grant anything under. What others did with the key was not asked.
    pub(crate) fn lease_over(cause: Option<String>) -> Self {
        let told = Error::told(asked(LastWord::Invalid), Particulars { cause, ..Particulars::default() });
        Error { reason: Reason::LeaseOver, ..told }
    }

    pub(crate) fn because(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Why there is no outcome.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// What the caller is told.
    pub fn advice(&self) -> Advice {
        self.advice
    }

    /// The public id of the operation it is about.
    pub fn operation_id(&self) -> Option<OperationId> {
        self.operation_id
    }

    /// What lies behind it, for logs.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Whether the journal events that the work gave along were recorded with the report of how it failed (L18).
    pub fn events_written(&self) -> bool {
        self.events_written
    }

    /// The stable name of the reason: the `code` of the HTTP problem, where there is one for it.
    pub fn code(&self) -> &'static str {
        match self.reason {
            Reason::Invalid => "invalid",
            Reason::Refused(_) => "refused",
            Reason::Corrupt => "corrupt",
            Reason::LeaseOver => "lease-over",
            Reason::AttemptFailed { .. } => Why::AttemptFailed.code(),
            _ => self.advice.why.code(),
        }
    }

    /// Did the work run, under this key, by any attempt?
    pub fn executed(&self) -> Executed {
        self.advice.executed
    }

    /// May the caller try again?
    pub fn retry(&self) -> Retry {
        self.advice.retry
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.reason {
            Reason::Invalid => "the call cannot be accepted",
            Reason::Mismatch(_) => "the key was used before for a different request",
            Reason::InProgress => "the first call with this key is still running",
            Reason::OutcomeUnknown { .. } => {
                "nobody knows whether the work was done; somebody has to find out"
            }
            Reason::AttemptFailed { .. } => {
                "the attempt failed and was given back; try again with the same key"
            }
            Reason::LeaseOver => "the lease is over; nothing was granted",
            Reason::OutcomePending => "the work has ended; its outcome waits to be recorded",
            Reason::Unavailable => {
                "the ledger cannot be reached; whether the work was done is not known here"
            }
            Reason::Refused(_) => "the work ended with a terminal error",
            Reason::NotKept { .. } => "the answer to this key was not kept",
            Reason::Corrupt => "what is kept for this key cannot be read",
            Reason::Internal => "internal error",
        })?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The last word of a ledger that answered with an error.
pub(crate) fn last_word(error: &hapax_core::Error) -> LastWord {
    match error.kind() {
        Kind::Invalid => LastWord::Invalid,
        Kind::Corrupt => LastWord::Damaged,
        Kind::Unavailable => LastWord::Away,
        _ => LastWord::Broken,
    }
}

/// What a caller is told that only asks, and runs nothing. Others may have run it.
pub(crate) fn asked(last: LastWord) -> Advice {
    advice(Work::Untouched, History::MayHaveRun, last, Delay::None, false)
}

/// An error of the ledger before anything was run, or even asked.
impl From<hapax_core::Error> for Error {
    fn from(error: hapax_core::Error) -> Self {
        let told = advice(Work::Untouched, History::Unasked, last_word(&error), Delay::None, false);
        Error::told(told, Particulars { cause: Some(format!("{error:#}")), ..Particulars::default() })
    }
}
