//! What a gateway does, as meant: read, checked and resolved. How people write it down is the `hapax` program's affair.

mod cluster;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::{Error, Identity, Key, Policy, Project, Tenant};
use hapax_http::settings::{Listener, Pacing, Service};
use hapax_tower::{Code, Problem, Rule};
use http::uri::PathAndQuery;
use http::{Method, Uri};
use ipnet::IpNet;

use crate::auth::scheduled::Secrets;
use crate::limits;
use crate::webhooks::provider::{self, Generic, Traits};

pub use cluster::{Classify, Cluster, Handler, Node, ObjectKey};
pub use hapax_http::settings::Tls;

/// Everything that a gateway can be told. A reload changes it, but for what is said to stay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The listener and what holds for every route.
    pub edge: Edge,
    /// The services behind, by name.
    pub upstreams: BTreeMap<String, Arc<Upstream>>,
    /// The routes.
    pub routes: Vec<Route>,
    /// Who may come in.
    pub auth: Auth,
    /// What one tenant may use at a time.
    pub tenants: TenantLimits,
    /// Where deliveries of providers come in, and where they go (W).
    pub webhooks: Option<Arc<Webhooks>>,
}

impl Settings {
    /// Bytes of the largest answer that any route keeps; `None` where none keeps any.
    pub fn largest_kept(&self) -> Option<usize> {
        let rules = self.routes.iter().filter_map(|route| route.rule.as_ref());
        rules.map(|rule| rule.max_kept_response).max()
    }
}

/// The listener and what holds for every route.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Where it listens. Not changed by a reload.
    pub listen: SocketAddr,
    /// Threads that serve requests. Not changed by a reload.
    pub threads: usize,
    /// Certificate and key; without them the edge speaks plain HTTP. A reload reads the files again, and no others.
    pub tls: Option<Tls>,
    /// The longest wait for the end of running requests when the process is told to end.
    pub drain_timeout: Duration,
    /// The longest time for the head of a request. Not changed by a reload.
    pub header_timeout: Duration,
    /// A body that comes more slowly than this many bytes per second is given up.
    pub body_rate: u64,
    /// The longest silence on a connection without a request. Not changed by a reload.
    pub idle_timeout: Duration,
    /// Connections at a time. Not changed by a reload.
    pub max_connections: usize,
    /// Connections of one address at a time; half of all, if it is not said. Not changed by a reload.
    pub max_connections_per_address: Option<usize>,
    /// Bytes of keyed requests and their answers held in memory at a time. A request without room is refused, an answer never.
    pub max_buffered: u64,
    /// Calls that go on without a caller.
    pub max_detached: usize,
    /// Where outcomes are recalled by operation id, such as `/operations` (H7).
    pub operations_prefix: Arc<str>,
    /// The segment behind a route's path below which outcomes are recalled by key (H7).
    pub recall_segment: Arc<str>,
    /// Where the pages about problem codes are (H1). Not changed by a reload.
    pub docs: String,
    /// What browsers of other origins may do (P7).
    pub cors: Option<Cors>,
}

impl Edge {
    /// The defaults, listening here.
    pub fn new(listen: SocketAddr) -> Self {
        let Listener {
            listen,
            threads,
            header_timeout,
            idle_timeout,
            max_connections,
            max_connections_per_address,
        } = Listener::new(listen);
        Edge {
            listen,
            threads,
            tls: None,
            drain_timeout: limits::DRAIN,
            header_timeout,
            body_rate: Pacing::default().rate,
            idle_timeout,
            max_connections,
            max_connections_per_address,
            max_buffered: limits::BUFFERED,
            max_detached: limits::DETACHED,
            operations_prefix: "/operations".into(),
            recall_segment: limits::RECALL_SEGMENT.into(),
            docs: limits::DOCS.into(),
            cors: None,
        }
    }

    /// What the engine's listener is told.
    pub fn listener(&self) -> Listener {
        Listener {
            listen: self.listen,
            threads: self.threads,
            header_timeout: self.header_timeout,
            idle_timeout: self.idle_timeout,
            max_connections: self.max_connections,
            max_connections_per_address: self.max_connections_per_address,
        }
    }

    /// How slowly a body may come.
    pub(crate) fn pacing(&self) -> Pacing {
        Pacing { patience: self.header_timeout, rate: self.body_rate }
    }
}

/// What browsers of other origins may do (P7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Origins, exactly as browsers send them; `*` for any.
    pub origins: Vec<String>,
    /// Request headers beyond those that every origin may send. `Idempotency-Key`, `Authorization`, `Content-Type` and
    /// `Prefer` are always among them.
    pub headers: Vec<String>,
    /// Whether cookies and credentials are allowed; not together with `*`.
    pub credentials: bool,
    /// How long a browser may remember it.
    pub max_age: Duration,
}

/// A service behind.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Its name in the configuration.
    pub name: String,
    /// `http` or `https`.
    pub https: bool,
    /// Host name or address, as in its URL.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What stands before every forwarded path; empty or `/prefix` without a slash at its end.
    pub base: String,
    /// Ends the caller's wait (H5).
    pub timeout: Duration,
    /// The longest time to connect.
    pub connect_timeout: Duration,
    /// What is sent as `Idempotency-Key` (K4).
    pub key: UpstreamKey,
    /// What is tried again before a caller hears of it (P6).
    pub retry: Retrying,
    /// Connections at a time, each thread.
    pub max_connections: usize,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// Whether a connection carries more than one request.
    pub reuse: bool,
    /// Certificates to trust instead of the system's, PEM.
    pub ca: Option<PathBuf>,
    /// A Restate cluster, which keeps the claims of its routes; of it, only the name and the times above count.
    pub cluster: Option<Cluster>,
}

impl Upstream {
    /// The key as this service is to see it (K4); `None` where none is sent. `key` is the one that came, or else the claim's.
    pub fn key_of(&self, identity: &Identity, key: &Key) -> Result<Option<String>, Error> {
        Ok(Some(match self.key {
            UpstreamKey::None => return Ok(None),
            UpstreamKey::Raw => key.as_str().to_owned(),
            UpstreamKey::Digest(digits) => identity.claim_id().to_string()[..digits.min(64)].to_owned(),
            UpstreamKey::Namespaced => {
                hapax_core::scope::namespaced(&identity.scope().narrowed(identity.width()), key)?
            }
        }))
    }

    /// The defaults, for a plain service here.
    pub fn new(name: &str, host: &str, port: u16) -> Self {
        let service = Service::new(name, host, port);
        Upstream {
            name: service.name,
            https: service.https,
            host: service.host,
            port,
            base: String::new(),
            timeout: limits::TIMEOUT,
            connect_timeout: service.connect_timeout,
            key: UpstreamKey::Namespaced,
            retry: Retrying::default(),
            max_connections: service.max_connections,
            idle_timeout: service.idle_timeout,
            reuse: service.reuse,
            ca: service.ca,
            cluster: None,
        }
    }

    /// What the engine's pool is told.
    pub(crate) fn service(&self) -> Service {
        Service {
            name: self.name.clone(),
            https: self.https,
            host: self.host.clone(),
            port: self.port,
            connect_timeout: self.connect_timeout,
            max_connections: self.max_connections,
            idle_timeout: self.idle_timeout,
            reuse: self.reuse,
            ca: self.ca.clone(),
        }
    }
}

/// What goes upstream as the key (K4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamKey {
    /// `t-{tenant}:{project}:{subject}:{key}`.
    Namespaced,
    /// What the caller sent.
    Raw,
    /// The first 32, 40 or 64 hexadecimal digits of the claim's identity.
    Digest(usize),
    /// Nothing.
    None,
}

/// What is tried again before a caller hears of it (P6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retrying {
    /// Attempts in all; 1 tries nothing again.
    pub max_attempts: u32,
    /// The pause after the first attempt; doubled after each further one, up to a bound.
    pub backoff: Duration,
    /// What becomes of the claim when no attempt worked.
    pub on_exhausted: OnExhausted,
}

impl Default for Retrying {
    fn default() -> Self {
        Retrying { max_attempts: 1, backoff: limits::BACKOFF, on_exhausted: OnExhausted::Kill }
    }
}

/// What becomes of a claim when no attempt worked (P6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExhausted {
    /// It ends as a single failed attempt does.
    Kill,
    /// It is in doubt with the reason `paused` until somebody decides.
    Pause,
}

/// One route.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method; of a catch-all, which takes every method, it does not count.
    pub method: Method,
    /// The path, with parameters as `{name}`; `/{*rest}` is the catch-all.
    pub path: Arc<str>,
    /// What is demanded of a key.
    pub policy: Policy,
    /// A prohibited key is ignored instead of refused.
    pub lenient: bool,
    /// Every caller comes in as `client:anonymous` of the fixed tenant and project; credentials are not looked at (A2).
    pub public: bool,
    /// Outcomes are recalled by key below its path (H7).
    pub recall: bool,
    /// Whom it belongs to.
    pub level: Level,
    /// Where it goes.
    pub upstream: Arc<Upstream>,
    /// How it is protected; for every policy that takes keys, and only there.
    pub rule: Option<Arc<Rule>>,
    /// Where to ask whether an earlier attempt happened, a path of the same upstream (L6).
    pub reconcile: Option<String>,
    /// The handler of a cluster that it leads to; for routes whose upstream is one, and only there.
    pub handler: Option<Arc<Handler>>,
}

impl Route {
    /// Whether it takes whatever no other route does (P2).
    pub fn is_catch_all(&self) -> bool {
        self.path.starts_with("/{*")
    }

    /// Whether outcomes are recalled by key below its path. The path of a catch-all is none, and a caller who shows no credentials
    /// has nothing to be known by but the key itself.
    pub(crate) fn is_recalled_by_key(&self) -> bool {
        let is_named_by_body =
            self.handler.as_ref().is_some_and(|handler| matches!(handler.key, Some(ObjectKey::Body(_))));
        self.recall && !self.public && !self.is_catch_all() && !is_named_by_body
    }

    /// Whether a request of this route would be less protected as one of that catch-all.
    pub(crate) fn demands_more_than(&self, rest: &Route) -> bool {
        self.rule.is_some() || (rest.public && !self.public) || self.level > rest.level
    }

    /// How long a caller waits here, with a key or without: as the route says, or else its service.
    pub fn timeout(&self) -> Duration {
        self.rule.as_ref().map_or(self.upstream.timeout, |rule| rule.timeout)
    }
}

/// Whom a route belongs to, and how far a principal reaches (K4, A6); further is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// To a project.
    #[default]
    Project,
    /// To a tenant, outside any project.
    Tenant,
    /// To the platform.
    Platform,
}

/// Who may come in.
#[derive(Clone, Debug, Default)]
pub struct Auth {
    /// Tokens.
    pub jwt: Option<Jwt>,
    /// API keys (`hpx_…`) of the registry.
    pub api_keys: bool,
    /// Where else than in `Authorization: Bearer` a caller may show one.
    pub key_places: KeyPlaces,
    /// Peers whose headers `x-tenant-id`, `x-project-id` and `x-subject` are believed (A3).
    pub trusted: Vec<IpNet>,
    /// Whether their header `x-level` is believed, too. Whoever only sets the other three passes on what callers write there.
    pub trusted_level: bool,
    /// An outside service that knows keys (A7).
    pub verify: Option<VerifyService>,
    /// What schedules sign their requests with (A4).
    pub schedules: Option<Secrets>,
    /// What holds where a credential says nothing.
    pub fixed: Fixed,
}

/// What holds where a credential does not say whose it is, in an installation of one tenant (A2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// The tenant.
    pub tenant: Option<Tenant>,
    /// The project; only for callers of that tenant, where one is fixed.
    pub project: Option<Project>,
}

impl Fixed {
    /// Whose a credential is that says so much; `None` where nothing says of which tenant.
    pub(crate) fn complete(
        &self,
        tenant: Option<Tenant>,
        project: Option<Project>,
    ) -> Option<(Tenant, Option<Project>)> {
        let tenant = tenant.or_else(|| self.tenant.clone())?;
        let is_theirs = self.tenant.as_ref().is_none_or(|fixed| *fixed == tenant);
        let project = project.or_else(|| self.project.clone().filter(|_| is_theirs));
        Some((tenant, project))
    }
}

/// Where callers may show a key, beside `Authorization: Bearer` (A2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyPlaces {
    /// In the header `X-Api-Key`.
    pub x_api_key: bool,
    /// In `Authorization: Basic`, as the user or as the password.
    pub basic: bool,
}

/// Which tokens are believed (A1).
#[derive(Clone, Debug)]
pub struct Jwt {
    /// The algorithms: `HS256`, `RS256`, `ES256`, `EdDSA`. No other is accepted whatever a token says.
    pub algorithms: Vec<JwtAlgorithm>,
    /// Where the keys are.
    pub keys: JwtKeys,
    /// Who must have issued it.
    pub issuer: Option<String>,
    /// Whom it must be for.
    pub audience: Option<String>,
    /// How much clocks may differ.
    pub leeway: Duration,
    /// The names of the claims; a dotted name leads into an object.
    pub claims: JwtClaims,
    /// What the subject is when the token does not say.
    pub subject_type: hapax_core::SubjectKind,
}

/// An algorithm of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSA with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

/// Where the keys of tokens are.
#[derive(Clone)]
pub enum JwtKeys {
    /// A shared secret.
    Secret(Vec<u8>),
    /// A JWKS file, read again on reload.
    File(PathBuf),
    /// A JWKS URL, `http` or `https`, fetched when needed and remembered.
    Url(String),
}

impl std::fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JwtKeys::Secret(_) => f.write_str("Secret(…)"),
            JwtKeys::File(path) => f.debug_tuple("File").field(path).finish(),
            JwtKeys::Url(url) => f.debug_tuple("Url").field(url).finish(),
        }
    }
}

/// The names of the claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtClaims {
    /// The tenant.
    pub tenant: String,
    /// The project; a token without it reaches no project's routes.
    pub project: String,
    /// The subject's id.
    pub subject: String,
    /// The subject's type.
    pub subject_type: Option<String>,
    /// How far it reaches: `project` (default), `tenant` or `platform`.
    pub level: Option<String>,
}

/// An outside service that verifies keys (A7).
#[derive(Clone)]
pub struct VerifyService {
    /// Its URL.
    pub url: String,
    /// What hapax authenticates itself with.
    pub token: String,
    /// How long an answer is remembered.
    pub remember: Duration,
    /// The longest wait for an answer.
    pub timeout: Duration,
}

impl std::fmt::Debug for VerifyService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifyService").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Where deliveries of providers come in, and where they go (W).
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// Deliveries come to `{prefix}/{provider}/{webhook_id}`.
    pub prefix: String,
    /// The path of the service that gets them, with `{provider}` and `{webhook_id}` where it wants to know.
    pub path: String,
    /// Scheme and authority under which senders reach the edge: some sign them.
    pub public_url: Option<String>,
    /// The route that deliveries count as.
    pub route: Arc<Route>,
    /// How deliveries are protected; each webhook has an operation, a wait and kept answers of its own.
    pub rule: Rule,
    /// How long a sender waits, where not what is usual for its provider (W9).
    pub wait: Option<Duration>,
    /// The providers that may send; all, where none is named.
    pub enabled: Vec<String>,
    /// Providers that the configuration declares, by name.
    pub providers: BTreeMap<String, Generic>,
    /// Where secrets are kept outside the registry.
    pub kv: Option<KvStore>,
    /// Whether ids that the registry does not have are looked up in the service of [`Auth::verify`] (A7).
    pub verify: bool,
}

impl Webhooks {
    /// Whether deliveries of this provider are taken.
    pub fn takes(&self, provider: &str) -> bool {
        self.enabled.is_empty() || self.enabled.iter().any(|enabled| enabled == provider)
    }

    /// What is to be known of a provider whose deliveries are taken.
    pub fn provider(&self, name: &str) -> Option<Traits> {
        if !self.takes(name) {
            return None;
        }
        match self.providers.get(name) {
            Some(declared) => Some(Traits::of(Box::new(declared.clone()))),
            None => provider::built_in(name, false).map(Traits::of),
        }
    }

    /// Where a delivery goes.
    pub(crate) fn target(&self, provider: &str, webhook: &str, query: Option<&str>) -> Result<Uri, Problem> {
        let mut target = self.path.replace("{provider}", provider).replace("{webhook_id}", webhook);
        if let Some(query) = query {
            target.push('?');
            target.push_str(query);
        }
        let target = PathAndQuery::try_from(target).map(Uri::from);
        target.map_err(|error| Problem::new(Code::Internal).owing_to(format!("[webhooks] path: {error}")))
    }
}

/// A KV version 2 store of OpenBao or Vault (W7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvStore {
    /// Its URL.
    pub url: String,
    /// Where the store is mounted, such as `secret`.
    pub mount: String,
    /// The file with the token, read again for each question.
    pub token_file: PathBuf,
    /// The longest wait for an answer.
    pub timeout: Duration,
}

/// What one tenant may use at a time (H12). Zero stands for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Claims held at a time, in this process.
    pub held: u32,
    /// New claims per second, in this process.
    pub claims_per_second: u32,
    /// Claims in doubt; beyond, new claims of this tenant are refused.
    pub in_doubt: u32,
}
