//! A spooled outcome as bytes, and back: what is settled, under which epoch, for how long, and with which journal events (L18).

use std::time::Duration;

use bytes::Bytes;
use hapax_core::journal::{Append, Chain, Expect, NewEvent, Stream};
use hapax_core::{ClaimId, Epoch, Outcome, Retention};

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
    put(content, append.stream.as_str().as_bytes());
    let expected = match append.expect {
        Expect::Any => None,
        Expect::Version(version) => Some(version.to_be_bytes()),
    };
    put_maybe(content, expected.as_ref().map(|version| &version[..]));
    put_maybe(content, append.status.as_ref().map(|status| status.as_bytes()));
    put_maybe(content, append.checkpoint.as_deref());
    content.extend_from_slice(&(append.events.len() as u64).to_be_bytes());
    for event in &append.events {
        put(content, event.kind.as_bytes());
        put(content, &event.payload);
        content.push(event.chain.version() as u8);
    }
}

fn take_appends(mut rest: &[u8]) -> Option<Vec<Append>> {
    let mut appends = Vec::new();
    while !rest.is_empty() {
        appends.push(take_append(&mut rest)?);
    }
    Some(appends)
}

fn take_append(rest: &mut &[u8]) -> Option<Append> {
    let stream = Stream::new(take_text(take(rest)?)?).ok()?;
    let expect = match take_maybe(rest)? {
        None => Expect::Any,
        Some(version) => Expect::Version(u64::from_be_bytes(version.try_into().ok()?)),
    };
    let status = match take_maybe(rest)? {
        None => None,
        Some(status) => Some(take_text(status)?),
    };
    let checkpoint = take_maybe(rest)?.map(Bytes::copy_from_slice);
    let (number, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    let mut events = Vec::new();
    for _ in 0..u64::from_be_bytes(*number) {
        let kind = take_text(take(rest)?)?;
        let payload = Bytes::copy_from_slice(take(rest)?);
        let chain = Chain::from_version(u32::from(take_byte(rest)?)).ok()?;
        events.push(NewEvent { kind, payload, chain });
    }
    Some(Append { stream, expect, events, status, checkpoint })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Append> {
        let event = |kind: &str, chain| NewEvent { kind: kind.into(), payload: "{}".into(), chain };
        let stream = || Stream::new("execution/e-42").unwrap();
        vec![
            Append {
                stream: stream(),
                expect: Expect::Version(7),
                events: vec![event("TOOL_RESULT", Chain::V2), event("ITERATION_COMPLETE", Chain::V1)],
                status: Some("RUNNING".into()),
                checkpoint: Some(Bytes::new()),
            },
            Append { stream: stream(), expect: Expect::Any, events: vec![], status: None, checkpoint: None },
        ]
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
