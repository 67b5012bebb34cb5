//! What callers are told of requests that no key protects: never to send again what may have been done (H2, P1).

use std::sync::Arc;
use std::time::Duration;

use hapax_gateway::settings::{Route, Settings, Upstream};
use hapax_testkit::port::Port;
use hapax_testkit::raw;
use http::Method;
use serde_json::json;

use crate::world::{Got, World};

/// Time enough for whatever happens at once, and not for what never does.
const HASTE: Duration = Duration::from_millis(700);

/// All routes to this port, and two more: one that ignores keys, one that may be done twice.
fn before(settings: &mut Settings, port: u16) {
    let upstream = Arc::new(Upstream { timeout: HASTE, ..Upstream::new("odd", "127.0.0.1", port) });
    let open = settings.routes.iter().find(|route| *route.path == *"/open").unwrap().clone();
    settings.routes.push(Route { path: "/lenient".into(), lenient: true, ..open.clone() });
    settings.routes.push(Route { path: "/open/{id}".into(), method: Method::PUT, ..open });
    settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
}

/// A service that takes every request, and then does as it is told.
async fn world(then: &'static str) -> World {
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                raw::head(&mut stream).await;
                match then {
                    "hold" => drop(raw::rest(&mut stream).await),
                    says => raw::write(&mut stream, says).await,
                }
            });
        }
    });
    World::with(|settings| before(settings, port)).await
}

/// A request, and whether its method may be sent twice.
type Asked = (&'static str, &'static [(&'static str, &'static str)], bool);

/// Requests that nothing protects.
const UNPROTECTED: [Asked; 6] = [
    ("POST /open", &[], false),
    ("POST /lenient", &[("idempotency-key", "k")], false),
    ("POST /internal", &[("idempotency-key", "k")], false),
    ("POST /orders/1/notes", &[], false),
    ("PUT /open/1", &[], true),
    ("GET /charges", &[], true),
];

fn said(got: &Got) -> (u16, String, serde_json::Value, serde_json::Value) {
    let body = got.json();
    (got.status, got.code(), body["executed"].clone(), body["retryable"].clone())
}

#[tokio::test]
async fn nobody_is_told_to_send_again_what_nothing_protects_and_may_have_been_done_h2() {
    for (then, status, code) in [
        ("", 502, "upstream-unreachable"),
        ("SSH-2.0\r\n", 502, "upstream-unreachable"),
        ("hold", 504, "upstream-timeout"),
    ] {
        let world = world(then).await;
        for (line, headers, twice) in UNPROTECTED {
            let got = world.ask(line, &world.alice, headers, "").await;
            let wanted = (status, code.to_owned(), json!("unknown"), json!(twice));
            assert_eq!(said(&got), wanted, "{line}, {then:?}: {}", got.text());
            let body = got.json();
            let detail = body["detail"].as_str().unwrap();
            assert!(!detail.contains("could not be reached") && !detail.contains("same key"), "{detail}");
            assert_eq!(detail.contains("no key protects this request"), !twice, "{line}: {detail}");
            assert!(!body["title"].as_str().unwrap().contains("reached"), "{body}");
            assert_eq!(got.header("retry-after"), None, "{line}");
        }
    }
}

#[tokio::test]
async fn what_certainly_did_not_arrive_may_be_sent_again_whatever_its_method_h2() {
    let port = Port::reserve().unwrap();
    let world = World::with(|settings| before(settings, port.number())).await;
    for (line, headers, _) in UNPROTECTED {
        let got = world.ask(line, &world.alice, headers, "").await;
        let wanted = (502, "upstream-unreachable".to_owned(), json!("no"), json!(true));
        assert_eq!(said(&got), wanted, "{line}: {}", got.text());
    }
}

#[tokio::test]
async fn an_upload_that_is_given_up_is_not_to_be_sent_again_h2() {
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    let world = World::with(|settings| {
        before(settings, port);
        settings.edge.header_timeout = HASTE / 2;
    })
    .await;
    let mut client = world.connect().await;
    let head = world.request("POST /open", &world.alice, &[("content-length", "10")], "");
    raw::write(&mut client, &format!("{head}half")).await;
    let mut service = raw::accept(&listener).await;
    raw::head(&mut service).await;
    let got = crate::world::client::read_answer(&mut client, false).await.unwrap();
    let wanted = (408, "request-timeout".to_owned(), json!("unknown"), json!(false));
    assert_eq!(said(&got), wanted, "{}", got.text());
}

#[tokio::test]
async fn a_key_that_was_ignored_is_told_with_every_answer_p1() {
    let ignored = |got: &Got| got.header("idempotency-key-ignored").map(str::to_owned);
    let key = [("idempotency-key", "k")];
    let broken = world("").await;
    let got = broken.ask("POST /lenient", &broken.alice, &key, "").await;
    assert_eq!((got.status, ignored(&got).as_deref()), (502, Some("true")));
    let got = broken.ask("POST /lenient", &broken.alice, &[], "").await;
    assert_eq!((got.status, ignored(&got)), (502, None), "nothing was ignored");
    let got = broken.ask("POST /lenient", &broken.mia, &key, "").await;
    assert_eq!((got.status, ignored(&got).as_deref()), (403, Some("true")));
    let whole = world("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let got = whole.ask("POST /lenient", &whole.alice, &key, "").await;
    assert_eq!((got.status, ignored(&got).as_deref()), (200, Some("true")));
}

#[tokio::test]
async fn a_key_that_has_no_effect_is_said_to_have_none_whatever_the_answer_is_p1() {
    let world = World::with(|settings| {
        let open = settings.routes.iter().find(|route| *route.path == *"/open").unwrap().clone();
        settings.routes.push(Route { path: "/lenient".into(), lenient: true, ..open });
    })
    .await;
    let kept = world.ask("POST /raw", &world.alice, &[("idempotency-key", "k")], "").await;
    let operation = format!("GET /operations/{}", kept.header("x-operation-id").unwrap());
    let ignored = async |line: &str, who: &str, key: &str| {
        let headers = if key.is_empty() { vec![] } else { vec![("idempotency-key", key)] };
        let got = world.ask(line, who, &headers, "").await;
        (got.status, got.header("idempotency-key-ignored").map(str::to_owned))
    };
    let yes = Some("true".to_owned());
    for (line, who, status) in [
        ("POST /lenient", &*world.alice, 201),
        ("POST /internal", &*world.alice, 201),
        ("POST /internal", "", 401),
        ("POST /lenient", "", 401),
        ("POST /lenient", &*world.mia, 403),
        (&*operation, &*world.alice, 201),
        ("GET /raw/by-idempotency-key/k", &*world.alice, 201),
        ("GET /raw/by-idempotency-key/none", &*world.alice, 404),
        ("OPTIONS /raw", "", 204),
        ("GET /.well-known/hapax/errors/forbidden", "", 200),
    ] {
        for key in ["k", "not a key at all"] {
            assert_eq!(ignored(line, who, key).await, (status, yes.clone()), "{line} {key}");
        }
        assert_eq!(ignored(line, who, "").await, (status, None), "{line}");
    }
    // Where a key counts, or is refused, it is not ignored.
    for (line, who, status) in
        [("POST /raw", &*world.alice, 201), ("POST /open", &*world.alice, 400), ("POST /raw", "", 401)]
    {
        assert_eq!(ignored(line, who, "k").await, (status, None), "{line}");
    }
}

#[tokio::test]
async fn http_1_0_needs_no_host_and_http_1_1_does_h11() {
    let world = World::start().await;
    let post = |version: &str, host: &str, target: &str| {
        let alice = &world.alice;
        format!(
            "POST {target} HTTP/{version}\r\n{host}authorization: Bearer {alice}\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n"
        )
    };
    let first = world.send(post("1.0", "", "/raw")).await.unwrap();
    assert_eq!((first.status, first.is_replay()), (201, false), "{}", first.text());
    let arrived = world.service.last();
    assert!(arrived.line().ends_with(" HTTP/1.1") && arrived.header("host").is_some(), "{}", arrived.head);
    assert_eq!(arrived.header("x-forwarded-host"), None);
    let forwarded = arrived.header("forwarded").unwrap();
    assert!(forwarded.contains("for=127.0.0.1") && !forwarded.contains("host="), "{forwarded}");
    let again = world.send(post("1.0", "host: edge.example\r\n", "/raw")).await.unwrap();
    assert!(again.is_replay(), "the same request, whatever host it names");
    for (version, host, target) in [
        ("1.1", "", "/raw"),
        ("1.1", "", "http://edge.example/raw"),
        ("1.0", "host: a\r\nhost: b\r\n", "/raw"),
        ("1.0", "host:\r\n", "/raw"),
        ("1.0", "host: a\r\n", "http://b/raw"),
    ] {
        let refused = world.send(post(version, host, target)).await.unwrap();
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "request-malformed"),
            "{version} {host:?} {target}"
        );
    }
    assert_eq!(world.service.count(), 1);
}
