//! What a schedule does and when, as the registry keeps it: two instances whose definitions differ are not to dispatch both.

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::when::Timing;

/// What a schedule does and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    /// When its ticks are planned.
    pub(crate) timing: Timing,
    /// The operation that its ticks call, by its first name.
    pub(crate) operation: String,
    /// Method and path of the route.
    pub(crate) route: String,
    /// Whose its ticks are.
    pub(crate) tenant: String,
    pub(crate) project: String,
    /// The body of each tick, and its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    pub(crate) body: String,
    pub(crate) overlap: Overlap,
    /// How many ticks that were not dispatched in their time are dispatched late.
    pub(crate) catch_up: u32,
}

/// What becomes of a tick while an earlier one has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Overlap {
    /// It is dispatched.
    #[default]
    Allow,
    /// It is left out.
    Skip,
}

impl Definition {
    /// What tells it from others.
    pub(crate) fn digest(&self) -> String {
        // A definition of plain texts and numbers always has a JSON.
        let text = serde_json::to_vec(self).unwrap_or_default();
        digest(&SHA256, &text).as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
