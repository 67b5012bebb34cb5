//! The executions of a tenant and project: made, read and listed. Another project's are not there.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::journal::{
    Append, Author, Birth, Chain, Checkpoint, Event, Hash, Head, NewEvent, Runner, Status, Stream,
    StreamFilter,
};
use hapax_core::{AppendId, AttemptId, Journal, Ledger, Project, RunnerId, Scope, SessionId};
use hapax_exec::{Executor, Seal};
use serde_json::Value;

use super::error::Error;
use super::event::{self, Created, kind};
use super::execution::{
    self, AgentId, Execution, ExecutionEvent, ExecutionId, Listing, PREFIX, Summary, raw,
};
use super::progress::Progress;
use super::run::Run;
use super::vault::Vault;
use crate::limits;

/// The executions of one tenant and project. Cheap to clone.
pub struct Executions<S: Ledger> {
    pub(crate) executor: Executor<S>,
    pub(crate) scope: Scope,
    pub(crate) vault: Vault,
}

/// What an execution is made with.
#[derive(Clone, Debug)]
pub struct Creation {
    /// Its id.
    pub id: ExecutionId,
    /// The agent that it belongs to.
    pub agent: AgentId,
    /// What it is made with: the state of its first iteration.
    pub input: Value,
    /// How its events are chained.
    pub chain: Chain,
    /// What its runner's right hangs on, where that is not this process's own session.
    pub lease: Option<SessionId>,
    /// What tells this attempt to make it from others: asked again with the same one, it is the same right to run it.
    pub attempt: Option<AttemptId>,
}

impl Creation {
    /// One that runs in this process.
    pub fn new(id: ExecutionId, agent: AgentId, input: Value) -> Self {
        Creation { id, agent, input, chain: Chain::default(), lease: None, attempt: None }
    }
}

impl<S: Journal + Ledger> Executions<S> {
    /// Those of the tenant and project of this scope; what is made belongs to its subject.
    pub fn new(executor: Executor<S>, scope: Scope) -> Self {
        Executions { executor, scope, vault: Vault::default() }
    }

    /// The same, with what is kept sealed (B9).
    #[must_use]
    pub fn sealed(mut self, seal: Option<Arc<Seal>>) -> Self {
        self.vault = Vault(seal);
        self
    }

    /// Those of another tenant and project, on the same store.
    #[must_use]
    pub fn of(&self, scope: Scope) -> Self {
        Executions { executor: self.executor.clone(), scope, vault: self.vault.clone() }
    }

    /// Whose they are.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What drives their steps.
    pub fn executor(&self) -> &Executor<S> {
        &self.executor
    }

    pub(crate) fn store(&self) -> &S {
        self.executor.ledger()
    }

    pub(crate) fn project(&self) -> Result<&Project, Error> {
        self.scope.project().ok_or_else(|| Error::invalid("an execution belongs to a project"))
    }

    /// The stream of an execution of this tenant and project.
    pub fn stream(&self, id: &ExecutionId) -> Result<Stream, Error> {
        execution::stream_of(self.scope.tenant(), self.project()?, id)
    }

    /// Makes an execution, with the right to run it.
    pub async fn create(&self, new: Creation) -> Result<Run<S>, Error> {
        let Creation { id, agent, input, chain, lease, attempt } = new;
        if chain == Chain::V1 && self.vault.0.is_some() {
            return Err(Error::invalid(
                "schemaVersion: 1 hashes what is kept, and payloads are sealed here; use 2, or no seal",
            ));
        }
        let stream = self.stream(&id)?;
        let mut runner = Runner::fresh(lease.unwrap_or_else(|| self.store().session().id));
        if let Some(attempt) = attempt {
            runner.id = RunnerId::from_bytes(*attempt.as_bytes());
        }
        let created = Created {
            execution_id: id.as_str().to_owned(),
            agent_id: agent.as_str().to_owned(),
            input: input.clone(),
        };
        let subject = self.scope.subject().map(|subject| subject.as_str().to_owned());
        // The subject of the whole is hashed with its first event.
        let first = NewEvent { subject: subject.clone(), ..self.event(&stream, kind::CREATED, &created)? };
        let agent = Some(agent.as_str().to_owned());
        let birth = Birth { chain, agent, subject, runner: Some(runner) };
        let mut write = Append::new(stream.clone(), Author::Creator(birth)).with(vec![first]);
        write.status = Some(Status::Running);
        if let Some(attempt) = attempt {
            write.id = AppendId::from_bytes(*attempt.as_bytes());
        }
        let head = super::run::send(self.store(), write).await?;
        if attempt.is_some() {
            self.is_what_was_made(&stream, &head, chain, &created).await?;
        }
        fail::fail_point!("agent.created");
        let progress = Progress::of(input);
        Ok(Run::new(self.clone(), id, stream, runner.id, &head, progress, None))
    }

    /// An attempt that was made before has made what is asked for now. What was erased since cannot be compared.
    async fn is_what_was_made(
        &self,
        stream: &Stream,
        head: &Head,
        chain: Chain,
        created: &Created,
    ) -> Result<(), Error> {
        let first = self.store().read(stream, 0, 1).await?.into_iter().next();
        let payload = first.map(|first| self.opened(stream, &first)).transpose()?.flatten();
        let said = event::canonical(created)?;
        match payload.is_none_or(|made| made == said) && head.chain == chain {
            true => Ok(()),
            false => Err(Error::NotApplicable("attempt: another execution was made with it".into())),
        }
    }

    /// An event of ours, as it is kept.
    pub(crate) fn event(
        &self,
        stream: &Stream,
        kind: &str,
        payload: &impl serde::Serialize,
    ) -> Result<NewEvent, Error> {
        Ok(NewEvent::new(kind, self.vault.close(stream, event::canonical(payload)?)))
    }

    pub(crate) async fn head(&self, id: &ExecutionId) -> Result<(Stream, Head), Error> {
        let stream = self.stream(id)?;
        let head = self.store().head(&stream).await?.ok_or(Error::NotFound)?;
        Ok((stream, head))
    }

    /// What is true of an execution.
    pub async fn status(&self, id: &ExecutionId) -> Result<Summary, Error> {
        let (_, head) = self.head(id).await?;
        Ok(Summary::of(id, &head))
    }

    /// A page of an execution's events, from a place on: at most `limit`, and fewer where they are large.
    pub async fn read(
        &self,
        id: &ExecutionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<ExecutionEvent>, Error> {
        let (stream, head) = self.head(id).await?;
        let events = self.store().read(&stream, from, limit.clamp(1, limits::READ_PAGE)).await?;
        let opened = |event: &Event| {
            let payload = self.opened(&stream, event)?;
            ExecutionEvent::of(event, payload.as_deref(), head.chain.version())
        };
        events.iter().map(opened).collect()
    }

    /// An execution with its checkpoint and a page of its events.
    pub async fn get(&self, id: &ExecutionId, from: u64, limit: usize) -> Result<Execution, Error> {
        let (stream, head) = self.head(id).await?;
        let checkpoint = self.checkpoint_bytes(&stream).await?.flatten();
        Ok(Execution {
            summary: Summary::of(id, &head),
            events: self.read(id, from, limit).await?,
            checkpoint: checkpoint.as_deref().map(raw).transpose()?,
        })
    }

    /// The latest checkpoint: `None` where there is none, `Some(None)` where it was erased.
    pub async fn checkpoint(&self, id: &ExecutionId) -> Result<Option<Option<Bytes>>, Error> {
        let (stream, _) = self.head(id).await?;
        self.checkpoint_bytes(&stream).await
    }

    pub(crate) async fn checkpoint_bytes(&self, stream: &Stream) -> Result<Option<Option<Bytes>>, Error> {
        let Some(checkpoint) = self.store().checkpoint(stream).await? else { return Ok(None) };
        let opened = checkpoint.bytes.map(|bytes| self.vault.open(stream, &bytes)).transpose()?;
        Ok(Some(opened))
    }

    /// The payload of an event as it was written; `None` where it was erased.
    pub(crate) fn opened(&self, stream: &Stream, event: &Event) -> Result<Option<Bytes>, Error> {
        Ok(event.payload.bytes().map(|bytes| self.vault.open(stream, bytes)).transpose()?)
    }

    /// Executions of this tenant and project in the order of their ids, after a page mark.
    pub async fn list(
        &self,
        status: Option<Status>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Listing>, Option<String>), Error> {
        let prefix = format!("{PREFIX}{}/{}/", self.scope.tenant().as_str(), self.project()?.as_str());
        list(self.store(), &prefix, status, after, limit).await
    }

    /// The right to run an execution that this runner has, for a holder that kept nothing but the runner's id. Only what the latest
    /// checkpoint does not cover is read.
    pub async fn run(&self, id: &ExecutionId, runner: hapax_core::RunnerId) -> Result<Run<S>, Error> {
        let is_fenced = |head: &Head| head.runner.is_none_or(|present| present.id != runner);
        if is_fenced(&self.head(id).await?.1) {
            return Err(Error::Fenced);
        }
        let Looked { stream, head, progress, state } = self.looked(id).await?;
        match is_fenced(&head) {
            true => Err(Error::Fenced),
            false => Ok(Run::new(self.clone(), id.clone(), stream, runner, &head, progress, state)),
        }
    }

    /// Where an execution is, read from its latest checkpoint on; and the state of its present iteration, where it was checkpointed.
    pub async fn progress(&self, id: &ExecutionId) -> Result<(Progress, Option<Value>), Error> {
        let Looked { progress, state, .. } = self.looked(id).await?;
        Ok((progress, state))
    }

    /// The same, with the head that goes with it.
    pub(crate) async fn looked(&self, id: &ExecutionId) -> Result<Looked, Error> {
        for _ in 0..limits::APPEND_TRIES {
            let (stream, head) = self.head(id).await?;
            let mut progress = Progress::default();
            progress.status = head.status;
            let mut reading = Reading::new(self, &stream, head.chain);
            if let Some(seq) = head.checkpoint {
                let event = self.store().read(&stream, seq, 1).await?.into_iter().next();
                let payload = event.map(|event| self.opened(&stream, &event)).transpose()?.flatten();
                if let Some(payload) = payload
                    && let Ok(completed) = serde_json::from_slice::<event::Completed>(&payload)
                {
                    progress.iteration = completed.iteration.saturating_add(1);
                    (reading.next, reading.checkpoint) = (seq + 1, Some(seq));
                }
            }
            reading.fold(&mut progress).await?;
            let checkpoint = self.store().checkpoint(&stream).await?;
            let consistent = reading.ends_with(&head, checkpoint.as_ref());
            if reading.next == head.length && consistent.is_ok() {
                let state = match checkpoint.map(|checkpoint| checkpoint.bytes) {
                    Some(Some(bytes)) => Some(state_of(&self.vault.open(&stream, &bytes)?)?),
                    Some(None) => return Err(Error::Erased),
                    None => None,
                };
                return Ok(Looked { stream, head, progress, state });
            }
            // Unless it was written to meanwhile.
            if self.head(id).await?.1.version == head.version {
                consistent?;
            }
        }
        Err(Error::Store(hapax_core::Error::unavailable(
            "the execution is written to all the time: try again",
        )))
    }
}

/// An execution as it was at one version.
pub(crate) struct Looked {
    pub(crate) stream: Stream,
    pub(crate) head: Head,
    pub(crate) progress: Progress,
    /// The state of its present iteration, where it was checkpointed.
    pub(crate) state: Option<Value>,
}

/// The state that a checkpoint has.
pub(crate) fn state_of(bytes: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(bytes)
        .map_err(|_| Error::Store(hapax_core::Error::corrupt("the checkpoint of an execution is not JSON")))
}

/// Streams whose names begin like this, as executions.
pub(crate) async fn list<S: Journal>(
    store: &S,
    prefix: &str,
    status: Option<Status>,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<Listing>, Option<String>), Error> {
    let filter = StreamFilter { prefix: prefix.to_owned(), status };
    let page = store.list_streams(&filter, after, limit).await?;
    let listed = page.items.into_iter().filter_map(|listed| {
        let (tenant, project, id) = execution::parts_of(&listed.stream)?;
        let summary = Summary::of(&id, &listed.head);
        Some(Listing { tenant, project, id, summary, lives: listed.lives })
    });
    Ok((listed.collect(), page.next))
}

/// Reads a stream page by page and adds up what it says.
pub(crate) struct Reading<'a, S: Ledger> {
    executions: &'a Executions<S>,
    stream: &'a Stream,
    chain: Chain,
    /// The place of the next event.
    pub(crate) next: u64,
    /// The hash of the last one.
    pub(crate) last: Option<Hash>,
    /// The place of the last one that a checkpoint was written with.
    pub(crate) checkpoint: Option<u64>,
}

impl<'a, S: Journal + Ledger> Reading<'a, S> {
    /// From the first event on.
    pub(crate) fn new(executions: &'a Executions<S>, stream: &'a Stream, chain: Chain) -> Self {
        Reading { executions, stream, chain, next: 0, last: None, checkpoint: None }
    }

    /// Up to the present end. The store checks that each event follows the one before it.
    pub(crate) async fn fold(&mut self, progress: &mut Progress) -> Result<(), Error> {
        loop {
            let events = self.executions.store().read(self.stream, self.next, limits::READ_PAGE).await?;
            if events.is_empty() {
                return Ok(());
            }
            for event in &events {
                let payload = self.executions.opened(self.stream, event)?;
                progress.fold(&event.kind, payload.as_deref())?;
                (self.next, self.last) = (event.seq + 1, Some(event.hash));
                if event::has_checkpoint(self.chain, event) {
                    self.checkpoint = Some(event.seq);
                }
            }
        }
    }

    /// The head names the checkpoint that the events have, and that one is kept.
    pub(crate) fn ends_with(&self, head: &Head, kept: Option<&Checkpoint>) -> Result<(), Error> {
        Ok(super::verify::checkpoint_is(self.stream, self.checkpoint, head.checkpoint, kept)?)
    }

    /// The chain ends as the head says, which was read after the last event.
    pub(crate) fn finish(&self, head: &Head) -> Result<(), Error> {
        if self.next > head.length {
            let what = "the head does not know of the event";
            return Err(hapax_core::Error::broken_chain(self.stream.as_str(), head.length, what).into());
        }
        Ok(super::verify::ends(self.stream, head, self.next, self.last)?)
    }
}

impl<S: Ledger> Clone for Executions<S> {
    fn clone(&self) -> Self {
        Executions { executor: self.executor.clone(), scope: self.scope.clone(), vault: self.vault.clone() }
    }
}

impl<S: Ledger> std::fmt::Debug for Executions<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executions").field("scope", &self.scope).finish_non_exhaustive()
    }
}
