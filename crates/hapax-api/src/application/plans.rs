//! Plans of agents: actions that are done one after the other, in the source's JSON (X1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::raw::Raw;
use crate::words::Disposition;

/// What an agent wants done, in this order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Plan(pub Vec<Action>);

/// One thing that an agent wants done.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The system that the tool is on.
    pub connector: String,
    /// What is to be done there.
    pub tool: String,
    /// With what: an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Raw")]
    pub args: Option<Raw>,
    /// What must not be touched by two actions at once.
    pub entity_key: String,
    /// What counts as the same action. A read needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub idempotency_key: Option<String>,
}

/// What became of a plan: a result for each action, in the same order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlanResults(pub Vec<ActionResult>);

/// What became of an action.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActionResult {
    /// The action, as it was planned.
    pub action: Action,
    /// What was decided.
    pub decision: Disposition,
    /// Whether what was asked for is in place.
    pub ok: bool,
    /// What the tool answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Raw")]
    pub result: Option<Raw>,
    /// Why it is not in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub error: Option<String>,
    /// The stable word for that; a refusal by the trust policy has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub code: Option<String>,
}
