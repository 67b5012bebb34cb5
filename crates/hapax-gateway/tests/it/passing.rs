//! Routes where nothing is kept: bytes pass as they come, both ways, and no more than bytes (H11).

use std::sync::Arc;
use std::time::Duration;

use hapax_gateway::settings::{Settings, Upstream};
use hapax_testkit::raw::{self, PATIENCE, exactly, head, rest, write};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::world::World;

/// An edge before a service that the test plays itself.
async fn world() -> (World, TcpListener) {
    world_with(|_, _| {}).await
}

/// Every time-out of an edge that is in a hurry; long enough for whatever happens at once.
const HASTE: Duration = Duration::from_millis(1_500);

/// The same with an edge that is in a hurry.
async fn hasty_world() -> (World, TcpListener) {
    world_with(|settings, upstream| (settings.edge.idle_timeout, upstream.timeout) = (HASTE, HASTE)).await
}

async fn world_with(change: impl FnOnce(&mut Settings, &mut Upstream)) -> (World, TcpListener) {
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    let world = World::with(|settings| {
        let mut upstream = Upstream::new("s", "127.0.0.1", port);
        change(settings, &mut upstream);
        let upstream = Arc::new(upstream);
        settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
    })
    .await;
    (world, listener)
}

fn websocket(world: &World, extra: &[(&str, &str)]) -> String {
    let mut headers = vec![
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
    ];
    headers.extend(extra);
    world.request("GET /charges/live", &world.alice, &headers, "")
}

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nx-operation-id: forged\r\n\r\n";

#[tokio::test]
async fn a_websocket_echoes_through_the_edge_h11() {
    let (world, listener) = hasty_world().await;
    let mut client = world.connect().await;
    write(&mut client, &websocket(&world, &[("x-tenant-id", "globex")])).await;
    let mut service = raw::accept(&listener).await;
    let asked = head(&mut service).await;
    assert!(asked.starts_with("GET /charges/live HTTP/1.1\r\n"), "{asked}");
    for said in [
        "upgrade: websocket\r\n",
        "connection: upgrade\r\n",
        "x-tenant-id: acme\r\n",
        "x-subject: user:alice\r\n",
    ] {
        assert!(asked.contains(said), "{said} in {asked}");
    }
    assert!(!asked.contains("globex") && !asked.contains("hpx_"), "{asked}");
    write(&mut service, &format!("{SWITCH}early")).await;
    let switched = head(&mut client).await;
    assert!(
        switched.starts_with("HTTP/1.1 101 ") && switched.contains("sec-websocket-accept: s3pPLM"),
        "{switched}"
    );
    assert!(!switched.contains("forged"), "{switched}");
    assert_eq!(exactly(&mut client, 5).await, "early");
    for round in 0..50 {
        // What looks like a request is none any more, and silence longer than any time-out of a request is none either.
        let frame = format!("GET / HTTP/1.1\n\n{round:03}");
        write(&mut client, &frame).await;
        let heard = exactly(&mut service, frame.len()).await;
        write(&mut service, &heard).await;
        assert_eq!(exactly(&mut client, frame.len()).await, frame);
    }
    tokio::time::sleep(HASTE * 3 / 2).await;
    write(&mut service, "still here").await;
    assert_eq!(exactly(&mut client, 10).await, "still here");
    drop(client);
    assert_eq!(rest(&mut service).await, "", "the end passes, too");
}

/// Whether the kernel sees to it that the other end of this connection is still there.
#[cfg(target_os = "linux")]
fn is_watched(local: u16, remote: u16) -> bool {
    let port = |address: &str| u16::from_str_radix(address.split(':').nth(1).unwrap(), 16).unwrap();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let mut rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| port(row[1]) == local && port(row[2]) == remote).expect("a connection");
    row[5].starts_with("02:")
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_tunnel_whose_peer_has_vanished_comes_to_its_end_h11() {
    let (world, listener) = world().await;
    let mut client = world.connect().await;
    write(&mut client, &websocket(&world, &[])).await;
    let mut service = raw::accept(&listener).await;
    head(&mut service).await;
    write(&mut service, SWITCH).await;
    head(&mut client).await;
    // What passes shows that the tunnel stands.
    write(&mut client, "hello").await;
    assert_eq!(exactly(&mut service, 5).await, "hello");
    let port = |address: std::io::Result<std::net::SocketAddr>| address.unwrap().port();
    let clients = (world.gateway.address().port(), port(client.local_addr()));
    let services = (port(service.peer_addr()), port(service.local_addr()));
    for (local, remote) in [clients, services] {
        hapax_testkit::raw::until("the kernel looks after it", || is_watched(local, remote)).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_answer_whose_reader_or_writer_has_vanished_comes_to_its_end_h11() {
    let (world, listener) = world().await;
    let mut client = world.connect().await;
    write(&mut client, &world.request("GET /charges/live", &world.alice, &[], "")).await;
    let mut service = raw::accept(&listener).await;
    head(&mut service).await;
    write(&mut service, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n").await;
    head(&mut client).await;
    // Silence may last for as long as it likes.
    let port = |address: std::io::Result<std::net::SocketAddr>| address.unwrap().port();
    let clients = (world.gateway.address().port(), port(client.local_addr()));
    let services = (port(service.peer_addr()), port(service.local_addr()));
    for (local, remote) in [clients, services] {
        hapax_testkit::raw::until("the kernel looks after it", || is_watched(local, remote)).await;
    }
}

#[tokio::test]
async fn what_a_client_sends_behind_the_body_of_its_websocket_arrives_h11() {
    let (world, listener) = world().await;
    let mut client = world.connect().await;
    let ask = websocket(&world, &[("transfer-encoding", "chunked")]);
    write(&mut client, &format!("{ask}0\r\n\r\nearly")).await;
    let mut service = raw::accept(&listener).await;
    let asked = head(&mut service).await;
    if asked.contains("transfer-encoding: chunked\r\n") {
        assert_eq!(exactly(&mut service, 5).await, "0\r\n\r\n");
    }
    write(&mut service, SWITCH).await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 101 "));
    assert_eq!(exactly(&mut service, 5).await, "early");
    write(&mut client, "later").await;
    assert_eq!(exactly(&mut service, 5).await, "later");
}

#[tokio::test]
async fn a_service_that_will_not_switch_answers_and_nothing_is_tunnelled_h11() {
    let (world, listener) = world().await;
    let mut client = world.connect().await;
    write(&mut client, &websocket(&world, &[])).await;
    let mut service = raw::accept(&listener).await;
    head(&mut service).await;
    write(
        &mut service,
        "HTTP/1.1 426 Upgrade Required\r\nsec-websocket-version: 99\r\ncontent-length: 2\r\n\r\nno",
    )
    .await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 426 "));
    assert_eq!(exactly(&mut client, 2).await, "no");
    write(&mut client, "POST /internal HTTP/1.1\nx-tenant-id: globex\n\n").await;
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 400"), "still read as requests, and as strictly");
}

/// A tunnel that speaks HTTP would lead past the edge to every path of the service, with every header.
#[tokio::test]
async fn no_tunnel_is_offered_for_anything_but_websockets_h11() {
    let (world, listener) = world().await;
    for upgrade in ["h2c", "H2C", "h2c, websocket", "websocket, h2c", "TLS/1.0", "HTTP/2.0", "chat", ""] {
        let headers =
            [("connection", "upgrade, http2-settings"), ("upgrade", upgrade), ("http2-settings", "AAMAAABk")];
        let mut client = world.connect().await;
        write(&mut client, &world.request("GET /charges/live", &world.alice, &headers, "")).await;
        let mut service = raw::accept(&listener).await;
        let asked = head(&mut service).await.to_ascii_lowercase();
        assert!(
            !asked.contains("upgrade") && !asked.contains("h2c") && !asked.contains("http2-settings"),
            "{asked}"
        );
        // Even a service that insists gets no tunnel.
        write(
            &mut service,
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        )
        .await;
        let answer = head(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{upgrade:?}: {answer}");
    }
    let two = [("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")];
    let mut client = world.connect().await;
    write(&mut client, &world.request("GET /charges/live", &world.alice, &two, "")).await;
    let mut service = raw::accept(&listener).await;
    assert!(!head(&mut service).await.contains("upgrade"));
}

#[tokio::test]
async fn a_keyed_request_is_never_a_tunnel_h11() {
    let (world, listener) = world().await;
    let headers = [("idempotency-key", "k-1"), ("connection", "upgrade"), ("upgrade", "websocket")];
    let mut client = world.connect().await;
    write(&mut client, &world.request("POST /raw", &world.alice, &headers, "")).await;
    let mut service = raw::accept(&listener).await;
    assert!(!head(&mut service).await.contains("upgrade"));
    write(&mut service, SWITCH).await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 409 "));
}

#[tokio::test]
async fn events_arrive_as_they_are_sent_and_as_long_as_they_are_h11() {
    let (world, listener) = hasty_world().await;
    let mut client = world.connect().await;
    write(
        &mut client,
        &world.request("GET /charges/events", &world.alice, &[("accept", "text/event-stream")], ""),
    )
    .await;
    let mut service = raw::accept(&listener).await;
    head(&mut service).await;
    write(
        &mut service,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )
    .await;
    let answer = head(&mut client).await;
    assert!(answer.contains("content-type: text/event-stream\r\n"), "{answer}");
    for number in 0..20 {
        let event = format!("data: {number:02}\n\n");
        write(&mut service, &format!("{:x}\r\n{event}\r\n", event.len())).await;
        // Each is there before the next one is sent.
        let chunk = exactly(&mut client, event.len() + 5).await;
        assert_eq!(chunk, format!("{:x}\r\n{event}\r\n", event.len()));
        if number % 10 == 0 {
            // Longer than every time-out there is.
            tokio::time::sleep(HASTE * 5 / 4).await;
        }
    }
    drop(client);
    tokio::time::timeout(PATIENCE, async {
        while service.write_all(b"1\r\nx\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the service hears that nobody listens any more");
}

#[tokio::test]
async fn long_bodies_stream_both_ways_and_are_not_held_h11() {
    const PIECE: usize = 1 << 16;
    const PIECES: usize = 64;
    let (world, listener) = hasty_world().await;
    let mut client = world.connect().await;
    let length = (PIECE * PIECES).to_string();
    write(&mut client, &world.request("POST /open", &world.alice, &[("content-length", &length)], "")).await;
    let mut service = raw::accept(&listener).await;
    let asked = head(&mut service).await;
    assert!(asked.contains(&format!("content-length: {length}\r\n")), "{asked}");
    let piece = "x".repeat(PIECE);
    for number in 0..PIECES {
        write(&mut client, &piece).await;
        assert_eq!(exactly(&mut service, PIECE).await, piece, "a piece arrives before the next one is sent");
        assert_eq!(world.gateway.admission().buffered(), 0);
        if number % 20 == 0 {
            // In all longer than the time-out of the service: an upload is no silence.
            tokio::time::sleep(HASTE / 3).await;
        }
    }
    write(&mut service, &format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n")).await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 200 OK\r\n"));
    for _ in 0..PIECES {
        write(&mut service, &piece).await;
        assert_eq!(exactly(&mut client, PIECE).await, piece);
    }
    assert_eq!(world.gateway.admission().buffered(), 0);
}

#[tokio::test]
async fn a_service_that_does_not_read_holds_the_client_back_and_not_the_edges_memory_h11() {
    let (world, listener) = world().await;
    let mut client = world.connect().await;
    let headers = [("content-length", "1000000000")];
    write(&mut client, &world.request("POST /open", &world.alice, &headers, "")).await;
    let service = raw::accept(&listener).await;
    let mut written = 0;
    let piece = vec![b'x'; 1 << 16];
    while let Ok(Ok(count)) =
        tokio::time::timeout(Duration::from_millis(200), tokio::io::AsyncWriteExt::write(&mut client, &piece))
            .await
    {
        written += count;
        assert!(written < 64 << 20, "somebody holds {written} bytes");
    }
    drop(service);
}

#[tokio::test]
async fn head_and_options_follow_the_route_p7() {
    let world = World::start().await;
    let got = world.send(world.request("HEAD /charges/1", &world.alice, &[], "")).await.unwrap();
    assert_eq!((got.status, world.service.last().line()), (201, "HEAD /charges/1 HTTP/1.1"));
    assert!(got.header("content-length").is_some(), "as a GET would have");
    assert_eq!(world.send(world.request("HEAD /charges/1", "", &[], "")).await.unwrap().status, 401);
    assert_eq!(world.send(world.request("HEAD /raw", &world.alice, &[], "")).await.unwrap().status, 405);
    assert_eq!(world.send(world.request("HEAD /nowhere", &world.alice, &[], "")).await.unwrap().status, 404);
    let before = world.service.count();
    for (path, allow) in [
        ("/charges", "GET, POST, HEAD, OPTIONS"),
        ("/raw", "POST, OPTIONS"),
        ("/operations/op_1", "GET, HEAD, OPTIONS"),
    ] {
        let got = world.ask(&format!("OPTIONS {path}"), "", &[], "").await;
        assert_eq!((got.status, got.header("allow")), (204, Some(allow)), "{path}");
    }
    assert_eq!(world.ask("OPTIONS /nowhere", "", &[], "").await.status, 404);
    assert_eq!(world.service.count(), before);
    // What is kept can be looked at without its body.
    world.charge("k-1", "{}", &[]).await;
    let line = "HEAD /charges/by-idempotency-key/k-1";
    let got = world.send(world.request(line, &world.alice, &[], "")).await.unwrap();
    assert_eq!((got.status, got.is_replay(), got.body.len()), (201, true, 0));
}

#[tokio::test]
async fn a_connection_serves_one_caller_after_the_other_without_mixing_them_up_a6() {
    let world = World::start().await;
    let mut stream: TcpStream = world.connect().await;
    for (who, subject) in
        [(&world.alice, "user:alice"), (&world.bob, "user:bob"), (&world.alice, "user:alice")]
    {
        write(&mut stream, &world.request("POST /open", who, &[], "x")).await;
        let got = crate::world::client::read_answer(&mut stream, false).await.unwrap();
        assert_eq!((got.status, world.service.last().header("x-subject")), (201, Some(subject.into())));
    }
    write(&mut stream, &world.request("POST /open", "", &[], "x")).await;
    assert_eq!(crate::world::client::read_answer(&mut stream, false).await.unwrap().status, 401);
}
