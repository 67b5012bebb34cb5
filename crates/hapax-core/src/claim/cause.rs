//! What a holder saw that left a doubt, in a line for people.
//!
//! Nothing is decided by it. Who reports chooses the words, and leaves secrets out of them.

use std::fmt;

use crate::limits::MAX_CAUSE_BYTES;

/// A short line of text: at most [`MAX_CAUSE_BYTES`], without control characters, never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause(Box<str>);

impl Cause {
    /// Cuts a text to the bound, between two characters, and writes control characters as spaces. `None` where nothing is left.
    pub fn new(text: &str) -> Option<Cause> {
        let text = text.trim();
        let cut = &text[..text.floor_char_boundary(MAX_CAUSE_BYTES)];
        let plain: String = cut.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let plain = plain.trim();
        (!plain.is_empty()).then(|| Cause(plain.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(text: &str) -> String {
        Cause::new(text).unwrap().as_str().to_owned()
    }

    #[test]
    fn a_cause_is_one_short_line() {
        assert_eq!(cause(" connection reset\r\nby\tpeer\n"), "connection reset  by peer");
        assert_eq!(cause(&"x".repeat(MAX_CAUSE_BYTES + 1)).len(), MAX_CAUSE_BYTES);
        // Two bytes each: the bound lies between two of them, or within one.
        assert_eq!(cause(&"é".repeat(MAX_CAUSE_BYTES)).len(), MAX_CAUSE_BYTES);
        assert_eq!(cause(&format!("x{}", "é".repeat(MAX_CAUSE_BYTES))).len(), MAX_CAUSE_BYTES - 1);
        assert_eq!([Cause::new(""), Cause::new(" \n\0 ")], [None, None]);
    }

    #[test]
    fn what_was_kept_reads_back_as_it_is() {
        let kept = cause(&format!("{}\u{1}{}", "a".repeat(150), "é ".repeat(40)));
        assert_eq!(cause(&kept), kept);
    }
}
