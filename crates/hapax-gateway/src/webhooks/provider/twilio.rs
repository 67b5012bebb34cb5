//! Twilio: `X-Twilio-Signature` is base64 of an HMAC over the public URL and, for forms, their fields. SHA-1, unless the webhook
//! says otherwise; a header of the delivery never does.
//!
//! Behind proxies Twilio signs the URL that its settings have, in one of four forms: with and without a port, and with the query as
//! it stands or encoded anew.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{Algorithm, HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256};

use super::{Delivery, Form, Provider, Refused, Secret, all, held, hex, is_signed};

const SIGNATURE: &str = "x-twilio-signature";
/// Names a delivery where its fields do not.
const TOKEN: &str = "i-twilio-idempotency-token";
/// The parameter of the query that binds a body which is no form to the signed URL.
const BODY_DIGEST: &str = "bodySHA256";

/// What says of a call's form that it tells of a step, which has a number.
const PROGRESS: &str = "call-progress-events";

/// Messaging and voice: forms.
pub(crate) struct Twilio {
    /// Whether this webhook is signed with SHA-256.
    pub(crate) sha256: bool,
}

/// Event Streams: JSON, bound to the URL by its digest.
pub(crate) struct TwilioEvents {
    /// Whether this webhook is signed with SHA-256.
    pub(crate) sha256: bool,
}

fn algorithm(sha256: bool) -> Algorithm {
    if sha256 { HMAC_SHA256 } else { HMAC_SHA1_FOR_LEGACY_USE_ONLY }
}

type Fields<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Whether the signature is one over a form of the URL, followed by these texts.
fn verify(delivery: &Delivery<'_>, sha256: bool, secrets: &[Secret], fields: &str) -> Result<(), Refused> {
    let shown = delivery.signature(SIGNATURE)?;
    let origin = delivery.origin.ok_or(Refused::Signature("the public URL of the edge is not configured"))?;
    let signed = urls(origin, delivery.target).iter().fold(false, |found, url| {
        let parts = [url.as_bytes(), fields.as_bytes()];
        found | is_signed(algorithm(sha256), Form::Base64, all(secrets), &parts, &[shown])
    });
    held(signed)
}

/// The forms of the URL that Twilio may have signed.
fn urls(origin: &str, target: &str) -> BTreeSet<String> {
    let origins = origins(origin);
    let targets = [target.to_owned(), encoded_anew(target)];
    origins.iter().flat_map(|origin| targets.iter().map(move |target| format!("{origin}{target}"))).collect()
}

/// The origin with and without its port.
fn origins(origin: &str) -> [String; 2] {
    let (scheme, authority) = origin.split_once("://").unwrap_or(("https", origin));
    let host_end = match authority.rfind(']') {
        Some(end) => end + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    let usual = if scheme == "http" { ":80" } else { ":443" };
    let port = if port.is_empty() { usual } else { port };
    [format!("{scheme}://{host}"), format!("{scheme}://{host}{port}")]
}

/// The same target with its query decoded and encoded once more, as JavaScript encodes components.
fn encoded_anew(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let mut text = format!("{path}?");
    for (number, (name, value)) in form_urlencoded::parse(query.as_bytes()).enumerate() {
        if number > 0 {
            text.push('&');
        }
        encode(&name, &mut text);
        text.push('=');
        encode(&value, &mut text);
    }
    text
}

fn encode(text: &str, into: &mut String) {
    use std::fmt::Write as _;
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => into.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => into.push(char::from(byte)),
            // Writing into a string does not fail.
            _ => drop(write!(into, "%{byte:02X}")),
        }
    }
}

fn fields<'a>(delivery: &Delivery<'a>) -> Fields<'a> {
    form_urlencoded::parse(delivery.body).collect()
}

/// Every field once, in the order of names and values, one after the other.
fn sorted(fields: &Fields<'_>) -> String {
    let sorted: BTreeSet<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    sorted.into_iter().flat_map(|(name, value)| [name, value]).collect()
}

/// The only value of a field; `None` where there is none or it is empty.
fn only<'f>(fields: &'f Fields<'_>, name: &str) -> Result<Option<&'f str>, Refused> {
    let mut values = fields.iter().filter(|(known, _)| known == name).map(|(_, value)| &**value);
    let value = values.next();
    match values.next() {
        Some(_) => Err(Refused::Identifier("a field of the identifier stands in the form twice")),
        None => Ok(value.filter(|value| !value.is_empty())),
    }
}

/// Whether the fields name the delivery, so that the token need not.
fn names_itself(fields: &Fields<'_>) -> bool {
    let has = |wanted: &str, value: Option<&str>| {
        fields
            .iter()
            .any(|(name, text)| name == wanted && value.map_or(!text.is_empty(), |value| text == value))
    };
    has("MessageSid", None) || has("CallbackSource", Some(PROGRESS))
}

impl Provider for Twilio {
    fn verify(&self, delivery: &Delivery<'_>, secrets: &[Secret], _now: u64) -> Result<(), Refused> {
        verify(delivery, self.sha256, secrets, &sorted(&fields(delivery)))
    }

    fn identifier(&self, delivery: &Delivery<'_>) -> Result<String, Refused> {
        let fields = fields(delivery);
        let only = |name| only(&fields, name);
        if let Some(sid) = only("MessageSid")? {
            // An incoming message has only the latter.
            let status = match only("MessageStatus")? {
                Some(status) => Some(status),
                None => only("SmsStatus")?,
            };
            let status = status.ok_or(Refused::Identifier("the message has no status"))?;
            return Ok(format!("{sid}.{status}"));
        }
        let sid = only("CallSid")?.ok_or(Refused::Identifier("the form names neither message nor call"))?;
        if only("CallbackSource")? != Some(PROGRESS) {
            // Each step of a call has the same status: only the sender can tell them apart.
            return delivery.identifying(TOKEN).map(str::to_owned);
        }
        match (only("CallStatus")?, only("SequenceNumber")?) {
            (Some(status), Some(number)) => Ok(format!("{sid}.{status}.{number}")),
            _ => Err(Refused::Identifier("the progress of the call has no status or number")),
        }
    }

    fn signs_identifier(&self, delivery: &Delivery<'_>) -> bool {
        // The token stands in a header, which no signature covers.
        names_itself(&fields(delivery))
    }

    /// The signature is over URL and fields, whatever their order is.
    fn content<'d>(&self, delivery: &Delivery<'d>) -> Cow<'d, [u8]> {
        Cow::Owned([encoded_anew(delivery.target), sorted(&fields(delivery))].join("\n").into_bytes())
    }

    fn signs_url(&self) -> bool {
        true
    }
}

impl Provider for TwilioEvents {
    fn verify(&self, delivery: &Delivery<'_>, secrets: &[Secret], _now: u64) -> Result<(), Refused> {
        let query = delivery.target.split_once('?').map_or("", |(_, query)| query);
        let mut named = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == BODY_DIGEST);
        let (Some((_, shown)), None) = (named.next(), named.next()) else {
            return Err(Refused::Signature("the URL does not name one digest of the body"));
        };
        let own = hex(digest(&SHA256, delivery.body).as_ref());
        if verify_slices_are_equal(shown.as_bytes(), own.as_bytes()).is_err() {
            return Err(Refused::Signature("the body has another digest than the URL says"));
        }
        verify(delivery, self.sha256, secrets, "")
    }

    fn identifier(&self, delivery: &Delivery<'_>) -> Result<String, Refused> {
        delivery.identifying(TOKEN).map(str::to_owned)
    }

    fn signs_identifier(&self, _: &Delivery<'_>) -> bool {
        false
    }

    fn window(&self) -> Duration {
        Duration::from_secs(4 * 60 * 60)
    }

    fn signs_url(&self) -> bool {
        true
    }
}
