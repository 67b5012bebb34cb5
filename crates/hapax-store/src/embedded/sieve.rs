//! What tells the writer that a claim is new without looking into the index.
//!
//! Nearly every key that the writer looks for is not there, and to learn that from an index of millions costs
//! the reading of a random page. A sieve has some bits for each entry, in memory: where they are not set, the
//! entry is not there; where they are, it is looked for. A thread fills it from the index beside the writer,
//! which adds what it enters meanwhile. Until it is full of what there is, it lets everything through.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::fault::Fault;
use super::finder::{self, Entry};
use super::schema;
use crate::limits;

/// The bits of so many entries.
#[derive(Debug)]
struct Bits {
    words: Box<[AtomicU64]>,
    /// Every entry of the index is in.
    whole: AtomicBool,
    /// Nobody waits for it any more.
    unwanted: AtomicBool,
}

impl Bits {
    fn for_entries(entries: u64) -> Self {
        // 16 bits for each entry, so that one in a hundred is let through for nothing.
        let words = (entries / 4).next_power_of_two().clamp(1 << 10, limits::SIEVE_BYTES / 8);
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Bits { words, whole: AtomicBool::new(false), unwanted: AtomicBool::new(false) }
    }

    /// The word of a prefix and the bits in it. A prefix is part of a digest, and as good as random.
    fn place(&self, prefix: i64) -> (&AtomicU64, u64) {
        let prefix = prefix.cast_unsigned();
        let bits = (0..4).fold(0, |bits, nth| bits | 1 << (prefix >> (40 + 6 * nth) & 63));
        let word = usize::try_from(prefix & 0xffff_ffff).unwrap_or(0) & (self.words.len() - 1);
        (&self.words[word], bits)
    }

    fn add(&self, prefix: i64) {
        let (word, bits) = self.place(prefix);
        word.fetch_or(bits, Ordering::Relaxed);
    }

    fn lacks(&self, prefix: i64) -> bool {
        let (word, bits) = self.place(prefix);
        word.load(Ordering::Relaxed) & bits != bits && self.whole.load(Ordering::Acquire)
    }

    /// Adds the whole index, some of it in each read, so that the log can start anew in between.
    fn fill(&self, conn: &Connection) -> Result<(), Fault> {
        let mut after = None;
        while !self.unwanted.load(Ordering::Relaxed) {
            let entries = finder::some(conn, after, limits::SIEVE_CHUNK)?;
            entries.iter().for_each(|entry| self.add(entry.prefix));
            after = entries.last().copied();
            if after.is_none() {
                self.whole.store(true, Ordering::Release);
                break;
            }
        }
        Ok(())
    }
}

/// The writer's sieve.
#[derive(Debug)]
pub(super) struct Sieve {
    bits: Arc<Bits>,
    /// Entries for which there is room, and entries that were added since it was made or filled.
    room: u64,
    added: u64,
    /// A larger one that is being filled.
    next: Option<(Arc<Bits>, JoinHandle<()>)>,
    database: PathBuf,
}

impl Sieve {
    /// A sieve for an index of about so many entries, which is not filled yet.
    pub(super) fn new(database: &Path, entries: u64) -> Self {
        let mut sieve = Sieve {
            bits: Arc::new(Bits::for_entries(0)),
            room: entries.max(limits::SIEVE_ENTRIES),
            added: 0,
            next: None,
            database: database.to_owned(),
        };
        sieve.start();
        sieve
    }

    /// Whether the index has no such entry, for certain.
    pub(super) fn lacks(&self, prefix: i64) -> bool {
        self.bits.lacks(prefix)
    }

    /// The index is told of an entry.
    pub(super) fn add(&mut self, entry: Entry) {
        self.added += 1;
        self.bits.add(entry.prefix);
        if let Some((next, _)) = &self.next {
            next.add(entry.prefix);
        }
    }

    /// Between two batches: takes the new sieve when it is filled, and has one made when this one is full.
    pub(super) fn tend(&mut self) {
        if let Some((next, thread)) = self.next.take_if(|(_, thread)| thread.is_finished()) {
            // A thread that failed leaves a sieve that lets everything through.
            let _ = thread.join();
            self.bits = next;
        } else if self.next.is_none() && self.added > self.room {
            self.room = self.room.max(self.added) * 2;
            self.start();
        }
    }

    fn start(&mut self) {
        self.added = 0;
        let bits = Arc::new(Bits::for_entries(self.room));
        let (filled, database) = (bits.clone(), self.database.clone());
        let fill = move || {
            // What cannot be read is found by whoever looks for it in the index.
            let _ = schema::open_reader(&database).map(|conn| filled.fill(&conn));
        };
        // Without a thread the index is asked.
        self.next = super::spawn("hapax-sieve", fill).ok().map(|thread| (bits, thread));
    }
}

impl Drop for Sieve {
    fn drop(&mut self) {
        if let Some((bits, thread)) = self.next.take() {
            bits.unwanted.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Timestamp;
    use std::time::{Duration, Instant};

    /// Prefixes that are as good as random.
    fn prefix(number: u64) -> i64 {
        let mut mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 31)).cast_signed()
    }

    /// Waits until the sieve that is being filled is in use.
    fn settle(sieve: &mut Sieve) {
        let began = Instant::now();
        while sieve.next.is_some() && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
            sieve.tend();
        }
    }

    #[test]
    fn what_the_index_has_is_never_said_to_be_missing() {
        // L1: from the index as it was found, from what was added meanwhile, and after the sieve has grown.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hapax.db");
        schema::make(&path, Timestamp::ZERO).unwrap();
        let (conn, _) = schema::open_writer(&path, None).unwrap();
        let enter = |numbers: std::ops::Range<u64>, mut sieve: Option<&mut Sieve>| {
            conn.execute_batch("BEGIN").unwrap();
            for number in numbers {
                let entry = Entry { prefix: prefix(number), row: 1 };
                finder::write(&conn, entry, true).unwrap();
                sieve.iter_mut().for_each(|sieve| sieve.add(entry));
            }
            conn.execute_batch("COMMIT").unwrap();
        };
        enter(0..25_000, None);
        let mut sieve = Sieve::new(&path, 25_000);
        assert!(!sieve.lacks(prefix(999_999)), "nothing is said before it is filled");
        enter(25_000..30_000, Some(&mut sieve));
        settle(&mut sieve);
        assert!((0..30_000).all(|number| !sieve.lacks(prefix(number))));
        sieve.room = 5_000;
        enter(30_000..40_000, Some(&mut sieve));
        sieve.tend();
        assert!(sieve.next.is_some(), "a larger one is on its way");
        enter(40_000..50_000, Some(&mut sieve));
        settle(&mut sieve);
        assert!((0..50_000).all(|number| !sieve.lacks(prefix(number))));
        let missed = (100_000..200_000).filter(|number| !sieve.lacks(prefix(*number))).count();
        assert!(missed < 20_000, "{missed} of 100,000 are looked for in vain");
    }

    #[test]
    fn a_sieve_that_could_not_be_filled_lets_everything_through() {
        // B8: a damaged entry is found by whoever looks for it.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hapax.db");
        schema::make(&path, Timestamp::ZERO).unwrap();
        let (conn, _) = schema::open_writer(&path, None).unwrap();
        conn.execute("INSERT INTO finder (prefix, claim, crc) VALUES (1, 2, 3)", []).unwrap();
        let mut sieve = Sieve::new(&path, 1);
        settle(&mut sieve);
        assert!((0..100).all(|number| !sieve.lacks(prefix(number))));
    }
}
