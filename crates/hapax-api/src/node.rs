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
