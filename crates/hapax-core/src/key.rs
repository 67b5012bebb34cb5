//! Keys, and how one is read from an `Idempotency-Key` header field.
//!
//! A [`Key`] is the caller's opaque text. Core only asks that it can be printed and is not too long; each
//! source states its own stricter grammar. The header's grammar is here because every hapax program that
//! speaks HTTP needs the same one. Whose key it is belongs to [`scope`](crate::scope), and what it identifies
//! to [`identity`](crate::identity).

use std::fmt;
use std::sync::Arc;

use crate::Error;
use crate::limits::{MAX_HEADER_KEY_CHARS, MAX_KEY_BYTES};

mod sf;

/// Header keys may not start like a namespaced key: a caller could otherwise name another tenant (K3).
const RESERVED_PREFIX: &[u8] = b"t-";

/// The caller's opaque string: 1 to 1,024 bytes of printable UTF-8 (K2).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Checks a key of any source against what core demands of all of them.
    pub fn new(text: impl Into<String>) -> Result<Key, Error> {
        let text = text.into();
        if text.is_empty() {
            return Err(Error::invalid("the key is empty: send 1 to 1,024 bytes of printable text"));
        }
        if text.len() > MAX_KEY_BYTES {
            return Err(Error::invalid("the key is too long: send at most 1,024 bytes"));
        }
        if !text.chars().all(is_printable) {
            return Err(Error::invalid(
                "the key holds a control character or line break: send printable text only",
            ));
        }
        Ok(Key(text.into()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", &*self.0)
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Key {
    type Error = Error;

    fn try_from(text: String) -> Result<Key, Error> {
        Key::new(text)
    }
}

/// Keys are shown in logs and lists: what could end or forge a line there is not printable.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}')
}

/// Why an `Idempotency-Key` header cannot be used. The request must then be refused, never run unprotected
/// (K1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderKeyError {
    /// The field is there, but holds no key.
    Empty,
    /// The field holds something that is not a key.
    Malformed(Malformation),
    /// The key starts with `t-`, which is kept for namespaced keys (K3).
    Reserved,
    /// There is more than one field line.
    Duplicated,
}

/// What is wrong with the text of a header key. Positions count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformation {
    /// Longer than 255 characters.
    TooLong,
    /// A character outside `A-Z a-z 0-9 . _ ~ -`.
    BadCharacter {
        /// Where it is in the key, quotes not counted.
        at: usize,
    },
    /// Nothing but dots, which a path would swallow when the outcome is recalled by key.
    OnlyDots,
    /// Starts with a quote, but is not an RFC 9651 string item.
    BadString {
        /// Where reading stopped in the field value.
        at: usize,
    },
}

impl fmt::Display for HeaderKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Malformation::*;
        match self {
            Self::Empty => f.write_str("Idempotency-Key is empty: send a fresh random value, such as a UUID"),
            Self::Malformed(TooLong) => {
                write!(f, "Idempotency-Key is too long: send at most {MAX_HEADER_KEY_CHARS} characters")
            }
            Self::Malformed(BadCharacter { at }) => write!(
                f,
                "Idempotency-Key has a character at position {at} that is not allowed: \
                 use letters, digits and . _ ~ - only"
            ),
            Self::Malformed(OnlyDots) => f.write_str(
                "Idempotency-Key consists of dots only: send a fresh random value, such as a UUID",
            ),
            Self::Malformed(BadString { at }) => write!(
                f,
                "Idempotency-Key starts with a quote but cannot be read at position {at}: \
                 send \"value\" with both quotes, or the value alone"
            ),
            Self::Reserved => {
                f.write_str("Idempotency-Key starts with the reserved prefix t-: choose another value")
            }
            Self::Duplicated => {
                f.write_str("there is more than one Idempotency-Key header: send exactly one")
            }
        }
    }
}

impl std::error::Error for HeaderKeyError {}

impl From<HeaderKeyError> for Error {
    fn from(error: HeaderKeyError) -> Error {
        Error::invalid(error.to_string())
    }
}

impl From<Malformation> for HeaderKeyError {
    fn from(malformation: Malformation) -> HeaderKeyError {
        HeaderKeyError::Malformed(malformation)
    }
}

/// Reads the key from all `Idempotency-Key` field lines of a request; without any line there is no key (K1).
///
/// Two lines are refused even when they agree: a proxy that joins or drops lines would see another request
/// than hapax.
pub fn from_header_lines<'a>(
    lines: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<Key>, HeaderKeyError> {
    let mut lines = lines.into_iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(HeaderKeyError::Duplicated);
    }
    from_header(line).map(Some)
}

/// Reads the key from the value of one `Idempotency-Key` field line (K1, K2, K3).
///
/// `"abc"`, `"abc";v=1` and `abc` are the same key.
pub fn from_header(value: &[u8]) -> Result<Key, HeaderKeyError> {
    let start = value.iter().position(|b| !is_padding(*b)).ok_or(HeaderKeyError::Empty)?;
    let end = value.iter().rposition(|b| !is_padding(*b)).map_or(start, |last| last + 1);
    let trimmed = &value[start..end];
    if trimmed[0] == b'"' {
        let text = sf::string_item(trimmed).map_err(|at| Malformation::BadString { at: start + at })?;
        checked(&text)
    } else {
        checked(trimmed)
    }
}

fn is_padding(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The grammar of K2. The reserved prefix is looked at first, because a namespaced key also has colons in it
/// and "reserved" is the answer that helps whoever sent one.
fn checked(text: &[u8]) -> Result<Key, HeaderKeyError> {
    if text.is_empty() {
        return Err(HeaderKeyError::Empty);
    }
    if text.starts_with(RESERVED_PREFIX) {
        return Err(HeaderKeyError::Reserved);
    }
    if let Some(at) = text.iter().position(|b| !is_header_key_byte(*b)) {
        return Err(Malformation::BadCharacter { at }.into());
    }
    if text.len() > MAX_HEADER_KEY_CHARS {
        return Err(Malformation::TooLong.into());
    }
    if text.iter().all(|b| *b == b'.') {
        return Err(Malformation::OnlyDots.into());
    }
    // Every byte of it was found to be ASCII.
    let text =
        std::str::from_utf8(text).map_err(|error| Malformation::BadCharacter { at: error.valid_up_to() })?;
    Ok(Key(text.into()))
}

fn is_header_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use HeaderKeyError::{Duplicated, Empty, Malformed, Reserved};
    use Malformation::{BadCharacter, BadString, OnlyDots, TooLong};

    fn read(value: &[u8]) -> Result<String, HeaderKeyError> {
        from_header(value).map(|key| key.as_str().to_owned())
    }

    #[test]
    fn quoted_and_bare_headers_are_the_same_key() {
        // K1
        let same: &[&[u8]] = &[
            b"abc",
            b"\"abc\"",
            b"  abc\t",
            b" \"abc\" ",
            b"\"abc\";v=1",
            b"\"abc\"; v=1;  w",
            b"\"abc\";a=?1;b=:aGk=:;c=-1.5;d=tok/en:x;e=\"s;\\\"\\\\\"",
            b"\"abc\";f=@1659578233;g=%\"f%c3%bc\";*h=*;i=:aGk:",
        ];
        for value in same {
            assert_eq!(read(value), Ok("abc".to_owned()), "{}", String::from_utf8_lossy(value));
        }
    }

    #[test]
    fn the_header_grammar_is_kept_to_the_letter() {
        // K1, K2, K3
        let longest = "x".repeat(255);
        assert_eq!(read(longest.as_bytes()), Ok(longest.clone()));
        assert_eq!(read(format!("\"{longest}\"").as_bytes()), Ok(longest));
        for good in [
            "a",
            "0",
            "AZaz09._~-",
            "..a",
            "-",
            "~",
            "T-x",
            "t",
            "t.-",
            "8e03978e-40d5-43e8-bc93-6894a57f9324",
        ] {
            assert_eq!(read(good.as_bytes()), Ok(good.to_owned()));
        }
        let too_long = "x".repeat(256);
        let table: &[(&[u8], HeaderKeyError)] = &[
            (b"", Empty),
            (b"   ", Empty),
            (b"\"\"", Empty),
            (b"\"\";a=1", Empty),
            (too_long.as_bytes(), Malformed(TooLong)),
            (b".", Malformed(OnlyDots)),
            (b"\"...\"", Malformed(OnlyDots)),
            (b"a:b", Malformed(BadCharacter { at: 1 })),
            (b"a b", Malformed(BadCharacter { at: 1 })),
            (b"\"a b\"", Malformed(BadCharacter { at: 1 })),
            (b"a,b", Malformed(BadCharacter { at: 1 })),
            (b"a;v=1", Malformed(BadCharacter { at: 1 })),
            (b"a/b", Malformed(BadCharacter { at: 1 })),
            (b"a%20", Malformed(BadCharacter { at: 1 })),
            (b"'a'", Malformed(BadCharacter { at: 0 })),
            (b"a\0", Malformed(BadCharacter { at: 1 })),
            (b"a\"", Malformed(BadCharacter { at: 1 })),
            (b":YWJj:", Malformed(BadCharacter { at: 0 })),
            ("schlüssel".as_bytes(), Malformed(BadCharacter { at: 4 })),
            (b"\xff\xfe", Malformed(BadCharacter { at: 0 })),
            (b"\"a\\\"b\"", Malformed(BadCharacter { at: 1 })),
            (b"\"a\\\\b\"", Malformed(BadCharacter { at: 1 })),
            (b"t-", Reserved),
            (b"t-abc", Reserved),
            (b"\"t-abc\"", Reserved),
            (b"t-acme:web:user:alice:abc", Reserved),
        ];
        for (value, error) in table {
            assert_eq!(read(value), Err(*error), "{}", String::from_utf8_lossy(value));
        }
    }

    #[test]
    fn a_quoted_header_is_read_as_strictly_as_rfc_9651_wants() {
        // K1: unparsable is 400, never "execute without protection".
        let table: &[(&[u8], usize)] = &[
            (b"\"abc", 4),
            (b"\"", 1),
            (b"\"a\\b\"", 3),
            (b"\"a\\", 3),
            (b"\"a\tb\"", 2),
            (b"\"a\x7fb\"", 2),
            (b"\"\xc3\xbc\"", 1),
            (b"\"a\"b", 3),
            (b"\"a\" ;v", 3),
            (b"\"a\", \"b\"", 3),
            (b"\"a\";", 4),
            (b"\"a\";V=1", 4),
            (b"\"a\";1=1", 4),
            (b"\"a\";v=", 6),
            (b"\"a\";v=!", 6),
            (b"\"a\";v=-", 7),
            (b"\"a\";v=1.", 8),
            (b"\"a\";v=1.2345", 12),
            (b"\"a\";v=1234567890123456", 6),
            (b"\"a\";v=1234567890123.1", 21),
            (b"\"a\";v=?2", 7),
            (b"\"a\";v=@1.5", 10),
            (b"\"a\";v=:a:", 8),
            (b"\"a\";v=:aGk", 10),
            (b"\"a\";v=:aGk==:", 12),
            (b"\"a\";v=%\"%C3\"", 9),
            (b"\"a\";v=%\"%c3\"", 12),
            (b"\"a\";v=%a", 7),
        ];
        for (value, at) in table {
            let error = Malformed(BadString { at: *at });
            assert_eq!(read(value), Err(error), "{}", String::from_utf8_lossy(value));
        }
        assert_eq!(read(b"  \"a"), Err(Malformed(BadString { at: 4 })), "positions count in the whole value");
    }

    #[test]
    fn more_than_one_header_line_is_refused_even_if_they_agree() {
        // K1
        assert_eq!(from_header_lines([]), Ok(None));
        assert_eq!(from_header_lines([b"abc".as_slice()]).unwrap().unwrap().as_str(), "abc");
        assert_eq!(from_header_lines([b"abc".as_slice(), b"abc"]), Err(Duplicated));
        assert_eq!(from_header_lines([b"".as_slice()]), Err(Empty));
        assert_eq!(from_header_lines([b"".as_slice(), b""]), Err(Duplicated));
    }

    #[test]
    fn every_refusal_says_what_to_send_instead() {
        let errors = [
            Empty,
            Malformed(TooLong),
            Malformed(BadCharacter { at: 3 }),
            Malformed(OnlyDots),
            Malformed(BadString { at: 3 }),
            Reserved,
            Duplicated,
        ];
        for error in errors {
            let (text, general) = (error.to_string(), Error::from(error));
            assert!(text.contains(": "), "{text}");
            assert_eq!((general.kind(), general.message()), (crate::Kind::Invalid, &*text));
        }
    }

    #[test]
    fn core_takes_any_printable_text_up_to_1024_bytes() {
        // K2
        for good in ["a", "send:invoice 7:€", "..", "t-x", " ", &"x".repeat(1024)] {
            assert_eq!(Key::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a\nb", "\u{7f}", "\u{85}", "\u{2028}", "\0", &"x".repeat(1025), &"€".repeat(342)] {
            assert_eq!(Key::new(bad).unwrap_err().kind(), crate::Kind::Invalid, "{bad:?}");
        }
    }
}
