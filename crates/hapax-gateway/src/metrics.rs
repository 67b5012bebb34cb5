//! What is counted (O1): the names and labels are fixed, dashboards rest on them.
//!
//! Tenants and projects are told apart up to a bound; the rest is counted as `_other`, so that no caller can make the set of
//! labels grow without end.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hapax_core::{Project, Scope, Tenant};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::limits;

/// A label's value, cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Text(Arc<str>);

impl EncodeLabelValue for Text {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(&self.0)
    }
}

/// Whose, and where: the grain of everything that is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Grain {
    tenant: Text,
    project: Text,
    endpoint: Text,
}

macro_rules! labels {
    ($($name:ident { $label:ident })*) => {
        $(#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        struct $name { tenant: Text, project: Text, endpoint: Text, $label: &'static str })*
    };
}

labels! {
    Present { case }
    Missing { class }
    Invalid { reason }
    Hit { restate_status }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    endpoint: Text,
    event: &'static str,
    status: u16,
}

/// The labels of each project of one tenant.
type Projects = HashMap<Option<Project>, (Text, Text)>;

/// Everything that the edge counts.
#[derive(Debug)]
pub struct Metrics {
    registry: RwLock<Registry>,
    known: RwLock<HashMap<Tenant, Projects>>,
    present: Family<Present, Counter>,
    missing: Family<Missing, Counter>,
    invalid: Family<Invalid, Counter>,
    hit: Family<Hit, Counter>,
    collision: Family<Grain, Counter>,
    answered: Family<Answered, Counter>,
    latency: Histogram,
    in_doubt: Gauge,
    ledger_failures: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics {
            registry: RwLock::default(),
            known: RwLock::default(),
            present: Family::default(),
            missing: Family::default(),
            invalid: Family::default(),
            hit: Family::default(),
            collision: Family::default(),
            answered: Family::default(),
            latency: Histogram::new(exponential_buckets(0.000_25, 2.0, 18)),
            in_doubt: Gauge::default(),
            ledger_failures: Counter::default(),
        };
        registry.register("idempotency_key_present", "Requests that carried a key", metrics.present.clone());
        registry.register(
            "idempotency_key_missing",
            "Requests without a key where one could be",
            metrics.missing.clone(),
        );
        registry.register(
            "idempotency_key_invalid",
            "Requests refused for their key",
            metrics.invalid.clone(),
        );
        registry.register(
            "idempotency_cache_hit",
            "Answers that came from an earlier request",
            metrics.hit.clone(),
        );
        registry.register(
            "idempotency_key_collision",
            "Keys sent again with another request",
            metrics.collision.clone(),
        );
        registry.register("hapax_requests", "Answers by how they came about", metrics.answered.clone());
        registry.register(
            "hapax_request_seconds",
            "Time from a request's head to its answer's",
            metrics.latency.clone(),
        );
        registry.register(
            "hapax_claims_in_doubt",
            "Claims of which nobody knows the outcome",
            metrics.in_doubt.clone(),
        );
        registry.register(
            "hapax_ledger_failures",
            "Requests refused because the ledger was away",
            metrics.ledger_failures.clone(),
        );
        *metrics.registry.write().unwrap_or_else(PoisonError::into_inner) = registry;
        metrics
    }
}

impl Metrics {
    /// Everything as Prometheus reads it.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        // Writing into a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }

    /// How many claims are in doubt, as was counted just now.
    pub fn set_in_doubt(&self, count: u64) {
        self.in_doubt.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The grain of a request.
    pub(crate) fn grain(&self, scope: Option<&Scope>, endpoint: &Arc<str>) -> Grain {
        let (tenant, project) = match scope {
            Some(scope) => self.bounded(scope),
            None => (Text("_none".into()), Text("_none".into())),
        };
        Grain { tenant, project, endpoint: Text(endpoint.clone()) }
    }

    fn bounded(&self, scope: &Scope) -> (Text, Text) {
        let (tenant, project) = (scope.tenant(), scope.project().cloned());
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(labels) = known.get(tenant).and_then(|projects| projects.get(&project)) {
            return labels.clone();
        }
        let full = known.values().map(HashMap::len).sum::<usize>() >= limits::LABELS;
        drop(known);
        if full {
            return (Text("_other".into()), Text("_other".into()));
        }
        let name = project.as_ref().map_or("_any", |project| project.as_str());
        let labels = (Text(tenant.as_str().into()), Text(name.into()));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(tenant.clone()).or_default().insert(project, labels.clone());
        labels
    }

    pub(crate) fn key_present(&self, grain: &Grain) {
        let Grain { tenant, project, endpoint } = grain.clone();
        self.present.get_or_create(&Present { tenant, project, endpoint, case: "A" }).inc();
    }

    pub(crate) fn key_missing(&self, grain: &Grain, class: &'static str) {
        let Grain { tenant, project, endpoint } = grain.clone();
        self.missing.get_or_create(&Missing { tenant, project, endpoint, class }).inc();
    }

    pub(crate) fn key_invalid(&self, grain: &Grain, reason: &'static str) {
        let Grain { tenant, project, endpoint } = grain.clone();
        self.invalid.get_or_create(&Invalid { tenant, project, endpoint, reason }).inc();
    }

    pub(crate) fn hit(&self, grain: &Grain, restate_status: &'static str) {
        let Grain { tenant, project, endpoint } = grain.clone();
        self.hit.get_or_create(&Hit { tenant, project, endpoint, restate_status }).inc();
    }

    pub(crate) fn collision(&self, grain: &Grain) {
        self.collision.get_or_create(grain).inc();
    }

    pub(crate) fn ledger_failed(&self) {
        self.ledger_failures.inc();
    }

    pub(crate) fn answered(&self, endpoint: &Arc<str>, event: &'static str, status: u16, took: Duration) {
        self.answered.get_or_create(&Answered { endpoint: Text(endpoint.clone()), event, status }).inc();
        self.latency.observe(took.as_secs_f64());
    }
}
