//! What all processes on a store must agree on about operations, held against a configuration (K6).
//!
//! The first name of an operation is part of the identity of its claims; later names are labels. The store's registry keeps the first
//! name of every name, what the claims of each operation are identified by, and which operation each method and path has. A
//! configuration is held against that at a start, at a reload, and when the session of a process had lapsed, so that nothing is looked
//! up while a request is on its way. The rules are in `decide`, the documents in `documents`.

mod decide;
mod documents;
pub(crate) mod left;
mod standing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::join_all;
use hapax_core::registry::{DocumentId, keep_recipe};
use hapax_core::{Error, Filter, Inspect, Kind, Operation, Recipe, RecipeId, Registry, Source, Width};
use hapax_gateway::settings::{Fixed, Level, Webhooks};
use hapax_store::Lifecycle;

use crate::config::{Config, Mistake, Mistakes, Pattern, Place};
use crate::limits;
use decide::Deciding;
use documents::{Registered, Write};

pub(crate) use standing::Standing;

/// What a configuration says about operations.
#[derive(Clone, Debug)]
pub struct Operations {
    file: Arc<PathBuf>,
    keyed: Vec<Stated>,
    /// Endpoints that take no keys, with their places.
    unkeyed: Vec<(Place, String)>,
    retired: Vec<Operation>,
    webhooks: Option<Arc<Webhooks>>,
}

/// A keyed route, as far as other processes must agree with it.
#[derive(Clone, Debug)]
struct Stated {
    place: Place,
    name: Operation,
    was: Option<Vec<Operation>>,
    endpoint: String,
    method: String,
    path: String,
    identified_by: IdentifiedBy,
    recipe: Recipe,
}

/// What the claims of an operation are identified by, beside its first name and the key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IdentifiedBy {
    width: Width,
    level: Level,
    /// How the keys that are sent are found.
    source: Source,
    /// The recipe whose digest is the key, where there is no other (H9).
    derived: Option<RecipeId>,
    /// Whether all callers are one, whatever their credentials are.
    public: bool,
    /// Whose claims are where credentials say nothing, as far as that is part of their identity (A2).
    assumed: Fixed,
}

impl Operations {
    /// What this configuration says.
    pub fn of(config: &Config) -> Self {
        let routes = config.declared.iter().zip(&config.settings.routes);
        let unkeyed = routes.clone().filter(|(_, route)| route.rule.is_none());
        let unkeyed = unkeyed
            .map(|(declared, route)| (declared.place.clone(), endpoint(route.method.as_str(), &route.path)))
            .collect();
        let fixed = &config.settings.auth.fixed;
        let keyed = routes.filter_map(|(declared, route)| {
            let (name, rule) = (declared.operation.as_ref()?, route.rule.as_ref()?);
            Some(Stated {
                place: declared.place.clone(),
                name: name.clone(),
                was: declared.was.clone(),
                endpoint: endpoint(route.method.as_str(), &route.path),
                method: route.method.as_str().to_owned(),
                path: route.path.to_string(),
                identified_by: IdentifiedBy {
                    width: rule.width,
                    level: route.level,
                    source: rule.source(),
                    derived: rule.derived.map(|_| rule.recipe.id()),
                    public: route.public,
                    assumed: Fixed {
                        tenant: fixed.tenant.clone(),
                        project: fixed
                            .project
                            .clone()
                            .filter(|_| route.level == Level::Project && rule.width < Width::Tenant),
                    },
                },
                recipe: rule.recipe.clone(),
            })
        });
        Operations {
            file: Arc::new(config.file.clone()),
            keyed: keyed.collect(),
            unkeyed,
            retired: config.retired.clone(),
            webhooks: config.settings.webhooks.clone(),
        }
    }
}

/// A method and the requests that a path matches: how parameters are called does not matter, wherever in a segment they stand.
fn endpoint(method: &str, path: &str) -> String {
    let shape = Pattern::of_route(path).map_or_else(|_| path.to_owned(), |pattern| pattern.shape());
    format!("{method} {shape}")
}

/// When a configuration is held against the registry.
#[derive(Debug)]
pub enum Moment<'a, S> {
    /// A process starts. The store knows whether there are others.
    Start(&'a S),
    /// A process serves these operations and is to go on with another configuration.
    Reload(&'a [Operation]),
    /// The session of a process had lapsed.
    Again,
}

/// What else may rest on how an operation is identified, beside claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elsewhere {
    /// Nothing: the process that asks is the only one, and has taken no request yet.
    Nothing,
    /// Requests that this process has taken and not yet identified.
    Requests,
    /// Other processes, which go on as they are.
    Processes,
}

impl<S: Lifecycle> Moment<'_, S> {
    async fn elsewhere(&self) -> Result<Elsewhere, Error> {
        match self {
            Moment::Start(store) if store.is_shared().await? => Ok(Elsewhere::Processes),
            Moment::Start(_) => Ok(Elsewhere::Nothing),
            Moment::Reload(_) | Moment::Again => Ok(Elsewhere::Requests),
        }
    }
}

/// What was agreed on.
#[derive(Debug)]
pub struct Agreed {
    /// The first names of the operations, in the order of their routes.
    pub firsts: Vec<Operation>,
    /// What is worth telling.
    pub notices: Vec<String>,
}

impl Agreed {
    /// Lets the routes of the configuration claim under the first names.
    pub fn apply(&self, config: &mut Config) {
        let rules = config.settings.routes.iter_mut().filter_map(|route| route.rule.as_mut());
        for (rule, first) in rules.zip(&self.firsts) {
            let rule = Arc::make_mut(rule);
            rule.call(rule.name().clone(), Some(first.clone()));
        }
    }
}

/// Why a configuration cannot be used with a store.
#[derive(Debug)]
pub enum Disagreement {
    /// A key that was used could run again, or claims could not be found any more.
    Refused(Mistakes),
    /// The store could not be asked.
    Store(Error),
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disagreement::Refused(mistakes) => mistakes.fmt(f),
            Disagreement::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Disagreement {}

impl From<Error> for Disagreement {
    fn from(error: Error) -> Self {
        Disagreement::Store(error)
    }
}

/// Holds a configuration against what the registry keeps, and keeps there what is new. Where something is refused, nothing is written.
pub async fn agree<R: Registry, I: Inspect, S: Lifecycle>(
    registry: &R,
    inspect: &I,
    moment: &Moment<'_, S>,
    operations: &Operations,
) -> Result<Agreed, Disagreement> {
    for _ in 0..limits::AGREEMENT_ATTEMPTS {
        let registered = Registered::read(registry).await?;
        let elsewhere = moment.elsewhere().await?;
        let mut deciding = Deciding::new(&registered, inspect, elsewhere);
        let firsts = deciding.decide(operations).await?;
        match moment {
            Moment::Reload(served) => deciding.dropped(operations, served, &firsts).await?,
            Moment::Start(_) => deciding.forsaken(operations, &firsts).await?,
            Moment::Again => {}
        }
        let (refused, notices) = (deciding.refused, deciding.notices);
        if !refused.is_empty() {
            return Err(Disagreement::Refused(Mistakes::new(refused, &operations.file)));
        }
        let written = Written::put(registry, deciding.writes).await?;
        if deciding.is_alone && moment.elsewhere().await? != Elsewhere::Nothing {
            // A process whose session had lapsed is back. It holds what it does against the registry, which is as it was again.
            written.undo(registry).await?;
        } else if written.complete {
            keep_recipes(registry, operations).await?;
            return Ok(Agreed { firsts, notices });
        }
        // Another process has just written one of the documents: that is to be read before anything is decided.
    }
    Err(Error::unavailable("other processes keep changing what operations are identified by").into())
}

/// Every process can compare with what another one has hashed (K7).
async fn keep_recipes<R: Registry>(registry: &R, operations: &Operations) -> Result<(), Error> {
    let mut kept = std::collections::HashSet::new();
    for stated in operations.keyed.iter().filter(|stated| kept.insert(stated.recipe.id().0)) {
        keep_recipe(registry, &stated.recipe).await?;
    }
    Ok(())
}

/// Documents that were written, with what they were before.
struct Written {
    done: Vec<(DocumentId, u64, Option<bytes::Bytes>)>,
    /// Whether all of them were.
    complete: bool,
}

impl Written {
    /// Writes all that can be written, also where some were written by others meanwhile: so a second round finds less to do.
    async fn put<R: Registry>(registry: &R, writes: Vec<Write>) -> Result<Written, Error> {
        let mut written = Written { done: Vec::with_capacity(writes.len()), complete: true };
        // One after the other, each would wait for a commit of its own.
        for some in writes.chunks(limits::DOCUMENTS_AT_A_TIME) {
            let puts = some.iter().map(|write| registry.put(&write.id, write.expect, write.body.clone()));
            for (write, put) in some.iter().zip(join_all(puts).await) {
                match put {
                    Ok(version) => written.done.push((write.id.clone(), version, write.before.clone())),
                    Err(error) if error.kind() == Kind::Conflict => written.complete = false,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(written)
    }

    /// Brings back what was there before.
    async fn undo<R: Registry>(self, registry: &R) -> Result<(), Error> {
        for (id, version, before) in self.done {
            let undone = match before {
                Some(before) => registry.put(&id, version, before).await.map(drop),
                None => registry.delete(&id, version).await,
            };
            match undone {
                // What another process has made of it since is that process's to answer for.
                Err(error) if error.kind() == Kind::Conflict => {}
                undone => undone?,
            }
        }
        Ok(())
    }
}

/// The name that the claims of an operation are kept under; the name itself where the store does not know it.
pub(crate) async fn first_name<R: Registry>(registry: &R, name: &str) -> Result<String, Error> {
    documents::first_of(registry, name).await.map(|first| first.unwrap_or_else(|| name.to_owned()))
}

/// How many claims of an operation are not absent.
async fn claims_of<I: Inspect>(inspect: &I, operation: &str) -> Result<u64, Error> {
    claims_among(inspect, operation, Filter::default()).await
}

/// How many of these claims of an operation are not absent.
async fn claims_among<I: Inspect>(inspect: &I, operation: &str, among: Filter) -> Result<u64, Error> {
    let filter = Filter { operation: Some(operation.to_owned()), ..among };
    let counts = inspect.count(&filter).await?;
    Ok(counts.held + counts.settled + counts.in_doubt + counts.released)
}

/// A mistake that is about a route.
fn mistake(stated: &Stated, what: impl fmt::Display, remedy: impl Into<String>) -> Mistake {
    Mistake {
        place: stated.place.clone(),
        what: format!("{:?}: {what}", stated.name.as_str()),
        remedy: remedy.into(),
    }
}
