//! What can go wrong between us and PostgreSQL, named by what the store does next.

use hapax_core::Error;
use tokio_postgres::error::SqlState;

/// Why a command has not come to its answer yet.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection is gone before COMMIT was sent: connect again and send the command again.
    Lost(String),
    /// The connection is gone and COMMIT may have arrived: nobody knows (L13).
    Unknown(String),
    /// Somebody else keeps the row locked, or was faster: try again soon.
    Busy,
    /// Not yet; the command itself asks to be looked at again soon.
    Later,
    /// The answer is this error.
    Refused(Error),
}

impl Failure {
    /// The same failure after COMMIT was sent.
    pub(super) fn at_commit(self) -> Failure {
        match self {
            Failure::Lost(detail) => Failure::Unknown(detail),
            other => other,
        }
    }

    /// What the asker is told when there is no time left to try again.
    pub(super) fn into_error(self) -> Error {
        match self {
            Failure::Lost(detail) => unreachable_error().with_detail(detail),
            Failure::Unknown(detail) => {
                Error::unavailable("the database went away before it confirmed the command")
                    .with_detail(detail)
            }
            Failure::Busy | Failure::Later => {
                Error::unavailable("the claim is locked by another transaction of the database")
            }
            Failure::Refused(error) => error,
        }
    }
}

/// The database cannot be asked.
pub(super) fn unreachable_error() -> Error {
    Error::unavailable("the database cannot be reached")
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Refused(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(told) = error.as_db_error() else { return Failure::Lost(chain(&error)) };
        let code = told.code();
        match &code.code()[..2] {
            // Connection exceptions; shutdown, crash recovery and `pg_terminate_backend`.
            "08" | "57" => Failure::Lost(chain(&error)),
            // This is a replica now: the next connection finds out where to go.
            "25" if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Failure::Lost(chain(&error)),
            // The server has ended a connection that was silent for too long within a transaction: this process stood still.
            "25" if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Failure::Lost(chain(&error)),
            // Deadlock, serialization failure, lock not available.
            "40" | "55" => Failure::Busy,
            // Disk full, out of memory, too many connections.
            "53" => Failure::Refused(
                Error::unavailable("the database has no room for this now").with_detail(chain(&error)),
            ),
            _ => Failure::Refused(
                Error::internal("the database refused a statement of hapax").with_detail(chain(&error)),
            ),
        }
    }
}

/// An error with its causes: PostgreSQL's client keeps the telling part in the source.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
