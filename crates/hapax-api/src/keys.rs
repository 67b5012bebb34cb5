//! API keys: made, listed and revoked.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{NAME_LENGTH, PAGE_RECORDS, PRINTABLE, SLUG, SPAN_OR_UTC, SUBJECT};
use crate::text::Time;
use crate::words::Level;

/// Which keys are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeysQuery {
    /// At most so many records (1 to 1000, default 50). A page may hold fewer and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// One page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Keys {
    /// The keys, in the order of their ids.
    pub keys: Vec<Key>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// A key as it is listed: the key itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// Its id: what the key starts with.
    pub id: String,
    /// Whose.
    pub tenant: String,
    /// In which project.
    pub project: Option<String>,
    /// As whom it acts.
    pub subject: String,
    /// How far it reaches.
    pub level: Level,
    /// What it is for.
    pub label: Option<String>,
    /// When it was made.
    pub created_at: Time,
    /// When it ends; null: when it is revoked.
    pub expires_at: Option<Time>,
}

/// A key that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// Whose.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: String,
    /// In which project; required for the level project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = SLUG))]
    pub project: Option<String>,
    /// As whom it acts: `user:ID`, `service:ID`, `tenant_member:ID` or `client:ID`.
    #[schemars(regex(pattern = SUBJECT))]
    pub subject: String,
    /// How far it reaches; without it, to its project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Level")]
    pub level: Option<Level>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub label: Option<String>,
    /// When it ends: a time in UTC, or a span from now such as `90d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = SPAN_OR_UTC))]
    pub expires: Option<String>,
}

/// A key that was made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyMade {
    /// Its id, to list and revoke it by.
    pub id: String,
    /// The key itself; it cannot be told again.
    pub key: String,
}

impl fmt::Debug for KeyMade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyMade").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A key that does not work any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revoked {
    /// Its id.
    pub id: String,
    /// Always true: a key that is not there is a problem.
    #[schemars(extend("const" = true))]
    pub revoked: bool,
}
