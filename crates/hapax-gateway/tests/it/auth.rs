//! Who the caller is (A), tested from outside: heads of requests go in, principals or refusals come out.

mod api_keys;
mod bearer;
mod fetched_keys;
pub(crate) mod outside;
mod tokens;
mod trusted;
mod verify;

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hapax_core::SubjectKind;
use hapax_gateway::auth::{AuthError, Authenticator, Principal};
use hapax_gateway::settings::{Auth, Jwt, JwtAlgorithm, JwtClaims, JwtKeys, Level};
use hapax_store::Options;
use hapax_store::memory::Memory;
use http::Request;
use http::request::{Builder, Parts};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const SECRET: &[u8] = b"a secret of more than thirty-two bytes, for tests";

fn head(build: impl FnOnce(Builder) -> Builder) -> Parts {
    build(Request::builder()).body(()).unwrap().into_parts().0
}

fn bearer(credential: &str) -> Parts {
    head(|request| request.header("authorization", format!("Bearer {credential}")))
}

async fn open(settings: &Auth) -> Authenticator<Memory> {
    Authenticator::open(settings, Memory::open(Options::default())).await.unwrap()
}

async fn ask(authenticator: &Authenticator<Memory>, credential: &str) -> Result<Principal, AuthError> {
    authenticator.authenticate(&bearer(credential), STRANGER).await
}

fn is_invalid<T>(result: &Result<T, AuthError>) -> bool {
    matches!(result, Err(AuthError::Invalid(_)))
}

/// Somebody outside who must be asked gave no answer.
fn is_unreachable<T>(result: &Result<T, AuthError>) -> bool {
    matches!(result, Err(AuthError::Unreachable(_)))
}

fn is_unavailable<T>(result: &Result<T, AuthError>) -> bool {
    matches!(result, Err(AuthError::Unavailable(_)))
}

/// What a principal says, in one line.
fn said(principal: &Principal) -> String {
    let project = principal.project.as_ref().map_or("-", |project| project.as_str());
    let Principal { tenant, subject, level, .. } = principal;
    format!("{} {project} {} {level:?}", tenant.as_str(), subject.as_str())
}

fn jwt(algorithms: &[JwtAlgorithm], keys: JwtKeys) -> Jwt {
    Jwt {
        algorithms: algorithms.to_vec(),
        keys,
        issuer: Some("https://issuer.example".into()),
        audience: Some("hapax".into()),
        leeway: Duration::ZERO,
        claims: JwtClaims {
            tenant: "tenant_id".into(),
            project: "project_id".into(),
            subject: "sub".into(),
            subject_type: Some("sub_type".into()),
            level: Some("reach".into()),
        },
        subject_type: SubjectKind::User,
    }
}

fn with_jwt(jwt: Jwt) -> Auth {
    Auth { jwt: Some(jwt), ..Auth::default() }
}

fn with_secret() -> Auth {
    with_jwt(jwt(&[JwtAlgorithm::Hs256], JwtKeys::Secret(SECRET.into())))
}

/// Seconds of the Unix time, so many from now.
fn in_seconds(from_now: i64) -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap() + from_now
}

/// Claims that are accepted, but for what is changed; `null` takes a claim out.
fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": "https://issuer.example", "aud": "hapax", "exp": in_seconds(600),
        "tenant_id": "acme", "project_id": "web", "sub": "alice",
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn signed_with_secret(claims: &Value) -> String {
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET)).unwrap()
}

/// A key pair of an issuer.
struct Signer {
    id: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Signer {
    fn new(id: &str, algorithm: Algorithm) -> Self {
        let made = match algorithm {
            Algorithm::EdDSA => rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519),
            Algorithm::ES256 => rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            _ => rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256),
        };
        let made = made.unwrap();
        let der = made.serialize_der();
        let key = match algorithm {
            Algorithm::EdDSA => EncodingKey::from_ed_der(&seed_alone(&der)),
            Algorithm::ES256 => EncodingKey::from_ec_der(&der),
            _ => EncodingKey::from_rsa_pem(made.serialize_pem().as_bytes()).unwrap(),
        };
        Signer { id: id.into(), algorithm, key }
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_with_header(&self.header(), claims)
    }

    fn header(&self) -> Header {
        Header { kid: Some(self.id.clone()), ..Header::new(self.algorithm) }
    }

    fn sign_with_header(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).unwrap()
    }

    /// The public half, as an entry of a JWKS.
    fn jwk(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.id.clone());
        serde_json::to_value(jwk).unwrap()
    }
}

/// An Ed25519 key in its first PKCS #8 form, without the public half.
fn seed_alone(der: &[u8]) -> Vec<u8> {
    let front = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    [&front, &der[16..48]].concat()
}

fn jwks(signers: &[&Signer]) -> Value {
    json!({ "keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>() })
}

/// Moves the clock of remembered things, not that of the world.
async fn later(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}
