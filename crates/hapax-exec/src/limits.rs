//! Every bound of this crate, in one place.

use std::time::Duration;

use hapax_core::Retention;

/// How long a second caller waits for the first one's outcome unless the call says otherwise (L9).
pub const ATTACH: Duration = Duration::from_secs(30);

/// How long an outcome is kept unless the call says otherwise.
pub const RETENTION: Retention = Retention::For(Duration::from_secs(24 * 60 * 60));

/// How often a claim is asked for under an attempt that a holder elsewhere has named: once more than the first time, where the claim
/// was hashed by another recipe.
pub const ASKS_OF_ONE_ATTEMPT: u8 = 2;

/// First and longest pause of a call that may claim for itself and waits until the former run has been silent (L9).
pub const SILENCE_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Reports that wait for an unreachable ledger in memory alone; beyond it a lease lapses instead. Those that lie in the spool as
/// well are bounded by the spool.
pub const OWED: usize = 65_536;

/// What those reports keep in memory, in KiB: their outcomes and journal events. A report that finds no room is given up aloud.
pub const OWED_KIB: usize = 256 * 1024;

/// Claims that nobody wants any more and whose fate is asked about; beyond it a lease lapses instead, if there is one.
pub const UNWANTED: usize = 16_384;

/// How long such a claim is asked about that is damaged: what is wrong with it may pass.
pub const UNWANTED_DAMAGED_FOR: Duration = Duration::from_secs(5);

/// First and longest pause between two tries to deliver an owed report.
pub const OWED_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Longest pause where the ledger is there and cannot take a report: an operator has to see to it first.
pub const OWED_PAUSE_FAULTY: Duration = Duration::from_secs(60);

/// How long a report is owed that is in memory alone: by then every lease it could belong to has been judged by others. One that
/// lies in the spool is owed until the ledger has it, or for this long after the executor is gone (L13).
pub const OWED_FOR: Duration = Duration::from_secs(60 * 60);

/// When an outcome that the ledger has not confirmed yet goes to the spool as well: whatever ends the process does not take it
/// along from then on (L15).
pub const SPOOL_AFTER: Duration = Duration::from_secs(1);

/// Outcomes in a spool (L15).
pub const SPOOL_FILES: usize = 10_000;

/// Bytes of outcomes in a spool (L15).
pub const SPOOL_BYTES: u64 = 256 * 1024 * 1024;

/// Outcomes that lie in a spool's folder because they were refused or cannot be read; more are removed (L15).
pub const SPOOL_ASIDE_FILES: usize = 10_000;

/// Bytes of those outcomes.
pub const SPOOL_ASIDE_BYTES: u64 = 256 * 1024 * 1024;

/// Outcomes that are written into a spool at once; the others wait for their turn.
pub const SPOOL_WRITERS: usize = 8;

/// Nobody is writing a file in the spool any more that has not been touched for so long.
pub const SPOOL_WRITING_FOR: Duration = Duration::from_secs(60 * 60);

// What the code relies on between two bounds.

const _: () = assert!(grows(SILENCE_PAUSE) && grows(OWED_PAUSE), "pauses grow from the first to the longest");
const _: () = assert!(SILENCE_PAUSE.1.as_millis() < ATTACH.as_millis(), "a waiter looks more than once");
const _: () =
    assert!(OWED_PAUSE.1.as_millis() <= OWED_PAUSE_FAULTY.as_millis(), "a faulty ledger is asked less often");
const _: () =
    assert!(OWED_PAUSE_FAULTY.as_millis() < OWED_FOR.as_millis(), "a faulty ledger is asked more than once");
const _: () = assert!(
    UNWANTED_DAMAGED_FOR.as_millis() < OWED_FOR.as_millis(),
    "a damaged claim that no caller wants is given up before other reports"
);
const _: () = assert!(
    OWED_FOR.as_millis() <= hapax_core::limits::TOMBSTONE_KEPT.as_millis(),
    "a report that is still owed finds the tombstone of its claim"
);
const _: () = assert!(SPOOL_WRITERS <= SPOOL_FILES, "all writers may have a file");
const _: () = assert!(
    SPOOL_AFTER.as_millis() < SPOOL_WRITING_FOR.as_millis(),
    "a file that is being written is not taken for an abandoned one"
);

/// Whether the longest pause is longer than the first one.
const fn grows(pauses: (Duration, Duration)) -> bool {
    pauses.0.as_nanos() < pauses.1.as_nanos()
}
