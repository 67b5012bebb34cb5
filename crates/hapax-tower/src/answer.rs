//! A kept HTTP answer as bytes, and which of its headers are kept (H3).
//!
//! One compact copy: status, the end-to-end headers, and the body. What a connection was read into is not held on to.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use hapax_core::Error;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use http::{Method, StatusCode};

/// The first byte of a kept answer. To be raised with every change of the format.
const VERSION: u8 = 1;
/// The body is there; otherwise only the head was kept.
const WITH_BODY: u8 = 1;

/// Fields that are added to an answer that is replayed, for the size of its map.
const ADDED: usize = 6;

/// An answer as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The end-to-end headers.
    pub headers: HeaderMap,
    /// The body; `None` where only the head was kept.
    pub body: Option<Bytes>,
}

impl Answer {
    /// The bytes that are kept.
    pub fn encode(&self) -> Bytes {
        encode(self.status, || self.headers.iter(), self.body.as_deref())
    }

    /// Reads back what [`Answer::encode`] gave. The body is not copied.
    pub fn decode(kept: &Bytes) -> Result<Self, Error> {
        decode(kept).ok_or_else(|| Error::corrupt("a kept answer cannot be read"))
    }
}

/// The bytes that are kept of a service's answer to a request with this method: without what is for the first caller alone,
/// and with its body or none.
pub(crate) fn keep(method: &Method, status: StatusCode, headers: &HeaderMap, body: Option<&[u8]>) -> Bytes {
    let (name, value) = (BODY_NOT_KEPT, HeaderValue::from_static("true"));
    let is_for_others = |(name, value): &(&HeaderName, &HeaderValue)| match **name {
        SET_COOKIE => false,
        // Of a body that does not come along only the service knows how long it is.
        CONTENT_LENGTH if is_head_alone(method, status) => true,
        // Written anew with every answer, unless it is right.
        CONTENT_LENGTH => has_body(status) && body.is_some_and(|body| is_length(value, body.len() as u64)),
        _ => true,
    };
    let not_kept = body.is_none().then_some((&name, &value));
    encode(status, || headers.iter().filter(is_for_others).chain(not_kept), body)
}

fn encode<'a, I>(status: StatusCode, fields: impl Fn() -> I, body: Option<&[u8]>) -> Bytes
where
    I: Iterator<Item = (&'a HeaderName, &'a HeaderValue)>,
{
    let (count, length) = fields().fold((0_usize, 0), |(count, length), (name, value)| {
        (count + 1, length + 6 + name.as_str().len() + value.len())
    });
    let mut kept = BytesMut::with_capacity(6 + length + body.map_or(0, <[u8]>::len));
    kept.put_u8(VERSION);
    kept.put_u8(if body.is_some() { WITH_BODY } else { 0 });
    kept.put_u16(status.as_u16());
    kept.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
    for (name, value) in fields().take(usize::from(u16::MAX)) {
        kept.put_u16(u16::try_from(name.as_str().len()).unwrap_or(u16::MAX));
        kept.put_slice(name.as_str().as_bytes());
        kept.put_u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        kept.put_slice(value.as_bytes());
    }
    kept.put_slice(body.unwrap_or_default());
    kept.freeze()
}

fn decode(kept: &Bytes) -> Option<Answer> {
    // A slice of `Bytes` is counted by all who share it; only what stays is one.
    let mut at = 0_usize;
    let mut take = |length: usize| {
        let from = at;
        at = from.checked_add(length)?;
        (at <= kept.len()).then_some(from..at)
    };
    let number = |bytes: Range<usize>| {
        kept[bytes].iter().fold(0, |number: usize, byte| number << 8 | usize::from(*byte))
    };
    let (version, flags) = (number(take(1)?), number(take(1)?));
    if version != usize::from(VERSION) || flags > usize::from(WITH_BODY) {
        return None;
    }
    let status = StatusCode::from_u16(u16::try_from(number(take(2)?)).ok()?).ok()?;
    let fields = number(take(2)?);
    let mut headers = HeaderMap::with_capacity(fields + ADDED);
    for _ in 0..fields {
        let length = number(take(2)?);
        let name = HeaderName::from_bytes(&kept[take(length)?]).ok()?;
        let length = number(take(4)?);
        headers.append(name, HeaderValue::from_maybe_shared(kept.slice(take(length)?)).ok()?);
    }
    let body = kept.slice(at..);
    match flags == usize::from(WITH_BODY) {
        true => Some(Answer { status, headers, body: Some(body) }),
        _ if body.is_empty() => Some(Answer { status, headers, body: None }),
        _ => None,
    }
}

/// Removes what concerns one connection only: the usual fields and those that `Connection` names (RFC 9110, 7.6.1).
/// A field in `spared` stays even if it is named there.
pub fn remove_hop_by_hop(headers: &mut HeaderMap, spared: &[HeaderName]) {
    let named: Vec<HeaderName> = named_by_connection(headers).filter_map(|word| word.parse().ok()).collect();
    for name in named.iter().filter(|name| !spared.contains(name)) {
        headers.remove(name);
    }
    while let Some(name) = headers.keys().find(|name| is_hop_by_hop(name)).cloned() {
        headers.remove(name);
    }
}

/// The fields that `Connection` says concern one connection only, whether they are there or not. Each is to be looked up, and
/// not each field here: whoever writes a head chooses how long both lists are.
pub fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    // These two say something else, and hardly any message names a field.
    let is_name = |word: &&str| {
        !word.is_empty() && !word.eq_ignore_ascii_case("keep-alive") && !word.eq_ignore_ascii_case("close")
    };
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(is_name)
}

/// Whether a value of `Content-Length` is this length, written as we write it.
pub fn is_length(value: &HeaderValue, length: u64) -> bool {
    let digits = value.as_bytes();
    let is_plain = digits == b"0" || (digits.iter().all(u8::is_ascii_digit) && !digits.starts_with(b"0"));
    is_plain && value.to_str().is_ok_and(|digits| digits.parse() == Ok(length))
}

/// `Idempotency-Key`: read by hapax and written by hapax, never passed through (A5).
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer was kept from an earlier request (H3).
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Until when an answer is kept (H3).
pub const EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");
/// What a service wants done with its own answer (H4).
pub const OUTCOME: HeaderName = HeaderName::from_static("idempotency-outcome");
/// What a handler says that found its own token used (P1, case C): a word to the edge, which counts it.
pub const HANDLER_HIT: HeaderName = HeaderName::from_static("idempotency-handler-hit");
/// Says that the key was derived from what was asked (H9).
pub const DERIVED: HeaderName = HeaderName::from_static("idempotency-key-derived");
/// Says that a key was sent where it has no effect (P1).
pub const IGNORED: HeaderName = HeaderName::from_static("idempotency-key-ignored");
/// Says that only the head of an answer was kept (B9).
pub const BODY_NOT_KEPT: HeaderName = HeaderName::from_static("idempotency-body-not-kept");
/// The fencing number of a run (L4).
pub const EPOCH: HeaderName = HeaderName::from_static("x-operation-epoch");

/// Fields that only hapax may set on an answer. All but the epoch, which is for services, are for callers.
pub static OURS: [HeaderName; 7] =
    [crate::problem::OPERATION_ID, EPOCH, REPLAYED, EXPIRES, DERIVED, IGNORED, BODY_NOT_KEPT];

/// Removes from a service's answer what concerns one connection, and what only hapax may say.
pub(crate) fn clean(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers, &[]);
    remove_ours(headers);
}

/// Whether a field concerns one connection only, whatever `Connection` says.
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Whether only hapax may say this; what names the engine behind is nobody's to say (H8). A key that a service sends back is the
/// one that hapax wrote for it, with whose it is, and `hapax-…` says which listener has answered.
pub fn is_ours(name: &HeaderName) -> bool {
    let text = name.as_str();
    // Every field of every message is asked about, and few begin like ours.
    (text.starts_with("idempot") || text.starts_with("x-") || text.starts_with("hapax-"))
        && (OURS.contains(name)
            || *name == OUTCOME
            || *name == HANDLER_HIT
            || *name == IDEMPOTENCY_KEY
            || text.starts_with("x-restate-")
            || text.starts_with("hapax-"))
}

/// Whether a handler says that it found its own token used: in so many words, once.
pub fn says_handler_hit(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(HANDLER_HIT).iter();
    lines.next().is_some_and(|line| line == "true") && lines.next().is_none()
}

/// Removes what only hapax may say.
pub fn remove_ours(headers: &mut HeaderMap) {
    let ours: Vec<HeaderName> = headers.keys().filter(|name| is_ours(name)).cloned().collect();
    ours.iter().for_each(|name| drop(headers.remove(name)));
}

/// Whether an answer says how long a body is that it does not have (RFC 9110, 8.6).
pub(crate) fn is_head_alone(method: &Method, status: StatusCode) -> bool {
    status == StatusCode::NOT_MODIFIED || (*method == Method::HEAD && has_body(status))
}

/// Answers of these statuses have no body, and so no length of it.
pub(crate) fn has_body(status: StatusCode) -> bool {
    status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_answer() -> impl Strategy<Value = Answer> {
        let field = ("[a-z][a-z0-9-]{0,20}", proptest::collection::vec(0x20_u8..0x7f, 0..40));
        let fields = proptest::collection::vec(field, 0..12);
        let body = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300));
        (100_u16..600, fields, body).prop_map(|(status, fields, body)| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                headers.append(name, HeaderValue::from_bytes(&value).unwrap());
            }
            Answer { status: StatusCode::from_u16(status).unwrap(), headers, body: body.map(Bytes::from) }
        })
    }

    proptest! {
        #[test]
        fn a_kept_answer_reads_back_as_it_was_h3(answer in any_answer()) {
            prop_assert_eq!(Answer::decode(&answer.encode()).unwrap(), answer);
        }

        #[test]
        fn a_cut_head_is_corrupt_and_never_a_panic(answer in any_answer(), cut in 0_usize..100) {
            let kept = Answer { body: None, ..answer }.encode();
            let cut = cut.min(kept.len().saturating_sub(1));
            prop_assert!(Answer::decode(&kept.slice(..cut)).is_err());
        }

        #[test]
        fn any_bytes_are_an_answer_or_corrupt(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Answer::decode(&Bytes::from(bytes));
        }
    }

    #[test]
    fn a_length_is_kept_only_where_it_is_true_and_the_cookie_never_h3() {
        let kept_of = |method: Method, status: u16, lines: &[(&str, &'static str)], body: Option<&[u8]>| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                headers.append(name, HeaderValue::from_static(value));
            }
            let bytes = keep(&method, StatusCode::from_u16(status).unwrap(), &headers, body);
            let headers = Answer::decode(&bytes).unwrap().headers;
            headers.keys().map(|name| name.to_string()).collect::<Vec<_>>()
        };
        let kept = |status, lines: &[_], body| kept_of(Method::POST, status, lines, body);
        let length = |value| [("content-length", value), ("set-cookie", "a"), ("x-a", "1")];
        assert_eq!(kept(200, &length("4"), Some(b"body")), ["content-length", "x-a"]);
        for wrong in ["5", "04", "+4", "4 ", "4, 4", ""] {
            assert_eq!(kept(200, &length(wrong), Some(b"body")), ["x-a"], "{wrong:?}");
        }
        assert_eq!(kept(200, &length("0"), Some(b"")), ["content-length", "x-a"]);
        assert_eq!(kept(204, &length("0"), Some(b"")), ["x-a"]);
        assert_eq!(kept(200, &length("4"), None), ["x-a", "idempotency-body-not-kept"]);
        // Where nothing comes along that it could be compared with.
        assert_eq!(kept_of(Method::HEAD, 200, &length("4"), Some(b"")), ["content-length", "x-a"]);
        assert_eq!(kept_of(Method::HEAD, 204, &length("4"), Some(b"")), ["x-a"]);
        assert_eq!(kept(304, &length("4"), Some(b"")), ["content-length", "x-a"]);
    }

    #[test]
    fn what_connection_names_is_removed_unless_it_is_spared() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("close, X-Mine, Idempotency-Key"));
        headers.insert("x-mine", HeaderValue::from_static("1"));
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("k"));
        headers.insert("keep-alive", HeaderValue::from_static("5"));
        remove_hop_by_hop(&mut headers, &[IDEMPOTENCY_KEY]);
        assert_eq!(headers.keys().collect::<Vec<_>>(), [&IDEMPOTENCY_KEY]);
    }
}
