//! A socket to a service, plain or TLS, that knows two things more than a socket: whether anything was written since a
//! request began, and whether it still stands before another request is entrusted to it.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, Interest, ReadBuf};

use super::connection::Open;
use crate::socket::{Socket, poll_write_both, read_first};

/// A socket to a service.
pub(super) struct Wire {
    socket: Socket,
    touched: bool,
}

impl Wire {
    pub(super) fn new(socket: Socket) -> Self {
        Wire { socket, touched: false }
    }

    /// A request begins.
    pub(super) fn begin(&mut self) {
        self.touched = false;
    }

    /// Whether a byte can have been written since then.
    pub(super) fn touched(&self) -> bool {
        self.touched
    }

    /// Whether another request can be entrusted to it: it is open, and nothing has come that nobody asked for.
    pub(super) fn stands(&mut self, cx: &mut Context<'_>) -> bool {
        if let Socket::Tls(socket) = &mut self.socket {
            // Session tickets are harmless, an alert is not; nor is what was left over of the last answer. What the runtime
            // cannot read yet is not waited for.
            let mut byte = [0];
            if Pin::new(socket).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready() {
                return false;
            }
        }
        self.pending().is_none()
    }

    /// Whether it can be kept after an answer. That costs nothing, unless the runtime has heard of more than was read: then it
    /// is often the end of the connection. What TLS has to say is heard when the connection is needed.
    pub(super) fn is_quiet(&self) -> bool {
        let heard = self.socket.tcp().try_io(Interest::READABLE, || Ok(())).is_ok();
        !heard
            || match self.pending() {
                None => true,
                Some(pending) => matches!((pending, &self.socket), (Ok(1..), Socket::Tls(_))),
            }
    }

    /// What there is to be read: bytes, the end or an error. Asks the kernel, not the runtime: that one learns of a close only
    /// when it next looks for events.
    fn pending(&self) -> Option<io::Result<usize>> {
        match SockRef::from(self.socket.tcp()).peek(&mut [MaybeUninit::uninit()]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            pending => Some(pending),
        }
    }

    /// Reads behind what has come; nothing read is the end of the connection.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, come: &mut BytesMut) -> Poll<io::Result<usize>> {
        pin!(self.socket.read_buf(come)).poll(cx)
    }

    /// Writes from one or both of these, and takes note of it. A failed `write` to a socket has written nothing; a failed one
    /// to TLS may have written some records of several before.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>; 2],
    ) -> Poll<io::Result<usize>> {
        let written = poll_write_both(&mut self.socket, cx, slices);
        self.touched |= match &written {
            Poll::Pending => false,
            Poll::Ready(Ok(count)) => *count > 0,
            Poll::Ready(Err(_)) => matches!(self.socket, Socket::Tls(_)),
        };
        written
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }
}

/// A connection after a 101: bytes of another protocol, beginning with those that came with the answer.
pub struct Raw {
    socket: Socket,
    first: Bytes,
    _open: Open,
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("first", &self.first.len()).finish_non_exhaustive()
    }
}

impl Raw {
    pub(super) fn new(wire: Wire, first: Bytes, open: Open) -> Self {
        Raw { socket: wire.socket, first, _open: open }
    }
}

impl AsyncRead for Raw {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match read_first(&mut self.first, buf) {
            true => Poll::Ready(Ok(())),
            false => Pin::new(&mut self.socket).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Raw {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
