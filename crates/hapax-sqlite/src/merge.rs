//! The writer's side of what finds claims: it takes notes, and enters them into the index.
//!
//! A batch that notes something also enters older notes, about as many, so that nobody ever waits for a great
//! merge. It takes them in the order of the index, starting where the last batch stopped, round after round:
//! the more notes there are, the more of them share a page. What was noted before a round began has been
//! entered when the round ends, and is removed from the table of notes. How far a round has come is kept with
//! the notes: a process that never lives to the end of one would otherwise gather notes for ever.

use std::collections::BTreeMap;
use std::path::Path;

use hapax_core::ClaimId;
use rusqlite::Connection;

use super::fault::Fault;
use super::finder::{self, Entry, Said};
use super::recent::{self, NOTE_BYTES, ROW_NOTES, Recent, Told};
use super::shelf;
use super::sieve::Sieve;
use crate::limits;

/// What the writer knows of the index.
#[derive(Debug)]
pub(super) struct Merge {
    recent: Recent,
    /// How many notes there should be, and how many in a row of the table.
    aim: usize,
    in_row: usize,
    /// The last row of notes, which is not full.
    row: Vec<u8>,
    /// What the index does not have; not until the store is open.
    sieve: Option<Sieve>,
    /// What the present batch has noted.
    fresh: BTreeMap<Entry, bool>,
    /// The last row of notes, and what the index has been told, when the present batch is committed.
    after: Option<(Vec<u8>, Vec<Entry>)>,
}

impl Merge {
    /// Reads what the index has not been told.
    pub(super) fn read(conn: &Connection, told: &Told) -> Result<Self, Fault> {
        let mut recent = Recent::default();
        recent.catch_up(conn, told)?;
        // The next note begins a row.
        let row = Vec::new();
        let (aim, in_row) = sizes();
        Ok(Merge { recent, aim, in_row, row, sieve: None, fresh: BTreeMap::new(), after: None })
    }

    /// What was noted about claims whose digests begin like this one's.
    pub(super) fn about(&self, claim: &ClaimId) -> Said {
        let prefix = finder::prefix(claim.as_bytes());
        let mut said = self.recent.about(prefix);
        let range = Entry { prefix, row: i64::MIN }..=Entry { prefix, row: i64::MAX };
        for (entry, there) in self.fresh.range(range) {
            said.retain(|(row, _)| *row != entry.row);
            said.push((entry.row, *there));
        }
        said
    }

    /// Whether a claim is absent for certain, without looking into the index.
    pub(super) fn rules_out(&self, claim: &ClaimId) -> bool {
        let prefix = finder::prefix(claim.as_bytes());
        self.sieve.as_ref().is_some_and(|sieve| sieve.lacks(prefix)) && self.about(claim).is_empty()
    }

    /// Has a sieve filled from the index, beside whoever goes on.
    pub(super) fn sift(&mut self, conn: &Connection, database: &Path) {
        self.sieve = Some(Sieve::new(database, shelf::claims(conn)));
    }

    /// Between two batches.
    pub(super) fn tend(&mut self, conn: &Connection) {
        if let Some(sieve) = &mut self.sieve {
            sieve.tend(|| shelf::claims(conn));
        }
    }

    /// Notes that a claim is in this row now, or not any more.
    pub(super) fn note(&mut self, claim: &ClaimId, row: i64, there: bool) {
        self.fresh.insert(Entry::new(claim, row), there);
    }

    /// Writes the notes of the batch, and enters older ones unless room is short.
    pub(super) fn write(&mut self, conn: &Connection, told: &mut Told, short: bool) -> Result<(), Fault> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let row = self.append(conn, told)?;
        let table = usize::try_from(told.to - told.from).unwrap_or(0);
        let notes = self.recent.len().max(table / limits::RECENT_TIMES);
        // Where room is short, it is for outcomes; but what is removed meanwhile must not fill the memory.
        let spared = short && notes < limits::RECENT_TIMES * self.aim;
        let share = if spared { 0 } else { share(self.fresh.len(), notes, self.aim) };
        let entered = self.enter(conn, told, share)?;
        if told.from < told.done {
            match recent::trim(conn, told.done, limits::RECENT_TRIMMED)? {
                Some(from) if from > told.from => told.from = from,
                _ => told.done = told.from,
            }
        }
        self.after = Some((row, entered));
        Ok(())
    }

    /// Appends the notes to the last row, and begins new ones as they fill up. Returns the last one.
    fn append(&self, conn: &Connection, told: &mut Told) -> Result<Vec<u8>, Fault> {
        let (mut row, mut fresh) = (self.row.clone(), self.fresh.iter());
        while fresh.len() > 0 {
            if row.len() >= self.in_row * NOTE_BYTES {
                row.clear();
            }
            let had = row.len() / NOTE_BYTES;
            let id = told.to - had as i64;
            for (entry, there) in fresh.by_ref().take(self.in_row - had) {
                row.extend_from_slice(&recent::encode(*entry, *there));
                told.to += 1;
            }
            recent::write(conn, id, &row)?;
        }
        Ok(row)
    }

    /// Tells the index about older notes. When there are fewer than it might be told of, the round is over.
    fn enter(&mut self, conn: &Connection, told: &mut Told, share: usize) -> Result<Vec<Entry>, Fault> {
        let mut entered = Vec::with_capacity(share);
        for (entry, there) in self.recent.after(told.at).take(share) {
            finder::write(conn, entry, there)?;
            fail::fail_point!("embedded.entering", |_| Err(Fault::Full));
            if let (true, Some(sieve)) = (there, &mut self.sieve) {
                sieve.add(entry);
            }
            entered.push(entry);
        }
        if entered.len() < share {
            (told.done, told.round, told.at) = (told.round, told.to, Entry::NONE);
        } else if let Some(last) = entered.last() {
            told.at = *last;
        }
        Ok(entered)
    }

    /// The batch is durable.
    pub(super) fn committed(&mut self) {
        if let Some((row, entered)) = self.after.take() {
            self.row = row;
            entered.iter().for_each(|entry| self.recent.forget(entry));
        }
        for (entry, there) in std::mem::take(&mut self.fresh) {
            self.recent.note(entry, there);
        }
    }

    /// The batch was rolled back.
    pub(super) fn roll_back(&mut self) {
        self.after = None;
        self.fresh.clear();
    }
}

/// How many notes there should be, and how many in a row; a test may want fewer.
fn sizes() -> (usize, usize) {
    fail::fail_point!("embedded.recent", |_| (8, 4));
    (limits::RECENT, ROW_NOTES)
}

/// How many notes a batch enters that makes so many new ones: as many, when there are as many as there should be.
fn share(fresh: usize, notes: usize, aim: usize) -> usize {
    let half = aim / 2;
    (fresh * notes.saturating_sub(half)).div_ceil(half).min(fresh * 4)
}

#[cfg(test)]
mod tests {
    use super::super::schema::{self, Meta};
    use super::*;
    use hapax_core::Timestamp;
    use std::collections::BTreeSet;

    /// The rows that are found for each prefix, by notes and index together.
    fn found(conn: &Connection, about: impl Fn(i64) -> Said) -> BTreeSet<(i64, i64)> {
        let rows = |prefix| finder::rows(conn, prefix, &about(prefix)).unwrap();
        (0..PREFIXES).flat_map(|prefix| rows(prefix).into_iter().map(move |row| (prefix, row))).collect()
    }

    fn claim(prefix: i64) -> ClaimId {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&prefix.to_be_bytes());
        ClaimId::from_bytes(digest)
    }

    /// An empty store, whose commits need not be durable.
    fn made() -> (tempfile::TempDir, Connection, Meta) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hapax.db");
        schema::make(&path, Timestamp::ZERO).unwrap();
        let (conn, meta) = schema::open_writer(&path, None).unwrap();
        conn.execute_batch("PRAGMA synchronous = OFF").unwrap();
        (folder, conn, meta)
    }

    const PREFIXES: i64 = 40;

    #[test]
    fn notes_and_index_together_say_what_happened_through_merges_rollbacks_and_reopening() {
        // L1, L10: entries come and go, and a reader that looks now and then is never led astray.
        let (_folder, conn, mut meta) = made();
        let mut merge = Merge { aim: 16, in_row: 4, ..Merge::read(&conn, &meta.told).unwrap() };
        let (mut there, mut reader, mut dice) = (BTreeSet::new(), Recent::default(), 7_u64);
        let mut roll = |sides: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % sides
        };
        let mut trimmed = false;
        for _ in 0..3_000 {
            let (before, mut after) = (meta, there.clone());
            conn.execute_batch("BEGIN").unwrap();
            for _ in 0..=roll(4) {
                let entry = (roll(PREFIXES.cast_unsigned()).cast_signed(), 1 + roll(3).cast_signed());
                let add = !after.remove(&entry) && after.insert(entry);
                merge.note(&claim(entry.0), entry.1, add);
            }
            assert_eq!(found(&conn, |prefix| merge.about(&claim(prefix))), after, "within the batch");
            merge.write(&conn, &mut meta.told, roll(8) == 0).unwrap();
            if roll(5) == 0 {
                conn.execute_batch("ROLLBACK").unwrap();
                merge.roll_back();
                meta = before;
            } else {
                meta.write(&conn).unwrap();
                conn.execute_batch("COMMIT").unwrap();
                merge.committed();
                there = after;
            }
            trimmed |= meta.told.from > 1;
            if roll(20) == 0 {
                merge = Merge { aim: 16, in_row: 4, ..Merge::read(&conn, &meta.told).unwrap() };
            }
            assert_eq!(found(&conn, |prefix| merge.about(&claim(prefix))), there);
            if roll(6) == 0 {
                reader.catch_up(&conn, &meta.told).unwrap();
                assert_eq!(found(&conn, |prefix| reader.about(prefix)), there, "a reader");
            }
        }
        let kept: i64 = conn.query_row("SELECT count(*) FROM recent", [], |row| row.get(0)).unwrap();
        assert!(trimmed && kept < 60, "{kept} rows of notes");
        let entered: i64 = conn.query_row("SELECT count(*) FROM finder", [], |row| row.get(0)).unwrap();
        assert!(entered > 20, "{entered} entries");
    }

    #[test]
    fn lives_that_never_see_the_end_of_a_round_do_not_gather_notes_for_ever_l1() {
        let (_folder, conn, mut meta) = made();
        for life in 0..500_i64 {
            let mut merge = Merge { aim: 32, in_row: 4, ..Merge::read(&conn, &meta.told).unwrap() };
            conn.execute_batch("BEGIN").unwrap();
            for number in 0..4 {
                // All over the index.
                let prefix = (life * 4 + number).wrapping_mul(0x1e37_79b9_7f4a_7c15);
                merge.note(&claim(prefix), 1, true);
            }
            merge.write(&conn, &mut meta.told, false).unwrap();
            meta.write(&conn).unwrap();
            conn.execute_batch("COMMIT").unwrap();
            let notes = meta.told.to - meta.told.from;
            assert!(notes < 32 * 8, "{notes} notes after {life} lives");
        }
        let all: i64 = conn.query_row("SELECT count(*) FROM finder", [], |row| row.get(0)).unwrap();
        assert!(all > 2_000 - 32 * 8, "{all} entries");
    }
}
