//! What a node looks at from time to time: claims in doubt, which have a bound and an alert of their own (H12).

use std::collections::HashMap;
use std::sync::Arc;

use hapax_core::{Filter, Inspect as _, StateName, Tenant};
use hapax_gateway::Gateway;
use hapax_gateway::settings::Settings;
use hapax_store::Store;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::limits;

/// Counts claims in doubt every few seconds: for the gauge, and for each tenant's bound where there is one.
pub(super) async fn doubts(
    store: Store,
    gateway: Arc<Gateway<Store, Store>>,
    settings: watch::Receiver<Settings>,
) {
    let mut told = 0;
    loop {
        tokio::time::sleep(limits::DOUBTS_EVERY).await;
        let Ok(counts) = store.count(&Filter::default()).await else { continue };
        gateway.metrics().set_in_doubt(counts.in_doubt);
        if counts.in_doubt > told {
            tracing::warn!(
                in_doubt = counts.in_doubt,
                "nobody knows the outcome of some claims: see `hapax claims list --state in_doubt`"
            );
        }
        told = counts.in_doubt;
        let bounded = settings.borrow().tenants.in_doubt > 0;
        if bounded && let Some(of_tenants) = by_tenant(&store).await {
            gateway.admission().set_in_doubt(of_tenants);
        }
    }
}

async fn by_tenant(store: &Store) -> Option<HashMap<Tenant, u64>> {
    let doubts = Filter { state: Some(StateName::InDoubt), ..Filter::default() };
    let (mut counted, mut after) = (HashMap::new(), None::<String>);
    for _ in 0..limits::DOUBT_PAGES {
        let page = store.list(&doubts, after.as_deref(), hapax_core::limits::MAX_PAGE).await.ok()?;
        for record in page.items {
            *counted.entry(record.identity.scope().tenant().clone()).or_insert(0) += 1;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Some(counted)
}

/// The routes, as operators see them.
pub(super) fn routes(settings: &Settings) -> Value {
    let routes = settings.routes.iter().map(|route| {
        let rule = route.rule.as_ref();
        json!({
            "method": route.method.as_str(),
            "path": &*route.path,
            "policy": route.policy.as_str(),
            "upstream": route.upstream.name,
            "operation": rule.map(|rule| rule.operation.as_str()),
            "scope": rule.map(|rule| rule.width.as_str()),
        })
    });
    routes.collect()
}
