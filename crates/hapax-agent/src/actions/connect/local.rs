//! Tools that are functions of this process.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{BoxFuture, Connect, Invocation, Invoked, Refusal, Tool};

type Work = Box<dyn Fn(Invocation) -> BoxFuture<'static, Invoked> + Send + Sync>;

/// Tools by name.
#[derive(Default)]
pub struct Local(BTreeMap<String, (Tool, Work)>);

impl Local {
    /// Adds a tool. What it answers tells whether it was done.
    #[must_use]
    pub fn tool<F, Fut>(mut self, name: impl Into<String>, tool: Tool, work: F) -> Self
    where
        F: Fn(Invocation) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Invoked> + Send + 'static,
    {
        self.0.insert(name.into(), (tool, Box::new(move |call| Box::pin(work(call)))));
        self
    }
}

impl Connect for Local {
    fn look_up<'a>(
        &'a self,
        name: &'a str,
        _args: &'a RawValue,
    ) -> BoxFuture<'a, Result<Option<Tool>, Refusal>> {
        let known = self.0.get(name).map(|(tool, _)| tool.clone());
        Box::pin(std::future::ready(Ok(known)))
    }

    fn invoke(&self, call: Invocation) -> BoxFuture<'_, Invoked> {
        match self.0.get(&call.tool) {
            Some((_, work)) => work(call),
            None => Box::pin(async move { Invoked::NotRun(format!("no tool {:?}", call.tool)) }),
        }
    }
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
