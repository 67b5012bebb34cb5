//! Durable executions as their owners use them: made, planned, stepped, checkpointed and resumed over HTTP (J1, J8).
//!
//! The names are those of the source: `executionId`, `agentId`, `events`, `checkpoint`, `status`, `version`; `seq`, `eventType`,
//! `timestamp`, `payload`, `hash`, `schemaVersion`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{AGENT, ATTEMPT, EVENT_TYPE, PAGE_EVENTS, PAGE_RECORDS, TOOL};
use crate::raw::{Raw, present};
use crate::text::{Epoch, ExecutionId, LeaseId, OperationId, RunnerId, Time};
use crate::words::{DoubtReason, ExecutionStatus, Repeatable, WaitsFor};

/// An execution to make.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewExecution {
    /// Its id: 1 to 64 letters, digits and `. _ ~ -`. It counts within the caller's tenant and project, and is never free again.
    pub execution_id: ExecutionId,
    /// The agent that it belongs to.
    #[schemars(regex(pattern = AGENT))]
    pub agent_id: String,
    /// The caller's lease, which the right to run it hangs on.
    pub lease: LeaseId,
    /// What it is made with: the state of its first iteration.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Raw")]
    pub input: Option<Raw>,
    /// How its events are chained: 1 as the source has it, 2 (default) covers the whole event.
    #[schemars(range(min = 1, max = 2))]
    pub schema_version: Option<u32>,
    /// What tells this attempt to make it from others. Sent again with the same lease, it gets the same answer.
    #[schemars(regex(pattern = ATTEMPT))]
    pub attempt: Option<String>,
}

/// Which of the caller's executions are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnExecutionsQuery {
    /// With this status.
    pub status: Option<ExecutionStatus>,
    /// Of this agent.
    pub agent: Option<String>,
    /// At most so many records (1 to 1000, default 50). A page may hold fewer and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// Which events are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventsQuery {
    /// The place of the first event, from 0.
    pub from: Option<u64>,
    /// At most so many events (1 to 256, default 50). A page of large events holds fewer.
    #[schemars(range(min = 1, max = PAGE_EVENTS))]
    pub limit: Option<usize>,
}

/// One page of the caller's executions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnExecutions {
    /// The executions, in the order of their ids.
    pub executions: Vec<ExecutionState>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// How an execution stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionState {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The agent that it belongs to.
    pub agent_id: String,
    /// Its status.
    pub status: ExecutionStatus,
    /// How often it was written to.
    pub version: u64,
    /// How many events it has.
    pub length: u64,
    /// How its events are chained.
    pub schema_version: u32,
    /// Whose data it has.
    pub subject: Option<String>,
    /// Whether the lease of its runner lasts.
    pub runs: bool,
    /// When it was made.
    pub created_at: Option<Time>,
    /// When it was last written to.
    pub updated_at: Option<Time>,
}

/// An execution with some of its events.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRead {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The agent that it belongs to.
    pub agent_id: String,
    /// Its status.
    pub status: ExecutionStatus,
    /// How often it was written to.
    pub version: u64,
    /// How many events it has.
    pub length: u64,
    /// How its events are chained.
    pub schema_version: u32,
    /// The latest checkpoint as it was written; null where there is none, or where it was erased.
    pub checkpoint: Option<Raw>,
    /// The events that were asked for, in their order.
    pub events: Vec<ReadEvent>,
    /// The place of the first event of the next page; null at the end.
    pub next: Option<u64>,
}

/// An event as its owner reads it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadEvent {
    /// Its place, from 0.
    pub seq: u64,
    /// Its type.
    pub event_type: String,
    /// When it was appended.
    pub timestamp: Option<Time>,
    /// What it says; null where that was erased.
    pub payload: Option<Raw>,
    /// The chain's hash up to and including it.
    pub hash: String,
    /// How it is chained.
    pub schema_version: u32,
}

/// An execution that the caller may run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningExecution {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The caller's right to run it: every write names it. It lasts until another runner resumes the execution.
    pub runner: RunnerId,
    /// How often it was written to.
    pub version: u64,
    /// The present iteration, from 0.
    pub iteration: u64,
    /// What the present iteration starts from: the latest checkpoint, or the input.
    pub state: Raw,
    /// The recorded plan of the present iteration; null where none is recorded.
    pub plan: Option<RecordedPlan>,
    /// The steps of the present iteration that were begun.
    pub steps: Vec<RecordedStep>,
}

/// A plan that is recorded.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedPlan {
    /// The iteration.
    pub iteration: u64,
    /// The tool calls, in their order.
    pub calls: Vec<PlanCall>,
    /// Whether they may run at the same time.
    pub parallel: bool,
}

/// A tool call as it is planned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PlanCall {
    /// The tool.
    #[schemars(regex(pattern = TOOL))]
    pub tool: String,
    /// Its arguments.
    pub args: Raw,
    /// The key of the effect, where that is to happen once whatever execution asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub effect_key: Option<String>,
}

/// What is recorded of a step.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedStep {
    /// Its place in the plan, from 0.
    pub call: u32,
    /// The tool.
    pub tool: String,
    /// The idempotency key that the tool is handed.
    pub key: String,
    /// SHA-256 of tool and arguments.
    pub digest: String,
    /// What the tool says about being called twice.
    pub declaration: Repeatable,
    /// What came of it; null where that is not known yet.
    pub result: Option<StepOutcome>,
}

/// What came of a tool call: a value, or an error that the tool always answers with.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepOutcome {
    /// The tool has answered.
    Answered {
        /// Its answer.
        value: Raw,
    },
    /// The tool has refused, or a person has said that it failed.
    Refused {
        /// Why.
        error: String,
    },
}

/// An event of the caller's own type.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AppendEvent {
    /// The caller's right to run it.
    pub runner: RunnerId,
    /// Its type: at most 50 characters, and none of those that hapax writes itself.
    #[schemars(regex(pattern = EVENT_TYPE))]
    pub event_type: String,
    /// What it says.
    pub payload: Raw,
    /// The version that the execution must have; without it, any.
    pub version: Option<u64>,
    /// What tells this event from others. Sent again, it is appended once.
    #[schemars(regex(pattern = ATTEMPT))]
    pub attempt: Option<String>,
}

/// What the present iteration is going to do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RecordPlan {
    /// The caller's right to run it.
    pub runner: RunnerId,
    /// The tool calls, in their order: at most 256.
    pub calls: Vec<PlanCall>,
    /// Whether they may run at the same time.
    #[serde(default)]
    pub parallel: bool,
    /// The iteration that the plan is for. Where it is named and is not the present one, nothing is recorded.
    pub iteration: Option<u64>,
}

/// A step that the caller wants to make.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BeginStep {
    /// The caller's right to run it.
    pub runner: RunnerId,
    /// The caller's lease, which the grant hangs on.
    pub lease: LeaseId,
    /// What tells this attempt from others at the same step. Sent again with the same lease, it gets the same grant.
    #[schemars(regex(pattern = ATTEMPT))]
    pub attempt: String,
    /// The present iteration.
    pub iteration: u64,
    /// The place in the recorded plan, from 0.
    pub call: u32,
    /// What the tool says about being called twice with the same key. What was said first counts.
    pub declaration: Option<Repeatable>,
    /// The tool, to be compared with the recorded plan.
    #[schemars(regex(pattern = TOOL))]
    pub tool: Option<String>,
    /// The arguments, to be compared with the recorded plan; with `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Raw")]
    pub args: Option<Raw>,
}

/// How far a step is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "step", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum StepState {
    /// Call the tool, renew the lease meanwhile, and finish the step with the epoch.
    Granted {
        /// The tool.
        tool: String,
        /// The idempotency key to hand to the tool: the same whenever this call is made again.
        key: String,
        /// The key of the effect, where the plan gives one.
        effect_key: Option<String>,
        /// The fencing number: hand it to the tool, and finish with it.
        epoch: Epoch,
        /// The public id of the step's claim.
        operation_id: OperationId,
        /// No renewal reaches beyond this; null: there is no bound.
        run_until: Option<Time>,
        /// Whether an earlier attempt may have run.
        earlier_may_have_run: bool,
    },
    /// It has its result, from now or from before.
    Done {
        /// The result.
        result: StepOutcome,
    },
    /// A person has to decide about it.
    Waits {
        /// Why it is in doubt; null where it happened and its result was not kept.
        reason: Option<DoubtReason>,
    },
    /// Another attempt is making it.
    Held {},
    /// It failed, and may be begun again with another attempt.
    Failed {
        /// What was seen.
        cause: String,
    },
}

/// How a tool call ended: exactly one of `result`, `refused`, `notRun` and `unknown`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FinishStep {
    /// The iteration of the step.
    pub iteration: u64,
    /// The place of the step.
    pub call: u32,
    /// The epoch that was granted.
    pub epoch: Epoch,
    /// The tool has answered this.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Raw")]
    pub result: Option<Raw>,
    /// The tool has refused, and always will: this is the step's result.
    #[serde(default)]
    pub refused: Option<String>,
    /// The tool was certainly not reached; what was seen.
    #[serde(default)]
    pub not_run: Option<String>,
    /// The tool may have had its effect; what was seen.
    #[serde(default)]
    pub unknown: Option<String>,
}

/// The steps of an execution that wait for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnWaiting {
    /// They, in the order of the plan.
    pub waiting: Vec<WaitingCall>,
}

/// A step that waits for a person. Operators decide about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingCall {
    /// The iteration.
    pub iteration: u64,
    /// Its place in the plan, from 0.
    pub call: u32,
    /// The tool.
    pub tool: String,
    /// The idempotency key that the tool is handed.
    pub key: String,
    /// SHA-256 of tool and arguments.
    pub digest: String,
    /// The key of the effect, where the plan gives one.
    pub effect_key: Option<String>,
    /// What the tool says about being called twice.
    pub declaration: Repeatable,
    /// The public id of its claim.
    pub operation_id: OperationId,
    /// Why it waits.
    pub why: WaitsFor,
    /// Why it is not known whether it happened; null where it waits for another reason.
    pub reason: Option<DoubtReason>,
}

/// The end of an iteration.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WriteCheckpoint {
    /// The caller's right to run it.
    pub runner: RunnerId,
    /// The iteration that is complete.
    pub iteration: u64,
    /// The state that the next iteration starts from: at most 4 MiB.
    pub checkpoint: Raw,
}

/// An execution that waits until it is resumed, or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StopExecution {
    /// The caller's right to run it.
    pub runner: RunnerId,
    /// Why, in at most 1024 characters. A cancelled execution has failed with the reason `cancelled`.
    pub reason: String,
}

/// An execution that has come to its end.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CompleteExecution {
    /// The caller's right to run it.
    pub runner: RunnerId,
    /// What it has come to.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Raw")]
    pub output: Option<Raw>,
}

/// An execution to go on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TakeExecution {
    /// The caller's lease, which the right to run it hangs on.
    pub lease: LeaseId,
    /// What tells this attempt to resume it from others. Sent again with the same lease, it gets the same right to run it.
    #[schemars(regex(pattern = ATTEMPT))]
    pub attempt: Option<String>,
}

/// What an append has made of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Appended {
    /// Its id.
    pub execution_id: ExecutionId,
    /// How often it was written to by now.
    pub version: u64,
}

/// What checking a page of a chain has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainChecked {
    /// How many events of the page were found sound.
    pub events: u64,
    /// How many payloads of these were erased: their chain holds without them.
    pub erased: u64,
    /// The hash of the last event that was found sound.
    pub hash: Option<String>,
    /// Where the chain breaks; null where it is sound.
    pub broken: Option<crate::executions::BrokenChain>,
    /// Where the next page starts; null at the end.
    pub next: Option<u64>,
}
