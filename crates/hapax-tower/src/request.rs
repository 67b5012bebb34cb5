//! A request under a key, as an intake hands it over.
//!
//! An intake finds out whose a request is, which key it has and what it asks; the edge has one for its callers, the tower
//! layer is another. What they find are parts of their own: a delivery can be claimed under a digest and still show the key
//! that it came with. What becomes of the request is [`Protect`](crate::Protect)'s affair, and where it goes is its
//! [`Work`](crate::Work)'s.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use hapax_core::fingerprint::decoded;
use hapax_core::{
    Asked, Fingerprint, Identity, Key, LeafKey, Leaves, Recipe, RequestParts, Scope, Source, Width,
};
use hapax_exec::Rehash;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::{Method, Uri};

use crate::key::WireKey;
use crate::prefer::Prefer;
use crate::rule::Rule;

/// A request under a key. It is handed over in an [`Arc`]; a caller that waits for another one's outcome lets go of it (L9).
#[derive(Debug)]
pub struct KeyedRequest {
    /// What it is claimed under.
    pub identity: Identity,
    /// The key that the service and the log get to see; `None` where the caller sent none and what is asked is the key (H9).
    pub wire_key: Option<WireKey>,
    /// What makes it the same request as another one.
    pub fingerprint: Fingerprint,
    /// How it is protected.
    pub rule: Arc<Rule>,
    /// What came.
    pub message: Message,
    /// How long its caller waits.
    pub wait: Wait,
}

impl KeyedRequest {
    /// The key as the service gets to see it: the one that came, or else the one that was derived.
    pub fn shown_key(&self) -> &Key {
        self.wire_key.as_ref().map_or(self.identity.key(), |wire| &wire.key)
    }
}

impl Rehash for KeyedRequest {
    fn rehash(&self, recipe: &Recipe) -> Fingerprint {
        self.message.fingerprint(recipe, self.rule.max_request_body)
    }
}

impl Asked for KeyedRequest {
    fn leaves(&self, key: &LeafKey) -> Leaves {
        let request = self.message.parts(&[], self.rule.max_request_body);
        Leaves::of_request(&request, key, self.rule.recipe.ignored())
    }
}

/// Who claims, and with which key: an identity that lacks the name of its operation.
#[derive(Clone, Debug)]
pub struct Claimant {
    /// How the key was found.
    pub source: Source,
    /// Whose request it is.
    pub scope: Scope,
    /// How much of the scope counts at least, where a peer has dropped the rest.
    pub width: Width,
    /// The key of the claim.
    pub key: Key,
}

impl Claimant {
    /// Whose key this is: the one that was sent, where keys of this source are, or else the digest of what is asked (H9).
    pub fn new(
        scope: Scope,
        width: Width,
        source: Source,
        wire_key: Option<&WireKey>,
        fingerprint: &Fingerprint,
    ) -> Self {
        let (source, key) = match wire_key {
            Some(wire) => (source, wire.key.clone()),
            None => (Source::Derived, derived_key(fingerprint)),
        };
        Claimant { source, scope, width, key }
    }

    /// The identity of a request under this rule: by the first name of its operation, whatever it is called now (K6).
    pub fn under(self, rule: &Rule) -> Identity {
        let width = self.width.max(rule.width);
        Identity::new(self.source, self.scope, width, rule.operation.clone(), self.key)
    }
}

fn derived_key(fingerprint: &Fingerprint) -> Key {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in fingerprint.digest {
        let _ = write!(text, "{byte:02x}");
    }
    Key::new(text).expect("64 hexadecimal digits are a key")
}

/// What came: a request as its caller sent it, with its whole body.
#[derive(Debug)]
pub struct Message {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// What an encoded body stands for, once it was asked for; `None` where that cannot be read within the bound.
    content: OnceLock<Option<Bytes>>,
}

impl Message {
    /// A request as it came.
    pub fn new(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Self {
        Message { method, uri, headers, body, content: OnceLock::new() }
    }

    /// What the body says: without a `Content-Encoding`, the body itself. `None` where it cannot be read, or is longer than so many
    /// bytes. An encoded body is decoded once, under the bound of the first who asks: all who ask have the rule's.
    pub fn content(&self, most: usize) -> Option<&[u8]> {
        let Some(encoding) = content_encoding(&self.headers) else { return Some(&self.body) };
        let content = self.content.get_or_init(|| {
            let content = decoded(Some(encoding), &self.body, most)?;
            Some(match content {
                Cow::Borrowed(_) => self.body.clone(),
                Cow::Owned(content) => content.into(),
            })
        });
        content.as_deref()
    }

    /// How many bytes its decoded content takes beside the body.
    pub fn decoded_bytes(&self) -> u64 {
        let content = self.content.get().and_then(Option::as_ref);
        content
            .filter(|content| content.as_ptr() != self.body.as_ptr())
            .map_or(0, |content| content.len() as u64)
    }

    /// What makes it the same as another one, under this recipe (K7). Of an encoded body at most so many bytes of content are read.
    pub fn fingerprint(&self, recipe: &Recipe, max_content: usize) -> Fingerprint {
        let headers: Vec<(&str, &[u8])> = recipe
            .headers()
            .iter()
            .flat_map(|name| self.headers.get_all(name).iter().map(|value| (name.as_str(), value.as_bytes())))
            .collect();
        recipe.fingerprint(&self.parts(&headers, max_content))
    }

    /// What can be compared of it.
    pub(crate) fn parts<'a>(
        &'a self,
        headers: &'a [(&'a str, &'a [u8])],
        max_content: usize,
    ) -> RequestParts<'a> {
        RequestParts {
            method: self.method.as_str(),
            path: self.uri.path(),
            query: self.uri.query().unwrap_or_default(),
            content_type: self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()),
            // What can be decoded is; anything else is compared by the bytes that came.
            content_encoding: None,
            max_content,
            headers,
            body: self.content(max_content).unwrap_or(&self.body),
        }
    }
}

/// How the body is encoded. Several lines are several codings, none of which is read.
fn content_encoding(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(CONTENT_ENCODING).iter();
    let only = lines.next()?;
    if lines.next().is_some() { Some("several") } else { only.to_str().ok().or(Some("unknown")) }
}

/// How long a caller waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The longest wait for another caller's outcome, where that is shorter than the rule's.
    pub at_most: Option<Duration>,
    /// The caller does not wait: it is told at once that its outcome will be found here, by operation id (H6).
    pub fetches_at: Option<Arc<str>>,
}

impl Wait {
    /// As these headers prefer it. Without a place where outcomes are fetched, such as `/operations`, every caller waits.
    pub fn preferred(headers: &HeaderMap, operations: Option<&Arc<str>>) -> Self {
        let prefer = Prefer::of(headers);
        Wait { at_most: prefer.wait, fetches_at: operations.filter(|_| prefer.respond_async).cloned() }
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::Operation;

    use super::*;

    #[test]
    fn what_an_operation_is_called_now_takes_no_part_in_an_identity_k6() {
        let first = Rule { width: Width::Project, ..Rule::new("old").unwrap() };
        let renamed = Rule { label: Some(Operation::new("new").unwrap()), ..first.clone() };
        let wire = WireKey::in_header(crate::answer::IDEMPOTENCY_KEY, Key::new("k").unwrap());
        let claimant =
            Claimant::new(Scope::local(), Width::Subject, Source::Header, Some(&wire), &Fingerprint::none());
        let identity = claimant.clone().under(&renamed);
        let name = identity.operation().to_string();
        let parts = (identity.source(), name.as_str(), identity.width(), identity.key().as_str());
        assert_eq!(parts, (Source::Header, "old", Width::Project, "k"));
        assert_eq!(claimant.under(&first).claim_id(), identity.claim_id());
        assert_eq!((first.name().as_str(), renamed.name().as_str()), ("old", "new"));
    }

    #[test]
    fn an_encoded_body_is_decoded_once_k7() {
        let gzip =
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00";
        let message = |encoding: Option<&'static str>, body: &'static [u8]| {
            let mut headers = HeaderMap::new();
            encoding.map(|encoding| headers.insert(CONTENT_ENCODING, encoding.parse().unwrap()));
            Message::new(Method::POST, Uri::from_static("/"), headers, Bytes::from_static(body))
        };
        let packed = message(Some("gzip"), gzip);
        assert_eq!(packed.decoded_bytes(), 0, "nobody has asked");
        assert_eq!(packed.content(2), Some(&b"{}"[..]));
        let (first, again) = (packed.content(2).unwrap(), packed.content(2).unwrap());
        assert_eq!((first.as_ptr(), packed.decoded_bytes()), (again.as_ptr(), 2));
        let plain = message(None, b"{}");
        let recipe = Recipe::json();
        assert_eq!(packed.fingerprint(&recipe, 2), plain.fingerprint(&recipe, 2));
        assert_eq!(message(Some("gzip"), gzip).content(1), None, "longer than the bound");
        for (encoding, bytes) in [(None, 0), (Some("identity"), 0), (Some("br"), 0)] {
            let message = message(encoding, b"{}");
            assert_eq!(message.content(2).is_none(), encoding == Some("br"), "{encoding:?}");
            assert_eq!(message.decoded_bytes(), bytes);
            assert_eq!(message.fingerprint(&recipe, 2), plain.fingerprint(&recipe, 2), "{encoding:?}");
        }
    }

    /// A peer has dropped who asks: no rule can share the outcome less widely than that (K3, K8).
    #[test]
    fn what_a_peer_has_dropped_stays_dropped_and_a_derived_key_is_the_digest_of_what_is_asked_k8_h9() {
        let fingerprint = Fingerprint::of_bytes(b"x");
        let claimant = Claimant::new(Scope::local(), Width::Tenant, Source::Transport, None, &fingerprint);
        let identity = claimant.under(&Rule::new("a").unwrap());
        assert_eq!((identity.source(), identity.width()), (Source::Derived, Width::Tenant));
        let digits: String = fingerprint.digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(identity.key().as_str(), digits);
    }
}
