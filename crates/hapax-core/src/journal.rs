//! Journals: append-only streams of events, each hashed with the one before it (J2, J3).
//!
//! Here are the words. [`append`] decides every write to a stream and [`Walk`] checks every chain, so that no store has rules of its
//! own; a store keeps what they say. What the events of an execution or the receipts of actions mean is for those who write them.

mod chain;
mod decide;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

pub use chain::{Walk, check_checkpoint, link};
pub use decide::{Decided, Found, append};

use crate::error::Error;
use crate::id::{AppendId, RunnerId, SessionId, random_bytes, write_hex};
use crate::limits;
use crate::time::Timestamp;

/// The name of a stream, such as `receipts/acme` or `execution/acme/prod/e-42`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream(String);

impl Stream {
    /// Checks a name: 1 to 512 bytes, no control characters.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        if name.is_empty() || name.len() > limits::MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(Error::invalid("a stream's name has 1 to 512 printable bytes"));
        }
        Ok(Stream(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Stream {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// How the events of a stream are chained. It is chosen when the stream is made, and never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Chain {
    /// The payload alone, hashes as lower-case hexadecimal text.
    V1,
    /// The whole envelope, length-prefixed, with a salted digest of the payload: a payload that is erased together with its salt
    /// leaves a chain that can be checked and tells nothing.
    #[default]
    V2,
}

impl Chain {
    /// The schema version that is stored with the stream.
    pub fn version(self) -> u32 {
        match self {
            Chain::V1 => 1,
            Chain::V2 => 2,
        }
    }

    /// Reads a stored schema version; an unknown one is refused.
    pub fn from_version(version: u32) -> Result<Self, Error> {
        match version {
            1 => Ok(Chain::V1),
            2 => Ok(Chain::V2),
            _ => Err(Error::unsupported_version(version)),
        }
    }
}

/// A SHA-256: of one event and, through it, of all before it; of a payload with its salt; or of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The hash of these parts, one after the other.
    fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        parts.iter().for_each(|part| hasher.update(part));
        Hash(hasher.finalize().into())
    }

    /// Lower-case hexadecimal.
    pub fn to_hex(self) -> String {
        let mut text = String::with_capacity(64);
        // Writing into a String cannot fail.
        let _ = write_hex(&mut text, &self.0);
        text
    }
}

/// What the owner of a stream says of it (J1). A stream that nobody owns has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Its runner is at work.
    Running,
    /// It waits for somebody to go on with it.
    Paused,
    /// A new runner reads what the former one has left.
    Recovering,
    /// It has come to its end.
    Completed,
    /// It has failed, or was cancelled.
    Failed,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 5] =
        [Status::Running, Status::Paused, Status::Recovering, Status::Completed, Status::Failed];

    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Running => "RUNNING",
            Status::Paused => "PAUSED",
            Status::Recovering => "RECOVERING",
            Status::Completed => "COMPLETED",
            Status::Failed => "FAILED",
        }
    }

    /// Reads it back; `None` where there is no such status.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether nothing is appended any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Failed)
    }
}

/// Who may write to a stream, and what that right hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Runner {
    /// What each of its writes carries.
    pub id: RunnerId,
    /// The session or lease that it lives with: once that has lapsed, another runner may take its place.
    pub lease: SessionId,
}

impl Runner {
    /// A fresh runner that lives with this session or lease.
    pub fn fresh(lease: SessionId) -> Self {
        Runner { id: RunnerId::random(), lease }
    }
}

/// What a stream is from its beginning on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Birth {
    /// How its events are chained.
    pub chain: Chain,
    /// The agent that it belongs to, for listings.
    pub agent: Option<String>,
    /// Whose data its events have, as a subject is rendered (`user:alice`): those that say nothing else themselves.
    pub subject: Option<String>,
    /// Who may write to it; without one everybody may.
    pub runner: Option<Runner>,
}

/// Who writes, and what the writer believes the stream to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Author {
    /// Makes the stream, which must not exist.
    Creator(Birth),
    /// Writes to a stream that has no runner, with the version that it believes the stream to have (0: does not exist) or without.
    /// Where there is no such stream, this makes one.
    Anyone {
        /// The version that it must have.
        version: Option<u64>,
    },
    /// The stream's runner.
    Runner {
        /// Its id.
        id: RunnerId,
        /// The version that the stream must have.
        version: u64,
    },
    /// A new runner in the place of one whose lease has lapsed.
    Successor {
        /// The new one.
        runner: Runner,
        /// The version that the stream must have.
        version: u64,
        /// Whether the former runner's lease may still run: an operator has decided so.
        force: bool,
    },
    /// Brings the result of a step, whoever the runner is by now. Its append id is the step's, so it is written once. The stream must
    /// be there, and not have come to its end.
    Step,
}

/// An event that is to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Its type, such as `ITERATION_COMPLETE`.
    pub kind: String,
    /// Canonical JSON (RFC 8785), or what a seal has made of it.
    pub payload: Bytes,
    /// Hashed with the payload, and destroyed with it.
    pub salt: Salt,
    /// Whose data the payload has; where there is none, the stream's subject.
    pub subject: Option<String>,
    /// When it happened, where that was not now: events that come from another store keep their times.
    pub at: Option<Timestamp>,
}

impl NewEvent {
    /// An event that happens now, with a fresh salt.
    pub fn new(kind: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        NewEvent { kind: kind.into(), payload: payload.into(), salt: Salt::random(), subject: None, at: None }
    }
}

/// Random bytes that keep the digest of a payload from telling anything about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Salt(pub [u8; 16]);

impl Salt {
    /// A new one.
    pub fn random() -> Self {
        Salt(random_bytes())
    }
}

/// What an event says, as far as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// As it was written.
    Kept {
        /// The bytes.
        bytes: Bytes,
        /// What they are hashed with in chain 2.
        salt: Salt,
    },
    /// Destroyed, together with its salt; the digest of both is left, so that the chain can still be checked (B9).
    Erased {
        /// SHA-256 of salt and payload.
        digest: Hash,
    },
}

impl Payload {
    /// The bytes, unless they were erased.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Payload::Kept { bytes, .. } => Some(bytes),
            Payload::Erased { .. } => None,
        }
    }

    /// SHA-256 of salt and payload.
    pub fn digest(&self) -> Hash {
        match self {
            Payload::Kept { bytes, salt } => Hash::of(&[&salt.0, bytes]),
            Payload::Erased { digest } => *digest,
        }
    }
}

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the stream, from 0.
    pub seq: u64,
    /// Its type.
    pub kind: String,
    /// When it was appended, on the store's clock.
    pub at: Timestamp,
    /// What it says.
    pub payload: Payload,
    /// Whose data the payload has; where there is none, the stream's subject.
    pub subject: Option<String>,
    /// SHA-256 of the checkpoint that belongs to it.
    pub checkpoint: Option<Hash>,
    /// The chain's hash up to and including this event.
    pub hash: Hash,
}

/// The end of a stream, kept beside it so that a cut tail shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// How often the stream was written to.
    pub version: u64,
    /// How many events it has.
    pub length: u64,
    /// The hash of the last event.
    pub hash: Option<Hash>,
    /// What the owner of the stream says of it.
    pub status: Option<Status>,
    /// Who may write to it.
    pub runner: Option<Runner>,
    /// The place of the event that the latest checkpoint belongs to.
    pub checkpoint: Option<u64>,
    /// How its events are chained.
    pub chain: Chain,
    /// The agent that it belongs to.
    pub agent: Option<String>,
    /// Whose data its events have.
    pub subject: Option<String>,
    /// When it was made, on the store's clock.
    pub created_at: Timestamp,
    /// When it was last written to.
    pub updated_at: Timestamp,
}

/// One write to a stream. All of it happens, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// Sent again under the same id, it writes nothing and is answered with the head that it made.
    pub id: AppendId,
    /// Where.
    pub stream: Stream,
    /// Who writes.
    pub author: Author,
    /// What is appended.
    pub events: Vec<NewEvent>,
    /// The new status, if it changes.
    pub status: Option<Status>,
    /// The new snapshot, if it changes. It belongs to the last of the events, which has its digest.
    pub checkpoint: Option<Bytes>,
}

impl Append {
    /// A write under a fresh id that changes nothing yet.
    pub fn new(stream: Stream, author: Author) -> Self {
        let id = AppendId::random();
        Append { id, stream, author, events: Vec::new(), status: None, checkpoint: None }
    }

    /// The same with these events.
    #[must_use]
    pub fn with(self, events: Vec<NewEvent>) -> Self {
        Append { events, ..self }
    }

    /// Roughly how many bytes it has.
    pub fn weight(&self) -> usize {
        let events: usize = self.events.iter().map(|event| event.payload.len() + event.kind.len()).sum();
        events + self.checkpoint.as_ref().map_or(0, Bytes::len)
    }
}

/// A stream's latest snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The place of the event that it belongs to.
    pub seq: u64,
    /// The bytes; `None` where they were erased.
    pub bytes: Option<Bytes>,
}

/// Which streams are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamFilter {
    /// What their names begin with.
    pub prefix: String,
    /// With this status.
    pub status: Option<Status>,
}

/// A stream in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub stream: Stream,
    /// Its end.
    pub head: Head,
    /// Whether its runner's lease runs, on the store's clock. `false` where it has no runner.
    pub lives: bool,
}

/// What one round of erasing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erasure {
    /// Events whose payload was destroyed.
    pub erased: u64,
    /// Where the next round starts; `None` when all events were looked at.
    pub next: Option<u64>,
}

#[cfg(test)]
mod tests;
