//! A message on its way out, without I/O: its head and body as the bytes that are to be written next.
//!
//! What is at hand is gathered before it is written, so that a message with a short body is one write, and one whose body
//! breaks off at once is none.

use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;

use super::put;
use crate::limits;

/// Why a body ended early.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// What is still to be written of one message.
#[derive(Debug)]
pub(crate) struct Sending<B> {
    /// Heads, chunk sizes and short pieces of the body.
    out: BytesMut,
    /// A piece of the body that is too long to be copied; it follows them.
    piece: Bytes,
    body: Option<B>,
    left: Left,
}

/// What a body still has to bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: all of it is in the buffers or gone.
    #[default]
    Nothing,
    /// So many bytes.
    Length(u64),
    /// Chunks, until it ends; and behind them fields, if whoever reads them can do with them.
    Chunks { trailers: bool },
    /// Bytes, until the connection ends.
    Bytes,
}

impl<B> Default for Sending<B> {
    fn default() -> Self {
        Sending { out: BytesMut::new(), piece: Bytes::new(), body: None, left: Left::Nothing }
    }
}

impl<B> Sending<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    /// Where the head of the next message is to be written.
    pub(crate) fn head(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// The body behind that head.
    pub(crate) fn body(&mut self, body: B, left: Left) {
        self.left = match left {
            Left::Length(0) => Left::Nothing,
            left => left,
        };
        self.body = (self.left != Left::Nothing).then_some(body);
    }

    /// Takes from the body what is at hand, as far as there is room. Whether it has to be waited for.
    pub(crate) fn gather(&mut self, cx: &mut Context<'_>) -> Result<bool, BodyError> {
        while self.piece.is_empty() && self.out.len() < limits::SEND_GATHERED {
            let Some(body) = &mut self.body else { return Ok(false) };
            match Pin::new(body).poll_frame(cx) {
                Poll::Pending => return Ok(true),
                Poll::Ready(Some(Err(error))) => return Err(error.into()),
                Poll::Ready(None) => self.end(&HeaderMap::new())?,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.take(data)?,
                    Err(frame) => self.end(&frame.into_trailers().unwrap_or_default())?,
                },
            }
        }
        Ok(false)
    }

    fn take(&mut self, data: Bytes) -> Result<(), BodyError> {
        use std::fmt::Write as _;
        if data.is_empty() {
            return Ok(());
        }
        match &mut self.left {
            Left::Nothing => {}
            Left::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or("a longer body than was announced")?;
                if *left == 0 {
                    self.nothing_left();
                }
            }
            Left::Bytes => {}
            Left::Chunks { .. } => write!(self.out, "{:x}\r\n", data.len())?,
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
        if matches!(self.left, Left::Chunks { .. }) {
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// The body has ended.
    fn end(&mut self, trailers: &HeaderMap) -> Result<(), BodyError> {
        match self.left {
            Left::Nothing | Left::Bytes => {}
            Left::Length(_) => return Err("a shorter body than was announced".into()),
            Left::Chunks { trailers: wanted } => {
                self.out.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.iter().filter(|_| wanted) {
                    put(&mut self.out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
                }
                self.out.extend_from_slice(b"\r\n");
            }
        }
        self.nothing_left();
        Ok(())
    }

    fn nothing_left(&mut self) {
        self.left = Left::Nothing;
        self.body = None;
    }

    /// What is to be written next.
    pub(crate) fn slices(&self) -> [IoSlice<'_>; 2] {
        [IoSlice::new(&self.out), IoSlice::new(&self.piece)]
    }

    /// Whether there is nothing to be written now.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.piece.is_empty()
    }

    /// Whether nothing is left at all.
    pub(crate) fn is_whole(&self) -> bool {
        self.left == Left::Nothing && self.is_empty()
    }

    /// So many bytes were written.
    pub(crate) fn written(&mut self, count: usize) {
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
    pub(crate) fn stop(&mut self) {
        self.rest();
        self.out.clear();
        self.piece = Bytes::new();
        self.nothing_left();
    }

    /// Gives up room that no short message needs.
    pub(crate) fn rest(&mut self) {
        if self.out.capacity() > 2 * limits::SEND_COPIED {
            self.out = BytesMut::new();
        }
    }
}
