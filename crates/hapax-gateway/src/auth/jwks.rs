//! The keys of tokens: from a shared secret, a JWKS file, or a JWKS URL that is asked when needed (A1).
//!
//! Every key belongs to one algorithm, which follows from what the key is; a token can choose among keys, never among
//! algorithms for a key. What is in the tokens is not read here.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RsaPublicKeyComponents};
use hapax_core::Error;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::AuthError;
use super::outside::Outside;
use crate::clock;
use crate::limits;

/// A key and the only algorithm it is used with.
pub(super) struct TokenKey {
    id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

/// The keys of one issuer.
pub(super) struct KeySet {
    keys: Vec<TokenKey>,
    /// Where there is only one key to choose, what tokens call it does not matter.
    named: bool,
}

impl KeySet {
    pub(super) fn of_secret(secret: &[u8]) -> Self {
        let key = DecodingKey::from_secret(secret);
        KeySet { keys: vec![TokenKey { id: None, algorithm: Algorithm::HS256, key }], named: false }
    }

    /// The keys of a JWKS file. Shared secrets (`oct`) are fine here: a file can be kept from others.
    pub(super) fn of_file(file: &Path, pinned: &[Algorithm]) -> Result<Self, Error> {
        let bad =
            |why: String| Error::invalid(format!("the JWKS file cannot be used: {}: {why}", file.display()));
        let length = std::fs::metadata(file).map_err(|error| bad(error.to_string()))?.len();
        if length > limits::JWKS_BODY as u64 {
            return Err(bad("it is too long".into()));
        }
        let bytes = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
        let set = Self::parse(&bytes, pinned).map_err(bad)?;
        if set.keys.is_empty() {
            return Err(bad(
                "it has no usable key for the configured algorithms (RSA: 2048 to 8192 bits)".into()
            ));
        }
        Ok(set)
    }

    /// Reads a JWKS document. Keys that are of no use here are left out: issuers publish them for others.
    fn parse(bytes: &[u8], pinned: &[Algorithm]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Value>,
        }
        let document: Document = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let keys =
            document.keys.into_iter().filter_map(|value| usable(value, pinned)).take(limits::JWKS_KEYS);
        Ok(KeySet { keys: keys.collect(), named: true })
    }

    /// The keys that may have signed a token with this header; few, whatever it says.
    pub(super) fn candidates(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
    ) -> impl Iterator<Item = &TokenKey> {
        let fits = move |key: &&TokenKey| {
            let is_meant = !self.named || id.is_none() || key.id.as_deref() == id;
            key.algorithm == algorithm && is_meant
        };
        self.keys.iter().filter(fits).take(limits::JWKS_TRIES)
    }

    fn has(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        self.candidates(algorithm, id).next().is_some()
    }
}

/// The key in an entry of a JWKS document, if it is for verifying signatures by a pinned algorithm.
fn usable(value: Value, pinned: &[Algorithm]) -> Option<TokenKey> {
    let jwk = Jwk::deserialize(value).ok()?;
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        AlgorithmParameters::OctetKey(_) => Algorithm::HS256,
        _ => return None,
    };
    let states = &jwk.common;
    let fits = pinned.contains(&algorithm)
        && states.key_algorithm.is_none_or(|stated| stated == KeyAlgorithm::from(algorithm))
        && states.public_key_use.as_ref().is_none_or(|stated| *stated == PublicKeyUse::Signature)
        && states.key_operations.as_ref().is_none_or(|stated| stated.contains(&KeyOperations::Verify));
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|key| fits && can_check(algorithm, key))?;
    Some(TokenKey { id: jwk.common.key_id, algorithm, key })
}

/// Whether a key can ever check a token. Otherwise that shows when it is used, and every token is refused: such keys would take the
/// place of good ones.
fn can_check(algorithm: Algorithm, key: &DecodingKey) -> bool {
    match key.kind() {
        // Whoever encrypts makes the same demands of a key as whoever checks signatures: 2048 to 8192 bits, among others.
        DecodingKeyKind::RsaModulusExponent { n, e } => {
            let checked: Result<PublicEncryptingKey, _> = RsaPublicKeyComponents { n, e }.try_into();
            checked.is_ok()
        }
        DecodingKeyKind::SecretOrDer(key) => match algorithm {
            Algorithm::ES256 => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).is_ok(),
            Algorithm::EdDSA => ParsedPublicKey::new(&ED25519, key).is_ok(),
            _ => !key.is_empty(),
        },
    }
}

/// The keys at a JWKS URL, as they were fetched last. Clones share them.
#[derive(Clone)]
pub(super) struct FetchedKeys(Arc<Shared>);

struct Shared {
    url: String,
    pinned: Vec<Algorithm>,
    service: Outside,
    fetched: ArcSwapOption<Fetched>,
    /// Held while somebody fetches, so that nobody else does.
    fetching: Mutex<Attempt>,
}

struct Fetched {
    keys: Arc<KeySet>,
    at: Instant,
}

/// How the last fetch went.
#[derive(Default)]
struct Attempt {
    at: Option<Instant>,
    failure: Option<String>,
}

impl Attempt {
    fn is_too_recent(&self) -> bool {
        self.at.is_some_and(|at| at.elapsed() < limits::JWKS_PAUSE)
    }
}

impl FetchedKeys {
    pub(super) fn new(url: &str, pinned: &[Algorithm]) -> Result<Self, Error> {
        let service = Outside::new(url, limits::JWKS_TIMEOUT, limits::JWKS_BODY)?;
        let fetched = ArcSwapOption::empty();
        let fetching = Mutex::default();
        Ok(FetchedKeys(Arc::new(Shared {
            url: url.into(),
            pinned: pinned.into(),
            service,
            fetched,
            fetching,
        })))
    }

    /// Whether these are the keys of this URL for these algorithms.
    pub(super) fn are_of(&self, url: &str, pinned: &[Algorithm]) -> bool {
        self.0.url == url && self.0.pinned == pinned
    }

    /// The keys, if they have one for a token with this header. A key that is not known is looked for at the URL, which
    /// is asked at most every few seconds however many tokens name unknown keys; keys that have grown old are fetched
    /// again while they are still used.
    pub(super) async fn for_token(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
    ) -> Result<Arc<KeySet>, AuthError> {
        if let Some((keys, age)) = self.current() {
            if age >= limits::JWKS_FRESH && self.0.fetching.try_lock().is_ok_and(|last| !last.is_too_recent())
            {
                tokio::spawn(Arc::clone(&self.0).fetch());
            }
            if keys.has(algorithm, id) {
                return Ok(keys);
            }
        }
        let failure = self.fetch().await;
        match (self.current(), failure) {
            (Some((keys, _)), _) if keys.has(algorithm, id) => Ok(keys),
            (_, Some(why)) => {
                Err(AuthError::unreachable(format!("the keys of tokens cannot be fetched: {why}")))
            }
            (Some(_), None) => Err(AuthError::invalid("no key of the issuer fits this token")),
            (None, None) => Err(AuthError::unreachable("the keys of tokens are too old")),
        }
    }

    /// Fetches the keys unless that was done just now, and says why the last fetch failed, if it did.
    pub(super) async fn fetch(&self) -> Option<String> {
        if let Ok(last) = self.0.fetching.try_lock()
            && last.is_too_recent()
        {
            return last.failure.clone();
        }
        // A task of its own: a caller that hangs up does not stop it, or nobody might ever get to the keys.
        let fetched = tokio::spawn(Arc::clone(&self.0).fetch()).await;
        fetched.unwrap_or_else(|error| Some(error.to_string()))
    }

    fn current(&self) -> Option<(Arc<KeySet>, std::time::Duration)> {
        let fetched = self.0.fetched.load_full()?;
        let age = fetched.at.elapsed();
        (age < limits::JWKS_KEPT).then(|| (Arc::clone(&fetched.keys), age))
    }
}

impl Shared {
    async fn fetch(self: Arc<Self>) -> Option<String> {
        let mut last = self.fetching.lock().await;
        if last.is_too_recent() {
            return last.failure.clone();
        }
        let asked_at = clock::now();
        let document = self.service.get().await;
        let keys = document.and_then(|bytes| KeySet::parse(&bytes, &self.pinned));
        last.at = Some(clock::now());
        last.failure = match keys {
            Ok(keys) => {
                let keys = Arc::new(keys);
                self.fetched.store(Some(Arc::new(Fetched { keys, at: asked_at })));
                None
            }
            Err(why) => {
                tracing::warn!(url = self.url, why, "the keys of tokens could not be fetched");
                Some(why)
            }
        };
        last.failure.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// So many bytes as base64url, a multiple of three, the first of them not zero.
    fn bytes(length: usize) -> String {
        "w8PD".repeat(length / 3)
    }

    fn keys(pinned: Algorithm, key: Value) -> usize {
        let document = json!({ "keys": [key] }).to_string();
        KeySet::parse(document.as_bytes(), &[pinned]).unwrap().keys.len()
    }

    #[test]
    fn a_key_that_can_never_check_a_token_is_not_counted_as_one_a1_p5() {
        let rsa = |n: String, e: &str| keys(Algorithm::RS256, json!({"kty": "RSA", "n": n, "e": e}));
        assert_eq!(rsa(bytes(255), "AQAB"), 0);
        assert_eq!(rsa(bytes(129), "AQAB"), 0);
        assert_eq!(rsa(format!("AAAA{}", bytes(252)), "AQAB"), 0, "zeros in front do not make it longer");
        assert_eq!(rsa(format!("AAAA{}", bytes(258)), "AQAB"), 0, "nor is it taken with them");
        assert_eq!(rsa(bytes(258), "AQAB"), 1);
        assert_eq!(rsa(bytes(1026), "AQAB"), 0);
        assert_eq!(rsa(bytes(258), ""), 0);
        let ed = |x: String| keys(Algorithm::EdDSA, json!({"kty": "OKP", "crv": "Ed25519", "x": x}));
        assert_eq!((ed(bytes(30)), ed(bytes(33))), (0, 0));
        let ec = |x: String, y: String| {
            keys(Algorithm::ES256, json!({"kty": "EC", "crv": "P-256", "x": x, "y": y}))
        };
        assert_eq!(ec(bytes(30), bytes(30)), 0);
        assert_eq!(keys(Algorithm::HS256, json!({"kty": "oct", "k": ""})), 0);
    }
}
