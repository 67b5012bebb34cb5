//! Journals: append-only streams of events, each hashed with the one before it (J2, J3).
//!
//! Here are the words and the chain. A store keeps the events and the head; it calls [`link`] for every event it appends,
//! so that no store has a chain of its own.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::id::write_hex;
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

/// How events are chained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chain {
    /// The payload alone, hashes as lower-case hexadecimal text.
    V1,
    /// The whole envelope, length-prefixed.
    V2,
}

impl Chain {
    /// The schema version that is stored with the event.
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
            _ => Err(Error::corrupt("a journal event has a schema version that this hapax does not know")),
        }
    }
}

/// The hash of one event and, through it, of all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Lower-case hexadecimal.
    pub fn to_hex(self) -> String {
        let mut text = String::with_capacity(64);
        // Writing into a String cannot fail.
        let _ = write_hex(&mut text, &self.0);
        text
    }
}

/// An event that is to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Its type, such as `ITERATION_COMPLETE`.
    pub kind: String,
    /// Canonical JSON (RFC 8785).
    pub payload: Bytes,
    /// How it is chained.
    pub chain: Chain,
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
    /// Canonical JSON.
    pub payload: Bytes,
    /// The chain's hash up to and including this event.
    pub hash: Hash,
    /// How it is chained.
    pub chain: Chain,
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
    /// What the owner of the stream says of it, such as `RUNNING`.
    pub status: String,
    /// The owner's latest snapshot.
    pub checkpoint: Bytes,
}

/// What a writer believes the stream to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever it is; the store assigns the sequence.
    Any,
    /// Exactly this version; 0 for a stream that does not exist.
    Version(u64),
}

/// One write to a stream. All of it happens, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// Where.
    pub stream: Stream,
    /// What the writer believes the stream to be.
    pub expect: Expect,
    /// What is appended.
    pub events: Vec<NewEvent>,
    /// The new status, if it changes.
    pub status: Option<String>,
    /// The new snapshot, if it changes.
    pub checkpoint: Option<Bytes>,
}

/// The hash of an event that follows `previous`.
pub fn link(stream: &Stream, previous: Option<Hash>, seq: u64, at: Timestamp, event: &NewEvent) -> Hash {
    let mut hasher = Sha256::new();
    match event.chain {
        Chain::V1 => {
            match previous {
                Some(hash) => hasher.update(hash.to_hex()),
                None => hasher.update("GENESIS"),
            }
            hasher.update(&event.payload);
        }
        Chain::V2 => {
            hasher.update("hapax.journal.v2");
            hasher.update(previous.map_or([0; 32], |hash| hash.0));
            hasher.update(seq.to_be_bytes());
            hasher.update(at.as_micros().to_be_bytes());
            for part in [stream.as_str().as_bytes(), event.kind.as_bytes(), &event.payload] {
                hasher.update((part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
    }
    Hash(hasher.finalize().into())
}

/// Applies one write to a head: the new head and the events as they will be kept, or a conflict.
pub fn append(head: Option<&Head>, write: &Append, at: Timestamp) -> Result<(Head, Vec<Event>), Error> {
    let mut after = head.cloned().unwrap_or(Head {
        version: 0,
        length: 0,
        hash: None,
        status: String::new(),
        checkpoint: Bytes::new(),
    });
    if let Expect::Version(expected) = write.expect
        && expected != after.version
    {
        return Err(Error::conflict("the journal was written to meanwhile")
            .with_detail(format!("expected version {expected}, found {}", after.version)));
    }
    let mut events = Vec::with_capacity(write.events.len());
    for event in &write.events {
        let hash = link(&write.stream, after.hash, after.length, at, event);
        events.push(Event {
            seq: after.length,
            kind: event.kind.clone(),
            at,
            payload: event.payload.clone(),
            hash,
            chain: event.chain,
        });
        after.hash = Some(hash);
        after.length += 1;
    }
    after.version += 1;
    if let Some(status) = &write.status {
        after.status.clone_from(status);
    }
    if let Some(checkpoint) = &write.checkpoint {
        after.checkpoint = checkpoint.clone();
    }
    Ok((after, events))
}

/// Checks that `event` follows `previous`; the position of the break is the event's own sequence number.
pub fn verify(stream: &Stream, previous: Option<Hash>, seq: u64, event: &Event) -> Result<Hash, Error> {
    let new = NewEvent { kind: event.kind.clone(), payload: event.payload.clone(), chain: event.chain };
    let hash = link(stream, previous, seq, event.at, &new);
    if event.seq != seq || event.hash != hash {
        return Err(Error::corrupt("a journal's hash chain is broken")
            .with_detail(format!("stream {}, position {seq}", stream.as_str())));
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, payload: &'static str, chain: Chain) -> NewEvent {
        NewEvent { kind: kind.into(), payload: Bytes::from_static(payload.as_bytes()), chain }
    }

    fn write(expect: Expect, events: Vec<NewEvent>) -> Append {
        Append { stream: Stream::new("s").unwrap(), expect, events, status: None, checkpoint: None }
    }

    #[test]
    fn version_1_is_the_formula_of_its_source() {
        // J3: hash_0 = SHA256("GENESIS" + payload), hash_n = SHA256(hex(hash_{n-1}) + payload).
        let events = vec![event("A", "{}", Chain::V1), event("B", "[1]", Chain::V1)];
        let (_, kept) = append(None, &write(Expect::Any, events), Timestamp::ZERO).unwrap();
        let first: [u8; 32] = Sha256::digest("GENESIS{}").into();
        assert_eq!(kept[0].hash, Hash(first));
        let second: [u8; 32] = Sha256::digest(format!("{}[1]", Hash(first).to_hex())).into();
        assert_eq!(kept[1].hash, Hash(second));
    }

    #[test]
    fn version_2_notices_a_changed_type_time_or_place() {
        let stream = Stream::new("s").unwrap();
        let at = Timestamp::from_micros(5);
        let (_, kept) = append(None, &write(Expect::Any, vec![event("A", "{}", Chain::V2)]), at).unwrap();
        assert!(verify(&stream, None, 0, &kept[0]).is_ok());
        let retyped = Event { kind: "B".into(), ..kept[0].clone() };
        let moved = Event { at: Timestamp::from_micros(6), ..kept[0].clone() };
        assert!(verify(&stream, None, 0, &retyped).is_err());
        assert!(verify(&stream, None, 0, &moved).is_err());
        assert!(verify(&Stream::new("t").unwrap(), None, 0, &kept[0]).is_err());
    }

    #[test]
    fn version_2_notices_an_event_in_another_place() {
        // J3: with the same hash before it, the place alone tells.
        let (stream, at) = (Stream::new("s").unwrap(), Timestamp::from_micros(5));
        let new = event("A", "{}", Chain::V2);
        assert_ne!(link(&stream, None, 0, at, &new), link(&stream, None, 1, at, &new));
        let (_, kept) = append(None, &write(Expect::Any, vec![new]), at).unwrap();
        // Version 1 does not hash the place, so it is compared as well.
        let (_, old) =
            append(None, &write(Expect::Any, vec![event("A", "{}", Chain::V1)]), Timestamp::ZERO).unwrap();
        for event in [&kept[0], &old[0]] {
            let moved = Event { seq: 1, ..event.clone() };
            assert!(verify(&stream, None, 0, event).is_ok());
            assert!(verify(&stream, None, 0, &moved).is_err());
        }
    }

    #[test]
    fn a_head_has_the_latest_status_and_checkpoint_that_were_written() {
        // J1
        let first = Append {
            status: Some("RUNNING".into()),
            checkpoint: Some(Bytes::from_static(b"1")),
            ..write(Expect::Any, vec![])
        };
        let (head, _) = append(None, &first, Timestamp::ZERO).unwrap();
        let (head, _) = append(Some(&head), &write(Expect::Any, vec![]), Timestamp::ZERO).unwrap();
        assert_eq!((head.status.as_str(), &head.checkpoint[..], head.version), ("RUNNING", &b"1"[..], 2));
    }

    #[test]
    fn a_write_that_expects_another_version_writes_nothing() {
        let (head, _) = append(None, &write(Expect::Version(0), vec![]), Timestamp::ZERO).unwrap();
        assert_eq!(head.version, 1);
        let error = append(Some(&head), &write(Expect::Version(0), vec![]), Timestamp::ZERO).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Conflict);
    }

    #[test]
    fn an_unknown_schema_version_is_refused() {
        assert_eq!(Chain::from_version(3).unwrap_err().kind(), crate::Kind::Corrupt);
    }
}
