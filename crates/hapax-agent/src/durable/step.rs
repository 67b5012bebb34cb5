//! One tool call: one claim, whose intent is durable before it and whose result is written with its settle (J4, J5, L18).
//!
//! [`Run::step`] takes the steps of `once`: enter, begin with a look at the execution, run, conclude. A step whose intent was written by
//! a process that has died takes the same way: the ledger knows what became of it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hapax_core::journal::{Append, Author, Stream};
use hapax_core::{
    Doubt, Fingerprint, Identity, Journal, Key, Ledger, Operation, Outcome, Retention, Scope, Source, Width,
};
use hapax_exec::{
    Attach, Attempt, Begun, Call, Concluded, Done, Ended, Entered, Held, OnRelease, Reason, Reconciled,
    WorkResult,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::driver::PlannedCall;
use super::error::Error;
use super::event::{self, Because, Intended, Resulted, kind, told};
use super::execution::ExecutionId;
use super::key::{self, Coordinates, hex, tool_key};
use super::progress::{Intent, Recorded};
use super::run::{Run, send};
use super::stream::Executions;
use super::tools::{Declaration, Tool, ToolContext, ToolError};
use crate::limits;

/// What came of a tool call, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StepResult {
    /// The tool's answer.
    Answered {
        /// The answer.
        value: Value,
    },
    /// The tool has refused, or a person has said that it failed.
    Refused {
        /// Why.
        error: String,
    },
}

/// How far a step came.
#[derive(Clone, Debug, PartialEq)]
pub enum StepEnd {
    /// It has its result, now or from before.
    Done(StepResult),
    /// A person has to decide.
    Waits(Waits),
    /// It failed, and may be made again.
    Failed(String),
}

/// Why a person has to decide about a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Nobody knows whether it happened.
    InDoubt(Option<Doubt>),
    /// It happened, and its result was not kept.
    NotKept,
    /// The key of its effect is that of other work: it cannot be made, and its agent can only be told so.
    KeyTaken,
}

/// One tool call of an execution.
#[derive(Clone, Debug)]
pub struct Step {
    execution: ExecutionId,
    at: Coordinates,
    tool: String,
    args: Value,
    /// Canonical JSON of tool and arguments: the same bytes are the same work.
    work: Bytes,
    declaration: Declaration,
    effect_key: Option<Key>,
}

impl Step {
    /// A planned call at its place.
    pub fn new(
        execution: &ExecutionId,
        at: Coordinates,
        planned: &PlannedCall,
        declaration: Declaration,
    ) -> Result<Self, Error> {
        let PlannedCall { tool, args, effect_key } = planned;
        if tool.is_empty() || tool.len() > limits::MAX_TOOL_CHARS || Operation::new(operation(tool)).is_err()
        {
            return Err(Error::invalid("tool: 1 to 123 letters, digits and . _ : / -"));
        }
        let effect_key = effect_key.as_ref().map(|key| Key::new(key.as_str())).transpose();
        let effect_key = effect_key.map_err(|error| Error::invalid(format!("effectKey: {error}")))?;
        let work = event::canonical_of(&serde_json::json!([tool, args]))?.into();
        let (execution, tool, args) = (execution.clone(), tool.clone(), args.clone());
        Ok(Step { execution, at, tool, args, work, declaration, effect_key })
    }

    /// The step of an intent that was written at this place.
    pub fn of_intent(execution: &ExecutionId, at: Coordinates, intent: &Intent) -> Result<Self, Error> {
        let Intent { tool, args, effect_key, declaration, .. } = intent.clone();
        Step::new(execution, at, &PlannedCall { tool, args, effect_key }, declaration)
    }

    /// Where it stands.
    pub fn at(&self) -> Coordinates {
        self.at
    }

    /// The idempotency key that the tool is handed.
    pub fn key(&self) -> String {
        tool_key(&self.execution, self.at)
    }

    /// SHA-256 of tool and arguments, as hexadecimal.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(&self.work))
    }

    /// Whether its claim has the key of its effect, which outlives the execution.
    pub fn has_effect_key(&self) -> bool {
        self.effect_key.is_some()
    }

    /// What its claim is known by.
    pub fn identity(&self, scope: &Scope) -> Result<Identity, Error> {
        let key = match &self.effect_key {
            Some(key) => key.clone(),
            None => Key::new(self.key())?,
        };
        let operation = Operation::new(operation(&self.tool))?;
        Ok(Identity::new(Source::Derived, scope.clone(), Width::Project, operation, key))
    }

    /// The call of `once` that makes it.
    pub fn call(&self, scope: &Scope) -> Result<Call, Error> {
        let call = Call::of(self.identity(scope)?)
            .fingerprint(self.fingerprint())
            .rerun(self.declaration.rerun())
            .max_run(limits::MAX_RUN)
            .retention(Retention::Forever);
        Ok(call.attach(Attach::Wait(limits::WAIT)).on_release(OnRelease::Retry(limits::TURNS)))
    }

    /// What its claim is compared by.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_bytes(&self.work)
    }

    /// What the tool is told.
    pub fn context(&self, attempt: Attempt) -> ToolContext {
        ToolContext {
            execution: self.execution.clone(),
            at: self.at,
            idempotency_key: self.key(),
            effect_key: self.effect_key.as_ref().map(|key| key.as_str().to_owned()),
            epoch: attempt.epoch,
        }
    }

    /// Its claim is about other work. Under the key of an effect that is the work of another step, perhaps of another execution.
    pub(crate) fn differs(&self, error: &hapax_exec::Error) -> Error {
        match self.has_effect_key() {
            true => Error::EffectKeyTaken { at: self.at, operation_id: error.operation_id() },
            false => Error::PlanDiverged { at: self.at },
        }
    }

    pub(crate) fn intended(&self) -> Intended {
        Intended {
            at: self.at,
            tool: self.tool.clone(),
            args: self.args.clone(),
            digest: self.digest(),
            key: self.key(),
            declaration: self.declaration,
            effect_key: self.effect_key.as_ref().map(|key| key.as_str().to_owned()),
        }
    }
}

/// The operation of a tool's claims.
pub(crate) fn operation(tool: &str) -> String {
    format!("step.{tool}")
}

impl StepResult {
    /// What a claim or an event keeps of it; `None` where it is too large.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        event::canonical(self).ok().filter(|bytes| bytes.len() <= limits::MAX_RESULT_BYTES)
    }
}

impl<S: Journal + Ledger> Run<S> {
    /// Makes a tool call happen once, and gives its result: from now, or from before.
    pub async fn step(&self, planned: Step, tool: &dyn Tool) -> Result<StepEnd, Error> {
        let step = match self.intended(planned).await? {
            (_, Some(result)) => return Ok(StepEnd::Done(result)),
            (step, None) => step,
        };
        loop {
            let call = step.call(self.executions().scope())?;
            let entered = Box::pin(self.executions().executor().enter(call, ())).await;
            return match entered {
                Ok(Entered::Done(done)) => self.settled(&step, &done).await,
                Ok(Entered::Held(held, ())) => Box::pin(self.carry_out(&step, held, tool)).await,
                Ok(Entered::Differs(error, ())) => Err(step.differs(&error)),
                Ok(Entered::Unkeyed(())) => {
                    Err(Error::Store(hapax_core::Error::internal("a step has a key")))
                }
                Err(error) if matches!(error.reason(), Reason::InProgress) => {
                    self.stands().await?;
                    continue;
                }
                Err(error) => ended(error),
            };
        }
    }

    /// The step with its intent in the journal, and its result where it has one.
    pub(crate) async fn intended(&self, planned: Step) -> Result<(Step, Option<StepResult>), Error> {
        let recorded = match self.recorded(planned.at)? {
            Some(recorded) => recorded,
            None if self.intend(planned.intended()).await? => return Ok((planned, None)),
            // Another request of the same runner was there first.
            None => self.recorded(planned.at)?.ok_or(Error::Fenced)?,
        };
        // What was written before the first call counts, whatever is said by now.
        let Recorded { intent, result } = recorded;
        let effect_key = intent.effect_key.map(Key::new).transpose()?;
        if intent.digest != planned.digest() || effect_key != planned.effect_key {
            return Err(Error::PlanDiverged { at: planned.at });
        }
        Ok((Step { declaration: intent.declaration, ..planned }, result))
    }

    /// Calls the tool under its claim.
    async fn carry_out(&self, step: &Step, held: Held<S>, tool: &dyn Tool) -> Result<StepEnd, Error> {
        let refused = Arc::new(Mutex::new(None));
        let (run, told) = (self.clone(), refused.clone());
        let look = move || {
            let (run, refused) = (run.clone(), told.clone());
            async move {
                let stands = run.stands().await;
                let is_ok = stands.is_ok();
                *refused.lock().unwrap_or_else(PoisonError::into_inner) = stands.err();
                is_ok
            }
        };
        // An earlier attempt is never asked about: a step may run again, or it may not.
        let begun = held.begin_if(|_| std::future::ready(Reconciled::Unknown), look).await;
        let running = match begun {
            Ok(Some(Begun::Running(running))) => running,
            Ok(Some(Begun::Done(done))) => return self.settled(step, &done).await,
            Ok(None) => {
                let refused = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
                return Err(refused.unwrap_or(Error::Fenced));
            }
            Err(error) => return ended(error),
        };
        let attempt = running.attempt();
        let ran = running.run(tool.call(step.context(attempt), &step.args)).await;
        fail::fail_point!("agent.worked");
        let concluded = self.concluded(step, attempt, ran)?;
        match running.conclude(concluded).await {
            Ok(done) => self.settled(step, &done).await,
            Err(error) => ended(error),
        }
    }

    /// What the ledger is to hear of a tool call, with the events that are written with it.
    pub fn concluded(
        &self,
        step: &Step,
        attempt: Attempt,
        ran: WorkResult<Result<Value, ToolError>>,
    ) -> Result<Concluded, Error> {
        let result = match ran {
            WorkResult::Ended(Ok(value)) => StepResult::Answered { value },
            WorkResult::Ended(Err(ToolError::Refused(error))) => StepResult::Refused { error: told(&error) },
            WorkResult::Ended(Err(ToolError::NotRun(cause))) => {
                return self.given_back(step, attempt, kind::RELEASED, &cause, Ended::NotRun);
            }
            WorkResult::NotBegun => {
                let cause = "the time of the call was over before it began";
                return self.given_back(step, attempt, kind::RELEASED, cause, Ended::NotRun);
            }
            WorkResult::Ended(Err(ToolError::Unknown(cause))) => {
                return self.unknown(step, attempt, &cause);
            }
            WorkResult::Panicked(message) => {
                return self.unknown(step, attempt, &format!("the tool panicked: {message}"));
            }
            WorkResult::GivenUp => {
                return self.unknown(step, attempt, "the call took too long and was given up");
            }
        };
        let claim = step.identity(self.executions().scope())?.claim_id();
        let Some(bytes) = result.bytes() else {
            return Ok(Ended::Settled(Outcome::NotKept { status: 0 }).into());
        };
        let bytes = self.executions().vault.close_outcome(&claim, bytes);
        let outcome = match result {
            StepResult::Answered { .. } => Outcome::Succeeded(bytes),
            StepResult::Refused { .. } => Outcome::Refused(bytes),
        };
        let event = self.result_of(step, &result)?;
        Ok(Ended::Settled(outcome).with(vec![event]))
    }

    fn unknown(&self, step: &Step, attempt: Attempt, cause: &str) -> Result<Concluded, Error> {
        let kind = match step.declaration {
            Declaration::Idempotent => kind::RELEASED,
            Declaration::NonIdempotent | Declaration::Unknown => kind::IN_DOUBT,
        };
        self.given_back(step, attempt, kind, cause, Ended::Unknown)
    }

    fn given_back(
        &self,
        step: &Step,
        attempt: Attempt,
        kind: &str,
        cause: &str,
        ended: fn(String) -> Ended,
    ) -> Result<Concluded, Error> {
        let because = Because { at: Some(step.at), ..Because::of(cause) };
        let event = self.executions().event(self.stream(), kind, &because)?;
        let mut write = Append::new(self.stream().clone(), Author::Step).with(vec![event]);
        // There may be several of them, but one for each grant.
        let epoch = attempt.epoch.map_or(0, |epoch| epoch.packed());
        write.id = key::event_id(&step.execution, step.at, &format!("{kind}:{epoch}"));
        Ok(ended(told(cause)).with(vec![write]))
    }

    fn result_of(&self, step: &Step, result: &StepResult) -> Result<Append, Error> {
        result_append(self.executions(), self.stream(), step, result)
    }

    /// The claim is settled: its result is in the journal, or comes there now.
    pub async fn settled(&self, step: &Step, done: &Done) -> Result<StepEnd, Error> {
        let (Outcome::Succeeded(bytes) | Outcome::Refused(bytes)) = &done.value else {
            return match done.value {
                Outcome::Erased => Err(Error::Erased),
                _ => Ok(StepEnd::Waits(Waits::NotKept)),
            };
        };
        let claim = step.identity(self.executions().scope())?.claim_id();
        let bytes = self.executions().vault.open_outcome(&claim, bytes)?;
        let result: StepResult = serde_json::from_slice(&bytes).map_err(|_| {
            Error::Store(hapax_core::Error::corrupt("what a step's claim keeps is not a result"))
        })?;
        if !done.events_written {
            send(self.store(), self.result_of(step, &result)?).await?;
        }
        fail::fail_point!("agent.resulted");
        self.note(step.at, result.clone());
        Ok(StepEnd::Done(result))
    }
}

/// The append of a step's result, which is written once, whoever brings it.
pub(crate) fn result_append<S: Journal + Ledger>(
    executions: &Executions<S>,
    stream: &Stream,
    step: &Step,
    result: &StepResult,
) -> Result<Append, Error> {
    let resulted =
        Resulted { at: step.at, tool: step.tool.clone(), digest: step.digest(), result: result.clone() };
    let event = executions.event(stream, kind::RESULT, &resulted)?;
    let write = Append::new(stream.clone(), Author::Step).with(vec![event]);
    Ok(Append { id: key::result_id(&step.execution, step.at), ..write })
}

/// A call that has no outcome to hand out.
pub(crate) fn ended(error: hapax_exec::Error) -> Result<StepEnd, Error> {
    let cause = || error.cause().unwrap_or_default().to_owned();
    match error.reason() {
        Reason::OutcomeUnknown { doubt } => Ok(StepEnd::Waits(Waits::InDoubt(*doubt))),
        Reason::AttemptFailed { .. } => Ok(StepEnd::Failed(cause())),
        Reason::NotKept { .. } => Ok(StepEnd::Waits(Waits::NotKept)),
        _ => Err(Error::Call(error)),
    }
}
