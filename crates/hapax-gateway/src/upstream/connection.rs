//! One connection to a service: made, asked, polled.
//!
//! hyper speaks HTTP here; this file holds both ends of its connection, so that a call drives its own connection. What a
//! socket is, and whether anything was written to it, is the affair of `wire`.

use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::unconstrained;
use tokio::time::{Instant, timeout};

use super::body::Outgoing;
use super::relay::Relay;
use super::wire::{Raw, Signs, Wire};
use super::{Failed, FailedKind, Reached, Shared, bare_host};
use crate::limits;
use crate::socket::Socket;

/// One connection, with both ends of it in one hand.
pub(super) struct Conn {
    sender: SendRequest<Outgoing>,
    /// `None` once the connection has ended.
    driver: Option<Connection<TokioIo<Wire>, Outgoing>>,
    signs: Arc<Signs>,
    relay: Arc<Relay>,
    /// The relay as hyper and the socket know it.
    waker: Waker,
    pub(super) idle_since: Instant,
    open: Open,
}

/// Counts a connection as long as it lives.
#[derive(Debug)]
pub(super) struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// An exchange that did not come to its end.
pub(super) struct Broken {
    pub(super) error: hyper::Error,
    /// The request, where hyper had not begun with it.
    pub(super) request: Option<Request<Outgoing>>,
    /// Whether anything of it was written.
    pub(super) touched: bool,
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        let Broken { error, touched, .. } = broken;
        let kind = if error.is_parse() {
            FailedKind::Malformed
        } else if error.is_user() || error.is_body_write_aborted() {
            FailedKind::RequestBody
        } else {
            FailedKind::Closed
        };
        let mut cause = error.to_string();
        let mut next = std::error::Error::source(&error);
        while let Some(source) = next {
            cause.push_str(": ");
            cause.push_str(&source.to_string());
            next = source.source();
        }
        let reached = if touched { Reached::Perhaps } else { Reached::No };
        Failed { reached, kind, cause }
    }
}

impl Shared {
    /// A new connection, unless there are too many.
    pub(super) async fn connect(&self) -> Result<Box<Conn>, Failed> {
        let settings = &self.settings;
        self.open.fetch_add(1, Relaxed);
        let open = Open(Arc::clone(&self.open));
        if self.open.load(Relaxed) > settings.max_connections {
            let cause = format!("{} connections to {} are in use", settings.max_connections, settings.name);
            return Err(Failed::unsent(FailedKind::TooManyConnections, cause));
        }
        let wire = timeout(settings.connect_timeout, self.dial()).await.map_err(|_| {
            let cause = format!("no connection to {} within {:?}", settings.name, settings.connect_timeout);
            Failed::unsent(FailedKind::Timeout, cause)
        })??;
        let signs = Arc::clone(wire.signs());
        let (sender, driver) = http1::Builder::new()
            .max_header_size(limits::ANSWER_HEAD)
            .handshake(TokioIo::new(wire))
            .await
            .map_err(|error| Failed::unsent(FailedKind::Connect, error.to_string()))?;
        Ok(Box::new(Conn::new(sender, Some(driver), signs, open)))
    }

    async fn dial(&self) -> Result<Wire, Failed> {
        let failed = |error: std::io::Error| {
            let late = error.kind() == std::io::ErrorKind::TimedOut;
            let kind = if late { FailedKind::Timeout } else { FailedKind::Connect };
            Failed::unsent(kind, format!("no connection to {}: {error}", self.settings.name))
        };
        let stream = self.dial_any().await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let Some((config, name)) = &self.tls else { return Ok(Wire::new(Socket::Plain(stream))) };
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
        Ok(Wire::new(Socket::tls(connector.connect(name.clone(), stream).await.map_err(failed)?)))
    }

    /// Tries every address of the host in turn; none may use up the time of all the others.
    async fn dial_any(&self) -> std::io::Result<TcpStream> {
        let (host, port) = (bare_host(&self.settings.host), self.settings.port);
        let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => tokio::net::lookup_host((host, port)).await?.take(limits::UPSTREAM_ADDRESSES).collect(),
        };
        let each = self.settings.connect_timeout / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
        for address in addresses {
            match timeout(each, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = std::io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }
}

impl Conn {
    fn new(
        sender: SendRequest<Outgoing>,
        driver: Option<Connection<TokioIo<Wire>, Outgoing>>,
        signs: Arc<Signs>,
        open: Open,
    ) -> Self {
        let relay = Arc::<Relay>::default();
        let waker = Waker::from(Arc::clone(&relay));
        Conn { sender, driver, signs, relay, waker, idle_since: Instant::now(), open }
    }

    /// One request and the head of its answer. A connection that was used before is asked first whether it still stands.
    pub(super) async fn exchange(
        mut self: Box<Self>,
        request: Request<Outgoing>,
        used: bool,
    ) -> Result<(Response<Incoming>, Box<Self>), Broken> {
        self.signs.begin(used);
        // The answer is handed over while the driver is polled, here, so nobody else must wake this task for it. It takes
        // no part in the scheduler's budget, because it could not be woken when that is used up.
        let mut answer = pin!(unconstrained(self.sender.try_send_request(request)));
        let answer = std::future::poll_fn(|cx| {
            self.poll_driver();
            let answer = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if answer.is_pending() {
                self.wait(cx);
            }
            answer
        })
        .await;
        match answer {
            Ok(response) => Ok((response, self)),
            Err(mut error) => {
                let request = error.take_message();
                Err(Broken { request, touched: self.signs.touched(), error: error.into_error() })
            }
        }
    }

    /// As `exchange`, but after a 101 the bare connection is taken out of hyper's hands.
    pub(super) async fn exchange_for_upgrade(
        self: Box<Self>,
        request: Request<Outgoing>,
    ) -> Result<(Response<Incoming>, Result<Raw, Box<Self>>), Broken> {
        let Conn { mut sender, mut driver, signs, open, .. } = *self;
        signs.begin(false);
        let mut answer = pin!(unconstrained(sender.try_send_request(request)));
        let mut ended = false;
        let answer = std::future::poll_fn(|cx| {
            ended = ended || driver.as_mut().is_none_or(|driver| driver.poll_without_shutdown(cx).is_ready());
            let noop = &mut Context::from_waker(Waker::noop());
            match answer.as_mut().poll(noop) {
                // hyper says why when it is given up.
                Poll::Pending if ended => {
                    driver = None;
                    answer.as_mut().poll(noop)
                }
                answer => answer,
            }
        })
        .await;
        let response = answer.map_err(|error| Broken {
            request: None,
            touched: signs.touched(),
            error: error.into_error(),
        })?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(mut driver) = driver.take()
        {
            if !ended {
                let _ = std::future::poll_fn(|cx| driver.poll_without_shutdown(cx)).await;
            }
            let parts = driver.into_parts();
            return Ok((response, Ok(Raw::new(parts.io.into_inner(), parts.read_buf, open))));
        }
        let driver = driver.filter(|_| !ended);
        Ok((response, Err(Box::new(Conn::new(sender, driver, signs, open)))))
    }

    /// Moves the connection forward, until it has ended. Whoever has to wait afterwards calls `wait`.
    pub(super) fn poll_driver(&mut self) {
        self.relay.begin();
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(&mut Context::from_waker(&self.waker)).is_ready()
        {
            // Whoever still waits on it is told by its end; what it was, they were told before.
            self.driver = None;
        }
    }

    /// Wakes this task when the connection can be moved forward again.
    pub(super) fn wait(&self, cx: &mut Context<'_>) {
        self.relay.wait(cx);
    }

    /// Whether it can take another request: the last answer is read, the last request is sent, and both sides mean to go
    /// on.
    pub(super) fn is_idle(&mut self) -> bool {
        if !self.sender.is_ready() {
            self.poll_driver();
        }
        self.driver.is_some() && self.sender.is_ready()
    }
}
