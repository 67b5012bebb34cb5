//! Whether the head of a request can be read in exactly one way.
//!
//! What breaks the framing does not get here. What can be framed and two servers could read differently is refused here, so
//! that what is matched is what the service behind gets to see (P2). Escapes that a path can do without are taken out: from
//! here on one text is matched, compared, recalled and sent on.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Uri, Version, request};

use crate::http1::fields::words;
use crate::limits;
use crate::refusal::Refusal;

/// Headers by which a caller could make the service read another method or path than was matched.
const OVERRIDES: [HeaderName; 6] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
    HeaderName::from_static("x-original-method"),
];

/// Checks a head, and writes its path as it is meant; returns the host, with its port perhaps, that the caller meant. A request of
/// HTTP/1.0 need not name one.
pub fn check(head: &mut request::Parts) -> Result<Option<HeaderValue>, Refusal> {
    check_size(head)?;
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(Refusal::Method);
    }
    let host = host(head)?;
    if path(&head.uri)? == Escapes::Needless {
        head.uri = plain(&head.uri).ok_or(Refusal::Path("the path cannot be read"))?;
    }
    framing(head)?;
    connection(head)?;
    if head.headers.keys().any(is_override) {
        return Err(malformed("a header asks for another method or path than the request has"));
    }
    if head
        .headers
        .get_all(EXPECT)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    {
        return Err(malformed("the only expectation that can be met is 100-continue"));
    }
    Ok(host)
}

/// `Connection` names fields of this head, and no head has more than so many.
fn connection(head: &request::Parts) -> Result<(), Refusal> {
    let named = head.headers.get_all(CONNECTION).iter().flat_map(words);
    match named.count() > limits::FIELDS {
        true => Err(malformed("Connection names more fields than a head can have")),
        false => Ok(()),
    }
}

/// Many servers read `_` in a name as `-`.
fn is_override(name: &HeaderName) -> bool {
    OVERRIDES.contains(name)
        || (name.as_str().contains('_')
            && OVERRIDES.iter().any(|known| known.as_str() == name.as_str().replace('_', "-")))
}

fn malformed(why: &'static str) -> Refusal {
    Refusal::Malformed(why.into())
}

fn check_size(head: &request::Parts) -> Result<(), Refusal> {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let fields: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let too_large = target > limits::TARGET || fields > limits::HEAD || head.headers.len() > limits::FIELDS;
    match too_large {
        true => Err(Refusal::HeadTooLarge),
        false => Ok(()),
    }
}

/// Exactly one host: from `Host`, from `:authority` or the target, or from both if they agree. HTTP/1.1 says it in `Host`, whatever
/// the target says (RFC 9112, 3.2). HTTP/1.0 knew no `Host`: there is one host then, the one that answers.
fn host(head: &request::Parts) -> Result<Option<HeaderValue>, Refusal> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(malformed("there is more than one Host"));
    }
    if host.is_some_and(|host| !host.to_str().is_ok_and(is_plain)) {
        return Err(malformed("the Host cannot be read"));
    }
    let asked = head.uri.authority().map(Authority::as_str);
    if asked.is_some_and(|asked| !is_plain(asked)) {
        return Err(malformed("the host of the target cannot be read"));
    }
    match (host, asked) {
        (Some(host), Some(asked)) if !host.as_bytes().eq_ignore_ascii_case(asked.as_bytes()) => {
            Err(malformed("the target names another host than Host does"))
        }
        (Some(host), _) => Ok(Some(host.clone())),
        (None, Some(asked)) if head.version != Version::HTTP_11 => HeaderValue::from_str(asked)
            .map(Some)
            .map_err(|_| malformed("the host of the target cannot be read")),
        (None, None) if head.version == Version::HTTP_10 => Ok(None),
        (None, _) => Err(malformed("there is no Host")),
    }
}

/// A name or an address, and a port perhaps: nothing that could be taken for user information, a list, or the end of a quoted
/// word by whoever is told of it.
fn is_plain(text: &str) -> bool {
    let (host, port) = match (text.rfind(':'), text.ends_with(']')) {
        (Some(colon), false) => (&text[..colon], Some(&text[colon + 1..])),
        _ => (text, None),
    };
    let is_address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    let is_name = !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    (is_address || is_name) && port.is_none_or(is_port)
}

/// What the escapes of a path are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escapes {
    /// They must be there, or there are none.
    Needed,
    /// At least one stands for a character that means the same without it.
    Needless,
}

/// A path that every server splits and decodes in the same way.
fn path(uri: &Uri) -> Result<Escapes, Refusal> {
    let path = uri.path();
    let refused = |why| Err(Refusal::Path(why));
    if !path.starts_with('/') {
        return refused("the path does not start with a slash");
    }
    let mut rest = path.as_bytes();
    let mut decoded_path = Vec::new();
    let mut escapes = Escapes::Needed;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'%' => {
                let Some(decoded) = tail.split_at_checked(2).and_then(|(digits, _)| hex(digits)) else {
                    return refused("an escape in the path is broken");
                };
                match decoded {
                    b'/' | b'\\' | b'.' | b'%' | b';' => {
                        return refused("the path holds an encoded separator, dot or percent sign");
                    }
                    0..0x20 | 0x7f => return refused("the path holds an encoded control character"),
                    _ => decoded_path.push(decoded),
                }
                if is_unreserved(decoded) {
                    escapes = Escapes::Needless;
                }
                rest = &tail[2..];
            }
            b'\\' => return refused("the path holds a backslash"),
            b';' => return refused("the path holds a parameter"),
            0..=0x20 | 0x7f.. => return refused("the path holds a character that must be encoded"),
            // What comes before the first escape is ASCII, and of no account to what follows it.
            _ if decoded_path.is_empty() => {}
            _ => decoded_path.push(byte),
        }
    }
    // An overlong form of a slash or dot is none to us and one to a careless decoder.
    if std::str::from_utf8(&decoded_path).is_err() {
        return refused("what is encoded in the path is not UTF-8");
    }
    for (number, segment) in path[1..].split('/').enumerate() {
        match segment {
            "." | ".." => return refused("the path holds a dot segment"),
            "" if path.len() > 1 && number + 1 < path[1..].split('/').count() => {
                return refused("the path holds an empty segment");
            }
            _ => {}
        }
    }
    Ok(escapes)
}

/// What means the same with an escape and without (RFC 3986, 2.3; RFC 9110, 4.2.3). The dot is one of them: encoded, it is
/// refused.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// The same target without the escapes that its path can do without. The query is the service's alone to read.
fn plain(uri: &Uri) -> Option<Uri> {
    let mut target = unescaped(uri.path(), is_unreserved);
    if let Some(query) = uri.query() {
        target.push(b'?');
        target.extend_from_slice(query.as_bytes());
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::from_maybe_shared(Bytes::from(target)).ok()?);
    Uri::from_parts(parts).ok()
}

/// A path that was checked, with those escapes decoded that stand for such a byte.
pub fn unescaped(path: &str, is_such: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut rest = path.as_bytes();
    let mut plain = Vec::with_capacity(rest.len());
    while let Some((&byte, tail)) = rest.split_first() {
        let escape = tail.split_at_checked(2).filter(|_| byte == b'%');
        let decoded = escape.and_then(|(digits, tail)| Some((hex(digits)?, tail)));
        let (byte, tail) = decoded.filter(|(decoded, _)| is_such(*decoded)).unwrap_or((byte, tail));
        plain.push(byte);
        rest = tail;
    }
    plain
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).ok()
}

/// One statement about where the body ends: HTTP/1 has been held to that where it was read. Whoever made two may have meant another end than we read: nothing more is read
/// on this connection.
fn framing(head: &request::Parts) -> Result<(), Refusal> {
    let refused = |why| Err(Refusal::Framing(why));
    let lengths = head.headers.get_all(CONTENT_LENGTH).iter().count();
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let coding = codings.next();
    if lengths > 1 || (lengths == 1 && coding.is_some()) {
        return refused("the length of the body is said in more than one way");
    }
    if coding.is_some() && head.version == Version::HTTP_10 {
        return refused("HTTP/1.0 has no transfer codings");
    }
    let only_chunked = coding.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if !only_chunked || codings.next().is_some() {
        return refused("the only transfer coding that can be read is chunked, once");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// What is wrong with a head, in a word.
    fn word(refusal: Refusal) -> &'static str {
        match refusal {
            Refusal::HeadTooLarge => "too large",
            Refusal::Malformed(_) => "malformed",
            Refusal::Framing(_) => "framing",
            Refusal::Path(_) => "path",
            Refusal::Method => "method",
            Refusal::Panicked => "panicked",
        }
    }

    fn fault(uri: &str, headers: &[(&str, &str)]) -> Option<&'static str> {
        let mut request = Request::builder().uri(uri).header("host", "a.example");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        check(&mut head).err().map(word)
    }

    #[test]
    fn paths_that_two_servers_could_read_differently_are_refused_p2() {
        for good in [
            "/",
            "/a",
            "/a/b-c_d~e.f",
            "/a/",
            "/a%20b",
            "/a/...",
            "/a?x=../..//%2f",
            "/%41",
            "/a:b@c!$&'()*+,=",
            "/%c3%a4/%e2%82%ac",
        ] {
            assert_eq!(fault(good, &[]), None, "{good}");
        }
        for bad in [
            "//",
            "//a",
            "/a//b",
            "/a/b//",
            "/a/../b",
            "/a/..",
            "/./a",
            "/a/.",
            "/a%2fb",
            "/a%2Fb",
            "/a%5cb",
            "/%2e%2e/a",
            "/a/%2e",
            "/a/.%2e/b",
            "/a%252fb",
            "/a%25",
            "/a%00",
            "/a%0a",
            "/a%7f",
            "/a%zz",
            "/a%2",
            "/a;b",
            "/a;b/c",
            "/..;/a",
            "/a%3bb",
            "/a%c0%ae",
            "/%c0%af",
            "/%e0%80%af",
            "/%ff",
            "/%e4",
            "/%c3a%a4",
        ] {
            assert_eq!(fault(bad, &[]), Some("path"), "{bad}");
        }
    }

    #[test]
    fn a_path_has_no_escape_that_it_can_do_without_p2() {
        for (sent, meant) in [
            ("/%41", "/A"),
            ("/%61%7A%30%39%2d%5F%7e", "/az09-_~"),
            ("/a%20%41%3A%21%2B/%c3%a4", "/a%20A%3A%21%2B/%c3%a4"),
            ("/%41?%41", "/A?%41"),
            ("/%41?", "/A?"),
            ("http://a.example/%41?b", "http://a.example/A?b"),
            ("/a%20?%41", "/a%20?%41"),
            ("/", "/"),
        ] {
            let request = Request::builder().uri(sent).header("host", "a.example");
            let (mut head, ()) = request.body(()).unwrap().into_parts();
            check(&mut head).unwrap();
            assert_eq!(head.uri.to_string(), meant, "{sent}");
        }
    }

    #[test]
    fn one_host_and_only_one() {
        let (mut head, ()) = Request::builder().uri("/").body(()).unwrap().into_parts();
        assert_eq!(word(check(&mut head).unwrap_err()), "malformed", "none");
        head.version = Version::HTTP_2;
        head.uri = "http://a.example/".parse().unwrap();
        assert_eq!(check(&mut head).unwrap().unwrap(), "a.example");
        head.version = Version::HTTP_10;
        assert_eq!(check(&mut head).unwrap().unwrap(), "a.example", "HTTP/1.0 may say it in the target");
        head.uri = "/".parse().unwrap();
        assert_eq!(check(&mut head).unwrap(), None, "HTTP/1.0 need not say it");
        head.headers.append(HOST, HeaderValue::from_static(""));
        assert_eq!(word(check(&mut head).unwrap_err()), "malformed", "what is said can be read");
        assert_eq!(fault("/", &[("host", "a.example")]), Some("malformed"), "two");
        assert_eq!(fault("http://a.example/", &[]), None, "both, the same");
        assert_eq!(fault("http://b.example/", &[]), Some("malformed"), "both, not the same");
    }

    #[test]
    fn what_would_be_another_request_behind_is_refused() {
        assert_eq!(fault("/", &[("x-http-method-override", "DELETE")]), Some("malformed"));
        assert_eq!(fault("/", &[("x-original-url", "/admin")]), Some("malformed"));
        assert_eq!(fault("/", &[("content-length", "1"), ("content-length", "1")]), Some("framing"));
        assert_eq!(fault("/", &[("content-length", "1"), ("transfer-encoding", "chunked")]), Some("framing"));
        assert_eq!(fault("/", &[("expect", "tea")]), Some("malformed"));
        assert_eq!(fault("/", &[("expect", "100-Continue")]), None);
        for method in [Method::CONNECT, Method::TRACE] {
            let request = Request::builder().method(method).uri("/").header("host", "a.example");
            let (mut head, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(check(&mut head).map_err(word), Err("method"));
        }
    }

    #[test]
    fn connection_names_no_more_fields_than_there_can_be_h11() {
        for (most, more_is) in [(limits::FIELDS, None), (limits::FIELDS + 1, Some("malformed"))] {
            assert_eq!(fault("/", &[("connection", &vec!["a"; most].join(","))]), more_is, "{most}");
            assert_eq!(fault("/", &[("connection", &",".repeat(most - 1))]), more_is, "{most}");
            let lines = [("connection", "a, b"), ("connection", &vec!["a"; most - 2].join(", "))];
            assert_eq!(fault("/", &lines), more_is, "{most}");
        }
    }

    #[test]
    fn heads_are_bounded() {
        assert_eq!(fault(&format!("/{}", "a".repeat(limits::TARGET)), &[]), Some("too large"));
        assert_eq!(fault("/", &[("x", &"a".repeat(limits::HEAD))]), Some("too large"));
        let many: Vec<(String, &str)> =
            (0..limits::FIELDS).map(|number| (format!("x-{number}"), "1")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(fault("/", &many), Some("too large"));
    }
}
