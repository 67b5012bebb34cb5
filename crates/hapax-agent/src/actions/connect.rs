//! The systems that tools are on (X7).
//!
//! What can be called is made here and called from `executor` alone: `Connect` is private to this crate. A tool says whether it
//! reads, whether it may run again, and how long it may take; the connector says how a call ended (L7).

mod http;
mod local;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use hapax_core::{Epoch, OperationId, Rerun};
use serde_json::value::RawValue;

use super::plan::Refusal;
use crate::limits;

pub use http::{Http, HttpTool, KeyDialect};
pub use local::Local;

/// What a tool is said to do to the world, for rules: what MCP calls its annotations, with what MCP takes for granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy what is there.
    pub destructive: bool,
    /// Called again with the same arguments, it changes nothing more.
    pub idempotent: bool,
    /// It reaches systems that others reach, too.
    pub open_world: bool,
}

impl Default for Hints {
    fn default() -> Self {
        Hints { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

/// What is known of a tool before it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// What rules are told of it.
    pub hints: Hints,
    /// Whether it changes nothing: then it needs no key, is asked of no gate and runs as often as it is called.
    pub read_only: bool,
    /// May it run again when it is unknown whether it ran?
    pub rerun: Rerun,
    /// How long one call may take.
    pub give_up: Duration,
}

impl Default for Tool {
    fn default() -> Self {
        Tool {
            hints: Hints::default(),
            read_only: false,
            rerun: Rerun::Unsafe,
            give_up: limits::TOOL_GIVE_UP,
        }
    }
}

impl Tool {
    /// A tool that changes nothing.
    pub fn reads() -> Self {
        let hints = Hints { read_only: true, destructive: false, idempotent: true, ..Hints::default() };
        Tool { hints, read_only: true, rerun: Rerun::Safe, ..Tool::default() }
    }

    /// A tool that may run again.
    pub fn rerun_safe() -> Self {
        let hints = Hints { idempotent: true, ..Hints::default() };
        Tool { hints, rerun: Rerun::Safe, ..Tool::default() }
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
}

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
    /// What is known of a tool; `None` where there is none of this name.
    fn tool(&self, name: &str) -> Option<&Tool>;

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

    /// A tool and the system that it is on.
    pub(super) fn find(&self, connector: &str, tool: &str) -> Result<(&dyn Connect, &Tool), Refusal> {
        let system = self.0.get(connector);
        let system =
            system.ok_or_else(|| Refusal::new("connector-unknown", format!("no connector {connector:?}")))?;
        let found = system.tool(tool);
        let found = found.ok_or_else(|| {
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
