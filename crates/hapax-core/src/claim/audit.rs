//! What is written down for people: operators' decisions, and settles that contradict one (L8).

use super::{Answer, Change, Claim, Command, Operated, Report, SettledBy, State, StateName, Verb};
use crate::id::{Epoch, OperationId};
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// One entry of the audit, committed with the change it tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// When.
    pub at: Timestamp,
    /// What was done, such as `reopen`.
    pub verb: String,
    /// Who did it; empty for the holder of a claim.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The operation it was done to.
    pub operation_id: OperationId,
    /// The epoch it was done to.
    pub epoch: Epoch,
    /// The state before.
    pub before: StateName,
    /// The state after; `None` when the claim is absent.
    pub after: Option<StateName>,
    /// The outcome that was set aside by a reopen, or that came too late to be kept.
    pub outcome: Option<Outcome>,
}

/// The verb of a settle that came after an operator had settled the claim otherwise.
pub const CONTRADICTED: &str = "settle-refused";

/// What a decided command leaves in the audit, if anything.
pub fn audit(
    before: Option<&Claim>,
    command: &Command,
    change: &Change,
    answer: &Answer,
    at: Timestamp,
) -> Option<AuditEvent> {
    let before = before?;
    let event = |verb: &str, actor: &str, reason: &str, outcome| AuditEvent {
        at,
        verb: verb.to_owned(),
        actor: actor.to_owned(),
        reason: reason.to_owned(),
        operation_id: before.operation_id,
        epoch: before.epoch,
        before: before.state.name(),
        after: state_after(before, change),
        outcome,
    };
    match (command, answer) {
        (Command::Operate(decision), Answer::Operated(Operated::Done(_))) => {
            let set_aside = match (&decision.verb, &before.state) {
                (Verb::Reopen, State::Settled { outcome, .. }) => Some(outcome.clone()),
                _ => None,
            };
            Some(event(decision.verb.as_str(), &decision.actor, &decision.reason, set_aside))
        }
        (Command::Hold(epoch, Report::Settle(outcome, _)), _)
            if *epoch < before.epoch && settled_by_operator(before) =>
        {
            let reason = format!("the holder of epoch {epoch} settled after an operator had");
            Some(event(CONTRADICTED, "", &reason, Some(outcome.clone())))
        }
        _ => None,
    }
}

fn settled_by_operator(claim: &Claim) -> bool {
    matches!(claim.state, State::Settled { by: SettledBy::Operator, .. })
}

fn state_after(before: &Claim, change: &Change) -> Option<StateName> {
    match change {
        Change::None => Some(before.state.name()),
        Change::Put(claim) => Some(claim.state.name()),
        Change::Remove => None,
    }
}
