//! What a running process has agreed on with the others, and holds against the registry again once its session had lapsed (K6).

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::registry::recipe_of;
use hapax_core::{Error, Operation, Recipe, RecipeId};
use hapax_exec::Installation;
use tokio::sync::Mutex as AsyncMutex;

use super::{Moment, Operations, agree};
use crate::Store;

/// What a process serves, and the store that it is agreed on with others.
pub(crate) struct Standing {
    store: Store,
    served: Mutex<Served>,
    /// How many looks have begun.
    begun: AtomicU64,
    last: AsyncMutex<Look>,
}

/// What a process serves: its operations, and their first names.
#[derive(Clone)]
struct Served {
    operations: Arc<Operations>,
    firsts: Arc<[Operation]>,
}

/// The last look at the registry.
struct Look {
    number: u64,
    found: Result<(), Error>,
}

impl Standing {
    /// A process that serves these operations, whose claims are kept under these names.
    pub(crate) fn new(store: Store, operations: Operations, firsts: Vec<Operation>) -> Self {
        let served = Served { operations: Arc::new(operations), firsts: firsts.into() };
        let last = AsyncMutex::new(Look { number: 0, found: Ok(()) });
        Standing { store, served: Mutex::new(served), begun: AtomicU64::new(0), last }
    }

    /// What is served.
    pub(crate) fn operations(&self) -> Arc<Operations> {
        self.served().operations
    }

    /// The first names of the operations that are served.
    pub(crate) fn firsts(&self) -> Arc<[Operation]> {
        self.served().firsts
    }

    /// Other operations are served from now on.
    pub(crate) fn serve(&self, operations: Operations, firsts: Vec<Operation>) {
        let served = Served { operations: Arc::new(operations), firsts: firsts.into() };
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = served;
    }

    fn served(&self) -> Served {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls that ask at the same time share one look, if it has begun after they asked.
    async fn look(&self) -> Result<(), Error> {
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if last.number > asked {
            return last.found.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let found = self.look_alone().await;
        match (&last.found, &found) {
            (Ok(()), Err(error)) => tracing::error!("nothing is claimed: {error:#}"),
            (Err(_), Ok(())) => tracing::info!("claims are made again"),
            _ => {}
        }
        *last = Look { number, found: found.clone() };
        found
    }

    async fn look_alone(&self) -> Result<(), Error> {
        let Served { operations, firsts } = self.served();
        let agreed = agree(&self.store, &self.store, &Moment::<Store>::Again, &operations).await;
        let cause = match agreed {
            Ok(agreed) if agreed.firsts == *firsts => return Ok(()),
            Ok(_) => "an operation has another first name".to_owned(),
            Err(super::Disagreement::Store(error)) => return Err(error),
            Err(refused) => refused.to_string(),
        };
        let what = "what operations are identified by was changed while the session of this process had lapsed; restart it";
        Err(Error::unavailable(what).with_detail(cause))
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl Installation for Standing {
    fn agree(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.look())
    }

    fn recipe(&self, id: RecipeId) -> BoxFuture<'_, Option<Recipe>> {
        Box::pin(recipe_of(&self.store, id))
    }
}
