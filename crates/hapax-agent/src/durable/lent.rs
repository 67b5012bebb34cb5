//! Steps whose tool is called elsewhere: begun here for a holder that renews a lease of its own, and finished at any instance (M1, L5).

use hapax_core::claim::SettledBy;
use hapax_core::journal::Stream;
use hapax_core::{AttemptId, Epoch, Inspect, Journal, Leases, Ledger, Record, RunnerId, SessionId, State};
use hapax_exec::{Concluded, Ended, Entered, How, Lent, Reason, WorkResult};
use serde_json::Value;

use super::error::Error;
use super::event::{Intended, kind};
use super::execution::ExecutionId;
use super::key::Coordinates;
use super::progress::{self, Intent};
use super::run::Run;
use super::step::{Step, StepEnd, StepResult, Waits};
use super::stream::{Executions, Looked};
use super::tools::{ToolContext, ToolError};
use crate::limits;

/// What became of a step that a holder elsewhere wants to make.
#[derive(Clone, Debug)]
pub enum Lending {
    /// It is that holder's to make, under its lease.
    Lent(Lent, ToolContext),
    /// It has its result already.
    Done(StepResult),
    /// A person has to decide.
    Waits(Waits),
    /// Another holder is making it.
    Held,
}

impl<S: Journal + Leases> Run<S> {
    /// Records the intent of a step, and claims it for a holder elsewhere. Asked again with the same attempt, the answer is the same
    /// grant, as long as that stands.
    pub async fn begin_step(
        &self,
        planned: Step,
        lease: SessionId,
        attempt: AttemptId,
    ) -> Result<Lending, Error> {
        let step = match self.intended(planned).await? {
            (_, Some(result)) => return Ok(Lending::Done(result)),
            (step, None) => step,
        };
        let call = step.call(self.executions().scope())?.attach(hapax_exec::Attach::Reject);
        let entered = Box::pin(self.executions().executor().enter_under(lease, attempt, call.clone(), ()));
        match entered.await {
            Ok(Entered::Held(lent, ())) => {
                // The grant is there: what is seen of the execution from now on counts.
                if let Err(error) = self.stands().await {
                    let back = self.executions().executor().running(lent.claim, lent.epoch, call);
                    // Where the ledger does not hear it, the lease lapses.
                    let _ = back.conclude(Ended::NotRun(error.to_string())).await;
                    return Err(error);
                }
                let attempt = hapax_exec::Attempt {
                    claim: Some(lent.claim),
                    epoch: Some(lent.epoch),
                    operation_id: Some(lent.operation_id),
                };
                Ok(Lending::Lent(lent, step.context(attempt)))
            }
            Ok(Entered::Done(done)) => Ok(lending(self.settled(&step, &done).await?)),
            Ok(Entered::Differs(error, ())) => Err(step.differs(&error)),
            Ok(Entered::Unkeyed(())) => Err(Error::Store(hapax_core::Error::internal("a step has a key"))),
            Err(error) => match error.reason() {
                Reason::InProgress => Ok(Lending::Held),
                Reason::OutcomeUnknown { doubt } => Ok(Lending::Waits(Waits::InDoubt(*doubt))),
                _ => Err(error.into()),
            },
        }
    }
}

impl<S: Journal + Ledger + Inspect> Executions<S> {
    /// Tells how a step ended that was begun for a holder elsewhere, whoever runs the execution by now: its right is the epoch that it was
    /// given. Under any other epoch nothing is written, and the error is [`Error::Fenced`].
    pub async fn finish_step(
        &self,
        id: &ExecutionId,
        at: Coordinates,
        epoch: Epoch,
        ended: Result<Value, ToolError>,
    ) -> Result<StepEnd, Error> {
        let Looked { stream, head, progress, state } = self.looked(id).await?;
        let intent = match progress.step(at) {
            Ok(recorded) => recorded.map(|recorded| recorded.intent.clone()),
            // What it says about a step of a complete iteration is too late for the execution, and may contradict an operator.
            Err(Error::WrongIteration { asked, present }) if asked < present && is_result(&ended) => {
                self.intent_of(&stream, at).await?
            }
            Err(error) => return Err(error),
        };
        let Some(intent) = intent else {
            return Err(match progress.check(at.iteration) {
                Ok(()) => Error::NotApplicable(format!("the step at {at} was not begun")),
                Err(error) => error,
            });
        };
        let step = Step::of_intent(id, at, &intent)?;
        let claim = step.identity(self.scope())?.claim_id();
        let Some(record) = self.store().record(claim).await? else { return Err(Error::Fenced) };
        let is_late = progress.check(at.iteration);
        // It writes nothing as a runner, so that none can be displaced by it.
        let run = Run::new(self.clone(), id.clone(), stream, RunnerId::random(), &head, progress, state);
        if record.claim.epoch == epoch && is_late.is_ok() {
            return run.finish_step(&step, epoch, ended).await;
        }
        // The ledger refuses a true outcome that comes after an operator's, and writes both down (L8).
        if is_result(&ended) && by_operator(&record) && epoch < record.claim.epoch {
            let _ = run.finish_step(&step, epoch, ended).await;
        }
        Err(is_late.err().unwrap_or(Error::Fenced))
    }

    /// The intent of a step of an earlier iteration.
    async fn intent_of(&self, stream: &Stream, at: Coordinates) -> Result<Option<Intent>, Error> {
        let mut next = 0;
        loop {
            let events = self.store().read(stream, next, limits::READ_PAGE).await?;
            let Some(last) = events.last() else { return Ok(None) };
            next = last.seq + 1;
            for event in events.iter().filter(|event| event.kind == kind::INTENT) {
                let Some(payload) = self.opened(stream, event)? else { continue };
                let intended: Intended = progress::read(&payload)?;
                if intended.at == at {
                    return Ok(Some(intended.into()));
                }
            }
        }
    }
}

/// Whether a tool call ended with a result, which a step keeps.
fn is_result(ended: &Result<Value, ToolError>) -> bool {
    matches!(ended, Ok(_) | Err(ToolError::Refused(_)))
}

fn by_operator(record: &Record) -> bool {
    matches!(record.claim.state, State::Settled { by: SettledBy::Operator, .. })
}

impl<S: Journal + Ledger> Run<S> {
    /// Tells how a step ended that was begun for a holder elsewhere, under the epoch that the holder was given. Under any other epoch
    /// nothing is written.
    pub async fn finish_step(
        &self,
        step: &Step,
        epoch: Epoch,
        ended: Result<Value, ToolError>,
    ) -> Result<StepEnd, Error> {
        let claim = step.identity(self.executions().scope())?.claim_id();
        let attempt = hapax_exec::Attempt { claim: Some(claim), epoch: Some(epoch), operation_id: None };
        let concluded: Concluded = self.concluded(step, attempt, WorkResult::Ended(ended))?;
        let call = step.call(self.executions().scope())?.attach(hapax_exec::Attach::Reject);
        let running = self.executions().executor().running(claim, epoch, call);
        match Box::pin(running.conclude(concluded)).await {
            // What another holder brought is not what this one has done.
            Ok(done) if done.how == How::Attached && !done.events_written => {
                self.settled(step, &done).await?;
                Err(Error::Fenced)
            }
            Ok(done) => self.settled(step, &done).await,
            Err(error) => super::step::ended(error),
        }
    }
}

fn lending(end: StepEnd) -> Lending {
    match end {
        StepEnd::Done(result) => Lending::Done(result),
        StepEnd::Waits(why) => Lending::Waits(why),
        StepEnd::Failed(_) => Lending::Held,
    }
}
