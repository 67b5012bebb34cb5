//! `application/x-www-form-urlencoded` bodies, read so that only their encoding is forgotten.
//!
//! Parsers of this format disagree in many ways. Wherever two of them could read one body differently, it is
//! not read here at all and the caller hashes its bytes.

use sha2::{Digest, Sha256};

use super::{essence, update_count, update_prefixed};

/// One field, decoded. `a` and `a=` are not the same to every server, so a missing value is not an empty one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// The fields of a body, in an order that does not matter any more if that is safe to say.
pub(super) fn fields(content_type: Option<&str>, body: &[u8]) -> Option<Vec<Field>> {
    let is_form = |given: &str| essence(given).eq_ignore_ascii_case("application/x-www-form-urlencoded");
    if !content_type.is_none_or(is_form) {
        return None;
    }
    // Older servers separate fields with it.
    if body.contains(&b';') {
        return None;
    }
    let segments = body.split(|b| *b == b'&').filter(|segment| !segment.is_empty());
    let mut fields = segments.map(field).collect::<Option<Vec<Field>>>()?;
    if order_is_meaningless(&fields) {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
    }
    Some(fields)
}

/// Adds the fields to a digest.
pub(super) fn hash(fields: &[Field], hasher: &mut Sha256) {
    update_count(hasher, fields.len());
    for field in fields {
        update_prefixed(hasher, &field.name);
        hasher.update([u8::from(field.value.is_some())]);
        update_prefixed(hasher, field.value.as_deref().unwrap_or_default());
    }
}

fn field(segment: &[u8]) -> Option<Field> {
    let equals = segment.iter().position(|b| *b == b'=');
    let (name, value) = match equals {
        Some(at) => (&segment[..at], Some(&segment[at + 1..])),
        None => (segment, None),
    };
    let value = match value {
        Some(value) => Some(decoded(value)?),
        None => None,
    };
    Some(Field { name: decoded(name)?, value })
}

/// `None` on a broken escape, which some servers keep and others drop.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let ([high, low], tail) = tail.split_first_chunk()?;
                rest = tail;
                hex_digit(*high)? << 4 | hex_digit(*low)?
            }
            other => *other,
        });
    }
    Some(bytes)
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// `items[][id]` builds lists by order, `a` and `a[b]` overwrite each other, `a.b` is `a_b` to some and `A`
/// is `a` to others: only among plain names that differ by more than case does the order of fields carry
/// nothing.
fn order_is_meaningless(fields: &[Field]) -> bool {
    let plain = |name: &[u8]| name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if !fields.iter().all(|field| plain(&field.name)) {
        return false;
    }
    let mut names: Vec<(Vec<u8>, &[u8])> =
        fields.iter().map(|field| (field.name.to_ascii_lowercase(), &*field.name)).collect();
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1)
}
