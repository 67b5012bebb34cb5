//! Destroying everything that is kept for one subject (B9).
//!
//! One page of its claims for each request, and afterwards a few of its executions, so that no request takes long; the caller goes on
//! with `next`. Keys stay used up, and what was reopened stays free. What runs or is in doubt has no answer yet: it is counted, and
//! left for another time. What cannot be read is named: nobody can say whose it is, or erase it.

use hapax_agent::durable::Executions;
use hapax_api::{ErasedSubject, operations as op};
use hapax_core::{
    Decision, Error, Filter, Inspect as _, Operated, Outcome, Project, Record, Scope, State, Subject, Tenant,
    Verb,
};
use hapax_exec::Executor;
use tokio::task::JoinSet;

use super::access::Operator;
use super::decide::{actor, reason};
use super::{AdminState, view};
use crate::Store;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;

/// What became of the claims of one page.
#[derive(Debug, Default)]
struct Counted {
    erased: u64,
    left: u64,
}

pub(super) async fn subject(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::EraseSubject>,
) -> Result<ErasedSubject, Refusal> {
    let erasing = asked.body;
    // A slip of the pen must not look like a subject for whom nothing is kept.
    let tenant = Tenant::new(&erasing.tenant)?;
    let subject = Subject::parse(&erasing.subject)?;
    let project = erasing.project.map(Project::new).transpose()?;
    let (actor, reason) = (actor(&operator.name, erasing.by.as_deref())?, reason(erasing.reason)?);
    if let Some(after) = erasing.after.as_deref().and_then(|after| after.strip_prefix(EXECUTIONS)) {
        return executions(&state, &tenant, project.as_ref(), &subject, after, (&actor, &reason)).await;
    }
    let filter = Filter {
        tenant: Some(tenant.as_str().to_owned()),
        project: project.as_ref().map(|project| project.as_str().to_owned()),
        subject: Some(subject.as_str().to_owned()),
        ..Filter::default()
    };
    let found = state.store.list(&filter, erasing.after.as_deref(), limits::ERASE_PAGE).await?;
    let counted = erase(&state.store, found.items, &actor, &reason).await?;
    tracing::info!(
        tenant = tenant.as_str(),
        erased = counted.erased,
        actor,
        "an operator erased a subject's answers"
    );
    let damaged = view::damaged(&found.damaged);
    let next = found.next.or_else(|| Some(EXECUTIONS.to_owned()));
    Ok(ErasedSubject { erased: counted.erased, events: 0, left: counted.left, next, damaged })
}

/// What a page mark begins with once all claims were looked at.
const EXECUTIONS: &str = "executions/";

/// A few executions: what they keep of the subject, in their journals and in the claims of their steps.
async fn executions(
    state: &AdminState,
    tenant: &Tenant,
    project: Option<&Project>,
    subject: &Subject,
    after: &str,
    by: (&str, &str),
) -> Result<ErasedSubject, Refusal> {
    let executor = Executor::new(state.store.clone());
    let executions = Executions::new(executor, Scope::local()).sealed(state.answers.seal());
    let after = Some(after).filter(|after| !after.is_empty());
    let erased = executions.erase_subject((tenant, project), subject, after, by).await.map_err(told)?;
    Ok(ErasedSubject {
        erased: erased.results,
        events: erased.events,
        left: erased.left,
        next: erased.next.map(|next| format!("{EXECUTIONS}{next}")),
        damaged: Vec::new(),
    })
}

/// What erasing can fail with is the store's to tell.
fn told(error: hapax_agent::durable::Error) -> Error {
    match error {
        hapax_agent::durable::Error::Store(error) => error,
        other => Error::corrupt("an execution cannot be read").with_detail(other),
    }
}

/// All at once: each waits until every other instance has forgotten the answer (B7). What was erased has another epoch and
/// may come up again on a later page, where it is passed over.
async fn erase(store: &Store, records: Vec<Record>, actor: &str, reason: &str) -> Result<Counted, Refusal> {
    let (mut counted, mut erasing) = (Counted::default(), JoinSet::new());
    for record in records {
        match &record.claim.state {
            State::Settled { outcome: Outcome::Erased, .. } => continue,
            State::Settled { .. } | State::Released { .. } => {}
            State::Held { .. } | State::InDoubt { .. } => {
                counted.left += 1;
                continue;
            }
        }
        let decision = Decision {
            seen: record.claim.epoch,
            verb: Verb::Erase,
            actor: actor.to_owned(),
            reason: reason.to_owned(),
        };
        erasing.spawn(erase_one(store.clone(), record, decision));
    }
    while let Some(done) = erasing.join_next().await {
        match done.map_err(|_| Error::internal("an erasure was cut short"))?? {
            None | Some(Operated::Absent) => {}
            Some(Operated::Done(_)) => counted.erased += 1,
            // Somebody was faster: what is there now is not what was seen.
            Some(_) => counted.left += 1,
        }
    }
    Ok(counted)
}

/// `None`: there was nothing to erase. A claim that is free has an answer only if one was set aside, and that cannot have
/// changed since without another epoch.
async fn erase_one(store: Store, record: Record, decision: Decision) -> Result<Option<Operated>, Error> {
    let claim = &record.claim;
    if matches!(claim.state, State::Released { .. }) && !store.has_set_aside(claim.operation_id).await? {
        return Ok(None);
    }
    store.decide(record.identity.claim_id(), decision).await.map(Some)
}
