//! What happened so far, and whether it may have.
//!
//! The rules are those of the [`model`](crate::model), over longer stories and in real time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hapax_core::claim::SettledBy;
use hapax_core::{
    Answer, AttemptId, Claim, Command, Ending, Epoch, Executed, Kept, Operated, Outcome, Report, Rerun,
    State, Timestamp, Verb, Verdict,
};

use super::Counts;
pub(super) use super::told::Moment;
use super::told::Told;
use crate::model::Rule;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// How.
    pub how: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {} ({})", self.rule, self.how)
    }
}

/// The story of all keys.
pub(super) struct History {
    rerun: Rerun,
    keys: Vec<KeyHistory>,
    newest: Option<Epoch>,
    pub(super) counts: Counts,
    pub(super) violation: Option<Violation>,
}

/// The story of one key.
#[derive(Default)]
struct KeyHistory {
    life: usize,
    life_of: BTreeMap<Epoch, usize>,
    holder_of: BTreeMap<Epoch, AttemptId>,
    effects: BTreeMap<usize, u32>,
    answered: BTreeMap<usize, Outcome>,
    brought: Vec<Outcome>,
    /// Every epoch up to this one was released without force.
    over: Option<Epoch>,
    set_aside: Option<Outcome>,
    /// Epochs of settled claims that an operator has decided about.
    decided: BTreeSet<Epoch>,
    /// What callers were told, by what the key has been through.
    told: Told,
}

impl KeyHistory {
    /// What was kept must not come back.
    fn set_aside(&mut self, before: &Claim) {
        let kept = before.kept().map(|kept| kept.outcome).filter(|outcome| *outcome != Outcome::Erased);
        self.set_aside = kept.or(self.set_aside.take());
    }
}

impl History {
    pub(super) fn new(keys: usize, rerun: Rerun) -> Self {
        History {
            rerun,
            keys: (0..keys).map(|_| KeyHistory::default()).collect(),
            newest: None,
            counts: Counts::new(),
            violation: None,
        }
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn broken(&mut self, rule: Rule, how: String) {
        self.violation.get_or_insert(Violation { rule, how });
    }

    /// What a key has been through by now.
    pub(super) fn moment(&self, key: usize) -> Moment {
        self.keys[key].told.now
    }

    /// A caller is told whether its work was executed. The ledger answered its call between these two moments.
    pub(super) fn told(&mut self, key: usize, executed: Executed, first: Moment, last: Moment) {
        let broken = match executed {
            Executed::No => self.keys[key].told.no(last).then_some(Rule::NoMeansNone),
            Executed::Yes => self.keys[key].told.yes(first, last).then_some(Rule::YesMeansOne),
            Executed::Unknown => None,
        };
        self.count(match executed {
            Executed::No => "told no",
            Executed::Yes => "told yes",
            Executed::Unknown => "told unknown",
        });
        if let Some(rule) = broken {
            self.broken(rule, format!("key {key}, between {first:?} and {last:?}"));
        }
    }

    /// The life of a key's claim that goes on now.
    pub(super) fn life(&self, key: usize) -> usize {
        self.keys[key].life
    }

    /// A run, or an operator, brought this outcome.
    pub(super) fn brought(&mut self, key: usize, outcome: Outcome) {
        self.keys[key].brought.push(outcome);
    }

    /// The work begins under this epoch; its lease stands at the ledger, or it does not.
    pub(super) fn begun(&mut self, key: usize, epoch: Epoch, stands: bool) {
        if !stands {
            self.broken(Rule::BegunUnderLease, format!("key {key}, epoch {epoch}"));
        }
    }

    /// The work is done under this epoch.
    pub(super) fn effect(&mut self, key: usize, epoch: Epoch) {
        self.count("effect");
        let story = &mut self.keys[key];
        let life = story.life_of.get(&epoch).copied().unwrap_or(story.life);
        let effects = story.effects.entry(life).or_default();
        *effects += 1;
        let (twice, over) = (*effects > 1, story.over.is_some_and(|over| epoch <= over));
        let told_no = story.told.effect(epoch);
        if twice && self.rerun != Rerun::Safe {
            self.broken(Rule::OneEffect, format!("key {key}, life {life}, epoch {epoch}"));
        }
        if over {
            self.broken(Rule::ReleasedIsOver, format!("key {key}, epoch {epoch}"));
        }
        if told_no {
            self.broken(Rule::NoMeansNone, format!("key {key}: an effect of {epoch} after it was told"));
        }
        if twice {
            self.count("effect again");
        }
    }

    /// A caller is answered with what was kept in this life.
    pub(super) fn answered(&mut self, key: usize, outcome: &Outcome, life: usize) {
        self.count("answered");
        let story = &mut self.keys[key];
        let invented = !story.brought.contains(outcome);
        let before = story.answered.entry(life).or_insert_with(|| outcome.clone()).clone();
        let back = life == story.life && story.set_aside.as_ref() == Some(outcome);
        if invented {
            self.broken(Rule::NothingInvented, format!("key {key}: {outcome:?}"));
        }
        if before != *outcome {
            self.broken(Rule::OneOutcome, format!("key {key}, life {life}: {before:?}, then {outcome:?}"));
        }
        if back {
            self.broken(Rule::SetAsideStays, format!("key {key}: {outcome:?}"));
        }
    }

    /// A command was decided.
    pub(super) fn decided(
        &mut self,
        key: usize,
        before: Option<&Claim>,
        after: Option<&Claim>,
        command: &Command,
        answer: &Answer,
        time: Timestamp,
    ) {
        self.begin_life(key, before, after, command, answer);
        self.keys[key].told.decided(before, after, command, answer);
        self.one_wins(key, before, command, answer);
        self.number(key, before, after, command, answer);
        self.keep(key, before, command, answer);
        self.check_recorded(key, after);
        self.check_retention(key, answer, time);
        self.watch(before, after, command, answer);
    }

    fn begin_life(
        &mut self,
        key: usize,
        before: Option<&Claim>,
        after: Option<&Claim>,
        command: &Command,
        answer: &Answer,
    ) {
        let Some(before) = before else { return };
        let by_operator = match (command, answer) {
            (Command::Operate(decision), Answer::Operated(Operated::Done(_))) => Some(&decision.verb),
            _ => None,
        };
        let expired = before.kept().is_some() && after.is_none_or(|after| after.kept().is_none());
        let story = &mut self.keys[key];
        match by_operator {
            Some(Verb::Release { force }) => {
                story.life += 1;
                if !force {
                    story.over = Some(before.epoch);
                }
            }
            Some(Verb::Reopen) => {
                story.life += 1;
                story.set_aside(before);
            }
            Some(Verb::Erase) if before.kept().is_some() => {
                // Nothing may run again.
                let effects = story.effects.get(&story.life).copied().unwrap_or(0);
                story.life += 1;
                story.effects.insert(story.life, effects);
                story.set_aside(before);
                story.brought.push(Outcome::Erased);
            }
            Some(Verb::Settle(..) | Verb::Erase) => {}
            Some(Verb::Purge) => story.life += 1,
            None if expired => story.life += 1,
            None => {}
        }
    }

    /// Of those who saw one settled claim.
    fn one_wins(&mut self, key: usize, before: Option<&Claim>, command: &Command, answer: &Answer) {
        let (Command::Operate(_), Answer::Operated(Operated::Done(_))) = (command, answer) else { return };
        let Some(before) = before.filter(|before| before.kept().is_some()) else { return };
        if !self.keys[key].decided.insert(before.epoch) {
            self.broken(Rule::OneOperatorWins, format!("key {key}, epoch {}: {command:?}", before.epoch));
        }
    }

    fn number(
        &mut self,
        key: usize,
        before: Option<&Claim>,
        after: Option<&Claim>,
        command: &Command,
        answer: &Answer,
    ) {
        let Some(after) = after else { return };
        if before.is_none_or(|before| before.epoch != after.epoch) {
            if self.newest.is_some_and(|newest| after.epoch <= newest) {
                self.broken(
                    Rule::EpochsIncrease,
                    format!("key {key}: {} after {:?}", after.epoch, self.newest),
                );
            }
            self.newest = Some(after.epoch);
            let story = &mut self.keys[key];
            story.life_of.insert(after.epoch, story.life);
        }
        if let (Command::Claim(ask), Answer::Verdict(Verdict::Granted(grant))) = (command, answer) {
            let holder = *self.keys[key].holder_of.entry(grant.epoch).or_insert(ask.attempt);
            if holder != ask.attempt {
                self.broken(Rule::OneHolder, format!("key {key}, epoch {}", grant.epoch));
            }
        }
    }

    /// A settle under the current epoch of an unsettled claim is accepted.
    fn keep(&mut self, key: usize, before: Option<&Claim>, command: &Command, answer: &Answer) {
        let Command::Hold(epoch, Report::Settle(..)) = command else { return };
        let owed = before.is_some_and(|before| before.epoch == *epoch && before.kept().is_none());
        if owed && !matches!(answer, Answer::Ending(Ending::Settled(_))) {
            self.broken(Rule::TrueOutcomeIsKept, format!("key {key}, epoch {epoch}: {answer:?}"));
        }
    }

    fn check_recorded(&mut self, key: usize, after: Option<&Claim>) {
        let story = &self.keys[key];
        let Some(answered) = story.answered.get(&story.life) else { return };
        let recorded = after.and_then(Claim::kept).map(|kept| kept.outcome);
        if recorded.as_ref() != Some(answered) {
            let how = format!("key {key}: answered {answered:?}, recorded {recorded:?}");
            self.broken(Rule::AcknowledgedIsRecorded, how);
        }
    }

    /// Nothing is replayed past its retention (L10).
    fn check_retention(&mut self, key: usize, answer: &Answer, time: Timestamp) {
        if let Answer::Verdict(Verdict::Replay(Kept { keep_until, .. })) = answer
            && time >= *keep_until
        {
            self.broken(Rule::NothingInvented, format!("key {key}: replayed after {keep_until:?}"));
        }
    }

    fn watch(&mut self, before: Option<&Claim>, after: Option<&Claim>, command: &Command, answer: &Answer) {
        let state = before.map(|before| &before.state);
        match (command, answer) {
            (Command::Claim(ask), Answer::Verdict(verdict)) => {
                let own = before.is_some_and(|before| before.attempt == ask.attempt);
                self.count(match (verdict, state) {
                    (Verdict::Granted(_), _) if own => "granted again",
                    (Verdict::Granted(grant), _) if grant.must_ask => "must ask",
                    (Verdict::Granted(_), Some(State::Held { .. })) => "takeover",
                    (Verdict::Granted(_), Some(State::Settled { .. })) => "granted after expiry",
                    (Verdict::Granted(_), Some(_)) => "granted after release",
                    (Verdict::Granted(_), None) => "granted",
                    (Verdict::Replay(_), _) => "replay",
                    (Verdict::Held { .. }, Some(State::Released { .. })) => "held for quiet",
                    (Verdict::Held { .. }, _) => "held",
                    (Verdict::InDoubt { .. }, _) => "in doubt",
                    (Verdict::Spent, _) => "spent",
                    (Verdict::Mismatch { .. }, _) => "mismatch",
                });
            }
            (Command::Hold(_, Report::Settle(..)), Answer::Ending(ending)) => {
                self.count(match (ending, state) {
                    (Ending::Settled(_), Some(State::InDoubt { .. })) => "settled out of doubt",
                    (Ending::Settled(_), Some(State::Released { .. })) => "settled out of released",
                    (Ending::Settled(_), _) => "settled",
                    (Ending::AlreadySettled(_), _) => "already settled",
                    _ if before.is_some_and(settled_by_operator) => "contradicted an operator",
                    _ => "lost lease",
                });
            }
            (Command::Operate(decision), Answer::Operated(Operated::Done(_))) => {
                self.count(decision.verb.as_str());
            }
            (Command::Operate(_), Answer::Operated(Operated::Changed { .. })) => self.count("stale decision"),
            (Command::Operate(_), Answer::Operated(Operated::MayStillRun { .. })) => {
                self.count("may still run");
            }
            (Command::Sweep(_), _) if before != after => self.count("swept"),
            _ => {}
        }
    }
}

fn settled_by_operator(claim: &Claim) -> bool {
    matches!(claim.state, State::Settled { by: SettledBy::Operator, .. })
}
