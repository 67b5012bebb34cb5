//! Paths of routes: literal segments and parameters (`{name}`), and which of them can match the same request (P2).
//!
//! Where a concrete path and one with a parameter both match, the concrete one is meant, as in OpenAPI. Where neither is
//! more concrete everywhere, nobody could say which is meant: that is [`Meets::Crossing`].

use crate::limits;

/// The path of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Any(String),
}

/// How the requests that two patterns match lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meets {
    /// They have none in common.
    Never,
    /// They are the same.
    Same,
    /// All of one are among the other's.
    Within,
    /// Some, and neither has all of the other's.
    Crossing,
}

impl Pattern {
    /// Reads a path; the error says what to write instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else { return Err("a path starts with /".into()) };
        if text.len() > limits::PATH_BYTES {
            return Err(format!("a path has at most {} bytes", limits::PATH_BYTES));
        }
        let parts: Vec<&str> = rest.split('/').collect();
        let mut segments = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            if part.is_empty() && index + 1 < parts.len() {
                return Err("`//` is refused in every request: write one slash".into());
            }
            let segment = Segment::parse(part)?;
            if matches!(segment, Segment::Any(_)) && segments.contains(&segment) {
                return Err(format!("the parameter {part} is there twice: give each a name of its own"));
            }
            segments.push(segment);
        }
        Ok(Pattern { text: text.to_owned(), segments })
    }

    /// The same for a path that requests come to: what the edge refuses in each of them cannot be in it.
    pub(crate) fn of_requests(text: &str) -> Result<Self, String> {
        if text.contains(';') {
            return Err("`;` is refused in every request: write a path without it".into());
        }
        if let Some(meant) = text.split('/').find_map(parameter_elsewhere) {
            return Err(meant);
        }
        Pattern::parse(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn has_parameters(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Any(_)))
    }

    pub(crate) fn has_literal(&self, word: &str) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Literal(own) if own == word))
    }

    /// The names of the parameters, in order.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Any(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// How many segments a matching path has.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// This path with more behind it, such as `/by-idempotency-key/{key}`. A slash at the end is not doubled.
    pub(crate) fn then(&self, more: &str) -> Pattern {
        let text = format!("{}{more}", self.text.trim_end_matches('/'));
        let segments = text
            .split('/')
            .skip(1)
            .map(|part| Segment::parse(part).unwrap_or_else(|_| Segment::Literal(part.into())));
        Pattern { segments: segments.collect(), text }
    }

    /// Whether a path below this prefix can match.
    pub(crate) fn reaches_below(&self, prefix: &[&str]) -> bool {
        let meets = |(segment, literal): (&Segment, &&str)| match segment {
            Segment::Literal(own) => own == literal,
            Segment::Any(_) => true,
        };
        self.segments.len() > prefix.len() && self.segments.iter().zip(prefix).all(meets)
    }

    /// How this pattern and another one lie to each other.
    pub(crate) fn meets(&self, other: &Pattern) -> Meets {
        if self.segments.len() != other.segments.len() {
            return Meets::Never;
        }
        let (mut narrower, mut wider) = (false, false);
        for pair in self.segments.iter().zip(&other.segments) {
            match pair {
                (Segment::Literal(a), Segment::Literal(b)) if a != b => return Meets::Never,
                // A parameter is never empty, and a slash at the end leaves an empty segment.
                (Segment::Literal(empty), Segment::Any(_)) | (Segment::Any(_), Segment::Literal(empty))
                    if empty.is_empty() =>
                {
                    return Meets::Never;
                }
                (Segment::Literal(_), Segment::Any(_)) => narrower = true,
                (Segment::Any(_), Segment::Literal(_)) => wider = true,
                _ => {}
            }
        }
        match (narrower, wider) {
            (false, false) => Meets::Same,
            (true, true) => Meets::Crossing,
            _ => Meets::Within,
        }
    }
}

/// What to write instead of a segment that is a parameter to other routers, and would be matched as it stands here.
fn parameter_elsewhere(segment: &str) -> Option<String> {
    match segment.strip_prefix(':') {
        Some(name) => {
            let name = if name.is_empty() { "name" } else { name };
            Some(format!("a parameter is written in braces: write {{{name}}} instead of {segment}"))
        }
        None if !segment.is_empty() && segment.bytes().all(|byte| byte == b'*') => {
            Some(format!("a parameter is written in braces, with a name: write {{id}} instead of {segment}"))
        }
        None => None,
    }
}

impl Segment {
    fn parse(part: &str) -> Result<Self, String> {
        if let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if starts_well && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
                return Ok(Segment::Any(name.to_owned()));
            }
            return Err(format!("{part:?} is no parameter: write {{name}} with letters, digits, _ and -"));
        }
        if part.contains(['{', '}']) {
            return Err(format!("a parameter is a whole segment: write /{{name}} instead of {part:?}"));
        }
        if part == "." || part == ".." {
            return Err("`.` and `..` are refused in every request: write the path they lead to".into());
        }
        if part.contains('%') {
            return Err("encoded characters are not matched: write the path as it is meant, without %".into());
        }
        if part.contains(['?', '#']) {
            return Err("a path has no query and no fragment: remove them".into());
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
        if !part.bytes().all(plain) {
            return Err(format!(
                "{part:?} has characters that a path cannot have: use letters, digits, - . _ ~"
            ));
        }
        Ok(Segment::Literal(part.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn paths_with_tricks_are_refused_p2() {
        for text in [
            "",
            "a",
            "//",
            "/a//b",
            "/a/../b",
            "/..",
            "/.",
            "/a/%2e%2e/b",
            "/a%2Fb",
            "/a?b=c",
            "/a#b",
            "/a b",
            "/a/{b",
            "/a/{}",
            "/a/{*rest}",
            "/a/x{b}",
            "/{a}/{a}",
            "/ä",
            "/a\\b",
            "/a/{-b}",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        assert!(Pattern::parse("/a;b").is_ok() && Pattern::of_requests("/a;b").is_err());
        for (text, meant) in [
            ("/pay/:id", "write {id} instead of :id"),
            ("/:", "write {name} instead of :"),
            ("/a/:b/c", "write {b}"),
            ("/files/*", "write {id} instead of *"),
            ("/a/**/b", "write {id} instead of **"),
        ] {
            let told = Pattern::of_requests(text).expect_err(text);
            assert!(told.contains(meant), "{text}: {told}");
        }
        for text in ["/", "/a", "/a/", "/a/{b}/c", "/v1.2/a~b/{c_1}", "/a:b", "/a/b:cancel", "/a*"] {
            assert_eq!(Pattern::of_requests(text), Pattern::parse(text));
            assert_eq!(pattern(text).as_str(), text);
        }
        assert!(Pattern::parse(&format!("/{}", "a".repeat(limits::PATH_BYTES))).is_err());
    }

    #[test]
    fn patterns_that_match_the_same_requests_are_known() {
        for (a, b, meets) in [
            ("/a/{b}", "/a/{c}", Meets::Same),
            ("/a", "/a", Meets::Same),
            ("/a/{b}", "/a/me", Meets::Within),
            ("/a/{b}/{c}", "/{x}/b/{c}", Meets::Crossing),
            ("/a/{b}", "/{a}/b", Meets::Crossing),
            ("/a", "/b", Meets::Never),
            ("/a", "/a/", Meets::Never),
            ("/a/", "/a/{b}", Meets::Never),
            ("/a/{b}", "/a/{b}/c", Meets::Never),
        ] {
            assert_eq!(pattern(a).meets(&pattern(b)), meets, "{a} {b}");
            assert_eq!(pattern(b).meets(&pattern(a)), meets, "{b} {a}");
        }
        assert!(pattern("/{a}/{b}/c").reaches_below(&[".well-known", "hapax"]));
        assert!(!pattern("/{a}/{b}").reaches_below(&[".well-known", "hapax"]));
        assert_eq!(pattern("/a/").then("/b/{c}"), pattern("/a/b/{c}"));
    }
}
