//! The only place of this crate that reads the time.

use std::time::Duration;

use tokio::time::Instant;

/// The end of a wait that begins now.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn deadline(within: Duration) -> Instant {
    Instant::now() + within
}

/// What is left until then.
#[allow(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
