//! Every problem that a request can earn by itself: status, code, where it is explained, whether to try again; and that the
//! service saw nothing (H1, H2).

use std::sync::Arc;
use std::time::Duration;

use hapax_core::Policy;
use hapax_exec::Attach;
use hapax_gateway::settings::{Route, Settings};
use hapax_testkit::raw;
use hapax_tower::{Keep, Rule};

use crate::world::{Got, World, change_rule};

/// Codes after which the same request may be sent again.
const RETRYABLE: [&str; 12] = [
    "request-timeout",
    "in-progress",
    "outcome-unknown",
    "too-many",
    "upstream-unreachable",
    "ledger-unavailable",
    "outcome-pending",
    "attempt-failed",
    "overloaded",
    "draining",
    "upstream-suspended",
    "upstream-timeout",
];

/// Checks what every problem has.
pub(crate) async fn check<L: hapax_core::Ledger>(world: &World<L>, got: &Got, status: u16, code: &str) {
    assert_eq!((got.status, got.code().as_str()), (status, code), "{}", got.text());
    let body = got.json();
    let page = format!("/.well-known/hapax/errors/{code}");
    assert_eq!((&body["status"], &body["type"]), (&status.into(), &page.as_str().into()), "{body}");
    assert_eq!(got.header("link"), Some(format!("<{page}>; rel=\"describedby\"").as_str()));
    assert_eq!(body["error"]["code"], code, "for clients that look for `error` only: {body}");
    assert!(body["error"]["type"].is_string() && body["error"]["message"].is_string(), "{body}");
    // What nothing protects and may have been done is final whatever its code: see `unprotected`.
    let final_here = body["detail"].as_str().is_some_and(|detail| detail.contains("no key protects"));
    let retryable = RETRYABLE.contains(&code) && !final_here;
    assert_eq!(body["retryable"], retryable, "{code}");
    if retryable && [409, 429, 503].contains(&status) {
        let after = got.header("retry-after").unwrap_or_else(|| panic!("{code} says when"));
        assert!(after.parse::<u64>().is_ok_and(|seconds| seconds >= 1), "{code}: {after}");
    }
    // A drained edge has no page left to show.
    if code != "draining" {
        let explained = world.ask(&format!("GET {page}"), "", &[], "").await;
        assert_eq!(explained.status, 200, "{page}");
        assert!(explained.text().contains(code), "{page}");
    }
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_refused_k1_k2_k3_p1() {
    let world = World::with(|settings| {
        let raw = settings.routes.iter().find(|route| *route.path == *"/raw").unwrap().clone();
        settings.routes.push(Route {
            path: "/hooks".into(),
            policy: Policy::RequiredB,
            rule: Some(Arc::new(Rule { policy: Policy::RequiredB, ..Rule::new("hook").unwrap() })),
            ..raw.clone()
        });
        settings.routes.push(Route {
            path: "/lenient".into(),
            policy: Policy::Prohibited,
            lenient: true,
            rule: None,
            ..raw
        });
    })
    .await;
    let (long, huge) = ("k".repeat(256), "k".repeat(10_000));
    let malformed = [
        "",
        "\"\"",
        "...",
        "\".\"",
        "a b",
        "a:b",
        "a/b",
        "a,b",
        "\"a",
        "a\"",
        "\"a\" \"b\"",
        "'a'",
        "(a)",
        "ä",
        "\"\\x\"",
        "?1",
        "a;b",
        &long,
        &huge,
    ];
    for route in ["/raw", "/orders/1/notes"] {
        for key in malformed {
            let got =
                world.ask(&format!("POST {route}"), &world.alice, &[("idempotency-key", key)], "x").await;
            check(&world, &got, 400, "key-malformed").await;
        }
        for key in ["t-", "t-acme", "t-acme:web:user:alice:k", "\"t-acme:web:user:alice:k\""] {
            let got =
                world.ask(&format!("POST {route}"), &world.alice, &[("idempotency-key", key)], "x").await;
            check(&world, &got, 400, "key-reserved").await;
        }
        let two = [("idempotency-key", "a"), ("idempotency-key", "b")];
        let got = world.ask(&format!("POST {route}"), &world.alice, &two, "x").await;
        check(&world, &got, 400, "key-duplicated").await;
    }
    check(&world, &world.ask("POST /raw", &world.alice, &[], "x").await, 400, "key-missing").await;
    for line in ["GET /charges", "GET /charges/1", "POST /open", "HEAD /charges"] {
        let got =
            world.send(world.request(line, &world.alice, &[("idempotency-key", "k")], "")).await.unwrap();
        match line.starts_with("HEAD") {
            true => assert_eq!((got.status, got.body.len()), (400, 0)),
            false => check(&world, &got, 400, "key-prohibited").await,
        }
    }
    let got = world.ask("POST /hooks", &world.alice, &[("idempotency-key", "k")], "x").await;
    check(&world, &got, 400, "translation-failed").await;
    assert_eq!(world.service.count(), 0);
    let got = world.ask("POST /lenient", &world.alice, &[("idempotency-key", "a b")], "x").await;
    assert_eq!((got.status, got.header("idempotency-key-ignored")), (201, Some("true")));
    assert_eq!(world.service.last().header("idempotency-key"), None);
    // As long as may be, and every character that may be.
    let longest = format!("{}._~-AZ09", "k".repeat(247));
    let got = world.ask("POST /raw", &world.alice, &[("idempotency-key", &longest)], "x").await;
    assert_eq!(got.status, 201);
}

#[tokio::test]
async fn requests_that_are_for_nobody_here_are_refused_p2_p3_a6() {
    let world = World::start().await;
    let key = [("idempotency-key", "k-1")];
    let (two_hosts, two_ways) = ([("host", "b")], "GET /a/../b");
    check(&world, &world.ask("GET /charges", &world.alice, &two_hosts, "").await, 400, "request-malformed")
        .await;
    check(&world, &world.ask(two_ways, &world.alice, &[], "").await, 400, "path-malformed").await;
    // One digit is another one, whatever it was: the key is random.
    let (kept, last) = world.alice.split_at(world.alice.len() - 1);
    let wrong = format!("{kept}{}", if last == "0" { "1" } else { "0" });
    for who in ["", "hpx_nonsense", "x", &wrong] {
        for (line, status, code) in [
            ("POST /raw", 401, "unauthenticated"),
            ("POST /open", 401, "unauthenticated"),
            ("GET /charges/by-idempotency-key/k-1", 401, "unauthenticated"),
            ("GET /operations/op_00000000000000000000000000000000", 401, "unauthenticated"),
            ("GET /nowhere", 404, "not-found"),
            ("DELETE /nowhere/at/all", 404, "not-found"),
        ] {
            let got = world.ask(line, who, &key, "").await;
            check(&world, &got, status, code).await;
            assert_eq!(got.header("www-authenticate").is_some(), status == 401, "{line}");
        }
    }
    let basic = world.ask("POST /raw", "", &[("authorization", "Basic Zm9vOmJhcg=="), key[0]], "x").await;
    check(&world, &basic, 401, "unauthenticated").await;
    let two = [("authorization", "Bearer x"), key[0]];
    check(&world, &world.ask("POST /raw", &world.alice, &two, "x").await, 401, "unauthenticated").await;
    check(&world, &world.ask("GET /nowhere", &world.alice, &[], "").await, 404, "not-found").await;
    // Valid credentials that do not reach this far, in either direction.
    check(&world, &world.ask("POST /raw", &world.mia, &key, "x").await, 403, "forbidden").await;
    check(&world, &world.ask("POST /open", &world.mia, &[], "x").await, 403, "forbidden").await;
    check(&world, &world.ask("POST /tenant", &world.alice, &key, "x").await, 403, "forbidden").await;
    for (line, allow) in [
        ("DELETE /charges", "GET, POST, HEAD, OPTIONS"),
        ("PUT /raw", "POST, OPTIONS"),
        ("POST /operations/op_1", "GET, HEAD, OPTIONS"),
        ("DELETE /charges/by-idempotency-key/k-1", "GET, HEAD, OPTIONS"),
    ] {
        let got = world.ask(line, &world.alice, &[], "").await;
        check(&world, &got, 405, "method-not-allowed").await;
        assert_eq!(got.header("allow"), Some(allow), "{line}");
    }
    assert_eq!(world.service.count(), 0);
    assert_eq!(world.ask("POST /tenant", &world.mia, &key, "x").await.status, 201);
    assert_eq!(world.service.last().header("x-project-id").unwrap(), "_tenant");
}

#[tokio::test]
async fn a_caller_without_credentials_is_refused_before_its_body_is_read_p3() {
    let world = World::start().await;
    for line in ["POST /raw", "POST /open"] {
        let headers = [("idempotency-key", "k"), ("content-length", "100000"), ("expect", "100-continue")];
        let mut stream = world.connect().await;
        raw::write(&mut stream, &world.request(line, "", &headers[usize::from(line == "POST /open")..], ""))
            .await;
        let head = raw::head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 401"), "{head}");
    }
    // With them it is asked to go on, once, and the expectation ends at the edge.
    for (line, from) in [("POST /raw", 0), ("POST /open", 1)] {
        let headers = [("idempotency-key", "k"), ("content-length", "5"), ("expect", "100-continue")];
        let mut stream = world.connect().await;
        raw::write(&mut stream, &world.request(line, &world.alice, &headers[from..], "")).await;
        assert_eq!(raw::head(&mut stream).await, "HTTP/1.1 100 Continue\r\n\r\n");
        raw::write(&mut stream, "hello").await;
        assert!(raw::head(&mut stream).await.starts_with("HTTP/1.1 201"));
        let arrived = world.service.last();
        assert_eq!((arrived.header("expect"), arrived.body), (None, b"hello".to_vec()));
    }
}

#[tokio::test]
async fn requests_that_are_too_large_are_refused_h2() {
    let world =
        World::with(|settings| change_rule(settings, "raw", |rule| rule.max_request_body = 100)).await;
    let key = [("idempotency-key", "k-1")];
    let got = world.ask("POST /raw", &world.alice, &key, &"x".repeat(101)).await;
    check(&world, &got, 413, "body-too-large").await;
    assert_eq!(got.json()["limit"], 100);
    // Declared, it is refused before it is sent; in chunks, when it has become too long.
    let declared = [key[0], ("content-length", "1000000000000")];
    check(&world, &world.ask("POST /raw", &world.alice, &declared, "").await, 413, "body-too-large").await;
    let chunked = world.request("POST /raw", &world.alice, &[key[0], ("transfer-encoding", "chunked")], "");
    let chunks = format!("{chunked}{}", format!("32\r\n{}\r\n", "x".repeat(50)).repeat(3));
    check(&world, &world.send(chunks).await.unwrap(), 413, "body-too-large").await;
    assert_eq!(world.service.count(), 0);
    assert_eq!(world.ask("POST /raw", &world.alice, &key, &"x".repeat(100)).await.status, 201);

    let many: Vec<(String, &str)> = (0..101).map(|number| (format!("x-{number}"), "1")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    check(&world, &world.ask("GET /charges", &world.alice, &many, "").await, 431, "head-too-large").await;
    // A little too long, and longer than anything that is ever held.
    for length in [33 << 10, 100 << 10] {
        let long = "x".repeat(length);
        let got = world.ask("GET /charges", &world.alice, &[("x-long", &long)], "").await;
        check(&world, &got, 431, "head-too-large").await;
    }
    let long = "x".repeat(33 << 10);
    let got = world.ask(&format!("GET /charges?{}", "x".repeat(8 << 10)), &world.alice, &[], "").await;
    check(&world, &got, 431, "head-too-large").await;
    let got = world.ask(&format!("GET /charges?{long}"), &world.alice, &[], "").await;
    check(&world, &got, 431, "head-too-large").await;
    assert_eq!(world.service.count(), 1);
    let got = world.ask("GET /charges", &world.alice, &[("x-long", &long[..30 << 10])], "").await;
    assert_eq!(got.status, 201);
}

#[tokio::test]
async fn requests_that_come_too_slowly_are_given_up_h2() {
    let world = World::with(|settings| {
        settings.edge.header_timeout = Duration::from_millis(500);
        settings.edge.body_rate = 1_000_000;
    })
    .await;
    for (line, from) in [("POST /raw", 0), ("POST /open", 1)] {
        let headers = [("idempotency-key", "k-1"), ("content-length", "1000")];
        let request = world.request(line, &world.alice, &headers[from..], "");
        // In silence, and drop by drop.
        let got = world.send(format!("{request}he")).await.unwrap();
        check(&world, &got, 408, "request-timeout").await;
        let mut stream = world.connect().await;
        raw::write(&mut stream, &request).await;
        let (mut reading, mut writing) = stream.split();
        let drip = async {
            loop {
                if tokio::io::AsyncWriteExt::write_all(&mut writing, b"x").await.is_err() {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let head = tokio::select! { head = raw::head(&mut reading) => head, () = drip => unreachable!() };
        assert!(head.starts_with("HTTP/1.1 408"), "{line}: {head}");
    }
    // A head that comes too slowly is no request.
    let mut stream = world.connect().await;
    raw::write(&mut stream, "POST /raw HTTP/1.1\r\nhost: edge.example\r\n").await;
    assert_eq!(raw::rest(&mut stream).await, "");
    assert_eq!(world.service.count(), 0);
}

#[tokio::test]
async fn a_used_key_says_what_is_known_of_it_l2_h2_h10() {
    let world = World::with(|settings| {
        change_rule(settings, "raw", |rule| (rule.attach, rule.mismatch_status) = (Attach::Reject, 409));
        change_rule(settings, "charge", |rule| rule.max_kept_response = 100);
    })
    .await;
    let slow = [("idempotency-key", "k-1"), ("x-do", "hold")];
    let second = async {
        world.service.reached(1).await;
        let busy = world.ask("POST /raw", &world.alice, &slow[..1], "x").await;
        check(&world, &busy, 409, "in-progress").await;
        assert!(busy.header("x-operation-id").unwrap().starts_with("op_"));
        // Another request under the key is told so although the first one still runs.
        let other = world.ask("POST /raw", &world.alice, &slow[..1], "y").await;
        check(&world, &other, 409, "key-reused").await;
        assert_eq!(other.header("retry-after"), None, "no waiting makes it the same request");
        world.service.let_go();
        busy.json()["operation_id"].clone()
    };
    let (first, operation) = tokio::join!(world.ask("POST /raw", &world.alice, &slow, "x"), second);
    assert_eq!((first.status, first.header("x-operation-id")), (201, operation.as_str()));

    assert_eq!(world.charge("k-2", "{\"amount\":5,\"to\":\"b\"}", &[]).await.status, 201);
    let reused = world.charge("k-2", "{\"amount\":6,\"to\":\"b\",\"x\":1}", &[]).await;
    check(&world, &reused, 422, "key-reused").await;
    let differences = &reused.json()["differences"];
    assert_eq!((&differences["changed"][0], &differences["added"][0]), (&"/amount".into(), &"/x".into()));
    let elsewhere = world.charge("k-2", "{\"amount\":5,\"to\":\"b\"}", &[]).await;
    assert!(elsewhere.is_replay());

    let long = world.charge("k-3", "{}", &[("x-do", "length=200")]).await;
    assert_eq!((long.status, long.body.len()), (201, 200));
    let again = world.charge("k-3", "{}", &[]).await;
    check(&world, &again, 409, "outcome-not-kept").await;
    assert_eq!((again.json()["first_status"].as_u64(), again.header("retry-after")), (Some(201), None));
    // H3: until when the key is used up is known all the same.
    let expires = long.header("idempotency-expires").unwrap();
    assert!(expires.ends_with("GMT") && again.header("idempotency-expires") == Some(expires), "{again:?}");
    let recalled = world.ask("GET /charges/by-idempotency-key/k-3", &world.alice, &[], "").await;
    assert_eq!((recalled.status, recalled.header("idempotency-expires")), (409, Some(expires)));

    let doubtful = world.charge("k-4", "{}", &[("x-do", "cut")]).await;
    check(&world, &doubtful, 409, "outcome-unknown").await;
    let before = world.service.count();
    check(&world, &world.charge("k-4", "{}", &[]).await, 409, "outcome-unknown").await;
    assert_eq!(world.service.count(), before);
}

#[tokio::test]
async fn nobody_is_told_of_a_refusal_that_was_not_kept_that_the_work_was_done_h2() {
    let only_the_fact =
        |settings: &mut Settings| change_rule(settings, "charge", |rule| rule.keep = Keep::Fact);
    let world = World::with(only_the_fact).await;
    for (status, executed) in [(201, "yes"), (303, "yes"), (402, "no"), (500, "unknown")] {
        let (key, told) = (format!("k-{status}"), format!("status={status}"));
        assert_eq!(world.charge(&key, "{}", &[("x-do", &told)]).await.status, status);
        let again = world.charge(&key, "{}", &[]).await;
        check(&world, &again, 409, "outcome-not-kept").await;
        let said = again.json();
        assert_eq!((&said["first_status"], &said["executed"]), (&status.into(), &executed.into()));
        assert!(!said["title"].as_str().unwrap().contains("done"), "{said}");
    }
}

#[tokio::test]
async fn what_the_engine_cannot_read_is_a_problem_like_any_other_h2() {
    let world = World::start().await;
    for (bad, status, code) in [
        ("GET / HTTP/1.1\nhost: a\n\n", 400, "request-malformed"),
        ("GET / HTTP/1.1\r\nhost : a\r\n\r\n", 400, "request-malformed"),
        ("hello\r\n\r\n", 400, "request-malformed"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n", 400, "request-malformed"),
        (&format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "x".repeat(40_000)), 431, "head-too-large"),
    ] {
        let got = world.send(bad.to_owned()).await.unwrap();
        assert_eq!(got.header("content-type"), Some("application/problem+json"), "{bad:?}");
        assert_eq!(got.header("connection"), Some("close"), "{bad:?}");
        check(&world, &got, status, code).await;
    }
    assert_eq!(world.service.count(), 0);
}
