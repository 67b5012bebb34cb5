//! What the processes on one ledger share beside its claims: what claims are identified by (K6) and how fingerprints are made (K7).
//!
//! Neither is looked up while a request is on its way, but in two cases: the session of this process had lapsed, or a claim was made
//! with a fingerprint recipe that this process does not have. What is shared, and where it is kept, is for an [`Installation`] to say.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hapax_core::{Error, Recipe, RecipeId, Session};

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What the processes on one ledger share beside its claims.
pub trait Installation: Send + Sync + 'static {
    /// Whether this process still identifies claims as the others do. It is asked once the session of this process lives again after
    /// a lapse: until then the others could take it for gone. Nothing is run here while the answer is an error.
    fn agree(&self) -> BoxFuture<'_, ()>;

    /// The fingerprint recipe with this id; `None` where no process has ever had it.
    fn recipe(&self, id: RecipeId) -> BoxFuture<'_, Option<Recipe>>;
}

/// The installation, and for which life of the session it was last agreed with.
pub(crate) struct Peers {
    installation: Option<Arc<dyn Installation>>,
    /// The lapses of the session that were followed by an agreement.
    agreed: AtomicU64,
}

impl Peers {
    /// Agreed with at this moment.
    pub(crate) fn new(installation: Option<Arc<dyn Installation>>, session: &Session) -> Self {
        Peers { installation, agreed: AtomicU64::new(session.lapses) }
    }

    /// Whether the session has not lapsed since the last agreement, as far as is known.
    pub(crate) fn is_agreed(&self, session: &Session) -> bool {
        self.agreed.load(Ordering::Acquire) == session.lapses
    }

    /// Asks whether this process may go on claiming. The session is one that lives.
    pub(crate) async fn agree(&self, session: &Session) -> Result<(), Error> {
        if let Some(installation) = &self.installation {
            installation.agree().await?;
        }
        self.agreed.fetch_max(session.lapses, Ordering::AcqRel);
        Ok(())
    }

    /// The recipe with this id: one of those without options, or one that the installation keeps.
    pub(crate) async fn recipe(&self, id: RecipeId) -> Result<Option<Recipe>, Error> {
        let plain = [Recipe::raw(), Recipe::json(), Recipe::form(), Recipe::none()];
        if let Some(recipe) = plain.into_iter().find(|recipe| recipe.id() == id) {
            return Ok(Some(recipe));
        }
        match &self.installation {
            Some(installation) => installation.recipe(id).await,
            None => Ok(None),
        }
    }
}
