//! What became of the deliveries of a webhook: those that were claimed with their answers, those that were refused, and kept refusals
//! that are set aside so that the sender's next try runs (W8).

use std::time::UNIX_EPOCH;

use hapax_api::{
    CountsQuery, Deliveries, DeliveriesReopened, Delivery, DeliveryRefused, RefusedFor, WebhookShown,
    operations as op,
};
use hapax_core::{
    Decision, Error, Filter, Identity, Inspect as _, Key, ListOrder, Operated, Operation, Outcome, Page,
    Record as Claim, Scope, Source, State, StateName, Subject, Timestamp, Verb, Width,
};
use hapax_gateway::webhooks::record::Record;
use tokio::task::JoinSet;

use super::access::Operator;
use super::claims::{count, page_size};
use super::decide::{actor, reason};
use super::webhooks::{configured, shown};
use super::{AdminState, view};
use crate::Store;
use crate::config::retention_text;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::{now, parse_span, parse_utc};

async fn find(state: &AdminState, id: &str) -> Result<Record, Refusal> {
    match state.webhooks.get(id).await? {
        Some((record, _)) => Ok(record),
        None => Err(Refusal::not_found(format!("there is no webhook {id}"))),
    }
}

/// The deliveries of a webhook.
fn filter(record: &Record) -> Filter {
    Filter {
        tenant: Some(record.tenant.as_str().to_owned()),
        project: Some(record.project.as_str().to_owned()),
        operation: Some(record.operation()),
        ..Filter::default()
    }
}

pub(super) async fn show(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ShowWebhook>,
) -> Result<WebhookShown, Refusal> {
    let settings = configured(&state)?;
    let record = find(&state, &asked.id).await?;
    let of_it = CountsQuery {
        tenant: Some(record.tenant.as_str().to_owned()),
        project: Some(record.project.as_str().to_owned()),
        operation: Some(record.operation()),
    };
    let deliveries = count(&state.store, &of_it).await?;
    let tally = state.gateway.refusals(&record.id);
    let at = |time: std::time::SystemTime| {
        view::time(Timestamp::ZERO.after(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
    };
    Ok(WebhookShown {
        retention: retention_text(settings.rule.retention),
        deliveries,
        content_repeated: tally.as_ref().map_or(0, |tally| tally.content_repeated),
        refused: (tally.iter().flat_map(|tally| &tally.refused))
            .map(|(cause, count)| RefusedFor { cause: (*cause).to_owned(), count: *count })
            .collect(),
        refusals: (tally.iter().flat_map(|tally| &tally.last))
            .map(|refusal| DeliveryRefused {
                at: at(refusal.at),
                cause: refusal.cause.to_owned(),
                why: refusal.why.clone(),
            })
            .collect(),
        webhook: shown(&settings, record),
    })
}

pub(super) async fn get_list(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ListDeliveries>,
) -> Result<Deliveries, Refusal> {
    configured(&state)?;
    let record = find(&state, &asked.id).await?;
    let query = asked.query;
    let (wanted, limit) = (query.state.map(Into::into), page_size(query.limit)?);
    let page = match query.identifier {
        Some(identifier) => Page::new(one(&state, &record, &identifier, wanted).await?, None),
        None => {
            let filter = Filter { state: wanted, order: ListOrder::Newest, ..filter(&record) };
            state.store.list(&filter, query.after.as_deref(), limit).await?
        }
    };
    let damaged = view::damaged(&page.damaged);
    let deliveries = page.items.iter().map(|claim| delivery(&state, claim)).collect();
    Ok(Deliveries { deliveries, next: page.next, damaged })
}

/// The delivery that its sender calls so, with the kind of event where the provider has kinds: its key says which claim that is.
async fn one(
    state: &AdminState,
    record: &Record,
    identifier: &str,
    wanted: Option<StateName>,
) -> Result<Vec<Claim>, Refusal> {
    let Ok(key) = Key::new(format!("{}-{identifier}", record.provider)) else { return Ok(Vec::new()) };
    let scope = Scope::new(record.tenant.clone(), record.project.clone(), Subject::webhook_ingest());
    let operation = Operation::new(record.operation())?;
    let identity = Identity::new(Source::Transport, scope, Width::Subject, operation, key);
    let found = state.store.record(identity.claim_id()).await?;
    Ok(found
        .into_iter()
        .filter(|claim| wanted.is_none_or(|state| state == claim.claim.state.name()))
        .collect())
}

fn delivery(state: &AdminState, claim: &Claim) -> Delivery {
    let told = view::claim(claim);
    Delivery {
        operation_id: told.operation_id,
        key: told.key,
        epoch: told.epoch,
        opened_at: told.opened_at,
        status: status(state, claim),
        state: told.state,
    }
}

/// The status of the answer that is kept, where one is.
fn status(state: &AdminState, claim: &Claim) -> Option<u16> {
    match &claim.claim.state {
        State::Settled { outcome: Outcome::Succeeded(bytes) | Outcome::Refused(bytes), .. } => {
            let answer = state.answers.decode(&claim.identity.claim_id(), bytes).ok()?;
            Some(answer.status.as_u16())
        }
        State::Settled { outcome: Outcome::NotKept { status }, .. } => Some(*status),
        _ => None,
    }
}

/// A time, or so long ago.
fn since(text: &str) -> Result<Timestamp, Error> {
    if let Ok(time) = parse_utc(text) {
        return Ok(time);
    }
    let span = parse_span(text).map_err(|_| {
        Error::invalid("`since` is a time such as 2026-11-18T12:00:00Z, or a span such as 2h")
    })?;
    let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    Ok(Timestamp::from_micros(now().as_micros().saturating_sub(micros)))
}

pub(super) async fn reopen(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ReopenDeliveries>,
) -> Result<DeliveriesReopened, Refusal> {
    configured(&state)?;
    let asking = asked.body;
    let since = since(&asking.since)?;
    // What succeeded has had its effect: that is never set aside in bulk.
    if asking.status.is_some_and(|status| !(400..=599).contains(&status)) {
        return Err(Error::invalid("`status` is 400 to 599: only refusals are reopened in bulk").into());
    }
    let (actor, reason) = (actor(&operator.name, asking.by.as_deref())?, reason(asking.reason)?);
    let record = find(&state, &asked.id).await?;
    let filter = Filter { state: Some(StateName::Settled), ..filter(&record) };
    let found = state.store.list(&filter, asking.after.as_deref(), limits::ERASE_PAGE).await?;
    let is_meant = |claim: &Claim| {
        let State::Settled { settled_at, .. } = &claim.claim.state else { return false };
        let status = status(&state, claim);
        *settled_at >= since
            && match asking.status {
                Some(wanted) => status == Some(wanted),
                None => status.is_some_and(|status| (400..=499).contains(&status)),
            }
    };
    let meant: Vec<Claim> = found.items.into_iter().filter(is_meant).collect();
    let (reopened, left) = reopen_all(&state.store, meant, &actor, &reason).await?;
    tracing::info!(webhook = record.id, reopened, actor, "an operator reopened deliveries");
    Ok(DeliveriesReopened { reopened, left, next: found.next, damaged: view::damaged(&found.damaged) })
}

/// All at once: each waits until every other instance has forgotten the answer (B7).
async fn reopen_all(
    store: &Store,
    claims: Vec<Claim>,
    actor: &str,
    reason: &str,
) -> Result<(u64, u64), Error> {
    let (mut reopened, mut left, mut deciding) = (0, 0, JoinSet::new());
    for claim in claims {
        let decision = Decision {
            seen: claim.claim.epoch,
            verb: Verb::Reopen,
            actor: actor.to_owned(),
            reason: reason.to_owned(),
        };
        let store = store.clone();
        deciding.spawn(async move { store.decide(claim.identity.claim_id(), decision).await });
    }
    while let Some(done) = deciding.join_next().await {
        match done.map_err(|_| Error::internal("a reopening was cut short"))?? {
            Operated::Done(_) => reopened += 1,
            // Somebody was faster: what is there now is not what was seen.
            _ => left += 1,
        }
    }
    Ok((reopened, left))
}
