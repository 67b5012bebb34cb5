//! One instance: started, told things by signals, killed.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::caller::{self, Got};
use super::{TOKEN, hapax};

/// How long an instance may take to start or to end before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running instance; killed when dropped.
pub(crate) struct Hapax {
    process: Child,
    pub(crate) edge: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The lines of its standard output that nothing has asked for yet.
    lines: Mutex<mpsc::Receiver<String>>,
    api: OnceLock<SocketAddr>,
    /// What it wrote to standard error so far.
    told: Arc<Mutex<String>>,
    /// Whether anybody reads standard error.
    read: Arc<AtomicBool>,
}

impl Hapax {
    /// Starts one, and waits until it says that it serves.
    pub(crate) async fn start(config: &Path, variables: &[(&str, &str)]) -> Hapax {
        Self::launch(config, variables, &[], Stdio::piped()).await
    }

    /// Starts one with more options.
    pub(crate) async fn start_with(config: &Path, options: &[&str]) -> Hapax {
        Self::launch(config, &[], options, Stdio::piped()).await
    }

    /// Starts one whose log goes elsewhere.
    pub(crate) async fn start_telling(config: &Path, log: Stdio) -> Hapax {
        Self::launch(config, &[], &[], log).await
    }

    async fn launch(config: &Path, variables: &[(&str, &str)], options: &[&str], log: Stdio) -> Hapax {
        let mut command = hapax(&["serve", "--config", &config.display().to_string()]);
        command.args(options).envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().unwrap();
        let read = Arc::new(AtomicBool::new(true));
        let told = process.stderr.take().map(|from| gather(from, read.clone())).unwrap_or_default();
        let (sender, receiver) = mpsc::channel();
        let output = process.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let first = tokio::task::spawn_blocking(move || (receiver.recv_timeout(PATIENCE), receiver)).await;
        let (line, lines) = first.unwrap();
        let (lines, api) = (Mutex::new(lines), OnceLock::new());
        let Ok(line) = line else { panic!("it does not start: {}", told.lock().unwrap()) };
        let (edge, admin) = line
            .strip_prefix("hapax serves on http")
            .and_then(|rest| rest.strip_prefix("://").or_else(|| rest.strip_prefix("s://")))
            .and_then(|rest| rest.strip_suffix(')')?.split_once(" (admin: "))
            .and_then(|(edge, admin)| Some((edge, admin.split_once("://")?.1)))
            .unwrap_or_else(|| panic!("another line than scripts wait for: {line}"));
        Hapax { process, edge: edge.parse().unwrap(), admin: admin.parse().unwrap(), lines, api, told, read }
    }

    /// Where it serves applications, which it says in its second line.
    pub(crate) fn api(&self) -> SocketAddr {
        *self.api.get_or_init(|| {
            let line = self.lines.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            line.strip_prefix("hapax serves applications on http://").unwrap().parse().unwrap()
        })
    }

    /// What it wrote to standard error so far.
    pub(crate) fn told(&self) -> String {
        self.told.lock().unwrap().clone()
    }

    /// Reads what it writes to standard error, or leaves that where it is.
    pub(crate) fn read(&self, read: bool) {
        self.read.store(read, Ordering::Relaxed);
    }

    /// Waits until it has written this.
    pub(crate) async fn tells(&self, part: &str) {
        eventually(part, async || self.told().contains(part)).await;
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Ends it as the loss of its machine would.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops it where it is; it does not know. Waits for it: until one of its threads has taken the signal, the others go on.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let began = Instant::now();
        while !self.is_frozen() {
            assert!(began.elapsed() < PATIENCE, "it does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_frozen(&self) -> bool {
        let mut threads = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        threads.all(|thread| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        })
    }

    /// It goes on where it was.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Tells it to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Tells it to read its configuration again.
    pub(crate) fn reload(&self) {
        self.signal(Signal::HUP);
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end: {}", self.told());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The most memory that it has had, in MiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// The memory that it has, in MiB.
    pub(crate) fn present_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    fn memory(&self, which: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(which)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Asks the admin listener.
    pub(crate) async fn ask(&self, line: &str, body: &str) -> Got {
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        caller::send(self.admin, request.as_bytes()).await.expect("an answer of the admin listener")
    }

    /// The claims in this state, as operators see them.
    pub(crate) async fn claims(&self, state: &str) -> Vec<Value> {
        let mut page = self.ask(&format!("GET /v1/claims?state={state}&limit=1000"), "").await.json();
        page["claims"].as_array_mut().unwrap().drain(..).collect()
    }

    /// Decides about a claim that operators see like this.
    pub(crate) async fn decide(&self, claim: &Value, verb: &str) -> Got {
        let id = claim["operation_id"].as_str().unwrap();
        let body = serde_json::json!({"epoch": claim["epoch"], "reason": "a test"});
        self.ask(&format!("POST /v1/claims/{id}/{verb}"), &body.to_string()).await
    }
}

impl Drop for Hapax {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn gather(from: impl std::io::Read + Send + 'static, read: Arc<AtomicBool>) -> Arc<Mutex<String>> {
    let told = Arc::new(Mutex::new(String::new()));
    let gathered = told.clone();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = String::new();
        while from.read_line(&mut line).is_ok_and(|read| read > 0) {
            gathered.lock().unwrap().push_str(&std::mem::take(&mut line));
            while !read.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
    told
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "it does not come to this: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
