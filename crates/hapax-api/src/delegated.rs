//! Calls whose claims a Restate cluster keeps (D2): listed, shown, purged and killed, each with the scope that it is asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{
    CLAIMS_PROJECT, CLAIMS_SUBJECT, CONFIGURED, INVOCATION, NAME_LENGTH, PAGE_RECORDS, PRINTABLE,
    REASON_LENGTH, SAID, SLUG,
};
use crate::words::CallStatus;

/// Which calls are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["tenant"]))]
pub struct DelegatedQuery {
    /// Whose they are. It must be said.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// In which project; without it, in all of them.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// Of which subject, as keys have it (`user:alice`); needs `project`.
    #[schemars(regex(pattern = CLAIMS_SUBJECT))]
    pub subject: Option<String>,
    /// Only those in this state.
    pub status: Option<CallStatus>,
    /// In which cluster; it must be said where there are several.
    #[schemars(regex(pattern = CONFIGURED))]
    pub upstream: Option<String>,
    /// At most so many records (1 to 1000, default 50).
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    #[schemars(regex(pattern = INVOCATION))]
    pub after: Option<String>,
}

/// Whose a call must be to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["tenant"]))]
pub struct DelegatedScope {
    /// Whose it is. It must be said.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// In which project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// Of which subject; needs `project`.
    #[schemars(regex(pattern = CLAIMS_SUBJECT))]
    pub subject: Option<String>,
    /// In which cluster; it must be said where there are several.
    #[schemars(regex(pattern = CONFIGURED))]
    pub upstream: Option<String>,
}

/// One page of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delegated {
    /// The calls, in the order of their ids.
    pub calls: Vec<DelegatedCall>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// A call whose claim a cluster keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DelegatedCall {
    /// What the cluster calls it.
    pub invocation_id: String,
    /// In which cluster it is.
    pub upstream: String,
    /// Whose it is.
    pub tenant: String,
    /// In which project; `_any` where it does not count.
    pub project: String,
    /// Of which subject; `_any` where it does not count.
    pub subject: String,
    /// The key that its caller sent; of a delivery, the webhook and what identifies it.
    pub key: String,
    /// The service.
    pub service: String,
    /// The key of the object, where the service has objects.
    pub object: Option<String>,
    /// The handler.
    pub handler: String,
    /// How it stands.
    pub status: String,
    /// When it was accepted.
    pub created_at: Option<String>,
    /// When it came to its end.
    pub completed_at: Option<String>,
    /// `success` or `failure`, once it came to its end.
    pub result: Option<String>,
    /// What it failed with, for good or last.
    pub failure: Option<String>,
    /// How often it was tried.
    pub tries: Option<u64>,
}

/// What is to be done to a call, and whose it must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["project"]}, {"not": {"required": ["subject"]}}]))]
pub struct DecideDelegated {
    /// Whose it is.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: String,
    /// In which project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// Of which subject; needs `project`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = CLAIMS_SUBJECT))]
    pub subject: Option<String>,
    /// In which cluster; it must be said where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = CONFIGURED))]
    pub upstream: Option<String>,
    /// Why; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// What was done to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DelegatedDecided {
    /// The call as it was.
    pub call: DelegatedCall,
    /// What was done: `purge`, or `kill`, which purges what it has killed.
    pub done: String,
}

/// How long a service of a cluster keeps outcomes and journals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DelegatedRetention {
    /// The cluster.
    pub upstream: String,
    /// The service.
    pub service: String,
    /// How long outcomes are kept, as the cluster says it now.
    pub idempotency_retention: Option<String>,
    /// How long journals are kept, without which requests cannot be compared.
    pub journal_retention: Option<String>,
    /// Why that is not what was set; null where it is.
    pub problem: Option<String>,
}
