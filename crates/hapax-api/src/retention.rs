//! How long outcomes are kept, by class.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::delegated::DelegatedRetention;
use crate::limits::{NAME_LENGTH, PRINTABLE, REASON_LENGTH, RETENTION, SAID};
use crate::text::Time;

/// All classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionClasses {
    /// In the order of their names.
    pub classes: Vec<RetentionClass>,
}

/// A class of outcomes, with what is configured and what was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionClass {
    /// Its name.
    pub class: String,
    /// How long outcomes are kept that are recorded now.
    pub retention: Option<String>,
    /// What the configuration says; null where it does not have the class.
    pub configured: Option<String>,
    /// Whether routes that name no class have this one.
    pub default: bool,
    /// What it was set to.
    pub set: Option<RetentionSet>,
    /// Method and path of those that have it.
    pub routes: Vec<String>,
    /// Services of clusters that have it, where it was set just now: as they say it themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegated: Vec<DelegatedRetention>,
}

/// What a class was set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionSet {
    /// How long outcomes are kept.
    pub retention: String,
    /// Who set it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Time,
}

/// What a class is to be set to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetRetention {
    /// 1s to 3650d, or `forever`.
    #[schemars(example = "7d", regex(pattern = RETENTION))]
    pub retention: String,
    /// Why; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// Why what was set is taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnsetRetention {
    /// Why; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}
