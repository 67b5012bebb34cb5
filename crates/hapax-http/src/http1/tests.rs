//! Hyper's server as a second opinion: what is read as a request here is the same request there.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::framing::Step;
use super::request::Reader;

/// Method, target and body.
type Asked = (String, String, Vec<u8>);

/// The whole requests that are read of a stream, up to its end or to the first fault.
fn ours(stream: &[u8]) -> Vec<Asked> {
    let (mut come, mut reader, mut all) = (BytesMut::from(stream), Reader::default(), Vec::new());
    while let Ok(Some(mut head)) = reader.read(&mut come) {
        let mut body = Vec::new();
        loop {
            match head.framing.next(&mut come) {
                Ok(Step::Data(data)) => body.extend_from_slice(&data),
                Ok(Step::Trailers(_)) => {}
                Ok(Step::End) => break,
                Ok(Step::More) | Err(_) => return all,
            }
        }
        all.push((head.request.method().to_string(), head.request.uri().to_string(), body));
        if !head.keeps() {
            break;
        }
    }
    all
}

/// The same by hyper's server.
fn theirs(stream: &[u8]) -> Vec<Asked> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let all = Arc::new(Mutex::new(Vec::new()));
    let heard = all.clone();
    runtime.block_on(async move {
        let (mut client, edge) = tokio::io::duplex(1 << 16);
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let heard = heard.clone();
            async move {
                let (head, body) = request.into_parts();
                if let Ok(body) = body.collect().await {
                    let asked = (head.method.to_string(), head.uri.to_string(), body.to_bytes().to_vec());
                    heard.lock().unwrap().push(asked);
                }
                Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
            }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        let serving = builder.half_close(true).serve_connection(TokioIo::new(edge), service);
        let asking = async {
            client.write_all(stream).await.unwrap();
            client.shutdown().await.unwrap();
            let _ = client.read_to_end(&mut Vec::new()).await;
        };
        let _ = tokio::join!(serving, asking);
    });
    Arc::try_unwrap(all).map(|all| all.into_inner().unwrap()).unwrap_or_default()
}

fn streams() -> impl Strategy<Value = Vec<u8>> {
    let first = prop::sample::select(vec![
        "GET /a HTTP/1.1",
        "POST /b?c=d HTTP/1.1",
        "POST http://a.example/b HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "PURGE /c HTTP/1.1",
        "POST /b HTTP/1.0",
        "POST /b HTTP/1.2",
        "POST  /b HTTP/1.1",
        "POST /b c HTTP/1.1",
        "POST /b\tHTTP/1.1",
        "POST /b",
        " POST /b HTTP/1.1",
        "\r\nPOST /b HTTP/1.1",
    ]);
    let line = prop::sample::select(vec![
        "host: a",
        "content-length: 5",
        "content-length:5 ",
        "Content-Length: 05",
        "content-length: 5, 5",
        "content-length: +5",
        "content-length: 0x5",
        "content-length: -1",
        "content-length:",
        "transfer-encoding: chunked",
        "Transfer-Encoding: CHUNKED",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding:",
        "connection: close",
        "connection: keep-alive",
        "x y: z",
        "x : y",
        ": y",
        "x",
        " folded",
        "x: \u{e4}",
        "x: a\rb",
    ]);
    let body = prop::sample::select(vec![
        "",
        "hello",
        "hell",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=1\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nx: y\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello",
        "0\r\n\r\n",
    ]);
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n"]);
    let request =
        (first, prop::collection::vec(line, 0..4), end, body).prop_map(|(first, lines, end, body)| {
            let head: String = std::iter::once(first).chain(lines).flat_map(|line| [line, end]).collect();
            format!("{head}{end}{body}").into_bytes()
        });
    prop::collection::vec(request, 1..4).prop_map(|requests| requests.concat())
}

proptest! {
    #[test]
    fn what_is_read_hypers_server_reads_as_well_h11(stream in streams()) {
        let (ours, theirs) = (ours(&stream), theirs(&stream));
        prop_assert!(theirs.starts_with(&ours), "{:?}\nours {:?}\ntheirs {:?}",
            String::from_utf8_lossy(&stream), ours, theirs);
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ours(&noise);
        let _ = ours(&[b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", &noise[..]].concat());
        let _ = ours(&[b"GET / HTTP/1.1\r\n", &noise[..], b"\r\n\r\n"].concat());
    }
}

/// The property must be able to fail: most streams have something in them that both read.
#[test]
fn the_second_opinion_is_asked_about_something() {
    let stream = b"POST /a HTTP/1.1\r\ncontent-length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\n\r\n";
    let wanted = vec![("POST".into(), "/a".into(), b"hello".to_vec()), ("GET".into(), "/b".into(), vec![])];
    assert_eq!(ours(stream), wanted);
    assert_eq!(theirs(stream), wanted);
}
