//! Fetching an outcome whose answer was lost (H7).
//!
//! By key, under the route it was sent to, or by operation id. Only its own caller gets it: absent, foreign and expired are
//! the same answer, after the same number of reads.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{Identity, Ledger, OperationId, Registry, Width};
use hapax_exec::{Done, Reason};
use hapax_tower::prefer::Prefer;
use hapax_tower::{Claimant, Code, Problem, PublicId};
use http::{Method, request};

use crate::auth::AuthError;
use crate::auth::caller::Caller;
use crate::clock;
use crate::intake::Hop;
use crate::limits;
use crate::outlet::{Pools, delegate};
use crate::record::Seen;
use crate::route::{Recall, RecallBy};
use crate::settings::{Level, Route};
use crate::stack::{Answer, Plan, Shared};

/// Answers a request for an outcome. Its caller is authenticated first.
pub(crate) async fn answer<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    pools: &Pools,
    recall: Recall,
    head: &request::Parts,
    hop: &Hop,
    seen: &mut Seen,
) -> Result<Answer, Problem> {
    let caller = Caller::identify(&plan.auth, head, hop.peer, hop.trusted).await?;
    let bound = match recall.wait {
        true => Prefer::of(&head.headers).wait.unwrap_or(limits::RECALL_WAIT).min(limits::RECALL_WAIT),
        false => Duration::ZERO,
    };
    if let RecallBy::Operation(id) = &recall.by
        && let Ok(PublicId::Opaque(id)) = id.parse()
    {
        let Caller::Known(principal) = &caller else { return Err(Problem::from(&AuthError::Missing)) };
        let found = delegate::recall::by_id_of(shared, plan, pools, principal, &id, bound, seen);
        return Box::pin(found).await?.ok_or_else(|| Problem::new(Code::NotFound));
    }
    let (claims, operation) = match &recall.by {
        RecallBy::Key { routes, key, path } => {
            let target = Asked { path, query: head.uri.query().unwrap_or_default() };
            let (claims, delegated) = by_key(shared, &caller, routes, key, target, seen).await?;
            // What a cluster keeps is asked for there, before the ledger: each key is in one of them.
            for (route, identity) in delegated {
                let Some(handler) = &route.handler else { continue };
                let asked = (target.path, target.query);
                let found = delegate::recall::by_key(
                    shared, plan, pools, &route, handler, &identity, asked, bound, seen,
                );
                if let Some(answer) = Box::pin(found).await? {
                    return Ok(answer);
                }
            }
            (claims, None)
        }
        RecallBy::Operation(id) => {
            let (identity, id) = by_operation(shared, plan, &caller, id, seen).await?;
            (vec![(identity, true)], Some(id))
        }
    };
    match first_outcome(shared, claims, operation, bound).await? {
        Some((identity, done)) => Ok(shared.protect.replay(&identity, &seen.method, &done)),
        None => Err(Problem::new(Code::NotFound)),
    }
}

/// The path and query that a key is asked for under, which it must have been used with (H7).
#[derive(Clone, Copy)]
struct Asked<'a> {
    path: &'a str,
    query: &'a str,
}

/// The first of these claims that has an outcome, if it was made under the path that is asked for. Only if none has does it matter why: what one method of a path has left in
/// doubt or under way does not hide what another one kept, and is waited for only where nothing else is to be had.
async fn first_outcome<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    claims: Vec<(Identity, bool)>,
    operation: Option<OperationId>,
    bound: Duration,
) -> Result<Option<(Identity, Done)>, Problem> {
    let (executor, by) = (shared.protect.executor(), clock::now() + bound);
    let at_first = if claims.len() == 1 { bound } else { Duration::ZERO };
    let (mut under_way, mut failed) = (Vec::new(), None);
    for (identity, is_asked_for) in claims {
        let patience = if is_asked_for { at_first } else { Duration::ZERO };
        match executor.recall(identity.claim_id(), operation, patience).await {
            // What was used elsewhere is looked for like what is not there.
            _ if !is_asked_for => {}
            Ok(Some(done)) => return Ok(Some((identity, done))),
            Ok(None) => {}
            Err(error) if at_first < bound && matches!(error.reason(), Reason::InProgress) => {
                under_way.push(identity);
            }
            Err(error) => failed = Some(weightier(failed, error)),
        }
    }
    for identity in under_way {
        let left = by.saturating_duration_since(clock::now());
        match executor.recall(identity.claim_id(), operation, left).await {
            Ok(Some(done)) => return Ok(Some((identity, done))),
            Ok(None) => {}
            Err(error) => failed = Some(weightier(failed, error)),
        }
    }
    failed.map_or(Ok(None), |error| Err(Problem::from(&error)))
}

/// Which of two to tell: the first, unless it only says that an attempt failed. To whoever hears that, the key is free.
fn weightier(first: Option<hapax_exec::Error>, second: hapax_exec::Error) -> hapax_exec::Error {
    match first {
        Some(first) if !matches!(first.reason(), Reason::AttemptFailed { .. }) => first,
        _ => second,
    }
}

/// Whoever cannot be asked for an outcome does not say that nothing was done.
fn unsure(problem: Problem) -> Problem {
    match problem.code() {
        Code::LedgerUnavailable => problem.with("executed", "unknown"),
        _ => problem,
    }
}

/// What a cluster may keep, by the route that leads there.
type Delegated = Vec<(Arc<Route>, Identity)>;

/// The claims that this key of this caller can have here: one for each route with this path that the caller reaches, whatever
/// its method, and whether it was made with this path and query. Those that a cluster keeps are apart.
async fn by_key<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    caller: &Caller,
    routes: &Arc<[Arc<Route>]>,
    key: &str,
    asked: Asked<'_>,
    seen: &mut Seen,
) -> Result<(Vec<(Identity, bool)>, Delegated), Problem> {
    // What cannot be a key was never one: the same answer as for a key that is not there. Nor is one in quotes, as in a header,
    // or with an escape: every character of a key can do without.
    let read = hapax_core::key::from_header(key.as_bytes()).ok().filter(|read| read.as_str() == key);
    let key = read.ok_or_else(|| Problem::new(Code::NotFound))?;
    seen.key = Some(key.clone());
    let (mut identities, mut delegated, mut refused) = (Vec::with_capacity(routes.len()), Vec::new(), None);
    for (route, rule) in routes.iter().filter_map(|route| Some((route, route.rule.as_ref()?))) {
        let scope = match caller.scope(route.level) {
            Ok(scope) => scope,
            // Another method of this path may be within reach.
            Err(problem) => {
                seen.scope = seen.scope.take().or_else(|| caller.own_scope());
                refused = Some(problem);
                continue;
            }
        };
        seen.scope = Some(scope.clone());
        let claimant = Claimant { source: rule.source(), scope, width: Width::Subject, key: key.clone() };
        let found = claimant.under(rule);
        if route.handler.is_some() {
            delegated.push((route.clone(), found));
            continue;
        }
        // A `HEAD` follows the route for `GET`.
        let methods = [route.method.clone(), Method::HEAD];
        let methods = if route.method == Method::GET { &methods[..] } else { &methods[..1] };
        let is_to = shared.protect.is_to(&found, methods, asked.path, asked.query).await.map_err(unsure)?;
        identities.push((found, is_to));
    }
    match refused {
        Some(problem) if identities.is_empty() && delegated.is_empty() => Err(problem),
        _ => Ok((identities, delegated)),
    }
}

/// The claim behind an operation id, if it is this caller's under the width it was kept with and the route's present one (K8),
/// and the caller has the level and the project that the route asks for, as it must have to send a retry (A6). What no route does
/// any more asks for no level that could be checked: nobody gets it.
async fn by_operation<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    caller: &Caller,
    id: &str,
    seen: &mut Seen,
) -> Result<(Identity, OperationId), Problem> {
    let not_found = || Problem::new(Code::NotFound);
    let Caller::Known(principal) = caller else { return Err(Problem::from(&AuthError::Missing)) };
    let id = match id.parse() {
        Ok(PublicId::Operation(id)) => id,
        // Of a call whose claim is kept elsewhere: that was asked for there.
        Ok(PublicId::Opaque(_)) | Err(_) => return Err(not_found()),
    };
    for level in [Level::Project, Level::Tenant, Level::Platform] {
        let Some(scope) = principal.scope(level) else { continue };
        let located = shared.protect.executor().ledger().locate(id, &scope).await;
        let located = located.map_err(|error| unsure(Problem::from(&hapax_exec::Error::from(error))))?;
        let Some(identity) = located else { continue };
        let operation = identity.operation().as_str();
        // A scope that drops the project looks the same on every level.
        let route = plan.table.of_operation(operation).filter(|route| route.level == level);
        let width = route.and_then(|route| Some(route.rule.as_ref()?.width));
        // What may not be seen is looked for as long as what is not there.
        if width.is_some_and(|width| identity.scope().narrowed(width) == scope.narrowed(width)) {
            seen.scope = Some(scope);
            return Ok((identity, id));
        }
    }
    Err(not_found())
}
