//! Lists and counts, in pages, without reading the whole store (L17).
//!
//! A listing goes shelf by shelf (tenant, project, operation), in the order of grants. The claims that are
//! not settled are few and have a shorter way: those that [`sweep`](super::sweep) has met are in
//! `hapax.unsettled`, and the rest lie between the epochs that `hapax.tally` names. Counts are sums over
//! `hapax.shelves` and `hapax.tally`.

use hapax_core::claim::audit::AuditEvent;
use hapax_core::claim::current;
use hapax_core::limits::MAX_PAGE;
use hapax_core::{
    Counts, Damaged, Epoch, Error, Filter, Now, OperationId, Page, Record, Shelf, State, StateName, Timestamp,
};
use hapax_store::parts::filter;
use hapax_store::parts::setting::ClaimColumns;
use tokio_postgres::Row;

use super::failure::Failure;
use super::link::Link;
use super::row::{Letter, Stored, Uuid, epoch, get, read_outcome, state_name};
use super::session::Standing;
use crate::limits;

/// Rows that are asked for at once.
const CHUNK: usize = 128;

/// How far a listing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    shelf: i32,
    epoch: i64,
}

impl Place {
    const START: Place = Place { shelf: 0, epoch: -1 };

    /// Reads what [`Place::write`] wrote.
    pub(super) fn read(mark: Option<&str>) -> Result<Place, Error> {
        let Some(mark) = mark else { return Ok(Place::START) };
        let parts =
            mark.split_once('.').and_then(|(shelf, epoch)| Some((shelf.parse().ok()?, epoch.parse().ok()?)));
        let (shelf, epoch) = parts.ok_or_else(|| Error::invalid("that is no page mark of this listing"))?;
        Ok(Place { shelf, epoch })
    }

    fn write(self) -> String {
        format!("{}.{}", self.shelf, self.epoch)
    }
}

/// A claim as it stands, time taken into account; `None` when it has become absent.
pub(super) fn record(stored: &Stored, now: &Now) -> Result<Option<Record>, Error> {
    let Some(claim) = current(Some(&stored.claim), now) else { return Ok(None) };
    Ok(Some(Record { identity: stored.identity()?, claim: claim.into_owned() }))
}

/// Columns of a row of the time and the columns of `hapax.standing`.
const EPOCH: usize = 2;
const SHELF: usize = 8;
const OPERATION_ID: usize = 15;

/// Reads a row of the time and the columns of `hapax.standing`.
fn read_row(row: &Row, session: &Standing) -> Result<Option<(Stored, Now)>, Error> {
    let Some(stored) = Stored::read(row, 1)? else { return Ok(None) };
    let time = Timestamp::from_micros(get(row, 0)?);
    let holder = session.judge(time, stored.holder);
    let now = Now { time, next_epoch: Epoch::from_packed(u64::MAX), holder };
    Ok(Some((stored, now)))
}

/// A claim by its public id, whose first bytes are those of the claim's digest.
pub(super) async fn find(
    link: &mut Link,
    operation: OperationId,
    session: &Standing,
) -> Result<Option<Record>, Failure> {
    let mut first = operation.claim_prefix().to_vec();
    let mut last = first.clone();
    first.resize(32, 0);
    last.resize(32, 0xff);
    let sql = "SELECT coalesce($1::bigint, hapax.clock()), st.* FROM hapax.standing st \
               WHERE st.digest BETWEEN $2 AND $3 AND st.operation_id = $4";
    let row = link.query_opt(sql, &[&session.given_time(), &first, &last, &Uuid::from(operation)]).await?;
    let Some((stored, now)) = row.as_ref().map(|row| read_row(row, session)).transpose()?.flatten() else {
        return Ok(None);
    };
    Ok(record(&stored, &now)?)
}

/// One page under way.
struct Gathering<'a> {
    filter: &'a Filter,
    limit: usize,
    items: Vec<Record>,
    damaged: Vec<Damaged>,
    bytes: usize,
    scanned: usize,
    place: Place,
}

impl Gathering<'_> {
    fn is_full(&self) -> bool {
        self.items.len() + self.damaged.len() >= self.limit
            || self.scanned >= limits::PAGE_SCAN
            || self.bytes >= limits::PAGE_BYTES
    }

    fn chunk(&self) -> i64 {
        let wanted = CHUNK.min(limits::PAGE_SCAN.saturating_sub(self.scanned)).max(1);
        i64::try_from(wanted).unwrap_or(1)
    }

    /// Takes rows until the page is full. What cannot be read is named and passed by.
    fn take(&mut self, rows: &[Row], session: &Standing) -> Result<(), Error> {
        for row in rows {
            if self.is_full() {
                break;
            }
            self.scanned += 1;
            self.place = Place { shelf: get(row, SHELF)?, epoch: get(row, EPOCH)? };
            let read = read_row(row, session).and_then(|read| match read {
                Some((stored, now)) => record(&stored, &now),
                None => Ok(None),
            });
            let record = match read {
                Ok(Some(record)) => record,
                Ok(None) => continue,
                Err(error) => {
                    let id: Uuid = get(row, OPERATION_ID)?;
                    let id = OperationId::from_bytes(id.0).to_string();
                    self.damaged.push(Damaged { id, error: format!("{error:#}") });
                    continue;
                }
            };
            if filter::matches(self.filter, &record) {
                if let State::Settled { outcome, .. } = &record.claim.state {
                    self.bytes += outcome.len();
                }
                self.items.push(record);
            }
        }
        Ok(())
    }

    fn into_page(self, more: bool) -> Page<Record> {
        let next = more.then(|| self.place.write());
        Page { items: self.items, next, damaged: self.damaged, looked_at: self.scanned }
    }
}

/// One page of a listing, from a place on.
pub(super) async fn page(
    link: &mut Link,
    filter: &Filter,
    place: Place,
    limit: usize,
    session: &Standing,
) -> Result<Page<Record>, Failure> {
    let limit = limit.clamp(1, MAX_PAGE);
    let newest = filter::newest_first(filter)?;
    let page =
        Gathering { filter, limit, items: Vec::new(), damaged: Vec::new(), bytes: 0, scanned: 0, place };
    if newest {
        return newest_of_shelf(link, page, session).await;
    }
    match filter.state {
        Some(StateName::Held | StateName::InDoubt | StateName::Released) => {
            unsettled(link, page, session).await
        }
        Some(StateName::Settled) | None if filter.tenant.is_some() || filter.operation.is_some() => {
            by_shelf(link, page, session).await
        }
        _ => everything(link, page, session).await,
    }
}

async fn everything(
    link: &mut Link,
    mut page: Gathering<'_>,
    session: &Standing,
) -> Result<Page<Record>, Failure> {
    while !page.is_full() {
        let chunk = page.chunk();
        let rows = link
            .query(EVERYTHING, &[&session.given_time(), &page.place.shelf, &page.place.epoch, &chunk])
            .await?;
        page.take(&rows, session)?;
        if rows.is_empty() {
            return Ok(page.into_page(false));
        }
    }
    Ok(page.into_page(true))
}

const EVERYTHING: &str = "\
    SELECT coalesce($1::bigint, hapax.clock()), st.* FROM hapax.standing st \
    WHERE (st.shelf, st.epoch) > ($2, $3) ORDER BY st.shelf, st.epoch LIMIT $4";

async fn by_shelf(
    link: &mut Link,
    mut page: Gathering<'_>,
    session: &Standing,
) -> Result<Page<Record>, Failure> {
    let Filter { tenant, project, operation, .. } = page.filter;
    let most = i64::try_from(limits::PAGE_SHELVES).unwrap_or(i64::MAX);
    let shelves = link.query(SHELVES, &[tenant, project, operation, &page.place.shelf, &most]).await?;
    for row in &shelves {
        let shelf: i32 = get(row, 0)?;
        if shelf != page.place.shelf {
            page.place = Place { shelf, epoch: -1 };
        }
        loop {
            if page.is_full() {
                return Ok(page.into_page(true));
            }
            let chunk = page.chunk();
            let rows =
                link.query(ONE_SHELF, &[&session.given_time(), &shelf, &page.place.epoch, &chunk]).await?;
            if rows.is_empty() {
                break;
            }
            page.take(&rows, session)?;
        }
        page.place = Place { shelf, epoch: i64::MAX };
    }
    let more = shelves.len() == limits::PAGE_SHELVES;
    Ok(page.into_page(more))
}

const SHELVES: &str = "\
    SELECT id FROM hapax.shelves WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR project = $2) \
        AND ($3::text IS NULL OR operation = $3) AND id >= $4 ORDER BY id LIMIT $5";

const ONE_SHELF: &str = "\
    SELECT coalesce($1::bigint, hapax.clock()), st.* FROM hapax.standing st \
    WHERE st.shelf = $2 AND st.epoch > $3 ORDER BY st.epoch LIMIT $4";

/// The claims of one shelf from the last grant backwards.
async fn newest_of_shelf(
    link: &mut Link,
    mut page: Gathering<'_>,
    session: &Standing,
) -> Result<Page<Record>, Failure> {
    let Filter { tenant, project, operation, state, .. } = page.filter;
    let found = link.query(SHELVES, &[tenant, project, operation, &0_i32, &1_i64]).await?;
    let Some(row) = found.first() else { return Ok(page.into_page(false)) };
    let shelf: i32 = get(row, 0)?;
    if page.place == Place::START {
        page.place = Place { shelf, epoch: i64::MAX };
    }
    let sql = match state {
        Some(StateName::Held | StateName::InDoubt | StateName::Released) => UNSETTLED_NEWEST,
        Some(StateName::Settled) | None => NEWEST,
    };
    while !page.is_full() {
        let chunk = page.chunk();
        let rows = link.query(sql, &[&session.given_time(), &shelf, &page.place.epoch, &chunk]).await?;
        page.take(&rows, session)?;
        if rows.is_empty() {
            return Ok(page.into_page(false));
        }
    }
    Ok(page.into_page(true))
}

const NEWEST: &str = "\
    SELECT coalesce($1::bigint, hapax.clock()), st.* FROM hapax.standing st \
    WHERE st.shelf = $2 AND st.epoch < $3 ORDER BY st.epoch DESC LIMIT $4";

const UNSETTLED_NEWEST: &str = "\
    WITH found AS ( \
        (SELECT c.digest FROM hapax.unsettled u JOIN hapax.claims c ON c.digest = u.digest \
         WHERE u.shelf = $2 AND u.epoch < $3 AND c.epoch < $3 AND c.state <> 'S' ORDER BY u.epoch DESC LIMIT $4) \
        UNION \
        SELECT c.digest FROM hapax.tally t JOIN hapax.claims c ON c.shelf = t.shelf AND c.epoch BETWEEN t.first AND t.last \
         WHERE t.shelf = $2 AND c.state <> 'S' AND c.epoch < $3) \
    SELECT coalesce($1::bigint, hapax.clock()), st.* FROM found f JOIN hapax.standing st ON st.digest = f.digest \
    WHERE st.state <> 'S' AND st.epoch < $3 ORDER BY st.epoch DESC LIMIT $4";

async fn unsettled(
    link: &mut Link,
    mut page: Gathering<'_>,
    session: &Standing,
) -> Result<Page<Record>, Failure> {
    let Filter { tenant, project, operation, .. } = page.filter;
    while !page.is_full() {
        let (chunk, Place { shelf, epoch }) = (page.chunk(), page.place);
        let params: super::link::Params<'_> =
            &[&session.given_time(), &shelf, &epoch, &chunk, tenant, project, operation];
        let rows = link.query(UNSETTLED, params).await?;
        page.take(&rows, session)?;
        if rows.is_empty() {
            return Ok(page.into_page(false));
        }
    }
    Ok(page.into_page(true))
}

/// What the sweeper has met and is still not settled, and what it has not met yet.
const UNSETTLED: &str = "\
    WITH found AS ( \
        (SELECT c.digest FROM hapax.unsettled u JOIN hapax.claims c ON c.digest = u.digest \
            JOIN hapax.shelves s ON s.id = u.shelf \
         WHERE (u.shelf, u.epoch) > ($2, $3) AND c.state <> 'S' AND ($5::text IS NULL OR s.tenant = $5) \
            AND ($6::text IS NULL OR s.project = $6) AND ($7::text IS NULL OR s.operation = $7) \
         ORDER BY u.shelf, u.epoch LIMIT $4) \
        UNION \
        SELECT c.digest FROM hapax.tally t JOIN hapax.shelves s ON s.id = t.shelf \
            JOIN hapax.claims c ON c.shelf = t.shelf AND c.epoch BETWEEN t.first AND t.last \
         WHERE c.state <> 'S' AND (c.shelf, c.epoch) > ($2, $3) AND ($5::text IS NULL OR s.tenant = $5) \
            AND ($6::text IS NULL OR s.project = $6) AND ($7::text IS NULL OR s.operation = $7)) \
    SELECT coalesce($1::bigint, hapax.clock()), st.* FROM found f JOIN hapax.standing st ON st.digest = f.digest \
    WHERE st.state <> 'S' AND (st.shelf, st.epoch) > ($2, $3) ORDER BY st.shelf, st.epoch LIMIT $4";

/// How many claims there are, by the state that is stored.
pub(super) async fn count(link: &mut Link, filter: &Filter) -> Result<Counts, Failure> {
    let row = link.query_one(COUNT, &[&filter.tenant, &filter.project, &filter.operation]).await?;
    let mut counts = Counts::default();
    for (column, state) in StateName::ALL.into_iter().enumerate() {
        let number: i64 = get(&row, column)?;
        if filter.state.is_none_or(|wanted| wanted == state) {
            filter::add(&mut counts, state, u64::try_from(number).unwrap_or(0));
        }
    }
    Ok(counts)
}

/// Both tables in one statement, so that what the sweeper folds is counted once.
const COUNT: &str = "\
    SELECT coalesce(sum(n.held), 0)::bigint, coalesce(sum(n.settled), 0)::bigint, coalesce(sum(n.in_doubt), 0)::bigint, \
        coalesce(sum(n.released), 0)::bigint \
    FROM ( \
        SELECT s.held, s.settled, s.in_doubt, s.released FROM hapax.shelves s \
        WHERE ($1::text IS NULL OR s.tenant = $1) AND ($2::text IS NULL OR s.project = $2) \
            AND ($3::text IS NULL OR s.operation = $3) \
        UNION ALL \
        SELECT t.held, t.settled, t.in_doubt, t.released FROM hapax.tally t JOIN hapax.shelves s ON s.id = t.shelf \
        WHERE ($1::text IS NULL OR s.tenant = $1) AND ($2::text IS NULL OR s.project = $2) \
            AND ($3::text IS NULL OR s.operation = $3)) n";

/// Shelves in the order of their names, after one of them.
pub(super) async fn shelves(
    link: &mut Link,
    filter: &Filter,
    after: &[String; 3],
    limit: usize,
) -> Result<Page<Shelf>, Failure> {
    let limit = limit.clamp(1, MAX_PAGE);
    let (Filter { tenant, project, operation, .. }, [a, b, c]) = (filter, after);
    let one_more = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    let rows = link.query(NAMED_SHELVES, &[tenant, project, operation, a, b, c, &one_more]).await?;
    let number = |row: &Row, column| get::<i64>(row, column).map(|number| u64::try_from(number).unwrap_or(0));
    let shelf = |row: &Row| -> Result<Shelf, Error> {
        let counts = Counts {
            held: number(row, 3)?,
            settled: number(row, 4)?,
            in_doubt: number(row, 5)?,
            released: number(row, 6)?,
        };
        Ok(Shelf { tenant: get(row, 0)?, project: get(row, 1)?, operation: get(row, 2)?, counts })
    };
    let items: Vec<Shelf> = rows.iter().take(limit).map(shelf).collect::<Result<_, Error>>()?;
    let next = items.last().filter(|_| rows.len() > limit).map(Shelf::mark);
    Ok(Page::new(items, next))
}

/// Both tables in one statement, as for a count.
const NAMED_SHELVES: &str = "\
    SELECT s.tenant, s.project, s.operation, (s.held + coalesce(sum(t.held), 0))::bigint, \
        (s.settled + coalesce(sum(t.settled), 0))::bigint, (s.in_doubt + coalesce(sum(t.in_doubt), 0))::bigint, \
        (s.released + coalesce(sum(t.released), 0))::bigint \
    FROM (SELECT * FROM hapax.shelves WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR project = $2) \
            AND ($3::text IS NULL OR operation = $3) \
            AND (tenant COLLATE \"C\", project COLLATE \"C\", operation COLLATE \"C\") > ($4::text, $5::text, $6::text) \
          ORDER BY tenant COLLATE \"C\", project COLLATE \"C\", operation COLLATE \"C\" LIMIT $7) s \
        LEFT JOIN hapax.tally t ON t.shelf = s.id \
    GROUP BY s.id, s.tenant, s.project, s.operation, s.held, s.settled, s.in_doubt, s.released \
    ORDER BY s.tenant COLLATE \"C\", s.project COLLATE \"C\", s.operation COLLATE \"C\"";

/// The audit, newest first, before an entry (0: from the newest on).
pub(super) async fn audit(link: &mut Link, before: u64, limit: usize) -> Result<Page<AuditEvent>, Failure> {
    let before = i64::try_from(before).ok().filter(|before| *before > 0).unwrap_or(i64::MAX);
    let limit = limit.clamp(1, MAX_PAGE);
    let one_more = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    let sql = "SELECT seq, at, verb, actor, reason, operation_id, epoch, before, after, kind, status, bytes \
               FROM hapax.audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2";
    let rows = link.query(sql, &[&before, &one_more]).await?;
    let shown = &rows[..rows.len().min(limit)];
    let last: Option<i64> = shown.last().map(|row| get(row, 0)).transpose()?;
    let next = last.filter(|_| rows.len() > limit).map(|seq| seq.to_string());
    Ok(Page::new(shown.iter().map(read_audit).collect::<Result<_, Error>>()?, next))
}

/// Whether the audit keeps an outcome of this operation.
pub(super) async fn has_set_aside(link: &mut Link, operation: OperationId) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT FROM hapax.audit WHERE operation_id = $1 AND kind <> 'E')";
    Ok(get(&link.query_one(sql, &[&Uuid::from(operation)]).await?, 0)?)
}

fn read_audit(row: &Row) -> Result<AuditEvent, Error> {
    let operation: Uuid = get(row, 5)?;
    let kind: Option<Letter> = get(row, 9)?;
    let bytes: Option<&[u8]> = get(row, 11)?;
    let status = get(row, 10)?;
    let claim = ClaimColumns {
        operation_id: OperationId::from_bytes(operation.0),
        epoch: epoch(get(row, 6)?),
        before: state_name(get(row, 7)?)?,
        after: get::<Option<Letter>>(row, 8)?.map(state_name).transpose()?,
    };
    Ok(AuditEvent {
        at: Timestamp::from_micros(get(row, 1)?),
        verb: get(row, 2)?,
        actor: get(row, 3)?,
        reason: get(row, 4)?,
        about: claim.about(bytes.filter(|_| kind.is_none()))?,
        outcome: kind.map(|kind| read_outcome(kind, status, None, bytes)).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_mark_comes_back_and_anything_else_is_refused() {
        let place = Place { shelf: 7, epoch: i64::MAX };
        assert_eq!(Place::read(Some(&place.write())).unwrap(), place);
        assert_eq!(Place::read(None).unwrap(), Place::START);
        for mark in ["", "7", "7.", "a.b", "7.1.2"] {
            assert!(Place::read(Some(mark)).is_err(), "{mark}");
        }
    }
}
