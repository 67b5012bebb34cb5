//! Heads, without I/O: that of a request as it is written, and that of an answer as it is read.
//!
//! What frames a request is written from the body that is at hand and from nothing that a client said. Of an answer, whatever
//! two readers could frame differently is refused.

use std::fmt::Write as _;
use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::header::{CONTENT_LENGTH, EXPECT, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response, StatusCode, request};
use http_body::Body as _;
use hyper::ext::ReasonPhrase;

use super::body::Outgoing;
use crate::http1::fields::{Places, Said, Side};
use crate::http1::framing::{Chunked, Framing};
use crate::http1::sending::{Left, Sending};
use crate::http1::{Malformed, ends, put};
use crate::limits;

/// Begins to send a request.
pub(super) fn begin(request: Request<Outgoing>, host: &HeaderValue, sending: &mut Sending<Outgoing>) {
    let (head, body) = request.into_parts();
    let length = body.size_hint().exact();
    // What was not sent of another request is nobody's.
    sending.stop();
    write(&head, host, length, sending.head());
    // Trailers end at the edge: a key could hide in them (A5).
    sending.body(body, length.map_or(Left::Chunks { trailers: false }, Left::Length));
}

/// Writes the head of a request with a body of this length, or of one that is not known yet.
fn write(head: &request::Parts, host: &HeaderValue, length: Option<u64>, out: &mut BytesMut) {
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
    let bodiless = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE);
    match length {
        Some(0) if bodiless => {}
        Some(length) => drop(write!(out, "content-length: {length}\r\n")),
        None => put(out, &[b"transfer-encoding: chunked\r\n"]),
    }
    put(out, &[b"\r\n"]);
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    /// Status, reason and headers. What frames the body is said once or not at all.
    pub(super) response: Response<()>,
    pub(super) framing: Framing,
    /// Whether the service means to go on with the connection.
    pub(super) keep: bool,
}

/// Reads the head of one answer, in as many pieces as it comes.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Whether the request was one whose answer has no body.
    bodiless: bool,
    /// Answers before the answer.
    interim: usize,
    /// What was looked at before and is no whole head.
    seen: usize,
}

impl Reader {
    pub(super) fn new(bodiless: bool) -> Self {
        Reader { bodiless, ..Reader::default() }
    }

    /// Takes the head off what has come, once it is there.
    pub(super) fn read(&mut self, come: &mut BytesMut) -> Result<Option<Head>, Malformed> {
        // A head that comes byte by byte is not read from its beginning with each of them.
        while !come.is_empty() && (self.seen == 0 || ends(&come[self.seen.saturating_sub(3)..])) {
            let Some(head) = parse(come, self.bodiless)? else { break };
            self.seen = 0;
            if !is_interim(head.response.status()) {
                return Ok(Some(head));
            }
            self.interim += 1;
            if self.interim > limits::INTERIM_ANSWERS {
                return Err(Malformed::new("one interim answer after the other"));
            }
        }
        self.seen = come.len();
        match self.seen < limits::ANSWER_HEAD {
            true => Ok(None),
            false => Err(too_long()),
        }
    }

    /// Nothing more comes: whether what did was the beginning of an answer.
    pub(super) fn end(&mut self, come: &mut BytesMut) -> Result<(), Malformed> {
        self.seen = 0;
        self.read(come).map(drop)
    }
}

fn too_long() -> Malformed {
    Malformed::new("a longer head than is read")
}

fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

/// One head, if it is there.
fn parse(come: &mut BytesMut, bodiless: bool) -> Result<Option<Head>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; limits::ANSWER_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut parsed,
        come,
        &mut fields,
    )?;
    let httparse::Status::Complete(length) = status else { return Ok(None) };
    if length > limits::ANSWER_HEAD {
        return Err(too_long());
    }
    let status = StatusCode::from_u16(parsed.code.unwrap_or_default())
        .map_err(|_| Malformed::new("a status that is none"))?;
    let reason = parsed.reason.filter(|reason| Some(*reason) != status.canonical_reason());
    let reason = reason.and_then(|reason| ReasonPhrase::try_from(reason.as_bytes()).ok());
    let is_old = parsed.version == Some(0);
    let mut places = Places::<{ limits::ANSWER_FIELDS }>::new();
    places.note(parsed.headers, come);
    let lines = come.split_to(length).freeze();
    let mut said = Said::new(Side::Answer);
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = said.read(&lines, &places, limits::ANSWER_FIELDS_ADDED)?;
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    if said.chunked && is_old {
        return Err(Malformed::new("chunks in HTTP/1.0"));
    }
    let framing = match (status.as_u16(), said.length) {
        (100..200 | 204 | 304, _) => Framing::Length(0),
        _ if bodiless => Framing::Length(0),
        _ if said.chunked => Framing::Chunked(Chunked::default()),
        (_, Some(length)) => Framing::Length(length),
        (_, None) => Framing::Close,
    };
    // Two framings may be the work of two people.
    let keep = said.keeps(is_old) && !(said.chunked && said.length.is_some());
    Ok(Some(Head { response, framing, keep }))
}
