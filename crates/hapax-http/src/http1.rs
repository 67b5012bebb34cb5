//! HTTP/1.1 as bytes, for both sides of the edge and without I/O: the fields of a head, where a body ends, what is written next.
//!
//! Two readers that disagree on where a line or a body ends can be made to disagree on where a message begins. So whatever is
//! not in the grammar is refused, whichever side it comes from.

pub(crate) mod fields;
pub mod framing;
pub mod request;
pub mod response;
pub(crate) mod sending;
#[cfg(test)]
mod tests;

use bytes::BytesMut;

/// What came is no message, and why.
#[derive(Debug)]
pub struct Malformed(pub(crate) String);

impl Malformed {
    pub(crate) fn new(why: &str) -> Self {
        Malformed(why.to_owned())
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<httparse::Error> for Malformed {
    fn from(error: httparse::Error) -> Self {
        Malformed(error.to_string())
    }
}

/// Writes these parts behind each other.
pub(crate) fn put(out: &mut BytesMut, parts: &[&[u8]]) {
    out.reserve(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Whether a head can end here, with or without the `\r` that belongs there.
pub(crate) fn ends(piece: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', piece).any(|at| matches!(piece[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}
