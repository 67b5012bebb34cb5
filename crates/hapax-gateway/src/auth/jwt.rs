//! Tokens (A1): whether one is genuine and meant for us, and whom it names.
//!
//! The settings say which algorithms, issuer and audience are accepted; nothing that a token says about itself can widen
//! that. Where keys come from is [`super::jwks`]'s affair.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use hapax_core::{Error, Project, Subject, SubjectKind, Tenant};
use jsonwebtoken::{Algorithm, Header, Validation};
use serde_json::{Map, Value};

use super::jwks::{FetchedKeys, KeySet};
use super::{AuthError, Principal, Verified, level_named};
use crate::clock;
use crate::limits;
use crate::settings::{Fixed, Jwt, JwtAlgorithm, JwtClaims, JwtKeys, Level};

/// Whether a credential has the form of a signed token: three parts, the first of them a JSON object.
pub(super) fn is_like(credential: &str) -> bool {
    credential.starts_with("eyJ") && credential.split('.').count() == 3
}

/// Verifies tokens.
pub(super) struct Tokens {
    algorithms: Vec<Algorithm>,
    keys: Keys,
    issuer: Option<String>,
    audience: Option<String>,
    leeway: Duration,
    claims: JwtClaims,
    subject_type: SubjectKind,
}

enum Keys {
    Known(Arc<KeySet>),
    Fetched(FetchedKeys),
}

impl Tokens {
    /// Reads files and asks URLs; fetched keys of `former` are kept where they are the same ones.
    pub(super) async fn open(settings: &Jwt, former: Option<&Tokens>) -> Result<Self, Error> {
        let algorithms: Vec<_> = settings.algorithms.iter().copied().map(algorithm).collect();
        if algorithms.is_empty() {
            return Err(Error::invalid("no algorithm of tokens is accepted: name at least one"));
        }
        if settings.leeway > limits::LEEWAY {
            return Err(Error::invalid("clocks that differ by more than an hour must be set right"));
        }
        let keys = match &settings.keys {
            JwtKeys::Secret(secret) => Keys::Known(Arc::new(of_secret(secret, &algorithms)?)),
            JwtKeys::File(file) => Keys::Known(Arc::new(KeySet::of_file(file, &algorithms)?)),
            JwtKeys::Url(url) => Keys::Fetched(of_url(url, &algorithms, former).await?),
        };
        Ok(Tokens {
            algorithms,
            keys,
            issuer: settings.issuer.clone(),
            audience: settings.audience.clone(),
            leeway: settings.leeway,
            claims: settings.claims.clone(),
            subject_type: settings.subject_type,
        })
    }

    pub(super) async fn verify(&self, token: &str, fixed: &Fixed) -> Result<Verified, AuthError> {
        let header = jsonwebtoken::decode_header(token).map_err(refused)?;
        if !self.algorithms.contains(&header.alg) {
            return Err(AuthError::invalid("the token's algorithm is not accepted"));
        }
        if header.crit.is_some() {
            return Err(AuthError::invalid("the token demands something that hapax does not know"));
        }
        let keys = match &self.keys {
            Keys::Known(keys) => Arc::clone(keys),
            Keys::Fetched(keys) => keys.for_token(header.alg, header.kid.as_deref()).await?,
        };
        let claims = self.verified_claims(token, &header, &keys)?;
        self.check_meant_for_us(&claims)?;
        Ok(Verified { good_for: self.good_for(&claims), principal: self.principal(&claims, fixed)? })
    }

    fn verified_claims(
        &self,
        token: &str,
        header: &Header,
        keys: &KeySet,
    ) -> Result<Map<String, Value>, AuthError> {
        let mut refusal = AuthError::invalid("no key of the issuer fits this token");
        for key in keys.candidates(header.alg, header.kid.as_deref()) {
            // The algorithm is the key's, not the token's.
            let mut validation = Validation::new(key.algorithm);
            validation.leeway = self.leeway.as_secs();
            validation.validate_nbf = true;
            validation.validate_aud = false;
            match jsonwebtoken::decode(token, &key.key, &validation) {
                Ok(data) => return Ok(data.claims),
                Err(error) => refusal = refused(error),
            }
        }
        Err(refusal)
    }

    /// Issuer and audience. Where no audience is set, a token for somebody in particular is not for us (RFC 7519, 4.1.3).
    fn check_meant_for_us(&self, claims: &Map<String, Value>) -> Result<(), AuthError> {
        if let Some(issuer) = &self.issuer
            && claims.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err(AuthError::invalid("the token has another issuer, or none"));
        }
        let is_us = |value: &Value| value.as_str().is_some() && value.as_str() == self.audience.as_deref();
        let is_for_us = match claims.get("aud") {
            None => self.audience.is_none(),
            Some(Value::Array(audiences)) => audiences.iter().any(is_us),
            Some(audience) => is_us(audience),
        };
        if is_for_us {
            Ok(())
        } else {
            Err(AuthError::invalid("the token is for another audience, or for none"))
        }
    }

    /// How long the token may be believed: a while, and not beyond its expiry.
    fn good_for(&self, claims: &Map<String, Value>) -> Duration {
        let expiry = claims.get("exp").and_then(Value::as_f64).filter(|expiry| expiry.is_finite());
        let expiry = Duration::try_from_secs_f64(expiry.unwrap_or(0.0)).unwrap_or(Duration::MAX);
        let now = clock::time_of_day().duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX);
        expiry.saturating_add(self.leeway).saturating_sub(now).min(limits::TOKEN_REMEMBERED)
    }

    fn principal(&self, claims: &Map<String, Value>, fixed: &Fixed) -> Result<Principal, AuthError> {
        let unfit = |error: Error| AuthError::unfit(&error);
        let names = &self.claims;
        let tenant = text(claims, &names.tenant)?.map(Tenant::new).transpose().map_err(unfit)?;
        let project = text(claims, &names.project)?.map(Project::new).transpose().map_err(unfit)?;
        let id = text(claims, &names.subject)?.ok_or_else(|| missing("subject"))?;
        let subject = Subject::from_credential(self.kind(claims)?, id).map_err(unfit)?;
        let level = self.level(claims)?;
        let (tenant, project) = fixed.complete(tenant, project).ok_or_else(|| missing("tenant"))?;
        Ok(Principal::new(tenant, project, subject, level))
    }

    fn kind(&self, claims: &Map<String, Value>) -> Result<SubjectKind, AuthError> {
        let Some(name) = &self.claims.subject_type else { return Ok(self.subject_type) };
        let Some(word) = text(claims, name)? else { return Ok(self.subject_type) };
        let kind = SubjectKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        kind.ok_or_else(|| AuthError::invalid("the token's subject has no known type"))
    }

    fn level(&self, claims: &Map<String, Value>) -> Result<Level, AuthError> {
        let Some(name) = &self.claims.level else { return Ok(Level::Project) };
        let Some(word) = text(claims, name)? else { return Ok(Level::Project) };
        level_named(word).ok_or_else(|| AuthError::invalid("the token has no known level"))
    }
}

fn algorithm(setting: JwtAlgorithm) -> Algorithm {
    match setting {
        JwtAlgorithm::Hs256 => Algorithm::HS256,
        JwtAlgorithm::Rs256 => Algorithm::RS256,
        JwtAlgorithm::Es256 => Algorithm::ES256,
        JwtAlgorithm::EdDsa => Algorithm::EdDSA,
    }
}

fn of_secret(secret: &[u8], algorithms: &[Algorithm]) -> Result<KeySet, Error> {
    if algorithms != [Algorithm::HS256] {
        return Err(Error::invalid(
            "a shared secret goes with HS256 only: name a JWKS for the other algorithms",
        ));
    }
    if secret.is_empty() {
        return Err(Error::invalid("the shared secret of tokens is empty"));
    }
    if secret.len() < 32 {
        tracing::warn!(
            "the shared secret of tokens is shorter than 32 bytes: tokens could be forged by guessing it"
        );
    }
    Ok(KeySet::of_secret(secret))
}

async fn of_url(url: &str, algorithms: &[Algorithm], former: Option<&Tokens>) -> Result<FetchedKeys, Error> {
    if algorithms.contains(&Algorithm::HS256) {
        return Err(Error::invalid("HS256 needs a secret, and what a JWKS URL hands out is none"));
    }
    if let Some(Tokens { keys: Keys::Fetched(keys), .. }) = former
        && keys.are_of(url, algorithms)
    {
        return Ok(keys.clone());
    }
    let keys = FetchedKeys::new(url, algorithms)?;
    // What went wrong is logged, and tried again when it matters.
    let _ = keys.fetch().await;
    Ok(keys)
}

/// A claim that is a text. `name` is its name, or leads into objects with dots.
fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, AuthError> {
    match find(claims, name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(AuthError::Invalid(format!("the token's claim {name} is no text").into())),
    }
}

/// The whole name first: names with dots in them, such as URLs, are common.
fn find<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        find(claims.get(first)?.as_object()?, rest)
    })
}

fn missing(what: &str) -> AuthError {
    AuthError::Invalid(format!("the token names no {what}").into())
}

fn refused(error: jsonwebtoken::errors::Error) -> AuthError {
    AuthError::Invalid(format!("the token was refused: {error}").into())
}
