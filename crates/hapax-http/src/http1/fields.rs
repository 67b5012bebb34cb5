//! The fields of a head, found by `httparse`: names as they are compared, values as slices of what came; and what they say
//! about the body behind them and about the connection.

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};

use super::Malformed;

/// Where one field is in a head: from, to and from, to.
type Place = [u32; 4];

/// Where the fields of a head are, for when the head has moved.
pub(crate) struct Places<const MOST: usize> {
    places: [Place; MOST],
    count: usize,
}

impl<const MOST: usize> Places<MOST> {
    pub(crate) fn new() -> Self {
        Places { places: [[0; 4]; MOST], count: 0 }
    }

    /// Takes note of these fields, which are slices of `head`.
    pub(crate) fn note(&mut self, fields: &[httparse::Header<'_>], head: &[u8]) {
        let begin = head.as_ptr() as usize;
        let place = |text: &[u8]| {
            let from = text.as_ptr() as usize - begin;
            // No head is longer than fits.
            (from as u32, (from + text.len()) as u32)
        };
        for (field, at) in fields.iter().zip(&mut self.places) {
            let (name, value) = (place(field.name.as_bytes()), place(field.value));
            *at = [name.0, name.1, value.0, value.1];
        }
        self.count = fields.len().min(MOST);
    }
}

/// Whose head it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// A client's. Whoever says anything twice may have meant two things.
    Request,
    /// A service's, which may say its length twice if it is the same.
    Answer,
}

/// What a head says about its own body and connection.
#[derive(Debug)]
pub(crate) struct Said {
    side: Side,
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    keep: bool,
    close: bool,
    /// It names another protocol.
    pub(crate) upgrade: bool,
    /// Its body waits to be asked for.
    pub(crate) expects: bool,
    /// Its sender can do with fields behind a body.
    pub(crate) takes_trailers: bool,
}

impl Said {
    pub(crate) fn new(side: Side) -> Self {
        Said {
            side,
            length: None,
            chunked: false,
            keep: false,
            close: false,
            upgrade: false,
            expects: false,
            takes_trailers: false,
        }
    }

    /// Whether its sender means to go on with the connection; in HTTP/1.0 that must be said.
    pub(crate) fn keeps(&self, old: bool) -> bool {
        !self.close && (self.keep || !old)
    }

    /// The fields of these lines, with room for so many more. What frames a body is said once in them or not at all.
    pub(crate) fn read<const MOST: usize>(
        &mut self,
        lines: &Bytes,
        places: &Places<MOST>,
        more: usize,
    ) -> Result<HeaderMap, Malformed> {
        let mut headers = HeaderMap::with_capacity(places.count + more);
        for place in &places.places[..places.count] {
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
                    continue;
                }
                // It concerns this connection alone, and is dealt with here.
                TRANSFER_ENCODING => {
                    self.coding(&value)?;
                    continue;
                }
                CONNECTION => self.connection(&value),
                UPGRADE => self.upgrade = true,
                EXPECT => self.expects |= value.as_bytes().eq_ignore_ascii_case(b"100-continue"),
                TE => self.takes_trailers |= words(&value).any(|word| word.eq_ignore_ascii_case(b"trailers")),
                _ => {}
            }
            headers.append(name, value);
        }
        if self.chunked && self.length.is_some() {
            if self.side == Side::Request {
                return Err(Malformed::new("the length of the body is said in more than one way"));
            }
            // The length is what the chunks say; the other one must not go on (RFC 9112, 6.3).
            headers.remove(CONTENT_LENGTH);
        }
        Ok(headers)
    }

    /// A service may say a length more than once, as long as it is the same.
    fn length(&mut self, value: &HeaderValue) -> Result<u64, Malformed> {
        let unclear = || Malformed::new("a length that is none, or more than one");
        let mut length = self.length;
        for word in value.to_str().map_err(|_| unclear())?.split(',') {
            let word = word.trim_matches([' ', '\t']);
            let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let number = word.parse().ok().filter(|_| is_number).ok_or_else(unclear)?;
            let again = length.is_some() && self.side == Side::Request;
            if again || *length.get_or_insert(number) != number {
                return Err(unclear());
            }
        }
        self.length = length;
        length.ok_or_else(unclear)
    }

    /// No other coding is asked for, and none can be undone here.
    fn coding(&mut self, value: &HeaderValue) -> Result<(), Malformed> {
        if self.chunked || !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(Malformed::new("the only transfer coding that can be read is chunked, once"));
        }
        self.chunked = true;
        Ok(())
    }

    fn connection(&mut self, value: &HeaderValue) {
        for word in words(value) {
            self.close |= word.eq_ignore_ascii_case(b"close");
            self.keep |= word.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

/// Whether a value of `Content-Length` is this length, written as we write it.
fn is_length(value: &HeaderValue, length: u64) -> bool {
    let digits = value.as_bytes();
    let is_plain = digits == b"0" || (digits.iter().all(u8::is_ascii_digit) && !digits.starts_with(b"0"));
    is_plain && value.to_str().is_ok_and(|digits| digits.parse() == Ok(length))
}

/// Whether a field concerns one connection only, whatever `Connection` says (RFC 9110, 7.6.1).
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// The words of a list.
pub(crate) fn words(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}
