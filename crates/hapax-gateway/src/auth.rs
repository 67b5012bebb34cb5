//! Who the caller is (A): from the head of a request, before anything else is done for it.
//!
//! [`Authenticator::authenticate`] reads from top to bottom: what a trusted peer says, else the credential that is shown, which is
//! an API key, a token, or a key that an outside service knows. What was verified a moment ago is remembered, so that most
//! requests cost one digest. Which routes a [`Principal`] reaches is decided by the routes, and removing the headers that
//! only hapax may write from what is forwarded (A5) is the proxy's affair.

pub mod api_key;
pub(crate) mod caller;
pub(crate) mod credential;
mod jwks;
mod jwt;
pub(crate) mod outside;
pub(crate) mod remembered;
pub mod scheduled;
pub mod trusted;
pub(crate) mod verify;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use hapax_core::{Error, Project, Registry, Scope, Subject, SubjectKind, Tenant};
use hapax_tower::{Code, Problem};
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::limits;
use crate::settings::{self, KeyPlaces, Level};
use api_key::ApiKeys;
use jwt::Tokens;
use remembered::{Before, Digest, Remembered};
use verify::Verifier;

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The tenant.
    pub tenant: Tenant,
    /// The project; without it no project's routes can be reached.
    pub project: Option<Project>,
    /// The subject.
    pub subject: Subject,
    /// How far it reaches.
    pub level: Level,
}

impl Principal {
    /// The principal that a credential names. A tenant's member reaches the tenant's level at least.
    fn new(tenant: Tenant, project: Option<Project>, subject: Subject, level: Level) -> Self {
        let least = match subject.kind() {
            SubjectKind::TenantMember => Level::Tenant,
            _ => Level::Project,
        };
        Principal { tenant, project, subject, level: level.max(least) }
    }

    /// The scope of this caller on a route of this level; `None` where it does not reach that far (A6).
    pub fn scope(&self, level: Level) -> Option<Scope> {
        let project = match level {
            Level::Project => self.project.clone()?,
            _ if self.level < level => return None,
            Level::Tenant => Project::tenant_level(),
            Level::Platform => Project::platform_level(),
        };
        Some(Scope::new(self.tenant.clone(), project, self.subject.clone()))
    }

    /// The scope that this caller always reaches, for the log and the counters: of its project, or of its tenant.
    pub(crate) fn own_scope(&self) -> Scope {
        let project = self.project.clone().unwrap_or_else(Project::tenant_level);
        Scope::new(self.tenant.clone(), project, self.subject.clone())
    }
}

/// Why there is no principal. What is displayed may be told to anybody; the detail is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// There are no credentials.
    Missing,
    /// There are credentials, and they are not valid.
    Invalid(Cow<'static, str>),
    /// What hapax itself keeps cannot be looked at, so that nobody can say at the moment whether they are valid.
    Unavailable(Cow<'static, str>),
    /// Somebody outside who must be asked whether they are valid gives no answer.
    Unreachable(Cow<'static, str>),
}

impl AuthError {
    fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        AuthError::Invalid(detail.into())
    }

    fn unavailable(detail: impl Into<Cow<'static, str>>) -> Self {
        AuthError::Unavailable(detail.into())
    }

    fn unreachable(detail: impl Into<Cow<'static, str>>) -> Self {
        AuthError::Unreachable(detail.into())
    }

    /// A part of a credential that is not what it must be.
    fn unfit(error: &Error) -> Self {
        AuthError::Invalid(format!("{error:#}").into())
    }

    /// What exactly, for the log. It never holds a credential.
    pub fn detail(&self) -> Option<&str> {
        match self {
            AuthError::Missing => None,
            AuthError::Invalid(detail) | AuthError::Unavailable(detail) | AuthError::Unreachable(detail) => {
                Some(detail)
            }
        }
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AuthError::Missing => "credentials are required",
            AuthError::Invalid(_) => "the credentials are not valid",
            AuthError::Unavailable(_) | AuthError::Unreachable(_) => {
                "the credentials cannot be checked at the moment; nothing was run for this request"
            }
        })
    }
}

impl std::error::Error for AuthError {}

/// What the caller is told; never the detail.
impl From<&AuthError> for Problem {
    fn from(error: &AuthError) -> Self {
        let (code, challenge) = match error {
            AuthError::Missing => (Code::Unauthenticated, Some("Bearer")),
            AuthError::Invalid(_) => (Code::Unauthenticated, Some("Bearer error=\"invalid_token\"")),
            AuthError::Unavailable(_) => (Code::LedgerUnavailable, None),
            AuthError::Unreachable(_) => (Code::UpstreamUnreachable, None),
        };
        let mut problem = Problem::new(code).detail(error.to_string());
        if code == Code::UpstreamUnreachable {
            // The ledger was not asked what became of an earlier request under the same key (E6).
            problem = problem.with("executed", "unknown");
        }
        match challenge {
            Some(challenge) => problem.header(WWW_AUTHENTICATE, HeaderValue::from_static(challenge)),
            None => problem,
        }
    }
}

/// A principal, and how long it may be believed without looking again.
struct Verified {
    principal: Principal,
    good_for: Duration,
}

/// Finds out who the caller is.
pub struct Authenticator<R> {
    fixed: settings::Fixed,
    /// The caller of public routes; where tenant and project are fixed, and only there.
    anonymous: Option<Principal>,
    places: KeyPlaces,
    trusted: Vec<IpNet>,
    trusted_level: bool,
    api_keys: Option<ApiKeys<R>>,
    tokens: Option<Tokens>,
    verifier: Option<Verifier>,
    schedules: Option<scheduled::Secrets>,
    registry: R,
    remembered: Remembered<Principal>,
    /// Whoever looks a credential up holds the turn of its digest, so that many requests with one credential ask once,
    /// and that only so many are looked up at a time.
    turns: Box<[Mutex<()>]>,
}

impl<R: Registry> Authenticator<R> {
    /// Makes ready what the settings ask for. Files are read now; a JWKS URL is asked now, but it is no error when it does
    /// not answer: it is asked again when the first token comes.
    pub async fn open(settings: &settings::Auth, registry: R) -> Result<Self, Error> {
        Self::build(settings, registry, None).await
    }

    /// The same for changed settings. Files are read again, nobody is remembered; keys that were fetched from a JWKS URL
    /// stay while the URL does, so that a reload is no risk when that service is away.
    pub async fn reopen(&self, settings: &settings::Auth) -> Result<Self, Error> {
        Self::build(settings, self.registry.clone(), self.tokens.as_ref()).await
    }

    async fn build(settings: &settings::Auth, registry: R, former: Option<&Tokens>) -> Result<Self, Error> {
        let tokens = match &settings.jwt {
            Some(jwt) => Some(Tokens::open(jwt, former).await?),
            None => None,
        };
        let fixed = settings.fixed.clone();
        let anonymous = fixed.tenant.clone().zip(fixed.project.clone());
        let anonymous = anonymous.map(|(tenant, project)| {
            Principal::new(tenant, Some(project), Subject::anonymous(), Level::Project)
        });
        Ok(Authenticator {
            fixed,
            anonymous,
            places: settings.key_places,
            trusted: settings.trusted.clone(),
            trusted_level: settings.trusted_level,
            api_keys: settings.api_keys.then(|| ApiKeys::new(registry.clone())),
            tokens,
            verifier: settings.verify.as_ref().map(Verifier::new).transpose()?,
            schedules: settings.schedules.clone(),
            registry,
            remembered: Remembered::new(limits::REMEMBERED),
            turns: (0..limits::LOOK_UPS).map(|_| Mutex::default()).collect(),
        })
    }

    /// Whether this peer may speak for others: name them in headers (A3), and send a namespaced key (K3).
    pub fn is_trusted(&self, peer: IpAddr) -> bool {
        // A listener for both families sees IPv4 peers as IPv6 addresses.
        let plain = peer.to_canonical();
        self.trusted.iter().any(|net| net.contains(&peer) || net.contains(&plain))
    }

    /// Where API keys are kept.
    pub(crate) fn registry(&self) -> &R {
        &self.registry
    }

    /// Whether a trusted peer is believed how far those reach for whom it speaks.
    pub(crate) fn believes_level(&self) -> bool {
        self.trusted_level
    }

    /// Whether a caller may show an API key in `Authorization: Basic`.
    pub(crate) fn takes_basic(&self) -> bool {
        self.api_keys.is_some() && self.places.basic
    }

    /// The caller of a public route (A2).
    pub(crate) fn anonymous(&self) -> Result<&Principal, AuthError> {
        self.anonymous.as_ref().ok_or(AuthError::Missing)
    }

    /// Who sent this. Nothing but the head is looked at, and for most requests nobody else is asked.
    pub async fn authenticate(&self, head: &Parts, peer: IpAddr) -> Result<Principal, AuthError> {
        if self.is_trusted(peer)
            && let Some(principal) = trusted::principal(&head.headers, self.trusted_level, &self.fixed)?
        {
            return Ok(principal);
        }
        let credential = credential::shown(&head.headers, self.places)?;
        let digest = Digest::of(&credential);
        match self.remembered.get(&digest) {
            Some(principal) => Ok(principal),
            // Rare, and a large future: not carried along by every request.
            None => Box::pin(self.look_up(&credential, digest)).await,
        }
    }

    async fn look_up(&self, credential: &str, digest: Digest) -> Result<Principal, AuthError> {
        if api_key::is_like(credential.as_bytes()) {
            // Even where no API keys are taken, an outside service is not told one.
            let keys = self.api_keys.as_ref().ok_or_else(nobody_knows)?;
            let late = AuthError::unavailable("API keys were not looked up in time");
            return self.take_turn(digest, limits::REGISTRY_WAIT, late, keys.verify(credential)).await;
        }
        match (&self.tokens, &self.verifier) {
            (Some(tokens), verifier) if verifier.is_none() || jwt::is_like(credential) => {
                let before = self.remembered.before();
                let verified = tokens.verify(credential, &self.fixed).await?;
                Ok(self.remember(digest, verified, before))
            }
            (_, Some(verifier)) => {
                verifier.is_not_refused(&digest)?;
                let late = AuthError::unreachable("the verifying service did not answer in time");
                let asking = verifier.verify(credential, digest, &self.fixed);
                self.take_turn(digest, verifier.timeout(), late, asking).await
            }
            _ => Err(nobody_knows()),
        }
    }

    /// Asks somebody else about a credential: one request at a time for each, and none for longer than `longest`, or it is
    /// `late`.
    async fn take_turn(
        &self,
        digest: Digest,
        longest: Duration,
        late: AuthError,
        asking: impl Future<Output = Result<Verified, AuthError>>,
    ) -> Result<Principal, AuthError> {
        let asked = timeout(longest, async {
            let _turn = self.turns[digest.index(self.turns.len())].lock().await;
            let before = self.remembered.before();
            match self.remembered.get(&digest) {
                Some(principal) => Ok(principal),
                None => Ok(self.remember(digest, asking.await?, before)),
            }
        });
        asked.await.unwrap_or(Err(late))
    }

    fn remember(&self, digest: Digest, verified: Verified, before: Before) -> Principal {
        self.remembered.insert(digest, verified.principal.clone(), verified.good_for, before);
        verified.principal
    }

    /// Forgets the caller whom a key names, so that whoever shows a credential of that caller is looked up again.
    pub(crate) fn forget(&self, principal: &Principal) {
        self.remembered.forget(|known| known == principal);
    }
}

impl<R> fmt::Debug for Authenticator<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}

fn nobody_knows() -> AuthError {
    AuthError::invalid("no configured method takes such a credential")
}

/// The only field line of this name, as text. Of two, nobody could say which one counts.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, AuthError> {
    let mut lines = headers.get_all(name).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(AuthError::Invalid(format!("there is more than one {name} header").into()));
    }
    let text = line.to_str().map_err(|_| AuthError::Invalid(format!("{name} is not ASCII").into()))?;
    Ok(Some(text))
}

/// The words for levels in tokens, headers and documents.
fn level_named(word: &str) -> Option<Level> {
    [Level::Project, Level::Tenant, Level::Platform].into_iter().find(|level| level_name(*level) == word)
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Project => "project",
        Level::Tenant => "tenant",
        Level::Platform => "platform",
    }
}
