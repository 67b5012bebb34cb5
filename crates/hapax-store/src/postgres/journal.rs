//! Journals: streams of events with their heads (J2, L18).

use hapax_core::journal::{self, Append, Chain, Event, Hash, Head, Stream};
use hapax_core::{Error, Timestamp};
use tokio_postgres::Row;

use super::failure::Failure;
use super::link::{Link, Params};
use super::row::{get, unreadable};

/// Where the transaction is in which something is appended: on a connection of the store, or on one of the application's own.
pub(super) trait Within {
    async fn query(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Failure>;
}

impl Within for Link {
    async fn query(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        Link::query(self, sql, params).await
    }
}

/// Appends to streams within the transaction that is open. One write that conflicts refuses all.
pub(super) async fn append_all(
    link: &mut impl Within,
    writes: &[Append],
    at: Timestamp,
) -> Result<Option<Head>, Failure> {
    let mut streams: Vec<&Stream> = writes.iter().map(|write| &write.stream).collect();
    // In order, so that two that write to the same streams wait for each other and do not deadlock.
    streams.sort_unstable();
    streams.dedup();
    for stream in streams {
        lock(link, stream).await?;
    }
    let mut last = None;
    for write in writes {
        last = Some(append(link, write, at).await?);
    }
    Ok(last)
}

/// Locks a stream, making it first where it does not exist; nobody sees it before something is appended.
async fn lock(link: &mut impl Within, stream: &Stream) -> Result<(), Failure> {
    link.query(
        "INSERT INTO hapax.streams (name, version, length, status, checkpoint) VALUES ($1, 0, 0, '', '') \
         ON CONFLICT (name) DO NOTHING",
        &[&stream.as_str()],
    )
    .await?;
    link.query("SELECT FROM hapax.streams WHERE name = $1 FOR UPDATE", &[&stream.as_str()]).await?;
    Ok(())
}

async fn append(link: &mut impl Within, write: &Append, at: Timestamp) -> Result<Head, Failure> {
    let rows = link.query(HEAD, &[&write.stream.as_str()]).await?;
    let row = rows.first().ok_or_else(super::confused)?;
    let (id, head) = (get::<i64>(row, 0)?, read_head(row)?);
    let head = Some(head).filter(|head| head.version > 0);
    let (after, events) = journal::append(head.as_ref(), write, at)?;
    check_text(&after.status)?;
    for event in &events {
        check_text(&event.kind)?;
    }
    let hash = after.hash.map(|hash| hash.0.to_vec());
    link.query(
        "UPDATE hapax.streams SET version = $2, length = $3, hash = $4, status = $5, checkpoint = $6 WHERE id = $1",
        &[
            &id,
            &after.version.cast_signed(),
            &after.length.cast_signed(),
            &hash,
            &after.status,
            &&after.checkpoint[..],
        ],
    )
    .await?;
    write_events(link, id, &events).await?;
    Ok(after)
}

async fn write_events(link: &mut impl Within, stream: i64, events: &[Event]) -> Result<(), Failure> {
    if events.is_empty() {
        return Ok(());
    }
    let seqs: Vec<i64> = events.iter().map(|event| event.seq.cast_signed()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| &event.kind[..]).collect();
    let times: Vec<i64> = events.iter().map(|event| event.at.as_micros()).collect();
    let payloads: Vec<&[u8]> = events.iter().map(|event| &event.payload[..]).collect();
    let hashes: Vec<&[u8]> = events.iter().map(|event| &event.hash.0[..]).collect();
    let chains: Vec<i32> = events.iter().map(|event| event.chain.version().cast_signed()).collect();
    link.query(
        "INSERT INTO hapax.events (stream, seq, kind, at, payload, hash, chain) \
         SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[], $7::integer[])",
        &[&stream, &seqs, &kinds, &times, &payloads, &hashes, &chains],
    )
    .await?;
    Ok(())
}

/// PostgreSQL's text has no NUL.
fn check_text(text: &str) -> Result<(), Error> {
    if text.contains('\0') {
        return Err(Error::invalid("a status or an event's type contains a NUL character"));
    }
    Ok(())
}

const HEAD: &str = "SELECT id, version, length, hash, status, checkpoint FROM hapax.streams WHERE name = $1";

fn read_head(row: &Row) -> Result<Head, Error> {
    let (version, length): (i64, i64) = (get(row, 1)?, get(row, 2)?);
    Ok(Head {
        version: version.cast_unsigned(),
        length: length.cast_unsigned(),
        hash: get::<Option<&[u8]>>(row, 3)?.map(read_hash).transpose()?,
        status: get(row, 4)?,
        checkpoint: get::<&[u8]>(row, 5)?.to_vec().into(),
    })
}

fn read_hash(bytes: &[u8]) -> Result<Hash, Error> {
    Ok(Hash(bytes.try_into().map_err(|_| unreadable("hash"))?))
}

/// One write in a transaction of its own.
pub(super) async fn append_one(
    link: &mut Link,
    write: &Append,
    given_time: Option<i64>,
) -> Result<Head, Failure> {
    let rows = link.begin("SELECT coalesce($1::bigint, hapax.clock())", &[&given_time]).await?;
    let row = rows.first().ok_or_else(super::confused)?;
    let at = Timestamp::from_micros(get(row, 0)?);
    let head = append_all(link, std::slice::from_ref(write), at).await?.ok_or_else(super::confused)?;
    link.commit().await?;
    Ok(head)
}

/// The end of a stream.
pub(super) async fn head(link: &mut Link, stream: &Stream) -> Result<Option<Head>, Failure> {
    let row = link.query_opt(HEAD, &[&stream.as_str()]).await?;
    Ok(row.as_ref().map(read_head).transpose()?)
}

/// Events in their order.
pub(super) async fn read(
    link: &mut Link,
    stream: &Stream,
    from: u64,
    limit: usize,
) -> Result<Vec<Event>, Failure> {
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = link
        .query(
            "SELECT e.seq, e.kind, e.at, e.payload, e.hash, e.chain FROM hapax.streams s \
             JOIN hapax.events e ON e.stream = s.id WHERE s.name = $1 AND e.seq >= $2 ORDER BY e.seq LIMIT $3",
            &[&stream.as_str(), &from, &limit],
        )
        .await?;
    Ok(rows.iter().map(read_event).collect::<Result<_, Error>>()?)
}

fn read_event(row: &Row) -> Result<Event, Error> {
    let (seq, chain): (i64, i32) = (get(row, 0)?, get(row, 5)?);
    Ok(Event {
        seq: seq.cast_unsigned(),
        kind: get(row, 1)?,
        at: Timestamp::from_micros(get(row, 2)?),
        payload: get::<&[u8]>(row, 3)?.to_vec().into(),
        hash: read_hash(get(row, 4)?)?,
        chain: Chain::from_version(chain.cast_unsigned())?,
    })
}
