//! An admin listener on a real socket, with claims in every state to look at and to decide about.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax::admin::{
    AdminState, AdminTokens, AnswerCodec, HttpAnswer, KeyDesk, KeyInfo, KeyLevel, KeyMade, NewKey, Readiness,
    Reply, Role, serve,
};
use hapax_core::registry::DocumentId;
use hapax_core::{
    AttemptId, ClaimId, Error, Identity, Inspect as _, Key, Operation, OperationId, Page, Project,
    Registry as _, Scope, Source, Subject, Tenant, Timestamp, Width,
};
use hapax_exec::{Attach, Call, Done, Ended, Executor};
use hapax_store::embedded::Embedded;
use hapax_store::memory::Memory;
use hapax_store::{Options, Store};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::described;

pub(crate) const READER: &str = "reader-0123456789";
pub(crate) const OPERATOR: &str = "operator-0123456789";

/// A running listener.
pub(crate) struct Office {
    pub(crate) address: String,
    pub(crate) store: Store,
    pub(crate) executor: Executor<Store>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<std::io::Result<()>>,
    folder: Option<TempDir>,
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
        Self::on(Store::Memory(Memory::open(Options::default())), tokens(), None).await
    }

    /// One that nobody was given a token for.
    pub(crate) async fn without_tokens() -> Office {
        Self::on(Store::Memory(Memory::open(Options::default())), AdminTokens::default(), None).await
    }

    pub(crate) async fn embedded() -> Office {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path().join("data"), Options::default()).unwrap();
        Self::on(Store::Embedded(store), tokens(), Some(folder)).await
    }

    async fn on(store: Store, tokens: AdminTokens, folder: Option<TempDir>) -> Office {
        let mut state =
            AdminState::new(store.clone(), tokens, Arc::new(Registered(store.clone())), Arc::new(AsJson));
        state.metrics = Arc::new(|| "# TYPE up gauge\nup 1\n# EOF\n".into());
        state.ready = Arc::new(Readiness::default);
        state.routes = Arc::new(|| json!([{"path": "/payments", "policy": "REQUIRED_A"}]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listener, state, async {
            let _ = stopped.await;
        }));
        let executor = Executor::new(store.clone());
        Office { address, store, executor, stop: Some(stop), serving, folder }
    }

    /// Where the embedded store is.
    pub(crate) fn folder(&self) -> String {
        self.folder.as_ref().unwrap().path().join("data").display().to_string()
    }

    /// Tells the listener to end, and waits for it.
    pub(crate) async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.serving.await.unwrap().unwrap();
    }

    pub(crate) fn tell_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
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
            "{method} {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n{token}Content-Length: {length}\r\n\r\n{body}"
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

    /// The claim as it is listed.
    pub(crate) async fn claim(&self, id: &str) -> Value {
        self.get(&format!("/v1/claims/{id}")).await.json()
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
        let answer = HttpAnswer { status: 201, headers: Default::default(), body: body.to_owned().into() };
        let kept = AsJson.encode(&ClaimId::from_bytes([0; 32]), &answer).unwrap();
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
                std::future::pending().await
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

/// Answers as JSON: what the gateway's own format does, in a form that a test can read.
pub(crate) struct AsJson;

impl AnswerCodec for AsJson {
    fn encode(&self, _: &ClaimId, answer: &HttpAnswer) -> Result<Bytes, Error> {
        let headers: Vec<_> = answer
            .headers
            .iter()
            .map(|(name, value)| json!([name.as_str(), value.to_str().unwrap()]))
            .collect();
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        Ok(json!({"status": answer.status, "headers": headers, "body": body}).to_string().into())
    }

    fn decode(&self, _: &ClaimId, kept: &Bytes) -> Result<HttpAnswer, Error> {
        let bad = || Error::corrupt("no answer");
        let read: Value = serde_json::from_slice(kept).map_err(|_| bad())?;
        let mut headers = http::HeaderMap::new();
        for pair in read["headers"].as_array().ok_or_else(bad)? {
            let name: http::HeaderName = pair[0].as_str().unwrap().parse().unwrap();
            headers.append(name, pair[1].as_str().unwrap().parse().unwrap());
        }
        let status = u16::try_from(read["status"].as_u64().ok_or_else(bad)?).unwrap();
        Ok(HttpAnswer { status, headers, body: read["body"].as_str().unwrap().to_owned().into() })
    }
}

/// Keys as documents of the registry, kept in the clear: how the gateway keeps them is not what is tested here.
struct Registered(Store);

impl KeyDesk for Registered {
    fn create(&self, new: NewKey) -> Reply<'_, KeyMade> {
        Box::pin(async move {
            let id = format!("{:?}", AttemptId::random()).replace("at_", "key_");
            let body = json!({
                "tenant": new.tenant.as_str(), "project": new.project.as_ref().map(Project::as_str),
                "subject": new.subject.as_str(), "level": new.level.as_str(), "label": new.label,
                "expires": new.expires.map(Timestamp::as_micros),
            });
            self.0.put(&DocumentId::new("test-key", &*id)?, 0, body.to_string().into()).await?;
            Ok(KeyMade { key: format!("hpx_{id}"), id })
        })
    }

    fn list(&self, after: Option<String>, limit: usize) -> Reply<'_, Page<KeyInfo>> {
        Box::pin(async move {
            let found = self.0.list_documents("test-key", after.as_deref(), limit + 1).await?;
            let next = (found.len() > limit).then(|| found[limit - 1].id.id().to_owned());
            let read = |document: &hapax_core::registry::Document| {
                let body: Value = serde_json::from_slice(&document.body).unwrap();
                let text = |name: &str| body[name].as_str().map(str::to_owned);
                let key = NewKey {
                    tenant: Tenant::new(text("tenant").unwrap()).unwrap(),
                    project: text("project").map(|project| Project::new(project).unwrap()),
                    subject: Subject::parse(&text("subject").unwrap()).unwrap(),
                    level: KeyLevel::parse(&text("level").unwrap()).unwrap(),
                    label: text("label"),
                    expires: body["expires"].as_i64().map(Timestamp::from_micros),
                };
                KeyInfo { id: document.id.id().to_owned(), key, created: document.updated_at }
            };
            Ok(Page::new(found.iter().take(limit).map(read).collect(), next))
        })
    }

    fn revoke(&self, id: String) -> Reply<'_, bool> {
        Box::pin(async move {
            let id = DocumentId::new("test-key", id)?;
            let Some(found) = self.0.get(&id).await? else { return Ok(false) };
            self.0.delete(&id, found.version).await?;
            Ok(true)
        })
    }
}
