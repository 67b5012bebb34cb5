//! The clock that leases are measured on.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine started, suspend included (L4).
pub(crate) fn boot_time() -> Duration {
    let read = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(read.tv_sec).unwrap_or(0), u32::try_from(read.tv_nsec).unwrap_or(0))
}
