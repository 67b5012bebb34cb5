//! The registry: documents changed by compare-and-set on their version.

use hapax_core::Error;
use hapax_core::Timestamp;
use hapax_core::claim::audit::{Note, Setting};
use hapax_core::registry::{Document, DocumentId};
use tokio_postgres::Row;

use super::change::write_audit;
use super::failure::Failure;
use super::link::Link;
use super::row::get;

const COLUMNS: &str =
    "SELECT kind, id, version, updated_at, body FROM hapax.documents WHERE kind = $1 AND id = $2";

/// Reads a document.
pub(super) async fn read(link: &mut Link, id: &DocumentId) -> Result<Option<Document>, Failure> {
    let row = link.query_opt(COLUMNS, &[&id.kind(), &id.id()]).await?;
    Ok(row.as_ref().map(document).transpose()?)
}

/// Writes a document that has this version.
pub(super) async fn put(
    link: &mut Link,
    id: &DocumentId,
    expect: u64,
    body: &[u8],
    given_time: Option<i64>,
    setting: Option<&Setting>,
) -> Result<u64, Failure> {
    let expected = i64::try_from(expect).map_err(|_| conflict())?;
    let sql = if expect == 0 {
        "INSERT INTO hapax.documents (kind, id, version, updated_at, body) \
         VALUES ($1, $2, $3::bigint + 1, coalesce($5::bigint, hapax.clock()), $4) \
         ON CONFLICT DO NOTHING RETURNING version"
    } else {
        "UPDATE hapax.documents SET version = version + 1, updated_at = coalesce($5::bigint, hapax.clock()), body = $4 \
         WHERE kind = $1 AND id = $2 AND version = $3 RETURNING version"
    };
    link.begin("SELECT", &[]).await?;
    let row = link.query_opt(sql, &[&id.kind(), &id.id(), &expected, &body, &given_time]).await?;
    let version: i64 = get(&row.ok_or_else(conflict)?, 0)?;
    note(link, setting, given_time).await?;
    link.commit().await?;
    Ok(version.cast_unsigned())
}

/// Writes down, in the same transaction, who wants it so.
async fn note(link: &mut Link, setting: Option<&Setting>, given_time: Option<i64>) -> Result<(), Failure> {
    let Some(setting) = setting else { return Ok(()) };
    let row = link.query_one("SELECT coalesce($1::bigint, hapax.clock())", &[&given_time]).await?;
    write_audit(link, &setting.clone().event(Timestamp::from_micros(get(&row, 0)?))).await
}

/// Writes an entry of the audit, and changes nothing else.
pub(super) async fn write_down(link: &mut Link, note: &Note, given_time: Option<i64>) -> Result<(), Failure> {
    link.begin("SELECT", &[]).await?;
    let row = link.query_one("SELECT coalesce($1::bigint, hapax.clock())", &[&given_time]).await?;
    write_audit(link, &note.clone().event(Timestamp::from_micros(get(&row, 0)?))).await?;
    link.commit().await
}

/// Deletes a document that has this version.
pub(super) async fn delete(
    link: &mut Link,
    id: &DocumentId,
    expect: u64,
    given_time: Option<i64>,
    setting: Option<&Setting>,
) -> Result<(), Failure> {
    let expected = i64::try_from(expect).map_err(|_| conflict())?;
    link.begin("SELECT", &[]).await?;
    if expect == 0 {
        // "It does not exist" is true or it is not; either way there is nothing to delete.
        return if read(link, id).await?.is_none() { Ok(()) } else { Err(conflict().into()) };
    }
    let sql = "DELETE FROM hapax.documents WHERE kind = $1 AND id = $2 AND version = $3 RETURNING version";
    link.query_opt(sql, &[&id.kind(), &id.id(), &expected]).await?.ok_or_else(conflict)?;
    note(link, setting, given_time).await?;
    link.commit().await
}

/// Documents of a kind, by id.
pub(super) async fn list(
    link: &mut Link,
    kind: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Document>, Failure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = link
        .query(
            "SELECT kind, id, version, updated_at, body FROM hapax.documents \
             WHERE kind = $1 AND id > coalesce($2, '') ORDER BY id LIMIT $3",
            &[&kind, &after, &limit],
        )
        .await?;
    Ok(rows.iter().map(document).collect::<Result<_, Error>>()?)
}

fn document(row: &Row) -> Result<Document, Error> {
    let version: i64 = get(row, 2)?;
    Ok(Document {
        id: DocumentId::new(get::<String>(row, 0)?, get::<String>(row, 1)?)?,
        version: version.cast_unsigned(),
        updated_at: Timestamp::from_micros(get(row, 3)?),
        body: get::<&[u8]>(row, 4)?.to_vec().into(),
    })
}

fn conflict() -> Error {
    Error::conflict("the document was written meanwhile")
}
