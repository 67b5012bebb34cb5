//! JSON that is passed on as it was written: what applications keep, and what they get back.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Any JSON, as it was written: numbers and names are read by the server, and refused where JSON readers disagree about them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(pub Box<RawValue>);

impl Raw {
    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl JsonSchema for Raw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Raw".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

/// A body that is lines of JSON, and is read as it comes: it may be longer than any other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JsonLines;

impl JsonLines {
    /// The media type of such a body.
    pub const KIND: &'static str = "application/jsonl";
}

impl JsonSchema for JsonLines {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JsonLines".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "contentMediaType": JsonLines::KIND})
    }
}

/// A member that is there, also as null.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Raw>, D::Error> {
    Raw::deserialize(deserializer).map(Some)
}
