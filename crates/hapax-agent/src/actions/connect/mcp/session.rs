//! The connection to a server: made when it is first needed, made again when it is gone, and not more often than the server can bear.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hapax_core::Backoff;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, SubscriptionFilter};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Reach;
use super::child::{self, Alive};
use super::tools::{Listed, Tools};
use super::web;
use crate::clock::{deadline, left};
use crate::limits;

/// A server, and the connection to it where there is one.
#[derive(Debug)]
pub(super) struct Link {
    reach: Reach,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    session: Option<Arc<Session>>,
    /// How often in a row it could not be started, or did not stay.
    failures: u32,
    backoff: Backoff,
    not_before: Option<Instant>,
}

/// One connection.
pub(super) struct Session {
    peer: Peer<RoleClient>,
    _service: RunningService<RoleClient, Ear>,
    _alive: Option<Alive>,
    /// Listens to what the server says of itself; ends with the session.
    _listener: JoinSet<()>,
    tools: RwLock<Option<Arc<Tools>>>,
    listing: Mutex<()>,
    changed: Arc<AtomicBool>,
    forgotten: AtomicBool,
    /// It did not even list its tools.
    useless: AtomicBool,
    /// When it counts as one that stays.
    lived: Instant,
}

/// Hears what a server says without being asked.
#[derive(Clone, Debug, Default)]
struct Ear {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Ear {
    fn on_tool_list_changed(
        &self,
        _context: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send {
        self.changed.store(true, Ordering::SeqCst);
        std::future::ready(())
    }

    fn get_info(&self) -> ClientConfig {
        let hapax = Implementation::new("hapax", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), hapax)
    }
}

impl Link {
    pub(super) fn new(reach: Reach) -> Self {
        Link { reach, state: Mutex::default() }
    }

    /// The connection; another one where the last is gone. Waits for a short pause, and refuses during a longer one.
    pub(super) async fn session(&self) -> Result<Arc<Session>, String> {
        let mut state = self.state.lock().await;
        if let Some(session) = &state.session {
            if session.is_usable() {
                return Ok(Arc::clone(session));
            }
            if left(session.lived).is_zero() {
                (state.failures, state.backoff) = (0, Backoff::default());
            } else if session.is_broken() {
                state.failed();
            }
            state.session = None;
        }
        let pause = state.not_before.map_or(Duration::ZERO, left);
        if pause > limits::MCP_PATIENCE {
            return Err(format!(
                "the server does not stay; it is started again in {} s",
                pause.as_secs() + 1
            ));
        }
        sleep(pause).await;
        match timeout(limits::MCP_START, self.open(state.failures)).await {
            Ok(Ok(session)) => {
                let session = Arc::new(session);
                state.session = Some(Arc::clone(&session));
                Ok(session)
            }
            Ok(Err(error)) => {
                state.failed();
                Err(error)
            }
            Err(_) => {
                state.failed();
                Err("the server does not answer its first request".into())
            }
        }
    }

    async fn open(&self, failures: u32) -> Result<Session, String> {
        let ear = Ear::default();
        let changed = Arc::clone(&ear.changed);
        let legacy = ProtocolVersion::LATEST_WITH_INITIALIZE;
        // There are old servers that do not survive the newer question: every second try does without.
        let lifecycle = match failures % 2 {
            0 => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(legacy),
            },
            _ => ClientLifecycleMode::Initialize,
        };
        let told = |error: ClientInitializeError| format!("the server cannot be greeted: {error}");
        let (service, alive) = match &self.reach {
            Reach::Process(process) => {
                let (pipes, alive) = child::start(process)?;
                (serve_client_with_lifecycle(ear, pipes, lifecycle).await.map_err(told)?, Some(alive))
            }
            Reach::Http(web) => {
                let transport = web::transport(web);
                (serve_client_with_lifecycle(ear, transport, lifecycle).await.map_err(told)?, None)
            }
        };
        let peer = service.peer().clone();
        let mut listener = JoinSet::new();
        if wants_to_be_heard(&peer) {
            listener.spawn(listen(peer.clone(), Arc::clone(&changed)));
        }
        Ok(Session {
            peer,
            _service: service,
            _alive: alive,
            _listener: listener,
            tools: RwLock::default(),
            listing: Mutex::default(),
            changed,
            forgotten: AtomicBool::new(false),
            useless: AtomicBool::new(false),
            lived: deadline(limits::MCP_LIVED),
        })
    }
}

impl State {
    fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(deadline(self.backoff.pause(limits::MCP_PAUSE)));
    }
}

/// Servers of the newer revision say that their list has changed to those who have asked for it.
fn wants_to_be_heard(peer: &Peer<RoleClient>) -> bool {
    peer.peer_info().is_some_and(|info| {
        let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
        !info.protocol_version.has_initialize() && tells == Some(true)
    })
}

async fn listen(peer: Peer<RoleClient>, changed: Arc<AtomicBool>) {
    let asked =
        timeout(limits::MCP_ASK, peer.listen(SubscriptionFilter::builder().tools_list_changed().build()));
    // Without a subscription the list is asked for again when it is old.
    let Ok(Ok(mut subscription)) = asked.await else { return };
    while let Ok(Some(_)) = subscription.next().await {
        changed.store(true, Ordering::SeqCst);
    }
    changed.store(true, Ordering::SeqCst);
}

impl Session {
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// The next call is to use another connection. Calls under way go on.
    pub(super) fn forget(&self) {
        self.forgotten.store(true, Ordering::SeqCst);
    }

    /// Another connection may be no better.
    fn is_broken(&self) -> bool {
        self.peer.is_transport_closed() || self.useless.load(Ordering::SeqCst)
    }

    fn is_usable(&self) -> bool {
        !self.is_broken() && !self.forgotten.load(Ordering::SeqCst)
    }

    /// A tool by its name, out of a list that is not too old.
    pub(super) async fn tool(&self, name: &str) -> Result<Option<Arc<Listed>>, String> {
        if let Some(tools) = self.known(name) {
            return Ok(tools.get(name));
        }
        let _one_at_a_time = self.listing.lock().await;
        if let Some(tools) = self.known(name) {
            return Ok(tools.get(name));
        }
        // Before the question: what changes while it is answered is asked for again.
        self.changed.store(false, Ordering::SeqCst);
        let listed = match timeout(limits::MCP_START, Tools::list(&self.peer)).await {
            Ok(listed) => listed,
            Err(_) => Err("the server's list of tools does not end".into()),
        };
        let tools = Arc::new(listed.inspect_err(|_| self.useless.store(true, Ordering::SeqCst))?);
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&tools));
        Ok(tools.get(name))
    }

    fn known(&self, name: &str) -> Option<Arc<Tools>> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        (!self.changed.load(Ordering::SeqCst) && tools.answers(name)).then_some(tools)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("usable", &self.is_usable()).finish_non_exhaustive()
    }
}
