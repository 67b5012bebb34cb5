//! The client to the services behind: one [`Pool`] for each thread and service, HTTP/1.1 over TCP or TLS.
//!
//! A connection is polled by whoever waits for its answer, not by a task of its own: that saves two wake-ups for each call.
//! Nothing is sent twice from here. A call either gets its answer or a [`Failed`], which says whether the service can have
//! seen a byte of it (L7); what follows from that, and how long a caller waits, is decided elsewhere.

mod body;
mod connection;
mod relay;
mod wire;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hapax_tower::answer::is_length;
use http::header::{CONTENT_LENGTH, EXPECT, HOST, HeaderMap, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Body as _;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::Instant;

pub use body::{Incoming, Outgoing, StreamError};
pub use wire::Raw;

use crate::limits;
use crate::settings::Upstream;
use crate::tls;
use connection::{Broken, Conn};

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
    /// No connection was made in time.
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

struct Shared {
    settings: Arc<Upstream>,
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
        f.debug_struct("Pool").field("upstream", &self.0.settings.name).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without connections. Nothing is connected before the first call: a service may be away (P5).
    pub fn new(settings: Arc<Upstream>) -> Result<Self, hapax_core::Error> {
        let bare = bare_host(&settings.host);
        let standard = if settings.https { 443 } else { 80 };
        let bracketed = if bare.contains(':') { format!("[{bare}]") } else { bare.to_owned() };
        let host =
            if settings.port == standard { bracketed } else { format!("{bracketed}:{}", settings.port) };
        let unusable = |what: &str| {
            hapax_core::Error::invalid(format!("the host of upstream {} is no {what}", settings.name))
        };
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
    pub fn settings(&self) -> &Arc<Upstream> {
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
    /// A kept connection that turns out to be closed is replaced without a word, as long as hyper has not begun with the
    /// request. Where it broke in the moment between, with nothing written, that is a [`Failed`] with [`Reached::No`].
    pub async fn send(&self, request: Request<Outgoing>) -> Result<Response<Incoming>, Failed> {
        let mut request = self.prepared(request).inspect_err(|_| self.count_failure())?;
        while let Some(conn) = self.0.take() {
            match conn.exchange(request, true).await {
                Ok((response, conn)) => {
                    self.0.reused.fetch_add(1, Relaxed);
                    return self.answer(response, conn);
                }
                Err(Broken { request: Some(back), touched: false, .. }) => {
                    self.0.stale.fetch_add(1, Relaxed);
                    request = back;
                }
                Err(broken) => return Err(self.failed(broken)),
            }
        }
        // Rare, and far larger than a call on a connection that stands.
        let conn = Box::pin(self.connect()).await?;
        match conn.exchange(request, false).await {
            Ok((response, conn)) => self.answer(response, conn),
            Err(broken) => Err(self.failed(broken)),
        }
    }

    /// Sends a request that asks for an upgrade, always on a connection of its own. Nothing of the other protocol is written
    /// before the service has said 101.
    pub async fn upgrade(&self, request: Request<Outgoing>) -> Result<Upgrade, Failed> {
        let request = self.prepared(request).inspect_err(|_| self.count_failure())?;
        let conn = self.connect().await?;
        match conn.exchange_for_upgrade(request).await {
            Ok((response, Ok(raw))) => Ok(Upgrade::Switched(response.map(drop), raw)),
            Ok((response, Err(conn))) => self.answer(response, conn).map(Upgrade::Refused),
            Err(broken) => Err(self.failed(broken)),
        }
    }

    /// Writes what frames the request, from the body that is at hand and from nothing that a client said.
    fn prepared(&self, mut request: Request<Outgoing>) -> Result<Request<Outgoing>, Failed> {
        *request.version_mut() = Version::HTTP_11;
        if request.uri().scheme().is_some() || request.uri().authority().is_some() {
            let path = request.uri().path_and_query().cloned();
            *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        }
        let length = request.body().size_hint().exact();
        let bodiless =
            matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE);
        let headers = request.headers_mut();
        // hyper never waits for a 100: what was promised by the client ends at the edge.
        headers.remove(EXPECT);
        headers.remove(TRANSFER_ENCODING);
        match length {
            Some(0) if bodiless => drop(headers.remove(CONTENT_LENGTH)),
            Some(length) if has_length(headers, length) => {}
            Some(length) => drop(headers.insert(CONTENT_LENGTH, HeaderValue::from(length))),
            None => {
                headers.remove(CONTENT_LENGTH);
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        }
        if !headers.contains_key(HOST) {
            headers.insert(HOST, self.0.host.clone());
        }
        if request.method() == Method::CONNECT {
            return Err(Failed::unsent(FailedKind::Malformed, "CONNECT is not forwarded"));
        }
        Ok(request)
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

    fn answer(
        &self,
        mut response: Response<hyper::body::Incoming>,
        conn: Box<Conn>,
    ) -> Result<Response<Incoming>, Failed> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.count_failure();
            let cause = "the service switched protocols without being asked to".into();
            return Err(Failed { reached: Reached::Perhaps, kind: FailedKind::Malformed, cause });
        }
        // Its length is what the chunks say; the other one must not go on (RFC 9112, 6.3).
        if response.headers().contains_key(TRANSFER_ENCODING) {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        Ok(response.map(|body| Incoming::new(body, conn, self.clone())))
    }

    fn failed(&self, broken: Broken) -> Failed {
        self.count_failure();
        broken.into()
    }

    fn count_failure(&self) {
        self.0.failed.fetch_add(1, Relaxed);
    }

    /// Keeps a connection for the next call. Only for those that hyper holds to be idle.
    fn put(&self, mut conn: Box<Conn>) {
        conn.idle_since = Instant::now();
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

/// Whether the length is said once, and is this one.
fn has_length(headers: &HeaderMap, length: u64) -> bool {
    let mut said = headers.get_all(CONTENT_LENGTH).iter();
    said.next().is_some_and(|value| is_length(value, length)) && said.next().is_none()
}

/// A host without the brackets that an IPv6 address has in a URL.
fn bare_host(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}
