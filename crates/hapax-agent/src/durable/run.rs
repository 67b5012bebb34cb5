//! One life of an execution under one runner: the only writer of its plans, intents, checkpoints and statuses (J2).
//!
//! Its version moves under it, because results are written whoever the runner is; so an append that finds another version is sent again
//! with that, after what came meanwhile was read: a caller that has not heard an answer may ask for the same thing twice at once. Where
//! another runner has the execution, every append is refused, whatever the version.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax_core::journal::{Append, Author, Head, NewEvent, Status, Stream};
use hapax_core::{AppendId, Journal, Kind, Ledger, Particular, RunnerId};
use serde::Serialize;
use serde_json::Value;

use super::driver::Plan;
use super::error::Error;
use super::event::{self, Because, Completed, Planned, kind};
use super::execution::{ExecutionId, runner_text};
use super::key::{self, Coordinates};
use super::progress::{Progress, Recorded};
use super::stream::{Executions, state_of};
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

/// What this runner knows of the execution. It alone moves that on, with results of steps and with other requests of its own.
struct Known {
    progress: Progress,
    /// The place of the first event that is not known.
    next: u64,
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
        let known = Mutex::new(Known { progress, next: head.length, state });
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
        Ok(self.append_own(None, event_type, payload, version).await?.version)
    }

    /// The same under an id that the caller has for it: sent again, it is appended once. An id that another event has is refused.
    pub async fn append_as(
        &self,
        id: AppendId,
        event_type: &str,
        payload: &Value,
        version: Option<u64>,
    ) -> Result<u64, Error> {
        let head = self.append_own(Some(id), event_type, payload, version).await?;
        // An id that was used before answers with the head that it made then, whatever is said now.
        let last = head.length.saturating_sub(1);
        let written = self.store().read(self.stream(), last, 1).await?.into_iter().next();
        let Some(written) = written else { return Ok(head.version) };
        let kept = self.0.executions.opened(self.stream(), &written)?;
        let same = kept.is_none_or(|kept| event::canonical(payload).is_ok_and(|said| kept == said));
        match same && written.kind == event_type {
            true => Ok(head.version),
            false => Err(Error::NotApplicable("attempt: another event was appended with it".into())),
        }
    }

    async fn append_own(
        &self,
        id: Option<AppendId>,
        event_type: &str,
        payload: &Value,
        version: Option<u64>,
    ) -> Result<Head, Error> {
        if kind::ALL.contains(&event_type) {
            return Err(Error::invalid("eventType: this type is written by hapax itself"));
        }
        let event = self.0.executions.event(self.stream(), event_type, payload)?;
        let writing = Writing { id, expected: version, ..Writing::of(event) };
        self.write(writing, |_| Ok(true)).await?.ok_or(Error::Fenced)
    }

    /// Records what the present iteration is going to do, before anything of it is done. What is recorded already stays: it is
    /// answered instead.
    pub async fn record_plan(&self, plan: Plan) -> Result<Plan, Error> {
        let iteration = self.iteration();
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
            super::step::Step::new(self.id(), Coordinates { iteration, call }, planned, Default::default())?;
        }
        let planned = Planned { iteration, parallel: *parallel, calls: calls.clone() };
        let event = self.0.executions.event(self.stream(), kind::PLAN, &planned)?;
        let is_wanted = |progress: &Progress| {
            progress.check(iteration)?;
            Ok(progress.plan()?.is_none())
        };
        if self.write(Writing::of(event), is_wanted).await?.is_some() {
            self.known().progress.plan = Some(plan);
            fail::fail_point!("agent.planned");
        }
        self.plan()?.ok_or(Error::Fenced)
    }

    /// Records that a step is about to be made; `false` where that is recorded already.
    pub(crate) async fn intend(&self, intended: event::Intended) -> Result<bool, Error> {
        let at = intended.at;
        let event = self.0.executions.event(self.stream(), kind::INTENT, &intended)?;
        let is_wanted = |progress: &Progress| Ok(progress.step(at)?.is_none());
        if self.write(Writing::of(event), is_wanted).await?.is_none() {
            return Ok(false);
        }
        self.known().progress.intended(intended);
        fail::fail_point!("agent.intended");
        Ok(true)
    }

    /// A result that is in the journal by now.
    pub(crate) fn note(&self, at: Coordinates, result: super::step::StepResult) {
        self.known().progress.result(at, result);
    }

    /// The present iteration is complete: its checkpoint is the state that the next one starts from.
    pub async fn complete_iteration(&self, iteration: u64, state: &Value) -> Result<(), Error> {
        let is_wanted = |progress: &Progress| {
            progress.check(iteration)?;
            progress.check_no_step_is_open().map(|()| true)
        };
        is_wanted(&self.known().progress)?;
        let bytes = event::canonical_of(state)?;
        if bytes.len() > limits::MAX_STATE_BYTES {
            return Err(Error::invalid("checkpoint: it has at most 4 MiB as canonical JSON"));
        }
        let event =
            self.0.executions.event(self.stream(), kind::ITERATION_COMPLETE, &Completed { iteration })?;
        fail::fail_point!("agent.completing");
        let writing = Writing { checkpoint: Some(bytes), ..Writing::of(event) };
        self.write(writing, is_wanted).await?;
        let mut known = self.known();
        if known.progress.iteration == iteration {
            known.progress.fold(kind::ITERATION_COMPLETE, None)?;
            known.state = Some(state.clone());
        }
        drop(known);
        fail::fail_point!("agent.checkpointed");
        Ok(())
    }

    /// It waits until it is resumed. The version that this has made.
    pub async fn pause(&self, reason: &str) -> Result<u64, Error> {
        self.stop(kind::PAUSED, &Because::of(reason), Status::Paused).await
    }

    /// It has come to its end. Refused while a step has no result. The version that this has made.
    pub async fn complete(&self, output: &Value) -> Result<u64, Error> {
        fail::fail_point!("agent.ending");
        self.stop(kind::COMPLETED, &serde_json::json!({ "output": output }), Status::Completed).await
    }

    /// It has failed. Cancelled executions have the reason `cancelled`. The version that this has made.
    pub async fn fail(&self, reason: &str) -> Result<u64, Error> {
        self.stop(kind::FAILED, &Because::of(reason), Status::Failed).await
    }

    /// The same stop of the same runner is written once, however often it is asked for.
    async fn stop(&self, kind: &str, payload: &impl Serialize, status: Status) -> Result<u64, Error> {
        let head = self.write_status(kind, payload, status).await?;
        Ok(head.version)
    }

    /// Sets the status, once for the same payload.
    pub(crate) async fn write_status(
        &self,
        kind: &str,
        payload: &impl Serialize,
        status: Status,
    ) -> Result<Head, Error> {
        let event = self.0.executions.event(self.stream(), kind, payload)?;
        let id = key::written_once(self.0.runner, kind, &event::canonical(payload)?);
        let writing = Writing { id: Some(id), status: Some(status), ..Writing::of(event) };
        let is_wanted = |progress: &Progress| match status {
            Status::Completed => progress.check_no_step_is_open().map(|()| true),
            _ => Ok(true),
        };
        self.write(writing, is_wanted).await?.ok_or(Error::Fenced)
    }

    /// One append of this runner's, for as long as it is wanted: whenever the execution was written to meanwhile, by another request of
    /// this runner or with the result of a step, what came is read and asked about first. `None` where it is not wanted any more.
    async fn write(
        &self,
        writing: Writing,
        is_wanted: impl Fn(&Progress) -> Result<bool, Error>,
    ) -> Result<Option<Head>, Error> {
        let Writing { id, event, status, checkpoint, expected } = writing;
        let mut version = self.0.version.lock().await;
        let author = |version| Author::Runner { id: self.0.runner, version };
        let mut write = Append::new(self.stream().clone(), author(*version)).with(vec![event]);
        write.id = id.unwrap_or_else(|| growing(write.id, *version));
        write.status = status;
        write.checkpoint = checkpoint.map(|bytes| self.0.executions.vault.close(self.stream(), bytes));
        for _ in 0..limits::APPEND_TRIES {
            let runs = {
                let known = self.known();
                if !is_wanted(&known.progress)? {
                    return Ok(None);
                }
                matches!(known.progress.status, Some(Status::Running | Status::Recovering))
            };
            // No stream has version 0: where the execution is paused, only what was written before is answered.
            write.author = author(if runs { expected.unwrap_or(*version) } else { 0 });
            match send(self.store(), write.clone()).await {
                Ok(head) => {
                    self.wrote(&mut version, &head, status);
                    return Ok(Some(head));
                }
                Err(Error::VersionConflict { .. }) if !runs => {
                    return Err(Error::NotApplicable("the execution is not running: resume it".into()));
                }
                Err(Error::VersionConflict { found, .. }) if expected.is_none() => {
                    self.catch_up().await?;
                    *version = found;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Store(hapax_core::Error::unavailable("too many results come at once: try again")))
    }

    /// Takes an append into account that came right after all that is known. Any other is caught up with before the next one.
    fn wrote(&self, version: &mut u64, head: &Head, status: Option<Status>) {
        let mut known = self.known();
        if head.version == *version + 1 && head.length == known.next + 1 {
            (*version, known.next) = (head.version, head.length);
            known.progress.status = status.or(known.progress.status);
        }
    }

    /// Reads what was appended since.
    async fn catch_up(&self) -> Result<(), Error> {
        let (mut next, iteration) = {
            let known = self.known();
            (known.next, known.progress.iteration)
        };
        loop {
            let events = self.store().read(self.stream(), next, limits::READ_PAGE).await?;
            if events.is_empty() {
                break;
            }
            let mut known = self.known();
            for event in &events {
                let payload = self.0.executions.opened(self.stream(), event)?;
                known.progress.fold(&event.kind, payload.as_deref())?;
                next = event.seq + 1;
            }
            known.next = next;
        }
        if self.iteration() != iteration {
            let state = match self.0.executions.checkpoint_bytes(self.stream()).await? {
                Some(Some(bytes)) => Some(state_of(&bytes)?),
                Some(None) => return Err(Error::Erased),
                None => None,
            };
            self.known().state = state;
        }
        Ok(())
    }
}

/// One append of a runner.
struct Writing {
    /// What tells it from others; without one, it is another each time.
    id: Option<AppendId>,
    event: NewEvent,
    status: Option<Status>,
    checkpoint: Option<Vec<u8>>,
    /// The version that the execution must have; without one, whatever it has.
    expected: Option<u64>,
}

impl Writing {
    fn of(event: NewEvent) -> Self {
        Writing { id: None, event, status: None, checkpoint: None, expected: None }
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
