//! Journals in the database: writing what a plan has decided, and reading it back (J2).
//!
//! What to write is worked out before anything is written, so that a conflict leaves nothing behind. How rows are laid out is in
//! `events`.

use hapax_core::journal::{
    Append, Checkpoint, Erasure, Event, Head, Listed, Payload, Stream, StreamFilter, Walk, check_checkpoint,
};
use hapax_core::{Damaged, Error, Kind, Page, SessionId, Timestamp, limits as core_limits};
use hapax_store::parts::plan::{self, Planned, page_start};
use rusqlite::{Connection, params};

use super::events::{
    self, MAX_STREAM, PLACE_BITS, find, made, read_checkpoint, read_event, read_head, write_append,
    write_checkpoint, write_event, write_head,
};
use super::fault::{Fault, damaged};

/// What writes to streams come to; a stream is found by its row.
pub(super) type Plan = plan::Plan<i64>;

/// Decides writes in order; one that is refused refuses all. Gives the head of the last one.
pub(super) fn decide(
    conn: &Connection,
    writes: &[Append],
    at: Timestamp,
    lives: impl Fn(SessionId) -> bool,
) -> Result<(Plan, Option<Head>), Fault> {
    let (mut plan, mut last) = (Plan::default(), None);
    for write in writes {
        if plan.get_mut(&write.stream).is_none() {
            let found = find(conn, &write.stream)?;
            let runner = found.as_ref().and_then(|(_, head)| head.runner);
            let alive = runner.is_some_and(|runner| lives(runner.lease));
            plan.insert(write.stream.clone(), Planned::found(found, alive));
        }
        if let Some(planned) = plan.get_mut(&write.stream)
            && let (Some(row), Some(head)) = (planned.row, &planned.head)
            && let Some(head) = made(conn, row, write.id, head)?
        {
            planned.known.push((write.id, head));
        }
        let head = plan.append(write, at)?;
        if head.length >= 1 << PLACE_BITS {
            return Err(Error::invalid("a journal has as many events as it can have").into());
        }
        last = Some(head);
    }
    Ok((plan, last))
}

/// Whether all of these were written before.
pub(super) fn are_written(conn: &Connection, writes: &[Append]) -> Result<bool, Fault> {
    for write in writes {
        let Some((row, head)) = find(conn, &write.stream)? else { return Ok(false) };
        if made(conn, row, write.id, &head)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes what was decided.
pub(super) fn write(conn: &Connection, plan: Plan) -> Result<(), Fault> {
    for (stream, planned) in plan.into_written() {
        let row = match planned.row {
            Some(row) => row,
            None => next_stream(conn)?,
        };
        let Some(head) = &planned.head else { continue };
        write_head(conn, row, &stream, head)?;
        for event in &planned.events {
            write_event(conn, row, event)?;
        }
        for (id, head) in &planned.made {
            write_append(conn, row, *id, head)?;
        }
        if let (Some(bytes), Some(seq)) = (&planned.checkpoint, head.checkpoint) {
            write_checkpoint(conn, row, &Checkpoint { seq, bytes: Some(bytes.clone()) })?;
        }
    }
    Ok(())
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

/// One view of the store for several reads.
fn in_view<T>(conn: &Connection, read: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    conn.prepare_cached("BEGIN")?.execute([])?;
    let done = read();
    conn.prepare_cached("COMMIT")?.execute([])?;
    done
}

/// A record of a chain that is not what was written breaks the chain there.
fn broken<T>(walk: &Walk, read: Result<T, Fault>) -> Result<T, Fault> {
    read.map_err(|fault| match fault {
        Fault::Command(error) if error.kind() == Kind::Corrupt => {
            walk.broken(error.detail().unwrap_or(error.message())).into()
        }
        other => other,
    })
}

/// Reads events of a stream and checks that each follows the one before it.
pub(super) fn read(conn: &Connection, stream: &Stream, from: u64, limit: usize) -> Result<Vec<Event>, Fault> {
    in_view(conn, || read_within(conn, stream, from, limit.min(core_limits::MAX_PAGE)))
}

fn read_within(conn: &Connection, stream: &Stream, from: u64, limit: usize) -> Result<Vec<Event>, Fault> {
    let Some((row, head)) = find(conn, stream)? else { return Ok(Vec::new()) };
    if from > head.length {
        return Ok(Vec::new());
    }
    let mut walk = walk_from(conn, stream, row, &head, from)?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    let mut statement = conn.prepare_cached(events::FROM)?;
    let mut rows = statement.query([events::row(row, from), events::row(row + 1, 0)])?;
    while events.len() < limit {
        let Some(row) = broken(&walk, rows.next().map_err(Fault::from))? else {
            walk.finish(&head)?;
            break;
        };
        let event = broken(&walk, read_event(row))?;
        bytes += event.payload.bytes().map_or(0, |payload| payload.len());
        if !events.is_empty() && bytes > core_limits::MAX_READ_BYTES {
            break;
        }
        if walk.next() >= head.length {
            return Err(walk.broken("the stream goes on after its end").into());
        }
        walk.step(&event)?;
        events.push(event);
    }
    Ok(events)
}

/// Begins at an event, whose predecessor's hash is taken as it is.
fn walk_from(conn: &Connection, stream: &Stream, row: i64, head: &Head, from: u64) -> Result<Walk, Fault> {
    let Some(before) = from.checked_sub(1) else { return Ok(Walk::new(stream, head.chain)) };
    let event = event_at(conn, stream, row, before)?;
    Ok(Walk::after(stream, head.chain, before, event.hash))
}

fn event_at(conn: &Connection, stream: &Stream, row: i64, seq: u64) -> Result<Event, Fault> {
    let missing = |what: &str| Error::broken_chain(stream.as_str(), seq, what);
    let mut statement = conn.prepare_cached(events::FROM)?;
    let mut rows = statement.query([events::row(row, seq), events::row(row, seq) + 1])?;
    let Some(row) = rows.next()? else { return Err(missing("the event is missing").into()) };
    read_event(row).map_err(|fault| match fault {
        Fault::Command(error) if error.kind() == Kind::Corrupt => {
            missing(error.detail().unwrap_or(error.message())).into()
        }
        other => other,
    })
}

/// A stream's latest checkpoint.
pub(super) fn checkpoint(conn: &Connection, stream: &Stream) -> Result<Option<Checkpoint>, Fault> {
    in_view(conn, || {
        let Some((row, head)) = find(conn, stream)? else { return Ok(None) };
        let Some(seq) = head.checkpoint else { return Ok(None) };
        let broken = |what: &dyn std::fmt::Display| Error::broken_chain(stream.as_str(), seq, what);
        let event = event_at(conn, stream, row, seq)?;
        let checkpoint = match read_checkpoint(conn, row) {
            Ok(Some(checkpoint)) if checkpoint.seq == seq => checkpoint,
            Ok(_) => return Err(broken(&"the checkpoint is missing").into()),
            Err(Fault::Command(error)) if error.kind() == Kind::Corrupt => {
                return Err(broken(&error.detail().unwrap_or(error.message())).into());
            }
            Err(fault) => return Err(fault),
        };
        check_checkpoint(stream, &checkpoint, event.checkpoint)?;
        Ok(Some(checkpoint))
    })
}

/// Streams in the order of their names.
pub(super) fn list(
    conn: &Connection,
    filter: &StreamFilter,
    after: Option<&str>,
    limit: usize,
    lives: impl Fn(SessionId) -> Result<bool, Fault>,
) -> Result<Page<Listed>, Fault> {
    let limit = limit.min(core_limits::MAX_PAGE);
    let (start, most) = (page_start(&filter.prefix, after), i64::try_from(limit).unwrap_or(i64::MAX));
    let mut statement = conn.prepare_cached(match filter.status {
        Some(_) => events::LIST_STATUS,
        None => events::LIST,
    })?;
    let mut rows = match filter.status {
        Some(status) => statement.query(params![start, most + 1, status.as_str()])?,
        None => statement.query(params![start, most + 1])?,
    };
    let (mut page, mut last) = (Page::new(Vec::new(), None), None);
    while let Some(row) = rows.next()? {
        let name: String = row.get(1)?;
        if !name.starts_with(&filter.prefix) {
            return Ok(page);
        }
        if page.items.len() + page.damaged.len() == limit {
            page.next = last;
            return Ok(page);
        }
        match read_head(row).and_then(|(_, name, head)| Ok((Stream::new(name).map_err(damaged)?, head))) {
            Ok((stream, head)) => {
                let lives = head.runner.map_or(Ok(false), |runner| lives(runner.lease))?;
                page.items.push(Listed { stream, head, lives });
            }
            Err(Fault::Command(error)) => {
                let told = error.detail().unwrap_or(error.message()).to_owned();
                page.damaged.push(Damaged { id: name.clone(), error: told });
            }
            Err(fault) => return Err(fault),
        }
        last = Some(name);
    }
    Ok(page)
}

/// Which of a stream's events are to be erased, as they are to be kept.
pub(super) struct Erasing {
    row: i64,
    erased: Vec<Event>,
    /// Whether the checkpoint belongs to one of them.
    checkpoint: Option<u64>,
    next: Option<u64>,
}

/// Looks for the events of a subject.
pub(super) fn erasing(
    conn: &Connection,
    stream: &Stream,
    subject: &str,
    from: u64,
    limit: usize,
) -> Result<Option<Erasing>, Fault> {
    let Some((row, head)) = find(conn, stream)? else { return Ok(None) };
    let limit = limit.min(core_limits::MAX_PAGE) as u64;
    let until = from.saturating_add(limit).min(head.length);
    let mut found = Erasing {
        row,
        erased: Vec::new(),
        checkpoint: None,
        next: Some(until).filter(|at| *at < head.length),
    };
    if from >= until {
        return Ok(Some(found));
    }
    let mut statement = conn.prepare_cached(events::FROM)?;
    let mut rows = statement.query([events::row(row, from), events::row(row, until)])?;
    while let Some(row) = rows.next()? {
        let mut event = read_event(row)?;
        let whose = event.subject.as_ref().or(head.subject.as_ref());
        if whose.is_none_or(|whose| whose != subject) || event.payload.bytes().is_none() {
            continue;
        }
        event.payload = Payload::Erased { digest: event.payload.digest() };
        found.checkpoint = found.checkpoint.or(head.checkpoint.filter(|seq| *seq == event.seq));
        found.erased.push(event);
    }
    Ok(Some(found))
}

impl Erasing {
    /// Whether there is anything to write.
    pub(super) fn is_empty(&self) -> bool {
        self.erased.is_empty()
    }

    /// Destroys the payloads.
    pub(super) fn write(self, conn: &Connection) -> Result<Erasure, Fault> {
        for event in &self.erased {
            write_event(conn, self.row, event)?;
        }
        if let Some(seq) = self.checkpoint {
            write_checkpoint(conn, self.row, &Checkpoint { seq, bytes: None })?;
        }
        Ok(Erasure { erased: self.erased.len() as u64, next: self.next })
    }
}
