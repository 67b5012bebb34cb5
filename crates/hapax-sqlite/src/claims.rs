//! Claims in the database: reading, adding, changing and removing one.

use std::sync::LazyLock;

use bytes::Bytes;
use hapax_core::{Claim, ClaimId, Leaves, State};
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::{Fault, damaged};
use super::finder::{self, Said};
use super::rows::{COLUMNS, Columns, Stored, outcome_bytes, unsigned};
use super::sum;

/// Reads a claim with everything that belongs to it. `said` is what was noted lately about digests that begin
/// like this one.
pub(super) fn load(conn: &Connection, claim: &ClaimId, said: &Said) -> Result<Option<Stored>, Fault> {
    let prefix = finder::prefix(claim.as_bytes());
    for row in finder::rows(conn, prefix, said)? {
        let (digest, mut stored) = load_row(conn, row, prefix)?;
        if digest == *claim {
            complete(conn, &mut stored)?;
            return Ok(Some(stored));
        }
    }
    Ok(None)
}

/// The claim in a row to which the index leads from the beginning of a digest, without what is in other tables.
pub(super) fn load_row(conn: &Connection, id: i64, prefix: i64) -> Result<(ClaimId, Stored), Fault> {
    let mut statement = conn.prepare_cached(&BY_ID)?;
    let mut rows = statement.query([id])?;
    let Some(row) = rows.next()? else {
        return Err(damaged(format_args!("claim row {id} is not where its index says")).into());
    };
    let columns = Columns::read(row)?;
    if finder::prefix(columns.digest) != prefix {
        return Err(damaged(format_args!("claim row {id} is another claim than its index says")).into());
    }
    Ok((columns.claim_id()?, columns.stored()?))
}

static BY_ID: LazyLock<String> = LazyLock::new(|| select("id = ?1"));

/// Adds what is in other tables: the outcome's bytes and the leaves.
pub(super) fn complete(conn: &Connection, stored: &mut Stored) -> Result<(), Fault> {
    if let Some(row) = stored.outcome_row() {
        put_bytes(&mut stored.claim, read_outcome(conn, row, stored.id)?)?;
    }
    if stored.leaves {
        stored.claim.leaves = Some(read_leaves(conn, stored.id)?);
    }
    Ok(())
}

fn put_bytes(claim: &mut Claim, bytes: Bytes) -> Result<(), Fault> {
    use hapax_core::Outcome::{Refused, Succeeded};
    match &mut claim.state {
        State::Settled { outcome: Succeeded(kept) | Refused(kept), .. } => *kept = bytes,
        _ => return Err(damaged("a claim without an outcome has an outcome's bytes").into()),
    }
    Ok(())
}

fn read_outcome(conn: &Connection, id: i64, claim: i64) -> Result<Bytes, Fault> {
    let sql = "SELECT bytes, crc FROM outcomes WHERE id = ?1";
    let found: Option<(Vec<u8>, i64)> =
        conn.prepare_cached(sql)?.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    match found {
        Some((bytes, crc)) if sum::of_bytes("outcomes", [id, claim], &bytes) == crc => Ok(bytes.into()),
        Some(_) => Err(damaged(format_args!("checksum of outcome {id}")).into()),
        None => Err(damaged(format_args!("outcome {id} is missing")).into()),
    }
}

fn read_leaves(conn: &Connection, claim: i64) -> Result<Leaves, Fault> {
    let sql = "SELECT bytes, crc FROM leaves WHERE claim = ?1";
    let found: Option<(Vec<u8>, i64)> =
        conn.prepare_cached(sql)?.query_row([claim], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    match found {
        Some((bytes, crc)) if sum::of_bytes("leaves", [claim, 0], &bytes) == crc => {
            Ok(Leaves::from_bytes(bytes)?)
        }
        Some(_) => Err(damaged(format_args!("checksum of the leaves of claim row {claim}")).into()),
        None => Err(damaged(format_args!("the leaves of claim row {claim} are missing")).into()),
    }
}

/// Writes a claim that has no row yet, and returns the number in its column `outcome`.
pub(super) fn insert(
    conn: &Connection,
    row: i64,
    id: &ClaimId,
    claim: &Claim,
    identity: &[u8],
    outcomes: &mut i64,
) -> Result<i64, Fault> {
    let outcome = write_outcome(conn, row, claim, outcomes)?.unwrap_or(-*outcomes - 1);
    let c = Columns::new(row, id, claim, outcome, identity);
    let sql = "INSERT INTO claims (id, digest, state, due, epoch, attempt, operation_id, recipe, fingerprint, session, \
               opened_at, granted_at, rerun, quiet, max_run, give_up, doubt_after, doubt_then, earlier, since, \
               until, why, asked_at, outcome_kind, status, outcome, leaves, identity, cause, crc) VALUES (?1, ?2, ?3, ?4, ?5, \
               ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, \
               ?27, ?28, ?29, ?30)";
    conn.prepare_cached(sql)?.execute(params![
        c.id,
        c.digest,
        c.state,
        c.due,
        c.epoch,
        c.attempt,
        c.operation_id,
        c.recipe,
        c.fingerprint,
        c.session,
        c.opened_at,
        c.granted_at,
        c.rerun,
        c.quiet,
        c.max_run,
        c.give_up,
        c.doubt_after,
        c.doubt_then,
        c.earlier,
        c.since,
        c.until,
        c.why,
        c.asked_at,
        c.outcome_kind,
        c.status,
        c.outcome,
        c.leaves,
        c.identity,
        c.cause,
        c.sum().value(),
    ])?;
    write_leaves(conn, row, claim)?;
    Ok(outcome)
}

/// Changes the row of a claim. What identifies it and what was first asked never change.
pub(super) fn update(
    conn: &Connection,
    before: &Stored,
    id: &ClaimId,
    claim: &Claim,
    outcomes: &mut i64,
) -> Result<(), Fault> {
    let outcome = if same_outcome(&before.claim, claim) {
        before.outcome
    } else {
        remove_outcome(conn, before)?;
        write_outcome(conn, before.id, claim, outcomes)?.unwrap_or(-before.outcome.abs())
    };
    if before.claim.leaves != claim.leaves {
        conn.prepare_cached("DELETE FROM leaves WHERE claim = ?1")?.execute([before.id])?;
        write_leaves(conn, before.id, claim)?;
    }
    let c = Columns::new(before.id, id, claim, outcome, &before.identity);
    let sql = "UPDATE claims SET state = ?2, due = ?3, epoch = ?4, attempt = ?5, session = ?6, granted_at = ?7, \
               rerun = ?8, quiet = ?9, max_run = ?10, give_up = ?11, doubt_after = ?12, doubt_then = ?13, \
               earlier = ?14, since = ?15, until = ?16, why = ?17, asked_at = ?18, outcome_kind = ?19, \
               status = ?20, outcome = ?21, leaves = ?22, cause = ?23, crc = ?24 WHERE id = ?1";
    let changed = conn.prepare_cached(sql)?.execute(params![
        c.id,
        c.state,
        c.due,
        c.epoch,
        c.attempt,
        c.session,
        c.granted_at,
        c.rerun,
        c.quiet,
        c.max_run,
        c.give_up,
        c.doubt_after,
        c.doubt_then,
        c.earlier,
        c.since,
        c.until,
        c.why,
        c.asked_at,
        c.outcome_kind,
        c.status,
        c.outcome,
        c.leaves,
        c.cause,
        c.sum().value(),
    ])?;
    if changed == 1 {
        Ok(())
    } else {
        Err(damaged(format_args!("claim row {} is not where it was", before.id)).into())
    }
}

/// Removes a claim and what belongs to it.
pub(super) fn remove(conn: &Connection, stored: &Stored) -> Result<(), Fault> {
    remove_outcome(conn, stored)?;
    if stored.leaves {
        conn.prepare_cached("DELETE FROM leaves WHERE claim = ?1")?.execute([stored.id])?;
    }
    conn.prepare_cached("DELETE FROM claims WHERE id = ?1")?.execute([stored.id])?;
    Ok(())
}

fn remove_outcome(conn: &Connection, stored: &Stored) -> Result<(), Fault> {
    if let Some(row) = stored.outcome_row() {
        conn.prepare_cached("DELETE FROM outcomes WHERE id = ?1")?.execute([row])?;
    }
    Ok(())
}

fn same_outcome(before: &Claim, after: &Claim) -> bool {
    match (&before.state, &after.state) {
        (State::Settled { outcome: before, .. }, State::Settled { outcome: after, .. }) => before == after,
        (State::Settled { .. }, _) | (_, State::Settled { .. }) => false,
        _ => true,
    }
}

fn write_outcome(
    conn: &Connection,
    row: i64,
    claim: &Claim,
    outcomes: &mut i64,
) -> Result<Option<i64>, Fault> {
    let State::Settled { outcome, .. } = &claim.state else { return Ok(None) };
    let Some(bytes) = outcome_bytes(outcome) else { return Ok(None) };
    *outcomes += 1;
    let crc = sum::of_bytes("outcomes", [*outcomes, row], bytes);
    let sql = "INSERT INTO outcomes (id, claim, crc, bytes) VALUES (?1, ?2, ?3, ?4)";
    conn.prepare_cached(sql)?.execute(params![*outcomes, row, crc, &bytes[..]])?;
    Ok(Some(*outcomes))
}

fn write_leaves(conn: &Connection, row: i64, claim: &Claim) -> Result<(), Fault> {
    let Some(leaves) = &claim.leaves else { return Ok(()) };
    let bytes = leaves.as_bytes();
    let crc = sum::of_bytes("leaves", [row, 0], bytes);
    let sql = "INSERT INTO leaves (claim, crc, bytes) VALUES (?1, ?2, ?3)";
    conn.prepare_cached(sql)?.execute(params![row, crc, &bytes[..]])?;
    Ok(())
}

/// The row after which outcomes are appended.
pub(super) fn last_outcome(conn: &Connection) -> Result<i64, Fault> {
    let last: Option<i64> = conn.query_row("SELECT max(id) FROM outcomes", [], |row| row.get(0))?;
    Ok(last.unwrap_or(0))
}

/// How many claims are held; reads only those.
pub(super) fn held(conn: &Connection) -> Result<u64, Fault> {
    Ok(conn.query_row(
        "SELECT count(*) FROM claims INDEXED BY claims_open WHERE state = 2 AND state <> 3",
        [],
        |row| unsigned(row, 0),
    )?)
}

/// A query for whole rows of claims.
pub(super) fn select(condition: &str) -> String {
    format!("SELECT {COLUMNS} FROM claims WHERE {condition}")
}

/// A query for whole rows of claims in a state in flight. SQLite must be told that it is one, or it would not
/// use the index of those.
pub(super) fn select_open(state: i64, condition: &str) -> String {
    format!(
        "SELECT {COLUMNS} FROM claims INDEXED BY claims_open WHERE state = {state} AND state <> 3 AND {condition}"
    )
}
