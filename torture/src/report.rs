//! What a run found, as a table and as a verdict.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hapax_testkit::upstream::Effect;

use crate::check::History;

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was done.
    pub title: String,
    /// The command that does it again.
    pub again: String,
    /// One line for each kind of fault.
    pub rows: Vec<Row>,
    /// Everything that must not be.
    pub violations: Vec<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// How long it took.
    pub took: Duration,
    keys: usize,
    answers: usize,
    effects: usize,
    failures: BTreeMap<String, usize>,
}

/// One kind of fault, and what it left.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// How often it was tried.
    pub tries: usize,
    /// How often it happened.
    pub kills: usize,
    /// How often with a claim in the state that belongs to it.
    pub hits: usize,
    /// How often everybody was answered before it could happen.
    pub missed: usize,
    states: BTreeMap<String, usize>,
    effects: BTreeMap<usize, usize>,
}

impl Row {
    /// An empty row.
    pub fn new(name: &str) -> Row {
        Row { name: name.to_owned(), ..Row::default() }
    }

    /// A claim was found like this.
    pub fn found(&mut self, state: &str, effects: usize) {
        *self.states.entry(state.to_owned()).or_default() += 1;
        *self.effects.entry(effects).or_default() += 1;
    }
}

impl Report {
    /// An empty report.
    pub fn new(title: impl Into<String>, again: impl Into<String>) -> Report {
        Report { title: title.into(), again: again.into(), ..Report::default() }
    }

    /// Judges a history and adds it.
    pub fn add(&mut self, history: &History, effects: &[Effect]) {
        self.keys += history.keys();
        self.answers += history.answers();
        self.effects += effects.len();
        for (code, count) in history.failures() {
            *self.failures.entry(code.clone()).or_default() += count;
        }
        self.violations.extend(history.judge(effects));
    }

    /// Whether nothing was found that must not be.
    pub fn is_green(&self) -> bool {
        self.violations.is_empty()
    }

    /// Kills and other faults in all.
    pub fn kills(&self) -> usize {
        self.rows.iter().map(|row| row.kills).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({:.1} s)", self.title, self.took.as_secs_f64())?;
        if !self.rows.is_empty() {
            writeln!(f, "  {:<26} {:>5} {:>5}  {:<44} effects", "point", "kills", "hits", "states found")?;
        }
        for row in &self.rows {
            let (states, effects) = (counted(&row.states), counted(&row.effects));
            let line = format!("  {:<26} {:>5} {:>5}  {states:<44} {effects}", row.name, row.kills, row.hits);
            writeln!(f, "{}", line.trim_end())?;
        }
        write!(f, "  {} keys, {} answers, {} effects", self.keys, self.answers, self.effects)?;
        for (code, count) in &self.failures {
            write!(f, ", {code} {count}")?;
        }
        writeln!(f)?;
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        if self.is_green() {
            return writeln!(f, "  nothing was lost and nothing ran twice");
        }
        for violation in self.violations.iter().take(40) {
            writeln!(f, "  VIOLATION {violation}")?;
        }
        writeln!(f, "  {} violations; repeat with: {}", self.violations.len(), self.again)
    }
}

fn counted<K: fmt::Display>(counts: &BTreeMap<K, usize>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name}: {count}")).collect();
    parts.join(", ")
}
