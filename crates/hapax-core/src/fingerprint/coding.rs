//! Bodies that came encoded (`Content-Encoding`), and what they say.
//!
//! A client that compresses again for a retry may get other bytes for the same content. Only gzip is read, strictly: one member,
//! nothing behind it, its checksum right. How long the content may become is the caller's to say: a few bytes can stand for
//! gigabytes.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::bufread::GzDecoder;

/// The content of a body. Without an encoding it is the body itself; `None` where it cannot be read, or is longer than `most` bytes.
pub fn decoded<'a>(encoding: Option<&str>, body: &'a [u8], most: usize) -> Option<Cow<'a, [u8]>> {
    match encoding.map(|given| given.trim_matches([' ', '\t'])) {
        None => Some(Cow::Borrowed(body)),
        Some(given) if given.is_empty() || given.eq_ignore_ascii_case("identity") => {
            Some(Cow::Borrowed(body))
        }
        Some(given) if is_gzip(given) => gunzipped(body, most).map(Cow::Owned),
        Some(_) => None,
    }
}

/// Whether a body with this encoding can be read. `x-gzip` is the same (RFC 9110, 8.4.1.3).
pub(super) fn is_gzip(encoding: &str) -> bool {
    let encoding = encoding.trim_matches([' ', '\t']);
    encoding.eq_ignore_ascii_case("gzip") || encoding.eq_ignore_ascii_case("x-gzip")
}

fn gunzipped(body: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut decoder = GzDecoder::new(body);
    let bound = u64::try_from(most).ok()?.saturating_add(1);
    decoder.by_ref().take(bound).read_to_end(&mut content).ok()?;
    // The bound was not reached, so that the decoder has seen the end and the checksum.
    (content.len() <= most && decoder.into_inner().is_empty()).then_some(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, GzBuilder};

    use super::*;

    fn gzip(content: &[u8], time: u32, level: u32) -> Vec<u8> {
        let mut encoder = GzBuilder::new().mtime(time).write(Vec::new(), Compression::new(level));
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_read_strictly_and_within_its_bound_k7() {
        let body = gzip(b"content", 7, 9);
        for encoding in ["gzip", "GZIP", " x-gzip "] {
            assert_eq!(decoded(Some(encoding), &body, 7).as_deref(), Some(&b"content"[..]), "{encoding}");
        }
        assert_eq!(decoded(Some("gzip"), &body, 6), None, "longer than the bound");
        for encoding in ["gzip, gzip", "br", "deflate", "gzip;q=1"] {
            assert_eq!(decoded(Some(encoding), &body, 100), None, "{encoding}");
        }
        assert_eq!(decoded(None, &body, 0).as_deref(), Some(&body[..]));
        assert_eq!(decoded(Some("identity"), b"x", 0).as_deref(), Some(&b"x"[..]));
        let two = [body.clone(), body.clone()].concat();
        let (cut, mut wrong) = (&body[..body.len() - 1], body.clone());
        *wrong.last_mut().unwrap() ^= 1;
        for broken in [&two[..], cut, &wrong, b"content", b""] {
            assert_eq!(decoded(Some("gzip"), broken, 100), None, "{broken:?}");
        }
    }

    #[test]
    fn a_bomb_takes_no_more_memory_than_its_bound_k7() {
        let bomb = gzip(&vec![0; 8 << 20], 0, 9);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        assert_eq!(decoded(Some("gzip"), &bomb, 1 << 20), None);
    }
}
