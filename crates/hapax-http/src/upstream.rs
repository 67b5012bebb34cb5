//! The client to the services behind: one [`Pool`] for each thread and service, HTTP/1.1 over TCP or TLS.
//!
//! A connection is polled by whoever waits for its answer, not by a task of its own: that saves two wake-ups for each call.
//! What is spoken on it is in parts that know nothing of sockets (`head`, and `http1` beside this folder) and in `exchange`,
//! which does (ADR 19).
//! Nothing is sent twice from here. A call either gets its answer or a [`Failed`], which says whether the service can have
//! seen a byte of it (L7); what follows from that, and how long a caller waits, is decided elsewhere.

mod body;
mod connection;
mod exchange;
mod head;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;

use http::{HeaderValue, Method, Request, Response, StatusCode};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

pub use body::{Incoming, Outgoing, StreamError};
pub use wire::Raw;

use crate::clock;
use crate::limits;
use crate::settings::Service;
use crate::setup::SetupError;
use crate::tls;
use exchange::Conn;

/// Whether the service can have seen something of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Certainly not one byte of the request was written.
    No,
    /// Something was written; what became of it is not known.
    Perhaps,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailedKind {
    /// No connection was made.
    Connect,
    /// No connection was made in time, or nothing more of an answer came.
    Timeout,
    /// The connection ended before the answer did.
    Closed,
    /// What came back is no HTTP/1.1 answer, or a longer head than is read.
    Malformed,
    /// This thread has as many connections to the service as it may have, and all of them are in use.
    TooManyConnections,
    /// The body of the request could not be read to its end, so it was not sent to its end.
    RequestBody,
}

impl FailedKind {
    /// The kind as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Malformed => "malformed",
            Self::TooManyConnections => "too_many_connections",
            Self::RequestBody => "request_body",
        }
    }
}

/// A call without a whole answer.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Whether the service can have seen something of the request.
    pub reached: Reached,
    /// What kind of failure it was.
    pub kind: FailedKind,
    /// For logs; not for callers, whom it could tell what stands behind.
    pub cause: String,
}

impl Failed {
    fn unsent(kind: FailedKind, cause: impl Into<String>) -> Self {
        Failed { reached: Reached::No, kind, cause: cause.into() }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reached = match self.reached {
            Reached::No => "nothing was sent",
            Reached::Perhaps => "something was sent",
        };
        write!(f, "{} ({}, {reached})", self.cause, self.kind.as_str())
    }
}

impl std::error::Error for Failed {}

/// What a request for an upgrade led to.
#[derive(Debug)]
pub enum Upgrade {
    /// The service said 101: from here on the connection carries bytes of the other protocol.
    Switched(Response<()>, Raw),
    /// The service answered as to any other request.
    Refused(Response<Incoming>),
}

/// What a pool has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections made.
    pub opened: u64,
    /// Calls on a connection that had carried one before.
    pub reused: u64,
    /// Pooled connections that turned out to be closed when they were needed.
    pub stale: u64,
    /// Calls that failed, broken answers among them.
    pub failed: u64,
    /// Connections that wait for a call now.
    pub idle: usize,
    /// Connections in all now.
    pub open: usize,
}

/// The connections of one thread to one service.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

/// A connection on which a request can be sent.
pub struct Connected {
    conn: Box<Conn>,
    /// Whether it has carried one before.
    used: bool,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").field("used", &self.used).finish_non_exhaustive()
    }
}

struct Shared {
    settings: Service,
    /// The `Host` of requests that have none.
    host: HeaderValue,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    shelf: Mutex<Shelf>,
    open: Arc<AtomicUsize>,
    opened: AtomicU64,
    reused: AtomicU64,
    stale: AtomicU64,
    failed: AtomicU64,
}

/// Idle connections, the one that was used last at the back.
#[derive(Default)]
struct Shelf {
    idle: VecDeque<Box<Conn>>,
    swept: bool,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("service", &self.0.settings.name).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without connections. Nothing is connected before the first call: a service may be away (P5).
    pub fn new(settings: Service) -> Result<Self, SetupError> {
        let bare = bare_host(&settings.host);
        let standard = if settings.https { 443 } else { 80 };
        let bracketed = if bare.contains(':') { format!("[{bare}]") } else { bare.to_owned() };
        let host =
            if settings.port == standard { bracketed } else { format!("{bracketed}:{}", settings.port) };
        let unusable =
            |what: &str| SetupError::invalid(format!("the host of upstream {} is no {what}", settings.name));
        let host = HeaderValue::try_from(host).map_err(|_| unusable("host name or address"))?;
        let tls = match settings.https {
            false => None,
            true => {
                let name = ServerName::try_from(bare.to_owned())
                    .map_err(|_| unusable("name that a certificate can have"))?;
                Some((tls::client_config(settings.ca.as_deref())?, name))
            }
        };
        Ok(Pool(Arc::new(Shared {
            settings,
            host,
            tls,
            shelf: Mutex::default(),
            open: Arc::default(),
            opened: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })))
    }

    /// The service.
    pub fn settings(&self) -> &Service {
        &self.0.settings
    }

    /// What this pool has done so far.
    pub fn counts(&self) -> Counts {
        Counts {
            opened: self.0.opened.load(Relaxed),
            reused: self.0.reused.load(Relaxed),
            stale: self.0.stale.load(Relaxed),
            failed: self.0.failed.load(Relaxed),
            idle: self.0.shelf().idle.len(),
            open: self.0.open.load(Relaxed),
        }
    }

    /// Sends one request and returns the head of its answer; the body is read from the connection as it is polled.
    ///
    /// The request's target, `Host`, length and transfer coding are made fit for the service; every other header is sent as
    /// it is. Dropping the future, or an answer that was not read to its end, closes the connection.
    ///
    /// A kept connection that turns out to be closed is replaced without a word. Where it breaks only then, with nothing
    /// written, that is a [`Failed`] with [`Reached::No`].
    pub async fn send(&self, request: Request<Outgoing>) -> Result<Response<Incoming>, Failed> {
        self.check(&request)?;
        self.exchange_on(self.connected().await?, request).await
    }

    /// A connection to the service: one that was kept, or a new one. Whoever has one and sends nothing on it closes it.
    pub async fn connected(&self) -> Result<Connected, Failed> {
        match self.standing().await {
            Some(conn) => Ok(Connected { conn, used: true }),
            // Rare, and far larger than a call on a connection that stands.
            None => Ok(Connected { conn: Box::pin(self.connect()).await?, used: false }),
        }
    }

    /// The same as [`Pool::send`] on a connection that stands. What fails before is known to have left the request untouched.
    pub async fn send_on(
        &self,
        connected: Connected,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, Failed> {
        self.check(&request)?;
        self.exchange_on(connected, request).await
    }

    async fn exchange_on(
        &self,
        connected: Connected,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, Failed> {
        let Connected { mut conn, used } = connected;
        let response = self.exchange(&mut conn, request).await?;
        if used {
            self.0.reused.fetch_add(1, Relaxed);
        }
        self.answer(response, conn)
    }

    /// Sends a request that asks for an upgrade, always on a connection of its own. Nothing of the other protocol is written
    /// before the service has said 101.
    pub async fn upgrade(&self, request: Request<Outgoing>) -> Result<Upgrade, Failed> {
        self.check(&request)?;
        let mut conn = self.connect().await?;
        let response = self.exchange(&mut conn, request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return self.answer(response, conn).map(Upgrade::Refused);
        }
        let raw = conn.into_raw().inspect_err(|_| self.count_failure())?;
        Ok(Upgrade::Switched(response, raw))
    }

    /// The connection that was used last, if it still stands.
    async fn standing(&self) -> Option<Box<Conn>> {
        std::future::poll_fn(|cx| {
            while let Some(mut conn) = self.0.take() {
                if conn.stands(cx) {
                    return Poll::Ready(Some(conn));
                }
                self.0.stale.fetch_add(1, Relaxed);
            }
            Poll::Ready(None)
        })
        .await
    }

    /// A tunnel would lead past the edge.
    fn check(&self, request: &Request<Outgoing>) -> Result<(), Failed> {
        if request.method() != Method::CONNECT {
            return Ok(());
        }
        self.count_failure();
        Err(Failed::unsent(FailedKind::Malformed, "CONNECT is not forwarded"))
    }

    /// The head of the answer.
    async fn exchange(&self, conn: &mut Conn, request: Request<Outgoing>) -> Result<Response<()>, Failed> {
        conn.begin(request, &self.0.host, self.0.settings.reuse);
        let head = std::future::poll_fn(|cx| conn.poll_answer(cx)).await;
        head.inspect_err(|_| self.count_failure())
    }

    async fn connect(&self) -> Result<Box<Conn>, Failed> {
        match self.0.connect().await {
            Ok(conn) => {
                self.0.opened.fetch_add(1, Relaxed);
                Ok(conn)
            }
            Err(failed) => {
                self.count_failure();
                Err(failed)
            }
        }
    }

    fn answer(&self, response: Response<()>, conn: Box<Conn>) -> Result<Response<Incoming>, Failed> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.count_failure();
            let cause = "the service switched protocols without being asked to".into();
            return Err(Failed { reached: Reached::Perhaps, kind: FailedKind::Malformed, cause });
        }
        Ok(response.map(|()| Incoming::new(conn, self)))
    }

    fn count_failure(&self) {
        self.0.failed.fetch_add(1, Relaxed);
    }

    /// Keeps a connection for the next call, or closes it where none may follow.
    fn put(&self, mut conn: Box<Conn>) {
        if !self.0.settings.reuse || !conn.is_reusable() {
            return;
        }
        conn.rest();
        conn.idle_since = clock::now();
        let mut shelf = self.0.shelf();
        shelf.idle.push_back(conn);
        if shelf.swept {
            return;
        }
        // Nobody polls an idle connection, so somebody must come by to close those that are never needed again.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            shelf.swept = true;
            runtime.spawn(sweep(Arc::downgrade(&self.0)));
        }
    }
}

impl Shared {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last, as it is the least likely to have been closed meanwhile.
    fn take(&self) -> Option<Box<Conn>> {
        let mut shelf = self.shelf();
        let conn = shelf.idle.pop_back()?;
        if conn.idle_since.elapsed() < self.settings.idle_timeout {
            return Some(conn);
        }
        // All others are older still.
        let expired = std::mem::take(&mut shelf.idle);
        drop(shelf);
        drop(expired);
        None
    }
}

/// Closes connections that nobody has needed for too long, and ends with the last one.
async fn sweep(pool: Weak<Shared>) {
    loop {
        let Some(pause) = pool.upgrade().map(|pool| pool.settings.idle_timeout / 2) else { return };
        tokio::time::sleep(pause.max(limits::UPSTREAM_SWEEP)).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut shelf = pool.shelf();
        let old = |conn: &Conn| conn.idle_since.elapsed() >= pool.settings.idle_timeout;
        let count = shelf.idle.iter().take_while(|conn| old(conn)).count();
        let expired: Vec<_> = shelf.idle.drain(..count).collect();
        shelf.swept = !shelf.idle.is_empty();
        let done = !shelf.swept;
        drop(shelf);
        drop(expired);
        if done {
            return;
        }
    }
}

/// A host without the brackets that an IPv6 address has in a URL.
fn bare_host(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}
