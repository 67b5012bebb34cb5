//! The journals of a memory store (J2).

use std::collections::HashMap;
use std::ops::Bound;

use hapax_core::journal::{
    Checkpoint, Erasure, Event, Head, Listed, Payload, Stream, StreamFilter, Walk, check_checkpoint,
};
use hapax_core::{AppendId, Error, Page, Timestamp, limits as core_limits};

use super::world::World;
use crate::limits;
use crate::parts::plan::{Planned, page_start};

/// One stream.
#[derive(Debug)]
pub(super) struct Journaled {
    pub(super) head: Head,
    /// The heads that the writes so far have made.
    pub(super) made: HashMap<AppendId, Head>,
    events: Vec<Event>,
    checkpoint: Option<Checkpoint>,
}

impl Journaled {
    pub(super) fn new(head: Head) -> Self {
        Journaled { head, made: HashMap::new(), events: Vec::new(), checkpoint: None }
    }

    pub(super) fn keep(&mut self, planned: Planned<()>) {
        let Planned { head, made, events, checkpoint, .. } = planned;
        self.head = head.unwrap_or_else(|| self.head.clone());
        self.made.extend(made);
        self.events.extend(events);
        if let (Some(bytes), Some(seq)) = (checkpoint, self.head.checkpoint) {
            self.checkpoint = Some(Checkpoint { seq, bytes: Some(bytes) });
        }
    }

    fn event(&self, seq: u64) -> Option<&Event> {
        self.events.get(usize::try_from(seq).ok()?)
    }

    pub(super) fn read(&self, stream: &Stream, from: u64, limit: usize) -> Result<Vec<Event>, Error> {
        let before = from.checked_sub(1);
        let mut walk = match before.map(|before| (before, self.event(before))) {
            None => Walk::new(stream, self.head.chain),
            Some((before, Some(event))) => Walk::after(stream, self.head.chain, before, event.hash),
            Some((_, None)) => return Ok(Vec::new()),
        };
        let (mut events, mut bytes) = (Vec::new(), 0);
        while let Some(event) = self.event(walk.next()).filter(|_| events.len() < limit) {
            bytes += event.payload.bytes().map_or(0, |payload| payload.len());
            if !events.is_empty() && bytes > core_limits::MAX_READ_BYTES {
                return Ok(events);
            }
            walk.step(event)?;
            events.push(event.clone());
        }
        if events.len() < limit {
            walk.finish(&self.head)?;
        }
        Ok(events)
    }

    pub(super) fn checkpoint(&self, stream: &Stream) -> Result<Option<Checkpoint>, Error> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(None) };
        let digest = self.event(checkpoint.seq).and_then(|event| event.checkpoint);
        check_checkpoint(stream, checkpoint, digest)?;
        Ok(Some(checkpoint.clone()))
    }

    pub(super) fn erase(&mut self, subject: &str, from: u64, limit: usize) -> Erasure {
        let (length, limit) = (self.head.length, limit.min(core_limits::MAX_PAGE) as u64);
        let until = from.saturating_add(limit).min(length);
        let mut erased = 0;
        for event in self.events.iter_mut().filter(|event| (from..until).contains(&event.seq)) {
            let whose = event.subject.as_ref().or(self.head.subject.as_ref());
            if whose.is_none_or(|whose| whose != subject) || event.payload.bytes().is_none() {
                continue;
            }
            event.payload = Payload::Erased { digest: event.payload.digest() };
            if let Some(checkpoint) = self.checkpoint.as_mut().filter(|kept| kept.seq == event.seq) {
                checkpoint.bytes = None;
            }
            erased += 1;
        }
        Erasure { erased, next: Some(until).filter(|until| *until < length) }
    }
}

impl World {
    pub(super) fn list_streams(
        &self,
        filter: &StreamFilter,
        after: Option<&str>,
        limit: usize,
        now: Timestamp,
    ) -> Page<Listed> {
        let limit = limit.min(core_limits::MAX_PAGE);
        let start = page_start(&filter.prefix, after);
        let (mut items, mut last) = (Vec::new(), None);
        let from = self.journals.range::<str, _>((Bound::Included(&start[..]), Bound::Unbounded));
        for (scanned, (stream, journal)) in from.enumerate() {
            if !stream.as_str().starts_with(&filter.prefix) {
                break;
            }
            if items.len() == limit || scanned == limits::PAGE_SCAN {
                return Page::new(items, last);
            }
            last = Some(stream.as_str().to_owned());
            if filter.status.is_none_or(|status| journal.head.status == Some(status)) {
                let (head, lives) = (journal.head.clone(), self.lives(&journal.head, now));
                items.push(Listed { stream: stream.clone(), head, lives });
            }
        }
        Page::new(items, None)
    }
}
