//! A spooled outcome as bytes, and back: what is settled, under which epoch, for how long, and with which journal events (L18).

use std::time::Duration;

use bytes::Bytes;
use hapax_core::journal::{Append, Author, Birth, Chain, NewEvent, Runner, Salt, Status, Stream};
use hapax_core::{AppendId, ClaimId, Epoch, Outcome, Retention, RunnerId, SessionId, Timestamp};

/// What a file starts with.
const MAGIC: &[u8; 8] = b"hpxspl01";

/// What a file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spooled {
    pub(super) claim: ClaimId,
    pub(super) epoch: Epoch,
    pub(super) outcome: Outcome,
    pub(super) retention: Retention,
    pub(super) events: Vec<Append>,
}

pub(super) fn encode(
    claim: ClaimId,
    epoch: Epoch,
    outcome: &Outcome,
    retention: Retention,
    events: &[Append],
) -> Vec<u8> {
    let (kind, status, bytes): (u8, u16, &[u8]) = match outcome {
        Outcome::Succeeded(bytes) => (0, 0, bytes),
        Outcome::Refused(bytes) => (1, 0, bytes),
        Outcome::NotKept { status } => (2, *status, &[]),
        Outcome::Erased => (3, 0, &[]),
    };
    let (keep, micros) = match retention {
        Retention::For(duration) => (0u8, duration.as_micros()),
        Retention::SinceGrant(duration) => (1, duration.as_micros()),
        Retention::Forever => (2, 0),
    };
    let mut content = Vec::with_capacity(MAGIC.len() + 64 + bytes.len());
    content.extend_from_slice(MAGIC);
    content.extend_from_slice(claim.as_bytes());
    content.extend_from_slice(&epoch.packed().to_be_bytes());
    content.push(kind);
    content.extend_from_slice(&status.to_be_bytes());
    content.push(keep);
    content.extend_from_slice(&u64::try_from(micros).unwrap_or(u64::MAX).to_be_bytes());
    put(&mut content, bytes);
    events.iter().for_each(|append| put_append(&mut content, append));
    let sum = crc32fast::hash(&content);
    content.extend_from_slice(&sum.to_be_bytes());
    content
}

/// `None` for a file that is not what was written.
pub(super) fn decode(content: &[u8]) -> Option<Spooled> {
    let (body, sum) = content.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_be_bytes(*sum) {
        return None;
    }
    let rest = body.strip_prefix(MAGIC)?;
    let (claim, rest) = rest.split_first_chunk::<32>()?;
    let (epoch, rest) = rest.split_first_chunk::<8>()?;
    let (&kind, rest) = rest.split_first()?;
    let (status, rest) = rest.split_first_chunk::<2>()?;
    let (&keep, rest) = rest.split_first()?;
    let (micros, mut rest) = rest.split_first_chunk::<8>()?;
    let bytes = Bytes::copy_from_slice(take(&mut rest)?);
    let events = take_appends(rest)?;
    let outcome = match kind {
        0 => Outcome::Succeeded(bytes),
        1 => Outcome::Refused(bytes),
        2 => Outcome::NotKept { status: u16::from_be_bytes(*status) },
        3 => Outcome::Erased,
        _ => return None,
    };
    let duration = Duration::from_micros(u64::from_be_bytes(*micros));
    let retention = match keep {
        0 => Retention::For(duration),
        1 => Retention::SinceGrant(duration),
        2 => Retention::Forever,
        _ => return None,
    };
    let (claim, epoch) = (ClaimId::from_bytes(*claim), Epoch::from_packed(u64::from_be_bytes(*epoch)));
    Some(Spooled { claim, epoch, outcome, retention, events })
}

/// Bytes, with their length before them.
fn put(content: &mut Vec<u8>, bytes: &[u8]) {
    content.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    content.extend_from_slice(bytes);
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<8>()?;
    let (bytes, after) = after.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)?;
    *rest = after;
    Some(bytes)
}

/// What may be missing: a byte that says whether it is there.
fn put_maybe(content: &mut Vec<u8>, bytes: Option<&[u8]>) {
    content.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put(content, bytes);
    }
}

fn take_maybe<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match take_byte(rest)? {
        0 => Some(None),
        1 => Some(Some(take(rest)?)),
        _ => None,
    }
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    Some(byte)
}

fn take_text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn put_append(content: &mut Vec<u8>, append: &Append) {
    content.extend_from_slice(append.id.as_bytes());
    put(content, append.stream.as_str().as_bytes());
    put_author(content, &append.author);
    put_maybe(content, append.status.map(|status| status.as_str().as_bytes()));
    put_maybe(content, append.checkpoint.as_deref());
    content.extend_from_slice(&(append.events.len() as u64).to_be_bytes());
    for event in &append.events {
        put(content, event.kind.as_bytes());
        put(content, &event.payload);
        content.extend_from_slice(&event.salt.0);
        put_maybe(content, event.subject.as_ref().map(|subject| subject.as_bytes()));
        put_maybe(content, event.at.map(|at| at.as_micros().to_be_bytes()).as_ref().map(|at| &at[..]));
    }
}

fn put_author(content: &mut Vec<u8>, author: &Author) {
    match author {
        Author::Creator(Birth { chain, agent, subject, runner }) => {
            content.extend_from_slice(&[0, chain.version() as u8]);
            put_maybe(content, agent.as_ref().map(|agent| agent.as_bytes()));
            put_maybe(content, subject.as_ref().map(|subject| subject.as_bytes()));
            put_maybe(content, runner.map(runner_bytes).as_ref().map(|runner| &runner[..]));
        }
        Author::Anyone { version } => {
            content.push(1);
            put_maybe(content, version.map(u64::to_be_bytes).as_ref().map(|version| &version[..]));
        }
        Author::Runner { id, version } => {
            content.push(2);
            content.extend_from_slice(id.as_bytes());
            content.extend_from_slice(&version.to_be_bytes());
        }
        Author::Successor { runner, version, force } => {
            content.push(3);
            content.extend_from_slice(&runner_bytes(*runner));
            content.extend_from_slice(&version.to_be_bytes());
            content.push(u8::from(*force));
        }
        Author::Step => content.push(4),
    }
}

fn runner_bytes(runner: Runner) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(runner.id.as_bytes());
    bytes[16..].copy_from_slice(&runner.lease.0.to_be_bytes());
    bytes
}

fn take_appends(mut rest: &[u8]) -> Option<Vec<Append>> {
    let mut appends = Vec::new();
    while !rest.is_empty() {
        appends.push(take_append(&mut rest)?);
    }
    Some(appends)
}

fn take_append(rest: &mut &[u8]) -> Option<Append> {
    let id = AppendId::from_bytes(take_chunk(rest)?);
    let stream = Stream::new(take_text(take(rest)?)?).ok()?;
    let author = take_author(rest)?;
    let status = match take_maybe(rest)? {
        None => None,
        Some(status) => Some(Status::parse(std::str::from_utf8(status).ok()?)?),
    };
    let checkpoint = take_maybe(rest)?.map(Bytes::copy_from_slice);
    let number = take_number(rest)?;
    let mut events = Vec::new();
    for _ in 0..number {
        events.push(take_event(rest)?);
    }
    Some(Append { id, stream, author, events, status, checkpoint })
}

fn take_event(rest: &mut &[u8]) -> Option<NewEvent> {
    let kind = take_text(take(rest)?)?;
    let payload = Bytes::copy_from_slice(take(rest)?);
    let salt = Salt(take_chunk(rest)?);
    let subject = take_maybe_text(rest)?;
    let at = match take_maybe(rest)? {
        None => None,
        Some(at) => Some(Timestamp::from_micros(i64::from_be_bytes(at.try_into().ok()?))),
    };
    Some(NewEvent { kind, payload, salt, subject, at })
}

fn take_author(rest: &mut &[u8]) -> Option<Author> {
    Some(match take_byte(rest)? {
        0 => Author::Creator(Birth {
            chain: Chain::from_version(u32::from(take_byte(rest)?)).ok()?,
            agent: take_maybe_text(rest)?,
            subject: take_maybe_text(rest)?,
            runner: match take_maybe(rest)? {
                None => None,
                Some(mut runner) => Some(take_runner(&mut runner)?),
            },
        }),
        1 => Author::Anyone {
            version: match take_maybe(rest)? {
                None => None,
                Some(version) => Some(u64::from_be_bytes(version.try_into().ok()?)),
            },
        },
        2 => Author::Runner { id: RunnerId::from_bytes(take_chunk(rest)?), version: take_number(rest)? },
        3 => Author::Successor {
            runner: take_runner(rest)?,
            version: take_number(rest)?,
            force: take_byte(rest)? != 0,
        },
        4 => Author::Step,
        _ => return None,
    })
}

fn take_runner(rest: &mut &[u8]) -> Option<Runner> {
    let id = RunnerId::from_bytes(take_chunk(rest)?);
    Some(Runner { id, lease: SessionId(take_number(rest)?) })
}

fn take_chunk<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (chunk, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*chunk)
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    take_chunk(rest).map(u64::from_be_bytes)
}

fn take_maybe_text(rest: &mut &[u8]) -> Option<Option<String>> {
    match take_maybe(rest)? {
        None => Some(None),
        Some(text) => Some(Some(take_text(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Append> {
        let stream = || Stream::new("execution/e-42").unwrap();
        let runner = Runner::fresh(SessionId(7));
        let birth = Birth {
            chain: Chain::V1,
            agent: Some("a".into()),
            subject: Some("user:alice".into()),
            runner: Some(runner),
        };
        let authors = [
            Author::Creator(birth),
            Author::Creator(Birth::default()),
            Author::Anyone { version: Some(7) },
            Author::Anyone { version: None },
            Author::Runner { id: runner.id, version: 3 },
            Author::Successor { runner, version: 4, force: true },
            Author::Step,
        ];
        let mut writes: Vec<Append> =
            authors.into_iter().map(|author| Append::new(stream(), author)).collect();
        let subject = Some("user:bob".into());
        let at = Some(Timestamp::from_micros(5));
        writes[0].events = vec![
            NewEvent { subject, at, ..NewEvent::new("TOOL_RESULT", "{}") },
            NewEvent::new("ITERATION_COMPLETE", "{}"),
        ];
        (writes[0].status, writes[0].checkpoint) = (Some(Status::Running), Some(Bytes::new()));
        writes
    }

    #[test]
    fn an_outcome_reads_back_as_it_was_spooled_and_a_damaged_one_does_not_l15_l18() {
        let (claim, epoch) = (ClaimId::from_bytes([3; 32]), Epoch::new(1, 9).unwrap());
        let outcomes = [
            Outcome::Succeeded(Bytes::from_static(b"paid")),
            Outcome::Refused(Bytes::new()),
            Outcome::NotKept { status: 201 },
        ];
        for (outcome, events) in outcomes.iter().flat_map(|outcome| [(outcome, vec![]), (outcome, events())])
        {
            let (retention, outcome) = (Retention::For(Duration::from_secs(60)), outcome.clone());
            let content = encode(claim, epoch, &outcome, retention, &events);
            let spooled = Spooled { claim, epoch, outcome, retention, events };
            assert_eq!(decode(&content), Some(spooled));
            for at in 0..content.len() {
                let mut damaged = content.clone();
                damaged[at] ^= 1;
                assert_eq!(decode(&damaged), None, "byte {at}");
            }
            assert_eq!(decode(&content[..content.len() - 1]), None);
        }
    }
}
