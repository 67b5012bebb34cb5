//! A request on its way out, without I/O: its head and body as the bytes that are to be written next.
//!
//! What is at hand is gathered before it is written, so that a request with a short body is one write, and one whose body
//! breaks off at once is none.

use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderValue, Request};
use http_body::Body as _;

use super::body::{Outgoing, StreamError};
use super::head;
use crate::limits;

/// What is still to be written of one request.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// Head, chunk sizes and short pieces of the body.
    out: BytesMut,
    /// A piece of the body that is too long to be copied; it follows them.
    piece: Bytes,
    body: Outgoing,
    left: Left,
}

/// What the body still has to bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Left {
    /// Nothing: all of it is in the buffers or gone.
    #[default]
    Nothing,
    /// So many bytes.
    Length(u64),
    /// Chunks, until it ends.
    Chunks,
}

impl Sending {
    /// Begins with a request.
    pub(super) fn begin(&mut self, request: Request<Outgoing>, host: &HeaderValue) {
        let (head, body) = request.into_parts();
        let length = body.size_hint().exact();
        self.out.clear();
        self.piece = Bytes::new();
        head::write(&head, host, length, &mut self.out);
        self.body = body;
        self.left = match length {
            Some(0) => Left::Nothing,
            Some(length) => Left::Length(length),
            None => Left::Chunks,
        };
        if self.left == Left::Nothing {
            self.body = Outgoing::Empty;
        }
    }

    /// Takes from the body what is at hand, as far as there is room. Whether it has to be waited for.
    pub(super) fn gather(&mut self, cx: &mut Context<'_>) -> Result<bool, StreamError> {
        while self.left != Left::Nothing && self.piece.is_empty() && self.out.len() < limits::SEND_GATHERED {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return Ok(true),
                Poll::Ready(Some(Err(error))) => return Err(error),
                Poll::Ready(None) => self.end()?,
                // Trailers end at the edge: a key could hide in them (A5).
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.take(data)?;
                    }
                }
            }
        }
        Ok(false)
    }

    fn take(&mut self, data: Bytes) -> Result<(), StreamError> {
        use std::fmt::Write as _;
        if data.is_empty() {
            return Ok(());
        }
        match &mut self.left {
            Left::Nothing => {}
            Left::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or("a longer body than was announced")?;
                if *left == 0 {
                    self.left = Left::Nothing;
                    self.body = Outgoing::Empty;
                }
            }
            Left::Chunks => write!(self.out, "{:x}\r\n", data.len())?,
        }
        match data.len() <= limits::SEND_COPIED {
            true => {
                self.out.extend_from_slice(&data);
                self.end_chunk();
            }
            false => self.piece = data,
        }
        Ok(())
    }

    fn end_chunk(&mut self) {
        if self.left == Left::Chunks {
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn end(&mut self) -> Result<(), StreamError> {
        if self.left != Left::Chunks {
            return Err("a shorter body than was announced".into());
        }
        self.out.extend_from_slice(b"0\r\n\r\n");
        self.left = Left::Nothing;
        self.body = Outgoing::Empty;
        Ok(())
    }

    /// What is to be written next.
    pub(super) fn slices(&self) -> [IoSlice<'_>; 2] {
        [IoSlice::new(&self.out), IoSlice::new(&self.piece)]
    }

    /// Whether there is nothing to be written now.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.piece.is_empty()
    }

    /// Whether nothing is left at all.
    pub(super) fn is_whole(&self) -> bool {
        self.left == Left::Nothing && self.is_empty()
    }

    /// So many bytes were written.
    pub(super) fn written(&mut self, count: usize) {
        if count < self.out.len() {
            return self.out.advance(count);
        }
        let of_piece = count - self.out.len();
        // Not `advance`, which would give up the room in front.
        self.out.clear();
        if of_piece > 0 {
            self.piece.advance(of_piece);
            if self.piece.is_empty() {
                self.end_chunk();
            }
        }
    }

    /// Gives up what is left.
    pub(super) fn stop(&mut self) {
        self.rest();
        *self = Sending { out: std::mem::take(&mut self.out), ..Sending::default() };
        self.out.clear();
    }

    /// Gives up room that no short request needs.
    pub(super) fn rest(&mut self) {
        if self.out.capacity() > 2 * limits::SEND_COPIED {
            self.out = BytesMut::new();
        }
    }
}
