//! Leases of callers: what their grants and their right to run an execution hang on (M1, L6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::SPAN;
use crate::text::{LeaseId, Time};

/// A lease to open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpenLease {
    /// How long it lasts after it is opened and after each renewal: `1s` to `1h`, default `30s`.
    #[schemars(regex(pattern = SPAN))]
    pub term: Option<String>,
}

/// A lease as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// Its id. It counts only together with the credentials that it was opened with.
    pub lease: LeaseId,
    /// When it lapses unless it is renewed, on the store's clock.
    pub until: Option<Time>,
}

/// A lease that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseEnded {
    /// Its id.
    pub lease: LeaseId,
}
