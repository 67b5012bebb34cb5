//! Real Restate servers on this machine, and the example's handlers behind them.
//!
//! The server is the program of the npm package, started as it is and not through its Node.js wrapper. It listens on 127.0.0.1 alone,
//! reports to nobody, and is killed and deleted at the end. Every question to it has a time limit.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::port::Port;

/// Where tests find the packages from npm.
const NPM: &str = "HAPAX_TEST_NPM";
/// Where they find the program with the example's handlers.
const HANDLERS: &str = "HAPAX_TEST_RESTATE_HANDLERS";
const NEEDED: &str = "this test needs a Restate server and handlers: run `cargo xtask test`";

/// How long a server may take to start.
const STARTING: Duration = Duration::from_secs(60);
/// How long an answer of a server may take.
const ANSWERING: Duration = Duration::from_secs(20);

/// Servers that belong together, and the handlers that are registered with them. Killed and deleted when dropped.
#[derive(Debug)]
pub struct Restate {
    nodes: Vec<Node>,
    handlers: Option<Child>,
    address: SocketAddr,
    _handlers_port: Port,
    folder: PathBuf,
}

/// One server.
#[derive(Debug)]
struct Node {
    process: Option<Child>,
    config: PathBuf,
    log: PathBuf,
    ingress: Port,
    admin: Port,
    _fabric: Port,
}

/// An answer: its status and its JSON body, null where it has none.
pub type Answer = (u16, Value);

impl Restate {
    /// Starts so many servers, and the handlers. `more` is put into the configuration of each.
    pub fn start(nodes: usize, more: &str) -> Restate {
        let name = format!("hapax-restate-{}-{:?}", std::process::id(), hapax_core::AttemptId::random());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let nodes: Vec<_> = (0..nodes).map(|_| Node::ports(&folder)).collect();
        let handlers_port = Port::reserve().unwrap();
        let address = handlers_port.address();
        let mut restate = Restate { nodes, handlers: None, address, _handlers_port: handlers_port, folder };
        restate.configure(more);
        restate.start_handlers();
        for number in 0..restate.nodes.len() {
            restate.restart(number);
        }
        let deployment = json!({ "uri": format!("http://{address}") });
        let begun = Instant::now();
        loop {
            let (status, told) = restate.admin("POST", "/deployments", &deployment.to_string());
            // Its partitions may have no leader yet, and then nothing can be looked up.
            let looked = json!({ "query": "SELECT id FROM sys_invocation" }).to_string();
            if matches!(status, 200 | 201) && restate.admin("POST", "/query", &looked).0 == 200 {
                return restate;
            }
            assert!(begun.elapsed() < STARTING, "the handlers cannot be registered: {status} {told}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn configure(&self, more: &str) {
        let fabric: Vec<_> = self.nodes.iter().map(|node| node._fabric.number()).collect();
        let addresses: Vec<_> = fabric.iter().map(|port| format!("\"http://127.0.0.1:{port}\"")).collect();
        let replication = if self.nodes.len() > 1 { 2 } else { 1 };
        for (number, node) in self.nodes.iter().enumerate() {
            let text = format!(
                r#"cluster-name = "test"
node-name = "n{number}"
base-dir = "{folder}/n{number}"
auto-provision = {first}
disable-telemetry = true
bind-ip = "127.0.0.1"
advertised-host = "127.0.0.1"
listen-mode = "tcp"
bind-port = {port}
default-num-partitions = 4
default-replication = {replication}
rocksdb-total-memory-size = "128MiB"
log-filter = "warn"
log-disable-ansi-codes = true
[metadata-client]
addresses = [{addresses}]
[ingress]
bind-port = {ingress}
[admin]
bind-port = {admin}
{more}
"#,
                folder = self.folder.display(),
                first = number == 0,
                port = fabric[number],
                addresses = addresses.join(", "),
                ingress = node.ingress.number(),
                admin = node.admin.number(),
            );
            fs::write(&node.config, text).unwrap();
        }
    }

    /// Starts a server again that was killed, and waits until it listens.
    pub fn restart(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let log = fs::OpenOptions::new().create(true).append(true).open(&node.log).unwrap();
        let mut command = Command::new(server());
        command.arg("--config-file").arg(&node.config).arg("--no-logo");
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        node.process = Some(command.spawn().unwrap());
        let begun = Instant::now();
        let (admin, ingress) = (node.admin.address(), node.ingress.address());
        while ask(admin, "GET", "/health", "").is_none_or(|(status, _)| status != 200)
            || ask(ingress, "GET", "/restate/health", "").is_none_or(|(status, _)| status != 200)
        {
            let log = || fs::read_to_string(&self.nodes[number].log).unwrap_or_default();
            assert!(begun.elapsed() < STARTING, "a server does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends a server as the loss of its machine would.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut process) = self.nodes[number].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Ends the handlers as the loss of their machine would.
    pub fn kill_handlers(&mut self) {
        if let Some(mut process) = self.handlers.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts the handlers, and waits until they listen.
    pub fn start_handlers(&mut self) {
        let program = std::env::var_os(HANDLERS).expect(NEEDED);
        let mut command = Command::new(program);
        command.arg(self.address.to_string()).arg(self.effects_file());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.handlers = Some(command.spawn().unwrap());
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(begun.elapsed() < STARTING, "the handlers do not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn effects_file(&self) -> PathBuf {
        self.folder.join("effects")
    }

    /// What the handlers have done, one line for each time.
    pub fn effects(&self) -> Vec<String> {
        let text = fs::read_to_string(self.effects_file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Where calls go.
    pub fn ingress(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.ingress.address()).collect()
    }

    /// Where the admin APIs are.
    pub fn admins(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.admin.address()).collect()
    }

    /// Asks the admin API of the first server that runs.
    pub fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        let node = self.nodes.iter().find(|node| node.process.is_some()).expect("a server runs");
        ask(node.admin.address(), method, path, body).unwrap_or((0, Value::Null))
    }

    /// The rows of a query.
    pub fn query(&self, query: &str) -> Vec<Value> {
        let (status, mut told) = self.admin("POST", "/query", &json!({ "query": query }).to_string());
        assert_eq!(status, 200, "{told}");
        told["rows"].as_array_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Calls a handler past the edge.
    pub fn call(&self, path: &str, key: &str, body: &str) -> Answer {
        let address = self.nodes[0].ingress.address();
        let headers = format!("idempotency-key: {key}\r\n");
        ask_with(address, "POST", path, &headers, body).expect("an answer of the ingress")
    }
}

impl Drop for Restate {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|number| self.kill(number));
        self.kill_handlers();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Node {
    fn ports(folder: &Path) -> Node {
        let (ingress, admin, fabric) =
            (Port::reserve().unwrap(), Port::reserve().unwrap(), Port::reserve().unwrap());
        let name = ingress.number();
        let (config, log) = (folder.join(format!("{name}.toml")), folder.join(format!("{name}.log")));
        Node { process: None, config, log, ingress, admin, _fabric: fabric }
    }
}

/// The server's program.
fn server() -> PathBuf {
    let packages = PathBuf::from(std::env::var_os(NPM).expect(NEEDED));
    packages.join("node_modules/@restatedev/restate-server-linux-x64/bin/restate-server")
}

/// Asks once, on a connection of its own; `None` where there is no answer.
pub fn ask(to: SocketAddr, method: &str, path: &str, body: &str) -> Option<Answer> {
    ask_with(to, method, path, "", body)
}

fn ask_with(to: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect_timeout(&to, ANSWERING).ok()?;
    stream.set_read_timeout(Some(ANSWERING)).ok()?;
    stream.set_write_timeout(Some(ANSWERING)).ok()?;
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\naccept: application/json\r\nconnection: close\r\n{kind}{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunked(body) } else { body.to_owned() };
    Some((status, serde_json::from_str(&body).unwrap_or(Value::Null)))
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let Ok(length) = usize::from_str_radix(length.trim(), 16) else { break };
        let Some(chunk) = rest.get(..length).filter(|chunk| !chunk.is_empty()) else { break };
        whole.push_str(chunk);
        body = rest.get(length + 2..).unwrap_or_default();
    }
    whole
}
