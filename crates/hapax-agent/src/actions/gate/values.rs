//! What rules are asked about: an action as CEL sees it.

use std::collections::HashMap;
use std::sync::Arc;

use cel::{Context, ExecutionError, Value};
use hapax_core::Rerun;
use serde_json::Value as Json;

use super::rule::{RECENT, span_rule};
use super::walk::{Budget, COUNTED};
use super::{Lately, span};
use crate::actions::connect::Tool;
use crate::actions::executor::Origin;
use crate::actions::plan::PlannedAction;

/// An action, ready to be asked about.
pub(super) struct Asked {
    texts: [(&'static str, String); 5],
    args: Value,
    hints: Value,
    lately: Option<Arc<Lately>>,
}

impl Asked {
    pub(super) fn new(
        origin: &Origin,
        action: &PlannedAction,
        tool: &Tool,
        lately: Option<Lately>,
    ) -> Result<Self, String> {
        let args = serde_json::from_str(action.args.get()).map_err(|error| format!("args: {error}"))?;
        let texts = [
            ("tenant", origin.tenant.as_str().to_owned()),
            ("project", origin.project.as_str().to_owned()),
            ("connector", action.connector.clone()),
            ("tool", action.tool.clone()),
            ("entity_key", action.entity_key.clone()),
        ];
        let hints: HashMap<String, Value> = [
            ("read_only", tool.read_only),
            ("destructive", tool.destructive),
            ("idempotent", tool.rerun == Rerun::Safe),
        ]
        .into_iter()
        .map(|(name, hint)| (name.to_owned(), Value::Bool(hint)))
        .collect();
        Ok(Asked { texts, args: value(args), hints: hints.into(), lately: lately.map(Arc::new) })
    }

    /// The variables and the function that a rule can use, beside what CEL has itself.
    pub(super) fn context(&self) -> Result<Context<'static, 'static>, String> {
        let mut context = Context::default();
        for (name, text) in &self.texts {
            context.add_variable_from_value(*name, text.clone());
        }
        context.add_variable_from_value("args", self.args.clone());
        context.add_variable_from_value("hints", self.hints.clone());
        let lately = self.lately.clone();
        let recent = move |tool: Arc<String>, of: Arc<String>| -> Result<i64, ExecutionError> {
            let failed = |message| ExecutionError::FunctionError { function: RECENT.into(), message };
            let span = span(&of).ok_or_else(|| failed(span_rule()))?;
            // What nobody has read is not nothing.
            let lately = lately.as_ref().ok_or_else(|| failed("the lane was not read".into()))?;
            let count = lately.recent.count(&tool, span, lately.now);
            let count = count.ok_or_else(|| {
                failed(format!("what the lane keeps of {:?} does not reach back over {of}", *tool))
            })?;
            Ok(i64::try_from(count).unwrap_or(i64::MAX))
        };
        context.add_function(RECENT, recent).map_err(|error| format!("{error:?}"))?;
        let budget = Budget::begin();
        context.add_function(COUNTED, move || budget.element()).map_err(|error| format!("{error:?}"))?;
        Ok(context)
    }
}

/// JSON as CEL has it: a whole number is an `int` where it fits, else a `uint` or a `double`.
fn value(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(flag),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::UInt(number),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Arc::new(text)),
        Json::Array(items) => Value::List(Arc::new(items.into_iter().map(value).collect())),
        Json::Object(members) => {
            let members: HashMap<String, Value> =
                members.into_iter().map(|(name, member)| (name, value(member))).collect();
            members.into()
        }
    }
}
