//! The tables of the reference page are made of the rows of [`fields`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::fields::{self, Fields, Kind, Of, Row, Usual};
use super::super::units::{show_duration, show_size};

/// Writes the tables into the page where this variable is set.
const BLESS: &str = "HAPAX_BLESS";
/// How a table begins.
const HEAD: &str = "| field | type | default | meaning |\n|---|---|---|---|\n";

/// The page with each table made anew: the one below the heading of its section (``## `[edge]` ``).
fn with_tables(page: &str) -> String {
    let mut tables = BTreeMap::new();
    tables_of(&fields::ROOT, false, &mut tables);
    let mut made = String::new();
    let mut section = String::new();
    let mut within = false;
    for line in page.split_inclusive('\n') {
        if line.starts_with("## ") {
            line.split('`').nth(1).unwrap_or_default().trim_matches(['[', ']']).clone_into(&mut section);
        }
        let begins = HEAD.starts_with(line);
        within = line.starts_with('|') && (begins || within);
        if begins {
            let table = tables.remove(&*section);
            made +=
                &table.unwrap_or_else(|| panic!("{section:?} is no section, or its table is there twice"));
        } else if !within {
            made += line;
        }
    }
    let left: Vec<_> = tables.keys().collect();
    assert!(left.is_empty(), "the page has no table below the headings of {left:?}");
    made
}

/// The tables of a section and of those below it.
fn tables_of(fields: &'static Fields, restart: bool, tables: &mut BTreeMap<&'static str, String>) {
    let lines = fields.rows.iter().map(|row| line(row, restart, fields.section.is_empty()));
    tables.insert(fields.section, lines.fold(HEAD.to_owned(), |table, line| table + &line));
    for row in fields.rows {
        if let Some(below) = row.kind.below() {
            tables_of(below, restart || row.restart, tables);
        }
    }
}

/// The line of a field; of a section, it leads to its heading.
fn line(row: &Row, restart: bool, is_top: bool) -> String {
    let name = match &row.kind {
        Kind::Table(_) if is_top => format!("[`[{0}]`](#{0})", row.name),
        Kind::Tables(_) if is_top => format!("[`[[{0}]]`](#{0})", row.name),
        _ => format!("`{}`", row.name),
    };
    let restart = if restart || row.restart { " (restart)" } else { "" };
    let of = match row.of {
        Of::Only(kind) => format!("`{kind}`: "),
        _ => String::new(),
    };
    format!("| {name}{restart} | {} | {} | {of}{} |\n", kind(&row.kind), usual(&row.usual), row.meaning)
}

fn kind(kind: &Kind) -> String {
    let span = |least: String, most: String| format!("{least} to {most}");
    match kind {
        Kind::Text(told) => (*told).into(),
        Kind::Characters(most) => format!("1 to {most} characters"),
        Kind::Id(most) => format!("1 to {most} of `a-z`, `0-9`, `-`, `_`"),
        Kind::Words(words) => list(words.iter().map(|word| format!("`\"{word}\"`")), "or"),
        Kind::WordList(words) => {
            format!("array of {}", list(words.iter().map(|word| format!("`\"{word}\"`")), "and"))
        }
        Kind::Duration(range) if range.start().is_zero() => {
            format!("duration, at most {}", show_duration(*range.end()))
        }
        Kind::Duration(range) => {
            format!("duration, {}", span(show_duration(*range.start()), show_duration(*range.end())))
        }
        Kind::Retention(other, range) => {
            let span = span(show_duration(*range.start()), show_duration(*range.end()));
            format!("{other}duration, {span}, or `\"forever\"`")
        }
        Kind::Size(range) if *range.start() == 0 => format!("size, at most {}", show_size(*range.end())),
        Kind::Size(range) => format!("size, {}", span(show_size(*range.start()), show_size(*range.end()))),
        Kind::Integer(range) => span(grouped(*range.start()), grouped(*range.end())),
        Kind::Numbers(numbers) => list(numbers.iter().map(|number| format!("`{number}`")), "or"),
        Kind::Ratio => "number from 0 to 1".into(),
        Kind::Flag => "boolean".into(),
        Kind::FlagOr(word) => format!("boolean or `\"{word}\"`"),
        Kind::List(of, usize::MAX) => format!("array of {of}"),
        Kind::List(of, most) => format!("array of at most {most} {of}"),
        Kind::OneOrList(of, usize::MAX) => format!("{of}, or an array of them"),
        Kind::OneOrList(of, most) => format!("{of}, or an array of at most {most}"),
        Kind::Table(_) => "table".into(),
        Kind::Tables(_) => "array of tables".into(),
        Kind::TableOrTables(_) => "table, or array of tables".into(),
    }
}

fn usual(usual: &Usual) -> String {
    match usual {
        Usual::Is(text) => format!("`\"{text}\"`"),
        Usual::Lasts(duration) => format!("`\"{}\"`", show_duration(*duration)),
        Usual::Count(number) => format!("`{number}`"),
        Usual::Bool(flag) => format!("`{flag}`"),
        Usual::Empty => "`[]`".into(),
        Usual::Absent => "none".into(),
        Usual::Required => "must be said".into(),
        Usual::Told(told) => (*told).into(),
    }
}

/// `a, b or c`.
fn list(items: impl Iterator<Item = String>, last: &str) -> String {
    let items: Vec<_> = items.collect();
    match &items[..] {
        [rest @ .., one] if !rest.is_empty() => format!("{} {last} {one}", rest.join(", ")),
        _ => items.concat(),
    }
}

/// `1,000,000`.
fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[test]
fn the_tables_of_the_reference_page_are_made_of_the_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let made = with_tables(&page);
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(path, made).unwrap();
        return;
    }
    let differs = made.lines().zip(page.lines()).position(|(made, page)| made != page);
    assert!(
        made == page,
        "docs/reference/configuration.md is not what the rows say (line {}): `{BLESS}=1 cargo test -p hapax --lib reference_page` \
         writes its tables anew",
        differs.unwrap_or_default() + 1
    );
}

#[test]
fn a_section_has_each_field_once() {
    let mut sections = Vec::new();
    all(&fields::ROOT, &mut sections);
    for fields in sections {
        let names: BTreeSet<_> = fields.rows.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), fields.rows.len(), "[{}] has a field twice", fields.section);
        for row in fields.rows {
            let cells = line(row, false, false).matches('|').count();
            assert_eq!(cells, 5, "{}.{}: what it tells breaks the table", fields.section, row.name);
            assert!(
                !row.meaning.ends_with('.'),
                "{}.{}: its sentence has no full stop",
                fields.section,
                row.name
            );
        }
    }
}

/// A section and all below it.
pub(super) fn all(fields: &'static Fields, found: &mut Vec<&'static Fields>) {
    if !found.iter().any(|known| known.section == fields.section) {
        found.push(fields);
        fields.rows.iter().filter_map(|row| row.kind.below()).for_each(|below| all(below, found));
    }
}
