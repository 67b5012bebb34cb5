//! Listing and counting without reading the whole store (L17).
//!
//! A listing reads the shelves that the filter allows, in order, and on each of them either everything or,
//! for states in flight, the index of those. One page looks at a bounded number of rows.

use hapax_core::{Counts, Damaged, Filter, Kind, OperationId, Page, Record, Shelf, StateName, Timestamp};
use hapax_store::parts::filter;
use rusqlite::{Connection, params};

use super::claims;
use super::fault::Fault;
use super::reader::Reader;
use super::rows::{Columns, outcome_bytes};
use super::shelf::{self, rows_of, shelf_of};
use crate::limits;

/// One page of the claims that a filter allows, after a row.
pub(super) fn list(
    reader: &Reader,
    wanted: &Filter,
    after: i64,
    limit: usize,
) -> Result<Page<Record>, Fault> {
    let limit = limit.min(hapax_core::limits::MAX_PAGE);
    let newest = filter::newest_first(wanted)?;
    let mut listing = Listing {
        reader,
        wanted,
        newest,
        time: reader.clock.now(),
        limit,
        page: Page::new(Vec::new(), None),
        looked_at: 0,
        bytes: 0,
    };
    let mut after = after;
    for (first, end) in ranges(&reader.conn, wanted, if newest { 0 } else { after })? {
        // The newest first: the mark is what the page ends before. There is one shelf then.
        let end = if newest && after > 0 { end.min(after) } else { end };
        after = if newest { first } else { after.max(first) };
        if listing.walk(after, end)? {
            break;
        }
    }
    listing.page.looked_at = listing.looked_at;
    Ok(listing.page)
}

/// How many claims there are on the shelves that a filter allows.
pub(super) fn count(reader: &Reader, wanted: &Filter) -> Result<Counts, Fault> {
    let mut counts = Counts::default();
    for shelf in shelf::matching(&reader.conn, names(wanted), 0)? {
        for state in StateName::ALL {
            if wanted.state.is_none_or(|wanted| wanted == state) {
                filter::add(&mut counts, state, number(&shelf.counts, state));
            }
        }
    }
    Ok(counts)
}

/// The shelves that a filter allows, in the order of their names.
pub(super) fn shelves(
    reader: &Reader,
    wanted: &Filter,
    after: Option<[String; 3]>,
    limit: usize,
) -> Result<Page<Shelf>, Fault> {
    let after = after.unwrap_or_default();
    let mut items = shelf::named(&reader.conn, names(wanted), &after, limit.saturating_add(1))?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(Shelf::mark);
    Ok(Page::new(items, next))
}

fn number(counts: &Counts, state: StateName) -> u64 {
    match state {
        StateName::Held => counts.held,
        StateName::Settled => counts.settled,
        StateName::InDoubt => counts.in_doubt,
        StateName::Released => counts.released,
    }
}

fn names(wanted: &Filter) -> [Option<&str>; 3] {
    [wanted.tenant.as_deref(), wanted.project.as_deref(), wanted.operation.as_deref()]
}

/// The ranges of rows to look at. With an age in the filter every shelf is one: rows of a shelf are in order
/// of opening.
fn ranges(conn: &Connection, wanted: &Filter, after: i64) -> Result<Vec<(i64, i64)>, Fault> {
    if names(wanted) == [None; 3] && wanted.opened_before.is_none() {
        return Ok(vec![(0, i64::MAX)]);
    }
    let shelves = shelf::matching(conn, names(wanted), shelf_of(after))?;
    Ok(shelves.into_iter().map(|shelf| rows_of(shelf.id)).collect())
}

struct Listing<'a> {
    reader: &'a Reader,
    wanted: &'a Filter,
    newest: bool,
    time: Timestamp,
    limit: usize,
    page: Page<Record>,
    looked_at: usize,
    bytes: usize,
}

impl Listing<'_> {
    /// Walks through the rows after `after` and before `end`, in whichever direction; `true` when the page is done.
    fn walk(&mut self, after: i64, end: i64) -> Result<bool, Fault> {
        let mut statement = self.reader.conn.prepare_cached(&query(self.wanted.state, self.newest))?;
        let mut rows = statement.query(params![after, end])?;
        let mut last = after;
        while let Some(row) = rows.next()? {
            if self.is_full() {
                self.page.next = Some(last.to_string());
                return Ok(true);
            }
            let id = row.get(0)?;
            let columns = match Columns::read(row) {
                Ok(columns) => columns,
                Err(fault) => {
                    (last, self.looked_at) = (id, self.looked_at + 1);
                    self.pass_by(id, row.get_ref(6)?.as_blob().unwrap_or_default(), fault)?;
                    continue;
                }
            };
            let too_young = |before: Timestamp| columns.opened_at >= before.as_micros();
            if !self.newest && self.wanted.opened_before.is_some_and(too_young) {
                return Ok(false);
            }
            (last, self.looked_at) = (id, self.looked_at + 1);
            if let Err(fault) = self.add(&columns) {
                self.pass_by(id, columns.operation_id, fault)?;
            }
        }
        Ok(false)
    }

    fn is_full(&self) -> bool {
        self.page.items.len() + self.page.damaged.len() >= self.limit
            || self.looked_at >= limits::PAGE_SCAN
            || self.bytes > limits::PAGE_BYTES
    }

    /// Names a damaged row, which keeps nobody from the others.
    fn pass_by(&mut self, row: i64, operation: &[u8], fault: Fault) -> Result<(), Fault> {
        let error = match fault {
            Fault::Command(error) if error.kind() == Kind::Corrupt => format!("{error:#}"),
            fault => return Err(fault),
        };
        let operation = operation.try_into().map(OperationId::from_bytes);
        let id = operation.map_or_else(|_| format!("row {row}"), |id| id.to_string());
        self.page.damaged.push(Damaged { id, error });
        Ok(())
    }

    /// Adds a record that is meant; only then is its outcome read.
    fn add(&mut self, columns: &Columns<'_>) -> Result<(), Fault> {
        let mut stored = columns.stored()?;
        let Some(bare) = self.reader.standing(stored.clone(), self.time)? else { return Ok(()) };
        if !filter::matches(self.wanted, &bare) {
            return Ok(());
        }
        claims::complete(&self.reader.conn, &mut stored)?;
        if let hapax_core::State::Settled { outcome, .. } = &stored.claim.state {
            self.bytes += outcome_bytes(outcome).map_or(0, |bytes| bytes.len());
        }
        self.page.items.extend(self.reader.standing(stored, self.time)?);
        Ok(())
    }
}

/// Time may have moved a claim on from the state that is stored, never back.
fn query(state: Option<StateName>, newest: bool) -> String {
    let order = if newest { "ORDER BY id DESC" } else { "ORDER BY id" };
    let states = match state {
        None => return claims::select(&format!("id > ?1 AND id < ?2 {order}")),
        // Nearly everything is settled: an index would not help.
        Some(StateName::Settled) => {
            return claims::select(&format!("id > ?1 AND id < ?2 AND state = 3 {order}"));
        }
        Some(StateName::Held) => &[2][..],
        Some(StateName::InDoubt) => &[2, 4],
        Some(StateName::Released) => &[2, 4, 5],
    };
    let parts = states.iter().map(|state| claims::select_open(*state, "id > ?1 AND id < ?2"));
    format!("{} {order}", parts.collect::<Vec<_>>().join(" UNION ALL "))
}
