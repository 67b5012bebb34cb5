//! Journals: streams of events with their heads (J2, L18).
//!
//! A write locks its streams, lets the plan decide, and keeps what that says: in one statement for all streams, however many there are.
//! How rows are read is in `stream_rows`; appends that wait together share a transaction in `appends`.

use std::collections::HashMap;

use hapax_core::journal::{
    Append, Checkpoint, Erasure, Event, Hash, Head, Listed, Payload, Status, Stream, StreamFilter, Walk,
    check_checkpoint,
};
use hapax_core::{AppendId, Damaged, Error, Kind, Page, Timestamp, limits as core_limits};
use hapax_store::parts::plan::{self, Planned, page_start};
use tokio_postgres::Row;

use super::failure::Failure;
use super::link::{Link, Params};
use super::row::{Uuid, get};
use super::session::Standing;
use super::stream_rows::{self as rows, Columns, lives, read_event, read_head, read_made};

/// What writes to streams come to; a stream is found by its number.
pub(super) type Plan = plan::Plan<i64>;

/// Where the transaction is in which something is appended: on a connection of the store, or on one of the application's own.
pub(super) trait Within {
    async fn query(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Failure>;
}

impl Within for Link {
    async fn query(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        Link::query(self, sql, params).await
    }
}

/// Appends to streams within the transaction that is open. One write that is refused refuses all.
pub(super) async fn append_all(
    link: &mut impl Within,
    writes: &[Append],
    at: Timestamp,
    standing: Option<&Standing>,
) -> Result<Option<Head>, Failure> {
    if writes.is_empty() {
        return Ok(None);
    }
    let names = names(writes);
    let rows = link.query(rows::LOCK, &[&names]).await?;
    let mut plan = look(&rows, &names, at, standing)?;
    learn(link, &mut plan, writes).await?;
    let mut last = None;
    for write in writes {
        last = Some(plan.append(write, at)?);
    }
    keep(link, plan).await?;
    Ok(last)
}

/// The streams of these writes, each once, in order: two that write to the same streams wait for each other and do not deadlock.
pub(super) fn names(writes: &[Append]) -> Vec<&str> {
    let mut names: Vec<&str> = writes.iter().map(|write| write.stream.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A plan that knows the streams which were found and locked.
pub(super) fn look(
    found: &[Row],
    names: &[&str],
    at: Timestamp,
    standing: Option<&Standing>,
) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    for name in names {
        plan.insert(Stream::new(*name)?, Planned::found(None, false));
    }
    for row in found {
        let (id, stream, head) = read_head(row)?;
        let lives = lives(row, rows::LEASE, at, standing)?;
        plan.insert(stream, Planned::found(Some((id, head)), lives));
    }
    Ok(plan)
}

/// Tells the plan which of the writes were made before.
pub(super) async fn learn(link: &mut impl Within, plan: &mut Plan, writes: &[Append]) -> Result<(), Failure> {
    for (stream, id, row) in made(link, writes).await? {
        if let Some(planned) = plan.get_mut(&stream)
            && let Some(head) = &planned.head
        {
            let head = read_made(&row, head)?;
            planned.known.push((id, head));
        }
    }
    Ok(())
}

async fn made(link: &mut impl Within, writes: &[Append]) -> Result<Vec<(Stream, AppendId, Row)>, Failure> {
    let names: Vec<&str> = writes.iter().map(|write| write.stream.as_str()).collect();
    let ids: Vec<Uuid> = writes.iter().map(|write| Uuid(*write.id.as_bytes())).collect();
    let rows = link.query(rows::MADE, &[&names, &ids]).await?;
    let read = |row: Row| {
        let (name, id): (String, Uuid) = (get(&row, 0)?, get(&row, 1)?);
        Ok((Stream::new(name)?, AppendId::from_bytes(id.0), row))
    };
    Ok(rows.into_iter().map(read).collect::<Result<_, Error>>()?)
}

/// Whether all of these were written before.
pub(super) async fn are_written(link: &mut impl Within, writes: &[Append]) -> Result<bool, Failure> {
    let found = made(link, writes).await?;
    Ok(writes
        .iter()
        .all(|write| found.iter().any(|(stream, id, _)| (stream, *id) == (&write.stream, write.id))))
}

/// Keeps what was decided: new streams first, because their events need their numbers, then everything else at once.
pub(super) async fn keep(link: &mut impl Within, plan: Plan) -> Result<(), Failure> {
    let mut written: Vec<(Stream, Planned<i64>)> = plan.into_written().collect();
    if written.is_empty() {
        return Ok(());
    }
    let new: Vec<(&Stream, &Head)> = written
        .iter()
        .filter(|(_, planned)| planned.row.is_none())
        .filter_map(|(stream, planned)| Some((stream, planned.head.as_ref()?)))
        .collect();
    if !new.is_empty() {
        let ids = create(link, &new).await?;
        for (stream, planned) in &mut written {
            planned.row = planned.row.or_else(|| ids.get(stream.as_str()).copied());
        }
    }
    let columns = Columns::of(&written)?;
    link.query(rows::KEEP, &columns.params()).await?;
    for (_, planned) in &written {
        let head = planned.head.as_ref().and_then(|head| head.checkpoint);
        if let (Some(bytes), Some(seq), Some(row)) = (&planned.checkpoint, head, planned.row) {
            link.query(rows::CHECKPOINT_PUT, &[&row, &seq.cast_signed(), &&bytes[..]]).await?;
        }
    }
    Ok(())
}

/// Makes streams. One that another transaction has made meanwhile is looked at again soon.
async fn create(link: &mut impl Within, new: &[(&Stream, &Head)]) -> Result<HashMap<String, i64>, Failure> {
    let names: Vec<&str> = new.iter().map(|(stream, _)| stream.as_str()).collect();
    let chains: Vec<i32> = new.iter().map(|(_, head)| head.chain.version().cast_signed()).collect();
    let agents: Vec<Option<&str>> = new.iter().map(|(_, head)| head.agent.as_deref()).collect();
    let subjects: Vec<Option<&str>> = new.iter().map(|(_, head)| head.subject.as_deref()).collect();
    let times: Vec<i64> = new.iter().map(|(_, head)| head.created_at.as_micros()).collect();
    let made = link.query(rows::CREATE, &[&names, &chains, &agents, &subjects, &times]).await?;
    if made.len() < new.len() {
        return Err(Failure::Busy);
    }
    let read = |row: &Row| Ok((get::<String>(row, 0)?, get::<i64>(row, 1)?));
    Ok(made.iter().map(read).collect::<Result<_, Error>>()?)
}

/// One write in a transaction of its own, which waits for others that have the stream.
pub(super) async fn append_one(
    link: &mut Link,
    write: &Append,
    standing: &Standing,
) -> Result<Head, Failure> {
    let at = begin(link, standing).await?;
    let writes = std::slice::from_ref(write);
    let head = append_all(link, writes, at, Some(standing)).await?.ok_or_else(super::confused)?;
    link.commit().await?;
    Ok(head)
}

/// Begins a transaction, and gives its time.
pub(super) async fn begin(link: &mut Link, standing: &Standing) -> Result<Timestamp, Failure> {
    let given = standing.given_time();
    let rows = link.begin("SELECT coalesce($1::bigint, hapax.clock())", &[&given]).await?;
    Ok(Timestamp::from_micros(get(rows.first().ok_or_else(super::confused)?, 0)?))
}

/// The end of a stream.
pub(super) async fn head(link: &mut Link, stream: &Stream) -> Result<Option<Head>, Failure> {
    let row = link.query_opt(rows::HEAD, &[&stream.as_str()]).await?;
    Ok(row.as_ref().map(read_head).transpose()?.map(|(_, _, head)| head))
}

/// Events in their order, each checked to follow the one before it. Head and events are read at once.
pub(super) async fn read(
    link: &mut Link,
    stream: &Stream,
    from: u64,
    limit: usize,
) -> Result<Vec<Event>, Failure> {
    let limit = limit.min(core_limits::MAX_PAGE);
    let before = i64::try_from(from).unwrap_or(i64::MAX).saturating_sub(1);
    let most = i64::try_from(core_limits::MAX_READ_BYTES).unwrap_or(i64::MAX);
    let found = link.query(rows::READ, &[&stream.as_str(), &before, &(limit as i64 + 2), &most]).await?;
    let Some(first) = found.first() else { return Ok(Vec::new()) };
    let (_, _, head) = read_head(first)?;
    if from > head.length || limit == 0 {
        return Ok(Vec::new());
    }
    Ok(check(stream, &head, from, limit, &found)?)
}

fn check(stream: &Stream, head: &Head, from: u64, limit: usize, found: &[Row]) -> Result<Vec<Event>, Error> {
    // A stream without events there is one row all the same.
    let there = |row: &&Row| !matches!(row.try_get::<_, Option<i64>>(rows::EVENT), Ok(None));
    let given: Vec<&Row> = found.iter().filter(there).collect();
    let all: i64 = given.first().map_or(Ok(0), |row| get(row, rows::FOUND))?;
    // Only a read that stopped for its bytes may end before the stream does.
    let stopped = (given.len() as i64) < all;
    let mut rest = given.into_iter();
    let mut walk = match from.checked_sub(1) {
        None => Walk::new(stream, head.chain),
        Some(before) => {
            let missing = || Error::broken_chain(stream.as_str(), before, "the event is missing");
            let event = rest.next().map(read_event).ok_or_else(missing)??;
            if event.seq != before {
                return Err(missing());
            }
            Walk::after(stream, head.chain, before, event.hash)
        }
    };
    let mut events = Vec::new();
    while events.len() < limit {
        let Some(row) = rest.next() else {
            if !stopped {
                walk.finish(head)?;
            }
            break;
        };
        let event = read_event(row).map_err(|error| match error.kind() {
            Kind::Corrupt => walk.broken(error.detail().unwrap_or(error.message())),
            _ => error,
        })?;
        if walk.next() >= head.length {
            return Err(walk.broken("the stream goes on after its end"));
        }
        walk.step(&event)?;
        events.push(event);
    }
    Ok(events)
}

/// A stream's latest checkpoint, checked against its event.
pub(super) async fn checkpoint(link: &mut Link, stream: &Stream) -> Result<Option<Checkpoint>, Failure> {
    let Some(row) = link.query_opt(rows::CHECKPOINT, &[&stream.as_str()]).await? else { return Ok(None) };
    let (seq, kept): (i64, Option<i64>) = (get(&row, 0)?, get(&row, 1)?);
    let bytes: Option<&[u8]> = get(&row, 2)?;
    let checkpoint = Checkpoint { seq: seq.cast_unsigned(), bytes: bytes.map(|bytes| bytes.to_vec().into()) };
    if kept != Some(seq) {
        return Err(Error::broken_chain(stream.as_str(), checkpoint.seq, "the checkpoint is missing").into());
    }
    let digest: Option<&[u8]> = get(&row, 3)?;
    let digest = digest.map(rows::hash).transpose()?;
    check_checkpoint(stream, &checkpoint, digest)?;
    Ok(Some(checkpoint))
}

/// Streams in the order of their names.
pub(super) async fn list(
    link: &mut Link,
    filter: &StreamFilter,
    after: Option<&str>,
    limit: usize,
    standing: &Standing,
) -> Result<Page<Listed>, Failure> {
    let limit = limit.min(core_limits::MAX_PAGE);
    let (start, most) = (page_start(&filter.prefix, after), limit as i64 + 1);
    let given = standing.given_time();
    let found = match filter.status.map(Status::as_str) {
        Some(status) => link.query(rows::LIST_STATUS, &[&start, &most, &given, &status]).await?,
        None => link.query(rows::LIST, &[&start, &most, &given]).await?,
    };
    let mut page = Page::new(Vec::new(), None);
    let mut last = None;
    for row in &found {
        let name: String = get(row, 1)?;
        if !name.starts_with(&filter.prefix) {
            break;
        }
        if page.items.len() + page.damaged.len() == limit {
            page.next = last;
            break;
        }
        let now = Timestamp::from_micros(get(row, rows::LEASE + 2)?);
        let lives = lives(row, rows::LEASE, now, Some(standing))?;
        match read_head(row) {
            Ok((_, stream, head)) => page.items.push(Listed { stream, head, lives }),
            Err(error) => {
                let told = error.detail().unwrap_or(error.message()).to_owned();
                page.damaged.push(Damaged { id: name.clone(), error: told });
            }
        }
        last = Some(name);
    }
    Ok(page)
}

/// Destroys the payloads of a subject's events.
pub(super) async fn erase(
    link: &mut Link,
    stream: &Stream,
    subject: &str,
    from: u64,
    limit: usize,
    standing: &Standing,
) -> Result<Erasure, Failure> {
    begin(link, standing).await?;
    let locked = link.query(rows::LOCK, &[&vec![stream.as_str()]]).await?;
    let Some(row) = locked.first() else { return Ok(Erasure::default()) };
    let (id, _, head) = read_head(row)?;
    let until = from.saturating_add(limit.min(core_limits::MAX_PAGE) as u64).min(head.length);
    let whose = subject.to_owned();
    let (first, end) = (i64::try_from(from).unwrap_or(i64::MAX), until.cast_signed());
    let found = link.query(rows::OF_SUBJECT, &[&id, &first, &end, &whose, &head.subject]).await?;
    let (mut seqs, mut digests) = (Vec::with_capacity(found.len()), Vec::with_capacity(found.len()));
    for row in &found {
        let (seq, salt, bytes): (i64, &[u8], &[u8]) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        let payload = Payload::Kept { bytes: bytes.to_vec().into(), salt: rows::salt(salt)? };
        let Hash(digest) = payload.digest();
        seqs.push(seq);
        digests.push(digest.to_vec());
    }
    link.query(rows::ERASE, &[&id, &seqs, &digests]).await?;
    link.query(rows::ERASE_CHECKPOINT, &[&id, &seqs]).await?;
    link.commit().await?;
    Ok(Erasure { erased: seqs.len() as u64, next: Some(until).filter(|until| *until < head.length) })
}
