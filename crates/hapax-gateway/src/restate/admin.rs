//! The admin API of a cluster: what it accepted, how a call stands, which services it has, and what operators may do to calls.
//!
//! Nothing here is decided: which calls are whose, and what is allowed, is for those who ask.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use super::circuit::{Circuits, Standing};
use super::nodes::{Nodes, Question, exchange};
use super::{ATTEMPT, FINGERPRINT, is_invocation_id};
use crate::clock;
use crate::limits;
use crate::settings::{Cluster, Node};

/// The admin API of one cluster, over connections of one runtime.
#[derive(Debug)]
pub struct Admin {
    nodes: Nodes,
}

/// The admin API gave no answer that could be used.
#[derive(Clone, Debug)]
pub struct Away(pub String);

impl std::fmt::Display for Away {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Away {}

/// What bounds a question that is asked for a caller of the edge.
#[derive(Clone, Copy)]
pub(crate) struct Within<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) circuits: &'a Circuits,
    /// When the caller's time is over.
    pub(crate) until: Instant,
}

impl Within<'_> {
    /// How long this node is waited for, so that each of those that are left gets its share of the caller's time.
    fn patience(&self, node: &Node, left: usize) -> Result<Duration, String> {
        let now = clock::now();
        let share =
            self.until.saturating_duration_since(now) / u32::try_from(left.max(1)).unwrap_or(u32::MAX);
        if share.is_zero() {
            return Err(format!("{node}: the caller's time is over"));
        }
        match self.circuits.standing(node, self.cluster, now) {
            Standing::Suspended(left) => Err(format!("{node}: suspended for another {left:?}")),
            // Nothing is executed by a question: this one looks whether the node is back.
            Standing::Well | Standing::Probe => Ok(share.min(limits::ADMIN_WAIT)),
        }
    }

    /// Takes down what came of a question to a node. Too short a wait says nothing about it.
    fn note(&self, node: &Node, has_answered: bool, patience: Duration) {
        match has_answered {
            true => self.circuits.answered(node),
            false if patience < limits::ADMIN_LEAST => {}
            false => self.circuits.failed(node, self.cluster, clock::now()),
        }
    }
}

/// What the cluster accepted: the head of the first entry of a call's journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) fingerprint: Option<String>,
    pub(crate) attempt: Option<String>,
}

/// A call as the cluster knows it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Invocation {
    /// Its id.
    pub id: String,
    /// The service.
    #[serde(rename = "target_service_name")]
    pub service: String,
    /// The key of an object.
    #[serde(rename = "target_service_key")]
    pub object: Option<String>,
    /// The handler.
    #[serde(rename = "target_handler_name")]
    pub handler: String,
    /// The key that it was called under.
    pub idempotency_key: Option<String>,
    /// How it stands: `pending`, `ready`, `running`, `backing-off`, `suspended`, `paused`, `completed`.
    pub status: String,
    /// When it was accepted.
    pub created_at: Option<String>,
    /// When it came to its end.
    pub completed_at: Option<String>,
    /// `success` or `failure`, once it came to its end.
    pub completion_result: Option<String>,
    /// What it failed with.
    pub completion_failure: Option<String>,
    /// How often it was tried.
    pub retry_count: Option<u64>,
    /// What it failed with last, while it is tried again.
    pub last_failure: Option<String>,
}

/// A service as it is registered.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// `Service`, `VirtualObject` or `Workflow`.
    pub ty: String,
    /// Its handlers.
    #[serde(default)]
    pub handlers: Vec<RegisteredHandler>,
    /// How long outcomes are kept.
    pub idempotency_retention: Option<String>,
    /// How long journals are kept, without which fingerprints cannot be compared.
    pub journal_retention: Option<String>,
    /// What becomes of a call that keeps failing.
    pub retry_policy: Option<RetryPolicy>,
}

/// A handler as it is registered: what it says goes before what its service says.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct RegisteredHandler {
    /// Its name.
    pub name: String,
    /// How long its outcomes are kept.
    pub idempotency_retention: Option<String>,
    /// How long its journals are kept.
    pub journal_retention: Option<String>,
    /// What becomes of a call that keeps failing.
    pub retry_policy: Option<RetryPolicy>,
}

/// What becomes of a call that keeps failing.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often it is tried.
    pub max_attempts: Option<u64>,
    /// `Pause` or `Kill`.
    pub on_max_attempts: Option<String>,
}

/// What became of a command about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was done.
    Done,
    /// There is no such call.
    Absent,
    /// The call has come to its end already, or has not come to it yet.
    NotNow,
}

#[derive(Deserialize)]
struct Rows<T> {
    rows: Vec<T>,
}

#[derive(Deserialize)]
struct Entry {
    head: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    status: String,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

#[derive(Deserialize)]
struct Services {
    services: Vec<Registered>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

const COLUMNS: &str = "id, target_service_name, target_service_key, target_handler_name, idempotency_key, status, \
                       created_at, completed_at, completion_result, completion_failure, retry_count, last_failure";

impl Admin {
    /// Of this cluster.
    pub fn new(upstream: &str, cluster: &Cluster) -> Result<Self, hapax_core::Error> {
        Ok(Admin { nodes: Nodes::new(upstream, cluster, &cluster.admin)? })
    }

    /// What the cluster accepted under this id; `None` where its journal is not there.
    pub(crate) async fn accepted(
        &self,
        invocation: &str,
        within: Within<'_>,
    ) -> Result<Option<Accepted>, Away> {
        let id = known_id(invocation)?;
        let most = limits::JOURNAL_HEAD;
        let query = format!(
            "SELECT substr(entry_json, 1, {most}) AS head FROM sys_journal WHERE id = '{id}' AND index = 0"
        );
        let rows: Vec<Entry> = self.query(&query, Some(within)).await?;
        let Some(entry) = rows.into_iter().next() else { return Ok(None) };
        let head = entry.head.ok_or_else(|| Away("the first entry of a journal cannot be read".into()))?;
        let of = |name: &http::HeaderName| header_in(&head, name.as_str());
        Ok(Some(Accepted { fingerprint: of(&FINGERPRINT), attempt: of(&ATTEMPT) }))
    }

    /// How a call stands; `None` where there is none.
    pub(crate) async fn status(&self, invocation: &str, within: Within<'_>) -> Result<Option<String>, Away> {
        let id = known_id(invocation)?;
        let query = format!("SELECT status FROM sys_invocation WHERE id = '{id}'");
        let rows: Vec<Status> = self.query(&query, Some(within)).await?;
        Ok(rows.into_iter().next().map(|row| row.status))
    }

    /// A call.
    pub async fn invocation(&self, invocation: &str) -> Result<Option<Invocation>, Away> {
        let id = known_id(invocation)?;
        let query = format!("SELECT {COLUMNS} FROM sys_invocation WHERE id = '{id}'");
        Ok(self.query::<Invocation>(&query, None).await?.into_iter().next())
    }

    /// Some call whose outcome is kept under a key.
    pub(crate) async fn any_kept(&self) -> Result<Option<String>, Away> {
        let query = "SELECT id FROM sys_invocation WHERE status = 'completed' AND idempotency_key IS NOT NULL LIMIT 1";
        let rows: Vec<Id> = self.query(query, None).await?;
        Ok(rows.into_iter().next().map(|row| row.id).filter(|id| is_invocation_id(id)))
    }

    /// Calls whose key begins like this, after an id, in the order of their ids.
    pub async fn invocations(
        &self,
        begins: &str,
        status: Option<&str>,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Invocation>, Away> {
        let mut query = format!(
            "SELECT {COLUMNS} FROM sys_invocation WHERE starts_with(idempotency_key, {})",
            quoted(begins)
        );
        if let Some(status) = status {
            query.push_str(&format!(" AND status = {}", quoted(status)));
        }
        if let Some(after) = after {
            query.push_str(&format!(" AND id > '{}'", known_id(after)?));
        }
        query.push_str(&format!(" ORDER BY id LIMIT {most}"));
        self.query(&query, None).await
    }

    /// Ends a call where it is. What it came to is kept until it is purged.
    pub async fn kill(&self, invocation: &str) -> Result<Settled, Away> {
        self.command(invocation, "kill").await
    }

    /// Forgets a call that has come to its end: its key is free.
    pub async fn purge(&self, invocation: &str) -> Result<Settled, Away> {
        self.command(invocation, "purge").await
    }

    async fn command(&self, invocation: &str, verb: &str) -> Result<Settled, Away> {
        let path = format!("/invocations/{}/{verb}", known_id(invocation)?);
        let (status, body) = self.ask(Method::PATCH, path, Bytes::new()).await?;
        match status.as_u16() {
            200..300 => Ok(Settled::Done),
            404 => Ok(Settled::Absent),
            409 => Ok(Settled::NotNow),
            _ => Err(refused(status, &body)),
        }
    }

    /// All services.
    pub async fn services(&self) -> Result<Vec<Registered>, Away> {
        let (status, body) = self.ask(Method::GET, "/services".into(), Bytes::new()).await?;
        read::<Services>(status, &body).map(|found| found.services)
    }

    /// One service; `None` where none is registered under this name.
    pub async fn service(&self, name: &str) -> Result<Option<Registered>, Away> {
        let (status, body) = self.ask(Method::GET, format!("/services/{name}"), Bytes::new()).await?;
        if status == StatusCode::NOT_FOUND { Ok(None) } else { read(status, &body).map(Some) }
    }

    /// Keeps outcomes and journals of a service for so long, and says what the server made of it.
    pub async fn keep(&self, name: &str, retention: Duration) -> Result<Option<Registered>, Away> {
        let kept = format!("{}s", retention.as_secs());
        let body = json!({ "idempotency_retention": kept, "journal_retention": kept });
        let path = format!("/services/{name}");
        let (status, body) = self.ask(Method::PATCH, path, body.to_string().into()).await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        read::<Registered>(status, &body)?;
        // What it answers is what it was told; what holds is read back.
        self.service(name).await
    }

    /// The version of the server.
    pub async fn version(&self) -> Result<String, Away> {
        let (status, body) = self.ask(Method::GET, "/version".into(), Bytes::new()).await?;
        read::<Version>(status, &body).map(|found| found.version)
    }

    async fn query<T: DeserializeOwned>(
        &self,
        query: &str,
        within: Option<Within<'_>>,
    ) -> Result<Vec<T>, Away> {
        let body = json!({ "query": query }).to_string();
        let question = Question::posted("/query", body);
        let (status, body) = self.ask_within(&question, within).await?;
        read::<Rows<T>>(status, &body).map(|found| found.rows)
    }

    async fn ask(&self, method: Method, path: String, body: Bytes) -> Result<(StatusCode, Bytes), Away> {
        let question = Question { method, ..Question::posted(path, body) };
        self.ask_within(&question, None).await
    }

    /// Asks one node after the other, each for a while; for a caller, none that has failed too often.
    async fn ask_within(
        &self,
        question: &Question,
        within: Option<Within<'_>>,
    ) -> Result<(StatusCode, Bytes), Away> {
        let mut cause = String::from("there is no admin address");
        for (number, node) in self.nodes.in_turn().enumerate() {
            let patience = within.map(|within| within.patience(&node.0, self.nodes.count() - number));
            let patience = match patience.unwrap_or(Ok(limits::ADMIN_WAIT)) {
                Ok(patience) => patience,
                Err(why) => {
                    cause = why;
                    continue;
                }
            };
            let asked = exchange(node, question, limits::ADMIN_ANSWER);
            let answered = match tokio::time::timeout(patience, asked).await {
                Ok(Ok(reply)) => match reply.whole() {
                    Some(body) if !reply.status.is_server_error() => Ok((reply.status, body.clone())),
                    Some(body) => Err(refused(reply.status, body).to_string()),
                    None => Err("its answer is too long".into()),
                },
                Ok(Err(failed)) => Err(failed.to_string()),
                Err(_) => Err(format!("no answer within {patience:?}")),
            };
            if let Some(within) = within {
                within.note(&node.0, answered.is_ok(), patience);
            }
            match answered {
                Ok(answer) => return Ok(answer),
                Err(why) => cause = format!("{}: {why}", node.0),
            }
        }
        Err(Away(cause))
    }
}

fn known_id(invocation: &str) -> Result<&str, Away> {
    match is_invocation_id(invocation) {
        true => Ok(invocation),
        false => Err(Away("this is not the id of an invocation".into())),
    }
}

/// A text in a query.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn refused(status: StatusCode, body: &Bytes) -> Away {
    let message = serde_json::from_slice::<super::ErrorBody>(body).unwrap_or_default().message;
    Away(format!("the admin API answered {}: {message}", status.as_u16()))
}

fn read<T: DeserializeOwned>(status: StatusCode, body: &Bytes) -> Result<T, Away> {
    if !status.is_success() {
        return Err(refused(status, body));
    }
    serde_json::from_slice(body)
        .map_err(|error| Away(format!("an answer of the admin API cannot be read: {error}")))
}

/// The value of a header in the beginning of a journal entry's JSON, which need not be whole. Within a value every quote is
/// escaped, so that no value looks like a header.
fn header_in(head: &str, name: &str) -> Option<String> {
    let before = format!("{{\"name\":\"{name}\",\"value\":\"");
    let (value, _) = head.split_once(&before)?.1.split_once('"')?;
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_found_in_half_an_entry_and_no_value_passes_for_one_d4() {
        let head = r#"{"Command":{"Input":{"headers":[{"name":"a","value":"{\"name\":\"x-hapax-fingerprint\",\"value\":\"forged\"}"},{"name":"x-hapax-fingerprint","value":"true.1"},{"name":"x-ha"#;
        assert_eq!(header_in(head, "x-hapax-fingerprint"), Some("true.1".into()));
        assert_eq!(header_in(head, "x-hapax-attempt"), None);
        assert_eq!(header_in(r#"{"name":"x-hapax-attempt","value":"cu"#, "x-hapax-attempt"), None);
    }

    #[test]
    fn a_text_in_a_query_stays_a_text() {
        assert_eq!(quoted("t-a'; DROP"), "'t-a''; DROP'");
    }
}
