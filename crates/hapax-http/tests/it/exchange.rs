//! Exchanges of HTTP/1 at their seams: an answer before its request has come, a body in other hands than the handler's, a
//! change of protocol behind a body, a client that leaves in between.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use hapax_http::listener::{self, Handler, Incoming, OnSwitch, Peer, Running};
use hapax_testkit::raw::{PATIENCE, exactly, head, rest, until, write};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::listener::{edge, reset};

type Answer = UnsyncBoxBody<Bytes, String>;

const LONG: usize = 16 << 20;

/// Answers as the path says.
struct Teller {
    called: AtomicUsize,
    dropped: AtomicUsize,
    go: Semaphore,
    /// What became of bodies that were read by a task of their own.
    read: mpsc::UnboundedSender<Result<Bytes, String>>,
}

struct Dropped(Arc<Teller>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

fn whole(bytes: impl Into<Bytes>) -> Answer {
    Full::new(bytes.into()).map_err(|error: Infallible| match error {}).boxed_unsync()
}

impl Teller {
    async fn told_to_go_on(&self) {
        self.go.acquire().await.unwrap().forget();
    }

    /// Lets another task read a body: at once, or when it is told to.
    fn reads_elsewhere(self: Arc<Self>, body: Incoming, later: bool) {
        tokio::spawn(async move {
            if later {
                self.told_to_go_on().await;
            }
            let read = body.collect().await;
            let _ = self.read.send(read.map(|all| all.to_bytes()).map_err(|error| error.to_string()));
        });
    }
}

/// One for all threads, so that the test can ask it.
struct Shared(Arc<Teller>);

impl Handler for Shared {
    type Body = Answer;

    async fn handle(self: Arc<Self>, mut request: Request<Incoming>, _: Peer) -> Response<Answer> {
        let teller = Arc::clone(&self.0);
        teller.called.fetch_add(1, SeqCst);
        let switch = request.extensions_mut().remove::<OnSwitch>();
        let (head, body) = request.into_parts();
        let mut response = Response::new(whole("hello"));
        match head.uri.path() {
            "/echo" => *response.body_mut() = body.map_err(|error| error.to_string()).boxed_unsync(),
            "/long" => *response.body_mut() = whole(vec![b'x'; LONG]),
            "/hints" => *response.status_mut() = StatusCode::EARLY_HINTS,
            "/breaks" => {
                let frames = [Ok(Frame::data("hel".into())), Err("it broke".to_owned())];
                *response.body_mut() = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
            }
            // The body comes while it does something else; what it does afterwards is for this client alone.
            "/busy" => {
                let _dropped = Dropped(Arc::clone(&teller));
                teller.told_to_go_on().await;
                let _ = body.collect().await;
                std::future::pending::<()>().await;
            }
            "/later" => teller.reads_elsewhere(body, true),
            "/at-once" => {
                let read = body.collect().await.map(|all| all.to_bytes()).map_err(|error| error.to_string());
                let _ = teller.read.send(read);
            }
            "/meanwhile" => {
                Arc::clone(&teller).reads_elsewhere(body, false);
                teller.told_to_go_on().await;
            }
            "/elsewhere" => {
                let read = tokio::spawn(body.collect()).await.unwrap();
                *response.body_mut() = whole(read.map_or(0, |all| all.to_bytes().len()).to_string());
            }
            "/switch" | "/switch-unread" => {
                let Some(switch) = switch else {
                    return Response::builder().status(426).body(whole("")).unwrap();
                };
                if head.uri.path() == "/switch" {
                    body.collect().await.unwrap();
                }
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                tokio::spawn(async move {
                    let Some(mut stream) = switch.switched().await else { return };
                    let mut bytes = [0; 64];
                    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                        stream.write_all(&bytes[..count]).await.unwrap();
                    }
                });
            }
            _ => {}
        }
        response
    }
}

type Read = mpsc::UnboundedReceiver<Result<Bytes, String>>;

fn start() -> (Running, Arc<Teller>, Read) {
    let (read, reading) = mpsc::unbounded_channel();
    let teller = Arc::new(Teller {
        called: AtomicUsize::new(0),
        dropped: AtomicUsize::new(0),
        go: Semaphore::new(0),
        read,
    });
    let handler = teller.clone();
    let edge = edge(|edge| edge.threads = 1);
    (listener::start(&edge, None, move |_| Shared(handler.clone())).unwrap(), teller, reading)
}

async fn connect(running: &Running) -> TcpStream {
    TcpStream::connect(running.address()).await.unwrap()
}

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const CHUNKED: &str = "HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";

/// What became of a body that another task reads.
async fn read(reading: &mut Read) -> Result<Bytes, String> {
    timeout(PATIENCE, reading.recv()).await.expect("its reader does not wait for ever").unwrap()
}

#[tokio::test]
async fn nobody_is_asked_for_a_body_in_the_midst_of_an_answer_h11() {
    let (running, ..) = start();
    let mut stream = connect(&running).await;
    for _ in 0..2 {
        let ask = "POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
        write(&mut stream, ask).await;
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
        write(&mut stream, "howdy").await;
        assert_eq!(exactly(&mut stream, 5).await, "howdy");
    }
    write(&mut stream, GET).await;
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"), "nothing is between two answers");
}

#[tokio::test]
async fn what_is_sent_behind_a_body_belongs_to_the_protocol_that_follows_h11() {
    let (running, ..) = start();
    let ask = "POST /switch HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n";
    for (framing, body) in [
        ("", ""),
        ("content-length: 3\r\n", "abc"),
        ("transfer-encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
    ] {
        // All at once, and cut within the body.
        for cut in
            [ask.len() + framing.len() + 2 + body.len(), ask.len() + framing.len() + 2 + body.len() / 2]
        {
            let mut stream = connect(&running).await;
            let sent = format!("{ask}{framing}\r\n{body}early");
            let (first, second) = sent.split_at(cut);
            write(&mut stream, first).await;
            tokio::task::yield_now().await;
            write(&mut stream, second).await;
            assert!(head(&mut stream).await.starts_with("HTTP/1.1 101 "), "{framing:?}");
            assert_eq!(exactly(&mut stream, 5).await, "early", "{framing:?}");
            write(&mut stream, "later").await;
            assert_eq!(exactly(&mut stream, 5).await, "later", "{framing:?}");
        }
    }
}

#[tokio::test]
async fn no_protocol_begins_within_a_body_nor_for_http_1_0_h11() {
    let (running, ..) = start();
    let mut stream = connect(&running).await;
    let ask = "POST /switch-unread HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n";
    write(&mut stream, &format!("{ask}content-length: 9\r\n\r\nabc")).await;
    assert_eq!(rest(&mut stream).await, "");
    let mut stream = connect(&running).await;
    write(&mut stream, &ask.replace("HTTP/1.1", "HTTP/1.0").replace("echo\r\n", "echo\r\n\r\n")).await;
    assert!(rest(&mut stream).await.starts_with("HTTP/1.0 426 "));
    until("all are closed", || running.counts().open == 0).await;
}

#[tokio::test]
async fn an_answer_that_is_none_ends_the_connection_h11() {
    let (running, teller, _) = start();
    let mut stream = connect(&running).await;
    write(&mut stream, &format!("GET /hints HTTP/1.1\r\nhost: a\r\n\r\n{GET}")).await;
    assert_eq!(rest(&mut stream).await, "", "the next answer would be taken for the one to this request");
    assert_eq!(teller.called.load(SeqCst), 1);
}

#[tokio::test]
async fn half_an_answer_does_not_look_whole_to_http_1_0_either_h11() {
    let (running, ..) = start();
    let mut stream = connect(&running).await;
    write(&mut stream, "GET /breaks HTTP/1.0\r\nhost: a\r\n\r\n").await;
    let ended = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("an end in time");
    assert!(ended.is_err(), "only the end of the connection says where this answer ends");
}

#[tokio::test]
async fn a_connection_that_breaks_after_its_body_ends_a_handler_that_took_it_later_h5() {
    let (running, teller, _) = start();
    for (number, body) in ["content-length: 5\r\n\r\nhel", "transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n"]
        .into_iter()
        .enumerate()
    {
        let mut stream = connect(&running).await;
        write(&mut stream, &format!("POST /busy HTTP/1.1\r\nhost: a\r\n{body}")).await;
        until("the call", || teller.called.load(SeqCst) == number + 1).await;
        write(&mut stream, if number == 0 { "lo" } else { "0\r\n\r\n" }).await;
        stream.shutdown().await.unwrap();
        // So that it is heard before the body is taken; otherwise this is an easier case.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(teller.dropped.load(SeqCst), number, "whether the body is whole is not known yet");
        teller.go.add_permits(1);
        reset(stream);
        until("the drop", || teller.dropped.load(SeqCst) == number + 1).await;
    }
    until("all are closed", || running.counts().open == 0).await;
}

#[tokio::test]
async fn trailers_that_are_none_end_the_connection_though_nobody_reads_them_h11() {
    let (running, teller, _) = start();
    for trailer in ["x y: z", "x", ": y", " x: y"] {
        teller.called.store(0, SeqCst);
        let mut stream = connect(&running).await;
        write(&mut stream, &format!("POST / {CHUNKED}3\r\nabc\r\n0\r\n{trailer}\r\n\r\n{GET}")).await;
        let answers = rest(&mut stream).await;
        assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 1, "{trailer:?}: {answers}");
        assert!(answers.contains("\r\nconnection: close\r\n"), "{trailer:?}: {answers}");
        assert_eq!(teller.called.load(SeqCst), 1, "{trailer:?}");
    }
}

#[tokio::test]
async fn a_body_in_other_hands_is_never_cut_short_unnoticed_h11() {
    let (running, teller, mut reading) = start();
    // All of it has come when the answer is written.
    let mut stream = connect(&running).await;
    write(&mut stream, &format!("POST /later {CHUNKED}5\r\nhello\r\n0\r\n\r\n{GET}")).await;
    let answers = rest(&mut stream).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 1, "{answers}");
    teller.go.add_permits(1);
    assert_eq!(read(&mut reading).await, Ok("hello".into()));
    // Not all of it, and no more of it comes once the connection has ended.
    for half_closed in [true, false] {
        let mut stream = connect(&running).await;
        write(&mut stream, &format!("POST /later {CHUNKED}5\r\nhello\r\n")).await;
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
        teller.go.add_permits(1);
        if half_closed {
            stream.shutdown().await.unwrap();
        }
        assert!(read(&mut reading).await.is_err());
    }
    // Its reader waits already when the connection ends.
    let mut stream = connect(&running).await;
    write(&mut stream, &format!("POST /meanwhile {CHUNKED}5\r\nhello\r\n")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    teller.go.add_permits(1);
    assert!(head(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(read(&mut reading).await.is_err());
}

#[tokio::test]
async fn what_is_beside_the_data_of_a_body_is_bounded_h11() {
    let (running, _, mut reading) = start();
    let small = "1;x=yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\na\r\n";
    for (body, is_taken) in [
        (format!("{}0\r\nx: y\r\n\r\n", small.repeat(100)), true),
        (format!("{}0\r\n\r\n", small.repeat(1_000)), false),
        (format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(20_000)), false),
        (format!("1{}\r\na\r\n0\r\n\r\n", " ".repeat(20_000)), false),
        (format!("1\r\na\r\n0\r\n{}\r\n", "x: y\r\n".repeat(101)), false),
        (format!("1\r\na\r\n0\r\nx: {}\r\n\r\n", "y".repeat(40_000)), false),
    ] {
        let mut stream = connect(&running).await;
        write(&mut stream, &format!("POST /at-once {CHUNKED}{body}")).await;
        let what = &body[..body.len().min(60)];
        assert_eq!(read(&mut reading).await.is_ok(), is_taken, "{what:?}");
    }
}

#[tokio::test]
async fn a_body_that_nobody_takes_does_not_hold_up_a_long_answer_h11() {
    let (running, ..) = start();
    for framing in
        [format!("content-length: {LONG}\r\n\r\n"), format!("transfer-encoding: chunked\r\n\r\n{LONG:x}\r\n")]
    {
        let mut stream = connect(&running).await;
        write(&mut stream, &format!("POST /long HTTP/1.1\r\nhost: a\r\n{framing}")).await;
        // It reads nothing before it has sent everything, as many clients do.
        timeout(PATIENCE, stream.write_all(&vec![b'x'; LONG])).await.expect("room").expect("it is read away");
        assert!(head(&mut stream).await.contains("connection: close\r\n"));
        let mut body = vec![0; LONG];
        timeout(PATIENCE, stream.read_exact(&mut body)).await.expect("it goes on").unwrap();
    }
}

#[tokio::test]
async fn a_body_flows_into_another_task_as_it_comes_h11() {
    let (running, ..) = start();
    let mut stream = connect(&running).await;
    for length in [3, 1 << 20] {
        write(
            &mut stream,
            &format!("POST /elsewhere HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"),
        )
        .await;
        // Its reader waits by now, and far more comes than is read ahead.
        tokio::time::sleep(Duration::from_millis(20)).await;
        timeout(PATIENCE, stream.write_all(&vec![b'x'; length])).await.expect("it is taken").unwrap();
        head(&mut stream).await;
        let length = length.to_string();
        assert_eq!(exactly(&mut stream, length.len()).await, length);
    }
}

#[tokio::test]
async fn requests_that_are_sent_ahead_are_held_back_and_not_in_memory_h11() {
    let (running, teller, _) = start();
    let mut stream = connect(&running).await;
    write(&mut stream, "GET /busy HTTP/1.1\r\nhost: a\r\n\r\n").await;
    until("the call", || teller.called.load(SeqCst) == 1).await;
    let ahead = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1 << 12);
    let mut written = 0;
    while let Ok(Ok(count)) = timeout(Duration::from_millis(200), stream.write(ahead.as_bytes())).await {
        written += count;
        assert!(written < 64 << 20, "somebody holds {written} bytes");
    }
}
