//! Trying again before a caller hears of it (P6).

use std::time::Duration;

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
    pause: Duration,
}

impl<'a> Tries<'a> {
    /// The first attempt.
    pub(super) fn new(retry: &'a Retrying) -> Self {
        Tries { retry, begun: 1, pause: retry.backoff }
    }

    /// Whether none may follow.
    pub(super) fn is_last(&self) -> bool {
        self.begun >= self.retry.max_attempts
    }

    /// Waits for the next attempt.
    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = longer(self.pause, self.retry.backoff);
        self.begun += 1;
    }
}

/// The pause after one that was this long: twice as long, and never shorter than the first.
fn longer(pause: Duration, first: Duration) -> Duration {
    (pause * 2).min(limits::LONGEST_BACKOFF.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_never_shrink_p6() {
        let pauses = |first: u64| -> Vec<u64> {
            let first = Duration::from_millis(first);
            let all = std::iter::successors(Some(first), |pause| Some(longer(*pause, first)));
            all.take(6).map(|pause| pause.as_millis() as u64).collect()
        };
        assert_eq!(pauses(1), [1, 2, 4, 8, 16, 32]);
        assert_eq!(pauses(1500), [1500, 3000, 5000, 5000, 5000, 5000]);
        assert_eq!(pauses(60_000), [60_000; 6], "as it was set");
    }
}
