//! The key of a call.

use std::fmt;

use hapax_core::key::from_header;

use crate::error::Error;

/// A key: 1 to 255 of `A-Z a-z 0-9 . _ ~ -`, checked before anything is sent (C1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// A fresh random key (UUID4).
    pub fn fresh() -> Self {
        IdempotencyKey(uuid::Uuid::new_v4().to_string())
    }

    /// Checks a key of the caller's own. An empty one is an error, never "no key".
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        match from_header(text.as_bytes()) {
            // Quotes belong to the header, not to the key.
            Ok(key) if key.as_str() == text => Ok(IdempotencyKey(text.to_owned())),
            Ok(_) => Err(Error::invalid("the key must not be quoted or padded")),
            Err(error) => Err(Error::invalid(error.to_string())),
        }
    }

    /// The text, without copying it.
    #[cfg(feature = "middleware")]
    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn a_key_is_checked_before_anything_is_sent_c1() {
        for good in ["a", "order-42", "A.b_c~d-e", &"x".repeat(255)] {
            assert_eq!(IdempotencyKey::new(good).unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "\"a\"", "ä", "t-acme", "..", &"x".repeat(256), "a\n"] {
            assert_eq!(IdempotencyKey::new(bad).unwrap_err().kind(), Kind::Invalid, "{bad:?}");
        }
        assert_ne!(IdempotencyKey::fresh(), IdempotencyKey::fresh());
        assert!(IdempotencyKey::new(IdempotencyKey::fresh().as_str()).is_ok());
    }
}
