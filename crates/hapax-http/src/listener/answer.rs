//! The head of an answer of HTTP/1, as it is written, and which answers have no body in any version. What frames its body is written from the body that is at hand, and from
//! nothing that a handler said. Without I/O.

use std::cell::Cell;
use std::fmt::Write as _;
use std::time::UNIX_EPOCH;

use bytes::BytesMut;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, TRANSFER_ENCODING};
use http::{Method, StatusCode, response};
use http_body::SizeHint;
use hyper::ext::ReasonPhrase;

use crate::clock;
use crate::http1::fields::words;
use crate::http1::put;
use crate::http1::sending::Left;

/// What an answer must know about its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct To {
    /// The request was one whose answer has no body.
    head_only: bool,
    /// It came in HTTP/1.0.
    old: bool,
    trailers: bool,
}

impl To {
    pub(super) fn new(method: &Method, old: bool, trailers: bool) -> Self {
        To { head_only: *method == Method::HEAD, old, trailers }
    }

    /// How a body of this length goes behind an answer with this status.
    pub(super) fn left(self, status: StatusCode, length: &SizeHint) -> Left {
        match length.exact() {
            _ if self.head_only || is_bodiless(status) => Left::Nothing,
            Some(length) => Left::Length(length),
            None if self.old => Left::Bytes,
            None => Left::Chunks { trailers: self.trailers },
        }
    }
}

fn is_bodiless(status: StatusCode) -> bool {
    matches!(status.as_u16(), 100..200 | 204 | 304)
}

/// Whether an answer says that its connection is to be closed.
pub(super) fn says_close(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONNECTION)
        .iter()
        .any(|value| words(value).any(|word| word.eq_ignore_ascii_case(b"close")))
}

/// Writes the head of an answer whose body goes behind it in this way.
pub(super) fn write(
    head: &response::Parts,
    to: To,
    left: Left,
    length: &SizeHint,
    keep: bool,
    out: &mut BytesMut,
) {
    let reason = head.extensions.get::<ReasonPhrase>().map(|reason| reason.as_bytes());
    let reason = reason.unwrap_or_else(|| head.status.canonical_reason().unwrap_or_default().as_bytes());
    let version: &[u8] = if to.old { b"HTTP/1.0 " } else { b"HTTP/1.1 " };
    put(out, &[version, head.status.as_str().as_bytes(), b" ", reason, b"\r\n"]);
    let switches = head.status == StatusCode::SWITCHING_PROTOCOLS;
    let (mut dated, mut measured) = (false, false);
    for (name, value) in &head.headers {
        match *name {
            CONNECTION if !switches => continue,
            TRANSFER_ENCODING => continue,
            // To an answer without a body it says how long that would be.
            CONTENT_LENGTH if left != Left::Nothing || !may_measure(head.status) => continue,
            CONTENT_LENGTH => measured = true,
            DATE => dated = true,
            _ => {}
        }
        put(out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    match left {
        Left::Length(length) => drop(write!(out, "content-length: {length}\r\n")),
        Left::Chunks { .. } => put(out, &[b"transfer-encoding: chunked\r\n"]),
        Left::Bytes => {}
        Left::Nothing => {
            if let Some(length @ 1..) = length.exact().filter(|_| may_measure(head.status) && !measured) {
                let _ = write!(out, "content-length: {length}\r\n");
            }
        }
    }
    match (keep, to.old) {
        _ if switches => {}
        (false, false) => put(out, &[b"connection: close\r\n"]),
        (true, true) => put(out, &[b"connection: keep-alive\r\n"]),
        _ => {}
    }
    match dated {
        true => put(out, &[b"\r\n"]),
        false => with_date(|date| put(out, &[b"date: ", date, b"\r\n\r\n"])),
    }
}

/// Whether an answer with this status may say how long its body would be (RFC 9110, 8.6).
pub(super) fn may_measure(status: StatusCode) -> bool {
    !matches!(status.as_u16(), 100..200 | 204)
}

/// Nothing but the leave to go on.
pub(super) const GO_AHEAD: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The date, which is put in words once a second.
fn with_date<T>(use_it: impl FnOnce(&[u8]) -> T) -> T {
    thread_local! {
        static DATE: Cell<(u64, [u8; 29])> = const { Cell::new((u64::MAX, [0; 29])) };
    }
    let now = clock::time_of_day();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (written, mut date) = DATE.get();
    if written != second {
        let text = httpdate::fmt_http_date(now);
        if text.len() == date.len() {
            date.copy_from_slice(text.as_bytes());
        }
        DATE.set((second, date));
    }
    use_it(&date)
}
