//! The process itself: whether it lives and can serve, its routes; and answers that are no JSON of their own.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::claims::Counts;
use crate::endpoint::Content;
use crate::executions::Json;
use crate::pulse::{SpoolPulse, SweepPulse};
use crate::text::Time;
use crate::words::{HealthStatus, StoreKind};

/// The process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// That it does.
    pub status: HealthStatus,
}

/// Whether the process can serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Readiness {
    /// Whether it can.
    pub ready: bool,
    /// What is in the way; empty when nothing is.
    pub reasons: Vec<String>,
}

/// The routes of the edge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Routes {
    /// In the order of the configuration.
    pub routes: Vec<Route>,
}

/// A route of the edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// The method that it takes.
    pub method: String,
    /// The path that it takes.
    pub path: String,
    /// What becomes of a request with or without a key, such as `REQUIRED_A`.
    pub policy: String,
    /// The service behind it.
    pub upstream: String,
    /// The operation it calls, by its present name; null where it is not protected.
    pub operation: Option<String>,
    /// The first name of the operation, which its claims are listed under; null where it is not protected.
    pub first_name: Option<String>,
    /// Who shares its answers; null where it is not protected.
    pub scope: Option<String>,
    /// May the work run again when it is not known whether it ran? Null where it is not protected.
    pub rerun: Option<String>,
    /// How long outcomes are kept; null where it is not protected.
    pub retention: Option<RouteRetention>,
    /// What makes two requests the same; null where it is not protected.
    pub fingerprint: Option<String>,
    /// What a second caller does while the first one runs; null where it is not protected.
    pub attach: Option<String>,
    /// How long a caller waits.
    pub timeout: String,
    /// What ends the call; null where nothing does, and where it is not protected.
    pub give_up: Option<String>,
    /// How much of an answer is kept; null where it is not protected.
    pub keep: Option<String>,
    /// The status of a mismatch; null where it is not protected.
    pub mismatch_status: Option<u16>,
    /// All of it in plain words.
    pub says: String,
}

/// How long outcomes of a route are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteRetention {
    /// The class; null where the route states a span.
    pub class: Option<String>,
    /// How long.
    pub kept: String,
}

/// The services behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Upstreams {
    /// By name.
    pub upstreams: Vec<UpstreamShown>,
}

/// A service behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamShown {
    /// Its name in the configuration.
    pub name: String,
    /// `service`, or `restate` for a cluster that keeps its claims.
    pub kind: String,
    /// Where it is; null for a cluster, which has several addresses.
    pub url: Option<String>,
    /// How many routes lead to it.
    pub routes: usize,
    /// How often it has failed since this process started, by what became of the request: `executed` where the service's own error was
    /// the answer, or the code of a problem.
    pub failures: BTreeMap<String, u64>,
    /// When it failed last; null where it has not.
    pub last_failure: Option<Time>,
    /// The nodes of a cluster that are asked nothing now, because they have failed too often.
    pub suspended: Vec<String>,
}

/// The processes on the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Instances {
    /// In the order in which they came; those that have ended lately are among them.
    pub instances: Vec<Instance>,
}

/// A process that has the store open, or had it lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Instance {
    /// Its session with the store.
    #[schemars(regex(pattern = "^[0-9]+$"))]
    pub session: String,
    /// What it is called; null where it has not told.
    pub name: Option<String>,
    /// Its version of hapax; null where it has not told.
    pub version: Option<String>,
    /// When its session began.
    pub opened_at: Time,
    /// When its session was renewed last.
    pub last_at: Time,
    /// Until when its claims are its own; later, what it holds is in doubt or runs again.
    pub until: Time,
    /// Whether that time has not come.
    pub alive: bool,
    /// Whether it is the process that answers.
    pub this: bool,
}

/// The store, and what this process has still to write to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreState {
    /// Which kind of store.
    pub kind: StoreKind,
    /// How many bytes it takes; null where that is not known.
    pub bytes: Option<u64>,
    /// How many bytes are free where it lies; null where that is not known.
    pub free_bytes: Option<u64>,
    /// Whether what is kept is encrypted.
    pub sealed: bool,
    /// How many claims there are, as was counted last.
    pub counts: Counts,
    /// Records that cannot be read, as was counted last.
    pub damaged: u64,
    /// The sweeper, which forgets what is due.
    pub sweep: SweepPulse,
    /// The outcomes of this process that the store has not heard.
    pub spool: SpoolPulse,
}

/// The configuration of this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigShown {
    /// When it was read.
    pub loaded_at: Time,
    /// What was changed in the file and takes effect after a restart.
    pub waits_for_restart: Vec<String>,
    /// The configuration as it takes effect, without secrets: what `hapax config show --json` prints. Null where it was given in another
    /// way than by a file.
    pub config: Json,
}

/// Metrics in the OpenMetrics text format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenMetrics(pub String);

impl Content for OpenMetrics {
    const KIND: &'static str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    fn into_bytes(self) -> Result<Vec<u8>, serde_json::Error> {
        Ok(self.0.into_bytes())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// A page in Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Markdown(pub &'static str);

impl Content for Markdown {
    const KIND: &'static str = "text/markdown; charset=utf-8";

    fn into_bytes(self) -> Result<Vec<u8>, serde_json::Error> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// A JSON object that is kept as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written(pub &'static str);

impl Content for Written {
    const KIND: &'static str = "application/json";

    fn into_bytes(self) -> Result<Vec<u8>, serde_json::Error> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        // Closed objects are the rule here, and this one is as open as OpenAPI.
        json_schema!({"type": "object", "additionalProperties": true})
    }
}
