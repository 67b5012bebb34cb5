//! Every bound and default of this crate.

use std::time::Duration;

/// The longest wait for the end of running requests.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);
/// The longest time for the head of a request.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A body that comes more slowly, in bytes per second, is given up.
pub(crate) const BODY_RATE: u64 = 512;
/// The longest silence on a connection without a request.
pub(crate) const IDLE: Duration = Duration::from_secs(75);
/// Connections at a time.
pub(crate) const CONNECTIONS: usize = 20_000;
/// Bytes of requests and answers held in memory at a time.
pub(crate) const BUFFERED: u64 = 256 << 20;
/// Calls that go on without a caller.
pub(crate) const DETACHED: usize = 10_000;
/// Ends the caller's wait.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time to connect to a service.
pub(crate) const CONNECT: Duration = Duration::from_secs(3);
/// Connections to one service, each thread.
pub(crate) const UPSTREAM_CONNECTIONS: usize = 1024;
/// How long an unused connection to a service is kept.
pub(crate) const UPSTREAM_IDLE: Duration = Duration::from_secs(30);
/// The pause after a first failed attempt.
pub(crate) const BACKOFF: Duration = Duration::from_millis(100);
/// Where the pages about problem codes are: the edge itself serves them.
pub(crate) const DOCS: &str = "/.well-known/hapax/errors/";
