//! What is counted, for whom and where (O1).

use std::sync::Arc;
use std::time::Duration;

use hapax_core::Policy;
use hapax_gateway::settings::{Level, Route};
use hapax_tower::Rule;

use crate::world::{World, change_rule};

/// Whether this was counted so often.
fn counts(world: &World, name: &str, labels: &str, count: u64) {
    let text = world.gateway.metrics().render();
    let line = format!("{name}{{{labels}}} {count}");
    assert!(text.lines().any(|counted| counted == line), "{line} in {text}");
}

/// The labels of what Alice asks there.
fn alices(endpoint: &str, last: &str) -> String {
    format!("tenant=\"acme\",project=\"web\",endpoint=\"{endpoint}\",{last}")
}

#[tokio::test]
async fn a_refused_key_is_counted_for_the_caller_who_sent_it_o1() {
    let world = World::with(|settings| {
        let raw = settings.routes.iter().find(|route| *route.path == *"/raw").unwrap().clone();
        let rule = Rule { policy: Policy::RequiredB, ..Rule::new("hook").unwrap() };
        let hooks =
            Route { path: "/hooks".into(), policy: Policy::RequiredB, rule: Some(Arc::new(rule)), ..raw };
        settings.routes.push(hooks);
    })
    .await;
    let ask =
        async |line: &str, headers: &[(&str, &str)]| world.ask(line, &world.alice, headers, "").await.code();
    assert_eq!(ask("POST /raw", &[]).await, "key-missing");
    assert_eq!(ask("POST /raw", &[("idempotency-key", "a b")]).await, "key-malformed");
    assert_eq!(ask("POST /raw", &[("idempotency-key", "")]).await, "key-malformed");
    assert_eq!(ask("POST /raw", &[("idempotency-key", &"a".repeat(256))]).await, "key-malformed");
    assert_eq!(ask("POST /raw", &[("idempotency-key", "t-acme")]).await, "key-reserved");
    assert_eq!(
        ask("POST /raw", &[("idempotency-key", "a"), ("idempotency-key", "b")]).await,
        "key-duplicated"
    );
    assert_eq!(ask("POST /open", &[("idempotency-key", "a")]).await, "key-prohibited");
    assert_eq!(ask("POST /hooks", &[("idempotency-key", "a")]).await, "translation-failed");
    counts(&world, "idempotency_key_missing_total", &alices("/raw", "class=\"REQUIRED_A\""), 1);
    counts(&world, "idempotency_key_invalid_total", &alices("/raw", "reason=\"charset\""), 1);
    for (reason, count) in [("length", 2), ("reserved", 1), ("duplicated", 1)] {
        let labels = alices("/raw", &format!("reason=\"{reason}\""));
        counts(&world, "idempotency_key_invalid_total", &labels, count);
    }
    counts(&world, "idempotency_key_invalid_total", &alices("/open", "reason=\"prohibited\""), 1);
    counts(&world, "transport_translation_failed_total", &alices("/hooks", "provider=\"_none\""), 1);
    let text = world.gateway.metrics().render();
    assert!(!text.contains("reason=\"translation-failed\"") && !text.contains("tenant=\"_none\""), "{text}");
}

#[tokio::test]
async fn a_key_that_was_derived_was_not_sent_o1_h9() {
    let world = World::with(|settings| {
        change_rule(settings, "note", |rule| rule.derived = Some(Duration::from_secs(60)));
    })
    .await;
    let note =
        async |headers: &[(&str, &str)]| world.ask("POST /orders/1/notes", &world.alice, headers, "a").await;
    let (first, again) = (note(&[]).await, note(&[]).await);
    assert_eq!(
        (first.status, again.is_replay(), again.header("idempotency-key-derived")),
        (201, true, Some("true"))
    );
    assert_eq!(note(&[("idempotency-key", "k")]).await.status, 201);
    let notes = "/orders/{order}/notes";
    counts(&world, "idempotency_key_missing_total", &alices(notes, "class=\"ACCEPTED\""), 2);
    counts(&world, "idempotency_key_present_total", &alices(notes, "case=\"A\""), 1);
    counts(&world, "idempotency_cache_hit_total", &alices(notes, "restate_status=\"completed\""), 1);
}

#[tokio::test]
async fn a_caller_beyond_whose_reach_a_route_is_is_counted_under_its_own_name_o1() {
    let world = World::with(|settings| {
        let raw = settings.routes.iter().find(|route| *route.path == *"/raw").unwrap().clone();
        settings.routes.push(Route { path: "/tenants".into(), level: Level::Tenant, ..raw });
    })
    .await;
    let refused = world.ask("POST /tenants", &world.alice, &[("idempotency-key", "k")], "").await;
    assert_eq!((refused.status, refused.code()), (403, "forbidden".into()));
    counts(&world, "hapax_requests_total", &alices("/tenants", "event=\"forbidden\",status=\"403\""), 1);
    assert!(!world.gateway.metrics().render().contains("tenant=\"_none\""));
}

#[tokio::test]
async fn whoever_is_not_let_in_is_counted_where_they_knocked_o1() {
    let world = World::start().await;
    assert_eq!(world.ask("POST /charges", "nobody", &[], "").await.status, 401);
    assert_eq!(world.ask("GET /operations/op_1", "", &[], "").await.status, 401);
    assert_eq!(world.ask("GET /elsewhere", "", &[], "").await.status, 404);
    for (endpoint, event, status) in [
        ("/charges", "unauthenticated", 401),
        ("recall", "unauthenticated", 401),
        ("_none", "not-found", 404),
    ] {
        let labels = format!(
            "tenant=\"_none\",project=\"_none\",endpoint=\"{endpoint}\",event=\"{event}\",status=\"{status}\""
        );
        counts(&world, "hapax_requests_total", &labels, 1);
    }
}
