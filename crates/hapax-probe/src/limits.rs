//! Every bound of this crate.

use std::ops::RangeInclusive;
use std::time::Duration;

/// How many requests race, from the least to the most.
pub const RACE: RangeInclusive<usize> = 2..=200;
/// How long one answer is waited for, from the least to the most.
pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
/// The longest body that is sent, in bytes.
pub const BODY_BYTES: u64 = 1024 * 1024;
/// The longest time for a whole probe.
pub(crate) const TIME: Duration = Duration::from_secs(5 * 60);
/// The longest answer that is compared, in bytes.
pub(crate) const ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// The characters of a key that is too long for every API.
pub(crate) const LONG_KEY: usize = 10_000;
/// By how much the first of two requests is ahead, so that it is the one that runs.
pub(crate) const HEAD_START: Duration = Duration::from_millis(10);
/// By how much it is ahead at most.
pub(crate) const HEAD_START_MOST: Duration = Duration::from_millis(500);
/// How long both must have been under way together to count as simultaneous.
pub(crate) const OVERLAP: Duration = Duration::from_millis(20);

const _: () =
    assert!(HEAD_START.as_millis() <= HEAD_START_MOST.as_millis(), "the head start has a least and a most");
const _: () = assert!(TIMEOUT.end().as_millis() < TIME.as_millis(), "a probe outlives one answer");
const _: () = assert!(
    LONG_KEY > hapax_core::limits::MAX_KEY_BYTES,
    "a key that is too long is too long for hapax, too"
);
