//! Where this crate reads the time. Everywhere else clippy refuses to (clippy.toml), so that what depends on time can be seen here.

use std::time::Instant;

/// A moment that time limits are counted from.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
