//! What the log says of requests that failed: because of which service, and why (O2); and of what is no request (O1).

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::rig::caller::{ALICE, send};
use crate::rig::{Ground, Hapax, Kind};

/// Routes to services that fail, each in its own way: with a key and without one.
async fn ground() -> (Ground, hapax_testkit::port::Port) {
    let mut ground = Ground::new(Kind::Embedded).await;
    let gone = hapax_testkit::port::Port::reserve().unwrap();
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (service, silent, sealed) =
        (ground.service.address(), deaf.local_addr().unwrap(), plain.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = plain.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 No TLS\r\n\r\n").await;
        }
    });
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = deaf.accept().await {
            open.push(stream);
        }
    });
    for (name, url, more) in [
        ("gone", format!("http://127.0.0.1:{}", gone.number()), ""),
        ("nowhere", "http://nowhere.invalid".to_owned(), ""),
        ("sealed", format!("https://{sealed}"), ""),
        ("silent", format!("http://{silent}"), "timeout = \"300ms\"\n"),
        ("odd", format!("http://{service}"), ""),
    ] {
        ground.sections += &format!("[upstreams.{name}]\nurl = \"{url}\"\n{more}");
        for (method, policy, operation) in [
            ("POST", "REQUIRED_A", format!("operation = \"{name}\"\n")),
            ("GET", "PROHIBITED", String::new()),
        ] {
            ground.routes += &format!(
                "[[routes]]\nmethod = \"{method}\"\npath = \"/{name}\"\npolicy = \"{policy}\"\nupstream = \"{name}\"\n{operation}"
            );
        }
    }
    (ground, gone)
}

/// A line of the log about a request to this path with this method, with this in it.
pub(crate) async fn line(edge: &Hapax, method: &str, path: &str, part: &str) -> String {
    let parts = [&format!("method={method} "), &format!("endpoint=\"{path}\""), part];
    let find = || {
        let told = edge.told();
        let found = told.lines().rfind(|line| parts.iter().all(|part| line.contains(part)));
        found.map(str::to_owned)
    };
    crate::rig::process::eventually(&format!("{parts:?} in {}", edge.told()), async || find().is_some())
        .await;
    find().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_request_is_a_warning_that_names_the_service_and_the_cause_o2() {
    let (ground, _gone) = ground().await;
    let edge = ground.serve().await;
    let key = |key: &'static str| [("idempotency-key", key), ("x-do", "")];
    for (name, cause) in [
        ("gone", "refused"),
        ("nowhere", "lookup"),
        ("sealed", "no connection to sealed: "),
        ("silent", "no answer within 300ms"),
    ] {
        edge.send(ALICE, &format!("POST /{name}"), &key("k"), "").await;
        edge.send(ALICE, &format!("GET /{name}"), &[], "").await;
        for method in ["POST", "GET"] {
            let line = line(&edge, method, &format!("/{name}"), cause).await;
            assert!(line.contains("WARN") && line.contains(&format!("upstream=\"{name}\"")), "{line}");
            assert!(line.contains("cause=\""), "{line}");
        }
    }
    for (does, cause, event) in [
        ("cut", "the connection ended before the answer did", "unknown"),
        ("status=502", "the service answered 502", "unknown"),
        ("status=503", "the service answered 503", "released"),
        ("status=500", "the service answered 500", "executed"),
    ] {
        edge.post("/odd", &does.replace('=', "-"), "", does).await;
        edge.send(ALICE, "GET /odd", &[("x-do", does)], "").await;
        for method in ["POST", "GET"] {
            let line = line(&edge, method, "/odd", &format!("cause=\"{cause}")).await;
            assert!(line.contains("WARN") && line.contains("upstream=\"odd\""), "{does}: {line}");
            assert!(method == "GET" || line.contains(event), "{does}: {line}");
        }
    }
    // What the service says about its outcome and nobody can read is not passed over (H4).
    edge.post("/odd", "unread", "", "status=503;outcome=soon").await;
    let line_of_unread = line(&edge, "POST", "/odd", "Idempotency-Outcome is not one of").await;
    assert!(
        line_of_unread.contains("WARN") && line_of_unread.contains("outcome-unknown"),
        "{line_of_unread}"
    );
    // Nobody is to blame for a retry, nor for an answer of another kind.
    edge.post("/odd", "status-500", "", "").await;
    edge.send(ALICE, "GET /charges", &[("x-do", "status=404")], "").await;
    let (retry, answer) = ("event=\"replayed\"", "status=404");
    for line in [line(&edge, "POST", "/odd", retry).await, line(&edge, "GET", "/charges", answer).await] {
        assert!(line.contains("INFO") && !line.contains("upstream="), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_as_a_request_is_counted_and_logged_o1_o2() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(300));
    let target = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "t".repeat(20_000));
    for (bytes, status) in [("\0\u{1}\r\n\r\n", 400), (&long, 431), (&many, 431), (&target, 431)] {
        let got = send(edge.edge, bytes.as_bytes()).await.expect("a refusal");
        assert_eq!(got.status, status, "{:?}", &bytes[..bytes.len().min(40)]);
    }
    let metrics = edge.ask("GET /metrics", "").await.text();
    for (event, status, count) in [("request-malformed", 400, 1), ("head-too-large", 431, 3)] {
        let line = format!(
            "hapax_requests_total{{tenant=\"_none\",project=\"_none\",endpoint=\"_none\",event=\"{event}\",status=\"{status}\"}} {count}"
        );
        assert!(metrics.contains(&line), "{line}: {metrics}");
        edge.tells(&format!("endpoint=\"_none\" status={status} event=\"{event}\" peer=127.0.0.1:")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_be_let_in_because_nobody_can_say_is_a_warning_with_the_cause_o2_a7() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let gone = hapax_testkit::port::Port::reserve().unwrap();
    ground.sections = format!(
        "[auth.verify]\nurl = \"http://127.0.0.1:{}/verify\"\ntoken_env = \"HAPAX_ADMIN_TOKEN\"\n",
        gone.number()
    );
    let edge = ground.serve().await;
    let request = "POST /charges HTTP/1.1\r\nhost: a\r\nauthorization: Bearer somebodys\r\nidempotency-key: k\r\n\
                   content-length: 0\r\n\r\n";
    let refused = send(edge.edge, request.as_bytes()).await.unwrap();
    assert_eq!(refused.problem(), (502, "upstream-unreachable".into()));
    let line = line(&edge, "POST", "/charges", "status=502").await;
    assert!(line.contains("WARN") && line.contains("cause=\"the verifying service gave no answer"), "{line}");
    assert!(line.contains(&gone.number().to_string()) && line.contains("refused"), "{line}");
    assert!(
        !line.contains("upstream=") && !line.contains("somebodys"),
        "the service is not to blame: {line}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_a_caller_was_not_let_in_is_logged_and_not_told_o2_a2() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let secret = "0".repeat(54);
    let wrong = format!("authorization: Bearer hpx_0123456789abcdef_{secret}\r\n");
    for (shown, reason) in [
        ("authorization: Basic c2VjcmV0\r\n", "the authorization scheme is not Bearer"),
        ("authorization: Bearer secret\r\n", "no configured method takes such a credential"),
        (&wrong, "this is not an API key as hapax writes it"),
        ("x-tenant-id: acme\r\n", "a trusted peer named only a part of its caller"),
    ] {
        let request = format!(
            "POST /charges HTTP/1.1\r\nhost: a\r\n{shown}idempotency-key: k\r\ncontent-length: 0\r\n\r\n"
        );
        let refused = send(edge.edge, request.as_bytes()).await.unwrap();
        assert_eq!(refused.problem(), (401, "unauthenticated".into()), "{shown}");
        assert!(
            !refused.text().contains(reason),
            "the caller is told no more than before: {}",
            refused.text()
        );
        let line = line(&edge, "POST", "/charges", &format!("cause=\"{reason}")).await;
        assert!(
            line.contains("INFO") && line.contains("status=401") && line.contains("peer=127.0.0.1:"),
            "{line}"
        );
        for secret in ["c2VjcmV0", "secret", &secret] {
            assert!(!edge.told().contains(secret), "{}", edge.told());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_with_too_many_connections_is_warned_about_once_and_counted_h11() {
    let ground = Ground::new(Kind::Embedded).await;
    let path = ground.write("hapax");
    let few = ground.configuration().replace("max_connections = 40000", "max_connections_per_address = 2");
    std::fs::write(&path, few).unwrap();
    let edge = Hapax::start(&path, &[]).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = tokio::net::TcpStream::connect(edge.edge).await.unwrap();
        // Answered, it is counted: two threads accept.
        stream.write_all(b"GET /nowhere HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0);
        open.push(stream);
    }
    for _ in 0..5 {
        let mut refused = tokio::net::TcpStream::connect(edge.edge).await.unwrap();
        assert_eq!(hapax_testkit::raw::rest(&mut refused).await, "");
    }
    edge.tells("connections of an address are refused").await;
    let metrics = edge.ask("GET /metrics", "").await.text();
    let counted = "hapax_connections_refused_total{limit=\"max_connections_per_address\"} 5\n";
    assert!(metrics.contains(counted), "{metrics}");
    let told = edge.told();
    let lines: Vec<_> = told.lines().filter(|line| line.contains("are refused")).collect();
    assert!(lines.len() == 1 && lines[0].contains("WARN"), "{lines:?}");
    assert!(
        lines[0].contains("address=127.0.0.1") && lines[0].contains("max_connections_per_address=2"),
        "{lines:?}"
    );
}
