//! The judge: what callers were answered, what was done, and whether the two can both be true.
//!
//! It knows nothing of stores and processes. Whatever was broken in between:
//!
//! - everybody who was answered under one key was answered the same, byte for byte;
//! - whoever was answered was answered with the outcome of an effect that happened;
//! - work that must not run again had one effect at most;
//! - one call at most counts as the one that ran it;
//! - a caller who was not answered was told why, in one of the ways that the fault allows;
//! - an outcome that somebody was answered with is in the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hapax_core::Rerun;
use hapax_testkit::upstream::Effect;

use crate::words::{Run, Said, Seen};

/// All that is known of one run of the torture.
#[derive(Clone, Debug, Default)]
pub struct History {
    keys: BTreeMap<String, Told>,
    failures: BTreeMap<String, usize>,
    violations: Vec<String>,
}

/// What was asked and answered under one key.
#[derive(Clone, Debug, Default)]
struct Told {
    run: Option<Run>,
    answers: Vec<Answer>,
    /// Somebody was told that the outcome is safe and waits to be recorded.
    promised: bool,
    /// What a caller was told last instead of an outcome, and why.
    failed: Option<String>,
}

#[derive(Clone, Debug)]
struct Answer {
    caller: String,
    how: String,
    seen: Seen,
}

/// What a fault may bring its callers, besides an outcome.
#[derive(Clone, Copy, Debug)]
pub struct Allowed(pub &'static [&'static str]);

impl History {
    /// A call is made.
    pub fn asked(&mut self, run: &Run) {
        self.keys.entry(run.key.clone()).or_default().run.get_or_insert_with(|| run.clone());
    }

    /// A worker said something.
    pub fn heard(&mut self, said: &Said, allowed: Allowed) {
        match said {
            Said::Done { caller, key, how, seen } => {
                let answer = Answer { caller: caller.clone(), how: how.clone(), seen: seen.clone() };
                self.keys.entry(key.clone()).or_default().answers.push(answer);
            }
            Said::Failed { caller, key, code, cause } => {
                *self.failures.entry(code.clone()).or_default() += 1;
                let told = self.keys.entry(key.clone()).or_default();
                told.promised |= code == "outcome-pending";
                told.failed = Some(format!("`{code}`: {cause}"));
                if !allowed.0.contains(&code.as_str()) {
                    self.violation(format!("{key}: {caller} was told `{code}`, which cannot be: {cause}"));
                }
                let safe = self.rerun(key) == Some(Rerun::Safe);
                if safe && code == "outcome-unknown" && !allowed.0.contains(&"outcome-pending") {
                    self.violation(format!(
                        "{key}: {caller} was told `{code}` although running again is safe"
                    ));
                }
            }
            Said::Broken(why) => self.violation(format!("a worker could not do its part: {why}")),
            Said::Ready | Said::State { .. } | Said::Operated { .. } | Said::Struck { .. } => {}
        }
    }

    /// A rule that is not in this file was broken.
    pub fn violation(&mut self, what: impl fmt::Display) {
        self.violations.push(what.to_string());
    }

    /// What callers under this key were answered.
    pub fn answer(&self, key: &str) -> Option<&Seen> {
        self.keys.get(key)?.answers.first().map(|answer| &answer.seen)
    }

    /// Whether a caller was told that the outcome is safe and waits to be recorded (L15).
    pub fn is_promised(&self, key: &str) -> bool {
        self.keys.get(key).is_some_and(|told| told.promised)
    }

    /// What a caller was told last under this key instead of an outcome.
    pub fn last_failure(&self, key: &str) -> Option<&str> {
        self.keys.get(key)?.failed.as_deref()
    }

    /// Whether the work of this key may run again.
    pub fn rerun(&self, key: &str) -> Option<Rerun> {
        Some(self.keys.get(key)?.run.as_ref()?.rerun)
    }

    /// The call that was first made under this key.
    pub fn run(&self, key: &str) -> Option<&Run> {
        self.keys.get(key)?.run.as_ref()
    }

    /// Every key under which somebody was answered.
    pub fn answered(&self) -> Vec<String> {
        let answered = self.keys.iter().filter(|(_, told)| !told.answers.is_empty());
        answered.map(|(key, _)| key.clone()).collect()
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// How many calls were answered with an outcome.
    pub fn answers(&self) -> usize {
        self.keys.values().map(|told| told.answers.len()).sum()
    }

    /// How many calls were told what, instead of an outcome.
    pub fn failures(&self) -> &BTreeMap<String, usize> {
        &self.failures
    }

    /// Looks whether the ledger still has what somebody was answered with.
    pub fn check_kept(&mut self, key: &str, state: &str, kept: Option<&Seen>) {
        let Some(answered) = self.answer(key) else { return };
        if kept != Some(answered) {
            let kept = kept.map_or_else(|| "nothing".to_owned(), Seen::to_string);
            self.violation(format!(
                "{key}: an acknowledged outcome is lost: answered {answered}, the claim is {state} with {kept}"
            ));
        }
    }

    /// Adds another history, of other keys.
    pub fn join(&mut self, other: History) {
        self.keys.extend(other.keys);
        self.violations.extend(other.violations);
        for (code, count) in other.failures {
            *self.failures.entry(code).or_default() += count;
        }
    }

    /// Everything that cannot be, given the effects that happened.
    pub fn judge(&self, effects: &[Effect]) -> Vec<String> {
        let mut found = self.violations.clone();
        let mut by_key: BTreeMap<&str, Vec<&Effect>> = BTreeMap::new();
        for effect in effects {
            by_key.entry(&effect.key).or_default().push(effect);
        }
        for (key, told) in &self.keys {
            let effects = by_key.remove(key.as_str()).unwrap_or_default();
            found.extend(told.judge(&effects).into_iter().map(|what| format!("{key}: {what}")));
        }
        found.extend(by_key.keys().map(|key| format!("{key}: an effect that nobody asked for")));
        found
    }
}

impl Told {
    fn judge(&self, effects: &[&Effect]) -> Vec<String> {
        let mut found = Vec::new();
        let outcomes: BTreeSet<&Seen> = self.answers.iter().map(|answer| &answer.seen).collect();
        if outcomes.len() > 1 {
            let list: Vec<String> = self.answers.iter().map(Answer::to_string).collect();
            found.push(format!("callers were answered differently: {}", list.join("; ")));
        }
        for seen in outcomes {
            let size = self.run.as_ref().map_or(0, |run| run.size);
            let true_one = effects.iter().any(|effect| *seen == Seen::of_effect(&effect.attempt, size));
            if !true_one {
                found.push(format!("answered with {seen}, which is the outcome of no effect"));
            }
        }
        let again = self.run.as_ref().is_some_and(|run| run.rerun == Rerun::Safe);
        if effects.len() > 1 && !again {
            let tokens: Vec<&str> = effects.iter().map(|effect| effect.attempt.as_str()).collect();
            found.push(format!("{} effects where one is allowed: {}", effects.len(), tokens.join(", ")));
        }
        let executed: Vec<String> =
            self.answers.iter().filter(|answer| answer.how == "executed").map(Answer::to_string).collect();
        if executed.len() > 1 {
            found.push(format!("more than one call says that it ran it: {}", executed.join("; ")));
        }
        found
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.caller, self.how, self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Allowed = Allowed(&["outcome-unknown"]);

    fn run(rerun: Rerun) -> Run {
        Run { caller: "a".into(), key: "k".into(), rerun, size: 40, linger_ms: 0 }
    }

    fn done(caller: &str, how: &str, token: &str) -> Said {
        let seen = Seen::of_effect(token, 40);
        Said::Done { caller: caller.into(), key: "k".into(), how: how.into(), seen }
    }

    fn effect(token: &str) -> Effect {
        Effect { key: "k".into(), attempt: token.into(), process: 1 }
    }

    fn found(rerun: Rerun, said: &[Said], effects: &[&str]) -> String {
        let mut history = History::default();
        history.asked(&run(rerun));
        said.iter().for_each(|said| history.heard(said, CALM));
        let effects: Vec<Effect> = effects.iter().map(|token| effect(token)).collect();
        history.judge(&effects).join("\n")
    }

    #[test]
    fn one_effect_and_equal_answers_are_fine() {
        let said = [done("a", "executed", "1"), done("b", "attached", "1"), done("c", "replayed", "1")];
        assert_eq!(found(Rerun::Unsafe, &said, &["1"]), "");
        assert_eq!(found(Rerun::Safe, &said, &["0", "1"]), "", "a safe one may have run before");
    }

    #[test]
    fn a_second_effect_is_found_unless_it_is_allowed() {
        let said = [done("a", "executed", "2")];
        assert!(found(Rerun::Unsafe, &said, &["1", "2"]).contains("2 effects where one is allowed"));
        assert_eq!(found(Rerun::Safe, &said, &["1", "2"]), "");
    }

    #[test]
    fn answers_that_differ_are_found_even_if_both_ran() {
        let said = [done("a", "executed", "1"), done("b", "replayed", "2")];
        assert!(found(Rerun::Safe, &said, &["1", "2"]).contains("answered differently"));
    }

    #[test]
    fn an_answer_without_an_effect_is_found() {
        assert!(
            found(Rerun::Unsafe, &[done("a", "executed", "1")], &[]).contains("the outcome of no effect")
        );
    }

    #[test]
    fn two_calls_that_say_they_ran_it_are_found() {
        let said = [done("a", "executed", "1"), done("b", "executed", "1")];
        assert!(found(Rerun::Unsafe, &said, &["1"]).contains("more than one call says that it ran it"));
    }

    #[test]
    fn an_acknowledged_outcome_that_the_ledger_does_not_have_is_found() {
        let mut history = History::default();
        history.asked(&run(Rerun::Unsafe));
        history.check_kept("k", "absent", None);
        assert_eq!(history.judge(&[]).len(), 0, "nobody was answered yet");
        history.heard(&done("a", "executed", "1"), CALM);
        history.check_kept("k", "settled", Some(&Seen::of_effect("1", 40)));
        assert_eq!(history.judge(&[effect("1")]).len(), 0);
        history.check_kept("k", "in_doubt", None);
        assert!(history.judge(&[effect("1")])[0].contains("an acknowledged outcome is lost"));
        let mut cut = history.clone();
        cut.check_kept("k", "settled", Some(&Seen::of_effect("1", 39)));
        assert_eq!(cut.judge(&[effect("1")]).len(), 2, "a byte less is lost, too");
    }

    #[test]
    fn a_failure_that_cannot_be_is_found() {
        let failed = |code: &str| Said::Failed {
            caller: "a".into(),
            key: "k".into(),
            code: code.into(),
            cause: String::new(),
        };
        assert!(found(Rerun::Unsafe, &[failed("corrupt")], &[]).contains("told `corrupt`"));
        assert_eq!(found(Rerun::Unsafe, &[failed("outcome-unknown")], &[]), "");
        assert!(found(Rerun::Safe, &[failed("outcome-unknown")], &[]).contains("running again is safe"));
    }

    #[test]
    fn an_effect_that_nobody_asked_for_is_found() {
        assert!(History::default().judge(&[effect("1")])[0].contains("nobody asked for"));
    }
}
