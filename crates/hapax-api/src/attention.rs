//! What waits for a person, and what a person has seen of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{NAME_LENGTH, PRINTABLE, REASON_LENGTH, SAID};
use crate::pulse::AttentionCounts;
use crate::text::Time;
use crate::words::AttentionKind;

/// What waits for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attention {
    /// The items, the oldest first; at most 1000 of each kind.
    pub items: Vec<AttentionItem>,
    /// How many there are of each kind.
    pub counts: AttentionCounts,
}

/// Something that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionItem {
    /// Its id, by which it is acknowledged.
    pub id: String,
    /// What it is.
    pub kind: AttentionKind,
    /// Since when.
    pub since: Option<Time>,
    /// What it is about: an operation id, an execution, or where a record lies.
    pub about: String,
    /// What is to be known.
    pub text: String,
    /// Who has seen it, and when; null where nobody said so.
    pub acknowledged: Option<Acknowledged>,
}

/// That somebody has seen an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledged {
    /// Who.
    pub by: String,
    /// When.
    pub at: Time,
    /// What they said.
    pub reason: String,
}

/// Says that an item was seen, or what was found out about a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remark {
    /// What is to be known: the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who says so; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}
