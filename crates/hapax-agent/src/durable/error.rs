//! What can go wrong with an execution, by what its owner must do.

use std::fmt;

use hapax_core::{Kind, OperationId, Particular};

use super::key::Coordinates;

/// The one error of durable executions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The input can never be accepted; the text names the field and the rule.
    Invalid(String),
    /// There is no such execution in this tenant and project.
    NotFound,
    /// The id is used up: there is or was such an execution.
    AlreadyExists,
    /// The execution has another version than its writer expected.
    VersionConflict {
        /// What the writer expected.
        expected: u64,
        /// What the execution has.
        found: u64,
    },
    /// The execution has another runner, or its runner's lease has not lapsed yet.
    Fenced,
    /// The execution has come to its end, or does not exist any more: nothing is appended to it.
    Ended,
    /// The chain of events is broken at this place, and nothing is run.
    ExecutionCorrupted {
        /// The sequence number of the first event that is not what was written, or is missing.
        position: u64,
        /// What is wrong there.
        what: String,
    },
    /// The execution has a schema version that this hapax does not know.
    UnsupportedSchemaVersion {
        /// The version.
        version: u32,
    },
    /// Other work than was recorded is asked for at the coordinates of a step, or under its effect key.
    PlanDiverged {
        /// Where.
        at: Coordinates,
    },
    /// The key of a step's effect is that of other work, of another step or another execution.
    EffectKeyTaken {
        /// Where the step stands.
        at: Coordinates,
        /// The public id of the claim that has the key.
        operation_id: Option<OperationId>,
    },
    /// The iteration is not the one that the execution is in.
    WrongIteration {
        /// The one that was named.
        asked: u64,
        /// The one that the execution is in.
        present: u64,
    },
    /// A plan, a result or a checkpoint that is needed was erased.
    Erased,
    /// A decision does not fit what the step is by now; the text says what it is.
    NotApplicable(String),
    /// The store cannot do it now.
    Store(hapax_core::Error),
    /// The ledger could not be asked, or has no outcome to hand out.
    Call(hapax_exec::Error),
}

impl Error {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Error::Invalid(text.into())
    }

    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Invalid(_) => "invalid",
            Error::NotFound => "not-found",
            Error::AlreadyExists => "already-exists",
            Error::VersionConflict { .. } => "version-conflict",
            Error::Fenced => "fenced",
            Error::Ended => "ended",
            Error::ExecutionCorrupted { .. } => "execution-corrupted",
            Error::UnsupportedSchemaVersion { .. } => "unsupported-schema-version",
            Error::PlanDiverged { .. } => "plan-diverged",
            Error::EffectKeyTaken { .. } => "effect-key-taken",
            Error::WrongIteration { .. } => "wrong-iteration",
            Error::Erased => "erased",
            Error::NotApplicable(_) => "not-applicable",
            Error::Store(_) => "store",
            Error::Call(error) => error.code(),
        }
    }
}

impl From<hapax_core::Error> for Error {
    fn from(error: hapax_core::Error) -> Self {
        match error.particular() {
            Some(Particular::BrokenChain { position, .. }) => Error::ExecutionCorrupted {
                position: *position,
                what: error.detail().unwrap_or(error.message()).to_owned(),
            },
            Some(Particular::UnsupportedVersion { version }) => {
                Error::UnsupportedSchemaVersion { version: *version }
            }
            Some(Particular::VersionConflict { expected: 0, .. }) => Error::AlreadyExists,
            Some(Particular::VersionConflict { found: 0, .. }) => Error::NotFound,
            Some(Particular::VersionConflict { expected, found }) => {
                Error::VersionConflict { expected: *expected, found: *found }
            }
            _ => match error.kind() {
                Kind::Fenced => Error::Fenced,
                Kind::Conflict => Error::Ended,
                Kind::Invalid => Error::Invalid(error.message().to_owned()),
                _ => Error::Store(error),
            },
        }
    }
}

impl From<hapax_exec::Error> for Error {
    fn from(error: hapax_exec::Error) -> Self {
        Error::Call(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(text) | Error::NotApplicable(text) => f.write_str(text),
            Error::NotFound => f.write_str("there is no such execution"),
            Error::AlreadyExists => f.write_str("the execution's id is used up"),
            Error::VersionConflict { expected, found } => {
                write!(f, "the execution has version {found}, not {expected}")
            }
            Error::Fenced => f.write_str("the execution has another runner, or a runner whose lease lasts"),
            Error::Ended => f.write_str("the execution has ended: nothing is appended to it"),
            Error::ExecutionCorrupted { position, what } => {
                write!(f, "the execution's chain of events is broken at position {position}: {what}")
            }
            Error::UnsupportedSchemaVersion { version } => {
                write!(f, "the execution has schema version {version}, which this hapax does not know")
            }
            Error::PlanDiverged { at } => {
                write!(f, "other work than was recorded is asked for at {at}")
            }
            Error::EffectKeyTaken { at, operation_id: Some(operation_id) } => {
                write!(
                    f,
                    "the effect key of the step at {at} is that of other work, which is operation {operation_id}"
                )
            }
            Error::EffectKeyTaken { at, operation_id: None } => {
                write!(f, "the effect key of the step at {at} is that of other work")
            }
            Error::WrongIteration { asked, present } => {
                write!(f, "iteration {asked} is named, and the execution is in iteration {present}")
            }
            Error::Erased => f.write_str("what is needed to go on was erased"),
            Error::Store(error) => write!(f, "{error:#}"),
            Error::Call(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}
