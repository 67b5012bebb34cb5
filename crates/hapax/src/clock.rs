//! Where this crate reads the time. Everywhere else clippy refuses to (clippy.toml), so that what depends on time can be seen here.

use std::time::{Instant, SystemTime};

/// A moment that pauses and deadlines are counted from.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// What the machine's clock shows, which may be set: for dates that others wrote or will read.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn time_of_day() -> SystemTime {
    SystemTime::now()
}
