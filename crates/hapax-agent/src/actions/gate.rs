//! What may happen, and what is raised for people: the gate that every action passes that changes something (X6).

use super::plan::Disposition;

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
    /// As it is written everywhere.
    pub fn parse(text: &str) -> Option<Self> {
        [("ALLOW", Decision::Allow), ("ALERT", Decision::Alert), ("BLOCK", Decision::Block)]
            .into_iter()
            .find_map(|(word, decision)| (word == text).then_some(decision))
    }

    pub(crate) fn disposition(self) -> Disposition {
        match self {
            Decision::Allow => Disposition::Allow,
            Decision::Alert => Disposition::Alert,
            Decision::Block => Disposition::Block,
        }
    }
}

/// The rules, the first of which that matches decides.
#[derive(Clone, Debug)]
pub struct Gate {
    default: Decision,
}

impl Gate {
    /// A gate without rules.
    pub fn new(default: Decision) -> Self {
        Gate { default }
    }

    /// What is decided where no rule matches.
    pub fn default_decision(&self) -> Decision {
        self.default
    }
}
