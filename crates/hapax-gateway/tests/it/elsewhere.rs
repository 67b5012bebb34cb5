//! Keys that stand elsewhere than in `Idempotency-Key` (K1, K2): in another header, or in a JSON body.

use std::sync::Arc;

use hapax_core::json::Pointer;
use hapax_core::{Grammar, Policy, Rerun};
use hapax_gateway::settings::{Settings, UpstreamKey};
use hapax_tower::{KeyPlace, Keys};
use http::HeaderName;

use crate::world::{Got, World, change_rule};

const OTHER: &str = "x-idempotency-key";

fn places() -> Vec<KeyPlace> {
    let pointer = Pointer::new("/idempotency_key").unwrap();
    vec![KeyPlace::Header(HeaderName::from_static(OTHER)), KeyPlace::Json(pointer)]
}

/// `POST /raw` takes keys from another header and from its body; its fingerprint leaves bodies alone.
fn elsewhere(settings: &mut Settings) {
    change_rule(settings, "raw", |rule| {
        rule.keys = Keys { places: places(), ..Keys::default() };
        rule.recipe = hapax_core::Recipe::none();
    });
}

async fn raw(world: &World, headers: &[(&str, &str)], body: &str) -> Got {
    world.ask("POST /raw", &world.alice, headers, body).await
}

#[tokio::test]
async fn the_same_key_in_any_place_is_the_same_claim_k1() {
    let world = World::with(elsewhere).await;
    let first = raw(&world, &[], r#"{"idempotency_key": "k-1", "amount": 5}"#).await;
    assert_eq!((first.status, first.is_replay()), (201, false), "{}", first.text());
    let retries = [
        raw(&world, &[(OTHER, "k-1")], "{}").await,
        raw(&world, &[(OTHER, "\"k-1\"")], "").await,
        raw(&world, &[("idempotency-key", "k-1")], "").await,
        raw(&world, &[("idempotency-key", "k-1"), (OTHER, "k-1")], r#"{"idempotency_key": "k-1"}"#).await,
    ];
    for again in retries {
        assert_eq!((again.is_replay(), again.body.clone()), (true, first.body.clone()), "{}", again.text());
    }
    assert_eq!(world.service.count(), 1);
    let recalled = world.ask("GET /raw/by-idempotency-key/k-1", &world.alice, &[], "").await;
    assert_eq!((recalled.status, recalled.body), (201, first.body), "recalled by key, wherever that stood");
}

#[tokio::test]
async fn different_keys_in_two_places_are_refused_and_nothing_runs_k1() {
    let world = World::with(elsewhere).await;
    let in_body = r#"{"idempotency_key": "k-2"}"#;
    for (headers, body) in [
        (&[("idempotency-key", "k-1"), (OTHER, "k-2")][..], ""),
        (&[(OTHER, "k-1")][..], in_body),
        (&[("idempotency-key", "k-1")][..], in_body),
        (&[(OTHER, "k-1"), (OTHER, "k-1")][..], ""),
    ] {
        let got = raw(&world, headers, body).await;
        assert_eq!((got.status, got.code().as_str()), (400, "key-duplicated"), "{headers:?} {body}");
    }
    let told = raw(&world, &[(OTHER, "k-1")], in_body).await.json()["detail"].as_str().unwrap().to_owned();
    assert!(told.contains(OTHER) && told.contains("/idempotency_key"), "both places are named: {told}");
    assert_eq!(world.service.count(), 0);
}

#[tokio::test]
async fn a_body_whose_key_cannot_be_made_out_is_refused_never_run_unprotected_k1() {
    let world = World::with(|settings| {
        elsewhere(settings);
        change_rule(settings, "raw", |rule| {
            (rule.policy, rule.max_request_body) = (Policy::Accepted, 100);
        });
        settings.routes.iter_mut().filter(|route| &*route.path == "/raw").for_each(|route| {
            route.policy = Policy::Accepted;
        });
    })
    .await;
    for body in [
        "amount=5",
        r#"{"idempotency_key": 7}"#,
        r#"{"idempotency_key": null}"#,
        r#"{"idempotency_key": ""}"#,
        r#"{"idempotency_key": "a b"}"#,
        r#"{"idempotency_key": "k", "idempotency_key": "k"}"#,
    ] {
        let got = raw(&world, &[], body).await;
        assert_eq!((got.status, got.code().as_str()), (400, "key-malformed"), "{body}");
    }
    let reserved = raw(&world, &[], r#"{"idempotency_key": "t-acme:web:user:alice:k"}"#).await;
    assert_eq!((reserved.status, reserved.code().as_str()), (400, "key-reserved"));
    let long = format!(r#"{{"idempotency_key": "k", "more": "{}"}}"#, "x".repeat(100));
    assert_eq!(raw(&world, &[], &long).await.status, 413, "what cannot be read is not let through");
    assert_eq!(world.service.count(), 0);

    // Where no key is demanded, a body without one goes on as it came, and so does what has no body.
    let plain = raw(&world, &[("x_idempotency_key", "forged")], r#"{"amount": 5}"#).await;
    assert_eq!((plain.status, plain.header("x-operation-id")), (201, None));
    assert_eq!(world.service.last().body, br#"{"amount": 5}"#);
    assert_eq!(world.service.last().header("x_idempotency_key"), None, "a key that the edge never saw");
    assert_eq!(raw(&world, &[], "").await.status, 201);
}

#[tokio::test]
async fn a_required_key_is_missing_only_when_no_place_has_it_k1() {
    let world = World::with(elsewhere).await;
    let got = raw(&world, &[], "{}").await;
    assert_eq!((got.status, got.code().as_str()), (400, "key-missing"));
    let told = got.json()["detail"].as_str().unwrap().to_owned();
    assert!(told.contains(OTHER) && told.contains("/idempotency_key"), "{told}");
    assert_eq!(world.service.count(), 0);
}

#[tokio::test]
async fn every_header_place_carries_what_the_upstream_says_and_a_body_stays_as_it_came_k1() {
    for (form, wanted) in [
        (UpstreamKey::Namespaced, Some("t-acme:web:user:alice:k-1")),
        (UpstreamKey::Raw, Some("k-1")),
        (UpstreamKey::None, None),
    ] {
        let world = World::with(|settings| {
            elsewhere(settings);
            for route in &mut settings.routes {
                Arc::make_mut(&mut route.upstream).key = form;
            }
        })
        .await;
        let body = r#"{ "idempotency_key": "k-1" }"#;
        let headers = [(OTHER, "\"k-1\""), ("x_idempotency-key", "forged")];
        assert_eq!(raw(&world, &headers, body).await.status, 201);
        let arrived = world.service.last();
        for name in [OTHER, "idempotency-key"] {
            assert_eq!(arrived.header(name).as_deref(), wanted, "{name}");
        }
        assert_eq!(arrived.header("x_idempotency-key"), None);
        assert_eq!(arrived.body, body.as_bytes());
    }
}

/// The question about an earlier attempt is asked with the key where the service looks for it.
#[tokio::test]
async fn the_question_carries_the_key_in_every_header_place_l6() {
    let world = World::with(|settings| {
        elsewhere(settings);
        change_rule(settings, "raw", |rule| rule.rerun = Rerun::Ask);
        settings.routes.iter_mut().filter(|route| &*route.path == "/raw").for_each(|route| {
            route.reconcile = Some("/known".into());
        });
    })
    .await;
    raw(&world, &[(OTHER, "k-1"), ("x-do", "cut")], "").await;
    let again = raw(&world, &[(OTHER, "k-1"), ("x-ask", "status=200")], "").await;
    assert_eq!((again.status, again.is_replay()), (200, true));
    let asked = world.service.last();
    assert_eq!(asked.line(), "GET /known HTTP/1.1");
    assert_eq!(asked.header(OTHER).as_deref(), Some("t-acme:web:user:alice:k-1"));
}

#[tokio::test]
async fn a_printable_key_is_encoded_in_its_namespace_and_recalled_by_operation_alone_k2() {
    let world = World::with(|settings| {
        change_rule(settings, "raw", |rule| {
            rule.keys = Keys { places: places(), grammar: Grammar::Printable, ..Keys::default() };
        });
    })
    .await;
    let first = raw(&world, &[(OTHER, "order:7/a@b%20")], "{}").await;
    assert_eq!(first.status, 201, "{}", first.text());
    let key = world.service.last().header("idempotency-key").unwrap();
    assert_eq!(key, "t-acme:web:user:alice:order%3A7%2Fa%40b%2520");
    assert!(raw(&world, &[("idempotency-key", "\"order:7/a@b%20\"")], "{}").await.is_replay());
    for bad in ["a b", "a,b", "t-a", "a\u{fc}", &":".repeat(86)] {
        assert_eq!(raw(&world, &[(OTHER, bad)], "{}").await.status, 400, "{bad}");
    }
    let short = raw(&world, &[(OTHER, "a:b")], "{}").await;
    for url in ["/raw/by-idempotency-key/a:b", "/raw/by-idempotency-key/a%3Ab"] {
        assert_eq!(world.ask(&format!("GET {url}"), &world.alice, &[], "").await.status, 404, "{url}");
    }
    let id = short.header("x-operation-id").unwrap();
    let recalled = world.ask(&format!("GET /operations/{id}"), &world.alice, &[], "").await;
    assert_eq!((recalled.status, &recalled.body), (201, &short.body));
    // Plain ones of the same route are recalled as ever.
    raw(&world, &[(OTHER, "plain")], "{}").await;
    assert_eq!(world.ask("GET /raw/by-idempotency-key/plain", &world.alice, &[], "").await.status, 201);
}

/// Without the option, the header is one like any other.
#[tokio::test]
async fn other_routes_neither_read_nor_touch_such_a_header_k1() {
    let world = World::start().await;
    let got = raw(&world, &[(OTHER, "k-1")], "{}").await;
    assert_eq!((got.status, got.code().as_str()), (400, "key-missing"));
    assert_eq!(raw(&world, &[("idempotency-key", "k-1"), (OTHER, "mine")], "{}").await.status, 201);
    assert_eq!(world.service.last().header(OTHER).as_deref(), Some("mine"));
}

#[tokio::test]
async fn a_key_that_a_service_sends_back_where_it_stood_reaches_no_caller_a5_k1() {
    let world = World::with(elsewhere).await;
    let headers = [(OTHER, "k-1"), ("x-do", "echo=x-idempotency-key")];
    for is_replay in [false, true] {
        let got = raw(&world, &headers, "").await;
        assert_eq!((got.status, got.is_replay()), (201, is_replay), "{}", got.text());
        assert_eq!(got.header(OTHER), None, "it says whose it is");
        assert_eq!(got.header("location"), Some("/charges/1"), "all else goes through");
    }
}
