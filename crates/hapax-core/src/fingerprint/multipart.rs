//! `multipart/*` bodies, read as their parts, because clients choose a new boundary for every
//! attempt.
//!
//! Only bodies that are written strictly as RFC 2046 has them are read: no preamble, no epilogue, no folded
//! headers, no padding. Of any other body the caller hashes the bytes, so a server that reads it in its own
//! way cannot be fooled.

use sha2::Sha256;

use super::{essence, is_header_name, update_count, update_prefixed};

/// Longest boundary (RFC 2046 §5.1.1).
const MAX_BOUNDARY_CHARS: usize = 70;

/// One part of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    /// Names in lower case, values without surrounding white space, in the order they came.
    headers: Vec<(String, &'a [u8])>,
    content: &'a [u8],
}

/// Whether the content type says that the body is in parts.
pub(super) fn is_multipart(content_type: Option<&str>) -> bool {
    let is_multipart = |(kind, _): (&str, &str)| kind.eq_ignore_ascii_case("multipart");
    content_type.is_some_and(|given| essence(given).split_once('/').is_some_and(is_multipart))
}

/// The parts of a body; `None` if it is not multipart or not written strictly.
pub(super) fn parts<'a>(content_type: Option<&str>, body: &'a [u8]) -> Option<Vec<Part<'a>>> {
    let content_type = content_type.filter(|given| is_multipart(Some(given)))?;
    let delimiter = format!("\r\n--{}", boundary(content_type)?).into_bytes();
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    let mut parts = Vec::new();
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            return matches!(end, b"" | b"\r\n").then_some(parts);
        }
        let part = rest.strip_prefix(b"\r\n")?;
        let length = find(part, &delimiter)?;
        parts.push(read_part(&part[..length])?);
        rest = &part[length + delimiter.len()..];
    }
}

/// Adds the parts to a digest.
pub(super) fn hash(parts: &[Part<'_>], hasher: &mut Sha256) {
    update_count(hasher, parts.len());
    for part in parts {
        update_count(hasher, part.headers.len());
        for (name, value) in &part.headers {
            update_prefixed(hasher, name.as_bytes());
            update_prefixed(hasher, value);
        }
        update_prefixed(hasher, part.content);
    }
}

/// Splits a part at the empty line. A part without headers starts with that line.
fn read_part(part: &[u8]) -> Option<Part<'_>> {
    let (head, content) = match part.strip_prefix(b"\r\n") {
        Some(content) => (&part[..0], content),
        None => {
            let end = find(part, b"\r\n\r\n")?;
            (&part[..end + 2], &part[end + 4..])
        }
    };
    let mut headers = Vec::new();
    let mut rest = head;
    while !rest.is_empty() {
        let end = find(rest, b"\r\n")?;
        headers.push(read_header(&rest[..end])?);
        rest = &rest[end + 2..];
    }
    Some(Part { headers, content })
}

fn read_header(line: &[u8]) -> Option<(String, &[u8])> {
    let colon = line.iter().position(|b| *b == b':')?;
    let name = std::str::from_utf8(&line[..colon]).ok().filter(|name| is_header_name(name))?;
    let value = line[colon + 1..].trim_ascii();
    let unambiguous = !value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0));
    unambiguous.then(|| (name.to_ascii_lowercase(), value))
}

/// The boundary parameter, if there is exactly one and it is well-formed.
fn boundary(content_type: &str) -> Option<String> {
    let mut found = None;
    let mut rest = content_type.split_once(';')?.1;
    loop {
        let (name, tail) = rest.split_once('=')?;
        let (value, tail) = parameter_value(tail)?;
        if name.trim_matches([' ', '\t']).eq_ignore_ascii_case("boundary") && found.replace(value).is_some() {
            return None;
        }
        match tail.trim_start_matches([' ', '\t']).strip_prefix(';') {
            Some(next) => rest = next,
            None if tail.trim_matches([' ', '\t']).is_empty() => {
                return found.filter(|text| is_boundary(text));
            }
            None => return None,
        }
    }
}

/// A token or a quoted string, and what follows it. Escapes inside quotes are not read: no boundary needs
/// them.
fn parameter_value(text: &str) -> Option<(String, &str)> {
    let (value, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => text.split_at(text.find([';', ' ', '\t']).unwrap_or(text.len())),
    };
    (!value.contains(['\\', '"'])).then(|| (value.to_owned(), rest))
}

/// RFC 2046 §5.1.1.
fn is_boundary(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&b);
    (1..=MAX_BOUNDARY_CHARS).contains(&text.len()) && !text.ends_with(' ') && text.bytes().all(allowed)
}

/// Where `needle` starts. Looks only at places where its first byte, a carriage return, is.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + haystack[from..].iter().position(|b| *b == needle[0])?;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
}
