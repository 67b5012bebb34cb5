//! Time as the rules see it: a number that somebody else read from a clock.
//!
//! Which clock, and how it behaves over suspends and steps, is the store's affair (L12); here a [`Timestamp`] is an
//! argument like any other.

mod utc;

use std::fmt;
use std::time::Duration;

pub use utc::{parse_utc, utc};

/// Microseconds since the Unix epoch, on the store's clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The beginning of time; earlier than everything a store writes.
    pub const ZERO: Timestamp = Timestamp(0);
    /// A time that never comes.
    pub const NEVER: Timestamp = Timestamp(i64::MAX);

    /// From microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This much later. What would overflow never comes.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(micros))
    }

    /// This much earlier, or the earliest time there is.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_sub(micros))
    }

    /// How long from `earlier` to here; zero when `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Timestamp::NEVER {
            return f.write_str("never");
        }
        write!(f, "{}.{:06}s", self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000))
    }
}

/// Where a store reads the time. Production uses the machine's clock, tests a virtual one.
pub trait Clock: Send + Sync + 'static {
    /// The time of day.
    fn now(&self) -> Timestamp;
    /// Time since some fixed point, which goes on while the machine is suspended (L4).
    fn elapsed(&self) -> Duration;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_too_far_away_never_comes() {
        assert_eq!(Timestamp::from_micros(5).after(Duration::MAX), Timestamp::NEVER);
        assert_eq!(Timestamp::NEVER.after(Duration::from_secs(1)), Timestamp::NEVER);
    }

    #[test]
    fn time_does_not_run_backwards_between_two_stamps() {
        let (early, late) = (Timestamp::from_micros(3), Timestamp::from_micros(9));
        assert_eq!(late.since(early), Duration::from_micros(6));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
