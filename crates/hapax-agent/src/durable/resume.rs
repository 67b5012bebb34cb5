//! Going on with what another runner has left (J2, J4).
//!
//! The chain is checked from its beginning to its end before anything is written: an execution that was tampered with stays as it was
//! found. The new runner is let in only at the version that was checked, so that nothing comes in between.

use hapax_core::journal::{Append, Author, Head, Runner, Status, Stream, StreamFilter};
use hapax_core::{AttemptId, Journal, Ledger, SessionId};

use super::error::Error;
use super::event::{Because, kind};
use super::execution::{ExecutionId, Listing, PREFIX};
use super::key;
use super::progress::Progress;
use super::run::{Run, send};
use super::stream::{self, Executions, Reading, state_of};
use super::verify;
use crate::limits;

/// How an execution is resumed.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// Also while the lease of its runner lasts: an operator has decided so.
    pub force: bool,
    /// What the new runner's right hangs on, where that is not this process's own session.
    pub lease: Option<SessionId>,
    /// What tells this attempt to resume it from others: asked again with the same one, it is the same right to run it.
    pub attempt: Option<AttemptId>,
}

impl<S: Journal + Ledger> Executions<S> {
    /// Takes an execution whose runner's lease has lapsed, or that is paused. Of several at once one gets it; the others are
    /// [`Error::Fenced`].
    pub async fn resume(&self, id: &ExecutionId, how: Resume) -> Result<Run<S>, Error> {
        let (stream, first) = self.head(id).await?;
        let mut runner = Runner::fresh(how.lease.unwrap_or_else(|| self.store().session().id));
        if let Some(attempt) = how.attempt {
            runner.id = key::runner_of(attempt);
        }
        let is_ours = |head: &Head| head.runner.is_some_and(|present| present.id == runner.id);
        if !is_ours(&first) {
            self.may_be_taken(&stream, &first, &how).await?;
        }
        let mut progress = Progress::default();
        let mut reading = Reading::new(self, &stream, first.chain);
        for _ in 0..limits::APPEND_TRIES {
            reading.fold(&mut progress).await?;
            let mut head = self.store().head(&stream).await?.ok_or(Error::NotFound)?;
            if reading.next < head.length {
                continue;
            }
            reading.finish(&head)?;
            // The checkpoint is checked against its event, before anybody is let in.
            let checkpoint = self.store().checkpoint(&stream).await?;
            let sound = reading.ends_with(&head, checkpoint.as_ref());
            let sound = sound.and_then(|()| Ok(verify::status_is(&stream, progress.status, &head)?));
            let begins = self.store().read(&stream, 0, 1).await?;
            let sound = sound.and_then(|()| {
                Ok(begins.iter().try_for_each(|event| verify::first_is(&stream, &head, event))?)
            });
            if let Err(error) = sound {
                match self.store().head(&stream).await? {
                    Some(present) if present.version == head.version => return Err(error),
                    _ => continue,
                }
            }
            if head.status.is_some_and(Status::is_terminal) {
                return Err(Error::Ended);
            }
            let state = match checkpoint.map(|checkpoint| checkpoint.bytes) {
                None => Ok(None),
                Some(None) => Err(Error::Erased),
                Some(Some(bytes)) => state_of(&self.vault.open(&stream, &bytes)?).map(Some),
            };
            match is_ours(&head) {
                true if head.status == Some(Status::Paused) => {
                    let what =
                        "attempt: the execution was resumed with it and is paused since: use another one";
                    return Err(Error::NotApplicable(what.into()));
                }
                true => {}
                false => match self.recovering(&stream, &head, runner, &how).await {
                    Ok(taken) => head = taken,
                    Err(Error::VersionConflict { .. }) => continue,
                    Err(error) => return Err(error),
                },
            }
            fail::fail_point!("agent.recovering");
            reading.fold(&mut progress).await?;
            // What has come since is caught up with before anything is written.
            return self.go_on(id, runner, head, progress, state).await;
        }
        Err(Error::Store(hapax_core::Error::unavailable(
            "the execution is written to all the time: try again",
        )))
    }

    /// Lets the new runner in, at the version that was checked.
    async fn recovering(
        &self,
        stream: &Stream,
        head: &Head,
        runner: Runner,
        how: &Resume,
    ) -> Result<Head, Error> {
        // Who paused it has stopped, or was not its runner any more from then on.
        let force = how.force || head.status == Some(Status::Paused);
        let author = Author::Successor { runner, version: head.version, force };
        let because = Because::of(if how.force { "forced" } else { "resumed" });
        let recovering = self.event(stream, kind::RECOVERING, &because)?;
        let mut write = Append::new(stream.clone(), author).with(vec![recovering]);
        write.id = key::written_once(runner.id, kind::RECOVERING, b"");
        write.status = Some(Status::Recovering);
        let taken = send(self.store(), write).await?;
        // This attempt had it before, and another runner has taken it since.
        match taken.version > head.version {
            true => Ok(taken),
            false => Err(Error::Fenced),
        }
    }

    /// The new runner is in: the execution runs again, unless what it needs was erased.
    async fn go_on(
        &self,
        id: &ExecutionId,
        runner: Runner,
        head: Head,
        progress: Progress,
        state: Result<Option<serde_json::Value>, Error>,
    ) -> Result<Run<S>, Error> {
        let stream = self.stream(id)?;
        let (state, lost) = match state {
            Ok(state) => (state, None),
            Err(error) => (None, Some(error)),
        };
        let run = Run::new(self.clone(), id.clone(), stream, runner.id, &head, progress, state);
        let lost = lost.or_else(|| run.plan().err()).or_else(|| run.state().err());
        if let Some(error) = lost {
            if matches!(error, Error::Erased) {
                run.fail("erased").await?;
            }
            return Err(error);
        }
        if head.status != Some(Status::Running) {
            run.write_status(kind::RESUMED, &Because::of("recovered"), Status::Running).await?;
        }
        fail::fail_point!("agent.resumed");
        Ok(run)
    }

    /// Says at once that somebody else runs it, before all of it is read.
    async fn may_be_taken(&self, stream: &Stream, head: &Head, how: &Resume) -> Result<(), Error> {
        // One that has ended is told as ended, also while the lease of its last runner lasts.
        if how.force || head.status.is_some_and(|status| status == Status::Paused || status.is_terminal()) {
            return Ok(());
        }
        let filter = StreamFilter { prefix: stream.as_str().to_owned(), status: None };
        let found = self.store().list_streams(&filter, None, 1).await?;
        match found.items.first() {
            Some(listed) if listed.stream == *stream && listed.lives => Err(Error::Fenced),
            _ => Ok(()),
        }
    }

    /// Ends an execution, whoever runs it: its runner is fenced off, and what it is doing may still come to an end.
    pub async fn cancel(&self, id: &ExecutionId, reason: &str) -> Result<(), Error> {
        self.take(id, kind::FAILED, &Because::cancelled(reason), Status::Failed).await
    }

    /// Pauses an execution, whoever runs it: its runner is fenced off, and what it is doing may still come to an end.
    pub async fn pause(&self, id: &ExecutionId, reason: &str) -> Result<(), Error> {
        self.take(id, kind::PAUSED, &Because::of(reason), Status::Paused).await
    }

    /// Fences the runner off and sets a status, in one append.
    async fn take(
        &self,
        id: &ExecutionId,
        kind: &str,
        because: &Because,
        status: Status,
    ) -> Result<(), Error> {
        let (stream, mut head) = self.head(id).await?;
        let runner = Runner::fresh(self.store().session().id);
        let event = self.event(&stream, kind, because)?;
        let author = |version| Author::Successor { runner, version, force: true };
        let mut write = Append::new(stream.clone(), author(head.version)).with(vec![event]);
        write.status = Some(status);
        for _ in 0..limits::APPEND_TRIES {
            match send(self.store(), write.clone()).await {
                Ok(_) => return Ok(()),
                Err(Error::VersionConflict { .. }) => {
                    (_, head) = self.head(id).await?;
                    write.author = author(head.version);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Store(hapax_core::Error::unavailable(
            "the execution is written to all the time: try again",
        )))
    }
}

/// Executions of every tenant whose runner has gone: running or recovering, and its lease has lapsed. A page of them, and where the
/// next page begins.
pub async fn lapsed<S: Journal>(
    store: &S,
    status: Status,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<Listing>, Option<String>), Error> {
    let (mut found, next) = stream::list(store, PREFIX, Some(status), after, limit).await?;
    found.retain(|listing| !listing.lives);
    Ok((found, next))
}
