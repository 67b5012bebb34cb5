//! What becomes of a stream that is written to: the one function that every store asks (J2).

use super::{
    Append, Author, Birth, Chain, Event, Hash, Head, NewEvent, Payload, Runner, Status, Stream, link,
};
use crate::error::Error;
use crate::limits;
use crate::time::Timestamp;

/// What a store has found before it asks what to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found<'a> {
    /// The end of the stream; `None` where it does not exist.
    pub head: Option<&'a Head>,
    /// The head that a write with this id has made before.
    pub made: Option<&'a Head>,
    /// Whether the lease of the stream's runner runs.
    pub lives: bool,
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The stream becomes this. The checkpoint of the write, if it has one, belongs to the last of the events.
    Written(Head, Vec<Event>),
    /// Nothing: it was written before, and made this head.
    Repeated(Head),
}

/// Decides one write: the new head and the events as they will be kept, or why it is refused.
pub fn append(found: Found<'_>, write: &Append, now: Timestamp) -> Result<Decided, Error> {
    check(write)?;
    if let Some(made) = found.made {
        return Ok(Decided::Repeated(made.clone()));
    }
    let mut head = match found.head {
        None => born(write, now)?,
        Some(head) => admit(head, &write.author, found.lives)?,
    };
    let events = chain_up(&mut head, write, now);
    head.version += 1;
    head.updated_at = now;
    head.status = write.status.or(head.status);
    if write.checkpoint.is_some() {
        head.checkpoint = events.last().map(|event| event.seq);
    }
    Ok(Decided::Written(head, events))
}

/// The head of a stream that does not exist yet, for whoever may make it.
fn born(write: &Append, now: Timestamp) -> Result<Head, Error> {
    let birth = match &write.author {
        Author::Creator(birth) => birth.clone(),
        Author::Anyone { version: None | Some(0) } => Birth::default(),
        Author::Anyone { version: Some(expected) } | Author::Successor { version: expected, .. } => {
            return Err(Error::version_conflict(*expected, 0));
        }
        Author::Runner { version: expected, .. } => return Err(Error::version_conflict(*expected, 0)),
        Author::Step => return Err(Error::conflict("the stream does not exist")),
    };
    let Birth { chain, agent, subject, runner } = birth;
    Ok(Head {
        version: 0,
        length: 0,
        hash: None,
        status: None,
        runner,
        checkpoint: None,
        chain,
        agent,
        subject,
        created_at: now,
        updated_at: now,
    })
}

/// The head as the author may go on with it: first who writes, then whether the stream is at its end, then its version.
fn admit(head: &Head, author: &Author, lives: bool) -> Result<Head, Error> {
    let mut after = head.clone();
    let expected = match author {
        Author::Creator(_) => return Err(Error::version_conflict(0, head.version)),
        Author::Anyone { .. } if head.runner.is_some() => return Err(fenced(head.runner)),
        Author::Anyone { version } => *version,
        Author::Runner { id, version } => match head.runner {
            Some(runner) if runner.id == *id => Some(*version),
            other => return Err(fenced(other)),
        },
        Author::Successor { force: false, .. } if lives => {
            return Err(Error::fenced("the stream's runner is at work: its lease has not lapsed"));
        }
        Author::Successor { runner, version, .. } => {
            after.runner = Some(*runner);
            Some(*version)
        }
        Author::Step => None,
    };
    if head.status.is_some_and(Status::is_terminal) {
        return Err(Error::conflict("the stream has come to its end: nothing is appended to it"));
    }
    match expected {
        Some(expected) if expected != head.version => Err(Error::version_conflict(expected, head.version)),
        _ => Ok(after),
    }
}

fn fenced(runner: Option<Runner>) -> Error {
    Error::fenced(match runner {
        Some(_) => "the stream has another runner by now",
        None => "the stream has no runner",
    })
}

/// The events as they will be kept, each hashed with the one before it.
fn chain_up(head: &mut Head, write: &Append, now: Timestamp) -> Vec<Event> {
    let last = write.events.len().saturating_sub(1);
    let digest = write.checkpoint.as_ref().map(|bytes| Hash::of(&[bytes]));
    let mut events = Vec::with_capacity(write.events.len());
    for (place, new) in write.events.iter().enumerate() {
        let mut event = kept(head.length, new, now);
        event.checkpoint = digest.filter(|_| place == last);
        seal(&write.stream, head.chain, head.hash, &mut event);
        head.hash = Some(event.hash);
        head.length += 1;
        events.push(event);
    }
    events
}

fn kept(seq: u64, new: &NewEvent, now: Timestamp) -> Event {
    let NewEvent { kind, payload, salt, subject, at } = new;
    Event {
        seq,
        kind: kind.clone(),
        at: at.unwrap_or(now),
        payload: Payload::Kept { bytes: payload.clone(), salt: *salt },
        subject: subject.clone(),
        checkpoint: None,
        hash: Hash([0; 32]),
    }
}

fn seal(stream: &Stream, chain: Chain, previous: Option<Hash>, event: &mut Event) {
    // A payload that is there can be hashed in either chain.
    event.hash = link(stream, chain, previous, event).unwrap_or(event.hash);
}

/// Refuses what is beyond the bounds of a write.
fn check(write: &Append) -> Result<(), Error> {
    if write.events.len() > limits::MAX_APPEND_EVENTS {
        return Err(Error::invalid("one write to a journal has at most 1,000 events"));
    }
    write.events.iter().try_for_each(check_event)?;
    let bytes: usize = write.events.iter().map(|event| event.payload.len()).sum();
    if bytes > limits::MAX_APPEND_BYTES {
        return Err(Error::invalid("the payloads of one write to a journal have at most 4 MiB"));
    }
    match &write.checkpoint {
        Some(_) if write.events.is_empty() => {
            return Err(Error::invalid("a checkpoint belongs to an event, and the write has none"));
        }
        Some(bytes) if bytes.len() > limits::MAX_CHECKPOINT_BYTES => {
            return Err(Error::invalid("a checkpoint has at most 4 MiB"));
        }
        _ => {}
    }
    match &write.author {
        Author::Creator(birth) => check_birth(birth),
        _ => Ok(()),
    }
}

fn check_event(event: &NewEvent) -> Result<(), Error> {
    if !is_text(&event.kind, limits::MAX_EVENT_TYPE_CHARS) {
        return Err(Error::invalid("an event's type has 1 to 50 printable characters"));
    }
    if event.payload.len() > limits::MAX_PAYLOAD_BYTES {
        return Err(Error::invalid("an event's payload has at most 2 MiB"));
    }
    check_subject(event.subject.as_deref())
}

fn check_birth(birth: &Birth) -> Result<(), Error> {
    if birth.agent.as_ref().is_some_and(|agent| !is_text(agent, limits::MAX_AGENT_CHARS)) {
        return Err(Error::invalid("an agent's id has 1 to 128 printable characters"));
    }
    check_subject(birth.subject.as_deref())
}

fn check_subject(subject: Option<&str>) -> Result<(), Error> {
    match subject {
        Some(subject) if !is_text(subject, limits::MAX_NAME_BYTES) => {
            Err(Error::invalid("the subject of an event has 1 to 512 printable characters"))
        }
        _ => Ok(()),
    }
}

fn is_text(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.chars().count() <= longest && !text.chars().any(char::is_control)
}
