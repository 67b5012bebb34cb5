//! Routes whose key is the sender's identifier, wherever it stands in the transport (P1, policy `REQUIRED_B`).

use std::io::Write as _;
use std::sync::Arc;

use hapax_core::json::Pointer;
use hapax_core::{Inspect as _, Policy, Source};
use hapax_gateway::settings::{Route, Settings};
use hapax_tower::{IdentifierPlace, Keys, Rule};

use crate::world::{Got, World};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// `POST /events/{header,json,form}` take the identifier from there.
fn take(settings: &mut Settings) {
    let raw = settings.routes.iter().find(|route| &*route.path == "/raw").unwrap().clone();
    for (name, place) in [
        ("header", IdentifierPlace::Header("x-delivery-id".into())),
        ("json", IdentifierPlace::Json(Pointer::new("/event/id").unwrap())),
        ("form", IdentifierPlace::Form("EventId".into())),
    ] {
        let keys = Keys { identifier: Some(place), ..Keys::default() };
        let operation = format!("events.{name}");
        let rule = Rule {
            policy: Policy::RequiredB,
            keys,
            max_request_body: 64 << 10,
            ..Rule::new(&operation).unwrap()
        };
        settings.routes.push(Route {
            path: format!("/events/{name}").into(),
            policy: Policy::RequiredB,
            rule: Some(Arc::new(rule)),
            ..raw.clone()
        });
    }
}

async fn post(world: &World, place: &str, headers: &[(&str, &str)], body: &str) -> Got {
    world.ask(&format!("POST /events/{place}"), &world.alice, headers, body).await
}

/// The same identifier in each of the three places.
async fn send(world: &World, place: &str, identifier: &str) -> Got {
    match place {
        "header" => post(world, place, &[("X-Delivery-Id", identifier)], "x").await,
        "json" => post(world, place, &[], &format!("{{\"event\": {{\"id\": \"{identifier}\"}}}}")).await,
        _ => post(world, place, &[FORM], &format!("a=1&EventId={identifier}")).await,
    }
}

#[tokio::test]
async fn the_senders_identifier_is_the_key_wherever_it_stands_p1() {
    let world = World::with(take).await;
    for place in ["header", "json", "form"] {
        let before = world.service.count();
        let first = send(&world, place, "evt-1.a~B").await;
        assert_eq!((first.status, first.is_replay()), (201, false), "{place}: {}", first.text());
        let arrived = world.service.last();
        let key = "t-acme:web:user:alice:evt-1.a~B";
        assert_eq!(arrived.header("idempotency-key").as_deref(), Some(key), "{place}");
        let again = send(&world, place, "evt-1.a~B").await;
        assert_eq!((again.is_replay(), &again.body), (true, &first.body), "{place}");
        assert!(!send(&world, place, "evt-2").await.is_replay(), "{place}: another identifier");
        assert_eq!(world.service.count(), before + 2, "{place}");
        let id = first.header("x-operation-id").unwrap();
        for line in
            [format!("GET /events/{place}/by-idempotency-key/evt-1.a~B"), format!("GET /operations/{id}")]
        {
            let recalled = world.ask(&line, &world.alice, &[], "").await;
            assert_eq!((recalled.status, &recalled.body), (201, &first.body), "{line}");
            assert_eq!(world.ask(&line, &world.bob, &[], "").await.status, 404, "{line}");
        }
        let counted = format!(
            "idempotency_key_present_total{{tenant=\"acme\",project=\"web\",endpoint=\"/events/{place}\",case=\"B\"}} 3\n"
        );
        let text = world.gateway.metrics().render();
        assert!(text.contains(&counted), "{counted} in {text}");
    }
    assert_eq!(
        world.service.arrived()[0].header("x-delivery-id").as_deref(),
        Some("evt-1.a~B"),
        "as it came"
    );
    let claims = world.store.list(&Default::default(), None, 10).await.unwrap();
    assert_eq!(claims.items.len(), 6);
    assert!(claims.items.iter().all(|claim| claim.identity.source() == Source::Transport));
    // Another caller's identifiers are its own, and the same one with another request is refused.
    let headers = [("x-delivery-id", "evt-1.a~B")];
    assert!(!world.ask("POST /events/header", &world.bob, &headers, "x").await.is_replay());
    assert_eq!(post(&world, "header", &headers, "y").await.code(), "key-reused");
}

#[tokio::test]
async fn a_key_header_has_no_effect_where_the_identifier_is_the_key_p1_a5() {
    let world = World::with(take).await;
    let both = [("x-delivery-id", "evt-1"), ("idempotency-key", "k-1")];
    let first = post(&world, "header", &both, "x").await;
    assert_eq!((first.status, first.header("idempotency-key-ignored")), (201, Some("true")));
    assert_eq!(
        world.service.last().header("idempotency-key").as_deref(),
        Some("t-acme:web:user:alice:evt-1"),
        "only the edge writes it"
    );
    let other = [("x-delivery-id", "evt-1"), ("idempotency-key", "k-2"), ("idempotency-key", "")];
    assert!(post(&world, "header", &other, "x").await.is_replay());
    let without = post(&world, "header", &[("idempotency-key", "k-1")], "x").await;
    assert_eq!((without.status, without.code().as_str()), (400, "translation-failed"));
    assert_eq!(without.header("idempotency-key-ignored"), Some("true"), "whatever the answer is");
    assert_eq!(
        world.ask("GET /events/header/by-idempotency-key/k-1", &world.alice, &[], "").await.status,
        404
    );
    assert_eq!(world.service.count(), 1);
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

async fn send_gzip(world: &World, bytes: &[u8]) -> Got {
    let mut request = format!(
        "POST /events/json HTTP/1.1\r\nhost: edge.example\r\nauthorization: Bearer {}\r\n\
         content-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        world.alice,
        bytes.len()
    )
    .into_bytes();
    request.extend_from_slice(bytes);
    world.send(request).await.expect("an answer")
}

/// Where the identifier is looked for, what is wrong, headers, body.
type Bad<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, String);

#[tokio::test]
async fn a_request_without_one_readable_identifier_is_refused_counted_and_goes_nowhere_p1() {
    let world = World::with(take).await;
    let (long, deep) = ("a".repeat(201), format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)));
    let json = |id: &str| format!("{{\"event\": {{\"id\": {id}}}}}");
    let mut bad: Vec<Bad<'_>> = Vec::new();
    for (what, lines) in [
        ("missing", vec![]),
        ("empty", vec![("x-delivery-id", "")]),
        ("two", vec![("x-delivery-id", "a"), ("x-delivery-id", "b")]),
        ("the same twice", vec![("x-delivery-id", "a"), ("x-delivery-id", "a")]),
        ("two in one line", vec![("x-delivery-id", "a, b")]),
        ("too long", vec![("x-delivery-id", long.as_str())]),
        ("a colon", vec![("x-delivery-id", "a:b")]),
        ("quoted", vec![("x-delivery-id", "\"a\"")]),
        ("no ASCII", vec![("x-delivery-id", "ä")]),
        ("dots", vec![("x-delivery-id", "..")]),
        ("a namespace", vec![("x-delivery-id", "t-acme")]),
        ("disguised", vec![("x_delivery_id", "a")]),
    ] {
        bad.push(("header", what, lines, "x".into()));
    }
    for (what, body) in [
        ("missing", "{}".to_owned()),
        ("elsewhere", "{\"id\": \"a\"}".into()),
        ("no body", String::new()),
        ("empty", json("\"\"")),
        ("two", "{\"event\": {\"id\": \"a\", \"id\": \"b\"}}".into()),
        ("two on the way", "{\"event\": {\"id\": \"a\"}, \"event\": {\"id\": \"a\"}}".into()),
        ("not JSON", "event=a".into()),
        ("cut", "{\"event\": {\"id\": \"a\"}".into()),
        ("10,000 deep", json(&deep)),
        ("a number", json("7")),
        ("null", json("null")),
        ("an object", json("{\"id\": \"a\"}")),
        ("a list", json("[\"a\"]")),
        ("too long", json(&format!("\"{long}\""))),
        ("a space", json("\"a b\"")),
        ("no ASCII", json("\"ä\"")),
        ("a control character", json("\"a\\u0000\"")),
    ] {
        bad.push(("json", what, vec![], body));
    }
    for (what, body) in [
        ("missing", "a=1"),
        ("no body", ""),
        ("empty", "EventId="),
        ("no value", "EventId"),
        ("two", "EventId=a&EventId=b"),
        ("the same twice", "EventId=a&%45ventId=a"),
        ("another case", "eventid=a"),
        ("too long", long.as_str()),
        ("a space", "EventId=a+b"),
        ("no UTF-8", "EventId=%ff"),
        ("JSON", "{\"EventId\": \"a\"}"),
    ] {
        let body = if what == "too long" { format!("EventId={body}") } else { body.to_owned() };
        bad.push(("form", what, vec![FORM], body));
    }
    for other in ["application/json", "multipart/form-data; boundary=x", "text/plain"] {
        bad.push(("form", other, vec![("content-type", other)], "EventId=a".into()));
    }
    let mut counts = std::collections::BTreeMap::new();
    for (place, what, headers, body) in &bad {
        let got = post(&world, place, headers, body).await;
        assert_eq!((got.status, got.code().as_str()), (400, "translation-failed"), "{place}: {what}");
        let told = got.json()["detail"].as_str().unwrap().to_owned();
        let named = ["x-delivery-id", "/event/id", "EventId"].iter().any(|name| told.contains(name));
        assert!(named && !told.contains(&long), "{place}: {what}: {told}");
        *counts.entry(*place).or_insert(0) += 1;
    }
    for bytes in [&b"{\"event\": {\"id\": \"a\"}}"[..], &gzip("{}"), &gzip(&json("7"))] {
        assert_eq!(send_gzip(&world, bytes).await.code(), "translation-failed");
        *counts.entry("json").or_insert(0) += 1;
    }
    let too_large = post(&world, "json", &[], &json(&format!("\"{}\"", "a".repeat(70_000)))).await;
    assert_eq!(too_large.status, 413, "what cannot be read is not let through");
    assert_eq!(world.service.count(), 0);
    let claims = world.store.list(&Default::default(), None, 10).await.unwrap();
    assert!(claims.items.is_empty(), "{claims:?}");
    let text = world.gateway.metrics().render();
    for (place, count) in counts {
        let line = format!(
            "transport_translation_failed_total{{tenant=\"acme\",project=\"web\",endpoint=\"/events/{place}\",provider=\"_none\"}} {count}\n"
        );
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(!text.contains("idempotency_key_present_total{"), "{text}");
    // Who asks comes first, and what is good comes in still.
    assert_eq!(world.ask("POST /events/header", "nobody", &[], "x").await.status, 401);
    assert_eq!(send_gzip(&world, &gzip(&json("\"a\""))).await.status, 201);
    assert!(send_gzip(&world, &gzip(&json("\"a\""))).await.is_replay());
}

#[tokio::test]
async fn simultaneous_requests_with_one_identifier_run_once_p1() {
    let world = Arc::new(World::with(take).await);
    let calls = (0..50).map(|_| {
        let world = world.clone();
        tokio::spawn(async move { send(&world, "json", "burst").await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().status, 201);
    }
    assert_eq!(world.service.count(), 1);
}
