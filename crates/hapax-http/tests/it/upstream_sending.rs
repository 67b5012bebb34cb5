//! What the pool sends, byte for byte, and what becomes of requests that ask for another protocol.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hapax_http::upstream::{FailedKind, Outgoing, Reached, Upgrade};
use hapax_testkit::raw::{accept, exactly, head, rest, write};
use http::Request;
use http_body::{Body, Frame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::listener::Endless;
use crate::upstream::{HELLO, get, patient, service, text};

/// A body of unknown length that does what it is told, and then ends.
struct Dripping(VecDeque<Step>);

#[derive(Clone, Copy)]
enum Step {
    Data(&'static str),
    /// Lets everybody else go on before the next step.
    Yield,
    Fail,
    /// Never goes on.
    Hang,
}

impl Body for Dripping {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.0.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Data(data)) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(data.as_bytes()))))),
            Some(Step::Fail) => Poll::Ready(Some(Err("gone".into()))),
            Some(Step::Yield) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Step::Hang) => {
                self.0.push_front(Step::Hang);
                Poll::Pending
            }
        }
    }
}

fn streamed(steps: &[Step]) -> Outgoing {
    Outgoing::stream(Dripping(steps.iter().copied().collect()))
}

#[tokio::test]
async fn the_framing_of_a_request_comes_from_its_body_and_not_from_its_headers() {
    let lying = |method: &str, body| {
        Request::builder()
            .method(method)
            .uri("http://elsewhere/x?y=1")
            .version(http::Version::HTTP_2)
            .header("content-length", "999")
            .header("transfer-encoding", "gzip, chunked")
            .header("expect", "100-continue")
            .body(body)
            .unwrap()
    };
    let chunked = "transfer-encoding: chunked\r\n";
    for (request, line, has, lacks, tail) in [
        (
            lying("POST", Outgoing::Whole(Bytes::from_static(b"abc"))),
            "POST",
            "content-length: 3\r\n",
            "transfer",
            "abc",
        ),
        (lying("POST", Outgoing::Empty), "POST", "content-length: 0\r\n", "transfer", ""),
        (lying("GET", Outgoing::Empty), "GET", "host: 127.0.0.1:", "content-length", ""),
        (
            lying("POST", streamed(&[Step::Data("abc")])),
            "POST",
            chunked,
            "content-length",
            "3\r\nabc\r\n0\r\n\r\n",
        ),
        (
            lying("GET", streamed(&[Step::Data("abc")])),
            "GET",
            chunked,
            "content-length",
            "3\r\nabc\r\n0\r\n\r\n",
        ),
    ] {
        let (listener, pool) = service(|_| {}).await;
        let serve = async {
            let mut stream = accept(&listener).await;
            let head = head(&mut stream).await;
            let body = exactly(&mut stream, tail.len()).await;
            write(&mut stream, HELLO).await;
            (head, body)
        };
        let call = async { text(pool.send(request).await.unwrap()).await.unwrap() };
        let ((head, body), _) = patient(async { tokio::join!(serve, call) }).await;
        assert!(head.starts_with(&format!("{line} /x?y=1 HTTP/1.1\r\n")), "{head}");
        assert!(head.contains(has) && !head.contains(lacks) && !head.contains("expect"), "{head}");
        assert!(!head.contains(": 999") && !head.contains("gzip"), "{head}");
        assert_eq!(body, tail);
    }
}

#[tokio::test]
async fn a_request_body_that_breaks_off_is_never_ended_as_if_it_were_whole() {
    for (steps, reached) in [
        (&[Step::Data("abc"), Step::Fail][..], Reached::No),
        (&[Step::Data("abc"), Step::Yield, Step::Fail][..], Reached::Perhaps),
    ] {
        let (listener, pool) = service(|_| {}).await;
        let serve = async { rest(&mut accept(&listener).await).await };
        let call = async {
            let request = Request::post("/").body(streamed(steps)).unwrap();
            patient(pool.send(request)).await.unwrap_err()
        };
        let (seen, failed) = patient(async { tokio::join!(serve, call) }).await;
        assert!(!seen.contains("0\r\n\r\n"), "{seen:?}");
        assert_eq!(seen.is_empty(), reached == Reached::No, "{seen:?}");
        assert_eq!((failed.reached, failed.kind), (reached, FailedKind::RequestBody), "{failed}");
    }
}

#[tokio::test]
async fn a_connection_whose_answer_came_before_the_request_was_sent_is_not_kept() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        write(&mut stream, HELLO).await;
        rest(&mut stream).await
    };
    let call = async {
        let request = Request::post("/").body(streamed(&[Step::Hang])).unwrap();
        text(pool.send(request).await.unwrap()).await.unwrap()
    };
    let (_, body) = patient(async { tokio::join!(serve, call) }).await;
    assert_eq!(body, "hello");
    assert_eq!((pool.counts().idle, pool.counts().open), (0, 0));
}

/// Reads and forgets until the other side is gone.
async fn swallow(stream: &mut TcpStream) {
    let mut bytes = vec![0; 1 << 20];
    while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

#[tokio::test]
async fn an_answer_is_read_while_the_request_is_still_being_sent_h11() {
    let (listener, pool) = service(|_| {}).await;
    // On a thread of its own, so that it always reads faster than the edge writes.
    let service = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = listener.into_std().unwrap();
        runtime.block_on(async {
            let mut stream = accept(&TcpListener::from_std(listener).unwrap()).await;
            head(&mut stream).await;
            write(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").await;
            exactly(&mut stream, 2 << 20).await;
            write(&mut stream, "world").await;
            swallow(&mut stream).await;
        });
    });
    // In pieces so small that whoever reads them is faster.
    let request = Request::post("/").body(Outgoing::stream(Endless(&[0; 16]))).unwrap();
    let response = patient(pool.send(request)).await.unwrap();
    // The rest comes only after much more was sent: whoever reads the answer sends the request.
    assert_eq!(text(response).await.unwrap(), "helloworld");
    assert_eq!((pool.counts().idle, pool.counts().open), (0, 0));
    service.join().unwrap();
}

#[tokio::test]
async fn an_answer_to_a_request_that_was_cut_is_an_answer_h11() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        write(&mut stream, "HTTP/1.1 413 Too Long\r\nContent-Length: 2\r\n\r\nno").await;
        // With so much unread, this resets the connection.
    };
    let request = Request::post("/").body(Outgoing::Whole(Bytes::from(vec![0; 32 << 20]))).unwrap();
    let (response, ()) = patient(async { tokio::join!(pool.send(request), serve) }).await;
    let response = response.unwrap();
    assert_eq!(response.status(), 413);
    assert_eq!(text(response).await.unwrap(), "no");
    assert_eq!((pool.counts().idle, pool.counts().open), (0, 0));
}

#[tokio::test]
async fn a_long_body_arrives_as_it_was() {
    let long: Bytes = (0..3 << 20).map(|at: u32| b'a' + (at % 23) as u8).collect();
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        let body = exactly(&mut stream, long.len()).await;
        write(&mut stream, &format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await;
        stream
    };
    let call = async {
        let response =
            pool.send(Request::post("/").body(Outgoing::Whole(long.clone())).unwrap()).await.unwrap();
        assert_eq!(text(response).await.unwrap().into_bytes(), long);
    };
    let (_stream, ()) = patient(async { tokio::join!(serve, call) }).await;
    assert_eq!(pool.counts().idle, 1);
}

fn upgrade() -> Request<Outgoing> {
    Request::get("/ws")
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .body(Outgoing::Empty)
        .unwrap()
}

#[tokio::test]
async fn an_upgrade_gives_the_bare_connection_with_everything_that_came_on_it() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        let head = head(&mut stream).await;
        assert!(head.contains("upgrade: websocket"), "{head}");
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst";
        write(&mut stream, switch).await;
        assert_eq!(exactly(&mut stream, 4).await, "ping");
        write(&mut stream, " pong").await;
    };
    let call = async {
        let Upgrade::Switched(response, mut raw) = pool.upgrade(upgrade()).await.unwrap() else {
            panic!("it was refused")
        };
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["upgrade"], "websocket");
        assert_eq!(exactly(&mut raw, 5).await, "first");
        raw.write_all(b"ping").await.unwrap();
        assert_eq!(exactly(&mut raw, 5).await, " pong");
        assert_eq!(pool.counts().open, 1);
    };
    patient(async { tokio::join!(serve, call) }).await;
    assert_eq!(pool.counts().open, 0);
}

#[tokio::test]
async fn a_refused_upgrade_is_an_answer_like_any_other() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        for _ in 0..2 {
            head(&mut stream).await;
            write(&mut stream, HELLO).await;
        }
    };
    let calls = async {
        let Upgrade::Refused(response) = pool.upgrade(upgrade()).await.unwrap() else {
            panic!("it was accepted")
        };
        assert_eq!(text(response).await.unwrap(), "hello");
        assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "hello");
    };
    patient(async { tokio::join!(serve, calls) }).await;
    let (listener, pool) = service(|_| {}).await;
    let serve = async { head(&mut accept(&listener).await).await };
    let (_, failed) =
        patient(async { tokio::join!(serve, async { pool.upgrade(upgrade()).await.unwrap_err() }) }).await;
    assert_eq!((failed.reached, failed.kind), (Reached::Perhaps, FailedKind::Closed));
}
