//! Reading everything to see whether it is what was written.
//!
//! Rows are read in chunks, each in a read of its own, so that a verification beside a running server does
//! not keep the server's log from starting anew for long.

use hapax_core::journal::Stream;
use hapax_core::{Counts, Error, StateName};
use hapax_store::parts::filter;
use rusqlite::{Connection, Row, params};

use super::fault::{Fault, damaged};
use super::finder::{self, Entry};
use super::reader::Reader;
use super::recent::Recent;
use super::rows::{Columns, state_of, unsigned};
use super::schema::{self, Meta};
use super::shelf;
use super::{audit, claims, lanes, session, shared, streams};
use crate::limits;

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
    let mut recent = Recent::default();
    verify_claims(reader, &mut recent, &mut found)?;
    verify_streams(conn, &mut found)?;
    each(conn, &mut found, session::SELECT, |row| session::read(row).map(|_| ()))?;
    let sql = "SELECT id, at, verb, actor, reason, operation_id, epoch, before, after, outcome_kind, status, bytes, crc \
               FROM audit";
    each(conn, &mut found, sql, |row| audit::read(row).map(|_| ()))?;
    each(conn, &mut found, "SELECT kind, id, version, updated_at, body, crc FROM documents", |row| {
        shared::read_document(row).map(|_| ())
    })?;
    each(conn, &mut found, lanes::SELECT, |row| lanes::read_row(row).map(|_| ()))?;
    found.note(reader.view_with(&mut recent, |recent| verify_counts(conn, recent)))?;
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
fn verify_claims(reader: &Reader, recent: &mut Recent, found: &mut Verification) -> Result<(), Fault> {
    let mut after = Some(i64::MIN);
    while let Some(last) = after {
        after = reader.view_with(recent, |recent| verify_chunk(&reader.conn, recent, last, found))?;
    }
    Ok(())
}

/// Some claims after a row; the last of them, unless there are no more.
fn verify_chunk(
    conn: &Connection,
    recent: &Recent,
    after: i64,
    found: &mut Verification,
) -> Result<Option<i64>, Fault> {
    let mut last = None;
    let mut statement = conn.prepare_cached(&claims::select("id > ?1 ORDER BY id LIMIT ?2"))?;
    let mut rows = statement.query(params![after, CHUNK])?;
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                last = Some(row.get(0)?);
                found.note(verify_claim(conn, recent, row))?;
            }
            Ok(None) => return Ok(last),
            // The table itself is damaged: what follows cannot be reached.
            Err(error) => return found.note(Err(error.into())).map(|()| None),
        }
    }
}

fn verify_claim(conn: &Connection, recent: &Recent, row: &Row<'_>) -> Result<(), Fault> {
    let columns = Columns::read(row)?;
    let mut stored = columns.stored()?;
    let (id, identity) = (columns.claim_id()?, stored.identity()?);
    if identity.claim_id() != id {
        return Err(damaged(format_args!("claim row {} belongs to another identity", stored.id)).into());
    }
    claims::complete(conn, &mut stored)?;
    match claims::load(conn, &id, &recent.about(finder::prefix(id.as_bytes())))? {
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
            return streams::checkpoint(conn, &stream).map(|_| ());
        }
        from += events.len() as u64;
    }
}

/// The counts on the shelves against the claims, and the claims against their index, in one view of the
/// store.
fn verify_counts(conn: &Connection, recent: &Recent) -> Result<(), Fault> {
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
    let indexed = count_entries(conn, recent)?;
    if !counted.is_empty() || indexed != all {
        return Err(Error::corrupt("the index of claims does not have every claim").into());
    }
    Ok(())
}

/// The entries of the index once it has been told everything.
fn count_entries(conn: &Connection, recent: &Recent) -> Result<u64, Fault> {
    let mut entries: u64 = conn.query_row("SELECT count(*) FROM finder", [], |row| unsigned(row, 0))?;
    for (entry, there) in recent.after(Entry::NONE) {
        match (finder::has(conn, entry)?, there) {
            (false, true) => entries += 1,
            (true, false) => entries -= 1,
            _ => {}
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Embedded;
    use crate::rows::Stored;
    use crate::shelf::Shelves;
    use hapax_core::{
        ClaimRequest, Fingerprint, Identity, Key, Ledger as _, Operation, Outcome, Retention, Scope, Source,
        Width,
    };
    use hapax_store::Options;

    fn named(key: &str) -> Identity {
        let (operation, key) = (Operation::new("pay").unwrap(), Key::new(key).unwrap());
        Identity::new(Source::Header, Scope::local(), Width::Subject, operation, key)
    }

    /// What is found in a store of two claims after its database was changed by a hand that knows how to.
    async fn found_after(change: impl FnOnce(&Connection)) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), Options::default()).unwrap();
        for key in ["one", "two"] {
            let request = ClaimRequest::new(named(key), Fingerprint::of_bytes(b"10"));
            let outcome = Outcome::NotKept { status: 201 };
            store.set(request, outcome, Retention::Forever).await.unwrap();
        }
        assert!(store.verify().await.unwrap().is_sound());
        drop(store);
        change(&Connection::open(folder.path().join("hapax.db")).unwrap());
        let store = Embedded::open(folder.path(), Options::default()).unwrap();
        let found = store.verify().await.unwrap();
        assert_eq!(found.bad, found.first_bad.len() as u64);
        found.first_bad
    }

    /// A claim as it is found in the store.
    fn load(conn: &Connection, key: &str) -> Result<Option<Stored>, Fault> {
        let (mut recent, id) = (Recent::default(), named(key).claim_id());
        recent.catch_up(conn, &Meta::read(conn)?.told)?;
        claims::load(conn, &id, &recent.about(finder::prefix(id.as_bytes())))
    }

    #[tokio::test]
    async fn counts_that_are_whole_and_wrong_are_found() {
        // B8, L17
        let found = found_after(|conn| {
            let mut shelves = Shelves::new(0);
            shelves.moved(conn, shelf::rows_of(1).0, None, Some(StateName::Held)).unwrap();
            shelves.flush(conn).unwrap();
        });
        assert_eq!(found.await, ["the counts of shelf 1"]);
    }

    #[tokio::test]
    async fn a_claim_under_the_digest_of_another_identity_is_found() {
        // B8, K5
        let found = found_after(|conn| {
            let stored = load(conn, "two").unwrap().unwrap();
            claims::remove(conn, &stored).unwrap();
            let (id, identity) = (named("two").claim_id(), named("three").encode());
            claims::insert(conn, stored.id, &id, &stored.claim, &identity, &mut 9).unwrap();
        });
        let found = found.await;
        assert!(found.len() == 1 && found[0].contains("belongs to another identity"), "{found:?}");
    }

    #[tokio::test]
    async fn an_index_that_has_more_than_the_claims_is_found() {
        // B8: a claim that was lost from its table only.
        let found = found_after(|conn| {
            let stored = load(conn, "two").unwrap().unwrap();
            claims::remove(conn, &stored).unwrap();
            let mut shelves = Shelves::new(0);
            shelves.moved(conn, stored.id, Some(StateName::Settled), None).unwrap();
            shelves.flush(conn).unwrap();
        });
        assert_eq!(found.await, ["the index of claims does not have every claim"]);
    }

    #[tokio::test]
    async fn a_claim_that_the_index_takes_for_another_is_found_and_not_believed() {
        // B8: both rows are whole, and each is where the other should be.
        let found = found_after(|conn| {
            let [one, two] = ["one", "two"].map(|key| load(conn, key).unwrap().unwrap());
            for (key, claim, place) in [("one", &one, &two), ("two", &two, &one)] {
                conn.execute("DELETE FROM claims WHERE id = ?1", [place.id]).unwrap();
                let (id, identity) = (named(key).claim_id(), named(key).encode());
                claims::insert(conn, place.id, &id, &claim.claim, &identity, &mut 9).unwrap();
            }
            assert!(load(conn, "one").is_err());
        });
        let found = found.await;
        assert!(found.len() == 2 && found[0].contains("another claim than its index says"), "{found:?}");
    }
}
