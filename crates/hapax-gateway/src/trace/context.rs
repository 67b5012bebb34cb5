//! Who a span is and whose: W3C's Trace Context, version 00.

use std::fmt;

use http::HeaderMap;
use http::header::HeaderValue;

use super::TRACEPARENT;

/// The id of a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

/// The id of a span.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SpanId([u8; 8]);

macro_rules! id {
    ($name:ident, $bytes:literal) => {
        impl $name {
            /// A new one.
            pub fn random() -> Self {
                let mut bytes = [0; $bytes];
                // Without a source of random numbers the id is one, which tells nothing and harms nothing.
                if getrandom::fill(&mut bytes).is_err() || bytes == [0; $bytes] {
                    bytes[$bytes - 1] = 1;
                }
                $name(bytes)
            }

            /// Its bytes.
            pub fn bytes(&self) -> &[u8] {
                &self.0
            }

            /// Reads one in lower-case hexadecimal; one of zeros is none.
            fn read(text: &[u8]) -> Option<Self> {
                let mut bytes = [0; $bytes];
                if text.len() != 2 * $bytes {
                    return None;
                }
                for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
                    *byte = digit(pair[0])? << 4 | digit(pair[1])?;
                }
                (bytes != [0; $bytes]).then_some($name(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    };
}

id!(TraceId, 16);
id!(SpanId, 8);

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// The caller's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace that it belongs to.
    pub trace: TraceId,
    /// Its id.
    pub span: SpanId,
    /// Whether the caller records it.
    pub sampled: bool,
}

impl Parent {
    /// What a caller says of its span; nothing where it cannot be read, or says it twice.
    pub fn of(headers: &HeaderMap) -> Option<Parent> {
        let mut lines = headers.get_all(TRACEPARENT).iter();
        match (lines.next(), lines.next()) {
            (Some(line), None) => Parent::read(line.as_bytes()),
            _ => None,
        }
    }

    /// `00-TRACE-SPAN-FLAGS`; a later version may have more behind that.
    fn read(line: &[u8]) -> Option<Parent> {
        let (head, rest) = line.split_at_checked(55)?;
        let version = digit(head[0])? << 4 | digit(head[1])?;
        let is_whole = match version {
            0xff => false,
            0 => rest.is_empty(),
            _ => rest.is_empty() || rest[0] == b'-',
        };
        if !is_whole || head[2] != b'-' || head[35] != b'-' || head[52] != b'-' {
            return None;
        }
        let flags = digit(head[53])? << 4 | digit(head[54])?;
        let (trace, span) = (TraceId::read(&head[3..35])?, SpanId::read(&head[36..52])?);
        Some(Parent { trace, span, sampled: flags & 1 == 1 })
    }
}

/// The `traceparent` of these headers, to be passed on; nothing where it cannot be read.
pub fn told(headers: &HeaderMap) -> Option<&str> {
    Parent::of(headers)?;
    headers.get(TRACEPARENT)?.to_str().ok()
}

/// What is told of a span that is recorded.
pub(super) fn header(trace: TraceId, span: SpanId) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("00-{trace}-{span}-01")).ok()
}

/// Where draws begin.
pub(super) fn seed() -> u64 {
    getrandom::u64().unwrap_or(1)
}

/// A number that is evenly spread: the output function of SplitMix64.
pub(super) fn mixed(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
