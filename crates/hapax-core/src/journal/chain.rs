//! The hash chain: how an event follows the one before it, and how a stored chain is checked (J3).

use sha2::{Digest as _, Sha256};

use super::{Chain, Checkpoint, Event, Hash, Head, Payload, Stream};
use crate::error::Error;

/// The hash of an event of `stream` that follows `previous`. Its own hash is not looked at.
///
/// An event of chain 1 whose payload was erased cannot be hashed: `None`.
pub fn link(stream: &Stream, chain: Chain, previous: Option<Hash>, event: &Event) -> Option<Hash> {
    let mut hasher = Sha256::new();
    match (chain, &event.payload) {
        (Chain::V1, Payload::Erased { .. }) => return None,
        (Chain::V1, Payload::Kept { bytes, .. }) => {
            match previous {
                Some(hash) => hasher.update(hash.to_hex()),
                None => hasher.update("GENESIS"),
            }
            hasher.update(bytes);
        }
        (Chain::V2, payload) => {
            hasher.update("hapax.journal.v2");
            hasher.update(previous.map_or([0; 32], |hash| hash.0));
            hasher.update(event.seq.to_be_bytes());
            hasher.update(event.at.as_micros().to_be_bytes());
            for part in [stream.as_str(), &event.kind] {
                hasher.update((part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
            hasher.update([u8::from(event.subject.is_some())]);
            let subject = event.subject.as_deref().unwrap_or_default();
            hasher.update((subject.len() as u64).to_be_bytes());
            hasher.update(subject);
            hasher.update(payload.digest().0);
            hasher.update([u8::from(event.checkpoint.is_some())]);
            hasher.update(event.checkpoint.map_or([0; 32], |hash| hash.0));
        }
    }
    Some(Hash(hasher.finalize().into()))
}

/// Goes along a stream's events in order and checks that each follows the one before it. An error says where the chain breaks.
#[derive(Clone, Debug)]
pub struct Walk {
    stream: Stream,
    chain: Chain,
    next: u64,
    hash: Option<Hash>,
}

impl Walk {
    /// From the first event on.
    pub fn new(stream: &Stream, chain: Chain) -> Self {
        Walk { stream: stream.clone(), chain, next: 0, hash: None }
    }

    /// From the event after one whose hash is known.
    pub fn after(stream: &Stream, chain: Chain, seq: u64, hash: Hash) -> Self {
        Walk { stream: stream.clone(), chain, next: seq + 1, hash: Some(hash) }
    }

    /// The place of the next event.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The chain is broken at the next event.
    pub fn broken(&self, what: impl std::fmt::Display) -> Error {
        Error::broken_chain(self.stream.as_str(), self.next, what)
    }

    /// Checks the next event.
    pub fn step(&mut self, event: &Event) -> Result<(), Error> {
        if event.seq != self.next {
            return Err(self.broken(format_args!("event {} stands there", event.seq)));
        }
        // What chain 1 hashed was erased on purpose: the hash that is kept stands for it, and the next event is checked against that.
        let hash = link(&self.stream, self.chain, self.hash, event).unwrap_or(event.hash);
        if hash != event.hash {
            return Err(self.broken("the event is not what was written"));
        }
        (self.next, self.hash) = (self.next + 1, Some(hash));
        Ok(())
    }

    /// Checks that the stream ends here.
    pub fn finish(&self, head: &Head) -> Result<(), Error> {
        if self.next < head.length {
            return Err(self.broken("the event is missing"));
        }
        if self.next == head.length && self.hash == head.hash {
            return Ok(());
        }
        let last = head.length.saturating_sub(1);
        Err(Error::broken_chain(self.stream.as_str(), last, "the stream does not end as its head says"))
    }
}

/// Checks a checkpoint against the event that it belongs to, which is given with its digest.
pub fn check_checkpoint(stream: &Stream, checkpoint: &Checkpoint, digest: Option<Hash>) -> Result<(), Error> {
    let Some(bytes) = &checkpoint.bytes else { return Ok(()) };
    if digest == Some(Hash::of(&[bytes])) {
        return Ok(());
    }
    Err(Error::broken_chain(stream.as_str(), checkpoint.seq, "the checkpoint is not what was written"))
}
