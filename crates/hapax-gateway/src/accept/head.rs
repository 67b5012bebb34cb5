//! Looks at the bytes of an HTTP/1 connection before hyper does, for what hyper lets through.
//!
//! Two readers that disagree on where a line or a body ends can be made to disagree on where a request begins. So a head
//! whose lines end with a bare LF is refused here, and one that states its length in two ways. This is no parser: it follows
//! the framing closely enough to know heads from bodies, and leaves every other judgement to hyper.

use memchr::memchr;

use crate::limits;

/// Where in the stream of bytes a connection is.
#[derive(Debug)]
enum At {
    /// In a head, or before one.
    Head,
    /// In a body, with so many bytes to come.
    Body(u64),
    /// In the line that states a chunk's size.
    Size { size: u64, in_digits: bool },
    /// In a chunk or the line end behind it.
    Chunk(u64),
    /// Behind the last chunk.
    Trailer,
    /// Nothing is looked at any more.
    Over,
}

/// Follows one connection.
#[derive(Debug)]
pub(super) struct HeadWatch {
    at: At,
    /// The beginning of a line that came in pieces.
    kept: [u8; limits::WATCHED_LINE],
    /// Bytes of the present line before those at hand, more than are kept perhaps.
    carried: usize,
    last: u8,
    lines: usize,
    length: Option<u64>,
    chunked: bool,
    upgrade: bool,
    /// Bytes of the present head before those at hand.
    head: usize,
    too_large: bool,
}

impl Default for HeadWatch {
    fn default() -> Self {
        HeadWatch {
            at: At::Head,
            kept: [0; limits::WATCHED_LINE],
            carried: 0,
            last: 0,
            lines: 0,
            length: None,
            chunked: false,
            upgrade: false,
            head: 0,
            too_large: false,
        }
    }
}

impl HeadWatch {
    /// Whether what was refused was too large rather than wrong.
    pub(super) fn is_too_large(&self) -> bool {
        self.too_large
    }

    /// Whether a head has begun and not ended.
    pub(super) fn in_head(&self) -> bool {
        matches!(self.at, At::Head) && (self.lines > 0 || self.carried > 0)
    }

    /// Whether the answer to come may be a 101.
    pub(super) fn may_switch(&self) -> bool {
        self.upgrade
    }

    /// An answer begins with these bytes. After a 101 the connection carries something else.
    pub(super) fn answered(&mut self, bytes: &[u8]) {
        self.upgrade = false;
        if bytes.get(8..12) == Some(b" 101") {
            self.at = At::Over;
        }
    }

    /// Looks at the next bytes. `Some` is the place of the one for which the connection is refused.
    pub(super) fn look(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut from = 0;
        while from < bytes.len() {
            from = match self.at {
                At::Head | At::Trailer => match self.lines_of(bytes, from) {
                    Ok(next) => next,
                    Err(refused) => {
                        self.at = At::Over;
                        return Some(refused);
                    }
                },
                At::Body(left) => {
                    let taken = left.min((bytes.len() - from) as u64);
                    self.at = if taken == left { At::Head } else { At::Body(left - taken) };
                    from + usize::try_from(taken).unwrap_or(usize::MAX)
                }
                At::Chunk(left) => {
                    let taken = left.min((bytes.len() - from) as u64);
                    self.at = if taken == left { At::size() } else { At::Chunk(left - taken) };
                    from + usize::try_from(taken).unwrap_or(usize::MAX)
                }
                At::Size { .. } => self.size_of(bytes, from),
                At::Over => return None,
            };
        }
        None
    }

    /// Reads lines up to the empty one or to the end of what there is; the place behind them, or of a byte to refuse.
    fn lines_of(&mut self, bytes: &[u8], mut from: usize) -> Result<usize, usize> {
        let begins = from;
        while let Some(found) = memchr(b'\n', &bytes[from..]) {
            let end = from + found;
            let ends_well = match found {
                0 => self.carried > 0 && self.last == b'\r',
                _ => bytes[end - 1] == b'\r',
            };
            if !ends_well {
                return Err(end);
            }
            let length = self.carried + found - 1;
            if length > 0 {
                self.lines += 1;
                if self.lines > limits::FIELDS + 1 {
                    self.too_large = true;
                    return Err(end);
                }
                if self.lines > 1 && matches!(self.at, At::Head) && !self.field(&bytes[from..end], length) {
                    return Err(end);
                }
            }
            self.carried = 0;
            from = end + 1;
            if length == 0 && self.empty_line() {
                if self.chunked && self.length.is_some() {
                    return Err(end);
                }
                self.bounded(begins, end)?;
                self.body_follows();
                return Ok(from);
            }
        }
        self.carry(&bytes[from..]);
        self.bounded(begins, bytes.len())?;
        self.head += bytes.len() - begins;
        Ok(bytes.len())
    }

    /// A head that is too long is refused here, so that its sender is told so in words.
    fn bounded(&mut self, begins: usize, ends: usize) -> Result<(), usize> {
        self.too_large = self.head + (ends - begins) > limits::HEAD;
        if self.too_large { Err(ends) } else { Ok(()) }
    }

    /// Whether an empty line ends what is read; empty lines before a request are none of it.
    fn empty_line(&self) -> bool {
        self.lines > 0 || matches!(self.at, At::Trailer)
    }

    fn carry(&mut self, bytes: &[u8]) {
        if let Some(&last) = bytes.last() {
            self.last = last;
        }
        if self.carried < self.kept.len() {
            let room = &mut self.kept[self.carried..];
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
        }
        self.carried += bytes.len();
    }

    /// Takes note of a field that says how long the body is; whether it can be understood. `tail` ends with the CR, unless
    /// that came before.
    fn field(&mut self, tail: &[u8], length: usize) -> bool {
        let first = if self.carried > 0 { self.kept[0] } else { tail[0] };
        if !matches!(first | 0x20, b'c' | b't' | b'u') {
            return true;
        }
        if self.carried == 0 {
            return self.named(&tail[..length]);
        }
        // What does not fit is not needed: no honest length is so long.
        self.carry(tail);
        let kept = self.kept;
        self.named(&kept[..length.min(kept.len())])
    }

    fn named(&mut self, line: &[u8]) -> bool {
        let Some(colon) = memchr(b':', line) else { return true };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            // hyper forgets the second one if it says the same.
            if self.length.is_some() {
                return false;
            }
            self.length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            return self.length.is_some();
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.upgrade = true;
        }
        true
    }

    /// A head or a trailer ended: what comes now?
    fn body_follows(&mut self) {
        self.at = match (&self.at, self.chunked, self.length) {
            (At::Head, true, _) => At::size(),
            (At::Head, false, Some(length)) if length > 0 => At::Body(length),
            _ => At::Head,
        };
        self.lines = 0;
        self.head = 0;
        self.chunked = false;
        self.length = None;
    }

    fn size_of(&mut self, bytes: &[u8], from: usize) -> usize {
        for (place, &byte) in bytes.iter().enumerate().skip(from) {
            let At::Size { size, in_digits } = &mut self.at else { return place };
            match (byte, char::from(byte).to_digit(16)) {
                (b'\n', _) => {
                    let size = *size;
                    // The line end behind a chunk belongs to it.
                    self.at = if size == 0 { At::Trailer } else { At::Chunk(size.saturating_add(2)) };
                    return place + 1;
                }
                (_, Some(digit)) if *in_digits => {
                    *size = size.saturating_mul(16).saturating_add(digit.into())
                }
                _ => *in_digits = false,
            }
        }
        bytes.len()
    }
}

impl At {
    fn size() -> Self {
        At::Size { size: 0, in_digits: true }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::HeadWatch;

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// Where a stream is refused, fed in pieces of this size.
    fn refused(stream: &[u8], piece: usize) -> Option<usize> {
        let mut watch = HeadWatch::default();
        stream
            .chunks(piece)
            .enumerate()
            .find_map(|(number, bytes)| watch.look(bytes).map(|place| number * piece + place))
    }

    #[test]
    fn heads_are_told_from_bodies_in_every_framing() {
        for stream in [
            format!("{GET}{GET}\r\n{GET}"),
            format!("POST / HTTP/1.1\r\ncontent-LENGTH:  9 \r\n\r\n\n\n\n\n\n\n\n\n\n{GET}"),
            format!("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n{GET}"),
            format!(
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\n\n\n\n\r\nA\r\n\n\n\n\n\n\n\n\n\n\n\r\n0\r\n\r\n{GET}"
            ),
            format!(
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\nX: y\r\nZ: y\r\n\r\n{GET}"
            ),
        ] {
            for piece in 1..=stream.len() {
                assert_eq!(refused(stream.as_bytes(), piece), None, "{stream:?} in {piece}");
                // The next head is looked at again: what is refused there shows that its beginning was found.
                let broken = format!("{stream}GET / HTTP/1.1\nHost: a\r\n\r\n");
                let place = stream.len() + "GET / HTTP/1.1".len();
                assert_eq!(refused(broken.as_bytes(), piece), Some(place), "{stream:?} in {piece}");
            }
        }
    }

    #[test]
    fn a_head_that_states_its_length_twice_is_refused() {
        for stream in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\nX: y\r\ncontent-length: 0\r\n\r\n",
        ] {
            for piece in 1..=stream.len() {
                assert_eq!(
                    refused(stream.as_bytes(), piece),
                    Some(stream.len() - 1),
                    "{stream:?} in {piece}"
                );
            }
        }
    }

    #[test]
    fn nothing_is_refused_after_a_switch_of_protocols() {
        let mut watch = HeadWatch::default();
        assert_eq!(watch.look(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"), None);
        assert!(watch.may_switch());
        watch.answered(b"HTTP/1.1 101 Switching Protocols\r\n");
        assert_eq!(watch.look(b"\n\n\n"), None);
        let mut watch = HeadWatch::default();
        assert_eq!(watch.look(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"), None);
        watch.answered(b"HTTP/1.1 200 OK\r\n");
        assert!(!watch.may_switch());
        assert_eq!(watch.look(b"GET / HTTP/1.1\n"), Some(14));
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_into_pieces_changes_nothing(
            parts in prop::collection::vec(
                prop::sample::select(vec!["\r\n", "\n", "\r", "GET / HTTP/1.1", "Content-Length: 3", "Transfer-Encoding: chunked", "0", "5", "abc", "X: "]),
                0..40,
            ),
            piece in 1usize..20,
        ) {
            let stream = parts.concat();
            prop_assert_eq!(refused(stream.as_bytes(), piece), refused(stream.as_bytes(), stream.len().max(1)));
        }
    }
}
