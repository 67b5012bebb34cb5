//! Reading one section, field by field: each has its type, and what has another is told with its place (P5).
//!
//! A field that is wrong reads as absent, so that reading goes on; whoever must tell "wrong" from "absent" asks
//! [`Section::has`]. What fields mean together is checked where a section is read.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::fields::{self, Fields};
use super::mistakes::Place;
use super::reader::Reader;
use super::tree::{Node, Table, Value};
use super::{units, url};

/// A value, as it was written, and its place.
#[derive(Clone, Debug)]
pub(crate) struct Spot<T> {
    pub(crate) value: T,
    pub(crate) at: Place,
}

impl<T> Spot<T> {
    pub(crate) fn new(value: T, at: &Place) -> Self {
        Spot { value, at: at.clone() }
    }
}

/// One section of the file. An absent one has no fields.
#[derive(Clone, Copy)]
pub(crate) struct Section<'a> {
    reader: &'a Reader<'a>,
    table: Option<&'a Table>,
    fields: &'static Fields,
}

impl<'a> Section<'a> {
    /// A section whose fields are known: every other one is a mistake.
    pub(crate) fn open(reader: &'a Reader<'a>, table: Option<&'a Table>, fields: &'static Fields) -> Self {
        let free = fields.names.iter().any(|name| name.starts_with('<'));
        for entry in table.iter().flat_map(|table| &table.entries) {
            let name = entry.name.as_str();
            if fields.later.contains(&name) {
                reader.not_yet(&entry.at, &format!("`{}`", path_of(fields, name)));
            } else if !free && !fields.names.contains(&name) {
                unknown(reader, fields, name, &entry.at);
            }
        }
        Section { reader, table, fields }
    }

    pub(crate) fn reader(&self) -> &'a Reader<'a> {
        self.reader
    }

    /// Whether the section is there at all.
    pub(crate) fn exists(&self) -> bool {
        self.table.is_some()
    }

    /// Where it begins.
    pub(crate) fn at(&self) -> Place {
        self.table.map_or_else(|| self.reader.whole_file(), |table| table.at.clone())
    }

    /// Whether a field is written, rightly or wrongly.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.node(field).is_some()
    }

    /// Where a field's value is, or the section where there is none.
    pub(crate) fn place(&self, field: &str) -> Place {
        self.node(field).map_or_else(|| self.at(), |node| node.at.clone())
    }

    /// The names in a section whose names the user chooses.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Spot<String>, &'a Node)> + use<'a> {
        let table = self.table;
        table.into_iter().flat_map(|t| &t.entries).map(|e| (Spot::new(e.name.clone(), &e.at), &e.node))
    }

    /// Tells that a field is not there, unless it is.
    pub(crate) fn require(&self, field: &str, remedy: impl Display) {
        if !self.has(field) {
            self.reader.mistake(&self.at(), format!("`{field}` is missing"), remedy);
        }
    }

    /// A value of whatever type.
    pub(crate) fn value(&self, field: &str) -> Option<&'a Node> {
        self.node(field)
    }

    /// Text.
    pub(crate) fn text(&self, field: &str) -> Option<Spot<&'a str>> {
        let node = self.node(field)?;
        let Value::Text(text) = &node.value else { return self.wrong(field, node, "a string") };
        if text.is_empty() {
            self.reader.mistake(
                &node.at,
                format!("`{field}` is empty"),
                "write a value, or remove the field",
            );
            return None;
        }
        Some(Spot::new(text, &node.at))
    }

    /// Text of a form of its own.
    pub(crate) fn parsed<T>(
        &self,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Spot<T>> {
        self.parsed_as(field, parse, str::to_owned)
    }

    /// A URL: what may be secret in it is not told with the mistake.
    pub(crate) fn url<T>(
        &self,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Spot<T>> {
        self.parsed_as(field, parse, url::shown)
    }

    fn parsed_as<T>(
        &self,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
        shown: fn(&str) -> String,
    ) -> Option<Spot<T>> {
        let text = self.text(field)?;
        match parse(text.value) {
            Ok(value) => Some(Spot::new(value, &text.at)),
            Err(remedy) => {
                self.reader.mistake(&text.at, format!("`{field}` cannot be {:?}", shown(text.value)), remedy);
                None
            }
        }
    }

    /// One of several words.
    pub(crate) fn word<T: Copy>(&self, field: &str, words: &[(&str, T)]) -> Option<Spot<T>> {
        self.parsed(field, |text| {
            let known = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
            known.ok_or_else(|| {
                let all: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
                match fields::nearest(text, words.iter().map(|(word, _)| *word)) {
                    Some(word) => format!("did you mean {word:?}? It takes {}", all.join(", ")),
                    None => format!("use one of {}", all.join(", ")),
                }
            })
        })
    }

    /// A duration within bounds.
    pub(crate) fn duration(&self, field: &str, range: &RangeInclusive<Duration>) -> Option<Spot<Duration>> {
        self.parsed(field, |text| duration_within(text, range))
    }

    /// A size within bounds.
    pub(crate) fn size(&self, field: &str, range: &RangeInclusive<u64>) -> Option<Spot<u64>> {
        self.parsed(field, |text| match units::size(text) {
            Some(size) if range.contains(&size) => Ok(size),
            Some(_) => {
                Err(format!("use {} to {}", units::show_size(*range.start()), units::show_size(*range.end())))
            }
            None => Err("write a size such as \"64KiB\" or \"1MiB\"".into()),
        })
    }

    /// An integer within bounds.
    pub(crate) fn integer(&self, field: &str, range: &RangeInclusive<i64>) -> Option<Spot<i64>> {
        let node = self.node(field)?;
        let Value::Integer(number) = node.value else { return self.wrong(field, node, "an integer") };
        if !range.contains(&number) {
            let remedy = format!("use {} to {}", range.start(), range.end());
            self.reader.mistake(&node.at, format!("`{field}` cannot be {number}"), remedy);
            return None;
        }
        Some(Spot::new(number, &node.at))
    }

    /// An integer as a count; bounds keep it within 32 bits.
    pub(crate) fn count(&self, field: &str, range: &RangeInclusive<i64>) -> Option<usize> {
        self.integer(field, range).and_then(|number| usize::try_from(number.value).ok())
    }

    /// True or false.
    pub(crate) fn flag(&self, field: &str) -> Option<Spot<bool>> {
        let node = self.node(field)?;
        let Value::Flag(flag) = node.value else { return self.wrong(field, node, "true or false") };
        Some(Spot::new(flag, &node.at))
    }

    /// A share: a number from 0 to 1.
    pub(crate) fn ratio(&self, field: &str) -> Option<Spot<f64>> {
        let node = self.node(field)?;
        let ratio = match node.value {
            Value::Float(ratio) => ratio,
            Value::Integer(whole) if (0..=1).contains(&whole) => whole as f64,
            _ => return self.wrong(field, node, "a number from 0 to 1"),
        };
        if !(0.0..=1.0).contains(&ratio) {
            return self.wrong(field, node, "a number from 0 to 1");
        }
        Some(Spot::new(ratio, &node.at))
    }

    /// True, false or one word: `None` for false, otherwise whether it is the word.
    pub(crate) fn flag_or_word(&self, field: &str, word: &str) -> Option<Spot<Option<bool>>> {
        let node = self.node(field)?;
        let value = match &node.value {
            Value::Flag(true) => Some(false),
            Value::Flag(false) => None,
            Value::Text(text) if text == word => Some(true),
            _ => return self.wrong(field, node, &format!("true, false or {word:?}")),
        };
        Some(Spot::new(value, &node.at))
    }

    /// An array of strings.
    pub(crate) fn texts(&self, field: &str) -> Option<Vec<Spot<&'a str>>> {
        let node = self.node(field)?;
        let Value::List(items) = &node.value else { return self.wrong(field, node, "an array of strings") };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            match &item.value {
                Value::Text(text) => texts.push(Spot::new(text.as_str(), &item.at)),
                _ => _ = self.wrong::<()>(field, item, "an array of strings"),
            }
        }
        Some(texts)
    }

    /// One string or an array of them.
    pub(crate) fn one_or_more(&self, field: &str) -> Option<Vec<Spot<&'a str>>> {
        match &self.node(field)?.value {
            Value::List(_) => self.texts(field),
            _ => self.text(field).map(|text| vec![text]),
        }
    }

    /// A section within this one; absent where it is not there.
    pub(crate) fn section(&self, field: &str, fields: &'static Fields) -> Section<'a> {
        let table = self.node(field).and_then(|node| match &node.value {
            Value::Table(table) => Some(table),
            _ => self.wrong(field, node, "a table"),
        });
        Section::open(self.reader, table, fields)
    }

    /// An array of sections.
    pub(crate) fn sections(&self, field: &str, fields: &'static Fields) -> Vec<Section<'a>> {
        let Some(node) = self.node(field) else { return Vec::new() };
        let Value::List(items) = &node.value else {
            let wanted = format!("an array of tables, written as [[{field}]]");
            self.wrong::<()>(field, node, &wanted);
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(items.len());
        for item in items {
            match &item.value {
                Value::Table(table) => sections.push(Section::open(self.reader, Some(table), fields)),
                _ => _ = self.wrong::<()>(field, item, "an array of tables"),
            }
        }
        sections
    }

    /// One section or an array of them.
    pub(crate) fn one_or_more_sections(&self, field: &str, fields: &'static Fields) -> Vec<Section<'a>> {
        match self.node(field).map(|node| &node.value) {
            Some(Value::List(_)) => self.sections(field, fields),
            Some(_) => Some(self.section(field, fields)).into_iter().filter(Section::exists).collect(),
            None => Vec::new(),
        }
    }

    fn node(&self, field: &str) -> Option<&'a Node> {
        debug_assert!(self.fields.names.contains(&field), "{field} is not listed in fields.rs");
        self.table?.get(field).map(|entry| &entry.node)
    }

    fn wrong<T>(&self, field: &str, node: &Node, wanted: &str) -> Option<T> {
        let what = format!("`{field}` cannot be {}", node.value.kind());
        self.reader.mistake(&node.at, what, format!("it takes {wanted}"));
        None
    }
}

/// Reads a duration, or says what to write instead.
pub(crate) fn duration_within(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, String> {
    match units::duration(text) {
        Some(duration) if range.contains(&duration) => Ok(duration),
        Some(_) => Err(format!(
            "use {} to {}",
            units::show_duration(*range.start()),
            units::show_duration(*range.end())
        )),
        None => Err("write a duration such as \"250ms\", \"30s\", \"24h\" or \"7d\"".into()),
    }
}

fn path_of(fields: &Fields, name: &str) -> String {
    if fields.section.is_empty() { name.to_owned() } else { format!("{}.{name}", fields.section) }
}

fn unknown(reader: &Reader<'_>, fields: &Fields, name: &str, at: &Place) {
    let section = if fields.section.is_empty() { "a configuration" } else { fields.section };
    let remedy = match fields.nearest(name) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("remove it; known here: {}", fields.names.join(", ")),
    };
    reader.mistake(at, format!("`{name}` is no field of {section}"), remedy);
}
