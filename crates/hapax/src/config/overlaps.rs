//! Routes that get in each other's way: a request must match exactly one (P2), recall routes are the edge's own (H7), and
//! an operation has one name (K6).

use std::collections::HashMap;

use hapax_core::Operation;
use http::Method;

use super::mistakes::Place;
use super::pattern::{Meets, Pattern};
use super::reader::Reader;
use super::route::Found as RouteFound;
use super::section::{Section, Spot};
use super::webhooks::Found;

/// Below the path of a keyed route: where outcomes are recalled by key (H7).
pub(crate) const RECALL: [&str; 2] = ["/by-idempotency-key/{key}", "/by-idempotency-key/{key}/output"];
/// Below the edge's `operations_prefix`: where outcomes are recalled by operation id (H7).
pub(crate) const BY_ID: [&str; 2] = ["/{operation_id}", "/{operation_id}/output"];
/// The word in the place of a parameter that no route can have.
pub(super) const RESERVED: &str = "by-idempotency-key";
/// What the edge serves itself.
pub(super) const OWN: [&str; 2] = [".well-known", "hapax"];

/// A path that the edge serves itself.
struct Recall<'f> {
    pattern: Pattern,
    /// The route whose outcomes are recalled; `None` for those recalled by id.
    of: Option<&'f Spot<Pattern>>,
}

/// Tells every pair that gets in each other's way.
pub(crate) fn check(reader: &Reader<'_>, routes: &[RouteFound], operations_prefix: &str) {
    names(reader, routes);
    former_names(reader, routes);
    same_requests(reader, routes);
    let recalls = recalls(routes, operations_prefix);
    let mut by_length: HashMap<usize, Vec<&Recall<'_>>> = HashMap::new();
    recalls.iter().for_each(|recall| by_length.entry(recall.pattern.len()).or_default().push(recall));
    for path in routes.iter().filter_map(|route| route.path.as_ref()) {
        own_pages(reader, path);
        let near = by_length.get(&path.value.len()).into_iter().flatten();
        if let Some(recall) = near.into_iter().find(|recall| recall.is_overlapped_by(&path.value)) {
            let (path_text, recall_text) = (path.value.as_str(), recall.pattern.as_str());
            let what = format!("`{path_text}` overlaps {recall_text}, where outcomes are recalled");
            let remedy = match recall.of {
                Some(_) => "use another path",
                None => "use another path, or another `operations_prefix`",
            };
            reader.mistake(&path.at, what, remedy);
        }
    }
    recalls_differ(reader, &recalls);
}

impl Recall<'_> {
    /// `/orders/{order}/notes` could match `/orders/by-idempotency-key/notes`, too. That is no overlap: in the place of a
    /// parameter the word is reserved, and recall goes first. Otherwise no keyed collection could have nested resources.
    fn is_overlapped_by(&self, path: &Pattern) -> bool {
        match path.meets(&self.pattern) {
            Meets::Never => false,
            Meets::Crossing => self.of.is_none() || path.has_literal(RESERVED),
            Meets::Same | Meets::Within => true,
        }
    }
}

fn names(reader: &Reader<'_>, routes: &[RouteFound]) {
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
fn former_names(reader: &Reader<'_>, routes: &[RouteFound]) {
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
pub(crate) fn retired(reader: &Reader<'_>, retired: &[Spot<Operation>], routes: &[RouteFound]) {
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

/// Two routes of one method whose patterns are the same, or of which neither is the more concrete one.
fn same_requests(reader: &Reader<'_>, routes: &[RouteFound]) {
    let mut groups: HashMap<(&str, usize), Vec<&Spot<Pattern>>> = HashMap::new();
    for route in routes {
        let (Some(method), Some(path)) = (&route.method, &route.path) else { continue };
        let group = groups.entry((method.value.as_str(), path.value.len())).or_default();
        let clash = group.iter().find_map(|earlier| match earlier.value.meets(&path.value) {
            Meets::Same => Some((earlier, "the same requests")),
            Meets::Crossing => Some((earlier, "some of the same requests, and neither is more concrete")),
            Meets::Within | Meets::Never => None,
        });
        if let Some((earlier, which)) = clash {
            let (method, path_text) = (method.value.as_str(), path.value.as_str());
            let what = format!(
                "{method} {path_text} and {method} {} ({}) match {which}",
                earlier.value.as_str(),
                earlier.at.short()
            );
            reader.mistake(&path.at, what, "keep one of them, or make one more concrete");
        }
        group.push(path);
    }
}

fn recalls<'f>(routes: &'f [RouteFound], operations_prefix: &str) -> Vec<Recall<'f>> {
    let keyed = routes.iter().filter(|route| route.keyed).filter_map(|route| route.path.as_ref());
    let by_key = keyed.flat_map(|path| {
        RECALL.iter().map(move |more| Recall { pattern: path.value.then(more), of: Some(path) })
    });
    let prefix = Pattern::parse(operations_prefix).ok();
    let by_id = prefix
        .into_iter()
        .flat_map(|prefix| BY_ID.map(|more| Recall { pattern: prefix.then(more), of: None }));
    by_key.chain(by_id).collect()
}

/// Deliveries come where nothing else does.
pub(crate) fn webhooks(
    section: &Section<'_>,
    own: Option<&Found>,
    routes: &[RouteFound],
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

/// Routes of different methods can have paths of which neither is more concrete; their recall routes have one method.
fn recalls_differ(reader: &Reader<'_>, recalls: &[Recall<'_>]) {
    let keyed: Vec<_> = recalls.iter().filter_map(|recall| recall.of).step_by(RECALL.len()).collect();
    let mut by_length: HashMap<usize, Vec<&Spot<Pattern>>> = HashMap::new();
    for path in keyed {
        let group = by_length.entry(path.value.len()).or_default();
        if let Some(earlier) =
            group.iter().find(|earlier| earlier.value.meets(&path.value) == Meets::Crossing)
        {
            let (a, b) = (path.value.as_str(), earlier.value.as_str());
            let what = format!(
                "outcomes of {a} and of {b} ({}) would be recalled at the same paths",
                earlier.at.short()
            );
            reader.mistake(&path.at, what, "make one of the paths more concrete");
        }
        group.push(path);
    }
}
