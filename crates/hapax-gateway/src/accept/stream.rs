//! A client's socket, plain or TLS, as hyper reads and writes it: with the heads of HTTP/1 looked at on their way, and the
//! connection's deadlines moved.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hapax_tower::{Code, Problem};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

use super::head::HeadWatch;
use super::pulse::Pulse;
use super::slots::Slot;
use crate::socket::Socket;

/// What a client says first that means to speak HTTP/2 at once.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The answer to a head that hyper does not get to see.
fn refusal(code: Code, docs: &str) -> Vec<u8> {
    let response = Problem::new(code).response(docs);
    let mut bytes = format!("HTTP/1.1 {}\r\nconnection: close\r\n", response.status()).into_bytes();
    for (name, value) in response.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    bytes.extend(response.body());
    bytes
}

/// A client's socket.
pub(super) struct Stream {
    socket: Socket,
    /// What was read to find out which protocol is spoken.
    first: [u8; PREFACE.len()],
    first_from: usize,
    first_to: usize,
    watch: Option<Box<HeadWatch>>,
    docs: Arc<str>,
    timed: bool,
    stalled: bool,
    pulse: Arc<Pulse>,
    /// Counts the connection, also after it was handed out of hyper for another protocol.
    _slot: Slot,
}

impl Stream {
    pub(super) fn new(socket: Socket, pulse: Arc<Pulse>, slot: Slot, docs: Arc<str>) -> Self {
        Stream {
            docs,
            socket,
            first: [0; PREFACE.len()],
            first_from: 0,
            first_to: 0,
            watch: None,
            timed: false,
            stalled: false,
            pulse,
            _slot: slot,
        }
    }

    /// Whether the client speaks HTTP/2, from its first bytes; they are read again afterwards.
    pub(super) async fn speaks_h2(&mut self) -> io::Result<bool> {
        while self.first_to < PREFACE.len() {
            let room = &mut self.first[self.first_to..];
            let count = self.socket.read(room).await?;
            self.first_to += count;
            if count == 0 || self.first[..self.first_to] != PREFACE[..self.first_to] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// From here on the heads are looked at.
    pub(super) fn watch_heads(&mut self) {
        self.watch = Some(Box::default());
    }

    fn poll_read_socket(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first_from < self.first_to {
            let first = &self.first[self.first_from..self.first_to];
            let count = first.len().min(buf.remaining());
            buf.put_slice(&first[..count]);
            self.first_from += count;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }

    /// Whether these bytes may go on to hyper.
    fn look(&mut self, bytes: &[u8]) -> bool {
        let Some(watch) = &mut self.watch else { return true };
        if watch.look(bytes).is_some() {
            return false;
        }
        let in_head = watch.in_head();
        if in_head && !self.timed {
            self.pulse.head_begins();
        }
        self.timed = in_head;
        true
    }

    /// Says why, where that cannot get mixed up with an answer, and ends the connection.
    fn refuse(&mut self, cx: &mut Context<'_>) -> io::Error {
        if self.pulse.is_quiet() && !self.stalled {
            let too_large = self.watch.as_ref().is_some_and(|watch| watch.is_too_large());
            let code = if too_large { Code::HeadTooLarge } else { Code::RequestMalformed };
            let refusal = refusal(code, &self.docs);
            let _ = Pin::new(&mut self.socket).poll_write(cx, &refusal);
        }
        io::Error::new(io::ErrorKind::InvalidData, "a head that can be read in two ways")
    }

    fn write_ended(&mut self, written: &Poll<io::Result<usize>>) {
        if written.is_pending() {
            if !self.stalled {
                self.stalled = true;
                self.pulse.write_stalls();
            }
        } else if self.stalled {
            self.stalled = false;
            self.pulse.write_moves();
        }
    }

    fn answer_begins(&mut self, bytes: &[u8]) {
        if let Some(watch) = &mut self.watch
            && watch.may_switch()
        {
            watch.answered(bytes);
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.poll_read_socket(cx, buf);
        if read.is_ready() && !self.look(&buf.filled()[before..]) {
            return Poll::Ready(Err(self.refuse(cx)));
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.answer_begins(buf);
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.write_ended(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.answer_begins(bufs.first().map_or(&[], |buf| &buf[..]));
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.write_ended(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
