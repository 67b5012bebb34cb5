//! What a route with a key can say about callers holds behind a cluster as it does where hapax keeps the claim (Case A).

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::rig::caller::ALICE;

/// Waits until the handlers have done this so often.
async fn done(ground: &Ground, begins: &str, times: usize) {
    let begun = Instant::now();
    while ground.count(begins) < times {
        assert!(begun.elapsed() < Duration::from_secs(30), "{begins} does not run");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_second_waits_is_refused_or_waits_as_long_as_it_says_h4_h6() {
    let mut ground = Ground::new(1, "").await;
    ground.said = vec![("never", "attach = \"reject\"")];
    let edge = ground.edge("one").await;
    for (path, body, effect) in
        [("/never", "", "never"), ("/naps", r#"{"name": "long", "millis": 1000000}"#, "nap")]
    {
        let first = edge.begin(path, "k", body, "");
        done(&ground, effect, 1).await;
        for wait in ["wait=0", "wait=1"] {
            let headers = [("idempotency-key", "k"), ("prefer", wait)];
            let second = edge.send(ALICE, &format!("POST {path}"), &headers, body).await;
            assert_eq!(second.problem(), (409, "in-progress".into()), "{path} {wait} {second:?}");
            assert!(second.header("retry-after").is_some() && second.header("x-operation-id").is_some());
        }
        // Refused at once, where the other one would wait for half a minute.
        if path == "/never" {
            assert_eq!(post(&edge, ALICE, path, "k", body).await.problem(), (409, "in-progress".into()));
        }
        first.abort();
        assert_eq!(ground.count(effect), 1, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_hangs_up_finds_the_outcome_when_it_comes_back_h5() {
    for upstream in ["", "classify = \"marker\""] {
        let ground = Ground::new(1, "").await.with(upstream);
        let edge = ground.edge("one").await;
        let body = r#"{"millis": 400}"#;
        let gone = edge.begin("/echo", "k", body, "");
        done(&ground, "echo", 1).await;
        gone.abort();
        let back = post(&edge, ALICE, "/echo", "k", body).await;
        assert_eq!(
            (back.status, back.is_replay(), ground.count("echo")),
            (200, true, 1),
            "{upstream} {back:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_read_where_and_as_a_route_says_k1_k2() {
    let mut ground = Ground::new(1, "").await;
    ground.said = vec![
        ("echo", "key_grammar = \"printable\"\nmismatch_status = 409"),
        ("refuse", "key = { header = \"x-request-key\" }"),
        ("book", "key = { json = \"/meta/key\" }"),
    ];
    let edge = ground.edge("one").await;
    // What is not plain is encoded where the cluster keeps it, and two keys stay two.
    let (first, other) =
        (post(&edge, ALICE, "/echo", "a/b:c", "{}").await, post(&edge, ALICE, "/echo", "a/b", "{}").await);
    assert_eq!((first.status, other.status, other.is_replay()), (200, 200, false), "{first:?} {other:?}");
    assert!(post(&edge, ALICE, "/echo", "a/b:c", "{}").await.is_replay());
    let kept =
        ground.restate.query("SELECT idempotency_key FROM sys_invocation WHERE target_handler_name = 'echo'");
    assert!(kept.iter().any(|row| row["idempotency_key"] == "t-acme:web:user:alice:a%2Fb%3Ac"), "{kept:?}");
    let reused = post(&edge, ALICE, "/echo", "a/b:c", r#"{"a": 1}"#).await;
    assert_eq!(reused.problem(), (409, "key-reused".into()), "{reused:?}");
    // In another header, and in the body.
    let body = r#"{"status": 402, "message": "no funds"}"#;
    for replay in [false, true] {
        let got = edge.send(ALICE, "POST /refusals", &[("x-request-key", "k")], body).await;
        assert_eq!((got.status, got.is_replay()), (402, replay), "{got:?}");
    }
    assert!(post(&edge, ALICE, "/refusals", "k", body).await.is_replay(), "the same key in its usual place");
    for replay in [false, true] {
        let got = edge.send(ALICE, "POST /bookings", &[], r#"{"to": "Rome", "meta": {"key": "k"}}"#).await;
        assert_eq!((got.status, got.is_replay()), (201, replay), "{got:?}");
    }
    assert_eq!((ground.count("echo"), ground.count("refuse"), ground.count("book")), (2, 1, 1));
    // Where a key may be left out, each request without one is a call of its own.
    let day = json!({ "day": "2026-11-18", "total": 5 }).to_string();
    for _ in 0..2 {
        let got = edge.send(ALICE, "POST /settlements", &[], &day).await;
        assert_eq!(
            (got.status, got.is_replay(), got.header("x-operation-id")),
            (200, false, None),
            "{got:?}"
        );
    }
    for replay in [false, true] {
        let got = post(&edge, ALICE, "/settlements", "k", &day).await;
        assert_eq!((got.status, got.is_replay()), (200, replay), "{got:?}");
    }
}

/// A key of the tenant is one key for all its projects and subjects (K4, K8).
#[tokio::test(flavor = "multi_thread")]
async fn a_wider_scope_shares_its_keys_and_its_ids_with_all_who_are_in_it_k8() {
    let shop = Who("acme", "shop", "user:carol");
    let mut ground = Ground::new(1, "").await;
    ground.said = vec![("echo", "scope = \"tenant\""), ("refuse", "scope = \"project\"")];
    let edge = ground.edge("one").await;
    let refusal = r#"{"status": 402, "message": "no funds"}"#;
    for (path, handler, body, status, key, carols) in [
        ("/echo", "echo", "{}", 200, "t-acme:_any:_any:k", true),
        ("/refusals", "refuse", refusal, 402, "t-acme:web:_any:k", false),
    ] {
        let first = post(&edge, ALICE, path, "k", body).await;
        assert_eq!((first.status, first.is_replay()), (status, false), "{first:?}");
        let id = first.header("x-operation-id").unwrap();
        for (who, is_shared) in [(BOB, true), (shop, carols), (ELSEWHERE, false)] {
            let by_id = get(&edge, who, &format!("/operations/{id}")).await;
            let by_key = get(&edge, who, &format!("{path}/by-idempotency-key/k")).await;
            let expected = if is_shared { status } else { 404 };
            assert_eq!(
                (by_id.status, by_key.status),
                (expected, expected),
                "{path} {who:?} {by_id:?} {by_key:?}"
            );
            let theirs = post(&edge, who, path, "k", body).await;
            let is_same = theirs.is_replay() && theirs.header("x-operation-id") == Some(id);
            assert_eq!(is_same, is_shared, "{path} {who:?} {theirs:?}");
        }
        let query =
            format!("SELECT idempotency_key FROM sys_invocation WHERE target_handler_name = '{handler}'");
        let kept = ground.restate.query(&query);
        assert!(kept.iter().any(|row| row["idempotency_key"] == key), "{kept:?}");
    }
}
