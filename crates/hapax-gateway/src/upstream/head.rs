//! Heads, without I/O: that of a request as it is written, and that of an answer as it is read.
//!
//! What frames a request is written from the body that is at hand and from nothing that a client said. Of an answer, whatever
//! two readers could frame differently is refused.

use std::fmt::Write as _;
use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use hapax_tower::answer::is_length;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::{Method, Response, StatusCode, request};
use hyper::ext::ReasonPhrase;

use super::framing::{Chunked, Framing};
use crate::limits;

/// What came is no answer, and why.
#[derive(Debug)]
pub(super) struct Malformed(pub(super) String);

impl Malformed {
    pub(super) fn new(why: &str) -> Self {
        Malformed(why.to_owned())
    }
}

impl From<httparse::Error> for Malformed {
    fn from(error: httparse::Error) -> Self {
        Malformed(error.to_string())
    }
}

/// Writes the head of a request with a body of this length, or of one that is not known yet.
pub(super) fn write(head: &request::Parts, host: &HeaderValue, length: Option<u64>, out: &mut BytesMut) {
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

fn put(out: &mut BytesMut, parts: &[&[u8]]) {
    out.reserve(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part));
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

/// Whether a head can end here, with or without the `\r` that belongs there.
fn ends(piece: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', piece).any(|at| matches!(piece[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

fn too_long() -> Malformed {
    Malformed::new("a longer head than is read")
}

fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

/// Where one field is in a head: from, to and from, to.
type Place = [u32; 4];

/// One head, if it is there.
fn parse(come: &mut BytesMut, bodiless: bool) -> Result<Option<Head>, Malformed> {
    let mut places: [Place; limits::ANSWER_FIELDS] = [[0; 4]; limits::ANSWER_FIELDS];
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
    let begin = come.as_ptr() as usize;
    let place = |text: &[u8]| {
        let from = text.as_ptr() as usize - begin;
        // No head is longer than fits.
        (from as u32, (from + text.len()) as u32)
    };
    for (field, at) in parsed.headers.iter().zip(&mut places) {
        let (name, value) = (place(field.name.as_bytes()), place(field.value));
        *at = [name.0, name.1, value.0, value.1];
    }
    let count = parsed.headers.len();
    let lines = come.split_to(length).freeze();
    let mut said = Said { keep: !is_old, ..Said::default() };
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = said.read(&lines, &places[..count])?;
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
    let keep = said.keep && !said.close && !(said.chunked && said.length.is_some());
    Ok(Some(Head { response, framing, keep }))
}

/// What a head says about its own body and connection.
#[derive(Default)]
struct Said {
    length: Option<u64>,
    chunked: bool,
    keep: bool,
    close: bool,
}

impl Said {
    /// The fields of these lines: names as they are compared, values as slices of the lines.
    fn read(&mut self, lines: &Bytes, places: &[Place]) -> Result<HeaderMap, Malformed> {
        let mut headers = HeaderMap::with_capacity(places.len() + limits::ANSWER_FIELDS_ADDED);
        for place in places {
            let [name, name_end, value, value_end] = place.map(|at| at as usize);
            let name = HeaderName::from_bytes(&lines[name..name_end])
                .map_err(|_| Malformed::new("a field name that is none"))?;
            let value = HeaderValue::from_maybe_shared(lines.slice(value..value_end))
                .map_err(|_| Malformed::new("a field value that is none"))?;
            match name {
                CONTENT_LENGTH => {
                    let length = self.length(&value)?;
                    let is_plain = is_length(&value, length);
                    headers.insert(name, if is_plain { value } else { HeaderValue::from(length) });
                }
                // It concerns this connection alone, and is dealt with here.
                TRANSFER_ENCODING => self.coding(&value)?,
                CONNECTION => {
                    self.connection(&value);
                    headers.append(name, value);
                }
                _ => drop(headers.append(name, value)),
            }
        }
        // The length is what the chunks say; the other one must not go on (RFC 9112, 6.3).
        if self.chunked {
            headers.remove(CONTENT_LENGTH);
        }
        Ok(headers)
    }

    /// A length may be said more than once, as long as it is the same.
    fn length(&mut self, value: &HeaderValue) -> Result<u64, Malformed> {
        let unclear = || Malformed::new("a length that is none, or more than one");
        let mut length = self.length;
        for word in value.to_str().map_err(|_| unclear())?.split(',') {
            let word = word.trim_matches([' ', '\t']);
            let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let number = word.parse().ok().filter(|_| is_number).ok_or_else(unclear)?;
            if *length.get_or_insert(number) != number {
                return Err(unclear());
            }
        }
        self.length = length;
        length.ok_or_else(unclear)
    }

    /// No other coding is asked for, and none can be undone here.
    fn coding(&mut self, value: &HeaderValue) -> Result<(), Malformed> {
        if self.chunked || !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(Malformed::new("a transfer coding that nobody asked for"));
        }
        self.chunked = true;
        Ok(())
    }

    fn connection(&mut self, value: &HeaderValue) {
        for word in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= word.eq_ignore_ascii_case(b"close");
            self.keep |= word.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}
