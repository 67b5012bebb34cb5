//! What people decide about actions of unknown fate: that one happened, or that it may be proposed again (L8).
//!
//! A decision names the operation, the digest of what was asked and the epoch that was seen, so that it is about what the person saw and
//! counts once. It is carried out by the ledger in one transaction with its event in the tenant's receipts; the lane that the action
//! closed is open from then on, because no claim in doubt closes it any more.

use std::collections::HashMap;
use std::sync::Arc;

use hapax_core::claim::Doubt;
use hapax_core::journal::{Append, Author, NewEvent};
use hapax_core::json::canonicalize;
use hapax_core::lane::LaneView;
use hapax_core::limits::MAX_PAGE;
use hapax_core::{
    ClaimId, Decision as LedgerDecision, Epoch, Error, Filter, Inspect, Lanes, Operated, OperationId,
    Outcome, Record, Retention, Source, State, StateName, Tenant, Timestamp, Verb,
};
use hapax_exec::Seal;
use serde::Serialize;
use serde_json::value::RawValue;

use super::executor::OPERATION;
use super::receipts;
use crate::durable::vault::Vault;
use crate::limits;

/// The type of the event that tells of a decision.
pub const EVENT: &str = "APPROVAL";

/// An action that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InDoubt {
    /// Its claim.
    pub claim: ClaimId,
    /// The public id of its claim.
    pub operation_id: OperationId,
    /// Whose it is.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// Its key.
    pub key: String,
    /// The digest of connector, tool and arguments.
    pub digest: String,
    /// The epoch that a decision is about.
    pub epoch: Epoch,
    /// Since when nobody knows.
    pub since: Timestamp,
    /// Why nobody knows.
    pub reason: Doubt,
    /// What was being done, and what was seen of it; a process that was killed has told nothing.
    pub cause: Option<String>,
    /// What it is done to, and with which tool, as its lane remembers; `None` where no lane is closed by it.
    pub place: Option<ClosedLane>,
}

/// A lane that is closed by a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedLane {
    /// The entity.
    pub entity_key: String,
    /// The tool whose action began last in it, which is the claim's.
    pub tool: Option<String>,
}

/// What a person decides.
#[derive(Clone, Debug)]
pub enum Choice {
    /// It happened; with what the tool answered, where that is known.
    Confirm(Option<Box<RawValue>>),
    /// It did not happen, or may happen again: proposed again, it runs.
    Release {
        /// Also while the former call may still be on its way.
        force: bool,
    },
}

/// A decision about one action.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The digest that was seen.
    pub digest: String,
    /// The epoch that was seen.
    pub epoch: Epoch,
    /// What is decided.
    pub choice: Choice,
    /// Who decides.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// The event of a decision.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    project: &'a str,
    idempotency_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    operation_id: String,
    digest: &'a str,
    decision: &'a str,
    by: &'a str,
    reason: &'a str,
}

/// Whether a claim is an action's: it is settled in the agent's own form, and by nothing else.
pub fn is_action(record: &Record) -> bool {
    record.identity.source() == Source::Derived && record.identity.operation().as_str() == OPERATION
}

/// Actions that wait for a person, after a page mark.
pub async fn waiting<S: Inspect + Lanes>(
    store: &S,
    tenant: Option<&str>,
    project: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<InDoubt>, Option<String>), Error> {
    let filter = Filter {
        tenant: tenant.map(str::to_owned),
        project: project.map(str::to_owned),
        operation: Some(OPERATION.to_owned()),
        state: Some(StateName::InDoubt),
        ..Filter::default()
    };
    let page = store.list(&filter, after, limit).await?;
    let mut waiting: Vec<_> = page.items.iter().filter_map(in_doubt).collect();
    find_lanes(store, &mut waiting).await?;
    Ok((waiting, page.next))
}

/// An action that waits for a person; `None` for any other claim.
pub async fn shown<S: Inspect + Lanes>(store: &S, record: &Record) -> Result<Option<InDoubt>, Error> {
    let mut waiting: Vec<_> = in_doubt(record).into_iter().collect();
    find_lanes(store, &mut waiting).await?;
    Ok(waiting.pop())
}

/// Finds the lanes that these actions close. A claim does not tell its entity, so the lanes of its project are looked at, up to a bound.
async fn find_lanes<S: Inspect + Lanes>(store: &S, waiting: &mut [InDoubt]) -> Result<(), Error> {
    let mut sought: HashMap<ClaimId, &mut InDoubt> =
        waiting.iter_mut().map(|waits| (waits.claim, waits)).collect();
    let (mut after, mut looked_at) = (None::<String>, 0);
    while !sought.is_empty() && looked_at < limits::LANES_LOOKED_AT {
        let page = store.lanes(after.as_deref(), MAX_PAGE).await?;
        for id in page.items {
            let (tenant, project) = (id.tenant.as_str(), id.project.as_str());
            let is_theirs = sought.values().any(|waits| waits.tenant == tenant && waits.project == project);
            if looked_at >= limits::LANES_LOOKED_AT || !is_theirs {
                continue;
            }
            looked_at += 1;
            let view = store.look(&id).await?;
            if let Some(waits) = view.lane.closed_by.and_then(|claim| sought.remove(&claim)) {
                waits.place = Some(ClosedLane { tool: began_last(&view), entity_key: id.entity });
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

fn began_last(view: &LaneView) -> Option<String> {
    let tools = view.lane.recent.tools().iter();
    tools.max_by_key(|tool| tool.times.last().copied()).map(|tool| tool.name.clone())
}

fn in_doubt(record: &Record) -> Option<InDoubt> {
    let State::InDoubt { reason, since, .. } = record.claim.state else { return None };
    let parts = record.identity.scope().narrowed(record.identity.width());
    is_action(record).then(|| InDoubt {
        claim: record.identity.claim_id(),
        place: None,
        operation_id: record.claim.operation_id,
        tenant: parts.tenant().to_owned(),
        project: parts.project().to_owned(),
        key: record.identity.key().as_str().to_owned(),
        digest: digest(record),
        epoch: record.claim.epoch,
        since,
        reason,
        cause: record.claim.cause.as_ref().map(|cause| cause.as_str().to_owned()),
    })
}

/// Carries a decision out, once. The caller has found the record and knows that it is an action's.
pub async fn decide<S: Inspect + Lanes>(
    store: &S,
    seal: Option<Arc<Seal>>,
    record: &Record,
    decision: Decision,
) -> Result<Operated, Error> {
    let vault = Vault(seal);
    let Some(bare) = in_doubt(record) else {
        return Ok(Operated::NotApplicable(record.claim.state.name()));
    };
    // What the lane tells is for the receipt; a lane that cannot be read keeps no decision back.
    let seen = shown(store, record).await.ok().flatten().unwrap_or(bare);
    if seen.digest != decision.digest {
        return Err(Error::invalid("digest: the action in doubt is another one than the one that was seen"));
    }
    let claim = record.identity.claim_id();
    let (word, verb) = match &decision.choice {
        Choice::Confirm(result) => {
            let result = result.as_ref().map_or("null", |result| result.get());
            if result.len() > limits::MAX_RESULT_BYTES {
                return Err(Error::invalid("result: at most 1 MiB as JSON"));
            }
            let bytes = vault.close_outcome(&claim, result.as_bytes().to_vec());
            ("confirm", Verb::Settle(Outcome::Succeeded(bytes), Retention::Forever))
        }
        Choice::Release { force } => ("release", Verb::Release { force: *force }),
    };
    let event = event(&vault, record, seen.place.as_ref(), word, &decision.by, &decision.reason)?;
    let Decision { epoch, by, reason, .. } = decision;
    let order = LedgerDecision { seen: epoch, verb, actor: by, reason };
    store.decide_with(claim, order, vec![event]).await
}

/// The event of an operator's decision about an action that was not in doubt: by `word`, it may be proposed again.
pub fn event_of(
    seal: Option<Arc<Seal>>,
    record: &Record,
    word: &str,
    by: &str,
    reason: &str,
) -> Result<Append, Error> {
    event(&Vault(seal), record, None, word, by, reason)
}

fn event(
    vault: &Vault,
    record: &Record,
    place: Option<&ClosedLane>,
    decision: &str,
    by: &str,
    reason: &str,
) -> Result<Append, Error> {
    let parts = record.identity.scope().narrowed(record.identity.width());
    let told = Told {
        project: parts.project(),
        idempotency_key: record.identity.key().as_str(),
        entity_key: place.map(|place| &*place.entity_key),
        tool: place.and_then(|place| place.tool.as_deref()),
        operation_id: record.claim.operation_id.to_string(),
        digest: &digest(record),
        decision,
        by,
        reason,
    };
    let text = serde_json::to_vec(&told).map_err(|error| Error::internal(error.to_string()))?;
    let payload = canonicalize(&text).map_err(|error| Error::internal(error.to_string()))?;
    let stream = receipts::stream(&Tenant::new(parts.tenant())?)?;
    let event = NewEvent::new(EVENT, vault.close(&stream, payload));
    Ok(Append::new(stream, Author::Anyone { version: None }).with(vec![event]))
}

fn digest(record: &Record) -> String {
    record.claim.fingerprint.digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
