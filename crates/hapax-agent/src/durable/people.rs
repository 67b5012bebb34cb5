//! What people decide about steps that nobody knows the end of (J6).
//!
//! A decision names the execution, the step, the digest of its work and the epoch that was seen, so that it is about what the person saw
//! and counts once. It is carried out by the ledger in one transaction with its events: the audit and the journal both tell of it.

use hapax_core::journal::{Append, Author, Payload, Status};
use hapax_core::{
    Decision as LedgerDecision, Epoch, Inspect, Journal, Ledger, Operated, OperationId, Outcome, Record,
    Registry, Retention, State, Verb,
};
use serde_json::Value;

use super::error::Error;
use super::event::{PersonDecided, kind, told};
use super::execution::ExecutionId;
use super::key::{self, Coordinates};
use super::operators::Told;
use super::progress::Intent;
use super::run::send;
use super::step::{Step, StepResult, Waits, result_append};
use super::stream::{Executions, Looked};
use crate::limits;

/// A step that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Where it stands.
    pub at: Coordinates,
    /// What was to be done.
    pub intent: Intent,
    /// Why it waits.
    pub why: Waits,
    /// The epoch that a decision is about.
    pub epoch: Epoch,
    /// The public id of its claim.
    pub operation_id: OperationId,
}

/// What a person decides.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// It happened, and this was its result.
    Confirm(Value),
    /// It may run again.
    Rerun {
        /// Also while the former call may still be on its way.
        force: bool,
    },
    /// It failed: the agent sees this as its result.
    Fail(String),
}

impl Choice {
    fn as_str(&self) -> &'static str {
        match self {
            Choice::Confirm(_) => "confirm",
            Choice::Rerun { .. } => "rerun",
            Choice::Fail(_) => "fail",
        }
    }

    /// The result that it states, if it does.
    fn result(&self) -> Option<StepResult> {
        match self {
            Choice::Confirm(value) => Some(StepResult::Answered { value: value.clone() }),
            Choice::Fail(error) => Some(StepResult::Refused { error: told(error) }),
            Choice::Rerun { .. } => None,
        }
    }
}

/// A person's decision about one step.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The step.
    pub at: Coordinates,
    /// The digest of its work, as the person saw it.
    pub digest: String,
    /// The epoch of its claim, as the person saw it.
    pub epoch: Epoch,
    /// What is decided.
    pub choice: Choice,
    /// Who decides.
    pub by: String,
    /// Why.
    pub reason: String,
}

impl<S: Journal + Ledger + Inspect> Executions<S> {
    /// The steps of an execution that wait for a person.
    pub async fn waiting(&self, id: &ExecutionId) -> Result<Vec<Waiting>, Error> {
        let (progress, _) = self.progress(id).await?;
        let mut waiting = Vec::new();
        for (at, intent) in progress.open_steps() {
            let step = Step::of_intent(id, at, intent)?;
            let claim = step.identity(&self.scope)?.claim_id();
            let Some(record) = self.store().record(claim).await? else { continue };
            if let Some(why) = why_it_waits(&record, &step) {
                let (epoch, operation_id) = (record.claim.epoch, record.claim.operation_id);
                waiting.push(Waiting { at, intent: intent.clone(), why, epoch, operation_id });
            }
        }
        Ok(waiting)
    }
}

impl<S: Journal + Ledger + Inspect + Registry> Executions<S> {
    /// Carries a decision out, once.
    pub async fn decide(&self, id: &ExecutionId, decision: Decision) -> Result<(), Error> {
        check(&decision)?;
        let Decision { at, digest, epoch, choice, by, reason } = decision;
        let Looked { stream, head, progress, .. } = self.looked(id).await?;
        let open = progress.open_steps().find(|(place, _)| *place == at);
        let Some((_, intent)) = open.filter(|(_, intent)| intent.digest == digest) else {
            let what = format!("no step of this work is open at {at}: it has its result, or is another one");
            return Err(Error::NotApplicable(what));
        };
        let step = Step::of_intent(id, at, intent)?;
        let claim = step.identity(&self.scope)?.claim_id();
        let record = self.store().record(claim).await?;
        let waits = |record: Record| why_it_waits(&record, &step).map(|why| (record, why));
        let Some((record, why)) = record.and_then(waits) else {
            return Err(Error::NotApplicable(format!("the step at {at} does not wait for a person")));
        };
        if record.claim.epoch != epoch {
            return Err(changed(record.claim.epoch));
        }
        let told = PersonDecided {
            at,
            digest,
            decision: choice.as_str().to_owned(),
            by: by.clone(),
            reason: reason.clone(),
        };
        let decided = self.event(&stream, kind::DECIDED, &told)?;
        let write = match choice.result() {
            Some(result) => {
                let mut write = result_append(self, &stream, &step, &result)?;
                write.events.insert(0, decided);
                write
            }
            None => {
                let write = Append::new(stream.clone(), Author::Step).with(vec![decided]);
                let id = key::event_id(id, at, &format!("decided:{}", epoch.packed()));
                Append { id, ..write }
            }
        };
        // What has ended takes no events any more; the audit tells of the decision all the same.
        let events = if head.status.is_some_and(Status::is_terminal) { vec![] } else { vec![write.clone()] };
        let verb = match (&choice, why) {
            (Choice::Rerun { force }, Waits::InDoubt(_)) => Verb::Release { force: *force },
            (Choice::Rerun { .. }, Waits::NotKept) => Verb::Reopen,
            (Choice::Rerun { .. }, Waits::KeyTaken) => {
                let what =
                    format!("the effect key of the step at {at} is that of other work: confirm or fail it");
                return Err(Error::NotApplicable(what));
            }
            (_, Waits::InDoubt(_)) => self.settle(&claim, &choice)?,
            // The claim stays as it is, because it is settled or another's: the journal gets the result.
            (_, Waits::NotKept | Waits::KeyTaken) => {
                if head.status.is_some_and(Status::is_terminal) {
                    return Err(Error::Ended);
                }
                let told = Told { verb: choice.as_str(), by: &by, reason: &reason };
                self.write_down(id, head.status.map_or("", Status::as_str), &told).await?;
                return self.tell_journal(write).await;
            }
        };
        let decision = LedgerDecision { seen: epoch, verb, actor: by, reason };
        match self.store().decide_with(claim, decision, events).await? {
            Operated::Done(_) => Ok(()),
            Operated::Changed { epoch } => Err(changed(epoch)),
            Operated::NotApplicable(state) => Err(Error::NotApplicable(format!(
                "the step at {at} does not wait for a person: its claim is {}",
                state.as_str()
            ))),
            Operated::MayStillRun { .. } => Err(Error::NotApplicable(
                "the former call may still be on its way: wait until its lease has lapsed, or force it"
                    .into(),
            )),
            Operated::Absent => Err(Error::NotApplicable(format!("the step at {at} has no claim any more"))),
        }
    }

    /// Appends a decision with its result, unless another decision about the step was there first.
    async fn tell_journal(&self, write: Append) -> Result<(), Error> {
        let (stream, said) = (write.stream.clone(), write.events.clone());
        let made = send(self.store(), write).await?;
        let first = made.length.saturating_sub(said.len() as u64);
        let kept = self.store().read(&stream, first, said.len()).await?;
        // Both are fresh, salt and all.
        let is_ours = kept.iter().zip(&said).all(|(kept, said)| match &kept.payload {
            Payload::Kept { bytes, salt } => (bytes, salt) == (&said.payload, &said.salt),
            Payload::Erased { .. } => true,
        });
        match is_ours {
            true => Ok(()),
            false => Err(Error::NotApplicable("another decision about the step was there first".into())),
        }
    }

    fn settle(&self, claim: &hapax_core::ClaimId, choice: &Choice) -> Result<Verb, Error> {
        let result = choice.result().ok_or_else(|| Error::invalid("the decision states no result"))?;
        let bytes = result.bytes().ok_or_else(|| Error::invalid("result: it has at most 1 MiB as JSON"))?;
        let bytes = self.vault.close_outcome(claim, bytes);
        let outcome = match result {
            StepResult::Answered { .. } => Outcome::Succeeded(bytes),
            StepResult::Refused { .. } => Outcome::Refused(bytes),
        };
        Ok(Verb::Settle(outcome, Retention::Forever))
    }
}

/// Why a step with this claim waits for a person; `None` where it does not.
fn why_it_waits(record: &Record, step: &Step) -> Option<Waits> {
    match &record.claim.state {
        State::Released { .. } => None,
        _ if record.claim.fingerprint != step.fingerprint() => Some(Waits::KeyTaken),
        State::InDoubt { reason, .. } => Some(Waits::InDoubt(Some(*reason))),
        State::Settled { outcome: Outcome::NotKept { .. }, .. } => Some(Waits::NotKept),
        _ => None,
    }
}

fn changed(epoch: Epoch) -> Error {
    Error::NotApplicable(format!("the claim of the step has epoch {epoch} by now: look again"))
}

fn check(decision: &Decision) -> Result<(), Error> {
    let printable = |text: &str| {
        (1..=limits::MAX_TEXT_CHARS).contains(&text.chars().count()) && !text.chars().any(char::is_control)
    };
    match (printable(&decision.by), printable(&decision.reason)) {
        (true, true) => Ok(()),
        (false, _) => Err(Error::invalid("by: 1 to 1024 printable characters")),
        (_, false) => Err(Error::invalid("reason: 1 to 1024 printable characters")),
    }
}

/// Whether a claim is a step's, whose end is told to its execution: nothing else may decide about it.
pub fn is_step(record: &Record) -> bool {
    record.identity.source() == hapax_core::Source::Derived
        && record.identity.operation().as_str().starts_with("step.")
}
