//! What each operation's claims are identified by must not change while claims rest on it (K6).
//!
//! The store's registry remembers it, so that this is noticed by whichever process reads a changed configuration. The rule
//! itself is `hapax_core::registry::may_change`.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hapax_core::registry::{DocumentId, Elsewhere, IdentityRecipe, keep_recipe, may_change};
use hapax_core::{Error, Filter, Inspect, Kind, Operation, RecipeId, Registry, Width};
use hapax_gateway::settings::Level;
use hapax_tower::Former;
use serde::{Deserialize, Serialize};

use super::route::level_of;
use super::{Config, Declared, Mistake, Mistakes, level_word};
use crate::limits;

/// The kind of the registry's documents, one for each operation.
pub const KIND: &str = "operation";

/// Why a configuration cannot be used with a store.
#[derive(Debug)]
pub enum RecipeError {
    /// It would turn kept claims into something else.
    Refused(Mistakes),
    /// The store could not be asked.
    Store(Error),
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecipeError::Refused(mistakes) => mistakes.fmt(f),
            RecipeError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecipeError {}

impl From<Error> for RecipeError {
    fn from(error: Error) -> Self {
        RecipeError::Store(error)
    }
}

/// What an operation's claims are identified by, with whom its route belongs to: that says which parts a scope has.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    identity: IdentityRecipe,
    /// What was kept before levels were has none.
    level: Option<Level>,
}

impl PartialEq for Recipe {
    fn eq(&self, other: &Self) -> bool {
        let same_level = self.level.zip(other.level).is_none_or(|(one, another)| one == another);
        self.identity == other.identity && same_level
    }
}

/// A document as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    width: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    /// The recipe's name in hexadecimal.
    fingerprint: String,
    /// The operation's former name, whose claims may outlive yet another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<String>,
}

/// One document that is to be written.
struct Write {
    id: DocumentId,
    expect: u64,
    body: Bytes,
}

/// Checks every operation against what the store remembers, and remembers what is new. Where one is refused, nothing is
/// written. Every fingerprint recipe is kept by its id. Operations that had other names get to know those that claims still rest on. Gives back what is worth telling.
pub async fn check_recipes<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    elsewhere: Elsewhere,
    config: &mut Config,
) -> Result<Vec<String>, RecipeError> {
    for _ in 0..limits::RECIPE_ATTEMPTS {
        let writes = decide(registry, inspect, elsewhere, config).await?;
        match write(registry, writes).await {
            // Another process has just written one of them: that is to be read before anything is decided.
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error.into()),
            Ok(()) => {
                for rule in config.settings.routes.iter().filter_map(|route| route.rule.as_ref()) {
                    keep_recipe(registry, &rule.recipe).await?;
                }
                return Ok(look_back(registry, inspect, config).await?);
            }
        }
    }
    Err(Error::unavailable("other processes keep changing what operations are identified by").into())
}

/// Finds what claims still rest on that no route has the name of: what it is called now, or that nothing is.
async fn look_back<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    config: &mut Config,
) -> Result<Vec<String>, Error> {
    let mut notices = Vec::new();
    for (declared, route) in config.declared.iter().zip(&mut config.settings.routes) {
        let (Some(was), Some(rule)) = (&declared.was, &mut route.rule) else { continue };
        let formerly = former_names(registry, inspect, was).await?;
        if formerly.is_none() {
            notices.push(format!("{}: the store knows no operation {:?}", declared.place, was.as_str()));
        }
        Arc::make_mut(rule).formerly = formerly.unwrap_or_default();
    }
    let forsaken = forsaken(registry, inspect, config).await?;
    if !forsaken.is_empty() {
        notices.push(format!(
            "claims rest on operations that no route has here: {}. Their keys are new to any other operation; where one was renamed, \
             say `was = \"its old name\"`",
            forsaken.join(", ")
        ));
    }
    Ok(notices)
}

/// The names that an operation had, the latest first, with who shared its outcomes under each; only those that claims rest on.
/// `None` where the store has never heard of the latest.
async fn former_names<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    was: &Operation,
) -> Result<Option<Vec<Former>>, Error> {
    let (mut names, mut next) = (Vec::new(), Some(was.clone()));
    for step in 0..limits::FORMER_NAMES {
        let Some(operation) = next else { break };
        let Some(document) = registry.get(&DocumentId::new(KIND, operation.as_str())?).await? else {
            if step == 0 {
                return Ok(None);
            }
            break;
        };
        next = earlier(&document.body)?;
        if live(inspect, &operation).await? > 0 {
            names.push(Former { width: parse(&document.body)?.identity.width, operation });
        }
    }
    Ok(Some(names))
}

/// Operations that the store knows and no route has, with how many claims rest on each.
async fn forsaken<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    config: &Config,
) -> Result<Vec<String>, Error> {
    let rules = config.settings.routes.iter().filter_map(|route| route.rule.as_ref());
    let names =
        rules.flat_map(|rule| rule.formerly.iter().map(|former| &former.operation).chain([&rule.operation]));
    let known: HashSet<&str> = names.map(Operation::as_str).collect();
    let (mut forsaken, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = registry.list_documents(KIND, after.as_deref(), hapax_core::limits::MAX_PAGE).await?;
        let Some(last) = page.last() else { return Ok(forsaken) };
        after = Some(last.id.id().to_owned());
        for document in &page {
            let name = document.id.id();
            let Some(operation) = Operation::new(name).ok().filter(|_| !known.contains(name)) else {
                continue;
            };
            match live(inspect, &operation).await? {
                0 => {}
                claims => forsaken.push(format!("{name:?} (claims: {claims})")),
            }
        }
    }
}

async fn decide<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    elsewhere: Elsewhere,
    config: &Config,
) -> Result<Vec<Write>, RecipeError> {
    let (mut writes, mut refused) = (Vec::new(), Vec::new());
    for (declared, route) in config.declared.iter().zip(&config.settings.routes) {
        let (Some(operation), Some(identity)) = (&declared.operation, declared.recipe) else { continue };
        let asked = Recipe { identity, level: Some(route.level) };
        if let Some(was) = &declared.was
            && !has_level(registry, inspect, was, route.level).await?
        {
            let what = format!("`was`: claims rest on {:?}, which has another level", was.as_str());
            let remedy = "keep the level until they have ended".to_owned();
            refused.push(Mistake { place: declared.place.clone(), what, remedy });
        }
        let id = DocumentId::new(KIND, operation.as_str())?;
        let document = registry.get(&id).await?;
        let kept = document.as_ref().map(|document| parse(&document.body)).transpose()?;
        if kept.is_some_and(|kept| kept == asked && kept.level.is_some()) {
            continue;
        }
        let live = if kept.is_some() { live(inspect, operation).await? } else { 0 };
        match may_change(kept, asked, live, elsewhere) {
            Ok(()) => writes.push(Write {
                id,
                expect: document.map_or(0, |document| document.version),
                body: render(asked, declared)?,
            }),
            Err(error) => refused.push(mistake(declared, operation, live, &error)),
        }
    }
    if refused.is_empty() {
        return Ok(writes);
    }
    Err(RecipeError::Refused(Mistakes::new(refused, &Arc::new(config.file.clone()))))
}

/// Whether what rests on an operation can be found by callers of routes of this level.
async fn has_level<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    operation: &Operation,
    level: Level,
) -> Result<bool, Error> {
    let document = registry.get(&DocumentId::new(KIND, operation.as_str())?).await?;
    let kept = document.map(|document| parse(&document.body)).transpose()?.and_then(|kept| kept.level);
    Ok(kept.is_none_or(|kept| kept == level) || live(inspect, operation).await? == 0)
}

/// Writes all that can be written, also where some were written by others meanwhile: so a second round finds nothing new.
async fn write<R: Registry>(registry: &R, writes: Vec<Write>) -> Result<(), Error> {
    let mut done = Ok(());
    for write in writes {
        match registry.put(&write.id, write.expect, write.body).await {
            Err(error) if error.kind() == Kind::Conflict => done = Err(error),
            written => _ = written?,
        }
    }
    done
}

/// Claims that somebody could still be answered from. A released one holds nothing.
async fn live<I: Inspect>(inspect: &I, operation: &Operation) -> Result<u64, Error> {
    let filter = Filter { operation: Some(operation.as_str().to_owned()), ..Filter::default() };
    let counts = inspect.count(&filter).await?;
    Ok(counts.held + counts.settled + counts.in_doubt)
}

fn mistake(declared: &Declared, operation: &Operation, live: u64, error: &Error) -> Mistake {
    let (what, remedy) = error.message().split_once("; ").unwrap_or((error.message(), "undo the change"));
    let what = format!("{:?}: {what} (claims: {live})", operation.as_str());
    Mistake { place: declared.place.clone(), what, remedy: remedy.to_owned() }
}

fn corrupt() -> Error {
    Error::corrupt("what an operation is identified by cannot be read from the registry")
}

fn kept(body: &[u8]) -> Result<Kept, Error> {
    serde_json::from_slice(body).map_err(|_| corrupt())
}

/// The name that an operation had before.
fn earlier(body: &[u8]) -> Result<Option<Operation>, Error> {
    kept(body)?.was.map(Operation::new).transpose()
}

fn parse(body: &[u8]) -> Result<Recipe, Error> {
    let kept = kept(body)?;
    let widths = [Width::Subject, Width::Project, Width::Tenant];
    let width = widths.into_iter().find(|width| width.as_str() == kept.width).ok_or_else(corrupt)?;
    let fingerprint = u64::from_str_radix(&kept.fingerprint, 16).map_err(|_| corrupt())?;
    let level = kept.level.map(|word| level_of(&word).ok_or_else(corrupt)).transpose()?;
    Ok(Recipe { identity: IdentityRecipe { width, fingerprint: RecipeId(fingerprint) }, level })
}

fn render(recipe: Recipe, declared: &Declared) -> Result<Bytes, Error> {
    let kept = Kept {
        width: recipe.identity.width.as_str().to_owned(),
        level: recipe.level.map(|level| level_word(level).to_owned()),
        fingerprint: format!("{:016x}", recipe.identity.fingerprint.0),
        was: declared.was.as_ref().map(|was| was.as_str().to_owned()),
    };
    let body = serde_json::to_vec(&kept)
        .map_err(|error| Error::internal("a recipe has no JSON").with_detail(error))?;
    Ok(body.into())
}
