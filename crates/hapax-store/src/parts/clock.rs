//! The machine's clocks (L12, L4), and where stores read them; everywhere else clippy refuses to (clippy.toml).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use hapax_core::{Clock, Timestamp};
use rustix::time::{ClockId, Timespec};

use crate::limits;

/// The time of day, guarded so that it goes on within a process whatever becomes of the machine's, and a time that counts suspend.
#[derive(Debug, Default)]
pub struct SystemClock {
    onward: Onward,
}

impl SystemClock {
    /// A clock that is never behind `floor`, such as the latest time a store has written.
    pub fn not_before(floor: Timestamp) -> Self {
        SystemClock { onward: Onward::from(floor, boot_time()) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let read = read(ClockId::Realtime);
        let micros = read.tv_sec.saturating_mul(1_000_000).saturating_add(read.tv_nsec / 1_000);
        self.onward.show(Timestamp::from_micros(micros), boot_time())
    }

    fn elapsed(&self) -> Duration {
        boot_time()
    }
}

/// A time of day that only goes on: where it is set back, from where it was, as boot time goes on but somewhat slower, until the
/// time of day has come up to it (L12, ADR 22).
///
/// What it shows is that slower time and the most by which the time of day was ever seen to be ahead of it. As long as nobody sets
/// the clock back, that is the time of day.
#[derive(Debug)]
pub struct Onward {
    ahead: AtomicI64,
}

impl Onward {
    /// One that shows at least `floor` at this boot time.
    pub fn from(floor: Timestamp, boot: Duration) -> Onward {
        Onward { ahead: AtomicI64::new(floor.as_micros().saturating_sub(slower(boot))) }
    }

    /// The time to show where the clock shows `read`. Boot time was read after that: whoever is held up in between sees the
    /// clock less far ahead, never further.
    pub fn show(&self, read: Timestamp, boot: Duration) -> Timestamp {
        let slower = slower(boot);
        let ahead = read.as_micros().saturating_sub(slower);
        let ahead = ahead.max(self.ahead.fetch_max(ahead, Ordering::Relaxed));
        Timestamp::from_micros(slower.saturating_add(ahead))
    }
}

impl Default for Onward {
    fn default() -> Self {
        Onward { ahead: AtomicI64::new(i64::MIN) }
    }
}

/// Microseconds of boot time, without the part that a clock which was set back gains on it.
fn slower(boot: Duration) -> i64 {
    let micros = i64::try_from(boot.as_micros()).unwrap_or(i64::MAX);
    micros - micros / limits::CLOCK_GAINS
}

/// Time since the machine started, suspend included: what a lease is measured on.
pub fn boot_time() -> Duration {
    let read = read(ClockId::Boottime);
    let seconds = u64::try_from(read.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(read.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn read(clock: ClockId) -> Timespec {
    rustix::time::clock_gettime(clock)
}

/// A moment that a thread's own pauses are counted from.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// A moment that timers of a runtime are counted from; in a test whose time is paused, that time.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn timer_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_set_back_goes_on_from_where_it_was_l12() {
        let ahead = SystemClock::default().now().after(Duration::from_secs(3600));
        let clock = SystemClock::not_before(ahead);
        let first = clock.now();
        assert!(first >= ahead);
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now() > first);
        assert!(clock.elapsed() > Duration::ZERO);
    }

    #[test]
    fn what_is_shown_is_the_time_of_day_until_that_is_set_back_l12() {
        let (clock, at) = (Onward::default(), Timestamp::from_micros);
        let shown = |read, boot| clock.show(at(read), Duration::from_micros(boot)).as_micros();
        assert_eq!(shown(1_000, 0), 1_000);
        assert_eq!(shown(1_016, 16), 1_016);
        assert_eq!(shown(2_016, 16), 2_016, "set forward");
        assert_eq!(shown(1_016, 16), 2_016, "set back");
        assert_eq!(shown(1_176, 176), 2_166, "it goes on");
        assert_eq!(shown(17_000, 16_000), 17_001, "the clock has nearly come up to it");
        assert_eq!(shown(17_160, 16_160), 17_160);
        assert_eq!(shown(20_000, 16_176), 20_000, "set forward beyond it");
    }
}
