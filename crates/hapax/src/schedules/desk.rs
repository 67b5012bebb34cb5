//! The documents of schedules in the registry, and what operators decide about them.

use hapax_core::claim::audit::Setting;
use hapax_core::registry::DocumentId;
use hapax_core::{Error, Inspect as _, Kind, Registry as _};
use hapax_store::Lifecycle as _;

use super::state::State;
use crate::Store;
use crate::limits;

/// The kind of the registry's documents, one for each schedule.
const KIND: &str = "schedule";

/// Reads and writes the documents.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    store: Store,
}

/// What an operator decides, for the audit.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub(crate) verb: &'static str,
    pub(crate) by: String,
    pub(crate) reason: String,
}

impl Desk {
    pub(crate) fn new(store: Store) -> Self {
        Desk { store }
    }

    /// Milliseconds since the Unix epoch on the store's clock: what is due is due by this.
    pub(crate) async fn now(&self) -> Result<i64, Error> {
        Ok(self.store.time().await?.as_micros().div_euclid(1_000))
    }

    /// A schedule with the version of its document.
    pub(crate) async fn get(&self, id: &str) -> Result<Option<(State, u64)>, Error> {
        // What cannot be the id of a document is no schedule's either.
        let Ok(named) = DocumentId::new(KIND, id) else { return Ok(None) };
        let Some(document) = self.store.get(&named).await? else { return Ok(None) };
        Ok(Some((read(&document.body)?, document.version)))
    }

    /// Writes a schedule over this version; `false` where another process was faster.
    pub(crate) async fn put(&self, id: &str, version: u64, state: &State) -> Result<bool, Error> {
        let body = serde_json::to_vec(state);
        let body = body.map_err(|error| Error::internal("a schedule has no JSON").with_detail(error))?;
        match self.store.put(&DocumentId::new(KIND, id)?, version, body.into()).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == Kind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes a schedule, with its audit event; `None` where there is no such schedule.
    pub(crate) async fn operate(
        &self,
        id: &str,
        instruction: &Instruction,
        change: impl Fn(&mut State, i64) -> Result<(), Error>,
    ) -> Result<Option<State>, Error> {
        for _ in 0..limits::SCHEDULE_ATTEMPTS {
            let Some((before, version)) = self.get(id).await? else { return Ok(None) };
            let mut state = before.clone();
            change(&mut state, self.now().await?)?;
            let shown = |state: &State| if state.paused.is_some() { "paused" } else { "running" };
            let setting = Setting {
                verb: instruction.verb.into(),
                actor: instruction.by.clone(),
                reason: instruction.reason.clone(),
                name: format!("{KIND}/{id}"),
                before: Some(shown(&before).into()),
                after: Some(shown(&state).into()),
            };
            let body = serde_json::to_vec(&state);
            let body = body.map_err(|error| Error::internal("a schedule has no JSON").with_detail(error))?;
            match self
                .store
                .decide_setting(&DocumentId::new(KIND, id)?, version, Some(body.into()), setting)
                .await
            {
                Ok(()) => {
                    let Instruction { verb, by, reason } = instruction;
                    tracing::info!(schedule = id, verb, actor = by, reason, "an operator decided");
                    return Ok(Some(state));
                }
                Err(error) if error.kind() == Kind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable("other processes keep changing this schedule"))
    }

    /// All schedules of the installation, in the order of their ids.
    pub(crate) async fn list(&self) -> Result<Vec<(String, State)>, Error> {
        let mut all: Vec<(String, State)> = Vec::new();
        loop {
            let after = all.last().map(|(id, _)| id.clone());
            let page =
                self.store.list_documents(KIND, after.as_deref(), hapax_core::limits::MAX_PAGE).await?;
            if page.is_empty() {
                return Ok(all);
            }
            for document in page {
                all.push((document.id.id().to_owned(), read(&document.body)?));
            }
        }
    }
}

fn read(body: &[u8]) -> Result<State, Error> {
    serde_json::from_slice(body)
        .map_err(|error| Error::corrupt("a schedule cannot be read from the registry").with_detail(error))
}
