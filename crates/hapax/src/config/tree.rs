//! A document as it was written: values with the place of each. TOML files and the parts of OpenAPI documents that concern
//! us come in this one shape, so that they are checked by the same code. What a field means is not known here.

use std::path::PathBuf;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistakes::{Mistake, Place, Within};

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) value: Value,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(Table),
    /// Something that no field takes, by its name.
    Other(&'static str),
}

impl Value {
    /// What it is, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Flag(_) => "a boolean",
            Value::List(_) => "an array",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }
}

/// Named values.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) at: Place,
    pub(crate) entries: Vec<Entry>,
}

/// One named value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) at: Place,
    pub(crate) node: Node,
}

impl Table {
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

/// Reads TOML. Where it is no TOML, everything that is wrong with it is told.
pub(crate) fn from_toml(text: &str, file: &Arc<PathBuf>) -> Result<Table, Vec<Mistake>> {
    let lines = Lines::of(text, file);
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(lines.table(document.get_ref(), lines.place(0)));
    }
    let mistake = |error: &toml::de::Error| Mistake {
        place: lines.place(error.span().map_or(0, |span| span.start)),
        what: format!("this is no TOML: {}", error.message().replace('\n', ", ")),
        remedy: "mend the syntax first; the rest is read after that".into(),
    };
    Err(errors.iter().map(mistake).collect())
}

/// Where the lines of a text begin.
struct Lines<'t> {
    text: &'t str,
    file: &'t Arc<PathBuf>,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str, file: &'t Arc<PathBuf>) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Lines { text, file, starts: std::iter::once(0).chain(ends).collect() }
    }

    fn place(&self, byte: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= byte);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let column = self.text.get(start..byte).map_or(0, |before| before.chars().count()) + 1;
        Place { file: self.file.clone(), within: Within::Line(line, column) }
    }

    fn table(&self, table: &DeTable<'_>, at: Place) -> Table {
        let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let text: &std::borrow::Cow<'_, str> = name.get_ref();
            Entry { name: text.to_string(), at: self.place(name.span().start), node: self.node(value) }
        };
        Table { at, entries: table.iter().map(entry).collect() }
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let at = self.place(value.span().start);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Value::Other("an integer beyond 64 bits"), Value::Integer),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Array(items) => Value::List(items.iter().map(|item| self.node(item)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table, at.clone())),
            DeValue::Float(number) => finite(number.as_str()).map_or(Value::Other("a float"), Value::Float),
            DeValue::Datetime(_) => Value::Other("a date or time"),
        };
        Node { at, value }
    }
}

/// A number that is one; TOML also knows `inf` and `nan`.
fn finite(text: &str) -> Option<f64> {
    text.replace('_', "").parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Arc<PathBuf> {
        Arc::new("hapax.toml".into())
    }

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let table = from_toml("# é\n[edge]\nä = \"é\" \nb = { c = 1 }\n".replace('ä', "a").as_str(), &file())
            .unwrap();
        let edge = table.get("edge").unwrap();
        assert_eq!(edge.at.within, Within::Line(2, 2));
        let Value::Table(edge) = &edge.node.value else { panic!("a table") };
        assert_eq!(edge.get("a").unwrap().at.within, Within::Line(3, 1));
        assert_eq!(edge.get("a").unwrap().node.at.within, Within::Line(3, 5));
        let Value::Table(inner) = &edge.get("b").unwrap().node.value else { panic!("a table") };
        assert_eq!(inner.get("c").unwrap().node.at.within, Within::Line(4, 11));
    }

    #[test]
    fn every_mistake_of_syntax_is_told() {
        let mistakes = from_toml("a = \nb = 1\nb = 2\nc = [1,\n", &file()).unwrap_err();
        assert!(mistakes.len() >= 3, "{mistakes:?}");
        assert!(mistakes.iter().any(|mistake| mistake.place.within == Within::Line(1, 5)), "{mistakes:?}");
    }
}
