//! Receipts read back, the newest first, in pages of bounded work (X8).

use std::sync::Arc;

use hapax_core::journal::{Event, Stream};
use hapax_core::{Error, Journal, Tenant, Timestamp};
use hapax_exec::Seal;
use serde::Deserialize;
use serde_json::Value;

use super::receipts;
use crate::durable::vault::Vault;
use crate::limits;

/// Which receipts are looked for. Empty means all.
#[derive(Clone, Debug, Default)]
pub struct Sought {
    /// Of this project.
    pub project: Option<String>,
    /// Of actions on this entity.
    pub entity: Option<String>,
    /// Of actions with this key.
    pub key: Option<String>,
    /// With this decision.
    pub decision: Option<String>,
    /// Written since.
    pub since: Option<Timestamp>,
    /// Written before.
    pub until: Option<Timestamp>,
}

/// What a receipt says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Receipt {
    /// In which project.
    pub project: String,
    /// The system that the tool is on; empty for a person's decision.
    pub connector: String,
    /// The tool; empty for a person's decision.
    pub tool: String,
    /// What it was about.
    pub entity_key: String,
    /// The key of the action.
    pub idempotency_key: Option<String>,
    /// SHA-256 of its arguments.
    pub args_digest: String,
    /// The arguments, where they are kept.
    pub args: Option<Value>,
    /// What was decided.
    pub decision: String,
    /// Which rule decided.
    pub rule: Option<String>,
    /// Whether what was asked for is in place.
    pub ok: bool,
    /// Why not.
    pub error: Option<String>,
    /// The stable word for that.
    pub code: Option<String>,
    /// The public id of its claim.
    pub operation_id: Option<String>,
    /// Who decided, where it was a person.
    pub by: Option<String>,
    /// Why a person decided so.
    pub reason: Option<String>,
}

/// A receipt with its place in the chain.
#[derive(Clone, Debug)]
pub struct Read {
    /// Its place, from 0.
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
    /// Whether it is a receipt or a person's decision.
    pub kind: String,
    /// The chain's hash up to and including it.
    pub hash: String,
    /// What it says; `None` where it was erased, or cannot be opened.
    pub receipt: Option<Receipt>,
}

/// A page of receipts.
#[derive(Clone, Debug, Default)]
pub struct Receipts {
    /// They, the newest first.
    pub receipts: Vec<Read>,
    /// Where the next page starts; `None` where none is older.
    pub next: Option<u64>,
    /// How many were looked at.
    pub looked_at: usize,
}

/// Receipts of a tenant that are older than a place, or from the newest on. At most `limit` are told, and only so many are looked at: a
/// page may be empty and still have a next one.
pub async fn read<S: Journal>(
    store: &S,
    seal: Option<Arc<Seal>>,
    tenant: &Tenant,
    sought: &Sought,
    before: Option<u64>,
    limit: usize,
) -> Result<Receipts, Error> {
    let (vault, stream) = (Vault(seal), receipts::stream(tenant)?);
    let length = store.head(&stream).await?.map_or(0, |head| head.length);
    let mut page = Receipts::default();
    let mut end = before.unwrap_or(length).min(length);
    while end > 0 && page.looked_at < limits::RECEIPTS_LOOKED_AT {
        let start = end.saturating_sub(limits::READ_PAGE as u64);
        for event in block(store, &stream, start, end).await?.into_iter().rev() {
            (page.looked_at, end) = (page.looked_at + 1, event.seq);
            if sought.since.is_some_and(|since| event.at < since) {
                // What is older was written earlier.
                return Ok(page);
            }
            let read = opened(&vault, &stream, event);
            if fits(sought, &read) {
                page.receipts.push(read);
            }
            if page.receipts.len() >= limit {
                page.next = (end > 0).then_some(end);
                return Ok(page);
            }
        }
    }
    page.next = (end > 0).then_some(end);
    Ok(page)
}

/// The events from one place up to another one.
async fn block<S: Journal>(store: &S, stream: &Stream, start: u64, end: u64) -> Result<Vec<Event>, Error> {
    let (mut events, mut next) = (Vec::new(), start);
    while next < end {
        let left = usize::try_from(end - next).unwrap_or(usize::MAX);
        let some = store.read(stream, next, left).await?;
        let Some(last) = some.last() else { break };
        next = last.seq + 1;
        events.extend(some);
    }
    Ok(events)
}

fn opened(vault: &Vault, stream: &Stream, event: Event) -> Read {
    let bytes = event.payload.bytes().and_then(|bytes| vault.open(stream, bytes).ok());
    Read {
        seq: event.seq,
        at: event.at,
        hash: event.hash.to_hex(),
        receipt: bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        kind: event.kind,
    }
}

fn fits(sought: &Sought, read: &Read) -> bool {
    if sought.until.is_some_and(|until| read.at >= until) {
        return false;
    }
    let Sought { project, entity, key, decision, .. } = sought;
    let Some(receipt) = &read.receipt else {
        // What cannot be read is told where nothing is asked about what it says.
        return [project, entity, key, decision].iter().all(|wanted| wanted.is_none());
    };
    let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
    is(project, &receipt.project)
        && is(entity, &receipt.entity_key)
        && is(key, receipt.idempotency_key.as_deref().unwrap_or_default())
        && is(decision, &receipt.decision)
}
