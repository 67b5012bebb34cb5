//! Requests that a process has answered lately: what it remembers of them, in memory only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{PAGE_RECORDS, SLUG, UTC};
use crate::text::{OperationId, Time};

/// Which requests are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestsQuery {
    /// That came about so: `executed`, `replayed`, `key-reused`, or a group of a pulse's sample such as `mismatch` or `refused`.
    pub event: Option<String>,
    /// With this status.
    pub status: Option<u16>,
    /// At this endpoint: the path of the route, or its method and path.
    pub endpoint: Option<String>,
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// Of this project.
    #[schemars(regex(pattern = SLUG))]
    pub project: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// Of this operation.
    pub operation_id: Option<OperationId>,
    /// Answered at or after this time (UTC).
    #[schemars(extend("pattern" = UTC))]
    pub since: Option<Time>,
    /// Answered before this time (UTC).
    #[schemars(extend("pattern" = UTC))]
    pub until: Option<Time>,
    /// At most so many (1 to 1000, default 50).
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// One page of recent requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// The requests, newest first.
    pub requests: Vec<SeenRequest>,
    /// What is remembered reaches back so far.
    pub since: Time,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// A request as it was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenRequest {
    /// When it was answered.
    pub at: Time,
    /// Its method.
    pub method: String,
    /// The path of the route, `recall` or `_none`.
    pub endpoint: String,
    /// The status of the answer.
    pub status: u16,
    /// How the answer came about: `executed`, `replayed`, `attached`, `passed`, `released`, `async`, or the code of a problem.
    pub event: String,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// Whose it was; null where nobody was let in.
    pub tenant: Option<String>,
    /// In which project.
    pub project: Option<String>,
    /// Who asked.
    pub subject: Option<String>,
    /// The caller's key; null where there was none.
    pub key: Option<String>,
    /// The operation; null where there is none.
    pub operation_id: Option<OperationId>,
    /// The policy of the route.
    pub policy: Option<String>,
    /// The trace that it belongs to.
    pub trace_id: Option<String>,
    /// What led to it, where something went wrong.
    pub cause: Option<String>,
}
