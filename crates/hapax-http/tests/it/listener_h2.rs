//! The listener with clients that speak HTTP/2, and with TLS.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use hapax_http::listener::{self, Running};
use hapax_testkit::raw::{PATIENCE, exactly, head, rest, until};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates as tls;
use crate::listener::{Clerk, Desk, connect, edge, start};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

type Sender = http2::SendRequest<Empty<Bytes>>;

async fn client<T>(io: T) -> Sender
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// A client that lets so much of each answer come ahead.
async fn client_with_window(io: TcpStream, window: u32) -> Sender {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (sender, connection) = builder.handshake(TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://a{path}")).body(Empty::new()).unwrap()
}

async fn text(sender: &mut Sender, path: &str) -> String {
    let response = timeout(PATIENCE, sender.send_request(get(path))).await.unwrap().unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn http2_is_spoken_with_those_who_begin_with_it() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let mut sender = client(connect(&running).await).await;
    for _ in 0..3 {
        assert_eq!(text(&mut sender, "/hello").await, "hello 127.0.0.1 plain");
    }
    assert_eq!(running.counts().accepted, 1);
    // A preface that comes in pieces is one all the same, and one that breaks off is nothing.
    let mut stream = connect(&running).await;
    for byte in PREFACE {
        stream.write_all(&[*byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let mut frame = [0; 9];
    timeout(PATIENCE, stream.read_exact(&mut frame)).await.unwrap().unwrap();
    assert_eq!(frame[3], 4, "the server's settings come first");
    let mut stream = connect(&running).await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX").await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_handler_is_dropped_when_its_stream_is_reset_or_its_connection_ends_h5() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let mut sender = client(connect(&running).await).await;
    let call = tokio::spawn(sender.send_request(get("/wait")));
    until("the call", || desk.called.load(SeqCst) == 1).await;
    call.abort();
    until("the drop", || desk.dropped.load(SeqCst) == 1).await;
    assert_eq!(text(&mut sender, "/hello").await, "hello 127.0.0.1 plain");

    // By hand, because hyper's client does not hang up with a stream open.
    let mut stream = connect(&running).await;
    let mut bytes = opening();
    bytes.extend(request(1, "/wait"));
    stream.write_all(&bytes).await.unwrap();
    until("the call", || desk.called.load(SeqCst) == 3).await;
    drop(stream);
    until("the drop", || desk.dropped.load(SeqCst) == 2).await;
}

/// What a client begins with: the preface and empty settings.
fn opening() -> Vec<u8> {
    [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat()
}

/// A GET of a short path as one frame, which ends its stream.
fn request(stream: u32, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    let mut block = vec![0x82, 0x86, 0x04, length];
    block.extend(path.bytes());
    block.extend([0x41, 1, b'a']);
    let mut frame = vec![0, 0, u8::try_from(block.len()).unwrap(), 1, 0x5];
    frame.extend(stream.to_be_bytes());
    frame.extend(block);
    frame
}

#[tokio::test]
async fn a_panic_on_one_stream_harms_no_other() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let mut sender = client(connect(&running).await).await;
    let response = timeout(PATIENCE, sender.send_request(get("/panic"))).await.unwrap().unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(text(&mut sender, "/hello").await, "hello 127.0.0.1 plain");
}

#[tokio::test]
async fn a_head_beyond_the_bounds_is_refused_on_http2() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let mut sender = client(connect(&running).await).await;
    let mut many = get("/hello");
    for number in 0..150 {
        many.headers_mut().append("x-many", number.into());
    }
    let response = timeout(PATIENCE, sender.send_request(many)).await.unwrap().unwrap();
    assert_eq!(response.status(), 431);
    let mut long = get("/hello");
    long.headers_mut().insert("x-long", "x".repeat(40_000).parse().unwrap());
    let response = timeout(PATIENCE, sender.send_request(long)).await.unwrap().unwrap();
    assert_eq!(
        (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
        (431, "text/plain; charset=utf-8")
    );
    let mut longer = get("/hello");
    longer.headers_mut().insert("x-long", "x".repeat(80_000).parse().unwrap());
    // hyper's client may keep it to itself, as it knows the server's bound.
    if let Ok(response) = timeout(PATIENCE, sender.send_request(longer)).await.unwrap() {
        assert_eq!(response.status(), 431);
    }
    assert_eq!(desk.called.load(SeqCst), 0);
}

#[tokio::test]
async fn rapid_resets_end_the_connection_and_start_little() {
    let desk = Desk::new();
    let running = start(&desk, |edge| edge.threads = 1);
    let mut stream = connect(&running).await;
    let mut bytes = opening();
    for number in 0u32..2_000 {
        let stream = 2 * number + 1;
        bytes.extend(request(stream, "/wait"));
        bytes.extend([0, 0, 4, 3, 0]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(8u32.to_be_bytes());
    }
    let _ = stream.write_all(&bytes).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection is ended");
    // Where it was not lost in a reset of the socket, the last thing said is to calm down.
    let calm = answer.windows(4).any(|code| code == 11u32.to_be_bytes());
    assert!(calm || answer.len() < 100, "{answer:?}");
    assert!(desk.called.load(SeqCst) <= 200, "{} requests were begun", desk.called.load(SeqCst));
    until("it is closed", || running.counts().open == 0).await;
}

#[tokio::test]
async fn a_drain_lets_streams_end_and_refuses_new_ones() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let mut sender = client(connect(&running).await).await;
    let call = tokio::spawn(sender.send_request(get("/wait")));
    until("the call", || desk.called.load(SeqCst) == 1).await;
    let drain = tokio::spawn(running.drain(PATIENCE));
    // It may take a moment to be told.
    let refused = async { while sender.send_request(get("/hello")).await.is_ok() {} };
    timeout(PATIENCE, refused).await.expect("new streams are refused");
    desk.go_on();
    assert_eq!(timeout(PATIENCE, call).await.unwrap().unwrap().unwrap().status(), 200);
    assert_eq!(timeout(PATIENCE, drain).await.unwrap().unwrap().connections, 0);
}

#[tokio::test]
async fn a_client_that_stays_silent_on_http2_is_closed_in_time() {
    let running = start(&Desk::new(), |edge| edge.idle_timeout = Duration::from_secs(1));
    let mut sender = client(connect(&running).await).await;
    assert_eq!(text(&mut sender, "/hello").await, "hello 127.0.0.1 plain");
    until("it is closed", || running.counts().open == 0).await;
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_is_reset_and_no_other_h11() {
    let patience = Duration::from_secs(1);
    let running = start(&Desk::new(), |edge| edge.idle_timeout = patience);
    // What a client lets come ahead it has time to read, here two seconds.
    let mut sender = client_with_window(connect(&running).await, 16 << 10).await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(timeout(PATIENCE, sender.send_request(get("/endless"))).await.unwrap().unwrap());
    }
    let (mut slow, mut stalled) = (answers.remove(0).into_body(), answers.remove(0).into_body());
    // Far more than is on its way at first, and each piece well after the one before it.
    let took = std::time::Instant::now();
    while took.elapsed() < 6 * patience {
        for _ in 0..100 {
            timeout(PATIENCE, slow.frame()).await.unwrap().unwrap().unwrap();
        }
        tokio::time::sleep(patience / 4).await;
    }
    let reset = timeout(PATIENCE, async {
        loop {
            match stalled.frame().await {
                Some(Ok(_)) => {}
                ended => return ended.is_some(),
            }
        }
    });
    assert!(reset.await.expect("it comes to its end"), "it must not look whole");
    assert_eq!(text(&mut sender, "/hello").await, "hello 127.0.0.1 plain");
    assert_eq!(running.counts().accepted, 1);
}

/// Takes what comes of an answer until so much of it is there.
async fn take_data(stream: &mut TcpStream, mut missing: usize) {
    while missing > 0 {
        let mut head = [0; 9];
        timeout(PATIENCE, stream.read_exact(&mut head)).await.expect("a frame in time").unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        timeout(PATIENCE, stream.read_exact(&mut payload)).await.expect("all of it").unwrap();
        assert!(![3, 7].contains(&head[3]), "reset or ended with {missing} bytes missing: {payload:?}");
        missing -= if head[3] == 0 { length } else { 0 };
    }
}

#[tokio::test]
async fn a_stream_whose_client_opens_its_window_slowly_and_in_large_lumps_goes_on_h11() {
    let patience = Duration::from_secs(1);
    let running = start(&Desk::new(), |edge| edge.idle_timeout = patience);
    // By hand, because hyper's client opens its window as soon as anything was read. Others wait until half of it was.
    let (window, lump) = (65_535, 32_767u32);
    let mut stream = connect(&running).await;
    stream.write_all(&[opening(), request(1, "/endless")].concat()).await.unwrap();
    take_data(&mut stream, window).await;
    for _ in 0..3 {
        tokio::time::sleep(patience * 3 / 2).await;
        for opened in [0u32, 1] {
            let update = [&[0, 0, 4, 8, 0], &opened.to_be_bytes()[..], &lump.to_be_bytes()].concat();
            stream.write_all(&update).await.unwrap();
        }
        take_data(&mut stream, lump as usize).await;
    }
}

fn start_tls(desk: &Arc<Desk>) -> Running {
    let desk = Arc::clone(desk);
    let make = move |thread| Clerk::new(&desk, thread);
    listener::start(&edge(|_| {}), Some(tls::server(&["h2", "http/1.1"])), make).unwrap()
}

async fn connect_tls(running: &Running, protocols: &[&str]) -> TlsStream<TcpStream> {
    agree(connect(running).await, protocols).await
}

/// Begins to speak TLS.
async fn agree(stream: TcpStream, protocols: &[&str]) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls::authority()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn over_tls_both_protocols_are_spoken_as_agreed() {
    let desk = Desk::new();
    let running = start_tls(&desk);
    let mut sender = client(connect_tls(&running, &["h2", "http/1.1"]).await).await;
    assert_eq!(text(&mut sender, "/hello").await, "hello 127.0.0.1 tls");
    for protocols in [&["http/1.1"][..], &[]] {
        let io = TokioIo::new(connect_tls(&running, protocols).await);
        let (mut sender, connection) = http1::handshake::<_, Empty<Bytes>>(io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/hello").header("host", "a").body(Empty::new()).unwrap();
        let response = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "hello 127.0.0.1 tls");
    }
    let mut stream = connect_tls(&running, &["http/1.1"]).await;
    stream.write_all(b"GET /hello HTTP/1.1\nHost: a\r\n\r\n").await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_handshake_that_is_none_is_counted_and_forgotten() {
    let running = start_tls(&Desk::new());
    let mut stream = connect(&running).await;
    stream.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    rest(&mut stream).await;
    until("it is counted", || running.counts().handshakes_failed == 1).await;
    until("it is forgotten", || running.counts().open == 0).await;
}

/// A connection that takes little at a time: the edge's side of it has room for little, too.
async fn connect_narrowly(running: &Running) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    SockRef::from(&socket).set_tcp_mss(536).unwrap();
    socket.connect(running.address()).await.unwrap()
}

#[tokio::test]
async fn who_waits_for_a_go_ahead_under_tls_gets_it_although_the_socket_had_no_room_for_it_h11() {
    let desk = Desk::new();
    let running = start_tls(&desk);
    // Nobody reads for a while. What finds no room in a socket stays behind under TLS, up to 64 kB of it, and counts as
    // written: for some of these the go-ahead is among that.
    let mut clients = Vec::new();
    for kilobytes in (0..=512).step_by(32) {
        let mut stream = agree(connect_narrowly(&running).await, &[]).await;
        let expects = "POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
        let asked = "GET /kilobyte HTTP/1.1\r\nhost: a\r\n\r\n".repeat(kilobytes) + expects;
        timeout(PATIENCE, stream.write_all(asked.as_bytes())).await.expect("room for what is asked").unwrap();
        stream.flush().await.unwrap();
        clients.push((kilobytes, stream));
    }
    let asked: usize = clients.iter().map(|(kilobytes, _)| kilobytes + 1).sum();
    let (mut begun, mut looks) = (0, 0);
    while looks < 10 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = desk.called.load(SeqCst);
        looks = if now == begun { looks + 1 } else { 0 };
        begun = now;
    }
    assert!(begun < asked, "there was room for everything");
    for (kilobytes, mut stream) in clients {
        let mut come = Vec::new();
        while !come.ends_with(b"HTTP/1.1 100 Continue\r\n\r\n") {
            let read = timeout(PATIENCE, stream.read_buf(&mut come)).await;
            let count =
                read.unwrap_or_else(|_| panic!("nothing after {} bytes of {kilobytes} kB", come.len()));
            assert!(count.unwrap() > 0, "an end after {} bytes of {kilobytes} kB", come.len());
        }
        assert!(come.len() >= kilobytes << 10, "{} bytes for {kilobytes} kB", come.len());
        stream.write_all(b"hello").await.unwrap();
        stream.flush().await.unwrap();
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
        assert_eq!(exactly(&mut stream, 5).await, "hello");
    }
}

/// A frame of a block, or of data.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
}

/// The first frame of a stream that says how a request ended: its answer, or that it was reset, with the reason.
async fn ending(io: &mut TcpStream, stream: u8) -> (u8, Vec<u8>) {
    loop {
        let mut head = [0; 9];
        timeout(PATIENCE, io.read_exact(&mut head)).await.expect("a frame in time").unwrap();
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        timeout(PATIENCE, io.read_exact(&mut payload)).await.expect("a frame in time").unwrap();
        if head[8] == stream && matches!(head[3], 1 | 3) {
            return (head[3], payload);
        }
    }
}

#[tokio::test]
async fn a_pseudo_header_in_trailers_is_malformed_however_it_is_written_h11() {
    let running = start(&Desk::new(), |_| {});
    // POST http://a/echo, with its path put into the table of names.
    let post = b"\x83\x86\x41\x01a\x44\x05/echo";
    let (reset, malformed) = (3, vec![0, 0, 0, 1]);
    for (number, (trailers, refused)) in [
        (&b"\0\x01x\x01y"[..], false),
        (b"\x0f\x04\0", false),
        (b"\x84", true),
        (b"\x04\x02/a", true),
        (b"\0\x05:path\x02/a", true),
        (b"\0\x84\xb9\x58\xd3\x3f\x02/a", true),
        (b"\xbe", true),
        (b"\x3f\xe1\x1f\x84", true),
        (b"\0\x01x\x01y\x84", true),
    ]
    .into_iter()
    .enumerate()
    {
        let mut io = connect(&running).await;
        let sent =
            [opening(), frame(1, 4, 1, post), frame(0, 0, 1, b"hi"), frame(1, 5, 1, trailers)].concat();
        io.write_all(&sent).await.unwrap();
        let (kind, payload) = ending(&mut io, 1).await;
        assert_eq!(
            kind == reset && payload == malformed,
            refused,
            "{number}: {trailers:?}: {kind} {payload:?}"
        );
        // The connection goes on: the table of names is what the client thinks it is.
        io.write_all(&frame(1, 5, 3, b"\x82\x86\xbf\x04\x06/hello")).await.unwrap();
        assert_eq!(ending(&mut io, 3).await.0, 1, "{number}: {trailers:?}");
    }
}
