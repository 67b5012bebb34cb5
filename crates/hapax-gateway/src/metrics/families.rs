//! Every family of metrics that a hapax process has: its name, its type, its labels and one sentence about it (O1).
//!
//! This is the one table. What is scraped is written by it, `docs/reference/metrics.md` shows it, and a test holds the two and a
//! scrape against each other. Names and labels of the first six are those of the sources; dashboards rest on all of them.

/// How a family is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows while the process lives.
    Counter,
    /// A number as it stands.
    Gauge,
    /// How many observations were at most so large.
    Histogram,
}

impl Kind {
    /// The word of the exposition format.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A family of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name, as a query has it.
    pub name: &'static str,
    /// How it is to be read.
    pub kind: Kind,
    /// The names of its labels, in order.
    pub labels: &'static [&'static str],
    /// One sentence about it.
    pub help: &'static str,
}

macro_rules! families {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $constant: Family =
            Family { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*

        /// All families, in the order in which they are scraped.
        pub const FAMILIES: &[Family] = &[$($constant),*];
    };
}

families! {
    PRESENT: Counter "idempotency_key_present_total" ["tenant", "project", "endpoint", "case"]
        "Requests that carried a key (case A), or whose transport did (case B).";
    MISSING: Counter "idempotency_key_missing_total" ["tenant", "project", "endpoint", "class"]
        "Requests without a key where one could be; `class` is the policy: refused on REQUIRED_A, unprotected on ACCEPTED.";
    INVALID: Counter "idempotency_key_invalid_total" ["tenant", "project", "endpoint", "reason"]
        "Requests refused for their key; `reason` is length, charset, reserved, duplicated or prohibited.";
    UNTRANSLATED: Counter "transport_translation_failed_total" ["tenant", "project", "endpoint", "provider"]
        "Requests refused because no key was found in their transport.";
    HIT: Counter "idempotency_cache_hit_total" ["tenant", "project", "endpoint", "restate_status"]
        "Answers that came from an earlier request; `restate_status` is completed, attached or terminal_error.";
    HANDLER_HIT: Counter "handler_internal_dedup_hit_total" ["tenant", "project", "endpoint"]
        "Tokens that handlers of the policy HANDLER_INTERNAL_C found used.";
    COLLISION: Counter "idempotency_key_collision_total" ["tenant", "project", "endpoint"]
        "Keys sent again with another request.";
    REQUESTS: Counter "hapax_requests_total" ["tenant", "project", "endpoint", "event", "status"]
        "Answers, by how they came about and their HTTP status.";
    LATENCY: Histogram "hapax_request_seconds" ["endpoint", "event"]
        "Time from a request's head to its answer's head.";
    API_REQUESTS: Counter "hapax_api_requests_total" ["tenant", "project", "endpoint", "event", "status"]
        "Answers of the application API, by what came of them and their HTTP status.";
    API_LATENCY: Histogram "hapax_api_request_seconds" ["endpoint", "event"]
        "Time from a request's head to its answer at the application API.";
    DELIVERIES_REFUSED: Counter "hapax_deliveries_refused_total" ["provider", "cause"]
        "Deliveries of webhooks that were refused; `cause` is the problem's code.";
    CONTENT_REPEATED: Counter "hapax_delivery_content_repeated_total" ["provider"]
        "Deliveries whose signed content came before under another identifier.";
    IN_DOUBT: Gauge "hapax_claims_in_doubt" []
        "Claims of which the outcome is not known, when they were counted last.";
    LEDGER_UP: Gauge "hapax_ledger_up" []
        "1 if the ledger took claims when it was asked last, otherwise 0.";
    LEDGER_FAILURES: Counter "hapax_ledger_failures_total" []
        "Requests refused because the ledger was away.";
    SETTLES_REFUSED: Counter "hapax_settles_refused_total" []
        "True outcomes that came after an operator had settled otherwise.";
    CONNECTIONS_REFUSED: Counter "hapax_connections_refused_total" ["limit"]
        "Connections closed at once, by the limit that they would have passed.";
    LOG_LINES_DROPPED: Counter "hapax_log_lines_dropped_total" []
        "Lines of the log that were not read in time, or could not be written.";
    SESSION_AGE: Gauge "hapax_session_age_seconds" []
        "Seconds since the session of this process was renewed; beyond the lease, nothing is claimed.";
    SWEEP_LAG: Gauge "hapax_sweep_lag_seconds" []
        "Seconds since the sweeper had nothing more to do, or another process swept.";
    SPOOL_FILES: Gauge "hapax_spool_files" []
        "Outcomes that wait in the spool for the ledger.";
    REPORTS_OWED: Gauge "hapax_reports_owed" []
        "Reports of calls that the ledger has not heard yet.";
    LANES_WAITING: Gauge "hapax_lanes_waiting" []
        "Actions that wait for their turn in a lane.";
    JOURNAL_APPENDS: Counter "hapax_journal_appends_total" []
        "Appends to journals of executions and receipts.";
    CIRCUITS_OPEN: Gauge "hapax_circuits_open" ["node"]
        "1 for each node of a cluster that is asked nothing, because it has failed too often.";
    TICKS_DISPATCHED: Counter "hapax_ticks_dispatched_total" ["schedule"]
        "Ticks of schedules whose claims were made.";
    TICKS_LATE: Counter "hapax_ticks_late_total" ["schedule"]
        "Ticks that were dispatched late.";
    TICKS_MISSED: Counter "hapax_ticks_missed_total" ["schedule"]
        "Ticks that were not dispatched, or not to their end.";
    TICKS_SKIPPED: Counter "hapax_ticks_skipped_total" ["schedule"]
        "Ticks that were left out because an earlier one had not ended.";
    TICK_SIGNATURES_REFUSED: Counter "hapax_schedule_signatures_refused_total" []
        "Requests signed as a schedule's whose signature did not hold.";
    SPANS_EXPORTED: Counter "hapax_spans_exported_total" []
        "Spans of traces that the collector took.";
    SPANS_DROPPED: Counter "hapax_spans_dropped_total" []
        "Spans of traces that were lost: the collector was away or too slow.";
}
