//! Every bound that stores share, in one place.

use std::time::Duration;

/// How long one renewal of a session lasts unless the options say otherwise (L4).
pub const SESSION_TERM: Duration = Duration::from_secs(30);

/// A session is renewed this many times in its term.
pub const RENEWALS_PER_TERM: u32 = 3;

/// Settled outcomes in the memory table (B7).
pub const TABLE_ENTRIES: usize = 10_000;

/// Bytes of settled outcomes in the memory table (B7).
pub const TABLE_BYTES: usize = 64 * 1024 * 1024;

/// How long the memory table of one of several processes answers without hearing from the store (B7).
pub const TABLE_VALIDITY: Duration = Duration::from_secs(2);

/// Commands that wait for a store at once; more are refused as unavailable.
pub const QUEUE: usize = 65_536;

/// Commands that share one commit.
pub const BATCH: usize = 1_024;

/// How often watched claims are looked at where a notification may have been lost (L9).
pub const POLL_EVERY: Duration = Duration::from_millis(250);

/// How often the sweeper comes by.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Claims that one sweep visits at most.
pub const SWEEP_CHUNK: usize = 500;

/// For how many times as long as its last round took the sweeper of a memory store pauses at least.
pub const SWEEP_REST: u32 = 50;

/// The longest pause of that sweeper: a round also takes long where the process or the machine stood still meanwhile.
pub const SWEEP_PAUSE: Duration = Duration::from_secs(60);

/// How long a store goes on sending a command whose fate is unknown before it reports that it is unavailable (L13).
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Records that one page of a filtered listing looks at.
pub const PAGE_SCAN: usize = 10_000;

/// A clock that was set back gains this part of what passes on the time that goes on from where it was (L12).
pub const CLOCK_GAINS: i64 = 16;

/// Bytes of outcomes that one page of a listing holds, beyond its first record.
pub const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of the largest outcome that a store makes room for unless the options say otherwise: what a layer keeps of an answer by
/// default (B5).
pub const LARGEST_OUTCOME: usize = 1024 * 1024;

/// Leases of one tenant that are open at once, beside those of processes (H12).
pub const LEASES_OF_TENANT: usize = 1_000;

/// The same of all tenants together, in a memory or an embedded store.
pub const LEASES: usize = 100_000;

/// Leases that such a store knows before it forgets those that are over and hold nothing any more.
pub const LEASES_KNOWN: usize = 10_000;

// What the code relies on between two bounds.

const _: () = assert!(RENEWALS_PER_TERM >= 2, "one renewal may be lost before a session lapses");
const _: () = assert!(BATCH <= QUEUE, "a batch comes out of the queue");
const _: () = assert!(
    TABLE_VALIDITY.as_millis() < SESSION_TERM.as_millis(),
    "a table lives no longer than its session"
);
const _: () = assert!(
    SWEEP_EVERY.as_millis() <= hapax_core::limits::UNTIL_SWEPT.as_millis(),
    "a lapse is written down by the time that an operator asks again"
);
const _: () =
    assert!(SWEEP_EVERY.as_millis() <= SWEEP_PAUSE.as_millis(), "the sweeper's pause has a least and a most");
const _: () =
    assert!(PATIENCE.as_millis() < SESSION_TERM.as_millis(), "an outage that is sat out costs no lease");
const _: () = assert!(hapax_core::limits::MAX_PAGE <= PAGE_SCAN, "a page can be full");
const _: () = assert!(CLOCK_GAINS > 1, "a clock that was set back goes on");
