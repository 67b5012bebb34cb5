//! Who asks, and what answers: what the console and a script must know before anything else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::Time;
use crate::words::{Role, StoreKind};

/// Who asks, and what answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Me {
    /// The token's name, which the audit shows.
    pub name: String,
    /// What the token allows.
    pub role: Role,
    /// What the server's clock shows.
    pub time: Time,
    /// The process that answers.
    pub server: Server,
    /// Other tools that know more.
    pub links: Vec<Link>,
}

/// A process that serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// The version of hapax.
    pub version: String,
    /// What this process is called among others.
    pub instance: String,
    /// What the installation is called; null where it has no name.
    pub label: Option<String>,
    /// Since when it serves.
    pub started_at: Time,
    /// Where claims are kept.
    pub store: StoreBrief,
    /// Whether what is kept is encrypted.
    pub sealed: bool,
    /// The digest of the console's files, which stands in their paths; null where the console is switched off.
    pub console: Option<String>,
}

/// Where claims are kept, in brief.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreBrief {
    /// Which kind of store.
    pub kind: StoreKind,
}

/// Another tool that knows more of a claim or a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// What it is called.
    pub name: String,
    /// Where it is: a URL with places such as `{operation_id}`, `{trace_id}`, `{tenant}`, `{project}`, `{key}`, `{from}` and `{to}`,
    /// which are percent-encoded.
    pub url: String,
}
