//! What operators see of a running process: metrics, spans, and nothing that a caller chose (O1, O2, O3, O4).

mod collector;
mod prometheus;
mod spans;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::application::App;
use crate::rig::caller::{self, ALICE};
use crate::rig::process::eventually;
use crate::rig::{Got, Ground, Hapax, Kind, TOKEN, Who, hapax};
use crate::{actions_cli, claims_cli, webhooks_cli};
use collector::{Collector, Mood};

/// Routes of every policy beside those of every ground.
const ROUTES: &str = r#"
[[routes]]
method = "POST"
path = "/events"
operation = "events.take"
policy = "REQUIRED_B"
identifier = { header = "X-Delivery-Id" }
upstream = "service"

[[routes]]
method = "POST"
path = "/open"
operation = "open"
policy = "ACCEPTED"
upstream = "service"

[[routes]]
method = "POST"
path = "/internal"
policy = "HANDLER_INTERNAL_C"
upstream = "service"
"#;

async fn ground() -> Ground {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = ROUTES.into();
    ground
}

/// Requests of every kind: each family of requests has something to tell.
async fn traffic(edge: &Hapax, round: &str) {
    let key = |name: &str| format!("{name}-{round}");
    for (name, told) in [("plain", ""), ("refused", "status=402")] {
        for _ in 0..2 {
            edge.post("/charges", &key(name), "{}", told).await;
        }
    }
    edge.post("/charges", &key("plain"), "{\"other\": 1}", "").await;
    edge.post("/charges", "a b", "{}", "").await;
    edge.post("/charges", "", "{}", "").await;
    edge.send(ALICE, "POST /charges", &[], "{}").await;
    edge.send(ALICE, "POST /open", &[], "{}").await;
    edge.send(ALICE, "POST /events", &[("x-delivery-id", &key("d"))], "{}").await;
    edge.send(ALICE, "POST /events", &[], "{}").await;
    edge.send(ALICE, "POST /internal", &[("x-do", "hit")], "{}").await;
    edge.send(ALICE, "GET /charges", &[("idempotency-key", "k")], "").await;
    edge.send(ALICE, "GET /charges", &[], "").await;
    edge.send(ALICE, "GET /charges", &[("x-do", "status=503")], "").await;
    // More of these than there are keys.
    for _ in 0..20 {
        let line = format!("GET /charges/by-idempotency-key/{}", key("plain"));
        assert_eq!(edge.send(ALICE, &line, &[], "").await.status, 201);
    }
    let app = App::new(edge, ALICE);
    app.lease().await;
    app.refused("/v1/claims", json!({})).await;
}

async fn metrics(edge: &Hapax) -> String {
    edge.ask("GET /metrics", "").await.text()
}

/// A sample's family, as far as its name tells, and the names of its labels.
fn sample(line: &str) -> (String, Vec<String>) {
    let (name, labels) = line.split_once('{').map_or((line, ""), |(name, rest)| (name, rest));
    let name = name.split(' ').next().unwrap();
    let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
    let names =
        labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
    (name.to_owned(), names.filter(|name| name != "le").collect())
}

/// The families of `docs/reference/metrics.md`, with their labels.
fn page() -> BTreeMap<String, Vec<String>> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').collect();
        (names(cells[1]).remove(0), names(cells[3]))
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrape_of_a_real_process_has_what_the_reference_says_and_nothing_else_o1() {
    let ground = ground().await;
    let edge = ground.serve().await;
    traffic(&edge, "one").await;
    let (text, page) = (metrics(&edge).await, page());
    let types: BTreeSet<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(types.len(), page.len(), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = sample(line);
        assert_eq!(page.get(&name), Some(&labels), "{line}");
    }
    let labels = |endpoint: &str, last: &str| {
        format!("{{tenant=\"acme\",project=\"web\",endpoint=\"{endpoint}\",{last}}}")
    };
    for (name, labels, count) in [
        ("idempotency_key_present_total", labels("/charges", "case=\"A\""), 5),
        ("idempotency_key_present_total", labels("/events", "case=\"B\""), 1),
        ("idempotency_key_missing_total", labels("/charges", "class=\"REQUIRED_A\""), 1),
        ("idempotency_key_missing_total", labels("/open", "class=\"ACCEPTED\""), 1),
        ("idempotency_key_invalid_total", labels("/charges", "reason=\"charset\""), 1),
        ("idempotency_key_invalid_total", labels("/charges", "reason=\"length\""), 1),
        ("idempotency_key_invalid_total", labels("/charges", "reason=\"prohibited\""), 1),
        ("transport_translation_failed_total", labels("/events", "provider=\"_none\""), 1),
        ("idempotency_cache_hit_total", labels("/charges", "restate_status=\"completed\""), 1),
        ("idempotency_cache_hit_total", labels("/charges", "restate_status=\"terminal_error\""), 1),
        ("hapax_requests_total", labels("/charges", "event=\"executed\",status=\"201\""), 1),
        ("hapax_request_seconds_count", "{endpoint=\"/charges\",event=\"replayed\"}".into(), 2),
    ] {
        assert!(text.contains(&format!("{name}{labels} {count}\n")), "{name}{labels} {count} in {text}");
    }
    let age = text.lines().find_map(|line| line.strip_prefix("hapax_session_age_seconds ")).unwrap();
    assert!(age.parse::<f64>().unwrap() < 30.0, "{age}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_beyond_the_bound_share_a_label_and_all_are_served_o1() {
    let ground = ground().await;
    let edge = ground.serve().await;
    for number in 0..1_005 {
        let tenant: &str = Box::leak(format!("tenant-{number}").into_boxed_str());
        assert_eq!(edge.send(Who(tenant, "web", "user:a"), "GET /charges", &[], "").await.status, 201);
    }
    let text = metrics(&edge).await;
    let counted = |tenant: &str| {
        let start = format!("hapax_requests_total{{tenant=\"{tenant}\"");
        text.lines()
            .find(|line| line.starts_with(&start))
            .map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    assert_eq!(counted("tenant-999").as_deref(), Some("1"));
    assert_eq!((counted("tenant-1000"), counted("_other").as_deref()), (None, Some("5")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_served_while_the_process_drains_o1() {
    let ground = ground().await;
    let mut edge = ground.serve().await;
    ground.service.hold();
    let running = edge.begin("/charges", "k", "{}", "");
    ground.service.reached(1).await;
    edge.terminate();
    eventually("it drains", async || edge.ask("GET /readyz", "").await.status == 503).await;
    assert!(metrics(&edge).await.ends_with("# EOF\n"));
    ground.service.let_go();
    assert_eq!(running.await.unwrap().unwrap().status, 201);
    assert!(edge.ended().await.success());
}

/// What must stand nowhere: planted in every input.
const CANARY: &str = "canary";

/// Every kind of request that a caller can send, each with its canaries.
async fn planted(edge: &Hapax, hook: &str) {
    let headers = |key: &'static str| {
        [
            ("idempotency-key", key),
            ("authorization", "Bearer canary-token"),
            ("x-canary-header", "canary-value"),
            ("cookie", "session=canary-cookie"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("tracestate", "vendor=canary-state"),
        ]
    };
    let line = "POST /charges?secret=canary-query";
    for body in ["{\"card\": \"canary-body\"}", "{\"card\": \"canary-body\"}", "{\"card\": \"canary-else\"}"]
    {
        edge.send(ALICE, line, &headers("canary-key"), body).await;
    }
    for key in ["canary key", "canary-\u{e9}", "t-canary", "sched.canary"] {
        edge.send(ALICE, "POST /charges", &[("idempotency-key", key)], "canary-body").await;
    }
    edge.send(ALICE, "POST /charges", &[("idempotency-key", "canary-cut"), ("x-do", "cut")], "canary").await;
    edge.send(ALICE, "POST /charges", &[("idempotency-key", "canary-5xx"), ("x-do", "status=500")], "canary")
        .await;
    edge.send(ALICE, "GET /charges/by-idempotency-key/canary-key", &[], "").await;
    edge.send(ALICE, "POST /events", &[("x-delivery-id", "canary-delivery")], "canary").await;
    edge.send(ALICE, "GET /canary-path", &[], "").await;
    let signed = [("x-hub-signature-256", "sha256=canary"), ("x-github-delivery", "canary-delivery")];
    webhooks_cli::deliver(edge, hook, &signed, "canary-body").await;
    let bad = "POST /charges HTTP/1.1\r\nhost: edge\r\nauthorization: Bearer canary-token\r\ncontent-length: 1, 2\r\n\r\n";
    let _: Option<Got> = caller::send(edge.edge, bad.as_bytes()).await;
    let wrong = "GET /v1/claims HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer canary-admin\r\n\r\n";
    assert_eq!(caller::send(edge.admin, wrong.as_bytes()).await.unwrap().status, 401);
}

/// The same for what applications ask: a claim with each of its ends, an execution with its steps, and a plan of actions.
async fn planted_by_applications(edge: &Hapax) {
    let app = App::new(edge, ALICE);
    let lease = app.lease().await;
    let ends = [
        ("settle", json!({"result": {"card": "canary-result"}})),
        ("settle", json!({"error": "canary-error"})),
        ("release", json!({"ran": "no", "cause": "canary-cause"})),
        ("release", json!({"ran": "perhaps", "cause": "canary-cause"})),
    ];
    for (number, (verb, mut end)) in ends.into_iter().enumerate() {
        let key = format!("canary-claim-{number}");
        let claim = json!({"lease": lease, "attempt": "canary-attempt", "operation": "mail.send", "key": key,
                           "body": {"to": "canary-to"}});
        let granted = app.post("/v1/claims", claim.clone()).await;
        end["epoch"] = granted["epoch"].clone();
        let id = granted["operation_id"].as_str().unwrap();
        app.post(&format!("/v1/claims/{id}/{verb}"), end).await;
        app.post("/v1/claims", claim).await;
    }
    app.refused("/v1/claims", json!({"canary-field": "canary-value"})).await;

    let new = json!({"executionId": "canary-execution", "agentId": "clerk", "lease": lease,
                     "input": {"order": "canary-input"}});
    let runner = app.post("/v1/executions", new).await["runner"].clone();
    let of = |verb: &str| format!("/v1/executions/canary-execution/{verb}");
    let calls = json!([{"tool": "pay", "args": {"card": "canary-args"}, "effectKey": "canary-effect"}]);
    app.post(&of("plan"), json!({"runner": runner, "calls": calls})).await;
    let begin = json!({"runner": runner, "lease": lease, "attempt": "canary-attempt", "iteration": 0, "call": 0,
                       "declaration": "NON_IDEMPOTENT"});
    let granted = app.post(&of("begin"), begin).await;
    let result = json!({"card": "canary-result"});
    let finish = json!({"iteration": 0, "call": 0, "epoch": granted["epoch"], "result": result});
    app.post(&of("finish"), finish).await;
    app.refused(&of("plan"), json!({"runner": "canary-runner", "calls": []})).await;

    let action = |tool: &str, key: &str| {
        json!({"connector": "magento", "tool": tool, "args": {"order": "canary-order", "amount": 5_000, "why": "canary-why"},
               "entity_key": "canary-entity", "idempotency_key": key})
    };
    let plan = json!([
        action("orders.hold", "canary-hold"),
        action("orders.hold", "canary-hold"),
        action("orders.refund", "canary-refund"),
        action("canary-tool", "canary-unknown"),
    ]);
    let results = app.post("/v1/plans", plan).await;
    let told = |number: usize| results[number]["decision"].clone();
    assert_eq!([0, 1, 2, 3].map(told), ["ALERT", "DEDUP", "BLOCK", "BLOCK"], "{results:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_caller_chose_or_that_is_secret_is_told_o2_o3() {
    let collector = Collector::start(Mood::Takes).await;
    let mut ground = webhooks_cli::ground().await;
    ground.routes = ROUTES.into();
    let actions = actions_cli::sections(&ground);
    ground.sections.push_str(&format!(
        "{actions}[traces]\nendpoint = \"{}\"\nheaders_env = \"COLLECTOR_HEADERS\"\n",
        collector.url()
    ));
    let path = ground.folder.path().join("hapax.toml");
    let text = ground.configuration().replace("format = \"text\"", "format = \"json\"\nlevel = \"trace\"");
    std::fs::write(&path, text).unwrap();
    let edge = Hapax::start(&path, &[("COLLECTOR_HEADERS", "x-collector-token=canary-collector")]).await;
    let made = webhooks_cli::create(&edge, "github", "canary-webhook-secret", &[]).await;
    planted(&edge, made["path"].as_str().unwrap()).await;
    planted_by_applications(&edge).await;
    eventually("the spans came", async || collector.holds("GET /canary") || collector.spans() >= 12).await;
    let claims = edge.claims("in_doubt").await;
    for claim in &claims {
        edge.decide(claim, "purge").await;
    }
    let audit = edge.ask("GET /v1/audit", "").await.text();
    let own = [("log", edge.told()), ("metrics", metrics(&edge).await)];
    for (place, text) in own {
        assert!(!text.to_lowercase().contains(CANARY), "{place}: {text}");
        assert!(!text.contains(TOKEN), "{place}: {text}");
    }
    assert!(!collector.holds(CANARY), "spans");
    assert!(
        collector.head().contains("x-collector-token: canary-collector"),
        "the collector gets its headers"
    );
    // The audit names the claims that were decided about, with their keys, for operators; and nothing else of a request.
    let secret = [
        "canary-body",
        "canary-token",
        "canary-value",
        "canary-cookie",
        "canary-webhook-secret",
        "canary-query",
        "canary-to",
        "canary-result",
        "canary-error",
        "canary-args",
        "canary-input",
        "canary-order",
        "canary-why",
        "canary-entity",
        "canary-hold",
        "canary-refund",
        "canary-execution",
    ];
    for part in secret {
        assert!(!audit.contains(part), "audit: {part} in {audit}");
    }
    let mut command = hapax(&["config", "show", &path.display().to_string()]);
    command.env("COLLECTOR_HEADERS", "x-collector-token=canary-collector");
    let shown = claims_cli::told(command).await;
    assert!(shown.code == 0 && !shown.out.contains(CANARY), "{}{}", shown.out, shown.err);
}
