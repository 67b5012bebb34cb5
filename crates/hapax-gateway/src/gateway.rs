//! Starting, reloading and ending a gateway.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use hapax_core::{Error, Ledger, Registry};
use hapax_tower::{Body, Code, Protect};
use http::{Request, Response};

use crate::accept::{self, Drained, Handler, Peer, Running};
use crate::admit::Admission;
use crate::auth::Authenticator;
use crate::metrics::Metrics;
use crate::route::Table;
use crate::settings::Settings;
use crate::stack::{Plan, Shared, Stack};
use crate::tls::Certificates;
use crate::upstream::Incoming;

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
        let certificates = settings.edge.tls.as_ref().map(Certificates::load).transpose()?;
        let auth = Arc::new(Authenticator::open(&settings.auth, registry).await?);
        let edge = settings.edge.clone();
        let protect = protect.docs(edge.docs.clone());
        let plan = Plan { table: Table::new(&settings)?, settings, auth };
        let shared = Arc::new(Shared {
            plan: ArcSwap::from_pointee(plan),
            protect,
            admission: Arc::default(),
            metrics: Arc::default(),
        });
        let tls = certificates.as_ref().map(Certificates::server_config);
        let each = shared.clone();
        let running = accept::start(&edge, tls, move |thread| Stack::new(each.clone(), thread.tasks))?;
        Ok(Gateway { shared, address: running.address(), running: Mutex::new(Some(running)), certificates })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counts, and what its executor has counted until now.
    pub fn metrics(&self) -> &Arc<Metrics> {
        self.shared.metrics.set_contradicted(self.shared.protect.executor().contradicted());
        &self.shared.metrics
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
        if let Some(certificates) = &self.certificates {
            certificates.reload()?;
        }
        self.shared.plan.store(Arc::new(Plan { table, settings, auth }));
        Ok(())
    }

    /// Goes on with settings that differ in how long outcomes are kept, and in nothing else (P5): no file is read again, and who
    /// is remembered stays so.
    pub fn keep_by(&self, settings: Settings) -> Result<(), Error> {
        let (table, auth) = (Table::new(&settings)?, self.shared.plan.load().auth.clone());
        self.shared.plan.store(Arc::new(Plan { table, settings, auth }));
        Ok(())
    }

    /// Takes nothing new, closes what is idle, waits for what is running, with or without a caller, then ends (H11). Says
    /// whether all came to its end within the time.
    pub async fn drain(&self, within: Duration) -> bool {
        self.shared.admission.drain();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Whoever waits for calls without a caller needs no connections: clients are told to go elsewhere at once.
        let ending = async {
            match running {
                Some(running) => running.drain(within).await == Drained::default(),
                None => true,
            }
        };
        let calls = tokio::time::timeout(within, self.shared.protect.calls().idle());
        let (ended, idle) = tokio::join!(ending, calls);
        ended && idle.is_ok()
    }
}

impl<L: Ledger, R: Registry> Handler for Stack<L, R> {
    type Body = Body<Incoming>;

    fn handle(
        self: Arc<Self>,
        request: Request<accept::Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Body<Incoming>>> + Send + 'static {
        Stack::answer_any(self, request, peer)
    }

    fn refused(&self, peer: Peer, code: Code) {
        self.note_refused(peer, code);
    }
}
