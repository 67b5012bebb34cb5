//! Durable executions of the caller's project: made, read, appended to, and gone on with (J1, J2, J4).
//!
//! A caller that runs an execution names its runner in every write. Reads and lists reach the whole project, and no other.

use hapax_agent::durable::{
    AgentId, Creation, Error, Execution, ExecutionId, Executions, Plan, PlannedCall, Recorded, Resume, Run,
    Sought, StepResult, Waiting, Waits, parse_runner, sought, tool_key, verify_page,
};
use hapax_api::application::{
    self as op, Appended, ChainChecked, ExecutionRead, ExecutionState, OwnExecutions, OwnWaiting, PlanCall,
    ReadEvent, RecordedPlan, RecordedStep, RunningExecution, StepOutcome, WaitingCall,
};
use hapax_api::{BrokenChain, ExecutionStatus, Raw, RunnerId, Time, WaitsFor};
use hapax_core::journal::{Chain, Status};
use hapax_core::{AppendId, Leases as _, Scope};
use serde_json::Value;

use super::told::of_execution;
use super::{ApplicationState, read, steps, told};
use crate::Store;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;

pub(super) fn of(state: &ApplicationState, caller: Scope) -> Executions<Store> {
    Executions::new(state.executor.clone(), caller).sealed(state.seal.clone())
}

/// An id in a path: what is no id names nothing.
pub(super) fn id(text: &str) -> Result<ExecutionId, Refusal> {
    ExecutionId::new(text).map_err(|_| told::no_execution())
}

/// The caller's right to run an execution.
pub(super) async fn run(
    state: &ApplicationState,
    caller: Scope,
    execution: &str,
    runner: &RunnerId,
) -> Result<Run<Store>, Refusal> {
    let (id, runner) = (id(execution)?, parse_runner(runner.as_str()).map_err(of_execution)?);
    of(state, caller).run(&id, runner).await.map_err(of_execution)
}

pub(super) async fn create(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::CreateExecution>,
) -> Result<RunningExecution, Refusal> {
    let body = asked.body;
    let new = ExecutionId::new(body.execution_id.as_str()).map_err(of_execution)?;
    let agent = AgentId::new(&body.agent_id).map_err(of_execution)?;
    let input = body.input.as_ref().map_or(Ok(Value::Null), |input| read::value("input", input))?;
    let chain = body.schema_version.map(Chain::from_version).transpose();
    let chain = chain.map_err(|error| of_execution(error.into()))?;
    let lease = read::lease(body.lease.as_str())?;
    let attempt = body.attempt.as_deref().map(|text| read::attempt(lease, text)).transpose()?;
    // Whose it is, and that it stands: the journal takes any lease.
    state.store.renew_lease(&caller, lease).await.map_err(told::of_store)?;
    let executions = of(&state, caller);
    let creation = Creation {
        chain: chain.unwrap_or_default(),
        lease: Some(lease),
        attempt,
        ..Creation::new(new, agent, input)
    };
    let run = executions.create(creation).await.map_err(of_execution)?;
    if attempt.is_none() {
        return running(&run).await;
    }
    // Asked again, it may be further by now.
    let runner = parse_runner(&run.runner()).map_err(of_execution)?;
    running(&executions.run(run.id(), runner).await.map_err(of_execution)?).await
}

pub(super) async fn resume(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::ResumeExecution>,
) -> Result<RunningExecution, Refusal> {
    let (id, lease) = (id(&asked.id)?, read::lease(asked.body.lease.as_str())?);
    state.store.renew_lease(&caller, lease).await.map_err(told::of_store)?;
    let attempt = asked.body.attempt.as_deref().map(|text| read::attempt(lease, text)).transpose()?;
    let how = Resume { force: false, lease: Some(lease), attempt };
    let run = Box::pin(of(&state, caller).resume(&id, how)).await.map_err(of_execution)?;
    running(&run).await
}

async fn running(run: &Run<Store>) -> Result<RunningExecution, Refusal> {
    let plan = run.plan().map_err(of_execution)?;
    let steps = run.steps().into_iter().map(|(at, step)| {
        let Recorded { intent, result } = step;
        Ok(RecordedStep {
            call: at.call,
            tool: intent.tool,
            key: tool_key(run.id(), at),
            digest: intent.digest,
            declaration: steps::repeatable(intent.declaration),
            result: result.map(outcome).transpose()?,
        })
    });
    Ok(RunningExecution {
        execution_id: run.id().as_str().to_owned().into(),
        runner: run.runner().into(),
        version: run.version().await,
        iteration: run.iteration(),
        state: read::raw(&run.state().map_err(of_execution)?)?,
        plan: plan.map(|plan| recorded(run.iteration(), plan)).transpose()?,
        steps: steps.collect::<Result<_, Refusal>>()?,
    })
}

pub(super) fn recorded(iteration: u64, plan: Plan) -> Result<RecordedPlan, Refusal> {
    let Plan::Act { calls, parallel } = plan else {
        return Err(hapax_core::Error::internal("a plan that ends was recorded").into());
    };
    let one = |call: PlannedCall| {
        Ok(PlanCall { tool: call.tool, args: read::raw(&call.args)?, effect_key: call.effect_key })
    };
    let calls = calls.into_iter().map(one).collect::<Result<_, Refusal>>()?;
    Ok(RecordedPlan { iteration, calls, parallel })
}

pub(super) fn outcome(result: StepResult) -> Result<StepOutcome, Refusal> {
    Ok(match result {
        StepResult::Answered { value } => StepOutcome::Answered { value: read::raw(&value)? },
        StepResult::Refused { error } => StepOutcome::Refused { error },
    })
}

fn view(listing: hapax_agent::durable::Listing) -> Result<ExecutionState, Refusal> {
    let summary = listing.summary;
    Ok(ExecutionState {
        execution_id: summary.execution_id.into(),
        agent_id: summary.agent_id,
        status: status_of(&summary.status)?,
        version: summary.version,
        length: summary.length,
        schema_version: summary.schema_version,
        subject: summary.subject,
        runs: listing.lives,
        created_at: summary.created_at.map(Time::from),
        updated_at: summary.updated_at.map(Time::from),
    })
}

fn status_of(text: &str) -> Result<ExecutionStatus, Refusal> {
    text.parse().map_err(|_| told::of_store(hapax_core::Error::corrupt("an execution has no status")))
}

pub(super) async fn list(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::ListExecutions>,
) -> Result<OwnExecutions, Refusal> {
    let query = asked.query;
    let wanted = Sought {
        tenant: Some(caller.tenant().clone()),
        project: caller.project().cloned(),
        status: query.status.and_then(|status| Status::parse(status.as_str())),
        agent: query.agent,
        idle_since: None,
    };
    let most = match query.limit.unwrap_or(limits::PAGE) {
        most @ 1..=hapax_api::limits::PAGE_RECORDS => most,
        _ => return Err(Refusal::malformed("limit: a page has 1 to 1000 records")),
    };
    let found = sought(&state.store, &wanted, query.after.as_deref(), most).await;
    let (found, next) = found.map_err(of_execution)?;
    Ok(OwnExecutions { executions: found.into_iter().map(view).collect::<Result<_, _>>()?, next })
}

pub(super) async fn status(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::ExecutionStatus>,
) -> Result<ExecutionState, Refusal> {
    view(of(&state, caller).listing(&id(&asked.id)?).await.map_err(of_execution)?)
}

fn page(limit: Option<usize>, usual: usize) -> Result<usize, Refusal> {
    match limit.unwrap_or(usual) {
        limit @ 1..=hapax_api::limits::PAGE_EVENTS => Ok(limit),
        _ => Err(Refusal::malformed("limit: a page has 1 to 256 events")),
    }
}

pub(super) async fn read(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::ReadExecution>,
) -> Result<ExecutionRead, Refusal> {
    let most = page(asked.query.limit, limits::PAGE)?;
    let from = asked.query.from.unwrap_or(0);
    let found = of(&state, caller).get(&id(&asked.id)?, from, most).await.map_err(of_execution)?;
    let Execution { summary, events, checkpoint } = found;
    let next = events.last().map(|event| event.seq + 1).filter(|next| *next < summary.length);
    let events = events.into_iter().map(|event| ReadEvent {
        seq: event.seq,
        event_type: event.event_type,
        timestamp: event.timestamp.map(Time::from),
        payload: event.payload.map(Raw),
        hash: event.hash,
        schema_version: event.schema_version,
    });
    Ok(ExecutionRead {
        execution_id: summary.execution_id.into(),
        agent_id: summary.agent_id,
        status: status_of(&summary.status)?,
        version: summary.version,
        length: summary.length,
        schema_version: summary.schema_version,
        checkpoint: checkpoint.map(Raw),
        events: events.collect(),
        next,
    })
}

pub(super) async fn verify(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::VerifyExecution>,
) -> Result<ChainChecked, Refusal> {
    let most = page(asked.query.limit, hapax_api::limits::PAGE_EVENTS)?;
    let stream = of(&state, caller).stream(&id(&asked.id)?).map_err(of_execution)?;
    let checked = verify_page(&state.store, &stream, asked.query.from.unwrap_or(0), most).await;
    let (report, next) = checked.map_err(of_execution)?;
    let broken = report.broken.map(|broken| BrokenChain { position: broken.position, what: broken.what });
    Ok(ChainChecked { events: report.events, erased: report.erased, hash: report.hash, broken, next })
}

pub(super) async fn waiting(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::ListWaiting>,
) -> Result<OwnWaiting, Refusal> {
    let id = id(&asked.id)?;
    let found = of(&state, caller).waiting(&id).await.map_err(of_execution)?;
    let one = |step: Waiting| {
        let (why, reason) = match step.why {
            Waits::InDoubt(doubt) => (WaitsFor::InDoubt, doubt.map(Into::into)),
            Waits::NotKept => (WaitsFor::NotKept, None),
            Waits::KeyTaken => (WaitsFor::EffectKeyTaken, None),
        };
        WaitingCall {
            iteration: step.at.iteration,
            call: step.at.call,
            key: tool_key(&id, step.at),
            tool: step.intent.tool,
            digest: step.intent.digest,
            effect_key: step.intent.effect_key,
            declaration: steps::repeatable(step.intent.declaration),
            operation_id: step.operation_id.into(),
            why,
            reason,
        }
    };
    Ok(OwnWaiting { waiting: found.into_iter().map(one).collect() })
}

fn appended(run: &Run<Store>, version: u64) -> Appended {
    Appended { execution_id: run.id().as_str().to_owned().into(), version }
}

pub(super) async fn append(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::AppendEvent>,
) -> Result<Appended, Refusal> {
    let body = asked.body;
    let payload = read::value("payload", &body.payload)?;
    let runner = body.runner.as_str().as_bytes().to_vec();
    let attempt = body.attempt.as_deref();
    if attempt.is_some_and(|text| !read::is_attempt(text)) {
        return Err(read::no_attempt());
    }
    let run = run(&state, caller, &asked.id, &body.runner).await?;
    let version = match attempt {
        Some(attempt) => {
            let id = read::digest(&[b"hapax.append\0", &runner, attempt.as_bytes()]);
            run.append_as(AppendId::from_bytes(id), &body.event_type, &payload, body.version).await
        }
        None => run.append(&body.event_type, &payload, body.version).await,
    };
    Ok(appended(&run, version.map_err(of_execution)?))
}

pub(super) async fn checkpoint(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::WriteCheckpoint>,
) -> Result<Appended, Refusal> {
    let body = asked.body;
    let value = read::value("checkpoint", &body.checkpoint)?;
    let run = run(&state, caller, &asked.id, &body.runner).await?;
    match Box::pin(run.complete_iteration(body.iteration, &value)).await {
        // Sent again by a caller that has not heard the first answer.
        Err(Error::WrongIteration { asked, present })
            if asked.checked_add(1) == Some(present) && run.state().is_ok_and(|kept| kept == value) => {}
        done => done.map_err(of_execution)?,
    }
    let version = run.version().await;
    Ok(appended(&run, version))
}

pub(super) async fn pause(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::PauseExecution>,
) -> Result<Appended, Refusal> {
    let run = run(&state, caller, &asked.id, &asked.body.runner).await?;
    let version = run.pause(&asked.body.reason).await.map_err(of_execution)?;
    Ok(appended(&run, version))
}

pub(super) async fn complete(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::CompleteExecution>,
) -> Result<Appended, Refusal> {
    let output = asked.body.output.as_ref();
    let output = output.map_or(Ok(Value::Null), |output| read::value("output", output))?;
    let run = run(&state, caller, &asked.id, &asked.body.runner).await?;
    let version = run.complete(&output).await.map_err(of_execution)?;
    Ok(appended(&run, version))
}

pub(super) async fn fail(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::FailExecution>,
) -> Result<Appended, Refusal> {
    let run = run(&state, caller, &asked.id, &asked.body.runner).await?;
    let version = run.fail(&asked.body.reason).await.map_err(of_execution)?;
    Ok(appended(&run, version))
}
