//! What the engine is told, as meant: where it listens, which services it calls, and the bounds of both.
//!
//! How these are written down, and which of them a reload may change, is the affair of the program that uses the engine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits;

/// A listener.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Where it listens; with port 0 on one that is free.
    pub listen: SocketAddr,
    /// Threads that serve requests.
    pub threads: usize,
    /// The longest time for the head of a request.
    pub header_timeout: Duration,
    /// The longest silence on a connection without a request.
    pub idle_timeout: Duration,
    /// Connections at a time.
    pub max_connections: usize,
    /// Connections of one address at a time; half of all, if it is not said.
    pub max_connections_per_address: Option<usize>,
}

impl Listener {
    /// The defaults, listening here.
    pub fn new(listen: SocketAddr) -> Self {
        Listener {
            listen,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            header_timeout: limits::HEADER_TIMEOUT,
            idle_timeout: limits::IDLE,
            max_connections: limits::CONNECTIONS,
            max_connections_per_address: None,
        }
    }

    /// Connections that one address may have.
    pub fn per_address(&self) -> usize {
        self.max_connections_per_address.unwrap_or(self.max_connections / limits::PEER_SHARE).max(1)
    }
}

/// Files with a certificate chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// How slowly the body of a request may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// How long the client may be waited for, however little it sends.
    pub patience: Duration,
    /// Bytes that earn the client one more second.
    pub rate: u64,
}

impl Default for Pacing {
    fn default() -> Self {
        Pacing { patience: limits::HEADER_TIMEOUT, rate: limits::BODY_RATE }
    }
}

/// A service that is called.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name, for logs and errors.
    pub name: String,
    /// `http` or `https`.
    pub https: bool,
    /// Host name or address, as in its URL.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The longest time to connect.
    pub connect_timeout: Duration,
    /// Connections at a time, each thread.
    pub max_connections: usize,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// Whether a connection carries more than one request. A service that closes after an answer without saying so may close
    /// while the next request is on its way, and then nothing tells whether that arrived.
    pub reuse: bool,
    /// Certificates to trust instead of the system's, PEM.
    pub ca: Option<PathBuf>,
}

impl Service {
    /// The defaults, for a plain service here.
    pub fn new(name: &str, host: &str, port: u16) -> Self {
        Service {
            name: name.into(),
            https: false,
            host: host.into(),
            port,
            connect_timeout: limits::CONNECT,
            max_connections: limits::UPSTREAM_CONNECTIONS,
            idle_timeout: limits::UPSTREAM_IDLE,
            reuse: true,
            ca: None,
        }
    }
}
