//! Outcomes that are asked for by name (H7), and answers of which only the head came or went.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Policy, Recipe, Width};
use hapax_exec::Executor;
use hapax_gateway::settings::{Level, Route, Settings};
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;
use hapax_tower::Rule;
use http::{Method, Request};
use http_body_util::Full;

use crate::edge_h2;
use crate::world::{Service, World, change_rule, key_of_level, settings};

/// A `GET` that takes a key, whose requests are not compared.
async fn world_with_pages() -> World {
    World::with(|settings| {
        let rule = Rule { policy: Policy::Accepted, recipe: Recipe::none(), ..Rule::new("page").unwrap() };
        let page = Route {
            method: Method::GET,
            path: "/pages".into(),
            policy: Policy::Accepted,
            rule: Some(Arc::new(rule)),
            ..settings.routes[0].clone()
        };
        settings.routes.push(page);
    })
    .await
}

#[tokio::test]
async fn the_length_of_what_was_not_sent_is_the_services_own_on_retries_too_h3() {
    let world = world_with_pages().await;
    for (number, (line, told, length)) in [
        ("HEAD /pages", "length=5", Some("5")),
        ("HEAD /pages", "length=0", Some("0")),
        ("HEAD /pages", "chunked", None),
        ("HEAD /pages", "status=304;length=7", Some("7")),
        ("GET /pages", "status=304;length=7", Some("7")),
        ("GET /pages", "status=304", None),
        ("GET /pages", "status=204", None),
        ("GET /pages", "length=9", Some("9")),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k-{number}");
        let headers = [("idempotency-key", key.as_str()), ("x-do", told)];
        let first = world.ask(line, &world.alice, &headers, "").await;
        let again = world.ask(line, &world.alice, &headers, "").await;
        assert_eq!((first.is_replay(), again.is_replay()), (false, true), "{line} {told}");
        assert_eq!(first.header("content-length"), length, "{line} {told}");
        assert_eq!(again.without_marks(), first.without_marks(), "{line} {told}");
    }
}

#[tokio::test]
async fn a_kept_head_is_a_whole_answer_to_whoever_asks_for_more_h3() {
    let world = world_with_pages().await;
    let headers = [("idempotency-key", "k-1"), ("x-do", "length=5")];
    assert_eq!(
        world.ask("HEAD /pages", &world.alice, &headers, "").await.header("content-length"),
        Some("5")
    );
    let mut sender = edge_h2::client(world.connect().await).await;
    for line in ["/pages", "/pages/by-idempotency-key/k-1"] {
        let got = world.ask(&format!("GET {line}"), &world.alice, &headers[..1], "").await;
        assert_eq!((got.is_replay(), got.header("content-length")), (true, Some("0")), "{line}");
        let request = Request::get(format!("http://edge.example{line}"))
            .header("authorization", format!("Bearer {}", world.alice))
            .header("idempotency-key", "k-1");
        let got = edge_h2::ask(&mut sender, request.body(Full::<Bytes>::default()).unwrap()).await;
        assert_eq!(
            (&got.headers()["content-length"], got.body().len()),
            (&"0".parse().unwrap(), 0),
            "{line}"
        );
    }
}

#[tokio::test]
async fn the_status_of_an_attempt_that_failed_says_so_l9_h6() {
    let world = World::start().await;
    let key = [("idempotency-key", "k-1"), ("x-do", "hold;cut"), ("prefer", "respond-async")];
    let accepted = world.ask("POST /orders/1/notes", &world.alice, &key, "x").await;
    assert_eq!(accepted.status, 202);
    let by_operation = format!("GET {}", accepted.header("location").unwrap());
    let by_key = "GET /orders/1/notes/by-idempotency-key/k-1";
    let (first, second, ()) = tokio::join!(
        world.ask(&by_operation, &world.alice, &[], ""),
        world.ask(by_key, &world.alice, &[], ""),
        async {
            world.service.reached(1).await;
            // Both wait by then, which nothing shows.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            world.service.let_go();
        }
    );
    for got in [&first, &second] {
        assert_eq!((got.status, got.code().as_str()), (503, "attempt-failed"), "{}", got.text());
        assert_eq!(got.header("x-operation-id"), accepted.header("x-operation-id"));
        assert!(got.header("retry-after").is_some());
    }
    // Later, too, both ways, and to its own caller alone.
    for line in [&by_operation, by_key, &format!("{by_operation}/output"), &format!("{by_key}/output")] {
        let later = world.ask(line, &world.alice, &[], "").await;
        assert_eq!(
            (later.status, later.code().as_str()),
            (503, "attempt-failed"),
            "{line}: {}",
            later.text()
        );
        assert_eq!(later.header("x-operation-id"), accepted.header("x-operation-id"), "{line}");
        assert_eq!(world.ask(line, &world.bob, &[], "").await.code(), "not-found", "{line}");
    }
    assert_eq!(world.service.count(), 1);
    assert_eq!(world.ask("POST /orders/1/notes", &world.alice, &key[..1], "x").await.status, 201);
    assert_eq!(world.ask(&by_operation, &world.alice, &[], "").await.status, 201);
}

#[tokio::test]
async fn a_method_out_of_reach_does_not_hide_what_another_one_kept_h7() {
    let world = World::with(|settings| {
        for method in [Method::PUT, Method::DELETE] {
            let operation = format!("charge.{}", method.as_str().to_ascii_lowercase());
            let above = Route {
                level: Level::Platform,
                rule: Some(Arc::new(Rule::new(&operation).unwrap())),
                method,
                ..settings.routes[0].clone()
            };
            settings.routes.insert(0, above);
        }
    })
    .await;
    let first = world.charge("k-1", "{}", &[]).await;
    let got = world.ask("GET /charges/by-idempotency-key/k-1", &world.alice, &[], "").await;
    assert_eq!((got.status, got.is_replay(), got.text()), (201, true, first.text()));
    let got = world.ask("GET /charges/by-idempotency-key/k-2", &world.alice, &[], "").await;
    assert_eq!(got.code(), "not-found");
    let got = world.ask("GET /tenant/by-idempotency-key/k-1", &world.alice, &[], "").await;
    assert_eq!(got.code(), "forbidden", "none is left");
    let root = key_of_level(&world.store, "acme", "web", "user:root", Level::Platform).await;
    let put = world.ask("PUT /charges", &root, &[("idempotency-key", "k-1")], "{}").await;
    assert_eq!((put.status, put.is_replay()), (201, false));
    let got = world.ask("GET /charges/by-idempotency-key/k-1", &root, &[], "").await;
    assert_eq!(got.text(), put.text());
}

#[tokio::test]
async fn a_claim_without_an_outcome_does_not_hide_what_another_method_kept_h7() {
    let world = World::with(|settings| {
        let put = Route {
            rule: Some(Arc::new(Rule::new("charge.put").unwrap())),
            method: Method::PUT,
            ..settings.routes[0].clone()
        };
        settings.routes.insert(0, put);
    })
    .await;
    let by_key = "GET /charges/by-idempotency-key/k-1";
    // In doubt, the first of the two.
    let headers = [("idempotency-key", "k-1"), ("x-do", "cut")];
    assert_eq!(world.ask("PUT /charges", &world.alice, &headers, "{}").await.code(), "outcome-unknown");
    assert_eq!(world.ask(by_key, &world.alice, &[], "").await.code(), "outcome-unknown");
    let post = world.charge("k-1", "{}", &[]).await;
    assert_eq!(post.status, 201);
    for line in [by_key.to_owned(), format!("{by_key}/output")] {
        let got = world.ask(&line, &world.alice, &[], "").await;
        assert_eq!((got.status, got.text()), (201, post.text()), "{line}");
    }
    // Under way: nobody waits for it while there is an outcome.
    let held = [("idempotency-key", "k-2"), ("x-do", "hold")];
    let putting = world.ask("PUT /charges", &world.alice, &held, "{}");
    let recalled = async {
        world.service.reached(3).await;
        let by_key = "GET /charges/by-idempotency-key/k-2";
        let post = world.charge("k-2", "{}", &[]).await;
        assert_eq!(world.ask(by_key, &world.alice, &[], "").await.text(), post.text());
        world.service.let_go();
    };
    assert_eq!(tokio::join!(putting, recalled).0.status, 201);
}

#[tokio::test]
async fn an_attempt_that_failed_hides_nothing_of_another_method_h7() {
    let world = World::with(|settings| {
        let rule = Some(Arc::new(Rule::new("charge.put").unwrap()));
        let put = Route { rule, method: Method::PUT, ..settings.routes[0].clone() };
        settings.routes.insert(0, put);
    })
    .await;
    let by_key = "GET /charges/by-idempotency-key/k-1";
    let failing = [("idempotency-key", "k-1"), ("x-do", "status=503")];
    assert_eq!(world.ask("PUT /charges", &world.alice, &failing, "{}").await.status, 503);
    assert_eq!(world.ask(by_key, &world.alice, &[], "").await.code(), "attempt-failed");
    // Who is told that an attempt failed may send it again; of a doubt that would be wrong.
    assert_eq!(world.charge("k-1", "{}", &[("x-do", "cut")]).await.code(), "outcome-unknown");
    assert_eq!(world.ask(by_key, &world.alice, &[], "").await.code(), "outcome-unknown");
    let failing = [("idempotency-key", "k-2"), ("x-do", "status=503")];
    assert_eq!(world.ask("PUT /charges", &world.alice, &failing, "{}").await.status, 503);
    let (post, ()) = tokio::join!(world.charge("k-2", "{}", &[("x-do", "hold")]), async {
        world.service.reached(4).await;
        let at_once = "GET /charges/by-idempotency-key/k-2/output";
        assert_eq!(world.ask(at_once, &world.alice, &[], "").await.code(), "in-progress");
        world.service.let_go();
    });
    let got = world.ask("GET /charges/by-idempotency-key/k-2", &world.alice, &[], "").await;
    assert_eq!((got.status, got.text()), (201, post.text()));
}

#[tokio::test]
async fn what_is_under_way_beside_a_doubt_is_waited_for_h7() {
    let world = World::with(|settings| {
        let rule = Some(Arc::new(Rule::new("charge.put").unwrap()));
        let put = Route { rule, method: Method::PUT, ..settings.routes[0].clone() };
        settings.routes.insert(0, put);
    })
    .await;
    let headers = [("idempotency-key", "k-1"), ("x-do", "cut")];
    assert_eq!(world.ask("PUT /charges", &world.alice, &headers, "{}").await.code(), "outcome-unknown");
    let by_key = "GET /charges/by-idempotency-key/k-1";
    let (post, got) = tokio::join!(world.charge("k-1", "{}", &[("x-do", "hold")]), async {
        world.service.reached(2).await;
        let at_once = world.ask(&format!("{by_key}/output"), &world.alice, &[], "").await;
        assert_eq!(at_once.code(), "outcome-unknown");
        let let_go = async {
            // It is waited for by then, which nothing shows.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            world.service.let_go();
        };
        tokio::join!(world.ask(by_key, &world.alice, &[], ""), let_go).0
    });
    assert_eq!((got.status, got.is_replay(), got.text()), (201, true, post.text()));
}

/// What was asked of one order is not there under another one: the same answer as for a key that was never used, after as many reads.
#[tokio::test]
async fn a_key_is_recalled_only_under_the_path_and_query_that_it_was_used_with_h7() {
    let store = Memory::open(Options::default());
    let ledger = Faulty::new(store.clone());
    let change = |settings: &mut Settings| change_rule(settings, "note", |rule| rule.recipe = Recipe::none());
    let world = World::run(Service::start().await, store, Executor::new(ledger.clone()), change).await;
    let post = async |line: &str, key: &str, told: &str| {
        let headers = [("idempotency-key", key), ("x-do", told)];
        world.ask(&format!("POST {line}"), &world.alice, &headers, "x").await
    };
    let first = post("/orders/1/notes?a=1", "k-1", "").await;
    assert_eq!(first.status, 201);
    let (doubt, failed) = (post("/orders/1/notes", "k-2", "status=502").await, ["k-2", "never"]);
    assert_ne!(doubt.status, 201, "{}", doubt.text());
    let recall = async |path: &str, key: &str, more: &str| {
        let reads = ledger.peeks();
        let line = format!("GET {path}/by-idempotency-key/{key}{more}");
        let got = world.ask(&line, &world.alice, &[], "").await;
        (got.without_marks(), ledger.peeks() - reads)
    };
    for tail in ["", "/output"] {
        let (got, _) = recall("/orders/1/notes", "k-1", &format!("{tail}?a=1")).await;
        assert_eq!((got.status, &got.body), (201, &first.body));
        let absent = recall("/orders/2/notes", "never", tail).await;
        assert_eq!(absent.0.status, 404);
        for (path, key, query) in [
            ("/orders/2/notes", "k-1", "?a=1"),
            ("/orders/1/notes", "k-1", ""),
            ("/orders/1/notes", "k-1", "?a=2"),
            ("/orders/2/notes", failed[0], ""),
            ("/orders/1/notes", failed[1], ""),
        ] {
            let got = recall(path, key, &format!("{tail}{query}")).await;
            assert_eq!(got, absent, "{path} {key} {query}");
        }
    }
    // What runs elsewhere is not waited for.
    let held = [("idempotency-key", "k-3"), ("x-do", "hold")];
    let running = world.request("POST /orders/1/notes", &world.alice, &held, "x");
    let mut stream = world.connect().await;
    hapax_testkit::raw::write(&mut stream, &running).await;
    world.service.reached(3).await;
    assert_eq!(recall("/orders/2/notes", "k-3", "").await.0.status, 404);
    world.service.let_go();
    assert_eq!(recall("/orders/1/notes", "k-3", "").await.0.status, 201);
}

#[tokio::test]
async fn a_mismatch_says_which_of_method_path_and_query_differ_h10() {
    let world = World::start().await;
    let key = [("idempotency-key", "k-1")];
    assert_eq!(world.ask("POST /orders/1/notes?a=1", &world.alice, &key, "not JSON").await.status, 201);
    for (line, body, differs) in [
        ("POST /orders/2/notes?a=1", "not JSON", &["path"][..]),
        ("POST /orders/1/notes", "not JSON", &["query"]),
        ("POST /orders/2/notes?a=2", "", &["path", "query"]),
        ("POST /orders/1/notes?a=1", "another", &[]),
    ] {
        let got = world.ask(line, &world.alice, &key, body).await;
        assert_eq!((got.status, got.code().as_str()), (422, "key-reused"), "{line}");
        assert_eq!(got.json()["differences"]["request"], serde_json::json!(differs), "{line}");
    }
}

/// A client may compress again, and choose another boundary, for every attempt.
#[tokio::test]
async fn a_retry_in_gzip_or_in_parts_is_the_same_request_whatever_its_bytes_k7() {
    let world = World::start().await;
    // `{"a":1}`, compressed at two different times.
    let one = b"\x1f\x8b\x08\x00\x01\x00\x00\x00\x02\xff\xab\x56\x4a\x54\xb2\x32\xac\x05\x00\xaf\xac\x1b\x56\x07\x00\x00\x00";
    let other = b"\x1f\x8b\x08\x00\x07\x00\x00\x00\x02\xff\xab\x56\x4a\x54\xb2\x32\xac\x05\x00\xaf\xac\x1b\x56\x07\x00\x00\x00";
    let ask = async |content: &str, body: Vec<u8>, key: &str| {
        let head = format!(
            "POST /raw HTTP/1.1\r\nhost: edge.example\r\nauthorization: Bearer {}\r\nidempotency-key: {key}\r\n{content}\r\n\
             content-length: {}\r\n\r\n",
            world.alice,
            body.len()
        );
        world.send([head.as_bytes(), &body].concat()).await.unwrap()
    };
    let encoded = "content-encoding: gzip";
    let first = ask(encoded, one.to_vec(), "k-0").await;
    assert_eq!(first.status, 201, "{}", first.text());
    assert_eq!(world.service.last().body, one, "what goes on is what came");
    assert!(ask(encoded, other.to_vec(), "k-0").await.is_replay());
    let cut = ask(encoded, one[..20].to_vec(), "k-0").await;
    assert_eq!(cut.code(), "key-reused", "what cannot be read is compared by its bytes");
    let parts = |boundary: &str| {
        let text = format!("--{boundary}\r\ncontent-type: text/plain\r\n\r\nx\r\n--{boundary}--\r\n");
        (format!("content-type: multipart/mixed; boundary={boundary}"), text.into_bytes())
    };
    let ((one, body), (other, again)) = (parts("b1"), parts("b2"));
    assert_eq!(ask(&one, body, "k-1").await.status, 201);
    assert!(ask(&other, again, "k-1").await.is_replay());
}

#[tokio::test]
async fn a_key_may_stand_in_a_path_with_escapes_h7() {
    let world = World::start().await;
    let first = world.charge("a~b", "{}", &[]).await;
    assert_eq!(first.status, 201);
    for escaped in ["a~b", "a%7Eb", "a%7eb", "%61%7E%62"] {
        let line = format!("GET /charges/by-idempotency-key/{escaped}");
        let got = world.ask(&line, &world.alice, &[], "").await;
        assert_eq!((got.status, got.text()), (201, first.text()), "{escaped}");
    }
    // Once, and into nothing but a key.
    for other in ["a%7Eb%20", "%22a~b%22", "a%C3%A4b", "%74-acme", "a%7Ec", "a%2Bb"] {
        let line = format!("GET /charges/by-idempotency-key/{other}");
        assert_eq!(world.ask(&line, &world.alice, &[], "").await.code(), "not-found", "{other}");
    }
    let line = "GET /charges/by-idempotency-key/a%257Eb";
    assert_eq!(world.ask(line, &world.alice, &[], "").await.code(), "path-malformed");
}

#[tokio::test]
async fn an_operation_of_another_level_is_as_absent_as_none_a6_h7() {
    let store = Memory::open(Options::default());
    let ledger = Faulty::new(store.clone());
    let change = |settings: &mut Settings| {
        let platform = Route {
            level: Level::Platform,
            path: "/platform".into(),
            rule: Some(Arc::new(Rule::new("platform").unwrap())),
            ..settings.routes[0].clone()
        };
        settings.routes.push(platform);
        for operation in ["charge", "tenant", "platform"] {
            change_rule(settings, operation, |rule| rule.width = Width::Tenant);
        }
    };
    let world = World::run(Service::start().await, store, Executor::new(ledger.clone()), change).await;
    let boss = key_of_level(&world.store, "acme", "web", "user:boss", Level::Platform).await;
    let operation = async |path: &str| {
        let first = world.ask(&format!("POST {path}"), &boss, &[("idempotency-key", "k-1")], "{}").await;
        assert_eq!(first.status, 201, "{path}: {}", first.text());
        first.header("x-operation-id").unwrap().to_owned()
    };
    let (charge, tenant, platform) =
        (operation("/charges").await, operation("/tenant").await, operation("/platform").await);
    // All of them belong to the same tenant. Who lacks the level or the project is not let in, here neither.
    let callers = [
        (&world.alice, vec![&tenant, &platform], vec![&charge]),
        (&world.mia, vec![&charge, &platform], vec![&tenant]),
        (&boss, vec![], vec![&charge, &tenant, &platform]),
    ];
    for (who, hidden, open) in callers {
        for tail in ["", "/output"] {
            let ask = async |id: &str| {
                let (peeks, locates) = (ledger.peeks(), ledger.locates());
                let got = world.ask(&format!("GET /operations/{id}{tail}"), who, &[], "").await;
                (got, ledger.peeks() - peeks, ledger.locates() - locates)
            };
            let absent = ask("op_00000000000000000000000000000000").await;
            assert_eq!(absent.0.code(), "not-found");
            for id in &hidden {
                let (got, peeks, locates) = ask(id).await;
                assert_eq!((got.status, &got.body), (404, &absent.0.body), "{}", got.text());
                assert_eq!(got.without_marks(), absent.0.clone().without_marks());
                assert_eq!((peeks, locates), (absent.1, absent.2));
            }
            for id in &open {
                assert_eq!(ask(id).await.0.status, 201, "{id}{tail}");
            }
        }
    }
    // What no route does any more has no level that could be asked for: nobody gets it by its id.
    world.gateway.reload(settings(&world.service)).await.unwrap();
    let got = world.ask(&format!("GET /operations/{platform}"), &boss, &[], "").await;
    assert_eq!(got.code(), "not-found");
}

#[tokio::test]
async fn who_cannot_be_asked_for_an_outcome_does_not_say_that_nothing_was_done_h1_h7() {
    let store = Memory::open(Options::default());
    let ledger = Faulty::new(store.clone());
    let world = World::run(Service::start().await, store, Executor::new(ledger.clone()), |_| {}).await;
    let id = "op_00000000000000000000000000000000";
    ledger.set_away(true);
    for line in [
        "GET /charges/by-idempotency-key/k-1".to_owned(),
        "GET /orders/1/notes/by-idempotency-key/k-1".to_owned(),
        format!("GET /operations/{id}"),
        format!("GET /operations/{id}/output"),
    ] {
        let got = world.ask(&line, &world.alice, &[], "").await;
        assert_eq!((got.status, got.code().as_str()), (503, "ledger-unavailable"), "{line}");
        assert_eq!(got.json()["executed"], "unknown", "{line}");
    }
}
