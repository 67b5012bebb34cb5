//! The rows of journals: heads, what each write has made, events and checkpoints, each with its checksum (B8).

use bytes::Bytes;
use hapax_core::journal::{Chain, Checkpoint, Event, Hash, Head, Payload, Runner, Salt, Status, Stream};
use hapax_core::{AppendId, RunnerId, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::{Fault, damaged};
use super::rows::{fixed, unsigned};
use super::sum::{self, Sum};

/// Bits of an event's row number that count its place in the stream.
pub(super) const PLACE_BITS: u32 = 32;
/// The most streams there can be.
pub(super) const MAX_STREAM: i64 = (1 << (62 - PLACE_BITS)) - 1;

/// Events from a row on, up to another.
pub(super) const FROM: &str = "SELECT id, kind, at, salt, payload, digest, subject, checkpoint, hash, crc FROM events \
                               WHERE id >= ?1 AND id < ?2 ORDER BY id";

/// Heads in the order of their names.
pub(super) const LIST: &str = "SELECT id, name, version, length, hash, status, runner, lease, checkpoint, updated_at, \
                               chain, agent, subject, created_at, crc FROM streams WHERE name >= ?1 ORDER BY name LIMIT ?2";

/// The same with one status.
pub(super) const LIST_STATUS: &str = "SELECT id, name, version, length, hash, status, runner, lease, checkpoint, \
                                      updated_at, chain, agent, subject, created_at, crc FROM streams \
                                      WHERE status = ?3 AND name >= ?1 ORDER BY name LIMIT ?2";

/// The row of an event.
pub(super) fn row(stream: i64, seq: u64) -> i64 {
    (stream << PLACE_BITS) | seq.cast_signed()
}

/// What a write changes of a head, in the order of the columns.
struct Moving<'a> {
    version: i64,
    length: i64,
    hash: Option<&'a [u8]>,
    status: Option<&'static str>,
    runner: Option<&'a [u8]>,
    lease: Option<i64>,
    checkpoint: Option<i64>,
    updated_at: i64,
}

impl<'a> Moving<'a> {
    fn of(head: &'a Head) -> Self {
        Moving {
            version: head.version.cast_signed(),
            length: head.length.cast_signed(),
            hash: head.hash.as_ref().map(|hash| &hash.0[..]),
            status: head.status.map(Status::as_str),
            runner: head.runner.as_ref().map(|runner| &runner.id.as_bytes()[..]),
            lease: head.runner.map(|runner| runner.lease.0.cast_signed()),
            checkpoint: head.checkpoint.map(u64::cast_signed),
            updated_at: head.updated_at.as_micros(),
        }
    }

    fn sum(&self, sum: Sum) -> Sum {
        sum.int(self.version)
            .int(self.length)
            .opt_bytes(self.hash)
            .opt_bytes(self.status.map(str::as_bytes))
            .opt_bytes(self.runner)
            .opt(self.lease)
            .opt(self.checkpoint)
            .int(self.updated_at)
    }
}

/// Reads the columns of [`Moving`] from this one on into a head.
fn read_moving(row: &Row<'_>, first: usize, mut head: Head) -> Result<Head, Fault> {
    let (hash, runner): (Option<Vec<u8>>, Option<Vec<u8>>) = (row.get(first + 2)?, row.get(first + 4)?);
    let (status, lease): (Option<String>, Option<i64>) = (row.get(first + 3)?, row.get(first + 5)?);
    let checkpoint: Option<i64> = row.get(first + 6)?;
    head.version = unsigned(row, first)?;
    head.length = unsigned(row, first + 1)?;
    head.hash = hash.map(|hash| fixed(&hash)).transpose()?.map(Hash);
    head.status = match status {
        Some(status) => Some(Status::parse(&status).ok_or_else(|| damaged("a stream's status"))?),
        None => None,
    };
    head.runner = match (runner, lease) {
        (Some(id), Some(lease)) => {
            let (id, lease) = (RunnerId::from_bytes(fixed(&id)?), SessionId(lease.cast_unsigned()));
            Some(Runner { id, lease })
        }
        _ => None,
    };
    head.checkpoint = checkpoint.map(i64::cast_unsigned);
    head.updated_at = Timestamp::from_micros(row.get(first + 7)?);
    Ok(head)
}

fn head_sum(row: i64, name: &str, head: &Head) -> Sum {
    Moving::of(head)
        .sum(Sum::of("streams").int(row).bytes(name.as_bytes()))
        .int(i64::from(head.chain.version()))
        .opt_bytes(head.agent.as_ref().map(String::as_bytes))
        .opt_bytes(head.subject.as_ref().map(String::as_bytes))
        .int(head.created_at.as_micros())
}

/// Writes a head.
pub(super) fn write_head(conn: &Connection, row: i64, stream: &Stream, head: &Head) -> Result<(), Fault> {
    let sql = "INSERT INTO streams (id, name, version, length, hash, status, runner, lease, checkpoint, updated_at, \
               chain, agent, subject, created_at, crc) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT (id) DO UPDATE SET \
               version = excluded.version, length = excluded.length, hash = excluded.hash, status = excluded.status, \
               runner = excluded.runner, lease = excluded.lease, checkpoint = excluded.checkpoint, \
               updated_at = excluded.updated_at, crc = excluded.crc";
    let moving = Moving::of(head);
    conn.prepare_cached(sql)?.execute(params![
        row,
        stream.as_str(),
        moving.version,
        moving.length,
        moving.hash,
        moving.status,
        moving.runner,
        moving.lease,
        moving.checkpoint,
        moving.updated_at,
        head.chain.version(),
        head.agent,
        head.subject,
        head.created_at.as_micros(),
        head_sum(row, stream.as_str(), head).value(),
    ])?;
    Ok(())
}

/// The row and the head of a stream.
pub(super) fn find(conn: &Connection, stream: &Stream) -> Result<Option<(i64, Head)>, Fault> {
    let sql = "SELECT id, name, version, length, hash, status, runner, lease, checkpoint, updated_at, \
               chain, agent, subject, created_at, crc FROM streams WHERE name = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([stream.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (row, _, head) = read_head(row)?;
    Ok(Some((row, head)))
}

/// Reads a row of [`LIST`].
pub(super) fn read_head(row: &Row<'_>) -> Result<(i64, String, Head), Fault> {
    let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
    let created_at = Timestamp::from_micros(row.get(13)?);
    let head = Head {
        version: 0,
        length: 0,
        hash: None,
        status: None,
        runner: None,
        checkpoint: None,
        chain: Chain::from_version(row.get(10)?)?,
        agent: row.get(11)?,
        subject: row.get(12)?,
        created_at,
        updated_at: created_at,
    };
    let head = read_moving(row, 2, head)?;
    head_sum(id, &name, &head).check(row.get(14)?, || format!("journal {name:?}"))?;
    Ok((id, name, head))
}

fn append_sum(stream: i64, id: AppendId, head: &Head) -> Sum {
    Moving::of(head).sum(Sum::of("appends").int(stream).bytes(id.as_bytes()))
}

/// Writes down which head a write has made.
pub(super) fn write_append(conn: &Connection, stream: i64, id: AppendId, head: &Head) -> Result<(), Fault> {
    let sql = "INSERT INTO appends (stream, id, version, length, hash, status, runner, lease, checkpoint, updated_at, crc) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let moving = Moving::of(head);
    conn.prepare_cached(sql)?.execute(params![
        stream,
        &id.as_bytes()[..],
        moving.version,
        moving.length,
        moving.hash,
        moving.status,
        moving.runner,
        moving.lease,
        moving.checkpoint,
        moving.updated_at,
        append_sum(stream, id, head).value(),
    ])?;
    Ok(())
}

/// The head that a write has made, if it was made before.
pub(super) fn made(conn: &Connection, stream: i64, id: AppendId, head: &Head) -> Result<Option<Head>, Fault> {
    let sql = "SELECT version, length, hash, status, runner, lease, checkpoint, updated_at, crc FROM appends \
               WHERE stream = ?1 AND id = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![stream, &id.as_bytes()[..]])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let made = read_moving(row, 0, head.clone())?;
    append_sum(stream, id, &made).check(row.get(8)?, || format!("write {id:?} of journal {stream}"))?;
    Ok(Some(made))
}

fn event_sum(row: i64, event: &Event) -> Sum {
    let sum = Sum::of("events").int(row).bytes(event.kind.as_bytes()).int(event.at.as_micros());
    let sum = match &event.payload {
        Payload::Kept { bytes, salt } => sum.bytes(&salt.0).bytes(bytes),
        Payload::Erased { digest } => sum.opt(None).bytes(&digest.0),
    };
    sum.opt_bytes(event.subject.as_ref().map(String::as_bytes))
        .opt_bytes(event.checkpoint.as_ref().map(|hash| &hash.0[..]))
        .bytes(&event.hash.0)
}

/// Writes an event, or one whose payload was erased over what it was.
pub(super) fn write_event(conn: &Connection, stream: i64, event: &Event) -> Result<(), Fault> {
    let row = row(stream, event.seq);
    let (salt, payload, digest) = match &event.payload {
        Payload::Kept { bytes, salt } => (Some(&salt.0[..]), Some(&bytes[..]), None),
        Payload::Erased { digest } => (None, None, Some(&digest.0[..])),
    };
    let sql = "INSERT INTO events (id, kind, at, salt, payload, digest, subject, checkpoint, hash, crc) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let over = "UPDATE events SET kind = ?2, at = ?3, salt = ?4, payload = ?5, digest = ?6, subject = ?7, checkpoint = ?8, \
                hash = ?9, crc = ?10 WHERE id = ?1";
    conn.prepare_cached(if digest.is_some() { over } else { sql })?.execute(params![
        row,
        event.kind,
        event.at.as_micros(),
        salt,
        payload,
        digest,
        event.subject,
        event.checkpoint.as_ref().map(|hash| &hash.0[..]),
        &event.hash.0[..],
        event_sum(row, event).value(),
    ])?;
    Ok(())
}

/// Reads a row of [`FROM`].
pub(super) fn read_event(row: &Row<'_>) -> Result<Event, Fault> {
    let id: i64 = row.get(0)?;
    let bytes = |column| row.get::<_, Option<Vec<u8>>>(column);
    let (salt, payload, digest) = (bytes(3)?, bytes(4)?, bytes(5)?);
    let payload = match (salt, payload, digest) {
        (Some(salt), Some(bytes), None) => {
            Payload::Kept { bytes: Bytes::from(bytes), salt: Salt(fixed(&salt)?) }
        }
        (None, None, Some(digest)) => Payload::Erased { digest: Hash(fixed(&digest)?) },
        _ => return Err(damaged(format_args!("the payload of journal event {id}")).into()),
    };
    let checkpoint: Option<Vec<u8>> = row.get(7)?;
    let event = Event {
        seq: (id & ((1 << PLACE_BITS) - 1)).cast_unsigned(),
        kind: row.get(1)?,
        at: Timestamp::from_micros(row.get(2)?),
        payload,
        subject: row.get(6)?,
        checkpoint: checkpoint.map(|hash| fixed(&hash)).transpose()?.map(Hash),
        hash: Hash(fixed(&row.get::<_, Vec<u8>>(8)?)?),
    };
    event_sum(id, &event).check(row.get(9)?, || format!("journal event {id}"))?;
    Ok(event)
}

fn checkpoint_sum(stream: i64, checkpoint: &Checkpoint) -> i64 {
    let bytes = checkpoint.bytes.as_deref().unwrap_or_default();
    sum::of_bytes("checkpoints", [stream, checkpoint.seq.cast_signed()], bytes)
}

/// Writes a stream's latest checkpoint.
pub(super) fn write_checkpoint(conn: &Connection, stream: i64, checkpoint: &Checkpoint) -> Result<(), Fault> {
    let sql = "INSERT OR REPLACE INTO checkpoints (stream, seq, crc, bytes) VALUES (?1, ?2, ?3, ?4)";
    conn.prepare_cached(sql)?.execute(params![
        stream,
        checkpoint.seq.cast_signed(),
        checkpoint_sum(stream, checkpoint),
        checkpoint.bytes.as_deref(),
    ])?;
    Ok(())
}

/// A stream's latest checkpoint, as it is stored.
pub(super) fn read_checkpoint(conn: &Connection, stream: i64) -> Result<Option<Checkpoint>, Fault> {
    let sql = "SELECT seq, crc, bytes FROM checkpoints WHERE stream = ?1";
    let found: Option<(i64, i64, Option<Vec<u8>>)> = conn
        .prepare_cached(sql)?
        .query_row([stream], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((seq, crc, bytes)) = found else { return Ok(None) };
    let checkpoint = Checkpoint { seq: seq.cast_unsigned(), bytes: bytes.map(Bytes::from) };
    if checkpoint_sum(stream, &checkpoint) != crc {
        return Err(damaged(format_args!("checksum of the checkpoint of journal {stream}")).into());
    }
    Ok(Some(checkpoint))
}
