//! What writes to streams come to, before anything is written: the part of appending that all stores share (J2, L18).
//!
//! A store tells a plan what it has found, asks it about each write, and keeps what has come of them. What a write may do is decided by
//! [`journal::append`]; a refused one leaves the plan as it was.

use std::collections::BTreeMap;

use bytes::Bytes;
use hapax_core::journal::{self, Append, Decided, Event, Found, Head, Stream};
use hapax_core::{Answer, AppendId, Ending, Error, Timestamp};

/// Writes that have been decided and not yet written. `R` is what a store finds a stream by.
#[derive(Debug)]
pub struct Plan<R>(BTreeMap<Stream, Planned<R>>);

/// What becomes of one stream.
#[derive(Debug)]
pub struct Planned<R> {
    /// Where the stream is; `None` where it does not exist yet.
    pub row: Option<R>,
    /// Its end.
    pub head: Option<Head>,
    /// Whether the lease of its runner runs.
    pub lives: bool,
    /// The heads that earlier writes have made, of those that are sent now.
    pub known: Vec<(AppendId, Head)>,
    /// The heads that these writes make.
    pub made: Vec<(AppendId, Head)>,
    /// The events that are appended.
    pub events: Vec<Event>,
    /// The new checkpoint, which belongs to the event that the head names.
    pub checkpoint: Option<Bytes>,
}

impl<R> Default for Plan<R> {
    fn default() -> Self {
        Plan(BTreeMap::new())
    }
}

impl<R> Planned<R> {
    /// A stream as it was found.
    pub fn found(found: Option<(R, Head)>, lives: bool) -> Self {
        let (row, head) = found.unzip();
        Planned { row, head, lives, known: vec![], made: vec![], events: vec![], checkpoint: None }
    }

    fn append(&mut self, write: &Append, now: Timestamp) -> Result<Head, Error> {
        let made = self.made.iter().chain(&self.known).find(|(id, _)| *id == write.id).map(|(_, head)| head);
        let found = Found { head: self.head.as_ref(), made, lives: self.lives };
        let (head, events) = match journal::append(found, write, now)? {
            Decided::Repeated(head) => return Ok(head),
            Decided::Written(head, events) => (head, events),
        };
        if self.head.as_ref().is_none_or(|before| before.runner != head.runner) {
            self.lives = true;
        }
        self.events.extend(events);
        self.made.push((write.id, head.clone()));
        if write.checkpoint.is_some() {
            self.checkpoint.clone_from(&write.checkpoint);
        }
        self.head = Some(head.clone());
        Ok(head)
    }
}

impl<R> Plan<R> {
    /// A stream of the plan, if the store has said what it found.
    pub fn get_mut(&mut self, stream: &Stream) -> Option<&mut Planned<R>> {
        self.0.get_mut(stream)
    }

    /// Says what the store has found.
    pub fn insert(&mut self, stream: Stream, planned: Planned<R>) {
        self.0.insert(stream, planned);
    }

    /// Decides one write to a stream that was found.
    pub fn append(&mut self, write: &Append, now: Timestamp) -> Result<Head, Error> {
        match self.0.get_mut(&write.stream) {
            Some(planned) => planned.append(write, now),
            None => Err(Error::internal("a stream was written to before it was looked for")),
        }
    }

    /// The streams that are written to.
    pub fn into_written(self) -> impl Iterator<Item = (Stream, Planned<R>)> {
        self.0.into_iter().filter(|(_, planned)| !planned.made.is_empty())
    }
}

/// Whether a report that changes nothing must have its events written already: it was sent before. Otherwise the claim was reported on
/// without them, and its holder must be told (L18).
pub fn tells_of_before(answer: &Answer) -> bool {
    matches!(answer, Answer::Ending(Ending::AlreadySettled(_) | Ending::Released | Ending::InDoubt))
}

/// The claim was reported on, but not with these events.
pub fn written_without() -> Error {
    Error::conflict("the claim was reported on before, without these events")
}

/// The name from which a page of streams starts. No name has a control character, so nothing comes between the last name and this.
pub fn page_start(prefix: &str, after: Option<&str>) -> String {
    match after {
        Some(after) if after >= prefix => format!("{after}\u{1}"),
        _ => prefix.to_owned(),
    }
}
