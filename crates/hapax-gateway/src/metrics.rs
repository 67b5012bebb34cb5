//! What is counted (O1): the names and labels are fixed, dashboards rest on them.
//!
//! [`FAMILIES`] is the table of all of it. The counters of requests are in `grains.rs`, with the one bound on label sets. They are
//! written out for Prometheus, and read by the process itself for the console.

mod families;
mod grains;
mod latency;
mod tally;
mod text;
mod ticks;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use hapax_core::{Scope, Timestamp};

pub use families::{FAMILIES, Family, Kind};
pub use grains::{AnswerCount, Traffic};
pub(crate) use grains::{Counters, Hit, Reason, Sent};
pub use latency::LatencyCounts;
pub use ticks::Tick;

use families as family;
use grains::Grains;
use tally::Tally;
use text::Text;
use ticks::Ticks;

use crate::{clock, limits};

/// How the store of a process does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vitals {
    /// How long ago the session was renewed.
    pub session_age: Duration,
    /// How long ago the sweeper had nothing more to do.
    pub sweep_lag: Duration,
    /// Appends to journals; never fewer than before.
    pub journal_appends: u64,
    /// Actions that wait for their turn in a lane.
    pub lanes_waiting: usize,
}

/// How a service behind has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamFailures {
    /// How often, by what became of the request: `executed` where the service's own error was the answer, or the code of a problem.
    pub by_event: BTreeMap<&'static str, u64>,
    /// When it did so last.
    pub last_at: Timestamp,
}

/// Everything that a process counts.
#[derive(Debug, Default)]
pub struct Metrics {
    grains: Grains,
    /// What is answered at the listener of applications.
    api: Grains,
    deliveries_refused: Tally<2>,
    contents_repeated: Tally<1>,
    in_doubt: AtomicU64,
    ledger_up: AtomicBool,
    ledger_failures: AtomicU64,
    contradicted: AtomicU64,
    /// All of them, and those by their address.
    connections_refused: [AtomicU64; 2],
    log_lines_dropped: AtomicU64,
    ticks: Ticks,
    tick_signatures_refused: AtomicU64,
    owed: AtomicU64,
    spooled: AtomicU64,
    circuits_open: Mutex<Vec<String>>,
    upstream_failures: Mutex<BTreeMap<String, UpstreamFailures>>,
    vitals: Mutex<Vitals>,
    /// Those that were exported, and those that were lost.
    spans: [AtomicU64; 2],
}

impl Metrics {
    /// Everything as Prometheus reads it. No request waits meanwhile.
    pub fn render(&self) -> String {
        let mut text = Text::default();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.grains.write(&mut text);
        self.api.write_answers(&mut text, &family::API_REQUESTS, &family::API_LATENCY);
        self.deliveries_refused.write(&family::DELIVERIES_REFUSED, &mut text);
        self.contents_repeated.write(&family::CONTENT_REPEATED, &mut text);
        text.one(&family::IN_DOUBT, read(&self.in_doubt));
        text.one(&family::LEDGER_UP, u8::from(self.ledger_up.load(Ordering::Relaxed)));
        text.one(&family::LEDGER_FAILURES, read(&self.ledger_failures));
        text.one(&family::SETTLES_REFUSED, read(&self.contradicted));
        let [all, by_address] = self.connections_refused.each_ref().map(read);
        let mut refused = text.family(&family::CONNECTIONS_REFUSED);
        refused.sample(&["max_connections"], all.saturating_sub(by_address));
        refused.sample(&["max_connections_per_address"], by_address);
        text.one(&family::LOG_LINES_DROPPED, read(&self.log_lines_dropped));
        self.ticks.write(&mut text);
        text.one(&family::TICK_SIGNATURES_REFUSED, read(&self.tick_signatures_refused));
        text.one(&family::REPORTS_OWED, read(&self.owed));
        text.one(&family::SPOOL_FILES, read(&self.spooled));
        let mut open = text.family(&family::CIRCUITS_OPEN);
        for node in &*self.circuits_open.lock().unwrap_or_else(PoisonError::into_inner) {
            open.sample(&[node], 1);
        }
        let vitals = *self.vitals.lock().unwrap_or_else(PoisonError::into_inner);
        text.one(&family::SESSION_AGE, vitals.session_age.as_secs_f64());
        text.one(&family::SWEEP_LAG, vitals.sweep_lag.as_secs_f64());
        text.one(&family::JOURNAL_APPENDS, vitals.journal_appends);
        text.one(&family::LANES_WAITING, vitals.lanes_waiting);
        let [exported, dropped] = self.spans.each_ref().map(read);
        text.one(&family::SPANS_EXPORTED, exported);
        text.one(&family::SPANS_DROPPED, dropped);
        text.end()
    }

    /// What was counted at every endpoint, for every project that is told apart: what a scrape has, for the process itself.
    pub fn traffic(&self) -> Vec<Traffic> {
        self.grains.traffic()
    }

    /// How long answers took, by endpoint and event.
    pub fn latencies(&self) -> Vec<(Arc<str>, &'static str, LatencyCounts)> {
        self.grains.latencies()
    }

    /// Counts an answer of the application API: for whom, where, what came of it, and how long it took.
    pub(crate) fn api_answered(
        &self,
        scope: Option<&Scope>,
        endpoint: &str,
        (event, status): (&'static str, u16),
        took: Duration,
    ) {
        let counters = self.api.of(scope, &endpoint.into());
        self.api.answered(&counters, event, status, took);
    }

    /// How many claims are in doubt, as was counted just now.
    pub fn set_in_doubt(&self, count: u64) {
        self.in_doubt.store(count, Ordering::Relaxed);
    }

    /// Whether the ledger takes claims, as was asked just now.
    pub fn set_ledger_up(&self, up: bool) {
        self.ledger_up.store(up, Ordering::Relaxed);
    }

    /// How many lines the log lacks so far; never fewer than before.
    pub fn set_log_lines_dropped(&self, count: u64) {
        self.log_lines_dropped.store(count, Ordering::Relaxed);
    }

    /// How many true outcomes were refused so far for an operator's; never fewer than before (L8).
    pub(crate) fn set_contradicted(&self, count: u64) {
        self.contradicted.store(count, Ordering::Relaxed);
    }

    /// How the store of this process does, as was looked at just now.
    pub fn set_vitals(&self, vitals: Vitals) {
        *self.vitals.lock().unwrap_or_else(PoisonError::into_inner) = vitals;
    }

    /// How many reports the ledger has not heard, and how many outcomes lie in the spool.
    pub(crate) fn set_owed(&self, owed: usize, spooled: usize) {
        self.owed.store(owed as u64, Ordering::Relaxed);
        self.spooled.store(spooled as u64, Ordering::Relaxed);
    }

    /// Which nodes of clusters are asked nothing at the moment.
    pub(crate) fn set_circuits_open(&self, nodes: Vec<String>) {
        *self.circuits_open.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// How many spans were exported and how many were lost so far; never fewer than before (O3).
    pub(crate) fn set_spans(&self, counts: [u64; 2]) {
        self.spans.iter().zip(counts).for_each(|(own, count)| own.store(count, Ordering::Relaxed));
    }

    /// How many connections were refused so far, by the limit that they would have passed; never fewer than before.
    pub(crate) fn set_connections_refused(&self, counts: &hapax_http::listener::Counts) {
        let [all, by_address] = &self.connections_refused;
        all.store(counts.refused, Ordering::Relaxed);
        by_address.store(counts.refused_by_address, Ordering::Relaxed);
    }

    /// What is counted about a request.
    pub(crate) fn counters(&self, scope: Option<&Scope>, endpoint: &Arc<str>) -> Arc<Counters> {
        self.grains.of(scope, endpoint)
    }

    /// A delivery was refused.
    pub(crate) fn delivery_refused(&self, provider: &Arc<str>, cause: &'static str) {
        self.deliveries_refused.add([provider, cause], 1);
    }

    /// Signed content came again under another identifier.
    pub(crate) fn content_repeated(&self, provider: &Arc<str>) {
        self.contents_repeated.add([provider], 1);
    }

    /// How the services behind have failed, by name; those that have not are left out.
    pub fn upstream_failures(&self) -> BTreeMap<String, UpstreamFailures> {
        self.upstream_failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Which nodes of clusters are asked nothing at the moment.
    pub fn circuits_open(&self) -> Vec<String> {
        self.circuits_open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many reports the ledger has not heard, and how many outcomes lie in the spool.
    pub fn owed(&self) -> (u64, u64) {
        (self.owed.load(Ordering::Relaxed), self.spooled.load(Ordering::Relaxed))
    }

    /// A service has failed.
    pub(crate) fn upstream_failed(&self, name: &str, event: &'static str) {
        let since = clock::time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default();
        let last_at = Timestamp::ZERO.after(since);
        let mut all = self.upstream_failures.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= limits::TALLIED && !all.contains_key(name) {
            return;
        }
        let fresh = || UpstreamFailures { by_event: BTreeMap::new(), last_at };
        let failures = all.entry(name.to_owned()).or_insert_with(fresh);
        *failures.by_event.entry(event).or_default() += 1;
        failures.last_at = last_at;
    }

    pub(crate) fn ledger_failed(&self) {
        self.ledger_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self, counters: &Counters, event: &'static str, status: u16, took: Duration) {
        self.grains.answered(counters, event, status, took);
    }
}

#[cfg(test)]
mod tests;
