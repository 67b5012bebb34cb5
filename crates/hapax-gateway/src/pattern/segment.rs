//! One segment of a pattern: a literal, a parameter, or both together; and what it matches.

use super::small;

/// What a pattern says of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// This text.
    Literal(String),
    /// Literals and parameters, such as `{base}...{head}`.
    Mixed(Mixed),
    /// Anything but nothing.
    Any(String),
    /// This segment and all that follow, or none at all.
    Rest(String),
}

/// Literals and parameters within a segment. No two parameters are neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mixed(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Any(String),
}

/// Whether this is the name of a parameter.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

impl Segment {
    /// Reads a segment; the error says what to write instead.
    pub(super) fn parse(part: &str) -> Result<Self, String> {
        if part.starts_with("{*") {
            return Err("`{*name}` takes the whole path, as `/{*rest}`, with `method = \"*\"`".into());
        }
        match &pieces(part)?[..] {
            [] => Ok(Segment::Literal(String::new())),
            [Piece::Any(name)] => Ok(Segment::Any(name.clone())),
            [Piece::Literal(text)] => Ok(Segment::Literal(text.clone())),
            several => Ok(Segment::Mixed(Mixed(several.to_vec()))),
        }
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &str> {
        let (whole, pieces) = match self {
            Segment::Literal(_) => (None, &[][..]),
            Segment::Any(name) | Segment::Rest(name) => (Some(name.as_str()), &[][..]),
            Segment::Mixed(mixed) => (None, &mixed.0[..]),
        };
        let within = pieces.iter().filter_map(|piece| match piece {
            Piece::Any(name) => Some(name.as_str()),
            Piece::Literal(_) => None,
        });
        whole.into_iter().chain(within)
    }

    /// Whether the segment of a request is one of these. A parameter is never empty.
    pub(super) fn matches(&self, part: &str) -> bool {
        match self {
            Segment::Literal(text) => text == part,
            Segment::Mixed(mixed) => mixed.matches(part),
            Segment::Any(_) => !part.is_empty(),
            Segment::Rest(_) => true,
        }
    }

    /// `None` where no segment is both; otherwise whether this one leaves out some of the other's, and whether it has more.
    pub(super) fn meets(&self, other: &Segment) -> Option<(bool, bool)> {
        match (self, other) {
            (Segment::Literal(own), Segment::Literal(other)) => (own == other).then_some((false, false)),
            (Segment::Literal(text), wide) => wide.matches(text).then_some((true, false)),
            (wide, Segment::Literal(text)) => wide.matches(text).then_some((false, true)),
            (Segment::Mixed(own), Segment::Mixed(other)) => match own.shape() == other.shape() {
                true => Some((false, false)),
                false => own.may_meet(other).then_some((true, true)),
            },
            (Segment::Mixed(_), _) => Some((true, false)),
            (_, Segment::Mixed(_)) => Some((false, true)),
            (Segment::Any(_), Segment::Any(_)) | (Segment::Rest(_), Segment::Rest(_)) => Some((false, false)),
            (Segment::Any(_), Segment::Rest(_)) => Some((true, false)),
            (Segment::Rest(_), Segment::Any(_)) => Some((false, true)),
        }
    }

    /// The segment without the names of its parameters.
    pub(super) fn shape(&self) -> String {
        match self {
            Segment::Literal(text) => text.clone(),
            Segment::Mixed(mixed) => mixed.shape(),
            Segment::Any(_) => "{}".into(),
            Segment::Rest(_) => "{*}".into(),
        }
    }

    /// The segment in small letters.
    pub(super) fn folded(&self) -> Segment {
        match self {
            Segment::Literal(text) => Segment::Literal(small(text)),
            Segment::Mixed(mixed) => Segment::Mixed(mixed.folded()),
            other => other.clone(),
        }
    }
}

impl Mixed {
    /// Whether there is a way to share a segment out among the parameters, each of which gets at least one byte.
    pub(crate) fn matches(&self, part: &str) -> bool {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return part.is_empty() };
        let (prefix, suffix) = (first.literal(), last.literal());
        let Some(mut rest) = part.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix)) else {
            return false;
        };
        // The first place where a literal can stand leaves the most to what follows.
        let ends = usize::from(!prefix.is_empty())..self.0.len() - usize::from(!suffix.is_empty());
        for piece in self.0[ends].iter().filter(|piece| matches!(piece, Piece::Literal(_))) {
            let literal = piece.literal();
            let after_one = rest.chars().next().map_or(0, char::len_utf8);
            let Some(at) = rest.get(after_one..).and_then(|rest| rest.find(literal)) else { return false };
            rest = &rest[after_one + at + literal.len()..];
        }
        !rest.is_empty()
    }

    /// The bytes that are literal: the more, the more concrete.
    pub(crate) fn weight(&self) -> usize {
        self.0.iter().map(|piece| piece.literal().len()).sum()
    }

    /// The pieces without the names of the parameters.
    pub(crate) fn shape(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Any(_) => "{}".to_owned(),
        };
        self.0.iter().map(piece).collect()
    }

    /// Whether some segment could be both: neither their beginnings nor their ends exclude each other.
    pub(crate) fn may_meet(&self, other: &Mixed) -> bool {
        let ends = |mixed: &Mixed| {
            let literal = |piece: Option<&Piece>| piece.map(Piece::literal).unwrap_or_default().to_owned();
            (literal(mixed.0.first()), literal(mixed.0.last()))
        };
        let ((own_start, own_end), (start, end)) = (ends(self), ends(other));
        (own_start.starts_with(&start) || start.starts_with(&own_start))
            && (own_end.ends_with(&end) || end.ends_with(&own_end))
    }

    fn folded(&self) -> Mixed {
        let piece = |piece: &Piece| match piece {
            Piece::Literal(text) => Piece::Literal(small(text)),
            Piece::Any(name) => Piece::Any(name.clone()),
        };
        Mixed(self.0.iter().map(piece).collect())
    }
}

impl Piece {
    /// Its text; empty for a parameter.
    fn literal(&self) -> &str {
        match self {
            Piece::Literal(text) => text,
            Piece::Any(_) => "",
        }
    }
}

/// The literals and parameters of a segment, in order.
fn pieces(part: &str) -> Result<Vec<Piece>, String> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut rest = part;
    while !rest.is_empty() {
        let Some(open) = rest.find(['{', '}']) else {
            pieces.push(Piece::Literal(literal(rest, part)?));
            break;
        };
        if open > 0 {
            pieces.push(Piece::Literal(literal(&rest[..open], part)?));
        }
        let end = rest.find('}').filter(|end| *end > open);
        let name = end.and_then(|end| rest.get(open + 1..end)).filter(|name| is_name(name));
        let Some((end, name)) = end.zip(name) else {
            return Err(format!("{part:?} is no parameter: write {{name}} with letters, digits, _ and -"));
        };
        if matches!(pieces.last(), Some(Piece::Any(_))) {
            return Err(format!("{part:?}: two parameters need something between them to tell them apart"));
        }
        pieces.push(Piece::Any(name.to_owned()));
        rest = &rest[end + 1..];
    }
    Ok(pieces)
}

/// Text of a path, as it can stand in a request.
fn literal(text: &str, part: &str) -> Result<String, String> {
    if part == "." || part == ".." {
        return Err("`.` and `..` are refused in every request: write the path they lead to".into());
    }
    if text.contains('%') {
        return Err("encoded characters are not matched: write the path as it is meant, without %".into());
    }
    if text.contains(['?', '#']) {
        return Err("a path has no query and no fragment: remove them".into());
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    match text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => {
            Err(format!("{part:?} has characters that a path cannot have: use letters, digits, - . _ ~"))
        }
    }
}
