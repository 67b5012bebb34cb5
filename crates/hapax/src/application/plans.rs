//! `/v1/plans`: what agents plan is done here, for the caller's tenant and project (X1).
//!
//! A plan goes on when its caller has gone: an action that was cut off in the middle would be in doubt. Sent again, what it has done is
//! `DEDUP`.

use hapax_agent::actions::{self, Disposition as Decided, Origin, PlannedAction};
use hapax_agent::limits as agent_limits;
use hapax_api::application::{self as op, Action, ActionResult, PlanResults};
use hapax_api::{Disposition, Raw};
use hapax_core::Scope;
use hapax_tower::{Code, Problem};

use super::ApplicationState;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;

pub(super) async fn run(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::RunPlan>,
) -> Result<PlanResults, Refusal> {
    let Some(project) = caller.project().cloned() else {
        return Err(Refusal::malformed("actions belong to a project, and the credentials name none"));
    };
    let (plan, traceparent) = (asked.body.0, asked.traceparent);
    if plan.len() > agent_limits::MAX_ACTIONS {
        let (most, many) = (agent_limits::MAX_ACTIONS, plan.len());
        return Err(Refusal::malformed(format!("a plan has at most {most} actions, this one has {many}")));
    }
    let origin = Origin { tenant: caller.tenant().clone(), project, traceparent };
    let plan: Vec<_> = plan.into_iter().map(planned).collect();
    let Some(results) = state.plans.run(origin, plan).await? else {
        return Err(Problem::new(Code::Overloaded).detail("too many plans are under way").into());
    };
    Ok(PlanResults(results.into_iter().map(result).collect()))
}

fn planned(action: Action) -> PlannedAction {
    let Action { connector, tool, args, entity_key, idempotency_key } = action;
    PlannedAction {
        connector,
        tool,
        args: args.map_or_else(actions::plan::no_args, |args| args.0),
        entity_key,
        idempotency_key,
    }
}

fn result(result: actions::ActionResult) -> ActionResult {
    let actions::ActionResult { action, decision, ok, result, error, code } = result;
    let PlannedAction { connector, tool, args, entity_key, idempotency_key } = action;
    ActionResult {
        action: Action { connector, tool, args: Some(Raw(args)), entity_key, idempotency_key },
        decision: match decision {
            Decided::Allow => Disposition::Allow,
            Decided::Alert => Disposition::Alert,
            Decided::Block => Disposition::Block,
            Decided::Dedup => Disposition::Dedup,
        },
        ok,
        result: result.map(Raw),
        error,
        code: code.map(str::to_owned),
    }
}
