//! The listener: threads, each with its own runtime and socket on one port, that serve HTTP/1.1 and HTTP/2 to a [`Handler`].
//!
//! A connection stays on the thread that accepted it, and nothing on its way is shared with another thread. What is bounded
//! here: connections in all and of one peer, heads, the time for a head, silence, streams. What a request means, how long its
//! body may take and what it may use is the handler's affair.

mod answer;
mod body;
mod http1;
mod pulse;
mod serve;
mod service;
mod slots;
mod stream;
mod taken;
mod trailers;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use rustls::ServerConfig;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

pub use body::Incoming;
pub use http1::OnSwitch;
pub use stream::Stream;

use crate::clock;
use crate::limits;
use crate::refusal::Refusal;
use crate::settings::Listener;
use crate::setup::SetupError;
use crate::socket::look_after;
use slots::{Census, Full, Here, Slots, Warned};

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub addr: SocketAddr,
    /// Whether it came over TLS.
    pub tls: bool,
}

/// Answers requests; one for each thread.
///
/// The future is dropped when the connection breaks before it is answered. Over HTTP/1 that is known of a client that has left
/// only when something is written to it: until then it looks like one that sends no more and still reads. A panic is a
/// [`Refusal`].
pub trait Handler: Send + Sync + 'static {
    /// The body of answers.
    type Body: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static;

    /// Answers one request.
    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;

    /// Answers what cannot be read as a request or is larger than any may be, and requests whose handling panicked.
    fn refuse(&self, _peer: Peer, refusal: Refusal) -> Response<Bytes> {
        refusal.response()
    }
}

/// Where a handler lives.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its number, from 0.
    pub index: usize,
    /// What goes on without a caller.
    pub tasks: Tasks,
}

/// Work of one thread that a drain waits for, beside the requests.
#[derive(Clone, Debug)]
pub struct Tasks(Arc<Census>);

impl Tasks {
    /// Goes on with this on the thread it is called on.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let here = self.enter();
        tokio::spawn(async move {
            let _here = here;
            future.await
        })
    }

    /// A drain waits until this is dropped.
    pub fn enter(&self) -> Waited {
        Waited(self.0.enter())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.count()
    }
}

/// One task that a drain waits for.
#[derive(Debug)]
pub struct Waited(#[expect(dead_code, reason = "it counts as long as it lives")] Here);

/// What the listener has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed at once, because there were too many in all or of their address.
    pub refused: u64,
    /// Those of them whose address had as many as one may have.
    pub refused_by_address: u64,
    /// TLS handshakes that failed or took too long.
    pub handshakes_failed: u64,
    /// Times that nothing could be accepted, such as for want of file descriptors.
    pub accepts_failed: u64,
    /// Handlers that panicked.
    pub panics: u64,
    /// Connections now.
    pub open: usize,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    refused_by_address: AtomicU64,
    handshakes_failed: AtomicU64,
    accepts_failed: AtomicU64,
    panics: AtomicU64,
}

/// What all connections share.
struct Site {
    header_timeout: Duration,
    idle_timeout: Duration,
    tls: Option<Arc<ServerConfig>>,
    slots: Arc<Slots>,
    warned: Warned,
    stop: Arc<Stop>,
    counters: Counters,
}

impl Site {
    /// Counts a connection that there is no room for, and tells the operator, seldom.
    fn refuse(&self, full: Full) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        if matches!(full, Full::Address(_)) {
            self.counters.refused_by_address.fetch_add(1, Ordering::Relaxed);
        }
        if !self.warned.is_due(full, clock::now()) {
            return;
        }
        match full {
            Full::All => tracing::warn!(
                max_connections = self.slots.most(),
                "connections are refused: there are as many as the listener may have"
            ),
            Full::Address(address) => tracing::warn!(
                %address,
                max_connections_per_address = self.slots.most_each(),
                "connections of an address are refused: it has as many as one address may have"
            ),
        }
    }
}

/// Tells everybody that the process is about to end.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is: AtomicBool,
    told: Notify,
    by: Mutex<Option<Instant>>,
    /// Connections that went over to another protocol. They end when they are told to, and no request is lost with one.
    tunnels: Arc<Census>,
}

impl Stop {
    pub(crate) fn is_stopped(&self) -> bool {
        self.is.load(Ordering::Acquire)
    }

    pub(crate) async fn stopped(&self) {
        let told = self.told.notified();
        if !self.is_stopped() {
            told.await;
        }
    }

    fn stop(&self, by: Instant) {
        self.by.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(by);
        self.is.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    fn by(&self) -> Instant {
        self.by.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(clock::now)
    }
}

/// A listener that runs. Dropped, it ends at once.
pub struct Running {
    address: SocketAddr,
    site: Arc<Site>,
    threads: Vec<oneshot::Receiver<Drained>>,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut because their time was over.
    pub connections: usize,
    /// Connections of another protocol that were cut because their time was over: no request was under way on them.
    pub tunnels: usize,
    /// Tasks that were given up because their time was over.
    pub tasks: usize,
}

/// Begins to listen. `make` is called on each thread, inside of its runtime.
pub fn start<H: Handler>(
    settings: &Listener,
    tls: Option<Arc<ServerConfig>>,
    make: impl Fn(Thread) -> H + Send + Sync + 'static,
) -> Result<Running, SetupError> {
    let count = settings.threads.clamp(1, limits::THREADS);
    let failed = |error: io::Error| {
        SetupError::unavailable(format!("cannot listen on {}", settings.listen)).with_detail(error)
    };
    let sockets = listen(settings.listen, count).map_err(failed)?;
    let address = sockets[0].local_addr().map_err(failed)?;
    let site = Arc::new(Site {
        header_timeout: settings.header_timeout.max(limits::SHORTEST_TIMEOUT),
        idle_timeout: settings.idle_timeout.max(limits::SHORTEST_TIMEOUT),
        tls,
        slots: Slots::new(settings.max_connections, settings.per_address()),
        warned: Warned::default(),
        stop: Arc::default(),
        counters: Counters::default(),
    });
    // From here on whatever is returned early stops the threads that run.
    let mut running = Running { address, site: Arc::clone(&site), threads: Vec::with_capacity(count) };
    let make = Arc::new(make);
    for (index, socket) in sockets.into_iter().enumerate() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (site, make) = (Arc::clone(&site), Arc::clone(&make));
        let (done, drained) = oneshot::channel();
        let run = move || {
            let drained = runtime.block_on(Box::pin(run(index, socket, site, make)));
            // What is left is dropped; a name that is being looked up is not waited for.
            runtime.shutdown_background();
            let _ = done.send(drained);
        };
        std::thread::Builder::new().name(format!("hapax-edge-{index}")).spawn(run).map_err(failed)?;
        running.threads.push(drained);
    }
    Ok(running)
}

impl Running {
    /// Where it listens; with the port that was found, if none was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        let counters = &self.site.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            accepted: read(&counters.accepted),
            refused: read(&counters.refused),
            refused_by_address: read(&counters.refused_by_address),
            handshakes_failed: read(&counters.handshakes_failed),
            accepts_failed: read(&counters.accepts_failed),
            panics: read(&counters.panics),
            open: self.site.slots.taken(),
        }
    }

    /// Accepts nothing more, lets running requests and tasks come to their end, then ends. What is not done in time is cut.
    pub async fn drain(mut self, within: Duration) -> Drained {
        let by = clock::now() + within;
        self.site.stop.stop(by);
        let mut all = Drained::default();
        for thread in self.threads.drain(..) {
            // A thread that is stuck in a handler cannot say anything.
            if let Ok(Ok(drained)) = timeout_at(by + limits::DRAIN_GRACE, thread).await {
                all.connections += drained.connections;
                all.tasks += drained.tasks;
            }
        }
        all.tunnels = self.site.stop.tunnels.count();
        all
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.site.stop.stop(clock::now());
    }
}

/// One socket for each thread, all on one port.
fn listen(address: SocketAddr, count: usize) -> io::Result<Vec<std::net::TcpListener>> {
    if address.port() != 0 {
        // Sockets that share a port share it with those of another process, too; one that does not share finds out.
        bind(address, false)?;
    }
    let first = bind(address, true)?;
    first.listen(limits::BACKLOG)?;
    let first = std::net::TcpListener::from(first);
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..count {
        let socket = bind(address, true)?;
        socket.listen(limits::BACKLOG)?;
        sockets.push(socket.into());
    }
    Ok(sockets)
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    look_after(&socket);
    socket.bind(&address.into())?;
    Ok(socket)
}

/// One thread: accepts until it is told to stop, then waits for what runs.
async fn run<H: Handler>(
    index: usize,
    socket: std::net::TcpListener,
    site: Arc<Site>,
    make: Arc<impl Fn(Thread) -> H>,
) -> Drained {
    let connections = Arc::new(Census::default());
    let tasks = Arc::new(Census::default());
    let handler = Arc::new(make(Thread { index, tasks: Tasks(Arc::clone(&tasks)) }));
    match TcpListener::from_std(socket) {
        Ok(listener) => accept(&listener, &site, &handler, &connections).await,
        Err(error) => tracing::error!(%error, "a thread cannot listen"),
    }
    drop(handler);
    let by = site.stop.by();
    let _ = timeout_at(by, async {
        connections.emptied().await;
        tasks.emptied().await;
        site.stop.tunnels.emptied().await;
    })
    .await;
    Drained { connections: connections.count(), tasks: tasks.count(), tunnels: 0 }
}

async fn accept<H: Handler>(
    listener: &TcpListener,
    site: &Arc<Site>,
    handler: &Arc<H>,
    connections: &Arc<Census>,
) {
    let mut stopped = std::pin::pin!(site.stop.stopped());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stopped => return,
        };
        let (socket, addr) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                site.counters.accepts_failed.fetch_add(1, Ordering::Relaxed);
                // For want of file descriptors, say. Those that wait are not lost, and trying at once helps nobody.
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
                continue;
            }
        };
        let slot = match site.slots.take(addr.ip(), connections) {
            Ok(slot) => slot,
            Err(full) => {
                site.refuse(full);
                continue;
            }
        };
        site.counters.accepted.fetch_add(1, Ordering::Relaxed);
        let _ = socket.set_nodelay(true);
        let peer = Peer { addr, tls: site.tls.is_some() };
        tokio::spawn(serve::serve(Arc::clone(site), Arc::clone(handler), socket, peer, slot));
    }
}
