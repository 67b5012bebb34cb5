//! Every bound of this crate, in one place.

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

/// A turn to sweep PostgreSQL that ends later than this from now was given before the server's clock was set back.
pub const SWEEP_TURN_AHEAD: Duration = Duration::from_secs(30);

/// PostgreSQL's clock was set forward when it shows more than so much beyond what has passed since it was last read (L12).
pub const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Visits of one PostgreSQL sweep that may fail because the database cannot be asked, before the others are left for the next.
pub const SWEEP_FAILURES: u64 = 8;

/// How long a store goes on sending a command whose fate is unknown before it reports that it is unavailable (L13).
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Records that one page of a filtered listing looks at.
pub const PAGE_SCAN: usize = 10_000;

/// A clock that was set back gains this part of what passes on the time that goes on from where it was (L12).
pub const CLOCK_GAINS: i64 = 16;

// The embedded store.

/// How far the machine's clock may be behind the latest time that an embedded store has written before somebody is told.
pub const CLOCK_BEHIND: Duration = Duration::from_secs(2);

/// How long an embedded store's writer leaves it to those whom it has woken to wake the others of their thread.
pub const WAKE_GRACE: Duration = Duration::from_millis(1);

/// Reads that wait for an embedded store's reading threads at once; more are refused as unavailable.
pub const READ_QUEUE: usize = 4_096;

/// Prepared statements that one connection to an embedded store keeps.
pub const STATEMENTS: usize = 64;

/// Bytes of a page of an embedded store's database.
pub const PAGE_SIZE: u32 = 4_096;

/// KiB of pages that an embedded store's writer keeps in memory.
pub const WRITER_PAGES_KIB: u32 = 16 * 1024;

/// KiB of pages that each reading thread of an embedded store keeps in memory.
pub const READER_PAGES_KIB: u32 = 8 * 1024;

/// Bytes of an embedded store that a copy takes at once, beside the server.
pub const COPY_PIECE: u64 = 1024 * 1024;

/// The longest pause after such a piece.
pub const COPY_PAUSE: Duration = Duration::from_millis(20);

/// The counter of a restored store's epochs begins at the clock, counted in these: more than 60,000 grants a second are not
/// kept up for as long as a store lives, and the counter lasts until the year 2112.
pub const LIFE_STEP: Duration = Duration::from_micros(16);

/// How long one connection to an embedded store's file waits for another program that has it locked.
pub const FILE_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of an embedded store's write-ahead log after which they are copied into the database, beside the writer.
pub const WAL_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes of write-ahead log after which the writer copies what is left, so that the log can start anew.
pub const WAL_TURN_BYTES: u64 = 32 * 1024 * 1024;

/// How often one copying goes after what the writer has written meanwhile.
pub const WAL_ROUNDS: usize = 4;

/// Bytes of write-ahead log after which the writer waits for readers, so that the log can start anew.
pub const WAL_HARD_BYTES: u64 = 512 * 1024 * 1024;

/// How long the writer then waits for readers at once.
pub const WAL_HARD_WAIT: Duration = Duration::from_millis(50);

/// Bytes of write-ahead log that are kept as a file after the log has started anew.
pub const WAL_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// Claims of which the index of an embedded store is told later, in the order of the index: the more there are, the more of
/// them share a page of it. There are up to four times as many notes of them, and after much coming and going of the same
/// claims up to eight times; the writer keeps those in memory that the index lacks, all readers together keep all.
pub const RECENT: usize = 131_072;

/// Notes for each claim that the index lacks, after which room on disk is not spared any more to enter them.
pub const RECENT_TIMES: usize = 8;

/// Rows of notes that one batch removes.
pub const RECENT_TRIMMED: i64 = 16;

/// The fewest entries that may be added to an embedded store's sieve before it is made anew.
pub const SIEVE_ENTRIES: u64 = 1 << 18;

/// Bits in the sieve for each entry, when there are as many as it was made for.
pub const SIEVE_BITS: u64 = 10;

/// The most bytes of a sieve, which are meant for 27 million entries; of more it lets more through. There are two of them
/// while one is made anew.
pub const SIEVE_BYTES: u64 = 32 * 1024 * 1024;

/// Entries of the index that are read at once to fill a sieve.
pub const SIEVE_CHUNK: usize = 10_000;

/// Epoch counters that are reserved with one write.
pub const EPOCH_BLOCK: u64 = 1 << 20;

/// Shelves (tenant, project, operation) that an embedded store's writer keeps in memory.
pub const SHELVES: usize = 16_384;

/// Former sessions that an embedded store remembers.
pub const FORMER_SESSIONS: i64 = 1_024;

/// Bytes of outcomes that one page of a listing holds, beyond its first record.
pub const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Bytes on disk that are kept for the outcomes of what was granted (B5).
pub const SPACE_RESERVE: u64 = 32 * 1024 * 1024;

/// Bytes of the largest outcome that a store makes room for unless the options say otherwise: what a layer keeps of an answer by
/// default (B5).
pub const LARGEST_OUTCOME: usize = 1024 * 1024;

/// Held claims for each of which there is room for the largest outcome, whatever was seen before (B5).
pub const SPACE_FULL_HELD: u64 = 256;

/// The least bytes that are kept for the outcome of a claim that is held beyond those (B5).
pub const SPACE_LEAST_HELD: u64 = 16 * 1024;

/// An outcome is written twice: to the log, and from there to the database.
pub const SPACE_TIMES: u64 = 2;

/// Bytes on disk beyond what is kept back, with which the free space is looked at only now and then.
pub const SPACE_AMPLE: u64 = 1024 * 1024 * 1024;

/// Bytes of the file that is given up when the disk is full, so that there is room for outcomes (B5).
pub const BALLAST_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes on disk with which an embedded store can be opened: those of its log's index, and of one commit.
pub const SPACE_TO_OPEN: u64 = 4 * 1024 * 1024;

/// How often the free space on disk is looked at while there is ample, and while claims are refused.
pub const SPACE_EVERY: Duration = Duration::from_millis(200);

/// Bad records that a verification names.
pub const BAD_RECORDS_NAMED: usize = 20;

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

/// Most leases that are not a process's own, open at once in a memory or an embedded store.
pub const LEASES: usize = 10_000;

/// How long a lease that is over is remembered, so that what it held can be dealt with.
pub const LEASE_KEPT: Duration = Duration::from_secs(60 * 60);

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

/// Longest URL of a store.
pub const MAX_URL_BYTES: usize = 4_096;

/// Held claims that an embedded store's writer keeps in memory, so that their settle need not read them.
pub const HELD_IN_MEMORY: usize = 16_384;

// What the code relies on between two bounds.

const _: () = assert!(RENEWALS_PER_TERM >= 2, "one renewal may be lost before a session lapses");
const _: () = assert!(BATCH <= QUEUE, "a batch comes out of the queue");
const _: () = assert!(
    2 * TABLE_BEAT.as_millis() <= TABLE_VALIDITY.as_millis(),
    "one beat may be lost before a memory table is silent"
);
const _: () = assert!(
    TABLE_VALIDITY.as_millis() < INVALIDATIONS_KEPT.as_millis(),
    "a table that is valid has heard of every invalidation"
);
const _: () = assert!(
    TABLE_VALIDITY.as_millis() < SESSION_TERM.as_millis(),
    "a table lives no longer than its session"
);
const _: () =
    assert!(SESSION_TERM.as_millis() < SESSION_KEPT.as_millis(), "a session's row outlives its term");
const _: () = assert!(
    SWEEP_EVERY.as_millis() <= hapax_core::limits::UNTIL_SWEPT.as_millis(),
    "a lapse is written down by the time that an operator asks again"
);
const _: () =
    assert!(SWEEP_EVERY.as_millis() <= SWEEP_PAUSE.as_millis(), "the sweeper's pause has a least and a most");
const _: () = assert!(
    2 * SWEEP_EVERY.as_millis() < SWEEP_TURN_AHEAD.as_millis(),
    "a turn to sweep, which lasts for two rounds, is not taken for one before a clock was set back"
);
const _: () = assert!(VISIT_AFTER.as_millis() < SESSION_TERM.as_millis(), "a lapsed grant is visited");
const _: () = assert!(hapax_core::limits::MAX_PAGE <= PAGE_SCAN, "a page can be full");
const _: () = assert!(CLOCK_GAINS > 1, "a clock that was set back goes on");

const _: () = assert!(
    BATCH as u64 <= EPOCH_BLOCK / 2,
    "what is reserved of the epochs lasts for one more batch, whatever it grants"
);
const _: () = assert!(
    EPOCH_BLOCK < hapax_core::limits::MAX_EPOCH_COUNTER,
    "a block is a part of an incarnation's epochs"
);
const _: () =
    assert!(SIEVE_ENTRIES * SIEVE_BITS / 8 <= SIEVE_BYTES, "the smallest sieve is within the bound of all");
const _: () = assert!(PAGE_SIZE.is_power_of_two() && PAGE_SIZE <= 65_536, "SQLite has such pages");
const _: () = assert!(
    WAL_BYTES < WAL_TURN_BYTES && 2 * WAL_TURN_BYTES < WAL_HARD_BYTES,
    "the log is copied, then turned, and only then does the writer wait"
);
const _: () = assert!(WAL_TURN_BYTES <= WAL_KEPT_BYTES, "a log that turns in time keeps its file");
const _: () = assert!(
    SPACE_TO_OPEN <= BALLAST_BYTES,
    "giving up the ballast makes room to open a store on a full disk"
);
const _: () = assert!(
    SPACE_TO_OPEN + LARGEST_OUTCOME as u64 * SPACE_TIMES <= SPACE_RESERVE,
    "a store that grants claims has room to be opened again and to settle one"
);
const _: () =
    assert!(SPACE_LEAST_HELD <= LARGEST_OUTCOME as u64, "the least outcome is not larger than the largest");
const _: () =
    assert!(FILE_PATIENCE.as_millis() < PATIENCE.as_millis(), "a locked file is told before patience ends");
const _: () = assert!(HELD_IN_MEMORY >= BATCH, "what one batch grants is in memory when it is settled");

const _: () = assert!(LARGEST_OUTCOME <= BATCH_BYTES, "outcomes of the usual bound can share a statement");
const _: () =
    assert!(CONNECT_WITHIN.as_millis() <= PATIENCE.as_millis(), "a connection can be had within patience");
const _: () =
    assert!(PATIENCE.as_millis() < SESSION_TERM.as_millis(), "an outage that is sat out costs no lease");
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
