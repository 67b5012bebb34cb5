//! When an attempt is made again, and after which pause (C2). Pure data: nothing here waits or sends.

use std::fmt;
use std::time::Duration;

use crate::limits;

/// When an attempt is made again.
///
/// The pause doubles with every attempt, from `base_delay` up to `max_delay`, and varies by `jitter` both ways; it is never
/// longer than `max_delay`. What a server asks for in `Retry-After` goes before it.
///
/// ```
/// use std::time::Duration;
/// use hapax_client::RetryPolicy;
///
/// let patient = RetryPolicy::new(8, Duration::from_millis(500), Duration::from_secs(60), 0.1)?;
/// let flat = RetryPolicy::new(3, Duration::from_secs(2), Duration::from_secs(2), 0.0)?;
/// assert_eq!(flat.delay(2, 0.7), Duration::from_secs(2));
/// assert!(RetryPolicy::new(0, Duration::ZERO, Duration::ZERO, 0.0).is_err());
/// assert_eq!(RetryPolicy::none().max_attempts(), 1);
/// # let _ = patient;
/// # Ok::<(), hapax_client::InvalidPolicy>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    max_attempts: u32,
    base_delay: Duration,
    max_delay: Duration,
    jitter: f64,
}

/// Why a policy cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPolicy {
    /// There must be at least one attempt.
    NoAttempt,
    /// The longest pause is shorter than the first one.
    MaxBelowBase,
    /// Jitter is a part: between 0 and 1.
    JitterOutOfRange,
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAttempt => "max_attempts must be at least 1",
            Self::MaxBelowBase => "max_delay must not be shorter than base_delay",
            Self::JitterOutOfRange => "jitter must be between 0 and 1",
        })
    }
}

impl std::error::Error for InvalidPolicy {}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            max_attempts: limits::MAX_ATTEMPTS,
            base_delay: limits::BASE_DELAY,
            max_delay: limits::MAX_DELAY,
            jitter: limits::JITTER,
        }
    }
}

impl RetryPolicy {
    /// Checks a policy: what cannot work fails here and not at the first retry.
    pub fn new(
        max_attempts: u32,
        base_delay: Duration,
        max_delay: Duration,
        jitter: f64,
    ) -> Result<Self, InvalidPolicy> {
        match () {
            () if max_attempts == 0 => Err(InvalidPolicy::NoAttempt),
            () if max_delay < base_delay => Err(InvalidPolicy::MaxBelowBase),
            () if !(0.0..=1.0).contains(&jitter) => Err(InvalidPolicy::JitterOutOfRange),
            () => Ok(RetryPolicy { max_attempts, base_delay, max_delay, jitter }),
        }
    }

    /// Every call is one attempt.
    pub fn none() -> Self {
        RetryPolicy { max_attempts: 1, ..Self::default() }
    }

    /// Attempts in all.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The pause after this failed attempt, counted from 1. `chance` is between 0 and 1.
    pub fn delay(&self, attempt: u32, chance: f64) -> Duration {
        let doubled = 2_f64.powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
        let longest = self.max_delay.as_secs_f64();
        let planned = (self.base_delay.as_secs_f64() * doubled).min(longest);
        let varied = planned * (1.0 + self.jitter * (2.0 * chance.clamp(0.0, 1.0) - 1.0));
        Duration::from_secs_f64(varied.clamp(0.0, longest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_default_is_three_attempts_doubling_from_a_fifth_of_a_second_c2() {
        let policy = RetryPolicy::default();
        let delays: Vec<_> = (1..=9).map(|attempt| policy.delay(attempt, 0.5).as_millis()).collect();
        assert_eq!(policy.max_attempts(), 3);
        assert_eq!(delays, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000]);
    }

    #[test]
    fn what_cannot_work_fails_at_construction_c2() {
        let second = Duration::from_secs(1);
        assert_eq!(RetryPolicy::new(0, second, second, 0.0), Err(InvalidPolicy::NoAttempt));
        assert_eq!(RetryPolicy::new(1, second, second / 2, 0.0), Err(InvalidPolicy::MaxBelowBase));
        for jitter in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(RetryPolicy::new(1, second, second, jitter), Err(InvalidPolicy::JitterOutOfRange));
        }
    }

    proptest! {
        #[test]
        fn a_pause_stays_within_its_jitter_and_below_its_cap_c2(
            base in 0_u64..5_000,
            more in 0_u64..60_000,
            jitter in 0.0_f64..=1.0,
            attempt in 1_u32..200,
            chance in 0.0_f64..=1.0,
        ) {
            let (base, longest) = (Duration::from_millis(base), Duration::from_millis(base + more));
            let policy = RetryPolicy::new(3, base, longest, jitter).unwrap();
            let planned = (base.as_secs_f64() * 2_f64.powi(i32::try_from(attempt).unwrap() - 1)).min(longest.as_secs_f64());
            let delay = policy.delay(attempt, chance).as_secs_f64();
            prop_assert!(delay <= longest.as_secs_f64() + 1e-9);
            prop_assert!(delay >= planned * (1.0 - jitter) - 1e-6);
            prop_assert!(delay <= planned * (1.0 + jitter) + 1e-6);
            prop_assert!((policy.delay(attempt, 0.5).as_secs_f64() - planned).abs() < 1e-6);
        }
    }
}
