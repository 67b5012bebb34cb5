//! Every bound of the PostgreSQL store, in one place. Those that all stores share are in [`hapax_store::limits`].

use std::time::Duration;

pub(crate) use hapax_store::limits::{
    BATCH, LARGEST_OUTCOME, PAGE_BYTES, PAGE_SCAN, PATIENCE, POLL_EVERY, QUEUE, RENEWALS_PER_TERM,
    SESSION_TERM, SWEEP_CHUNK, SWEEP_EVERY, TABLE_VALIDITY,
};

/// A turn to sweep PostgreSQL that ends later than this from now was given before the server's clock was set back.
pub const SWEEP_TURN_AHEAD: Duration = Duration::from_secs(30);

/// PostgreSQL's clock was set forward when it shows more than so much beyond what has passed since it was last read (L12).
pub const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Visits of one PostgreSQL sweep that may fail because the database cannot be asked, before the others are left for the next.
pub const SWEEP_FAILURES: u64 = 8;

/// Bytes of outcomes and identities that share one PostgreSQL statement.
pub const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// PostgreSQL batches in flight at once, each on a thread and a connection of its own.
pub const BATCHES_IN_FLIGHT: usize = 2;

/// A PostgreSQL connection whose batch has come back waits for those who were answered, to send them together: for this part of
/// what a batch takes, and at most so long.
pub const LINGER_PART: u32 = 4;

/// See [`LINGER_PART`].
pub const LINGER: Duration = Duration::from_millis(2);

/// How many batches it takes, about, until PostgreSQL's queue forgets that more commands were there at once.
pub const POPULATION_MEMORY: usize = 8;

/// In how many lines the commands of one process to its lanes wait.
pub const LANE_TURNS: usize = 64;

/// How often a command to a lane is tried at once where others write to the lane at the same time.
pub const LANE_TRIES: usize = 8;

/// PostgreSQL connections for everything that is not a batch.
pub const DESK_CONNECTIONS: usize = 3;

/// How long PostgreSQL may take to answer one statement before its connection is given up.
pub const REPLY_WITHIN: Duration = Duration::from_secs(10);

/// How long PostgreSQL may take for one statement of a migration.
pub const MIGRATE_WITHIN: Duration = Duration::from_secs(60 * 60);

/// How long PostgreSQL may take to accept a connection.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The first and the longest pause between two attempts to reach PostgreSQL.
pub const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How long a command waits before it looks again at a claim that somebody else keeps locked: at first, and at most.
pub const BUSY_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// How often processes that share a store with a memory table hear what the table must forget (B7).
pub const TABLE_BEAT: Duration = Duration::from_millis(500);

/// How old a grant is before the sweeper looks whether it is still held.
pub const VISIT_AFTER: Duration = Duration::from_secs(5);

/// Rows of PostgreSQL's tally that the sweeper folds at once.
pub const TALLY_CHUNK: usize = 10_000;

/// How long PostgreSQL's memory-table invalidations are kept; a process that was silent for longer than its table is valid
/// starts with an empty table anyway, and so does one that misses some because the server's clock was set forward.
pub const INVALIDATIONS_KEPT: Duration = Duration::from_secs(60);

/// How long the row of an ended session is kept: a process that was away for that long finds its claims lost, not lapsed.
pub const SESSION_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long the row of a lease that is over is kept; for longer while a claim is held under it, so that the sweeper finds when its
/// holder was last heard of.
pub const LEASE_KEPT: Duration = Duration::from_secs(60);

/// Shelves (tenant, project, operation) whose numbers are remembered.
pub const SHELVES_KNOWN: usize = 65_536;

/// Claims granted to this process that are remembered until they are settled, to fill the memory table.
pub const GRANTS_KNOWN: usize = 65_536;

/// Bytes in the payload of one NOTIFY; PostgreSQL takes less than 8,000.
pub const NOTIFY_BYTES: usize = 7_900;

/// How long a new watch is left to be announced by the reading that follows it.
pub const WATCH_GRACE: Duration = Duration::from_millis(5);

/// Shelves that one page of a filtered listing looks into.
pub const PAGE_SHELVES: usize = 256;

// What the code relies on between two bounds.

const _: () = assert!(
    2 * TABLE_BEAT.as_millis() <= TABLE_VALIDITY.as_millis(),
    "one beat may be lost before a memory table is silent"
);
const _: () = assert!(
    TABLE_VALIDITY.as_millis() < INVALIDATIONS_KEPT.as_millis(),
    "a table that is valid has heard of every invalidation"
);
const _: () =
    assert!(SESSION_TERM.as_millis() < SESSION_KEPT.as_millis(), "a session's row outlives its term");
const _: () = assert!(
    2 * SWEEP_EVERY.as_millis() < SWEEP_TURN_AHEAD.as_millis(),
    "a turn to sweep, which lasts for two rounds, is not taken for one before a clock was set back"
);
const _: () = assert!(VISIT_AFTER.as_millis() < SESSION_TERM.as_millis(), "a lapsed grant is visited");
const _: () = assert!(LARGEST_OUTCOME <= BATCH_BYTES, "outcomes of the usual bound can share a statement");
const _: () =
    assert!(CONNECT_WITHIN.as_millis() <= PATIENCE.as_millis(), "a connection can be had within patience");
const _: () =
    assert!(REPLY_WITHIN.as_millis() < MIGRATE_WITHIN.as_millis(), "a migration has longer than a command");
const _: () = assert!(LINGER.as_millis() < PATIENCE.as_millis() / 100, "lingering is no part of patience");
const _: () = assert!(
    grows_within(RECONNECT_PAUSE, PATIENCE) && grows_within(BUSY_PAUSE, PATIENCE),
    "pauses grow, and there are several within patience"
);
const _: () =
    assert!(WATCH_GRACE.as_millis() < POLL_EVERY.as_millis(), "a new watch is announced before it is polled");
const _: () =
    assert!(64 < NOTIFY_BYTES && NOTIFY_BYTES < 8_000, "PostgreSQL takes a payload with at least one claim");
const _: () = assert!(GRANTS_KNOWN >= BATCH * BATCHES_IN_FLIGHT, "what is being granted is remembered");

/// Whether pauses grow and the longest one fits several times into `whole`.
const fn grows_within(pauses: (Duration, Duration), whole: Duration) -> bool {
    pauses.0.as_nanos() < pauses.1.as_nanos() && 2 * pauses.1.as_nanos() < whole.as_nanos()
}
