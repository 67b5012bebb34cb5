//! The one module of this crate that reads the time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix time in whole seconds.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
