//! An imitation of the KV version 2 secrets engine of OpenBao and Vault: as much of it as is read and written here.
//!
//! `POST` and `PUT /v1/{mount}/data/{path}` write a version, `GET` reads the newest, `DELETE` deletes it, as the servers do: without the
//! token it is 403, sealed it is 503, and a deleted version is 404 with its metadata. No server is packaged for the machines that tests
//! run on; the client that judges it is a real one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The longest request that is read.
const REQUEST: usize = 64 << 10;

/// A running store.
#[derive(Clone, Debug)]
pub struct Kv {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    token: String,
    sealed: bool,
    asked: usize,
    /// Versions by mount and path, the newest last; `None` for a deleted one.
    kept: HashMap<String, Vec<Option<Value>>>,
}

impl Kv {
    /// Starts one that knows this token.
    pub async fn start(token: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let state = State { token: token.to_owned(), ..State::default() };
        let kv = Kv { address: listener.local_addr()?, state: Arc::new(Mutex::new(state)) };
        let serving = kv.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().connection(stream));
            }
        });
        Ok(kv)
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes a version below the mount `secret`.
    pub fn write(&self, path: &str, fields: Value) {
        self.state().kept.entry(format!("secret/{path}")).or_default().push(Some(fields));
    }

    /// Deletes the newest version.
    pub fn delete(&self, path: &str) {
        if let Some(versions) = self.state().kept.get_mut(&format!("secret/{path}")) {
            versions.push(None);
        }
    }

    /// Knows another token from now on.
    pub fn set_token(&self, token: &str) {
        token.clone_into(&mut self.state().token);
    }

    /// Answers nothing but that it is sealed.
    pub fn seal(&self, sealed: bool) {
        self.state().sealed = sealed;
    }

    /// How often it was asked something.
    pub fn asked(&self) -> usize {
        self.state().asked
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connection(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some((head, body)) = read(&mut stream, &mut buffer).await {
            let (status, answer) = self.answer(&head, &body);
            let text = answer.to_string();
            let head = format!(
                "HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                text.len()
            );
            if stream.write_all(format!("{head}{text}").as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, head: &str, body: &[u8]) -> (u16, Value) {
        let mut state = self.state();
        state.asked += 1;
        let errors = |errors: &[&str]| json!({ "errors": errors });
        let header = |name: &str| {
            let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(field, _)| field.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.trim().to_owned())
        };
        if state.sealed {
            return (503, errors(&["Vault is sealed"]));
        }
        if header("x-vault-token") != Some(state.token.clone()) {
            return (403, errors(&["permission denied"]));
        }
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Some((mount, path)) = target.strip_prefix("/v1/").and_then(|rest| rest.split_once("/data/"))
        else {
            return (404, errors(&[]));
        };
        let place = format!("{mount}/{}", path.replace("%3A", ":"));
        let versions = state.kept.entry(place).or_default();
        match method {
            "POST" | "PUT" => match serde_json::from_slice::<Value>(body)
                .ok()
                .and_then(|body| body.get("data").filter(|data| data.is_object()).cloned())
            {
                Some(fields) => {
                    versions.push(Some(fields));
                    (200, json!({ "data": metadata(versions) }))
                }
                None => (400, errors(&["no data provided"])),
            },
            "DELETE" => {
                versions.push(None);
                (204, Value::Null)
            }
            _ => match versions.last() {
                None => (404, errors(&[])),
                Some(None) => (404, json!({ "data": { "data": null, "metadata": metadata(versions) } })),
                Some(Some(fields)) => {
                    (200, json!({ "data": { "data": fields, "metadata": metadata(versions) } }))
                }
            },
        }
    }
}

fn metadata(versions: &[Option<Value>]) -> Value {
    let deleted = matches!(versions.last(), Some(None));
    json!({
        "created_time": "2026-11-18T12:00:00Z",
        "deletion_time": if deleted { "2026-11-18T13:00:00Z" } else { "" },
        "destroyed": false,
        "version": versions.len(),
    })
}

/// The head and the body of the next request; what came after them stays.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, buffer).await?;
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let whole = end + length.unwrap_or(0);
    while buffer.len() < whole {
        more(stream, buffer).await?;
    }
    let body = buffer[end..whole].to_vec();
    buffer.drain(..whole);
    Some((head, body))
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(buffer).await {
        Ok(0) | Err(_) => None,
        Ok(_) => (buffer.len() <= REQUEST).then_some(()),
    }
}
