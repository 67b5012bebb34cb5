//! Callers: bytes on a socket, one answer each.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::Hapax;
use super::wire::Message;

/// How long an answer may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(300);

/// A caller: tenant, project, subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who(pub(crate) &'static str, pub(crate) &'static str, pub(crate) &'static str);

/// The usual one.
pub(crate) const ALICE: Who = Who("acme", "web", "user:alice");

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Status and code of a problem; the code of any other answer is empty.
    pub(crate) fn problem(&self) -> (u16, String) {
        let code = match self.header("content-type") {
            Some("application/problem+json") => self.json()["code"].as_str().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        (self.status, code)
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// What all answers under one key have in common, byte for byte.
    pub(crate) fn kept(mut self) -> Self {
        let own = ["idempotent-replayed", "date", "content-length", "set-cookie"];
        self.headers.retain(|(name, _)| !own.contains(&name.as_str()));
        self.headers.sort();
        self
    }
}

impl Hapax {
    /// A request of a caller.
    pub(crate) async fn send(&self, who: Who, line: &str, headers: &[(&str, &str)], body: &str) -> Got {
        let request = request(who, line, headers, body);
        send(self.edge, request.as_bytes()).await.unwrap_or_else(|| panic!("no answer: {}", self.told()))
    }

    /// Alice posts something under a key.
    pub(crate) async fn post(&self, path: &str, key: &str, body: &str, told: &str) -> Got {
        self.send(ALICE, &format!("POST {path}"), &[("idempotency-key", key), ("x-do", told)], body).await
    }

    /// The same, without waiting for the answer; `None` where the connection broke.
    pub(crate) fn begin(&self, path: &str, key: &str, body: &str, told: &str) -> JoinHandle<Option<Got>> {
        let headers = [("idempotency-key", key), ("x-do", told)];
        let request = request(ALICE, &format!("POST {path}"), &headers, body);
        let edge = self.edge;
        tokio::spawn(async move { send(edge, request.as_bytes()).await })
    }
}

/// The bytes of a request.
pub(crate) fn request(who: Who, line: &str, headers: &[(&str, &str)], body: &str) -> String {
    let Who(tenant, project, subject) = who;
    let mut text = format!(
        "{line} HTTP/1.1\r\nhost: edge.example\r\nx-tenant-id: {tenant}\r\nx-project-id: {project}\r\nx-subject: {subject}\r\n"
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = body.len();
    format!("{text}content-length: {length}\r\n\r\n{body}")
}

/// Sends these bytes on a connection of their own and reads one answer; `None` where the connection broke.
pub(crate) async fn send(to: SocketAddr, bytes: &[u8]) -> Option<Got> {
    let sent = async {
        let mut stream = TcpStream::connect(to).await.ok()?;
        // Whoever refuses early may close before everything is written.
        let _ = stream.write_all(bytes).await;
        read(&mut stream).await
    };
    tokio::time::timeout(PATIENCE, sent).await.expect("an answer in time")
}

async fn read(stream: &mut TcpStream) -> Option<Got> {
    let message = Message::read(stream, &mut Vec::new()).await?;
    let status = message.head.split(' ').nth(1)?.parse().ok()?;
    let headers =
        message.headers().map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Some(Got { status, headers, body: message.body })
}
