//! The example handler that derives a token of its own (case C), behind the real edge; and what the log says of callers of each case (O2).

use std::net::SocketAddr;

use hapax_exec::Executor;
use hapax_store::Options;
use hapax_store::memory::Memory;
use serde_json::Value;

use crate::rig::caller::ALICE;
use crate::rig::process::eventually;
use crate::rig::{Got, Ground, Hapax, Kind};

#[path = "../../../../examples/meter-readings.rs"]
#[expect(dead_code, reason = "as a program it has a `main`")]
mod meter_readings;

/// The example's service, in the test's process.
async fn handler() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = meter_readings::app(Executor::new(Memory::open(Options::default())));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// An edge with a route of each case, whose log is JSON.
async fn edge() -> (Ground, Hapax) {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.sections = format!("[upstreams.meters]\nurl = \"http://{}\"\n", handler().await);
    ground.routes = "
[[routes]]
method = \"POST\"
path = \"/readings\"
policy = \"HANDLER_INTERNAL_C\"
upstream = \"meters\"

[[routes]]
method = \"POST\"
path = \"/events\"
operation = \"events.take\"
policy = \"REQUIRED_B\"
identifier = { json = \"/id\" }
upstream = \"service\"
"
    .into();
    let path = ground.folder.path().join("hapax.toml");
    let text = ground.configuration().replace("format = \"text\"", "format = \"json\"");
    std::fs::write(&path, text).unwrap();
    let edge = Hapax::start(&path, &[]).await;
    (ground, edge)
}

async fn read(edge: &Hapax, taken_at: &str, kwh: u32, headers: &[(&str, &str)]) -> Got {
    let body = format!("{{\"meter\": \"m-7\", \"taken_at\": \"{taken_at}\", \"kwh\": {kwh}}}");
    edge.send(ALICE, "POST /readings", headers, &body).await
}

async fn hits(edge: &Hapax) -> Option<String> {
    let text = edge.ask("GET /metrics", "").await.text();
    text.lines().find(|line| line.starts_with("handler_internal_dedup_hit_total")).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_with_a_token_of_its_own_works_once_and_its_hits_are_counted_p1_o1() {
    let (_ground, edge) = edge().await;
    let first = read(&edge, "12:00", 4711, &[]).await;
    assert_eq!((first.status, first.text().as_str()), (201, "reading 1\n"));
    assert_eq!(hits(&edge).await, None);
    // A repetition, also under a key of the sender's, which has no effect; and another caller's of the same project.
    let keyed = read(&edge, "12:00", 4711, &[("idempotency-key", "k"), ("idempotency-key", "")]).await;
    assert_eq!((keyed.status, keyed.text().as_str()), (201, "reading 1\n"));
    assert_eq!(keyed.header("idempotency-key-ignored"), Some("true"));
    let body = "{\"kwh\": 4711, \"taken_at\": \"12:00\", \"meter\": \"m-7\"}";
    let bob = crate::rig::Who("acme", "web", "user:bob");
    let other = edge.send(bob, "POST /readings", &[], body).await;
    assert_eq!(other.text(), "reading 1\n");
    for got in [&first, &keyed, &other] {
        assert_eq!(got.header("idempotency-handler-hit"), None, "it is a word to the edge");
        assert_eq!(got.header("x-operation-id"), None, "the edge has no claim of it");
    }
    let counted =
        "handler_internal_dedup_hit_total{tenant=\"acme\",project=\"web\",endpoint=\"/readings\"} 2";
    assert_eq!(hits(&edge).await.as_deref(), Some(counted));
    // What is another reading runs, and so does the same one of another project.
    assert_eq!(read(&edge, "13:00", 4712, &[]).await.text(), "reading 2\n");
    let app = crate::rig::Who("acme", "app", "user:alice");
    assert_eq!(edge.send(app, "POST /readings", &[], body).await.text(), "reading 3\n");
    assert_eq!(read(&edge, "12:00", 9999, &[]).await.status, 409, "another reading for that time");
    assert_eq!(hits(&edge).await.as_deref(), Some(counted));
    assert!(edge.claims("settled").await.is_empty());
}

/// The six fields of O2, by name, in this order.
const FIELDS: [&str; 6] = [
    "idempotency_case",
    "idempotency_key_namespaced",
    "idempotency_source",
    "idempotency_policy",
    "restate_invocation_id",
    "restate_cache_hit",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_field_of_the_log_tells_of_callers_of_each_case_and_of_a_replay_o2() {
    let (_ground, edge) = edge().await;
    let charged = edge.post("/charges", "canary-1", "{}", "").await;
    let replayed = edge.post("/charges", "canary-1", "{}", "").await;
    assert!(replayed.is_replay());
    let event = async || edge.send(ALICE, "POST /events", &[], "{\"id\": \"canary-2\"}").await;
    let (taken, again) = (event().await, event().await);
    assert!((taken.status, again.is_replay()) == (201, true), "{taken:?} {again:?}");
    read(&edge, "canary-3", 1, &[]).await;
    read(&edge, "canary-3", 1, &[]).await;
    edge.send(ALICE, "GET /charges", &[], "").await;
    let lines = || {
        let told = edge.told();
        let lines = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["target"] == "hapax::request").collect::<Vec<_>>()
    };
    eventually("seven lines", async || lines().len() == 7).await;
    let told: Vec<[Value; 6]> = lines()
        .iter()
        .map(|line| {
            FIELDS
                .map(|name| line.get(name).or_else(|| line["fields"].get(name)).cloned().unwrap_or_default())
        })
        .collect();
    let key = |line: usize| told[line][1].as_str().unwrap_or_default().to_owned();
    let own = |case: &str, line, source: &str, policy: &str, of: &Got, hit: bool| {
        let id = of.header("x-operation-id").unwrap();
        [case.into(), key(line).into(), source.into(), policy.into(), id.into(), hit.into()]
    };
    let none = || Value::Null;
    let internal =
        |hit: bool| ["C".into(), none(), "handler".into(), "HANDLER_INTERNAL_C".into(), none(), hit.into()];
    let expected: [[Value; 6]; 7] = [
        own("A", 0, "header", "REQUIRED_A", &charged, false),
        own("A", 1, "header", "REQUIRED_A", &charged, true),
        own("B", 2, "transport", "REQUIRED_B", &taken, false),
        own("B", 3, "transport", "REQUIRED_B", &taken, true),
        internal(false),
        internal(true),
        [none(), none(), none(), "PROHIBITED".into(), none(), false.into()],
    ];
    assert_eq!(told, expected);
    for (line, again) in [(0, 1), (2, 3)] {
        assert!(key(line).starts_with("t-acme:web:user:alice:#") && key(line) == key(again), "{}", key(line));
    }
    assert_ne!(key(0), key(2));
    assert!(!edge.told().contains("canary-"), "what a caller chose is not logged: {}", edge.told());
}
