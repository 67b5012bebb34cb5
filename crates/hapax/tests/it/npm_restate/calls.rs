//! One key, one execution: fresh, replayed, joined, and told apart (D3, D4).

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::rig::caller::ALICE;
use crate::rig::cutter::{Cut, Cutter};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_runs_once_and_its_retry_gets_the_same_answer_d1_d2_d3() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let first = post(&edge, ALICE, "/charges", "order-42", r#"{"amount": 10}"#).await;
    assert_eq!(
        (first.status, first.text().as_str()),
        (200, r#"{"charged":10}"#),
        "{first:?} {}",
        edge.told()
    );
    assert!(!first.is_replay(), "{first:?}");
    let id = first.header("x-operation-id").unwrap().to_owned();
    assert!(id.starts_with("op_") && id.len() <= 512, "{id}");
    shows_nothing_of_the_cluster(&first);

    // The members in another order are the same JSON; every retry has the same id, the third one without the journal.
    for _ in 0..3 {
        let again = post(&edge, ALICE, "/charges", "order-42", r#"{  "amount":10}"#).await;
        assert_eq!((again.status, &again.body), (200, &first.body), "{again:?}");
        assert!(again.is_replay(), "{again:?}");
        assert_eq!(again.header("x-operation-id"), Some(&*id));
        assert!(again.header("idempotency-expires").is_some_and(|until| until.ends_with("GMT")), "{again:?}");
        shows_nothing_of_the_cluster(&again);
    }
    assert_eq!(ground.count("charge 10"), 1);

    // Another body, before and after it was remembered what was accepted.
    for _ in 0..2 {
        let other = post(&edge, ALICE, "/charges", "order-42", r#"{"amount": 99}"#).await;
        assert_eq!(other.problem(), (422, "key-reused".into()));
        assert_eq!((&other.json()["executed"], other.header("x-operation-id")), (&json!("no"), Some(&*id)));
    }
    // The same key of somebody else is another one.
    for who in [BOB, ELSEWHERE] {
        let theirs = post(&edge, who, "/charges", "order-42", r#"{"amount": 7}"#).await;
        assert_eq!((theirs.status, theirs.is_replay()), (200, false), "{theirs:?}");
        assert_ne!(theirs.header("x-operation-id"), Some(&*id));
    }
    assert_eq!(ground.count("charge 7"), 2);
    let kept = ground
        .restate
        .query("SELECT idempotency_key FROM sys_invocation WHERE target_handler_name = 'charge'");
    let keys: Vec<_> = kept.iter().filter_map(|row| row["idempotency_key"].as_str()).collect();
    assert!(keys.contains(&"t-acme:web:user:alice:order-42"), "{keys:?}");
    // The six fields of a line, by name (O2): the first run, and a replay of it.
    let told = edge.told();
    let lines = told.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let lines: Vec<_> = lines.filter(|line| line["target"] == "hapax::request").collect();
    for hit in [false, true] {
        let line = lines.iter().find(|line| line["restate_cache_hit"] == hit && line["status"] == 200);
        let line = line.unwrap_or_else(|| panic!("no line with {hit} in {told}"));
        for (field, value) in [
            ("idempotency_case", "A"),
            ("idempotency_source", "header"),
            ("idempotency_policy", "REQUIRED_A"),
        ] {
            assert_eq!(line[field], value, "{field} in {line}");
        }
        for (field, start) in
            [("idempotency_key_namespaced", "t-acme:web:user:"), ("restate_invocation_id", "inv_")]
        {
            assert!(line[field].as_str().is_some_and(|text| text.starts_with(start)), "{field} in {line}");
        }
    }
    assert!(!told.contains("order-42"), "no key is logged: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_callers_with_one_key_one_runs_it_and_the_others_join_d3() {
    for upstream in ["", "classify = \"marker\""] {
        let ground = Ground::new(1, "").await.with(upstream);
        let edge = ground.edge("one").await;
        let body = r#"{"millis": 400}"#;
        let callers: Vec<_> = (0..20).map(|_| edge.begin("/echo", "together", body, "")).collect();
        let mut answers = Vec::new();
        for caller in callers {
            answers.push(caller.await.unwrap().expect("an answer"));
        }
        assert!(answers.iter().all(|got| got.status == 200), "{answers:?}");
        assert_eq!(
            answers.iter().filter(|got| !got.is_replay()).count(),
            1,
            "one of them ran it: {upstream}"
        );
        assert!(answers.iter().all(|got| got.body == answers[0].body), "{answers:?}");
        let ids: Vec<_> = answers.iter().filter_map(|got| got.header("x-operation-id")).collect();
        assert!(ids.len() == 20 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(ground.count("echo"), 1);
        let metrics = edge.ask("GET /metrics", "").await.text();
        let attached =
            metrics.lines().find(|line| line.contains("restate_status=\"attached\"")).unwrap_or("none");
        let attached: u64 = attached.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        assert!(attached > 0, "those that waited are counted: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_edges_one_key_two_bodies_at_once_one_runs_and_the_other_is_refused_d4() {
    let ground = Ground::new(1, "").await;
    let (one, other) = (ground.edge("one").await, ground.edge("other").await);
    for round in 0..5 {
        let key = format!("race-{round}");
        let first = one.begin("/echo", &key, r#"{"millis": 300, "n": 1}"#, "");
        let second = other.begin("/echo", &key, r#"{"millis": 300, "n": 2}"#, "");
        let mut statuses = Vec::new();
        for got in [first.await.unwrap().unwrap(), second.await.unwrap().unwrap()] {
            if got.status == 422 {
                assert_eq!(got.problem().1, "key-reused");
            }
            statuses.push(got.status);
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 422], "round {round}");
        assert_eq!(ground.count("echo"), round + 1);
    }
}

/// What nothing documents and everything rests on: a kept answer says until when, another one does not.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_kept_says_until_when_and_no_other_answer_does_d3() {
    let ground = Ground::new(1, "").await;
    let raw = async |key: &str, body: &str| {
        let (key, body, to) = (key.to_owned(), body.to_owned(), ground.restate.ingress()[0]);
        let request = format!(
            "POST /restate/call/Trouble/echo HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\nidempotency-key: {key}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        crate::rig::caller::send(to, request.as_bytes()).await.expect("an answer")
    };
    let marker = |got: &Got| got.header("idempotency-expires").is_some();
    assert!(!marker(&raw("fresh", "{}").await), "a fresh one");
    assert!(marker(&raw("fresh", "{}").await), "a kept one");
    let (one, other) = tokio::join!(raw("joined", r#"{"millis":300}"#), raw("joined", r#"{"millis":300}"#));
    assert!(!marker(&one) && !marker(&other), "one that was joined: {one:?} {other:?}");
    assert!(marker(&raw("joined", r#"{"millis":300}"#).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_keeps_status_and_location_and_is_compared_without_the_journal_d4() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let first = post(&edge, ALICE, "/bookings", "trip", r#"{"to": "Rome"}"#).await;
    assert_eq!(first.status, 201, "{first:?}");
    let place = first.header("location").unwrap().to_owned();
    let again = post(&edge, ALICE, "/bookings", "trip", r#"{"to": "Rome"}"#).await;
    assert_eq!((again.status, again.is_replay(), again.header("location")), (201, true, Some(&*place)));
    assert_eq!(again.body, first.body);
    // The journal is gone; the handler said itself what it was called with.
    let rows = ground.restate.query("SELECT id FROM sys_invocation WHERE target_handler_name = 'book'");
    let id = rows[0]["id"].as_str().unwrap();
    let (status, _) = ground.restate.admin("PATCH", &format!("/invocations/{id}/purge-journal"), "");
    assert!((200..300).contains(&status), "{status}");
    let other = ground.edge("other").await;
    assert_eq!(post(&other, ALICE, "/bookings", "trip", r#"{"to": "Rome"}"#).await.body, first.body);
    assert_eq!(post(&other, ALICE, "/bookings", "trip", r#"{"to": "Oslo"}"#).await.problem().0, 422);
    assert_eq!(ground.count("book"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_derived_key_that_a_handler_passes_on_runs_the_work_once_p1() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    for _ in 0..3 {
        let got = edge.send(ALICE, "POST /settlements", &[], r#"{"day": "2026-11-18", "total": 77}"#).await;
        assert_eq!((got.status, got.json()["settled"]["charged"].as_u64()), (200, Some(77)), "{got:?}");
        shows_nothing_of_the_cluster(&got);
    }
    assert_eq!(ground.count("charge 77"), 1);
    // A workflow needs no key, and takes none.
    let first = edge.send(ALICE, "POST /signups/ann", &[], "{}").await;
    assert_eq!((first.status, first.json()["name"].as_str()), (200, Some("ann")), "{first:?}");
    assert_eq!(post(&edge, ALICE, "/signups/ann", "k", "{}").await.problem(), (400, "key-prohibited".into()));
    // An object by its number.
    let added = post(&edge, ALICE, "/accounts/a.7/add", "k", r#"{"amount": 3}"#).await;
    assert_eq!((added.status, added.json()["account"].as_str()), (200, Some("a.7")), "{added:?}");
    // The same key of another object is another call there, and nothing says that it is a mistake.
    assert_eq!(post(&edge, ALICE, "/accounts/b/add", "k", r#"{"amount": 3}"#).await.status, 200);
    assert_eq!((ground.count("add a.7"), ground.count("add b")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_does_not_wait_fetches_the_outcome_by_its_id_h6() {
    for upstream in ["", "classify = \"marker\""] {
        let ground = Ground::new(1, "").await.with(upstream);
        let edge = ground.edge("one").await;
        let headers = [("idempotency-key", "later"), ("prefer", "respond-async")];
        let line = "POST /echo";
        let got = edge.send(ALICE, line, &headers, r#"{"millis": 200}"#).await;
        assert_eq!(got.status, 202, "{got:?}");
        let place = got.header("location").unwrap().to_owned();
        assert_eq!(
            get(&edge, ALICE, &format!("{place}/output")).await.problem(),
            (409, "in-progress".into())
        );
        let fetched = get(&edge, ALICE, &place).await;
        assert_eq!(
            (fetched.status, fetched.json()["body"]["millis"].as_u64()),
            (200, Some(200)),
            "{fetched:?}"
        );
        for who in [BOB, ELSEWHERE] {
            assert_eq!(get(&edge, who, &place).await.problem(), (404, "not-found".into()));
        }
        let other = edge.send(ALICE, line, &headers, r#"{"millis": 201}"#).await;
        assert_eq!(other.problem(), (422, "key-reused".into()));
        assert_eq!(ground.count("echo"), 1);
    }
}

/// Both ways to tell answers apart agree, whatever came before.
#[tokio::test(flavor = "multi_thread")]
async fn one_round_trip_tells_a_replay_and_refuses_another_body_d4() {
    let ground = Ground::new(1, "").await.with("classify = \"marker\"");
    let edge = ground.edge("one").await;
    let first = post(&edge, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
    assert!(first.status == 200 && !first.is_replay(), "{first:?}");
    for _ in 0..2 {
        let again = post(&edge, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
        assert!(again.is_replay() && again.body == first.body, "{again:?}");
        assert_eq!(post(&edge, ALICE, "/echo", "k", r#"{"a": 2}"#).await.problem().0, 422);
    }
    assert_eq!(ground.count("echo"), 1);
    // What the handler gets to see: what the list has, and what the edge writes.
    let headers = [
        ("idempotency-key", "seen"),
        ("authorization", "Bearer secret"),
        ("cookie", "a=b"),
        ("x-restate-id", "inv_forged"),
        ("x-hapax-fingerprint", "forged"),
        ("x-hapax-attempt", "forged"),
        ("x-shown", "yes"),
        ("x-hidden", "yes"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    let seen = edge.send(ALICE, "POST /echo?delay=10s", &headers, "{}").await;
    let names: Vec<_> =
        seen.json()["headers"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_owned()).collect();
    for there in ["x-shown", "traceparent", "x-hapax-fingerprint", "x-hapax-attempt", "content-type"] {
        assert!(names.iter().any(|name| name == there), "{there}: {names:?}");
    }
    for gone in ["authorization", "cookie", "x-restate-id", "x-hidden", "x-tenant-id", "x-subject"] {
        assert!(!names.iter().any(|name| name == gone), "{gone}: {names:?}");
    }
    assert_eq!(names.iter().filter(|name| *name == "x-hapax-fingerprint").count(), 1);
}

/// Handlers are told who asks where the upstream names it, and then by hapax alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_told_who_asks_where_the_upstream_says_so_a5() {
    let ground = Ground::new(1, "").await;
    let path = ground.folder.path().join("told.toml");
    let named = "headers = [\"x-tenant-id\", \"x-project-id\", \"x-subject\"]";
    std::fs::write(&path, ground.configuration().replace("headers = [\"traceparent\", \"x-shown\"]", named))
        .unwrap();
    let edge = Hapax::start(&path, &[]).await;
    let seen = post(&edge, BOB, "/echo", "k", "{}").await;
    let names = seen.json()["headers"].to_string();
    for name in ["x-tenant-id", "x-project-id", "x-subject"] {
        assert!(names.contains(name), "{names}");
    }
    let rows = ground.restate.query("SELECT entry_json FROM sys_journal WHERE index = 0");
    let head = rows[0]["entry_json"].as_str().unwrap();
    assert!(head.contains("user:bob") && head.contains("\"acme\"") && head.contains("\"web\""), "{head}");
}

/// A retention of seconds: the key runs again when it is over, also where an edge remembers what was accepted.
#[tokio::test(flavor = "multi_thread")]
async fn when_its_retention_is_over_a_key_runs_again_with_whatever_body_d4() {
    let ground = Ground::new(1, "[worker]\ncleanup-interval = \"1s\"").await;
    let kept = json!({ "idempotency_retention": "1s", "journal_retention": "1s" });
    let (status, told) = ground.restate.admin("PATCH", "/services/Trouble", &kept.to_string());
    assert_eq!(status, 200, "{told}");
    let edge = ground.edge("one").await;
    let first = post(&edge, ALICE, "/echo", "short", r#"{"a": 1}"#).await;
    assert!(post(&edge, ALICE, "/echo", "short", r#"{"a": 1}"#).await.is_replay());
    let begun = std::time::Instant::now();
    let fresh = loop {
        let got = post(&edge, ALICE, "/echo", "short", r#"{"a": 2}"#).await;
        if got.status == 200 {
            break got;
        }
        assert!(matches!(got.status, 422 | 409 | 503), "{got:?}");
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not run again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(!fresh.is_replay() && fresh.body != first.body, "{fresh:?}");
    assert_eq!(ground.count("echo"), 2);
}

/// An edge that reaches the server over a network which cuts connections.
async fn behind(ground: &Ground, cutter: &Cutter) -> Hapax {
    let ingress = format!("ingress = [\"http://{}\"]", ground.restate.ingress()[0]);
    let text = ground.configuration();
    assert!(text.contains(&ingress), "{text}");
    let path = ground.folder.path().join("cut.toml");
    std::fs::write(&path, text.replace(&ingress, &format!("ingress = [\"{}\"]", cutter.url()))).unwrap();
    Hapax::start(&path, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_edge_sends_again_by_itself_is_no_replay_to_its_caller_d3() {
    for classify in ["exact", "marker"] {
        let upstream =
            format!("classify = \"{classify}\"\nretry = {{ max_attempts = 3, backoff = \"10ms\" }}");
        let ground = Ground::new(1, "").await.with(&upstream);
        let cutter = Cutter::before(ground.restate.ingress()[0]).await;
        let edge = behind(&ground, &cutter).await;
        for (number, cuts) in [
            &[Cut::Request][..],
            &[Cut::Answer],
            &[Cut::After(40)],
            &[Cut::ShortOf(2)],
            &[Cut::Answer, Cut::Answer],
        ]
        .iter()
        .enumerate()
        {
            cutter.plan(cuts);
            let key = format!("cut-{number}");
            let got = post(&edge, ALICE, "/echo", &key, r#"{"a": 1}"#).await;
            assert_eq!((got.status, got.is_replay()), (200, false), "{classify} {cuts:?} {got:?}");
            assert_eq!((cutter.left().len(), ground.count("echo")), (0, number + 1), "{classify} {cuts:?}");
            assert!(
                post(&edge, ALICE, "/echo", &key, r#"{"a": 1}"#).await.is_replay(),
                "{classify} {cuts:?}"
            );
        }
    }
}
