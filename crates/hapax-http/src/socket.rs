//! A TCP socket, plain or under TLS, whichever side made it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::limits;

/// A socket to a client or to a service.
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// A socket under TLS, after its handshake.
    pub(crate) fn tls(stream: impl Into<TlsStream<TcpStream>>) -> Self {
        Socket::Tls(Box::new(stream.into()))
    }

    /// The socket itself.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Socket::Plain(socket) => socket,
            Socket::Tls(socket) => socket.get_ref().0,
        }
    }
}

/// Lets the kernel ask now and then whether the other end is still there: of a tunnel or an answer in which nothing comes for
/// long, nobody here would notice. What a listener accepts is looked after as the listener is.
pub(crate) fn look_after<'s>(socket: impl Into<SockRef<'s>>) {
    let asking = TcpKeepalive::new()
        .with_time(limits::SILENCE)
        .with_interval(limits::SILENCE_PROBE)
        .with_retries(limits::SILENCE_PROBES);
    // Where it cannot be had, a connection may last longer than whoever made it.
    let _ = socket.into().set_tcp_keepalive(&asking);
}

/// Reads what came before a socket was handed over; whether there was any left of it.
pub(crate) fn read_first(first: &mut impl Buf, buf: &mut ReadBuf<'_>) -> bool {
    let some = first.has_remaining();
    let count = first.chunk().len().min(buf.remaining());
    buf.put_slice(&first.chunk()[..count]);
    first.advance(count);
    some
}

/// Writes from one or both of these, with the call that suits.
pub(crate) fn poll_write_both<S: AsyncWrite + Unpin>(
    socket: &mut S,
    cx: &mut Context<'_>,
    slices: &[IoSlice<'_>; 2],
) -> Poll<io::Result<usize>> {
    match slices {
        [one, none] | [none, one] if none.is_empty() => Pin::new(socket).poll_write(cx, one),
        both => Pin::new(socket).poll_write_vectored(cx, both),
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Socket::Tls(socket) => Pin::new(socket).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Socket::Tls(socket) => Pin::new(socket).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Socket::Tls(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(socket) => socket.is_write_vectored(),
            Socket::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Socket::Tls(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Socket::Tls(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}
