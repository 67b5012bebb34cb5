//! HTTP/1 as the listener speaks it, answer by answer and byte by byte.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hapax_http::listener::{self, Handler, Incoming, Peer, Running};
use hapax_testkit::raw::{PATIENCE, exactly, head, rest, until, write};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::listener::edge;

type Answer = UnsyncBoxBody<Bytes, String>;

/// Answers as the path says.
#[derive(Default)]
struct Scribe {
    /// Bytes of bodies that were read.
    read: AtomicUsize,
    failed: AtomicUsize,
}

fn whole(text: &'static str) -> Answer {
    Full::from(text).map_err(|error: Infallible| match error {}).boxed_unsync()
}

/// A body whose length nobody knows before its end.
fn pieces(frames: Vec<Result<Frame<Bytes>, String>>) -> Answer {
    StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()
}

fn piece(text: &'static str) -> Result<Frame<Bytes>, String> {
    Ok(Frame::data(text.into()))
}

fn trailers() -> Result<Frame<Bytes>, String> {
    Ok(Frame::trailers(HeaderMap::from_iter([("x-late".parse().unwrap(), HeaderValue::from_static("1"))])))
}

impl Handler for Scribe {
    type Body = Answer;

    async fn handle(self: Arc<Self>, request: Request<Incoming>, _: Peer) -> Response<Answer> {
        let (head, mut body) = request.into_parts();
        let mut response = Response::new(whole("hello"));
        match head.uri.path() {
            "/none" => *response.status_mut() = StatusCode::NO_CONTENT,
            "/unchanged" => *response.status_mut() = StatusCode::NOT_MODIFIED,
            "/empty" => *response.body_mut() = Empty::new().map_err(|error| match error {}).boxed_unsync(),
            "/pieces" => *response.body_mut() = pieces(vec![piece("hel"), piece("lo"), trailers()]),
            "/breaks" => *response.body_mut() = pieces(vec![piece("hel"), Err("it broke".into())]),
            "/lies" => drop(response.headers_mut().insert("content-length", HeaderValue::from_static("99"))),
            "/two" => {
                response.headers_mut().append("transfer-encoding", HeaderValue::from_static("gzip"));
                response.headers_mut().append("connection", HeaderValue::from_static("close"));
            }
            "/dated" => drop(response.headers_mut().insert("date", HeaderValue::from_static("today"))),
            "/read" => {
                while let Some(frame) = body.frame().await {
                    let (counter, count) = match &frame {
                        Ok(frame) => (&self.read, frame.data_ref().map_or(0, Bytes::len)),
                        Err(_) => (&self.failed, 1),
                    };
                    counter.fetch_add(count, SeqCst);
                }
            }
            "/echo" => *response.body_mut() = body.map_err(|error| error.to_string()).boxed_unsync(),
            _ => {}
        }
        response
    }
}

fn start() -> (Running, Arc<Scribe>) {
    let scribe = Arc::new(Scribe::default());
    let handler = scribe.clone();
    let edge = edge(|edge| edge.threads = 1);
    (listener::start(&edge, None, move |_| Shared(handler.clone())).unwrap(), scribe)
}

/// One for all threads, so that the test can ask it.
struct Shared(Arc<Scribe>);

impl Handler for Shared {
    type Body = Answer;

    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Answer>> + Send + 'static {
        Arc::clone(&self.0).handle(request, peer)
    }
}

async fn connect(running: &Running) -> TcpStream {
    TcpStream::connect(running.address()).await.unwrap()
}

/// What comes for one request on a connection of its own, without the date.
async fn whole_answer(running: &Running, request: &str) -> String {
    let mut stream = connect(running).await;
    write(&mut stream, request).await;
    let answer = rest(&mut stream).await;
    let dates = answer.matches("\r\ndate: ").count();
    assert_eq!(dates, 1, "{answer}");
    let (before, after) = answer.split_once("\r\ndate: ").unwrap();
    format!("{before}{}", &after[after.find("\r\n").unwrap()..])
}

#[tokio::test]
async fn what_frames_an_answer_comes_from_its_body_alone_h11() {
    let (running, _) = start();
    for (line, fields, wanted) in [
        (
            "GET /",
            "connection: close",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
        ),
        (
            "GET /empty",
            "connection: close",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        ),
        (
            "GET /lies",
            "connection: close",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
        ),
        ("GET /two", "x: y", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"),
        ("GET /none", "connection: close", "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"),
        (
            "GET /unchanged",
            "connection: close",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\nconnection: close\r\n\r\n",
        ),
        ("HEAD /", "connection: close", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n"),
        (
            "HEAD /lies",
            "connection: close",
            "HTTP/1.1 200 OK\r\ncontent-length: 99\r\nconnection: close\r\n\r\n",
        ),
        ("HEAD /pieces", "connection: close", "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"),
        (
            "GET /pieces",
            "connection: close",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        ),
        (
            "GET /pieces",
            "te: trailers\r\nconnection: te, close",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nx-late: 1\r\n\r\n",
        ),
        // Nobody must take half of it for the whole.
        ("GET /breaks", "x: y", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n"),
    ] {
        let answer = whole_answer(&running, &format!("{line} HTTP/1.1\r\nhost: a\r\n{fields}\r\n\r\n")).await;
        assert_eq!(answer, wanted, "{line} {fields}");
    }
}

#[tokio::test]
async fn whoever_speaks_http_1_0_is_answered_in_it() {
    let (running, _) = start();
    let old = "HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(whole_answer(&running, "GET / HTTP/1.0\r\nhost: a\r\n\r\n").await, old);
    // It knows no chunks: its end is that of the connection, whatever was asked for.
    for fields in ["x: y", "connection: keep-alive", "te: trailers"] {
        let answer =
            whole_answer(&running, &format!("GET /pieces HTTP/1.0\r\nhost: a\r\n{fields}\r\n\r\n")).await;
        assert_eq!(answer, "HTTP/1.0 200 OK\r\n\r\nhello");
    }
    let mut stream = connect(&running).await;
    for _ in 0..2 {
        write(&mut stream, "GET / HTTP/1.0\r\nhost: a\r\nconnection: Keep-Alive\r\n\r\n").await;
        assert!(head(&mut stream).await.contains("\r\nconnection: keep-alive\r\n"));
        assert_eq!(exactly(&mut stream, 5).await, "hello");
    }
    // Nor a leave to go on.
    write(&mut stream, "POST /read HTTP/1.0\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
        .await;
    write(&mut stream, "hello").await;
    assert!(head(&mut stream).await.starts_with("HTTP/1.0 200 OK\r\n"));
}

#[tokio::test]
async fn a_date_is_added_where_there_is_none() {
    let (running, _) = start();
    let mut stream = connect(&running).await;
    write(&mut stream, "GET /dated HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let answer = rest(&mut stream).await;
    assert!(answer.contains("\r\ndate: today\r\n") && answer.matches("date:").count() == 1, "{answer}");
    let mut stream = connect(&running).await;
    write(&mut stream, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let answer = rest(&mut stream).await;
    let date = answer.lines().find_map(|line| line.strip_prefix("date: ")).unwrap();
    let age = httpdate::parse_http_date(date).unwrap().elapsed().unwrap_or_default();
    assert!(age < Duration::from_secs(60), "{date}");
}

#[tokio::test]
async fn a_refused_head_is_answered_in_words_h2() {
    let (running, _) = start();
    for (bad, status, words) in [
        ("GET / HTTP/1.1\nhost: a\n\n", 400, "a line is not terminated by CRLF"),
        ("GET / HTTP/1.1\r\nhost : a\r\n\r\n", 400, "invalid header name"),
        ("hello\r\n\r\n", 400, "invalid token"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n", 400, "the only transfer coding"),
        (&format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "x".repeat(40_000)), 431, "Too Large"),
    ] {
        let answer = whole_answer(&running, bad).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains("\r\ncontent-type: text/plain; charset=utf-8\r\n"), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        assert!(body.contains(words), "{answer}");
    }
}

#[tokio::test]
async fn a_body_arrives_as_it_was_in_every_cut() {
    let (running, _) = start();
    for (framing, body) in [
        ("content-length: 10", "0123456789"),
        ("transfer-encoding: chunked", "4\r\n0123\r\n6;x=y\r\n456789\r\n0\r\nx: y\r\n\r\n"),
    ] {
        let request = format!("POST /echo HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n{body}");
        let mut stream = connect(&running).await;
        stream.set_nodelay(true).unwrap();
        for cut in [1, 60, request.len() - body.len(), request.len() - 3, request.len() - 1] {
            let (first, second) = request.split_at(cut);
            write(&mut stream, first).await;
            // So that they are read apart; if they are not, this is an easier case.
            tokio::time::sleep(Duration::from_millis(5)).await;
            write(&mut stream, second).await;
            assert_eq!(echoed(&mut stream).await, "0123456789", "{framing} cut at {cut}");
        }
        // All of it at once, twice.
        write(&mut stream, &request.repeat(2)).await;
        for _ in 0..2 {
            assert_eq!(echoed(&mut stream).await, "0123456789", "{framing}");
        }
    }
}

/// The body of one answer, however it is framed.
async fn echoed(stream: &mut TcpStream) -> String {
    match head(stream).await.contains("content-length: 10\r\n") {
        true => exactly(stream, 10).await,
        false => unchunked(stream).await,
    }
}

async fn unchunked(stream: &mut TcpStream) -> String {
    let mut whole = String::new();
    loop {
        let mut size = String::new();
        while !size.ends_with("\r\n") {
            size += &exactly(stream, 1).await;
        }
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let piece = exactly(stream, size + 2).await;
        if size == 0 {
            return whole;
        }
        whole += &piece[..size];
    }
}

#[tokio::test]
async fn a_body_that_is_cut_or_no_body_fails_and_its_sender_is_answered_h2() {
    let (running, scribe) = start();
    for (number, body) in [
        "content-length: 10\r\n\r\n0123",
        "transfer-encoding: chunked\r\n\r\n4\r\n0123\r\n",
        "transfer-encoding: chunked\r\n\r\nx\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let mut stream = connect(&running).await;
        write(&mut stream, &format!("POST /read HTTP/1.1\r\nhost: a\r\n{body}")).await;
        stream.shutdown().await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "nothing is read behind it: {answer}");
        assert_eq!(scribe.failed.load(SeqCst), number + 1);
    }
    assert_eq!(scribe.read.load(SeqCst), 8);
}

#[tokio::test]
async fn an_answer_gets_through_to_a_client_that_goes_on_sending_h11() {
    const LONG: usize = 8 << 20;
    let (running, scribe) = start();
    for _ in 0..3 {
        let mut stream = connect(&running).await;
        write(&mut stream, &format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {LONG}\r\n\r\n")).await;
        // It reads nothing before it has sent everything, as many clients do.
        timeout(PATIENCE, stream.write_all(&vec![b'x'; LONG])).await.expect("room").expect("it is read away");
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n") && answer.ends_with("hello"), "{answer}");
    }
    assert_eq!(scribe.read.load(SeqCst), 0);
    until("every connection is closed", || running.counts().open == 0).await;
}

#[tokio::test]
async fn only_a_client_that_may_still_be_sending_is_waited_for_at_the_end_h11() {
    let (running, _) = start();
    let mut took = Vec::new();
    for rest_of_body in ["", "content-length: 1000000\r\n"] {
        let mut stream = connect(&running).await;
        write(&mut stream, &format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{rest_of_body}\r\n"))
            .await;
        assert!(rest(&mut stream).await.contains("connection: close\r\n"));
        // The client has the end of the answer, and does not close.
        let begun = Instant::now();
        until("it is closed", || running.counts().open == 0).await;
        took.push(begun.elapsed());
    }
    assert!(took[0] * 2 < took[1], "{took:?}");
}

#[tokio::test]
async fn nobody_is_asked_for_a_body_that_is_not_wanted() {
    let (running, _) = start();
    let ask = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
    };
    let mut stream = connect(&running).await;
    write(&mut stream, &ask("/")).await;
    let answer = head(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("connection: close\r\n"),
        "{answer}"
    );
    // Once is enough, and nobody is asked who has sent it already.
    let mut stream = connect(&running).await;
    write(&mut stream, &ask("/read")).await;
    assert_eq!(head(&mut stream).await, "HTTP/1.1 100 Continue\r\n\r\n");
    write(&mut stream, "he").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    write(&mut stream, "llo").await;
    assert!(head(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(exactly(&mut stream, 5).await, "hello");
    for (first, second) in [("hello", ""), ("he", "llo")] {
        write(&mut stream, &(ask("/read") + first)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        write(&mut stream, second).await;
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
        assert_eq!(exactly(&mut stream, 5).await, "hello");
    }
}

#[tokio::test]
async fn what_a_client_sends_ahead_is_bounded_and_not_lost() {
    let (running, _) = start();
    let mut stream = connect(&running).await;
    let get = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let count = (1 << 20) / get.len();
    let (mut reading, mut writing) = stream.split();
    let all = get.repeat(count);
    let sending = async { writing.write_all(all.as_bytes()).await.unwrap() };
    let counting = async {
        let (mut answers, mut last) = (0, Vec::new());
        while answers < count {
            let mut bytes = vec![0; 1 << 16];
            let read = reading.read(&mut bytes).await.unwrap();
            assert!(read > 0, "{answers} of {count}");
            last.extend_from_slice(&bytes[..read]);
            let whole = last.windows(9).filter(|window| *window == b"\r\n\r\nhello").count();
            answers += whole;
            if whole > 0 {
                let end = last.windows(9).rposition(|window| window == b"\r\n\r\nhello").unwrap() + 9;
                last.drain(..end);
            }
        }
    };
    timeout(PATIENCE, async { tokio::join!(sending, counting) }).await.expect("all are answered");
}
