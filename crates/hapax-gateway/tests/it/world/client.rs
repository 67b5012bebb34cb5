//! A caller that sends bytes and reads one answer.

use std::time::Duration;

use hapax_testkit::raw::PATIENCE;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::World;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.headers.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        fields.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    /// The problem's code; empty for an answer that is none.
    pub(crate) fn code(&self) -> String {
        match self.header("content-type") {
            Some("application/problem+json") => self.json()["code"].as_str().unwrap_or_default().to_owned(),
            _ => String::new(),
        }
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// What all answers to one request have in common, byte for byte.
    pub(crate) fn without_marks(mut self) -> Self {
        self.headers
            .retain(|(name, _)| !["idempotent-replayed", "set-cookie", "date"].contains(&name.as_str()));
        self
    }
}

impl<L: hapax_core::Ledger> World<L> {
    /// Sends these bytes on a connection of their own and reads one answer; `None` where the edge closed without one.
    pub(crate) async fn send(&self, bytes: impl AsRef<[u8]>) -> Option<Got> {
        let mut stream = self.connect().await;
        // A server that refuses early may close before everything is written.
        let _ = stream.write_all(bytes.as_ref()).await;
        read_answer(&mut stream, bytes.as_ref().starts_with(b"HEAD ")).await
    }

    /// A connection to the edge.
    pub(crate) async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.gateway.address()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A well-formed request of a caller.
    pub(crate) fn request(&self, line: &str, who: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut text = format!("{line} HTTP/1.1\r\nhost: edge.example\r\n");
        if !who.is_empty() {
            text.push_str(&format!("authorization: Bearer {who}\r\n"));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        format!("{text}\r\n{body}")
    }

    /// Sends a well-formed request and reads its answer.
    pub(crate) async fn ask(&self, line: &str, who: &str, headers: &[(&str, &str)], body: &str) -> Got {
        self.send(self.request(line, who, headers, body)).await.expect("an answer")
    }

    /// Alice charges.
    pub(crate) async fn charge(&self, key: &str, body: &str, headers: &[(&str, &str)]) -> Got {
        let mut all = vec![("idempotency-key", key), ("content-type", "application/json")];
        all.extend(headers);
        self.ask("POST /charges", &self.alice, &all, body).await
    }
}

/// Reads one answer, whatever its framing.
pub(crate) async fn read_answer(stream: &mut TcpStream, no_body: bool) -> Option<Got> {
    tokio::time::timeout(PATIENCE, read(stream, no_body)).await.expect("an answer in time")
}

async fn read(stream: &mut TcpStream, no_body: bool) -> Option<Got> {
    let mut buffer = Vec::new();
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let informational = buffer.starts_with(b"HTTP/1.1 100");
            if informational {
                buffer.drain(..at + 4);
                continue;
            }
            break at + 4;
        }
        if stream.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut got = Got { status, headers, body: buffer.split_off(end) };
    if no_body || status == 204 || status == 304 || status == 101 {
        return Some(got);
    }
    if let Some(length) = got.header("content-length").and_then(|length| length.parse::<usize>().ok()) {
        while got.body.len() < length {
            if stream.read_buf(&mut got.body).await.ok()? == 0 {
                return None;
            }
        }
        got.body.truncate(length);
        return Some(got);
    }
    let chunked = got.header("transfer-encoding") == Some("chunked");
    while !(chunked && got.body.ends_with(b"0\r\n\r\n")) {
        match stream.read_buf(&mut got.body).await {
            Ok(0) | Err(_) if chunked => return None,
            Ok(0) | Err(_) => return Some(got),
            Ok(_) => {}
        }
    }
    got.body = unchunked(&got.body)?;
    Some(got)
}

fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let at = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).ok()?, 16).ok()?;
        bytes = &bytes[at + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(..size)?);
        bytes = bytes.get(size + 2..)?;
    }
}

/// What came back on one connection until it was closed, or until there were as many answers as were waited for.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) statuses: Vec<u16>,
    pub(crate) text: String,
}

/// How long a connection is listened to for an answer too many.
const SILENCE: Duration = Duration::from_millis(60);

impl<L: hapax_core::Ledger> World<L> {
    /// Sends these bytes and listens until the edge closes the connection.
    pub(crate) async fn hear_out(&self, bytes: impl AsRef<[u8]>) -> Heard {
        self.hear(bytes, usize::MAX).await
    }

    /// Sends these bytes and listens: for so many answers, and a moment longer.
    pub(crate) async fn hear(&self, bytes: impl AsRef<[u8]>, answers: usize) -> Heard {
        let mut stream = self.connect().await;
        let _ = stream.write_all(bytes.as_ref()).await;
        let mut heard = Vec::new();
        loop {
            let patience = if statuses(&heard).len() >= answers { SILENCE } else { PATIENCE };
            match tokio::time::timeout(patience, stream.read_buf(&mut heard)).await {
                Ok(Ok(0) | Err(_)) => {}
                Ok(Ok(_)) => continue,
                Err(_) => assert!(patience == SILENCE, "no answer, and no end, in time"),
            }
            break;
        }
        let text = String::from_utf8_lossy(&heard).into_owned();
        Heard { statuses: statuses(&heard), text }
    }
}

fn statuses(heard: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(heard);
    text.split("HTTP/1.").skip(1).filter_map(|rest| rest.get(2..5)?.parse().ok()).collect()
}
