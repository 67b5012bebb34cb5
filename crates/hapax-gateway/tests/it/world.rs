//! A whole edge in a test: a gateway on a real port, a service behind it that writes down every byte that arrives, and four
//! callers. Requests are bytes on a socket, so that a test can send what no client library would.

pub(crate) mod client;
pub(crate) mod service;

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{LeafKey, Ledger, Policy, Project, Recipe, Rerun, Subject, Tenant, Timestamp};
use hapax_exec::Executor;
use hapax_gateway::Gateway;
use hapax_gateway::auth::api_key::{self, NewApiKey};
use hapax_gateway::settings::{Auth, Edge, Level, Route, Settings, TenantLimits, Upstream};
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_tower::{Protect, Rule};
use http::Method;

pub(crate) use client::Got;
pub(crate) use service::Service;

/// A running edge with everything around it.
pub(crate) struct World<L = Memory> {
    pub(crate) gateway: Gateway<L, Memory>,
    pub(crate) service: Service,
    pub(crate) store: Memory,
    /// Alice of acme/web.
    pub(crate) alice: String,
    /// Bob of acme/web.
    pub(crate) bob: String,
    /// Alice of acme/app: another project.
    pub(crate) carol: String,
    /// Alice of globex/web: another tenant.
    pub(crate) eve: String,
    /// A member of the tenant acme without a project.
    pub(crate) mia: String,
}

impl World {
    /// On the memory store, with the usual routes.
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// On the memory store, with settings changed by the test.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let store = Memory::open(Options::default());
        Self::on(store, change).await
    }

    /// On a store of the test's choice.
    pub(crate) async fn on(store: Memory, change: impl FnOnce(&mut Settings)) -> Self {
        let service = Service::start().await;
        Self::before(service, store, change).await
    }

    /// Before a service that is there already.
    pub(crate) async fn before(service: Service, store: Memory, change: impl FnOnce(&mut Settings)) -> Self {
        let executor = Executor::new(store.clone());
        Self::run(service, store, executor, change).await
    }
}

impl<L: Ledger> World<L> {
    /// With claims and API keys in places of the test's choice.
    pub(crate) async fn run(
        service: Service,
        store: Memory,
        executor: Executor<L>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = settings(&service);
        change(&mut settings);
        let protect = Protect::new(executor, LeafKey::new([7; 32]));
        let gateway = Gateway::start(settings, protect, store.clone()).await.unwrap();
        let (alice, bob) =
            (key(&store, "acme", "web", "user:alice").await, key(&store, "acme", "web", "user:bob").await);
        let carol = key(&store, "acme", "app", "user:alice").await;
        let eve = key(&store, "globex", "web", "user:alice").await;
        let mia = key(&store, "acme", "", "tenant_member:mia").await;
        World { gateway, service, store, alice, bob, carol, eve, mia }
    }
}

/// The usual routes: a charge that must not happen twice, a note that may, a page that takes no key, an upload that takes one
/// if it is sent, and a route of the tenant.
pub(crate) fn settings(service: &Service) -> Settings {
    let address = service.address();
    let upstream = Arc::new(Upstream::new("service", &address.ip().to_string(), address.port()));
    let route = |method: Method, path: &str, policy: Policy, rule: Option<Rule>| Route {
        method,
        path: path.into(),
        policy,
        lenient: false,
        public: false,
        recall: true,
        level: Level::Project,
        upstream: upstream.clone(),
        rule: rule.map(Arc::new),
        reconcile: None,
        handler: None,
    };
    let rule = |operation: &str| Rule::new(operation).unwrap();
    let charge = Rule { recipe: Recipe::json(), ..rule("charge") };
    let safe = Rule { policy: Policy::Accepted, rerun: Rerun::Safe, ..rule("note") };
    let tenant = Route {
        level: Level::Tenant,
        ..route(Method::POST, "/tenant", Policy::RequiredA, Some(rule("tenant")))
    };
    Settings {
        edge: Edge {
            threads: 2,
            drain_timeout: Duration::from_secs(5),
            ..Edge::new(([127, 0, 0, 1], 0).into())
        },
        upstreams: [("service".to_owned(), upstream.clone())].into(),
        routes: vec![
            route(Method::POST, "/charges", Policy::RequiredA, Some(charge)),
            route(Method::POST, "/orders/{order}/notes", Policy::Accepted, Some(safe)),
            route(Method::POST, "/raw", Policy::RequiredA, Some(rule("raw"))),
            route(Method::GET, "/charges", Policy::Prohibited, None),
            route(Method::GET, "/charges/{id}", Policy::Prohibited, None),
            route(Method::POST, "/open", Policy::Prohibited, None),
            route(Method::POST, "/internal", Policy::HandlerInternalC, None),
            tenant,
        ],
        auth: Auth { api_keys: true, ..Auth::default() },
        tenants: TenantLimits::default(),
        webhooks: None,
    }
}

/// Changes the rule of one operation.
pub(crate) fn change_rule(settings: &mut Settings, operation: &str, change: impl Fn(&mut Rule)) {
    for route in &mut settings.routes {
        if let Some(rule) = route.rule.as_mut().filter(|rule| rule.operation.as_str() == operation) {
            change(Arc::make_mut(rule));
        }
    }
}

async fn key(store: &Memory, tenant: &str, project: &str, subject: &str) -> String {
    let level = if project.is_empty() { Level::Tenant } else { Level::Project };
    key_of_level(store, tenant, project, subject, level).await
}

/// An API key of the test's choice.
pub(crate) async fn key_of_level(
    store: &Memory,
    tenant: &str,
    project: &str,
    subject: &str,
    level: Level,
) -> String {
    let new = NewApiKey {
        tenant: Tenant::new(tenant).unwrap(),
        project: Some(project)
            .filter(|project| !project.is_empty())
            .map(|project| Project::new(project).unwrap()),
        subject: Subject::from_credential_text(subject).unwrap(),
        level,
        expires_at: None,
        label: String::new(),
    };
    let now =
        Timestamp::from_micros(i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap());
    api_key::create(store, new, now).await.unwrap().key
}
