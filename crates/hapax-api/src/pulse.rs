//! How a process does: its pulse, with what it has counted lately, and its traffic by tenant, project and endpoint.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claims::Counts;
use crate::limits::{PAGE_TRAFFIC, SPAN, TRAFFIC_SORT};
use crate::text::Time;

/// How much of the past a pulse tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PulseQuery {
    /// Only samples after this one: `cursor` of the pulse before.
    pub after: Option<String>,
    /// Samples of so long: up to `15m` in steps of 10 s, up to `6h` in steps of 60 s, up to `24h` in steps of 300 s.
    #[schemars(regex(pattern = SPAN))]
    pub window: Option<String>,
}

/// How a process does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pulse {
    /// Where the next pulse's samples start.
    pub cursor: String,
    /// What the server's clock shows.
    pub time: Time,
    /// The version of hapax.
    pub version: String,
    /// The digest of the console's files; null where the console is switched off.
    pub console: Option<String>,
    /// Since when this process counts.
    pub since: Time,
    /// Whether it can serve.
    pub ready: bool,
    /// What is in the way; empty when nothing is.
    pub reasons: Vec<String>,
    /// Its ledger.
    pub ledger: LedgerPulse,
    /// Its session with the ledger.
    pub session: SessionPulse,
    /// Its sweeper, which forgets what is due.
    pub sweep: SweepPulse,
    /// What it has still to tell the ledger.
    pub spool: SpoolPulse,
    /// The services behind that have failed within the window.
    pub upstreams: Vec<UpstreamPulse>,
    /// How many claims there are, store-wide, as was counted last.
    pub counts: Counts,
    /// What waits for a person, store-wide.
    pub attention: AttentionCounts,
    /// What was counted lately, the oldest first.
    pub samples: Vec<Sample>,
    /// A word for each topic, which is another one when its data may have changed.
    pub changed: BTreeMap<String, String>,
}

/// Whether the ledger takes claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerPulse {
    /// Whether it took them when it was asked last.
    pub up: bool,
    /// How long that took, in microseconds; null before the first answer.
    pub took_us: Option<u64>,
    /// Since when it takes none; null while it does.
    pub since: Option<Time>,
}

/// A session with the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPulse {
    /// How much of it is certainly left, in milliseconds.
    pub left_ms: u64,
}

/// A sweeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPulse {
    /// How long ago it had nothing more to do, in seconds.
    pub lag_s: u64,
}

/// Outcomes that the ledger has not heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpoolPulse {
    /// Those that lie on this machine's disk until the ledger takes them.
    pub waiting: u64,
    /// All that the ledger has not heard, those among them.
    pub owed: u64,
}

/// A service behind that has failed lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamPulse {
    /// Its name in the configuration.
    pub name: String,
    /// How often, since this process started.
    pub failures: u64,
    /// When it did so last.
    pub last_at: Time,
}

/// How much waits for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionCounts {
    /// Claims in doubt.
    pub in_doubt: u64,
    /// Steps and actions that wait for somebody to decide.
    pub approvals: u64,
    /// Alerts that nobody has acknowledged.
    pub alerts: u64,
    /// True outcomes that came after an operator had stated another, and that nobody has acknowledged.
    pub late: u64,
    /// Records that cannot be read.
    pub damaged: u64,
}

/// What a process has counted in one step of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// When the step began.
    pub at: Time,
    /// How long it is, in seconds.
    pub step_s: u64,
    /// The work ran.
    pub executed: u64,
    /// The first answer again.
    pub replayed: u64,
    /// Waited for the first.
    pub attached: u64,
    /// Passed on without a key.
    pub passed: u64,
    /// The attempt was given back: the next one runs.
    pub released: u64,
    /// The key was used for another request.
    pub mismatch: u64,
    /// Nobody knows whether the work ran.
    pub in_doubt: u64,
    /// Refused for who asked, or for what a route allows.
    pub refused: u64,
    /// Refused for its key or for its form.
    pub invalid: u64,
    /// The ledger or the service could not be asked, or there was no room.
    pub unavailable: u64,
    /// Everything else.
    pub other: u64,
    /// Half, and 99 of 100, of the answers came within so many milliseconds, by how they came about.
    pub latency: BTreeMap<String, [Millis; 2]>,
}

/// Which traffic is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrafficQuery {
    /// Of so long: `15m`, `1h`, `6h` or `24h`.
    #[schemars(regex(pattern = SPAN))]
    pub window: Option<String>,
    /// Most first, by this member of a row: `requests` unless said otherwise.
    #[schemars(regex(pattern = TRAFFIC_SORT))]
    pub sort: Option<String>,
    /// At most so many rows (1 to 200, default 50).
    #[schemars(range(min = 1, max = PAGE_TRAFFIC))]
    pub limit: Option<usize>,
}

/// Traffic by tenant, project and endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// From then on.
    pub since: Time,
    /// Until then.
    pub until: Time,
    /// What the process is called that has counted.
    pub instance: String,
    /// The rows.
    pub rows: Vec<TrafficRow>,
    /// How many rows were left out.
    pub more: u64,
}

/// Traffic of one tenant's project at one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficRow {
    /// The tenant; `_other` for those beyond the bound, `_none` where nobody was let in.
    pub tenant: String,
    /// The project.
    pub project: String,
    /// The path of the route.
    pub endpoint: String,
    /// All answers.
    pub requests: u64,
    /// Those with a key.
    pub keyed: u64,
    /// The work ran.
    pub executed: u64,
    /// The first answer again.
    pub replayed: u64,
    /// Waited for the first.
    pub attached: u64,
    /// Replayed answers that are errors.
    pub terminal_error: u64,
    /// The key was used for another request.
    pub mismatch: u64,
    /// Refused for the key.
    pub invalid: u64,
    /// No key where one could be.
    pub missing: u64,
    /// Nobody knows whether the work ran.
    pub in_doubt: u64,
    /// The share of answers with a key that came from an earlier request, between 0 and 1; null where there were none.
    #[schemars(extend("type" = ["number", "null"]))]
    pub hit_rate: Option<Share>,
    /// Half of the endpoint's answers since the process started came within so many milliseconds; null where there were none.
    #[schemars(extend("type" = ["number", "null"]))]
    pub p50_ms: Option<Millis>,
    /// 99 of 100 of them did.
    #[schemars(extend("type" = ["number", "null"]))]
    pub p99_ms: Option<Millis>,
    /// Answers in each of the last 30 minutes, the oldest first.
    pub spark: Vec<u64>,
}

/// A share of a whole, to the ten thousandth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u32);

impl Share {
    /// So many of so many; none of nothing.
    pub fn of(part: u64, whole: u64) -> Option<Share> {
        let scaled = part.checked_mul(10_000)?.checked_div(whole)?;
        u32::try_from(scaled).ok().map(Share)
    }
}

impl Serialize for Share {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / 10_000.0)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let share = f64::deserialize(deserializer)?;
        // Shares are between 0 and 1, and so is every number that this writes.
        Ok(Share((share.clamp(0.0, 1.0) * 10_000.0).round() as u32))
    }
}

impl JsonSchema for Share {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "number"})
    }
}

/// A time in milliseconds, kept to the microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

impl Serialize for Millis {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Whole microseconds are exact far beyond any time that is told here.
        serializer.serialize_f64(self.0 as f64 / 1_000.0)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Millis((f64::deserialize(deserializer)? * 1_000.0).round() as u64))
    }
}

impl JsonSchema for Millis {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Millis".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "number"})
    }
}
