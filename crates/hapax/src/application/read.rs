//! What callers write in bodies, read into the words of the rules: every mistake names its member.

use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use hapax_api::{Raw, limits as api_limits};
use hapax_core::json::canonicalize;
use hapax_core::{AttemptId, Epoch, Error, SessionId};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::listen::refusal::Refusal;
use crate::when::parse_span;

/// A lease, as callers name it.
pub(super) fn lease_text(id: SessionId) -> String {
    format!("ls_{:016x}", id.0)
}

pub(super) fn lease(text: &str) -> Result<SessionId, Refusal> {
    let digits = text.strip_prefix("ls_").filter(|digits| {
        digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    // Stores keep it as a signed number.
    let number = number.filter(|number| i64::try_from(*number).is_ok());
    number
        .map(SessionId)
        .ok_or_else(|| Refusal::malformed("lease: `ls_` and 16 hexadecimal digits, as it was opened"))
}

pub(super) fn epoch(text: &str) -> Result<Epoch, Refusal> {
    text.parse().map_err(|error: Error| Refusal::malformed(format!("epoch: {}", error.message())))
}

/// The attempt of a caller. Another lease makes another attempt of it, so that two callers never share one.
pub(super) fn attempt(lease: SessionId, text: &str) -> Result<AttemptId, Refusal> {
    if !is_attempt(text) {
        return Err(no_attempt());
    }
    Ok(AttemptId::from_bytes(digest(&[b"hapax.attempt\0", &lease.0.to_be_bytes(), text.as_bytes()])))
}

pub(super) fn is_attempt(text: &str) -> bool {
    let fits = (1..=api_limits::ATTEMPT_LENGTH).contains(&text.len());
    fits && text.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(super) fn no_attempt() -> Refusal {
    Refusal::malformed("attempt: 1 to 128 visible ASCII characters, without spaces")
}

/// The first 16 bytes of a digest.
pub(super) fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Context::new(&SHA256);
    parts.iter().for_each(|part| hasher.update(part));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finish().as_ref()[..16]);
    bytes
}

/// The canonical bytes of a member. What JSON readers disagree about is refused, integers that a double would change among it.
pub(super) fn canonical(member: &str, raw: &Raw) -> Result<Vec<u8>, Refusal> {
    canonicalize(raw.get().as_bytes()).map_err(|error| Refusal::malformed(format!("{member}: {error}")))
}

/// A member as a value.
pub(super) fn value(member: &str, raw: &Raw) -> Result<Value, Refusal> {
    let bytes = canonical(member, raw)?;
    serde_json::from_slice(&bytes).map_err(|error| Refusal::malformed(format!("{member}: {error}")))
}

/// A value as it is answered.
pub(super) fn raw(value: &Value) -> Result<Raw, Refusal> {
    let written = serde_json::value::to_raw_value(value);
    written.map(Raw).map_err(|_| Error::internal("a value cannot be written as JSON").into())
}

/// JSON bytes as they were kept; `None` where they are none.
pub(super) fn kept(bytes: &[u8]) -> Option<Raw> {
    serde_json::from_slice::<Box<RawValue>>(bytes).ok().map(Raw)
}

/// A span of time within bounds.
pub(super) fn span(
    member: &str,
    text: Option<&str>,
    (shortest, longest): (Duration, Duration),
) -> Result<Option<Duration>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let span =
        parse_span(text).map_err(|error| Refusal::malformed(format!("{member}: {}", error.message())))?;
    match (shortest..=longest).contains(&span) {
        true => Ok(Some(span)),
        false => Err(Refusal::malformed(format!("{member}: between {shortest:?} and {longest:?}"))),
    }
}
