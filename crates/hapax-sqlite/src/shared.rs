//! What processes share beside claims and lanes: registry documents.

use bytes::Bytes;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, Timestamp};
use rusqlite::{Connection, Row, params};

use super::fault::{Fault, damaged};
use super::rows::unsigned;
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
