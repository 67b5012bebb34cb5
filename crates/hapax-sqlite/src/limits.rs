//! Every bound of the embedded store, in one place. Those that all stores share are in [`hapax_store::limits`].

use std::time::Duration;

pub(crate) use hapax_store::limits::{
    BATCH, LARGEST_OUTCOME, PAGE_BYTES, PAGE_SCAN, PATIENCE, POLL_EVERY, QUEUE, RENEWALS_PER_TERM,
    SWEEP_CHUNK, SWEEP_EVERY,
};

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

/// Bytes on disk that are kept for the outcomes of what was granted (B5).
pub const SPACE_RESERVE: u64 = 32 * 1024 * 1024;

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

/// Held claims that an embedded store's writer keeps in memory, so that their settle need not read them.
pub const HELD_IN_MEMORY: usize = 16_384;

// What the code relies on between two bounds.

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
