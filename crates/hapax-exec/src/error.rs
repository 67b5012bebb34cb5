//! Why a call has no outcome to hand out, named by what the caller must do.

use std::fmt;
use std::time::Duration;

use hapax_core::{Doubt, Executed, Leaves, OperationId, Retry, Timestamp};

use crate::limits;

/// The one error of this crate.
#[derive(Clone, Debug)]
pub struct Error {
    reason: Reason,
    operation_id: Option<OperationId>,
    cause: Option<String>,
    /// Whether the work ran, where that is more than the reason tells.
    executed: Option<Executed>,
    asked_too_long: bool,
}

/// Why there is no outcome to hand out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The call itself cannot be accepted.
    Invalid,
    /// The key was used for something else.
    Mismatch {
        /// Keyed hashes of what it was used for, to say what differs.
        leaves: Option<Leaves>,
        /// Until when its outcome is kept, if it has one.
        keep_until: Option<Timestamp>,
    },
    /// Somebody is running it, and this caller has waited long enough or would not wait.
    InProgress,
    /// Nobody knows whether the work happened.
    OutcomeUnknown {
        /// Why, where the ledger says.
        doubt: Option<Doubt>,
    },
    /// The attempt ended without an outcome, and the claim was given back.
    AttemptFailed {
        /// Whether the work may have run all the same (then running it again was declared safe).
        executed: Executed,
    },
    /// The work was done, but the ledger was away; the outcome is in the spool and will be settled.
    OutcomePending,
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

impl Error {
    pub(crate) fn new(reason: Reason) -> Self {
        Error { reason, operation_id: None, cause: None, executed: None, asked_too_long: false }
    }

    pub(crate) fn about(mut self, operation_id: OperationId) -> Self {
        self.operation_id = Some(operation_id);
        self
    }

    /// Somebody had the claim, and now there is none: whether the work was done is not known any more, and whoever sends it again
    /// runs it, perhaps a second time.
    pub(crate) fn gone(operation_id: OperationId) -> Self {
        let mut error = Error::new(Reason::NotKept { status: 0 }).about(operation_id);
        error.executed = Some(Executed::Unknown);
        error.because("whoever ran it came to an end, and its outcome is not kept any more")
    }

    /// The ledger cannot be asked about a claim that others may have: this call ran nothing, but they may have.
    pub(crate) fn unsure(mut self) -> Self {
        if self.executed() == Executed::No {
            self.executed = Some(Executed::Unknown);
        }
        self
    }

    /// The same, of a claim that others were seen to have.
    pub(crate) fn while_others_had_it(self, operation_id: OperationId) -> Self {
        self.unsure().about(operation_id)
    }

    /// That the ledger cannot be asked does not undo what was done: after the work has begun nobody is told that it can only
    /// have been others.
    pub(crate) fn after_the_work_began(mut self) -> Self {
        if matches!(self.reason, Reason::Unavailable | Reason::Invalid) {
            (self.reason, self.executed) = (Reason::OutcomeUnknown { doubt: None }, None);
        }
        self
    }

    /// The work has come to its end here, and its outcome could not be recorded: whatever became of the claim since, it is not
    /// an attempt that failed.
    pub(crate) fn although_it_was_done(mut self) -> Self {
        if matches!(self.reason, Reason::AttemptFailed { .. }) {
            self.reason = Reason::OutcomeUnknown { doubt: None };
            self = self.because("the claim had another holder meanwhile, who gave it back");
        }
        if matches!(self.reason, Reason::NotKept { status: 0 }) {
            return self.after_it_was_done();
        }
        self
    }

    /// States that the work ran to its end, where the reason alone does not tell.
    pub(crate) fn after_it_was_done(mut self) -> Self {
        self.executed = Some(Executed::Yes);
        self
    }

    /// The work did not begin because whoever was asked about an earlier attempt had taken the time of the call.
    pub(crate) fn after_asking_too_long(mut self) -> Self {
        self.asked_too_long = true;
        self
    }

    /// What was kept has been erased, and with it what it said about the work.
    pub(crate) fn after_it_was_erased(mut self) -> Self {
        self.executed = Some(Executed::Unknown);
        self.because("it was kept and has been erased")
    }

    pub(crate) fn because(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Why there is no outcome.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The public id of the operation it is about.
    pub fn operation_id(&self) -> Option<OperationId> {
        self.operation_id
    }

    /// What lies behind it, for logs.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Whether the work did not begin because whoever was asked about an earlier attempt (L6) had taken the time of the call, and not
    /// the ledger.
    pub fn asked_too_long(&self) -> bool {
        self.asked_too_long
    }

    /// The stable name of the reason, the same as the `code` of the HTTP problem.
    pub fn code(&self) -> &'static str {
        match self.reason {
            Reason::Invalid => "invalid",
            Reason::Mismatch { .. } => "key-reused",
            Reason::InProgress => "in-progress",
            Reason::OutcomeUnknown { .. } => "outcome-unknown",
            Reason::AttemptFailed { .. } => "attempt-failed",
            Reason::OutcomePending => "outcome-pending",
            Reason::Unavailable => "ledger-unavailable",
            Reason::Refused(_) => "refused",
            Reason::NotKept { .. } => "outcome-not-kept",
            Reason::Corrupt => "corrupt",
            Reason::Internal => "internal",
        }
    }

    /// Did the work run?
    pub fn executed(&self) -> Executed {
        self.executed.unwrap_or(match self.reason {
            Reason::Invalid | Reason::Mismatch { .. } | Reason::Unavailable => Executed::No,
            Reason::AttemptFailed { executed } => executed,
            // What was refused was not done.
            Reason::NotKept { status: 400..500 } => Executed::No,
            Reason::NotKept { status: 500.. } => Executed::Unknown,
            Reason::OutcomePending | Reason::Refused(_) | Reason::NotKept { .. } => Executed::Yes,
            Reason::InProgress | Reason::OutcomeUnknown { .. } | Reason::Corrupt | Reason::Internal => {
                Executed::Unknown
            }
        })
    }

    /// May the caller try again?
    pub fn retry(&self) -> Retry {
        match self.reason {
            // Without a key there is no operation, and another run could do it twice.
            Reason::AttemptFailed { executed } if self.operation_id.is_none() && executed != Executed::No => {
                Retry::Never
            }
            Reason::InProgress
            | Reason::AttemptFailed { .. }
            | Reason::OutcomePending
            | Reason::Unavailable => Retry::SameKey(limits::COME_BACK),
            // Somebody may resolve the doubt meanwhile; asking again has no effect of its own.
            Reason::OutcomeUnknown { .. } => Retry::SameKey(Duration::from_secs(10)),
            _ => Retry::Never,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.reason {
            Reason::Invalid => "the call cannot be accepted",
            Reason::Mismatch { .. } => "the key was used before for a different request",
            Reason::InProgress => "the first call with this key is still running",
            Reason::OutcomeUnknown { .. } => {
                "nobody knows whether the work was done; somebody has to find out"
            }
            Reason::AttemptFailed { .. } => {
                "the attempt failed and was given back; try again with the same key"
            }
            Reason::OutcomePending => "the work was done; its outcome waits to be recorded",
            Reason::Unavailable if self.executed() != Executed::No => {
                "the ledger cannot be reached; whether the work was done is not known here"
            }
            Reason::Unavailable => "the ledger cannot be reached; nothing was run",
            Reason::Refused(_) => "the work ended with a terminal error",
            Reason::NotKept { .. } => "the answer to this key was not kept",
            Reason::Corrupt => "what is kept for this key cannot be read",
            Reason::Internal => "hapax contradicted itself",
        })?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// An error of the ledger before anything was run.
impl From<hapax_core::Error> for Error {
    fn from(error: hapax_core::Error) -> Self {
        use hapax_core::Kind;
        let reason = match error.kind() {
            Kind::Invalid => Reason::Invalid,
            Kind::Corrupt => Reason::Corrupt,
            Kind::Unavailable => Reason::Unavailable,
            _ => Reason::Internal,
        };
        Error::new(reason).because(format!("{error:#}"))
    }
}
