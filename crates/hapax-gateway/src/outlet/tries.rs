//! Trying again before a caller hears of it (P6).

use std::time::Duration;

use hapax_core::Backoff;

use crate::limits;
use crate::settings::Retrying;
use crate::upstream::{Connected, Failed, Pool};

/// A connection to the service, tried for as often as its settings allow (P6): without one, certainly nothing was sent.
pub(crate) async fn connected(pool: &Pool) -> Result<Connected, Failed> {
    let mut tries = Tries::new(&pool.settings().retry);
    loop {
        match pool.connected().await {
            Err(_) if !tries.is_last() => tries.pause().await,
            done => return done,
        }
    }
}

/// Attempts at one request, and the pauses between them.
pub(super) struct Tries<'a> {
    retry: &'a Retrying,
    begun: u32,
    backoff: Backoff,
}

impl<'a> Tries<'a> {
    /// The first attempt.
    pub(super) fn new(retry: &'a Retrying) -> Self {
        Tries { retry, begun: 1, backoff: Backoff::default() }
    }

    /// Whether none may follow.
    pub(super) fn is_last(&self) -> bool {
        self.begun >= self.retry.max_attempts
    }

    /// Waits for the next attempt.
    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(self.backoff.pause(bounds(self.retry.backoff))).await;
        self.begun += 1;
    }
}

/// The first pause, and the longest: never shorter than the first.
fn bounds(first: Duration) -> (Duration, Duration) {
    (first, limits::LONGEST_BACKOFF.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_never_shrink_p6() {
        let pauses = |first: u64| -> Vec<u64> {
            let mut backoff = Backoff::default();
            let pauses = (0..6).map(|_| backoff.pause(bounds(Duration::from_millis(first))));
            pauses.map(|pause| pause.as_millis() as u64).collect()
        };
        assert_eq!(pauses(1), [1, 2, 4, 8, 16, 32]);
        assert_eq!(pauses(1500), [1500, 3000, 5000, 5000, 5000, 5000]);
        assert_eq!(pauses(60_000), [60_000; 6], "as it was set");
    }
}
