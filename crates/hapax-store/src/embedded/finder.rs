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
    i64::from_be_bytes(first)
}

/// What was noted lately about the rows of one prefix: whether an entry is there or was taken away.
pub(super) type Said = Vec<(i64, bool)>;

/// The rows of the claims whose digests begin like this. The search ends at the entry after them, which is
/// looked at for damage.
pub(super) fn rows(conn: &Connection, prefix: i64, said: &Said) -> Result<Vec<i64>, Fault> {
    let sql = "SELECT prefix, claim, crc FROM finder WHERE prefix >= ?1 ORDER BY prefix, claim";
    let mut statement = conn.prepare_cached(sql)?;
    let mut entries = statement.query([prefix])?;
    let mut found: Vec<i64> = said.iter().filter(|(_, there)| *there).map(|(row, _)| *row).collect();
    while let Some(entry) = entries.next()? {
        let entry = read(entry)?;
        if entry.prefix < prefix {
            return Err(out_of_order());
        }
        if entry.prefix > prefix {
            break;
        }
        if said.iter().all(|(row, _)| *row != entry.row) {
            found.push(entry.row);
        }
    }
    Ok(found)
}

/// Makes sure that a claim which was not found is really absent.
///
/// A damaged entry would be next to where the claim's own should be: either it is the claim's own, or it has
/// led the search astray, which then ends beside it. [`rows`] has looked at the entry behind; here is the one
/// in front.
pub(super) fn check_absent(conn: &Connection, prefix: i64) -> Result<(), Fault> {
    let sql =
        "SELECT prefix, claim, crc FROM finder WHERE prefix < ?1 ORDER BY prefix DESC, claim DESC LIMIT 1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut entries = statement.query([prefix])?;
    match entries.next()?.map(read).transpose()? {
        Some(entry) if entry.prefix >= prefix => Err(out_of_order()),
        _ => Ok(()),
    }
}

/// Entries after one, in order.
pub(super) fn some(conn: &Connection, after: Option<Entry>, limit: i64) -> Result<Vec<Entry>, Fault> {
    let sql = "SELECT prefix, claim, crc FROM finder WHERE (prefix, claim) > (?1, ?2) ORDER BY prefix, claim LIMIT ?3";
    let after = after.unwrap_or(Entry { prefix: i64::MIN, row: i64::MIN });
    let mut statement = conn.prepare_cached(sql)?;
    let mut entries = statement.query([after.prefix, after.row, limit])?;
    let mut some = Vec::new();
    while let Some(entry) = entries.next()? {
        some.push(read(entry)?);
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
