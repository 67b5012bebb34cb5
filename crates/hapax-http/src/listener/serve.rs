//! One connection, from its first byte to its last: which protocol, how long, and how it ends when the process does.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::unconstrained;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::answer::To;
use super::body::Incoming;
use super::pulse::Pulse;
use super::slots::Slot;
use super::stream::Stream;
use super::taken::{self, Streams};
use super::trailers::Marked;
use super::{Handler, Peer, Site, Stop};
use super::{http1, service};
use crate::limits;
use crate::socket::Socket;

/// Serves a connection to its end.
pub(super) async fn serve<H: Handler>(
    site: Arc<Site>,
    handler: Arc<H>,
    socket: TcpStream,
    peer: Peer,
    slot: Slot,
) {
    let pulse = Pulse::new(site.header_timeout, site.idle_timeout);
    let stop = Arc::clone(&site.stop);
    // A client that says nothing before the process ends is not waited for.
    let opened = tokio::select! {
        opened = Box::pin(open(&site, socket, Arc::clone(&pulse), slot)) => opened,
        () = stop.stopped() => None,
    };
    let Some((stream, h2)) = opened else { return };
    if !h2 {
        // Large, and not carried along by connections on which nothing has come yet.
        let connection = Box::pin(http1::serve(&site, &handler, &pulse, stream, peer));
        return drive(connection, &pulse, &stop, |_| {}).await;
    }
    let requests = Arc::clone(&pulse);
    let shared = Arc::clone(&site);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (site, handler, pulse) = (Arc::clone(&shared), Arc::clone(&handler), Arc::clone(&requests));
        let (to, request) = (To::new(request.method(), false, true), request.map(Incoming::h2));
        async move {
            let response = service::answer(&site, &handler, &pulse, request, peer).await;
            Ok::<_, Infallible>(taken::watch(service::framed(to, response)))
        }
    });
    let connection =
        Box::pin(http2(site.idle_timeout).serve_connection(TokioIo::new(Marked::new(stream)), service));
    drive(connection, &pulse, &stop, |connection| connection.as_mut().graceful_shutdown()).await;
}

/// The stream of a connection, and whether HTTP/2 is spoken on it; `None` when nobody said so in time.
async fn open(site: &Site, socket: TcpStream, pulse: Arc<Pulse>, slot: Slot) -> Option<(Stream, bool)> {
    let Some(config) = &site.tls else {
        let first = async {
            // Whoever says nothing needs no room for it.
            socket.readable().await?;
            let mut stream = Stream::new(Socket::Plain(socket), pulse, &site.stop, slot);
            let h2 = stream.speaks_h2().await?;
            Ok::<_, std::io::Error>((stream, h2))
        };
        let (stream, h2) = timeout(site.header_timeout, first).await.ok()?.ok()?;
        return Some((stream, h2));
    };
    let handshake = TlsAcceptor::from(Arc::clone(config)).accept(socket);
    let Ok(Ok(socket)) = timeout(limits::HANDSHAKE, handshake).await else {
        site.counters.handshakes_failed.fetch_add(1, Relaxed);
        return None;
    };
    // The handshake had a time of its own.
    pulse.head_begins();
    let h2 = socket.get_ref().1.alpn_protocol() == Some(b"h2");
    Some((Stream::new(Socket::tls(socket), pulse, &site.stop, slot), h2))
}

fn http2(patience: Duration) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(Streams { patience });
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS)
        .max_pending_accept_reset_streams(limits::PENDING_RESETS)
        .max_local_error_reset_streams(limits::ERROR_RESETS)
        .max_header_list_size(limits::H2_HEAD)
        .initial_stream_window_size(limits::STREAM_WINDOW)
        .initial_connection_window_size(limits::CONNECTION_WINDOW)
        .max_send_buf_size(limits::CONNECTION_BUFFER)
        .keep_alive_interval(limits::PING)
        .keep_alive_timeout(limits::PING);
    builder
}

/// Polls a connection until it ends, its time is over, or the process ends.
///
/// The stop and the timer are polled only to be waked by them, once for each: a task keeps its waker. Between that, a wake-up
/// costs one load for each of them.
async fn drive<C: Future>(
    mut connection: Pin<Box<C>>,
    pulse: &Pulse,
    stop: &Stop,
    end: impl Fn(&mut Pin<Box<C>>),
) {
    let mut stopped = pin!(unconstrained(stop.stopped()));
    let Some(first) = pulse.next_look() else { return };
    let mut timer = pin!(sleep_until(first));
    let (mut armed, mut ending) = (false, false);
    std::future::poll_fn(|cx| {
        if !armed {
            armed = true;
            let _ = stopped.as_mut().poll(cx);
            let _ = unbudgeted(timer.as_mut(), cx);
        }
        while timer.is_elapsed() {
            let Some(next) = pulse.next_look() else { return Poll::Ready(()) };
            timer.as_mut().reset(next);
            let _ = unbudgeted(timer.as_mut(), cx);
        }
        if !ending && stop.is_stopped() {
            ending = true;
            end(&mut connection);
        }
        connection.as_mut().poll(cx).map(drop)
    })
    .await;
}

/// Polls without a part in the scheduler's budget, so that the waker is certainly kept.
fn unbudgeted<F: Future>(mut future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
    pin!(unconstrained(std::future::poll_fn(|cx| future.as_mut().poll(cx)))).poll(cx)
}
