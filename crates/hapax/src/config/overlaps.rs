//! Routes that get in each other's way: a request must match exactly one (P2), recall routes are the edge's own (H7), and
//! an operation has one name (K6).
//!
//! Each pair is found by [`Tree`], so that ten thousand routes are looked at as fast as they are read.

use std::collections::HashMap;

use hapax_core::Operation;
use hapax_gateway::pattern::{Meets, Pattern, Tree};
use hapax_gateway::settings::Edge;
use http::Method;

use super::mistakes::Place;
use super::reader::Reader;
use super::route::Found;
use super::section::{Section, Spot};

/// Below the path of a keyed route: where outcomes are recalled by key (H7).
pub(crate) fn recall_paths(segment: &str) -> [String; 2] {
    [format!("/{segment}/{{key}}"), format!("/{segment}/{{key}}/output")]
}

/// Below the edge's `operations_prefix`: where outcomes are recalled by operation id (H7).
pub(crate) const BY_ID: [&str; 2] = ["/{operation_id}", "/{operation_id}/output"];
/// What the edge serves itself.
pub(super) const OWN: [&str; 2] = [".well-known", "hapax"];

/// A path that the edge serves itself.
struct Recall {
    pattern: Pattern,
    by_key: bool,
}

/// Tells every pair that gets in each other's way.
pub(crate) fn check(reader: &Reader<'_>, routes: &[Found], edge: &Edge) {
    names(reader, routes);
    former_names(reader, routes);
    same_requests(reader, routes);
    let recalls = recalls(routes, edge);
    for path in
        routes.iter().filter_map(|route| route.path.as_ref()).filter(|path| !path.value.is_catch_all())
    {
        own_pages(reader, path);
        let mut overlapped = None;
        recalls.meeting(&path.value, |recall| {
            overlapped =
                overlapped.or(Some(recall).filter(|recall| recall.is_overlapped_by(&path.value, edge)));
        });
        if let Some(recall) = overlapped {
            let (path_text, recall_text) = (path.value.as_str(), recall.pattern.as_str());
            let what = format!("`{path_text}` overlaps {recall_text}, where outcomes are recalled");
            let remedy = match recall.by_key {
                true => {
                    "use another path, or say `recall = false` for the route whose outcomes are recalled there"
                }
                false => "use another path, or another `operations_prefix`",
            };
            reader.mistake(&path.at, what, remedy);
        }
    }
    recalls_differ(reader, routes);
}

impl Recall {
    /// `/orders/{order}/notes` could match `/orders/by-idempotency-key/notes`, too. That is no overlap: in the place of a
    /// parameter the word is reserved, and recall goes first. Otherwise no keyed collection could have nested resources.
    fn is_overlapped_by(&self, path: &Pattern, edge: &Edge) -> bool {
        match path.meets(&self.pattern) {
            Meets::Never => false,
            Meets::Crossing => !self.by_key || path.has_literal(&edge.recall_segment),
            Meets::Same | Meets::Within => true,
        }
    }
}

fn names(reader: &Reader<'_>, routes: &[Found]) {
    let mut first: HashMap<&str, &Place> = HashMap::new();
    for operation in routes.iter().filter_map(|route| route.operation.as_ref()) {
        if let Some(earlier) = first.get(operation.value.as_str()) {
            let what = format!(
                "the operation {:?} is there already, at {}",
                operation.value.as_str(),
                earlier.short()
            );
            reader.mistake(&operation.at, what, "give each route an operation of its own");
        } else {
            first.insert(operation.value.as_str(), &operation.at);
        }
    }
}

/// A former name is the present name of no route, and has one heir.
fn former_names(reader: &Reader<'_>, routes: &[Found]) {
    let mut heirs: HashMap<&str, &Place> = HashMap::new();
    let present = routes.iter().filter_map(|route| route.operation.as_ref());
    let present: HashMap<&str, &Spot<Operation>> =
        present.map(|operation| (operation.value.as_str(), operation)).collect();
    for was in routes.iter().filter_map(|route| route.was.as_ref()).flatten() {
        if let Some(present) = present.get(was.value.as_str()) {
            let what = format!(
                "`was`: the operation {:?} is still there, at {}",
                was.value.as_str(),
                present.at.short()
            );
            reader.mistake(&was.at, what, "name an operation that is no longer in use");
        } else if let Some(earlier) = heirs.insert(was.value.as_str(), &was.at) {
            let what =
                format!("`was`: {:?} has a new name already, at {}", was.value.as_str(), earlier.short());
            reader.mistake(&was.at, what, "an operation has one new name");
        }
    }
}

/// What is retired has no route any more, under whichever name.
pub(crate) fn retired(reader: &Reader<'_>, retired: &[Spot<Operation>], routes: &[Found]) {
    for name in retired {
        let routes = routes.iter().flat_map(|route| route.operation.iter().chain(route.was.iter().flatten()));
        if let Some(route) = routes.into_iter().find(|operation| operation.value == name.value) {
            let what = format!(
                "`retired`: the operation {:?} has a route, at {}",
                name.value.as_str(),
                route.at.short()
            );
            reader.mistake(&name.at, what, "remove the name here, or the route");
        }
    }
}

/// Two routes of one method whose patterns match the same requests. Where only some are the same, the leftmost literal decides.
fn same_requests(reader: &Reader<'_>, routes: &[Found]) {
    let mut first: HashMap<(&str, String), &Spot<Pattern>> = HashMap::new();
    for route in routes {
        let (Some(method), Some(path)) = (&route.method, &route.path) else { continue };
        let method = method.value.as_str();
        let Some(earlier) = first.get(&(method, path.value.shape())) else {
            first.insert((method, path.value.shape()), path);
            continue;
        };
        let what = format!(
            "{method} {} and {method} {} ({}) match the same requests",
            path.value.as_str(),
            earlier.value.as_str(),
            earlier.at.short()
        );
        reader.mistake(&path.at, what, "keep one of them, or make one more concrete");
    }
}

fn recalls(routes: &[Found], edge: &Edge) -> Tree<Recall> {
    let keyed = routes.iter().filter(|route| route.recall).filter_map(|route| route.path.as_ref());
    let more = recall_paths(&edge.recall_segment);
    let by_key = keyed
        .flat_map(|path| more.iter().map(|more| Recall { pattern: path.value.then(more), by_key: true }));
    let prefix = Pattern::parse(&edge.operations_prefix).ok();
    let by_id = prefix
        .into_iter()
        .flat_map(|prefix| BY_ID.map(|more| Recall { pattern: prefix.then(more), by_key: false }));
    let mut tree: Tree<Recall> = Tree::default();
    for recall in by_key.chain(by_id) {
        let entries = tree.entry(&recall.pattern);
        // Several methods of one path share theirs.
        if entries.is_empty() {
            entries.push(recall);
        }
    }
    tree
}

/// Deliveries come where nothing else does.
pub(crate) fn webhooks(
    section: &Section<'_>,
    own: Option<&super::webhooks::Found>,
    routes: &[Found],
    operations_prefix: &str,
) {
    let Some(pattern) = own.and_then(|own| Pattern::parse(&own.webhooks.route.path).ok()) else { return };
    let reader = section.reader();
    let at = section.place("prefix");
    let post =
        routes.iter().filter(|route| route.method.as_ref().is_none_or(|method| method.value == Method::POST));
    let paths = post.filter_map(|route| route.path.as_ref());
    if let Some(path) = paths.into_iter().find(|path| path.value.meets(&pattern) != Meets::Never) {
        let what =
            format!("{} overlaps POST {} ({})", pattern.as_str(), path.value.as_str(), path.at.short());
        reader.mistake(&at, what, "use another `prefix`");
    }
    let by_id = Pattern::parse(operations_prefix).ok();
    if by_id.is_some_and(|prefix| BY_ID.iter().any(|more| prefix.then(more).meets(&pattern) != Meets::Never))
    {
        let what = format!("{} overlaps {operations_prefix}, where outcomes are recalled", pattern.as_str());
        reader.mistake(&at, what, "use another `prefix`");
    }
    own_pages(reader, &Spot::new(pattern, &at));
}

fn own_pages(reader: &Reader<'_>, path: &Spot<Pattern>) {
    if path.value.reaches_below(&OWN) {
        let what =
            format!("`{}` overlaps /.well-known/hapax/, which the edge serves itself", path.value.as_str());
        reader.mistake(&path.at, what, "use another path");
    }
}

/// Routes of different methods can have paths of which neither is more concrete; their recall routes have one method, and what one of
/// them did would be looked for under the other.
fn recalls_differ(reader: &Reader<'_>, routes: &[Found]) {
    let mut earlier: Tree<(&str, &Spot<Pattern>)> = Tree::default();
    for route in routes.iter().filter(|route| route.recall) {
        let (Some(method), Some(path)) = (&route.method, &route.path) else { continue };
        let method = method.value.as_str();
        let mut crossing = None;
        earlier.meeting(&path.value, |(other, before)| {
            let crosses = *other != method && before.value.meets(&path.value) == Meets::Crossing;
            crossing = crossing.or(Some(before).filter(|_| crosses));
        });
        if let Some(before) = crossing {
            let (a, b) = (path.value.as_str(), before.value.as_str());
            let what = format!(
                "outcomes of {a} and of {b} ({}) would be recalled at the same paths",
                before.at.short()
            );
            reader.mistake(
                &path.at,
                what,
                "make one of the paths more concrete, or say `recall = false` for one",
            );
        }
        earlier.entry(&path.value).push((method, path));
    }
}
