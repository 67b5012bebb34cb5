//! Executions as JSON lines: one line about the whole, then one for each event, in the names of their source (J1, J7).
//!
//! Payloads go out and come in as the bytes that they are, so that a chain can be checked wherever it is read. What is sealed, or is no
//! JSON on one line, is written as base64.

use std::io::{BufRead, Seek, SeekFrom};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hapax_core::journal::{
    Append, Author, Birth, Chain, Checkpoint, Event, Hash, Head, NewEvent, Payload, Runner, Salt, Status,
    Stream, Walk, check_checkpoint,
};
use hapax_core::time::{parse_utc, utc};
use hapax_core::{AppendId, Doubt, Journal, Ledger, RunnerId};
use hapax_exec::Ended;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::error::Error;
use super::event::{self, kind};
use super::execution::{AgentId, ExecutionId};
use super::key::{hex, truncated, unhex};
use super::progress::Progress;
use super::run::send;
use super::step::Step;
use super::stream::Executions;
use super::tools::Declaration;
use super::verify;
use crate::limits;

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct First {
    execution_id: String,
    agent_id: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    version: u64,
    schema_version: u32,
    /// How many events follow; without it the end is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    /// The hash of the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// What the stream was called: chain 2 covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(default)]
    checkpoint: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint_base64: Option<String>,
    /// The event that the checkpoint belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint_seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
}

/// The line of an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    seq: u64,
    event_type: String,
    timestamp: String,
    #[serde(default)]
    payload: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    hash: String,
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    salt: Option<String>,
    /// Of salt and payload, where these were erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
}

/// An execution on its way out, a page of lines at a time.
#[derive(Debug)]
pub struct Export<S: Ledger> {
    executions: Executions<S>,
    stream: Stream,
    head: Head,
    first: Option<First>,
    walk: Walk,
}

impl<S: Journal + Ledger> Executions<S> {
    /// Begins to export an execution as it is now.
    pub async fn export(&self, id: &ExecutionId) -> Result<Export<S>, Error> {
        let (stream, head, checkpoint) = self.with_checkpoint(id).await?;
        let bytes = checkpoint.as_ref().and_then(|checkpoint| checkpoint.bytes.clone());
        let (plain, base64) = written(bytes.as_ref());
        let first = First {
            execution_id: id.as_str().to_owned(),
            agent_id: head.agent.clone().unwrap_or_default(),
            status: head.status.map_or("", Status::as_str).to_owned(),
            version: head.version,
            schema_version: head.chain.version(),
            length: Some(head.length),
            hash: head.hash.map(Hash::to_hex),
            stream: Some(stream.as_str().to_owned()),
            subject: head.subject.clone(),
            checkpoint: plain,
            checkpoint_base64: base64,
            checkpoint_seq: checkpoint.map(|checkpoint| checkpoint.seq),
            created_at: utc(head.created_at),
            updated_at: utc(head.updated_at),
        };
        let walk = Walk::new(&stream, head.chain);
        Ok(Export { executions: self.clone(), stream, head, first: Some(first), walk })
    }

    /// A head, and the checkpoint that it names.
    async fn with_checkpoint(&self, id: &ExecutionId) -> Result<(Stream, Head, Option<Checkpoint>), Error> {
        for _ in 0..limits::APPEND_TRIES {
            let (stream, head) = self.head(id).await?;
            let checkpoint = self.store().checkpoint(&stream).await?;
            if checkpoint.as_ref().map(|checkpoint| checkpoint.seq) == head.checkpoint {
                return Ok((stream, head, checkpoint));
            }
            // Unless it was written to meanwhile.
            if self.head(id).await?.1.version == head.version {
                verify::checkpoint_is(&stream, head.checkpoint, head.checkpoint, checkpoint.as_ref())?;
            }
        }
        Err(Error::Store(hapax_core::Error::unavailable(
            "the execution is written to all the time: try again",
        )))
    }
}

impl<S: Journal + Ledger> Executions<S> {
    /// Lines of an export whose first one was told before: of the events from a place on, and the place after the last of them.
    pub async fn exported(&self, id: &ExecutionId, from: u64, until: u64) -> Result<(Vec<u8>, u64), Error> {
        let (stream, head) = self.head(id).await?;
        let left = usize::try_from(until.min(head.length).saturating_sub(from)).unwrap_or(usize::MAX);
        let events = match left {
            0 => Vec::new(),
            left => self.store().read(&stream, from, left.min(limits::READ_PAGE)).await?,
        };
        let mut lines = Vec::new();
        for event in &events {
            lines.extend(line(&Line::of(event, head.chain))?);
        }
        Ok((lines, events.last().map_or(until, |event| event.seq + 1)))
    }
}

impl<S: Journal + Ledger> Export<S> {
    /// How many events it has.
    pub fn length(&self) -> u64 {
        self.head.length
    }

    /// The next lines, each with its end; `None` when there are no more. The chain is checked on the way.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if let Some(first) = self.first.take() {
            return line(&first).map(Some);
        }
        let left = self.head.length.saturating_sub(self.walk.next());
        let events = match usize::try_from(left).unwrap_or(usize::MAX) {
            0 => Vec::new(),
            left => {
                let (from, most) = (self.walk.next(), left.min(limits::READ_PAGE));
                self.executions.store().read(&self.stream, from, most).await?
            }
        };
        if events.is_empty() {
            self.walk.finish(&self.head)?;
            return Ok(None);
        }
        let mut lines = Vec::new();
        for event in &events {
            self.walk.step(event)?;
            lines.extend(line(&Line::of(event, self.head.chain))?);
        }
        Ok(Some(lines))
    }
}

impl Line {
    fn of(event: &Event, chain: Chain) -> Self {
        let (payload, payload_base64) = written(event.payload.bytes());
        let (salt, digest) = match &event.payload {
            Payload::Kept { salt, .. } => (Some(hex(&salt.0)).filter(|_| chain == Chain::V2), None),
            Payload::Erased { digest } => (None, Some(digest.to_hex())),
        };
        Line {
            seq: event.seq,
            event_type: event.kind.clone(),
            timestamp: utc(event.at).unwrap_or_default(),
            payload,
            payload_base64,
            hash: event.hash.to_hex(),
            schema_version: chain.version(),
            salt,
            digest,
            checkpoint_hash: event.checkpoint.map(Hash::to_hex),
            subject: event.subject.clone(),
        }
    }

    /// The event that the line is about.
    fn event(self, chain: Chain) -> Result<Event, Error> {
        let bad =
            |field: &str| Error::invalid(format!("event {}: {field} is not what it should be", self.seq));
        if self.schema_version != chain.version() {
            Chain::from_version(self.schema_version)?;
            return Err(bad("schemaVersion"));
        }
        let hash = |text: &str, field| unhex::<32>(text).map(Hash).ok_or_else(|| bad(field));
        let bytes = read(self.payload.as_deref(), self.payload_base64.as_deref())
            .ok_or_else(|| bad("payloadBase64"))?;
        let payload = match (bytes, &self.digest) {
            (_, Some(digest)) => Payload::Erased { digest: hash(digest, "digest")? },
            (Some(bytes), None) => {
                let salt = self.salt.as_deref().map(|salt| unhex::<16>(salt).ok_or_else(|| bad("salt")));
                Payload::Kept { bytes, salt: Salt(salt.transpose()?.unwrap_or_default()) }
            }
            (None, None) => Payload::Kept { bytes: Bytes::from_static(b"null"), salt: Salt([0; 16]) },
        };
        let checkpoint = self.checkpoint_hash.as_deref().map(|text| hash(text, "checkpointHash"));
        Ok(Event {
            seq: self.seq,
            at: parse_utc(&self.timestamp).map_err(|_| bad("timestamp"))?,
            payload,
            checkpoint: checkpoint.transpose()?,
            hash: hash(&self.hash, "hash")?,
            subject: self.subject.clone(),
            kind: self.event_type.clone(),
        })
    }
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let mut text = serde_json::to_vec(value).map_err(|error| Error::invalid(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

/// Bytes as JSON where that gives the same bytes back, and as base64 elsewhere.
fn written(bytes: Option<&Bytes>) -> (Option<Box<RawValue>>, Option<String>) {
    let Some(bytes) = bytes else { return (None, None) };
    let raw = serde_json::from_slice::<Box<RawValue>>(bytes).ok();
    // `null` would be read as if there were nothing.
    match raw
        .filter(|raw| raw.get().as_bytes() == &bytes[..] && raw.get() != "null" && !bytes.contains(&b'\n'))
    {
        Some(raw) => (Some(raw), None),
        None => (None, Some(STANDARD.encode(bytes))),
    }
}

/// The reverse of [`written`]; `None` where it cannot be read.
fn read(raw: Option<&RawValue>, base64: Option<&str>) -> Option<Option<Bytes>> {
    match (raw, base64) {
        (_, Some(base64)) => STANDARD.decode(base64).ok().map(|bytes| Some(bytes.into())),
        (Some(raw), None) => Some(Some(Bytes::copy_from_slice(raw.get().as_bytes()))),
        (None, None) => Some(None),
    }
}

/// An export that was read through once, and is sound.
#[derive(Debug)]
pub struct Sound(Checked);

impl Sound {
    /// The execution that it is of.
    pub fn id(&self) -> &ExecutionId {
        &self.0.id
    }
}

#[derive(Debug)]
struct Checked {
    first: First,
    id: ExecutionId,
    agent: AgentId,
    chain: Chain,
    /// The stream that it was exported from.
    source: Stream,
    checkpoint: Option<Checkpoint>,
    progress: Progress,
    /// Of all lines: another import of the same ones goes on with the first.
    digest: [u8; 32],
    length: u64,
}

impl<S: Journal + Ledger> Executions<S> {
    /// Imports an execution. Nothing is written unless all of it is sound. It is paused, and the steps of which nobody knows the end
    /// are in doubt. The same import again goes on with one that was cut off.
    pub async fn import(&self, from: &mut (impl BufRead + Seek)) -> Result<ExecutionId, Error> {
        let sound = self.sound(from)?;
        self.import_sound(from, &sound).await?;
        Ok(sound.0.id)
    }

    /// Reads an export to its end and checks it. Nothing is written.
    pub fn sound(&self, from: &mut (impl BufRead + Seek)) -> Result<Sound, Error> {
        self.check_import(from).map(Sound)
    }

    /// The same as [`import`](Self::import), of lines that were checked.
    pub async fn import_sound(
        &self,
        from: &mut (impl BufRead + Seek),
        Sound(checked): &Sound,
    ) -> Result<(), Error> {
        let stream = self.stream(&checked.id)?;
        let runner = RunnerId::from_bytes(truncated(checked.digest));
        let present = self.store().head(&stream).await?;
        if present.is_some_and(|head| head.runner.is_none_or(|present| present.id != runner)) {
            return Err(Error::AlreadyExists);
        }
        // Before anybody can resume it: a step that may have run elsewhere must not look as if it never had.
        for (at, intent) in checked.progress.open_steps() {
            let step = Step::of_intent(&checked.id, at, intent)?;
            let idempotent = intent.declaration == Declaration::Idempotent;
            let work = |_| async move {
                let cause = "the execution was imported while the step was open".to_owned();
                match idempotent {
                    true => Ended::Unknown(cause),
                    false => Ended::Doubt(Doubt::Stated, cause),
                }
            };
            let marked = Box::pin(self.executor.once(step.call(&self.scope)?, work)).await;
            match marked {
                Err(error) if matches!(super::step::ended(error.clone()), Err(Error::Call(_))) => {
                    return Err(error.into());
                }
                // It is in doubt now, or the ledger knows more.
                _ => {}
            }
        }
        self.write_import(from, checked, &stream, runner).await
    }

    fn check_import(&self, from: &mut (impl BufRead + Seek)) -> Result<Checked, Error> {
        let mut lines = Lines::new(from)?;
        let first =
            lines.next()?.ok_or_else(|| Error::invalid("an export begins with a line about the whole"))?;
        let first: First = parse(&first, 0)?;
        let (id, agent) = (ExecutionId::new(&first.execution_id)?, AgentId::new(&first.agent_id)?);
        let chain = Chain::from_version(first.schema_version)?;
        let source = match &first.stream {
            Some(name) => Stream::new(name.as_str())?,
            None => self.stream(&id)?,
        };
        let bytes = read(first.checkpoint.as_deref(), first.checkpoint_base64.as_deref());
        let bytes = bytes.ok_or_else(|| Error::invalid("checkpointBase64 is not base64"))?;
        let (mut walk, mut progress, mut last) = (Walk::new(&source, chain), Progress::default(), None);
        // The last event that a checkpoint was written with, and the digest of that.
        let mut latest: Option<(u64, Option<Hash>)> = None;
        while let Some(text) = lines.next()? {
            let event = parse::<Line>(&text, lines.number)?.event(chain)?;
            walk.step(&event)?;
            // Exports of the source have no digests: there the end of an iteration has the checkpoint.
            if event::has_checkpoint(chain, &event) {
                latest = Some((event.seq, event.checkpoint));
            }
            let Some(bytes) = event.payload.bytes() else { return Err(Error::Erased) };
            let opened = self.vault.open(&source, bytes)?;
            progress.fold(&event.kind, Some(&opened))?;
            last = Some(event.hash);
        }
        let length = first.length.unwrap_or(walk.next());
        if length != walk.next()
            || first.hash.as_ref().is_some_and(|hash| last.map(Hash::to_hex).as_ref() != Some(hash))
        {
            let position = length.saturating_sub(1).min(walk.next());
            let what = "the export does not end as its first line says".to_owned();
            return Err(Error::ExecutionCorrupted { position, what });
        }
        let checkpoint = checkpoint_of(&source, chain, bytes, first.checkpoint_seq, latest)?;
        Ok(Checked { first, id, agent, chain, source, checkpoint, progress, digest: lines.digest(), length })
    }

    async fn write_import(
        &self,
        from: &mut (impl BufRead + Seek),
        checked: &Checked,
        stream: &Stream,
        runner: RunnerId,
    ) -> Result<(), Error> {
        let lease = self.store().session().id;
        let birth = Birth {
            chain: checked.chain,
            agent: Some(checked.agent.as_str().to_owned()),
            subject: checked.first.subject.clone(),
            runner: Some(Runner { id: runner, lease }),
        };
        let mut create = Append::new(stream.clone(), Author::Creator(birth));
        (create.id, create.status) = (part(&checked.digest, 0), Some(Status::Paused));
        let mut version = send(self.store(), create).await?.version;
        let mut lines = Lines::new(from)?;
        lines.next()?;
        let (mut batch, mut bytes, mut number) = (Vec::new(), 0, 1);
        loop {
            let text = lines.next()?;
            let is_last = text.is_none();
            let mut snapshot = None;
            if let Some(text) = text {
                let event = parse::<Line>(&text, lines.number)?.event(checked.chain)?;
                let of = checked.checkpoint.as_ref().filter(|checkpoint| checkpoint.seq == event.seq);
                snapshot = of.and_then(|checkpoint| checkpoint.bytes.clone());
                let mut new = self.imported(checked, stream, event)?;
                if number == 1 && batch.is_empty() {
                    // The subject of the whole is hashed with its first event.
                    new.subject = new.subject.or_else(|| checked.first.subject.clone());
                }
                bytes += new.payload.len();
                batch.push(new);
            }
            let full = batch.len() >= limits::IMPORT_BATCH || bytes >= limits::IMPORT_BATCH_BYTES;
            if (is_last || full || snapshot.is_some()) && !batch.is_empty() {
                let author = Author::Runner { id: runner, version };
                let mut write = Append::new(stream.clone(), author).with(std::mem::take(&mut batch));
                write.id = part(&checked.digest, number);
                let resealed = snapshot.map(|kept| self.moved(checked, stream, &kept));
                write.checkpoint = resealed.transpose()?;
                version = send(self.store(), write).await?.version;
                (bytes, number) = (0, number + 1);
            }
            if is_last {
                break;
            }
        }
        let about = serde_json::json!({
            "stream": checked.source.as_str(), "status": checked.first.status, "length": checked.length,
            "hash": checked.first.hash,
        });
        let mut end = Append::new(stream.clone(), Author::Runner { id: runner, version });
        (end.id, end.events) =
            (part(&checked.digest, number), vec![self.event(stream, kind::IMPORTED, &about)?]);
        end.status = Some(Status::Paused);
        send(self.store(), end).await?;
        Ok(())
    }

    fn imported(&self, checked: &Checked, stream: &Stream, event: Event) -> Result<NewEvent, Error> {
        let Payload::Kept { bytes, salt } = event.payload else { return Err(Error::Erased) };
        let payload = self.moved(checked, stream, &bytes)?;
        Ok(NewEvent { kind: event.kind, payload, salt, subject: event.subject, at: Some(event.at) })
    }

    /// Bytes as they are kept in their new stream. Chain 1 keeps what came, to the byte; what is sealed opens in its own stream only.
    fn moved(&self, checked: &Checked, stream: &Stream, bytes: &Bytes) -> Result<Bytes, Error> {
        let sealed = hapax_exec::Seal::is_sealed(bytes);
        match checked.chain {
            Chain::V1 if sealed && *stream != checked.source => Err(Error::invalid(
                "a sealed execution of schema version 1 is imported where it came from only",
            )),
            Chain::V1 => Ok(bytes.clone()),
            Chain::V2 if sealed && *stream == checked.source => Ok(bytes.clone()),
            Chain::V2 => {
                let plain = self.vault.open(&checked.source, bytes)?;
                Ok(self.vault.close(stream, plain.into()))
            }
        }
    }
}

/// The checkpoint of an export: that of the last event which has one. Without `checkpointSeq`, as the source exports, it is the same.
fn checkpoint_of(
    source: &Stream,
    chain: Chain,
    bytes: Option<Bytes>,
    named: Option<u64>,
    latest: Option<(u64, Option<Hash>)>,
) -> Result<Option<Checkpoint>, Error> {
    let seen = latest.map(|(seq, _)| seq);
    let Some(seq) = seen else {
        return match (named, &bytes) {
            (None, None) => Ok(None),
            _ => Err(Error::invalid("checkpoint: no event of the export has one")),
        };
    };
    let kept = Checkpoint { seq, bytes };
    let is_there = Some(&kept).filter(|kept| kept.bytes.is_some());
    verify::checkpoint_is(source, seen, named.or(seen), is_there)?;
    if chain == Chain::V2 {
        check_checkpoint(source, &kept, latest.and_then(|(_, digest)| digest))?;
    }
    Ok(Some(kept))
}

/// The id of one part of an import.
fn part(digest: &[u8; 32], number: u64) -> AppendId {
    let mut hasher = Sha256::new();
    hasher.update(digest);
    hasher.update(number.to_be_bytes());
    AppendId::from_bytes(truncated(hasher.finalize().into()))
}

/// Lines of bounded length, hashed on the way.
struct Lines<'a, R> {
    from: &'a mut R,
    number: u64,
    hasher: Sha256,
}

impl<'a, R: BufRead + Seek> Lines<'a, R> {
    fn new(from: &'a mut R) -> Result<Self, Error> {
        from.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        Ok(Lines { from, number: 0, hasher: Sha256::new() })
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let mut line = Vec::new();
            let most = limits::MAX_LINE_BYTES as u64;
            let mut bounded = std::io::Read::take(&mut *self.from, most);
            bounded.read_until(b'\n', &mut line).map_err(unreadable)?;
            if line.is_empty() {
                return Ok(None);
            }
            if line.len() as u64 == most && line.last() != Some(&b'\n') {
                return Err(Error::invalid(format!("line {}: it has more than 8 MiB", self.number + 1)));
            }
            self.number += 1;
            self.hasher.update(&line);
            if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                return Ok(Some(line));
            }
        }
    }

    fn digest(&self) -> [u8; 32] {
        self.hasher.clone().finalize().into()
    }
}

fn unreadable(error: std::io::Error) -> Error {
    Error::invalid(format!("the export cannot be read: {error}"))
}

fn parse<T: serde::de::DeserializeOwned>(line: &[u8], number: u64) -> Result<T, Error> {
    serde_json::from_slice(line).map_err(|error| Error::invalid(format!("line {number}: {error}")))
}
