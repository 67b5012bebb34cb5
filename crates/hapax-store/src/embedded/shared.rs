//! What processes share beside claims: registry documents and lanes (X3).

use bytes::Bytes;
use hapax_core::lane::{Lane, LaneAnswer, LaneCommand, LaneId, Ticket, step};
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{AttemptId, ClaimId, Error, SessionId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::fault::{Fault, damaged};
use super::rows::{fixed, unsigned};
use super::sum::Sum;

const DOCUMENT: &str = "SELECT kind, id, version, updated_at, body, crc FROM documents";

/// Reads a document.
pub(super) fn get(conn: &Connection, id: &DocumentId) -> Result<Option<Document>, Fault> {
    let mut statement = conn.prepare_cached(&format!("{DOCUMENT} WHERE kind = ?1 AND id = ?2"))?;
    let mut rows = statement.query([id.kind(), id.id()])?;
    rows.next()?.map(read_document).transpose()
}

/// Lists documents of a kind.
pub(super) fn list(conn: &Connection, kind: &str, after: &str, limit: usize) -> Result<Vec<Document>, Fault> {
    let sql = format!("{DOCUMENT} WHERE kind = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![kind, after, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        documents.push(read_document(row)?);
    }
    Ok(documents)
}

/// Refuses a writer that has another version in mind.
pub(super) fn expect(conn: &Connection, id: &DocumentId, expected: u64) -> Result<(), Fault> {
    let found = get(conn, id)?.map_or(0, |document| document.version);
    if found == expected {
        return Ok(());
    }
    Err(Error::conflict("the document was written meanwhile")
        .with_detail(format!("expected version {expected}, found {found}"))
        .into())
}

/// Writes a document.
pub(super) fn put(conn: &Connection, document: &Document) -> Result<(), Fault> {
    let sql = "INSERT OR REPLACE INTO documents (kind, id, version, updated_at, body, crc) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    conn.prepare_cached(sql)?.execute(params![
        document.id.kind(),
        document.id.id(),
        document.version.cast_signed(),
        document.updated_at.as_micros(),
        &document.body[..],
        document_sum(document).value(),
    ])?;
    Ok(())
}

/// Deletes a document.
pub(super) fn delete(conn: &Connection, id: &DocumentId) -> Result<(), Fault> {
    conn.prepare_cached("DELETE FROM documents WHERE kind = ?1 AND id = ?2")?
        .execute([id.kind(), id.id()])?;
    Ok(())
}

fn document_sum(document: &Document) -> Sum {
    Sum::of("documents")
        .bytes(document.id.kind().as_bytes())
        .bytes(document.id.id().as_bytes())
        .int(document.version.cast_signed())
        .int(document.updated_at.as_micros())
        .bytes(&document.body)
}

/// Reads a row `kind, id, version, updated_at, body, crc`.
pub(super) fn read_document(row: &Row<'_>) -> Result<Document, Fault> {
    let (kind, id): (String, String) = (row.get(0)?, row.get(1)?);
    let document = Document {
        id: DocumentId::new(kind, id).map_err(damaged)?,
        version: unsigned(row, 2)?,
        updated_at: Timestamp::from_micros(row.get(3)?),
        body: Bytes::from(row.get::<_, Vec<u8>>(4)?),
    };
    document_sum(&document)
        .check(row.get(5)?, || format!("document {:?} of {:?}", document.id.id(), document.id.kind()))?;
    Ok(document)
}

/// A lane command that has been decided and not yet written.
#[derive(Debug)]
pub(super) struct LanePlan {
    after: Option<Lane>,
    pub(super) answer: LaneAnswer,
}

impl LanePlan {
    /// Decides a command.
    pub(super) fn new(
        conn: &Connection,
        id: &LaneId,
        command: &LaneCommand,
        lives: impl Fn(SessionId) -> bool,
    ) -> Result<LanePlan, Fault> {
        let before = read_lane(conn, id)?.unwrap_or_default();
        let (after, answer) = step(&before, command, lives);
        Ok(LanePlan { after: (after != before).then_some(after), answer })
    }

    /// Whether there is anything to write.
    pub(super) fn changes(&self) -> bool {
        self.after.is_some()
    }

    /// Writes it.
    pub(super) fn write(&self, conn: &Connection, id: &LaneId) -> Result<(), Fault> {
        let Some(lane) = &self.after else { return Ok(()) };
        if *lane == Lane::default() {
            let sql = "DELETE FROM lanes WHERE tenant = ?1 AND project = ?2 AND entity = ?3";
            conn.prepare_cached(sql)?.execute([id.tenant.as_str(), id.project.as_str(), &id.entity])?;
            return Ok(());
        }
        let sql = "INSERT OR REPLACE INTO lanes (tenant, project, entity, tickets, closed_by, crc) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let tickets = encode(&lane.tickets);
        let closed_by = lane.closed_by.as_ref().map(|claim| &claim.as_bytes()[..]);
        let names = [id.tenant.as_str(), id.project.as_str(), &id.entity];
        let crc = lane_sum(names, &tickets, closed_by).value();
        conn.prepare_cached(sql)?.execute(params![names[0], names[1], names[2], tickets, closed_by, crc])?;
        Ok(())
    }
}

fn lane_sum(names: [&str; 3], tickets: &[u8], closed_by: Option<&[u8]>) -> Sum {
    names
        .iter()
        .fold(Sum::of("lanes"), |sum, name| sum.bytes(name.as_bytes()))
        .bytes(tickets)
        .opt_bytes(closed_by)
}

fn read_lane(conn: &Connection, id: &LaneId) -> Result<Option<Lane>, Fault> {
    let sql = "SELECT tenant, project, entity, tickets, closed_by, crc FROM lanes \
               WHERE tenant = ?1 AND project = ?2 AND entity = ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([id.tenant.as_str(), id.project.as_str(), &id.entity])?;
    rows.next()?.map(read_lane_row).transpose()
}

/// Reads a row `tenant, project, entity, tickets, closed_by, crc`.
pub(super) fn read_lane_row(row: &Row<'_>) -> Result<Lane, Fault> {
    let names: [String; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
    let tickets: Vec<u8> = row.get(3)?;
    let closed_by: Option<Vec<u8>> = row.get(4)?;
    lane_sum([&names[0], &names[1], &names[2]], &tickets, closed_by.as_deref())
        .check(row.get(5)?, || format!("lane {:?}", names[2]))?;
    Ok(Lane {
        tickets: tickets.chunks(TICKET_BYTES).map(decode).collect::<Result<_, _>>()?,
        closed_by: closed_by.map(|claim| fixed(&claim)).transpose()?.map(ClaimId::from_bytes),
    })
}

const TICKET_BYTES: usize = 24;

fn encode(tickets: &[Ticket]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(tickets.len() * TICKET_BYTES);
    for ticket in tickets {
        bytes.extend(ticket.id.as_bytes());
        bytes.extend(ticket.session.0.to_be_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Result<Ticket, Error> {
    let bytes: [u8; TICKET_BYTES] = fixed(bytes)?;
    let (id, session) = bytes.split_at(16);
    Ok(Ticket {
        id: AttemptId::from_bytes(fixed(id)?),
        session: SessionId(u64::from_be_bytes(fixed(session)?)),
    })
}
