//! The audit in the database (L8).

use std::borrow::Cow;

use bytes::Bytes;
use hapax_core::claim::audit::AuditEvent;
use hapax_core::{Epoch, OperationId, Outcome, Page, Timestamp};
use hapax_store::parts::setting::{self, ClaimColumns};
use rusqlite::{Connection, Row, params};

use super::fault::Fault;
use super::rows::{fixed, outcome_bytes, outcome_code, outcome_of, state_code, state_of};
use super::sum::Sum;
use crate::limits;

fn sum(id: i64, event: &AuditEvent) -> Sum {
    let outcome = event.outcome.as_ref();
    let claim = ClaimColumns::from(&event.about);
    Sum::of("audit")
        .int(id)
        .int(event.at.as_micros())
        .bytes(event.verb.as_bytes())
        .bytes(event.actor.as_bytes())
        .bytes(event.reason.as_bytes())
        .bytes(claim.operation_id.as_bytes())
        .int(claim.epoch.packed().cast_signed())
        .int(state_code(claim.before))
        .opt(claim.after.map(state_code))
        .opt(outcome.map(outcome_code))
        .opt(outcome.and_then(status))
        .opt_bytes(bytes_of(event).as_deref())
}

/// An outcome's bytes, or a setting's.
fn bytes_of(event: &AuditEvent) -> Option<Cow<'_, [u8]>> {
    match &event.outcome {
        Some(outcome) => outcome_bytes(outcome).map(|bytes| Cow::Borrowed(&bytes[..])),
        None => setting::bytes(&event.about).map(Cow::Owned),
    }
}

fn status(outcome: &Outcome) -> Option<i64> {
    match outcome {
        Outcome::NotKept { status } => Some(i64::from(*status)),
        _ => None,
    }
}

/// Writes one entry.
pub(super) fn write(conn: &Connection, event: &AuditEvent) -> Result<(), Fault> {
    let last: Option<i64> =
        conn.prepare_cached("SELECT max(id) FROM audit")?.query_row([], |row| row.get(0))?;
    let id = last.unwrap_or(0) + 1;
    let outcome = event.outcome.as_ref();
    let claim = ClaimColumns::from(&event.about);
    let sql = "INSERT INTO audit (id, at, verb, actor, reason, operation_id, epoch, before, after, outcome_kind, status, \
               bytes, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    conn.prepare_cached(sql)?.execute(params![
        id,
        event.at.as_micros(),
        event.verb,
        event.actor,
        event.reason,
        &claim.operation_id.as_bytes()[..],
        claim.epoch.packed().cast_signed(),
        state_code(claim.before),
        claim.after.map(state_code),
        outcome.map(outcome_code),
        outcome.and_then(status),
        bytes_of(event).as_deref(),
        sum(id, event).value(),
    ])?;
    Ok(())
}

/// Reads a row `id, at, verb, actor, reason, operation_id, epoch, before, after, outcome_kind, status, bytes,
/// crc`.
pub(super) fn read(row: &Row<'_>) -> Result<(i64, AuditEvent), Fault> {
    let id = row.get(0)?;
    let bytes: Option<Vec<u8>> = row.get(11)?;
    let claim = ClaimColumns {
        operation_id: OperationId::from_bytes(fixed(&row.get::<_, Vec<u8>>(5)?)?),
        epoch: Epoch::from_packed(row.get::<_, i64>(6)?.cast_unsigned()),
        before: state_of(row.get(7)?)?,
        after: row.get::<_, Option<i64>>(8)?.map(state_of).transpose()?,
    };
    let (about, outcome) = match row.get::<_, Option<i64>>(9)? {
        Some(code) => {
            let outcome = outcome_of(code, row.get(10)?, Bytes::from(bytes.unwrap_or_default()))?;
            (claim.about(None)?, Some(outcome))
        }
        None => (claim.about(bytes.as_deref())?, None),
    };
    let event = AuditEvent {
        at: Timestamp::from_micros(row.get(1)?),
        verb: row.get(2)?,
        actor: row.get(3)?,
        reason: row.get(4)?,
        about,
        outcome,
    };
    sum(id, &event).check(row.get(12)?, || format!("audit entry {id}"))?;
    Ok((id, event))
}

/// Destroys the outcomes of this operation that are kept here (B9). An entry that is damaged loses its outcome as well,
/// and stays damaged: a claim must not be held up by what was written about it.
pub(super) fn forget(conn: &Connection, operation: OperationId) -> Result<(), Fault> {
    let sql = "SELECT id, at, verb, actor, reason, operation_id, epoch, before, after, outcome_kind, status, bytes, crc \
               FROM audit WHERE operation_id = ?1 AND outcome_kind <> 6";
    let (mut statement, mut kept) = (conn.prepare_cached(sql)?, Vec::new());
    let mut rows = statement.query([&operation.as_bytes()[..]])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        kept.push(match read(row) {
            Ok((_, event)) => (id, Some(AuditEvent { outcome: Some(Outcome::Erased), ..event })),
            Err(Fault::Command(_)) => (id, None),
            Err(fault) => return Err(fault),
        });
    }
    let sql = "UPDATE audit SET outcome_kind = 6, status = NULL, bytes = NULL, crc = coalesce(?2, crc) WHERE id = ?1";
    for (id, event) in kept {
        let crc = event.map(|event| sum(id, &event).value());
        conn.prepare_cached(sql)?.execute(params![id, crc])?;
    }
    Ok(())
}

/// Whether an outcome of this operation is kept here.
pub(super) fn has_set_aside(conn: &Connection, operation: OperationId) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM audit WHERE operation_id = ?1 AND outcome_kind <> 6)";
    Ok(conn.prepare_cached(sql)?.query_row([&operation.as_bytes()[..]], |row| row.get(0))?)
}

/// One page, newest first, of the entries before `before`.
pub(super) fn page(conn: &Connection, before: i64, limit: usize) -> Result<Page<AuditEvent>, Fault> {
    let sql = "SELECT id, at, verb, actor, reason, operation_id, epoch, before, after, outcome_kind, status, bytes, crc \
               FROM audit WHERE id < ?1 ORDER BY id DESC";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([before])?;
    let mut page = Page::new(Vec::new(), None);
    let (mut last, mut bytes) = (before, 0);
    while let Some(row) = rows.next()? {
        if page.items.len() == limit || bytes > limits::PAGE_BYTES {
            page.next = Some(last.to_string());
            break;
        }
        let (id, event) = read(row)?;
        bytes += event.outcome.as_ref().map_or(0, Outcome::len);
        last = id;
        page.items.push(event);
    }
    Ok(page)
}
