//! The pool of connections to a service that speaks TLS.

use hapax_http::settings::Service;
use hapax_http::upstream::{FailedKind, Outgoing, Pool, Reached};
use hapax_testkit::raw::{accept, head};
use http::Request;
use http_body_util::BodyExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificates as tls;
use crate::upstream::of_length;

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

async fn service(host: &str) -> (TcpListener, Pool) {
    // Every address of this machine, so that it can be called by names that its certificate does not have.
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let mut settings = Service::new("s", host, listener.local_addr().unwrap().port());
    settings.https = true;
    settings.ca = Some(tls::authority());
    (listener, Pool::new(settings).unwrap())
}

async fn answer(listener: &TcpListener) -> TlsStream<TcpStream> {
    let acceptor = TlsAcceptor::from(tls::server(&["http/1.1"]));
    let mut stream = acceptor.accept(accept(listener).await).await.unwrap();
    head(&mut stream).await;
    stream.write_all(HELLO).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

async fn call(pool: &Pool) -> String {
    let response = pool.send(Request::get("/").body(Outgoing::Empty).unwrap()).await.unwrap();
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn a_connection_is_used_again_over_tls() {
    let (listener, pool) = service("127.0.0.1").await;
    let serve = async {
        let mut stream = answer(&listener).await;
        head(&mut stream).await;
        stream.write_all(HELLO).await.unwrap();
        stream.flush().await.unwrap();
        stream
    };
    let calls = async { (call(&pool).await, call(&pool).await) };
    let (_stream, texts) = tokio::join!(serve, calls);
    assert_eq!(texts, ("hello".into(), "hello".into()));
    assert_eq!((pool.counts().opened, pool.counts().reused), (1, 1));
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced_over_tls() {
    let (listener, pool) = service("localhost").await;
    let (mut stream, text) = tokio::join!(answer(&listener), call(&pool));
    assert_eq!(text, "hello");
    // Only an alert comes; the socket itself stays open.
    stream.get_mut().1.send_close_notify();
    stream.flush().await.unwrap();
    let (_stream, text) = tokio::join!(answer(&listener), call(&pool));
    assert_eq!(text, "hello");
    assert_eq!((pool.counts().opened, pool.counts().stale, pool.counts().failed), (2, 1, 0));
}

#[tokio::test]
async fn what_tls_holds_back_behind_an_answer_is_no_answer_to_the_next_call() {
    let (listener, pool) = service("127.0.0.1").await;
    // As much as is read at once, so that the rest of the record waits where the kernel cannot see it.
    let long = of_length(8 << 10);
    let serve = async {
        let acceptor = TlsAcceptor::from(tls::server(&["http/1.1"]));
        let mut stream = acceptor.accept(accept(&listener).await).await.unwrap();
        head(&mut stream).await;
        let poisoned = format!("{long}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
        stream.write_all(poisoned.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        (stream, answer(&listener).await)
    };
    let calls = async { (call(&pool).await, call(&pool).await) };
    let (_streams, (first, second)) = tokio::join!(serve, calls);
    assert!(long.ends_with(&first) && !first.is_empty());
    assert_eq!(second, "hello");
    assert_eq!((pool.counts().opened, pool.counts().stale), (2, 1));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_before_anything_is_sent() {
    let (listener, pool) = service("127.0.0.2").await;
    let serve = async {
        let acceptor = TlsAcceptor::from(tls::server(&["http/1.1"]));
        let _ = acceptor.accept(accept(&listener).await).await;
    };
    let request = Request::get("/").body(Outgoing::Empty).unwrap();
    let failed = tokio::join!(serve, pool.send(request)).1.unwrap_err();
    assert_eq!((failed.reached, failed.kind), (Reached::No, FailedKind::Connect), "{failed}");
}
