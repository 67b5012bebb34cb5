//! Every "no" of the API, as `application/problem+json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claims::Claim;
use crate::text::OperationId;
use crate::words::ConflictCode;

/// RFC 9457, with a stable `code`. A problem may have more members than these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct Problem {
    /// Where the page about it is.
    #[serde(rename = "type")]
    pub page: String,
    /// What it means, for people.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// The stable word for it.
    pub code: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// What it was here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub detail: Option<String>,
    /// The operation it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OperationId")]
    pub operation_id: Option<OperationId>,
}

/// A decision that was not carried out, with what the claim is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct Conflict {
    /// Where the page about it is.
    #[serde(rename = "type")]
    pub page: String,
    /// What it means, for people.
    pub title: String,
    /// The status of the answer.
    #[schemars(extend("const" = 409))]
    pub status: u16,
    /// The stable word for it.
    pub code: ConflictCode,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// What it was here.
    pub detail: String,
    /// The operation it is about.
    pub operation_id: OperationId,
    /// What the claim is now; null where it is absent.
    pub claim: Option<Claim>,
}
