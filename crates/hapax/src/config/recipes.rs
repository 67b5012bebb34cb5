//! What each operation's claims are identified by must not change while claims rest on it (K6).
//!
//! The store's registry remembers it, so that this is noticed by whichever process reads a changed configuration. The rule
//! itself is `hapax_core::registry::may_change`.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hapax_core::registry::{DocumentId, IdentityRecipe, may_change};
use hapax_core::{Error, Filter, Inspect, Kind, Operation, RecipeId, Registry, Width};
use serde::{Deserialize, Serialize};

use super::{Config, Declared, Mistake, Mistakes};
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

/// A document as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    width: String,
    /// The recipe's name in hexadecimal.
    fingerprint: String,
    /// The operation's former name, for people who look it up.
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
/// written.
pub async fn check_recipes<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    config: &Config,
) -> Result<(), RecipeError> {
    for _ in 0..limits::RECIPE_ATTEMPTS {
        let writes = decide(registry, inspect, config).await?;
        match write(registry, writes).await {
            // Another process has just written one of them: that is to be read before anything is decided.
            Err(error) if error.kind() == Kind::Conflict => {}
            done => return done.map_err(RecipeError::from),
        }
    }
    Err(Error::unavailable("other processes keep changing what operations are identified by").into())
}

async fn decide<R: Registry, I: Inspect>(
    registry: &R,
    inspect: &I,
    config: &Config,
) -> Result<Vec<Write>, RecipeError> {
    let (mut writes, mut refused) = (Vec::new(), Vec::new());
    for declared in &config.declared {
        let (Some(operation), Some(asked)) = (&declared.operation, declared.recipe) else { continue };
        let id = DocumentId::new(KIND, operation.as_str())?;
        let document = registry.get(&id).await?;
        let kept = document.as_ref().map(|document| parse(&document.body)).transpose()?;
        if kept == Some(asked) {
            continue;
        }
        let live = if kept.is_some() { live(inspect, operation).await? } else { 0 };
        match may_change(kept, asked, live) {
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

fn parse(body: &[u8]) -> Result<IdentityRecipe, Error> {
    let corrupt = || Error::corrupt("what an operation is identified by cannot be read from the registry");
    let kept: Kept = serde_json::from_slice(body).map_err(|_| corrupt())?;
    let widths = [Width::Subject, Width::Project, Width::Tenant];
    let width = widths.into_iter().find(|width| width.as_str() == kept.width).ok_or_else(corrupt)?;
    let fingerprint = u64::from_str_radix(&kept.fingerprint, 16).map_err(|_| corrupt())?;
    Ok(IdentityRecipe { width, fingerprint: RecipeId(fingerprint) })
}

fn render(recipe: IdentityRecipe, declared: &Declared) -> Result<Bytes, Error> {
    let kept = Kept {
        width: recipe.width.as_str().to_owned(),
        fingerprint: format!("{:016x}", recipe.fingerprint.0),
        was: declared.was.as_ref().map(|was| was.as_str().to_owned()),
    };
    let body = serde_json::to_vec(&kept)
        .map_err(|error| Error::internal("a recipe has no JSON").with_detail(error))?;
    Ok(body.into())
}
