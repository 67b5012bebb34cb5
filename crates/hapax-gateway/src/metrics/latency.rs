//! How long answers took, by endpoint and event. An observation is two additions, and takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The first bound. Each of the following is twice the one before it, up to 33 seconds.
const FIRST: u64 = 250;
/// The buckets with a bound.
const BOUNDED: usize = 18;

/// A histogram that is being filled.
#[derive(Debug, Default)]
pub(super) struct Latency {
    buckets: [AtomicU64; BOUNDED + 1],
    /// In microseconds.
    sum: AtomicU64,
}

impl Latency {
    pub(super) fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> LatencyCounts {
        LatencyCounts {
            buckets: self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed)),
            micros: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// The bucket of so many microseconds: the first whose bound is not passed.
fn bucket(micros: u64) -> usize {
    let firsts = micros.saturating_sub(1) / FIRST;
    ((u64::BITS - firsts.leading_zeros()) as usize).min(BOUNDED)
}

/// How many answers took how long, as it stood at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts {
    buckets: [u64; BOUNDED + 1],
    micros: u64,
}

impl LatencyCounts {
    /// Each bucket's bound with what is counted in it and in no earlier one. The last one has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let bound = |number| (number < BOUNDED).then(|| Duration::from_micros(FIRST << number));
        self.buckets.iter().enumerate().map(move |(number, count)| (bound(number), *count))
    }

    /// How many answers.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The time of all of them.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.micros)
    }

    /// These and those, counted together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut both = *self;
        both.buckets.iter_mut().zip(other.buckets).for_each(|(own, other)| *own += other);
        both.micros = both.micros.wrapping_add(other.micros);
        both
    }

    /// What came since the counts stood like this.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since
            .buckets
            .iter_mut()
            .zip(earlier.buckets)
            .for_each(|(own, other)| *own = own.saturating_sub(other));
        since.micros = since.micros.wrapping_sub(earlier.micros);
        since
    }

    /// A bound that this share of the answers (0.5, 0.99) kept within; `None` where there are none. What took longer than the last
    /// bound counts as that.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all = self.count();
        let wanted = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut within = 0;
        let found = self.buckets.iter().position(|count| {
            within += count;
            within >= wanted
        })?;
        Some(Duration::from_micros(FIRST << found.min(BOUNDED - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_its_bound_and_above_the_one_before_o1() {
        for (micros, number) in
            [(0, 0), (1, 0), (250, 0), (251, 1), (500, 1), (501, 2), (1_000, 2), (1_001, 3), (32_768_000, 17)]
        {
            assert_eq!(bucket(micros), number, "{micros}");
        }
        assert_eq!([bucket(32_768_001), bucket(u64::MAX)], [BOUNDED; 2]);
    }

    #[test]
    fn quantiles_are_bounds_and_differences_are_what_came_since_o1() {
        let latency = Latency::default();
        assert_eq!(latency.counts().quantile(0.5), None);
        (0..99).for_each(|_| latency.observe(Duration::from_micros(300)));
        let before = latency.counts();
        latency.observe(Duration::from_secs(60));
        let counts = latency.counts();
        assert_eq!(counts.quantile(0.5), Some(Duration::from_micros(500)));
        assert_eq!(counts.quantile(0.99), Some(Duration::from_micros(500)));
        assert_eq!(counts.quantile(1.0), Some(Duration::from_micros(FIRST << 17)));
        let since = counts.since(&before);
        assert_eq!((since.count(), since.sum()), (1, Duration::from_secs(60)));
        assert_eq!(before.plus(&since), counts);
    }
}
