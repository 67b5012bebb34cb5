//! Tools of MCP servers: what their hints count for, how calls end, and what a dead server leaves behind.

mod ends;
mod npm_filesystem;
mod played;
mod python_git;
mod python_http;
mod web;

use std::path::{Path, PathBuf};
use std::time::Duration;

use hapax::Store;
use hapax_agent::actions::connect::{Mcp, McpProcess, McpTool};
use hapax_agent::actions::gate::Decision;
use hapax_agent::actions::{
    ActionResult, Actions, Connectors, Disposition, Gate, Origin, PlannedAction, Rules,
};
use hapax_core::{Project, Tenant};
use hapax_exec::Executor;
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::upstream::CountingFile;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn origin() -> Origin {
    Origin { tenant: Tenant::new("acme").unwrap(), project: Project::new("prod").unwrap(), traceparent: None }
}

fn memory() -> Store {
    Store::Memory(Memory::open(Options::default()))
}

fn actions(store: &Store, server: Mcp) -> Actions<Store> {
    let connectors = Connectors::default().mcp("server", server);
    Actions::new(Executor::new(store.clone()), Rules::new(connectors, Gate::new(Decision::Allow)), None)
}

fn action(tool: &str, entity: &str, key: Option<&str>, args: &Value) -> PlannedAction {
    PlannedAction {
        connector: "server".into(),
        tool: tool.into(),
        args: RawValue::from_string(args.to_string()).unwrap(),
        entity_key: entity.into(),
        idempotency_key: key.map(str::to_owned),
    }
}

/// Does the same action twice: once, and again.
async fn twice(actions: &Actions<Store>, action: &PlannedAction) {
    let first = actions.act(&origin(), action.clone()).await;
    assert_eq!((first.decision, first.ok), (Disposition::Allow, true), "{:?}", first.error);
    let again = actions.act(&origin(), action.clone()).await;
    assert_eq!((again.decision, again.ok), (Disposition::Dedup, true), "{:?}", again.error);
}

fn needed(variable: &str) -> PathBuf {
    let place = std::env::var(variable);
    place.expect("`cargo xtask test` installs MCP servers and says where").into()
}

/// The process that a running server is, as soon as there is one: its last argument says which.
async fn process_of(mark: &Path) -> u32 {
    let mark = mark.to_str().unwrap();
    until(|| {
        std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let is = String::from_utf8_lossy(&line).trim_end_matches('\0').ends_with(mark);
            is.then_some(number)
        })
    })
    .await
}

/// Waits until something is so.
async fn until<T>(mut so: impl FnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = so() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it does not come to be so")
}

fn signal(process: u32, signal: &str) {
    let done = std::process::Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(done.success());
}
