//! The admin listener: what operators ask and decide, over HTTP (M1, L8, L17, M4).
//!
//! It serves its own paths and nothing of the edge or of the application API; only the pages about problems are at both.
//! `endpoints` is the list of all paths, with who may use which; `openapi.json` describes the same for programs, and a test
//! holds the two together. Keys, kept answers, metrics and routes belong to others: they are handed in with [`AdminState`].

mod access;
mod audit;
mod claims;
mod decide;
mod endpoints;
mod erase;
mod keys;
mod listener;
mod refusal;
mod retention;
#[cfg(test)]
pub(crate) mod tests;
pub mod view;

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{ClaimId, Error, Identity, Retention};
use hapax_store::Store;
use http::HeaderMap;
use serde_json::Value;

use crate::limits;

pub use access::{AdminTokens, Role};
pub use claims::{Which, count, list, show};
pub(crate) use endpoints::LISTENER;
pub(crate) use keys::info as key_json;
pub use keys::{Asking, KeyDesk, KeyInfo, KeyLevel, KeyMade, NewKey, Reply};
pub use listener::serve;
use retention::NoClasses;
pub use retention::{ClassInfo, RetentionDesk, SetInfo, SetTo};

/// Everything the admin listener needs. Cheap to clone.
#[derive(Clone)]
pub struct AdminState {
    /// The store it inspects and decides in.
    pub store: Store,
    /// Who may ask and who may decide.
    pub tokens: AdminTokens,
    /// The registry of API keys.
    pub keys: Arc<dyn KeyDesk>,
    /// How kept answers are written and read.
    pub answers: Arc<dyn AnswerCodec>,
    /// How long an answer for this claim is kept, where an operator states one and does not say.
    pub retention: Arc<dyn Fn(&Identity) -> Retention + Send + Sync>,
    /// The classes of retention.
    pub retentions: Arc<dyn RetentionDesk>,
    /// What `/metrics` answers, in the OpenMetrics text format.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// What `/readyz` answers.
    pub ready: Arc<dyn Fn() -> Readiness + Send + Sync>,
    /// What `/v1/routes` answers.
    pub routes: Arc<dyn Fn() -> Value + Send + Sync>,
    /// Where the pages about problem codes are (H1).
    pub docs: String,
}

impl AdminState {
    /// A listener on this store with nothing around it: always ready, no metrics, no routes.
    pub fn new(
        store: Store,
        tokens: AdminTokens,
        keys: Arc<dyn KeyDesk>,
        answers: Arc<dyn AnswerCodec>,
    ) -> Self {
        AdminState {
            store,
            tokens,
            keys,
            answers,
            retention: Arc::new(|_| Retention::For(limits::SETTLED_RETENTION)),
            retentions: Arc::new(NoClasses),
            metrics: Arc::new(|| "# EOF\n".into()),
            ready: Arc::new(Readiness::default),
            routes: Arc::new(|| Value::Array(Vec::new())),
            docs: hapax_tower::problem::DOCS.into(),
        }
    }
}

impl std::fmt::Debug for AdminState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminState").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Whether this process can serve; where not, why not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// What is in the way; empty when nothing is.
    pub reasons: Vec<String>,
}

/// An HTTP answer as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The end-to-end headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// How kept answers are written and read. The format is not the admin listener's affair.
pub trait AnswerCodec: Send + Sync {
    /// What the ledger keeps for this answer of this claim.
    fn encode(&self, claim: &ClaimId, answer: &HttpAnswer) -> Result<Bytes, Error>;

    /// Reads what the ledger keeps for this claim.
    fn decode(&self, claim: &ClaimId, kept: &Bytes) -> Result<HttpAnswer, Error>;
}
