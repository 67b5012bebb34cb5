//! What an agent plans, and what it is told: the names and words of the JSON (X1).

use hapax_core::json::canonicalize;
use hapax_core::{Error, Fingerprint, Key};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits;

/// One thing that an agent wants done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedAction {
    /// The system that the tool is on.
    pub connector: String,
    /// What is to be done there.
    pub tool: String,
    /// With what; an object, kept as it was written.
    #[serde(default = "no_args")]
    pub args: Box<RawValue>,
    /// What must not be touched by two actions at once.
    pub entity_key: String,
    /// What counts as the same action. A read needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// The arguments of an action that has none.
pub fn no_args() -> Box<RawValue> {
    RawValue::from_string("{}".into()).unwrap_or_default()
}

/// What was decided about an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Disposition {
    /// It was allowed.
    Allow,
    /// It was allowed, and raised for people.
    Alert,
    /// It was refused before it reached anything.
    Block,
    /// It had been done before.
    Dedup,
}

impl Disposition {
    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Disposition::Allow => "ALLOW",
            Disposition::Alert => "ALERT",
            Disposition::Block => "BLOCK",
            Disposition::Dedup => "DEDUP",
        }
    }
}

/// What became of an action.
#[derive(Clone, Debug, Serialize)]
pub struct ActionResult {
    /// The action, as it was planned.
    pub action: PlannedAction,
    /// What was decided.
    pub decision: Disposition,
    /// Whether what was asked for is in place.
    pub ok: bool,
    /// What the tool answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The stable word for that; a refusal by the trust policy has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
}

/// What the gate's refusal says.
pub const BLOCKED: &str = "blocked by trust policy";

/// Why an action is not done, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) error: String,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, error: impl Into<String>) -> Self {
        Refusal { code, error: error.into() }
    }

    /// The store cannot be asked, or refuses what it is told.
    pub(crate) fn of_store(error: &Error) -> Self {
        match error.kind() {
            hapax_core::Kind::Invalid => Refusal::new("action-malformed", error.to_string()),
            _ => Refusal::new("ledger-unavailable", format!("{error:#}")),
        }
    }
}

impl PlannedAction {
    /// Checks what does not depend on the connector.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.entity_key.is_empty() || self.entity_key.len() > limits::MAX_ENTITY_BYTES {
            let bound = limits::MAX_ENTITY_BYTES;
            return Err(Refusal::new("entity-malformed", format!("entity_key: 1 to {bound} bytes")));
        }
        if self.args.get().len() > limits::MAX_ARGS_BYTES {
            let bound = limits::MAX_ARGS_BYTES / 1024;
            return Err(Refusal::new("args-malformed", format!("args: at most {bound} KiB")));
        }
        if !self.args.get().starts_with('{') {
            return Err(Refusal::new("args-malformed", "args: an object"));
        }
        Ok(())
    }

    /// The key of an action that changes something.
    pub(crate) fn key(&self) -> Result<Key, Refusal> {
        match self.idempotency_key.as_deref() {
            None | Some("") => {
                Err(Refusal::new("key-missing", "idempotency_key: needed by a tool that changes something"))
            }
            Some(key) => Key::new(key)
                .map_err(|error| Refusal::new("key-malformed", format!("idempotency_key: {error}"))),
        }
    }

    /// What is asked, as it is compared: RFC 8785 of connector, tool and args.
    pub(crate) fn fingerprint(&self) -> Result<Fingerprint, Refusal> {
        let named = serde_json::to_string(&(&self.connector, &self.tool, &self.args));
        let canonical = named
            .map_err(|error| error.to_string())
            .and_then(|text| canonicalize(text.as_bytes()).map_err(|error| error.to_string()));
        match canonical {
            Ok(canonical) => Ok(Fingerprint::of_bytes(&canonical)),
            Err(error) => Err(Refusal::new("args-malformed", format!("args: no canonical JSON: {error}"))),
        }
    }
}

/// Reads a plan: an array of actions.
pub fn read_plan(text: &[u8]) -> Result<Vec<PlannedAction>, Error> {
    if text.len() > limits::MAX_PLAN_BYTES {
        let bound = limits::MAX_PLAN_BYTES / (1024 * 1024);
        return Err(Error::invalid(format!("a plan has at most {bound} MiB")));
    }
    let plan: Vec<PlannedAction> = serde_json::from_slice(text)
        .map_err(|error| Error::invalid(format!("the plan is no array of actions: {error}")))?;
    match plan.len() <= limits::MAX_ACTIONS {
        true => Ok(plan),
        false => Err(Error::invalid(format!(
            "a plan has at most {} actions, this one has {}",
            limits::MAX_ACTIONS,
            plan.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTION: &str = r#"{"connector":"magento","tool":"orders.hold","args":{"order":"SO-1","n":12345678901234567890123},"entity_key":"e","idempotency_key":"k"}"#;

    #[test]
    fn an_action_is_told_as_it_was_planned() {
        let action: PlannedAction = serde_json::from_str(ACTION).unwrap();
        assert_eq!(serde_json::to_string(&action).unwrap(), ACTION);
    }

    #[test]
    fn the_same_args_written_otherwise_are_the_same_action() {
        let action = |args: &str| PlannedAction {
            args: RawValue::from_string(args.into()).unwrap(),
            ..serde_json::from_str(ACTION).unwrap()
        };
        let print = |args| action(args).fingerprint().unwrap();
        assert_eq!(print(r#"{"a":1,"b":[2.0]}"#), print(r#"{ "b": [2], "a": 1 }"#));
        assert_ne!(print(r#"{"a":1}"#), print(r#"{"a":2}"#));
        let other = PlannedAction { tool: "orders.release".into(), ..action("{}") };
        assert_ne!(other.fingerprint().unwrap(), print("{}"));
        assert_eq!(action(r#"{"a":1,"a":2}"#).fingerprint().unwrap_err().code, "args-malformed");
    }

    #[test]
    fn what_is_no_plan_is_refused_with_its_reason() {
        let many = format!("[{}]", vec![ACTION; limits::MAX_ACTIONS + 1].join(","));
        assert!(read_plan(many.as_bytes()).unwrap_err().to_string().contains("at most 10000 actions"));
        assert_eq!(read_plan(format!("[{ACTION}]").as_bytes()).unwrap().len(), 1);
        for (text, told) in [("{}", "array"), (r#"[{"connector":"m"}]"#, "tool"), ("[", "EOF")] {
            assert!(read_plan(text.as_bytes()).unwrap_err().to_string().contains(told), "{text}");
        }
    }

    #[test]
    fn keys_and_args_have_bounds() {
        let action: PlannedAction = serde_json::from_str(ACTION).unwrap();
        let keyed = |key: &str| PlannedAction { idempotency_key: Some(key.into()), ..action.clone() }.key();
        assert!(keyed(&"k".repeat(1024)).is_ok());
        assert_eq!(keyed(&"k".repeat(1025)).unwrap_err().code, "key-malformed");
        assert_eq!(keyed("").unwrap_err().code, "key-missing");
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(limits::MAX_ARGS_BYTES));
        for args in [large.as_str(), "[1]", "7"] {
            let args = RawValue::from_string(args.into()).unwrap();
            assert_eq!(PlannedAction { args, ..action.clone() }.check().unwrap_err().code, "args-malformed");
        }
    }
}
