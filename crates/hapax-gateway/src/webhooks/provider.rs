//! What each provider signs and what it calls a delivery (W2, W3): one file each, behind one trait.
//!
//! A provider knows two things: whether a delivery is the sender's own, and by which identifier the sender tells its deliveries
//! apart. Where secrets come from, what is claimed and where a delivery goes is decided elsewhere.
//!
//! Signatures are compared as texts, in the one form in which the sender writes them: two texts that decode to the same bytes are
//! not both accepted.

mod generic;
mod github;
mod shopify;
mod slack;
mod standard;
mod stripe;
#[cfg(test)]
mod tests;
mod twilio;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_core::Error;
use hapax_core::json::Pointer;
use hapax_tower::identifier::{self, Untranslated};
use http::HeaderMap;

use crate::limits;

pub use generic::{Encoding, Generic, Hash};
pub(crate) use github::GitHub;
pub(crate) use shopify::Shopify;
pub(crate) use slack::Slack;
pub(crate) use standard::Standard;
pub(crate) use stripe::Stripe;
pub(crate) use twilio::{Twilio, TwilioEvents};

/// The names of the built-in providers, as they stand in a webhook's path.
pub const BUILT_IN: [&str; 7] =
    ["github", "shopify", "slack", "standard", "stripe", "twilio", "twilio-events"];

/// The built-in provider of this name. `sha256` chooses Twilio's newer algorithm; a header of a delivery never does (W2).
pub(crate) fn built_in(name: &str, sha256: bool) -> Option<Box<dyn Provider>> {
    Some(match name {
        "github" => Box::new(GitHub),
        "shopify" => Box::new(Shopify),
        "slack" => Box::new(Slack),
        "standard" => Box::new(Standard),
        "stripe" => Box::new(Stripe),
        "twilio" => Box::new(Twilio { sha256 }),
        "twilio-events" => Box::new(TwilioEvents { sha256 }),
        _ => return None,
    })
}

/// What those who make webhooks must know of a provider.
pub struct Traits(Box<dyn Provider>);

impl Traits {
    pub(crate) fn of(provider: Box<dyn Provider>) -> Self {
        Traits(provider)
    }

    /// Whether this can be a secret of the provider.
    pub fn check_secret(&self, secret: &Secret) -> Result<(), Error> {
        self.0.check_secret(secret)
    }

    /// A fresh secret in the form that the sender's settings take.
    pub fn make_secret(&self) -> Result<Secret, Error> {
        self.0.make_secret()
    }

    /// Whether the signature covers the public URL, which the edge must then be told.
    pub fn signs_url(&self) -> bool {
        self.0.signs_url()
    }
}

/// For how long the built-in provider of this name may send a delivery again (W6).
pub fn window(name: &str) -> Option<Duration> {
    built_in(name, false).map(|provider| provider.window())
}

/// A sender of webhooks.
pub(crate) trait Provider: Send + Sync + 'static {
    /// Whether the sender itself signed this delivery with one of these secrets. `now` is Unix time in seconds.
    fn verify(&self, delivery: &Delivery<'_>, secrets: &[Secret], now: u64) -> Result<(), Refused>;

    /// What the sender calls this delivery. Asked only once the signature holds.
    fn identifier(&self, delivery: &Delivery<'_>) -> Result<String, Refused>;

    /// Whether the signature covers the identifier of this delivery. Where it does not, a captured one can be sent again under another
    /// identifier (W5).
    fn signs_identifier(&self, delivery: &Delivery<'_>) -> bool;

    /// What is signed, as far as it tells one delivery from another: equal content is the same delivery where the webhook says so (W5).
    fn content<'d>(&self, delivery: &Delivery<'d>) -> Cow<'d, [u8]> {
        Cow::Borrowed(delivery.body)
    }

    /// The header in which the sender says what kind of event this is, which is part of the identity (W5).
    fn kind_header(&self) -> Option<&str> {
        None
    }

    /// The answer to a delivery that only asks whether this endpoint is its owner's, which is neither claimed nor forwarded.
    fn challenge(&self, _delivery: &Delivery<'_>) -> Option<String> {
        None
    }

    /// How long the sender waits for an answer, with a margin (W9).
    fn wait(&self) -> Duration {
        limits::DELIVERY_WAIT
    }

    /// For how long the sender may send a delivery again: outcomes are kept at least that long (W6).
    fn window(&self) -> Duration {
        limits::DELIVERY_WINDOW
    }

    /// Whether this can be a secret of the provider.
    fn check_secret(&self, secret: &Secret) -> Result<(), Error> {
        secret.is_not_empty()
    }

    /// A fresh secret in the form that the sender's settings take.
    fn make_secret(&self) -> Result<Secret, Error> {
        Secret::random("")
    }

    /// Whether the signature covers the public URL, which the edge must then be told.
    fn signs_url(&self) -> bool {
        false
    }
}

/// A delivery as it came. Nothing in it is believed before its signature holds.
pub(crate) struct Delivery<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
    /// Scheme and authority under which senders reach the edge, such as `https://hooks.example`, where that is configured.
    pub(crate) origin: Option<&'a str>,
    /// Path and query as received.
    pub(crate) target: &'a str,
}

impl<'a> Delivery<'a> {
    /// The only line of this header.
    fn header(&self, name: &str) -> Result<Option<&'a str>, TwoLines> {
        let mut lines = self.headers.get_all(name).iter();
        let line = lines.next();
        if lines.next().is_some() {
            return Err(TwoLines);
        }
        Ok(line.and_then(|line| line.to_str().ok()))
    }

    /// A header that belongs to the signature.
    fn signature(&self, name: &str) -> Result<&'a str, Refused> {
        match self.header(name) {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(Refused::Signature("a header of the signature is missing")),
            Err(TwoLines) => Err(Refused::Signature("a header of the signature has two lines")),
        }
    }

    /// What kind of event this is, where the sender says so.
    pub(crate) fn kind(&self, name: &str) -> Result<Option<&'a str>, Refused> {
        let mut lines = self.headers.get_all(name).iter();
        let Some(line) = lines.next() else { return Ok(None) };
        if lines.next().is_some() {
            return Err(Refused::Identifier("the header of the event's kind has two lines"));
        }
        // What cannot be read is not taken for none: two kinds would be one delivery.
        match line.to_str() {
            Ok(kind) if !kind.is_empty() => Ok(Some(kind)),
            _ => Err(Refused::Identifier("the header of the event's kind is empty or not ASCII")),
        }
    }

    /// A header that has the identifier.
    fn identifying(&self, name: &str) -> Result<&'a str, Refused> {
        Ok(identifier::in_header(self.headers, name)?)
    }
}

/// A header that should have one line has more.
struct TwoLines;

/// Why a delivery goes nowhere. The text is for the log; a sender is told only which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The signature does not hold.
    Signature(&'static str),
    /// The sender's identifier cannot be found, or is not one.
    Identifier(&'static str),
}

impl From<Untranslated> for Refused {
    fn from(Untranslated(why): Untranslated) -> Self {
        Refused::Identifier(why)
    }
}

/// A secret that deliveries are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The secret as its owner writes it.
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Secret(text.into())
    }

    /// Its bytes.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    fn random(prefix: &str) -> Result<Self, Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| Error::internal("the system gives no random bytes"))?;
        Ok(Secret(format!("{prefix}{}", STANDARD.encode(bytes)).into_bytes()))
    }

    fn is_not_empty(&self) -> Result<(), Error> {
        if self.0.is_empty() {
            return Err(Error::invalid("the secret of a webhook is empty"));
        }
        Ok(())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Hex,
    Base64,
}

/// Whether one of the shown signatures was made with one of the secrets over these parts, one after the other.
fn is_signed<'k>(
    algorithm: hmac::Algorithm,
    form: Form,
    secrets: impl IntoIterator<Item = &'k [u8]>,
    parts: &[&[u8]],
    shown: &[&str],
) -> bool {
    secrets.into_iter().filter(|secret| !secret.is_empty()).any(|secret| {
        let mut mac = hmac::Context::with_key(&hmac::Key::new(algorithm, secret));
        parts.iter().for_each(|part| mac.update(part));
        let expected = written(form, mac.sign().as_ref());
        // All of them are looked at, so that the time does not tell which one was right.
        shown.iter().fold(false, |found, text| {
            found | verify_slices_are_equal(text.as_bytes(), expected.as_bytes()).is_ok()
        })
    })
}

fn written(form: Form, bytes: &[u8]) -> String {
    match form {
        Form::Hex => hex(bytes),
        Form::Base64 => STANDARD.encode(bytes),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn all(secrets: &[Secret]) -> impl Iterator<Item = &[u8]> {
    secrets.iter().map(Secret::reveal)
}

/// Whether a signature of this time, Unix seconds as decimal digits, is recent: neither older nor newer than the tolerance (W3).
fn is_recent(time: &str, now: u64) -> Result<(), Refused> {
    let is_plain = !time.is_empty() && time.len() <= 12 && time.bytes().all(|byte| byte.is_ascii_digit());
    let time: u64 = match time.parse() {
        Ok(time) if is_plain => time,
        _ => return Err(Refused::Signature("the time of the signature is not a number of seconds")),
    };
    match time.abs_diff(now) <= limits::SIGNATURE_TOLERANCE.as_secs() {
        true => Ok(()),
        false => Err(Refused::Signature("the signature is too old, or from the future")),
    }
}

/// The outcome of comparing signatures.
fn held(is_signed: bool) -> Result<(), Refused> {
    match is_signed {
        true => Ok(()),
        false => Err(Refused::Signature("no secret of the webhook makes this signature")),
    }
}

/// The text of a member of a JSON body.
fn member(body: &[u8], name: &str) -> Result<String, Refused> {
    let pointer = Pointer::new(format!("/{name}"));
    let pointer = pointer.map_err(|_| Refused::Identifier("the name of the member is no pointer"))?;
    Ok(identifier::in_json(body, &pointer)?)
}
