//! A provider that a configuration declares: which header has the signature, how it is written, what is signed, and where the
//! identifier stands.

use std::borrow::Cow;
use std::time::Duration;

use aws_lc_rs::hmac::{Algorithm, HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA512};
use hapax_core::Error;

use hapax_tower::IdentifierPlace;

use super::{Delivery, Form, Provider, Refused, Secret, all, held, is_recent, is_signed};
use crate::limits;

/// What a configuration says of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generic {
    /// The header with the signature.
    pub header: String,
    /// What stands before the signature in it, such as `sha256=`.
    pub prefix: String,
    /// What it is made with.
    pub hash: Hash,
    /// How it is written.
    pub encoding: Encoding,
    /// What is signed: a text with `{body}`, and `{timestamp}` and `{id}` where those are signed, too.
    pub signed: String,
    /// The header with the time of the signature, in Unix seconds.
    pub timestamp_header: Option<String>,
    /// Where the identifier of a delivery stands.
    pub identifier: IdentifierPlace,
    /// Whether the signature covers the identifier.
    pub identifier_signed: bool,
    /// The header that says what kind of event this is.
    pub kind_header: Option<String>,
    /// How long the sender waits for an answer.
    pub wait: Duration,
    /// For how long the sender may send a delivery again.
    pub window: Duration,
}

/// A hash function for HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Lower-case hexadecimal digits.
    Hex,
    /// Base64 with padding.
    Base64,
}

/// A piece of what is signed.
enum Piece<'t> {
    Text(&'t str),
    Body,
    Timestamp,
    Identifier,
}

const PLACES: [&str; 3] = ["{body}", "{timestamp}", "{id}"];

/// The template of what is signed, in pieces.
fn pieces(mut template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    while !template.is_empty() {
        let next = PLACES.iter().filter_map(|place| template.find(place).map(|at| (at, *place))).min();
        let Some((at, place)) = next else {
            pieces.push(Piece::Text(template));
            break;
        };
        if at > 0 {
            pieces.push(Piece::Text(&template[..at]));
        }
        pieces.push(match place {
            "{body}" => Piece::Body,
            "{timestamp}" => Piece::Timestamp,
            _ => Piece::Identifier,
        });
        template = &template[at + place.len()..];
    }
    pieces
}

impl Generic {
    /// Checks what depends on each other.
    pub fn check(&self) -> Result<(), Error> {
        let has = |place: &str| self.signed.matches(place).count();
        if has("{body}") != 1 {
            return Err(Error::invalid("`signed` must have {body} exactly once"));
        }
        if (has("{timestamp}") > 0) != self.timestamp_header.is_some() {
            return Err(Error::invalid("{timestamp} in `signed` and `timestamp_header` go together"));
        }
        if has("{id}") > 0 && !self.identifier_signed {
            return Err(Error::invalid(
                "{id} in `signed` means that the identifier is signed: say `identifier_signed = true`",
            ));
        }
        // A body that is signed has its identifier signed, too.
        if !matches!(self.identifier, IdentifierPlace::Header(_)) && !self.identifier_signed {
            return Err(Error::invalid(
                "an identifier in the body is signed: say `identifier_signed = true`",
            ));
        }
        if matches!(self.identifier, IdentifierPlace::Header(_)) && self.identifier_signed && has("{id}") == 0
        {
            return Err(Error::invalid("an identifier in a header is signed only where `signed` has {id}"));
        }
        Ok(())
    }

    fn algorithm(&self) -> Algorithm {
        match self.hash {
            Hash::Sha1 => HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha256 => HMAC_SHA256,
            Hash::Sha512 => HMAC_SHA512,
        }
    }
}

impl Provider for Generic {
    fn verify(&self, delivery: &Delivery<'_>, secrets: &[Secret], now: u64) -> Result<(), Refused> {
        let shown = delivery.signature(&self.header)?;
        let shown = shown
            .strip_prefix(self.prefix.as_str())
            .ok_or(Refused::Signature("the signature does not start as it should"))?;
        let time = match &self.timestamp_header {
            Some(name) => delivery.signature(name)?,
            None => "",
        };
        if self.timestamp_header.is_some() {
            is_recent(time, now)?;
        }
        let pieces = pieces(&self.signed);
        let identifier = match pieces.iter().any(|piece| matches!(piece, Piece::Identifier)) {
            true => (self.identifier.text(delivery.headers, delivery.body))
                .map_err(|_| Refused::Signature("the identifier, which is signed, cannot be found"))?,
            false => Cow::Borrowed(""),
        };
        let parts: Vec<&[u8]> = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.as_bytes(),
                Piece::Body => delivery.body,
                Piece::Timestamp => time.as_bytes(),
                Piece::Identifier => identifier.as_bytes(),
            })
            .collect();
        let form = match self.encoding {
            Encoding::Hex => Form::Hex,
            Encoding::Base64 => Form::Base64,
        };
        held(is_signed(self.algorithm(), form, all(secrets), &parts, &[shown]))
    }

    fn identifier(&self, delivery: &Delivery<'_>) -> Result<String, Refused> {
        Ok(self.identifier.text(delivery.headers, delivery.body)?.into_owned())
    }

    fn signs_identifier(&self, _: &Delivery<'_>) -> bool {
        self.identifier_signed
    }

    fn kind_header(&self) -> Option<&str> {
        self.kind_header.as_deref()
    }

    fn wait(&self) -> Duration {
        self.wait
    }

    fn window(&self) -> Duration {
        self.window
    }
}

impl Default for Generic {
    fn default() -> Self {
        Generic {
            header: String::new(),
            prefix: String::new(),
            hash: Hash::Sha256,
            encoding: Encoding::Hex,
            signed: "{body}".into(),
            timestamp_header: None,
            identifier: IdentifierPlace::Header(String::new()),
            identifier_signed: false,
            kind_header: None,
            wait: limits::DELIVERY_WAIT,
            window: limits::DELIVERY_WINDOW,
        }
    }
}
