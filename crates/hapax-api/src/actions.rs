//! Actions of agents as operators look at them: receipts, lanes, actions of unknown fate, and alerts (X).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::executions::{BrokenChain, Json};
use crate::limits::{
    CLAIMS_PROJECT, NAME_LENGTH, PAGE_EVENTS, PAGE_RECORDS, PRINTABLE, REASON_LENGTH, SAID, SLUG, UTC,
};
use crate::text::{AlertId, Epoch, OperationId, Time};
use crate::words::{ActionDecision, DoubtReason};

/// Which receipts are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiptsQuery {
    /// Whose they are. It must be said.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// Of this project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// Of actions on this entity.
    pub entity: Option<String>,
    /// Of actions with this key.
    pub key: Option<String>,
    /// With this decision.
    pub decision: Option<ActionDecision>,
    /// Written since this time.
    #[schemars(regex(pattern = UTC))]
    pub since: Option<String>,
    /// Written before this time.
    #[schemars(regex(pattern = UTC))]
    pub until: Option<String>,
    /// At most so many records (1 to 1000, default 50). A page may hold fewer, or none, and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<u64>,
}

/// One page of receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipts {
    /// The receipts, the newest first.
    pub receipts: Vec<Receipt>,
    /// Where the next page starts; null where none is older.
    pub next: Option<u64>,
    /// How many were looked at for this page.
    pub looked_at: usize,
}

/// What became of an action, or what a person decided about one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// Its place in the chain, from 0.
    pub seq: u64,
    /// When it was written.
    pub at: Option<Time>,
    /// What was decided; null where the receipt was erased, or cannot be opened.
    pub decision: Option<ActionDecision>,
    /// The rule that decided; null where it was the default.
    pub rule: Option<String>,
    /// The project.
    pub project: String,
    /// The system that the tool is on; empty for a person's decision.
    pub connector: String,
    /// The tool; empty for a person's decision about an action that closed no lane.
    pub tool: String,
    /// What it was about; empty for a person's decision about an action that closed no lane.
    pub entity_key: String,
    /// The key of the action.
    pub key: Option<String>,
    /// SHA-256 of the arguments; empty for a person's decision.
    pub args_digest: String,
    /// The arguments, where receipts keep them; null where they do not.
    pub args: Option<Json>,
    /// Whether what was asked for is in place.
    pub ok: bool,
    /// Why not.
    pub error: Option<String>,
    /// The stable word for that.
    pub code: Option<String>,
    /// The public id of the action's claim.
    pub operation_id: Option<OperationId>,
    /// Who decided, where it was a person.
    pub by: Option<String>,
    /// Why a person decided so.
    pub reason: Option<String>,
    /// The chain's hash up to and including this receipt.
    pub hash: String,
}

/// The end of a tenant's receipts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptsHead {
    /// Whose they are.
    pub tenant: String,
    /// How many there are.
    pub receipts: u64,
    /// The hash of the last one.
    pub hash: Option<String>,
    /// How they are chained.
    pub schema_version: u32,
    /// When the last one was written.
    pub updated_at: Option<Time>,
}

/// Which part of a tenant's receipts is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerifyReceiptsQuery {
    /// Where the page starts: `next` of the page before.
    pub from: Option<u64>,
    /// At most so many receipts (1 to 256, default 256).
    #[schemars(range(min = 1, max = PAGE_EVENTS))]
    pub limit: Option<usize>,
}

/// What checking a page of receipts has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptsVerified {
    /// How many receipts of the page were found sound.
    pub receipts: u64,
    /// How many of these were erased: their chain holds without them.
    pub erased: u64,
    /// The hash of the last one that was found sound.
    pub hash: Option<String>,
    /// Where the chain breaks; null where this page is sound.
    pub broken: Option<BrokenChain>,
    /// Where the next page starts; null at the end, where it is also checked that nothing is missing.
    pub next: Option<u64>,
}

/// Which lanes are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LanesQuery {
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// Of this project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// Of this entity; tenant and project must be said, too.
    pub entity: Option<String>,
    /// Also those in which nothing waits, runs or is closed: they remember what began lately.
    pub idle: bool,
    /// At most so many lanes are looked at (1 to 1000, default 50). A page may hold fewer, or none, and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// One page of lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lanes {
    /// The lanes, in an order of the store's own.
    pub lanes: Vec<Lane>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// An entity whose actions run one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lane {
    /// Whose.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// The entity.
    pub entity_key: String,
    /// Whose turn it is; null where it is nobody's.
    pub served: Option<LaneTicket>,
    /// How many wait.
    pub waiting: usize,
    /// The claim that closes it; null where it is open.
    pub closed_by: Option<LaneClaim>,
    /// The tools whose actions began here lately.
    pub recent: Vec<LaneTool>,
}

/// A place in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaneTicket {
    /// The action's claim; null for a read, and before the action is granted.
    pub claim: Option<LaneClaim>,
    /// Whether its action has begun.
    pub begun: bool,
    /// When its place goes, whatever becomes of its holder.
    pub until: Option<Time>,
}

/// A claim as a lane sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaneClaim {
    /// Its public id.
    pub operation_id: OperationId,
    /// The key of its action.
    pub key: String,
    /// Its state.
    pub state: crate::words::State,
}

/// What began lately in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaneTool {
    /// The tool.
    pub tool: String,
    /// How many of its actions the lane remembers.
    pub count: usize,
    /// When the latest of them began.
    pub last: Option<Time>,
}

/// Which actions of unknown fate are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalsQuery {
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// Of this project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// At most so many records (1 to 1000, default 50). A page may hold fewer and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// One page of actions that wait for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approvals {
    /// They, oldest first.
    pub approvals: Vec<Approval>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// An action of which it is not known whether it happened. A decision names its digest and epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The public id of its claim.
    pub operation_id: OperationId,
    /// Whose it is.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// Its key.
    pub key: String,
    /// SHA-256 of connector, tool and arguments.
    pub digest: String,
    /// The epoch of its claim.
    pub epoch: Epoch,
    /// Since when nobody knows.
    pub since: Option<Time>,
    /// Why nobody knows.
    pub doubt: DoubtReason,
    /// What it is done to, as its lane remembers; null where no lane is closed by it.
    pub entity_key: Option<String>,
    /// The tool, as its lane remembers.
    pub tool: Option<String>,
    /// What was being done, and what was seen of it; null where its process ended without a word.
    pub cause: Option<String>,
}

/// A person says that an action happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmAction {
    /// The digest that was seen.
    pub digest: String,
    /// The epoch that was seen.
    pub epoch: Epoch,
    /// What the tool answered, where that is known: a repeated action is told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    pub result: Option<Json>,
    /// Why; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// A person lets an action be proposed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseAction {
    /// The digest that was seen.
    pub digest: String,
    /// The epoch that was seen.
    pub epoch: Epoch,
    /// Also while the former call may still be on its way.
    #[serde(default)]
    pub force: bool,
    /// Why; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// Which alerts are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AlertsQuery {
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// At most so many records (1 to 1000, default 50). A page may hold fewer and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// One page of alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alerts {
    /// The alerts that nobody has acknowledged, oldest first.
    pub alerts: Vec<Alert>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// An action that was let through and is raised for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alert {
    /// What it is called.
    pub id: AlertId,
    /// When it was raised.
    pub at: Option<Time>,
    /// Whose action it is; empty where the alert cannot be opened, as are the members below.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// The system that the tool is on.
    pub connector: String,
    /// The tool.
    pub tool: String,
    /// What it was done to.
    pub entity_key: String,
    /// The key of the action.
    pub key: Option<String>,
    /// SHA-256 of the arguments.
    pub args_digest: String,
    /// The arguments, where receipts and alerts keep them; null where they do not.
    pub args: Option<Json>,
    /// The rule that decided; null where it was the default.
    pub rule: Option<String>,
    /// The public id of the action's claim.
    pub operation_id: Option<OperationId>,
}

/// A person has seen an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeAlert {
    /// What was found; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who has seen it; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}
