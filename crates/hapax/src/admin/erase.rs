//! Destroying everything that is kept for one subject (B9).
//!
//! One page of its claims for each request, so that no request takes long however much there is; whoever asks goes on with
//! `next`. Keys stay used up, and what was reopened stays free. What runs or is in doubt has no answer yet: it is counted, and
//! left for another time. What cannot be read is named: nobody can say whose it is, or erase it.

use hapax_api::{ErasedSubject, operations as op};
use hapax_core::{
    Decision, Error, Filter, Inspect as _, Operated, Outcome, Project, Record, State, Subject, Tenant, Verb,
};
use hapax_store::Store;
use tokio::task::JoinSet;

use super::access::Operator;
use super::decide::{actor, reason};
use super::{AdminState, view};
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
    let filter = Filter {
        tenant: Some(tenant.as_str().to_owned()),
        project: project.map(|project| project.as_str().to_owned()),
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
    Ok(ErasedSubject { erased: counted.erased, left: counted.left, next: found.next, damaged })
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
