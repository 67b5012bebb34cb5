//! What is written down for people: operators' decisions, what they set beside claims, and settles that contradict one (L8).
//!
//! An entry stays for ever, so that it can always be said who did what and why. An outcome that it keeps goes with its
//! claim ([`forgotten`]): what was set aside must not outlive what it was set aside from (B9).

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
    /// What it was done to.
    pub about: About,
    /// The outcome that was set aside by a reopen, or that came too late to be kept; `Erased` once it is forgotten.
    pub outcome: Option<Outcome>,
}

/// What an entry of the audit is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A claim.
    Claim {
        /// The operation it was done to.
        operation_id: OperationId,
        /// The epoch it was done to.
        epoch: Epoch,
        /// The state before.
        before: StateName,
        /// The state after; `None` when the claim is absent.
        after: Option<StateName>,
    },
    /// What operators set for all claims, such as how long a class of outcomes is kept.
    Setting {
        /// Its name, such as `retention/critical`.
        name: String,
        /// What it was set to before; `None` where it was not.
        before: Option<String>,
        /// What it is set to; `None` where that was taken back.
        after: Option<String>,
    },
}

impl AuditEvent {
    /// The operation it is about, if it is about a claim.
    pub fn operation_id(&self) -> Option<OperationId> {
        match self.about {
            About::Claim { operation_id, .. } => Some(operation_id),
            About::Setting { .. } => None,
        }
    }
}

/// What an operator sets, for the audit: everything but the time, which is the store's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What is done, such as `retention-set`.
    pub verb: String,
    /// Who does it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The setting's name.
    pub name: String,
    /// What it is set to until now.
    pub before: Option<String>,
    /// What it is to be set to.
    pub after: Option<String>,
}

impl Setting {
    /// The entry, once it is done.
    pub fn event(self, at: Timestamp) -> AuditEvent {
        let Setting { verb, actor, reason, name, before, after } = self;
        AuditEvent { at, verb, actor, reason, about: About::Setting { name, before, after }, outcome: None }
    }
}

/// What is written down although nothing was changed, such as what an operator has found out, or a decision that was refused:
/// everything but the time, which is the store's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What was done, such as `note`.
    pub verb: String,
    /// Who did it.
    pub actor: String,
    /// What is to be known, or why.
    pub reason: String,
    /// What it is about, as it was and stays.
    pub about: About,
}

impl Note {
    /// The entry.
    pub fn event(self, at: Timestamp) -> AuditEvent {
        let Note { verb, actor, reason, about } = self;
        AuditEvent { at, verb, actor, reason, about, outcome: None }
    }
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
        about: About::Claim {
            operation_id: before.operation_id,
            epoch: before.epoch,
            before: before.state.name(),
            after: state_after(before, change),
        },
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
            // Somebody's data had to go: what arrives after that is told of, and not kept.
            let late = if is_erased(before) { Outcome::Erased } else { outcome.clone() };
            Some(event(CONTRADICTED, "", &reason, Some(late)))
        }
        _ => None,
    }
}

/// The operation whose outcomes a decided command takes out of the audit, if it does: its claim is erased, or is no more
/// (B9). In their entries they become [`Outcome::Erased`], in the same commit.
pub fn forgotten(
    before: Option<&Claim>,
    command: &Command,
    change: &Change,
    answer: &Answer,
) -> Option<OperationId> {
    let before = before?.operation_id;
    let is_over = match change {
        Change::Remove => true,
        // An expired claim, replaced before anybody swept it.
        Change::Put(after) => after.operation_id != before,
        Change::None => false,
    };
    (is_over || erases(command, answer)).then_some(before)
}

fn erases(command: &Command, answer: &Answer) -> bool {
    matches!(command, Command::Operate(decision) if decision.verb == Verb::Erase)
        && matches!(answer, Answer::Operated(Operated::Done(_)))
}

fn is_erased(claim: &Claim) -> bool {
    matches!(claim.state, State::Settled { outcome: Outcome::Erased, .. })
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
