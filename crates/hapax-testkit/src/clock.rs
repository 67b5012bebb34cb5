//! A clock that stands still until a test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use hapax_core::{Clock, Timestamp};

/// Where a virtual clock starts: some time in 2027, far from both ends of time.
pub const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// A clock that tests move. Its clones show the same time.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    hands: Arc<Hands>,
}

#[derive(Debug)]
struct Hands {
    now_micros: AtomicI64,
    elapsed_micros: AtomicU64,
}

impl VirtualClock {
    /// A clock that shows [`START`].
    pub fn new() -> Self {
        Self::at(START)
    }

    /// A clock that shows this time.
    pub fn at(now: Timestamp) -> Self {
        let hands = Hands { now_micros: AtomicI64::new(now.as_micros()), elapsed_micros: AtomicU64::new(0) };
        VirtualClock { hands: Arc::new(hands) }
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).expect("a test's time step fits 64 bits");
        self.hands.elapsed_micros.fetch_add(micros, Ordering::SeqCst);
        self.set(self.now().after(by));
    }

    /// Steps the time of day, forwards or backwards, while no time passes: what a bad clock does (L12).
    pub fn set(&self, now: Timestamp) {
        self.hands.now_micros.store(now.as_micros(), Ordering::SeqCst);
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.hands.now_micros.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.hands.elapsed_micros.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_show_the_same_time() {
        let clock = VirtualClock::new();
        let other = clock.clone();
        clock.advance(Duration::from_secs(5));
        assert_eq!(other.now(), START.after(Duration::from_secs(5)));
        assert_eq!(other.elapsed(), Duration::from_secs(5));
    }

    #[test]
    fn a_step_of_the_time_of_day_lets_no_time_pass() {
        let clock = VirtualClock::new();
        clock.set(Timestamp::from_micros(7));
        assert_eq!((clock.now(), clock.elapsed()), (Timestamp::from_micros(7), Duration::ZERO));
    }
}
