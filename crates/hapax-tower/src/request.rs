//! A request under a key, as an intake hands it over.
//!
//! An intake finds out whose a request is, which key it has and what it asks; the edge has one for its callers, the tower
//! layer is another. What they find are parts of their own: a delivery can be claimed under a digest and still show the key
//! that it came with. What becomes of the request is [`Protect`](crate::Protect)'s affair, and where it goes is its
//! [`Work`](crate::Work)'s.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Fingerprint, Identity, Key, Operation, Recipe, RequestParts, Scope, Source, Width};
use hapax_exec::Rehash;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use http::{Method, Uri};

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
        self.message.fingerprint(recipe)
    }
}

/// A key as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireKey {
    /// The key.
    pub key: Key,
    /// Where it stood.
    pub place: KeyPlace,
}

impl WireKey {
    /// A key that stood in this header.
    pub fn in_header(name: HeaderName, key: Key) -> Self {
        WireKey { key, place: KeyPlace::Header(name) }
    }
}

/// Where a key stood in its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// In this header.
    Header(HeaderName),
    /// In a JSON body, at this pointer (RFC 6901).
    Pointer(Arc<str>),
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

    /// The identity under an operation whose outcomes are shared this widely.
    pub fn under(self, operation: &Operation, width: Width) -> Identity {
        let width = self.width.max(width);
        Identity::new(self.source, self.scope, width, operation.clone(), self.key)
    }

    /// The identities under the former names of the operation, the latest first (K6).
    pub fn under_former_names(&self, rule: &Rule) -> impl Iterator<Item = Identity> {
        rule.formerly.iter().map(|former| self.clone().under(&former.operation, former.width))
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
    /// What makes it the same as another one, under this recipe (K7).
    pub fn fingerprint(&self, recipe: &Recipe) -> Fingerprint {
        let headers: Vec<(&str, &[u8])> = recipe
            .headers()
            .iter()
            .flat_map(|name| self.headers.get_all(name).iter().map(|value| (name.as_str(), value.as_bytes())))
            .collect();
        recipe.fingerprint(&RequestParts {
            method: self.method.as_str(),
            path: self.uri.path(),
            query: self.uri.query().unwrap_or_default(),
            content_type: self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()),
            headers: &headers,
            body: &self.body,
        })
    }
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
    use super::*;

    #[test]
    fn a_claimant_is_the_same_under_every_name_of_its_operation_but_for_the_name_k6() {
        let rule = Rule {
            width: Width::Project,
            formerly: vec![crate::Former { operation: Operation::new("old").unwrap(), width: Width::Tenant }],
            ..Rule::new("new").unwrap()
        };
        let wire = WireKey::in_header(crate::answer::IDEMPOTENCY_KEY, Key::new("k").unwrap());
        let claimant = Claimant::new(Scope::local(), Width::Subject, Some(&wire), &Fingerprint::none());
        let former: Vec<Identity> = claimant.under_former_names(&rule).collect();
        let present = claimant.under(&rule.operation, rule.width);
        let parts = |identity: &Identity| {
            let name = identity.operation().to_string();
            (identity.source(), name, identity.width(), identity.key().to_string())
        };
        assert_eq!(parts(&present), (Source::Header, "new".into(), Width::Project, "k".into()));
        let [former] = &former[..] else { panic!("{former:?}") };
        assert_eq!(parts(former), (Source::Header, "old".into(), Width::Tenant, "k".into()));
    }

    /// A peer has dropped who asks: no rule can share the outcome less widely than that (K3, K8).
    #[test]
    fn what_a_peer_has_dropped_stays_dropped_and_a_derived_key_is_the_digest_of_what_is_asked_k8_h9() {
        let fingerprint = Fingerprint::of_bytes(b"x");
        let claimant = Claimant::new(Scope::local(), Width::Tenant, None, &fingerprint);
        let identity = claimant.under(&Operation::new("a").unwrap(), Width::Subject);
        assert_eq!((identity.source(), identity.width()), (Source::Derived, Width::Tenant));
        let digits: String = fingerprint.digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(identity.key().as_str(), digits);
    }
}
