//! What walking lists and maps may cost: every element that a rule visits is counted, and the walk itself ends when it has gone too far.
//!
//! The interpreter cannot be interrupted, and a thread that is only not waited for goes on. So each walk of a compiled rule asks a
//! function of ours before it visits an element.

use std::sync::atomic::{AtomicU64, Ordering};

use cel::ExecutionError;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use tokio::time::Instant;

use crate::clock::{deadline, left};
use crate::limits;

/// The function that each walk asks. No rule can name it.
pub(super) const COUNTED: &str = "@counted";

/// Lets every walk of an expression ask before it visits an element.
pub(super) fn count(node: &mut IdedExpr) {
    match &mut node.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select(select) => count(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(count),
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                count(target);
            }
            call.args.iter_mut().for_each(count);
        }
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| count_entry(&mut entry.expr)),
        Expr::Struct(made) => made.entries.iter_mut().for_each(|entry| count_entry(&mut entry.expr)),
        Expr::Comprehension(walk) => {
            let ComprehensionExpr { iter_range, accu_init, loop_cond, loop_step, result, .. } = &mut **walk;
            [iter_range, accu_init, loop_cond, loop_step, result].into_iter().for_each(count);
            count_elements(walk);
        }
    }
}

fn count_entry(entry: &mut EntryExpr) {
    match entry {
        EntryExpr::StructField(field) => count(&mut field.value),
        EntryExpr::MapEntry(entry) => {
            count(&mut entry.key);
            count(&mut entry.value);
        }
    }
}

/// What is evaluated once for each element asks first.
fn count_elements(walk: &mut ComprehensionExpr) {
    // Where the condition is a literal, the interpreter appends in place instead of copying what it has: it has to stay one.
    let in_step = match walk.loop_cond.expr {
        Expr::Literal(_) => for_each_element(&mut walk.loop_step),
        _ => None,
    };
    let place = in_step.unwrap_or(&mut walk.loop_cond);
    let asked = std::mem::take(place);
    let id = asked.id;
    let call = |func_name: &str, args| {
        let expr = Expr::Call(CallExpr { func_name: func_name.to_owned(), target: None, args });
        IdedExpr { id, expr }
    };
    let otherwise = IdedExpr { id, expr: Expr::Literal(LiteralValue::Null) };
    *place = call(operators::CONDITIONAL, vec![call(COUNTED, Vec::new()), asked, otherwise]);
}

/// The part of a step that is evaluated for each element and can be wrapped: the filter, or what is appended.
fn for_each_element(step: &mut IdedExpr) -> Option<&mut IdedExpr> {
    let Expr::Call(call) = &mut step.expr else { return None };
    match call.func_name.as_str() {
        operators::CONDITIONAL => call.args.first_mut(),
        operators::ADD => match &mut call.args.last_mut()?.expr {
            Expr::List(appended) => appended.elements.first_mut(),
            _ => None,
        },
        _ => None,
    }
}

/// What is left for the walks of all rules over one action.
#[derive(Debug)]
pub(super) struct Budget {
    elements: AtomicU64,
    until: Instant,
}

impl Budget {
    pub(super) fn begin() -> Self {
        Budget { elements: AtomicU64::new(limits::MAX_RULE_ELEMENTS), until: deadline(limits::RULE_TIME) }
    }

    /// One more element is visited; an error where that is one too many.
    pub(super) fn element(&self) -> Result<bool, ExecutionError> {
        let spend = |elements: u64| elements.checked_sub(1);
        let has_room = self.elements.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok();
        match has_room && !left(self.until).is_zero() {
            true => Ok(true),
            false => {
                let (most, time) = (limits::MAX_RULE_ELEMENTS, limits::RULE_TIME);
                let message = format!("rules visit at most {most} elements of one action, in {time:?}");
                Err(ExecutionError::FunctionError { function: COUNTED.into(), message })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_by_elements_and_by_time() {
        let two = Budget { elements: AtomicU64::new(2), ..Budget::begin() };
        assert_eq!(
            [two.element().is_ok(), two.element().is_ok(), two.element().is_ok()],
            [true, true, false]
        );
        let over = Budget { until: deadline(std::time::Duration::ZERO), ..Budget::begin() };
        assert!(over.element().is_err());
    }
}
