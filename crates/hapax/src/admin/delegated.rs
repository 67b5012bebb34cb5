//! Calls whose claims a Restate cluster keeps: listed, shown, purged and killed by operators (D2, L8).
//!
//! Whose a call is stands in its key, which only the edge writes. An operator names the scope that is meant, and a call of any other is
//! not there: so a key that looks like another tenant's cannot lead to that tenant's call.

use std::sync::Arc;

use hapax_api::{
    DecideDelegated, Delegated, DelegatedCall, DelegatedDecided, DelegatedQuery, DelegatedScope,
    operations as op,
};
use hapax_core::claim::audit::Setting;
use hapax_core::registry::DocumentId;
use hapax_core::scope::parse_namespaced;
use hapax_core::{Error, Inspect as _, Kind, Registry as _, Scope, Tenant, Width};
use hapax_gateway::restate::{Admin, Away, Invocation, Settled, is_invocation_id};
use hapax_gateway::settings::Upstream;
use hapax_tower::{Code, Problem};

use super::AdminState;
use super::access::Operator;
use super::claims::{check_scope, page_size};
use super::decide::{actor, reason};
use crate::config::{is_name, name_remedy};
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::{ListenerCode, Refusal};

/// The kind of the registry's documents about what operators did to calls.
const KIND: &str = "delegated";

/// Whose calls are meant.
struct Meant {
    tenant: Tenant,
    project: Option<String>,
    subject: Option<String>,
}

impl Meant {
    fn of(tenant: Option<&str>, project: Option<&str>, subject: Option<&str>) -> Result<Self, Refusal> {
        let tenant = tenant.ok_or_else(|| Refusal::malformed("`tenant` is missing: say whose call it is"))?;
        let (project, subject) = (project.map(str::to_owned), subject.map(str::to_owned));
        check_scope(project.as_deref(), subject.as_deref())?;
        if subject.is_some() && project.is_none() {
            return Err(Refusal::malformed("`subject` needs `project`: a subject is one of a project"));
        }
        Ok(Meant { tenant: Tenant::new(tenant)?, project, subject })
    }

    /// How the keys of these calls begin.
    fn begins(&self) -> String {
        let mut begins = format!("t-{}:", self.tenant);
        for part in [&self.project, &self.subject].into_iter().flatten() {
            begins.push_str(part);
            begins.push(':');
        }
        begins
    }

    /// The call as it is shown, if it is one of these: read part by part, not by how its key begins.
    fn shown(&self, upstream: &str, call: Invocation) -> Option<DelegatedCall> {
        let (scope, _, key) = parse_namespaced(call.idempotency_key.as_deref()?).ok()?;
        let parts = scope.narrowed(Width::Subject);
        let is_meant = parts.tenant() == self.tenant.as_str()
            && self.project.as_deref().is_none_or(|project| project == parts.project())
            && self.subject.as_deref().is_none_or(|subject| subject == parts.subject());
        is_meant.then(|| DelegatedCall {
            upstream: upstream.to_owned(),
            tenant: parts.tenant().to_owned(),
            project: parts.project().to_owned(),
            subject: parts.subject().to_owned(),
            key: key.as_str().to_owned(),
            invocation_id: call.id,
            service: call.service,
            object: call.object,
            handler: call.handler,
            status: call.status,
            created_at: call.created_at,
            completed_at: call.completed_at,
            result: call.completion_result,
            failure: call.completion_failure.or(call.last_failure),
            tries: call.retry_count,
        })
    }

    /// The scope, in which what is not named does not count.
    fn scope(&self) -> Option<Scope> {
        let named = |part: &Option<String>| part.clone().unwrap_or_else(|| "_any".into());
        let (project, subject) = (named(&self.project), named(&self.subject));
        Scope::from_rendered(self.tenant.as_str(), &project, &subject).ok()
    }

    /// The same of a call whose id opens for this scope and counts what this width does.
    fn narrowed(&self, scope: &Scope, width: Width) -> Meant {
        let parts = scope.narrowed(width);
        let (project, subject) = (parts.project().to_owned(), parts.subject().to_owned());
        Meant { tenant: self.tenant.clone(), project: Some(project), subject: Some(subject) }
    }
}

/// The cluster that is meant: the only one, or the one that is named.
fn cluster(state: &AdminState, name: Option<&str>) -> Result<Arc<Upstream>, Refusal> {
    let settings = state.keeping.settings().borrow();
    let mut clusters = settings.upstreams.values().filter(|upstream| upstream.cluster.is_some());
    if let Some(name) = name.filter(|name| !is_name(name)) {
        return Err(Refusal::malformed(format!("`upstream` cannot be {name:?}: {}", name_remedy())));
    }
    let found = match name {
        Some(name) => clusters.find(|upstream| upstream.name == name),
        None => match (clusters.next(), clusters.next()) {
            (Some(_), Some(_)) => {
                return Err(Refusal::malformed("`upstream` is missing: there are several clusters here"));
            }
            (only, _) => only,
        },
    };
    found
        .cloned()
        .ok_or_else(|| Refusal::not_found("there is no such cluster: no upstream here keeps claims itself"))
}

/// Its admin API.
pub(crate) fn admin_of(upstream: &Upstream) -> Result<Admin, Error> {
    let cluster = upstream.cluster.as_ref().ok_or_else(|| Error::invalid("the upstream is no cluster"))?;
    Admin::new(&upstream.name, cluster)
}

fn away(Away(cause): Away) -> Refusal {
    Problem::new(Code::LedgerUnavailable).detail(format!("the cluster cannot be asked: {cause}")).into()
}

fn absent() -> Refusal {
    Refusal::not_found("there is no such call in this scope")
}

/// The call with this id, if it is one of those that are meant.
async fn find(
    state: &AdminState,
    upstream: &Upstream,
    admin: &Admin,
    meant: &Meant,
    id: &str,
) -> Result<DelegatedCall, Refusal> {
    if !id.starts_with("op_") {
        return look(upstream, admin, meant, id).await?.ok_or_else(absent);
    }
    // Whose it is stands in the id, with what does not count on its route left out.
    let scope = meant.scope().ok_or_else(absent)?;
    let Some((width, id)) = state.gateway.invocation_of(&scope, id) else {
        return Err(match (&meant.project, &meant.subject) {
            (Some(_), Some(_)) => absent(),
            _ => Refusal::malformed("an id that callers know is read with `tenant`, `project` and `subject`"),
        });
    };
    look(upstream, admin, &meant.narrowed(&scope, width), &id).await?.ok_or_else(absent)
}

/// The call that the cluster knows by this id, if it is one of those that are meant.
async fn look(
    upstream: &Upstream,
    admin: &Admin,
    meant: &Meant,
    id: &str,
) -> Result<Option<DelegatedCall>, Refusal> {
    if !is_invocation_id(id) {
        return Ok(None);
    }
    let call = admin.invocation(id).await.map_err(away)?;
    Ok(call.and_then(|call| meant.shown(&upstream.name, call)))
}

pub(super) async fn get_list(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ListDelegated>,
) -> Result<Delegated, Refusal> {
    let DelegatedQuery { tenant, project, subject, status, upstream, limit, after } = asked.query;
    let meant = Meant::of(tenant.as_deref(), project.as_deref(), subject.as_deref())?;
    if after.as_deref().is_some_and(|after| !is_invocation_id(after)) {
        return Err(Refusal::malformed("`after` is no id of a call: take `next` of the page before"));
    }
    let upstream = cluster(&state, upstream.as_deref())?;
    let most = page_size(limit)?;
    let admin = admin_of(&upstream)?;
    let page = admin
        .invocations(&meant.begins(), status.map(|status| status.as_str()), after.as_deref(), most)
        .await
        .map_err(away)?;
    let next = page.last().filter(|_| page.len() == most).map(|call| call.id.clone());
    let calls = page.into_iter().filter_map(|call| meant.shown(&upstream.name, call)).collect();
    Ok(Delegated { calls, next })
}

pub(super) async fn show(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ShowDelegated>,
) -> Result<DelegatedCall, Refusal> {
    let DelegatedScope { tenant, project, subject, upstream } = &asked.query;
    let meant = Meant::of(tenant.as_deref(), project.as_deref(), subject.as_deref())?;
    let upstream = cluster(&state, upstream.as_deref())?;
    let admin = admin_of(&upstream)?;
    find(&state, &upstream, &admin, &meant, &asked.id).await
}

pub(super) async fn purge(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::PurgeDelegated>,
) -> Result<DelegatedDecided, Refusal> {
    decide(&state, &operator, &asked.id, asked.body, "purge").await
}

pub(super) async fn kill(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::KillDelegated>,
) -> Result<DelegatedDecided, Refusal> {
    decide(&state, &operator, &asked.id, asked.body, "kill").await
}

/// Carries out what an operator decides. The audit tells of it first: what cannot be written down is not done.
async fn decide(
    state: &AdminState,
    operator: &Operator,
    id: &str,
    asked: DecideDelegated,
    verb: &str,
) -> Result<DelegatedDecided, Refusal> {
    let DecideDelegated { tenant, project, subject, upstream, reason: why, by } = asked;
    let meant = Meant::of(Some(&tenant), project.as_deref(), subject.as_deref())?;
    let (by, why) = (actor(&operator.name, by.as_deref())?, reason(why)?);
    let upstream = cluster(state, upstream.as_deref())?;
    let admin = admin_of(&upstream)?;
    let call = find(state, &upstream, &admin, &meant, id).await?;
    let stands = Stands::of(&call);
    match (verb, stands) {
        ("purge", Stands::UnderWay) => {
            return Err(not_now("the call has not come to its end: wait, or kill it"));
        }
        ("kill", Stands::Ended) => return Err(ended()),
        _ => {}
    }
    write_down(state, &call, verb, by, why).await?;
    if stands == Stands::UnderWay {
        let id = &call.invocation_id;
        if admin.kill(id).await.map_err(away)? == Settled::Absent {
            return Err(absent());
        }
        if !has_been_killed(&admin, id).await? {
            return Err(ended());
        }
    }
    for _ in 0..limits::KILL_LOOKS {
        match admin.purge(&call.invocation_id).await.map_err(away)? {
            Settled::Done | Settled::Absent => return Ok(DelegatedDecided { call, done: verb.into() }),
            Settled::NotNow => tokio::time::sleep(limits::KILL_PAUSE).await,
        }
    }
    Err(told_to_end())
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    UnderWay,
    /// It was killed, which is kept as any outcome is.
    Killed,
    /// It has ended by itself: its effect is there.
    Ended,
}

impl Stands {
    fn of(call: &DelegatedCall) -> Self {
        Self::from(&call.status, call.failure.as_deref())
    }

    fn from(status: &str, failure: Option<&str>) -> Self {
        match (status, failure) {
            ("completed", Some("[409] killed")) => Stands::Killed,
            ("completed", _) => Stands::Ended,
            _ => Stands::UnderWay,
        }
    }
}

/// Waits until a call that was killed has ended, and says whether it was the kill that ended it: what had come to its own end in the
/// meantime is not forgotten, or its work would be done twice.
async fn has_been_killed(admin: &Admin, id: &str) -> Result<bool, Refusal> {
    for _ in 0..limits::KILL_LOOKS {
        let call = admin.invocation(id).await.map_err(away)?;
        match call.map(|call| Stands::from(&call.status, call.completion_failure.as_deref())) {
            Some(Stands::UnderWay) => tokio::time::sleep(limits::KILL_PAUSE).await,
            Some(Stands::Ended) => return Ok(false),
            // Not there any more: an outcome that is not kept, or another operator's purge.
            Some(Stands::Killed) | None => return Ok(true),
        }
    }
    Err(told_to_end())
}

fn not_now(detail: &str) -> Refusal {
    Problem::new(Code::InProgress).detail(detail).into()
}

fn told_to_end() -> Refusal {
    not_now("the call was told to end and has not yet: send it again")
}

fn ended() -> Refusal {
    let detail = "the call has come to its end by itself, and nothing was killed: look at it, and purge it if its work is to be done again";
    Refusal::listener(ListenerCode::CallEnded, detail, None)
}

async fn write_down(
    state: &AdminState,
    call: &DelegatedCall,
    verb: &str,
    actor: String,
    reason: String,
) -> Result<(), Error> {
    let id = DocumentId::new(KIND, &call.invocation_id)?;
    for _ in 0..limits::RETENTION_ATTEMPTS {
        let version = state.store.get(&id).await?.map_or(0, |document| document.version);
        let setting = Setting {
            verb: format!("delegated-{verb}"),
            actor: actor.clone(),
            reason: reason.clone(),
            name: format!("delegated/{}/{}", call.upstream, call.invocation_id),
            before: Some(format!("{} of {}:{}:{}", call.status, call.tenant, call.project, call.subject)),
            after: Some(verb.to_owned()),
        };
        match state.store.decide_setting(&id, version, Some(verb.to_owned().into()), setting).await {
            Err(error) if error.kind() == Kind::Conflict => {}
            done => {
                done?;
                tracing::info!(verb, actor, reason, invocation = call.invocation_id, "an operator decided");
                return Ok(());
            }
        }
    }
    Err(Error::unavailable("other operators keep deciding about this call"))
}
