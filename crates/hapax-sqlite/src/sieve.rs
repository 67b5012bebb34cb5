//! What tells the writer that a claim is new without looking into the index.
//!
//! Nearly every key that the writer looks for is not there, and to learn that from an index of millions costs
//! the reading of a random page. A sieve has some bits for each entry, in memory: where they are not set, the
//! entry is not there; where they are, it is looked for. A thread fills it from the index beside the writer,
//! which adds what it enters meanwhile; before it is full of what there is, nobody asks it. What leaves the
//! index stays in the sieve until it is made anew. When there are more entries than its bytes are meant for, it
//! lets more of them through, and the index is asked more often.

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
    /// Nobody waits for it any more.
    unwanted: AtomicBool,
}

impl Bits {
    fn for_entries(entries: u64) -> Self {
        let bytes = (entries.saturating_mul(limits::SIEVE_BITS) / 8).clamp(64, limits::SIEVE_BYTES);
        let words = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        Bits { words, unwanted: AtomicBool::new(false) }
    }

    /// The word of a prefix and the bits in it. A prefix is part of a digest, and as good as random.
    fn place(&self, prefix: i64) -> (&AtomicU64, u64) {
        let prefix = prefix.cast_unsigned();
        let bits = (0..4).fold(0, |bits, nth| bits | 1 << (prefix >> (40 + 6 * nth) & 63));
        let word = ((prefix & 0xffff_ffff) * self.words.len() as u64) >> 32;
        (&self.words[word as usize], bits)
    }

    // Two threads add, and only the one that has waited for the other asks: no order is needed between them.

    fn add(&self, prefix: i64) {
        let (word, bits) = self.place(prefix);
        word.fetch_or(bits, Ordering::Relaxed);
    }

    fn lacks(&self, prefix: i64) -> bool {
        let (word, bits) = self.place(prefix);
        word.load(Ordering::Relaxed) & bits != bits
    }

    /// Adds the whole index, some of it in each read, so that the log can start anew in between. `false` when it
    /// was told to stop.
    fn fill(&self, conn: &Connection) -> Result<bool, Fault> {
        let mut after = Entry::NONE;
        while !self.unwanted.load(Ordering::Relaxed) {
            let entries = finder::some(conn, after, limits::SIEVE_CHUNK)?;
            let Some(last) = entries.last() else { return Ok(true) };
            after = *last;
            entries.iter().for_each(|entry| self.add(entry.prefix));
        }
        Ok(false)
    }
}

/// The writer's sieve.
#[derive(Debug)]
pub(super) struct Sieve {
    /// What is asked; nothing before the first one is filled.
    bits: Option<Arc<Bits>>,
    /// One that is being filled, and whether it has everything when that ends.
    next: Option<(Arc<Bits>, JoinHandle<bool>)>,
    /// Entries that may be added before a new one is made.
    left: u64,
    database: PathBuf,
}

impl Sieve {
    /// A sieve for an index of about so many entries, which is not filled yet.
    pub(super) fn new(database: &Path, entries: u64) -> Self {
        let mut sieve = Sieve { bits: None, next: None, left: 0, database: database.to_owned() };
        sieve.start(entries);
        sieve
    }

    /// Whether the index has no such entry, for certain.
    pub(super) fn lacks(&self, prefix: i64) -> bool {
        self.bits.as_ref().is_some_and(|bits| bits.lacks(prefix))
    }

    /// The index is told of an entry.
    pub(super) fn add(&mut self, entry: Entry) {
        self.left = self.left.saturating_sub(1);
        self.bits.iter().for_each(|bits| bits.add(entry.prefix));
        self.next.iter().for_each(|(bits, _)| bits.add(entry.prefix));
    }

    /// Between two batches: takes the new sieve when it is filled, and has one made when this one is full.
    /// `entries` says of about how many.
    pub(super) fn tend(&mut self, entries: impl FnOnce() -> u64) {
        if let Some((next, thread)) = self.next.take_if(|(_, thread)| thread.is_finished()) {
            // Where filling has failed, the former one goes on: it has everything, too.
            if thread.join().unwrap_or(false) {
                self.bits = Some(next);
            }
        } else if self.next.is_none() && self.left == 0 {
            self.start(entries());
        }
    }

    fn start(&mut self, entries: u64) {
        self.left = entries.max(limits::SIEVE_ENTRIES);
        let bits = Arc::new(Bits::for_entries(entries.saturating_add(self.left)));
        let (filled, database) = (bits.clone(), self.database.clone());
        // What cannot be read is found by whoever looks for it in the index.
        let fill =
            move || schema::open_reader(&database).is_ok_and(|conn| filled.fill(&conn).unwrap_or(false));
        // Without a thread the index is asked.
        let thread = std::thread::Builder::new().name("hapax-sieve".into()).spawn(fill);
        self.next = thread.ok().map(|thread| (bits, thread));
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

    fn made() -> (tempfile::TempDir, PathBuf, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hapax.db");
        schema::make(&path, Timestamp::ZERO).unwrap();
        let (conn, _) = schema::open_writer(&path, None).unwrap();
        (folder, path, conn)
    }

    /// Enters these into the index, as a batch does.
    fn enter(conn: &Connection, numbers: std::ops::Range<u64>, mut sieve: Option<&mut Sieve>) {
        conn.execute_batch("BEGIN").unwrap();
        for number in numbers {
            let entry = Entry { prefix: prefix(number), row: 1 };
            finder::write(conn, entry, true).unwrap();
            sieve.iter_mut().for_each(|sieve| sieve.add(entry));
        }
        conn.execute_batch("COMMIT").unwrap();
    }

    /// Waits until the sieve that is being filled is in use.
    fn settle(sieve: &mut Sieve) {
        let began = Instant::now();
        while sieve.next.is_some() && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
            sieve.tend(|| 0);
        }
    }

    fn let_through(sieve: &Sieve, numbers: std::ops::Range<u64>) -> usize {
        numbers.filter(|number| !sieve.lacks(prefix(*number))).count()
    }

    #[test]
    fn what_the_index_has_is_never_said_to_be_missing_l1() {
        // From the index as it was found, from what was added meanwhile, and after the sieve was made anew.
        let (_folder, path, conn) = made();
        enter(&conn, 0..25_000, None);
        let mut sieve = Sieve::new(&path, 25_000);
        assert_eq!(let_through(&sieve, 0..1_000), 1_000, "nothing is said before it is filled");
        enter(&conn, 25_000..30_000, Some(&mut sieve));
        settle(&mut sieve);
        assert_eq!(let_through(&sieve, 0..30_000), 30_000);
        sieve.left = 5_000;
        enter(&conn, 30_000..40_000, Some(&mut sieve));
        sieve.tend(|| 40_000);
        assert!(sieve.next.is_some(), "a new one is on its way");
        enter(&conn, 40_000..50_000, Some(&mut sieve));
        assert_eq!(let_through(&sieve, 0..50_000), 50_000, "while it is filled");
        settle(&mut sieve);
        assert_eq!(let_through(&sieve, 0..50_000), 50_000);
        let vain = let_through(&sieve, 100_000..200_000);
        assert!(vain < 5_000, "{vain} of 100,000 are looked for in vain");
    }

    #[test]
    fn a_sieve_with_too_many_entries_lets_more_through_and_misses_none_l1() {
        let (_folder, path, conn) = made();
        let mut sieve = Sieve::new(&path, 0);
        settle(&mut sieve);
        sieve.bits = Some(Arc::new(Bits::for_entries(1_000)));
        enter(&conn, 0..20_000, Some(&mut sieve));
        assert_eq!(let_through(&sieve, 0..20_000), 20_000);
        assert!(Bits::for_entries(u64::MAX / 64).words.len() as u64 * 8 <= limits::SIEVE_BYTES);
    }

    #[test]
    fn a_sieve_that_could_not_be_filled_is_not_asked_b8() {
        // What is damaged is found by whoever looks for it; the sieve must not hide it.
        for damage in [spoil_an_entry, exchange_pages] {
            let (_folder, path, conn) = made();
            enter(&conn, 0..2_000, None);
            conn.close().unwrap();
            let filled = |path: &Path| {
                let mut sieve = Sieve::new(path, 2_000);
                settle(&mut sieve);
                let_through(&sieve, 0..10_000)
            };
            assert!(filled(&path) < 3_000);
            damage(&path);
            assert_eq!(filled(&path), 10_000);
        }
    }

    fn spoil_an_entry(path: &Path) {
        let conn = Connection::open(path).unwrap();
        assert_eq!(
            conn.execute(
                "UPDATE finder SET crc = crc + 1 WHERE prefix = (SELECT max(prefix) FROM finder)",
                []
            )
            .unwrap(),
            1
        );
    }

    /// Two pages of the index, each whole, stand where the other should.
    fn exchange_pages(path: &Path) {
        const LEAF_OF_AN_INDEX: u8 = 10;
        let page = limits::PAGE_SIZE as usize;
        let mut bytes = std::fs::read(path).unwrap();
        let full = |at: &usize| bytes[*at] == LEAF_OF_AN_INDEX && bytes[*at + 4] > 50;
        let leaves: Vec<usize> = (0..bytes.len()).step_by(page).filter(full).collect();
        let (first, second) = bytes.split_at_mut(leaves[1]);
        first[leaves[0]..leaves[0] + page].swap_with_slice(&mut second[..page]);
        std::fs::write(path, bytes).unwrap();
    }
}
