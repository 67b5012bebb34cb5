//! Fetching the outcome of a call that a cluster keeps (D2, H7): output, and then, for whoever waits, attach. Nothing is executed.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Identity, Ledger, Registry, Scope, Width};
use hapax_exec::How;
use hapax_tower::{Code, OpaqueId, Problem, PublicId};

use super::answer::{from_handler, is_kept, may_be_absent, not_the_handlers};
use super::ask::{Asking, Patience};
use super::compare::Asked;
use super::{cluster_of, namespaced, object_in_path, sealed_target};
use crate::auth::Principal;
use crate::limits;
use crate::outlet::Pools;
use crate::record::Seen;
use crate::restate::nodes::{Question, Reply};
use crate::restate::{Address, Answered, Away, by_id, is_invocation_id};
use crate::settings::{Handler, Level, ObjectKey, Route};
use crate::stack::{Answer, Plan, Shared};

/// What is looked for.
struct Sought<'a> {
    route: &'a Route,
    handler: &'a Handler,
    address: Address,
    /// Which call, for `output` and `attach`.
    call: Bytes,
    /// What the cluster calls it, where it is known.
    invocation: Option<&'a str>,
    /// The path and query that it must have been sent to, where they are known.
    sent_to: Option<(&'a str, &'a str)>,
    /// Whose it is.
    identity: (&'a Scope, Width, &'a str),
}

/// The outcome of a key under the path that it was used with; `None` where there is none.
#[expect(clippy::too_many_arguments, reason = "what the whole request path hands on")]
pub(crate) async fn by_key<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    pools: &Pools,
    route: &Route,
    handler: &Handler,
    identity: &Identity,
    (path, query): (&str, &str),
    wait: Duration,
    seen: &mut Seen,
) -> Result<Option<Answer>, Problem> {
    let key = namespaced(identity, identity.key())?;
    let object = match &handler.key {
        None => None,
        Some(ObjectKey::Segment { number, .. }) => match object_in_path(path, *number) {
            Some(object) => Some(object),
            None => return Ok(None),
        },
        // Only the body names the object: such a route has no recall by key.
        Some(ObjectKey::Body(_)) => return Ok(None),
    };
    let address = Address { service: handler.service.clone(), key: object, handler: handler.name.clone() };
    let call = address.call(&key);
    let whose = (identity.scope(), identity.width(), identity.operation().as_str());
    let sent_to = Some((path, query));
    let sought = Sought { route, handler, address, call, invocation: None, sent_to, identity: whose };
    find(shared, plan, pools, &sought, wait, seen).await
}

/// The outcome of a delegated call by its public id, if it is this caller's; `None` where there is none.
pub(crate) async fn by_id_of<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    pools: &Pools,
    principal: &Principal,
    id: &OpaqueId,
    wait: Duration,
    seen: &mut Seen,
) -> Result<Option<Answer>, Problem> {
    let Some(seal) = &plan.seal else { return Ok(None) };
    for level in [Level::Project, Level::Tenant, Level::Platform] {
        let Some(scope) = principal.scope(level) else { continue };
        for width in [Width::Subject, Width::Project, Width::Tenant] {
            let Some((target, invocation)) = seal.open(&scope.narrowed(width), id) else { continue };
            let found = plan.table.delegated().find(|(route, handler, operation)| {
                let present = route.rule.as_ref().map(|rule| rule.width);
                route.level == level && present == Some(width) && sealed_target(handler, operation) == target
            });
            let Some((route, handler, operation)) = found else { return Ok(None) };
            let address =
                Address { service: handler.service.clone(), key: None, handler: handler.name.clone() };
            let call = by_id(&invocation);
            let identity = (&scope, width, operation);
            let invocation = Some(invocation.as_str());
            let sought = Sought { route, handler, address, call, invocation, sent_to: None, identity };
            seen.scope = Some(scope.clone());
            return find(shared, plan, pools, &sought, wait, seen).await;
        }
    }
    Ok(None)
}

async fn find<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    pools: &Pools,
    sought: &Sought<'_>,
    wait: Duration,
    seen: &mut Seen,
) -> Result<Option<Answer>, Problem> {
    let cluster = cluster_of(sought.route)?;
    let pool = pools.cluster(&sought.route.upstream, cluster)?;
    let (circuits, named) = (&shared.delegation.circuits, (&sought.address, sought.call.clone()));
    let most = sought.route.rule.as_ref().map_or(limits::PASSED_ANSWER, |rule| rule.max_kept_response);
    // A caller who has waited is still told how the call stands.
    let timeout = sought.route.timeout().max(wait + limits::ADMIN_WAIT);
    let asking = Asking::new(cluster, &pool, circuits, named, timeout, most);
    if let Some(id) = sought.invocation {
        asking.note(id);
    }
    let output = async || {
        let question = Question::posted("/restate/output", sought.call.clone());
        let asked = asking.ask(&question, Patience::Prompt).await;
        asked.map_err(|unanswered| unanswered.problem(timeout))
    };
    let mut reply = output().await?;
    if Answered::of(&reply) == Answered::UnderWay {
        if wait.is_zero() {
            return Err(asking.unfinished().await);
        }
        let question = Question::posted("/restate/attach", sought.call.clone());
        let waiting = asking.waited(asking.ask(&question, Patience::Long));
        match tokio::time::timeout(wait, waiting).await {
            Ok(attached) => reply = attached?,
            Err(_) => return Err(asking.unfinished().await),
        }
        if may_be_absent(&reply) {
            reply = output().await?;
        }
    }
    match Answered::of(&reply) {
        Answered::Absent => return Ok(None),
        Answered::UnderWay => return Err(asking.unfinished().await),
        Answered::Success | Answered::Failure => {}
        answered => return Err(not_the_handlers(&reply, answered)),
    }
    let id = reply.header("x-restate-id").filter(|id| is_invocation_id(id)).map(str::to_owned);
    seen.invocation.clone_from(&id);
    if let (Some(sent_to), Some(id)) = (sought.sent_to, &id)
        && !is_sent_to(&asking, sought.route, id, sent_to).await?
    {
        return Ok(None);
    }
    let (scope, width, operation) = sought.identity;
    let target = sealed_target(sought.handler, operation);
    let public = plan.seal.as_deref().zip(id.as_deref());
    let public = public.and_then(|(seal, id)| seal.seal(&scope.narrowed(width), target, id));
    hand_out(reply, sought.handler, public.map(PublicId::from), &shared.docs).map(Some)
}

fn hand_out(reply: Reply, handler: &Handler, id: Option<PublicId>, docs: &str) -> Result<Answer, Problem> {
    let expires = reply.header("idempotency-expires").map(str::to_owned);
    let how = if is_kept(&reply) { How::Replayed } else { How::Attached };
    match from_handler(reply, handler.envelope) {
        Ok(found) => Ok(found.stamped(expires.as_deref(), how, id, docs)),
        Err(problem) => Err(problem.about(id)),
    }
}

/// Whether a call was sent to this path with this query (H7). On a route without parameters there is but one path.
async fn is_sent_to(
    asking: &Asking<'_>,
    route: &Route,
    id: &str,
    (path, query): (&str, &str),
) -> Result<bool, Problem> {
    let away =
        |Away(cause): Away| Problem::new(Code::LedgerUnavailable).with("executed", "unknown").because(cause);
    let accepted = asking
        .admin
        .accepted(id, asking.within())
        .await
        .map_err(away)?
        .and_then(|accepted| accepted.fingerprint);
    let Some(accepted) = accepted else {
        // Nothing says where it was sent: with one path and no query, it can only have been here.
        return Ok(!route.path.contains('{') && query.is_empty());
    };
    Ok(Asked::read(&accepted).is_some_and(|asked| asked.is_to(route.method.as_str(), path, query)))
}
