//! Durable executions as operators look at them, and what they order and decide about them (J6, M4).
//!
//! An id counts within its tenant and project, so every question names both.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::limits::{
    CLAIMS_PROJECT, EXECUTION_ID, NAME_LENGTH, PAGE_EVENTS, PAGE_RECORDS, PRINTABLE, REASON_LENGTH, SAID,
    SLUG, SPAN,
};
use crate::text::{Epoch, OperationId, Time};
use crate::words::{DoubtReason, ExecutionStatus, Repeatable, StepDecision, WaitsFor};

/// Any JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(pub Value);

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

/// A member that is there, also as null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// Which executions are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExecutionsQuery {
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// Of this project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// With this status.
    pub status: Option<ExecutionStatus>,
    /// Of this agent.
    pub agent: Option<String>,
    /// Not written to for at least this long: `15m`, `24h`, `7d`.
    #[schemars(regex(pattern = SPAN))]
    pub idle_for: Option<String>,
    /// At most so many records (1 to 1000, default 50). A page may hold fewer and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// Whose execution is meant, and how it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["tenant", "project"]))]
pub struct ExecutionQuery {
    /// Whose it is. It must be said.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// In which project. It must be said.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// Tell the latest checkpoint, too. Needs the role operate.
    pub checkpoint: bool,
}

/// Which events of an execution are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["tenant", "project"]))]
pub struct ExecutionEventsQuery {
    /// Whose it is. It must be said.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// In which project. It must be said.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// The place of the first event, from 0.
    pub from: Option<u64>,
    /// At most so many events (1 to 256, default 50). A page of large events holds fewer.
    #[schemars(range(min = 1, max = PAGE_EVENTS))]
    pub limit: Option<usize>,
    /// Tell payloads, too. Needs the role operate.
    pub payloads: bool,
}

/// Which part of an execution's chain is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["tenant", "project"]))]
pub struct VerifyQuery {
    /// Whose it is. It must be said.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// In which project. It must be said.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// Where the page starts: `next` of the page before.
    pub from: Option<u64>,
    /// At most so many events (1 to 256, default 256).
    #[schemars(range(min = 1, max = PAGE_EVENTS))]
    pub limit: Option<usize>,
}

/// Whose execution is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["tenant", "project"]))]
pub struct ExecutionScope {
    /// Whose it is. It must be said.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// In which project. It must be said.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
}

/// One page of executions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Executions {
    /// The executions, in the order of tenant, project and id.
    pub executions: Vec<Execution>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// A durable execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// Its id.
    #[schemars(regex(pattern = EXECUTION_ID))]
    pub execution_id: String,
    /// Whose it is.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// Whose data it has.
    pub subject: Option<String>,
    /// The agent that it belongs to.
    pub agent: String,
    /// How it stands.
    pub status: ExecutionStatus,
    /// How often it was written to; an order names it.
    pub version: u64,
    /// How many events it has.
    pub events: u64,
    /// How its events are chained.
    pub schema_version: u32,
    /// Whether the lease of its runner lasts.
    pub runs: bool,
    /// When it was made.
    pub created_at: Option<Time>,
    /// When it was last written to.
    pub updated_at: Option<Time>,
    /// The latest checkpoint, where it was asked for; null where there is none, or where it was erased.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Json")]
    pub checkpoint: Option<Json>,
}

/// One page of an execution's events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionEvents {
    /// The events, in their order.
    pub events: Vec<ExecutionEvent>,
    /// The place of the first event of the next page; null at the end.
    pub next: Option<u64>,
}

/// An event of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionEvent {
    /// Its place, from 0.
    pub seq: u64,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it was appended.
    pub at: Option<Time>,
    /// The chain's hash up to and including it.
    pub hash: String,
    /// Whether its payload was erased.
    pub erased: bool,
    /// The claim of the step that it intends; null where it intends none, and where that claim is gone.
    pub operation_id: Option<OperationId>,
    /// What it says, where that was asked for and was not erased.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Json")]
    pub payload: Option<Json>,
}

/// What checking a page of a chain has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// How many events of the page were found sound.
    pub events: u64,
    /// How many payloads of these were erased: their chain holds without them.
    pub erased: u64,
    /// The hash of the last event that was found sound.
    pub hash: Option<String>,
    /// Where the chain breaks; null where this page is sound.
    pub broken: Option<BrokenChain>,
    /// Where the next page starts; null at the end, where it is also checked that nothing is missing, and the checkpoint.
    pub next: Option<u64>,
}

/// Where a chain breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenChain {
    /// The first event that is not what was written, or is missing.
    pub position: u64,
    /// What is wrong there.
    pub what: String,
}

/// The steps of an execution that wait for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingSteps {
    /// They, in the order of the plan.
    pub waiting: Vec<WaitingStep>,
}

/// A step that waits for a person. A decision names its iteration, call, digest and epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingStep {
    /// The iteration, from 0.
    pub iteration: u64,
    /// The place in the plan of the iteration, from 0.
    pub call: u32,
    /// The tool.
    pub tool: String,
    /// Its arguments. They are told to the role operate only.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Json")]
    pub args: Option<Json>,
    /// SHA-256 of tool and arguments.
    pub digest: String,
    /// The epoch of its claim.
    pub epoch: Epoch,
    /// The public id of its claim.
    pub operation_id: OperationId,
    /// The key that the tool was handed.
    pub key: String,
    /// The key of the effect, where the plan gives one.
    pub effect_key: Option<String>,
    /// What the tool says about being called twice.
    pub declaration: Repeatable,
    /// Why it waits.
    pub why: WaitsFor,
    /// Why it is not known whether it happened; null where it waits for another reason.
    pub doubt: Option<DoubtReason>,
}

/// Of which executions waiting steps are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AllWaitingQuery {
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// Of this project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// At most so many executions are looked at (1 to 1000, default 50). A page may tell nothing and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// The steps of some executions that wait for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllWaiting {
    /// They, execution by execution.
    pub waiting: Vec<WaitingOf>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// A step that waits for a person, with its execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingOf {
    /// The execution.
    #[schemars(regex(pattern = EXECUTION_ID))]
    pub execution_id: String,
    /// Whose it is.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// How it stands: a step may wait whatever that is.
    pub status: ExecutionStatus,
    /// The step.
    pub step: WaitingStep,
}

/// Which lines of an export are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["tenant", "project"]))]
pub struct ExportQuery {
    /// Whose it is. It must be said.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// In which project. It must be said.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// The place of the first event: `next` of the page before. Without it, the line about the whole.
    pub from: Option<u64>,
    /// The place after the last event: `until` of the first page.
    pub until: Option<u64>,
}

/// Some lines of an export. All pages one after the other are the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exported {
    /// Lines of JSON, each with its end.
    pub lines: String,
    /// The place of the first event of the next page; null at the end.
    pub next: Option<u64>,
    /// The place after the last event of the export: what is appended later is not part of it.
    pub until: u64,
}

/// Where an execution is imported to, and who does it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["tenant", "project", "reason"]))]
pub struct ImportQuery {
    /// Whose it becomes. It must be said.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// In which project. It must be said.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// Why; the audit keeps it. It must be said.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: Option<String>,
    /// Who imports; the audit shows it after the token's name.
    #[schemars(length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// What a person decides about a step that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["result"], "properties": {"decision": {"const": "confirm"}, "force": {"const": false}}, "not": {"required": ["error"]}},
    {"properties": {"decision": {"const": "rerun"}}, "not": {"anyOf": [{"required": ["result"]}, {"required": ["error"]}]}},
    {"required": ["error"], "properties": {"decision": {"const": "fail"}, "force": {"const": false}}, "not": {"required": ["result"]}},
]))]
pub struct DecideStep {
    /// Whose the execution is.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: String,
    /// In which project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: String,
    /// The iteration that was seen.
    #[schemars(range(max = u64::MAX))]
    pub iteration: u64,
    /// The call that was seen.
    #[schemars(range(max = u32::MAX))]
    pub call: u32,
    /// The digest that was seen.
    pub digest: String,
    /// The epoch that was seen.
    pub epoch: Epoch,
    /// What is decided.
    pub decision: StepDecision,
    /// With `confirm`: what the tool answered.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Json")]
    pub result: Option<Json>,
    /// With `fail`: what the agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub error: Option<String>,
    /// With `rerun`: also while the former call may still be on its way.
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

/// An order about an execution as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderExecution {
    /// Whose it is.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: String,
    /// In which project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: String,
    /// The version that was seen.
    pub version: u64,
    /// Why; the journal and the audit keep it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who orders; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// An order to let an execution go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeExecution {
    /// Whose it is.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: String,
    /// In which project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: String,
    /// The version that was seen.
    pub version: u64,
    /// Also while the lease of its runner lasts: that runner is fenced off.
    #[serde(default)]
    pub force: bool,
    /// Why; the journal and the audit keep it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who orders; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// An execution that was archived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionArchived {
    /// It.
    pub execution: Execution,
    /// Claims of its steps that are kept no longer.
    pub purged: u64,
}
