//! What a caller knows an operation by: the value of `x-operation-id`, the member `operation_id` of a problem, and the last part of
//! the path that it is recalled by. What an opaque id stands for is decided by the outlet that makes it.

use std::fmt;
use std::str::FromStr;

use hapax_core::{Error, OperationId};
use http::HeaderValue;

use crate::limits;
use crate::protect::operation_header;

/// The public id of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicId {
    /// Of a claim that this ledger keeps.
    Operation(OperationId),
    /// Of a call whose claim is kept elsewhere.
    Opaque(OpaqueId),
}

/// A public id that only its maker can read: longer than an [`OperationId`] is written, so that no text is both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpaqueId(Box<str>);

impl OpaqueId {
    /// Checks a text: 36 to 512 characters of a URL that need no escape, which a header and a path both carry as they are.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, Error> {
        let text = text.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match limits::OPAQUE_ID.contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(OpaqueId(text)),
            false => Err(Error::invalid(
                "an opaque operation id has 36 to 512 characters of A-Z, a-z, 0-9, `-`, `.`, `_` and `~`",
            )),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PublicId {
    /// As a field's value.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        match self {
            PublicId::Operation(id) => operation_header(*id),
            PublicId::Opaque(id) => HeaderValue::from_str(id.as_str()).ok(),
        }
    }
}

impl From<OperationId> for PublicId {
    fn from(id: OperationId) -> Self {
        PublicId::Operation(id)
    }
}

impl From<OpaqueId> for PublicId {
    fn from(id: OpaqueId) -> Self {
        PublicId::Opaque(id)
    }
}

impl fmt::Display for PublicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublicId::Operation(id) => id.fmt(f),
            PublicId::Opaque(id) => f.write_str(id.as_str()),
        }
    }
}

impl FromStr for PublicId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.parse() {
            Ok(id) => Ok(PublicId::Operation(id)),
            Err(_) => OpaqueId::new(text).map(PublicId::Opaque),
        }
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::ClaimId;

    use super::*;

    #[test]
    fn a_public_id_reads_back_as_it_was_written_h8() {
        let own = OperationId::mint(&ClaimId::from_bytes([7; 32]));
        let longest = "aZ09-._~".repeat(64);
        let opaque = OpaqueId::new(longest.as_str()).unwrap();
        for (id, text) in [(PublicId::from(own), own.to_string()), (opaque.into(), longest)] {
            assert_eq!((id.to_string(), &text.parse::<PublicId>().unwrap()), (text.clone(), &id));
            assert_eq!(id.header().unwrap(), text.as_str());
        }
    }

    #[test]
    fn what_a_path_or_a_header_would_not_carry_as_it_is_names_no_operation_h8() {
        let long = "a".repeat(40);
        for text in [
            String::new(),
            "..".into(),
            "op_".to_owned() + &"g".repeat(32),
            "a".repeat(35),
            "a".repeat(513),
            format!("{long}/"),
            format!("{long}%20"),
            format!("{long} "),
            format!("{long}\r\n"),
            format!("{long}é"),
        ] {
            let error = text.parse::<PublicId>().unwrap_err();
            assert!(error.message().contains("36 to 512"), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_public_id_costs_an_ordinary_call_no_allocation_h8() {
        assert!(size_of::<Option<PublicId>>() <= 24, "{} bytes", size_of::<Option<PublicId>>());
    }
}
