//! The machine's clock (L12, L4).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hapax_core::{Clock, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// The time of day, guarded so that it never runs backwards within a process, and a time that counts suspend.
#[derive(Debug, Default)]
pub struct SystemClock {
    latest: AtomicI64,
}

impl SystemClock {
    /// A clock that is never behind `floor`, such as the latest time a store has written.
    pub fn not_before(floor: Timestamp) -> Self {
        SystemClock { latest: AtomicI64::new(floor.as_micros()) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let read = clock_gettime(ClockId::Realtime);
        let micros = read.tv_sec.saturating_mul(1_000_000).saturating_add(read.tv_nsec / 1_000);
        let latest = self.latest.fetch_max(micros, Ordering::Relaxed);
        Timestamp::from_micros(micros.max(latest))
    }

    fn elapsed(&self) -> Duration {
        boot_time()
    }
}

/// Time since the machine started, suspend included: what a lease is measured on.
pub(crate) fn boot_time() -> Duration {
    let read = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(read.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(read.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_set_back_stands_still_instead() {
        let ahead = SystemClock::default().now().after(Duration::from_secs(3600));
        let clock = SystemClock::not_before(ahead);
        assert_eq!(clock.now(), ahead);
        assert!(clock.elapsed() > Duration::ZERO);
    }
}
