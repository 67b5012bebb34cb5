//! What only hapax may say, said by somebody else: by callers to the service, and by the service to callers (A5).

use std::time::Duration;

use hapax_testkit::raw;

use crate::world::{World, change_rule};

/// Everything that a caller could pretend to be hapax with.
const FORGED: [(&str, &str); 30] = [
    ("x-tenant-id", "globex"),
    ("X-Project-Id", "other"),
    ("x-subject", "user:root"),
    ("x-level", "platform"),
    ("x-operation-id", "op_1"),
    ("x-operation-epoch", "99"),
    ("x-restate-id", "1"),
    ("X-RESTATE-anything-else", "1"),
    ("idempotent-replayed", "true"),
    ("idempotency-expires", "never"),
    ("idempotency-outcome", "keep"),
    ("idempotency-key-derived", "true"),
    ("idempotency-key-ignored", "true"),
    ("idempotency-body-not-kept", "true"),
    ("x_tenant_id", "globex"),
    ("x-tenant_id", "globex"),
    ("x_subject", "user:root"),
    ("X_Operation_Epoch", "99"),
    ("x_restate_id", "1"),
    ("idempotency_key", "forged"),
    ("Idempotency_Key", "forged"),
    ("idempotent_replayed", "true"),
    ("x_forwarded_for", "6.6.6.6"),
    ("x-forwarded-port", "1"),
    ("x-forwarded-prefix", "/admin"),
    ("x-forwarded-server", "evil"),
    ("x-real-ip", "6.6.6.6"),
    ("forwarded", "for=6.6.6.6"),
    ("content_length", "99"),
    ("proxy-authorization", "Basic Zm9v"),
];

#[tokio::test]
async fn nothing_that_only_hapax_may_say_arrives_from_a_caller_a5() {
    let world = World::start().await;
    for (line, key) in
        [("POST /raw", Some("k-1")), ("POST /open", None), ("POST /orders/1/notes", Some("k-2"))]
    {
        let mut headers = FORGED.to_vec();
        headers.extend(key.map(|key| ("idempotency-key", key)));
        assert_eq!(world.ask(line, &world.alice, &headers, "hello").await.status, 201);
        let arrived = world.service.last();
        let head = arrived.head.to_ascii_lowercase();
        for gone in
            ["globex", "other\r", "root", "platform", "op_1\r", ": 99\r", "restate", "forged", "6.6.6.6"]
        {
            assert!(!head.contains(gone), "{line}: {gone} in {head}");
        }
        let names = ["idempot", "x-level", "x-forwarded-p", "x-forwarded-server", "x-real-ip", "proxy-", "_"];
        let own = ["idempotency-key: t-acme:web:user:alice:k-", "x-forwarded-proto: http\r"];
        for line in head.lines().skip(1).map(|line| format!("{line}\r")) {
            let allowed = own.iter().any(|own| line.starts_with(own));
            assert!(allowed || !names.iter().any(|name| line.starts_with(name)), "{line}");
            assert!(!line.split(':').next().unwrap().contains('_'), "{line}");
        }
        assert_eq!(arrived.header("x-tenant-id").unwrap(), "acme");
        assert_eq!(arrived.header("x-project-id").unwrap(), "web");
        assert_eq!(arrived.header("x-subject").unwrap(), "user:alice");
        assert_eq!(arrived.header("forwarded").unwrap(), "for=127.0.0.1;host=\"edge.example\";proto=http");
        assert_eq!(arrived.header("idempotency-key").is_some(), key.is_some());
        assert_eq!(arrived.header("x-operation-id").is_some(), key.is_some());
    }
}

#[tokio::test]
async fn connection_cannot_take_away_what_hapax_says_and_takes_away_the_rest_a5() {
    let world = World::start().await;
    for named in [
        "idempotency-key",
        "Idempotency-Key, close",
        "x-tenant-id, x-project-id, x-subject",
        "x-operation-id, x-operation-epoch",
        "host, content-length, content-type",
        "accept-encoding, forwarded, x-forwarded-for",
        "authorization",
    ] {
        let before = world.service.count();
        let key = format!("k-{before}");
        let headers = [("connection", named), ("idempotency-key", &key), ("x-mine", "1")];
        let got = world.ask("POST /raw", &world.alice, &headers, "hello").await;
        assert_eq!((got.status, got.is_replay()), (201, false), "{named}: {}", got.text());
        let arrived = world.service.last();
        assert_eq!(arrived.header("idempotency-key").unwrap(), format!("t-acme:web:user:alice:{key}"));
        for kept in
            ["x-tenant-id", "x-project-id", "x-subject", "x-operation-id", "x-operation-epoch", "host"]
        {
            assert!(arrived.header(kept).is_some(), "{kept} with connection: {named}");
        }
        assert_eq!((arrived.body.as_slice(), arrived.header("connection")), (&b"hello"[..], None));
        assert_eq!(arrived.header("x-mine").unwrap(), "1");
    }
    let hops = [
        ("connection", "X-Mine, keep-alive"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authenticate", "Basic"),
        ("te", "trailers"),
        ("trailer", "x-late"),
        ("upgrade", "h2c"),
        ("x-mine", "1"),
    ];
    assert_eq!(world.ask("POST /open", &world.alice, &hops, "hello").await.status, 201);
    for (gone, _) in hops {
        assert_eq!(world.service.last().all(gone), Vec::<String>::new(), "{gone}");
    }
}

#[tokio::test]
async fn a_key_counts_only_as_one_header_field_k1_a5() {
    let world = World::start().await;
    // Elsewhere it is no key.
    for line in ["POST /raw?Idempotency-Key=k", "POST /raw?idempotency_key=k"] {
        let got = world.ask(line, &world.alice, &[("idempotency_key", "k")], "x").await;
        assert_eq!(got.code(), "key-missing", "{line}");
    }
    let trailer = "transfer-encoding: chunked\r\ntrailer: idempotency-key\r\nconnection: close\r\n\r\n\
                   5\r\nhello\r\n0\r\nIdempotency-Key: late\r\nx-tenant-id: globex\r\n\r\n";
    let head = |line: &str, key: &str| {
        format!("{line} HTTP/1.1\r\nhost: edge.example\r\nauthorization: Bearer {}\r\n{key}", world.alice)
    };
    let got = world.send(head("POST /raw", "") + trailer).await.unwrap();
    assert_eq!((got.code().as_str(), world.service.count()), ("key-missing", 0));
    // And where nothing is kept, or another key is, a trailer does not pass.
    for (line, key) in [("POST /open", ""), ("POST /internal", ""), ("POST /raw", "idempotency-key: k-1\r\n")]
    {
        let got = world.send(head(line, key) + trailer).await.unwrap();
        let arrived = world.service.last();
        assert_eq!((got.status, arrived.body.as_slice()), (201, &b"hello"[..]), "{line}");
        assert!(!arrived.head.contains("late") && !arrived.head.contains("globex"), "{}", arrived.head);
    }
    // On a route that derives its own, the header has no effect and does not arrive.
    let got = world.ask("POST /internal", &world.alice, &[("idempotency-key", "k-9")], "x").await;
    assert_eq!((got.status, world.service.last().header("idempotency-key")), (201, None));
    // Two are refused whatever they say, in any case and order.
    let before = world.service.count();
    for pair in [["k-1", "k-1"], ["k-1", "k-2"], ["k-1", ""], ["", "k-1"], ["\"k-1\"", "k-1"]] {
        let headers = [("idempotency-key", pair[0]), ("IDEMPOTENCY-KEY", pair[1])];
        let got = world.ask("POST /raw", &world.alice, &headers, "x").await;
        assert_eq!((got.status, got.code().as_str()), (400, "key-duplicated"), "{pair:?}");
    }
    assert_eq!(world.service.count(), before);
    // The name of the field is read in any case.
    let got = world.ask("POST /raw", &world.alice, &[("IDEMPOTENCY-key", "k-1")], "hello").await;
    assert!(got.is_replay());
}

#[tokio::test]
async fn nothing_that_only_hapax_may_say_reaches_a_caller_from_a_service_a5() {
    let listener = raw::listener().await;
    let world = World::with(|settings| {
        let port = listener.local_addr().unwrap().port();
        let forger = std::sync::Arc::new(hapax_gateway::settings::Upstream::new("forger", "127.0.0.1", port));
        settings.routes.iter_mut().for_each(|route| route.upstream = forger.clone());
        change_rule(settings, "note", |rule| rule.max_kept_response = 4);
    })
    .await;
    let forger = tokio::spawn(async move {
        loop {
            let mut stream = raw::accept(&listener).await;
            raw::head(&mut stream).await;
            let answer = "HTTP/1.1 201 Created\r\nx-operation-id: op_forged\r\nidempotent-replayed: true\r\n\
                idempotency-expires: forged\r\nidempotency-outcome: keep\r\nidempotency-key-derived: true\r\n\
                idempotency-key-ignored: true\r\nidempotency-body-not-kept: true\r\nx-operation-epoch: 7\r\n\
                trailer: x-operation-id\r\nconnection: close, x-hop\r\nx-hop: 1\r\nproxy-authenticate: Basic\r\n\
                transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-operation-id: op_forged\r\n\
                idempotent-replayed: true\r\n\r\n";
            raw::write(&mut stream, answer).await;
        }
    });
    for (line, key) in
        [("POST /raw", "k-1"), ("POST /raw", "k-1"), ("POST /open", ""), ("POST /orders/1/notes", "k-2")]
    {
        let key = if key.is_empty() { String::new() } else { format!("idempotency-key: {key}\r\n") };
        let sent = format!(
            "{line} HTTP/1.1\r\nhost: edge.example\r\nauthorization: Bearer {}\r\n{key}te: trailers\r\nconnection: te, close\r\n\r\n",
            world.alice
        );
        let heard = world.hear_out(sent).await;
        assert_eq!(heard.statuses, [201], "{}", heard.text);
        for gone in ["forged", "outcome", "derived", "ignored", "not-kept", "epoch", "x-hop", "proxy-auth"] {
            assert!(!heard.text.contains(gone), "{line}: {gone} in {}", heard.text);
        }
        let replayed = heard.text.matches("idempotent-replayed").count();
        assert!(replayed == 0 || line == "POST /raw", "{}", heard.text);
    }
    forger.abort();
}

#[tokio::test]
async fn a_service_that_splits_its_answer_gets_one_answer_through_h11() {
    let listener = raw::listener().await;
    let world = World::with(|settings| {
        let port = listener.local_addr().unwrap().port();
        let splitter = std::sync::Arc::new(hapax_gateway::settings::Upstream::new("s", "127.0.0.1", port));
        settings.routes.iter_mut().for_each(|route| route.upstream = splitter.clone());
    })
    .await;
    let second = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged";
    for (answer, status) in [
        // More than the answer has is nobody's answer.
        (format!("HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\nhello{second}"), 201),
        (format!("HTTP/1.1 201 Created\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello{second}"), 502),
        (
            format!(
                "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\ncontent-length: 40\r\n\r\n5\r\nhello\r\n0\r\n\r\n{second}"
            ),
            201,
        ),
        (format!("HTTP/1.1 201 Created\r\nx: a\rb\r\ncontent-length: 5\r\n\r\nhello{second}"), 502),
        (format!("HTTP/1.1 201 Created\r\nx: a\0b\r\ncontent-length: 5\r\n\r\nhello{second}"), 502),
        (format!("HTTP/1.1 201 Created\r\nx y: a\r\ncontent-length: 5\r\n\r\nhello{second}"), 502),
        (format!("HTTP/1.1 201 Created\r\ncontent-length: 5x\r\n\r\nhello{second}"), 502),
        (
            format!(
                "{}HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\nhello",
                "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000)
            ),
            201,
        ),
        (
            format!(
                "{}HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\nhello",
                "HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n".repeat(1000)
            ),
            201,
        ),
        ("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n".into(), 502),
    ] {
        let serving = async {
            let mut stream = raw::accept(&listener).await;
            raw::head(&mut stream).await;
            raw::write(&mut stream, &answer).await;
        };
        let sent = world.request("GET /charges/1", &world.alice, &[], "");
        let (heard, ()) = tokio::join!(world.hear(sent, 1), serving);
        assert_eq!(heard.statuses, [status], "{:?}: {}", &answer[..answer.len().min(200)], heard.text);
        assert!(!heard.text.contains("forged"), "{}", heard.text);
        assert_eq!(status == 201, heard.text.contains("hello"), "{}", heard.text);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_api_key_stays_here_however_much_space_is_before_it_a5() {
    let world = World::start().await;
    for space in [" ", "  ", "     ", " \t"] {
        for (line, key) in [("POST /raw", space.len().to_string()), ("POST /open", String::new())] {
            let credentials = format!("bearer{space}{}", world.alice);
            let headers = [("authorization", credentials.as_str()), ("idempotency-key", key.as_str())];
            let count = if key.is_empty() { 1 } else { 2 };
            world.ask(line, "", &headers[..count], "hello").await;
        }
    }
    assert!(world.service.count() >= 6, "spaces are space (RFC 9110, 11.4)");
    for arrived in world.service.arrived() {
        assert!(!arrived.head.contains(&world.alice), "{}", arrived.head);
    }
}

#[tokio::test]
async fn all_that_a_trusted_peer_says_about_those_before_it_goes_on_h11() {
    let world = World::with(|settings| settings.auth.trusted = vec!["127.0.0.1/32".parse().unwrap()]).await;
    let said = [
        ("x-forwarded-for", "192.0.2.1"),
        ("forwarded", "for=192.0.2.1"),
        ("x-forwarded-for", "192.0.2.2, 192.0.2.3"),
        ("forwarded", "for=192.0.2.2, for=192.0.2.3"),
        ("x-forwarded-for", ""),
    ];
    assert_eq!(world.ask("POST /open", &world.alice, &said, "hello").await.status, 201);
    let arrived = world.service.last();
    assert_eq!(arrived.header("x-forwarded-for").unwrap(), "192.0.2.1, 192.0.2.2, 192.0.2.3, 127.0.0.1");
    assert_eq!(
        arrived.header("forwarded").unwrap(),
        "for=192.0.2.1, for=192.0.2.2, for=192.0.2.3, for=127.0.0.1;host=\"edge.example\";proto=http"
    );
}

#[tokio::test]
async fn what_a_service_sends_back_of_hapaxs_own_reaches_no_caller_a5() {
    let world = World::start().await;
    let keyed = [("idempotency-key", "k")];
    for (line, headers) in
        [("POST /raw", &keyed[..]), ("POST /raw", &keyed), ("POST /open", &[]), ("GET /charges", &[])]
    {
        let got = world.ask(line, &world.alice, headers, "").await;
        assert_eq!(got.status, 201, "{line}");
        assert!(got.headers.iter().all(|(_, value)| value != "forged"), "{line}: {:?}", got.headers);
        for name in ["idempotency-key", "hapax-listener"] {
            assert_eq!(got.header(name), None, "{line}");
        }
    }
}
