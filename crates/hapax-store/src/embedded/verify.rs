//! Reading everything to see whether it is what was written.
//!
//! Rows are read in chunks, each in a read of its own, so that a verification beside a running server does
//! not keep the server's log from starting anew for long.

use hapax_core::journal::Stream;
use hapax_core::{Counts, Error, StateName};
use rusqlite::{Connection, Row, params};

use super::fault::{Fault, damaged};
use super::reader::Reader;
use super::rows::{Columns, state_of, unsigned};
use super::schema::{self, Meta};
use super::shelf;
use super::{audit, claims, session, shared, streams};
use crate::{filter, limits};

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// Records that were read.
    pub records: u64,
    /// Records that are not what was written.
    pub bad: u64,
    /// What the first of them are, for the operator.
    pub first_bad: Vec<String>,
}

impl Verification {
    /// Whether everything is as it was written.
    pub fn is_sound(&self) -> bool {
        self.bad == 0
    }

    fn note(&mut self, found: Result<(), Fault>) -> Result<(), Fault> {
        self.records += 1;
        match found {
            Ok(()) => Ok(()),
            Err(Fault::Command(error)) => {
                self.bad += 1;
                if self.first_bad.len() < limits::BAD_RECORDS_NAMED {
                    self.first_bad.push(error.detail().unwrap_or(error.message()).to_owned());
                }
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }
}

/// Rows that are read at once.
const CHUNK: i64 = 5_000;

/// Verifies everything.
pub(super) fn verify(reader: &Reader) -> Result<Verification, Fault> {
    let conn = &reader.conn;
    let mut found = Verification::default();
    schema::check_version(conn)?;
    found.note(Meta::read(conn).map(|_| ()))?;
    verify_claims(conn, &mut found)?;
    verify_streams(conn, &mut found)?;
    each(conn, &mut found, "SELECT id, started_at, last_at, until, ended, crc FROM sessions", |row| {
        session::read(row).map(|_| ())
    })?;
    let sql = "SELECT id, at, verb, actor, reason, operation_id, epoch, before, after, outcome_kind, status, bytes, crc \
               FROM audit";
    each(conn, &mut found, sql, |row| audit::read(row).map(|_| ()))?;
    each(conn, &mut found, "SELECT kind, id, version, updated_at, body, crc FROM documents", |row| {
        shared::read_document(row).map(|_| ())
    })?;
    each(conn, &mut found, "SELECT tenant, project, entity, tickets, closed_by, crc FROM lanes", |row| {
        shared::read_lane_row(row).map(|_| ())
    })?;
    found.note(verify_counts(conn))?;
    Ok(found)
}

/// Reads a small table row by row.
fn each(
    conn: &Connection,
    found: &mut Verification,
    sql: &str,
    check: impl Fn(&Row<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    loop {
        match rows.next() {
            Ok(Some(row)) => found.note(check(row))?,
            Ok(None) => return Ok(()),
            // The table itself is damaged: what follows cannot be reached.
            Err(error) => return found.note(Err(error.into())),
        }
    }
}

/// Every claim with its outcome, its leaves, and its entry in the index that finds it.
fn verify_claims(conn: &Connection, found: &mut Verification) -> Result<(), Fault> {
    let mut after = i64::MIN;
    loop {
        let mut last = None;
        let mut statement = conn.prepare_cached(&claims::select("id > ?1 ORDER BY id LIMIT ?2"))?;
        let mut rows = statement.query(params![after, CHUNK])?;
        loop {
            match rows.next() {
                Ok(Some(row)) => {
                    last = Some(row.get(0)?);
                    found.note(verify_claim(conn, row))?;
                }
                Ok(None) => break,
                Err(error) => return found.note(Err(error.into())),
            }
        }
        match last {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

fn verify_claim(conn: &Connection, row: &Row<'_>) -> Result<(), Fault> {
    let columns = Columns::read(row)?;
    let mut stored = columns.stored()?;
    let (id, identity) = (columns.claim_id()?, stored.identity()?);
    if identity.claim_id() != id {
        return Err(damaged(format_args!("claim row {} belongs to another identity", stored.id)).into());
    }
    claims::complete(conn, &mut stored)?;
    match claims::load(conn, &id)? {
        Some(indexed) if indexed.id == stored.id => Ok(()),
        _ => Err(damaged(format_args!("claim row {} is not found by its digest", stored.id)).into()),
    }
}

/// Every journal from its first event to what its head says.
fn verify_streams(conn: &Connection, found: &mut Verification) -> Result<(), Fault> {
    let mut after = String::new();
    let sql = "SELECT name FROM streams WHERE name > ?1 ORDER BY name LIMIT 1";
    loop {
        let next = conn.prepare_cached(sql)?.query_row([&after], |row| row.get::<_, String>(0));
        let name = match next {
            Ok(name) => name,
            Err(rusqlite::Error::QueryReturnedNoRows) => return Ok(()),
            Err(error) => return found.note(Err(error.into())),
        };
        found.note(verify_stream(conn, &name))?;
        after = name;
    }
}

fn verify_stream(conn: &Connection, name: &str) -> Result<(), Fault> {
    let stream = Stream::new(name).map_err(damaged)?;
    let mut from = 0;
    loop {
        let events = streams::read(conn, &stream, from, 1_000)?;
        if events.is_empty() {
            return Ok(());
        }
        from += events.len() as u64;
    }
}

/// The counts on the shelves against the claims, and the claims against their index, in one view of the
/// store.
fn verify_counts(conn: &Connection) -> Result<(), Fault> {
    conn.execute_batch("BEGIN")?;
    let compared = compare_counts(conn);
    conn.execute_batch("COMMIT")?;
    compared
}

fn compare_counts(conn: &Connection) -> Result<(), Fault> {
    let sql = "SELECT id >> 40, state, count(*) FROM claims NOT INDEXED GROUP BY 1, 2";
    let mut counted = std::collections::HashMap::<i64, Counts>::new();
    let (mut statement, mut all) = (conn.prepare_cached(sql)?, 0);
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (state, number): (StateName, u64) = (state_of(row.get(1)?)?, unsigned(row, 2)?);
        filter::add(counted.entry(row.get(0)?).or_default(), state, number);
        all += number;
    }
    for shelf in shelf::matching(conn, [None; 3], 0)? {
        if counted.remove(&shelf.id).unwrap_or_default() != shelf.counts {
            return Err(damaged(format_args!("the counts of shelf {}", shelf.id)).into());
        }
    }
    let indexed: u64 =
        conn.query_row("SELECT count(*) FROM claims INDEXED BY claims_digest", [], |row| unsigned(row, 0))?;
    if !counted.is_empty() || indexed != all {
        return Err(Error::corrupt("the index of claims does not have every claim").into());
    }
    Ok(())
}
