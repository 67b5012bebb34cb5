//! Heads and bodies of HTTP/1 as the engine reads them: never a panic, and the same however they are cut into pieces.

use bytes::BytesMut;
use hapax_http::head;
use hapax_http::http1::framing::{Framing, Step};
use hapax_http::http1::{request, response};
use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};

use crate::cut::{pieces, split};
use crate::subject;

/// What is read of a stream of requests.
#[derive(Debug, PartialEq)]
struct Requests {
    /// Head and body of each; the last body may be a part.
    read: Vec<(String, Vec<u8>)>,
    refused: bool,
}

/// Requests behind each other: where one ends does not depend on how they come, and a head that was read has one framing.
pub fn request_head(input: &[u8]) {
    let (cut, stream) = split(input);
    let whole = requests(std::iter::once(stream));
    let cut = requests(pieces(stream, cut));
    assert_eq!(whole.read, cut.read, "the same requests in one piece and in many");
    // What is refused at once in one piece may wait for its end in many; it is never taken for a head.
    assert!(whole.refused || !cut.refused, "refused in many pieces only");
}

fn requests<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Requests {
    let (mut come, mut reader, mut framing) = (BytesMut::new(), request::Reader::default(), None);
    let mut all = Requests { read: Vec::new(), refused: false };
    for piece in pieces {
        come.extend_from_slice(piece);
        loop {
            let Some(present) = &mut framing else {
                match subject::request(&mut reader, &mut come) {
                    Ok(Some(head)) => {
                        let text = format!("{:?} {}", head.request, head.keeps());
                        check_request(&head);
                        framing = Some(head.framing);
                        all.read.push((text, Vec::new()));
                        continue;
                    }
                    Ok(None) => break,
                    Err(_) => {
                        all.refused = true;
                        return all;
                    }
                }
            };
            match subject::piece(present, &mut come) {
                Ok(Step::Data(data)) => {
                    if let Some((_, body)) = all.read.last_mut() {
                        body.extend_from_slice(&data);
                    }
                }
                Ok(Step::Trailers(fields)) => check_trailers(&fields),
                Ok(Step::End) => framing = None,
                Ok(Step::More) => break,
                Err(_) => {
                    all.refused = true;
                    return all;
                }
            }
        }
    }
    all
}

/// What holds for every head that is taken.
fn check_request(read: &request::Head) {
    let headers = read.request.headers();
    assert!(!headers.contains_key(TRANSFER_ENCODING), "what frames a body is not passed on");
    let lengths = headers.get_all(CONTENT_LENGTH).iter().count();
    match &read.framing {
        Framing::Length(length) if lengths == 1 => {
            assert_eq!(headers[CONTENT_LENGTH].as_bytes(), length.to_string().as_bytes());
        }
        Framing::Length(length) => assert_eq!((*length, lengths), (0, 0)),
        Framing::Chunked(_) => assert_eq!(lengths, 0),
        Framing::Close => panic!("a request does not end with its connection"),
    }
    check_values(headers);
    let (mut parts, ()) = read.request.clone().into_parts();
    if head::check(&mut parts).is_ok() {
        let path = parts.uri.path().to_owned();
        assert!(path.starts_with('/') && !path.contains("//"), "{path}");
        assert!(!path.split('/').any(|segment| matches!(segment, "." | "..")), "{path}");
        let again = head::check(&mut parts);
        assert!(again.is_ok() && parts.uri.path() == path, "what was checked is as it is meant: {path}");
    }
}

/// One line each, whichever way it is written.
fn check_values(headers: &HeaderMap) {
    for (name, value) in headers {
        let is_line = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
        assert!(value.as_bytes().iter().all(is_line), "{name}: {value:?}");
    }
}

fn check_trailers(fields: &HeaderMap) {
    check_values(fields);
    assert!(!fields.contains_key(CONTENT_LENGTH) && !fields.contains_key(TRANSFER_ENCODING), "{fields:?}");
}

/// One answer of a service: the same head however it comes.
pub fn response_head(input: &[u8]) {
    let (cut, stream) = split(input);
    for bodiless in [false, true] {
        let (whole, cut) = (answer(std::iter::once(stream), bodiless), answer(pieces(stream, cut), bodiless));
        match (whole, cut) {
            (Answer::Head(whole, rest), Answer::Head(cut, behind)) => {
                assert_eq!(whole, cut);
                assert!(rest.starts_with(&behind), "the head ends at the same place");
            }
            (Answer::Refused, Answer::Refused | Answer::More) | (Answer::More, Answer::More) => {}
            (whole, cut) => panic!("in one piece {whole:?}, in many {cut:?}"),
        }
    }
}

/// What is read of an answer.
#[derive(Debug)]
enum Answer {
    /// A head in words, and what has come behind it.
    Head(String, Vec<u8>),
    More,
    Refused,
}

fn answer<'a>(pieces: impl Iterator<Item = &'a [u8]>, bodiless: bool) -> Answer {
    let (mut come, mut reader) = (BytesMut::new(), response::Reader::new(bodiless));
    for piece in pieces {
        come.extend_from_slice(piece);
        match subject::response(&mut reader, &mut come) {
            Err(_) => return Answer::Refused,
            Ok(None) => {}
            Ok(Some(head)) => {
                check_values(head.response.headers());
                let headers = head.response.headers();
                assert!(!headers.contains_key(TRANSFER_ENCODING), "what frames a body is not passed on");
                assert!(headers.get_all(CONTENT_LENGTH).iter().count() <= 1, "{headers:?}");
                let text = format!("{:?} {:?} {}", head.response, head.framing, head.keep);
                return Answer::Head(text, come.to_vec());
            }
        }
    }
    Answer::More
}

/// A body in chunks: the same bytes, trailers and end however it comes.
pub fn chunked_body(input: &[u8]) {
    let (cut, stream) = split(input);
    let (whole, cut) = (chunks(std::iter::once(stream)), chunks(pieces(stream, cut)));
    assert_eq!((&whole.data, &whole.trailers), (&cut.data, &cut.trailers));
    assert_eq!(whole.end, cut.end);
    if whole.end == Some(Ok(())) {
        assert_eq!(whole.rest, cut.rest, "what is behind the body");
        assert!(stream.ends_with(&whole.rest) && whole.data.len() < stream.len());
    }
}

/// What is read of a body.
#[derive(Debug, Default)]
struct Chunks {
    data: Vec<u8>,
    trailers: String,
    /// Whether it came to its end, or to a fault.
    end: Option<Result<(), ()>>,
    rest: Vec<u8>,
}

fn chunks<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Chunks {
    let (mut come, mut framing) = (BytesMut::new(), Framing::chunked());
    let mut all = Chunks::default();
    for piece in pieces {
        if all.end.is_some() {
            all.rest.extend_from_slice(piece);
            continue;
        }
        come.extend_from_slice(piece);
        loop {
            match subject::piece(&mut framing, &mut come) {
                Ok(Step::Data(data)) => all.data.extend_from_slice(&data),
                Ok(Step::Trailers(fields)) => {
                    check_trailers(&fields);
                    all.trailers = format!("{fields:?}");
                }
                Ok(Step::More) => break,
                Ok(Step::End) => {
                    assert!(framing.is_over());
                    all.end = Some(Ok(()));
                    all.rest = come.to_vec();
                    break;
                }
                Err(_) => {
                    all.end = Some(Err(()));
                    break;
                }
            }
        }
    }
    all
}
