//! Alerts: actions that happened and that people are to look at (X6).
//!
//! An alert is a document of the registry. It is durable after the ledger has granted the action and before the tool is called, so that
//! no watched action happens unseen. Where the lane does not let the action begin, it is taken back; acknowledging it deletes it, with
//! an entry in the audit.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::claim::audit::Setting;
use hapax_core::journal::Stream;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Backoff, Epoch, Error, Inspect, Kind, OperationId, Registry, Timestamp};
use hapax_exec::Seal;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::executor::Origin;
use super::place::OwedLeaves;
use super::plan::PlannedAction;
use super::receipts::{self, Args};
use crate::durable::vault::Vault;
use crate::limits;

/// The kind of the registry's documents.
pub const KIND: &str = "alert";

/// What an alert tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// Whose action it is.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// The system that the tool is on.
    pub connector: String,
    /// What was called.
    pub tool: String,
    /// What it was done to.
    pub entity_key: String,
    /// The key of the action.
    pub idempotency_key: Option<String>,
    /// SHA-256 of the arguments in canonical form.
    pub args_digest: String,
    /// The arguments, where receipts have them, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Box<RawValue>>,
    /// The rule that decided; none where it was the default.
    pub rule: Option<String>,
    /// The public id of the action's claim.
    pub operation_id: String,
    /// When it was granted, in microseconds since the Unix epoch, on the store's clock.
    pub at_us: i64,
}

/// An alert with its name.
#[derive(Clone, Debug)]
pub struct Raised {
    /// What it is called.
    pub id: String,
    /// The version of its document.
    pub version: u64,
    /// When it was raised.
    pub at: Timestamp,
    /// What it tells; `None` where it cannot be read, such as with a key that is not there any more.
    pub alert: Option<Alert>,
}

impl Alert {
    pub(super) fn new(
        origin: &Origin,
        action: &PlannedAction,
        rule: Option<&str>,
        operation_id: OperationId,
        at: Timestamp,
        args: Args,
    ) -> Self {
        Alert {
            tenant: origin.tenant.as_str().to_owned(),
            project: origin.project.as_str().to_owned(),
            connector: action.connector.clone(),
            tool: action.tool.clone(),
            entity_key: action.entity_key.clone(),
            idempotency_key: action.idempotency_key.clone(),
            args_digest: receipts::args_digest(action),
            args: (args == Args::Full).then(|| action.args.clone()),
            rule: rule.map(str::to_owned),
            operation_id: operation_id.to_string(),
            at_us: at.as_micros(),
        }
    }
}

/// A document is sealed like an event of a stream with its name.
fn sealed_as(id: &str) -> Result<Stream, Error> {
    Stream::new(format!("{KIND}/{id}"))
}

/// An alert that is written, and taken back when this is dropped, unless the action has begun.
pub(super) struct Item<R: Registry> {
    registry: R,
    owed: OwedLeaves,
    document: Option<DocumentId>,
}

impl<R: Registry> Item<R> {
    /// Writes an alert. It is durable when this is done.
    pub(super) async fn raise(
        registry: &R,
        owed: &OwedLeaves,
        vault: &Vault,
        alert: &Alert,
        epoch: Epoch,
    ) -> Result<Self, Error> {
        // In the order of time; the epoch makes another attempt's another one.
        let id = format!("{:016x}-{}-{}", alert.at_us.max(0), alert.operation_id, epoch.packed());
        let document = DocumentId::new(KIND, &*id)?;
        let body = serde_json::to_vec(alert).map_err(|error| Error::internal(error.to_string()))?;
        let body: Bytes = vault.close(&sealed_as(&id)?, body);
        // What has an unknown fate is taken back, too.
        let item = Item { registry: registry.clone(), owed: owed.clone(), document: Some(document.clone()) };
        registry.put(&document, 0, body).await?;
        Ok(item)
    }

    /// The action has begun: the alert stays.
    pub(super) fn keep(mut self) {
        self.document = None;
    }
}

impl<R: Registry> Drop for Item<R> {
    fn drop(&mut self) {
        let Some(document) = self.document.take() else { return };
        let registry = self.registry.clone();
        self.owed.pay(async move {
            let mut backoff = Backoff::default();
            for _ in 0..limits::ALERT_TRIES {
                match taken_back(&registry, &document).await {
                    Ok(()) => return,
                    Err(error) => tracing::warn!(%error, "an alert is not taken back yet"),
                }
                sleep(backoff.pause(limits::OWED_PAUSE)).await;
            }
        });
    }
}

async fn taken_back<R: Registry>(registry: &R, id: &DocumentId) -> Result<(), Error> {
    match registry.get(id).await? {
        Some(document) => registry.delete(id, document.version).await,
        None => Ok(()),
    }
}

/// Alerts that nobody has acknowledged, the oldest first, after a page mark. A page may hold fewer than asked for and still have a next
/// one.
pub async fn list<R: Registry>(
    registry: &R,
    seal: Option<Arc<Seal>>,
    tenant: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<Raised>, Option<String>), Error> {
    let vault = Vault(seal);
    let page = registry.list_documents(KIND, after, limit).await?;
    let next = (page.len() == limit).then(|| page.last().map(|last| last.id.id().to_owned())).flatten();
    let raised = page.into_iter().map(|document| raised(&vault, document));
    let fits = |raised: &Raised| {
        tenant.is_none_or(|tenant| raised.alert.as_ref().is_some_and(|alert| alert.tenant == tenant))
    };
    Ok((raised.filter(fits).collect(), next))
}

fn raised(vault: &Vault, document: Document) -> Raised {
    let id = document.id.id().to_owned();
    let opened = sealed_as(&id).and_then(|name| vault.open(&name, &document.body)).ok();
    let alert: Option<Alert> = opened.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let at = alert.as_ref().map_or(document.updated_at, |alert| Timestamp::from_micros(alert.at_us));
    Raised { id, version: document.version, at, alert }
}

/// Acknowledges an alert: it goes, and the audit keeps who has seen it. `None` where there is none.
pub async fn acknowledge<R: Registry + Inspect>(
    registry: &R,
    seal: Option<Arc<Seal>>,
    id: &str,
    actor: &str,
    reason: &str,
) -> Result<Option<Raised>, Error> {
    let Ok(document) = DocumentId::new(KIND, id) else { return Ok(None) };
    let Some(found) = registry.get(&document).await? else { return Ok(None) };
    let raised = raised(&Vault(seal), found);
    let setting = Setting {
        verb: "alert-acknowledge".into(),
        actor: actor.to_owned(),
        reason: reason.to_owned(),
        name: format!("{KIND}/{id}"),
        before: Some("raised".into()),
        after: None,
    };
    match registry.decide_setting(&document, raised.version, None, setting).await {
        // Another operator was faster.
        Err(error) if error.kind() == Kind::Conflict => Ok(None),
        done => done.map(|()| Some(raised)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hapax_core::{Project, Tenant};
    use hapax_store::Options;
    use hapax_store::memory::Memory;

    use super::*;

    fn alert(at: i64) -> Alert {
        let origin = Origin {
            tenant: Tenant::new("acme").unwrap(),
            project: Project::new("prod").unwrap(),
            traceparent: None,
        };
        let action = PlannedAction {
            connector: "chat".into(),
            tool: "send".into(),
            args: RawValue::from_string("{}".into()).unwrap(),
            entity_key: "kim".into(),
            idempotency_key: Some("k".into()),
        };
        let id = "op_a7c1f4a9e6790c96f8d1c8f3e3f63f3c".parse().unwrap();
        Alert::new(&origin, &action, None, id, Timestamp::from_micros(at), Args::Digest)
    }

    #[tokio::test]
    async fn an_alert_goes_with_an_action_that_did_not_begin_and_stays_with_one_that_did_x6() {
        let (store, owed, vault) = (Memory::open(Options::default()), OwedLeaves::default(), Vault(None));
        let epoch = |counter| Epoch::new(1, counter).unwrap();
        let later = Item::raise(&store, &owed, &vault, &alert(2_000_000), epoch(2)).await.unwrap();
        let earlier = Item::raise(&store, &owed, &vault, &alert(1_000_000), epoch(1)).await.unwrap();
        let (raised, _) = list(&store, None, None, None, 10).await.unwrap();
        let times: Vec<_> = raised.iter().map(|raised| raised.at.as_micros()).collect();
        assert_eq!(times, [1_000_000, 2_000_000], "the oldest first");
        earlier.keep();
        drop(later);
        assert!(owed.settle(Duration::from_secs(5)).await);
        let (raised, _) = list(&store, None, None, None, 10).await.unwrap();
        assert_eq!((raised.len(), raised[0].at.as_micros()), (1, 1_000_000));
    }
}
