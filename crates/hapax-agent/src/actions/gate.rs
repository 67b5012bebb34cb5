//! What may happen, and what is raised for people: the gate that every action passes that changes something (X6).
//!
//! A rule is a CEL expression over the action. The first rule that matches decides; where none does, the default. A rule that fails
//! when it is asked, because a field is missing or a text is compared with a number, blocks the action and says so.

mod rule;
mod values;
mod walk;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hapax_core::Timestamp;
use hapax_core::lane::Recent;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connect::Tool;
use super::executor::Origin;
use super::plan::{Disposition, PlannedAction};
use crate::limits;
pub use rule::{Mistake, Rule};

/// Rules that walk lists at the same time, in this process: half of its processors are for everything else.
static WALKERS: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Semaphore::new((processors / 2).max(1))
});

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may happen.
    Allow,
    /// It may happen, and people are told.
    Alert,
    /// It must not happen.
    Block,
}

impl Decision {
    /// All of them, with the words that they are written as.
    pub const WORDS: [(&'static str, Decision); 3] =
        [("ALLOW", Decision::Allow), ("ALERT", Decision::Alert), ("BLOCK", Decision::Block)];

    /// As it is written everywhere.
    pub fn parse(text: &str) -> Option<Self> {
        Self::WORDS.into_iter().find_map(|(word, decision)| (word == text).then_some(decision))
    }

    pub(crate) fn disposition(self) -> Disposition {
        match self {
            Decision::Allow => Disposition::Allow,
            Decision::Alert => Disposition::Alert,
            Decision::Block => Disposition::Block,
        }
    }
}

/// The rules, the first of which that matches decides. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    default: Decision,
    rules: Arc<[Rule]>,
}

/// What the gate has decided about an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The decision.
    pub decision: Decision,
    /// The rule that decided; `None` where the default did.
    pub rule: Option<Arc<str>>,
    /// Why the rule could not be asked. Then the decision is to block.
    pub failed: Option<String>,
}

impl Judged {
    fn failed(rule: &Rule, why: impl Into<String>) -> Self {
        Judged { decision: Decision::Block, rule: Some(rule.name.clone()), failed: Some(why.into()) }
    }
}

/// What the lane remembers, for `recent(tool, span)`.
#[derive(Clone, Debug, Default)]
pub struct Lately {
    /// The actions that began lately.
    pub recent: Recent,
    /// The moment, on the store's clock.
    pub now: Timestamp,
}

impl Gate {
    /// A gate without rules.
    pub fn new(default: Decision) -> Self {
        Gate { default, rules: Arc::default() }
    }

    /// With rules, in their order.
    #[must_use]
    pub fn rules(self, rules: Vec<Rule>) -> Self {
        Gate { rules: rules.into(), ..self }
    }

    /// What is decided where no rule matches.
    pub fn default_decision(&self) -> Decision {
        self.default
    }

    /// Whether some rule asks what began lately.
    pub(crate) fn counts(&self) -> bool {
        self.rules.iter().any(|rule| rule.counts)
    }

    /// Decides about an action.
    pub async fn judge(
        &self,
        origin: &Origin,
        action: &PlannedAction,
        tool: &Tool,
        lately: Lately,
    ) -> Judged {
        if self.rules.is_empty() {
            return Judged { decision: self.default, rule: None, failed: None };
        }
        // Without a rule that was seen to ask for it, the lane has not been read.
        let lately = self.counts().then_some(lately);
        let asked = values::Asked::new(origin, action, tool, lately);
        let asked = match asked {
            Ok(asked) => asked,
            Err(why) => return Judged::failed(&self.rules[0], why),
        };
        match self.rules.iter().find(|rule| rule.walks) {
            None => first_match(&self.rules, self.default, &asked),
            Some(walking) => self.walked(walking, asked).await,
        }
    }

    /// A rule that walks its arguments may take its time, and must not take that of this thread. It ends by itself, so it is waited for.
    async fn walked(&self, walking: &Rule, asked: values::Asked) -> Judged {
        let Ok(Ok(place)) = timeout(limits::RULE_WAIT, WALKERS.acquire()).await else {
            return Judged::failed(walking, "too many other rules walk the arguments of their actions");
        };
        let (rules, default) = (self.rules.clone(), self.default);
        let asking = tokio::task::spawn_blocking(move || {
            let judged = first_match(&rules, default, &asked);
            drop(place);
            judged
        });
        let panicked = |error| Judged::failed(walking, format!("the rules panicked: {error}"));
        asking.await.unwrap_or_else(panicked)
    }
}

fn first_match(rules: &[Rule], default: Decision, asked: &values::Asked) -> Judged {
    let context = asked.context();
    for rule in rules {
        match context.as_ref().map_err(Clone::clone).and_then(|context| rule.matches(context)) {
            Ok(false) => {}
            Ok(true) => {
                return Judged { decision: rule.decision, rule: Some(rule.name.clone()), failed: None };
            }
            Err(why) => return Judged::failed(rule, why),
        }
    }
    Judged { decision: default, rule: None, failed: None }
}

/// A span as rules write it: `90s`, `15m`, `1h`, `2d`.
fn span(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

#[cfg(test)]
mod tests;
