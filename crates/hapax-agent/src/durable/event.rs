//! What the events of an execution say: their types, and their payloads as JSON.

use hapax_core::journal::{Chain, Event, Status};
use hapax_core::json::canonical_value;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::driver::{Plan, PlannedCall};
use super::error::Error;
use super::key::Coordinates;
use super::step::StepResult;
use super::tools::Declaration;
use crate::limits;

/// The types of events that have a meaning here. Others are kept and passed over.
pub mod kind {
    /// The execution was made; the payload has its input.
    pub const CREATED: &str = "EXECUTION_CREATED";
    /// What an iteration is going to do: tools and arguments, in order.
    pub const PLAN: &str = "PLAN_RECORDED";
    /// A tool is about to be called.
    pub const INTENT: &str = "TOOL_CALL_INTENT";
    /// What a tool has answered.
    pub const RESULT: &str = "TOOL_CALL_RESULT";
    /// A tool call failed and may be made again.
    pub const RELEASED: &str = "TOOL_CALL_RELEASED";
    /// Nobody knows whether a tool call happened.
    pub const IN_DOUBT: &str = "TOOL_CALL_IN_DOUBT";
    /// A person has decided about a tool call.
    pub const DECIDED: &str = "TOOL_CALL_DECIDED";
    /// An iteration has come to its end; its checkpoint belongs to this event.
    pub const ITERATION_COMPLETE: &str = "ITERATION_COMPLETE";
    /// A new runner reads what the former one has left.
    pub const RECOVERING: &str = "EXECUTION_RECOVERING";
    /// The new runner goes on.
    pub const RESUMED: &str = "EXECUTION_RESUMED";
    /// Nobody goes on until somebody resumes it.
    pub const PAUSED: &str = "EXECUTION_PAUSED";
    /// It has come to its end.
    pub const COMPLETED: &str = "EXECUTION_COMPLETED";
    /// It has failed, or was cancelled.
    pub const FAILED: &str = "EXECUTION_FAILED";
    /// It came from an export.
    pub const IMPORTED: &str = "EXECUTION_IMPORTED";

    /// All of them: no caller may append one by itself.
    pub const ALL: [&str; 14] = [
        CREATED,
        PLAN,
        INTENT,
        RESULT,
        RELEASED,
        IN_DOUBT,
        DECIDED,
        ITERATION_COMPLETE,
        RECOVERING,
        RESUMED,
        PAUSED,
        COMPLETED,
        FAILED,
        IMPORTED,
    ];
}

/// The status that an event of this type has set; `None` where it has set none.
pub(crate) fn status_set_by(event_type: &str) -> Option<Status> {
    match event_type {
        kind::CREATED | kind::RESUMED => Some(Status::Running),
        kind::RECOVERING => Some(Status::Recovering),
        kind::PAUSED | kind::IMPORTED => Some(Status::Paused),
        kind::COMPLETED => Some(Status::Completed),
        kind::FAILED => Some(Status::Failed),
        _ => None,
    }
}

/// Whether a checkpoint was written with an event. Chain 1 does not cover its digest, so there the type of the event counts as well.
pub(crate) fn has_checkpoint(chain: Chain, event: &Event) -> bool {
    event.checkpoint.is_some() || (chain == Chain::V1 && event.kind == kind::ITERATION_COMPLETE)
}

/// The payload of [`kind::CREATED`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Created {
    pub(crate) execution_id: String,
    pub(crate) agent_id: String,
    pub(crate) input: Value,
}

/// The payload of [`kind::PLAN`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Planned {
    pub(crate) iteration: u64,
    pub(crate) parallel: bool,
    pub(crate) calls: Vec<PlannedCall>,
}

/// The payload of [`kind::INTENT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Intended {
    #[serde(flatten)]
    pub(crate) at: Coordinates,
    pub(crate) tool: String,
    pub(crate) args: Value,
    /// SHA-256 of tool and args.
    pub(crate) digest: String,
    pub(crate) key: String,
    pub(crate) declaration: Declaration,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effect_key: Option<String>,
}

/// The payload of [`kind::RESULT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resulted {
    #[serde(flatten)]
    pub(crate) at: Coordinates,
    pub(crate) tool: String,
    pub(crate) digest: String,
    pub(crate) result: StepResult,
}

/// The payload of [`kind::RELEASED`], [`kind::IN_DOUBT`] and, without coordinates, of what pauses or ends an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Because {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Coordinates>,
    pub(crate) reason: String,
    /// What an operator has said beside a reason that programs compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
}

impl Because {
    /// Why an execution as a whole has come to stand as it does.
    pub(crate) fn of(reason: &str) -> Self {
        Because { at: None, reason: told(reason), detail: None }
    }

    /// An execution was cancelled; the text says why.
    pub(crate) fn cancelled(why: &str) -> Self {
        Because { detail: Some(told(why)).filter(|why| !why.is_empty()), ..Because::of("cancelled") }
    }
}

/// The payload of [`kind::DECIDED`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PersonDecided {
    #[serde(flatten)]
    pub(crate) at: Coordinates,
    pub(crate) digest: String,
    pub(crate) decision: String,
    pub(crate) by: String,
    pub(crate) reason: String,
}

/// The payload of [`kind::ITERATION_COMPLETE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Completed {
    pub(crate) iteration: u64,
}

/// The canonical form of a payload.
pub(crate) fn canonical(payload: &impl Serialize) -> Result<Vec<u8>, Error> {
    let value = serde_json::to_value(payload)
        .map_err(|error| Error::invalid(format!("a payload is not JSON: {error}")))?;
    let bytes = canonical_of(&value)?;
    match bytes.len() <= limits::MAX_EVENT_BYTES {
        true => Ok(bytes),
        false => Err(Error::invalid("the payload of an event is larger than 2 MiB")),
    }
}

/// The canonical form of a value (RFC 8785).
pub(crate) fn canonical_of(value: &Value) -> Result<Vec<u8>, Error> {
    canonical_value(value).map_err(|error| Error::invalid(format!("a value has no canonical JSON: {error}")))
}

/// Text for people as it may be kept: without control characters, and not too long.
pub(crate) fn told(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(limits::MAX_TEXT_CHARS).collect()
}

impl Planned {
    pub(crate) fn plan(self) -> Plan {
        Plan::Act { calls: self.calls, parallel: self.parallel }
    }
}
