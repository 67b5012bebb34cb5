//! Where a body ends (RFC 9112, 6), without I/O: bytes go in as they come, pieces of the body come out.
//!
//! Nobody must be able to make one message look like two. So chunks are read by the letter of the grammar, and whatever is not
//! in it is an error.

use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http_body::SizeHint;

use super::Malformed;
use super::fields::is_hop_by_hop;
use crate::limits;

/// How the end of a body is known, and how much of it is still to come.
#[derive(Debug)]
pub enum Framing {
    /// After so many more bytes.
    Length(u64),
    /// By what the chunks say.
    Chunked(Chunked),
    /// By the end of the connection.
    Close,
}

/// What comes next of a body.
#[derive(Debug)]
pub enum Step {
    /// Nothing before more has been read.
    More,
    /// A piece.
    Data(Bytes),
    /// The fields behind the last piece.
    Trailers(HeaderMap),
    /// Nothing: that was all.
    End,
}

impl Framing {
    /// A body in chunks, from its beginning.
    pub fn chunked() -> Self {
        Framing::Chunked(Chunked::default())
    }

    /// The next step, taken from what has come.
    pub fn next(&mut self, come: &mut BytesMut) -> Result<Step, Malformed> {
        match self {
            Framing::Length(0) => Ok(Step::End),
            Framing::Chunked(chunked) => chunked.next(come),
            _ if come.is_empty() => Ok(Step::More),
            Framing::Length(left) => Ok(Step::Data(take(left, come))),
            Framing::Close => Ok(Step::Data(come.split().freeze())),
        }
    }

    /// Whether nothing can follow any more.
    pub fn is_over(&self) -> bool {
        match self {
            Framing::Length(left) => *left == 0,
            Framing::Chunked(chunked) => chunked.at == At::End,
            Framing::Close => false,
        }
    }

    /// Whether the end of the connection is the end of the body, and not a cut in it.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self, Framing::Close)
    }

    /// How much is still to come.
    pub fn size_hint(&self) -> SizeHint {
        match self {
            Framing::Length(left) => SizeHint::with_exact(*left),
            _ => SizeHint::default(),
        }
    }
}

/// As much as has come of so many bytes.
fn take(left: &mut u64, come: &mut BytesMut) -> Bytes {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(come.len());
    *left -= count as u64;
    come.split_to(count).freeze()
}

/// A body in chunks.
#[derive(Debug, Default)]
pub struct Chunked {
    at: At,
    /// The size of the chunk as far as it is read, then what is left of the chunk.
    left: u64,
    digits: u32,
    /// Bytes between sizes and ends of lines, of all chunks together.
    extras: usize,
    trailers: Vec<u8>,
    fields: usize,
}

/// What the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// A digit of the size, or what ends it.
    #[default]
    Size,
    /// White space behind the size, or what ends it.
    Space,
    /// A byte of an extension, which nobody reads.
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The first byte behind the last chunk or behind a trailer field.
    Line,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

impl Chunked {
    fn next(&mut self, come: &mut BytesMut) -> Result<Step, Malformed> {
        if self.at == At::End {
            return Ok(Step::End);
        }
        if self.at != At::Data {
            let mut used = 0;
            for byte in come.iter() {
                self.step(*byte)?;
                used += 1;
                if matches!(self.at, At::Data | At::End) {
                    break;
                }
            }
            come.advance(used);
        }
        match self.at {
            At::End if self.trailers.is_empty() => Ok(Step::End),
            At::End => trailers(&std::mem::take(&mut self.trailers)).map(Step::Trailers),
            At::Data if !come.is_empty() => {
                let piece = take(&mut self.left, come);
                if self.left == 0 {
                    self.at = At::DataCr;
                }
                Ok(Step::Data(piece))
            }
            _ => Ok(Step::More),
        }
    }

    /// Everything but the data, byte by byte.
    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        self.at = match (self.at, byte) {
            (At::Size, _) if byte.is_ascii_hexdigit() => self.digit(byte)?,
            (At::Size | At::Space, b' ' | b'\t') if self.digits > 0 => self.extra(At::Space)?,
            (At::Size | At::Space, b';') if self.digits > 0 => At::Extension,
            (At::Size | At::Space, b'\r') if self.digits > 0 => At::SizeLf,
            (At::Extension, b'\r') => At::SizeLf,
            (At::Extension, b'\t' | b' '..=b'~' | 0x80..) => self.extra(At::Extension)?,
            (At::SizeLf, b'\n') if self.left == 0 => At::Line,
            (At::SizeLf, b'\n') => At::Data,
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => {
                self.digits = 0;
                At::Size
            }
            (At::Line, b'\r') => At::EndLf,
            (At::EndLf, b'\n') => At::End,
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::TrailerLf, b'\n') => self.field()?,
            (At::Line | At::Trailer, _) if byte != b'\n' => self.trailer(byte)?,
            _ => return Err(Malformed::new("a chunk that is not framed as chunks are")),
        };
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<At, Malformed> {
        let value = char::from(byte).to_digit(16).unwrap_or_default();
        self.digits += 1;
        // Sixteen digits are as many as fit.
        if self.digits > 16 {
            return Err(Malformed::new("a longer chunk size than there are sizes"));
        }
        self.left = self.left << 4 | u64::from(value);
        Ok(At::Size)
    }

    fn extra(&mut self, at: At) -> Result<At, Malformed> {
        self.extras += 1;
        if self.extras > limits::CHUNK_EXTENSIONS {
            return Err(Malformed::new("longer chunk extensions than are read"));
        }
        Ok(at)
    }

    fn trailer(&mut self, byte: u8) -> Result<At, Malformed> {
        self.trailers.push(byte);
        if self.trailers.len() > limits::TRAILERS {
            return Err(Malformed::new("longer trailers than are read"));
        }
        Ok(At::Trailer)
    }

    fn field(&mut self) -> Result<At, Malformed> {
        self.trailers.extend_from_slice(b"\r\n");
        self.fields += 1;
        if self.fields > limits::ANSWER_FIELDS {
            return Err(Malformed::new("more trailer fields than are read"));
        }
        Ok(At::Line)
    }
}

/// The fields of these lines, without those that frame a message: here it is too late for them (RFC 9110, 6.5.1).
fn trailers(lines: &[u8]) -> Result<HeaderMap, Malformed> {
    let lines = [lines, b"\r\n"].concat();
    let mut fields = [httparse::EMPTY_HEADER; limits::ANSWER_FIELDS];
    let httparse::Status::Complete((_, fields)) = httparse::parse_headers(&lines, &mut fields)? else {
        return Err(Malformed::new("trailers without an end"));
    };
    let mut trailers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value)) else {
            return Err(Malformed::new("a trailer that is no field"));
        };
        if name != CONTENT_LENGTH && !is_hop_by_hop(&name) {
            trailers.append(name, value);
        }
    }
    Ok(trailers)
}
