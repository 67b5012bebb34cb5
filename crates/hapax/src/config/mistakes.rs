//! What is wrong with a configuration: where, what, and how to mend it (P5).
//!
//! Reading goes on after a mistake, so that one run of `hapax config check` tells all of them. What a mistake is, the files
//! beside this one say.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::limits;

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: Arc<PathBuf>,
    /// Where in it.
    pub within: Within,
}

/// A place within a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Within {
    /// The file as a whole.
    File,
    /// A line and a column, both from 1.
    Line(usize, usize),
    /// A JSON pointer, in an OpenAPI document.
    Pointer(String),
}

impl Place {
    /// How a mistake in the same file refers to this place.
    pub(crate) fn short(&self) -> String {
        match &self.within {
            Within::File => "this file".into(),
            Within::Line(line, _) => format!("line {line}"),
            Within::Pointer(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.within {
            Within::File => write!(f, "{file}"),
            Within::Line(line, column) => write!(f, "{file}:{line}:{column}"),
            Within::Pointer(pointer) => write!(f, "{file}#{pointer}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where.
    pub place: Place,
    /// What.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.what, self.remedy)
    }
}

/// Everything that is wrong, in the order of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// Puts them in order, those of `first` before those of other files, and each once.
    pub(crate) fn new(mut found: Vec<Mistake>, first: &Arc<PathBuf>) -> Self {
        found.sort_by(|a, b| {
            let rank = |mistake: &Mistake| mistake.place.file != *first;
            rank(a).cmp(&rank(b)).then_with(|| (&a.place, &a.what).cmp(&(&b.place, &b.what)))
        });
        found.dedup();
        found.truncate(limits::MISTAKES);
        Mistakes(found)
    }

    /// One by one.
    pub fn iter(&self) -> std::slice::Iter<'_, Mistake> {
        self.0.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none; never true of what [`load`](super::load) returns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}
