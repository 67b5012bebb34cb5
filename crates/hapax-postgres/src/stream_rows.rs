//! The rows of journals in PostgreSQL, both ways, and the statements that read and write them.

use hapax_core::journal::{Chain, Event, Hash, Head, Payload, Runner, Salt, Status, Stream};
use hapax_core::{AppendId, Error, RunnerId, SessionId, Sign, Timestamp};
use hapax_store::parts::plan::Planned;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::row::{Uuid, get, unreadable};
use super::session::Standing;

/// The columns of a head: what it is found by, what writes change, and what stays as it was at its making.
macro_rules! head {
    () => {
        "s.id, s.name, s.version, s.length, s.hash, s.status, s.runner, s.lease, s.checkpoint, s.updated_at, \
         s.chain, s.agent, s.subject, s.created_at"
    };
}

/// Where the columns of the lease are in what [`LOCK`] and [`LIST`] give: last sign, end, and in a listing the present time.
pub(super) const LEASE: usize = 14;

pub(super) const HEAD: &str = concat!("SELECT ", head!(), " FROM hapax.streams s WHERE s.name = $1");

/// Locks streams in the order of their names.
pub(super) const LOCK: &str = concat!(
    "WITH s AS MATERIALIZED (SELECT * FROM hapax.streams WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE) SELECT ",
    head!(),
    ", l.last, l.until FROM s LEFT JOIN hapax.sessions l ON l.id = s.lease"
);

/// The same for those that no other transaction has locked. Those that are there all the same are in the second column alone.
pub(super) const LOCK_FREE: &str = concat!(
    "WITH s AS MATERIALIZED (SELECT * FROM hapax.streams WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE SKIP LOCKED) SELECT ",
    head!(),
    ", l.last, l.until FROM s LEFT JOIN hapax.sessions l ON l.id = s.lease"
);

/// Which of these streams are there.
pub(super) const PRESENT: &str = "SELECT name FROM hapax.streams WHERE name = ANY($1::text[])";

pub(super) const LIST: &str = concat!(
    "SELECT ",
    head!(),
    ", l.last, l.until, coalesce($3::bigint, hapax.clock()) FROM hapax.streams s \
     LEFT JOIN hapax.sessions l ON l.id = s.lease WHERE s.name >= $1 ORDER BY s.name LIMIT $2"
);

pub(super) const LIST_STATUS: &str = concat!(
    "SELECT ",
    head!(),
    ", l.last, l.until, coalesce($3::bigint, hapax.clock()) FROM hapax.streams s \
     LEFT JOIN hapax.sessions l ON l.id = s.lease WHERE s.status = $4 AND s.name >= $1 ORDER BY s.name LIMIT $2"
);

/// Where the columns of an event begin in what [`READ`] gives, and which of them says how many there are, before the bound on bytes.
pub(super) const EVENT: usize = 14;
/// See [`EVENT`].
pub(super) const FOUND: usize = 23;

/// The head, and with it the event at a place and those after it: so many, and the first of them with as many as have payloads within
/// a bound.
pub(super) const READ: &str = concat!(
    "SELECT ",
    head!(),
    ", e.seq, e.kind, e.at, e.salt, e.payload, e.digest, e.subject, e.checkpoint, e.hash, e.found \
     FROM hapax.streams s LEFT JOIN LATERAL (SELECT * FROM ( \
        SELECT b.*, count(*) OVER () AS found, \
            sum(CASE WHEN b.seq > $2 THEN coalesce(octet_length(b.payload), 0) ELSE 0 END) OVER (ORDER BY b.seq) AS bytes \
        FROM (SELECT * FROM hapax.events WHERE stream = s.id AND seq >= $2 ORDER BY seq LIMIT $3) b) c \
        WHERE c.bytes <= $4 OR c.seq <= $2 + 1) e ON true \
     WHERE s.name = $1 ORDER BY e.seq"
);

/// The heads that writes have made before.
pub(super) const MADE: &str = "\
    SELECT s.name, a.id, a.version, a.length, a.hash, a.status, a.runner, a.lease, a.checkpoint, a.updated_at \
    FROM unnest($1::text[], $2::uuid[]) w(name, id) JOIN hapax.streams s ON s.name = w.name \
    JOIN hapax.appends a ON a.stream = s.id AND a.id = w.id";

/// Makes streams that nothing was written to yet; the same transaction writes to them.
pub(super) const CREATE: &str = "\
    INSERT INTO hapax.streams (name, version, length, chain, agent, subject, created_at, updated_at) \
    SELECT n.name, 0, 0, n.chain, n.agent, n.subject, n.at, n.at \
    FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::bigint[]) n(name, chain, agent, subject, at) \
    ON CONFLICT (name) DO NOTHING RETURNING name, id";

/// Heads, events and what the writes have made, for any number of streams.
pub(super) const KEEP: &str = "\
    WITH heads AS (UPDATE hapax.streams s SET version = h.version, length = h.length, hash = h.hash, status = h.status, \
            runner = h.runner, lease = h.lease, checkpoint = h.checkpoint, updated_at = h.updated_at \
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::text[], $6::uuid[], $7::bigint[], $8::bigint[], \
            $9::bigint[]) h(id, version, length, hash, status, runner, lease, checkpoint, updated_at) WHERE s.id = h.id), \
    made AS (INSERT INTO hapax.appends (stream, id, version, length, hash, status, runner, lease, checkpoint, updated_at) \
        SELECT * FROM unnest($10::bigint[], $11::uuid[], $12::bigint[], $13::bigint[], $14::bytea[], $15::text[], $16::uuid[], \
            $17::bigint[], $18::bigint[], $19::bigint[])) \
    INSERT INTO hapax.events (stream, seq, kind, at, salt, payload, subject, checkpoint, hash) \
    SELECT * FROM unnest($20::bigint[], $21::bigint[], $22::text[], $23::bigint[], $24::bytea[], $25::bytea[], $26::text[], \
        $27::bytea[], $28::bytea[])";

pub(super) const CHECKPOINT_PUT: &str = "\
    INSERT INTO hapax.checkpoints (stream, seq, bytes) VALUES ($1, $2, $3) \
    ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, bytes = excluded.bytes";

pub(super) const CHECKPOINT: &str = "\
    SELECT s.checkpoint, c.seq, c.bytes, e.checkpoint FROM hapax.streams s \
    LEFT JOIN hapax.checkpoints c ON c.stream = s.id \
    LEFT JOIN hapax.events e ON e.stream = s.id AND e.seq = s.checkpoint \
    WHERE s.name = $1 AND s.checkpoint IS NOT NULL";

/// Those events between two places whose payload has a subject's data; the last one is the stream's own subject.
pub(super) const OF_SUBJECT: &str = "\
    SELECT seq, salt, payload FROM hapax.events WHERE stream = $1 AND seq >= $2 AND seq < $3 \
    AND coalesce(subject, $5::text) = $4::text AND payload IS NOT NULL ORDER BY seq";

pub(super) const ERASE: &str = "\
    UPDATE hapax.events e SET payload = NULL, salt = NULL, digest = d.digest \
    FROM unnest($2::bigint[], $3::bytea[]) d(seq, digest) WHERE e.stream = $1 AND e.seq = d.seq";

pub(super) const ERASE_CHECKPOINT: &str =
    "UPDATE hapax.checkpoints SET bytes = NULL WHERE stream = $1 AND seq = ANY($2::bigint[])";

/// Reads a hash.
pub(super) fn hash(bytes: &[u8]) -> Result<Hash, Error> {
    Ok(Hash(bytes.try_into().map_err(|_| unreadable("hash"))?))
}

/// Reads a salt.
pub(super) fn salt(bytes: &[u8]) -> Result<Salt, Error> {
    Ok(Salt(bytes.try_into().map_err(|_| unreadable("salt"))?))
}

/// Reads a head with its number and its name.
pub(super) fn read_head(row: &Row) -> Result<(i64, Stream, Head), Error> {
    let (chain, created_at): (i32, i64) = (get(row, 10)?, get(row, 13)?);
    let created_at = Timestamp::from_micros(created_at);
    let head = Head {
        version: 0,
        length: 0,
        hash: None,
        status: None,
        runner: None,
        checkpoint: None,
        chain: Chain::from_version(chain.cast_unsigned())?,
        agent: get(row, 11)?,
        subject: get(row, 12)?,
        created_at,
        updated_at: created_at,
    };
    Ok((get(row, 0)?, Stream::new(get::<String>(row, 1)?)?, read_made(row, &head)?))
}

/// Reads what a write has made of a head: the columns from the third on.
pub(super) fn read_made(row: &Row, head: &Head) -> Result<Head, Error> {
    let (version, length, updated_at): (i64, i64, i64) = (get(row, 2)?, get(row, 3)?, get(row, 9)?);
    let (status, checkpoint): (Option<&str>, Option<i64>) = (get(row, 5)?, get(row, 8)?);
    let (runner, lease): (Option<Uuid>, Option<i64>) = (get(row, 6)?, get(row, 7)?);
    let runner = runner.zip(lease).map(|(id, lease)| Runner {
        id: RunnerId::from_bytes(id.0),
        lease: SessionId(lease.cast_unsigned()),
    });
    let parse = |status| Status::parse(status).ok_or_else(|| unreadable("status"));
    Ok(Head {
        version: version.cast_unsigned(),
        length: length.cast_unsigned(),
        hash: get::<Option<&[u8]>>(row, 4)?.map(hash).transpose()?,
        status: status.map(parse).transpose()?,
        runner,
        checkpoint: checkpoint.map(i64::cast_unsigned),
        updated_at: Timestamp::from_micros(updated_at),
        ..head.clone()
    })
}

/// Whether the lease whose columns begin here runs. A lease without a row is over.
pub(super) fn lives(
    row: &Row,
    first: usize,
    now: Timestamp,
    standing: Option<&Standing>,
) -> Result<bool, Error> {
    let (last, until): (Option<i64>, Option<i64>) = (get(row, first)?, get(row, first + 1)?);
    let Some((last, until)) = last.zip(until) else { return Ok(false) };
    let sign = Sign { last: Timestamp::from_micros(last), until: Timestamp::from_micros(until) };
    let sign = standing.map_or(sign, |standing| standing.judge(now, sign));
    Ok(now < sign.until)
}

/// Reads an event of [`READ`].
pub(super) fn read_event(row: &Row) -> Result<Event, Error> {
    let (seq, at): (i64, i64) = (get(row, EVENT)?, get(row, EVENT + 2)?);
    let salted: Option<&[u8]> = get(row, EVENT + 3)?;
    let payload: Option<&[u8]> = get(row, EVENT + 4)?;
    let digest: Option<&[u8]> = get(row, EVENT + 5)?;
    let payload = match (salted, payload, digest) {
        (Some(salted), Some(bytes), None) => {
            Payload::Kept { bytes: bytes.to_vec().into(), salt: salt(salted)? }
        }
        (None, None, Some(digest)) => Payload::Erased { digest: hash(digest)? },
        _ => return Err(unreadable("payload")),
    };
    Ok(Event {
        seq: seq.cast_unsigned(),
        kind: get(row, EVENT + 1)?,
        at: Timestamp::from_micros(at),
        payload,
        subject: get(row, EVENT + 6)?,
        checkpoint: get::<Option<&[u8]>>(row, EVENT + 7)?.map(hash).transpose()?,
        hash: hash(get(row, EVENT + 8)?)?,
    })
}

/// What writes change of heads, column by column.
#[derive(Default)]
struct Moving<'a> {
    versions: Vec<i64>,
    lengths: Vec<i64>,
    hashes: Vec<Option<&'a [u8]>>,
    statuses: Vec<Option<&'static str>>,
    runners: Vec<Option<Uuid>>,
    leases: Vec<Option<i64>>,
    checkpoints: Vec<Option<i64>>,
    times: Vec<i64>,
}

impl<'a> Moving<'a> {
    fn push(&mut self, head: &'a Head) {
        self.versions.push(head.version.cast_signed());
        self.lengths.push(head.length.cast_signed());
        self.hashes.push(head.hash.as_ref().map(|hash| &hash.0[..]));
        self.statuses.push(head.status.map(Status::as_str));
        self.runners.push(head.runner.map(|runner| Uuid(*runner.id.as_bytes())));
        self.leases.push(head.runner.map(|runner| runner.lease.0.cast_signed()));
        self.checkpoints.push(head.checkpoint.map(u64::cast_signed));
        self.times.push(head.updated_at.as_micros());
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.versions,
            &self.lengths,
            &self.hashes,
            &self.statuses,
            &self.runners,
            &self.leases,
            &self.checkpoints,
            &self.times,
        ]
    }
}

/// What [`KEEP`] is told.
#[derive(Default)]
pub(super) struct Columns<'a> {
    streams: Vec<i64>,
    heads: Moving<'a>,
    append_streams: Vec<i64>,
    append_ids: Vec<Uuid>,
    made: Moving<'a>,
    event_streams: Vec<i64>,
    seqs: Vec<i64>,
    kinds: Vec<&'a str>,
    times: Vec<i64>,
    salts: Vec<Option<&'a [u8]>>,
    payloads: Vec<Option<&'a [u8]>>,
    subjects: Vec<Option<&'a str>>,
    digests: Vec<Option<&'a [u8]>>,
    hashes: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    /// The streams that are written to, each of which has its number by now.
    pub(super) fn of(written: &'a [(Stream, Planned<i64>)]) -> Result<Self, Error> {
        let mut columns = Columns::default();
        for (_, planned) in written {
            let (Some(row), Some(head)) = (planned.row, &planned.head) else { return Err(super::confused()) };
            columns.streams.push(row);
            columns.heads.push(head);
            planned.made.iter().for_each(|(id, head)| columns.push_append(row, *id, head));
            planned.events.iter().for_each(|event| columns.push_event(row, event));
        }
        Ok(columns)
    }

    fn push_append(&mut self, stream: i64, id: AppendId, head: &'a Head) {
        self.append_streams.push(stream);
        self.append_ids.push(Uuid(*id.as_bytes()));
        self.made.push(head);
    }

    fn push_event(&mut self, stream: i64, event: &'a Event) {
        self.event_streams.push(stream);
        self.seqs.push(event.seq.cast_signed());
        self.kinds.push(&event.kind);
        self.times.push(event.at.as_micros());
        let (salt, payload) = match &event.payload {
            Payload::Kept { bytes, salt } => (Some(&salt.0[..]), Some(&bytes[..])),
            Payload::Erased { .. } => (None, None),
        };
        self.salts.push(salt);
        self.payloads.push(payload);
        self.subjects.push(event.subject.as_deref());
        self.digests.push(event.checkpoint.as_ref().map(|hash| &hash.0[..]));
        self.hashes.push(&event.hash.0[..]);
    }

    /// In the order of the statement.
    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.streams];
        params.extend(self.heads.params());
        params.extend([&self.append_streams as &(dyn ToSql + Sync), &self.append_ids]);
        params.extend(self.made.params());
        params.extend([
            &self.event_streams as &(dyn ToSql + Sync),
            &self.seqs,
            &self.kinds,
            &self.times,
            &self.salts,
            &self.payloads,
            &self.subjects,
            &self.digests,
            &self.hashes,
        ]);
        params
    }
}
