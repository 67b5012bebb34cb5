//! `multipart/*` bodies, read as their parts, because clients choose a new boundary for every
//! attempt.
//!
//! Only bodies that are written strictly as RFC 2046 has them are read: no preamble, no epilogue, no folded
//! headers, no padding. Of any other body the caller hashes the bytes, so a server that reads it in its own
//! way cannot be fooled.

use sha2::Sha256;

use super::{essence, is_header_name, update_count, update_prefixed};
use crate::limits::MAX_MULTIPART_DEPTH;

/// Longest boundary (RFC 2046 §5.1.1).
const MAX_BOUNDARY_CHARS: usize = 70;

/// Stands before a part that is in parts itself, where any other part has the number of its headers.
const IN_PARTS: usize = usize::MAX;

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

/// Adds the parts to a digest. A part that is in parts itself is added by those, without its boundary.
pub(super) fn hash(parts: &[Part<'_>], hasher: &mut Sha256) {
    hash_at(0, parts, hasher);
}

fn hash_at(depth: usize, parts: &[Part<'_>], hasher: &mut Sha256) {
    update_count(hasher, parts.len());
    for part in parts {
        let inner = if depth < MAX_MULTIPART_DEPTH { part.inner() } else { None };
        if inner.is_some() {
            update_count(hasher, IN_PARTS);
        }
        update_count(hasher, part.headers.len());
        for (name, value) in &part.headers {
            update_prefixed(hasher, name.as_bytes());
            match &inner {
                Some((content_type, _)) if name == CONTENT_TYPE => hash_type(content_type, hasher),
                _ => update_prefixed(hasher, value),
            }
        }
        match inner {
            Some((_, parts)) => hash_at(depth + 1, &parts, hasher),
            None => update_prefixed(hasher, part.content),
        }
    }
}

/// Adds a content type to a digest, but for its boundary.
fn hash_type(content_type: &str, hasher: &mut Sha256) {
    update_prefixed(hasher, essence(content_type).to_ascii_lowercase().as_bytes());
    let mut parameters = parameters(content_type).unwrap_or_default();
    parameters.retain(|(name, _)| name != BOUNDARY);
    update_count(hasher, parameters.len());
    for (name, value) in parameters {
        update_prefixed(hasher, name.as_bytes());
        update_prefixed(hasher, value.as_bytes());
    }
}

const CONTENT_TYPE: &str = "content-type";
const BOUNDARY: &str = "boundary";

impl<'a> Part<'a> {
    /// The parts of its content with their type, if it has exactly one type, nothing is encoded, and it is written strictly.
    fn inner(&self) -> Option<(&'a str, Vec<Part<'a>>)> {
        let of = |wanted: &'static str| self.headers.iter().filter(move |(name, _)| name == wanted);
        let is_plain = |value: &[u8]| {
            [&b"7bit"[..], b"8bit", b"binary"].iter().any(|plain| value.eq_ignore_ascii_case(plain))
        };
        let is_encoded = of("content-encoding").next().is_some()
            || of("content-transfer-encoding").any(|(_, value)| !is_plain(value));
        let mut types = of(CONTENT_TYPE);
        let ((_, only), None) = (types.next()?, types.next()) else { return None };
        let content_type = std::str::from_utf8(only).ok().filter(|_| !is_encoded)?;
        Some((content_type, parts(Some(content_type), self.content)?))
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
    let mut found = parameters(content_type)?.into_iter().filter(|(name, _)| name == BOUNDARY);
    let ((_, only), None) = (found.next()?, found.next()) else { return None };
    is_boundary(&only).then_some(only)
}

/// The parameters of a content type, their names in lower case; `None` where there are none, or they are not well-formed.
fn parameters(content_type: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut rest = content_type.split_once(';')?.1;
    loop {
        let (name, tail) = rest.split_once('=')?;
        let (value, tail) = parameter_value(tail)?;
        found.push((name.trim_matches([' ', '\t']).to_ascii_lowercase(), value));
        match tail.trim_start_matches([' ', '\t']).strip_prefix(';') {
            Some(next) => rest = next,
            None if tail.trim_matches([' ', '\t']).is_empty() => return Some(found),
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

#[cfg(test)]
mod tests {
    use sha2::Digest as _;

    use super::*;

    /// A body of one part with these headers.
    fn body(boundary: &str, headers: &str, content: &str) -> String {
        format!("--{boundary}\r\n{headers}\r\n\r\n{content}\r\n--{boundary}--\r\n")
    }

    fn digest(boundary: &str, body: &str) -> [u8; 32] {
        let content_type = format!("multipart/form-data; boundary={boundary}");
        let parts = parts(Some(&content_type), body.as_bytes()).expect("strictly written");
        let mut hasher = Sha256::new();
        hash(&parts, &mut hasher);
        hasher.finalize().into()
    }

    /// A body whose only part is in parts itself, under this boundary, with these parameters beside it.
    fn nested(outer: &str, inner: &str, beside: &str, content: &str) -> [u8; 32] {
        let headers = format!("Content-Type: multipart/mixed; boundary={inner}{beside}\r\nA: b");
        digest(
            outer,
            &body(outer, &headers, &body(inner.trim_matches('"'), "content-type: text/plain", content)),
        )
    }

    #[test]
    fn parts_of_parts_are_compared_without_their_boundaries_k7() {
        let first = nested("o", "i", "", "x");
        assert_eq!(nested("p", "j", "", "x"), first);
        assert_eq!(nested("p", "\"j\"", "", "x"), first);
        for other in [nested("o", "i", "", "y"), nested("o", "i", "; type=a", "x")] {
            assert_ne!(other, first);
        }
        assert_ne!(nested("o", "i", "; type=a", "x"), nested("o", "i", "; type=b", "x"));
    }

    #[test]
    fn what_is_not_plainly_in_parts_is_compared_by_its_bytes_k7() {
        let inner = |boundary: &str| body(boundary, "content-type: text/plain", "x");
        for headers in [
            "content-type: text/plain; boundary={}",
            "content-type: multipart/mixed; boundary={}\r\ncontent-transfer-encoding: base64",
            "content-type: multipart/mixed; boundary={}\r\ncontent-encoding: gzip",
            "content-type: multipart/mixed; boundary={}\r\ncontent-type: text/plain",
            "content-type: multipart/mixed",
        ] {
            let of =
                |boundary: &str| digest("o", &body("o", &headers.replace("{}", boundary), &inner(boundary)));
            assert_ne!(of("i"), of("j"), "{headers}");
        }
        let plainly = |boundary: &str| {
            let headers = format!(
                "content-type: multipart/mixed; boundary={boundary}\r\nContent-Transfer-Encoding: 8BIT"
            );
            digest("o", &body("o", &headers, &inner(boundary)))
        };
        assert_eq!(plainly("i"), plainly("j"));
        // The same text, read as parts and read as text.
        let (text, mixed) = ("content-type: text/x; boundary=i", "content-type: multipart/x; boundary=i");
        assert_ne!(digest("o", &body("o", text, &inner("i"))), digest("o", &body("o", mixed, &inner("i"))));
    }

    #[test]
    fn parts_are_followed_only_so_far_down_k7() {
        let deep = |innermost: &str, levels: usize| {
            let mut text = body(innermost, "a: b", "x");
            let mut within = innermost.to_owned();
            for level in 0..levels {
                let boundary = format!("level-{level}");
                text = body(&boundary, &format!("content-type: multipart/mixed; boundary={within}"), &text);
                within = boundary;
            }
            digest(&within, &text)
        };
        assert_eq!(deep("i", MAX_MULTIPART_DEPTH), deep("j", MAX_MULTIPART_DEPTH));
        assert_ne!(deep("i", MAX_MULTIPART_DEPTH + 1), deep("j", MAX_MULTIPART_DEPTH + 1));
        deep("i", 2_000);
    }
}
