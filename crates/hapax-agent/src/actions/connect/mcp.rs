//! Tools of an MCP server, which is a child process or is reached over HTTP (X7).
//!
//! The server lists its tools; what it says about them becomes read, rerun and input of the gate. A call hands the action's key and its span
//! over in `_meta`. What is left to others: the connection and its restarts ([`session`]), what a listed tool is ([`tools`]) and takes
//! ([`schema`]), how a call ended ([`ends`]), the process ([`child`]) and HTTP ([`web`]).

mod child;
mod ends;
mod schema;
mod session;
mod tools;
mod web;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hapax_core::{Error, Rerun};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, JsonObject, RequestMetaObject};
use rmcp::service::PeerRequestOptions;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::{BoxFuture, Connect, Invocation, Invoked, Refusal, TRACEPARENT, Tool};
use crate::limits;
pub use child::servers_ended;
use session::Link;

/// Where a call carries the key of its action.
pub const KEY_FIELD: &str = "dev.hapax/idempotency-key";

/// How a server is reached.
#[derive(Clone, Debug)]
enum Reach {
    Process(McpProcess),
    Http(web::Web),
}

/// A server that is started as a child process and spoken to over its standard input and output.
#[derive(Clone, Debug)]
pub struct McpProcess {
    /// The program, and what it is started with.
    pub command: PathBuf,
    /// See `command`.
    pub args: Vec<String>,
    /// Variables of its environment, beside the few that every program needs. It gets no others of this process.
    pub env: BTreeMap<String, String>,
    /// Its working directory, if it is not this process's.
    pub folder: Option<PathBuf>,
}

impl McpProcess {
    /// A program without arguments.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        McpProcess { command: command.into(), args: Vec::new(), env: BTreeMap::new(), folder: None }
    }

    /// With arguments.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// What the operator says about one tool. It counts before what a trusted server says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McpTool {
    /// Whether it changes nothing.
    pub read_only: Option<bool>,
    /// Whether it may run again when it is unknown whether it ran.
    pub rerun: Option<Rerun>,
    /// Whether it may overwrite or remove something.
    pub destructive: Option<bool>,
    /// How long one call may take.
    pub give_up: Option<Duration>,
}

/// What counts as true about the tools of a server.
#[derive(Clone, Debug)]
struct Trust {
    trusted: bool,
    give_up: Duration,
    tools: BTreeMap<String, McpTool>,
}

/// A server with its tools. It is started, or connected to, when the first action needs it.
pub struct Mcp {
    link: Link,
    trust: Trust,
    calls: Semaphore,
}

impl Mcp {
    /// A server that is a child process.
    pub fn process(process: McpProcess) -> Self {
        Mcp::reached(Reach::Process(process))
    }

    /// A server at this URL, with headers on every request.
    pub fn http<'a>(url: &str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        Ok(Mcp::reached(Reach::Http(web::Web::new(url, headers)?)))
    }

    fn reached(reach: Reach) -> Self {
        Mcp {
            link: Link::new(reach),
            trust: Trust { trusted: false, give_up: limits::TOOL_GIVE_UP, tools: BTreeMap::new() },
            calls: Semaphore::new(limits::MCP_CALLS),
        }
    }

    /// Whether what the server says about its tools counts also where it makes them less strict.
    #[must_use]
    pub fn trusted(mut self, trusted: bool) -> Self {
        self.trust.trusted = trusted;
        self
    }

    /// How long one call may take, unless its tool says otherwise.
    #[must_use]
    pub fn give_up(mut self, give_up: Duration) -> Self {
        self.trust.give_up = give_up;
        self
    }

    /// What the operator says about a tool.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, tool: McpTool) -> Self {
        self.trust.tools.insert(name.into(), tool);
        self
    }

    async fn known(&self, name: &str, args: &RawValue) -> Result<Option<Tool>, Refusal> {
        let away = |error| Refusal::new("connector-unavailable", error);
        let session = self.link.session().await.map_err(away)?;
        let listed = session.tool(name).await.map_err(away)?;
        let Some(listed) = listed else { return Ok(None) };
        listed.check(args).map_err(|error| Refusal::new("args-malformed", error))?;
        Ok(Some(listed.tool(&self.trust)))
    }

    async fn call(&self, call: Invocation) -> Invoked {
        let arguments: JsonObject = match serde_json::from_str(call.args.get()) {
            Ok(arguments) => arguments,
            Err(error) => return Invoked::NotRun(format!("args: {error}")),
        };
        let session = match self.link.session().await {
            Ok(session) => session,
            Err(error) => return Invoked::NotRun(error),
        };
        let Ok(_place) = self.calls.acquire().await else {
            return Invoked::NotRun("the connector is closed".into());
        };
        let params = CallToolRequestParams::new(call.tool).with_arguments(arguments);
        let mut options = PeerRequestOptions::no_options();
        let mut meta = RequestMetaObject::new();
        for (field, value) in [(KEY_FIELD, call.key), (TRACEPARENT, call.traceparent)] {
            if let Some(value) = value {
                meta.0.insert(field.to_owned(), Value::String(value));
            }
        }
        if !meta.0.is_empty() {
            options = options.with_meta(meta);
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        // Not `call_tool`: that one tells the server to stop when its future is dropped.
        match session.peer().send_request_with_option(request, options).await {
            Ok(handle) => {
                let answer = handle.await_response().await;
                if ends::is_lost(&answer) {
                    session.forget();
                }
                ends::ended(answer)
            }
            Err(error) => {
                session.forget();
                Invoked::NotRun(format!("the server is gone: {error}"))
            }
        }
    }
}

impl Connect for Mcp {
    fn look_up<'a>(
        &'a self,
        name: &'a str,
        args: &'a RawValue,
    ) -> BoxFuture<'a, Result<Option<Tool>, Refusal>> {
        Box::pin(self.known(name, args))
    }

    fn invoke(&self, call: Invocation) -> BoxFuture<'_, Invoked> {
        Box::pin(self.call(call))
    }
}

impl std::fmt::Debug for Mcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mcp").field("link", &self.link).field("trust", &self.trust).finish_non_exhaustive()
    }
}
