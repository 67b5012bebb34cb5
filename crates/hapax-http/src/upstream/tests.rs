//! The parts that know nothing of sockets: answers in every cut, answers that are none, hyper's client as a second opinion, and
//! requests in every cut.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::body::Outgoing;
use super::head;
use crate::http1::framing::{Chunked, Framing, Step};
use crate::http1::response::Reader;
use crate::http1::sending::Sending;
use crate::limits;

/// An answer as it was read.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    trailers: Vec<String>,
    keep: bool,
    /// What came behind it.
    rest: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Unread {
    Malformed,
    Cut,
}

/// Gives the bytes in pieces of these lengths, over and over, and then the end of the connection.
fn read(bytes: &[u8], cuts: &[usize], bodiless: bool) -> Result<Read, Unread> {
    let mut cuts = cuts.iter().copied().cycle();
    let (mut come, mut ahead) = (BytesMut::new(), bytes);
    let mut fill = |come: &mut BytesMut| {
        let count = cuts.next().unwrap_or(usize::MAX).clamp(1, ahead.len().max(1)).min(ahead.len());
        come.extend_from_slice(&ahead[..count]);
        ahead.advance(count);
        count > 0
    };
    let malformed = |_| Unread::Malformed;
    let mut reader = Reader::new(bodiless);
    let mut head = loop {
        if let Some(head) = reader.read(&mut come).map_err(malformed)? {
            break head;
        }
        if !fill(&mut come) {
            reader.end(&mut come).map_err(malformed)?;
            return Err(Unread::Cut);
        }
    };
    let (mut body, mut trailers) = (Vec::new(), Vec::new());
    loop {
        match head.framing.next(&mut come).map_err(malformed)? {
            Step::Data(data) => body.extend_from_slice(&data),
            Step::Trailers(fields) => trailers.extend(fields.keys().map(|name| name.to_string())),
            Step::End => break,
            Step::More if fill(&mut come) => {}
            Step::More if head.framing.ends_with_connection() => break,
            Step::More => return Err(Unread::Cut),
        }
    }
    let headers = head.response.headers().iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    while fill(&mut come) {}
    let status = head.response.status().as_u16();
    Ok(Read { status, headers, body, trailers, keep: head.keep, rest: come.to_vec() })
}

fn whole(answer: &str) -> Result<Read, Unread> {
    read(answer.as_bytes(), &[usize::MAX], false)
}

fn chunked(body: &str) -> Result<Read, Unread> {
    whole(&format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{body}"))
}

#[test]
fn what_is_no_answer_is_refused() {
    for head in [
        "hello",
        "HTTP/2.0 200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 OK\r\nx: a\0b",
        "HTTP/1.1 200 OK\r\nx: a\rb",
        "HTTP/1.1 200 OK\r\nx: a\r\n folded",
        "HTTP/1.1 200 OK\r\nx : a",
        "HTTP/1.1 200 OK\r\nx y: a",
        "HTTP/1.1 200 OK\r\n: a",
        "HTTP/1.1 200 OK\r\nx",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6",
        "HTTP/1.1 200 OK\r\ncontent-length: 5, 6",
        "HTTP/1.1 200 OK\r\ncontent-length: +5",
        "HTTP/1.1 200 OK\r\ncontent-length: -5",
        "HTTP/1.1 200 OK\r\ncontent-length: 0x5",
        "HTTP/1.1 200 OK\r\ncontent-length: ",
        "HTTP/1.1 200 OK\r\ncontent-length: 5,",
        "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\ncontent-length: 6",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, identity",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: xchunked",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked",
    ] {
        let refused = read(format!("{head}\r\n\r\nhello").as_bytes(), &[usize::MAX], false);
        assert_eq!(refused.unwrap_err(), Unread::Malformed, "{head:?}");
    }
}

#[test]
fn chunks_are_read_by_the_letter() {
    for (body, wanted) in [
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("0005\r\nhello\r\n000\r\n\r\n", "hello"),
        ("5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n", "hello"),
        ("5 \t;a\r\nhello\r\n0\r\n\r\n", "hello"),
        ("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        ("0\r\n\r\n", ""),
    ] {
        assert_eq!(chunked(body).unwrap().body, wanted.as_bytes(), "{body:?}");
    }
    for body in [
        "\r\nhello\r\n0\r\n\r\n",
        ";a\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5;a\0b\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "10000000000000000\r\nhello",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\r\nhello\r\n0\r\nx: y\n\r\n",
        "5\r\nhello\r\n0\r\nx: y\rz\r\n\r\n",
        "5\r\nhello\r\n0\r\n x: y\r\n\r\n",
        "5\r\nhello\r\n0\r\nx y\r\n\r\n",
        "5\r\nhello\r\n0\r\nx: \0\r\n\r\n",
    ] {
        assert_eq!(chunked(body).unwrap_err(), Unread::Malformed, "{body:?}");
    }
    for body in ["", "5", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n"] {
        assert_eq!(chunked(body).unwrap_err(), Unread::Cut, "{body:?}");
    }
}

#[test]
fn trailers_are_read_without_what_frames_a_message() {
    let fields = "x-sum: 1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\nconnection: close\r\n";
    let answer = chunked(&format!("5\r\nhello\r\n0\r\n{fields}\r\nmore")).unwrap();
    assert_eq!((answer.trailers, answer.rest), (vec!["x-sum".to_owned()], b"more".to_vec()));
}

#[test]
fn nothing_is_read_without_a_bound() {
    let wanted = |ok: bool, answer: String| match ok {
        true => assert_eq!(whole(&answer).unwrap().body, b"hello", "{}", &answer[..80]),
        false => assert_eq!(whole(&answer).unwrap_err(), Unread::Malformed, "{}", &answer[..80]),
    };
    let end = "content-length: 5\r\n\r\nhello";
    for (ok, fields) in [(true, limits::ANSWER_FIELDS - 1), (false, limits::ANSWER_FIELDS)] {
        wanted(ok, format!("HTTP/1.1 200 OK\r\n{}{end}", "x: y\r\n".repeat(fields)));
    }
    let around = "HTTP/1.1 200 OK\r\nx: \r\n".len() + end.len() - 5;
    for (ok, length) in [(true, limits::ANSWER_HEAD), (false, limits::ANSWER_HEAD + 1)] {
        wanted(ok, format!("HTTP/1.1 200 OK\r\nx: {}\r\n{end}", "y".repeat(length - around)));
    }
    for (ok, count) in [(true, limits::INTERIM_ANSWERS), (false, limits::INTERIM_ANSWERS + 1)] {
        wanted(ok, format!("{}HTTP/1.1 200 OK\r\n{end}", "HTTP/1.1 103 Hints\r\n\r\n".repeat(count)));
    }
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (ok, length) in [(true, limits::CHUNK_EXTENSIONS), (false, limits::CHUNK_EXTENSIONS + 1)] {
        wanted(ok, format!("{head}5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(length)));
        // All chunks together, so that small ones do not add up.
        let (half, rest) = ("x".repeat(length / 2), "x".repeat(length - length / 2));
        wanted(ok, format!("{head}3;{half}\r\nhel\r\n2;{rest}\r\nlo\r\n0\r\n\r\n"));
    }
    for (ok, fields) in [(true, limits::ANSWER_FIELDS), (false, limits::ANSWER_FIELDS + 1)] {
        wanted(ok, format!("{head}5\r\nhello\r\n0\r\n{}\r\n", "x: y\r\n".repeat(fields)));
    }
    for (ok, length) in [(true, limits::TRAILERS - 100), (false, limits::TRAILERS)] {
        wanted(ok, format!("{head}5\r\nhello\r\n0\r\nx: {}\r\n\r\n", "y".repeat(length)));
    }
}

#[test]
fn what_frames_an_answer_is_passed_on_once_or_not_at_all() {
    let lengths = |lines: &str, body: &str| {
        let answer = whole(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n{body}")).unwrap();
        let named = |name: &str| answer.headers.iter().filter(|field| field.0 == name).count();
        assert_eq!((answer.body.as_slice(), named("transfer-encoding")), (&b"hello"[..], 0), "{lines}");
        let length = answer.headers.iter().find(|field| field.0 == "content-length");
        assert!(named("content-length") <= 1, "{lines}");
        (length.map(|field| String::from_utf8(field.1.clone()).unwrap()), answer.keep)
    };
    let five = Some("5".to_owned());
    for same in ["content-length: 5", "content-length: 5, 5", "content-length: 5\r\ncontent-length: 05"] {
        assert_eq!(lengths(same, "hello"), (five.clone(), true), "{same}");
    }
    let chunks = "5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(lengths("transfer-encoding: Chunked", chunks), (None, true));
    let both = "content-length: 3\r\ntransfer-encoding: chunked";
    assert_eq!(lengths(both, chunks), (None, false), "whoever reads the length would find another answer");
}

#[test]
fn a_connection_is_kept_as_the_service_says() {
    for (keep, version, lines) in [
        (true, "1.1", ""),
        (false, "1.0", ""),
        (true, "1.0", "connection: Keep-Alive\r\n"),
        (false, "1.1", "connection: CLOSE\r\n"),
        (false, "1.1", "connection: x, close\r\n"),
        (false, "1.1", "connection: close\r\nconnection: keep-alive\r\n"),
        (false, "1.0", "connection: keep-alive, close\r\n"),
    ] {
        let answer = whole(&format!("HTTP/{version} 200 OK\r\n{lines}content-length: 0\r\n\r\n")).unwrap();
        assert_eq!(answer.keep, keep, "{version} {lines}");
    }
}

#[test]
fn answers_without_a_body_have_none_whatever_they_say() {
    for (bodiless, status) in [(true, "200 OK"), (false, "204 No Content"), (false, "304 Not Modified")] {
        for lines in ["content-length: 5", "transfer-encoding: chunked", "x: y"] {
            let answer = format!("HTTP/1.1 {status}\r\n{lines}\r\n\r\nhello");
            let answer = read(answer.as_bytes(), &[usize::MAX], bodiless).unwrap();
            assert_eq!((answer.body, answer.rest), (vec![], b"hello".to_vec()), "{status} {lines}");
        }
    }
}

/// Answers, and what is none: every part of one, in ways that are right and in ways that are not.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let first = prop::sample::select(vec![
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 Fine",
        "HTTP/1.0 200 OK",
        "HTTP/1.1 204 No Content",
        "HTTP/1.1 304 Not Modified",
        "HTTP/1.1 103 Early Hints",
        "HTTP/1.1 999 ?",
        "HTTP/2.0 200 OK",
        "HTTP/1.1 20",
    ]);
    let line = prop::sample::select(vec![
        "content-length: 5",
        "Content-Length: 5",
        "content-length: 6",
        "content-length: +5",
        "content-length: 5, 5",
        "content-length: 05",
        "content-length: ",
        "transfer-encoding: chunked",
        "Transfer-Encoding: CHUNKED",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: gzip",
        "connection: close",
        "connection: keep-alive",
        "x: a b",
        "x:y",
        "x: \u{e9}",
        "x : y",
        " folded",
        "x: a\0b",
        "x: a\rb",
        ": x",
        "x",
    ]);
    let body = prop::sample::select(vec![
        "",
        "hello",
        "hello!",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=1\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\nx: y\r\n\r\n",
        "5\nhello\n0\n\n",
        "-5\r\nhello",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello",
        "5\r\nhel",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "0\r\n\r\n",
        "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\nmore",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ]);
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n"]);
    (first, prop::collection::vec(line, 0..4), end, body).prop_map(|(first, lines, end, body)| {
        let head: String = std::iter::once(first).chain(lines).flat_map(|line| [line, end]).collect();
        format!("{head}{end}{body}").into_bytes()
    })
}

/// What hyper's client makes of it.
fn hypers(bytes: &[u8]) -> Result<(u16, Vec<u8>), hyper::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut service, edge) = tokio::io::duplex(1 << 16);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(edge)).await?;
        tokio::spawn(connection);
        let serve = async {
            // What comes before the request is no answer to it.
            let _ = service.read(&mut [0; 1 << 10]).await.unwrap();
            service.write_all(bytes).await.unwrap();
            service.shutdown().await.unwrap();
        };
        let (response, ()) = tokio::join!(sender.send_request(Request::new(Empty::new())), serve);
        let response = response?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await?.to_bytes().to_vec()))
    })
}

/// A body that comes in these pieces, with pauses between them.
fn pieces(sizes: &[usize]) -> (Vec<u8>, Outgoing) {
    let pieces: VecDeque<Bytes> =
        sizes.iter().enumerate().map(|(at, size)| Bytes::from(vec![b'a' + (at % 26) as u8; *size])).collect();
    let all = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
    let mut pieces =
        pieces.into_iter().map(|piece| Ok::<_, super::StreamError>(http_body::Frame::data(piece)));
    let mut pause = false;
    let stream = futures_util::stream::poll_fn(move |_| {
        pause = !pause;
        if pause { Poll::Pending } else { Poll::Ready(pieces.next()) }
    });
    (all, Outgoing::stream(StreamBody::new(stream)))
}

/// What is written of a request, so many bytes at a time.
fn sent(request: Request<Outgoing>, counts: &[usize]) -> Vec<u8> {
    let (mut sending, mut seen) = (Sending::default(), Vec::new());
    head::begin(request, &HeaderValue::from_static("service"), true, &mut sending);
    let mut counts = counts.iter().copied().cycle();
    while !sending.is_whole() {
        sending.gather(&mut Context::from_waker(Waker::noop())).unwrap();
        let next: Vec<u8> = sending.slices().iter().flat_map(|slice| slice.to_vec()).collect();
        let count = counts.next().unwrap().min(next.len());
        seen.extend_from_slice(&next[..count]);
        sending.written(count);
    }
    seen
}

proptest! {
    #[test]
    fn an_answer_is_the_same_in_every_cut(
        answer in answers(),
        cuts in prop::collection::vec(1_usize..40, 1..6),
        bodiless in any::<bool>(),
    ) {
        prop_assert_eq!(read(&answer, &cuts, bodiless), read(&answer, &[usize::MAX], bodiless));
    }

    #[test]
    fn what_is_read_hypers_client_reads_as_well(answer in answers()) {
        if let Ok(read) = read(&answer, &[usize::MAX], false) {
            let theirs = hypers(&answer);
            prop_assert!(theirs.is_ok(), "hyper refuses it: {:?}", theirs);
            prop_assert_eq!((read.status, read.body), theirs.unwrap());
        }
    }

    #[test]
    fn noise_never_panics_and_never_reads_beyond_its_end(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        cuts in prop::collection::vec(1_usize..40, 1..6),
    ) {
        let _ = read(&noise, &cuts, false);
        let chunks = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", noise.as_slice()].concat();
        prop_assert_eq!(read(&chunks, &cuts, false), read(&chunks, &[usize::MAX], false));
    }

    #[test]
    fn a_body_of_unknown_length_arrives_whole_in_every_cut(
        sizes in prop::collection::vec(prop_oneof![0_usize..50, 8_000_usize..9_000, 60_000_usize..70_000], 0..6),
        counts in prop::collection::vec(1_usize..20_000, 1..6),
    ) {
        let (wanted, body) = pieces(&sizes);
        let seen = sent(Request::post("/").body(body).unwrap(), &counts);
        let head = b"POST / HTTP/1.1\r\nhost: service\r\ntransfer-encoding: chunked\r\n\r\n";
        prop_assert_eq!(&seen[..head.len()], head);
        let (mut chunks, mut body) = (BytesMut::from(&seen[head.len()..]), Vec::new());
        let mut framing = Framing::Chunked(Chunked::default());
        while let Step::Data(data) = framing.next(&mut chunks).unwrap() {
            body.extend_from_slice(&data);
        }
        prop_assert!(framing.is_over() && chunks.is_empty());
        prop_assert_eq!(body, wanted);
    }

    #[test]
    fn a_body_of_known_length_arrives_whole_in_every_cut(
        length in prop_oneof![1_usize..50, 8_000_usize..9_000, 60_000_usize..70_000],
        counts in prop::collection::vec(1_usize..20_000, 1..6),
    ) {
        let body = vec![b'x'; length];
        let request = Request::post("/").body(Outgoing::from(Bytes::from(body.clone()))).unwrap();
        let head = format!("POST / HTTP/1.1\r\nhost: service\r\ncontent-length: {length}\r\n\r\n");
        prop_assert_eq!(sent(request, &counts), [head.as_bytes(), &body].concat());
    }
}

/// A body that says how long it is and is not.
struct Lying(u64, Option<Bytes>);

impl http_body::Body for Lying {
    type Data = Bytes;
    type Error = super::StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.1.take().map(|data| Ok(http_body::Frame::data(data))))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.0)
    }
}

#[test]
fn a_body_is_as_long_as_was_announced_or_is_given_up() {
    for (announced, fits) in [(4, false), (5, true), (6, false)] {
        let body = Outgoing::stream(Lying(announced, Some(Bytes::from_static(b"hello"))));
        let mut sending = Sending::default();
        let request = Request::post("/").body(body).unwrap();
        head::begin(request, &HeaderValue::from_static("service"), true, &mut sending);
        let gathered = sending.gather(&mut Context::from_waker(Waker::noop()));
        assert_eq!(gathered.is_ok(), fits, "{announced}");
    }
}
