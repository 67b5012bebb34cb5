//! What operators did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claims::Outcome;
use crate::limits::{PAGE_RECORDS, UTC};
use crate::text::{Epoch, OperationId, Time};

/// Which entries are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuditQuery {
    /// About this operation.
    pub operation_id: Option<OperationId>,
    /// By this actor: the token's name, or all of it with the name after it.
    pub actor: Option<String>,
    /// With this verb.
    pub verb: Option<String>,
    /// At or after this time (UTC).
    #[schemars(extend("pattern" = UTC))]
    pub since: Option<Time>,
    /// Before this time (UTC).
    #[schemars(extend("pattern" = UTC))]
    pub until: Option<Time>,
    /// At most so many records (1 to 1000, default 50). A page may hold fewer and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// One page of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// The entries, newest first.
    pub events: Vec<Event>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// One entry: what was done to a claim, or to a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// A digest that tells it apart from others.
    pub id: String,
    /// When.
    pub at: Time,
    /// What was done, such as `reopen`.
    pub verb: String,
    /// The token's name and who its user says to be; empty for the holder of a claim.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The operation it was done to; null where it was done to a setting.
    pub operation_id: Option<OperationId>,
    /// The key of its claim, as long as that is there; null otherwise, and where it is not to be shown.
    pub key: Option<String>,
    /// The tenant of its claim, as long as that is there.
    pub tenant: Option<String>,
    /// The epoch it was done to; null where it was done to a setting.
    pub epoch: Option<Epoch>,
    /// The claim's state before, or what the setting was; null where it was not set.
    pub before: Option<String>,
    /// The claim's state after, null when it is absent; or what the setting is, null where it was taken back.
    pub after: Option<String>,
    /// What was set, such as `retention/critical`; null where it was done to a claim.
    pub setting: Option<String>,
    /// The code with which it was refused; null where it was done.
    pub refused: Option<String>,
    /// The outcome that was set aside, or that came too late; without its bytes.
    pub outcome: Option<Outcome>,
}
