//! Where the keys of a route may stand, and what they consist of (K1, K2): `key`, `key_grammar` and `identifier` of `[[routes]]`.

use hapax_core::json::Pointer;
use hapax_core::{Grammar, Policy};
use hapax_gateway::auth::trusted;
use hapax_tower::answer::{IDEMPOTENCY_KEY, is_hop_by_hop, is_ours};
use hapax_tower::{IdentifierPlace, KeyPlace, Keys};
use http::HeaderName;

use super::section::Section;
use super::webhooks;
use crate::limits;

pub(crate) const GRAMMARS: [(&str, Grammar); 2] =
    [("plain", Grammar::Plain), ("printable", Grammar::Printable)];

/// Headers that mean something else to everyone on the way.
const TAKEN: [&str; 13] = [
    "accept",
    "authorization",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "prefer",
    "traceparent",
    "user-agent",
    "x-api-key",
];

/// Reads where keys may stand beside `Idempotency-Key`.
pub(crate) fn read(section: &Section<'_>) -> Keys {
    let grammar = section.word("key_grammar", &GRAMMARS).map_or(Grammar::Plain, |word| word.value);
    let mut places = Vec::new();
    for place in section.one_or_more_sections("key") {
        if place.has("header") == place.has("json") {
            let what = "a place of `key` is one header or one member of a JSON body";
            let remedy = "write { header = \"X-Idempotency-Key\" } or { json = \"/idempotency_key\" }, or a list of such places";
            section.reader().mistake(&place.at(), what, remedy);
            continue;
        }
        let header = place.parsed("header", header).map(|name| KeyPlace::Header(name.value));
        let json = place.parsed("json", pointer).map(|pointer| KeyPlace::Json(pointer.value));
        // `Idempotency-Key` is read anyway.
        places.extend(header.or(json).filter(|place| *place != KeyPlace::Header(IDEMPOTENCY_KEY)));
    }
    let distinct = places.iter().enumerate().all(|(at, place)| !places[..at].contains(place));
    if places.len() > limits::KEY_PLACES || !distinct {
        let what = format!("`key` names a place twice, or more than {} places", limits::KEY_PLACES);
        section.reader().mistake(&section.place("key"), what, "name each place once");
    }
    Keys { places, grammar, identifier: identifier(section) }
}

/// Where the identifier of a route of the policy `REQUIRED_B` stands: it is the key there, and is nothing elsewhere (P1).
fn identifier(section: &Section<'_>) -> Option<IdentifierPlace> {
    let place = webhooks::identifier(&section.section("identifier"), identifying);
    let policy = section.text("policy")?;
    let (without_effect, remedy) = match policy.value == Policy::RequiredB.as_str() {
        true => {
            section.require(
                "identifier",
                "with REQUIRED_B, say where the sender's identifier stands, such as { header = \"X-Delivery-Id\" }",
            );
            (
                &["key", "key_grammar"][..],
                "remove it: the key is the `identifier`; or say `policy = \"REQUIRED_A\"`",
            )
        }
        false => (&["identifier"][..], "remove it, or say `policy = \"REQUIRED_B\"`"),
    };
    for field in without_effect.iter().filter(|field| section.has(field)) {
        let what = format!("`{field}` has no effect on a route that is {}", policy.value);
        section.reader().mistake(&section.place(field), what, remedy);
    }
    place
}

/// A header with identifiers. `Idempotency-Key` has keys.
fn identifying(text: &str) -> Result<String, String> {
    let name = header(text)?;
    match name == IDEMPOTENCY_KEY {
        true => Err("say `policy = \"REQUIRED_A\"` where callers send a key in this header".into()),
        false => Ok(name.as_str().to_owned()),
    }
}

/// Whether hapax reads or writes this header itself, so that it never goes on as a caller sent it (A5).
pub(crate) fn is_for_hapax(name: &HeaderName) -> bool {
    let own = [IDEMPOTENCY_KEY, trusted::TENANT, trusted::PROJECT, trusted::SUBJECT, trusted::LEVEL];
    own.contains(name) || is_ours(name) || is_hop_by_hop(name)
}

fn header(text: &str) -> Result<HeaderName, String> {
    let name = HeaderName::try_from(text).map_err(|_| "write the name of a header".to_owned())?;
    let taken = name != IDEMPOTENCY_KEY && is_for_hapax(&name)
        || TAKEN.contains(&name.as_str())
        || ["x-forwarded-", "x-restate-"].iter().any(|prefix| name.as_str().starts_with(prefix));
    if taken {
        Err("this header has another meaning: name one that carries nothing but the key".into())
    } else {
        Ok(name)
    }
}

fn pointer(text: &str) -> Result<Pointer, String> {
    Pointer::new(text).map_err(|error| error.message().to_owned())
}
