//! Journals in the database (J2).
//!
//! What to write is worked out before anything is written, so that a conflict leaves nothing behind.

use bytes::Bytes;
use hapax_core::journal::{self, Append, Chain, Event, Hash, Head, Stream};
use hapax_core::{Error, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::{Fault, damaged};
use super::rows::{fixed, unsigned};
use super::sum::Sum;

/// Bits of an event's row number that count its place in the stream.
const PLACE_BITS: u32 = 32;
/// The most streams there can be.
const MAX_STREAM: i64 = (1 << (62 - PLACE_BITS)) - 1;

/// Appends that have been decided and not yet written.
#[derive(Debug, Default)]
pub(super) struct Plan(Vec<Planned>);

#[derive(Debug)]
struct Planned {
    stream: Stream,
    /// The stream's row; `None` where it does not exist yet.
    row: Option<i64>,
    head: Head,
    events: Vec<Event>,
}

impl Plan {
    /// Decides the appends of one command, in order; a conflict fails all of them.
    pub(super) fn new(conn: &Connection, writes: &[Append], at: Timestamp) -> Result<Plan, Fault> {
        let mut plan: Vec<Planned> = Vec::with_capacity(writes.len());
        for write in writes {
            match plan.iter_mut().find(|planned| planned.stream == write.stream) {
                Some(planned) => {
                    let (head, events) = journal::append(Some(&planned.head), write, at)?;
                    planned.head = head;
                    planned.events.extend(events);
                }
                None => {
                    let (row, before) = find(conn, &write.stream)?.unzip();
                    let (head, events) = journal::append(before.as_ref(), write, at)?;
                    plan.push(Planned { stream: write.stream.clone(), row, head, events });
                }
            }
        }
        if plan.iter().any(|planned| planned.head.length >= 1 << PLACE_BITS) {
            return Err(Error::invalid("a journal has as many events as it can have").into());
        }
        Ok(Plan(plan))
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes them, and returns the head of the last stream.
    pub(super) fn write(self, conn: &Connection) -> Result<Option<Head>, Fault> {
        let mut last = None;
        for planned in self.0 {
            let row = match planned.row {
                Some(row) => row,
                None => next_stream(conn)?,
            };
            write_head(conn, row, &planned.stream, &planned.head)?;
            for event in &planned.events {
                write_event(conn, row, event)?;
            }
            last = Some(planned.head);
        }
        Ok(last)
    }
}

fn next_stream(conn: &Connection) -> Result<i64, Fault> {
    let sql = "SELECT max(id) FROM streams";
    let last: Option<i64> = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    let next = last.unwrap_or(0) + 1;
    if next > MAX_STREAM {
        return Err(Error::unavailable("the store has no room for another journal").into());
    }
    Ok(next)
}

fn head_sum(row: i64, name: &str, head: &Head) -> Sum {
    Sum::of("streams")
        .int(row)
        .bytes(name.as_bytes())
        .int(head.version.cast_signed())
        .int(head.length.cast_signed())
        .opt_bytes(head.hash.as_ref().map(|hash| &hash.0[..]))
        .bytes(head.status.as_bytes())
        .bytes(&head.checkpoint)
}

fn write_head(conn: &Connection, row: i64, stream: &Stream, head: &Head) -> Result<(), Fault> {
    let sql = "INSERT INTO streams (id, name, version, length, hash, status, checkpoint, crc) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO UPDATE SET version = excluded.version, \
               length = excluded.length, hash = excluded.hash, status = excluded.status, \
               checkpoint = excluded.checkpoint, crc = excluded.crc";
    conn.prepare_cached(sql)?.execute(params![
        row,
        stream.as_str(),
        head.version.cast_signed(),
        head.length.cast_signed(),
        head.hash.as_ref().map(|hash| &hash.0[..]),
        head.status,
        &head.checkpoint[..],
        head_sum(row, stream.as_str(), head).value(),
    ])?;
    Ok(())
}

/// The row and the head of a stream.
pub(super) fn find(conn: &Connection, stream: &Stream) -> Result<Option<(i64, Head)>, Fault> {
    let sql = "SELECT id, name, version, length, hash, status, checkpoint, crc FROM streams WHERE name = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([stream.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (row, _, head) = read_head(row)?;
    Ok(Some((row, head)))
}

/// Reads a row `id, name, version, length, hash, status, checkpoint, crc`.
pub(super) fn read_head(row: &Row<'_>) -> Result<(i64, String, Head), Fault> {
    let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
    let hash: Option<Vec<u8>> = row.get(4)?;
    let head = Head {
        version: unsigned(row, 2)?,
        length: unsigned(row, 3)?,
        hash: hash.map(|hash| fixed(&hash)).transpose()?.map(Hash),
        status: row.get(5)?,
        checkpoint: Bytes::from(row.get::<_, Vec<u8>>(6)?),
    };
    head_sum(id, &name, &head).check(row.get(7)?, || format!("journal {name:?}"))?;
    Ok((id, name, head))
}

fn event_row(stream: i64, seq: u64) -> i64 {
    (stream << PLACE_BITS) | seq.cast_signed()
}

fn event_sum(row: i64, event: &Event) -> Sum {
    Sum::of("events")
        .int(row)
        .bytes(event.kind.as_bytes())
        .int(event.at.as_micros())
        .int(i64::from(event.chain.version()))
        .bytes(&event.hash.0)
        .bytes(&event.payload)
}

fn write_event(conn: &Connection, stream: i64, event: &Event) -> Result<(), Fault> {
    let row = event_row(stream, event.seq);
    let sql =
        "INSERT INTO events (id, kind, at, chain, hash, payload, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    conn.prepare_cached(sql)?.execute(params![
        row,
        event.kind,
        event.at.as_micros(),
        event.chain.version(),
        &event.hash.0[..],
        &event.payload[..],
        event_sum(row, event).value(),
    ])?;
    Ok(())
}

/// Reads events of a stream and checks that each follows the one before it.
pub(super) fn read(conn: &Connection, stream: &Stream, from: u64, limit: usize) -> Result<Vec<Event>, Fault> {
    let Some((row, head)) = find(conn, stream)? else { return Ok(Vec::new()) };
    let limit = head.length.saturating_sub(from).min(limit as u64);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let mut previous = match from.checked_sub(1) {
        Some(before) => Some(hash_at(conn, event_row(row, before))?),
        None => None,
    };
    let sql =
        "SELECT id, kind, at, chain, hash, payload, crc FROM events WHERE id >= ?1 AND id < ?2 ORDER BY id";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([event_row(row, from), event_row(row, from + limit)])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let event = read_event(row)?;
        previous = Some(journal::verify(stream, previous, from + events.len() as u64, &event)?);
        events.push(event);
    }
    let whole = events.len() as u64 == limit;
    let ends = from + limit < head.length || previous == head.hash;
    if whole && ends {
        return Ok(events);
    }
    Err(damaged(format_args!("journal {:?} does not end as its head says", stream.as_str())).into())
}

fn hash_at(conn: &Connection, row: i64) -> Result<Hash, Fault> {
    let sql = "SELECT id, kind, at, chain, hash, payload, crc FROM events WHERE id = ?1";
    let event = conn.prepare_cached(sql)?.query_row([row], |row| Ok(read_event(row))).optional()?;
    match event {
        Some(event) => Ok(event?.hash),
        None => Err(damaged(format_args!("journal event {row} is missing")).into()),
    }
}

fn read_event(row: &Row<'_>) -> Result<Event, Fault> {
    let id: i64 = row.get(0)?;
    let event = Event {
        seq: (id & ((1 << PLACE_BITS) - 1)).cast_unsigned(),
        kind: row.get(1)?,
        at: Timestamp::from_micros(row.get(2)?),
        chain: Chain::from_version(row.get(3)?)?,
        hash: Hash(fixed(&row.get::<_, Vec<u8>>(4)?)?),
        payload: Bytes::from(row.get::<_, Vec<u8>>(5)?),
    };
    event_sum(id, &event).check(row.get(6)?, || format!("journal event {id}"))?;
    Ok(event)
}
