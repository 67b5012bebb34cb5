//! How calls of an HTTP tool end (L7): what is certain, what is not, and what that leaves of key and lane. No key is burned without success.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax::Store;
use hapax_agent::actions::gate::Decision;
use hapax_agent::actions::{
    ActionResult, Actions, Connectors, Disposition, Gate, Http, HttpTool, KeyDialect, Origin, PlannedAction,
    Rules, Tool, approvals, receipts,
};
use hapax_core::{Journal as _, Project, Tenant};
use hapax_exec::Executor;
use hapax_store::Options;
use hapax_store::memory::Memory;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn origin() -> Origin {
    Origin { tenant: Tenant::new("acme").unwrap(), project: Project::new("prod").unwrap(), traceparent: None }
}

/// A service that answers as the last part of the path says, and counts.
async fn service() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counting = count.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, counting.clone()));
        }
    });
    (address, count)
}

async fn answer(mut stream: TcpStream, count: Arc<AtomicUsize>) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut some = [0; 1024];
        match stream.read(&mut some).await {
            Ok(0) | Err(_) => return,
            Ok(many) => head.extend_from_slice(&some[..many]),
        }
    }
    count.fetch_add(1, Ordering::SeqCst);
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap().split('?').next().unwrap();
    let how = path.rsplit('/').next().unwrap().to_owned();
    let told = match how.as_str() {
        "hang" => return tokio::time::sleep(Duration::from_secs(600)).await,
        "die" => return,
        "garbage" => "no http at all\r\n\r\n".to_owned(),
        "half" => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"half\":".to_owned(),
        "large" | "404-large" => {
            let status = if how == "large" { "200" } else { "404" };
            let body = "x".repeat(5 * 1024 * 1024);
            format!(
                "HTTP/1.1 {status} Told\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
        }
        "text" => "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone".to_owned(),
        status => format!("HTTP/1.1 {status} Told\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
    };
    let _ = stream.write_all(told.as_bytes()).await;
}

struct Ground {
    actions: Actions<Store>,
    store: Store,
    count: Arc<AtomicUsize>,
}

async fn ground() -> Ground {
    let (address, count) = service().await;
    let store = Store::Memory(Memory::open(Options::default()));
    let tool = |tool: Tool| {
        let tool = Tool { give_up: Duration::from_millis(400), ..tool };
        HttpTool::new(tool, "POST", "/{how}").unwrap().key(KeyDialect::Chars32)
    };
    let here = Http::new(&format!("http://{address}")).unwrap();
    let here = here.tool("once", tool(Tool::default())).tool("again", tool(Tool::rerun_safe()));
    // Nothing listens there: the port was given back.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gone = Http::new(&format!("http://{closed}")).unwrap().tool("once", tool(Tool::default()));
    let connectors = Connectors::default().http("here", here).http("gone", gone);
    let rules = Rules::new(connectors, Gate::new(Decision::Allow));
    Ground { actions: Actions::new(Executor::new(store.clone()), rules, None), store, count }
}

impl Ground {
    async fn propose(&self, connector: &str, tool: &str, how: &str) -> ActionResult {
        let action = PlannedAction {
            connector: connector.into(),
            tool: tool.into(),
            args: RawValue::from_string(format!("{{\"how\":\"{how}\"}}")).unwrap(),
            entity_key: format!("{connector}-{tool}-{how}"),
            idempotency_key: Some(format!("{connector}-{tool}-{how}")),
        };
        self.actions.act(&origin(), action).await
    }

    fn reached(&self) -> usize {
        self.count.swap(0, Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_certainly_did_nothing_frees_the_key_and_the_lane_l7() {
    let ground = ground().await;
    for (connector, how) in [
        ("gone", "200"),
        ("here", "400"),
        ("here", "404"),
        ("here", "404-large"),
        ("here", "409"),
        ("here", "429"),
    ] {
        for _ in 0..2 {
            let told = ground.propose(connector, "once", how).await;
            assert_eq!(
                (told.decision, told.ok, told.code),
                (Disposition::Allow, false, Some("attempt-failed")),
                "{how}: {told:?}"
            );
        }
        let reached = if connector == "gone" { 0 } else { 2 };
        assert_eq!(ground.reached(), reached, "{how}");
    }
    for how in ["200", "201", "204", "text", "large"] {
        let (first, again) =
            (ground.propose("here", "once", how).await, ground.propose("here", "once", how).await);
        assert_eq!(
            (first.decision, first.ok, again.decision),
            (Disposition::Allow, true, Disposition::Dedup),
            "{how}: {first:?}"
        );
        assert!(first.result.is_some());
        assert_eq!(ground.reached(), 1, "{how}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_happened_is_in_doubt_unless_it_may_run_again_l7() {
    let ground = ground().await;
    for how in ["hang", "die", "garbage", "half", "408", "500", "503"] {
        let told = ground.propose("here", "once", how).await;
        assert_eq!((told.decision, told.ok), (Disposition::Allow, false), "{how}: {told:?}");
        let again = ground.propose("here", "once", how).await;
        assert_eq!((again.decision, again.ok), (Disposition::Block, false), "{how}: {again:?}");
        assert_eq!(ground.reached(), 1, "{how}: it is not sent again");
        // The same tool where it may run again: nothing is in doubt.
        for _ in 0..2 {
            let told = ground.propose("here", "again", how).await;
            assert_eq!((told.decision, told.ok), (Disposition::Allow, false), "{how}: {told:?}");
        }
        assert_eq!(ground.reached(), 2, "{how}");
    }
    let (waiting, _) = approvals::waiting(&ground.store, Some("acme"), None, None, 100).await.unwrap();
    assert_eq!(waiting.len(), 7);
    assert!(
        waiting.iter().all(|waits| waits.cause.as_ref().unwrap().starts_with("here/once on ")),
        "{waiting:?}"
    );
}

/// An action on the connector `connector`, with a parameter in its path and another argument.
fn secret(connector: &str, tool: &str, how: &str) -> PlannedAction {
    PlannedAction {
        connector: connector.into(),
        tool: tool.into(),
        args: RawValue::from_string(json!({ "how": how, "card": "4111-1111" }).to_string()).unwrap(),
        entity_key: format!("{connector}-{tool}-{how}"),
        idempotency_key: Some(format!("{connector}-{tool}-{how}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_argument_of_path_or_query_is_told_in_result_cause_or_receipt_x8() {
    let (address, _) = service().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let connector = |address: SocketAddr| {
        let tool = Tool { give_up: Duration::from_millis(400), ..Tool::default() };
        let tool = HttpTool::new(tool, "DELETE", "/{how}").unwrap();
        Http::new(&format!("http://{address}")).unwrap().tool("delete", tool)
    };
    let connectors = Connectors::default().http("here", connector(address)).http("gone", connector(closed));
    let store = Store::Memory(Memory::open(Options::default()));
    let rules = Rules::new(connectors, Gate::new(Decision::Allow));
    let actions = Actions::new(Executor::new(store.clone()), rules, None);
    let mut told = String::new();
    for (connector, how) in [("here", "die"), ("here", "half"), ("here", "garbage"), ("gone", "hunter2")] {
        let result = actions.act(&origin(), secret(connector, "delete", how)).await;
        assert!(!result.ok, "{result:?}");
        told.push_str(&result.error.unwrap());
    }
    let (waiting, _) = approvals::waiting(&store, None, None, None, 100).await.unwrap();
    assert!(!waiting.is_empty());
    told.push_str(&format!("{waiting:?}"));
    let stream = receipts::stream(&origin().tenant).unwrap();
    for event in store.read(&stream, 0, 100).await.unwrap() {
        told.push_str(&String::from_utf8_lossy(event.payload.bytes().unwrap()));
    }
    for secret in ["4111", "card=", "/hunter2", "http://"] {
        assert!(!told.contains(secret), "{secret}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parameter_that_is_missing_or_no_segment_is_refused_before_anything_happens() {
    let ground = ground().await;
    for args in ["{}", r#"{"how":"../x/.."}"#, r#"{"how":".."}"#, r#"{"how":[1]}"#] {
        let mut action = secret("here", "once", "200");
        action.args = RawValue::from_string(args.into()).unwrap();
        let told = ground.actions.act(&origin(), action).await;
        let refused = (told.decision, told.code) == (Disposition::Block, Some("args-malformed"));
        // Encoded, a text with slashes is one segment.
        assert!(refused || args.contains("/x/"), "{args}: {told:?}");
    }
    assert_eq!(ground.reached(), 1);
}
