//! Pauses between tries that fail.

use std::time::Duration;

/// How long the pauses have become between tries of something that fails again and again: each is twice as long as the one before it,
/// up to the longest. The bounds are the caller's, who has them with the others.
///
/// ```
/// # use std::time::Duration;
/// # use hapax_core::Backoff;
/// const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(35));
///
/// let mut backoff = Backoff::default();
/// let pauses: Vec<_> = (0..4).map(|_| backoff.pause(PAUSE).as_millis()).collect();
/// assert_eq!(pauses, [10, 20, 35, 35]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// The pause before; nothing where it has not failed yet.
    last: Duration,
}

impl Backoff {
    /// The pause after one more failure: the first of these bounds, and then up to the second.
    pub fn pause(&mut self, (first, longest): (Duration, Duration)) -> Duration {
        self.last = match self.last {
            Duration::ZERO => first,
            last => last.saturating_mul(2).min(longest),
        };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_grow_up_to_the_longest_which_may_change_on_the_way() {
        let mut backoff = Backoff::default();
        let seconds =
            |backoff: &mut Backoff, longest: u32| backoff.pause((SECOND, longest * SECOND)).as_secs();
        assert_eq!([5; 5].map(|longest| seconds(&mut backoff, longest)), [1, 2, 4, 5, 5]);
        assert_eq!([60; 4].map(|longest| seconds(&mut backoff, longest)), [10, 20, 40, 60]);
        backoff = Backoff::default();
        assert_eq!([5; 2].map(|longest| seconds(&mut backoff, longest)), [1, 2], "it begins anew");
    }

    #[test]
    fn a_first_pause_beyond_the_longest_is_made_once() {
        let mut backoff = Backoff::default();
        let pauses = [(); 3].map(|()| backoff.pause((60 * SECOND, 5 * SECOND)).as_secs());
        assert_eq!(pauses, [60, 5, 5]);
    }

    #[test]
    fn no_pause_is_too_long_to_count() {
        let mut backoff = Backoff::default();
        assert_eq!([(); 2].map(|()| backoff.pause((Duration::MAX, Duration::MAX))), [Duration::MAX; 2]);
    }
}
