//! A node on a store that needs no server, asked over its admin listener, with claims in every state to look at and to decide
//! about.

use std::time::Duration;

use bytes::Bytes;
use hapax::Store;
use hapax::admin::{AdminTokens, Role, Setup};
use hapax::cli::Failed;
use hapax::config;
use hapax::node::{Classes, Node, Parts};
use hapax_core::{
    Identity, Inspect as _, Key, Operation, OperationId, Project, Scope, Source, Subject, Tenant, Width,
};
use hapax_exec::{Attach, Call, Done, Ended, Executor};
use hapax_sqlite::Embedded;
use hapax_store::Options;
use hapax_store::memory::Memory;
use http::StatusCode;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::described;

/// What the node is configured with; the store and the tokens are the test's.
const CONFIGURATION: &str = r#"
[edge]
listen = "127.0.0.1:0"
threads = 1
[store]
url = "memory:"
[auth.api_keys]
[retention]
critical = "7d"
[upstreams.service]
url = "http://127.0.0.1:9"
[[routes]]
method = "POST"
path = "/payments"
operation = "payments.create"
policy = "REQUIRED_A"
upstream = "service"
retention = "critical"
[webhooks]
upstream = "service"
path = "/deliveries"
"#;

pub(crate) const READER: &str = "reader-0123456789";
pub(crate) const OPERATOR: &str = "operator-0123456789";

/// A running node.
pub(crate) struct Office {
    pub(crate) address: String,
    pub(crate) store: Store,
    pub(crate) executor: Executor<Store>,
    node: Option<Node>,
    /// Where the configuration, the spool and an embedded store are.
    folder: TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        self.json()["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&start))
    }
}

fn tokens() -> AdminTokens {
    let read = AdminTokens::default().with("looker", Role::Read, READER).unwrap();
    read.with("ops", Role::Operate, OPERATOR).unwrap()
}

/// Runs a test on the stores that need no server.
pub(crate) async fn each(test: impl AsyncFn(&Office)) {
    test(&Office::in_memory().await).await;
    test(&Office::embedded().await).await;
}

impl Office {
    pub(crate) async fn in_memory() -> Office {
        Self::on(tempfile::tempdir().unwrap(), Store::Memory(Memory::open(Options::default())), tokens())
            .await
    }

    /// One that nobody was given a token for.
    pub(crate) async fn without_tokens() -> Office {
        let store = Store::Memory(Memory::open(Options::default()));
        Self::on(tempfile::tempdir().unwrap(), store, AdminTokens::default()).await
    }

    pub(crate) async fn embedded() -> Office {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path().join("data"), Options::default()).unwrap();
        Self::on(folder, Store::Embedded(store), tokens()).await
    }

    async fn on(folder: TempDir, store: Store, tokens: AdminTokens) -> Office {
        let file = folder.path().join("hapax.toml");
        std::fs::write(&file, CONFIGURATION).unwrap();
        let config = config::load(&file, &|_| None).unwrap();
        let parts = Parts {
            rules: hapax_agent::actions::Rules::new(
                hapax_agent::actions::Connectors::default(),
                hapax_agent::actions::Gate::new(hapax_agent::actions::Decision::Allow),
            ),
            installation: None,
            spool: folder.path().join("spool"),
            seal: None,
            settings: config.settings.clone(),
            classes: Classes::from(&config),
            schedules: config.schedules.clone(),
            admin: Setup {
                hosts: vec!["hapax.internal".into()],
                label: Some("test".into()),
                links: vec![("Trace".into(), "https://trace.example/{operation_id}".into())],
                ..Setup::new("127.0.0.1:0".parse().unwrap(), tokens)
            },
            traces: config.traces.clone(),
            api: None,
        };
        let node = Node::start(store.clone(), parts).await.unwrap();
        let executor = Executor::new(store.clone());
        Office { address: node.admin().to_string(), store, executor, node: Some(node), folder }
    }

    /// Where the embedded store is.
    pub(crate) fn folder(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// Tells the node to end.
    pub(crate) fn tell_to_stop(&mut self) -> JoinHandle<Result<bool, Failed>> {
        tokio::spawn(self.node.take().unwrap().drain())
    }

    /// Sends a request as its bytes say, and reads to the end.
    pub(crate) async fn raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        // The listener may answer before it has read everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        Answer { status: head[9..12].parse().unwrap(), head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Asks, and checks that the answer is described.
    pub(crate) async fn send(&self, method: &str, path: &str, token: &str, body: &str) -> Answer {
        let token =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}Content-Length: {length}\r\n\r\n{body}"
        );
        let answer = self.raw(&request).await;
        let kind = answer.header("content-type").unwrap_or_default().to_owned();
        described::check(method, path, answer.status, &kind, &answer.body);
        assert!(answer.head.contains("cache-control: no-store"), "{}", answer.head);
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, READER, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, OPERATOR, &body.to_string()).await
    }

    /// Decides about a claim.
    pub(crate) async fn decide(&self, id: &str, verb: &str, body: Value) -> Answer {
        self.post(&format!("/v1/claims/{id}/{verb}"), body).await
    }

    /// The claim as it is listed, without what routes and sessions say of it now.
    pub(crate) async fn claim(&self, id: &str) -> Value {
        let mut claim = self.get(&format!("/v1/claims/{id}")).await.json();
        for more in ["upstream", "upstream_key", "holder"] {
            claim.as_object_mut().unwrap().remove(more);
        }
        claim
    }

    /// A claim that is in doubt.
    pub(crate) async fn doubt(&self, key: &str) -> String {
        self.doubt_with(call(key)).await
    }

    pub(crate) async fn doubt_with(&self, call: Call) -> String {
        let lost = self.executor.once(call, |_| async { Ended::Unknown("the answer was lost".into()) }).await;
        lost.unwrap_err().operation_id().unwrap().to_string()
    }

    /// A claim that is settled.
    pub(crate) async fn settled(&self, key: &str, body: &str) -> String {
        let body = Some(Bytes::from(body.to_owned()));
        let kept =
            hapax_tower::Answer { status: StatusCode::CREATED, headers: Default::default(), body }.encode();
        let done = self.executor.once(call(key), |_| async { Ended::succeeded(kept) }).await;
        done.unwrap().operation_id.unwrap().to_string()
    }

    /// A claim that is held for as long as the test runs.
    pub(crate) async fn held(&self, key: &str) -> String {
        let (started, begun) = oneshot::channel();
        let (executor, call) = (self.executor.clone(), call(key));
        tokio::spawn(async move {
            let work = |attempt: hapax_exec::Attempt| async move {
                started.send(attempt.operation_id.unwrap()).unwrap();
                std::future::pending::<hapax_exec::Ended>().await
            };
            executor.once(call, work).await
        });
        begun.await.unwrap().to_string()
    }

    /// What the next caller with this key gets; its own run answers `"ran"`.
    pub(crate) async fn retry(&self, key: &str) -> Result<Done, hapax_exec::Error> {
        self.executor.once(call(key), |_| async { Ended::succeeded("ran") }).await
    }

    pub(crate) async fn exists(&self, id: &str) -> bool {
        self.store.find(id.parse::<OperationId>().unwrap()).await.unwrap().is_some()
    }
}

/// A call of `payments.create` by `service:ci` of acme.
pub(crate) fn call(key: &str) -> Call {
    call_of("acme", key)
}

pub(crate) fn call_of(tenant: &str, key: &str) -> Call {
    let subject = Subject::from_credential_text("service:ci").unwrap();
    let scope = Scope::new(Tenant::new(tenant).unwrap(), Project::new("prod").unwrap(), subject);
    let operation = Operation::new("payments.create").unwrap();
    let identity = Identity::new(Source::Header, scope, Width::Subject, operation, Key::new(key).unwrap());
    Call::of(identity).body(b"{}").attach(Attach::Wait(Duration::from_millis(50)))
}

/// The events of a page of the audit that tell of decisions which were carried out; those of refused ones say why in `refused`.
pub(crate) fn carried_out(audit: &Value) -> Vec<Value> {
    let events = audit["events"].as_array().unwrap();
    events.iter().filter(|event| event["refused"].is_null()).cloned().collect()
}
