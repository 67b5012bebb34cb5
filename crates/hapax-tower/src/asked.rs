//! What is asked, and by whom: the request as the ledger knows it.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Fingerprint, Identity, Key, Recipe, RecipeId, RequestParts, Scope, Source, Width};
use hapax_exec::Rehash;
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{Method, Uri};

use crate::rule::Rule;

/// What is asked, and by whom.
#[derive(Debug)]
pub struct Asked {
    /// How it is protected.
    pub rule: Arc<Rule>,
    /// Whose it is.
    pub scope: Scope,
    /// How much of the scope counts, where a peer has already dropped some of it; otherwise the rule's.
    pub width: Width,
    /// Its key; `None` where what is asked is the key (H9).
    pub key: Option<Key>,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Where outcomes are fetched by operation id, such as `/operations`; without it nothing is answered early (H6).
    pub operations: Option<Arc<str>>,
    /// Where the service gives no whole answer, the claim waits for somebody's decision, whatever the rule says (P6).
    pub pauses: bool,
}

impl Asked {
    /// The same, with its fingerprint and its identity.
    pub fn identified(self) -> Identified {
        let fingerprint = fingerprint(&self, &self.rule.recipe);
        let identity = identify(&self, &fingerprint);
        Identified { asked: Arc::new(self), fingerprint, identity }
    }
}

impl Rehash for Asked {
    fn rehash(&self, recipe: RecipeId) -> Option<Fingerprint> {
        let known = [Recipe::raw(), Recipe::json(), Recipe::form(), Recipe::none()];
        known.iter().find(|known| known.id() == recipe).map(|recipe| fingerprint(self, recipe))
    }
}

/// What is asked, with its fingerprint and its identity.
#[derive(Clone, Debug)]
pub struct Identified {
    pub(crate) asked: Arc<Asked>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) identity: Identity,
}

impl Identified {
    /// What is asked.
    pub fn asked(&self) -> &Arc<Asked> {
        &self.asked
    }

    /// Its identity in the ledger.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The identities that it had under the former names of its operation, the latest first.
    pub(crate) fn former(&self) -> impl Iterator<Item = Identity> {
        let (asked, identity) = (&self.asked, &self.identity);
        asked.rule.formerly.iter().map(|former| {
            let width = asked.width.max(former.width);
            let operation = former.operation.clone();
            Identity::new(identity.source(), asked.scope.clone(), width, operation, identity.key().clone())
        })
    }
}

/// What makes this request the same as another one.
pub(crate) fn fingerprint(asked: &Asked, recipe: &Recipe) -> Fingerprint {
    let headers: Vec<(&str, &[u8])> = recipe
        .headers()
        .iter()
        .flat_map(|name| asked.headers.get_all(name).iter().map(|value| (name.as_str(), value.as_bytes())))
        .collect();
    recipe.fingerprint(&RequestParts {
        method: asked.method.as_str(),
        path: asked.uri.path(),
        query: asked.uri.query().unwrap_or_default(),
        content_type: asked.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()),
        headers: &headers,
        body: &asked.body,
    })
}

fn identify(asked: &Asked, fingerprint: &Fingerprint) -> Identity {
    let (source, key) = match &asked.key {
        Some(key) => (Source::Header, key.clone()),
        None => (Source::Derived, derived_key(fingerprint)),
    };
    let width = asked.width.max(asked.rule.width);
    Identity::new(source, asked.scope.clone(), width, asked.rule.operation.clone(), key)
}

fn derived_key(fingerprint: &Fingerprint) -> Key {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in fingerprint.digest {
        let _ = write!(text, "{byte:02x}");
    }
    Key::new(text).expect("64 hexadecimal digits are a key")
}
