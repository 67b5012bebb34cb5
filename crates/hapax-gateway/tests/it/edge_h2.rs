//! Callers of the whole edge that speak HTTP/2: a key's life, and what HTTP/2 could smuggle into HTTP/1.1 behind.

use bytes::Bytes;
use hapax_testkit::raw::{self, PATIENCE};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::world::{World, change_rule};

pub(crate) type Sender = SendRequest<Full<Bytes>>;

pub(crate) async fn client(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Sender {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) async fn ask(sender: &mut Sender, request: Request<Full<Bytes>>) -> Response<Bytes> {
    let response = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
    let (head, body): (_, Incoming) = response.into_parts();
    Response::from_parts(head, timeout(PATIENCE, body.collect()).await.unwrap().unwrap().to_bytes())
}

pub(crate) fn charge(who: &str, key: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::post("http://edge.example/charges")
        .header("authorization", format!("Bearer {who}"))
        .header("idempotency-key", key)
        .body(Full::from(body))
        .unwrap()
}

#[tokio::test]
async fn a_key_lives_over_http2_as_over_http1_h3() {
    let world = World::start().await;
    let mut sender = client(world.connect().await).await;
    let first = ask(&mut sender, charge(&world.alice, "k-1", "{}")).await;
    let again = ask(&mut sender, charge(&world.alice, "k-1", "{}")).await;
    assert_eq!((first.status(), first.body()), (again.status(), again.body()));
    assert_eq!(
        (first.status().as_u16(), &again.headers()["idempotent-replayed"]),
        (201, &"true".parse().unwrap())
    );
    assert_eq!(first.headers()["x-operation-id"], again.headers()["x-operation-id"]);
    // And one protocol's answer is the other's.
    let over_http1 = world.charge("k-1", "{}", &[]).await;
    assert!(over_http1.is_replay());
    assert_eq!(over_http1.body, first.body().to_vec());
    assert_eq!(world.service.count(), 1);
    let arrived = world.service.last();
    assert_eq!(arrived.line(), "POST /charges HTTP/1.1");
    assert_eq!(arrived.header("x-forwarded-host").unwrap(), "edge.example");

    let many = (0..50).map(|_| {
        let mut sender = sender.clone();
        let request = charge(&world.alice, "k-2", "{}");
        async move { ask(&mut sender, request).await.status().as_u16() }
    });
    assert_eq!(futures_util::future::join_all(many).await, vec![201; 50]);
    assert_eq!(world.service.count(), 2);
    let refused = ask(&mut sender, charge(&world.alice, "k-2", "[]")).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["content-type"]),
        (422, &"application/problem+json".parse().unwrap())
    );
}

/// The bytes of a literal field, never indexed.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![0];
    for text in [name, value] {
        assert!(text.len() < 127 + 128);
        match text.len() {
            short @ 0..127 => block.push(short as u8),
            long => block.extend([127, (long - 127) as u8]),
        }
        block.extend(text.bytes());
    }
    block
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// What becomes of one stream.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    Answered,
    Reset,
    Closed,
}

/// Sends one stream by hand and waits for what becomes of it. Its fields are as given, with credentials added.
async fn by_hand(
    world: &World,
    fields: &[(&str, &str)],
    data: Option<&[u8]>,
    trailers: &[(&str, &str)],
) -> Became {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    let bearer = format!("Bearer {}", world.alice);
    let block: Vec<u8> = fields
        .iter()
        .chain(&[("authorization", bearer.as_str())])
        .flat_map(|(name, value)| field(name, value))
        .collect();
    bytes.extend(frame(1, if data.is_some() { 4 } else { 5 }, 1, &block));
    if let Some(data) = data {
        bytes.extend(frame(0, u8::from(trailers.is_empty()), 1, data));
        if !trailers.is_empty() {
            let block: Vec<u8> = trailers.iter().flat_map(|(name, value)| field(name, value)).collect();
            bytes.extend(frame(1, 5, 1, &block));
        }
    }
    let mut stream = world.connect().await;
    stream.write_all(&bytes).await.unwrap();
    loop {
        let mut head = [0; 9];
        if timeout(PATIENCE, stream.read_exact(&mut head)).await.expect("something becomes of it").is_err() {
            return Became::Closed;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await.unwrap();
        match head[3] {
            1 if head[8] == 1 => return Became::Answered,
            3 => return Became::Reset,
            7 => return Became::Closed,
            _ => {}
        }
    }
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "edge.example"), (":path", "/charges/1")];

#[tokio::test]
async fn what_http1_would_read_differently_does_not_get_through_http2_h11() {
    let world = World::start().await;
    assert_eq!(by_hand(&world, &GET, None, &[]).await, Became::Answered);
    assert_eq!(world.service.count(), 1, "the tool itself works");
    let path = |path| [GET[0], GET[1], GET[2], (":path", path)].to_vec();
    let with = |extra: &[(&'static str, &'static str)]| [&GET[..], extra].concat();
    for (what, fields) in [
        ("connection fields", with(&[("connection", "close")])),
        ("transfer-encoding", with(&[("transfer-encoding", "chunked")])),
        ("keep-alive", with(&[("keep-alive", "5")])),
        ("upgrade", with(&[("upgrade", "h2c")])),
        ("proxy-connection", with(&[("proxy-connection", "close")])),
        ("te", with(&[("te", "gzip")])),
        ("an upper-case name", with(&[("X-Upper", "1")])),
        ("a line end in a value", with(&[("x", "a\r\nx-tenant-id: globex")])),
        ("a line feed in a value", with(&[("x", "a\nb")])),
        ("a NUL in a value", with(&[("x", "a\0b")])),
        ("a line end in a name", with(&[("x\r\ny", "a")])),
        ("a colon in a name", with(&[("x:y", "a")])),
        ("a space in a name", with(&[("x y", "a")])),
        ("another host", with(&[("host", "other.example")])),
        ("two hosts", with(&[("host", "edge.example"), ("host", "edge.example")])),
        ("a pseudo field after others", [&[("x", "y")][..], &GET].concat()),
        ("an unknown pseudo field", with(&[(":tenant", "globex")])),
        ("no method", GET[1..].to_vec()),
        ("no path", GET[..3].to_vec()),
        ("no scheme", vec![GET[0], GET[2], GET[3]]),
        ("no authority", vec![GET[0], GET[1], GET[3]]),
        ("two paths", with(&[(":path", "/open")])),
        ("a path with dots", path("/charges/../open")),
        ("a path with an encoded slash", path("/charges%2f1")),
        ("a path with a line end", path("/charges/1 HTTP/1.1\r\nx: y")),
        ("a path with a space", path("/charges/1 HTTP/1.1")),
        ("an empty path", path("")),
        ("a relative path", path("charges/1")),
        ("a star", path("*")),
        ("a whole target", path("http://other.example/charges/1")),
        ("an authority with a user", vec![GET[0], GET[1], (":authority", "a@edge.example"), GET[3]]),
        ("an authority with a path", vec![GET[0], GET[1], (":authority", "edge.example/x"), GET[3]]),
        ("a method with a line end", vec![(":method", "GET / HTTP/1.1\r\nx: y"), GET[1], GET[2], GET[3]]),
        ("a tunnel", vec![(":method", "CONNECT"), (":authority", "edge.example:80")]),
        (
            "an extended tunnel",
            [&[(":method", "CONNECT"), (":protocol", "websocket")][..], &GET[1..]].concat(),
        ),
        ("two lengths", with(&[("content-length", "0"), ("content-length", "5")])),
    ] {
        by_hand(&world, &fields, None, &[]).await;
        assert_eq!(world.service.count(), 1, "{what} arrived: {}", world.service.last().head);
    }
}

#[tokio::test]
async fn lengths_and_trailers_of_http2_are_held_to_what_was_said_a5_h11() {
    let world = World::start().await;
    let post = |path: &'static str, extra: &[(&'static str, &'static str)]| {
        [&[(":method", "POST"), GET[1], GET[2], (":path", path)][..], extra].concat()
    };
    for (what, length) in [("more than said", "2"), ("less than said", "50")] {
        for fields in [
            post("/open", &[("content-length", length)]),
            post("/raw", &[("content-length", length), ("idempotency-key", "k-1")]),
        ] {
            by_hand(&world, &fields, Some(b"hello"), &[]).await;
            assert_eq!(world.service.count(), 0, "{what}: {fields:?}");
        }
    }
    let trailers = [("idempotency-key", "late"), ("x-tenant-id", "globex")];
    for (number, fields) in
        [post("/open", &[]), post("/internal", &[]), post("/raw", &[("idempotency-key", "k-1")])]
            .iter()
            .enumerate()
    {
        assert_eq!(by_hand(&world, fields, Some(b"hello"), &trailers).await, Became::Answered);
        let arrived = world.service.last();
        assert_eq!((world.service.count(), arrived.body.as_slice()), (number + 1, &b"hello"[..]));
        assert!(!arrived.head.contains("late") && !arrived.head.contains("globex"), "{}", arrived.head);
    }
    by_hand(&world, &post("/raw", &[]), Some(b"hello"), &trailers).await;
    assert_eq!(world.service.count(), 3, "a trailer is no key");
}

#[tokio::test]
async fn what_the_edge_itself_answers_to_a_head_is_a_head_alone_h11() {
    let world = World::start().await;
    world.charge("k-1", "{}", &[]).await;
    let mut sender = client(world.connect().await).await;
    for (path, who, status) in [
        ("/nowhere", &world.alice, 404),
        ("/charges/1", &String::new(), 401),
        ("/charges/by-idempotency-key/k-1", &world.alice, 201),
        ("/charges/by-idempotency-key/never", &world.alice, 404),
        ("/.well-known/hapax/errors/not-found", &world.alice, 200),
        ("/charges/1", &world.alice, 201),
    ] {
        let request = |method: &str| {
            let request = Request::builder().method(method).uri(format!("http://edge.example{path}"));
            request.header("authorization", format!("Bearer {who}")).body(Full::default()).unwrap()
        };
        let whole = ask(&mut sender, request("GET")).await;
        let head = ask(&mut sender, request("HEAD")).await;
        assert_eq!((head.status().as_u16(), head.body().len()), (status, 0), "{path}");
        assert_eq!(head.headers().get("content-length"), whole.headers().get("content-length"), "{path}");
        assert_eq!(head.headers()["content-length"], whole.body().len().to_string(), "{path}");
    }
}

#[tokio::test]
async fn an_answer_without_a_body_says_no_length_of_it_over_http2_either_h11() {
    let world = World::start().await;
    let mut sender = client(world.connect().await).await;
    let told = |mut request: Request<Full<Bytes>>, told: &'static str| {
        request.headers_mut().insert("x-do", told.parse().unwrap());
        request
    };
    let get = Request::get("http://edge.example/charges/1")
        .header("authorization", format!("Bearer {}", world.alice));
    let passed = ask(&mut sender, told(get.body(Full::default()).unwrap(), "status=204;length=5")).await;
    let first = ask(&mut sender, told(charge(&world.alice, "k-1", "{}"), "status=204;length=5")).await;
    let again = ask(&mut sender, charge(&world.alice, "k-1", "{}")).await;
    for answer in [passed, first, again] {
        assert_eq!((answer.status().as_u16(), answer.headers().get("content-length")), (204, None));
    }
    // Of what is there and not sent it may be said (RFC 9110, 8.6).
    let unchanged = ask(&mut sender, told(charge(&world.alice, "k-2", "{}"), "status=304;length=5")).await;
    assert_eq!(
        (unchanged.status().as_u16(), &unchanged.headers()["content-length"]),
        (304, &"5".parse().unwrap())
    );
}

#[tokio::test]
async fn cookies_that_come_in_pieces_arrive_in_one_line_h11() {
    let world = World::start().await;
    let fields = [&GET[..], &[("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3")]].concat();
    assert_eq!(by_hand(&world, &fields, None, &[]).await, Became::Answered);
    assert_eq!(world.service.last().header("cookie").unwrap(), "a=1; b=2; c=3");
}

#[tokio::test]
async fn a_service_cannot_say_in_a_trailer_what_only_hapax_may_say_a5() {
    let listener = raw::listener().await;
    let world = World::with(|settings| {
        let port = listener.local_addr().unwrap().port();
        let upstream = std::sync::Arc::new(hapax_gateway::settings::Upstream::new("s", "127.0.0.1", port));
        settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
        change_rule(settings, "charge", |rule| rule.max_kept_response = 2);
    })
    .await;
    let mut sender = client(world.connect().await).await;
    let open =
        Request::post("http://edge.example/open").header("authorization", format!("Bearer {}", world.alice));
    for request in [open.body(Full::from("")).unwrap(), charge(&world.alice, "k-1", "")] {
        let asked = sender.send_request(request);
        let serving = async {
            let mut stream = raw::accept(&listener).await;
            raw::head(&mut stream).await;
            let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ntrailer: x-mine\r\ntransfer-encoding: chunked\r\n\r\n\
                5\r\nhello\r\n0\r\nx-mine: 1\r\nx-operation-id: forged\r\nidempotent-replayed: true\r\n\r\n";
            raw::write(&mut stream, answer).await;
        };
        let (response, ()) = tokio::join!(asked, serving);
        let whole = timeout(PATIENCE, response.unwrap().into_body().collect()).await.unwrap().unwrap();
        let trailers = whole.trailers().cloned().unwrap_or_default();
        assert_eq!((&trailers["x-mine"], trailers.len()), (&"1".parse().unwrap(), 1));
        assert_eq!(whole.to_bytes(), "hello");
    }
}

#[tokio::test]
async fn a_head_that_is_too_long_over_http2_is_a_problem_too_h1() {
    let world = World::start().await;
    let mut sender = client(world.connect().await).await;
    let long = Request::get("http://edge.example/charges/1")
        .header("authorization", format!("Bearer {}", world.alice))
        .header("x-long", "x".repeat(40_000))
        .body(Full::default())
        .unwrap();
    let refused = ask(&mut sender, long).await;
    assert_eq!(refused.status(), 431);
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
    let problem: serde_json::Value = serde_json::from_slice(refused.body()).unwrap();
    assert_eq!((problem["code"].as_str(), world.service.count()), (Some("head-too-large"), 0));
}

#[tokio::test]
async fn rapid_resets_start_little_and_harm_nobody_else_h11() {
    let world = World::start().await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    let bearer = format!("Bearer {}", world.alice);
    let block: Vec<u8> = GET
        .iter()
        .chain(&[("authorization", bearer.as_str()), ("x-do", "hold")])
        .flat_map(|(name, value)| field(name, value))
        .collect();
    for number in 0..2_000u32 {
        bytes.extend(frame(1, 5, 2 * number + 1, &block));
        bytes.extend(frame(3, 0, 2 * number + 1, &8u32.to_be_bytes()));
    }
    let mut stream = world.connect().await;
    let _ = stream.write_all(&bytes).await;
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the connection is ended");
    assert!(world.service.count() <= 200, "{} requests arrived", world.service.count());
    assert_eq!(world.charge("k-1", "{}", &[]).await.status, 201);
}
