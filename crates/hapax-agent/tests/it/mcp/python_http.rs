//! A server that speaks streamable HTTP, made with the official package for Python: both revisions, with answers as JSON and as events.

use std::process::{Child, Command, Stdio};

use hapax_testkit::port::Port;

use super::*;

const SERVER: &str = include_str!("server.py");

struct Running(Child, #[allow(dead_code, reason = "it is held")] Port);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

async fn start(folder: &Path, answers: &str) -> (Running, String) {
    let script = folder.join("server.py");
    std::fs::write(&script, SERVER).unwrap();
    let reserved = Port::reserve().unwrap();
    let port = reserved.number();
    let mut python = Command::new(needed("HAPAX_TEST_PYTHON").join("bin/python"));
    python.arg(script).args([&port.to_string(), answers]).arg(folder.join("effects"));
    let child = python.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| std::net::TcpStream::connect(("127.0.0.1", port)).ok()).await;
    (Running(child, reserved), format!("http://127.0.0.1:{port}/mcp"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_behind_http_is_called_once() {
    for answers in ["json", "events"] {
        let folder = tempfile::tempdir().unwrap();
        let (server, url) = start(folder.path(), answers).await;
        let agent = actions(&memory(), Mcp::http(&url, [("authorization", "Bearer t")]).unwrap());
        let append = |key| action("append", "file", Some(key), &json!({ "line": "a line" }));
        twice(&agent, &append("once")).await;
        let lines = || std::fs::read_to_string(folder.path().join("effects")).unwrap();
        assert_eq!(lines().lines().count(), 1, "{answers}");
        let failed = agent.act(&origin(), action("refuse", "file", Some("r"), &json!({}))).await;
        assert_eq!((failed.ok, failed.code), (false, Some("attempt-failed")), "{answers}");
        // Its connection is cut after the effect.
        let told = agent.act(&origin(), action("die", "other", Some("d"), &json!({}))).await;
        assert_eq!((told.ok, told.code), (false, Some("outcome-unknown")), "{answers}: {:?}", told.error);
        drop(server);
        let told = agent.act(&origin(), append("later")).await;
        assert!(!told.ok && told.code != Some("outcome-unknown"), "nothing was reached: {:?}", told.error);
    }
}
