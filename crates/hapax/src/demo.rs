//! `hapax demo`: the edge in front of a payments service, on the embedded store.
//!
//! The same node that `hapax serve` runs, with everything it needs started beside it: a service that writes every charge to
//! a file, so that everybody can count, and three callers with API keys. It prints what to try with nothing but curl.

mod guide;
mod service;
mod traffic;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args as ClapArgs;
use hapax_agent::actions::{Connectors, Decision, Gate, Rules};
use hapax_core::{Error, Policy, Project, Recipe, Subject, Tenant};
use hapax_gateway::auth::api_key::{self, NewApiKey};
use hapax_gateway::settings::{Auth, Edge, Level, Route, Settings, TenantLimits, Upstream};
use hapax_store::Options;
use hapax_tower::Rule;
use http::Method;
use tokio::net::TcpListener;

use crate::Store;
use crate::admin::{self, AdminTokens, Role, create_key, revoke_key};
use crate::cli::{Failed, store};
use crate::node::{Classes, Node, Parts};
use crate::signals::Signals;
use service::Service;

/// The admin token of every demo: it listens on this machine only.
const TOKEN: &str = "demo";
/// What the demo's API keys are called, to find those of an earlier demo.
const LABEL: &str = "hapax demo";

/// What `hapax demo` can be told.
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Where the edge listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where operators are served; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    admin: SocketAddr,
    /// Keep the store in this folder, so that the next demo remembers; without it everything is forgotten at the end.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

/// Runs the demo until Ctrl-C.
pub async fn run(args: Args) -> Result<(), Failed> {
    let mut signals = Signals::listen()?;
    store::keep_private();
    // Held until the end: dropping it deletes the folder.
    let temporary = match &args.data {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(|error| {
            Failed::unavailable(format!("no temporary folder can be made: {error}; name one with --data"))
        })?),
    };
    let folder =
        args.data.as_deref().or(temporary.as_ref().map(|folder| folder.path())).unwrap_or(Path::new("."));
    let store = Store::open(&format!("embedded:{}", folder.display()), Options::default()).await?;
    let callers = callers(&store).await?;
    let service = start_service(folder).await?;
    let parts = Parts {
        spool: folder.join("spool"),
        seal: None,
        installation: None,
        settings: settings(args.listen, service)?,
        classes: Classes::default(),
        schedules: Vec::new(),
        admin: admin::Setup {
            label: Some("demo".into()),
            ..admin::Setup::new(args.admin, AdminTokens::default().with("demo", Role::Operate, TOKEN)?)
        },
        traces: None,
        rules: Rules::new(Connectors::default(), Gate::new(Decision::Block)),
        api: None,
    };
    let node = Node::start(store.clone(), parts).await?;
    traffic::send(node.edge(), &own_key(&store).await?).await;
    guide::print(&guide::Facts {
        edge: node.edge(),
        admin: node.admin(),
        service,
        folder,
        kept: args.data.is_some(),
        token: TOKEN,
        callers: &callers,
    })?;
    signals.end().await;
    guide::say_goodbye();
    tokio::select! {
        drained = node.drain() => drained.map(drop),
        // Whoever presses Ctrl-C twice does not want to wait.
        () = signals.end() => Ok(()),
    }
}

/// The payments service, on a port of its own.
async fn start_service(folder: &Path) -> Result<SocketAddr, Failed> {
    let cannot =
        |error: std::io::Error| Failed::unavailable(format!("the demo's service cannot start: {error}"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let service = Arc::new(Service::new(folder.join("charges.jsonl")));
    tokio::spawn(service.serve(listener));
    Ok(address)
}

/// A caller of the demo, with its key.
pub(crate) struct Caller {
    /// The variable that the guide keeps its key in.
    pub(crate) variable: &'static str,
    /// Who it is.
    pub(crate) who: &'static str,
    /// Its API key.
    pub(crate) key: String,
}

/// Two subjects of one tenant, and one of another; the keys of an earlier demo stop working.
async fn callers(store: &Store) -> Result<Vec<Caller>, Error> {
    for old in api_key::list(store, None, usize::MAX).await?.items.iter().filter(|key| key.label == LABEL) {
        revoke_key(store, &old.id, LABEL).await?;
    }
    let people = [
        ("ALICE", "user:alice of the tenant acme", "acme", "user:alice"),
        ("BOB", "user:bob of the tenant acme", "acme", "user:bob"),
        ("EVE", "user:eve of the tenant globex", "globex", "user:eve"),
    ];
    let mut callers = Vec::new();
    for (variable, who, tenant, subject) in people {
        let new = NewApiKey {
            tenant: Tenant::new(tenant)?,
            project: Some(Project::new("shop")?),
            subject: Subject::from_credential_text(subject)?,
            level: Level::Project,
            label: LABEL.into(),
            expires_at: None,
        };
        callers.push(Caller { variable, who, key: create_key(store, new, LABEL).await?.key });
    }
    Ok(callers)
}

/// The key of the demo's own requests.
async fn own_key(store: &Store) -> Result<String, Error> {
    let new = NewApiKey {
        tenant: Tenant::new("initech")?,
        project: Some(Project::new("shop")?),
        subject: Subject::from_credential_text("service:refunds")?,
        level: Level::Project,
        label: LABEL.into(),
        expires_at: None,
    };
    Ok(create_key(store, new, LABEL).await?.key)
}

/// What the edge does in the demo: charges need a key, and everything else is passed on.
fn settings(listen: SocketAddr, service: SocketAddr) -> Result<Settings, Error> {
    let upstream = Arc::new(Upstream::new("payments", &service.ip().to_string(), service.port()));
    let charge = Rule { recipe: Recipe::json(), ..Rule::new("payments.charge")? };
    let refund = Rule { recipe: Recipe::json(), ..Rule::new("payments.refund")? };
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
    Ok(Settings {
        edge: Edge::new(listen),
        upstreams: [("payments".to_owned(), upstream.clone())].into(),
        routes: vec![
            route(Method::POST, "/charges", Policy::RequiredA, Some(charge)),
            route(Method::GET, "/charges", Policy::Prohibited, None),
            route(Method::POST, "/refunds", Policy::RequiredA, Some(refund)),
        ],
        auth: Auth { api_keys: true, ..Auth::default() },
        tenants: TenantLimits::default(),
        webhooks: None,
    })
}
