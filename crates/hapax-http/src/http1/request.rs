//! The head of a request of HTTP/1, as it is read: in exactly one way, or not at all. Without I/O.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::{Method, Request, Uri, Version};

use super::fields::{Places, Said, Side};
use super::framing::{Chunked, Framing};
use super::{Malformed, ends};
use crate::limits;
use crate::refusal::Refusal;

/// The head of a request.
#[derive(Debug)]
pub struct Head {
    /// Method, target, version and headers; without what frames the body.
    pub request: Request<()>,
    /// Where the body behind it ends.
    pub framing: Framing,
    pub(crate) said: Said,
}

impl Head {
    /// Whether the client means to go on with the connection.
    pub fn keeps(&self) -> bool {
        self.said.keeps(self.is_old())
    }

    /// Whether it is HTTP/1.0.
    pub fn is_old(&self) -> bool {
        self.request.version() == Version::HTTP_10
    }
}

impl From<Malformed> for Refusal {
    fn from(why: Malformed) -> Self {
        Refusal::Malformed(why.0.into())
    }
}

impl From<httparse::Error> for Refusal {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Refusal::HeadTooLarge,
            error => Refusal::Malformed(error.to_string().into()),
        }
    }
}

fn malformed(why: &'static str) -> Refusal {
    Refusal::Malformed(why.into())
}

/// Reads heads, in as many pieces as they come.
#[derive(Debug, Default)]
pub struct Reader {
    /// What was looked at before and is no whole head.
    seen: usize,
}

impl Reader {
    /// Takes a head off what has come, once it is there. After a refusal nothing more can be read of the connection.
    #[inline]
    pub fn read(&mut self, come: &mut BytesMut) -> Result<Option<Head>, Refusal> {
        // A head that comes byte by byte is not read from its beginning with each of them.
        let worth_it = !come.is_empty() && (self.seen == 0 || ends(&come[self.seen.saturating_sub(3)..]));
        if worth_it && let Some(head) = parse(come)? {
            self.seen = 0;
            return Ok(Some(head));
        }
        self.seen = come.len();
        match self.seen < limits::HEAD {
            true => Ok(None),
            false => Err(Refusal::HeadTooLarge),
        }
    }
}

/// One head, if it is there.
#[inline]
fn parse(come: &mut BytesMut) -> Result<Option<Head>, Refusal> {
    let mut fields = [const { MaybeUninit::uninit() }; limits::FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    let httparse::Status::Complete(length) = parsed.parse_with_uninit_headers(come, &mut fields)? else {
        return Ok(None);
    };
    if length > limits::HEAD {
        return Err(Refusal::HeadTooLarge);
    }
    if !lines_end_well(&come[..length]) {
        return Err(malformed("a line is not terminated by CRLF"));
    }
    let method = Method::from_bytes(parsed.method.unwrap_or_default().as_bytes())
        .map_err(|_| malformed("a method that is none"))?;
    let version = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let target = parsed.path.unwrap_or_default();
    let from = target.as_ptr() as usize - come.as_ptr() as usize;
    let to = from + target.len();
    let mut places = Places::<{ limits::FIELDS }>::new();
    places.note(parsed.headers, come);
    let lines = come.split_to(length).freeze();
    let mut said = Said::new(Side::Request);
    let mut request = Request::new(());
    *request.headers_mut() = said.read(&lines, &places, 0)?;
    *request.method_mut() = method;
    *request.version_mut() = version;
    *request.uri_mut() =
        Uri::from_maybe_shared(lines.slice(from..to)).map_err(|_| malformed("a target that is none"))?;
    let framing = match said.length {
        _ if said.chunked && version == Version::HTTP_10 => {
            return Err(malformed("HTTP/1.0 has no transfer codings"));
        }
        _ if said.chunked => Framing::Chunked(Chunked::default()),
        length => Framing::Length(length.unwrap_or(0)),
    };
    Ok(Some(Head { request, framing, said }))
}

/// `httparse` takes a bare LF for the end of a line; other readers do not.
fn lines_end_well(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).all(|at| at > 0 && head[at - 1] == b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// What is read of a stream that comes in pieces of this size: the targets, and whether it was refused then.
    fn read(stream: &[u8], piece: usize) -> (Vec<String>, bool) {
        let (mut come, mut reader, mut targets) = (BytesMut::new(), Reader::default(), Vec::new());
        let mut framing = Framing::Length(0);
        for bytes in stream.chunks(piece) {
            come.extend_from_slice(bytes);
            loop {
                match framing.next(&mut come) {
                    Err(_) => return (targets, true),
                    Ok(super::super::framing::Step::More) => break,
                    Ok(super::super::framing::Step::End) => match reader.read(&mut come) {
                        Err(_) => return (targets, true),
                        Ok(None) => break,
                        Ok(Some(head)) => {
                            targets.push(head.request.uri().to_string());
                            framing = head.framing;
                        }
                    },
                    Ok(_) => {}
                }
            }
        }
        (targets, false)
    }

    #[test]
    fn heads_are_told_from_bodies_in_every_framing_h11() {
        for (stream, count) in [
            (format!("{GET}{GET}\r\n{GET}"), 3),
            (format!("POST / HTTP/1.1\r\ncontent-LENGTH:  9 \r\n\r\n\n\n\n\n\n\n\n\n\n{GET}"), 2),
            (format!("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n{GET}"), 2),
            (
                format!(
                    "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\n\n\n\n\r\nA\r\n\n\n\n\n\n\n\n\n\n\n\r\n0\r\n\r\n{GET}"
                ),
                2,
            ),
            (
                format!(
                    "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\nX: y\r\nZ: y\r\n\r\n{GET}"
                ),
                2,
            ),
        ] {
            for piece in 1..=stream.len() {
                let (targets, refused) = read(stream.as_bytes(), piece);
                assert_eq!((targets.len(), refused), (count, false), "{stream:?} in {piece}");
                // The next head is read again: what is refused there shows that its beginning was found.
                let broken = format!("{stream}GET /b HTTP/1.1\nHost: a\r\n\r\n");
                let (targets, refused) = read(broken.as_bytes(), piece);
                assert_eq!((targets.len(), refused), (count, true), "{stream:?} in {piece}");
            }
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_not_read_h11() {
        for head in [
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\nX: y\r\ncontent-length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET /\r\n\r\n",
        ] {
            for piece in 1..=head.len() {
                assert_eq!(read(head.as_bytes(), piece), (vec![], true), "{head:?} in {piece}");
            }
        }
    }

    #[test]
    fn a_connection_is_kept_as_the_client_says() {
        let keeps = |head: &str| {
            Reader::default().read(&mut BytesMut::from(head)).unwrap().map(|head| head.keeps()).unwrap()
        };
        assert!(keeps("GET / HTTP/1.1\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.1\r\nConnection: te, Close\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
        assert!(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"));
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_into_pieces_changes_nothing(
            parts in prop::collection::vec(
                prop::sample::select(vec!["\r\n", "\n", "\r", "GET / HTTP/1.1", "GET /b HTTP/1.1\r\n", "Content-Length: 3\r\n",
                    "Transfer-Encoding: chunked\r\n", "0", "5", "abc", "X: ", "\r\n\r\n", "0\r\n\r\n"]),
                0..40,
            ),
            piece in 1usize..20,
        ) {
            let stream = parts.concat();
            let (targets, refused) = read(stream.as_bytes(), piece);
            let (all, all_refused) = read(stream.as_bytes(), stream.len().max(1));
            prop_assert_eq!(&targets, &all);
            // What is refused at once in one piece may wait for its end in many; it is never taken for a head.
            prop_assert!(all_refused || !refused);
        }
    }
}
