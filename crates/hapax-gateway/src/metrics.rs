//! What is counted (O1): the names and labels are fixed, dashboards rest on them.
//!
//! Tenants and projects are told apart up to a bound; the rest is counted as `_other`, so that no caller can make the set of
//! labels grow without end. A request finds its `Counters` once, whatever is counted about it then.

mod ticks;

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use foldhash::{HashMap, HashSet};
use hapax_core::{Project, Scope, Tenant};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::limits;

pub use ticks::Tick;
use ticks::Ticks;

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
struct Grain {
    tenant: Text,
    project: Text,
    endpoint: Text,
}

macro_rules! labels {
    ($($name:ident { $label:ident })*) => {
        $(#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        struct $name { tenant: Text, project: Text, endpoint: Text, $label: &'static str }

        impl $name {
            fn of(grain: &Grain, $label: &'static str) -> Self {
                let Grain { tenant, project, endpoint } = grain.clone();
                $name { tenant, project, endpoint, $label }
            }
        })*
    };
}

labels! {
    Present { case }
    Missing { class }
    Invalid { reason }
    Hit { restate_status }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Untranslated {
    tenant: Text,
    project: Text,
    endpoint: Text,
    provider: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Provider {
    provider: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    provider: Text,
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    endpoint: Text,
    event: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    limit: &'static str,
}

/// What tells two [`Counters`] apart; without a scope, what nobody was found for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    whose: Option<(Tenant, Option<Project>)>,
    endpoint: Arc<str>,
}

/// Who is told apart, and what is counted for them.
#[derive(Debug, Default)]
struct Known {
    projects: HashSet<(Tenant, Option<Project>)>,
    counters: HashMap<Place, Arc<Counters>>,
    /// What is counted for all others, by endpoint.
    others: HashMap<Arc<str>, Arc<Counters>>,
}

/// What is counted at one endpoint for one tenant's project. The counters of every request are at hand, rarer ones are looked
/// up.
#[derive(Debug)]
pub(crate) struct Counters {
    grain: Grain,
    present: OnceLock<Counter>,
    replayed: OnceLock<Counter>,
    /// By event and status: a few for each endpoint.
    answered: RwLock<Vec<(&'static str, u16, Counter)>>,
}

impl Counters {
    fn new(tenant: &str, project: &str, endpoint: &Arc<str>) -> Arc<Self> {
        let text = |text: &str| Text(text.into());
        let grain = Grain { tenant: text(tenant), project: text(project), endpoint: Text(endpoint.clone()) };
        let (present, replayed) = (OnceLock::new(), OnceLock::new());
        Arc::new(Counters { grain, present, replayed, answered: RwLock::default() })
    }
}

/// How an answer that came from an earlier request is counted.
pub(crate) const COMPLETED: &str = "completed";

/// Everything that the edge counts.
#[derive(Debug)]
pub struct Metrics {
    registry: RwLock<Registry>,
    known: RwLock<Known>,
    present: Family<Present, Counter>,
    missing: Family<Missing, Counter>,
    invalid: Family<Invalid, Counter>,
    untranslated: Family<Untranslated, Counter>,
    hit: Family<Hit, Counter>,
    handler_hit: Family<Grain, Counter>,
    collision: Family<Grain, Counter>,
    deliveries_refused: Family<Refusal, Counter>,
    contents_repeated: Family<Provider, Counter>,
    answered: Family<Answered, Counter>,
    latency: Histogram,
    in_doubt: Gauge,
    ledger_up: Gauge,
    ledger_failures: Counter,
    contradicted: Counter,
    connections_refused: Family<Refused, Counter>,
    log_lines_dropped: Counter,
    ticks: Ticks,
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
            untranslated: Family::default(),
            hit: Family::default(),
            handler_hit: Family::default(),
            collision: Family::default(),
            deliveries_refused: Family::default(),
            contents_repeated: Family::default(),
            answered: Family::default(),
            latency: Histogram::new(exponential_buckets(0.000_25, 2.0, 18)),
            in_doubt: Gauge::default(),
            ledger_up: Gauge::default(),
            ledger_failures: Counter::default(),
            contradicted: Counter::default(),
            connections_refused: Family::default(),
            log_lines_dropped: Counter::default(),
            ticks: Ticks::default(),
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
            "transport_translation_failed",
            "Requests refused because no key was found in their transport",
            metrics.untranslated.clone(),
        );
        registry.register(
            "idempotency_cache_hit",
            "Answers that came from an earlier request",
            metrics.hit.clone(),
        );
        let hits = metrics.handler_hit.clone();
        registry.register("handler_internal_dedup_hit", "Tokens that handlers found used", hits);
        registry.register(
            "idempotency_key_collision",
            "Keys sent again with another request",
            metrics.collision.clone(),
        );
        registry.register(
            "hapax_deliveries_refused",
            "Deliveries that were refused, by cause",
            metrics.deliveries_refused.clone(),
        );
        registry.register(
            "hapax_delivery_content_repeated",
            "Deliveries whose signed content came before under another identifier",
            metrics.contents_repeated.clone(),
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
            "hapax_ledger_up",
            "Whether the ledger took claims when it was asked last",
            metrics.ledger_up.clone(),
        );
        registry.register(
            "hapax_ledger_failures",
            "Requests refused because the ledger was away",
            metrics.ledger_failures.clone(),
        );
        registry.register(
            "hapax_settles_refused",
            "True outcomes that came after an operator had settled otherwise",
            metrics.contradicted.clone(),
        );
        registry.register(
            "hapax_connections_refused",
            "Connections closed at once, by the limit that they would have passed",
            metrics.connections_refused.clone(),
        );
        registry.register(
            "hapax_log_lines_dropped",
            "Lines of the log that nobody read in time, or that could not be written",
            metrics.log_lines_dropped.clone(),
        );
        metrics.ticks.register(&mut registry);
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

    /// Whether the ledger takes claims, as was asked just now.
    pub fn set_ledger_up(&self, up: bool) {
        self.ledger_up.set(up.into());
    }

    /// How many lines the log lacks so far; never fewer than before.
    pub fn set_log_lines_dropped(&self, count: u64) {
        self.log_lines_dropped.inner().store(count, Ordering::Relaxed);
    }

    /// How many true outcomes were refused so far for an operator's; never fewer than before (L8).
    pub(crate) fn set_contradicted(&self, count: u64) {
        self.contradicted.inner().store(count, Ordering::Relaxed);
    }

    /// How many connections were refused so far, by the limit that they would have passed; never fewer than before.
    pub(crate) fn set_connections_refused(&self, counts: &hapax_http::listener::Counts) {
        let all = counts.refused.saturating_sub(counts.refused_by_address);
        for (limit, count) in
            [("max_connections", all), ("max_connections_per_address", counts.refused_by_address)]
        {
            let counter = self.connections_refused.get_or_create(&Refused { limit });
            counter.inner().store(count, Ordering::Relaxed);
        }
    }

    /// What is counted about a request.
    pub(crate) fn counters(&self, scope: Option<&Scope>, endpoint: &Arc<str>) -> Arc<Counters> {
        let whose = scope.map(|scope| (scope.tenant().clone(), scope.project().cloned()));
        let place = Place { whose, endpoint: endpoint.clone() };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.counters.get(&place).or_else(|| {
            let other = place.whose.as_ref().is_some_and(|whose| known.has_no_room_for(whose));
            known.others.get(&place.endpoint).filter(|_| other)
        });
        if let Some(counters) = found {
            return counters.clone();
        }
        drop(known);
        self.known.write().unwrap_or_else(PoisonError::into_inner).note(place)
    }

    /// An endpoint has callers of one case only.
    pub(crate) fn key_present(&self, counters: &Counters, case: &'static str) {
        let find = || self.present.get_or_create(&Present::of(&counters.grain, case)).clone();
        counters.present.get_or_init(find).inc();
    }

    pub(crate) fn key_missing(&self, counters: &Counters, class: &'static str) {
        self.missing.get_or_create(&Missing::of(&counters.grain, class)).inc();
    }

    pub(crate) fn key_invalid(&self, counters: &Counters, reason: &'static str) {
        self.invalid.get_or_create(&Invalid::of(&counters.grain, reason)).inc();
    }

    /// No identifier was found in a request of this provider; an ordinary route has none.
    pub(crate) fn translation_failed(&self, counters: &Counters, provider: Option<&Arc<str>>) {
        let Grain { tenant, project, endpoint } = counters.grain.clone();
        let provider = Text(provider.cloned().unwrap_or_else(|| "_none".into()));
        self.untranslated.get_or_create(&Untranslated { tenant, project, endpoint, provider }).inc();
    }

    /// A delivery was refused.
    pub(crate) fn delivery_refused(&self, provider: &Arc<str>, cause: &'static str) {
        self.deliveries_refused.get_or_create(&Refusal { provider: Text(provider.clone()), cause }).inc();
    }

    /// Signed content came again under another identifier.
    pub(crate) fn content_repeated(&self, provider: &Arc<str>) {
        self.contents_repeated.get_or_create(&Provider { provider: Text(provider.clone()) }).inc();
    }

    pub(crate) fn hit(&self, counters: &Counters, status: &'static str) {
        let find = || self.hit.get_or_create(&Hit::of(&counters.grain, status)).clone();
        match status {
            COMPLETED => counters.replayed.get_or_init(find).inc(),
            _ => find().inc(),
        };
    }

    /// A handler found its own token used.
    pub(crate) fn handler_hit(&self, counters: &Counters) {
        self.handler_hit.get_or_create(&counters.grain).inc();
    }

    pub(crate) fn collision(&self, counters: &Counters) {
        self.collision.get_or_create(&counters.grain).inc();
    }

    pub(crate) fn ledger_failed(&self) {
        self.ledger_failures.inc();
    }

    pub(crate) fn answered(&self, counters: &Counters, event: &'static str, status: u16, took: Duration) {
        self.latency.observe(took.as_secs_f64());
        let at_hand = counters.answered.read().unwrap_or_else(PoisonError::into_inner);
        let counter = at_hand.iter().find(|found| found.0 == event && found.1 == status);
        if let Some((.., counter)) = counter {
            counter.inc();
            return;
        }
        drop(at_hand);
        let endpoint = counters.grain.endpoint.clone();
        let counter = self.answered.get_or_create(&Answered { endpoint, event, status }).clone();
        counter.inc();
        let mut at_hand = counters.answered.write().unwrap_or_else(PoisonError::into_inner);
        if at_hand.len() < limits::ANSWERS_AT_HAND {
            at_hand.push((event, status, counter));
        }
    }
}

impl Known {
    fn has_no_room_for(&self, whose: &(Tenant, Option<Project>)) -> bool {
        self.projects.len() >= limits::LABELS && !self.projects.contains(whose)
    }

    /// The counters of a place that was not known, or had become known in the meantime.
    fn note(&mut self, place: Place) -> Arc<Counters> {
        let Some(whose) = &place.whose else {
            let unknown = || Counters::new("_none", "_none", &place.endpoint);
            return self.counters.entry(place.clone()).or_insert_with(unknown).clone();
        };
        if self.has_no_room_for(whose) {
            let other = || Counters::new("_other", "_other", &place.endpoint);
            return self.others.entry(place.endpoint.clone()).or_insert_with(other).clone();
        }
        self.projects.insert(whose.clone());
        let (tenant, project) = whose;
        let project = project.as_ref().map_or("_any", |project| project.as_str());
        let own = || Counters::new(tenant.as_str(), project, &place.endpoint);
        self.counters.entry(place.clone()).or_insert_with(own).clone()
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{Subject, SubjectKind};

    use super::*;

    fn scope(tenant: &str) -> Scope {
        let subject = Subject::from_credential(SubjectKind::User, "ada").unwrap();
        Scope::new(Tenant::new(tenant).unwrap(), Project::new("shop").unwrap(), subject)
    }

    fn count(metrics: &Metrics, tenant: &str, endpoint: &Arc<str>) {
        let counters = metrics.counters(Some(&scope(tenant)), endpoint);
        metrics.key_present(&counters, "A");
        metrics.hit(&counters, COMPLETED);
        metrics.hit(&counters, "attached");
        metrics.answered(&counters, "replayed", 200, Duration::from_millis(1));
    }

    #[test]
    fn tenants_beyond_the_bound_are_counted_together_and_those_within_it_apart_o1() {
        let (metrics, charges, refunds) = (Metrics::default(), "/charges".into(), "/refunds".into());
        for tenant in 0..limits::LABELS + 2 {
            count(&metrics, &format!("t{tenant}"), &charges);
        }
        // Those who are known are known everywhere.
        for tenant in ["t0", "late", "t0"] {
            count(&metrics, tenant, &refunds);
        }
        let text = metrics.render();
        let labels = |tenant: &str, project: &str, endpoint: &str| {
            format!("tenant=\"{tenant}\",project=\"{project}\",endpoint=\"{endpoint}\"")
        };
        let counted = |name: &str, labels: &str, more: &str, number: u64| {
            let line = format!("{name}{{{labels}{more}}} {number}\n");
            assert!(text.contains(&line), "{line}");
        };
        for (tenant, project, endpoint, number) in [
            ("t0", "shop", "/charges", 1),
            ("t999", "shop", "/charges", 1),
            ("_other", "_other", "/charges", 2),
            ("t0", "shop", "/refunds", 2),
            ("_other", "_other", "/refunds", 1),
        ] {
            let labels = labels(tenant, project, endpoint);
            counted("idempotency_key_present_total", &labels, ",case=\"A\"", number);
            counted("idempotency_cache_hit_total", &labels, ",restate_status=\"completed\"", number);
            counted("idempotency_cache_hit_total", &labels, ",restate_status=\"attached\"", number);
        }
        assert!(!text.contains("t1000") && !text.contains("late"), "a label beyond the bound");
        let all = limits::LABELS as u64 + 2;
        counted("hapax_requests_total", "endpoint=\"/charges\"", ",event=\"replayed\",status=\"200\"", all);
    }

    #[test]
    fn what_nobody_was_found_for_takes_no_tenants_place_o1() {
        let (metrics, endpoint) = (Metrics::default(), "_none".into());
        metrics.key_invalid(&metrics.counters(None, &endpoint), "key-malformed");
        let line = "idempotency_key_invalid_total{tenant=\"_none\",project=\"_none\",endpoint=\"_none\",reason=\"key-malformed\"} 1\n";
        assert!(metrics.render().contains(line), "{}", metrics.render());
        assert!(metrics.known.read().unwrap().projects.is_empty());
    }

    #[test]
    fn answers_are_counted_by_event_and_status_however_many_there_are_o1() {
        let (metrics, endpoint) = (Metrics::default(), "/charges".into());
        let counters = metrics.counters(Some(&scope("acme")), &endpoint);
        for status in
            [200, 200, 201].into_iter().chain(300..300 + limits::ANSWERS_AT_HAND as u16).chain([331])
        {
            metrics.answered(&counters, "executed", status, Duration::ZERO);
        }
        let text = metrics.render();
        for (status, number) in [(200, 2), (201, 1), (300, 1), (331, 2)] {
            let labels = format!("endpoint=\"/charges\",event=\"executed\",status=\"{status}\"");
            let line = format!("hapax_requests_total{{{labels}}} {number}\n");
            assert!(text.contains(&line), "{line}");
        }
    }
}
