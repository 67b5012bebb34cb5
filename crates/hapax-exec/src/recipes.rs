//! Fingerprint recipes by their ids (K6): those that every process knows, and those that the registry keeps.
//!
//! A claim names the recipe that its request was hashed by. A process whose configuration has another recipe asks here for the
//! claim's own one, so that a true retry is known as one. Which recipes the registry keeps is decided by the node.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::registry::recipe_of;
use hapax_core::{Error, Recipe, RecipeId, Registry};

use crate::limits;

type Lookup = Pin<Box<dyn Future<Output = Result<Option<Recipe>, Error>> + Send>>;

/// Finds recipes. A recipe never changes, so what was found once is remembered.
pub struct Recipes {
    kept: Option<Box<dyn Fn(RecipeId) -> Lookup + Send + Sync>>,
    found: Mutex<VecDeque<Arc<Recipe>>>,
}

impl Recipes {
    /// Those that every process knows, and those that this registry keeps.
    pub fn kept_in<R: Registry>(registry: R) -> Self {
        let look_up = move |id| -> Lookup {
            let registry = registry.clone();
            Box::pin(async move { recipe_of(&registry, id).await })
        };
        Recipes { kept: Some(Box::new(look_up)), found: Mutex::default() }
    }

    /// The recipe with this id; `None` where no process has kept it. Reads the registry, unless the recipe was found before.
    pub(crate) async fn find(&self, id: RecipeId) -> Result<Option<Arc<Recipe>>, Error> {
        let known = [Recipe::raw(), Recipe::json(), Recipe::form(), Recipe::none()];
        if let Some(recipe) = known.into_iter().find(|recipe| recipe.id() == id) {
            return Ok(Some(Arc::new(recipe)));
        }
        let remembered = self.found().iter().find(|recipe| recipe.id() == id).cloned();
        if remembered.is_some() {
            return Ok(remembered);
        }
        let Some(look_up) = &self.kept else { return Ok(None) };
        let Some(recipe) = look_up(id).await?.map(Arc::new) else { return Ok(None) };
        let mut found = self.found();
        if found.len() >= limits::RECIPES {
            found.pop_front();
        }
        found.push_back(recipe.clone());
        Ok(Some(recipe))
    }

    fn found(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Recipe>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those that every process knows.
impl Default for Recipes {
    fn default() -> Self {
        Recipes { kept: None, found: Mutex::default() }
    }
}

impl fmt::Debug for Recipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::registry::{DocumentId, RECIPE_KIND, keep_recipe};
    use hapax_store::Options;
    use hapax_store::memory::Memory;

    use super::*;

    fn with_header(number: usize) -> Recipe {
        Recipe::raw().with_headers([format!("x-{number}")]).unwrap()
    }

    #[tokio::test]
    async fn a_recipe_is_read_from_the_registry_once_and_remembered_within_a_bound_k6() {
        let registry = Memory::open(Options::default());
        let recipes = Recipes::kept_in(registry.clone());
        let first = with_header(0);
        assert!(recipes.find(first.id()).await.unwrap().is_none(), "not kept yet");
        for number in 0..=limits::RECIPES {
            keep_recipe(&registry, &with_header(number)).await.unwrap();
        }
        assert_eq!(recipes.find(first.id()).await.unwrap().as_deref(), Some(&first));
        let document = DocumentId::new(RECIPE_KIND, format!("{:016x}", first.id().0)).unwrap();
        registry.delete(&document, 1).await.unwrap();
        assert_eq!(recipes.find(first.id()).await.unwrap().as_deref(), Some(&first), "remembered");
        for number in 1..=limits::RECIPES {
            assert!(recipes.find(with_header(number).id()).await.unwrap().is_some());
        }
        assert_eq!(recipes.found().len(), limits::RECIPES);
        assert!(recipes.find(first.id()).await.unwrap().is_none(), "forgotten for later ones");
    }

    #[tokio::test]
    async fn the_plain_recipes_are_known_without_a_registry_k6() {
        for recipe in [Recipe::raw(), Recipe::json(), Recipe::form(), Recipe::none()] {
            assert_eq!(Recipes::default().find(recipe.id()).await.unwrap().as_deref(), Some(&recipe));
        }
        assert!(Recipes::default().find(with_header(0).id()).await.unwrap().is_none());
    }
}
