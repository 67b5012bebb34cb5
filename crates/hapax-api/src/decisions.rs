//! What operators decide about claims, and what came of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claims::{Claim, Damaged, Headers};
use crate::limits::{NAME_LENGTH, PRINTABLE, REASON_LENGTH, RETENTION, SAID, SLUG, WRITTEN_SUBJECT};
use crate::text::{Epoch, OperationId};
use crate::words::Done;

/// A decision about the epoch that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The epoch that was seen.
    pub epoch: Epoch,
    /// Why; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// The end of a doubt: either `release` or `settle`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["release"], "properties": {"release": {"const": true}}, "not": {"required": ["settle"]}},
    {"required": ["settle"], "properties": {"release": {"const": false}, "force": {"const": false}}},
]))]
pub struct Resolve {
    /// The epoch that was seen.
    pub epoch: Epoch,
    /// Why; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
    /// Give the claim back: the next request with its key runs.
    #[serde(default)]
    pub release: bool,
    /// Release although the former run may still be going on.
    #[serde(default)]
    pub force: bool,
    /// Settle the claim with this answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Settle")]
    pub settle: Option<Settle>,
}

/// The answer that callers get from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// Its status.
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// Its header fields.
    #[serde(default)]
    pub headers: Headers,
    /// Its body.
    #[serde(default)]
    pub body_base64: String,
    /// How long it is kept: `24h`, `7d`, `forever`; without it, as the route says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = RETENTION))]
    pub retention: Option<String>,
}

/// A decision that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decided {
    /// The operation it was done to.
    pub operation_id: OperationId,
    /// What was done.
    pub done: Done,
    /// The claim's epoch now; null where it is absent.
    pub epoch: Option<Epoch>,
    /// The claim as it is now; null where it is absent.
    pub claim: Option<Claim>,
}

/// Whose answers are destroyed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EraseSubject {
    /// The subject's tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: String,
    /// The subject, such as `user:alice`.
    #[schemars(regex(pattern = WRITTEN_SUBJECT))]
    pub subject: String,
    /// Only in this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = SLUG))]
    pub project: Option<String>,
    /// Why; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
    /// Where the page starts: `next` of the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What became of one page of a subject's claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErasedSubject {
    /// Claims whose answers were destroyed.
    pub erased: u64,
    /// Events of executions whose payloads were destroyed.
    #[serde(default)]
    pub events: u64,
    /// Claims that run or are in doubt, which have no answer yet; and executions of which a step does, or is.
    pub left: u64,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
    /// Claims that cannot be read, perhaps this subject's. They are passed by.
    #[serde(default)]
    pub damaged: Vec<Damaged>,
}
