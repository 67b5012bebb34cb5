//! A client's socket, plain or TLS, with the connection's deadlines moved as it is written to.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::Stop;
use super::pulse::Pulse;
use super::slots::Slot;
use crate::limits;
use crate::socket::{Socket, read_first};

/// Ready when a connection breaks.
pub(super) type Breaking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a client says first that means to speak HTTP/2 at once.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A client's socket.
pub struct Stream {
    socket: Socket,
    /// What was read already, and is read again.
    first: BytesMut,
    stalled: bool,
    pulse: Arc<Pulse>,
    stop: Arc<Stop>,
    /// Counts the connection, also after it went over to another protocol.
    slot: Slot,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("first", &self.first.len()).finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(socket: Socket, pulse: Arc<Pulse>, stop: &Arc<Stop>, slot: Slot) -> Self {
        Stream { socket, first: BytesMut::new(), stalled: false, pulse, stop: Arc::clone(stop), slot }
    }

    /// From now on it carries another protocol: whoever passes that on hears of the end of the process here, and is not waited for
    /// as a request is.
    pub(crate) fn becomes_tunnel(&mut self) -> Arc<Stop> {
        self.slot.move_to(&self.stop.tunnels);
        Arc::clone(&self.stop)
    }

    /// Whether the client speaks HTTP/2, from its first bytes; they are read again afterwards.
    pub(super) async fn speaks_h2(&mut self) -> io::Result<bool> {
        self.first.reserve(limits::READ);
        while self.first.len() < PREFACE.len() {
            let count = self.socket.read_buf(&mut self.first).await?;
            let known = self.first.len().min(PREFACE.len());
            if count == 0 || self.first[..known] != PREFACE[..known] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What was read already; it is not read again.
    pub(super) fn take_first(&mut self) -> BytesMut {
        std::mem::take(&mut self.first)
    }

    /// The same, with this to be read before anything else.
    pub(super) fn beginning_with(mut self, first: BytesMut) -> Self {
        self.first = first;
        self
    }

    /// Lets the client see that something is missing where nothing but the connection's end says how long an answer is.
    pub(super) fn breaks_off(&self) {
        let _ = SockRef::from(self.socket.tcp()).set_linger(Some(Duration::ZERO));
    }

    /// Waits for the connection to break, once the client sends no more: from then on there is nothing to read, and the socket
    /// is always ready for that. So it is watched by a second handle, which hears of nothing else.
    pub(super) fn breaking(&self) -> io::Result<Breaking> {
        let watched = self.socket.tcp().as_fd().try_clone_to_owned()?;
        let watched = TcpStream::from_std(watched.into())?;
        Ok(Box::pin(async move {
            let _ = watched.ready(Interest::ERROR).await;
        }))
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
}

impl AsyncRead for Stream {
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

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.write_ended(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
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
