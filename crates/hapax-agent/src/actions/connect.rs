//! The systems that tools are on (X7).
//!
//! What can be called is made here and called from `executor` alone: `Connect` is private to this crate. A tool says whether it
//! reads, whether it may run again, and how long it may take; the connector says how a call ended (L7).

mod http;
mod local;
mod mcp;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use hapax_core::{Epoch, OperationId, Rerun};
use serde_json::value::RawValue;

use super::plan::Refusal;
use crate::limits;

pub use http::{Http, HttpTool, KeyDialect};
pub use local::Local;
pub use mcp::{KEY_FIELD, Mcp, McpProcess, McpTool, servers_ended};

/// What is known of a tool before it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Whether it changes nothing: then it needs no key, is asked of no gate and runs as often as it is called.
    pub read_only: bool,
    /// May it run again when it is unknown whether it ran?
    pub rerun: Rerun,
    /// Whether it may overwrite or remove something; only told to the gate.
    pub destructive: bool,
    /// How long one call may take.
    pub give_up: Duration,
}

impl Default for Tool {
    fn default() -> Self {
        let give_up = limits::TOOL_GIVE_UP;
        Tool { read_only: false, rerun: Rerun::Unsafe, destructive: true, give_up }
    }
}

impl Tool {
    /// A tool that changes nothing.
    pub fn reads() -> Self {
        Tool { read_only: true, rerun: Rerun::Safe, destructive: false, ..Tool::default() }
    }

    /// A tool that may run again.
    pub fn rerun_safe() -> Self {
        Tool { rerun: Rerun::Safe, ..Tool::default() }
    }
}

/// One call of a tool.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Which tool.
    pub tool: String,
    /// With what, as the agent wrote it.
    pub args: Box<RawValue>,
    /// What the action is known by downstream: 64 hexadecimal digits, the same for every call of the same action and different in
    /// every project. A read has none.
    pub key: Option<String>,
    /// The fencing number of this attempt. A read has none.
    pub epoch: Option<Epoch>,
    /// The public id of the operation. A read has none.
    pub operation_id: Option<OperationId>,
    /// The span that it is made for, if one is known.
    pub traceparent: Option<String>,
}

/// The header, and the field of `_meta`, that says which span a call belongs to.
const TRACEPARENT: &str = "traceparent";

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Invoked {
    /// It was done, and this is the answer.
    Done(Box<RawValue>),
    /// It certainly was not done.
    NotRun(String),
    /// It may have been done.
    Unknown(String),
}

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A system that tools are on.
pub(crate) trait Connect: Send + Sync + 'static {
    /// What is known of a tool; `None` where there is none of this name. Refuses arguments that the tool cannot take, where that is
    /// known before a call.
    fn look_up<'a>(
        &'a self,
        name: &'a str,
        args: &'a RawValue,
    ) -> BoxFuture<'a, Result<Option<Tool>, Refusal>>;

    /// Calls a tool. Only the executor does, after gate, ledger and lane.
    fn invoke(&self, call: Invocation) -> BoxFuture<'_, Invoked>;
}

/// All systems, by name.
#[derive(Default)]
pub struct Connectors(BTreeMap<String, Box<dyn Connect>>);

impl Connectors {
    /// Adds tools that are functions of this process.
    #[must_use]
    pub fn local(mut self, name: impl Into<String>, connector: Local) -> Self {
        self.0.insert(name.into(), Box::new(connector));
        self
    }

    /// Adds a service that speaks HTTP.
    #[must_use]
    pub fn http(mut self, name: impl Into<String>, connector: Http) -> Self {
        self.0.insert(name.into(), Box::new(connector));
        self
    }

    /// Adds an MCP server.
    #[must_use]
    pub fn mcp(mut self, name: impl Into<String>, connector: Mcp) -> Self {
        self.0.insert(name.into(), Box::new(connector));
        self
    }

    /// A tool and the system that it is on.
    pub(super) async fn find(
        &self,
        connector: &str,
        tool: &str,
        args: &RawValue,
    ) -> Result<(&dyn Connect, Tool), Refusal> {
        let system = self.0.get(connector);
        let system =
            system.ok_or_else(|| Refusal::new("connector-unknown", format!("no connector {connector:?}")))?;
        let found = system.look_up(tool, args).await?.ok_or_else(|| {
            Refusal::new("tool-unknown", format!("no tool {tool:?} on connector {connector:?}"))
        })?;
        Ok((system.as_ref(), found))
    }
}

impl std::fmt::Debug for Connectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
