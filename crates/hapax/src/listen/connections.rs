//! The connections of a listener that serves an API: accepted, bounded in number and time, and drained at the end.
//!
//! Not `axum::serve`, which has no time-out for a head that never ends.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hapax_gateway::tls::Certificates;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use crate::limits;

/// Where a request comes from, beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) IpAddr);

/// How slow a connection may be.
#[derive(Clone, Copy)]
struct Pace {
    head: Duration,
    life: Duration,
}

/// What a listener of an API says of TLS: it speaks HTTP/1.1 only.
pub(crate) fn tls(certificates: &Certificates) -> Arc<ServerConfig> {
    let mut config = ServerConfig::clone(&certificates.server_config());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Serves until `shutdown` is ready; then finishes running requests, for a bounded time.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<ServerConfig>>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let pace = Pace { head: limits::API_HEADER_TIMEOUT, life: limits::API_CONNECTION_LIFE };
    serve_at(listener, router, tls, shutdown, pace).await
}

async fn serve_at(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<ServerConfig>>,
    shutdown: impl Future<Output = ()>,
    pace: Pace,
) -> io::Result<()> {
    let tls = tls.map(TlsAcceptor::from);
    let room = Arc::new(Semaphore::new(limits::API_CONNECTIONS));
    let (stop, stopped) = watch::channel(false);
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, from, permit) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let router = Asked { router: router.clone(), from };
        tokio::spawn(connection(stream, tls.clone(), router, stopped.clone(), pace, permit));
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
) -> (TcpStream, IpAddr, Option<OwnedSemaphorePermit>) {
    loop {
        // The semaphore is never closed; without a permit the connection is served all the same.
        let permit = room.clone().acquire_owned().await.ok();
        match listener.accept().await {
            Ok((stream, from)) => return (stream, from.ip(), permit),
            Err(error) => {
                tracing::warn!(%error, "a listener cannot accept a connection");
                tokio::time::sleep(limits::API_ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What a connection's requests are handed to.
#[derive(Clone)]
struct Asked {
    router: Router,
    from: IpAddr,
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    asked: Asked,
    stopped: watch::Receiver<bool>,
    pace: Pace,
    permit: Option<OwnedSemaphorePermit>,
) {
    match tls {
        None => serve_connection(stream, asked, stopped, pace, permit).await,
        Some(tls) => {
            // A handshake may take as long as a head; how it fails is its client's affair.
            if let Ok(Ok(stream)) = tokio::time::timeout(pace.head, tls.accept(stream)).await {
                serve_connection(stream, asked, stopped, pace, permit).await;
            }
        }
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    asked: Asked,
    mut stopped: watch::Receiver<bool>,
    pace: Pace,
    _permit: Option<OwnedSemaphorePermit>,
) {
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Caller(asked.from));
        asked.router.clone().call(request)
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
        tokio::spawn(serve_at(listener, Router::new(), None, std::future::pending(), pace));
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
