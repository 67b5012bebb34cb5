//! Where this crate reads the time: the clock that leases are measured on, and the one of timers. Everywhere else clippy refuses to
//! (clippy.toml).

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Time since the machine started, suspend included (L4).
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn boot_time() -> Duration {
    let read = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(read.tv_sec).unwrap_or(0), u32::try_from(read.tv_nsec).unwrap_or(0))
}

/// A moment that pauses are counted from; in a test whose time is paused, that time.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
