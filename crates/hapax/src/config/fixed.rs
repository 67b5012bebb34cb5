//! What a running process cannot change: it is read when the process starts, and a reload leaves it as it was (P5).
//!
//! The rows of [`fields`](super::fields) mark it. What they do not mark takes effect with a reload.

use super::Config;
use super::fields::{self, Fields, Kind, Row};
use super::show::{Entries, Shown};

impl Config {
    /// What differs from the configuration that a process was started with and takes effect only after a restart, as it is
    /// written in the file.
    pub(crate) fn fixed_since(&self, started: &Config) -> Vec<String> {
        let mut found = Vec::new();
        compare(&fields::ROOT, "", &self.shown_but_routes(), &started.shown_but_routes(), &mut found);
        found
    }
}

fn compare(fields: &Fields, path: &str, now: &Entries, was: &Entries, found: &mut Vec<String>) {
    for row in fields.rows {
        let (now, was) = (told(row, now), told(row, was));
        match row.kind {
            _ if row.restart && now != was => found.push(format!("{path}{}", row.name)),
            Kind::Table(below) if !row.restart => {
                compare(below, &format!("{path}{}.", row.name), table(now), table(was), found);
            }
            _ => {}
        }
    }
}

fn told<'e>(row: &Row, entries: &'e Entries) -> Option<&'e Shown> {
    entries.iter().find(|(name, _)| row.tells(name)).map(|(_, value)| value)
}

/// What a section shows; nothing where there is none.
fn table(value: Option<&Shown>) -> &Entries {
    match value {
        Some(Shown::Table(entries)) => entries,
        _ => const { &Vec::new() },
    }
}
