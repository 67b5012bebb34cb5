//! Hyper's server as a second opinion: what the engine reads as requests is what hyper reads, or the engine refuses earlier.
//!
//! Two servers in a row that disagree on where a request ends can be made to serve one that was never sent.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use hapax_http::http1::framing::Step;
use hapax_http::http1::request::Reader;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::cut::{pieces, split};
use crate::subject;

/// More than any input is long.
const PIPE: usize = 1 << 16;

/// Method, target and body.
type Asked = (Method, String, Vec<u8>);

/// The same bytes, read by the engine and by hyper's server.
pub fn against_hyper(input: &[u8]) {
    let (cut, stream) = split(input);
    let ours = ours(pieces(stream, cut));
    if ours.is_empty() {
        return;
    }
    let theirs = theirs(stream);
    assert!(
        theirs.starts_with(&ours),
        "{:?}\nours {ours:?}\ntheirs {theirs:?}",
        String::from_utf8_lossy(stream)
    );
}

/// The whole requests that the engine reads of a stream, up to its end or to the first fault.
fn ours<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Asked> {
    let (mut come, mut reader, mut all) = (BytesMut::new(), Reader::default(), Vec::new());
    let mut present = None;
    for piece in pieces {
        come.extend_from_slice(piece);
        loop {
            let Some((head, body)) = &mut present else {
                match subject::request(&mut reader, &mut come) {
                    Ok(Some(head)) => present = Some((head, Vec::new())),
                    Ok(None) => break,
                    Err(_) => return all,
                }
                continue;
            };
            match subject::piece(&mut head.framing, &mut come) {
                Ok(Step::Data(data)) => body.extend_from_slice(&data),
                Ok(Step::Trailers(_)) => {}
                Ok(Step::More) => break,
                Err(_) => return all,
                Ok(Step::End) => {
                    let request = &head.request;
                    let keeps = head.keeps();
                    all.push((request.method().clone(), request.uri().to_string(), std::mem::take(body)));
                    present = None;
                    if !keeps {
                        return all;
                    }
                }
            }
        }
    }
    all
}

/// The same by hyper's server.
fn theirs(stream: &[u8]) -> Vec<Asked> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return Vec::new() };
    let all = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&all);
    runtime.block_on(async move {
        let (mut client, server) = tokio::io::duplex(PIPE);
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let heard = Arc::clone(&heard);
            async move {
                let (head, body) = request.into_parts();
                let mut response = Response::new(Empty::<Bytes>::new());
                if head.method == Method::CONNECT {
                    // As the engine: what follows is not a tunnel.
                    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                }
                if let Ok(body) = body.collect().await {
                    let asked = (head.method, head.uri.to_string(), body.to_bytes().to_vec());
                    heard.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
                }
                Ok::<_, Infallible>(response)
            }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        let serving = builder.half_close(true).serve_connection(TokioIo::new(server), service);
        let asking = async {
            let _ = client.write_all(stream).await;
            let _ = client.shutdown().await;
            let _ = client.read_to_end(&mut Vec::new()).await;
        };
        let _ = tokio::join!(serving, asking);
    });
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut all)
}
