//! API keys (A2): made, listed and revoked here, for the command line and the admin API, and verified for the edge.
//!
//! A key is `hpx_`, 16 hexadecimal digits that name it, `_`, and 54 more: a secret of 192 bits and a check of 24, so that a
//! mistyped one is refused without asking anybody, and that scanners find leaked ones. What is kept, as a document of kind
//! `api-key`, is a digest of the secret; the key itself is shown once. Unknown, revoked, expired and wrong keys look the same
//! from outside. A revoked key stops working at once in the process that was asked to revoke it, and within 5 seconds in every other: for so long one is believed unasked.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use hapax_core::claim::audit::Setting;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, Inspect, Kind, Page, Project, Registry, Subject, Tenant, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{AuthError, Principal, Verified, level_name, level_named};
use crate::clock;
use crate::limits;
use crate::settings::Level;

/// The kind of the documents.
pub const KIND: &str = "api-key";

const PREFIX: &str = "hpx_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 24;
const CHECK_BYTES: usize = 3;
/// How often a change is tried again that somebody else came before.
const TRIES: usize = 8;

/// What a new key is for.
#[derive(Clone, Debug)]
pub struct NewApiKey {
    /// The tenant.
    pub tenant: Tenant,
    /// The project; a key without it reaches no project's routes.
    pub project: Option<Project>,
    /// The subject.
    pub subject: Subject,
    /// How far it reaches.
    pub level: Level,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// What people call it.
    pub label: String,
}

/// A key that was just made. The only moment at which the key is known.
#[derive(Clone)]
pub struct Created {
    /// Its id, for lists and to revoke it.
    pub id: String,
    /// The key itself, to be handed to its user.
    pub key: String,
}

impl fmt::Debug for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Created").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A key as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id: what the key starts with.
    pub id: String,
    /// The tenant.
    pub tenant: Tenant,
    /// The project.
    pub project: Option<Project>,
    /// The subject.
    pub subject: Subject,
    /// How far it reaches.
    pub level: Level,
    /// What people call it.
    pub label: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// What is kept. A field that this version does not know could be a restriction, so that such a document is not used.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u8,
    digest: String,
    tenant: String,
    project: Option<String>,
    subject: String,
    level: String,
    label: String,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

/// What is done to a key, for the audit.
struct Told {
    verb: &'static str,
    label: String,
    before: Option<String>,
    after: Option<String>,
}

/// Where documents of keys are written.
trait Desk: Send + Sync {
    /// Writes the document that has this version.
    fn write(
        &self,
        id: &DocumentId,
        expect: u64,
        body: Bytes,
        told: Told,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// A registry, which asks nobody why.
struct Plain<'a, R>(&'a R);

impl<R: Registry> Desk for Plain<'_, R> {
    async fn write(&self, id: &DocumentId, expect: u64, body: Bytes, _: Told) -> Result<(), Error> {
        self.0.put(id, expect, body).await.map(drop)
    }
}

/// A store that writes down who wants it so (L8).
struct Audited<'a, S> {
    store: &'a S,
    actor: &'a str,
}

impl<S: Inspect> Desk for Audited<'_, S> {
    async fn write(&self, id: &DocumentId, expect: u64, body: Bytes, told: Told) -> Result<(), Error> {
        let Told { verb, label, before, after } = told;
        let (verb, actor, name) = (verb.to_owned(), self.actor.to_owned(), format!("key/{}", id.id()));
        let setting = Setting { verb, actor, reason: label, name, before, after };
        self.store.decide_setting(id, expect, Some(body), setting).await
    }
}

/// Makes a key.
pub async fn create<R: Registry>(registry: &R, new: NewApiKey, now: Timestamp) -> Result<Created, Error> {
    make(&Plain(registry), new, now).await
}

/// Makes a key, and writes down who wanted it.
pub async fn create_by<S: Inspect>(
    store: &S,
    new: NewApiKey,
    now: Timestamp,
    actor: &str,
) -> Result<Created, Error> {
    make(&Audited { store, actor }, new, now).await
}

async fn make(desk: &impl Desk, new: NewApiKey, now: Timestamp) -> Result<Created, Error> {
    check(&new, now)?;
    let whose = whose(&new.tenant, new.project.as_ref(), &new.subject, new.level);
    let secret: [u8; SECRET_BYTES] = random();
    for _ in 0..TRIES {
        let id = format!("{PREFIX}{}", hex(&random::<ID_BYTES>()));
        let kept = Kept {
            version: 1,
            digest: hex(&digest(&id, &secret)),
            tenant: new.tenant.as_str().into(),
            project: new.project.as_ref().map(|project| project.as_str().into()),
            subject: new.subject.as_str().into(),
            level: level_name(new.level).into(),
            label: new.label.clone(),
            created_at: now.as_micros(),
            expires_at: new.expires_at.map(Timestamp::as_micros),
            revoked_at: None,
        };
        let told =
            Told { verb: "key-create", label: new.label.clone(), before: None, after: Some(whose.clone()) };
        match desk.write(&document_id(&id)?, 0, encode(&kept)?, told).await {
            Ok(()) => return Ok(Created { key: render(&id, &secret), id }),
            // The id is taken.
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::internal("no free id for an API key was found"))
}

/// Whose a key is, as the audit says it.
fn whose(tenant: &Tenant, project: Option<&Project>, subject: &Subject, level: Level) -> String {
    let project = project.map_or("_any", |project| project.as_str());
    format!("{}/{project} {} {}", tenant.as_str(), subject.as_str(), level_name(level))
}

/// Lists keys in the order of their ids, after the given one.
pub async fn list<R: Registry>(
    registry: &R,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<ApiKey>, Error> {
    let limit = limit.clamp(1, limits::API_KEYS_PAGE);
    let documents = registry.list_documents(KIND, after, limit).await?;
    let next =
        (documents.len() == limit).then(|| documents.last().map(|last| last.id.id().to_owned())).flatten();
    let items =
        documents.iter().map(|document| decode(document).map(|(key, _)| key)).collect::<Result<_, _>>()?;
    Ok(Page::new(items, next))
}

/// Revokes a key and returns it; one that was revoked before stays as it is.
pub async fn revoke<R: Registry>(registry: &R, id: &str, now: Timestamp) -> Result<ApiKey, Error> {
    end(registry, &Plain(registry), id, now).await
}

/// The same, and writes down who wanted it.
pub async fn revoke_by<S: Registry + Inspect>(
    store: &S,
    id: &str,
    now: Timestamp,
    actor: &str,
) -> Result<ApiKey, Error> {
    end(store, &Audited { store, actor }, id, now).await
}

async fn end(registry: &impl Registry, desk: &impl Desk, id: &str, now: Timestamp) -> Result<ApiKey, Error> {
    let name = document_id(id)?;
    for _ in 0..TRIES {
        let document = registry.get(&name).await?;
        let document = document.ok_or_else(|| Error::invalid("there is no API key with this id"))?;
        let (mut key, mut kept) = decode(&document)?;
        if key.revoked_at.is_some() {
            return Ok(key);
        }
        key.revoked_at = Some(now);
        kept.revoked_at = Some(now.as_micros());
        let whose = whose(&key.tenant, key.project.as_ref(), &key.subject, key.level);
        let told = Told { verb: "key-revoke", label: key.label.clone(), before: Some(whose), after: None };
        match desk.write(&name, document.version, encode(&kept)?, told).await {
            Ok(()) => return Ok(key),
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::conflict("the API key is being changed by somebody else"))
}

/// Verifies keys for the edge.
pub(super) struct ApiKeys<R> {
    registry: R,
}

impl<R: Registry> ApiKeys<R> {
    pub(super) fn new(registry: R) -> Self {
        ApiKeys { registry }
    }

    pub(super) async fn verify(&self, text: &str) -> Result<Verified, AuthError> {
        let (id, secret) =
            parse(text).ok_or_else(|| AuthError::invalid("this is not an API key as hapax writes it"))?;
        let shown = digest(id, &secret);
        let name = document_id(id).map_err(|error| AuthError::unfit(&error))?;
        let found = self.registry.get(&name).await.map_err(unavailable)?;
        let found = found.as_ref().map(decode).transpose().map_err(unavailable)?;
        // The same work for a key that is not there.
        let kept = found.as_ref().map_or([0; 32], |(_, kept)| unhex(&kept.digest).unwrap_or([0; 32]));
        let is_right = verify_slices_are_equal(&shown, &kept).is_ok();
        let refused = |why| Err(AuthError::Invalid(format!("API key {id}: {why}").into()));
        match found {
            None => refused("there is none with this id"),
            Some(_) if !is_right => refused("the secret is wrong"),
            Some((key, _)) if key.revoked_at.is_some() => refused("it was revoked"),
            Some((key, _)) => match time_left(&key, now()) {
                Some(good_for) => Ok(Verified { principal: key.into(), good_for }),
                None => refused("it has expired"),
            },
        }
    }
}

impl From<ApiKey> for Principal {
    fn from(key: ApiKey) -> Self {
        Principal::new(key.tenant, key.project, key.subject, key.level)
    }
}

/// Whether a credential is an API key, or is meant to be one.
pub(super) fn is_like(credential: &[u8]) -> bool {
    credential.starts_with(PREFIX.as_bytes())
}

/// How long the key may be believed without looking again; `None` when it has expired.
fn time_left(key: &ApiKey, now: Timestamp) -> Option<Duration> {
    let left = key.expires_at.map_or(Duration::MAX, |expiry| expiry.since(now));
    (!left.is_zero()).then(|| left.min(limits::API_KEY_REMEMBERED))
}

fn check(new: &NewApiKey, now: Timestamp) -> Result<(), Error> {
    if new.subject.is_reserved() {
        return Err(Error::invalid("this service name is reserved for hapax: give the key another subject"));
    }
    if new.project.as_ref().is_some_and(Project::is_sentinel) {
        return Err(Error::invalid("a level is no project: leave the project out and state the level"));
    }
    let reach = Principal::new(new.tenant.clone(), None, new.subject.clone(), new.level).level;
    if new.project.is_none() && reach == Level::Project {
        return Err(Error::invalid(
            "the key would open nothing: give it a project, or the level tenant or platform",
        ));
    }
    if new.label.chars().count() > limits::LABEL || new.label.chars().any(char::is_control) {
        return Err(Error::invalid("the label of an API key has at most 200 printable characters"));
    }
    if new.expires_at.is_some_and(|expiry| expiry <= now) {
        return Err(Error::invalid("the key would have expired already"));
    }
    Ok(())
}

/// The name of a key's document. An id that is not one is refused here, so that a whole key given by mistake goes nowhere.
fn document_id(id: &str) -> Result<DocumentId, Error> {
    let is_id = id.strip_prefix(PREFIX).is_some_and(|digits| unhex::<ID_BYTES>(digits).is_some());
    if !is_id {
        return Err(Error::invalid("the id of an API key is `hpx_` and 16 hexadecimal digits"));
    }
    DocumentId::new(KIND, id)
}

fn encode(kept: &Kept) -> Result<Bytes, Error> {
    let bytes = serde_json::to_vec(kept);
    bytes.map(Bytes::from).map_err(|error| Error::internal("an API key cannot be written").with_detail(error))
}

fn decode(document: &Document) -> Result<(ApiKey, Kept), Error> {
    let id = document.id.id();
    let corrupt = || Error::corrupt("an API key in the registry cannot be read").with_detail(id);
    let kept: Kept = serde_json::from_slice(&document.body).map_err(|_| corrupt())?;
    if kept.version != 1 {
        return Err(corrupt());
    }
    let key = ApiKey {
        id: id.into(),
        tenant: Tenant::new(&kept.tenant).map_err(|_| corrupt())?,
        project: kept.project.as_ref().map(Project::new).transpose().map_err(|_| corrupt())?,
        subject: Subject::parse(&kept.subject)
            .ok()
            .filter(|subject| !subject.is_reserved())
            .ok_or_else(corrupt)?,
        level: level_named(&kept.level).ok_or_else(corrupt)?,
        label: kept.label.clone(),
        created_at: Timestamp::from_micros(kept.created_at),
        expires_at: kept.expires_at.map(Timestamp::from_micros),
        revoked_at: kept.revoked_at.map(Timestamp::from_micros),
    };
    Ok((key, kept))
}

fn render(id: &str, secret: &[u8; SECRET_BYTES]) -> String {
    format!("{id}_{}{}", hex(secret), hex(&checksum(id, secret)))
}

/// Id and secret of a key as [`render`] wrote it, and only so.
fn parse(text: &str) -> Option<(&str, [u8; SECRET_BYTES])> {
    let (id, tail) = text.split_at_checked(PREFIX.len() + 2 * ID_BYTES)?;
    unhex::<ID_BYTES>(id.strip_prefix(PREFIX)?)?;
    let (secret, check) = tail.strip_prefix('_')?.split_at_checked(2 * SECRET_BYTES)?;
    let secret = unhex(secret)?;
    (unhex::<CHECK_BYTES>(check)? == checksum(id, &secret)).then_some((id, secret))
}

/// What is kept of a secret. It is random and long, so that one round is enough; the id binds it to its document.
fn digest(id: &str, secret: &[u8; SECRET_BYTES]) -> [u8; 32] {
    Sha256::new().chain_update(b"hapax.api-key.v1\0").chain_update(id).chain_update(secret).finalize().into()
}

fn checksum(id: &str, secret: &[u8; SECRET_BYTES]) -> [u8; CHECK_BYTES] {
    let all: [u8; 32] = Sha256::new()
        .chain_update(b"hapax.api-key.check\0")
        .chain_update(id)
        .chain_update(secret)
        .finalize()
        .into();
    [all[0], all[1], all[2]]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads lower-case digits, as they are written.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != 2 * N || !is_hex {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness a key could be guessed.
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

fn now() -> Timestamp {
    let since = clock::time_of_day().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp::ZERO.after(since)
}

fn unavailable(error: Error) -> AuthError {
    AuthError::Unavailable(format!("API keys cannot be looked up: {error:#}").into())
}
