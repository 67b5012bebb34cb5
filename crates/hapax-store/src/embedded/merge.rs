//! The writer's side of what finds claims: it takes notes, and enters them into the index.
//!
//! A batch that notes something also enters older notes, about as many, so that nobody ever waits for a great
//! merge. It takes them in the order of the index, starting where the last batch stopped, round after round:
//! the more notes there are, the more of them share a page. What was noted before a round began has been
//! entered when the round ends, and is removed from the table of notes.

use std::collections::BTreeMap;
use std::path::Path;

use hapax_core::ClaimId;
use rusqlite::Connection;

use super::fault::Fault;
use super::finder::{self, Entry, Said};
use super::recent::{self, NOTE_BYTES, ROW_NOTES, Recent};
use super::schema::Meta;
use super::sieve::Sieve;
use crate::limits;

/// What the writer knows of the index.
#[derive(Debug)]
pub(super) struct Merge {
    recent: Recent,
    /// How many notes there should be.
    aim: usize,
    place: Place,
    /// What the index does not have; not until the store is open.
    sieve: Option<Sieve>,
    /// What the present batch has noted.
    fresh: BTreeMap<Entry, bool>,
    /// What holds when the present batch is committed.
    after: Option<After>,
}

/// How far the writer is.
#[derive(Clone, Debug, Default)]
struct Place {
    /// The last entry of this round that the index was told.
    entered: Option<Entry>,
    /// The first note that was not there when this round began.
    round: i64,
    /// Notes before this one are not needed any more.
    done: i64,
    /// The last row of notes, which is not full.
    row: Vec<u8>,
}

#[derive(Debug)]
struct After {
    place: Place,
    entered: Vec<Entry>,
}

impl Merge {
    /// Reads what the index has not been told.
    pub(super) fn read(conn: &Connection, meta: &Meta) -> Result<Self, Fault> {
        let mut recent = Recent::default();
        recent.catch_up(conn, meta)?;
        let place = Place { round: meta.recent_to, done: meta.recent_from, ..Place::default() };
        Ok(Merge { recent, aim: aim(), place, sieve: None, fresh: BTreeMap::new(), after: None })
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

    /// Has a sieve filled from the index, which has about so many entries.
    pub(super) fn sift(&mut self, database: &Path, entries: u64) {
        self.sieve = Some(Sieve::new(database, entries));
    }

    /// Between two batches.
    pub(super) fn tend(&mut self) {
        if let Some(sieve) = &mut self.sieve {
            sieve.tend();
        }
    }

    /// Notes that a claim is in this row now, or not any more.
    pub(super) fn note(&mut self, claim: &ClaimId, row: i64, there: bool) {
        self.fresh.insert(Entry::new(claim, row), there);
    }

    /// Writes the notes of the batch, and enters older ones unless room is short.
    pub(super) fn write(&mut self, conn: &Connection, meta: &mut Meta, short: bool) -> Result<(), Fault> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let mut place = self.place.clone();
        self.append(conn, meta, &mut place.row)?;
        let entered = if short { Vec::new() } else { self.enter(conn, meta, &mut place)? };
        if meta.recent_from < place.done {
            match recent::trim(conn, place.done, limits::RECENT_TRIMMED)? {
                Some(from) if from > meta.recent_from => meta.recent_from = from,
                _ => place.done = meta.recent_from,
            }
        }
        self.after = Some(After { place, entered });
        Ok(())
    }

    /// Appends the notes to the last row, and begins new ones as they fill up.
    fn append(&self, conn: &Connection, meta: &mut Meta, row: &mut Vec<u8>) -> Result<(), Fault> {
        let mut fresh = self.fresh.iter();
        while fresh.len() > 0 {
            if row.len() >= ROW_NOTES * NOTE_BYTES {
                row.clear();
            }
            let id = meta.recent_to - (row.len() / NOTE_BYTES) as i64;
            let room = ROW_NOTES - row.len() / NOTE_BYTES;
            for (entry, there) in fresh.by_ref().take(room) {
                row.extend_from_slice(&recent::encode(*entry, *there));
                meta.recent_to += 1;
            }
            recent::write(conn, id, row)?;
        }
        Ok(())
    }

    /// Tells the index about older notes.
    fn enter(&mut self, conn: &Connection, meta: &Meta, place: &mut Place) -> Result<Vec<Entry>, Fault> {
        let share = share(self.fresh.len(), self.recent.len(), self.aim);
        let mut entered = Vec::with_capacity(share);
        for (entry, there) in self.recent.after(place.entered).take(share) {
            finder::write(conn, entry, there)?;
            if let (true, Some(sieve)) = (there, &mut self.sieve) {
                sieve.add(entry);
            }
            entered.push(entry);
        }
        place.entered = entered.last().copied().or(place.entered);
        if entered.len() < share {
            place.done = place.round;
            place.round = meta.recent_to;
            place.entered = None;
        }
        Ok(entered)
    }

    /// The batch is durable.
    pub(super) fn committed(&mut self) {
        if let Some(After { place, entered }) = self.after.take() {
            self.place = place;
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

/// How many notes there should be; a test may want fewer.
fn aim() -> usize {
    fail::fail_point!("embedded.recent", |_| 8);
    limits::RECENT
}

/// How many notes a batch enters that makes so many new ones: as many, when there are as many as there should be.
fn share(fresh: usize, notes: usize, aim: usize) -> usize {
    let half = aim / 2;
    (fresh * notes.saturating_sub(half)).div_ceil(half).min(fresh * 4)
}

#[cfg(test)]
mod tests {
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

    const PREFIXES: i64 = 40;

    #[test]
    fn notes_and_index_together_say_what_happened_through_merges_rollbacks_and_reopening() {
        // L1, L10: entries come and go, and a reader that looks now and then is never led astray.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hapax.db");
        super::super::schema::make(&path, Timestamp::ZERO).unwrap();
        let (conn, mut meta) = super::super::schema::open_writer(&path, None).unwrap();
        let mut merge = Merge { aim: 16, ..Merge::read(&conn, &meta).unwrap() };
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
            merge.write(&conn, &mut meta, roll(8) == 0).unwrap();
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
            trimmed |= meta.recent_from > 1;
            if roll(20) == 0 {
                merge = Merge { aim: 16, ..Merge::read(&conn, &meta).unwrap() };
            }
            assert_eq!(found(&conn, |prefix| merge.about(&claim(prefix))), there);
            if roll(6) == 0 {
                reader.catch_up(&conn, &meta).unwrap();
                assert_eq!(found(&conn, |prefix| reader.about(prefix)), there, "a reader");
            }
        }
        let kept: i64 = conn.query_row("SELECT count(*) FROM recent", [], |row| row.get(0)).unwrap();
        assert!(trimmed && kept < 60, "{kept} rows of notes");
        let entered: i64 = conn.query_row("SELECT count(*) FROM finder", [], |row| row.get(0)).unwrap();
        assert!(entered > 20, "{entered} entries");
    }
}
