//! Makes a pseudo-header in the trailers of HTTP/2 what it is: malformed (RFC 9113, 8.1).
//!
//! The library that reads HTTP/2 refuses a pseudo-header behind any other field, and drops one that stands first in trailers without
//! a word. So each block of trailers gets a field of no meaning in front, and the library does the rest, however the names are
//! written. A block is one of trailers if its stream has had one: streams are numbered upwards.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

use super::stream::Stream;
use crate::limits;

/// `accept` without a value: not indexed, so that it changes nothing for later blocks (RFC 7541, 6.2.2).
const MARK: [u8; 3] = [0x0f, 0x04, 0x00];

/// The head of a frame, in bytes; a type, and two flags that put something before a block.
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
/// The longest frame that is read, as the settings say by default.
const LONGEST: usize = 16_384;
/// What a client begins with, before any frame.
const PREFACE: usize = 24;

/// A client's stream of HTTP/2, with its trailers marked.
pub(super) struct Marked {
    stream: Stream,
    /// What has come and was not looked at yet.
    come: BytesMut,
    /// What is to be read.
    out: BytesMut,
    frames: Frames,
}

impl Marked {
    pub(super) fn new(stream: Stream) -> Self {
        Marked { stream, come: BytesMut::new(), out: BytesMut::new(), frames: Frames::default() }
    }
}

/// Where the frames stand.
struct Frames {
    place: Place,
    /// The highest number of a stream that has had a block.
    last: u32,
}

enum Place {
    /// Before the head of a frame.
    Head,
    /// Within what is passed on as it is, with so many bytes left.
    Within(usize),
    /// In a block of trailers, before its first field.
    Trailers {
        /// Bytes before the block.
        skip: usize,
        left: usize,
        /// In the midst of a number that says how large the table is.
        resizing: bool,
    },
}

impl Default for Frames {
    fn default() -> Self {
        Frames { place: Place::Within(PREFACE), last: 0 }
    }
}

impl Frames {
    /// Moves on what was looked at; the beginning of a head stays.
    fn pass(&mut self, come: &mut BytesMut, out: &mut BytesMut) {
        let mut at = 0;
        loop {
            let left_here = come.len() - at;
            match &mut self.place {
                Place::Within(left) => {
                    let count = left_here.min(*left);
                    (at, *left) = (at + count, *left - count);
                    if *left > 0 {
                        break;
                    }
                    self.place = Place::Head;
                }
                Place::Head if left_here < HEAD => break,
                Place::Head => {
                    self.place = self.head(&mut come[at..at + HEAD]);
                    at += HEAD;
                }
                Place::Trailers { left, .. } if left_here == 0 && *left > 0 => break,
                Place::Trailers { skip, left, resizing } => {
                    let byte = if *left == 0 { None } else { Some(come[at]) };
                    match byte.filter(|byte| comes_before(*byte, skip, resizing)) {
                        Some(_) => (at, *left) = (at + 1, *left - 1),
                        None => {
                            let left = *left;
                            out.extend_from_slice(&come.split_to(at));
                            out.extend_from_slice(&MARK);
                            (at, self.place) = (0, Place::Within(left));
                        }
                    }
                }
            }
        }
        match out.is_empty() {
            true => *out = come.split_to(at),
            false => out.extend_from_slice(&come.split_to(at)),
        }
    }

    /// What follows this head. That of trailers is made longer by the mark.
    fn head(&mut self, head: &mut [u8]) -> Place {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & (u32::MAX >> 1);
        if head[3] != HEADERS {
            return Place::Within(length);
        }
        let is_first = stream > self.last;
        self.last = self.last.max(stream);
        let marked = length + MARK.len();
        // A longer frame than may be is refused anyway.
        if is_first || marked > LONGEST {
            return Place::Within(length);
        }
        head[..3].copy_from_slice(&[(marked >> 16) as u8, (marked >> 8) as u8, marked as u8]);
        let padding = if head[4] & PADDED == 0 { 0 } else { 1 };
        let priority = if head[4] & PRIORITY == 0 { 0 } else { 5 };
        Place::Trailers { skip: padding + priority, left: length, resizing: false }
    }
}

/// Whether this byte stands before the first field: of padding and priority, or of a change of the table's size, which must come
/// first in a block (RFC 7541, 4.2).
fn comes_before(byte: u8, skip: &mut usize, resizing: &mut bool) -> bool {
    if *skip > 0 {
        *skip -= 1;
        return true;
    }
    let goes_on = *resizing;
    *resizing = if goes_on { byte & 0x80 != 0 } else { byte == 0x3f };
    goes_on || byte & 0xe0 == 0x20
}

impl AsyncRead for Marked {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.out.is_empty() {
            this.come.reserve(limits::READ);
            if ready!(pin!(this.stream.read_buf(&mut this.come)).poll(cx))? == 0 {
                // Half a head is passed on as it is: whoever reads it sees that it is none.
                this.out = std::mem::take(&mut this.come);
                break;
            }
            this.frames.pass(&mut this.come, &mut this.out);
        }
        let count = this.out.len().min(buf.remaining());
        buf.put_slice(&this.out[..count]);
        this.out.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Marked {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream][..], payload].concat()
    }

    fn passed(sent: &[u8], piece: usize) -> Vec<u8> {
        let (mut frames, mut come, mut all) = (Frames::default(), BytesMut::new(), Vec::new());
        for bytes in sent.chunks(piece) {
            let mut out = BytesMut::new();
            come.extend_from_slice(bytes);
            frames.pass(&mut come, &mut out);
            all.extend_from_slice(&out);
        }
        all.extend_from_slice(&come);
        all
    }

    #[test]
    fn only_trailers_are_marked_before_their_first_field_however_the_stream_is_cut_h11() {
        let preface = [b'p'; PREFACE];
        let before = [
            &preface[..],
            &frame(4, 0, 0, &[]),
            &frame(HEADERS, 4, 1, b"block"),
            &frame(0, 0, 1, b"data"),
            &frame(HEADERS, 4, 3, &[]),
        ]
        .concat();
        for (flags, sent, marked) in [
            (5, &b"\x84"[..], &b"\x0f\x04\0\x84"[..]),
            (5, b"", b"\x0f\x04\0"),
            (5, b"\x20\x3f\xe1\x1f\x84", b"\x20\x3f\xe1\x1f\x0f\x04\0\x84"),
            (5 | PADDED, b"\x02\x84\0\0", b"\x02\x0f\x04\0\x84\0\0"),
            (5 | PRIORITY, b"\0\0\0\0\0\x84", b"\0\0\0\0\0\x0f\x04\0\x84"),
        ] {
            let (sent, marked) = (frame(HEADERS, flags, 1, sent), frame(HEADERS, flags, 1, marked));
            let after = [frame(HEADERS, 4, 5, b"\x84"), frame(HEADERS, 5, 3, b"\x84")].concat();
            let after_marked =
                [frame(HEADERS, 4, 5, b"\x84"), frame(HEADERS, 5, 3, b"\x0f\x04\0\x84")].concat();
            let all = [&before[..], &sent, &after].concat();
            for piece in 1..=all.len() {
                let expected = [&before[..], &marked, &after_marked].concat();
                assert_eq!(passed(&all, piece), expected, "{sent:?} in pieces of {piece}");
            }
        }
    }
}
