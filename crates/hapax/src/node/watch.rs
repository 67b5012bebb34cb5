//! What a node looks at from time to time: whether its ledger takes claims, and claims in doubt, which have a bound and an alert
//! of their own (H12).

use std::collections::HashMap;
use std::sync::Arc;

use hapax_core::{Filter, Inspect as _, StateName, Tenant};
use hapax_gateway::Gateway;
use hapax_gateway::restate::marks_kept_answers;
use hapax_gateway::settings::{Settings, Upstream};
use tokio::sync::watch;

use super::ledger::{self, Health};
use crate::Store;
use crate::{clock, limits, when};

/// Asks the ledger every few seconds whether it takes claims, and how many are in doubt: for `/readyz`, for the gauges, and for
/// each tenant's bound where there is one.
pub(super) async fn look(
    store: Store,
    gateway: Arc<Gateway<Store, Store>>,
    settings: watch::Receiver<Settings>,
    health: Arc<Health>,
) {
    let mut told = 0;
    // It was opened a moment ago.
    gateway.metrics().set_ledger_up(true);
    loop {
        // A first failure is given time to pass; from then on it is the way back that is waited for.
        let away = health.in_the_way().is_some();
        tokio::time::sleep(if away { limits::LOOK_EVERY_AWAY } else { limits::LOOK_EVERY }).await;
        let began = clock::now();
        health.asks(when::now());
        let asked = match ledger::ask(&store, &store).await {
            Ok(()) => gateway.agree().await,
            away => away,
        };
        // Before `/readyz` says so, and not after claims have been counted, which may take long while connections come back.
        gateway.metrics().set_ledger_up(asked.is_ok());
        health.note(&asked, when::now());
        if asked.is_err() {
            continue;
        }
        health.saw(Some(began.elapsed()), None);
        let Ok(counts) = store.count(&Filter::default()).await else { continue };
        health.saw(None, Some(counts));
        tell_doubts(&gateway, counts.in_doubt, &mut told);
        let bounded = settings.borrow().tenants.in_doubt > 0;
        if bounded && let Some(of_tenants) = by_tenant(&store).await {
            gateway.admission().set_in_doubt(of_tenants);
        }
    }
}

fn tell_doubts(gateway: &Gateway<Store, Store>, in_doubt: u64, told: &mut u64) {
    gateway.metrics().set_in_doubt(in_doubt);
    if in_doubt > *told {
        tracing::warn!(
            in_doubt,
            "nobody knows the outcome of some claims: see `hapax claims list --state in_doubt`"
        );
    }
    *told = in_doubt;
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

/// Looks whether each cluster marks the answers that it kept: nothing documents it, and what replays are rests on it (D3). A cluster
/// that has kept nothing yet, or is away, is looked at again.
pub(super) async fn look_at_clusters(upstreams: impl Iterator<Item = Arc<Upstream>>) {
    let mut left: Vec<_> = upstreams.filter(|upstream| upstream.cluster.is_some()).collect();
    let (mut pause, mut is_first) = (limits::CLUSTER_LOOK, true);
    loop {
        let mut again = Vec::new();
        for upstream in left {
            match marks_kept_answers(&upstream).await {
                Ok(Some(true)) => {}
                Ok(Some(false)) => tracing::error!(
                    upstream = upstream.name,
                    "kept answers of this cluster do not say until when: replays are taken for executions"
                ),
                Ok(None) => again.push(upstream),
                Err(away) => {
                    // Each request says so, too, and a cluster that is away is no fault of a start (P5).
                    if is_first {
                        tracing::warn!(upstream = upstream.name, cause = %away, "this cluster cannot be looked at");
                    }
                    again.push(upstream);
                }
            }
        }
        if again.is_empty() {
            return;
        }
        (left, is_first) = (again, false);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(limits::CLUSTER_LOOK_LONGEST);
    }
}
