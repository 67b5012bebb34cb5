//! Going on with what another runner has left (J2, J4).
//!
//! The chain is checked from its beginning to its end before anything is written: an execution that was tampered with stays as it was
//! found. The new runner is let in only at the version that was checked, so that nothing comes in between.

use hapax_core::journal::{Append, Author, Head, Runner, Status, StreamFilter};
use hapax_core::{Error as CoreError, Journal, Ledger, SessionId};

use super::error::Error;
use super::event::{Because, kind};
use super::execution::{ExecutionId, Listing, PREFIX};
use super::progress::Progress;
use super::run::{Run, send};
use super::stream::{self, Executions, Reading, state_of};
use super::verify::ends;
use crate::limits;

/// How an execution is resumed.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// Also while the lease of its runner lasts: an operator has decided so.
    pub force: bool,
    /// What the new runner's right hangs on, where that is not this process's own session.
    pub lease: Option<SessionId>,
}

impl<S: Journal + Ledger> Executions<S> {
    /// Takes an execution whose runner's lease has lapsed, or that is paused. Of several at once one gets it; the others are
    /// [`Error::Fenced`].
    pub async fn resume(&self, id: &ExecutionId, how: Resume) -> Result<Run<S>, Error> {
        let (stream, mut head) = self.head(id).await?;
        let runner = Runner::fresh(how.lease.unwrap_or_else(|| self.store().session().id));
        let mut progress = Progress::default();
        let mut reading = Reading { executions: self, stream: &stream, next: 0, last: None };
        self.may_be_taken(&stream, &head, &how).await?;
        for _ in 0..limits::APPEND_TRIES {
            reading.fold(&mut progress).await?;
            let present = self.store().head(&stream).await?.ok_or(Error::NotFound)?;
            if reading.next < present.length {
                continue;
            }
            reading.finish(&present)?;
            head = present;
            if head.status.is_some_and(Status::is_terminal) {
                return Err(Error::Ended);
            }
            // The checkpoint is checked against its event, before anybody is let in.
            let checkpoint = self.checkpoint_bytes(&stream).await?;
            // Who paused it has stopped, or was not its runner any more from then on.
            let force = how.force || head.status == Some(Status::Paused);
            let author = Author::Successor { runner, version: head.version, force };
            let because = Because { at: None, reason: if how.force { "forced" } else { "resumed" }.into() };
            let recovering = self.event(&stream, kind::RECOVERING, &because)?;
            let mut write = Append::new(stream.clone(), author).with(vec![recovering]);
            write.status = Some(Status::Recovering);
            head = match send(self.store(), write).await {
                Ok(head) => head,
                Err(Error::VersionConflict { .. }) => continue,
                Err(error) => return Err(error),
            };
            fail::fail_point!("agent.recovering");
            reading.fold(&mut progress).await?;
            let state = checkpoint.map(|bytes| bytes.ok_or(Error::Erased).and_then(|bytes| state_of(&bytes)));
            return self.go_on(id, runner, head, progress, state.transpose()).await;
        }
        Err(Error::Store(hapax_core::Error::unavailable(
            "the execution is written to all the time: try again",
        )))
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
        run.write_one(
            kind::RESUMED,
            &Because { at: None, reason: "recovered".into() },
            Some(Status::Running),
        )
        .await?;
        fail::fail_point!("agent.resumed");
        Ok(run)
    }

    /// Says at once that somebody else runs it, before all of it is read.
    async fn may_be_taken(
        &self,
        stream: &hapax_core::journal::Stream,
        head: &Head,
        how: &Resume,
    ) -> Result<(), Error> {
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
        let reason = if reason.is_empty() { "cancelled".into() } else { format!("cancelled: {reason}") };
        self.take(id, kind::FAILED, &reason, Status::Failed).await
    }

    /// Pauses an execution, whoever runs it: its runner is fenced off, and what it is doing may still come to an end.
    pub async fn pause(&self, id: &ExecutionId, reason: &str) -> Result<(), Error> {
        self.take(id, kind::PAUSED, reason, Status::Paused).await
    }

    /// Fences the runner off and sets a status, in one append.
    async fn take(&self, id: &ExecutionId, kind: &str, reason: &str, status: Status) -> Result<(), Error> {
        let (stream, mut head) = self.head(id).await?;
        let runner = Runner::fresh(self.store().session().id);
        let because = Because { at: None, reason: super::event::told(reason) };
        let event = self.event(&stream, kind, &because)?;
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

impl<S: Journal + Ledger> Reading<'_, S> {
    /// The chain ends as the head says, which was read after the last event.
    fn finish(&self, head: &Head) -> Result<(), Error> {
        if self.next > head.length {
            let what = "the head does not know of the event";
            return Err(CoreError::broken_chain(self.stream.as_str(), head.length, what).into());
        }
        Ok(ends(self.stream, head, self.next, self.last)?)
    }
}
