//! Who is on the store and how the store does: `GET /v1/instances`, `GET /v1/store`, `GET /v1/config`, and what a claim has to do with
//! them (M1, L4).
//!
//! A session is a number. What the process behind it is called stands in a document of the registry, which the process writes when it
//! starts.

use std::collections::HashMap;

use hapax_api::{
    Claim, ClaimHolder, ClaimState, ConfigShown, Instance, Instances, Json, SpoolPulse, StoreState,
    SweepPulse, operations as op,
};
use hapax_core::limits::MAX_PAGE;
use hapax_core::registry::DocumentId;
use hapax_core::{Error, Ledger as _, Record, Registry as _, Source};
use hapax_store::{Lifecycle as _, Opener, Overview};
use serde::{Deserialize, Serialize};

use super::access::Operator;
use super::{AdminState, view, watched};
use crate::Store;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::now;

/// The kind of the registry's documents, one for each session.
const KIND: &str = "instance";

/// What a document says.
#[derive(Serialize, Deserialize)]
struct Named {
    name: String,
    version: String,
}

/// Writes down what this process is called, and removes the names of those that are gone. A store that does not take it is no reason
/// not to start.
pub(crate) async fn introduce(store: &Store, name: &str) {
    if let Err(error) = write(store, name).await {
        tracing::debug!(cause = %error, "other instances do not see the name of this one");
    }
}

async fn write(store: &Store, name: &str) -> Result<(), Error> {
    let own = store.session().id.0.to_string();
    let known = store.overview().await?.openers;
    let is_known = |id: &str| id == own || known.iter().any(|opener| opener.session.0.to_string() == id);
    let mut there = 0;
    for document in store.list_documents(KIND, None, MAX_PAGE).await? {
        match document.id.id() {
            id if id == own => there = document.version,
            id if is_known(id) => {}
            _ => store.delete(&document.id, document.version).await?,
        }
    }
    let named = Named { name: name.to_owned(), version: env!("CARGO_PKG_VERSION").into() };
    let body = serde_json::to_vec(&named)
        .map_err(|error| Error::internal("the name of an instance has no JSON").with_detail(error))?;
    store.put(&DocumentId::new(KIND, own)?, there, body.into()).await?;
    Ok(())
}

/// Names and versions, by session.
async fn names(store: &Store) -> Result<HashMap<String, Named>, Error> {
    let documents = store.list_documents(KIND, None, MAX_PAGE).await?;
    let named = documents.iter().filter_map(|document| {
        let named = serde_json::from_slice(&document.body).ok()?;
        Some((document.id.id().to_owned(), named))
    });
    Ok(named.collect())
}

/// The sessions of a store. Where only one process can have it open, that is this one.
async fn overview(state: &AdminState) -> Result<Overview, Error> {
    let mut overview = state.store.overview().await?;
    if overview.openers.is_empty() {
        let session = state.store.session();
        let until = overview.now.after(session.left);
        let last_at = until.before(session.term);
        let opened_at = state.about.started_at.min(last_at);
        overview.openers.push(Opener { session: session.id, opened_at, last_at, until });
    }
    Ok(overview)
}

pub(super) async fn get_list(
    state: AdminState,
    _: Operator,
    _: Asked<op::Instances>,
) -> Result<Instances, Refusal> {
    let (overview, mut names) = (overview(&state).await?, names(&state.store).await?);
    let own = state.store.session().id;
    let one = |opener: &Opener| {
        let session = opener.session.0.to_string();
        let named = names.remove(&session);
        let (name, version) = named.map(|named| (named.name, named.version)).unzip();
        Instance {
            name,
            version,
            session,
            opened_at: view::time(opener.opened_at),
            last_at: view::time(opener.last_at),
            until: view::time(opener.until),
            alive: overview.now < opener.until,
            this: opener.session == own,
        }
    };
    Ok(Instances { instances: overview.openers.iter().map(one).collect() })
}

pub(super) async fn store(
    state: AdminState,
    _: Operator,
    _: Asked<op::StoreState>,
) -> Result<StoreState, Refusal> {
    let overview = state.store.overview().await?;
    Ok(StoreState {
        kind: state.about.store,
        bytes: overview.bytes,
        free_bytes: overview.free,
        sealed: state.answers.seal().is_some(),
        counts: view::counts(&state.health.seen().counts),
        damaged: watched::look(&state).await.attention.damaged,
        sweep: SweepPulse { lag_s: state.store.tally().sweep_lag().as_secs() },
        spool: spool(&state),
    })
}

/// What this process has still to tell the store.
pub(super) fn spool(state: &AdminState) -> SpoolPulse {
    let (owed, waiting) = state.gateway.metrics().owed();
    SpoolPulse { waiting, owed }
}

pub(super) async fn config(
    state: AdminState,
    _: Operator,
    _: Asked<op::ShowConfig>,
) -> Result<ConfigShown, Refusal> {
    let loaded = state.loaded.read();
    Ok(ConfigShown {
        loaded_at: view::time(loaded.at),
        waits_for_restart: loaded.waits_for_restart,
        config: Json(loaded.config),
    })
}

/// Adds to a claim what the routes and the sessions say of it. What cannot be asked is left out.
pub(super) async fn tell(state: &AdminState, record: &Record, claim: &mut Claim) {
    let identity = &record.identity;
    {
        let settings = state.keeping.settings().borrow();
        let takes = |route: &&hapax_gateway::settings::Route| {
            route.rule.as_ref().is_some_and(|rule| rule.operation == *identity.operation())
        };
        if let Some(route) = settings.routes.iter().find(takes) {
            claim.upstream = Some(route.upstream.name.clone());
            // The key of a delivery came with it and is not kept.
            if identity.source() != Source::Transport {
                claim.upstream_key = route.upstream.key_of(identity, identity.key()).unwrap_or_default();
            }
        }
    }
    if !matches!(claim.state, ClaimState::Held { .. } | ClaimState::InDoubt { .. }) {
        return;
    }
    let (Ok(overview), Ok(mut names)) = (overview(state).await, names(&state.store).await) else { return };
    let session = record.claim.session;
    let opener = overview.openers.iter().find(|opener| opener.session == session);
    claim.holder = Some(ClaimHolder {
        session: session.0.to_string(),
        instance: names.remove(&session.0.to_string()).map(|named| named.name),
        alive: opener.is_some_and(|opener| overview.now < opener.until),
        until: opener.map(|opener| view::time(opener.until)),
    });
}

/// The configuration of a process, as it was read last.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    at: hapax_core::Timestamp,
    waits_for_restart: Vec<String>,
    config: serde_json::Value,
}

/// What was read last.
#[derive(Debug)]
pub(crate) struct Loaded(std::sync::Mutex<Read>);

impl Loaded {
    pub(crate) fn new(config: serde_json::Value) -> Self {
        Loaded(std::sync::Mutex::new(Read { at: now(), waits_for_restart: Vec::new(), config }))
    }

    /// It was read again.
    pub(crate) fn again(&self, config: serde_json::Value, waits_for_restart: Vec<String>) {
        *self.lock() = Read { at: now(), waits_for_restart, config };
    }

    fn read(&self) -> Read {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Read> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
