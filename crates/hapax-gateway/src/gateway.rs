//! Starting, reloading and ending a gateway.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use hapax_core::{Error, Identity, Ledger, Registry, Scope, Width};
use hapax_http::Refusal;
use hapax_http::listener::{self, Drained, Handler, Peer, Running};
use hapax_http::tls::Certificates;
use hapax_tower::{Body, OpaqueId, Problem, Protect};
use http::{HeaderMap, Request, Response, request};
use rustls::ClientConfig;

use crate::admit::{Admission, ClaimPlace};
use crate::auth::api_key::ApiKey;
use crate::auth::caller::Caller;
use crate::auth::remembered::Remembered;
use crate::auth::{Authenticator, Principal};
use crate::engine;
use crate::limits;
use crate::metrics::Metrics;
use crate::route::Table;
use crate::sealed::OperationSeal;
use crate::secrets;
use crate::settings::{Level, Settings};
use crate::stack::{Plan, Shared, Stack};
use crate::trace::{Recorded, Tracer};
use crate::upstream::Incoming;
use crate::webhooks::{Tally, Webhooks};

/// A running gateway.
pub struct Gateway<L, R> {
    shared: Arc<Shared<L, R>>,
    running: Mutex<Option<Running>>,
    address: SocketAddr,
    certificates: Option<Certificates>,
}

impl<L: Ledger, R: Registry> Gateway<L, R> {
    /// Starts to listen and to serve. `protect` holds the claims, `registry` the API keys.
    pub async fn start(settings: Settings, protect: Protect<L>, registry: R) -> Result<Self, Error> {
        let certificates =
            settings.edge.tls.as_ref().map(Certificates::load).transpose().map_err(engine::error)?;
        let auth = Arc::new(Authenticator::open(&settings.auth, registry.clone()).await?);
        let edge = settings.edge.clone();
        let protect = protect.docs(edge.docs.clone());
        let webhooks = webhooks(&settings, &protect, registry)?;
        let seal = operation_seal(&settings, &protect, auth.registry()).await?;
        let plan = Plan { table: Table::new(&settings)?, settings, auth, webhooks, seal };
        let shared = Arc::new(Shared {
            plan: ArcSwap::from_pointee(plan),
            protect,
            docs: edge.docs.as_str().into(),
            admission: Arc::default(),
            metrics: Arc::default(),
            contents: Remembered::new(limits::CONTENTS),
            refusals: Default::default(),
            delegation: Default::default(),
            tracer: Default::default(),
        });
        let tls = certificates.as_ref().map(Certificates::server_config);
        let each = shared.clone();
        let make = move |thread: listener::Thread| Stack::new(each.clone(), thread.tasks);
        let running = listener::start(&edge.listener(), tls, make).map_err(engine::error)?;
        Ok(Gateway { shared, address: running.address(), running: Mutex::new(Some(running)), certificates })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How the process itself calls it where it speaks TLS; `None` where it speaks plain HTTP.
    pub fn own_tls(&self) -> Result<Option<Arc<ClientConfig>>, Error> {
        self.certificates.as_ref().map(Certificates::own_client).transpose().map_err(engine::error)
    }

    /// What it counts, and what its executor and its listener have counted until now.
    pub fn metrics(&self) -> &Arc<Metrics> {
        if let Some(running) = &*self.running.lock().unwrap_or_else(PoisonError::into_inner) {
            self.shared.metrics.set_connections_refused(&running.counts());
        }
        self.shared.metrics.set_contradicted(self.shared.protect.executor().contradicted());
        let (owed, spooled) = self.shared.protect.executor().waiting();
        self.shared.metrics.set_owed(owed, spooled);
        self.shared.metrics.set_circuits_open(self.shared.delegation.suspended());
        if let Some(tracer) = self.shared.tracer.get() {
            self.shared.metrics.set_spans(tracer.counts().read());
        }
        &self.shared.metrics
    }

    /// Whose a request to another listener of this process is, found out as at the edge: the scope of its caller's project (A, M1).
    pub async fn scope_of(&self, head: &request::Parts, peer: IpAddr) -> Result<Scope, Problem> {
        let auth = self.shared.plan.load().auth.clone();
        Caller::identify(&auth, head, peer, false).await?.scope(Level::Project)
    }

    /// Counts an answer of the application API: for whom, where, what came of it, and how long it took (O1).
    pub fn count_api_answer(
        &self,
        scope: Option<&Scope>,
        endpoint: &str,
        came: (&'static str, u16),
        took: Duration,
    ) {
        self.shared.metrics.api_answered(scope, endpoint, came, took);
    }

    /// A place in its tenant's share for a claim that an application asks for, as the claims of the edge have it (H12).
    pub async fn place_of(&self, identity: &Identity) -> Result<ClaimPlace, Problem> {
        let plan = self.shared.plan.load_full();
        let ledger = self.shared.protect.executor().ledger();
        ClaimPlace::take(&self.shared.admission, identity, &plan.settings.tenants, ledger).await
    }

    /// From now on records requests, as this tracer decides (O3). Only the first one counts.
    pub fn trace(&self, tracer: Tracer) {
        let _ = self.shared.tracer.set(tracer);
    }

    /// Begins to record a request to another listener of this process, if one with these headers is recorded (O3).
    pub fn record(&self, headers: &HeaderMap) -> Option<Recorded> {
        self.shared.tracer.get()?.record(headers)
    }

    /// Whether this process still identifies claims as the others on its ledger do (K6).
    pub async fn agree(&self) -> Result<(), Error> {
        self.shared.protect.executor().agree().await
    }

    /// What it lets in.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.shared.admission
    }

    /// Goes on with other settings, without dropping a request (P5). Nothing changes where they cannot be used. The listener
    /// and its threads stay as they are.
    pub async fn reload(&self, settings: Settings) -> Result<(), Error> {
        let table = Table::new(&settings)?;
        let auth = Arc::new(self.shared.plan.load_full().auth.reopen(&settings.auth).await?);
        let webhooks = webhooks(&settings, &self.shared.protect, auth.registry().clone())?;
        let seal = operation_seal(&settings, &self.shared.protect, auth.registry()).await?;
        if let Some(certificates) = &self.certificates {
            certificates.reload().map_err(engine::error)?;
        }
        self.shared.plan.store(Arc::new(Plan { table, settings, auth, webhooks, seal }));
        Ok(())
    }

    /// Goes on with settings that differ in how long outcomes are kept, and in nothing else (P5): no file is read again, and who
    /// is remembered stays so.
    pub fn keep_by(&self, settings: Settings) -> Result<(), Error> {
        let present = self.shared.plan.load_full();
        let (table, auth, seal) = (Table::new(&settings)?, present.auth.clone(), present.seal.clone());
        let webhooks = webhooks(&settings, &self.shared.protect, auth.registry().clone())?;
        self.shared.plan.store(Arc::new(Plan { table, settings, auth, webhooks, seal }));
        Ok(())
    }

    /// Looks a key up again that was changed in the registry: one that was revoked does not work any more from now on (A2).
    pub fn look_up_again(&self, key: ApiKey) {
        self.shared.plan.load().auth.forget(&Principal::from(key));
    }

    /// Looks a webhook up again that was changed in the registry: one that was revoked, and a secret that was dropped, do not count any
    /// more from now on (W1).
    pub fn look_up_webhook_again(&self, id: &str) {
        if let Some(webhooks) = &self.shared.plan.load().webhooks {
            webhooks.forget(id);
        }
    }

    /// What a cluster calls the call that callers of this scope know by this id; `None` where it is no such id.
    pub fn invocation_of(&self, scope: &Scope, id: &str) -> Option<(Width, String)> {
        let id = OpaqueId::new(id).ok()?;
        let plan = self.shared.plan.load_full();
        let seal = plan.seal.as_ref()?;
        let widths = [Width::Subject, Width::Project, Width::Tenant];
        widths.into_iter().find_map(|width| {
            let (_, invocation) = seal.open(&scope.narrowed(width), &id)?;
            Some((width, invocation))
        })
    }

    /// Which deliveries to this webhook were refused, as far as this process knows; `None` where it knows of none.
    pub fn refusals(&self, webhook: &str) -> Option<Tally> {
        self.shared.refusals.of(webhook)
    }

    /// Takes nothing new, closes what is idle, tells WebSocket connections to close, waits for what is running, with or without a
    /// caller, and then, a little, for what is still owed to the ledger (H11). Says whether every request came to its end within the time.
    pub async fn drain(&self, within: Duration) -> bool {
        self.shared.admission.drain();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Whoever waits for calls without a caller needs no connections: clients are told to go elsewhere at once.
        let ending = async {
            match running {
                Some(running) => {
                    let Drained { connections, tasks, tunnels: _ } = running.drain(within).await;
                    connections == 0 && tasks == 0
                }
                None => true,
            }
        };
        let calls = tokio::time::timeout(within, self.shared.protect.calls().idle());
        let (ended, idle) = tokio::join!(ending, calls);
        self.debts_paid().await;
        ended && idle.is_ok()
    }

    /// Waits a little for what calls have left behind and the ledger is still to be told, before the session of this process ends with its
    /// leases.
    pub async fn debts_paid(&self) {
        let debts = self.shared.protect.executor().debts_paid();
        if tokio::time::timeout(limits::DEBTS_PAID, debts).await.is_err() {
            tracing::warn!(
                "reports are still owed to the ledger: leases that they belong to lapse with this process"
            );
        }
    }
}

/// What makes the public ids of delegated calls, where there can be some.
async fn operation_seal<L: Ledger, R: Registry>(
    settings: &Settings,
    protect: &Protect<L>,
    registry: &R,
) -> Result<Option<Arc<OperationSeal>>, Error> {
    if settings.upstreams.values().all(|upstream| upstream.cluster.is_none()) {
        return Ok(None);
    }
    let seal = protect.seal().map(|seal| &**seal);
    let secret = secrets::of_installation(registry, seal, secrets::OPERATION_ID).await?;
    OperationSeal::new(&secret).map(Arc::new).map(Some)
}

/// The webhooks that these settings have, if they have any.
fn webhooks<L: Ledger, R: Registry>(
    settings: &Settings,
    protect: &Protect<L>,
    registry: R,
) -> Result<Option<Webhooks<R>>, Error> {
    let Some(webhooks) = &settings.webhooks else { return Ok(None) };
    Webhooks::new(webhooks.clone(), &settings.auth, registry, protect.seal().cloned()).map(Some)
}

impl<L: Ledger, R: Registry> Handler for Stack<L, R> {
    type Body = Body<Incoming>;

    fn handle(
        self: Arc<Self>,
        request: Request<listener::Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Body<Incoming>>> + Send + 'static {
        Stack::answer_any(self, request, peer)
    }

    fn refuse(&self, peer: Peer, refusal: Refusal) -> Response<Bytes> {
        Stack::refuse(self, peer, refusal)
    }
}
