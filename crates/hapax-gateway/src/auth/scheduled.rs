//! Requests that are signed as a schedule's (A4, S2): what is signed, signing it, and finding out whether a signature holds.
//!
//! The head alone says whose a request is: method, path with query, tenant, project, key and the digest of the body are signed. That
//! the body has this digest is for the intake to find out. Who sends ticks and when is the `hapax` program's affair.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use hapax_core::key::header_text;
use hapax_core::{Error, Project, Subject, Tenant};
use hapax_tower::answer::IDEMPOTENCY_KEY;
use http::header::{AUTHORIZATION, HeaderMap};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderName, Method};

use super::trusted::{PROJECT, TENANT};
use super::{Authenticator, Principal, credential, only};
use crate::limits;
use crate::settings::Level;

/// The header with the signature: `t={seconds},d={hex SHA-256 of the body},v1={hex}`, with several `v1` while a secret is changed.
pub const SIGNATURE: HeaderName = HeaderName::from_static("x-schedule-signature");

/// The secrets that schedules sign with. All of them sign, and each of them is believed.
#[derive(Clone)]
pub struct Secrets {
    keys: Vec<hmac::Key>,
    /// What tells them from others; it does not tell what they are.
    digest: [u8; 32],
}

impl Secrets {
    /// At least one, and none of them empty.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let secrets: Vec<_> = secrets.into_iter().collect();
        if secrets.is_empty() || secrets.iter().any(|secret| secret.is_empty()) {
            return Err(Error::invalid("the secret of schedules is empty"));
        }
        let mut all = Vec::new();
        for secret in &secrets {
            all.extend_from_slice(&(secret.len() as u64).to_be_bytes());
            all.extend_from_slice(secret);
        }
        let mut sum = [0; 32];
        sum.copy_from_slice(digest(&SHA256, &all).as_ref());
        let keys = secrets.iter().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)).collect();
        Ok(Secrets { keys, digest: sum })
    }

    /// The value of [`SIGNATURE`] for a request at this time, Unix seconds.
    pub fn sign(&self, request: &SigningInput<'_>, seconds: u64) -> String {
        use std::fmt::Write as _;
        let (time, digest) = (seconds.to_string(), hex_digest(request.body));
        let text = signed_text(
            &time,
            request.method,
            request.target,
            request.tenant,
            request.project,
            request.key,
            &digest,
        );
        let mut value = format!("t={time},d={digest}");
        for key in &self.keys {
            let _ = write!(value, ",v1={}", hex(hmac::sign(key, text.as_bytes()).as_ref()));
        }
        value
    }

    /// Whether one of the shown signatures was made with one of the secrets. All pairs are looked at, so that the time does not tell
    /// which one was right.
    fn hold(&self, text: &str, shown: &[&str]) -> bool {
        self.keys.iter().fold(false, |found, key| {
            let expected = hex(hmac::sign(key, text.as_bytes()).as_ref());
            shown.iter().fold(found, |found, shown| {
                found | verify_slices_are_equal(shown.as_bytes(), expected.as_bytes()).is_ok()
            })
        })
    }
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(…)")
    }
}

/// A request that is yet to be signed.
#[derive(Clone, Copy, Debug)]
pub struct SigningInput<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path with the query.
    pub target: &'a str,
    /// The tenant that it is for.
    pub tenant: &'a str,
    /// The project that it is for.
    pub project: &'a str,
    /// The key, as it is sent.
    pub key: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// What is signed: each part on its line, without a line's end behind the last. None of the parts has a line break in it.
fn signed_text(
    time: &str,
    method: &Method,
    target: &str,
    tenant: &str,
    project: &str,
    key: &str,
    digest: &str,
) -> String {
    ["v1", time, method.as_str(), target, tenant, project, key, digest].join("\n")
}

/// The SHA-256 of a body as the signature writes it.
pub(crate) fn hex_digest(body: &[u8]) -> String {
    hex(digest(&SHA256, body).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A head whose signature holds.
pub(crate) struct SignedHead {
    /// The scheduler of a tenant's project.
    pub(crate) principal: Principal,
    /// The key as it was sent and signed.
    pub(crate) key: String,
    /// The digest that the body must have.
    digest: String,
}

impl SignedHead {
    /// Whether this is the body that was signed.
    pub(crate) fn covers(&self, body: &[u8]) -> bool {
        verify_slices_are_equal(self.digest.as_bytes(), hex_digest(body).as_bytes()).is_ok()
    }
}

/// Whether a request shows a signature, of whatever worth.
pub(crate) fn is_shown(headers: &HeaderMap) -> bool {
    headers.contains_key(SIGNATURE)
}

impl<R> Authenticator<R> {
    /// Whose a signed request is, from its head alone. Why it is refused is for the log: its sender is told only that the signature
    /// does not hold.
    pub(crate) fn signed(&self, head: &Parts, now: u64) -> Result<SignedHead, &'static str> {
        let secrets = self.schedules.as_ref().ok_or("no secret of schedules is configured")?;
        if head.headers.contains_key(AUTHORIZATION)
            || credential::is_shown_elsewhere(&head.headers, self.places)
        {
            return Err("there are other credentials beside the signature of a schedule");
        }
        let line = |name: &HeaderName, missing| match only(&head.headers, name) {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(missing),
            Err(_) => Err("a header that is signed has more than one line, or is not ASCII"),
        };
        let shown = SignatureParts::read(line(&SIGNATURE, "there is no signature")?)?;
        let tenant = line(&TENANT, "the signature of a schedule needs x-tenant-id")?;
        let project = line(&PROJECT, "the signature of a schedule needs x-project-id")?;
        let key = line(&IDEMPOTENCY_KEY, "the signature of a schedule needs Idempotency-Key")?;
        let key = header_text(key.as_bytes()).map_err(|_| "the signed key cannot be read")?;
        let target = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let text = signed_text(shown.time, &head.method, target, tenant, project, &key, shown.digest);
        if !secrets.hold(&text, &shown.signatures) {
            return Err("no secret of schedules makes this signature");
        }
        shown.is_recent(now)?;
        let tenant = Tenant::new(tenant).map_err(|_| "the signed tenant is none")?;
        let project = Project::new(project).map_err(|_| "the signed project is none")?;
        let principal = Principal::new(tenant, Some(project), Subject::scheduler(), Level::Project);
        Ok(SignedHead { principal, key, digest: shown.digest.to_owned() })
    }
}

/// The parts of the header.
struct SignatureParts<'a> {
    time: &'a str,
    digest: &'a str,
    signatures: Vec<&'a str>,
}

impl<'a> SignatureParts<'a> {
    fn read(line: &'a str) -> Result<Self, &'static str> {
        let (mut time, mut digest, mut signatures) = (None, None, Vec::new());
        for part in line.split(',') {
            match part.trim().split_once('=') {
                Some(("t", _)) if time.is_some() => return Err("the signature names two times"),
                Some(("t", text)) => time = Some(text),
                Some(("d", _)) if digest.is_some() => return Err("the signature names two digests"),
                Some(("d", text)) => digest = Some(text),
                Some(("v1", text)) if signatures.len() < limits::SIGNATURES => signatures.push(text),
                // What a later form may add.
                _ => {}
            }
        }
        let time = time.ok_or("the signature names no time")?;
        let digest = digest.ok_or("the signature names no digest")?;
        if digest.len() != 64 || !digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err("the digest of the signature is not 64 hexadecimal digits");
        }
        Ok(SignatureParts { time, digest, signatures })
    }

    /// Neither older nor newer than the tolerance.
    fn is_recent(&self, now: u64) -> Result<(), &'static str> {
        let is_plain =
            (1..=12).contains(&self.time.len()) && self.time.bytes().all(|byte| byte.is_ascii_digit());
        let time: u64 = match self.time.parse() {
            Ok(time) if is_plain => time,
            _ => return Err("the time of the signature is not a number of seconds"),
        };
        match time.abs_diff(now) <= limits::SIGNATURE_TOLERANCE.as_secs() {
            true => Ok(()),
            false => Err("the signature is too old, or from the future"),
        }
    }
}
