//! Where this crate reads the time. Everywhere else clippy refuses to (clippy.toml), so that what depends on time can be seen here.

use tokio::time::Instant;

/// A moment that waits are counted from; in a test whose time is paused, that time.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
