//! A socket to a service, plain or TLS, that knows two things more than a socket: whether anything was written since a
//! request began, and whether it still stands before another request is entrusted to it.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Open;
use crate::socket::Socket;

/// What a call and its socket tell each other.
#[derive(Debug, Default)]
pub(super) struct Signs {
    touched: AtomicBool,
    doubted: AtomicBool,
}

impl Signs {
    /// A request begins; where the connection was used before, the next read asks the socket whether it still stands.
    pub(super) fn begin(&self, used: bool) {
        self.touched.store(false, Relaxed);
        self.doubted.store(used, Relaxed);
    }

    /// Whether a byte can have been written since then.
    pub(super) fn touched(&self) -> bool {
        self.touched.load(Relaxed)
    }
}

/// A socket to a service.
pub(super) struct Wire {
    socket: Socket,
    signs: Arc<Signs>,
}

impl Wire {
    pub(super) fn new(socket: Socket) -> Self {
        Wire { socket, signs: Arc::default() }
    }

    pub(super) fn signs(&self) -> &Arc<Signs> {
        &self.signs
    }

    /// Asks the kernel, not the runtime: that one learns of a close only when it next looks for events.
    fn pending(&self) -> io::Result<Option<usize>> {
        match SockRef::from(self.socket.tcp()).peek(&mut [MaybeUninit::uninit()]) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// hyper reads before it writes, and on an idle connection whatever is read ends it, with the request unsent.
    fn poll_read_doubted(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.pending()? {
            None => Pin::new(&mut self.socket).poll_read(cx, buf),
            Some(0) => Poll::Ready(Ok(())),
            Some(_) => match &self.socket {
                Socket::Plain(_) => Poll::Ready(Err(io::Error::other("bytes that belong to no answer"))),
                // Session tickets are harmless, an alert is not. What the runtime cannot read yet is not waited for.
                Socket::Tls(_) => match Pin::new(&mut self.socket).poll_read(cx, buf) {
                    Poll::Pending if self.pending()?.is_some() => {
                        Poll::Ready(Err(io::Error::other("records that belong to no answer")))
                    }
                    read => read,
                },
            },
        }
    }

    /// Takes note of a write. A failed `write` to a socket has written nothing; a failed one to TLS may have written some
    /// records of several before.
    fn note(&self, written: &Poll<io::Result<usize>>) {
        let touched = match written {
            Poll::Pending => false,
            Poll::Ready(Ok(count)) => *count > 0,
            Poll::Ready(Err(_)) => matches!(self.socket, Socket::Tls(_)),
        };
        if touched {
            self.signs.touched.store(true, Relaxed);
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.signs.doubted.load(Relaxed) {
            self.signs.doubted.store(false, Relaxed);
            return self.poll_read_doubted(cx, buf);
        }
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.note(&written);
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

/// A connection after a 101: bytes of another protocol, beginning with those that came with the answer.
pub struct Raw {
    wire: Wire,
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
        Raw { wire, first, _open: open }
    }
}

impl AsyncRead for Raw {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.wire).poll_read(cx, buf);
        }
        let count = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first[..count]);
        self.first.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Raw {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}
