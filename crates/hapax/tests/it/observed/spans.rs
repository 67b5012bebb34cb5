//! Spans: what the official package for Python reads of what was exported, and what a broken collector does to requests (O3).

use std::process::Command;

use serde_json::Value;

use super::collector::{Collector, Mood};
use super::{ground, metrics};
use crate::rig::caller::{ALICE, Got};
use crate::rig::process::eventually;
use crate::rig::{Ground, Hapax, Kind};
use crate::{actions_cli, rig, schedules, webhooks_cli};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A ground whose instances export to this collector.
async fn traced(url: &str, more: &str) -> Ground {
    let mut ground = ground().await;
    ground.sections = format!("[traces]\nendpoint = \"{url}\"\n{more}\n");
    ground
}

/// The count of spans that were exported or lost.
async fn spans(edge: &Hapax, which: &str) -> u64 {
    let name = format!("hapax_spans_{which}_total ");
    metrics(edge).await.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

/// What the package of the OpenTelemetry project reads: all spans, as its JSON form has them.
fn decoded(bodies: &[Vec<u8>]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let python = std::env::var("HAPAX_TEST_PYTHON")
        .expect("this test needs packages for Python: run `cargo xtask test`");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/observed/decode.py");
    let mut command = Command::new(format!("{python}/bin/python"));
    command.arg(script);
    for (number, body) in bodies.iter().enumerate() {
        let path = folder.path().join(number.to_string());
        std::fs::write(&path, body).unwrap();
        command.arg(path);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let spans: Value = serde_json::from_slice(&output.stdout).unwrap();
    spans.as_array().unwrap().clone()
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|pair| pair["key"] == name);
    found.map_or(&Value::Null, |pair| &pair["value"])
}

/// The span of the request that has this attribute, and those below it.
fn request<'a>(spans: &'a [Value], name: &str, value: &str) -> (&'a Value, Vec<&'a Value>) {
    let root = spans
        .iter()
        .find(|span| span["attributes"].is_array() && attribute(span, name)["stringValue"] == value);
    let root = root.unwrap_or_else(|| panic!("no request with {name} {value} in {spans:?}"));
    (root, spans.iter().filter(|span| span["parentSpanId"] == root["spanId"]).collect())
}

mod python_opentelemetry {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reads_a_span_of_each_request_with_its_steps_o3() {
        let collector = Collector::start(Mood::Takes).await;
        let ground = traced(&collector.url(), "").await;
        let mut edge = ground.serve().await;
        let parent = format!("00-{TRACE}-{PARENT}-01");
        let headers = [("idempotency-key", "k"), ("traceparent", parent.as_str()), ("tracestate", "v=1")];
        for _ in 0..2 {
            assert_eq!(edge.send(ALICE, "POST /charges", &headers, "{}").await.status, 201);
        }
        assert_eq!(edge.send(ALICE, "GET /charges", &[], "").await.status, 201);
        let unsampled = format!("00-{TRACE}-{PARENT}-00");
        let headers = [("traceparent", unsampled.as_str()), ("x-do", "status=503")];
        assert_eq!(edge.send(ALICE, "GET /charges", &headers, "").await.status, 503);
        let told: Vec<_> =
            ground.service.done().iter().map(|done| done.header("traceparent").map(str::to_owned)).collect();
        // What is recorded is exported before the process ends.
        edge.terminate();
        assert!(edge.ended().await.success());
        let spans = decoded(&collector.bodies());
        let (root, steps) = request(&spans, "hapax.event", "executed");
        assert_eq!((&root["traceId"], &root["parentSpanId"]), (&TRACE.into(), &PARENT.into()));
        assert_eq!((&root["name"], &root["kind"]), (&"POST /charges".into(), &"SPAN_KIND_SERVER".into()));
        let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["intake", "claim", "upstream", "settle"]);
        for (name, value) in [
            ("http.request.method", "POST"),
            ("http.route", "/charges"),
            ("hapax.tenant", "acme"),
            ("hapax.project", "web"),
            ("idempotency_policy", "REQUIRED_A"),
            ("restate_cache_hit", "false"),
        ] {
            assert_eq!(attribute(root, name)["stringValue"], value, "{name}");
        }
        assert_eq!(attribute(root, "http.response.status_code")["intValue"], "201");
        let time = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        for step in &steps {
            assert!(time(root, "startTimeUnixNano") <= time(step, "startTimeUnixNano"), "{step}");
            assert!(time(step, "startTimeUnixNano") <= time(step, "endTimeUnixNano"), "{step}");
        }
        // The service is told of the span that its call is.
        let upstream = steps[2]["spanId"].as_str().unwrap();
        assert_eq!(told[0], Some(format!("00-{TRACE}-{upstream}-01")));
        let (replay, steps) = request(&spans, "hapax.event", "replayed");
        assert_eq!(attribute(replay, "restate_cache_hit")["stringValue"], "true");
        let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["intake", "claim"]);
        // Without a caller's span a request begins a trace; one whose caller does not record it passes on what it said.
        let (plain, _) = request(&spans, "hapax.event", "passed");
        assert!(plain["parentSpanId"].is_null() && plain["traceId"] != TRACE, "{plain}");
        assert_eq!(told[2].as_deref(), Some(unsampled.as_str()));
        assert!(
            !spans.iter().any(|span| attribute_is(span, "http.response.status_code", "503")),
            "{spans:?}"
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reads_a_span_of_a_plan_whose_tools_are_told_of_it_o3() {
        let collector = Collector::start(Mood::Takes).await;
        let mut ground = actions_cli::ground(Kind::Embedded).await;
        ground.sections = format!("{}[traces]\nendpoint = \"{}\"\n", ground.sections, collector.url());
        let mut edge = ground.serve().await;
        let said = |flags: &str| format!("00-{TRACE}-{PARENT}-{flags}");
        hold(&edge, "1", &[("traceparent", &said("01"))]).await;
        hold(&edge, "2", &[("traceparent", &said("00"))]).await;
        hold(&edge, "3", &[]).await;
        edge.tells(TRACE).await;
        let text = rig::caller::request(ALICE, "GET /healthz", &[("traceparent", &said("01"))], "");
        let text = text.replace("host: edge.example", "host: localhost");
        assert_eq!(rig::caller::send(edge.api(), text.as_bytes()).await.unwrap().status, 200);
        let done = ground.service.done();
        let told = |at: usize| done[at].header("traceparent").unwrap_or_default().to_owned();
        edge.terminate();
        assert!(edge.ended().await.success());
        let spans = decoded(&collector.bodies());
        // One each of the two that are recorded; what anybody may ask is not told of.
        assert_eq!(spans.len(), 2, "{spans:#?}");
        for (span, told) in spans.iter().zip([told(0), told(2)]) {
            let (trace, id) = (span["traceId"].as_str().unwrap(), span["spanId"].as_str().unwrap());
            assert_eq!(told, format!("00-{trace}-{id}-01"));
            assert_eq!(
                (&span["name"], &span["kind"]),
                (&"POST /v1/plans".into(), &"SPAN_KIND_SERVER".into())
            );
            for (name, value) in [
                ("http.route", "/v1/plans"),
                ("hapax.tenant", "acme"),
                ("hapax.project", "web"),
                ("hapax.event", "done"),
            ] {
                assert_eq!(attribute(span, name)["stringValue"], value, "{name}");
            }
            assert_eq!(attribute(span, "http.response.status_code")["intValue"], "200");
        }
        assert_eq!((&spans[0]["traceId"], &spans[0]["parentSpanId"]), (&TRACE.into(), &PARENT.into()));
        assert!(spans[1]["parentSpanId"].is_null() && spans[1]["traceId"] != TRACE, "{spans:#?}");
        // A plan that is not recorded passes on what its caller said.
        assert_eq!(told(1), said("00"));
    }

    fn attribute_is(span: &Value, name: &str, value: &str) -> bool {
        span["attributes"].is_array() && attribute(span, name)["intValue"] == value
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_takes_nothing_harms_no_request_and_what_is_lost_is_counted_o3() {
    for mood in [Mood::Refuses, Mood::Garbage] {
        let collector = Collector::start(mood).await;
        let ground = traced(&collector.url(), "").await;
        let edge = ground.serve().await;
        for number in 0..5 {
            assert_eq!(edge.post("/charges", &format!("k-{number}"), "{}", "").await.status, 201, "{mood:?}");
        }
        eventually("what is lost is counted", async || spans(&edge, "dropped").await >= 5 * 5).await;
        edge.tells("the collector takes no spans").await;
        assert_eq!(spans(&edge, "exported").await, 0, "{mood:?}");
        // It is back.
        collector.set(Mood::Takes);
        eventually("spans are taken again", async || {
            edge.post("/charges", "again", "{}", "").await;
            spans(&edge, "exported").await > 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_or_silent_holds_up_neither_requests_nor_the_end_o3() {
    let silent = Collector::start(Mood::Silent).await;
    let nowhere = hapax_testkit::port::Port::reserve().unwrap();
    for url in [silent.url(), format!("http://{}", nowhere.address())] {
        let ground = traced(&url, "").await;
        let mut edge = ground.serve().await;
        for number in 0..20 {
            assert_eq!(edge.post("/charges", &format!("k-{number}"), "{}", "").await.status, 201, "{url}");
        }
        edge.terminate();
        assert!(edge.ended().await.success(), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_of_a_delivery_and_of_a_tick_is_told_of_its_span_o3() {
    let collector = Collector::start(Mood::Takes).await;
    let mut ground =
        schedules::ground(Kind::Embedded, &schedules::schedule("often", "every = \"200ms\"", "")).await;
    let traces = format!("[traces]\nendpoint = \"{}\"\n", collector.url());
    ground.sections = format!("{}{}{traces}", ground.sections, webhooks_cli::WEBHOOKS);
    let edge = schedules::serve(&ground, "hapax").await;
    let hook = webhooks_cli::create(&edge, "github", "secret", &[]).await;
    let hook = hook["path"].as_str().unwrap();
    assert_eq!(webhooks_cli::github(&edge, hook, "secret", "d-1", "").await.status, 201);
    ground.service.reached(2).await;
    let done = ground.service.done();
    for path in ["/internal/github", "/charges"] {
        let done = done.iter().find(|done| done.is_on(path)).unwrap();
        let told = done.header("traceparent").unwrap_or_else(|| panic!("{path} is told of a span"));
        assert!(told.starts_with("00-") && told.ends_with("-01"), "{told}");
    }
    eventually("the spans came", async || collector.holds("POST /hooks/{provider}/{webhook_id}")).await;
}

/// Proposes a hold of this order, and has it done.
async fn hold(edge: &Hapax, order: &str, headers: &[(&str, &str)]) -> Got {
    let mut action = actions_cli::hold();
    (action["args"]["order"], action["idempotency_key"]) = (order.into(), order.into());
    let text = rig::caller::request(ALICE, "POST /v1/plans", headers, &Value::from(vec![action]).to_string());
    let text = text.replace("host: edge.example", "host: localhost");
    let got = rig::caller::send(edge.api(), text.as_bytes()).await.unwrap();
    assert_eq!((got.status, &got.json()[0]["ok"]), (200, &true.into()), "{}", got.text());
    got
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_section_a_plan_passes_on_what_its_caller_said_if_it_can_be_read_o3() {
    let ground = actions_cli::ground(Kind::Embedded).await;
    let edge = ground.serve().await;
    let parent = format!("00-{TRACE}-{PARENT}-01");
    hold(&edge, "1", &[("traceparent", &parent)]).await;
    hold(&edge, "2", &[("traceparent", "garbage")]).await;
    hold(&edge, "3", &[]).await;
    let done = ground.service.done();
    let told: Vec<_> = done.iter().map(|done| done.header("traceparent")).collect();
    assert_eq!(told, [Some(parent.as_str()), None, None]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_section_nothing_is_recorded_and_what_callers_say_passes_o3() {
    let ground = ground().await;
    let edge = ground.serve().await;
    let parent = format!("00-{TRACE}-{PARENT}-01");
    edge.send(ALICE, "POST /charges", &[("idempotency-key", "k"), ("traceparent", &parent)], "{}").await;
    assert_eq!(ground.service.done()[0].header("traceparent"), Some(parent.as_str()));
    assert_eq!((spans(&edge, "exported").await, spans(&edge, "dropped").await), (0, 0));
    assert!(!edge.told().contains("trace_id"), "{}", edge.told());
}
