//! Every bound and default of this crate.

use std::time::Duration;

/// Ends the caller's wait (H5).
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer a caller waits where the work has ended in time and the ledger has not recorded it yet (H5).
pub(crate) const RECORDING: Duration = Duration::from_secs(15);
/// Ends the call where running it again is not safe (H5).
pub(crate) const GIVE_UP: Duration = Duration::from_secs(15 * 60);
/// How long an outcome is kept.
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a second caller waits.
pub(crate) const ATTACH: Duration = Duration::from_secs(30);
/// The longest request body.
pub(crate) const REQUEST_BODY: usize = 1 << 20;
/// The longest answer that is kept, unless a rule says otherwise.
pub(crate) const KEPT_RESPONSE: usize = 1 << 20;
/// The longest answer that is kept, whatever a rule says: one that does not fit into the spool would be lost while the ledger is
/// away (L15).
pub const MOST_KEPT_RESPONSE: usize = 128 << 20;
/// Pointers that a mismatch lists at most (H10).
pub(crate) const POINTERS: usize = 32;
/// The longest wait that `Prefer: wait` can ask for.
pub(crate) const PREFERRED_WAIT: Duration = Duration::from_secs(600);
/// The longest identifier of a request, in bytes: with the name of its provider in front it is still a key.
pub const IDENTIFIER: usize = 200;
/// What a caller whose attempt failed is told to wait.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Characters of an opaque operation id: more than `op_` and 32 digits, and few enough for any path and header.
pub(crate) const OPAQUE_ID: std::ops::RangeInclusive<usize> = 36..=512;

// What the code relies on between two bounds.

const _: () = assert!(TIMEOUT.as_millis() <= GIVE_UP.as_millis(), "a call outlives its caller's wait");
const _: () = assert!(
    GIVE_UP.as_millis() <= hapax_core::limits::DEFAULT_MAX_RUN.as_millis(),
    "an attempt is renewed until its call is given up"
);
const _: () =
    assert!(GIVE_UP.as_millis() < RETENTION.as_millis(), "an outcome is kept for longer than a call takes");
const _: () =
    assert!(ATTACH.as_millis() <= PREFERRED_WAIT.as_millis(), "a caller may ask for the usual wait");
const _: () = assert!(
    hapax_exec::limits::SPOOL_AFTER.as_millis() < RECORDING.as_millis(),
    "an outcome is in the spool before its caller gives up"
);
const _: () = assert!(KEPT_RESPONSE <= MOST_KEPT_RESPONSE, "an answer that is kept by default may be kept");
const _: () = assert!(
    MOST_KEPT_RESPONSE as u64 * 2 <= hapax_exec::limits::SPOOL_BYTES,
    "the spool has room for the longest answer, with its head and its seal"
);
const _: () = assert!(
    KEPT_RESPONSE as u64 * hapax_exec::limits::SPOOL_WRITERS as u64 <= hapax_exec::limits::SPOOL_BYTES,
    "the spool has room for the longest answers, as many as are written at once"
);
const _: () =
    assert!(POINTERS <= hapax_core::limits::MAX_POINTERS_TOLD, "a mismatch lists no more than it is told");
const _: () = assert!(
    MOST_KEPT_RESPONSE <= hapax_exec::limits::OWED_KIB * 1024,
    "the longest answer that is kept can be owed to the ledger"
);
