//! Every bound and default of this crate.

use std::time::Duration;

/// Attempts of one call in all (C2).
pub(crate) const MAX_ATTEMPTS: u32 = 3;
/// The pause after the first attempt.
pub(crate) const BASE_DELAY: Duration = Duration::from_millis(200);
/// The longest pause.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(30);
/// By how much a pause varies.
pub(crate) const JITTER: f64 = 0.1;
/// The longest time for one attempt.
pub(crate) const ATTEMPT: Duration = Duration::from_secs(30);
/// The longest time for one call with all its attempts.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// A longer deadline is none: no clock reaches it.
pub(crate) const LONGEST_DEADLINE: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
/// The longest answer.
pub(crate) const ANSWER: usize = 64 << 20;
/// The longest name of an intent.
pub(crate) const INTENT_NAME: usize = 512;
/// Intents that wait in one journal.
pub(crate) const INTENTS: usize = 100_000;

/// Where below a path a server hands out kept answers by key, unless it is told otherwise.
pub(crate) const RECALL_SEGMENT: &str = "by-idempotency-key";

// What the code relies on between two bounds.

const _: () = assert!(BASE_DELAY.as_millis() <= MAX_DELAY.as_millis(), "pauses grow up to the longest");
const _: () = assert!(JITTER >= 0.0 && JITTER < 1.0, "a pause is never negative");
const _: () = assert!(
    ATTEMPT.as_millis() * (MAX_ATTEMPTS as u128) + BASE_DELAY.as_millis() * ((1 << MAX_ATTEMPTS) - 1)
        < DEADLINE.as_millis(),
    "the deadline leaves room for all attempts and the pauses between them"
);
const _: () = assert!(DEADLINE.as_millis() < LONGEST_DEADLINE.as_millis(), "the default is a deadline");
