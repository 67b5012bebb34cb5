//! Metrics as Prometheus reads them: the OpenMetrics text format, version 1.0.0.
//!
//! Written by hand because every name and label comes from the one table, and because what is counted is also read by the process
//! itself. A value is escaped, whatever is in it.

use std::fmt::{Display, Write as _};

use super::families::{Family, Kind};
use super::latency::LatencyCounts;

/// The text, as far as it is written.
#[derive(Debug, Default)]
pub(super) struct Text(String);

/// The samples of one family.
pub(super) struct Samples<'a> {
    text: &'a mut String,
    family: &'a Family,
}

impl Text {
    /// Begins a family.
    pub(super) fn family<'a>(&'a mut self, family: &'a Family) -> Samples<'a> {
        let Family { kind, help, .. } = family;
        let name = family.name.strip_suffix("_total").unwrap_or(family.name);
        // Writing into a string does not fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", kind.as_str());
        Samples { text: &mut self.0, family }
    }

    /// A family with one sample and no labels.
    pub(super) fn one(&mut self, family: &Family, number: impl Display) {
        self.family(family).sample(&[], number);
    }

    /// The whole text.
    pub(super) fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

impl Samples<'_> {
    /// Writes a sample with the values of the family's labels.
    pub(super) fn sample(&mut self, values: &[&str], number: impl Display) {
        self.line("", values, None, number);
    }

    /// The same, where nothing was counted yet: then there is no sample.
    pub(super) fn counted(&mut self, values: &[&str], count: u64) {
        if count > 0 {
            self.sample(values, count);
        }
    }

    /// Writes a histogram.
    pub(super) fn histogram(&mut self, values: &[&str], counts: &LatencyCounts) {
        debug_assert_eq!(self.family.kind, Kind::Histogram);
        let mut below = 0;
        for (upper, count) in counts.buckets() {
            below += count;
            let upper = upper.map_or("+Inf".to_owned(), |upper| upper.as_secs_f64().to_string());
            self.line("_bucket", values, Some(&upper), below);
        }
        self.line("_sum", values, None, counts.sum().as_secs_f64());
        self.line("_count", values, None, below);
    }

    fn line(&mut self, suffix: &str, values: &[&str], upper: Option<&str>, number: impl Display) {
        debug_assert_eq!(self.family.labels.len(), values.len(), "{}", self.family.name);
        self.text.push_str(self.family.name);
        self.text.push_str(suffix);
        let labels = self.family.labels.iter().copied().zip(values.iter().copied());
        for (number, (label, value)) in labels.chain(upper.map(|upper| ("le", upper))).enumerate() {
            self.text.push(if number == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            escape(self.text, value);
            self.text.push('"');
        }
        if !values.is_empty() || upper.is_some() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {number}");
    }
}

fn escape(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::families::PRESENT;
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line_or_begin_another_label_o1() {
        let mut text = Text::default();
        text.family(&PRESENT).sample(&["a\"} 1\nb", "\\", "c", "A"], 7);
        let text = text.end();
        assert!(
            text.contains("{tenant=\"a\\\"} 1\\nb\",project=\"\\\\\",endpoint=\"c\",case=\"A\"} 7\n# EOF"),
            "{text}"
        );
    }
}
