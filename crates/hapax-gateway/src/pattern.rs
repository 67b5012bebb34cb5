//! Paths of routes: literal segments and parameters, and which of them can match the same request (P2).
//!
//! A parameter is a whole segment (`{name}`) or a part of one (`{base}...{head}`). Where two patterns match a request, the one whose
//! leftmost differing segment is literal is meant, as in most routers; [`Tree`] looks in that order. The pattern `/{*rest}` takes
//! what no other does.

mod segment;
mod tree;

use crate::limits;

pub use tree::Tree;

pub(crate) use segment::Mixed;
use segment::Segment;

/// The path of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    segments: Vec<Segment>,
}

/// How the requests that two patterns match lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meets {
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
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else { return Err("a path starts with /".into()) };
        if text.len() > limits::PATTERN {
            return Err(format!("a path has at most {} bytes", limits::PATTERN));
        }
        let parts: Vec<&str> = rest.split('/').collect();
        let mut segments = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            if part.is_empty() && index + 1 < parts.len() {
                return Err("`//` is refused in every request: write one slash".into());
            }
            segments.push(Segment::parse(part)?);
        }
        let pattern = Pattern { text: text.to_owned(), segments };
        let mut names: Vec<&str> = pattern.parameters().collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(format!("the parameter {{{}}} is there twice: give each a name of its own", pair[0]))
            }
            None => Ok(pattern),
        }
    }

    /// The same for a path that requests come to: what the edge refuses in each of them cannot be in it.
    pub fn of_requests(text: &str) -> Result<Self, String> {
        if text.contains(';') {
            return Err("`;` is refused in every request: write a path without it".into());
        }
        if let Some(meant) = text.split('/').find_map(parameter_elsewhere) {
            return Err(meant);
        }
        Pattern::parse(text)
    }

    /// The same for the path of a route, which can also be `/{*rest}`: everything that no other route takes.
    pub fn of_route(text: &str) -> Result<Self, String> {
        match text.strip_prefix("/{*").and_then(|text| text.strip_suffix('}')) {
            Some(name) if segment::is_name(name) => {
                Ok(Pattern { text: text.to_owned(), segments: vec![Segment::Rest(name.to_owned())] })
            }
            _ => Pattern::of_requests(text),
        }
    }

    /// The path as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is `/{*rest}`.
    pub fn is_catch_all(&self) -> bool {
        matches!(self.segments[..], [Segment::Rest(_)])
    }

    /// Whether some part of it can be anything.
    pub fn has_parameters(&self) -> bool {
        self.parameters().next().is_some()
    }

    /// Whether a segment is this word.
    pub fn has_literal(&self, word: &str) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Literal(own) if own == word))
    }

    /// The names of the parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().flat_map(Segment::parameters)
    }

    /// This path with more behind it, such as `/by-idempotency-key/{key}`. A slash at the end is not doubled.
    pub fn then(&self, more: &str) -> Pattern {
        let text = format!("{}{more}", self.text.trim_end_matches('/'));
        let segments = text
            .split('/')
            .skip(1)
            .map(|part| Segment::parse(part).unwrap_or_else(|_| Segment::Literal(part.into())));
        Pattern { segments: segments.collect(), text }
    }

    /// Whether a path below this prefix can match.
    pub fn reaches_below(&self, prefix: &[&str]) -> bool {
        self.segments.len() > prefix.len()
            && self.segments.iter().zip(prefix).all(|(segment, literal)| segment.matches(literal))
    }

    /// How this pattern and another one lie to each other. A path that is longer than the other in segments never meets it.
    pub fn meets(&self, other: &Pattern) -> Meets {
        if self.segments.len() != other.segments.len() {
            return Meets::Never;
        }
        let (mut narrower, mut wider) = (false, false);
        for (own, other) in self.segments.iter().zip(&other.segments) {
            let (is_narrower, is_wider) = match own.meets(other) {
                None => return Meets::Never,
                Some(differs) => differs,
            };
            narrower |= is_narrower;
            wider |= is_wider;
        }
        match (narrower, wider) {
            (false, false) => Meets::Same,
            (true, true) => Meets::Crossing,
            _ => Meets::Within,
        }
    }

    /// Whether every request of the other pattern is one of this pattern's, too.
    pub fn takes_all_of(&self, other: &Pattern) -> bool {
        let is_wider = |own: &Segment, other: &Segment| matches!(own.meets(other), Some((false, _)));
        self.is_catch_all()
            || self.segments.len() == other.segments.len()
                && self.segments.iter().zip(&other.segments).all(|(own, other)| is_wider(own, other))
    }

    /// Whether a request with this path is one of this pattern's.
    pub fn matches(&self, path: &str) -> bool {
        let mut parts = segments(path);
        self.segments.iter().all(|segment| parts.next().is_some_and(|part| segment.matches(part)))
            && parts.next().is_none()
    }

    /// The pattern without the names of its parameters: equal texts match the same requests.
    pub fn shape(&self) -> String {
        self.segments
            .iter()
            .fold(String::with_capacity(self.text.len()), |shape, segment| shape + "/" + &segment.shape())
    }

    /// The pattern in small letters and without a slash at its end, for [`folded`] paths.
    pub(crate) fn folded(&self) -> Pattern {
        let mut segments: Vec<Segment> = self.segments.iter().map(Segment::folded).collect();
        if segments.len() > 1 && segments.last().is_some_and(|last| last.matches("")) {
            segments.pop();
        }
        Pattern { text: self.text.clone(), segments }
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

/// A path as a service may read it that minds neither case nor a slash at the end.
pub(crate) fn folded(path: &str) -> String {
    let path = path.trim_end_matches('/');
    small(path)
}

/// In small letters. Some letters meet another one only in capitals, such as the long s.
fn small(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The segments of a path.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').unwrap_or(path).split('/')
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
            "/a/{b}{c}",
            "/a/{b}x{b}",
            "/a/}{",
            "/a/{b}}",
            "/{*rest}",
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
        for text in
            ["/", "/a", "/a/", "/a/{b}/c", "/v1.2/a~b/{c_1}", "/a:b", "/a/x{b}", "/{a}...{b}", "/{a}:go"]
        {
            assert_eq!(Pattern::of_requests(text), Pattern::parse(text));
            assert_eq!(Pattern::of_route(text), Pattern::parse(text));
            assert_eq!(pattern(text).as_str(), text);
        }
        assert!(Pattern::parse(&format!("/{}", "a".repeat(limits::PATTERN))).is_err());
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
            ("/{a}...{b}", "/{c}...{d}", Meets::Same),
            ("/{a}...{b}", "/{c}", Meets::Within),
            ("/{a}...{b}", "/x...y", Meets::Within),
            ("/{a}...{b}", "/x..y", Meets::Never),
            ("/v{n}", "/{n}.json", Meets::Crossing),
            ("/v{n}", "/w{n}", Meets::Never),
            ("/{n}.json", "/{n}.xml", Meets::Never),
            ("/{n}.json", "/", Meets::Never),
        ] {
            assert_eq!(pattern(a).meets(&pattern(b)), meets, "{a} {b}");
            assert_eq!(pattern(b).meets(&pattern(a)), meets, "{b} {a}");
        }
        for (wide, narrow, takes) in [
            ("/a/{b}", "/a/me", true),
            ("/a/{b}", "/a/{c}", true),
            ("/a/{b}", "/a/x-{c}", true),
            ("/a/me", "/a/{b}", false),
            ("/a/{b}/{c}", "/{x}/b/{c}", false),
            ("/a/{b}", "/a/b/c", false),
            ("/{*rest}", "/a/b/c", true),
            ("/{a}", "/{*rest}", false),
        ] {
            let of = |text: &str| Pattern::of_route(text).unwrap();
            assert_eq!(of(wide).takes_all_of(&of(narrow)), takes, "{wide} {narrow}");
        }
        assert!(pattern("/{a}/{b}/c").reaches_below(&[".well-known", "hapax"]));
        assert!(!pattern("/{a}/{b}").reaches_below(&[".well-known", "hapax"]));
        assert_eq!(pattern("/a/").then("/b/{c}"), pattern("/a/b/{c}"));
    }

    #[test]
    fn only_a_whole_path_can_be_a_catch_all_p2() {
        for text in ["/{*rest}", "/{*_}"] {
            assert!(Pattern::of_route(text).unwrap().is_catch_all(), "{text}");
        }
        for text in ["/a/{*rest}", "/{*}", "/{*a}/b", "/x{*rest}", "{*rest}"] {
            assert!(Pattern::of_route(text).is_err(), "{text}");
        }
        let told = Pattern::of_route("/a/{*rest}").unwrap_err();
        assert!(told.contains("`/{*rest}`") && told.contains("method"), "{told}");
    }

    #[test]
    fn a_parameter_within_a_segment_takes_at_least_one_character_p2() {
        for (text, path, is_match) in [
            ("/{a}...{b}", "/x...y", true),
            ("/{a}...{b}", "/x....y", true),
            ("/{a}...{b}", "/...y", false),
            ("/{a}...{b}", "/x...", false),
            ("/{a}...{b}", "/x..y", false),
            ("/v{n}", "/v", false),
            ("/v{n}", "/v1", true),
            ("/a{n}a", "/a", false),
            ("/a{n}a", "/aa", false),
            ("/a{n}a", "/aaa", true),
            ("/{a}-{b}-{c}", "/1-2-3", true),
            ("/{a}-{b}-{c}", "/1--3", false),
            ("/{a}-{b}-{c}", "/1---3", true),
            ("/{a}.json", "/ä.json", true),
            ("/{a}:go", "/x:go/", false),
            ("/{a}:go", "/x:GO", false),
        ] {
            assert_eq!(pattern(text).matches(path), is_match, "{text} {path}");
        }
    }

    #[test]
    fn a_folded_pattern_minds_neither_case_nor_a_slash_at_the_end() {
        for (text, path) in [
            ("/Pay/{Id}", "/pAY/X/"),
            ("/pay/", "/PAY"),
            ("/", "/"),
            ("/{a}:Go", "/x:gO"),
            ("/s", "/\u{17f}"),
        ] {
            assert!(pattern(text).folded().matches(&folded(path)), "{text} {path}");
        }
        assert!(!pattern("/pay").folded().matches(&folded("/pay/x")));
    }
}
