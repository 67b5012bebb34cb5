//! The edge in front of what speaks as a Restate cluster does, as far as a test lets it: answers that a real server gives rarely, late or
//! never (D).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hapax_testkit::raw;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use crate::rig::caller::{ALICE, Got, Who};
use crate::rig::wire::Message;
use crate::rig::{Hapax, hapax};

const BOB: Who = Who("acme", "shop", "user:bob");
/// The call that all of this is about.
const CALL: &str = "inv_19WxlJSKNByp16K1tj7svVSGN7ElVXhYzX";

/// What is answered to a request, by its first line and all of it; nothing where it stays silent.
type Says = Box<dyn Fn(&str, &Message) -> Option<String> + Send + Sync>;

/// A node, of ingress and admin API alike.
struct Node {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Message>>>,
}

impl Node {
    async fn saying(says: Says) -> Node {
        let listener = raw::listener().await;
        let (address, asked) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Message>>>::default());
        let (kept, says) = (asked.clone(), Arc::new(says));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, says) = (kept.clone(), says.clone());
                tokio::spawn(async move {
                    let mut buffer = Vec::new();
                    while let Some(message) = Message::read(&mut stream, &mut buffer).await {
                        let line = message.head.lines().next().unwrap_or_default().to_owned();
                        let answer = says(&line, &message);
                        kept.lock().unwrap().push(message);
                        let Some(answer) = answer else { return std::future::pending().await };
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                });
            }
        });
        Node { address, asked }
    }

    async fn silent() -> Node {
        Node::saying(Box::new(|_, _| None)).await
    }

    /// How often it was asked for this.
    fn count(&self, begins: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| asked.head.starts_with(begins)).count()
    }

    /// How often a journal was asked for at it.
    fn journals(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| String::from_utf8_lossy(&asked.body).contains("FROM sys_journal")).count()
    }

    fn url(&self) -> String {
        format!("\"http://{}\"", self.address)
    }
}

fn answer(status: u16, headers: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!(
        "HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    ))
}

fn rows(rows: Value) -> Option<String> {
    answer(200, "", &json!({ "rows": rows }).to_string())
}

/// How the one call of a cluster stands.
#[derive(Clone, Debug)]
struct Stands {
    status: &'static str,
    failure: Option<&'static str>,
    /// What `output` says: status, headers, body.
    output: (u16, String, String),
    /// What a kill comes to, and how the call stands afterwards.
    kill: (u16, &'static str, Option<&'static str>),
    key: Option<String>,
    /// The head of the request that was accepted first.
    accepted: Option<String>,
}

/// A cluster with one call, whose standing the test may change.
struct Cluster {
    node: Node,
    stands: Arc<Mutex<Stands>>,
    folder: TempDir,
}

impl Cluster {
    async fn new() -> Cluster {
        let stands = Arc::new(Mutex::new(Stands {
            status: "running",
            failure: None,
            output: (470, String::new(), r#"{"message":"not ready"}"#.into()),
            kill: (200, "completed", Some("[409] killed")),
            key: None,
            accepted: None,
        }));
        let known = stands.clone();
        let node = Node::saying(Box::new(move |line, asked| {
            let mut stands = known.lock().unwrap();
            cluster_says(&mut stands, line, asked)
        }))
        .await;
        Cluster { node, stands, folder: tempfile::tempdir().unwrap() }
    }

    fn now(&self, change: impl FnOnce(&mut Stands)) {
        change(&mut self.stands.lock().unwrap());
    }

    /// Has ended with this outcome.
    fn ends(&self, status: u16, body: &str) {
        self.now(|stands| {
            let source = if status >= 400 { "x-restate-error-source: invocation\r\n" } else { "" };
            let headers = format!(
                "x-restate-id: {CALL}\r\nidempotency-expires: 2037-01-01T00:00:00.000+00:00\r\n{source}"
            );
            stands.status = "completed";
            stands.output = (status, headers, body.into());
        });
    }

    /// An edge with this upstream, whose route `/calls` says more.
    async fn edge(&self, upstream: &str, route: &str) -> Hapax {
        let url = self.node.url();
        self.edge_of(&format!("ingress = {url}\nadmin = {url}\n{upstream}"), route).await
    }

    async fn edge_of(&self, upstream: &str, route: &str) -> Hapax {
        let path = self.folder.path().join("edge.toml");
        std::fs::write(&path, configuration(upstream, route)).unwrap();
        Hapax::start(&path, &[("HAPAX_LOG", "hapax::request=info,warn")]).await
    }
}

fn configuration(upstream: &str, route: &str) -> String {
    let handler =
        if route.contains("restate =") { "" } else { "restate = { service = \"S\", handler = \"h\" }" };
    format!(
        r#"
[edge]
listen = "127.0.0.1:0"
threads = 1
[admin]
listen = "127.0.0.1:0"
token_env = "HAPAX_ADMIN_TOKEN"
[store]
url = "memory:"
[auth.trusted_headers]
from = ["127.0.0.1"]
[auth.api_keys]
[upstreams.engine]
kind = "restate"
{upstream}
[[routes]]
method = "POST"
path = "/calls"
operation = "call"
policy = "REQUIRED_A"
upstream = "engine"
{route}
{handler}
[[routes]]
method = "POST"
path = "/keyless"
operation = "keyless"
policy = "ACCEPTED"
upstream = "engine"
restate = {{ service = "S", handler = "keyless" }}
"#
    )
}

fn cluster_says(stands: &mut Stands, line: &str, asked: &Message) -> Option<String> {
    let path = line.split(' ').nth(1).unwrap_or_default();
    let body = String::from_utf8_lossy(&asked.body).into_owned();
    match path {
        _ if path.starts_with("/restate/send/") => {
            let status = if stands.accepted.is_none() { "Accepted" } else { "PreviouslyAccepted" };
            stands.key = asked.header("idempotency-key").map(str::to_owned);
            stands.accepted.get_or_insert_with(|| asked.head.clone());
            let told = json!({ "invocationId": CALL, "status": status }).to_string();
            answer(202, &format!("x-restate-id: {CALL}\r\n"), &told)
        }
        "/restate/lookup" => answer(200, "", &json!({ "invocationId": CALL }).to_string()),
        "/restate/attach" if stands.output.0 == 470 => None,
        "/restate/output" | "/restate/attach" => {
            let (status, headers, body) = &stands.output;
            answer(*status, headers, body)
        }
        "/version" => answer(200, "", r#"{"version":"1.7.12"}"#),
        "/services" => answer(200, "", r#"{"services":[]}"#),
        "/query" if body.contains("FROM sys_journal") => {
            let accepted = stands.accepted.clone().unwrap_or_default();
            let of = |name: &str| {
                let line = accepted.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
                json!({ "name": name, "value": line.unwrap_or_default() })
            };
            let head = json!({ "headers": [of("x-hapax-fingerprint"), of("x-hapax-attempt")] });
            rows(json!([{ "head": head.to_string() }]))
        }
        "/query" if body.contains("idempotency_key IS NOT NULL") => match stands.status {
            "completed" => rows(json!([{ "id": CALL }])),
            _ => rows(json!([])),
        },
        "/query" => rows(json!([{
            "id": CALL, "target_service_name": "S", "target_handler_name": "h", "status": stands.status,
            "idempotency_key": stands.key, "completion_failure": stands.failure,
        }])),
        _ if path.ends_with("/kill") => {
            let (status, then, failure) = stands.kill;
            (stands.status, stands.failure) = (then, failure);
            answer(status, "", "{}")
        }
        _ if path.ends_with("/purge") => answer(200, "", "{}"),
        _ => answer(404, "", "{}"),
    }
}

async fn post(edge: &Hapax, who: Who, headers: &[(&str, &str)], body: &str) -> Got {
    let headers = [&[("idempotency-key", "k")], headers].concat();
    edge.send(who, "POST /calls", &headers, body).await
}

const LATER: [(&str, &str); 1] = [("prefer", "respond-async")];

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_wait_for_an_envelope_is_compared_with_the_journal_d4() {
    let cluster = Cluster::new().await;
    let envelope = "restate = { service = \"S\", handler = \"h\", envelope = true }";
    for more in ["", "attach = \"reject\"\n"] {
        cluster.now(|stands| stands.accepted = None);
        let edge = cluster.edge("", &format!("{more}{envelope}")).await;
        let first = post(&edge, ALICE, &LATER, r#"{"a": 1}"#).await;
        assert_eq!(first.status, 202, "{first:?}");
        assert_eq!(post(&edge, ALICE, &LATER, r#"{"a": 1}"#).await.status, 202, "the same again");
        for headers in [&LATER[..], &[("prefer", "wait=0")], &[("prefer", "wait=1")]] {
            let other = post(&edge, ALICE, headers, r#"{"a": 2}"#).await;
            assert_eq!(other.problem(), (422, "key-reused".into()), "{more} {headers:?} {other:?}");
        }
        let same = post(&edge, ALICE, &[("prefer", "wait=0")], r#"{"a": 1}"#).await;
        assert_eq!(same.problem(), (409, "in-progress".into()), "{more} {same:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_paused_call_every_caller_hears_and_none_waits_for_it_h2() {
    let cluster = Cluster::new().await;
    let edge = cluster.edge("", "recall = true").await;
    let first = post(&edge, ALICE, &LATER, "{}").await;
    let id = first.header("location").unwrap().to_owned();
    let paths = [
        "/calls/by-idempotency-key/k/output".to_owned(),
        format!("{id}/output"),
        "/calls/by-idempotency-key/k".into(),
        id,
    ];
    for path in &paths[..2] {
        let got = edge.send(ALICE, &format!("GET {path}"), &[], "").await;
        assert_eq!(got.problem(), (409, "in-progress".into()), "{path} {got:?}");
    }
    cluster.now(|stands| stands.status = "paused");
    for path in &paths {
        let got = edge.send(ALICE, &format!("GET {path}"), &[], "").await;
        assert_eq!(got.problem(), (409, "outcome-unknown".into()), "{path} {got:?}");
        assert!(got.header("retry-after").is_some(), "{got:?}");
    }
    for headers in [&[("prefer", "wait=0")][..], &[]] {
        let got = post(&edge, ALICE, headers, "{}").await;
        assert_eq!(got.problem(), (409, "outcome-unknown".into()), "{headers:?} {got:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn that_a_call_was_killed_is_a_kept_answer_like_any_other_d3() {
    for (message, code) in [("killed", "operation-killed"), ("cancelled", "operation-cancelled")] {
        let cluster = Cluster::new().await;
        let edge = cluster.edge("", "recall = true").await;
        cluster.ends(409, &json!({ "message": message }).to_string());
        let fresh = post(&edge, ALICE, &[], "{}").await;
        assert_eq!((fresh.problem(), fresh.is_replay()), ((409, code.into()), false), "{fresh:?}");
        let recalled = edge.send(ALICE, "GET /calls/by-idempotency-key/k", &[], "").await;
        for got in [post(&edge, ALICE, &[], "{}").await, recalled] {
            assert_eq!((got.problem(), got.is_replay()), ((409, code.into()), true), "{got:?}");
            assert!(got.header("idempotency-expires").is_some(), "{got:?}");
            assert_eq!(got.header("x-operation-id"), fresh.header("x-operation-id"));
            assert_eq!(got.json()["operation_id"].as_str(), fresh.header("x-operation-id"));
        }
        let metrics = edge.ask("GET /metrics", "").await.text();
        assert!(metrics.contains("restate_status=\"terminal_error\""), "{metrics}");
        raw::until("a line about a replay", || edge.told().contains(r#""restate_cache_hit":true"#)).await;
    }
}

/// What an operator asks for.
const SCOPE: &str = r#"{"tenant": "acme", "reason": "stuck"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_has_ended_by_itself_is_not_killed_and_so_not_forgotten_l8() {
    let cluster = Cluster::new().await;
    let edge = cluster.edge("", "").await;
    assert_eq!(post(&edge, ALICE, &LATER, "{}").await.status, 202);
    let kill = async || edge.ask(&format!("POST /v1/delegated/{CALL}/kill"), SCOPE).await;
    let counts = || {
        (
            cluster.node.count("PATCH /invocations/inv_19WxlJSKNByp16K1tj7svVSGN7ElVXhYzX/kill"),
            cluster.node.count("PATCH /invocations/inv_19WxlJSKNByp16K1tj7svVSGN7ElVXhYzX/purge"),
        )
    };
    let audited = async || {
        let audit = edge.ask("GET /v1/audit?verb=delegated-kill", "").await.json();
        audit["events"].as_array().unwrap().iter().filter(|event| event["refused"].is_null()).count()
    };
    // It had ended before the operator decided: nothing is done, and only the refusal is written down.
    cluster.now(|stands| stands.status = "completed");
    let refused = kill().await;
    assert_eq!(refused.problem(), (409, "call-ended".into()), "{refused:?}");
    assert_eq!((counts(), audited().await), ((0, 0), 0));
    let page = refused.json()["type"].as_str().unwrap().to_owned();
    assert!(edge.ask(&format!("GET {page}"), "").await.text().contains("# 409 call-ended"));
    // It ends just before the kill, which the server then refuses or comes too late with.
    for (number, status) in [409, 200].into_iter().enumerate() {
        cluster.now(|stands| (stands.status, stands.kill) = ("running", (status, "completed", None)));
        assert_eq!(kill().await.problem(), (409, "call-ended".into()), "{status}");
        assert_eq!((counts(), audited().await), ((number + 1, 0), number + 1), "{status}");
    }
    // The audit is written first: it tells of a kill that the cluster did not carry out.
    cluster.now(|stands| (stands.status, stands.kill) = ("running", (500, "running", None)));
    assert_eq!(kill().await.problem(), (503, "ledger-unavailable".into()));
    assert_eq!((counts(), audited().await), ((3, 0), 3));
    // One that was killed is purged, whoever has killed it.
    cluster
        .now(|stands| (stands.status, stands.kill) = ("running", (200, "completed", Some("[409] killed"))));
    assert_eq!(kill().await.status, 200);
    assert_eq!(counts(), (4, 1));
    assert_eq!(kill().await.status, 200, "it was killed, and is still there");
    assert_eq!((counts(), audited().await), ((4, 2), 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_a_call_of_a_wider_scope_by_the_id_that_callers_know_d2() {
    let cluster = Cluster::new().await;
    for (width, key, begins) in [
        ("tenant", "t-acme:_any:_any:k", "tenant=acme"),
        ("project", "t-acme:web:_any:k", "tenant=acme&project=web"),
        ("subject", "t-acme:web:user:alice:k", "tenant=acme&project=web&subject=user:alice"),
    ] {
        cluster.now(|stands| stands.accepted = None);
        let edge = cluster.edge("", &format!("scope = \"{width}\"")).await;
        let first = post(&edge, ALICE, &LATER, "{}").await;
        let place = first.header("location").unwrap();
        let id = place.rsplit('/').next().unwrap();
        assert_eq!(cluster.stands.lock().unwrap().key.as_deref(), Some(key));
        let show = async |query: &str| edge.ask(&format!("GET /v1/delegated/{id}?{query}"), "").await;
        // As the caller names itself, and as the key does.
        for query in ["tenant=acme&project=web&subject=user:alice", begins] {
            let shown = show(query).await;
            assert_eq!(
                (shown.status, shown.json()["invocation_id"].as_str()),
                (200, Some(CALL)),
                "{width} {query} {shown:?}"
            );
        }
        assert_eq!(show("tenant=globex&project=web&subject=user:alice").await.status, 404, "{width}");
        let bobs = show("tenant=acme&project=shop&subject=user:bob").await.status;
        assert_eq!(bobs, if width == "tenant" { 200 } else { 404 }, "{width}");
        let own = show("tenant=acme").await.status;
        assert_eq!(own, if width == "tenant" { 200 } else { 400 }, "{width}");
        let purge = json!({ "tenant": "acme", "project": "web", "subject": "user:alice", "reason": "again" });
        cluster.now(|stands| stands.status = "completed");
        let purged = edge.ask(&format!("POST /v1/delegated/{id}/purge"), &purge.to_string()).await;
        assert_eq!(purged.status, 200, "{width} {purged:?}");
        cluster.now(|stands| stands.status = "running");
        let same = post(&edge, BOB, &LATER, "{}").await;
        let is_shared = same.header("x-operation-id") == first.header("x-operation-id");
        assert_eq!(is_shared, width == "tenant", "{width}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_starts_after_an_id_of_a_call_and_nothing_else_m5() {
    let cluster = Cluster::new().await;
    let edge = cluster.edge("", "").await;
    for (after, status) in [(CALL, 200), ("garbage", 400), ("inv_", 400), ("inv_'", 400), ("", 400)] {
        let got = edge.ask(&format!("GET /v1/delegated?tenant=acme&after={after}"), "").await;
        assert_eq!(got.status, status, "{after} {got:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_to_a_cluster_says_nothing_of_what_only_the_ledger_does_o1() {
    let cluster = Cluster::new().await;
    let edge = cluster.edge("", "").await;
    let routes = edge.ask("GET /v1/routes", "").await.json();
    let route = &routes["routes"][0];
    for field in ["rerun", "give_up", "keep"] {
        assert_eq!(route[field], Value::Null, "{field} {route}");
    }
    let says = route["says"].as_str().unwrap();
    assert!(says.contains("A cluster keeps the claim.") && !says.contains("a person"), "{says}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_api_that_does_not_answer_takes_no_longer_than_its_caller_waits_d1() {
    let cluster = Cluster::new().await;
    cluster.ends(200, "{}");
    cluster.now(|stands| stands.accepted = Some(String::new()));
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(Node::silent().await);
    }
    let all: Vec<_> = silent.iter().map(Node::url).collect();
    let upstream =
        format!("ingress = {}\nadmin = [{}]\ntimeout = \"1s\"", cluster.node.url(), all.join(", "));
    let edge = cluster.edge_of(&upstream, "").await;
    let begun = Instant::now();
    let got = post(&edge, ALICE, &[], "{}").await;
    assert_eq!(got.problem(), (503, "ledger-unavailable".into()), "{got:?}");
    // Each alone would be waited for for three seconds.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_node_that_has_failed_too_often_is_left_alone_d1() {
    let cluster = Cluster::new().await;
    cluster.ends(200, "{}");
    let silent = Node::silent().await;
    let upstream = format!(
        "ingress = {node}\nadmin = [{}, {node}]\ntimeout = \"2s\"\nsuspend_after = 2\nsuspend_for = \"1h\"",
        silent.url(),
        node = cluster.node.url(),
    );
    let edge = cluster.edge_of(&upstream, "recall = true").await;
    assert_eq!(post(&edge, ALICE, &[], "{}").await.status, 200);
    // A recall looks into the journal every time.
    for _ in 0..8 {
        let got = edge.send(ALICE, "GET /calls/by-idempotency-key/k", &[], "").await;
        assert_eq!(got.status, 200, "{got:?}");
    }
    assert_eq!(silent.journals(), 2, "and then no more");
    let metrics = edge.ask("GET /metrics", "").await.text();
    let line = format!("hapax_circuits_open{{node=\"http://{}\"}} 1", silent.address);
    assert!(metrics.contains(&line), "{line}: {metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_nobody_is_told_to_send_again_what_may_have_been_done_h11() {
    let folder = tempfile::tempdir().unwrap();
    for (status, headers, executed, retryable) in [
        (503, "", "unknown", false),
        (500, "", "unknown", false),
        (404, "", "unknown", false),
        (302, "", "unknown", false),
        // A page of something in front of the cluster.
        (200, "", "unknown", false),
        (404, "x-restate-error-source: ingress\r\n", "no", true),
        (429, "", "no", true),
        (413, "", "no", false),
    ] {
        let node = Node::saying(Box::new(move |_, _| answer(status, headers, "{}"))).await;
        let path = folder.path().join("edge.toml");
        let url = node.url();
        std::fs::write(&path, configuration(&format!("ingress = {url}\nadmin = {url}"), "")).unwrap();
        let edge = Hapax::start(&path, &[]).await;
        let got = edge.send(ALICE, "POST /keyless", &[], "{}").await;
        let told = got.json();
        assert_eq!(
            (&told["executed"], &told["retryable"]),
            (&json!(executed), &json!(retryable)),
            "{status} {got:?}"
        );
        assert!(retryable || got.header("retry-after").is_none(), "{status} {got:?}");
        assert_eq!(node.count("POST /restate/call/S/keyless "), 1, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_a_node_that_fails_is_left_alone_and_the_others_are_asked_d1() {
    let fine = || answer(200, &format!("x-restate-id: {CALL}\r\n"), "{}");
    for (says, fails) in [(None, 0), (answer(503, "", "{}"), 2), (answer(429, "", "{}"), 0)] {
        let folder = tempfile::tempdir().unwrap();
        let well = Node::saying(Box::new(move |_, _| fine())).await;
        let is_closed = says.is_none();
        let ill = Node::saying(Box::new(move |_, _| says.clone())).await;
        // A port on which nobody listens.
        let closed = hapax_testkit::port::Port::reserve().unwrap();
        let address = if is_closed { format!("\"http://{}\"", closed.address()) } else { ill.url() };
        let path = folder.path().join("edge.toml");
        let upstream = format!(
            "ingress = [{address}, {}]\nadmin = {}\nsuspend_after = 2\nsuspend_for = \"1h\"",
            well.url(),
            well.url()
        );
        std::fs::write(&path, configuration(&upstream, "")).unwrap();
        let edge = Hapax::start(&path, &[]).await;
        let mut failed = 0;
        for _ in 0..12 {
            let got = edge.send(ALICE, "POST /keyless", &[], "{}").await;
            failed += usize::from(got.status != 200);
        }
        assert_eq!((failed, well.count("POST /restate/call/S/keyless ")), (fails, 12 - fails), "{address}");
        // One that has too much to do is no broken one.
        let is_busy = !is_closed && fails == 0;
        let metrics = edge.ask("GET /metrics", "").await.text();
        let line = format!("hapax_circuits_open{{node={address}}} 1");
        assert_eq!(metrics.contains(&line), !is_busy, "{line}: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_mark_what_it_kept_is_told_at_the_start_and_by_doctor_d3() {
    let cluster = Cluster::new().await;
    let edge = cluster.edge("", "").await;
    // There is nothing to look at yet: it is looked again.
    raw::until("a look", || cluster.node.count("POST /query") > 0).await;
    cluster.now(|stands| {
        stands.output = (200, format!("x-restate-id: {CALL}\r\n"), "{}".into());
        stands.status = "completed";
    });
    raw::until("a word about it", || edge.told().contains("do not say until when")).await;
    let path = cluster.folder.path().join("edge.toml");
    let mut command = hapax(&["doctor", "--config", &path.display().to_string()]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && told.contains("kept answers do not say until when"), "{told}");
}
