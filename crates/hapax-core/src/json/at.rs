//! One text of a JSON document, found by its pointer without building the document.
//!
//! For a key that stands in a body: readers disagree about which of two members of one name counts, so a name on the way that
//! stands twice is refused. What is beside the way is only checked to be JSON.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Pointer, array_index, unescaped};

/// Why a document does not say which text stands at a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOneText {
    /// The document is not JSON, or the pointer leads too deep.
    Unreadable,
    /// A member on the way stands twice.
    DuplicateName,
    /// There is a value, and it is not a string.
    NotText,
}

/// The text at a pointer; `None` where there is nothing.
pub fn text_at(document: &[u8], pointer: &Pointer) -> Result<Option<String>, NotOneText> {
    let tokens: Vec<String> = pointer.as_str().split('/').skip(1).map(unescaped).collect();
    let refused = Cell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(document);
    let found = At { tokens: &tokens, refused: &refused }.deserialize(&mut reader);
    let found = found.map_err(|_| refused.get().unwrap_or(NotOneText::Unreadable))?;
    reader.end().map_err(|_| NotOneText::Unreadable)?;
    Ok(found)
}

/// Looks for what the rest of a pointer names.
#[derive(Clone, Copy)]
struct At<'a> {
    tokens: &'a [String],
    /// The reason for a refusal, which a `serde_json::Error` could carry only as text.
    refused: &'a Cell<Option<NotOneText>>,
}

impl At<'_> {
    fn refuse<E: serde::de::Error>(self, reason: NotOneText) -> E {
        self.refused.set(Some(reason));
        E::custom("refused")
    }

    /// A value that has no members: the pointer ends here, at no text, or leads nowhere.
    fn leaf<E: serde::de::Error>(self) -> Result<Option<String>, E> {
        if self.tokens.is_empty() { Err(self.refuse(NotOneText::NotText)) } else { Ok(None) }
    }
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        self.leaf()
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Self::Value, E> {
        self.leaf()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Self::Value, E> {
        self.leaf()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Self::Value, E> {
        self.leaf()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Self::Value, E> {
        self.leaf()
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.tokens.is_empty().then(|| text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Some((token, rest)) = self.tokens.split_first() else { return self.leaf() };
        let wanted = array_index(token);
        let mut found = None;
        for index in 0.. {
            if Some(index) == wanted {
                match items.next_element_seed(At { tokens: rest, ..self })? {
                    Some(inner) => found = inner,
                    None => break,
                }
            } else if items.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let Some((token, rest)) = self.tokens.split_first() else { return self.leaf() };
        let (mut found, mut named) = (None, false);
        while let Some(name) = members.next_key::<String>()? {
            if name != *token {
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            if std::mem::replace(&mut named, true) {
                return Err(self.refuse(NotOneText::DuplicateName));
            }
            found = members.next_value_seed(At { tokens: rest, ..self })?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::NotOneText::{DuplicateName, NotText, Unreadable};
    use super::*;

    fn at(document: &str, pointer: &str) -> Result<Option<String>, NotOneText> {
        text_at(document.as_bytes(), &Pointer::new(pointer).unwrap())
    }

    #[test]
    fn a_text_is_found_by_its_pointer_k1() {
        let found = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(at(r#"{"a": 1, "key": "k"}"#, "/key"), found("k"));
        assert_eq!(at(r#"{"\u006bey": "\u006b"}"#, "/key"), found("k"), "escapes are read");
        assert_eq!(at(r#"{"a": [0, {"b/c": "k"}, 2]}"#, "/a/1/b~1c"), found("k"));
        assert_eq!(
            at(r#"{"b": 1, "b": 2, "key": "k", "n": 1e999999}"#, "/key"),
            found("k"),
            "beside the way"
        );
        let deep = format!("{{\"a\": {}1{}, \"key\": \"k\"}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(at(&deep, "/key"), found("k"), "what is beside the way takes no stack");
        for nothing in ["{}", "[]", "5", "null", "\"key\"", r#"{"key2": "k"}"#, r#"{"a": {"key": "k"}}"#] {
            assert_eq!(at(nothing, "/key"), Ok(None), "{nothing}");
        }
        assert_eq!(at(r#"["k"]"#, "/00"), Ok(None));
        assert_eq!(at(r#"["k"]"#, "/1"), Ok(None));
    }

    #[test]
    fn what_is_not_one_text_is_refused_k1() {
        for value in ["null", "7", "true", "[]", "{}", "[\"k\"]", "-0.5"] {
            assert_eq!(at(&format!("{{\"key\": {value}}}"), "/key"), Err(NotText), "{value}");
        }
        assert_eq!(at(r#"{"key": "k", "key": "k"}"#, "/key"), Err(DuplicateName));
        assert_eq!(at(r#"{"key": "k", "\u006bey": "k"}"#, "/key"), Err(DuplicateName));
        assert_eq!(at(r#"{"a": {"key": "k"}, "a": 1}"#, "/a/key"), Err(DuplicateName));
        for broken in ["", "key=k", "{\"key\": \"k\"", "{\"key\": \"k\"} x", "\u{feff}{\"key\": \"k\"}"] {
            assert_eq!(at(broken, "/key"), Err(Unreadable), "{broken}");
        }
        let below = "/a".repeat(200);
        let deep = format!("{}\"k\"{}", "{\"a\":".repeat(200), "}".repeat(200));
        assert_eq!(at(&deep, &below), Err(Unreadable), "no pointer is followed so far down");
    }
}
