//! Executions as others see them: ids, and the JSON with the names of their source (J1).

use std::fmt;
use std::sync::Arc;

use hapax_core::journal::{Event, Head, Status, Stream};
use hapax_core::time::utc;
use hapax_core::{Project, RunnerId, Tenant, limits as core_limits};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::Error;
use super::key::{hex, unhex};
use crate::limits;

/// What all streams of executions begin with.
pub(crate) const PREFIX: &str = "execution/";

/// The id of an execution: 1 to 64 of `A–Z a–z 0–9 . _ ~ -`, and not only dots.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutionId(Arc<str>);

impl ExecutionId {
    /// Checks an id.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-');
        let fits = (1..=limits::MAX_EXECUTION_ID_CHARS).contains(&text.len());
        if fits && text.bytes().all(plain) && text.bytes().any(|byte| byte != b'.') {
            return Ok(ExecutionId(text.into()));
        }
        Err(Error::invalid("executionId: 1 to 64 letters, digits and . _ ~ -, and not only dots"))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of an agent: 1 to 128 printable characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(Arc<str>);

impl AgentId {
    /// Checks an id.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        let fits = (1..=core_limits::MAX_AGENT_CHARS).contains(&text.chars().count());
        match fits && !text.chars().any(char::is_control) {
            true => Ok(AgentId(text.into())),
            false => Err(Error::invalid("agentId: 1 to 128 printable characters")),
        }
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The stream of an execution. Another project's execution of the same id is another stream.
pub(crate) fn stream_of(tenant: &Tenant, project: &Project, id: &ExecutionId) -> Result<Stream, Error> {
    let name = format!("{PREFIX}{}/{}/{}", tenant.as_str(), project.as_str(), id.as_str());
    Stream::new(name).map_err(Error::from)
}

/// The parts of a stream's name: tenant, project and id.
pub(crate) fn parts_of(stream: &Stream) -> Option<(Tenant, Project, ExecutionId)> {
    let mut parts = stream.as_str().strip_prefix(PREFIX)?.split('/');
    let (tenant, project, id) = (parts.next()?, parts.next()?, parts.next()?);
    let project = match project {
        "_tenant" => Project::tenant_level(),
        "_platform" => Project::platform_level(),
        name => Project::new(name).ok()?,
    };
    let found = (Tenant::new(tenant).ok()?, project, ExecutionId::new(id).ok()?);
    parts.next().is_none().then_some(found)
}

/// A runner's id as a caller keeps it.
pub fn runner_text(id: RunnerId) -> String {
    format!("ru_{}", hex(id.as_bytes()))
}

/// Reads a runner's id back.
pub fn parse_runner(text: &str) -> Result<RunnerId, Error> {
    let bytes = text.strip_prefix("ru_").and_then(unhex::<16>);
    bytes
        .map(RunnerId::from_bytes)
        .ok_or_else(|| Error::invalid("runner: `ru_` followed by 32 hexadecimal digits"))
}

/// An execution with its latest checkpoint and some of its events.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// What is true of the whole.
    #[serde(flatten)]
    pub summary: Summary,
    /// The events that were asked for.
    pub events: Vec<ExecutionEvent>,
    /// The latest checkpoint as it was written; `null` where there is none, or where it was erased.
    pub checkpoint: Option<Box<RawValue>>,
}

/// An execution without its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Its id.
    pub execution_id: String,
    /// The agent that it belongs to.
    pub agent_id: String,
    /// `RUNNING`, `PAUSED`, `COMPLETED`, `FAILED` or `RECOVERING`.
    pub status: String,
    /// How often it was written to.
    pub version: u64,
    /// How many events it has.
    pub length: u64,
    /// How its events are chained.
    pub schema_version: u32,
    /// Whose data it has, as a subject is rendered.
    pub subject: Option<String>,
    /// When it was made.
    pub created_at: Option<String>,
    /// When it was last written to.
    pub updated_at: Option<String>,
}

impl Summary {
    pub(crate) fn of(id: &ExecutionId, head: &Head) -> Self {
        Summary {
            execution_id: id.as_str().to_owned(),
            agent_id: head.agent.clone().unwrap_or_default(),
            status: head.status.map_or("", Status::as_str).to_owned(),
            version: head.version,
            length: head.length,
            schema_version: head.chain.version(),
            subject: head.subject.clone(),
            created_at: utc(head.created_at),
            updated_at: utc(head.updated_at),
        }
    }
}

/// An event of an execution.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionEvent {
    /// Its place, from 0.
    pub seq: u64,
    /// Its type.
    pub event_type: String,
    /// When it was appended.
    pub timestamp: Option<String>,
    /// What it says; `null` where that was erased.
    pub payload: Option<Box<RawValue>>,
    /// The chain's hash up to and including it.
    pub hash: String,
    /// How it is chained.
    pub schema_version: u32,
}

impl ExecutionEvent {
    /// An event, with its payload opened.
    pub(crate) fn of(event: &Event, payload: Option<&[u8]>, schema_version: u32) -> Result<Self, Error> {
        Ok(ExecutionEvent {
            seq: event.seq,
            event_type: event.kind.clone(),
            timestamp: utc(event.at),
            payload: payload.map(raw).transpose()?,
            hash: event.hash.to_hex(),
            schema_version,
        })
    }
}

/// JSON as it was written.
pub(crate) fn raw(bytes: &[u8]) -> Result<Box<RawValue>, Error> {
    serde_json::from_slice(bytes)
        .map_err(|_| Error::Store(hapax_core::Error::corrupt("what an execution keeps is not JSON")))
}

/// An execution in a listing.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Its tenant.
    pub tenant: Tenant,
    /// Its project.
    pub project: Project,
    /// Its id.
    pub id: ExecutionId,
    /// What is true of it.
    pub summary: Summary,
    /// Whether the lease of its runner lasts, on the store's clock.
    pub lives: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_bounds_of_their_source_j1() {
        let long = "x".repeat(64);
        for good in ["a", "e-42", "A.b_c~d-9", &long] {
            assert_eq!(ExecutionId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a:b", "a/b", "a b", "é", ".", "..", &"x".repeat(65)] {
            assert!(matches!(ExecutionId::new(bad), Err(Error::Invalid(_))), "{bad}");
        }
        assert!(AgentId::new("é".repeat(128)).is_ok());
        for bad in [String::new(), "x".repeat(129), "a\nb".into()] {
            assert!(matches!(AgentId::new(&bad), Err(Error::Invalid(_))), "{bad:?}");
        }
    }

    #[test]
    fn a_stream_tells_whose_it_is_and_a_runner_is_read_back() {
        let (tenant, project) = (Tenant::new("acme").unwrap(), Project::new("prod").unwrap());
        let id = ExecutionId::new("e-1").unwrap();
        let stream = stream_of(&tenant, &project, &id).unwrap();
        assert_eq!(stream.as_str(), "execution/acme/prod/e-1");
        assert_eq!(parts_of(&stream), Some((tenant, project, id)));
        assert_eq!(parts_of(&Stream::new("receipts/acme").unwrap()), None);
        let runner = RunnerId::random();
        assert_eq!(parse_runner(&runner_text(runner)).unwrap(), runner);
        assert!(parse_runner("ru_00").is_err());
    }
}
