//! What commands print: data to standard output, everything else to standard error; and tables for people.

use std::io::{ErrorKind, Write as _};

use serde::Serialize;

use super::Failed;
use crate::limits;

/// A line of data. Whoever reads may have gone; then there is nobody to tell. Anything else that keeps it from being written
/// is a failure: a script must not take it for having been told.
pub(crate) fn data(line: impl AsRef<str>) -> Result<(), Failed> {
    match writeln!(std::io::stdout().lock(), "{}", line.as_ref()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failed::unavailable(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// A line for people.
pub(crate) fn note(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stderr().lock(), "{}", line.as_ref());
}

/// JSON as data.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failed> {
    let text = serde_json::to_string_pretty(value);
    data(text.map_err(|error| Failed::unavailable(format!("the answer cannot be written as JSON: {error}")))?)
}

/// Rows under their headings, each column as wide as it must be. A long cell is cut, but for the first one of a row, which is what its
/// record is called by, and the last one, after which nothing has its place.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let last = heads.len().saturating_sub(1);
    let is_whole = |column: usize| column == 0 || column == last;
    let cell = |(column, cell): (usize, &String)| if is_whole(column) { clean(cell) } else { shown(cell) };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(heads.to_vec());
    let body = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    [head].into_iter().chain(body).collect::<Vec<_>>().join("\n")
}

/// Text of a caller: what could move the cursor is escaped.
pub(crate) fn clean(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().collect() } else { vec![c] };
    text.chars().flat_map(one).collect()
}

/// A cell of a table: clean, and cut where it is long.
fn shown(cell: &str) -> String {
    let clean = clean(cell);
    match clean.char_indices().nth(limits::COLUMN) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_what_a_caller_sent_cannot_move_the_cursor() {
        let rows = vec![
            vec!["a\u{1b}[2J".into(), "é".into(), "\u{7}".into()],
            vec!["b".into(), "x".repeat(60), "why ".repeat(20)],
        ];
        let long = "i".repeat(2 * limits::COLUMN);
        let whole = table(&["ID", "TWO"], &[vec![long.clone(), String::new()]]);
        assert!(whole.ends_with(&long), "what a record is called by is whole: {whole}");
        let told = table(&["ONE", "TWO", "WHY"], &rows);
        assert!(!told.contains('\u{1b}') && !told.contains('\u{7}'), "{told}");
        let lines: Vec<_> = told.lines().collect();
        let padding = " ".repeat(limits::COLUMN - 2);
        assert_eq!(lines[0], format!("ONE         TWO{padding}  WHY"));
        assert_eq!(lines[1], format!("a\\u{{1b}}[2J  é{padding}    \\u{{7}}"));
        assert!(
            lines[2].contains("xxx…  why") && !lines[2].contains(&"x".repeat(limits::COLUMN + 1)),
            "{told}"
        );
        assert!(lines[2].ends_with(&"why ".repeat(20).trim_end()), "the last cell is whole: {told}");
    }
}
