//! One life of an execution under one runner: the only writer of its plans, intents, checkpoints and statuses (J2).
//!
//! Its version moves under it, because results are written whoever the runner is; so an append that finds another version is sent again
//! with that. Where another runner has the execution, every append is refused, whatever the version.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax_core::journal::{Append, Author, Head, NewEvent, Status, Stream};
use hapax_core::{AppendId, Journal, Kind, Ledger, Particular, RunnerId};
use serde::Serialize;
use serde_json::Value;

use super::driver::Plan;
use super::error::Error;
use super::event::{self, Because, Completed, Planned, kind, told};
use super::execution::{ExecutionId, runner_text};
use super::key::Coordinates;
use super::progress::{Progress, Recorded};
use super::stream::Executions;
use crate::limits;

/// The right to run an execution. Cheap to clone; the clones are one runner.
pub struct Run<S: Ledger>(Arc<Inner<S>>);

struct Inner<S: Ledger> {
    executions: Executions<S>,
    id: ExecutionId,
    stream: Stream,
    runner: RunnerId,
    /// Held while an append is under way: a runner writes one thing at a time.
    version: tokio::sync::Mutex<u64>,
    known: Mutex<Known>,
}

/// What this runner knows of the execution, which it alone moves on.
struct Known {
    progress: Progress,
    /// The state of the present iteration, from its checkpoint.
    state: Option<Value>,
}

impl<S: Journal + Ledger> Run<S> {
    pub(crate) fn new(
        executions: Executions<S>,
        id: ExecutionId,
        stream: Stream,
        runner: RunnerId,
        head: &Head,
        progress: Progress,
        state: Option<Value>,
    ) -> Self {
        let version = tokio::sync::Mutex::new(head.version);
        let known = Mutex::new(Known { progress, state });
        Run(Arc::new(Inner { executions, id, stream, runner, version, known }))
    }

    /// The execution.
    pub fn id(&self) -> &ExecutionId {
        &self.0.id
    }

    /// The runner, as a holder elsewhere keeps it.
    pub fn runner(&self) -> String {
        runner_text(self.0.runner)
    }

    /// The executions that it is one of.
    pub fn executions(&self) -> &Executions<S> {
        &self.0.executions
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.0.stream
    }

    pub(crate) fn store(&self) -> &S {
        self.0.executions.store()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the present iteration.
    pub fn iteration(&self) -> u64 {
        self.known().progress.iteration
    }

    /// What the present iteration starts from: the latest checkpoint, or what the execution was made with.
    pub fn state(&self) -> Result<Value, Error> {
        let known = self.known();
        match &known.state {
            Some(state) => Ok(state.clone()),
            None => known.progress.input(),
        }
    }

    /// The recorded plan of the present iteration.
    pub fn plan(&self) -> Result<Option<Plan>, Error> {
        self.known().progress.plan().map(|plan| plan.cloned())
    }

    /// What is recorded of a step of the present iteration.
    pub fn recorded(&self, at: Coordinates) -> Result<Option<Recorded>, Error> {
        self.known().progress.step(at).map(|step| step.cloned())
    }

    /// What is recorded of the steps of the present iteration, in the order of their places.
    pub fn steps(&self) -> Vec<(Coordinates, Recorded)> {
        self.known().progress.steps().map(|(at, step)| (at, step.clone())).collect()
    }

    /// The version that this runner has seen last.
    pub async fn version(&self) -> u64 {
        *self.0.version.lock().await
    }

    /// Whether the execution is running, and this is its runner: asked just before a tool is called.
    pub async fn stands(&self) -> Result<(), Error> {
        let head = self.store().head(self.stream()).await?.ok_or(Error::NotFound)?;
        match head.status {
            _ if head.runner.is_none_or(|runner| runner.id != self.0.runner) => Err(Error::Fenced),
            Some(Status::Running) => Ok(()),
            Some(status) if status.is_terminal() => Err(Error::Ended),
            _ => Err(Error::NotApplicable("the execution is not running: resume it".into())),
        }
    }

    /// Appends an event of the caller's own type. With a version, only where the execution has that.
    pub async fn append(
        &self,
        event_type: &str,
        payload: &Value,
        version: Option<u64>,
    ) -> Result<u64, Error> {
        if kind::ALL.contains(&event_type) {
            return Err(Error::invalid("eventType: this type is written by hapax itself"));
        }
        let event = self.0.executions.event(self.stream(), event_type, payload)?;
        Ok(self.write(None, vec![event], None, None, version).await?.version)
    }

    /// The same under an id that the caller has for it: sent again, it is appended once.
    pub async fn append_as(
        &self,
        id: AppendId,
        event_type: &str,
        payload: &Value,
        version: Option<u64>,
    ) -> Result<u64, Error> {
        if kind::ALL.contains(&event_type) {
            return Err(Error::invalid("eventType: this type is written by hapax itself"));
        }
        let event = self.0.executions.event(self.stream(), event_type, payload)?;
        Ok(self.write(Some(id), vec![event], None, None, version).await?.version)
    }

    /// Records what the present iteration is going to do, before anything of it is done. What is recorded already stays: it is
    /// answered instead.
    pub async fn record_plan(&self, plan: Plan) -> Result<Plan, Error> {
        if let Some(recorded) = self.plan()? {
            return Ok(recorded);
        }
        let Plan::Act { calls, parallel } = &plan else {
            return Err(Error::invalid("a plan that ends the execution is not recorded: complete it"));
        };
        if calls.len() > limits::MAX_CALLS {
            return Err(Error::invalid("calls: a plan has at most 256 tool calls"));
        }
        for (call, planned) in (0..).zip(calls) {
            let at = Coordinates { iteration: self.iteration(), call };
            super::step::Step::new(self.id(), at, planned, Default::default())?;
        }
        let planned = Planned { iteration: self.iteration(), parallel: *parallel, calls: calls.clone() };
        self.write_one(kind::PLAN, &planned, None).await?;
        self.known().progress.plan = Some(plan.clone());
        fail::fail_point!("agent.planned");
        Ok(plan)
    }

    pub(crate) async fn intend(&self, intended: event::Intended) -> Result<(), Error> {
        self.write_one(kind::INTENT, &intended, None).await?;
        self.known().progress.intended(intended);
        fail::fail_point!("agent.intended");
        Ok(())
    }

    /// A result that is in the journal by now.
    pub(crate) fn note(&self, at: Coordinates, result: super::step::StepResult) {
        self.known().progress.result(at, result);
    }

    /// The present iteration is complete: its checkpoint is the state that the next one starts from.
    pub async fn complete_iteration(&self, iteration: u64, state: &Value) -> Result<(), Error> {
        {
            let known = self.known();
            known.progress.check(iteration)?;
            if let Some((at, _)) = known.progress.open_steps().next() {
                let what =
                    format!("the step at {at} was begun and has no result: its iteration is not complete");
                return Err(Error::NotApplicable(what));
            }
        }
        let bytes = event::canonical_of(state)?;
        if bytes.len() > limits::MAX_STATE_BYTES {
            return Err(Error::invalid("checkpoint: it has at most 4 MiB as canonical JSON"));
        }
        let event =
            self.0.executions.event(self.stream(), kind::ITERATION_COMPLETE, &Completed { iteration })?;
        fail::fail_point!("agent.completing");
        self.write(None, vec![event], None, Some(bytes), None).await?;
        let mut known = self.known();
        known.progress.fold(kind::ITERATION_COMPLETE, None)?;
        known.state = Some(state.clone());
        drop(known);
        fail::fail_point!("agent.checkpointed");
        Ok(())
    }

    /// It waits until somebody resumes it.
    pub async fn pause(&self, reason: &str) -> Result<(), Error> {
        self.end(kind::PAUSED, &Because { at: None, reason: told(reason) }, Status::Paused).await
    }

    /// It has come to its end.
    pub async fn complete(&self, output: &Value) -> Result<(), Error> {
        fail::fail_point!("agent.ending");
        self.end(kind::COMPLETED, &serde_json::json!({ "output": output }), Status::Completed).await
    }

    /// It has failed. Cancelled executions have the reason `cancelled`.
    pub async fn fail(&self, reason: &str) -> Result<(), Error> {
        self.end(kind::FAILED, &Because { at: None, reason: told(reason) }, Status::Failed).await
    }

    async fn end(&self, kind: &str, payload: &impl Serialize, status: Status) -> Result<(), Error> {
        self.write_one(kind, payload, Some(status)).await.map(|_| ())
    }

    pub(crate) async fn write_one(
        &self,
        kind: &str,
        payload: &impl Serialize,
        status: Option<Status>,
    ) -> Result<Head, Error> {
        let event = self.0.executions.event(self.stream(), kind, payload)?;
        self.write(None, vec![event], status, None, None).await
    }

    /// One append of this runner's. Without a version that it must have, the version is whatever it is by now.
    async fn write(
        &self,
        id: Option<AppendId>,
        events: Vec<NewEvent>,
        status: Option<Status>,
        checkpoint: Option<Vec<u8>>,
        expected: Option<u64>,
    ) -> Result<Head, Error> {
        let mut known = self.0.version.lock().await;
        let author = Author::Runner { id: self.0.runner, version: expected.unwrap_or(*known) };
        let mut write = Append::new(self.stream().clone(), author).with(events);
        write.id = id.unwrap_or_else(|| growing(write.id, *known));
        write.status = status;
        write.checkpoint = checkpoint.map(|bytes| self.0.executions.vault.close(self.stream(), bytes));
        for _ in 0..limits::APPEND_TRIES {
            let error = match send(self.store(), write.clone()).await {
                Ok(head) => {
                    *known = (*known).max(head.version);
                    return Ok(head);
                }
                Err(error) => error,
            };
            match error {
                Error::VersionConflict { found, .. } if expected.is_none() => {
                    write.author = Author::Runner { id: self.0.runner, version: found };
                }
                other => return Err(other),
            }
        }
        Err(Error::Store(hapax_core::Error::unavailable("too many results come at once: try again")))
    }
}

/// Ids of one stream that grow with time are cheaper to keep than scattered ones.
fn growing(id: AppendId, version: u64) -> AppendId {
    let mut bytes = *id.as_bytes();
    bytes[..8].copy_from_slice(&version.to_be_bytes());
    AppendId::from_bytes(bytes)
}

/// Sends an append, and sends it again where nobody knows whether it arrived.
pub(crate) async fn send<S: Journal>(store: &S, write: Append) -> Result<Head, Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match store.append(write.clone()).await {
            Ok(head) => return Ok(head),
            Err(error) if error.kind() == Kind::Unavailable && tries < limits::APPEND_AWAY_TRIES => {}
            Err(error) => {
                let creates = matches!(write.author, Author::Creator(_));
                return Err(match (error.particular(), Error::from(error.clone())) {
                    // Only who makes a stream expects that it is not there.
                    (Some(Particular::VersionConflict { expected: 0, found }), _) if !creates => {
                        Error::VersionConflict { expected: 0, found: *found }
                    }
                    (_, error) => error,
                });
            }
        }
    }
}

impl<S: Ledger> Clone for Run<S> {
    fn clone(&self) -> Self {
        Run(self.0.clone())
    }
}

impl<S: Ledger> std::fmt::Debug for Run<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("id", &self.0.id).field("runner", &self.0.runner).finish_non_exhaustive()
    }
}
