//! Routes from an OpenAPI document, JSON or YAML (P4). They come as tables like those of `[[routes]]`, with JSON pointers
//! for places, and are checked by the same code.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::order::Order;
use super::{EXTENSION, METHODS, Source, field_of, token, yaml};
use crate::config::{
    Entry, Node, Pattern, Place, Reader, Section, Table, Value, Within, policies, read_file,
};
use crate::limits;

/// Reads one `[[openapi]]` section: which document it is, and a table for each operation with a policy. `None` where it
/// cannot be read.
pub(crate) fn routes(section: &Section<'_>) -> Option<(Source, Vec<Table>)> {
    section.require("file", "name an OpenAPI document, JSON or YAML");
    section.require("upstream", "say where these routes go: one of [upstreams]");
    let prefix = section
        .parsed("prefix", |text| Pattern::of_requests(text).map(|_| text.trim_end_matches('/').to_owned()));
    let defaults = defaults(section);
    let (Some(file), Some(upstream)) = (section.text("file"), section.text("upstream")) else {
        return None;
    };
    let path = section.reader().path(file.value);
    let document = match parse(&path) {
        Ok(document) => document,
        Err(what) => {
            let what = format!("`file`: {} {what}", path.display());
            section.reader().mistake(&file.at, what, "name a readable OpenAPI 3 document");
            return None;
        }
    };
    let upstream = Node { at: upstream.at, value: Value::Text(upstream.value.to_owned()) };
    let prefix = prefix.map(|prefix| prefix.value).unwrap_or_default();
    let source = Source { file: path.clone(), prefix: prefix.clone() };
    let document_read =
        Document { reader: section.reader(), file: Arc::new(path), prefix, upstream, defaults };
    let tables = document_read.routes(&document);
    Some((source, tables))
}

/// What holds for the writes of a document that do not say otherwise, as fields of a route with their places.
fn defaults(section: &Section<'_>) -> Vec<Entry> {
    let policy = section.word("default_policy", &policies());
    let policy = policy.map(|policy| ("policy", policy.at, Value::Text(policy.value.as_str().to_owned())));
    let recall = section.flag("recall").map(|recall| ("recall", recall.at, Value::Flag(recall.value)));
    let entry = |(name, at, value): (&str, Place, Value)| Entry {
        name: name.to_owned(),
        at: at.clone(),
        node: Node { at, value },
    };
    policy.into_iter().chain(recall).map(entry).collect()
}

/// The methods of operations that change something.
const WRITES: [&str; 4] = ["put", "post", "delete", "patch"];

/// Reads a document; the error says what is wrong with it.
pub(crate) fn parse(path: &Path) -> Result<Json, String> {
    let text = read_file(path, limits::FILE_BYTES).map_err(|error| format!("cannot be read: {error}"))?;
    // Some editors write it; it is no part of the document (RFC 8259, 8.1).
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => {
            let document = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
            // Of two members of one name, only the last would count.
            Order::of(text).twice().map_or(Ok(document), |twice| Err(format!("has #{twice} twice")))
        }
        Some("yaml" | "yml") => yaml::parse(text),
        _ => Err("is neither .json nor .yaml".into()),
    }
}

/// A document that is being read.
struct Document<'r> {
    reader: &'r Reader<'r>,
    file: Arc<PathBuf>,
    prefix: String,
    upstream: Node,
    /// Fields that operations need not say.
    defaults: Vec<Entry>,
}

impl Document<'_> {
    fn at(&self, pointer: String) -> Place {
        Place { file: self.file.clone(), within: Within::Pointer(pointer) }
    }

    fn routes(&self, document: &Json) -> Vec<Table> {
        if !document.get("openapi").and_then(Json::as_str).is_some_and(|version| version.starts_with("3.")) {
            let what = "this is no OpenAPI 3 document";
            self.reader.mistake(
                &self.at("/openapi".into()),
                what,
                "say `openapi: 3.1.0` or another version 3",
            );
            return Vec::new();
        }
        let Some(paths) = document.get("paths").and_then(Json::as_object) else {
            self.reader.mistake(&self.at("/paths".into()), "there are no paths", "add an object `paths`");
            return Vec::new();
        };
        self.elsewhere(document);
        paths.iter().flat_map(|(path, item)| self.path(path, item)).collect()
    }

    fn path(&self, path: &str, item: &Json) -> Vec<Table> {
        let pointer = format!("/paths/{}", token(path));
        if item.get("$ref").is_some() {
            let at = self.at(format!("{pointer}/$ref"));
            self.reader.mistake(&at, "references to path items are not followed", "write the path item here");
        }
        self.without_effect(&pointer, Some(item));
        let no_method = |name: &str| !METHODS.contains(&name);
        for (name, member) in members(item).filter(|(name, _)| no_method(name)) {
            self.without_effect(&format!("{pointer}/{}", token(name)), Some(member));
        }
        let operations = METHODS.iter().filter_map(|method| Some((*method, item.get(method)?.as_object()?)));
        operations
            .filter_map(|(method, operation)| self.operation(path, &pointer, method, operation))
            .collect()
    }

    /// Extensions say something about the operation they stand at. Whoever wrote them elsewhere relies on what is not so.
    fn elsewhere(&self, document: &Json) {
        for pointer in ["", "/info", "/paths", "/components"] {
            self.without_effect(pointer, document.pointer(pointer));
        }
        for parent in ["/webhooks", "/components/pathItems"] {
            for (name, item) in document.pointer(parent).into_iter().flat_map(members) {
                let pointer = format!("{parent}/{}", token(name));
                self.without_effect(&pointer, Some(item));
                for (name, operation) in members(item) {
                    self.without_effect(&format!("{pointer}/{}", token(name)), Some(operation));
                }
            }
        }
    }

    fn without_effect(&self, pointer: &str, object: Option<&Json>) {
        for (name, _) in object.into_iter().flat_map(members).filter(|(name, _)| is_extension(name)) {
            let at = self.at(format!("{pointer}/{}", token(name)));
            let what = format!("`{name}` has no effect here");
            self.reader.mistake(&at, what, "write it at an operation of `paths`, such as /paths/~1pay/post");
        }
    }

    /// Whether the document's policy holds for operations with this method.
    fn has_policy_for(&self, method: &str) -> bool {
        WRITES.contains(&method) && self.defaults.iter().any(|entry| entry.name == "policy")
    }

    /// An operation is a route if it has a policy, of its own or of the document.
    fn operation(
        &self,
        path: &str,
        pointer: &str,
        method: &str,
        operation: &Map<String, Json>,
    ) -> Option<Table> {
        let pointer = format!("{pointer}/{method}");
        for name in ["requestBody", "responses"] {
            self.without_effect(&format!("{pointer}/{name}"), operation.get(name));
        }
        let extensions: Vec<_> = operation.iter().filter(|(name, _)| is_extension(name)).collect();
        if extensions.is_empty() && !self.has_policy_for(method) {
            return None;
        }
        let at = self.at(pointer.clone());
        let text = |name: &str, text: String| Entry {
            name: name.into(),
            at: at.clone(),
            node: Node { at: at.clone(), value: Value::Text(text) },
        };
        let mut entries = vec![
            text("method", method.to_ascii_uppercase()),
            text("path", format!("{}{path}", self.prefix)),
            Entry { name: "upstream".into(), at: at.clone(), node: self.upstream.clone() },
        ];
        if let Some(id) = operation.get("operationId") {
            entries.push(self.entry("operation", &format!("{pointer}/operationId"), id));
        }
        for (name, value) in extensions {
            let pointer = format!("{pointer}/{}", token(name));
            let (what, remedy) = match field_of(name) {
                Some(field) if entries.iter().any(|entry| entry.name == field) => {
                    (format!("`{field}` is said twice"), "remove one of the two")
                }
                Some(field) => {
                    entries.push(self.entry(field, &pointer, value));
                    continue;
                }
                None => {
                    let remedy = "use x-idempotency-policy, -retention and the like";
                    (format!("`{name}` says nothing about a route"), remedy)
                }
            };
            self.reader.mistake(&self.at(pointer), what, remedy);
        }
        self.complete(method, &mut entries);
        Some(Table { at, entries })
    }

    /// Adds what the operation leaves to the document. Where the policy takes no keys, nothing else would have an effect.
    fn complete(&self, method: &str, entries: &mut Vec<Entry>) {
        for default in &self.defaults {
            let holds = match default.name.as_str() {
                "policy" => WRITES.contains(&method),
                _ => is_keyed(entries),
            };
            if holds && !entries.iter().any(|entry| entry.name == default.name) {
                entries.push(default.clone());
            }
        }
    }

    fn entry(&self, field: &str, pointer: &str, json: &Json) -> Entry {
        let node = self.node(pointer, json);
        Entry { name: field.to_owned(), at: node.at.clone(), node }
    }

    fn node(&self, pointer: &str, json: &Json) -> Node {
        let at = self.at(pointer.to_owned());
        let value = match json {
            Json::String(text) => Value::Text(text.clone()),
            Json::Bool(flag) => Value::Flag(*flag),
            Json::Number(number) => number.as_i64().map_or(Value::Other("a float"), Value::Integer),
            Json::Null => Value::Other("null"),
            Json::Array(items) => {
                let item = |(index, item)| self.node(&format!("{pointer}/{index}"), item);
                Value::List(items.iter().enumerate().map(item).collect())
            }
            Json::Object(members) => {
                let entries = members
                    .iter()
                    .map(|(name, value)| self.entry(name, &format!("{pointer}/{}", token(name)), value));
                Value::Table(Table { at: at.clone(), entries: entries.collect() })
            }
        };
        Node { at, value }
    }
}

/// Whether a policy that takes keys is among the fields of a route.
fn is_keyed(entries: &[Entry]) -> bool {
    let policy = entries.iter().find(|entry| entry.name == "policy");
    let Some(Value::Text(word)) = policy.map(|entry| &entry.node.value) else { return false };
    policies().iter().any(|(known, policy)| known == word && policy.is_keyed())
}

/// Also in capitals, which no reader of OpenAPI takes for an extension: it was meant as one.
fn is_extension(name: &str) -> bool {
    name.get(..EXTENSION.len()).is_some_and(|start| start.eq_ignore_ascii_case(EXTENSION))
}

/// The members of an object; none of anything else.
fn members(json: &Json) -> impl Iterator<Item = (&String, &Json)> {
    json.as_object().into_iter().flatten()
}
