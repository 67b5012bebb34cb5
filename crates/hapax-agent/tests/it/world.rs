//! A world for tests: a store, the effects of tools, and what runs executions on both.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hapax_agent::durable::{
    Agent, AgentId, Coordinates, Creation, Declaration, DurableLoop, ExecutionId, Executions, Observation,
    Plan, PlannedCall, Run, Step, ToolContext, ToolError, Tools,
};
use hapax_core::Scope;
use hapax_exec::Executor;
use hapax_store::{Options, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A store of each kind, all of them by their URL.
pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) store: Store,
    /// Where an embedded store is.
    _folder: TempDir,
    pub(crate) calls: Calls,
}

/// What tools were called with, and how they are going to end.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Called>);

#[derive(Default)]
struct Called {
    count: AtomicUsize,
    contexts: Mutex<Vec<ToolContext>>,
    ends: Mutex<Vec<Result<Value, ToolError>>>,
}

impl Calls {
    pub(crate) fn count(&self) -> usize {
        self.0.count.load(Ordering::SeqCst)
    }

    pub(crate) fn contexts(&self) -> Vec<ToolContext> {
        self.0.contexts.lock().unwrap().clone()
    }

    /// The next calls end like this, in this order; the others are answered with their number.
    pub(crate) fn end(&self, ends: impl IntoIterator<Item = Result<Value, ToolError>>) {
        let mut ends: Vec<_> = ends.into_iter().collect();
        ends.reverse();
        *self.0.ends.lock().unwrap() = ends;
    }

    pub(crate) fn tools(&self) -> Tools {
        let tool = |tools: Tools, name: &str, declaration| {
            let calls = self.0.clone();
            tools.function(name, declaration, move |context, _| {
                let calls = calls.clone();
                async move {
                    let number = calls.count.fetch_add(1, Ordering::SeqCst) + 1;
                    calls.contexts.lock().unwrap().push(context);
                    let end = calls.ends.lock().unwrap().pop();
                    end.unwrap_or_else(|| Ok(json!({ "call": number })))
                }
            })
        };
        let tools = tool(Tools::new(), "safe", Declaration::Idempotent);
        let tools = tool(tools, "unsafe", Declaration::NonIdempotent);
        tool(tools, "undeclared", Declaration::Unknown)
    }
}

impl World {
    pub(crate) async fn memory() -> World {
        World::open("memory:".into()).await
    }

    pub(crate) async fn embedded() -> World {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("embedded:{}", folder.path().join("store").display());
        World { _folder: folder, ..World::open(url).await }
    }

    /// On the server that `cargo xtask test` starts.
    pub(crate) async fn postgres() -> World {
        World::open(database().await).await
    }

    async fn open(url: String) -> World {
        let store = Store::open(&url, Options::default()).await.unwrap();
        World { url, store, _folder: tempfile::tempdir().unwrap(), calls: Calls::default() }
    }

    pub(crate) fn executions(&self) -> Executions<Store> {
        Executions::new(Executor::new(self.store.clone()), Scope::local())
    }

    pub(crate) async fn create(&self, id: &str) -> Run<Store> {
        self.executions().create(creation(id)).await.unwrap()
    }

    /// A loop of an agent that makes these calls in its first iteration, and then is done.
    pub(crate) fn agent(&self, calls: &[(&str, Value)]) -> DurableLoop<Script> {
        DurableLoop::new(Script::of(calls), self.calls.tools())
    }
}

pub(crate) async fn database() -> String {
    let server = std::env::var("HAPAX_TEST_POSTGRES").expect(
        "this test needs a PostgreSQL server: run `cargo xtask test`, or `cargo xtask postgres -- cargo test …`",
    );
    let name = format!("hapax_agent_{:?}", hapax_core::AttemptId::random()).replace("at_", "");
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

/// Three processes on one database.
pub(crate) async fn processes() -> [Store; 3] {
    let url = database().await;
    let open = async || Store::open(&url, Options::default()).await.unwrap();
    [open().await, open().await, open().await]
}

pub(crate) fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

pub(crate) fn creation(text: &str) -> Creation {
    Creation::new(id(text), AgentId::new("planner").unwrap(), json!({ "seen": [] }))
}

pub(crate) fn at(iteration: u64, call: u32) -> Coordinates {
    Coordinates { iteration, call }
}

pub(crate) fn step(execution: &str, at: Coordinates, tool: &str, args: Value) -> Step {
    let declaration = match tool {
        "safe" => Declaration::Idempotent,
        "unsafe" => Declaration::NonIdempotent,
        _ => Declaration::Unknown,
    };
    Step::new(&id(execution), at, &PlannedCall::new(tool, args), declaration).unwrap()
}

/// An agent that makes these calls in its first iteration; what it has seen is its state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) calls: Vec<PlannedCall>,
    pub(crate) parallel: bool,
    pub(crate) asked: Arc<AtomicUsize>,
}

impl Script {
    pub(crate) fn of(calls: &[(&str, Value)]) -> Self {
        let calls = calls.iter().map(|(tool, args)| PlannedCall::new(tool, args.clone())).collect();
        Script { calls, ..Script::default() }
    }
}

impl Agent for Script {
    async fn plan(&self, iteration: u64, state: &Value) -> Result<Plan, String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match iteration {
            0 => Ok(Plan::Act { calls: self.calls.clone(), parallel: self.parallel }),
            _ => Ok(Plan::Finish(state.clone())),
        }
    }

    fn observe(&self, _: Value, observations: &[Observation]) -> Value {
        json!({ "seen": observations.iter().map(|seen| serde_json::to_value(&seen.result).unwrap()).collect::<Vec<_>>() })
    }
}

/// The types of an execution's events, in order.
pub(crate) async fn kinds(executions: &Executions<Store>, text: &str) -> Vec<String> {
    let events = executions.read(&id(text), 0, 256).await.unwrap();
    events.into_iter().map(|event| event.event_type).collect()
}

/// One test on each store.
macro_rules! on_each_store {
    ($($test:ident,)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(crate::world::World::memory().await).await; })*
        }
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(crate::world::World::embedded().await).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test(crate::world::World::postgres().await).await; })*
        }
    };
}
pub(crate) use on_each_store;
