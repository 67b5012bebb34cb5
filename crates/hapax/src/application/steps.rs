//! Plans and steps of executions that run elsewhere: begun under a lease of the caller's, finished with the epoch of the grant (J5, L5).

use hapax_agent::durable::{
    Coordinates, Declaration, Error, Lending, Plan, PlannedCall, Run, Step, StepEnd, ToolError, Waits,
};
use hapax_api::application::{self as op, RecordedPlan, StepFinished, StepState};
use hapax_api::{Repeatable, Standing};
use hapax_core::{Leases as _, Scope};
use hapax_exec::Reason;
use serde_json::Value;

use super::executions::{self, outcome, recorded, run};
use super::told::{of_execution, stands};
use super::{ApplicationState, read, told};
use crate::Store;
use crate::admin::view::moment;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;

pub(super) fn repeatable(declaration: Declaration) -> Repeatable {
    match declaration {
        Declaration::Idempotent => Repeatable::Idempotent,
        Declaration::NonIdempotent => Repeatable::NonIdempotent,
        Declaration::Unknown => Repeatable::Unknown,
    }
}

fn declared(by: Option<Repeatable>) -> Declaration {
    match by {
        Some(Repeatable::Idempotent) => Declaration::Idempotent,
        Some(Repeatable::NonIdempotent) => Declaration::NonIdempotent,
        Some(Repeatable::Unknown) | None => Declaration::Unknown,
    }
}

pub(super) async fn plan(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::RecordPlan>,
) -> Result<RecordedPlan, Refusal> {
    let body = asked.body;
    let calls = body.calls.into_iter().map(|call| {
        let args = read::value("args", &call.args)?;
        Ok(PlannedCall { tool: call.tool, args, effect_key: call.effect_key })
    });
    let calls = calls.collect::<Result<_, Refusal>>()?;
    let run = run(&state, caller, &asked.id, &body.runner).await?;
    let present = run.iteration();
    if let Some(asked) = body.iteration.filter(|asked| *asked != present) {
        return Err(of_execution(Error::WrongIteration { asked, present }));
    }
    let plan = run.record_plan(Plan::Act { calls, parallel: body.parallel }).await.map_err(of_execution)?;
    recorded(present, plan)
}

pub(super) async fn begin(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::BeginStep>,
) -> Result<StepState, Refusal> {
    let body = asked.body;
    let lease = read::lease(body.lease.as_str())?;
    let attempt = read::attempt(lease, &body.attempt)?;
    let said = match (&body.tool, &body.args) {
        (Some(tool), Some(args)) => Some((tool.as_str(), read::value("args", args)?)),
        (None, None) => None,
        _ => return Err(Refusal::malformed("`tool` goes with `args`")),
    };
    let run = run(&state, caller.clone(), &asked.id, &body.runner).await?;
    let at = Coordinates { iteration: body.iteration, call: body.call };
    let planned = planned(&run, at)?;
    let tool = planned.tool.clone();
    // Before anything is written: whose the lease is, and that it stands.
    state.store.renew_lease(&caller, lease).await.map_err(told::of_store)?;
    let begun = async {
        if said.is_some_and(|(tool, args)| tool != planned.tool || args != planned.args) {
            return Err(Error::PlanDiverged { at });
        }
        let step = Step::new(run.id(), at, &planned, declared(body.declaration))?;
        Box::pin(run.begin_step(step, lease, attempt)).await
    };
    let lending = match begun.await {
        Err(error @ (Error::PlanDiverged { .. } | Error::EffectKeyTaken { .. })) => {
            let reason = match &error {
                Error::PlanDiverged { at } => format!("the plan diverged: other work was recorded at {at}"),
                other => other.to_string(),
            };
            run.pause(&reason).await.map_err(of_execution)?;
            return Err(of_execution(error));
        }
        // This attempt was given back. Sent again, it would be told the same for ever.
        Err(Error::Call(error)) if matches!(error.reason(), Reason::AttemptFailed { .. }) => {
            let cause = "this attempt was given back: begin again with another one".into();
            return Ok(StepState::Failed { cause });
        }
        begun => begun.map_err(of_execution)?,
    };
    Ok(match lending {
        Lending::Lent(lent, context) => StepState::Granted {
            tool,
            key: context.idempotency_key,
            effect_key: context.effect_key,
            epoch: lent.epoch.into(),
            operation_id: lent.operation_id.into(),
            run_until: moment(lent.run_until),
            earlier_may_have_run: lent.earlier_may_have_run,
        },
        Lending::Done(result) => StepState::Done { result: outcome(result)? },
        Lending::Waits(why) => waits(why),
        Lending::Held => StepState::Held {},
    })
}

/// The call that is recorded at this place.
fn planned(run: &Run<Store>, at: Coordinates) -> Result<PlannedCall, Refusal> {
    if at.iteration != run.iteration() {
        let (asked, present) = (at.iteration, run.iteration());
        return Err(of_execution(Error::WrongIteration { asked, present }));
    }
    let Some(Plan::Act { calls, .. }) = run.plan().map_err(of_execution)? else {
        let what = "the iteration has no recorded plan: record it before its first step";
        return Err(of_execution(Error::NotApplicable(what.into())));
    };
    let place = usize::try_from(at.call).unwrap_or(usize::MAX);
    calls.get(place).cloned().ok_or_else(|| {
        Refusal::malformed(format!("call: the recorded plan has {} calls, counted from 0", calls.len()))
    })
}

fn waits(why: Waits) -> StepState {
    match why {
        Waits::InDoubt(doubt) => StepState::Waits { reason: doubt.map(Into::into) },
        // Another execution has the key: that is refused as `effect-key-taken` where it is found out.
        Waits::NotKept | Waits::KeyTaken => StepState::Waits { reason: None },
    }
}

/// How the tool call ended, as exactly one member says.
fn ended(body: &StepFinished) -> Result<Result<Value, ToolError>, Refusal> {
    match (&body.result, &body.refused, &body.not_run, &body.unknown) {
        (Some(value), None, None, None) => {
            // Kept without its bytes, it would wait for a person.
            if read::canonical("result", value)?.len() > limits::STEP_RESULT_BYTES {
                let most = limits::STEP_RESULT_BYTES;
                return Err(Refusal::malformed(format!("result: at most {most} bytes as canonical JSON")));
            }
            Ok(Ok(read::value("result", value)?))
        }
        (None, Some(error), None, None) => Ok(Err(ToolError::Refused(error.clone()))),
        (None, None, Some(cause), None) => Ok(Err(ToolError::NotRun(cause.clone()))),
        (None, None, None, Some(cause)) => Ok(Err(ToolError::Unknown(cause.clone()))),
        _ => Err(Refusal::malformed("say exactly one of `result`, `refused`, `notRun` and `unknown`")),
    }
}

pub(super) async fn finish(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::FinishStep>,
) -> Result<StepState, Refusal> {
    let body = asked.body;
    let epoch = read::epoch(body.epoch.as_str())?;
    let ended = ended(&body)?;
    let at = Coordinates { iteration: body.iteration, call: body.call };
    let executions = executions::of(&state, caller);
    let id = executions::id(&asked.id)?;
    let stale =
        || stands(Standing::EpochStale, "epoch: the step has another one by now; nothing was written");
    match Box::pin(executions.finish_step(&id, at, epoch, ended)).await {
        Ok(StepEnd::Done(result)) => Ok(StepState::Done { result: outcome(result)? }),
        Ok(StepEnd::Waits(why)) => Ok(waits(why)),
        Ok(StepEnd::Failed(cause)) => Ok(StepState::Failed { cause }),
        Err(Error::Fenced) => Err(stale()),
        Err(Error::Call(error)) if matches!(error.reason(), Reason::InProgress) => Err(stale()),
        Err(error) => Err(of_execution(error)),
    }
}
