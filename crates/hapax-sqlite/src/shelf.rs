//! Shelves: claims of one tenant, project and operation, side by side, with their counts (L17).
//!
//! A claim's row number is its shelf and its place there, so a listing by scope and operation reads one
//! range. Counts are kept in memory while a batch runs and written once with it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use hapax_core::{Counts, Error, Identity, StateName};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::Fault;
use super::rows::unsigned;
use super::sum::Sum;
use crate::limits;

/// Bits of a claim's row number that count places on a shelf.
const PLACE_BITS: u32 = 40;
/// Places on one shelf.
const PLACES: i64 = 1 << PLACE_BITS;
/// The most shelves there can be.
const MAX_SHELF: i64 = (1 << (62 - PLACE_BITS)) - 1;

/// The shelf of a claim's row.
pub(super) fn shelf_of(claim_row: i64) -> i64 {
    claim_row >> PLACE_BITS
}

/// The row numbers of a shelf: from the first to just before the second.
pub(super) fn rows_of(shelf: i64) -> (i64, i64) {
    (shelf * PLACES, (shelf + 1) * PLACES)
}

#[derive(Debug)]
struct Shelf {
    tenant: String,
    project: String,
    operation: String,
    counts: Counts,
    /// The row of the next claim; 0 until it is known.
    next: i64,
    dirty: bool,
}

/// The shelves that the writer has in memory.
#[derive(Debug, Default)]
pub(super) struct Shelves {
    by_name: HashMap<String, i64>,
    by_id: HashMap<i64, Shelf>,
    /// Held claims on all shelves.
    held: u64,
    scratch: String,
}

impl Shelves {
    /// No shelves, with this many held claims in the store.
    pub(super) fn new(held: u64) -> Self {
        Shelves { held, ..Shelves::default() }
    }

    /// How many claims are held.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Forgets what is in memory, because the batch it belongs to was rolled back or it has grown too large.
    pub(super) fn forget(&mut self, held: u64) {
        *self = Shelves::new(held);
    }

    /// A row number for a new claim.
    pub(super) fn place(&mut self, conn: &Connection, identity: &Identity) -> Result<i64, Fault> {
        let id = self.find(conn, identity)?;
        let Some(shelf) = self.by_id.get_mut(&id) else { return Err(lost()) };
        if shelf.next == 0 {
            let (first, end) = rows_of(id);
            let sql = "SELECT id FROM claims WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT 1";
            let last: Option<i64> =
                conn.prepare_cached(sql)?.query_row([first, end], |row| row.get(0)).optional()?;
            shelf.next = last.unwrap_or(first) + 1;
        }
        let row = shelf.next;
        if shelf_of(row) != id {
            return Err(Error::unavailable("a shelf of the store is full").into());
        }
        shelf.next += 1;
        Ok(row)
    }

    /// Takes note that a claim changed its state; `None` stands for absent.
    pub(super) fn moved(
        &mut self,
        conn: &Connection,
        claim_row: i64,
        from: Option<StateName>,
        to: Option<StateName>,
    ) -> Result<(), Fault> {
        if from == to {
            return Ok(());
        }
        let id = shelf_of(claim_row);
        if let Entry::Vacant(vacant) = self.by_id.entry(id) {
            vacant.insert(load(conn, id)?);
        }
        let Some(shelf) = self.by_id.get_mut(&id) else { return Err(lost()) };
        if let Some(from) = from {
            *count(&mut shelf.counts, from) = count(&mut shelf.counts, from).saturating_sub(1);
            self.held = self.held.saturating_sub(u64::from(from == StateName::Held));
        }
        if let Some(to) = to {
            *count(&mut shelf.counts, to) += 1;
            self.held += u64::from(to == StateName::Held);
        }
        shelf.dirty = true;
        Ok(())
    }

    /// Writes the counts that changed.
    pub(super) fn flush(&mut self, conn: &Connection) -> Result<(), Fault> {
        for (id, shelf) in self.by_id.iter_mut().filter(|(_, shelf)| shelf.dirty) {
            let sql = "UPDATE shelves SET held = ?2, settled = ?3, in_doubt = ?4, released = ?5, crc = ?6 WHERE id = ?1";
            let Counts { held, settled, in_doubt, released } = shelf.counts;
            let crc = shelf.sum(*id).value();
            conn.prepare_cached(sql)?.execute(params![
                id,
                held.cast_signed(),
                settled.cast_signed(),
                in_doubt.cast_signed(),
                released.cast_signed(),
                crc
            ])?;
            shelf.dirty = false;
        }
        Ok(())
    }

    /// Keeps the memory bounded; to be called when nothing is dirty.
    pub(super) fn trim(&mut self) {
        if self.by_id.len() > limits::SHELVES {
            self.forget(self.held);
        }
    }

    fn find(&mut self, conn: &Connection, identity: &Identity) -> Result<i64, Fault> {
        let parts = identity.scope().narrowed(identity.width());
        let names = [parts.tenant(), parts.project(), identity.operation().as_str()];
        self.scratch.clear();
        for name in names {
            self.scratch.push_str(name);
            self.scratch.push('\n');
        }
        if let Some(id) = self.by_name.get(&self.scratch) {
            return Ok(*id);
        }
        let sql = "SELECT id FROM shelves WHERE tenant = ?1 AND project = ?2 AND operation = ?3";
        let known: Option<i64> = conn.prepare_cached(sql)?.query_row(names, |row| row.get(0)).optional()?;
        let id = match known {
            Some(id) => id,
            None => put_up(conn, names)?,
        };
        if let Entry::Vacant(vacant) = self.by_id.entry(id) {
            vacant.insert(load(conn, id)?);
        }
        self.by_name.insert(self.scratch.clone(), id);
        Ok(id)
    }
}

impl Shelf {
    fn sum(&self, id: i64) -> Sum {
        Sum::of("shelves")
            .int(id)
            .bytes(self.tenant.as_bytes())
            .bytes(self.project.as_bytes())
            .bytes(self.operation.as_bytes())
            .int(self.counts.held.cast_signed())
            .int(self.counts.settled.cast_signed())
            .int(self.counts.in_doubt.cast_signed())
            .int(self.counts.released.cast_signed())
    }
}

fn lost() -> Fault {
    Fault::Command(Error::internal("a shelf was lost from memory"))
}

fn count(counts: &mut Counts, state: StateName) -> &mut u64 {
    match state {
        StateName::Held => &mut counts.held,
        StateName::Settled => &mut counts.settled,
        StateName::InDoubt => &mut counts.in_doubt,
        StateName::Released => &mut counts.released,
    }
}

/// Makes a new shelf.
fn put_up(conn: &Connection, [tenant, project, operation]: [&str; 3]) -> Result<i64, Fault> {
    let last: Option<i64> = conn.query_row("SELECT max(id) FROM shelves", [], |row| row.get(0))?;
    let id = last.unwrap_or(0) + 1;
    if id > MAX_SHELF {
        return Err(
            Error::unavailable("the store has no room for another tenant, project or operation").into()
        );
    }
    let shelf = Shelf {
        tenant: tenant.to_owned(),
        project: project.to_owned(),
        operation: operation.to_owned(),
        counts: Counts::default(),
        next: 0,
        dirty: false,
    };
    let sql = "INSERT INTO shelves (id, tenant, project, operation, held, settled, in_doubt, released, crc) \
               VALUES (?1, ?2, ?3, ?4, 0, 0, 0, 0, ?5)";
    conn.prepare_cached(sql)?.execute(params![id, tenant, project, operation, shelf.sum(id).value()])?;
    Ok(id)
}

const SELECT: &str =
    "SELECT id, tenant, project, operation, held, settled, in_doubt, released, crc FROM shelves";

fn load(conn: &Connection, id: i64) -> Result<Shelf, Fault> {
    let mut statement = conn.prepare_cached(&format!("{SELECT} WHERE id = ?1"))?;
    let mut rows = statement.query([id])?;
    match rows.next()? {
        Some(row) => Ok(read(row)?.1),
        None => Err(super::fault::damaged(format_args!("shelf {id} is missing")).into()),
    }
}

fn read(row: &Row<'_>) -> Result<(i64, Shelf), Fault> {
    let id = row.get(0)?;
    let shelf = Shelf {
        tenant: row.get(1)?,
        project: row.get(2)?,
        operation: row.get(3)?,
        counts: Counts {
            held: unsigned(row, 4)?,
            settled: unsigned(row, 5)?,
            in_doubt: unsigned(row, 6)?,
            released: unsigned(row, 7)?,
        },
        next: 0,
        dirty: false,
    };
    shelf.sum(id).check(row.get(8)?, || format!("shelf {id}"))?;
    Ok((id, shelf))
}

/// A shelf as a reader sees it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) id: i64,
    pub(super) counts: Counts,
}

/// The shelves with these names, `None` meaning any, from an id on, in the order of their ids.
pub(super) fn matching(conn: &Connection, names: [Option<&str>; 3], from: i64) -> Result<Vec<Seen>, Fault> {
    let sql = format!(
        "{SELECT} WHERE id >= ?1 AND (?2 IS NULL OR tenant = ?2) AND (?3 IS NULL OR project = ?3) \
         AND (?4 IS NULL OR operation = ?4) ORDER BY id"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![from, names[0], names[1], names[2]])?;
    let mut seen = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, shelf) = read(row)?;
        seen.push(Seen { id, counts: shelf.counts });
    }
    Ok(seen)
}

/// The shelves with these names, `None` meaning any, in the order of their names, after one of them.
pub(super) fn named(
    conn: &Connection,
    names: [Option<&str>; 3],
    after: &[String; 3],
    limit: usize,
) -> Result<Vec<hapax_core::Shelf>, Fault> {
    let sql = format!(
        "{SELECT} WHERE (tenant, project, operation) > (?1, ?2, ?3) AND (?4 IS NULL OR tenant = ?4) \
         AND (?5 IS NULL OR project = ?5) AND (?6 IS NULL OR operation = ?6) ORDER BY tenant, project, operation LIMIT ?7"
    );
    let [tenant, project, operation] = after;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows =
        statement.query(params![tenant, project, operation, names[0], names[1], names[2], limit])?;
    let mut seen = Vec::new();
    while let Some(row) = rows.next()? {
        let Shelf { tenant, project, operation, counts, .. } = read(row)?.1;
        seen.push(hapax_core::Shelf { tenant, project, operation, counts });
    }
    Ok(seen)
}

/// About how many claims there are, as far as the counts can be read.
pub(super) fn claims(conn: &Connection) -> u64 {
    let sql = "SELECT ifnull(sum(held + settled + in_doubt + released), 0) FROM shelves";
    conn.query_row(sql, [], |row| unsigned(row, 0)).unwrap_or(0)
}
