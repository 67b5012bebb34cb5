//! What waits for a person, and what a person has seen of it: `GET /v1/attention` (L8).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hapax_agent::actions::alerts::{self, Raised};
use hapax_agent::durable::{Sought, sought};
use hapax_api::{
    Acknowledged, Attention, AttentionCounts, AttentionItem, AttentionKind, Claim, ClaimState,
    operations as op,
};
use hapax_core::claim::audit::{CONTRADICTED, Setting};
use hapax_core::journal::Status;
use hapax_core::limits::MAX_PAGE;
use hapax_core::registry::DocumentId;
use hapax_core::{Error, Filter, Inspect as _, Kind, Registry as _, StateName};
use serde::{Deserialize, Serialize};

use super::access::Operator;
use super::decide::{actor, reason};
use super::{AdminState, view};
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::now;
use crate::{clock, limits};

/// The kind of the registry's documents, one for each item that was acknowledged.
const KIND: &str = "acknowledged";

/// What the id of an alert's item begins with; the alert's own follows.
const ALERT: &str = "alert-";

/// What a document says.
#[derive(Serialize, Deserialize)]
struct Kept {
    by: String,
    reason: String,
}

/// What was counted a moment ago: consoles ask every 2 seconds, and looking takes several questions.
#[derive(Default)]
pub(crate) struct Counted(Mutex<Option<(Instant, AttentionCounts)>>);

/// How much waits, as was counted at most a few seconds ago.
pub(super) async fn counts(state: &AdminState) -> AttentionCounts {
    let read = || *state.attention.0.lock().unwrap_or_else(PoisonError::into_inner);
    match read() {
        Some((at, counts)) if at.elapsed() < limits::ATTENTION_EVERY => counts,
        former => {
            let counts = match look(state).await {
                Ok((_, counts)) => counts,
                // The ledger is away, which the pulse tells of itself.
                Err(_) => former.map(|(_, counts)| counts).unwrap_or_default(),
            };
            *state.attention.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((clock::now(), counts));
            counts
        }
    }
}

/// What waits, and how much of each kind. Of alerts there may be more than are told as items.
async fn look(state: &AdminState) -> Result<(Vec<AttentionItem>, AttentionCounts), Error> {
    let (items, alerts) = items(state).await?;
    let counts = count(&items, alerts);
    Ok((items, counts))
}

fn count(items: &[AttentionItem], alerts: usize) -> AttentionCounts {
    let of = |kind| {
        let open = items.iter().filter(|item| item.kind == kind && item.acknowledged.is_none());
        open.count() as u64
    };
    AttentionCounts {
        in_doubt: items.iter().filter(|item| item.kind == AttentionKind::ClaimInDoubt).count() as u64,
        approvals: of(AttentionKind::ExecutionPaused),
        alerts: alerts as u64,
        late: of(AttentionKind::SettleRefused),
        damaged: of(AttentionKind::RecordDamaged),
    }
}

/// Everything that waits, the oldest first, and how many alerts there are.
async fn items(state: &AdminState) -> Result<(Vec<AttentionItem>, usize), Error> {
    let doubts = Filter { state: Some(StateName::InDoubt), ..Filter::default() };
    let page = state.store.list(&doubts, None, MAX_PAGE).await?;
    let mut items: Vec<_> = page.items.iter().map(|record| doubt(view::claim(record))).collect();
    items.extend(page.damaged.into_iter().map(|damaged| AttentionItem {
        id: format!("damaged-{}", damaged.id.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-")),
        kind: AttentionKind::RecordDamaged,
        since: None,
        about: damaged.id,
        text: damaged.error,
        acknowledged: None,
    }));
    for event in state.store.audit(None, MAX_PAGE).await?.items {
        if event.verb != CONTRADICTED {
            continue;
        }
        let event = view::event(&event);
        items.push(AttentionItem {
            id: format!("audit-{}", event.id),
            kind: AttentionKind::SettleRefused,
            since: Some(event.at),
            about: event.operation_id.map(|id| id.to_string()).unwrap_or_default(),
            text: event.reason,
            acknowledged: None,
        });
    }
    let paused =
        Sought { tenant: None, project: None, status: Some(Status::Paused), agent: None, idle_since: None };
    // A store without journals has no executions either.
    if let Ok((found, _)) = sought(&state.store, &paused, None, MAX_PAGE).await {
        items.extend(
            found.into_iter().filter_map(|found| super::executions::view(found).ok()).map(paused_item),
        );
    }
    let seen = acknowledged(state).await?;
    for item in &mut items {
        item.acknowledged = seen.get(&item.id).cloned();
    }
    let alerts = add_alerts(state, &mut items).await?;
    items.sort_by(|one, other| one.since.cmp(&other.since));
    Ok((items, alerts))
}

/// Adds the oldest alerts, and counts them all. One that was acknowledged is gone.
async fn add_alerts(state: &AdminState, items: &mut Vec<AttentionItem>) -> Result<usize, Error> {
    let (mut many, mut after) = (0, None::<String>);
    for page in 0..limits::AUDIT_PAGES {
        // The others are only counted: they need not be opened.
        let seal = if page == 0 { state.answers.seal() } else { None };
        let (raised, next) = alerts::list(&state.store, seal, None, after.as_deref(), MAX_PAGE).await?;
        many += raised.len();
        if page == 0 {
            items.extend(raised.into_iter().map(alert_item));
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    Ok(many)
}

fn alert_item(raised: Raised) -> AttentionItem {
    let (about, text) = match raised.alert {
        Some(alert) => {
            let rule =
                alert.rule.map_or_else(|| "the default".to_owned(), |rule| format!("the rule {rule:?}"));
            let what = format!("{}/{} on {}: {rule}", alert.connector, alert.tool, alert.entity_key);
            (alert.operation_id, what)
        }
        None => (String::new(), "an alert that cannot be opened".to_owned()),
    };
    AttentionItem {
        id: format!("{ALERT}{}", raised.id),
        kind: AttentionKind::ActionAlert,
        since: view::moment(raised.at),
        about,
        text,
        acknowledged: None,
    }
}

fn doubt(claim: Claim) -> AttentionItem {
    let (since, text) = match claim.state {
        ClaimState::InDoubt { doubt, .. } => {
            let cause = doubt.cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            (Some(doubt.since), format!("{} of {}{cause}", doubt.reason, claim.operation))
        }
        _ => (None, claim.operation),
    };
    AttentionItem {
        id: format!("claim-{}.{}", claim.operation_id, claim.epoch),
        kind: AttentionKind::ClaimInDoubt,
        since,
        about: claim.operation_id.to_string(),
        text,
        acknowledged: None,
    }
}

fn paused_item(execution: hapax_api::Execution) -> AttentionItem {
    let about = format!("{}/{}/{}", execution.tenant, execution.project, execution.execution_id);
    AttentionItem {
        id: format!("execution-{}.{}", view::digest(about.as_bytes()), execution.version),
        kind: AttentionKind::ExecutionPaused,
        since: execution.updated_at,
        about,
        text: format!("agent {} is paused at version {}", execution.agent, execution.version),
        acknowledged: None,
    }
}

/// What was acknowledged, by item.
async fn acknowledged(state: &AdminState) -> Result<HashMap<String, Acknowledged>, Error> {
    let (mut all, mut after) = (HashMap::new(), None::<String>);
    for _ in 0..limits::AUDIT_PAGES {
        let page = state.store.list_documents(KIND, after.as_deref(), MAX_PAGE).await?;
        let last = page.last().map(|document| document.id.id().to_owned());
        for document in &page {
            let Ok(kept) = serde_json::from_slice::<Kept>(&document.body) else { continue };
            let seen = Acknowledged { by: kept.by, at: view::time(document.updated_at), reason: kept.reason };
            all.insert(document.id.id().to_owned(), seen);
        }
        if page.len() < MAX_PAGE {
            break;
        }
        after = last;
    }
    Ok(all)
}

pub(super) async fn get(
    state: AdminState,
    _: Operator,
    _: Asked<op::ListAttention>,
) -> Result<Attention, Refusal> {
    let (items, counts) = look(&state).await?;
    Ok(Attention { items, counts })
}

pub(super) async fn acknowledge(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::AcknowledgeAttention>,
) -> Result<AttentionItem, Refusal> {
    let (by, reason) = (actor(&operator.name, asked.body.by.as_deref())?, reason(asked.body.reason)?);
    let found = find(&state, &asked.id).await?;
    if let Some(alert) = asked.id.strip_prefix(ALERT) {
        return alert_seen(&state, found, alert, by, reason).await;
    }
    let id = DocumentId::new(KIND, asked.id.clone())?;
    let kept = serde_json::to_vec(&Kept { by: by.clone(), reason: reason.clone() })
        .map_err(|error| Error::internal("an acknowledgement has no JSON").with_detail(error))?;
    let version = state.store.get(&id).await?.map_or(0, |document| document.version);
    let setting = Setting {
        verb: "acknowledge".into(),
        actor: by,
        reason,
        name: format!("attention/{}", asked.id),
        before: None,
        after: None,
    };
    match state.store.decide_setting(&id, version, Some(kept.into()), setting).await {
        // Somebody else did so at the same moment.
        Err(error) if error.kind() == Kind::Conflict => {}
        done => done?,
    }
    *state.attention.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    find(&state, &asked.id).await
}

/// An alert has its own way to be acknowledged: it goes, and the audit tells.
async fn alert_seen(
    state: &AdminState,
    found: AttentionItem,
    alert: &str,
    by: String,
    reason: String,
) -> Result<AttentionItem, Refusal> {
    alerts::acknowledge(&state.store, state.answers.seal(), alert, &by, &reason).await?;
    *state.attention.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    Ok(AttentionItem { acknowledged: Some(Acknowledged { by, at: view::time(now()), reason }), ..found })
}

async fn find(state: &AdminState, id: &str) -> Result<AttentionItem, Refusal> {
    let (items, _) = items(state).await?;
    let found = items.into_iter().find(|item| item.id == id);
    found.ok_or_else(|| Refusal::not_found(format!("nothing called {id:?} waits for a person")))
}
