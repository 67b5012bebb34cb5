//! What an agent can do: tools by their names, and what each says about being called twice (J6).

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hapax_core::{Epoch, Rerun};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::execution::ExecutionId;
use super::key::Coordinates;

/// What a tool says about being called twice with the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Declaration {
    /// It may be: it has its effect once for one key.
    Idempotent,
    /// It must not be.
    NonIdempotent,
    /// It says nothing, and is treated as if it must not be.
    #[default]
    Unknown,
}

impl Declaration {
    /// May the step run again when nobody knows whether it ran?
    pub fn rerun(self) -> Rerun {
        match self {
            Declaration::Idempotent => Rerun::Safe,
            Declaration::NonIdempotent | Declaration::Unknown => Rerun::Unsafe,
        }
    }
}

/// What a tool is told about the call it is made for.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The execution.
    pub execution: ExecutionId,
    /// Where the call stands.
    pub at: Coordinates,
    /// The key to hand downstream: the same whenever this call is made again.
    pub idempotency_key: String,
    /// The key of the effect, where the plan gives one.
    pub effect_key: Option<String>,
    /// The fencing number to hand downstream: greater whenever this call is made again.
    pub epoch: Option<Epoch>,
}

/// How a tool failed, in terms of what may happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolError {
    /// It certainly had no effect: it is called again.
    NotRun(String),
    /// It has refused, and always will: this is its result, and the agent sees it.
    Refused(String),
    /// It may have had its effect: an idempotent tool is called again, another one waits for a person.
    Unknown(String),
}

/// What a tool call comes to, in time.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<Value, ToolError>> + Send + 'a>>;

/// Something that an agent can do.
pub trait Tool: Send + Sync {
    /// What it says about being called twice.
    fn declaration(&self) -> Declaration {
        Declaration::Unknown
    }

    /// Does it.
    fn call<'a>(&'a self, context: ToolContext, args: &'a Value) -> Calling<'a>;
}

/// Tools by their names.
#[derive(Clone, Default)]
pub struct Tools(BTreeMap<String, Arc<dyn Tool>>);

impl Tools {
    /// None yet.
    pub fn new() -> Self {
        Tools::default()
    }

    /// With one more, or another one under this name.
    #[must_use]
    pub fn with(mut self, name: &str, tool: impl Tool + 'static) -> Self {
        self.0.insert(name.to_owned(), Arc::new(tool));
        self
    }

    /// With a function, declared as this.
    #[must_use]
    pub fn function<F, Fut>(self, name: &str, declaration: Declaration, function: F) -> Self
    where
        F: Fn(ToolContext, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        self.with(name, Function { declaration, function })
    }

    /// The tool of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.get(name)
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

struct Function<F> {
    declaration: Declaration,
    function: F,
}

impl<F, Fut> Tool for Function<F>
where
    F: Fn(ToolContext, Value) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    fn declaration(&self) -> Declaration {
        self.declaration
    }

    fn call<'a>(&'a self, context: ToolContext, args: &'a Value) -> Calling<'a> {
        Box::pin((self.function)(context, args.clone()))
    }
}
