//! Keys, and how one is read from an `Idempotency-Key` header field or from another place of a request.
//!
//! A [`Key`] is the caller's opaque text. Core only asks that it can be printed and is not too long; each
//! source states its own stricter grammar. The two grammars of requests are here because every hapax program that
//! speaks HTTP needs the same ones. Whose key it is belongs to [`scope`](crate::scope), what it identifies
//! to [`identity`](crate::identity), and which places are looked at to the rule of a route.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::Error;
use crate::limits::{MAX_HEADER_KEY_CHARS, MAX_KEY_BYTES};

mod sf;
mod tick;

pub use tick::{is_tick, of_tick};

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

/// Which texts a request may send as its key (K2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grammar {
    /// `A-Z a-z 0-9 . _ ~ -`, and not only dots.
    #[default]
    Plain,
    /// Printable ASCII without space, comma and quote. A namespaced key has what is not plain percent-encoded (K4), and a
    /// URL cannot name such a key.
    Printable,
}

impl Grammar {
    /// Reads the key from all lines of one header field; without any line there is no key (K1).
    ///
    /// Two lines are refused even when they agree: a proxy that joins or drops lines would see another request
    /// than hapax.
    pub fn from_header_lines<'a>(
        self,
        lines: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<Key>, HeaderKeyError> {
        let mut lines = lines.into_iter();
        let Some(line) = lines.next() else { return Ok(None) };
        if lines.next().is_some() {
            return Err(HeaderKeyError::Duplicated);
        }
        self.from_header(line).map(Some)
    }

    /// Reads the key from the value of one header line (K1, K2, K3).
    ///
    /// `"abc"`, `"abc";v=1` and `abc` are the same key.
    pub fn from_header(self, value: &[u8]) -> Result<Key, HeaderKeyError> {
        self.from_text(&text_of_line(value)?)
    }

    /// Reads the key from a text that is nothing but the key, such as a member of a JSON body.
    ///
    /// The reserved prefixes are looked at first, because a namespaced key also has colons in it and "reserved" is the answer
    /// that helps a caller who sent one.
    pub fn from_text(self, text: &[u8]) -> Result<Key, HeaderKeyError> {
        if text.is_empty() {
            return Err(HeaderKeyError::Empty);
        }
        if text.starts_with(RESERVED_PREFIX) || is_tick(text) {
            return Err(HeaderKeyError::Reserved);
        }
        match self {
            Grammar::Plain => plain(text)?,
            Grammar::Printable => printable(text)?,
        }
        // Every byte of it was found to be ASCII.
        let text = std::str::from_utf8(text)
            .map_err(|error| Malformation::BadCharacter { at: error.valid_up_to() })?;
        Ok(Key(text.into()))
    }
}

fn plain(text: &[u8]) -> Result<(), Malformation> {
    if let Some(at) = text.iter().position(|b| !is_plain(*b)) {
        return Err(Malformation::BadCharacter { at });
    }
    if text.len() > MAX_HEADER_KEY_CHARS {
        return Err(Malformation::TooLong);
    }
    if text.iter().all(|b| *b == b'.') {
        return Err(Malformation::OnlyDots);
    }
    Ok(())
}

/// The bound counts what is written in the namespaced form, so that every key fits it.
fn printable(text: &[u8]) -> Result<(), Malformation> {
    if let Some(at) = text.iter().position(|b| !b.is_ascii_graphic() || matches!(b, b',' | b'"')) {
        return Err(Malformation::NotPrintable { at });
    }
    let encoded: usize = text.iter().map(|b| if is_plain(*b) { 1 } else { 3 }).sum();
    if encoded > MAX_HEADER_KEY_CHARS { Err(Malformation::TooLong) } else { Ok(()) }
}

/// Whether a byte may stand in every key (K2). The namespaced form percent-encodes the others (K4).
pub(crate) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-')
}

/// Why the key of a request cannot be used. The request must then be refused, never run unprotected (K1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderKeyError {
    /// The place is there, but holds no key.
    Empty,
    /// The place holds something that is not a key.
    Malformed(Malformation),
    /// The key starts with `t-`, which is kept for namespaced keys (K3), or with `sched.` or `sched:`, which is kept for the ticks of
    /// schedules (K9).
    Reserved,
    /// The header has more than one line.
    Duplicated,
}

/// What is wrong with the text of a key. Positions count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformation {
    /// Longer than 255 characters, percent-encoded.
    TooLong,
    /// A character outside `A-Z a-z 0-9 . _ ~ -`.
    BadCharacter {
        /// Where it is in the key, quotes not counted.
        at: usize,
    },
    /// A character that is not printable ASCII, or a space, a comma or a quote.
    NotPrintable {
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

impl HeaderKeyError {
    /// The same for the key of another place, such as `X-Idempotency-Key`.
    pub fn at(self, place: &str) -> String {
        use Malformation::*;
        match self {
            Self::Empty => format!("{place} is empty: send a fresh random value, such as a UUID"),
            Self::Malformed(TooLong) => {
                format!("{place} is too long: send at most {MAX_HEADER_KEY_CHARS} characters")
            }
            Self::Malformed(BadCharacter { at }) => format!(
                "{place} has a character at position {at} that is not allowed: \
                 use letters, digits and . _ ~ - only"
            ),
            Self::Malformed(NotPrintable { at }) => format!(
                "{place} has a character at position {at} that is not allowed: \
                 use printable ASCII without space, comma and quote"
            ),
            Self::Malformed(OnlyDots) => {
                format!("{place} consists of dots only: send a fresh random value, such as a UUID")
            }
            Self::Malformed(BadString { at }) => format!(
                "{place} starts with a quote but cannot be read at position {at}: \
                 send \"value\" with both quotes, or the value alone"
            ),
            Self::Reserved => {
                format!("{place} starts with a reserved prefix (t-, sched. or sched:): choose another value")
            }
            Self::Duplicated => format!("there is more than one {place} header: send exactly one"),
        }
    }
}

impl fmt::Display for HeaderKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at("Idempotency-Key"))
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

/// Reads a plain key from the value of one `Idempotency-Key` line (K1, K2, K3).
pub fn from_header(value: &[u8]) -> Result<Key, HeaderKeyError> {
    Grammar::Plain.from_header(value)
}

/// The text of one header line's key, without the quotes that may stand around it (K1): what a signature is over.
pub fn header_text(value: &[u8]) -> Result<String, HeaderKeyError> {
    let text = text_of_line(value)?.into_owned();
    String::from_utf8(text)
        .map_err(|error| Malformation::BadCharacter { at: error.utf8_error().valid_up_to() }.into())
}

fn text_of_line(value: &[u8]) -> Result<Cow<'_, [u8]>, HeaderKeyError> {
    let start = value.iter().position(|b| !is_padding(*b)).ok_or(HeaderKeyError::Empty)?;
    let end = value.iter().rposition(|b| !is_padding(*b)).map_or(start, |last| last + 1);
    let trimmed = &value[start..end];
    if trimmed[0] != b'"' {
        return Ok(Cow::Borrowed(trimmed));
    }
    let text = sf::string_item(trimmed).map_err(|at| Malformation::BadString { at: start + at })?;
    Ok(Cow::Owned(text))
}

fn is_padding(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;
    use HeaderKeyError::{Duplicated, Empty, Malformed, Reserved};
    use Malformation::{BadCharacter, BadString, NotPrintable, OnlyDots, TooLong};

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
            (b"sched.nightly.1700000000000", Reserved),
            (b"\"sched.nightly.1\"", Reserved),
            (b"sched:nightly:1", Reserved),
            (b"sched.", Reserved),
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
        let from_header_lines = |lines: &[&[u8]]| Grammar::Plain.from_header_lines(lines.iter().copied());
        assert_eq!(from_header_lines(&[]), Ok(None));
        assert_eq!(from_header_lines(&[b"abc".as_slice()]).unwrap().unwrap().as_str(), "abc");
        assert_eq!(from_header_lines(&[b"abc".as_slice(), b"abc"]), Err(Duplicated));
        assert_eq!(from_header_lines(&[b"".as_slice()]), Err(Empty));
        assert_eq!(from_header_lines(&[b"".as_slice(), b""]), Err(Duplicated));
    }

    #[test]
    fn printable_keys_may_have_what_plain_ones_may_not_k2() {
        let read = |value: &[u8]| Grammar::Printable.from_header(value).map(|key| key.as_str().to_owned());
        for good in ["a:b", "a/b?c=%20&d#e", "order;1", "it's", "{1}", "a\\b", "...", "T-x", "abc"] {
            assert_eq!(read(good.as_bytes()), Ok(good.to_owned()));
        }
        assert_eq!(read(b"\"a:b\";v=1"), Ok("a:b".to_owned()), "the quoted form is the same key");
        let (longest, too_long) = (":".repeat(85), ":".repeat(86));
        assert_eq!(read(longest.as_bytes()), Ok(longest.clone()), "255 characters percent-encoded");
        let table: &[(&[u8], HeaderKeyError)] = &[
            (b"", Empty),
            (b"a b", Malformed(NotPrintable { at: 1 })),
            (b"a,b", Malformed(NotPrintable { at: 1 })),
            (b"a\"", Malformed(NotPrintable { at: 1 })),
            (b"a\x7f", Malformed(NotPrintable { at: 1 })),
            ("schlüssel".as_bytes(), Malformed(NotPrintable { at: 4 })),
            (b"t-acme:web:user:alice:abc", Reserved),
            (too_long.as_bytes(), Malformed(TooLong)),
        ];
        for (value, error) in table {
            assert_eq!(read(value), Err(*error), "{}", String::from_utf8_lossy(value));
        }
    }

    #[test]
    fn a_text_that_is_only_a_key_has_no_quotes_around_it_k1() {
        assert_eq!(Grammar::Plain.from_text(b"abc").unwrap().as_str(), "abc");
        assert_eq!(Grammar::Plain.from_text(b"\"abc\""), Err(Malformed(BadCharacter { at: 0 })));
        assert_eq!(Grammar::Plain.from_text(b" abc"), Err(Malformed(BadCharacter { at: 0 })));
    }

    #[test]
    fn every_refusal_says_what_to_send_instead() {
        let errors = [
            Empty,
            Malformed(TooLong),
            Malformed(NotPrintable { at: 3 }),
            Malformed(BadCharacter { at: 3 }),
            Malformed(OnlyDots),
            Malformed(BadString { at: 3 }),
            Reserved,
            Duplicated,
        ];
        for error in errors {
            let (text, general) = (error.to_string(), Error::from(error));
            assert!(text.contains(": ") && text.contains("Idempotency-Key"), "{text}");
            assert_eq!(text.replace("Idempotency-Key", "X-Key"), error.at("X-Key"));
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
