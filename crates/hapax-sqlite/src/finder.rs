//! The index that finds a claim by its digest.
//!
//! An entry has the first bytes of the digest, the claim's row, and a checksum, so that a damaged entry cannot
//! pass for the absence of a claim. Two digests may begin with the same bytes: whoever follows an entry looks
//! at the row. What was noted lately is not in the table yet (`recent`), so a search asks both.

use hapax_core::ClaimId;
use rusqlite::{Connection, Row, params};

use super::fault::{Fault, damaged};
use super::sum;

/// Where the index leads from a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// [`prefix`].
    pub(super) prefix: i64,
    /// The claim's row.
    pub(super) row: i64,
}

impl Entry {
    /// Before every entry: rows are counted from 1.
    pub(super) const NONE: Entry = Entry { prefix: i64::MIN, row: 0 };

    /// The entry of a claim in this row.
    pub(super) fn new(claim: &ClaimId, row: i64) -> Self {
        Entry { prefix: prefix(claim.as_bytes()), row }
    }

    fn crc(&self) -> i64 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.prefix.to_le_bytes());
        bytes[8..].copy_from_slice(&self.row.to_le_bytes());
        sum::stored(crc32fast::hash(&bytes))
    }
}

/// The part of a digest that is in the index.
pub(super) fn prefix(digest: &[u8]) -> i64 {
    let mut first = [0; 8];
    let length = digest.len().min(8);
    first[..length].copy_from_slice(&digest[..length]);
    let prefix = i64::from_be_bytes(first);
    // For tests that want many digests to begin alike.
    fail::fail_point!("embedded.prefix", |_| prefix & (0x3f << 58 | 0xf << 28));
    prefix
}

/// Entries from a prefix on.
const FROM: &str = "SELECT prefix, claim, crc FROM finder WHERE prefix >= ?1 ORDER BY prefix, claim";

/// What was noted lately about the rows of one prefix: whether an entry is there or was taken away.
pub(super) type Said = Vec<(i64, bool)>;

/// The rows of the claims whose digests begin like this.
///
/// The search ends two entries after them, which are looked at for damage: one that is whole and stands where
/// another should shows by its order.
pub(super) fn rows(conn: &Connection, prefix: i64, said: &Said) -> Result<Vec<i64>, Fault> {
    let mut statement = conn.prepare_cached(FROM)?;
    let mut entries = statement.query([prefix])?;
    let mut found: Vec<i64> = said.iter().filter(|(_, there)| *there).map(|(row, _)| *row).collect();
    let (mut last, mut behind) = (Entry { prefix, row: 0 }, 0);
    while behind < 2
        && let Some(entry) = entries.next()?
    {
        let entry = read(entry)?;
        if entry <= last {
            return Err(out_of_order());
        }
        last = entry;
        if entry.prefix > prefix {
            behind += 1;
        } else if said.iter().all(|(row, _)| *row != entry.row) {
            found.push(entry.row);
        }
    }
    Ok(found)
}

/// Makes sure that a claim which was not found is really absent.
///
/// A damaged entry would be next to where the claim's own should be: either it is the claim's own, or it has
/// led the search astray, which then ends beside it. [`rows`] has looked at the entries behind; here are those
/// in front.
pub(super) fn check_absent(conn: &Connection, prefix: i64) -> Result<(), Fault> {
    let sql =
        "SELECT prefix, claim, crc FROM finder WHERE prefix < ?1 ORDER BY prefix DESC, claim DESC LIMIT 2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut entries = statement.query([prefix])?;
    let mut last = Entry { prefix, row: 0 };
    while let Some(entry) = entries.next()? {
        let entry = read(entry)?;
        if entry >= last {
            return Err(out_of_order());
        }
        last = entry;
    }
    // SQLite takes an entry without a prefix for the end; then there is another one before it.
    if last.prefix == prefix && first(conn)?.is_some_and(|first| first.prefix < prefix) {
        return Err(out_of_order());
    }
    Ok(())
}

fn first(conn: &Connection) -> Result<Option<Entry>, Fault> {
    let sql = "SELECT prefix, claim, crc FROM finder ORDER BY prefix, claim LIMIT 1";
    conn.prepare_cached(sql)?.query([])?.next()?.map(read).transpose()
}

/// Entries after one, in order. No damaged one may make others seem to be missing: the first are not searched
/// for, and where the rest begin is looked at.
pub(super) fn some(conn: &Connection, after: Entry, limit: usize) -> Result<Vec<Entry>, Fault> {
    let (mut all, mut rest);
    let mut entries = if after == Entry::NONE {
        all = conn.prepare_cached("SELECT prefix, claim, crc FROM finder ORDER BY prefix, claim")?;
        all.query([])?
    } else {
        check_absent(conn, after.prefix)?;
        rest = conn.prepare_cached(FROM)?;
        rest.query([after.prefix])?
    };
    let mut some = Vec::with_capacity(limit);
    while some.len() < limit
        && let Some(entry) = entries.next()?
    {
        let (entry, last) = (read(entry)?, *some.last().unwrap_or(&after));
        if entry > last {
            some.push(entry);
        } else if !some.is_empty() || entry.prefix < after.prefix {
            return Err(out_of_order());
        }
    }
    Ok(some)
}

/// Whether the table has an entry.
pub(super) fn has(conn: &Connection, entry: Entry) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM finder WHERE prefix = ?1 AND claim = ?2";
    Ok(conn.prepare_cached(sql)?.exists([entry.prefix, entry.row])?)
}

/// Enters an entry or takes it away. Doing so twice is the same as once.
pub(super) fn write(conn: &Connection, entry: Entry, there: bool) -> Result<(), Fault> {
    if there {
        let sql = "INSERT OR REPLACE INTO finder (prefix, claim, crc) VALUES (?1, ?2, ?3)";
        conn.prepare_cached(sql)?.execute(params![entry.prefix, entry.row, entry.crc()])?;
    } else {
        let sql = "DELETE FROM finder WHERE prefix = ?1 AND claim = ?2";
        conn.prepare_cached(sql)?.execute([entry.prefix, entry.row])?;
    }
    Ok(())
}

/// Reads a row `prefix, claim, crc`.
fn read(row: &Row<'_>) -> Result<Entry, Fault> {
    let entry = Entry { prefix: row.get(0)?, row: row.get(1)? };
    if entry.crc() != row.get::<_, i64>(2)? {
        return Err(damaged("an entry of the index that finds claims").into());
    }
    Ok(entry)
}

fn out_of_order() -> Fault {
    Fault::Command(damaged("the index that finds claims is out of order"))
}
