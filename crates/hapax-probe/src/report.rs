//! What a probe found out, for people, for programs (a stable schema) and for CI (JUnit).

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::DRAFT;
use crate::row::{Finding, Level, Row};

/// The number of the JSON's shape; it changes when a member goes or means something else.
const SCHEMA: u32 = 1;

/// All rows, and how many requests they took.
#[derive(Debug)]
pub struct Report {
    /// How many requests were sent.
    pub sent: usize,
    /// Whether answers told executions apart.
    pub tells: bool,
    /// What was found out in each row.
    pub rows: Vec<(Row, Finding)>,
}

/// What was probed.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The method of the requests.
    pub method: &'a str,
    /// Where they went.
    pub url: &'a str,
    /// How many were to be sent at most.
    pub at_most: usize,
}

impl Report {
    fn count(&self, level: Level) -> usize {
        self.rows.iter().filter(|(_, finding)| finding.level == level).count()
    }

    /// The worst of all rows.
    pub fn verdict(&self) -> Level {
        let worst = [Level::Fail, Level::Warn].into_iter().find(|level| self.count(*level) > 0);
        worst.unwrap_or(Level::Pass)
    }

    /// One line for all rows.
    pub fn verdict_line(&self) -> String {
        let levels = [Level::Fail, Level::Warn, Level::Pass, Level::Info, Level::NotTested];
        let told = levels.into_iter().filter(|level| self.count(*level) > 0);
        let counts: Vec<_> = told.map(|level| format!("{} {}", self.count(level), level.word())).collect();
        let word = self.verdict().word();
        format!("verdict: {word} ({}); {} requests sent", counts.join(", "), self.sent)
    }

    /// Two lines for each row, and the verdict.
    pub fn table(&self) -> String {
        let width = Row::ALL.iter().map(|row| row.title().len()).max().unwrap_or_default();
        let mut table = String::new();
        for (row, Finding { level, seen }) in &self.rows {
            let _ = writeln!(table, "{:<10}  {:<width$}  {seen}", level.word(), row.title());
            let _ = writeln!(table, "{:<10}  {:<width$}  · {}", "", "", row.asks());
        }
        let _ = write!(table, "\n{}", self.verdict_line());
        table
    }

    /// For programs.
    pub fn json(&self, target: &Target<'_>) -> Value {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|(row, Finding { level, seen })| {
                json!({
                    "id": row.id(), "title": row.title(), "asks": row.asks(),
                    "level": level.word(), "seen": seen,
                })
            })
            .collect();
        json!({
            "schema": SCHEMA,
            "draft": DRAFT,
            "method": target.method,
            "url": target.url,
            "verdict": self.verdict().word(),
            "executions_told_apart": self.tells,
            "requests": {"sent": self.sent, "at_most": target.at_most},
            "rows": rows,
        })
    }

    /// For CI: a test case for each row.
    pub fn junit(&self, target: &Target<'_>) -> String {
        let skipped = self.count(Level::NotTested);
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"hapax probe {} {}\" tests=\"{}\" \
             failures=\"{}\" errors=\"0\" skipped=\"{skipped}\">\n",
            escaped(target.method),
            escaped(target.url),
            self.rows.len(),
            self.count(Level::Fail),
        );
        for (row, Finding { level, seen }) in &self.rows {
            let (title, seen, asks) = (escaped(row.title()), escaped(seen), escaped(row.asks()));
            let _ = write!(xml, "  <testcase classname=\"probe.{}\" name=\"{title}\">", row.id());
            let _ = match level {
                Level::Fail => write!(xml, "<failure message=\"{seen}\">{asks}</failure>"),
                Level::NotTested => write!(xml, "<skipped message=\"{seen}\"/>"),
                level => write!(xml, "<system-out>{}: {seen} ({asks})</system-out>", level.word()),
            };
            xml.push_str("</testcase>\n");
        }
        xml.push_str("</testsuite>\n");
        xml
    }
}

/// Text within XML; what XML cannot hold is left out.
fn escaped(text: &str) -> String {
    let one = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => String::new(),
        c => c.to_string(),
    };
    text.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_api_says_cannot_break_out_of_the_xml_m5() {
        assert_eq!(escaped("a\"<b>&\u{1b}"), "a&quot;&lt;b&gt;&amp;");
    }

    #[test]
    fn one_failure_is_the_verdict_m5() {
        let rows = |levels: &[Finding]| Report {
            sent: 3,
            tells: true,
            rows: Row::ALL.into_iter().zip(levels.iter().cloned()).collect(),
        };
        let (pass, warn, fail) = (Finding::pass("a"), Finding::warn("b"), Finding::fail("c"));
        let not_tested = Finding::not_tested("d");
        assert_eq!(rows(&[pass.clone(), not_tested.clone()]).verdict(), Level::Pass);
        assert_eq!(rows(&[pass.clone(), warn.clone()]).verdict(), Level::Warn);
        let worst = rows(&[pass, warn, fail, not_tested]);
        assert_eq!(
            worst.verdict_line(),
            "verdict: fail (1 fail, 1 warn, 1 pass, 1 not-tested); 3 requests sent"
        );
    }
}
