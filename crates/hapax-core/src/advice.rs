//! What a caller is told when its call ends: why, whether the work was executed, and whether to try again (E6).
//!
//! [`advice`] is one total function over three small words: what this call's own work came to, what the call has learned of
//! earlier attempts, and the last word it heard. It answers **for the key, not for the attempt**: "no" only where the ledger has
//! vouched that no attempt since the key was last absent can have run. What it vouched for at the grant holds as long as no other
//! attempt is granted, and whether one was, only the ledger knows: so "no" takes its word at the end, too (ADR 50). The library, the
//! edge and the client all read it. The table as text is `advice/table.txt`; a test holds the function against it, word for word.

use std::time::Duration;

use crate::error::{Executed, Retry};
use crate::outcome::Outcome;

/// When a caller that may try again should do so.
const SOON: Duration = Duration::from_secs(1);

/// When a caller should ask again about a doubt: somebody may resolve it meanwhile, and asking has no effect of its own.
const LATER: Duration = Duration::from_secs(10);

/// What this call's own work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// This call has begun nothing.
    Untouched,
    /// It began, and certainly did not run.
    NotRun,
    /// It may have run.
    MayHaveRun,
    /// It ran to its end.
    Ended(Effect),
}

/// What work that came to its end has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// What was asked for.
    Done,
    /// Nothing: it was refused (4xx).
    Nothing,
    /// The end does not tell: a 5xx, or a terminal error without a status.
    Unclear,
}

impl Effect {
    /// What an answer with this HTTP status tells; 0 stands for work that was done and has no status.
    pub fn of_status(status: u16) -> Self {
        match status {
            400..500 => Effect::Nothing,
            500.. => Effect::Unclear,
            _ => Effect::Done,
        }
    }

    /// What a kept outcome tells where its bytes are not looked into.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Succeeded(_) => Effect::Done,
            Outcome::NotKept { status } => Self::of_status(*status),
            Outcome::Refused(_) | Outcome::Erased => Effect::Unclear,
        }
    }

    /// Whether the key's work was executed, given what earlier attempts may have done.
    pub fn executed(self, history: History) -> Executed {
        match (self, history) {
            (Effect::Done, _) => Executed::Yes,
            (Effect::Nothing, History::Clean) => Executed::No,
            (Effect::Nothing | Effect::Unclear, _) => Executed::Unknown,
        }
    }
}

/// What a call has learned of earlier attempts under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum History {
    /// The ledger has not answered yet.
    Unasked,
    /// The ledger vouches that none can have run: granted from absent, released as not run, or cleared.
    Clean,
    /// One may have run: the ledger says so, or another holder was seen.
    MayHaveRun,
    /// Somebody was asked about one, and nobody knows.
    Doubted,
    /// The lease was lost: somebody else may have acted on the claim.
    Taken,
}

impl History {
    /// What the ledger says of the attempts before a grant, or before the one that settled.
    pub fn of(earlier_may_have_run: bool) -> Self {
        if earlier_may_have_run { History::MayHaveRun } else { History::Clean }
    }
}

/// The last word that a call heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastWord {
    /// There is an outcome, and this is what it tells of the work.
    Kept(Effect),
    /// The key was used for another request.
    Differs,
    /// The claim was hashed by a recipe that this process does not know.
    OtherRecipe,
    /// The ledger cannot accept the call.
    Invalid,
    /// What is stored cannot be read.
    Damaged,
    /// hapax contradicted itself.
    Broken,
    /// Somebody had the claim, and now there is none.
    Gone,
    /// Somebody has the claim.
    Held,
    /// The claim is in doubt.
    InDoubt,
    /// The outcome is in the spool, and will be settled.
    Spooled,
    /// The call goes on without its caller.
    NotYet,
    /// The ledger did not answer.
    Away,
    /// This call gave the claim back.
    GivenBack,
    /// Somebody else had the claim, and gave it back.
    GivenBackByAnother,
}

impl LastWord {
    /// Whether the ledger has said it, about the claim as it stood then. Any other word was said without it.
    pub fn is_the_ledgers(self) -> bool {
        match self {
            LastWord::Kept(_)
            | LastWord::Differs
            | LastWord::OtherRecipe
            | LastWord::Gone
            | LastWord::Held
            | LastWord::InDoubt
            | LastWord::GivenBack
            | LastWord::GivenBackByAnother => true,
            LastWord::Invalid
            | LastWord::Damaged
            | LastWord::Broken
            | LastWord::Spooled
            | LastWord::NotYet
            | LastWord::Away => false,
        }
    }
}

/// Why the time of a call was over before its work began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delay {
    /// It was not.
    None,
    /// The ledger took it.
    Ledger,
    /// The service did, when it was asked about an earlier attempt.
    Service,
}

/// Why a caller has no outcome. Each stands for one problem code at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// There is one: the caller gets it.
    Outcome,
    /// The key was used for another request.
    KeyReused,
    /// The call cannot be accepted.
    Malformed,
    /// What is kept cannot be read.
    Damaged,
    /// hapax contradicted itself.
    Broken,
    /// The key is used up, and its answer is not kept.
    NotKept,
    /// Somebody is running it.
    InProgress,
    /// Nobody knows whether the work was done.
    OutcomeUnknown,
    /// The outcome waits to be recorded.
    OutcomePending,
    /// The service has not answered in time; the call goes on.
    UpstreamTimeout,
    /// The ledger cannot be asked.
    LedgerAway,
    /// The ledger took the time of the call before the work began.
    LedgerLate,
    /// The service was not reached, and no attempt under this key has run.
    NotReached,
    /// The attempt failed and was given back.
    AttemptFailed,
}

impl Why {
    /// The problem code, the same at the edge, in the library's documentation and in the client.
    pub fn code(self) -> &'static str {
        match self {
            Why::Outcome => "outcome",
            Why::KeyReused => "key-reused",
            Why::Malformed => "request-malformed",
            Why::Damaged | Why::Broken => "internal",
            Why::NotKept => "outcome-not-kept",
            Why::InProgress => "in-progress",
            Why::OutcomeUnknown => "outcome-unknown",
            Why::OutcomePending => "outcome-pending",
            Why::UpstreamTimeout => "upstream-timeout",
            Why::LedgerAway | Why::LedgerLate => "ledger-unavailable",
            Why::NotReached => "upstream-unreachable",
            Why::AttemptFailed => "attempt-failed",
        }
    }
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Why there is no outcome.
    pub why: Why,
    /// Whether the work was executed, by any attempt under this key.
    pub executed: Executed,
    /// Whether to try again.
    pub retry: Retry,
}

impl Advice {
    fn new(why: Why, executed: Executed, retry: Retry) -> Self {
        Advice { why, executed, retry }
    }
}

/// What a caller is told whose call ended like this. `delay` says who took the time of work that did not begin; `safe`, whether
/// the work may run again after doubt.
pub fn advice(work: Work, history: History, last: LastWord, delay: Delay, safe: bool) -> Advice {
    let never = |why, executed| Advice::new(why, executed, Retry::Never);
    let soon = |why, executed| Advice::new(why, executed, Retry::SameKey(SOON));
    let later = |executed| Advice::new(Why::OutcomeUnknown, executed, Retry::SameKey(LATER));
    match (work, history, last) {
        (_, _, LastWord::Kept(effect)) => never(Why::Outcome, effect.executed(history)),
        (Work::Untouched, _, LastWord::Differs) => never(Why::KeyReused, Executed::No),
        (Work::Untouched, _, LastWord::OtherRecipe) => never(Why::KeyReused, Executed::Unknown),
        (Work::Untouched, History::Unasked, LastWord::Invalid) => never(Why::Malformed, Executed::No),
        (Work::Untouched, _, LastWord::Invalid) => never(Why::Malformed, Executed::Unknown),
        (_, _, LastWord::Damaged) => never(Why::Damaged, at_least(work)),
        (_, _, LastWord::Broken) => never(Why::Broken, at_least(work)),
        (_, _, LastWord::Gone) => never(Why::NotKept, at_least(work)),
        (_, _, LastWord::Held) => soon(Why::InProgress, at_least(work)),
        (_, _, LastWord::InDoubt) => later(at_least(work)),
        (Work::Ended(_), _, LastWord::Spooled) => soon(Why::OutcomePending, at_least(work)),
        (Work::Ended(_), _, LastWord::NotYet) => soon(Why::InProgress, at_least(work)),
        (Work::NotRun, _, LastWord::NotYet) => soon(Why::InProgress, Executed::Unknown),
        (Work::MayHaveRun, _, LastWord::NotYet) => soon(Why::UpstreamTimeout, Executed::Unknown),
        (_, History::Taken, LastWord::Away) => later(at_least(work)),
        (Work::Untouched, History::Doubted, LastWord::Away) => later(Executed::Unknown),
        (Work::Untouched, _, LastWord::Away) => soon(Why::LedgerAway, Executed::Unknown),
        (Work::Untouched, _, LastWord::GivenBack) => match delay {
            Delay::Service => soon(Why::AttemptFailed, unless_clean(history)),
            Delay::None | Delay::Ledger => soon(Why::LedgerLate, unless_clean(history)),
        },
        (Work::NotRun, History::Clean, LastWord::GivenBack) => soon(Why::NotReached, Executed::No),
        (Work::NotRun, _, LastWord::GivenBack | LastWord::Away) => {
            soon(Why::AttemptFailed, Executed::Unknown)
        }
        (Work::MayHaveRun, _, LastWord::GivenBack) => soon(Why::AttemptFailed, Executed::Unknown),
        (Work::MayHaveRun, _, LastWord::Away) if safe => soon(Why::AttemptFailed, Executed::Unknown),
        (Work::MayHaveRun, _, LastWord::Away) => later(Executed::Unknown),
        (Work::Ended(_), _, LastWord::Away | LastWord::GivenBackByAnother) => later(at_least(work)),
        (_, _, LastWord::GivenBackByAnother) => soon(Why::AttemptFailed, Executed::Unknown),
        _ => never(Why::Broken, Executed::Unknown),
    }
}

/// What a caller without a key is told, whose work failed like this.
pub fn unkeyed(work: Work) -> Advice {
    match work {
        Work::Untouched | Work::NotRun => Advice::new(Why::AttemptFailed, Executed::No, Retry::SameKey(SOON)),
        // Another run could do it twice.
        _ => Advice::new(Why::AttemptFailed, Executed::Unknown, Retry::Never),
    }
}

/// That the work was done stands, whatever is heard later; anything less is not known.
fn at_least(work: Work) -> Executed {
    match work {
        Work::Ended(Effect::Done) => Executed::Yes,
        _ => Executed::Unknown,
    }
}

fn unless_clean(history: History) -> Executed {
    match history {
        History::Clean => Executed::No,
        _ => Executed::Unknown,
    }
}

#[cfg(test)]
pub(crate) mod tests;
