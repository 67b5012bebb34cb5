//! How one operation is protected. Made from a configuration, or in code by whoever uses the layer.

use std::time::Duration;

use hapax_core::claim::DoubtEnds;
use hapax_core::{Error, Operation, Policy, Recipe, Rerun, Retention, Source, Width};
use hapax_exec::Attach;

use crate::key::Keys;
use crate::limits;

/// How one operation is protected.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The name its claims are kept under: unique, and the first one that the operation had. It never changes (K6).
    pub operation: Operation,
    /// What the operation is called now, where that is another name: a label.
    pub label: Option<Operation>,
    /// What is demanded of a key.
    pub policy: Policy,
    /// A prohibited key is ignored instead of refused (P1).
    pub lenient: bool,
    /// Where a key may stand beside `Idempotency-Key`, and what it consists of (K1, K2).
    pub keys: Keys,
    /// Who shares an outcome (K8).
    pub width: Width,
    /// What makes two requests the same (K7).
    pub recipe: Recipe,
    /// May the work run again when nobody knows whether it ran (L6)?
    pub rerun: Rerun,
    /// With a safe rerun: how long a former run must have been silent.
    pub quiet: Duration,
    /// How long one attempt may be renewed (L4).
    pub max_run: Duration,
    /// What becomes of a doubt that nobody resolves.
    pub doubt: Option<DoubtEnds>,
    /// Ends the caller's wait; the call goes on (H5).
    pub timeout: Duration,
    /// Ends the call; zero where it never is (H5).
    pub give_up: Duration,
    /// How long an outcome is kept.
    pub retention: Retention,
    /// What a second caller does while the first one runs.
    pub attach: Attach,
    /// How much of an answer is kept.
    pub keep: Keep,
    /// Which answers are kept.
    pub kept_answers: KeptAnswers,
    /// What is done with answers of status 5xx, where not what follows from `rerun` (H4).
    pub on_5xx: Option<On5xx>,
    /// The status of a mismatch: 422, or 409 for callers that expect that.
    pub mismatch_status: u16,
    /// The longest request body.
    pub max_request_body: usize,
    /// The longest answer that is kept; never more than [`MOST_KEPT_RESPONSE`](crate::limits::MOST_KEPT_RESPONSE).
    pub max_kept_response: usize,
    /// Without a key, what is asked is the key for this long (H9).
    pub derived: Option<Duration>,
}

/// How much of an answer is kept (B9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All of it.
    #[default]
    Full,
    /// Status and headers.
    Head,
    /// That it happened.
    Fact,
}

/// Which answers are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeptAnswers {
    /// Whatever ends the work, refusals among them (H4).
    #[default]
    Usual,
    /// Only those that say that the work was done: to the sender of a webhook any other is a failed delivery, which it sends again (W8).
    Successes,
    /// These, and refusals of status 4xx: what a redirect or a failing service answers is a failed delivery still (W8).
    SuccessesAnd4xx,
}

/// What is done with answers of status 5xx (H4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On5xx {
    /// Nothing happened: the key is free again.
    Release,
    /// It is the answer.
    Keep,
    /// Nobody knows.
    Doubt,
}

impl Rule {
    /// The defaults: a key is required, nothing runs twice, outcomes are kept for a day.
    pub fn new(operation: &str) -> Result<Self, Error> {
        Ok(Rule {
            operation: Operation::new(operation)?,
            label: None,
            policy: Policy::RequiredA,
            lenient: false,
            keys: Keys::default(),
            width: Width::Subject,
            recipe: Recipe::raw(),
            rerun: Rerun::Unsafe,
            quiet: Duration::ZERO,
            max_run: hapax_core::limits::DEFAULT_MAX_RUN,
            doubt: None,
            timeout: limits::TIMEOUT,
            give_up: limits::GIVE_UP,
            retention: Retention::For(limits::RETENTION),
            attach: Attach::Wait(limits::ATTACH),
            keep: Keep::Full,
            kept_answers: KeptAnswers::Usual,
            on_5xx: None,
            mismatch_status: 422,
            max_request_body: limits::REQUEST_BODY,
            max_kept_response: limits::KEPT_RESPONSE,
            derived: None,
        })
    }

    /// How long the outcome of a key that was found like this is kept: what is asked is the key only for a while, counted from
    /// the grant, whatever becomes of it (H9).
    pub fn retention_of(&self, source: Source) -> Retention {
        match (source, self.derived) {
            (Source::Derived, Some(window)) => Retention::SinceGrant(window),
            _ => self.retention,
        }
    }

    /// How the keys that are sent are found: in headers and bodies of callers, or in what the transport carries (P1).
    pub fn source(&self) -> Source {
        match self.policy {
            Policy::RequiredB => Source::Transport,
            _ => Source::Header,
        }
    }

    /// The longest answer that is kept: what does not fit into the spool is not.
    pub(crate) fn most_kept(&self) -> usize {
        self.max_kept_response.min(limits::MOST_KEPT_RESPONSE)
    }

    /// Gives the operation a name, and the one that it had first, where that is another one (K6).
    pub fn call(&mut self, name: Operation, first: Option<Operation>) {
        let first = first.unwrap_or_else(|| name.clone());
        self.label = (first != name).then_some(name);
        self.operation = first;
    }

    /// What the operation is called now.
    pub fn name(&self) -> &Operation {
        self.label.as_ref().unwrap_or(&self.operation)
    }
}
