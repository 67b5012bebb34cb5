//! Behaviour as text: one event per line, with the answer it must get.
//!
//! ```text
//! # A second caller is held while the first one runs (L2, L9)
//! alice: claim key=k1 body=pay-10     -> granted
//! bob:   claim key=k1 body=pay-10     -> held
//! bob:   claim key=k1 body=pay-99     -> mismatch
//! alice: settle ok:done               -> settled ok:done
//! bob:   claim key=k1 body=pay-10     -> replay ok:done
//! time +25h
//! bob:   claim key=k1 body=pay-10     -> granted
//! ```
//!
//! The same file drives the rules alone ([`rules::RulesDriver`]), every store ([`store::play_all`]), and what stands above them:
//! whatever implements [`Driver`].
//!
//! # The language
//!
//! `#` starts a comment; the first one is the title. Names before a colon are **actors**: each is a process with a
//! session and a memory of its own. `key=` may be left out: an actor then means the key it named last, or
//! else the key that was named last in the file.
//!
//! | line | meaning | answers |
//! |---|---|---|
//! | `needs: sessions` | only for stores where every actor has its own session; must stand above all events | |
//! | `terms rerun=safe quiet=5m give_up=1m max_run=1h doubt=release:1h retention=24h` | from here on, claims and settles say this | |
//! | `alice: claim key=k1 body=b …` | asks, under a new attempt id; terms can follow | `granted first` `granted again` (an earlier attempt may have run) `must-ask` `replay OUTCOME` `held` `mismatch` `in-doubt REASON` `spent` |
//! | `alice: resend` | sends the last claim of this key again, under the same attempt id | as `claim` |
//! | `alice: renew`, `alice: cleared` | reports of the holder | `renewed` `lost-lease` `already-settled OUTCOME` |
//! | `alice: settle OUTCOME` | `retention=` can follow | `settled OUTCOME` and the above |
//! | `alice: release`, `alice: release perhaps` | it did not run; it may have run; `waived` counts as `perhaps` | `released` `in-doubt` and the above |
//! | `alice: doubt REASON` | `failed`, `stated` or `paused` | `in-doubt` and the above |
//! | `alice: set key=k1 body=b OUTCOME` | keeps an outcome where nothing is | `stored OUTCOME` `present …` |
//! | `alice: peek` | reads | `absent` `held` `settled OUTCOME` `in-doubt REASON` `released` |
//! | `olga: look` | an operator reads the epoch and remembers it | `absent` `seen` |
//! | `olga: resolve release`, `… force` | an operator decides, on the present epoch; `seen=looked` on the remembered one, `seen=stale` on one that never was | `done` `changed` `not-applicable STATE` `may-still-run` `absent` |
//! | `olga: resolve settle OUTCOME`, `olga: reopen`, `olga: purge`, `olga: erase` | likewise | likewise |
//! | `sweep` | sweeps everything that is due | `nothing`, or `forgotten=N released=N in-doubt=N` without the zeros |
//! | `time +25h` | time passes; sessions of actors that are alive are renewed meanwhile | |
//! | `lapse alice`, `lapse everyone` | the actor is not heard of until its session's term is over; it keeps its memory | |
//! | `crash alice`, `crash everyone` | likewise, and its memory is gone | |
//! | `revive alice` | the session that lapsed is renewed after all | |
//! | `restart alice` | a new session; needed before a claim by an actor that lapsed or crashed | |
//!
//! An OUTCOME is `ok:TEXT`, `refused:TEXT`, `not-kept:STATUS` or `erased`. An expected answer may leave out
//! the words at the end: `in-doubt` stands for every reason. `lapse` and `crash` let up to a minute pass, so
//! a scenario must not depend on less than that around them.

mod driver;
mod parse;
pub mod rules;
mod run;
pub mod store;
mod text;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use hapax_core::{Outcome, Report, Retention, Terms, Verb};

pub use driver::{Driver, ScenarioAsk, Who};
pub use run::run;

/// One file of the language.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name, without its directory.
    pub file: String,
    /// The first comment.
    pub title: String,
    /// Whether it needs a session of its own for every actor.
    pub needs_sessions: bool,
    /// The events in order.
    pub lines: Vec<Line>,
}

/// One event with what it must answer.
#[derive(Clone, Debug)]
pub struct Line {
    /// The line's number in the file, from 1.
    pub number: usize,
    /// What happens.
    pub event: Event,
    /// The words the answer must begin with; `None` when any answer will do.
    pub expected: Option<String>,
}

/// What can happen in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An actor does something to a claim.
    Act {
        /// Who.
        actor: String,
        /// Under which key.
        key: String,
        /// What.
        act: Act,
    },
    /// The sweeper comes by.
    Sweep,
    /// Time passes.
    Time(Duration),
    /// Sessions end.
    Lapse(Who),
    /// Sessions end, and memory with them.
    Crash(Who),
    /// A lapsed session is renewed.
    Revive(String),
    /// An actor gets a new session.
    Restart(String),
}

/// What an actor can do.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Asks for a grant.
    Claim {
        /// What is asked.
        body: String,
        /// What the grant should be made under.
        terms: Terms,
    },
    /// Asks the same again under the same attempt id.
    Resend,
    /// Keeps an outcome where nothing is.
    Set {
        /// What would have been asked.
        body: String,
        /// What the grant would be made under.
        terms: Terms,
        /// What to keep.
        outcome: Outcome,
        /// How long.
        retention: Retention,
    },
    /// Reports under the epoch the actor was granted.
    Report(Report),
    /// Reads.
    Peek,
    /// Reads the epoch and remembers it.
    Look,
    /// Decides as an operator.
    Decide(Verb, Seen),
}

/// Which epoch an operator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The present one.
    Present,
    /// The one it looked at before.
    Looked,
    /// One that the claim never had.
    Stale,
}

/// A scenario that cannot be read, or that did not go as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The file's name.
    pub file: String,
    /// The line's number, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for Failure {}

impl Scenario {
    /// Reads a scenario. Every mistake is named with its line.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, Failure> {
        parse::scenario(file, text)
    }
}

/// All scenarios of the project, in the order of their names.
pub fn all() -> Result<Vec<Scenario>, Failure> {
    read_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios")))
}

/// All scenarios (`*.txt`) of a directory, in the order of their names.
pub fn read_dir(dir: &Path) -> Result<Vec<Scenario>, Failure> {
    let unreadable = |error: std::io::Error| Failure {
        file: dir.display().to_string(),
        line: 0,
        message: format!("cannot be read: {error}"),
    };
    let entries = std::fs::read_dir(dir).map_err(unreadable)?;
    let mut paths =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths.iter().map(|path| read_file(path)).collect()
}

fn read_file(path: &Path) -> Result<Scenario, Failure> {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let text = std::fs::read_to_string(path).map_err(|error| Failure {
        file: file.clone(),
        line: 0,
        message: format!("cannot be read: {error}"),
    })?;
    Scenario::parse(&file, &text)
}
