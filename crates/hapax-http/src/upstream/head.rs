//! The head of a request, as it is written. Without I/O.
//!
//! What frames a request is written from the body that is at hand and from nothing that a client said.

use std::fmt::Write as _;

use bytes::BytesMut;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, request};
use http_body::Body as _;

use super::body::Outgoing;
use crate::http1::put;
use crate::http1::sending::{Left, Sending};

/// Begins to send a request, on a connection that carries more than this one or not.
pub(super) fn begin(
    request: Request<Outgoing>,
    host: &HeaderValue,
    reuse: bool,
    sending: &mut Sending<Outgoing>,
) {
    let (head, body) = request.into_parts();
    let length = body.size_hint().exact();
    // What was not sent of another request is nobody's.
    sending.stop();
    write(&head, host, length, reuse, sending.head());
    // Trailers end at the edge: a key could hide in them (A5).
    sending.body(body, length.map_or(Left::Chunks { trailers: false }, Left::Length));
}

/// Writes the head of a request with a body of this length, or of one that is not known yet.
fn write(head: &request::Parts, host: &HeaderValue, length: Option<u64>, reuse: bool, out: &mut BytesMut) {
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    put(out, &[head.method.as_str().as_bytes(), b" "]);
    if !target.starts_with(['/', '*']) {
        put(out, &[b"/"]);
    }
    put(out, &[target.as_bytes(), b" HTTP/1.1\r\n"]);
    let mut has_host = false;
    for (name, value) in &head.headers {
        match *name {
            // Nobody waits for a 100 here: what was promised by the client ends at the edge.
            CONTENT_LENGTH | TRANSFER_ENCODING | EXPECT => continue,
            HOST => has_host = true,
            _ => {}
        }
        put(out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    if !has_host {
        put(out, &[b"host: ", host.as_bytes(), b"\r\n"]);
    }
    // A request for another protocol says something else there.
    if !reuse && !head.headers.contains_key(CONNECTION) {
        put(out, &[b"connection: close\r\n"]);
    }
    let bodiless = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE);
    match length {
        Some(0) if bodiless => {}
        Some(length) => drop(write!(out, "content-length: {length}\r\n")),
        None => put(out, &[b"transfer-encoding: chunked\r\n"]),
    }
    put(out, &[b"\r\n"]);
}
