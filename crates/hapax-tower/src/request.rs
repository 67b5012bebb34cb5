//! A request under a key, as an intake hands it over.
//!
//! An intake finds out whose a request is, which key it has and what it asks; the edge has one for its callers, the tower
//! layer is another. What they find are parts of their own: a delivery can be claimed under a digest and still show the key
//! that it came with. What becomes of the request is [`Protect`](crate::Protect)'s affair, and where it goes is its
//! [`Work`](crate::Work)'s.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
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
    /// Whose key this is: the one that was sent, or else the digest of what is asked (H9).
    pub fn new(scope: Scope, width: Width, wire_key: Option<&WireKey>, fingerprint: &Fingerprint) -> Self {
        let (source, key) = match wire_key {
            Some(wire) => (Source::Header, wire.key.clone()),
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
}

impl Message {
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
            content_encoding: content_encoding(&self.headers),
            max_content,
            headers,
            body: &self.body,
        }
    }
}

/// How the body is encoded. Several lines are several codings, none of which is read.
pub(crate) fn content_encoding(headers: &HeaderMap) -> Option<&str> {
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
        let claimant = Claimant::new(Scope::local(), Width::Subject, Some(&wire), &Fingerprint::none());
        let identity = claimant.clone().under(&renamed);
        let name = identity.operation().to_string();
        let parts = (identity.source(), name.as_str(), identity.width(), identity.key().as_str());
        assert_eq!(parts, (Source::Header, "old", Width::Project, "k"));
        assert_eq!(claimant.under(&first).claim_id(), identity.claim_id());
        assert_eq!((first.name().as_str(), renamed.name().as_str()), ("old", "new"));
    }

    /// A peer has dropped who asks: no rule can share the outcome less widely than that (K3, K8).
    #[test]
    fn what_a_peer_has_dropped_stays_dropped_and_a_derived_key_is_the_digest_of_what_is_asked_k8_h9() {
        let fingerprint = Fingerprint::of_bytes(b"x");
        let claimant = Claimant::new(Scope::local(), Width::Tenant, None, &fingerprint);
        let identity = claimant.under(&Rule::new("a").unwrap());
        assert_eq!((identity.source(), identity.width()), (Source::Derived, Width::Tenant));
        let digits: String = fingerprint.digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(identity.key().as_str(), digits);
    }
}
