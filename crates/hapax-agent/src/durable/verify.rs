//! Checking a chain of events from its beginning to its end, in memory that does not grow with it (J3, J7).

use hapax_core::journal::{Chain, Checkpoint, Event, Hash, Head, Payload, Status, Stream, Walk};
use hapax_core::{Error as CoreError, Journal, Kind, Particular};
use serde::Serialize;

use super::error::Error;
use super::event;
use super::execution::PREFIX;
use crate::limits;

/// What checking a stream has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The stream.
    pub stream: String,
    /// How many events were found sound.
    pub events: u64,
    /// How many payloads of these were erased: their chain holds without them.
    pub erased: u64,
    /// How the events are chained.
    pub schema_version: u32,
    /// What the owner of the stream says of it.
    pub status: Option<String>,
    /// The hash of the last event that was found sound.
    pub hash: Option<String>,
    /// Where the chain breaks; `None` where it is sound.
    pub broken: Option<Broken>,
}

/// Where a chain breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Broken {
    /// The sequence number of the first event that is not what was written, or is missing.
    pub position: u64,
    /// What is wrong there.
    pub what: String,
}

impl Report {
    /// Whether everything is as it was written.
    pub fn is_sound(&self) -> bool {
        self.broken.is_none()
    }
}

/// Checks a stream: every event, that it ends as its head says, that its latest checkpoint is the one that its events have, and, of an
/// execution, that its status and its subject are the ones that its events set. A stream that is written to meanwhile is checked as far as
/// it was at the beginning.
pub async fn verify<S: Journal>(store: &S, stream: &Stream) -> Result<Report, Error> {
    let head = match store.head(stream).await {
        Ok(head) => head.ok_or(Error::NotFound)?,
        // Where not even the head is what was written, nothing after it can be trusted.
        Err(error) => {
            let broken = Some(broken(error, 0)?);
            let stream = stream.as_str().to_owned();
            return Ok(Report { stream, broken, ..Report::default() });
        }
    };
    let mut report = Report {
        stream: stream.as_str().to_owned(),
        events: 0,
        erased: 0,
        schema_version: head.chain.version(),
        status: head.status.map(|status: Status| status.as_str().to_owned()),
        hash: None,
        broken: None,
    };
    match walk(store, stream, &head, &mut report).await {
        Ok(()) => Ok(report),
        Err(error) => {
            report.broken = Some(broken(error, report.events)?);
            Ok(report)
        }
    }
}

/// Checks some events of a stream from a place on, and says where the next page starts; `None` at the end, where it is also checked
/// that the stream ends as its head says, and its checkpoint. All pages together check what [`verify`] does, but for the status of an
/// execution that has not ended: that one is compared where the last page has an event that sets it.
pub async fn verify_page<S: Journal>(
    store: &S,
    stream: &Stream,
    from: u64,
    limit: usize,
) -> Result<(Report, Option<u64>), Error> {
    let mut report = Report { stream: stream.as_str().to_owned(), ..Report::default() };
    let head = match store.head(stream).await {
        Ok(head) => head.ok_or(Error::NotFound)?,
        Err(error) => {
            report.broken = Some(broken(error, 0)?);
            return Ok((report, None));
        }
    };
    report.schema_version = head.chain.version();
    report.status = head.status.map(|status: Status| status.as_str().to_owned());
    let from = from.min(head.length);
    match page(store, stream, &head, from, limit, &mut report).await {
        Ok(next) => Ok((report, next)),
        Err(error) => {
            report.broken = Some(broken(error, from + report.events)?);
            Ok((report, None))
        }
    }
}

async fn page<S: Journal>(
    store: &S,
    stream: &Stream,
    head: &Head,
    from: u64,
    limit: usize,
    report: &mut Report,
) -> Result<Option<u64>, CoreError> {
    let left = usize::try_from(head.length - from).unwrap_or(usize::MAX);
    // Past the end, the last event tells what the head is compared with. The store checks that each event follows the one before it.
    let (first, most) = match left {
        0 => (from.saturating_sub(1), 1),
        _ => (from, limit.clamp(1, limits::READ_PAGE).min(left)),
    };
    let events = if head.length == 0 { Vec::new() } else { store.read(stream, first, most).await? };
    let of_page = || events.iter().filter(|event| event.seq >= from);
    report.events = of_page().count() as u64;
    report.erased = of_page().filter(|event| matches!(event.payload, Payload::Erased { .. })).count() as u64;
    let last = events.last();
    report.hash = last.map(|event| event.hash.to_hex());
    let mut seen = Seen::default();
    for event in &events {
        seen.event(stream, head, event)?;
        names_the_latest(stream, head, event)?;
    }
    let next = last.map_or(first, |event| event.seq + 1);
    // A page without events is at the end, whatever the head says.
    if next < head.length && !events.is_empty() {
        return Ok(Some(next));
    }
    ends(stream, head, next, last.map(|event| event.hash))?;
    nothing_beyond(store, stream, head.length).await?;
    // An event that ends an execution is its last one.
    let is_over = head.status.is_some_and(Status::is_terminal);
    let said = seen.status.or(head.status.filter(|_| !is_over).or(Some(Status::Running)));
    status_is(stream, said, head)?;
    kept_checkpoint(store, stream, head, head.checkpoint).await.map(|()| None)
}

async fn walk<S: Journal>(
    store: &S,
    stream: &Stream,
    head: &Head,
    report: &mut Report,
) -> Result<(), CoreError> {
    let (mut next, mut last, mut seen) = (0, None, Seen::default());
    while next < head.length {
        let left = usize::try_from(head.length - next).unwrap_or(usize::MAX);
        // The store checks that each event follows the one before it: to hash all of it once more would tell nothing new.
        let events = store.read(stream, next, left.min(limits::READ_PAGE)).await?;
        let Some(end) = events.last() else { break };
        events.iter().try_for_each(|event| seen.event(stream, head, event))?;
        (next, last) = (end.seq + 1, Some(end.hash));
        report.events += events.len() as u64;
        let erased = events.iter().filter(|event| matches!(event.payload, Payload::Erased { .. }));
        report.erased += erased.count() as u64;
        report.hash = last.map(Hash::to_hex);
    }
    ends(stream, head, next, last)?;
    nothing_beyond(store, stream, head.length).await?;
    status_is(stream, seen.status, head)?;
    kept_checkpoint(store, stream, head, seen.checkpoint).await
}

/// What the head of a stream says as well is compared with its events on the way along them.
#[derive(Default)]
struct Seen {
    status: Option<Status>,
    /// The last event that a checkpoint was written with.
    checkpoint: Option<u64>,
}

impl Seen {
    fn event(&mut self, stream: &Stream, head: &Head, event: &Event) -> Result<(), CoreError> {
        self.status = event::status_set_by(&event.kind).or(self.status);
        if event::has_checkpoint(head.chain, event) {
            self.checkpoint = Some(event.seq);
        }
        first_is(stream, head, event)
    }
}

/// Of some events alone: none after the one that the head names has a checkpoint, and that one has.
fn names_the_latest(stream: &Stream, head: &Head, event: &Event) -> Result<(), CoreError> {
    let seen = Some(event.seq).filter(|_| event::has_checkpoint(head.chain, event));
    match head.checkpoint {
        Some(named) if named > event.seq => Ok(()),
        named if named == Some(event.seq) || seen.is_some() => {
            let kept = seen.map(|seq| Checkpoint { seq, bytes: None });
            checkpoint_is(stream, seen, named, kept.as_ref())
        }
        _ => Ok(()),
    }
}

/// The head of an execution has the agent and the subject that the first event has. What is sealed is not compared; in chain 1 the subject
/// is not hashed.
pub(crate) fn first_is(stream: &Stream, head: &Head, event: &Event) -> Result<(), CoreError> {
    if event.seq != 0 || event.kind != event::kind::CREATED || !is_execution(stream) {
        return Ok(());
    }
    let created = event.payload.bytes().map(|bytes| serde_json::from_slice::<event::Created>(bytes));
    let what = match created {
        Some(Ok(created)) if head.agent.as_deref() != Some(&created.agent_id) => "agent",
        _ if head.chain == Chain::V2 && event.subject != head.subject => "subject",
        _ => return Ok(()),
    };
    let what = format_args!("the head has another {what}").to_string();
    Err(CoreError::broken_chain(stream.as_str(), 0, what))
}

fn is_execution(stream: &Stream) -> bool {
    stream.as_str().starts_with(PREFIX)
}

/// The status of an execution is the one that its events have set last.
pub(crate) fn status_is(stream: &Stream, said: Option<Status>, head: &Head) -> Result<(), CoreError> {
    if !is_execution(stream) || said.is_none() || said == head.status {
        return Ok(());
    }
    let what = "the status is not the one that the events set: it was changed, or an import was cut off";
    Err(CoreError::broken_chain(stream.as_str(), head.length.saturating_sub(1), what))
}

/// The checkpoint that is kept is the one that the head names, and the last one that was seen.
async fn kept_checkpoint<S: Journal>(
    store: &S,
    stream: &Stream,
    head: &Head,
    seen: Option<u64>,
) -> Result<(), CoreError> {
    let kept = store.checkpoint(stream).await?;
    // One that was written meanwhile was compared with its event by the store.
    let kept = match (kept, head.checkpoint) {
        (Some(kept), Some(seq)) if kept.seq >= head.length => Some(Checkpoint { seq, ..kept }),
        (Some(kept), None) if kept.seq >= head.length => None,
        (kept, _) => kept,
    };
    checkpoint_is(stream, seen, head.checkpoint, kept.as_ref())
}

/// The last event that a checkpoint was written with is the one that the head names, and the checkpoint that is kept is that one.
pub(crate) fn checkpoint_is(
    stream: &Stream,
    seen: Option<u64>,
    named: Option<u64>,
    kept: Option<&Checkpoint>,
) -> Result<(), CoreError> {
    let broken = |at: u64, what: &str| Err(CoreError::broken_chain(stream.as_str(), at, what));
    match (seen, named, kept.map(|kept| kept.seq)) {
        (None, None, None) => Ok(()),
        (Some(seen), Some(named), Some(kept)) if seen == named && named == kept => Ok(()),
        (Some(seen), named, _) if named.is_none_or(|named| named < seen) => {
            broken(seen, "the head does not know of its checkpoint")
        }
        (seen, Some(named), _) if seen != Some(named) => {
            broken(named, "the head names it for a checkpoint that it does not have")
        }
        (seen, _, None) => broken(seen.unwrap_or(0), "the checkpoint is missing"),
        (_, _, Some(kept)) => broken(kept, "the checkpoint is not the latest one"),
    }
}

/// The chain, of which so many events were read, ends as the head says.
pub(crate) fn ends(stream: &Stream, head: &Head, next: u64, last: Option<Hash>) -> Result<(), CoreError> {
    let walk = match (next.checked_sub(1), last) {
        (Some(seq), Some(hash)) => Walk::after(stream, head.chain, seq, hash),
        _ => Walk::new(stream, head.chain),
    };
    walk.finish(head)
}

/// There is no event that the head does not know of.
pub(crate) async fn nothing_beyond<S: Journal>(
    store: &S,
    stream: &Stream,
    length: u64,
) -> Result<(), CoreError> {
    let more = store.read(stream, length, 1).await?;
    // Asked afterwards: what is appended meanwhile is known to the head by then.
    let known = store.head(stream).await?.map_or(0, |head| head.length);
    match more.is_empty() || known > length {
        true => Ok(()),
        false => Err(CoreError::broken_chain(stream.as_str(), length, "the head does not know of the event")),
    }
}

/// The place of a broken chain, or of what cannot be read because it was damaged; any other error stays one.
fn broken(error: CoreError, after: u64) -> Result<Broken, Error> {
    let what = || error.detail().unwrap_or(error.message()).to_owned();
    match (error.particular(), error.kind()) {
        (Some(Particular::BrokenChain { position, .. }), _) => {
            Ok(Broken { position: *position, what: what() })
        }
        (None, Kind::Corrupt) => Ok(Broken { position: after, what: what() }),
        _ => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::journal::{Append, Author, NewEvent};
    use hapax_store::Options;
    use hapax_store::memory::Memory;

    use super::*;

    #[tokio::test]
    async fn a_chain_that_ends_otherwise_than_its_head_says_is_broken_at_its_end_j3() {
        let store = Memory::open(Options::default());
        let stream = Stream::new("receipts/acme").unwrap();
        let events = ["A", "B"].map(|kind| NewEvent::new(kind, "{}")).to_vec();
        let author = Author::Anyone { version: None };
        let head = store.append(Append::new(stream.clone(), author).with(events)).await.unwrap();
        let place = |next, last| {
            ends(&stream, &head, next, last).err().map(|error| broken(error, 9).unwrap().position)
        };
        assert_eq!(place(2, head.hash), None);
        assert_eq!(place(2, Some(Hash([0; 32]))), Some(1));
        assert_eq!(place(1, head.hash), Some(1), "one is missing");
        assert_eq!(place(0, None), Some(0), "all are");
    }
}
