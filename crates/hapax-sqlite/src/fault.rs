//! What SQLite's errors mean for a command, for a batch and for the store.

use hapax_core::Error;
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// Why a command or a batch was not carried out.
#[derive(Debug)]
pub(super) enum Fault {
    /// This command fails with this error; nothing else is touched by it.
    Command(Error),
    /// There is no room. The batch is rolled back and tried again with what must not be refused (B5).
    Full,
    /// A write failed, so nobody knows what reached the disk. The store stops (B4).
    Io(String),
    /// This file of the store was removed or replaced while it was open. The store stops (B4, B8).
    Gone(String),
    /// The batch cannot be carried out now; nothing of it was.
    Batch(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Command(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error as E;
        match &error {
            E::SqliteFailure(code, _) => match code.code {
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation => {
                    Fault::Command(damaged(&error))
                }
                ErrorCode::DiskFull => Fault::Full,
                // The file that readers share could not grow: no data was at stake.
                ErrorCode::SystemIoFailure if code.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Fault::Full,
                // What cannot be read now is not answered; nothing that was written is in question.
                ErrorCode::SystemIoFailure if is_read(code.extended_code) => {
                    Fault::Command(Error::unavailable("the store could not be read").with_detail(&error))
                }
                ErrorCode::SystemIoFailure => Fault::Io(error.to_string()),
                ErrorCode::TooBig => {
                    Fault::Command(Error::invalid("that is too large to be stored").with_detail(&error))
                }
                _ => Fault::Batch(
                    Error::unavailable("the store could not carry out the command").with_detail(&error),
                ),
            },
            // A column that does not have its type was not written by us.
            E::FromSqlConversionFailure(..) | E::IntegralValueOutOfRange(..) | E::InvalidColumnType(..) => {
                Fault::Command(damaged(&error))
            }
            // What is asked for is always the same: tables that do not have it are not those we made.
            E::SqlInputError { .. } => Fault::Command(damaged(&error)),
            E::Utf8Error(..) | E::QueryReturnedNoRows => Fault::Command(damaged(&error)),
            _ => Fault::Command(
                Error::internal("the store was used in a way it does not understand").with_detail(&error),
            ),
        }
    }
}

impl Fault {
    /// The error that a reader is told: a failed read stops nothing.
    pub(super) fn for_reader(self) -> Error {
        match self {
            Fault::Command(error) | Fault::Batch(error) => error,
            Fault::Full => full(),
            Fault::Io(detail) | Fault::Gone(detail) => {
                Error::unavailable("the store could not be read").with_detail(detail)
            }
        }
    }
}

fn is_read(extended_code: i32) -> bool {
    matches!(
        extended_code,
        ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_CORRUPTFS
    )
}

/// Stored bytes are not what was written.
pub(super) fn damaged(detail: impl std::fmt::Display) -> Error {
    Error::corrupt("the store is damaged: stored bytes are not what was written").with_detail(detail)
}

/// There is no room for new claims.
pub(super) fn full() -> Error {
    Error::unavailable("the store has no room for new claims; the outcomes of those granted are still kept")
}
