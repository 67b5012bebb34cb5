//! The pool of connections to a service, against services that behave and services that do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use hapax_http::settings::Service;
use hapax_http::upstream::{Failed, FailedKind, Incoming, Outgoing, Pool, Reached};
use hapax_testkit::port::Port;
use hapax_testkit::raw::{self, PATIENCE, accept, exactly, head, rest, write};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub(crate) const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

pub(crate) async fn service(change: impl FnOnce(&mut Service)) -> (TcpListener, Pool) {
    let listener = raw::listener().await;
    let mut settings = Service::new("s", "127.0.0.1", listener.local_addr().unwrap().port());
    change(&mut settings);
    (listener, Pool::new(settings).unwrap())
}

pub(crate) fn get(path: &str) -> Request<Outgoing> {
    Request::get(path).body(Outgoing::Empty).unwrap()
}

fn post(body: &'static str) -> Request<Outgoing> {
    Request::post("/charges").body(Outgoing::Whole(Bytes::from_static(body.as_bytes()))).unwrap()
}

pub(crate) async fn patient<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, Box::pin(future)).await.expect("an end in time")
}

pub(crate) async fn text(response: Response<Incoming>) -> Result<String, Failed> {
    let bytes = patient(response.into_body().collect()).await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

/// One call against a service that answers with exactly this and then closes.
async fn answered_with(answer: &str) -> (Result<(StatusCode, Result<String, Failed>), Failed>, Pool) {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        write(&mut stream, answer).await;
        // So that what was written is read before the end is seen.
        stream.shutdown().await.unwrap();
        rest(&mut stream).await;
    };
    let call = async {
        let response = patient(pool.send(get("/"))).await?;
        let status = response.status();
        Ok((status, text(response).await))
    };
    (tokio::join!(call, serve).0, pool)
}

#[test]
fn a_call_can_be_moved_to_a_task() {
    fn send<T: Send>(_: T) {}
    fn check(pool: &Pool) {
        send(pool.send(get("/")));
        send(pool.upgrade(get("/")));
    }
    let _ = check;
}

#[tokio::test]
async fn a_call_is_a_small_future() {
    let (_listener, pool) = service(|_| {}).await;
    let size = size_of_val(&pool.send(get("/")));
    assert!(size <= 2048, "{size} bytes are moved around for each call");
}

#[tokio::test]
async fn a_connection_is_used_again_once_its_answer_is_read() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        for _ in 0..3 {
            head(&mut stream).await;
            write(&mut stream, HELLO).await;
        }
        stream
    };
    let calls = async {
        for _ in 0..3 {
            assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "hello");
        }
    };
    let (_stream, ()) = patient(async { tokio::join!(serve, calls) }).await;
    let counts = pool.counts();
    assert_eq!((counts.opened, counts.reused, counts.idle, counts.failed), (1, 2, 1, 0));
}

#[tokio::test]
async fn without_reuse_every_request_has_a_connection_of_its_own_and_says_so_h11() {
    let (listener, pool) = service(|settings| settings.reuse = false).await;
    let serve = async {
        for _ in 0..3 {
            let mut stream = accept(&listener).await;
            let asked = head(&mut stream).await;
            assert!(asked.contains("\r\nconnection: close\r\n"), "{asked}");
            write(&mut stream, HELLO).await;
            assert_eq!(rest(&mut stream).await, "", "nothing follows");
        }
    };
    let call = async {
        for _ in 0..3 {
            assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "hello");
        }
    };
    tokio::join!(call, serve);
    let counts = pool.counts();
    assert_eq!((counts.opened, counts.reused, counts.idle, counts.open), (3, 0, 0, 0));
}

#[tokio::test]
async fn a_call_is_polled_when_it_begins_and_when_its_answer_is_there_and_wakes_nobody_else() {
    let (listener, pool) = service(|_| {}).await;
    tokio::spawn(async move {
        let mut stream = accept(&listener).await;
        loop {
            head(&mut stream).await;
            write(&mut stream, HELLO).await;
        }
    });
    text(pool.send(get("/warm")).await.unwrap()).await.unwrap();
    let polls = Arc::new([const { AtomicUsize::new(0) }; 3]);
    let answered = Arc::new(Semaphore::new(0));
    for number in 0..3 {
        let (polls, pool, done) = (Arc::clone(&polls), pool.clone(), Arc::clone(&answered));
        let call = async move {
            let body = pool.send(get("/")).await.unwrap().into_body();
            assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");
            done.add_permits(1);
            // It stays alive, so that it could be waked by others.
            std::future::pending::<()>().await;
        };
        let mut call = Box::pin(call);
        tokio::spawn(std::future::poll_fn(move |cx| {
            polls[number].fetch_add(1, SeqCst);
            call.as_mut().poll(cx)
        }));
        patient(answered.acquire()).await.unwrap().forget();
        // Time for those who would be waked for nothing.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((pool.counts().opened, pool.counts().reused), (1, 3));
    assert_eq!(polls.each_ref().map(|polls| polls.load(SeqCst)), [2, 2, 2]);
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced_and_nothing_is_sent_twice() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        write(&mut stream, HELLO).await;
        stream
    };
    let (stream, first) = tokio::join!(serve, async { text(pool.send(get("/1")).await.unwrap()).await });
    assert_eq!(first.unwrap(), "hello");
    assert_eq!(pool.counts().idle, 1);
    // The runtime has no chance to hear of it before the next call: only the kernel knows.
    drop(stream);
    let serve = async {
        let mut stream = accept(&listener).await;
        let head = head(&mut stream).await;
        let body = exactly(&mut stream, 6).await;
        write(&mut stream, HELLO).await;
        (head, body)
    };
    let ((head, body), second) = tokio::join!(serve, async { text(pool.send(post("charge")).await?).await });
    assert_eq!(second.unwrap(), "hello");
    assert!(head.starts_with("POST /charges HTTP/1.1\r\n"), "{head}");
    assert_eq!(body, "charge");
    let counts = pool.counts();
    assert_eq!((counts.opened, counts.stale, counts.reused, counts.failed), (2, 1, 0, 0));
}

#[tokio::test]
async fn a_connection_on_which_something_came_unasked_is_not_used_again() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        write(&mut stream, HELLO).await;
        stream
    };
    let (mut stream, first) = tokio::join!(serve, async { text(pool.send(get("/1")).await.unwrap()).await });
    assert_eq!(first.unwrap(), "hello");
    // An answer that nobody asked for must not become the answer to the next request.
    write(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison").await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        write(&mut stream, HELLO).await;
    };
    let ((), second) = tokio::join!(serve, async { text(pool.send(get("/2")).await.unwrap()).await });
    assert_eq!(second.unwrap(), "hello");
    assert_eq!(pool.counts().stale, 1);
}

/// An answer of this length in all.
pub(crate) fn of_length(length: usize) -> String {
    let head = |body: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {body:05}\r\n\r\n");
    let body = length - head(0).len();
    head(body) + &"x".repeat(body)
}

#[tokio::test]
async fn more_bytes_than_the_answer_has_close_the_connection() {
    // However much is read at once, an answer that ends exactly there must not hide what follows it.
    for answer in [HELLO.to_owned(), of_length(4 << 10), of_length(8 << 10), of_length(16 << 10)] {
        let (listener, pool) = service(|_| {}).await;
        let serve = async {
            let mut stream = accept(&listener).await;
            head(&mut stream).await;
            write(&mut stream, &format!("{answer}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")).await;
            let mut second = accept(&listener).await;
            head(&mut second).await;
            write(&mut second, HELLO).await;
            stream
        };
        let calls = async {
            let first = text(pool.send(get("/1")).await.unwrap()).await.unwrap();
            assert!(answer.ends_with(&first) && !first.is_empty());
            assert_eq!(text(pool.send(get("/2")).await.unwrap()).await.unwrap(), "hello");
        };
        patient(async { tokio::join!(serve, calls) }).await;
        assert_eq!(pool.counts().opened, 2);
    }
}

#[tokio::test]
async fn a_service_that_is_away_was_certainly_not_reached_l7() {
    let port = Port::reserve().unwrap();
    let pool = Pool::new(Service::new("s", "127.0.0.1", port.number())).unwrap();
    let failed = patient(pool.send(post("charge"))).await.unwrap_err();
    assert_eq!((failed.reached, failed.kind), (Reached::No, FailedKind::Connect));
    assert_eq!((pool.counts().failed, pool.counts().open), (1, 0));
}

#[tokio::test]
async fn a_service_that_takes_no_connection_is_given_up_in_time() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // Its queue is full, and the kernel lets further ones wait.
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) =
        timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await
    {
        queued.push(stream);
    }
    let mut settings = Service::new("s", "127.0.0.1", address.port());
    settings.connect_timeout = Duration::from_millis(100);
    let pool = Pool::new(settings).unwrap();
    let failed = patient(pool.send(post("charge"))).await.unwrap_err();
    assert_eq!((failed.reached, failed.kind), (Reached::No, FailedKind::Timeout), "{failed}");
}

#[tokio::test]
async fn a_connection_cut_after_bytes_were_written_leaves_it_open_whether_they_were_read_l7() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
    };
    let ((), failed) = tokio::join!(serve, async { patient(pool.send(post("charge"))).await.unwrap_err() });
    assert_eq!((failed.reached, failed.kind), (Reached::Perhaps, FailedKind::Closed), "{failed}");
    assert!(!failed.to_string().contains("reuse"), "it is the first on its connection: {failed}");
    assert_eq!(pool.counts().open, 0);
}

#[tokio::test]
async fn a_used_connection_cut_after_bytes_were_written_is_not_tried_again_l7() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        write(&mut stream, HELLO).await;
        head(&mut stream).await;
        drop(stream);
        timeout(Duration::from_millis(200), listener.accept()).await.is_err()
    };
    let calls = async {
        assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "hello");
        patient(pool.send(post("charge"))).await.unwrap_err()
    };
    let (alone, failed) = patient(async { tokio::join!(serve, calls) }).await;
    assert!(alone, "the request was sent a second time");
    assert_eq!((failed.reached, failed.kind), (Reached::Perhaps, FailedKind::Closed));
    assert!(failed.to_string().contains("had carried a request before (see `reuse`"), "{failed}");
}

#[tokio::test]
async fn an_answer_that_is_cut_is_an_error_and_never_a_short_body() {
    for cut in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    ] {
        let (answer, pool) = answered_with(cut).await;
        let (status, body) = answer.unwrap();
        assert_eq!(status, 200);
        let failed = body.expect_err(cut);
        assert_eq!(failed.reached, Reached::Perhaps);
        assert_eq!((pool.counts().failed, pool.counts().open), (1, 0), "{cut}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_answer_is_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(200_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X-Many: 1\r\n".repeat(150));
    for (answer, kind) in [
        ("hello\r\n\r\n", FailedKind::Malformed),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", FailedKind::Malformed),
        ("HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello", FailedKind::Malformed),
        (&long, FailedKind::Malformed),
        (&many, FailedKind::Malformed),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            FailedKind::Malformed,
        ),
        ("", FailedKind::Closed),
        ("HTTP/1.1 200 OK\r\nContent-Le", FailedKind::Closed),
    ] {
        let (outcome, pool) = answered_with(answer).await;
        let shown = &answer[..answer.len().min(60)];
        let failed = outcome.map(|(status, _)| status).expect_err(shown);
        assert_eq!((failed.reached, failed.kind), (Reached::Perhaps, kind), "{shown}: {failed}");
        assert_eq!((pool.counts().idle, pool.counts().failed), (0, 1), "{shown}");
    }
}

#[tokio::test]
async fn whole_answers_of_every_framing_are_read() {
    for (answer, wanted) in [
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
            "hello world",
        ),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", "until the end"),
        ("HTTP/1.0 200 OK\r\n\r\nuntil the end", "until the end"),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "ok",
        ),
    ] {
        let (outcome, _) = answered_with(answer).await;
        let (status, body) = outcome.unwrap();
        assert_eq!((status.as_u16(), body.unwrap().as_str()), (200, wanted));
    }
}

#[tokio::test]
async fn answers_without_a_body_leave_their_connection_usable() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            HELLO,
        ] {
            head(&mut stream).await;
            write(&mut stream, answer).await;
        }
        stream
    };
    let calls = async {
        for (method, status, body) in [
            (Method::HEAD, 200, ""),
            (Method::GET, 204, ""),
            (Method::GET, 304, ""),
            (Method::GET, 200, "hello"),
        ] {
            let request = Request::builder().method(method).uri("/").body(Outgoing::Empty).unwrap();
            let response = pool.send(request).await.unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(text(response).await.unwrap(), body);
        }
    };
    patient(async { tokio::join!(serve, calls) }).await;
    assert_eq!((pool.counts().opened, pool.counts().reused), (1, 3));
}

#[tokio::test]
async fn a_connection_that_the_service_means_to_close_is_not_kept() {
    for answer in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        // Two framings, of which somebody else may believe the other one.
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        let (listener, pool) = service(|_| {}).await;
        let serve = async {
            let mut stream = accept(&listener).await;
            head(&mut stream).await;
            write(&mut stream, answer).await;
            rest(&mut stream).await
        };
        let call = async { text(pool.send(get("/")).await.unwrap()).await.unwrap() };
        let (_, body) = patient(async { tokio::join!(serve, call) }).await;
        assert_eq!(body, "hello");
        assert_eq!((pool.counts().idle, pool.counts().open), (0, 0));
    }
}

#[tokio::test]
async fn a_connection_whose_answer_is_not_read_is_closed() {
    let (listener, pool) = service(|_| {}).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        write(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").await;
        rest(&mut stream).await
    };
    let call = async {
        let mut response = pool.send(get("/")).await.unwrap();
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "hello");
    };
    patient(async { tokio::join!(serve, call) }).await;
    assert_eq!((pool.counts().idle, pool.counts().open), (0, 0));
}

#[tokio::test]
async fn no_more_connections_are_made_than_allowed_and_nobody_waits_for_one() {
    let (listener, pool) = service(|settings| settings.max_connections = 1).await;
    let first = pool.send(get("/"));
    let mut first = std::pin::pin!(first);
    assert!(timeout(Duration::from_millis(50), &mut first).await.is_err());
    let failed = patient(pool.send(post("charge"))).await.unwrap_err();
    assert_eq!((failed.reached, failed.kind), (Reached::No, FailedKind::TooManyConnections));
    let serve = async {
        let mut stream = accept(&listener).await;
        for _ in 0..2 {
            head(&mut stream).await;
            write(&mut stream, HELLO).await;
        }
    };
    let calls = async {
        assert_eq!(text(first.await.unwrap()).await.unwrap(), "hello");
        assert_eq!(text(pool.send(get("/")).await.unwrap()).await.unwrap(), "hello");
    };
    patient(async { tokio::join!(serve, calls) }).await;
}

#[tokio::test]
async fn connections_that_nobody_needs_are_closed_in_time() {
    let (listener, pool) = service(|settings| settings.idle_timeout = Duration::from_millis(100)).await;
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        write(&mut stream, HELLO).await;
        rest(&mut stream).await
    };
    let call = async { text(pool.send(get("/")).await.unwrap()).await.unwrap() };
    patient(async { tokio::join!(serve, call) }).await;
    assert_eq!((pool.counts().idle, pool.counts().open), (0, 0));
}

#[tokio::test]
async fn an_abandoned_call_closes_its_connection() {
    let (listener, pool) = service(|_| {}).await;
    assert!(timeout(Duration::from_millis(50), pool.send(post("charge"))).await.is_err());
    let mut stream = accept(&listener).await;
    rest(&mut stream).await;
    assert_eq!(pool.counts().open, 0);
}
