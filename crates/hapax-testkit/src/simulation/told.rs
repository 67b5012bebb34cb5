//! What callers were told about one key, and whether it was true: "no" means that no attempt since the key was last absent had an
//! effect or still can, "yes" that one had.
//!
//! Where the ledger speaks last, a "no" is as old as its answer: what others are granted while that is on its way is theirs to tell.
//! Any other "no" is held against all that happened before it was told.

use std::collections::{BTreeMap, BTreeSet};

use hapax_core::{Answer, Claim, Command, Epoch, Operated, Verb};

/// What a key has been through by some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// How often it was absent.
    absent: usize,
    /// The newest epoch.
    newest: Option<Epoch>,
}

/// The story of one key, as far as callers are told of it.
#[derive(Default)]
pub(super) struct Told {
    pub(super) now: Moment,
    granted: BTreeMap<Epoch, Moment>,
    /// By how often the key had been absent when they were granted.
    effects: BTreeMap<usize, BTreeSet<Epoch>>,
    /// How often it had been absent when somebody had an effect, or an operator said so.
    done: BTreeSet<usize>,
    /// The newest epoch for which a caller was told "no".
    no: BTreeMap<usize, Epoch>,
}

impl Told {
    /// A command was decided.
    pub(super) fn decided(
        &mut self,
        before: Option<&Claim>,
        after: Option<&Claim>,
        command: &Command,
        answer: &Answer,
    ) {
        let was = before.map(|claim| (claim.operation_id, claim.opened_at));
        let is = after.map(|claim| (claim.operation_id, claim.opened_at));
        if was.is_some() && was != is {
            self.now.absent += 1;
        }
        if let (Command::Operate(decision), Answer::Operated(Operated::Done(_))) = (command, answer)
            && matches!(decision.verb, Verb::Settle(..))
        {
            self.done.insert(self.now.absent);
        }
        if let Some(after) = after
            && before.is_none_or(|before| before.epoch != after.epoch)
        {
            self.now.newest = Some(after.epoch);
            self.granted.insert(after.epoch, self.now);
        }
    }

    /// The work was done by a call under this epoch. Returns whether a caller had been told that it never would be.
    pub(super) fn effect(&mut self, epoch: Epoch) -> bool {
        let granted = self.granted.get(&epoch).copied().unwrap_or(self.now);
        self.done.insert(granted.absent);
        self.effects.entry(granted.absent).or_default().insert(epoch);
        self.no.get(&granted.absent).is_some_and(|told| epoch <= *told)
    }

    /// A caller is told "no". Returns whether that is wrong already.
    pub(super) fn no(&mut self, last: Moment) -> bool {
        let Some(newest) = last.newest else { return false };
        let told = self.no.entry(last.absent).or_insert(newest);
        *told = newest.max(*told);
        let effects = self.effects.get(&last.absent);
        effects.is_some_and(|effects| effects.range(..=newest).next().is_some())
    }

    /// A caller is told "yes". Returns whether that is wrong.
    pub(super) fn yes(&self, first: Moment, last: Moment) -> bool {
        self.done.range(first.absent..=last.absent).next().is_none()
    }
}
