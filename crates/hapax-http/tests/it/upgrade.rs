//! A change of protocol through both halves: the listener and the pool.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax_http::listener::{self, Drained, Handler, Incoming, OnSwitch, Peer, Thread};
use hapax_http::settings::Service;
use hapax_http::upstream::{Incoming as Answer, Outgoing, Pool, Upgrade};
use hapax_testkit::raw::{self, PATIENCE, exactly, head, rest, write};
use http::{Request, Response};
use http_body_util::{Either, Empty};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::listener::edge;

struct Tunnel {
    pool: Pool,
    thread: Thread,
}

impl Handler for Tunnel {
    type Body = Either<Answer, Empty<Bytes>>;

    async fn handle(self: Arc<Self>, mut request: Request<Incoming>, _: Peer) -> Response<Self::Body> {
        let client = request.extensions_mut().remove::<OnSwitch>().unwrap();
        let request = request.map(|_| Outgoing::Empty);
        match self.pool.upgrade(request).await.unwrap() {
            Upgrade::Refused(response) => response.map(Either::Left),
            Upgrade::Switched(response, mut service) => {
                self.thread.tasks.spawn(async move {
                    let mut client = client.switched().await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut service).await;
                });
                response.map(|()| Either::Right(Empty::new()))
            }
        }
    }
}

const ASK: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n";

#[tokio::test]
async fn after_a_101_bytes_pass_unchanged_both_ways_h11() {
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    let running =
        listener::start(&edge(|edge| edge.idle_timeout = Duration::from_millis(100)), None, move |thread| {
            Tunnel { pool: Pool::new(Service::new("s", "127.0.0.1", port)).unwrap(), thread }
        })
        .unwrap();
    let mut client = TcpStream::connect(running.address()).await.unwrap();
    write(&mut client, ASK).await;
    let mut service = raw::accept(&listener).await;
    assert!(head(&mut service).await.contains("upgrade: chat\r\n"));
    write(
        &mut service,
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\nfirst\n",
    )
    .await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 101 Switching Protocols\r\n"));
    assert_eq!(exactly(&mut client, 6).await, "first\n");
    // Longer than silence may last in HTTP.
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..3 {
        write(&mut client, "\n\0ping\n").await;
        assert_eq!(exactly(&mut service, 7).await, "\n\0ping\n");
        write(&mut service, "\n\0pong\n").await;
        assert_eq!(exactly(&mut client, 7).await, "\n\0pong\n");
    }
    assert_eq!(running.counts().open, 1);
    let drain = tokio::spawn(running.drain(PATIENCE));
    write(&mut client, "last").await;
    assert_eq!(exactly(&mut service, 4).await, "last");
    assert!(!drain.is_finished());
    drop(client);
    assert_eq!(rest(&mut service).await, "");
    drop(service);
    assert_eq!(timeout(PATIENCE, drain).await.unwrap().unwrap(), Drained::default());
}

#[tokio::test]
async fn a_refused_upgrade_leaves_the_connection_as_strict_as_it_was_h11() {
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    let running = listener::start(&edge(|_| {}), None, move |thread| Tunnel {
        pool: Pool::new(Service::new("s", "127.0.0.1", port)).unwrap(),
        thread,
    })
    .unwrap();
    let mut client = TcpStream::connect(running.address()).await.unwrap();
    write(&mut client, ASK).await;
    let mut service = raw::accept(&listener).await;
    head(&mut service).await;
    write(&mut service, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 403 Forbidden\r\n"));
    assert_eq!(exactly(&mut client, 2).await, "no");
    write(&mut client, "GET /hello HTTP/1.1\nHost: a\r\n\r\n").await;
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 400 "));
}
