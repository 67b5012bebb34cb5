//! Ids and times: text with a form, which is checked where it is used and told to callers as a pattern.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

macro_rules! texts {
    ($($(#[doc = $doc:literal])+ $name:ident { $rule:literal: $value:literal, inline: $inline:literal })+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                $name(text)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                $inline
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                match $inline {
                    true => json_schema!({"type": "string", $rule: $value}),
                    false => json_schema!({"type": "string", $rule: $value, "description": concat!($($doc),+).trim()}),
                }
            }
        }
    )+};
}

texts! {
    /// The public id of an operation: `op_` and 32 hexadecimal digits.
    OperationId { "pattern": "^op_[0-9a-fA-F]{32}$", inline: false }
    /// The `code` of a problem.
    ProblemCode { "pattern": "^[a-z][a-z0-9-]{0,62}$", inline: true }
    /// The id of an API key.
    KeyId { "pattern": "^hpx_[0-9a-f]{16}$", inline: true }
    /// The id of a webhook.
    WebhookId { "pattern": "^wh_[0-9a-f]{32}$", inline: true }
    /// The id of a call whose claim a cluster keeps: the cluster's own, or the one that its callers know.
    InvocationId { "pattern": "^(inv|op)_[A-Za-z0-9_-]{1,512}$", inline: true }
    /// The name of a class of retention.
    ClassName { "pattern": "^[a-z][a-z0-9_-]{0,62}$", inline: true }
    /// The id of a schedule.
    ScheduleId { "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$", inline: true }
    /// The id of an execution, which also has more than dots.
    ExecutionId { "pattern": "^[A-Za-z0-9._~-]{1,64}$", inline: true }
    /// The id of something that waits for a person.
    AttentionId { "pattern": "^[a-z]+-[A-Za-z0-9_.:-]{1,120}$", inline: true }
    /// The id of a caller's lease.
    LeaseId { "pattern": "^ls_[0-9a-f]{16}$", inline: true }
    /// What tells the runner of an execution from others; only the caller that became it knows.
    RunnerId { "pattern": "^ru_[0-9a-f]{32}$", inline: true }
    /// A tenant.
    TenantName { "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$", inline: true }
    /// The id of an alert.
    AlertId { "pattern": "^[0-9a-f]{16}-op_[0-9a-f]{32}-[0-9]{1,20}$", inline: true }
    /// The fencing number: the store's incarnation and a counter, with a dot between them.
    Epoch { "pattern": "^[0-9]+\\.[0-9]+$", inline: false }
    /// A time in UTC, to the microsecond.
    Time { "format": "date-time", inline: true }
}

impl From<hapax_core::OperationId> for OperationId {
    fn from(id: hapax_core::OperationId) -> Self {
        OperationId(id.to_string())
    }
}

impl From<hapax_core::Epoch> for Epoch {
    fn from(epoch: hapax_core::Epoch) -> Self {
        Epoch(epoch.to_string())
    }
}
