//! WebSocket connections and the end of the process: both sides are told, at a frame's end, and nobody's exit code suffers (H11).

use std::sync::Arc;
use std::time::Duration;

use hapax_gateway::settings::Upstream;
use hapax_testkit::raw::{self, PATIENCE, head, write};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::World;

/// A text frame of a service.
const HELLO: &[u8] = b"\x81\x05hello";
/// The same of a client, masked with zeroes.
const MASKED: &[u8] = b"\x81\x85\0\0\0\0hello";
/// Going away, as a client is told.
const CLOSE: &[u8] = &[0x88, 2, 0x03, 0xe9];

/// A WebSocket through an edge, both ends in the test's hand.
async fn tunnel(version: &str) -> (World, TcpStream, TcpStream) {
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    let world = World::with(|settings| {
        let upstream = Arc::new(Upstream::new("s", "127.0.0.1", port));
        settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
    })
    .await;
    let mut client = world.connect().await;
    let headers = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", version)];
    write(&mut client, &world.request("GET /charges/live", &world.alice, &headers, "")).await;
    let mut service = raw::accept(&listener).await;
    head(&mut service).await;
    let switch = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    write(&mut service, switch).await;
    head(&mut client).await;
    (world, client, service)
}

async fn bytes(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    timeout(PATIENCE, stream.read_exact(&mut bytes)).await.expect("bytes in time").unwrap();
    bytes
}

/// What a service is told, without its mask.
async fn unmasked_close(service: &mut TcpStream) -> Vec<u8> {
    let told = bytes(service, 8).await;
    assert_eq!(told[1] & 0x80, 0x80, "to a service frames are masked");
    vec![told[0], told[1] & 0x7f, told[6] ^ told[2], told[7] ^ told[3]]
}

#[tokio::test]
async fn an_open_websocket_is_told_at_both_ends_that_the_process_ends_and_the_drain_is_clean_h11() {
    let (world, mut client, mut service) = tunnel("13").await;
    service.write_all(HELLO).await.unwrap();
    client.write_all(MASKED).await.unwrap();
    assert_eq!(bytes(&mut client, HELLO.len()).await, HELLO);
    assert_eq!(bytes(&mut service, MASKED.len()).await, MASKED);
    let ends = async {
        assert_eq!(bytes(&mut client, CLOSE.len()).await, CLOSE);
        assert_eq!(unmasked_close(&mut service).await, CLOSE);
        // Both answer, as they must, and are hung up on.
        client.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.unwrap();
        service.write_all(&[0x88, 0]).await.unwrap();
        assert_eq!(raw::rest(&mut client).await, "");
    };
    let (clean, ()) = tokio::join!(timeout(PATIENCE, world.gateway.drain(PATIENCE)), ends);
    assert!(clean.expect("an end in time"));
}

#[tokio::test]
async fn a_close_frame_stands_behind_a_frame_and_never_within_one_h11() {
    let (world, mut client, mut service) = tunnel("13").await;
    let (first, rest) = HELLO.split_at(4);
    let (masked_first, masked_rest) = MASKED.split_at(8);
    service.write_all(first).await.unwrap();
    client.write_all(masked_first).await.unwrap();
    assert_eq!(bytes(&mut client, first.len()).await, first);
    assert_eq!(bytes(&mut service, masked_first.len()).await, masked_first);
    let ends = async {
        // Until the drain has begun nothing tells the tunnel to end.
        raw::until("the drain", || world.gateway.admission().is_draining()).await;
        let early = timeout(Duration::from_millis(200), client.read_u8()).await;
        assert!(early.is_err(), "nothing comes within a frame: {early:?}");
        // What stands behind the frame is not passed on any more.
        service.write_all(&[rest, HELLO].concat()).await.unwrap();
        client.write_all(masked_rest).await.unwrap();
        assert_eq!(bytes(&mut client, rest.len() + CLOSE.len()).await, [rest, CLOSE].concat());
        assert_eq!(bytes(&mut service, masked_rest.len()).await, masked_rest);
        assert_eq!(unmasked_close(&mut service).await, CLOSE);
        drop((client, service));
    };
    let (clean, ()) = tokio::join!(timeout(PATIENCE, world.gateway.drain(PATIENCE)), ends);
    assert!(clean.expect("an end in time"));
}

#[tokio::test]
async fn a_websocket_that_stays_within_a_frame_or_speaks_otherwise_is_cut_and_the_drain_is_clean_h11() {
    for (version, sent) in [("13", &b"\x81\x7d and no more"[..]), ("8", HELLO)] {
        let (world, mut client, mut service) = tunnel(version).await;
        service.write_all(sent).await.unwrap();
        assert_eq!(bytes(&mut client, sent.len()).await, sent);
        let within = if version == "13" { Duration::from_millis(500) } else { PATIENCE };
        assert!(timeout(PATIENCE, world.gateway.drain(within)).await.expect("an end in time"), "{version}");
        let mut told = Vec::new();
        let _ = timeout(PATIENCE, client.read_to_end(&mut told)).await.expect("an end in time");
        assert_eq!(told, b"", "{version}: no word within a frame");
    }
}
