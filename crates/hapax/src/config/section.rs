//! Reading one section, field by field: each has its type, and what has another is told with its place (P5).
//!
//! A field that is wrong reads as absent, so that reading goes on; whoever must tell "wrong" from "absent" asks
//! [`Section::has`]. What fields mean together is checked where a section is read.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::fields::{self, Fields, Kind, Of, Row};
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
    kind: &'static str,
}

impl<'a> Section<'a> {
    /// A section whose fields are known: every other one is a mistake.
    pub(crate) fn open(reader: &'a Reader<'a>, table: Option<&'a Table>, fields: &'static Fields) -> Self {
        Self::open_as(reader, table, fields, "")
    }

    /// The same of something of this `kind`, where those of another one have other fields.
    pub(crate) fn open_as(
        reader: &'a Reader<'a>,
        table: Option<&'a Table>,
        fields: &'static Fields,
        kind: &'static str,
    ) -> Self {
        let section = Section { reader, table, fields, kind };
        if !fields.is_free() {
            let entries = table.iter().flat_map(|table| &table.entries);
            for entry in entries.filter(|entry| section.row(&entry.name).is_none()) {
                section.unknown(&entry.name, &entry.at);
            }
        }
        section
    }

    /// What is known of a field.
    fn row(&self, field: &str) -> Option<&'static Row> {
        self.fields.rows_of(self.kind).find(|row| row.name == field)
    }

    /// What a field takes.
    fn kind(&self, field: &str) -> &'static Kind {
        self.row(field).map_or_else(|| self.misread(field), |row| &row.kind)
    }

    /// Code that reads what is not in the rows fails in every test of the section.
    fn misread(&self, field: &str) -> ! {
        unreachable!("{}.{field} has no row, or is of another kind", self.fields.section)
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

    /// The fields that are written, of those that apply to this.
    pub(crate) fn written(&self, applies: impl Fn(Of) -> bool) -> impl Iterator<Item = &'static str> {
        let (table, rows) = (self.table, self.fields.rows_of(self.kind));
        let is_written = move |name: &str| table.is_some_and(|table| table.get(name).is_some());
        rows.filter(move |row| applies(row.of) && is_written(row.name)).map(|row| row.name)
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
        debug_assert!(
            matches!(self.kind(field), Kind::Words(known) if known.iter().eq(words.iter().map(|(word, _)| word))),
            "{}.{field} takes other words in its row",
            self.fields.section
        );
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

    /// A duration within the bounds of its row.
    pub(crate) fn duration(&self, field: &str) -> Option<Spot<Duration>> {
        let Kind::Duration(range) = self.kind(field) else { self.misread(field) };
        self.parsed(field, |text| duration_within(text, range))
    }

    /// A size within the bounds of its row.
    pub(crate) fn size(&self, field: &str) -> Option<Spot<u64>> {
        let Kind::Size(range) = self.kind(field) else { self.misread(field) };
        self.parsed(field, |text| match units::size(text) {
            Some(size) if range.contains(&size) => Ok(size),
            Some(_) => {
                Err(format!("use {} to {}", units::show_size(*range.start()), units::show_size(*range.end())))
            }
            None => Err("write a size such as \"64KiB\" or \"1MiB\"".into()),
        })
    }

    /// An integer within the bounds of its row.
    pub(crate) fn integer(&self, field: &str) -> Option<Spot<i64>> {
        let Kind::Integer(range) = self.kind(field) else { self.misread(field) };
        let remedy = format!("use {} to {}", range.start(), range.end());
        self.number(field, |number| range.contains(&number), &remedy)
    }

    /// One of the numbers of its row; the remedy says which.
    pub(crate) fn one_of(&self, field: &str, remedy: &str) -> Option<Spot<i64>> {
        let Kind::Numbers(known) = self.kind(field) else { self.misread(field) };
        self.number(field, |number| known.contains(&number), remedy)
    }

    fn number(&self, field: &str, fits: impl FnOnce(i64) -> bool, remedy: &str) -> Option<Spot<i64>> {
        let node = self.node(field)?;
        let Value::Integer(number) = node.value else { return self.wrong(field, node, "an integer") };
        if !fits(number) {
            self.reader.mistake(&node.at, format!("`{field}` cannot be {number}"), remedy);
            return None;
        }
        Some(Spot::new(number, &node.at))
    }

    /// An integer as a count; bounds keep it within 32 bits.
    pub(crate) fn count(&self, field: &str) -> Option<usize> {
        self.integer(field).and_then(|number| usize::try_from(number.value).ok())
    }

    /// True or false.
    pub(crate) fn flag(&self, field: &str) -> Option<Spot<bool>> {
        debug_assert!(matches!(self.kind(field), Kind::Flag), "{}.{field}", self.fields.section);
        let node = self.node(field)?;
        let Value::Flag(flag) = node.value else { return self.wrong(field, node, "true or false") };
        Some(Spot::new(flag, &node.at))
    }

    /// A share: a number from 0 to 1.
    pub(crate) fn ratio(&self, field: &str) -> Option<Spot<f64>> {
        debug_assert!(matches!(self.kind(field), Kind::Ratio), "{}.{field}", self.fields.section);
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

    /// True, false or the word of its row: `None` for false, otherwise whether it is the word.
    pub(crate) fn flag_or_word(&self, field: &str) -> Option<Spot<Option<bool>>> {
        let Kind::FlagOr(word) = self.kind(field) else { self.misread(field) };
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
        debug_assert!(
            matches!(self.kind(field), Kind::List(..) | Kind::WordList(_) | Kind::OneOrList(..)),
            "{}.{field}",
            self.fields.section
        );
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
    pub(crate) fn section(&self, field: &str) -> Section<'a> {
        let table = self.node(field).and_then(|node| match &node.value {
            Value::Table(table) => Some(table),
            _ => self.wrong(field, node, "a table"),
        });
        Section::open(self.reader, table, self.fields_of(field))
    }

    /// An array of sections.
    pub(crate) fn sections(&self, field: &str) -> Vec<Section<'a>> {
        let Some(node) = self.node(field) else { return Vec::new() };
        let Value::List(items) = &node.value else {
            let wanted = format!("an array of tables, written as [[{field}]]");
            self.wrong::<()>(field, node, &wanted);
            return Vec::new();
        };
        let fields = self.fields_of(field);
        let mut sections = Vec::with_capacity(items.len());
        for item in items {
            match &item.value {
                Value::Table(table) => sections.push(Section::open(self.reader, Some(table), fields)),
                _ => _ = self.wrong::<()>(field, item, "an array of tables"),
            }
        }
        sections
    }

    /// A section whose name the user chose, of something of this `kind`.
    pub(crate) fn named(&self, table: &'a Table, kind: &'static str) -> Section<'a> {
        let free = self.fields.rows.iter().find(|row| row.is_free());
        Section::open_as(self.reader, Some(table), self.fields_of(free.map_or("", |row| row.name)), kind)
    }

    /// One section or an array of them.
    pub(crate) fn one_or_more_sections(&self, field: &str) -> Vec<Section<'a>> {
        match self.node(field).map(|node| &node.value) {
            Some(Value::List(_)) => self.sections(field),
            Some(_) => Some(self.section(field)).into_iter().filter(Section::exists).collect(),
            None => Vec::new(),
        }
    }

    fn node(&self, field: &str) -> Option<&'a Node> {
        debug_assert!(self.row(field).is_some(), "{}.{field} has no row", self.fields.section);
        self.table?.get(field).map(|entry| &entry.node)
    }

    /// The fields of the sections that a field takes.
    fn fields_of(&self, field: &str) -> &'static Fields {
        self.kind(field).below().unwrap_or_else(|| self.misread(field))
    }

    fn unknown(&self, name: &str, at: &Place) {
        let section = if self.fields.section.is_empty() { "a configuration" } else { self.fields.section };
        let known = || self.fields.names(self.kind);
        let remedy = match fields::nearest(name, known()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("remove it; known here: {}", known().collect::<Vec<_>>().join(", ")),
        };
        self.reader.mistake(at, format!("`{name}` is no field of {section}"), remedy);
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
