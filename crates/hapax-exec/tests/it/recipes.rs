//! A claim that was made under a recipe which this process does not have (K6, L2).

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::fingerprint::RequestParts;
use hapax_core::json::Pointer;
use hapax_core::registry::{Document, DocumentId, keep_recipe};
use hapax_core::{Error, Executed, Fingerprint, Recipe, Registry, Retry};
use hapax_exec::{Call, Ended, Executor, How, Recipes, Settings};
use hapax_store::Options;
use hapax_store::memory::Memory;

use crate::{Effects, call};

/// What another process has hashed by: JSON, but for one member.
fn theirs() -> Recipe {
    Recipe::json_ignoring([Pointer::new("/sent_at").unwrap()]).unwrap()
}

fn hashed(recipe: &Recipe, body: &str) -> Fingerprint {
    recipe.fingerprint(&RequestParts { body: body.as_bytes(), ..RequestParts::default() })
}

/// A call of a process whose own recipe is the raw one.
fn asked(body: &'static str) -> Call {
    let rehash = move |recipe: &Recipe| hashed(recipe, body);
    call("k").fingerprint(hashed(&Recipe::raw(), body)).rehash(Arc::new(rehash))
}

/// A store with an outcome that was claimed under the other process's recipe.
async fn used() -> Memory {
    let store = Memory::open(Options::default());
    let first = call("k").fingerprint(hashed(&theirs(), r#"{"amount": 1, "sent_at": 1}"#));
    let paid = Effects::default().then(Ended::succeeded("paid"));
    Executor::new(store.clone()).once(first, paid).await.unwrap();
    store
}

async fn knowing(store: &Memory, recipes: Recipes) -> Executor<Memory> {
    let settings = Settings { recipes: Arc::new(recipes), ..Settings::default() };
    Executor::open(store.clone(), settings).await.unwrap()
}

#[tokio::test]
async fn a_true_retry_is_replayed_under_a_recipe_that_only_the_registry_knows_k6() {
    let (store, effects) = (used().await, Effects::default());
    keep_recipe(&store, &theirs()).await.unwrap();
    let executor = knowing(&store, Recipes::kept_in(store.clone())).await;
    let paid = || effects.then(Ended::succeeded("paid twice"));
    let done = executor.once(asked(r#"{"sent_at": 2, "amount": 1}"#), paid()).await.unwrap();
    assert_eq!(done.how, How::Replayed);
    let error = executor.once(asked(r#"{"sent_at": 1, "amount": 2}"#), paid()).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("key-reused", Executed::No));
    assert_eq!(effects.count(), 0);
}

#[tokio::test]
async fn under_a_recipe_that_no_process_has_kept_it_is_refused_as_perhaps_the_same_e6() {
    let (store, effects) = (used().await, Effects::default());
    for recipes in [Recipes::default(), Recipes::kept_in(store.clone())] {
        let executor = knowing(&store, recipes).await;
        let paid = effects.then(Ended::succeeded("paid twice"));
        let error = executor.once(asked(r#"{"amount": 1}"#), paid).await.unwrap_err();
        assert_eq!((error.code(), error.executed()), ("key-reused", Executed::Unknown));
    }
    assert_eq!(effects.count(), 0);
}

/// A registry that cannot be asked.
#[derive(Clone)]
struct Away;

impl Away {
    fn error<T>() -> Result<T, Error> {
        Err(Error::unavailable("the registry is away"))
    }
}

impl Registry for Away {
    async fn get(&self, _: &DocumentId) -> Result<Option<Document>, Error> {
        Away::error()
    }

    async fn put(&self, _: &DocumentId, _: u64, _: Bytes) -> Result<u64, Error> {
        Away::error()
    }

    async fn delete(&self, _: &DocumentId, _: u64) -> Result<(), Error> {
        Away::error()
    }

    async fn list_documents(&self, _: &str, _: Option<&str>, _: usize) -> Result<Vec<Document>, Error> {
        Away::error()
    }
}

#[tokio::test]
async fn while_the_registry_is_away_a_retry_is_told_to_come_back_and_not_that_it_differs_e6() {
    let (store, effects) = (used().await, Effects::default());
    let executor = knowing(&store, Recipes::kept_in(Away)).await;
    let paid = effects.then(Ended::succeeded("paid twice"));
    let error = executor.once(asked(r#"{"amount": 1}"#), paid).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("ledger-unavailable", Executed::Unknown));
    assert!(matches!(error.retry(), Retry::SameKey(_)));
    assert_eq!(effects.count(), 0);
}
