//! The connections of a listener that serves an API: accepted, bounded in number and time, and drained at the end.
//!
//! Not `axum::serve`, which has no time-out for a head that never ends.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower_service::Service as _;

use crate::limits;

/// Where a request comes from: every request has it among its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// How slow a connection may be.
#[derive(Clone, Copy)]
struct Pace {
    head: Duration,
    life: Duration,
}

/// Serves until `shutdown` is ready; then finishes running requests, for a bounded time.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let pace = Pace { head: limits::API_HEADER_TIMEOUT, life: limits::API_CONNECTION_LIFE };
    serve_at(listener, router, shutdown, pace).await
}

async fn serve_at(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
    pace: Pace,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(limits::API_CONNECTIONS));
    let (stop, stopped) = watch::channel(false);
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, peer, permit) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener, &room) => accepted,
        };
        tokio::spawn(connection(stream, Peer(peer.ip()), router.clone(), stopped.clone(), pace, permit));
    }
    drop(listener);
    // Nobody listens any more where there is no connection.
    let _ = stop.send(true);
    let all = u32::try_from(limits::API_CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(limits::API_DRAIN, room.acquire_many(all)).await;
    Ok(())
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    loop {
        // The semaphore is never closed; without a permit the connection is served all the same.
        let permit = room.clone().acquire_owned().await.ok();
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, permit),
            Err(error) => {
                tracing::warn!(%error, "a listener cannot accept a connection");
                tokio::time::sleep(limits::API_ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    mut stopped: watch::Receiver<bool>,
    pace: Pace,
    _permit: Option<OwnedSemaphorePermit>,
) {
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.clone().call(request)
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(pace.head)
        .max_buf_size(limits::API_HEAD_BYTES)
        .max_headers(limits::API_HEAD_FIELDS);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let life = tokio::time::sleep(pace.life);
    tokio::select! {
        // How a connection ended is its client's affair.
        _ = serving.as_mut() => return,
        _ = stopped.wait_for(|stop| *stop) => {}
        () = life => return,
    }
    serving.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(limits::API_DRAIN, serving).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn started(pace: Pace) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_at(listener, Router::new(), std::future::pending(), pace));
        address
    }

    #[tokio::test]
    async fn a_head_that_never_ends_is_given_up_m1() {
        let pace = Pace { head: Duration::from_millis(50), life: Duration::from_secs(60) };
        let mut slow = TcpStream::connect(started(pace).await).await.unwrap();
        slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: a").await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(10), slow.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "the connection stays open");
    }

    #[tokio::test]
    async fn a_connection_has_an_end_m1() {
        let pace = Pace { head: Duration::from_secs(60), life: Duration::from_millis(50) };
        let mut idle = TcpStream::connect(started(pace).await).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(10), idle.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "the connection stays open");
    }
}
