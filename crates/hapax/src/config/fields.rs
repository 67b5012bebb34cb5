//! Every field that a configuration can have: one row each.
//!
//! The reader refuses what has no row here and takes ranges and words from the rows; `hapax config show` follows their order; what
//! a reload cannot change is marked in them; and the tables of `docs/reference/configuration.md` are made of them, as a test sees.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The fields of one section.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The section as the reference page calls it; empty for the top of the file. A name in angle brackets stands for names that
    /// the user chooses.
    pub(crate) section: &'static str,
    /// Its fields, in the order in which they are shown.
    pub(crate) rows: &'static [Row],
}

/// One field. Of one whose name is in angle brackets, users choose the name.
#[derive(Debug)]
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "what only the reference page tells is read by the test that makes it")
)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// What holds where it is not written.
    pub(crate) usual: Usual,
    /// What it is for, in Markdown.
    pub(crate) meaning: &'static str,
    /// What it applies to.
    pub(crate) of: Of,
    /// Whether a change takes effect only after a restart, with everything below it.
    pub(crate) restart: bool,
    /// How `hapax config show` tells it.
    pub(crate) shown: Shown,
}

/// What a field takes.
#[derive(Debug)]
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "what only the reference page tells is read by the test that makes it")
)]
pub(crate) enum Kind {
    /// A string of a form of its own.
    Text(&'static str),
    /// A string of at most so many characters.
    Characters(usize),
    /// A name of at most so many small letters, digits, `-` and `_`.
    Id(usize),
    /// One of these words.
    Words(&'static [&'static str]),
    /// An array of these words.
    WordList(&'static [&'static str]),
    Duration(&'static RangeInclusive<Duration>),
    /// A duration or `"forever"`, and what else it may be.
    Retention(&'static str, &'static RangeInclusive<Duration>),
    Size(&'static RangeInclusive<u64>),
    Integer(&'static RangeInclusive<i64>),
    /// One of these numbers.
    Numbers(&'static [i64]),
    /// A number from 0 to 1.
    Ratio,
    Flag,
    /// True, false or this word.
    FlagOr(&'static str),
    /// An array of at most so many strings.
    List(&'static str, usize),
    /// One string, or an array of at most so many.
    OneOrList(&'static str, usize),
    Table(&'static Fields),
    /// An array of tables.
    Tables(&'static Fields),
    /// One table, or an array of them.
    TableOrTables(&'static Fields),
}

impl Kind {
    /// The fields of the sections that it takes.
    pub(crate) fn below(&self) -> Option<&'static Fields> {
        match self {
            Kind::Table(fields) | Kind::Tables(fields) | Kind::TableOrTables(fields) => Some(fields),
            _ => None,
        }
    }
}

/// As many as one likes.
const UNBOUNDED: usize = usize::MAX;

/// What holds where a field is not written.
#[derive(Debug)]
#[cfg_attr(not(test), allow(dead_code, reason = "the reference page and a test of the defaults read it"))]
pub(crate) enum Usual {
    /// This string.
    Is(&'static str),
    /// This duration.
    Lasts(Duration),
    /// This number.
    Count(i64),
    Bool(bool),
    /// An empty array.
    Empty,
    /// Nothing.
    Absent,
    /// It must be written.
    Required,
    /// What cannot be said with one value, in Markdown.
    Told(&'static str),
}

/// What a field applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Everything that the section is about.
    All,
    /// What is of this `kind`, and there is no such field otherwise.
    Only(&'static str),
    /// Routes that take keys.
    Keyed,
    /// The same where the claim is in the ledger, and not with a cluster.
    Ledger,
}

/// How `hapax config show` tells a field.
#[derive(Debug)]
#[cfg_attr(not(test), allow(dead_code, reason = "why a field is not shown is for those who read its row"))]
pub(crate) enum Shown {
    /// By its name.
    Plainly,
    /// By another name, as a secret is, wherever it comes from.
    As(&'static str),
    /// Not at all, for this reason.
    Never(&'static str),
}

const fn row(name: &'static str, kind: Kind, usual: Usual, meaning: &'static str) -> Row {
    Row { name, kind, usual, meaning, of: Of::All, restart: false, shown: Shown::Plainly }
}

/// Marks of a row.
impl Row {
    const fn of(mut self, of: Of) -> Self {
        self.of = of;
        self
    }

    const fn restart(mut self) -> Self {
        self.restart = true;
        self
    }

    const fn shown_as(mut self, name: &'static str) -> Self {
        self.shown = Shown::As(name);
        self
    }

    const fn never_shown(mut self, reason: &'static str) -> Self {
        self.shown = Shown::Never(reason);
        self
    }
}

/// The words of a table in which each stands for something.
const fn words<T, const N: usize>(table: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = table[at].0;
        at += 1;
    }
    words
}

/// `"name": kind, default, marks => meaning;`, once for each field.
macro_rules! sections {
    ($($(#[$doc:meta])* $id:ident = $section:literal {
        $($name:literal: $kind:expr, $usual:expr $(, $mark:ident $(($with:expr))?)* => $meaning:literal;)*
    })*) => {
        #[allow(unused_imports, reason = "no section has fields of every kind")]
        use $crate::config::fields::{Kind::*, Of::*, Usual::*};
        $($(#[$doc])* pub(crate) static $id: Fields = Fields {
            section: $section,
            rows: &[$(row($name, $kind, $usual, $meaning)$(.$mark($($with)?))*),*],
        };)*
    };
}

mod agents;
mod auth;
mod keeping;
mod listeners;
mod routes;
mod webhooks;

pub(crate) use agents::*;
pub(crate) use auth::*;
pub(crate) use keeping::*;
pub(crate) use listeners::*;
pub(crate) use routes::*;
pub(crate) use webhooks::*;

sections! {
    /// The top of the file.
    ROOT = "" {
        "retired": List("names", UNBOUNDED), Empty =>
            "operations that have no route any more, by any of their names. Without it a reload that drops a route on which \
             claims rest is refused, and a start tells of such claims; the same of deliveries that are not taken any more, by \
             the operation of each webhook (`webhook.github.wh_…`), unless the webhook is revoked. Their outcomes stay as \
             long as they are kept; no caller can fetch them";
        "edge": Table(&EDGE), Absent =>
            "the listener, and what holds for every route";
        "admin": Table(&ADMIN), Absent =>
            "the operators' listener";
        "api": Table(&API), Absent, restart =>
            "the applications' listener; without it there is none";
        "store": Table(&STORE), Absent =>
            "where claims are kept";
        "retention": Table(&RETENTION), Absent =>
            "how long outcomes are kept";
        "auth": Table(&AUTH), Absent =>
            "who may come in; without it, nobody but for public routes";
        "seal": Table(&SEAL), Absent, restart =>
            "keys for encryption at rest; without it nothing is sealed";
        "log": Table(&LOG), Absent =>
            "what the process tells";
        "traces": Table(&TRACES), Absent, restart =>
            "where spans of requests go; without it none are recorded";
        "tenants": Table(&TENANTS), Absent =>
            "what one tenant may use";
        "upstreams": Table(&UPSTREAMS), Absent =>
            "the services behind";
        "routes": Tables(&ROUTE), Absent =>
            "which requests go where, and how they are protected";
        "webhooks": Table(&WEBHOOKS), Absent =>
            "where deliveries of providers come in, and where they go";
        "schedules": Tables(&SCHEDULE), Absent =>
            "what is dispatched at planned times";
        "actions": Table(&ACTIONS), Absent =>
            "how actions of agents are done";
        "connectors": Table(&CONNECTORS), Absent =>
            "the systems that tools of agents are on";
        "trust": Table(&TRUST), Absent =>
            "what agents may do; without it, everything";
        "openapi": Tables(&OPENAPI), Absent, never_shown("the routes of the documents are shown") =>
            "documents to read routes from";
    }
}

impl Fields {
    /// The fields that something of this `kind` has.
    pub(crate) fn rows_of(&self, kind: &str) -> impl Iterator<Item = &'static Row> {
        self.rows.iter().filter(move |row| !matches!(row.of, Of::Only(only) if only != kind))
    }

    /// Their names; those that users choose are not among them.
    pub(crate) fn names(&self, kind: &str) -> impl Iterator<Item = &'static str> {
        self.rows_of(kind).map(|row| row.name).filter(|name| !name.starts_with('<'))
    }

    /// Whether users choose names.
    pub(crate) fn is_free(&self) -> bool {
        self.rows.iter().any(Row::is_free)
    }
}

impl Row {
    /// Whether this name in `hapax config show` is about it.
    pub(crate) fn tells(&self, name: &str) -> bool {
        match self.shown {
            Shown::Plainly => self.name == name,
            Shown::As(other) => other == name,
            Shown::Never(_) => false,
        }
    }

    /// Whether users choose its name.
    pub(crate) fn is_free(&self) -> bool {
        self.name.starts_with('<')
    }
}

/// The word that was probably meant: at most two letters away, and closer than half of its length.
pub(crate) fn nearest<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let written = written.to_ascii_lowercase();
    let distances = words.into_iter().map(|word| (distance(&written, &word.to_ascii_lowercase()), word));
    let (distance, word) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 && distance * 2 < word.len()).then_some(word)
}

/// How many letters must be added, removed, changed or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let changed = rows[i][j] + usize::from(a != b);
            let mut least = changed.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        let meant = |fields: &Fields, name| nearest(name, fields.names(""));
        assert_eq!(meant(&EDGE, "listne"), Some("listen"));
        assert_eq!(meant(&ROUTE, "Operation"), Some("operation"));
        assert_eq!(meant(&ROUTE, "polcy"), Some("policy"));
        assert_eq!(meant(&ROUTE, "colour"), None);
        assert_eq!(meant(&LOG, "x"), None);
    }
}
