//! The head of an answer of HTTP/1, as it is read from a service. Without I/O.
//!
//! What two readers could frame differently is refused.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::{Response, StatusCode};
use hyper::ext::ReasonPhrase;

use super::fields::{Places, Said, Side};
use super::framing::{Chunked, Framing};
use super::{Malformed, ends};
use crate::limits;

/// The head of an answer.
#[derive(Debug)]
pub struct Head {
    /// Status, reason and headers. What frames the body is said once or not at all.
    pub response: Response<()>,
    /// Where the body behind it ends.
    pub framing: Framing,
    /// Whether the service means to go on with the connection.
    pub keep: bool,
}

/// Reads the head of one answer, in as many pieces as it comes.
#[derive(Debug, Default)]
pub struct Reader {
    /// Whether the request was one whose answer has no body.
    bodiless: bool,
    /// Answers before the answer.
    interim: usize,
    /// What was looked at before and is no whole head.
    seen: usize,
}

impl Reader {
    /// For the answer to one request; `bodiless` where that was one whose answer has no body.
    pub fn new(bodiless: bool) -> Self {
        Reader { bodiless, ..Reader::default() }
    }

    /// Takes the head off what has come, once it is there.
    pub fn read(&mut self, come: &mut BytesMut) -> Result<Option<Head>, Malformed> {
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
    pub fn end(&mut self, come: &mut BytesMut) -> Result<(), Malformed> {
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
