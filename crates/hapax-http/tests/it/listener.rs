//! The listener, with clients that behave and clients that do not.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hapax_http::listener::{self, Drained, Handler, Incoming, Peer, Running, Thread};
use hapax_http::settings::Listener;
use hapax_testkit::raw::{PATIENCE, exactly, head, rest, until, write};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Either, Full};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// More than sockets hold between two ends.
const LARGE: usize = 64 << 20;

/// What the tests and the handlers know of each other.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) called: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
    done: AtomicUsize,
    go: Option<Semaphore>,
}

impl Desk {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Desk { go: Some(Semaphore::new(0)), ..Desk::default() })
    }

    async fn told_to_go_on(&self) {
        self.go.as_ref().unwrap().acquire().await.unwrap().forget();
    }

    pub(crate) fn go_on(&self) {
        self.go.as_ref().unwrap().add_permits(1);
    }
}

pub(crate) struct Clerk {
    desk: Arc<Desk>,
    thread: Thread,
}

impl Clerk {
    pub(crate) fn new(desk: &Arc<Desk>, thread: Thread) -> Self {
        Clerk { desk: Arc::clone(desk), thread }
    }
}

/// Counts handlers that were given up before their end.
struct Dropped(Arc<Desk>, bool);

impl Drop for Dropped {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.fetch_add(1, SeqCst);
        }
    }
}

/// A body that never ends and never has to be waited for, in pieces like this one.
pub(crate) struct Endless(pub(crate) &'static [u8]);

impl Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(self.0)))))
    }
}

impl Handler for Clerk {
    type Body = Either<Full<Bytes>, Endless>;

    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static {
        self.desk.called.fetch_add(1, SeqCst);
        assert!(request.uri().path() != "/panic-at-once", "at once");
        async move {
            let mut guard = Dropped(Arc::clone(&self.desk), false);
            let text = match request.uri().path() {
                "/wait" => {
                    self.desk.told_to_go_on().await;
                    "waited".into()
                }
                "/panic" => panic!("as told"),
                "/echo" => request.into_body().collect().await.unwrap().to_bytes(),
                "/kilobyte" => Bytes::from_static(&[b'x'; 1 << 10]),
                "/large" => Bytes::from(vec![b'x'; LARGE]),
                "/endless" => return Response::new(Either::Right(Endless(&[b'x'; 1 << 16]))),
                "/task" => {
                    let desk = Arc::clone(&self.desk);
                    self.thread.tasks.spawn(async move {
                        desk.told_to_go_on().await;
                        desk.done.fetch_add(1, SeqCst);
                    });
                    "begun".into()
                }
                _ => Bytes::from(format!(
                    "hello {} {}",
                    peer.addr.ip(),
                    if peer.tls { "tls" } else { "plain" }
                )),
            };
            guard.1 = true;
            Response::new(Either::Left(Full::new(text)))
        }
    }
}

/// Breaks a connection off, as the loss of a client does.
pub(crate) fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
}

pub(crate) fn edge(change: impl FnOnce(&mut Listener)) -> Listener {
    let mut edge = Listener::new("127.0.0.1:0".parse().unwrap());
    edge.threads = 2;
    change(&mut edge);
    edge
}

pub(crate) fn start(desk: &Arc<Desk>, change: impl FnOnce(&mut Listener)) -> Running {
    let desk = Arc::clone(desk);
    listener::start(&edge(change), None, move |thread| Clerk::new(&desk, thread)).unwrap()
}

pub(crate) async fn connect(running: &Running) -> TcpStream {
    TcpStream::connect(running.address()).await.unwrap()
}

async fn ask(stream: &mut TcpStream, path: &str) -> (String, String) {
    write(stream, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
    answer(stream).await
}

async fn answer(stream: &mut TcpStream) -> (String, String) {
    let head = head(stream).await;
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let body = exactly(stream, length).await;
    (head, body)
}

#[tokio::test]
async fn requests_are_answered_on_every_thread_and_connections_are_kept() {
    let desk = Desk::new();
    let running = start(&desk, |edge| edge.threads = 4);
    let mut streams = Vec::new();
    for _ in 0..32 {
        streams.push(connect(&running).await);
    }
    for _ in 0..2 {
        for stream in &mut streams {
            let (head, body) = ask(stream, "/hello").await;
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert_eq!(body, "hello 127.0.0.1 plain");
        }
    }
    let counts = running.counts();
    assert_eq!((desk.called.load(SeqCst), counts.accepted, counts.open), (64, 32, 32));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let running = start(&Desk::new(), |_| {});
    let mut stream = connect(&running).await;
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n\n\na";
    let chunked =
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\n\nb\r\n0\r\n\r\n";
    write(&mut stream, &format!("{post}{chunked}{post}")).await;
    for wanted in ["\n\na", "\n\nb", "\n\na"] {
        assert_eq!(answer(&mut stream).await.1, wanted);
    }
}

#[tokio::test]
async fn a_port_that_another_gateway_has_is_not_shared_with_it() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let edge = edge(|edge| edge.listen = running.address());
    let second = listener::start(&edge, None, move |thread| Clerk::new(&desk, thread));
    assert!(second.is_err());
}

#[tokio::test]
async fn heads_that_can_be_read_in_two_ways_never_get_to_a_handler() {
    for bad in [
        "GET /hello HTTP/1.1\nHost: a\n\n",
        "GET /hello HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: a\r\n\n",
        "GET /hello HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nhello",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\nhello",
    ] {
        let desk = Desk::new();
        let running = start(&desk, |_| {});
        for before in [false, true] {
            let mut stream = connect(&running).await;
            if before {
                ask(&mut stream, "/hello").await;
                desk.called.store(0, SeqCst);
            }
            write(&mut stream, bad).await;
            let answer = rest(&mut stream).await;
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{bad:?} {before}: {answer:?}");
            assert_eq!(desk.called.load(SeqCst), 0, "{bad:?}");
        }
    }
}

#[tokio::test]
async fn heads_that_are_too_long_are_refused() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let refused = "HTTP/1.1 431 Request Header Fields Too Large\r\n";
    for long in [
        format!("GET /hello HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(40_000)),
        format!("GET /hello HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(100)),
    ] {
        let mut stream = connect(&running).await;
        // It may be cut before all of it is written.
        let _ = stream.write_all(long.as_bytes()).await;
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with(refused), "{answer:?}");
    }
    let mut stream = connect(&running).await;
    let (head, body) = ask(&mut stream, &format!("/{}", "x".repeat(8192))).await;
    assert!(head.starts_with(refused) && body.contains("Request Header Fields Too Large"), "{head} {body}");
    assert_eq!(desk.called.load(SeqCst), 0);
    assert!(ask(&mut stream, &format!("/{}", "x".repeat(8000))).await.0.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_head_that_drips_is_given_up_in_time() {
    let desk = Desk::new();
    let running = start(&desk, |edge| edge.header_timeout = Duration::from_millis(300));
    let mut silent = connect(&running).await;
    let mut used = connect(&running).await;
    ask(&mut used, "/hello").await;
    for stream in [&mut silent, &mut used] {
        let head = "GET /hello HTTP/1.1\r\nHost: a\r\nX-Long: ".bytes();
        let drip = async {
            for byte in head.chain(std::iter::repeat(b'x')) {
                if stream.write_all(&[byte]).await.is_err() {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, drip).await.expect("not every byte is taken");
        rest(stream).await;
    }
    let mut silent = connect(&running).await;
    assert_eq!(rest(&mut silent).await, "");
    until("every connection is closed", || running.counts().open == 0).await;
}

#[tokio::test]
async fn silence_between_requests_may_last_longer_than_a_head() {
    let running = start(&Desk::new(), |edge| {
        edge.header_timeout = Duration::from_millis(600);
        edge.idle_timeout = Duration::from_secs(4);
    });
    let mut stream = connect(&running).await;
    ask(&mut stream, "/hello").await;
    sleep(Duration::from_secs(1)).await;
    ask(&mut stream, "/hello").await;
    let begun = Instant::now();
    rest(&mut stream).await;
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_running_request_is_not_held_to_be_silence() {
    let desk = Desk::new();
    let running = start(&desk, |edge| {
        edge.header_timeout = Duration::from_millis(400);
        edge.idle_timeout = Duration::from_millis(400);
    });
    let mut stream = connect(&running).await;
    write(&mut stream, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    sleep(Duration::from_secs(1)).await;
    desk.go_on();
    assert_eq!(answer(&mut stream).await.1, "waited");
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_answer_is_cut() {
    let running = start(&Desk::new(), |edge| edge.idle_timeout = Duration::from_millis(200));
    for path in ["/large", "/endless"] {
        let accepted = running.counts().accepted;
        let mut stream = connect(&running).await;
        write(&mut stream, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        until("it is accepted", || running.counts().accepted > accepted).await;
        until("it is cut", || running.counts().open == 0).await;
    }
}

#[tokio::test]
async fn a_client_that_takes_its_answer_slowly_gets_all_of_it() {
    let silence = Duration::from_secs(3);
    let running = start(&Desk::new(), |edge| edge.idle_timeout = silence);
    let mut stream = connect(&running).await;
    write(&mut stream, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await;
    head(&mut stream).await;
    let begun = Instant::now();
    for _ in 0..32 {
        exactly(&mut stream, LARGE / 32).await;
        sleep(silence / 28).await;
    }
    assert!(begun.elapsed() > silence, "it took longer than any silence may");
}

#[tokio::test]
async fn a_handler_is_dropped_when_its_connection_breaks_h5() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    for (number, half) in [(1, false), (2, true)] {
        let mut stream = connect(&running).await;
        write(&mut stream, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
        until("the call", || desk.called.load(SeqCst) == number).await;
        if half {
            stream.shutdown().await.unwrap();
        }
        reset(stream);
        until("the drop", || desk.dropped.load(SeqCst) == number).await;
    }
    until("every connection is closed", || running.counts().open == 0).await;
}

#[tokio::test]
async fn a_client_that_sends_no_more_is_answered_and_so_is_all_that_it_has_sent_h5() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let plain = "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n";
    let body = "POST /wait HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for sent in [vec![plain], vec![plain, plain, plain], vec![body], vec![body, plain]] {
        let (before, answers) = (desk.called.load(SeqCst), sent.len());
        let mut stream = connect(&running).await;
        write(&mut stream, &sent.concat()).await;
        stream.shutdown().await.unwrap();
        for number in 1..=answers {
            until("the call", || desk.called.load(SeqCst) == before + number).await;
            desk.go_on();
        }
        let heard = rest(&mut stream).await;
        assert_eq!(heard.matches("HTTP/1.1 200 OK\r\n").count(), answers, "{sent:?}: {heard}");
    }
    assert_eq!(desk.dropped.load(SeqCst), 0);
    until("every connection is closed", || running.counts().open == 0).await;
}

#[tokio::test]
async fn a_panic_answers_500_and_harms_nobody_else() {
    let desk = Desk::new();
    let running = start(&desk, |edge| edge.threads = 1);
    let mut other = connect(&running).await;
    write(&mut other, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut stream = connect(&running).await;
    for path in ["/panic", "/panic-at-once", "/panic"] {
        let (head, body) = ask(&mut stream, path).await;
        assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
        assert!(head.contains("text/plain") && body.contains("Internal Server Error"), "{body}");
        assert!(!body.contains("as told") && !body.contains("at once"), "{body}");
    }
    assert!(ask(&mut stream, "/hello").await.0.starts_with("HTTP/1.1 200"));
    desk.go_on();
    assert_eq!(answer(&mut other).await.1, "waited");
    assert_eq!(running.counts().panics, 3);
}

#[tokio::test]
async fn no_more_connections_are_served_than_allowed() {
    let running = start(&Desk::new(), |edge| edge.max_connections = 4);
    // All clients here have one address, which may have half of them.
    let mut held = [connect(&running).await, connect(&running).await];
    for stream in &mut held {
        ask(stream, "/hello").await;
    }
    let mut third = connect(&running).await;
    assert_eq!(rest(&mut third).await, "");
    assert_eq!((running.counts().refused, running.counts().open), (1, 2));
    drop(held);
    until("room", || running.counts().open == 0).await;
    ask(&mut connect(&running).await, "/hello").await;
}

#[tokio::test]
async fn an_address_has_as_many_connections_as_are_said_h11() {
    let running = start(&Desk::new(), |edge| edge.max_connections_per_address = Some(3));
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(connect(&running).await);
        ask(held.last_mut().unwrap(), "/hello").await;
    }
    assert_eq!(rest(&mut connect(&running).await).await, "");
    let counts = running.counts();
    assert_eq!((counts.refused, counts.refused_by_address, counts.open), (1, 1, 3));
}

#[tokio::test]
async fn a_drain_lets_running_requests_end_and_nothing_else() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let address = running.address();
    let mut idle = connect(&running).await;
    ask(&mut idle, "/hello").await;
    let mut silent = connect(&running).await;
    let mut stream = connect(&running).await;
    write(&mut stream, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    until("the call", || desk.called.load(SeqCst) == 2).await;
    let drain = tokio::spawn(running.drain(PATIENCE));
    assert_eq!(rest(&mut idle).await, "");
    assert_eq!(rest(&mut silent).await, "");
    // One thread may hear of it a little later than another.
    let refused = async { while TcpStream::connect(address).await.is_ok() {} };
    timeout(PATIENCE, refused).await.expect("nothing more is accepted");
    assert!(!drain.is_finished());
    desk.go_on();
    let (head, body) = answer(&mut stream).await;
    assert!(head.contains("connection: close\r\n"), "{head}");
    assert_eq!(body, "waited");
    assert_eq!(timeout(PATIENCE, drain).await.unwrap().unwrap(), Drained::default());
    assert_eq!(desk.dropped.load(SeqCst), 0);
}

#[tokio::test]
async fn a_drain_waits_for_what_goes_on_without_a_caller_h5() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    assert_eq!(ask(&mut connect(&running).await, "/task").await.1, "begun");
    let drain = tokio::spawn(running.drain(PATIENCE));
    sleep(Duration::from_millis(100)).await;
    assert!(!drain.is_finished());
    desk.go_on();
    assert_eq!(timeout(PATIENCE, drain).await.unwrap().unwrap(), Drained::default());
    assert_eq!(desk.done.load(SeqCst), 1);
}

#[tokio::test]
async fn a_drain_cuts_what_does_not_end_in_time_and_says_so() {
    let desk = Desk::new();
    let running = start(&desk, |_| {});
    let mut stream = connect(&running).await;
    write(&mut stream, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(ask(&mut connect(&running).await, "/task").await.1, "begun");
    until("the calls", || desk.called.load(SeqCst) == 2).await;
    let drained = timeout(PATIENCE, running.drain(Duration::from_millis(100))).await.unwrap();
    assert_eq!(drained, Drained { connections: 1, tunnels: 0, tasks: 1 });
    assert_eq!(rest(&mut stream).await, "");
    assert_eq!(desk.dropped.load(SeqCst), 1);
}
