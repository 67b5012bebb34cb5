//! One running hapax: a store, the edge in front of it and the admin listener beside it.
//!
//! `hapax serve` and `hapax demo` start the same node; they differ in where its settings come from and in what they print.

mod answers;
mod keeping;
mod ledger;
mod rings;
mod secrets;
mod supervisor;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hapax_agent::actions::Rules;
use hapax_exec::{Executor, Installation, Seal, Settings as ExecutorSettings};
use hapax_gateway::Gateway;
use hapax_gateway::settings::{Auth, Settings};
use hapax_gateway::tls::Certificates;
use hapax_gateway::webhooks::record::Desk;
use hapax_store::Lifecycle as _;
use hapax_tower::Protect;
use tokio::net::TcpListener;

use crate::Store;
use crate::actions::Plans;
use crate::admin::{self, AdminState, AdminTokens};
use crate::application::{self, ApplicationState};
use crate::cli::Failed;
use crate::config::Traces;
use crate::listen::connections;
use crate::listen::host::Hosts;
use crate::log;
use crate::schedules::{Dispatcher, Schedule};
use crate::traces::{self, Exporting};

pub(crate) use answers::KeptAnswers;
pub use keeping::Classes;
use keeping::Known;
pub(crate) use keeping::{Keeping, SetTo};
pub(crate) use ledger::Health;
pub(crate) use rings::{Group, Rings, Row, Sample};
pub(crate) use secrets::{opens, secret_id};
use supervisor::{Stage, Supervisor};

/// What a node is made of.
pub struct Parts {
    /// Where outcomes go while the ledger is away (L15).
    pub spool: PathBuf,
    /// What outcomes are sealed with (B9).
    pub seal: Option<Arc<Seal>>,
    /// What is shared with other processes on the store, beside claims.
    pub installation: Option<Arc<dyn Installation>>,
    /// What the edge does.
    pub settings: Settings,
    /// For how long classes of outcomes are kept.
    pub classes: Classes,
    /// What is dispatched at planned times.
    pub schedules: Vec<Schedule>,
    /// Where spans of requests go.
    pub traces: Option<Traces>,
    /// What agents may do.
    pub rules: Rules,
    /// The admin listener, and who may use it.
    pub admin: admin::Setup,
    /// Where applications are served, and under which names beside addresses and `localhost`; `None`: nowhere.
    pub api: Option<(SocketAddr, Vec<String>)>,
}

/// What tasks in the background look after.
struct Watched<'a> {
    store: &'a Store,
    gateway: &'a Arc<Gateway<Store, Store>>,
    keeping: &'a Arc<Keeping>,
    dispatcher: &'a Arc<Dispatcher>,
}

impl Watched<'_> {
    /// Begins the tasks that go on as long as the node does.
    fn keep(&self, tasks: &mut Supervisor, health: Arc<Health>, rings: Arc<Rings>) {
        let (ledger, edge, follows) = (self.store.clone(), self.gateway.clone(), self.keeping.clone());
        tasks.keep("ledger watch", move || {
            watch::look(ledger.clone(), edge.clone(), follows.settings().subscribe(), health.clone())
        });
        let follows = self.keeping.clone();
        tasks.keep("retention watch", move || {
            let follows = follows.clone();
            async move { follows.watch().await }
        });
        let counting = self.gateway.clone();
        tasks.keep("samples", move || {
            let (rings, counting) = (rings.clone(), counting.clone());
            async move { rings.watch(&counting).await }
        });
        tasks.keep("log watch", log::tell_gaps);
        let walking = self.dispatcher.clone();
        tasks.keep("schedules", move || walking.clone().run());
    }
}

/// A running node.
pub struct Node {
    store: Store,
    gateway: Arc<Gateway<Store, Store>>,
    admin_address: SocketAddr,
    api_address: Option<SocketAddr>,
    tasks: Supervisor,
    keeping: Arc<Keeping>,
    dispatcher: Arc<Dispatcher>,
    plans: Plans,
    tokens: AdminTokens,
    /// Those of the admin listener.
    certificates: Option<Certificates>,
    /// What operators are shown of the configuration.
    loaded: Arc<admin::Loaded>,
    traces: Option<Exporting>,
}

impl Node {
    /// Settles what an earlier process left, before anything is accepted (L15); then listens.
    pub async fn start(store: Store, parts: Parts) -> Result<Self, Failed> {
        let (address, tokens) = (parts.admin.listen, parts.admin.tokens.clone());
        let certificates = admin::certificates(&parts.admin)?;
        let (listener, admin_address) = bind("admin", address).await?;
        let mut api = None;
        if let Some((address, hosts)) = &parts.api {
            api = Some((bind("application", *address).await?, Hosts::new("api", hosts, address.ip())));
        }
        let set_up = ExecutorSettings {
            spool: Some(parts.spool),
            installation: parts.installation,
            ..ExecutorSettings::default()
        };
        let executor = Executor::open(store.clone(), set_up)
            .await
            .map_err(|error| Failed::unavailable(error.to_string()))?;
        let leaf_key = secrets::leaf_key(&store, parts.seal.as_deref()).await?;
        let for_applications = executor.clone();
        let plans = Plans::new(executor.clone(), parts.rules, parts.seal.clone());
        let protect = Protect::new(executor, leaf_key).sealed(parts.seal.clone());
        let known = Known::read(&store, parts.settings, parts.classes).await?;
        let gateway = Arc::new(Gateway::start(known.settings(), protect, store.clone()).await?);
        let traces = parts.traces.as_ref().map(traces::start).transpose()?;
        let traces = traces.map(|(tracer, exporting)| {
            gateway.trace(tracer);
            exporting
        });
        let keeping = Arc::new(Keeping::new(store.clone(), gateway.clone(), known));
        let (store_here, follows) = (store.clone(), keeping.settings().subscribe());
        let dispatcher = Dispatcher::new(store_here, gateway.clone(), follows, &parts.schedules)?;
        let dispatcher = Arc::new(dispatcher);
        let health = Arc::new(Health::default());
        let rings = Arc::new(Rings::new());
        let about = Arc::new(admin::About::new(parts.admin.clone(), admin_address, &store));
        admin::introduce(&store, &about.instance).await;
        let loaded = Arc::new(admin::Loaded::new(parts.admin.shown.clone()));
        let state = AdminState {
            store: store.clone(),
            gateway: gateway.clone(),
            keeping: keeping.clone(),
            health: health.clone(),
            webhooks: Desk::new(store.clone(), parts.seal.clone()),
            answers: KeptAnswers::new(parts.seal.clone()),
            schedules: dispatcher.clone(),
            rings: rings.clone(),
            watched: Arc::default(),
            about: about.clone(),
            loaded: loaded.clone(),
        };
        let router = admin::router(state, parts.admin)?;
        let tls = certificates.as_ref().map(connections::tls);
        let docs = keeping.settings().borrow().edge.docs.clone();
        let clusters = keeping.settings().borrow().upstreams.clone();
        tokio::spawn(async move { watch::look_at_clusters(clusters.into_values()).await });
        let mut tasks = Supervisor::default();
        tasks.serve("admin listener", |stopped| {
            connections::serve(listener, router, tls, async {
                // The node is gone: then there is nothing to serve either.
                let _ = stopped.await;
            })
        });
        let mut api_address = None;
        if let Some(((listener, address), hosts)) = api {
            let state = ApplicationState {
                store: store.clone(),
                executor: for_applications,
                seal: parts.seal,
                plans: plans.clone(),
                gateway: gateway.clone(),
                places: Arc::default(),
            };
            let router = application::router(state, &docs, hosts)?;
            api_address = Some(address);
            tasks.serve("application listener", |stopped| {
                connections::serve(listener, router, None, async {
                    let _ = stopped.await;
                })
            });
        }
        let watched =
            Watched { store: &store, gateway: &gateway, keeping: &keeping, dispatcher: &dispatcher };
        watched.keep(&mut tasks, health, rings);
        Ok(Node {
            store,
            gateway,
            admin_address,
            api_address,
            tasks,
            keeping,
            dispatcher,
            plans,
            tokens,
            traces,
            certificates,
            loaded,
        })
    }

    /// Who may come in at present.
    pub(crate) fn auth(&self) -> Auth {
        self.keeping.settings().borrow().auth.clone()
    }

    /// Where the edge listens.
    pub fn edge(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Where operators are served.
    pub fn admin(&self) -> SocketAddr {
        self.admin_address
    }

    /// Where applications are served, where they are.
    pub fn api(&self) -> Option<SocketAddr> {
        self.api_address
    }

    /// Goes on with other settings, and other tokens for operators (P5). Where the settings cannot be used, nothing changes.
    pub(crate) async fn reload(
        &self,
        settings: Settings,
        classes: Classes,
        schedules: &[Schedule],
        rules: Rules,
        tokens: &AdminTokens,
    ) -> Result<(), hapax_core::Error> {
        self.keeping.reload(settings, classes).await?;
        self.dispatcher.reload(schedules);
        self.plans.reload(rules);
        self.tokens.replace(tokens);
        if let Some(certificates) = &self.certificates {
            certificates.reload().map_err(|error| hapax_core::Error::invalid(error.to_string()))?;
        }
        Ok(())
    }

    /// Shows operators another configuration, and what of it takes effect after a restart.
    pub(crate) fn show(&self, config: serde_json::Value, waits_for_restart: Vec<String>) {
        self.loaded.again(config, waits_for_restart);
    }

    /// How long what is running may take when this ends.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.keeping.settings().borrow().edge.drain_timeout
    }

    /// Refuses whatever comes from now on, and begins no further action of the plans that are under way.
    pub(crate) fn take_nothing_new(&self) {
        self.gateway.admission().drain();
        self.plans.stop();
    }

    /// Takes nothing new, finishes what is running, and closes the store. Says whether everything came to its end.
    ///
    /// Requests and plans have one time together; the listeners of operators and applications are open until then, so that callers hear
    /// what became of their plans, and holders elsewhere can settle. What any of them still owes to the ledger is told before its session
    /// ends.
    pub async fn drain(mut self) -> Result<bool, Failed> {
        let within = self.drain_timeout();
        self.take_nothing_new();
        self.tasks.end(Stage::Watching).await;
        let (requests, plans) = tokio::join!(self.gateway.drain(within), self.plans.drain(within));
        self.tasks.end(Stage::Operators).await;
        self.gateway.debts_paid().await;
        let clean = requests && plans;
        self.store.close().await?;
        if let Some(traces) = self.traces {
            traces.end().await;
        }
        Ok(clean)
    }
}

/// Takes the address of a listener.
async fn bind(name: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failed> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failed::unavailable(format!("the {name} listener cannot have {address}: {error}"))
    })?;
    let bound = listener.local_addr().map_err(|error| Failed::unavailable(error.to_string()))?;
    Ok((listener, bound))
}
