//! The process itself: whether it lives and can serve, its routes; and answers that are no JSON of their own.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::endpoint::Content;
use crate::words::HealthStatus;

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
