//! What the index that finds claims has not been told yet.
//!
//! A new key belongs in a random page of the index, and a page costs more to write than the claim. So a batch
//! only appends notes of its new and removed claims to a table, `recent`, and whoever looks for a claim also
//! knows the notes, in memory. The writer enters them into the index later, in the order of the index
//! (`merge`). A note may stay in the table after it was entered: what it says still holds, unless a later note
//! says otherwise.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::fault::{Fault, damaged};
use super::finder::{Entry, Said};
use super::sum;

/// Bytes of a note: an entry's prefix, and its row, which is negative when the entry was taken away.
pub(super) const NOTE_BYTES: usize = 16;
/// Notes in one row of the table at most: as many as fit on a page with it.
pub(super) const ROW_NOTES: usize = 248;

/// Which notes there are, and how far the index has been told of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// The first note in the table.
    pub(super) from: i64,
    /// The next note.
    pub(super) to: i64,
    /// Notes before this one are not needed any more.
    pub(super) done: i64,
    /// The first note that was not there when the present round through the index began.
    pub(super) round: i64,
    /// The last entry of this round that the index was told.
    pub(super) at: Entry,
}

impl Default for Told {
    fn default() -> Self {
        Told { from: 1, to: 1, done: 1, round: 1, at: Entry::NONE }
    }
}

/// A note in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    /// Its number; notes are counted from 1.
    pub(super) number: i64,
    /// Whether the entry is there.
    pub(super) there: bool,
}

/// The notes of which nobody knows whether the index has them.
#[derive(Debug)]
pub(super) struct Recent {
    notes: BTreeMap<Entry, Note>,
    /// There are none before this one.
    from: i64,
    /// The number of the next note.
    to: i64,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { notes: BTreeMap::new(), from: 1, to: 1 }
    }
}

impl Recent {
    /// Reads what was noted since the last time. `told` was read in the same view.
    pub(super) fn catch_up(&mut self, conn: &Connection, told: &Told) -> Result<(), Fault> {
        let (from, to) = (told.from, told.to);
        if to < self.to || self.to < from {
            *self = Recent { notes: BTreeMap::new(), from, to: from };
        } else if usize::try_from(from - self.from).is_ok_and(|gone| gone > self.notes.len() / 4) {
            // Not each time, because it looks at all of them. What is not needed any more still holds.
            self.notes.retain(|_, note| note.number >= from);
            self.from = from;
        }
        if self.to == to {
            return Ok(());
        }
        let read = read_from(conn, self.to, to)?;
        if self.notes.is_empty() {
            // Made from a sorted list, which is several times faster than one by one.
            self.notes = sorted(read, self.to).into_iter().collect();
        } else {
            for ((entry, there), number) in read.into_iter().zip(self.to..) {
                self.notes.insert(entry, Note { number, there });
            }
        }
        self.to = to;
        Ok(())
    }

    /// What was noted about entries with this prefix.
    pub(super) fn about(&self, prefix: i64) -> Said {
        let range = Entry { prefix, row: i64::MIN }..=Entry { prefix, row: i64::MAX };
        self.notes.range(range).map(|(entry, note)| (entry.row, note.there)).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }

    /// Those after an entry, in the order of the index.
    pub(super) fn after(&self, entry: Entry) -> impl Iterator<Item = (Entry, bool)> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.notes.range((Excluded(entry), Unbounded)).map(|(entry, note)| (*entry, note.there))
    }

    /// Takes note.
    pub(super) fn note(&mut self, entry: Entry, there: bool) {
        self.notes.insert(entry, Note { number: self.to, there });
        self.to += 1;
    }

    /// The index has this.
    pub(super) fn forget(&mut self, entry: &Entry) {
        self.notes.remove(entry);
    }
}

fn sorted(read: Vec<(Entry, bool)>, first: i64) -> Vec<(Entry, Note)> {
    let mut notes: Vec<(Entry, Note)> = read
        .into_iter()
        .zip(first..)
        .map(|((entry, there), number)| (entry, Note { number, there }))
        .collect();
    notes.sort_unstable_by_key(|(entry, note)| (*entry, std::cmp::Reverse(note.number)));
    notes.dedup_by_key(|(entry, _)| *entry);
    notes
}

/// The notes from one number to just before another. None may be missing: a claim would be.
fn read_from(conn: &Connection, from: i64, to: i64) -> Result<Vec<(Entry, bool)>, Fault> {
    let sql = "SELECT id, notes, crc FROM recent WHERE id > ?1 - ?2 ORDER BY id";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![from, ROW_NOTES as i64])?;
    let mut read = Vec::with_capacity(usize::try_from(to - from).unwrap_or(0));
    let mut next = from;
    while let Some(row) = rows.next()? {
        let (id, notes): (i64, _) = (row.get(0)?, row.get_ref(1)?.as_blob().map_err(damaged)?);
        if sum::of_bytes("recent", [id, 0], notes) != row.get::<_, i64>(2)? {
            return Err(damaged(format_args!("checksum of the notes from {id}")).into());
        }
        let skipped = usize::try_from(next - id).map_err(|_| missing(next))?;
        for note in notes.chunks_exact(NOTE_BYTES).skip(skipped) {
            read.push(decode(note));
            next += 1;
        }
    }
    if next == to { Ok(read) } else { Err(missing(next)) }
}

fn missing(number: i64) -> Fault {
    damaged(format_args!("note {number} of what the index that finds claims has not been told")).into()
}

fn decode(note: &[u8]) -> (Entry, bool) {
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&note[at..at + 8]);
        i64::from_le_bytes(bytes)
    };
    (Entry { prefix: number(0), row: number(8).abs() }, number(8) > 0)
}

/// A note as it is stored.
pub(super) fn encode(entry: Entry, there: bool) -> [u8; NOTE_BYTES] {
    let row = if there { entry.row } else { -entry.row };
    let mut note = [0; NOTE_BYTES];
    note[..8].copy_from_slice(&entry.prefix.to_le_bytes());
    note[8..].copy_from_slice(&row.to_le_bytes());
    note
}

/// Writes a row of notes, or writes it anew with more of them.
pub(super) fn write(conn: &Connection, id: i64, notes: &[u8]) -> Result<(), Fault> {
    let sql = "INSERT OR REPLACE INTO recent (id, notes, crc) VALUES (?1, ?2, ?3)";
    conn.prepare_cached(sql)?.execute(params![id, notes, sum::of_bytes("recent", [id, 0], notes)])?;
    Ok(())
}

/// Removes rows whose notes are all before `number`, not too many at once. Returns the first note that is
/// left.
pub(super) fn trim(conn: &Connection, number: i64, rows: i64) -> Result<Option<i64>, Fault> {
    let sql = "SELECT max(id) FROM (SELECT id FROM recent WHERE id <= ?1 ORDER BY id LIMIT ?2)";
    let from: Option<i64> =
        conn.prepare_cached(sql)?.query_row(params![number, rows + 1], |row| row.get(0))?;
    if let Some(from) = from {
        conn.prepare_cached("DELETE FROM recent WHERE id < ?1")?.execute([from])?;
    }
    Ok(from)
}
