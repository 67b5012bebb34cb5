//! What can go wrong, named by what the caller must do about it.
//!
//! Expected answers are values ([`Verdict`](crate::Verdict) and its kin), never an `Err`. An [`Error`] says that hapax
//! could not do its part, and always answers the two questions a caller has: did the work run ([`Error::executed`]), and
//! may I try again ([`Error::retry`]). The public message may be shown to anybody; the detail is for logs.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// Whether the work ran, as far as anybody can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Executed {
    /// It certainly did not run.
    No,
    /// It ran to its end.
    Yes,
    /// Nobody can know.
    Unknown,
}

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request will fail the same way.
    Never,
    /// Send the same request, with the same key where it has one, not before this long from now.
    SameKey(Duration),
}

/// Error kinds, named by what the caller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Mend the input: it can never be accepted as it is.
    Invalid,
    /// Stop: somebody else holds the claim now. Answer from the ledger.
    LostLease,
    /// Read again and decide anew: the record changed meanwhile, nothing was written.
    Conflict,
    /// Stop: the stream has another runner, and only that one may write to it. Nothing was written.
    Fenced,
    /// Wait: a store or a limit is in the way, and it may pass.
    Unavailable,
    /// Call an operator: stored bytes are not what was written, or were written by a newer hapax.
    Corrupt,
    /// Report a defect in hapax.
    Internal,
}

/// What an error is about, for callers that must tell more of it than its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Particular {
    /// A bound of what may be there at once: the store is well, and nothing was written.
    TooMany,
    /// A journal's hash chain is broken, and this is the first place where it shows (J3).
    BrokenChain {
        /// The name of the stream.
        stream: String,
        /// The sequence number of the first event that is not what was written, or is missing.
        position: u64,
    },
    /// What is stored has a schema version that this hapax does not know.
    UnsupportedVersion {
        /// The version that was found.
        version: u32,
    },
    /// A stream has another version than its writer expected.
    VersionConflict {
        /// The version that the writer expected.
        expected: u64,
        /// The version that the stream has; 0 where it does not exist.
        found: u64,
    },
}

/// The one error of this crate and of the ports.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    /// Boxed: few errors have one, and every answer of a port has room for an error.
    particular: Option<Box<Particular>>,
    message: Cow<'static, str>,
    detail: Option<String>,
    executed: Executed,
    retry: Retry,
}

/// How long a caller should wait before it asks an unavailable store again.
const UNAVAILABLE_RETRY: Duration = Duration::from_secs(1);

impl Error {
    fn new(kind: Kind, message: impl Into<Cow<'static, str>>, retry: Retry) -> Self {
        Error { kind, particular: None, message: message.into(), detail: None, executed: Executed::No, retry }
    }

    /// Input that can never be accepted.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Invalid, message, Retry::Never)
    }

    /// The claim has another holder now.
    pub fn lost_lease(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::LostLease, message, Retry::SameKey(Duration::ZERO))
    }

    /// A compare-and-set found another version; nothing was written.
    pub fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Conflict, message, Retry::SameKey(Duration::ZERO))
    }

    /// A stream has another version than its writer expected; nothing was written.
    pub fn version_conflict(expected: u64, found: u64) -> Self {
        let error = Self::conflict("the journal was written to meanwhile")
            .with_detail(format_args!("expected version {expected}, found {found}"));
        error.about(Particular::VersionConflict { expected, found })
    }

    /// A stream has another runner; nothing was written.
    pub fn fenced(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Fenced, message, Retry::Never)
    }

    /// A journal's hash chain is broken at this position.
    pub fn broken_chain(stream: &str, position: u64, what: impl fmt::Display) -> Self {
        let error = Self::corrupt("a journal's hash chain is broken")
            .with_detail(format_args!("stream {stream}, position {position}: {what}"));
        error.about(Particular::BrokenChain { stream: stream.to_owned(), position })
    }

    /// Stored bytes have a schema version that this hapax does not know.
    pub fn unsupported_version(version: u32) -> Self {
        let error = Self::corrupt("a journal has a schema version that this hapax does not know")
            .with_detail(format_args!("version {version}"));
        error.about(Particular::UnsupportedVersion { version })
    }

    fn about(mut self, particular: Particular) -> Self {
        self.particular = Some(Box::new(particular));
        self
    }

    /// The store cannot be asked now.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Unavailable, message, Retry::SameKey(UNAVAILABLE_RETRY))
    }

    /// There are as many of these as there may be at once; it may pass.
    pub fn too_many(message: impl Into<Cow<'static, str>>) -> Self {
        Self::unavailable(message).about(Particular::TooMany)
    }

    /// Stored bytes cannot be trusted or understood.
    pub fn corrupt(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Corrupt, message, Retry::Never)
    }

    /// hapax contradicted itself.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Internal, message, Retry::Never)
    }

    /// Adds what belongs in a log and not in an answer.
    #[must_use]
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// What the caller must do.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What it is about, where there is more to tell than the kind.
    pub fn particular(&self) -> Option<&Particular> {
        self.particular.as_deref()
    }

    /// The message that may be shown to anybody.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What belongs in a log only.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Did the work run?
    pub fn executed(&self) -> Executed {
        self.executed
    }

    /// May the caller try again?
    pub fn retry(&self) -> Retry {
        self.retry
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.detail {
            Some(detail) if f.alternate() => write!(f, " ({detail})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_message_does_not_show_the_detail() {
        let error =
            Error::unavailable("the ledger cannot be reached").with_detail("10.0.0.7: connection refused");
        assert_eq!(error.to_string(), "the ledger cannot be reached");
        assert_eq!(format!("{error:#}"), "the ledger cannot be reached (10.0.0.7: connection refused)");
        assert_eq!((error.executed(), error.retry()), (Executed::No, Retry::SameKey(Duration::from_secs(1))));
    }
}
