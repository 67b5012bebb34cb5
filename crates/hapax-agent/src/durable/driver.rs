//! `DurableLoop`: plan, act, observe, checkpoint, until the agent says that it is done (J8).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures_util::future::join_all;
use hapax_core::journal::Status;
use hapax_core::{Journal, Ledger};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::Error;
use super::execution::{AgentId, ExecutionId};
use super::key::Coordinates;
use super::resume::Resume;
use super::run::Run;
use super::step::{Step, StepEnd, StepResult};
use super::stream::Executions;
use super::tools::Tools;
use crate::limits;

/// What an iteration is going to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// These tool calls.
    Act {
        /// In this order; a call's place is part of its key.
        calls: Vec<PlannedCall>,
        /// Whether they may run at the same time.
        parallel: bool,
    },
    /// Nothing more: this is what the execution has come to.
    Finish(Value),
}

/// A tool call as it is planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
    /// The key of the effect, where that is to happen once whatever execution asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_key: Option<String>,
}

impl PlannedCall {
    /// A call without a key of its effect.
    pub fn new(tool: &str, args: Value) -> Self {
        PlannedCall { tool: tool.to_owned(), args, effect_key: None }
    }
}

/// What an agent gets to see of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// What was called.
    pub call: PlannedCall,
    /// What came of it.
    pub result: StepResult,
}

/// What decides what to do. It is asked only where nothing is recorded: after a crash, the plan and the results that are recorded
/// are used again.
pub trait Agent: Send + Sync {
    /// What the iteration that starts from this state is going to do. An error pauses the execution.
    fn plan(&self, iteration: u64, state: &Value) -> impl Future<Output = Result<Plan, String>> + Send;

    /// The state that the next iteration starts from. It may be asked more than once for the same observations, and then must have
    /// no effect.
    fn observe(&self, state: Value, observations: &[Observation]) -> Value;
}

/// Why a loop has stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The agent is done.
    Completed(Value),
    /// It waits: for a person, or because it was asked to.
    Paused(String),
    /// It has failed, or was cancelled.
    Failed(String),
}

/// Asks a running loop to stop; it does so between two tool calls.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<AtomicU8>);

const GO: u8 = 0;
const PAUSE: u8 = 1;
const CANCEL: u8 = 2;

impl Control {
    /// The loop pauses. What was asked for more than that stays.
    pub fn pause(&self) {
        let _ = self.0.compare_exchange(GO, PAUSE, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The execution fails, with the reason `cancelled`.
    pub fn cancel(&self) {
        self.0.store(CANCEL, Ordering::SeqCst);
    }

    fn asked(&self) -> Option<Stop> {
        match self.0.load(Ordering::SeqCst) {
            CANCEL => Some(Stop::Failed("cancelled".into())),
            PAUSE => Some(Stop::Paused("it was asked to pause".into())),
            _ => None,
        }
    }
}

/// How a call ended: with a result, or with a reason to stop.
type CallEnd = Result<Result<StepResult, Stop>, Error>;

/// An agent with its tools.
#[derive(Clone, Debug)]
pub struct DurableLoop<A> {
    agent: A,
    tools: Tools,
    control: Control,
    max_iterations: u64,
}

impl<A: Agent> DurableLoop<A> {
    /// A loop of this agent.
    pub fn new(agent: A, tools: Tools) -> Self {
        DurableLoop { agent, tools, control: Control::default(), max_iterations: limits::MAX_ITERATIONS }
    }

    /// With another bound on its iterations: beyond it the execution fails.
    #[must_use]
    pub fn max_iterations(mut self, most: u64) -> Self {
        self.max_iterations = most;
        self
    }

    /// What asks it to stop.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Runs an execution until it has ended or has to wait. Whether it was just made or resumed makes no difference.
    pub async fn run<S: Journal + Ledger>(&self, run: &Run<S>) -> Result<Stop, Error> {
        let stop = match Box::pin(self.iterate(run)).await {
            Ok(stop) => stop,
            Err(Error::PlanDiverged { at }) => {
                Stop::Paused(format!("the plan diverged: other work was recorded at {at}"))
            }
            Err(error @ Error::EffectKeyTaken { .. }) => Stop::Paused(error.to_string()),
            Err(Error::Erased) => Stop::Failed("erased".into()),
            Err(error) => return Err(error),
        };
        match &stop {
            Stop::Completed(output) => run.complete(output).await?,
            Stop::Paused(reason) => run.pause(reason).await?,
            Stop::Failed(reason) => run.fail(reason).await?,
        };
        Ok(stop)
    }

    /// Takes the executions of an agent whose runner has gone, and those that an operator has resumed, and runs them, one after the other.
    /// One round: a process that looks after an agent's executions calls this again and again. What other processes take meanwhile is
    /// theirs, and an execution that cannot be resumed keeps none of the others from it.
    pub async fn recover<S: Journal + Ledger>(
        &self,
        executions: &Executions<S>,
        agent: &AgentId,
    ) -> Result<Vec<(ExecutionId, Result<Stop, Error>)>, Error> {
        let mut recovered = Vec::new();
        for status in [Status::Running, Status::Recovering] {
            let mut after = None;
            loop {
                let (found, next) =
                    executions.list(Some(status), after.as_deref(), limits::RECOVER_PAGE).await?;
                for listing in found {
                    if listing.lives || listing.summary.agent_id != agent.as_str() {
                        continue;
                    }
                    let run = match Box::pin(executions.resume(&listing.id, Resume::default())).await {
                        // Another process was there first.
                        Err(Error::Fenced | Error::Ended | Error::VersionConflict { .. }) => continue,
                        run => run,
                    };
                    let stop = match run {
                        Ok(run) => Box::pin(self.run(&run)).await,
                        Err(error) => Err(error),
                    };
                    recovered.push((listing.id, stop));
                }
                after = next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(recovered)
    }

    async fn iterate<S: Journal + Ledger>(&self, run: &Run<S>) -> Result<Stop, Error> {
        loop {
            if let Some(stop) = self.control.asked() {
                return Ok(stop);
            }
            let (iteration, state) = (run.iteration(), run.state()?);
            if iteration >= self.max_iterations {
                return Ok(Stop::Failed(format!(
                    "it has had {iteration} iterations and has not come to an end"
                )));
            }
            let plan = match run.plan()? {
                Some(plan) => plan,
                None => match self.agent.plan(iteration, &state).await {
                    Ok(Plan::Finish(output)) => return Ok(Stop::Completed(output)),
                    Ok(plan) => run.record_plan(plan).await?,
                    Err(cause) => return Ok(Stop::Paused(format!("the planner failed: {cause}"))),
                },
            };
            let Plan::Act { calls, parallel } = plan else {
                return Err(Error::Store(hapax_core::Error::internal("a plan that ends was recorded")));
            };
            let observations = match self.act(run, &calls, parallel).await? {
                Ok(observations) => observations,
                Err(stop) => return Ok(stop),
            };
            let state = self.agent.observe(state, &observations);
            run.complete_iteration(iteration, &state).await?;
        }
    }

    /// Makes all calls of a plan; those that are made at the same time all come to their end, also where one of them has to wait.
    async fn act<S: Journal + Ledger>(
        &self,
        run: &Run<S>,
        calls: &[PlannedCall],
        parallel: bool,
    ) -> Result<Result<Vec<Observation>, Stop>, Error> {
        let mut observations = Vec::with_capacity(calls.len());
        let mut ends = Vec::with_capacity(calls.len());
        if parallel {
            let mut calling = Vec::with_capacity(calls.len());
            for (place, call) in (0..).zip(calls) {
                calling.push(Box::pin(self.call(run, place, call)));
            }
            ends = join_all(calling).await;
        } else {
            for (place, call) in (0..).zip(calls) {
                let end = Box::pin(self.call(run, place, call)).await;
                let goes_on = matches!(end, Ok(Ok(_)));
                ends.push(end);
                if !goes_on {
                    break;
                }
            }
        }
        for (call, end) in calls.iter().zip(ends) {
            match end? {
                Ok(result) => observations.push(Observation { call: call.clone(), result }),
                Err(stop) => return Ok(Err(stop)),
            }
        }
        Ok(Ok(observations))
    }

    /// Makes one call, more than once only where it failed without effect.
    async fn call<S: Journal + Ledger>(&self, run: &Run<S>, place: u32, planned: &PlannedCall) -> CallEnd {
        let at = Coordinates { iteration: run.iteration(), call: place };
        let Some(tool) = self.tools.get(&planned.tool) else {
            return Ok(Err(Stop::Paused(format!("{at}: there is no tool {:?} here", planned.tool))));
        };
        let step = Step::new(run.id(), at, planned, tool.declaration())?;
        for attempt in 1.. {
            if let Some(stop) = self.control.asked() {
                return Ok(Err(stop));
            }
            match run.step(step.clone(), tool.as_ref()).await? {
                StepEnd::Done(result) => return Ok(Ok(result)),
                StepEnd::Waits(_) => {
                    return Ok(Err(Stop::Paused(format!(
                        "{at}: a person has to decide about {:?}",
                        planned.tool
                    ))));
                }
                StepEnd::Failed(cause) if attempt >= limits::TOOL_ATTEMPTS => {
                    return Ok(Err(Stop::Paused(format!("{at}: {:?} failed: {cause}", planned.tool))));
                }
                StepEnd::Failed(_) => tokio::time::sleep(limits::TOOL_PAUSE).await,
            }
        }
        Err(Error::Store(hapax_core::Error::internal("a call was made without end")))
    }
}
