//! JSON that means one thing: a strict reader, RFC 8785 canonical bytes, and RFC 6901 pointers.
//!
//! Two bodies may share canonical bytes only if nobody could read them as different requests. So everything
//! that JSON readers are known to disagree about (duplicate names, lone surrogates, numbers that a double
//! cannot hold) is refused here as [`NotIJson`], and the caller falls back to the bytes as they came.
//! Sorting, escaping and number formatting are the work of `serde_json_canonicalizer`. What is hashed, and
//! how, is left to [`fingerprint`](crate::fingerprint) and to the journal.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::Error;
use crate::limits::{MAX_JSON_DEPTH, MAX_POINTER_BYTES};

mod at;
#[cfg(test)]
mod tests;

pub use at::{NotOneText, text_at};

/// Why bytes or a value have no canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotIJson {
    /// Not JSON: bad syntax, bad UTF-8, a lone surrogate, or a number beyond the range of a double.
    Unreadable,
    /// An object has two members of the same name.
    DuplicateName,
    /// A number would not survive being held in a double.
    InexactNumber,
    /// Arrays and objects are nested deeper than [`MAX_JSON_DEPTH`].
    TooDeep,
}

impl fmt::Display for NotIJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("not JSON in UTF-8, or a number is out of range"),
            Self::DuplicateName => f.write_str("an object has two members of the same name"),
            Self::InexactNumber => f.write_str("a number does not fit a double exactly: send it as a string"),
            Self::TooDeep => write!(f, "nested deeper than {MAX_JSON_DEPTH} levels"),
        }
    }
}

impl std::error::Error for NotIJson {}

impl From<NotIJson> for Error {
    fn from(error: NotIJson) -> Error {
        Error::invalid(format!("the JSON has no canonical form: {error}"))
    }
}

/// The RFC 8785 canonical form of JSON text.
///
/// Fractions are rounded to the nearest double, as the RFC wants; an integer that a double would change is
/// refused.
pub fn canonicalize(text: &[u8]) -> Result<Vec<u8>, NotIJson> {
    canonical_value(&read(text, Fractions::Rounded)?)
}

/// The RFC 8785 canonical form of a value.
///
/// Refuses integers that a double would change. They are not rounded, because whoever keeps only the
/// canonical bytes, a hash chain for example, could not tell two of them apart.
pub fn canonical_value(value: &Value) -> Result<Vec<u8>, NotIJson> {
    check_integers(value, 0)?;
    serde_json_canonicalizer::to_vec(value).map_err(|_| NotIJson::Unreadable)
}

/// Reads JSON text only if canonicalising it loses nothing at all: every number, fractions too, is the same
/// decimal number afterwards as before.
pub(crate) fn read_lossless(text: &[u8]) -> Result<Value, NotIJson> {
    read(text, Fractions::Exact)
}

/// What to do about a fraction such as `0.1000000000000000055`, which a double holds as `0.1`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fractions {
    Rounded,
    Exact,
}

fn read(text: &[u8], fractions: Fractions) -> Result<Value, NotIJson> {
    let refused = Cell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(text);
    let seed = Strict { depth: 0, refused: &refused };
    let value = seed.deserialize(&mut reader).map_err(|_| refused.get().unwrap_or(NotIJson::Unreadable))?;
    reader.end().map_err(|_| NotIJson::Unreadable)?;
    let survives = match fractions {
        Fractions::Rounded => numbers(text).all(|number| !is_integer(number) || is_exact(number)),
        Fractions::Exact => is_lossless(text),
    };
    if survives { Ok(value) } else { Err(NotIJson::InexactNumber) }
}

/// Whether every number of JSON text that is known to be well-formed is the same decimal number in its canonical form.
pub(crate) fn is_lossless(text: &[u8]) -> bool {
    numbers(text).all(is_exact)
}

/// Reads one value, refusing duplicate names and deep nesting on the way.
#[derive(Clone, Copy)]
struct Strict<'a> {
    depth: usize,
    /// The reason for a refusal, which a `serde_json::Error` could carry only as text.
    refused: &'a Cell<Option<NotIJson>>,
}

impl Strict<'_> {
    fn refuse<E: serde::de::Error>(&self, reason: NotIJson) -> E {
        self.refused.set(Some(reason));
        E::custom(reason)
    }

    fn deeper<E: serde::de::Error>(&self) -> Result<Self, E> {
        if self.depth == MAX_JSON_DEPTH {
            return Err(self.refuse(NotIJson::TooDeep));
        }
        Ok(Strict { depth: self.depth + 1, ..*self })
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(self.refuse(NotIJson::DuplicateName));
            }
            object.insert(name, members.next_value_seed(inner)?);
        }
        Ok(Value::Object(object))
    }
}

/// The number literals of JSON text that is known to be well-formed.
fn numbers(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            match rest.split_first()? {
                (b'"', tail) => rest = after_string(tail),
                (b'-' | b'0'..=b'9', _) => {
                    let end = rest.iter().position(|b| !is_number_byte(*b)).unwrap_or(rest.len());
                    let (number, tail) = rest.split_at(end);
                    rest = tail;
                    return Some(number);
                }
                (_, tail) => rest = tail,
            }
        }
    })
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// What follows the string whose opening quote was just passed.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        match &rest[at..] {
            [b'\\', _, tail @ ..] => rest = tail,
            [_, tail @ ..] => return tail,
            [] => break,
        }
    }
    &[]
}

fn is_integer(number: &[u8]) -> bool {
    !number.iter().any(|b| matches!(b, b'.' | b'e' | b'E'))
}

/// Whether a number literal denotes the same decimal number as what RFC 8785 writes for it.
fn is_exact(number: &[u8]) -> bool {
    // Any decimal of up to 15 digits survives. Signs, points and leading zeros could be allowed for, but such
    // numbers are rare.
    if number.len() <= 15 && !number.iter().any(|b| matches!(b, b'e' | b'E')) {
        return true;
    }
    let Ok(text) = std::str::from_utf8(number) else { return false };
    let Ok(double) = text.parse::<f64>() else { return false };
    // The very text that will be written: where two shortest ones are equally near, other formatters choose
    // otherwise.
    let Ok(written) = serde_json_canonicalizer::to_string(&double) else { return false };
    Decimal::of(text).is_some_and(|decimal| Some(decimal) == Decimal::of(&written))
}

/// The magnitude of a number literal as `0.DIGITS × 10^exponent`, without zeros at either end. The sign is
/// left out: it survives in a double, except that of zero, which means nothing.
#[derive(PartialEq, Eq)]
struct Decimal {
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// `None` if the exponent itself is beyond counting.
    fn of(number: &str) -> Option<Decimal> {
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let whole = whole.trim_start_matches('-');
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..leading);
        digits.truncate(digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1));
        if digits.is_empty() {
            return Some(Decimal { digits, exponent: 0 });
        }
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(leading).ok()?;
        let exponent = exponent.parse::<i64>().ok()?.checked_add(point)?;
        Some(Decimal { digits, exponent })
    }
}

fn check_integers(value: &Value, depth: usize) -> Result<(), NotIJson> {
    if depth > MAX_JSON_DEPTH {
        return Err(NotIJson::TooDeep);
    }
    match value {
        Value::Number(number) if !is_exact_integer(number) => Err(NotIJson::InexactNumber),
        Value::Array(items) => items.iter().try_for_each(|item| check_integers(item, depth + 1)),
        Value::Object(members) => members.values().try_for_each(|member| check_integers(member, depth + 1)),
        _ => Ok(()),
    }
}

/// Doubles are taken as they are; integers must survive becoming one.
fn is_exact_integer(number: &Number) -> bool {
    const SAFE: u64 = 1 << 53;
    number.is_f64()
        || number.as_i64().is_some_and(|integer| integer.unsigned_abs() <= SAFE)
        || is_exact(number.to_string().as_bytes())
}

/// An RFC 6901 JSON pointer to something within a document, not to the document itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer(String);

impl Pointer {
    /// Checks a pointer: `/a/b/0`, with `~` as `~0` and `/` as `~1` inside a name.
    pub fn new(text: impl Into<String>) -> Result<Pointer, Error> {
        let text = text.into();
        let escapes_are_right = text.split('~').skip(1).all(|tail| tail.starts_with(['0', '1']));
        if text.starts_with('/') && escapes_are_right && text.len() <= MAX_POINTER_BYTES {
            return Ok(Pointer(text));
        }
        Err(Error::invalid(format!(
            "not a JSON pointer to a part of the body: write /name/0, with ~0 for ~ and ~1 for /, \
             in at most {MAX_POINTER_BYTES} bytes"
        ))
        .with_detail(format_args!("{text:?}")))
    }

    /// The pointer as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes what the pointer names out of a document, if it is there: a member goes, an item of an array
    /// becomes null, so that the pointers to the items behind it stay true.
    pub(crate) fn remove_from(&self, document: &mut Value) {
        let Some((parent, last)) = self.0.rsplit_once('/') else { return };
        match document.pointer_mut(parent) {
            Some(Value::Object(members)) => {
                members.remove(&unescaped(last));
            }
            Some(Value::Array(items)) => {
                if let Some(item) = array_index(last).and_then(|index| items.get_mut(index)) {
                    *item = Value::Null;
                }
            }
            _ => {}
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pointer({:?})", self.0)
    }
}

/// Appends one reference token to a pointer.
pub(crate) fn push_token(pointer: &mut String, name: &str) {
    pointer.push('/');
    if memchr::memchr2(b'~', b'/', name.as_bytes()).is_none() {
        return pointer.push_str(name);
    }
    for part in name.split_inclusive(['~', '/']) {
        match part.strip_suffix('~') {
            Some(plain) => pointer.extend([plain, "~0"]),
            None => match part.strip_suffix('/') {
                Some(plain) => pointer.extend([plain, "~1"]),
                None => pointer.push_str(part),
            },
        }
    }
}

/// In this order, or `~01` would become `/`.
fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// RFC 6901 §4: digits without a leading zero.
fn array_index(token: &str) -> Option<usize> {
    let well_formed = token == "0" || (!token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit()));
    well_formed.then(|| token.parse().ok()).flatten()
}
