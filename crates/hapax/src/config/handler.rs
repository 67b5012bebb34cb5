//! The handler of a cluster that a route leads to (`restate = { … }`), and what routes to one cannot say.

use std::collections::BTreeMap;

use hapax_core::json::Pointer;
use hapax_core::{Policy, Retention};
use hapax_exec::Attach;
use hapax_gateway::settings::{Classify, Handler, ObjectKey, Route};

use super::fields::Of;
use super::mistakes::Place;
use super::reader::Reader;
use super::route::{Declared, Found};
use super::section::Section;
use super::show::retention_text;
use super::upstream::Ready;
use super::webhooks;
use crate::limits;

/// The name of a workflow's handler that runs once for each key of the workflow.
const RUN: &str = "run";

/// The words of `input`: whether a handler takes nothing.
pub(super) const INPUTS: [(&str, bool); 2] = [("json", false), ("none", true)];

/// Reads where a route to this upstream leads; `None` where the upstream is a service.
pub(super) fn of_route(
    section: &Section<'_>,
    behind: Option<&Ready>,
    policy: Option<Policy>,
) -> Option<Handler> {
    let handler = read(section, behind, segments)?;
    let reader = section.reader();
    for field in section.written(|of| of == Of::Ledger) {
        let what = format!("`{field}` has no effect on a route to a cluster, which keeps the claim");
        reader.mistake(&section.place(field), what, "remove it");
    }
    let takes_keys = policy.is_some_and(Policy::is_keyed);
    if handler.workflow && handler.name == RUN && takes_keys {
        let what = "the handler `run` of a workflow takes no key: it runs once for each key of the workflow";
        reader.mistake(&section.place("policy"), what, "say `policy = \"PROHIBITED\"`");
    }
    if section.text("path").is_some_and(|path| path.value.contains("{*")) {
        reader.mistake(&section.place("path"), "a catch-all cannot lead to a handler", "name the path");
    }
    let waits_in_doubt = section.flag("recall").is_some_and(|recall| recall.value)
        && matches!(handler.key, Some(ObjectKey::Body(_)));
    if waits_in_doubt {
        let what =
            "`recall = true`: only the body names the object, so no key can be recalled below the path";
        reader.mistake(&section.place("recall"), what, "remove it, or put the object's key into the path");
    }
    Some(handler)
}

/// The same for deliveries, in whose handler `{provider}` may stand.
pub(super) fn of_webhooks(section: &Section<'_>, behind: Option<&Ready>) -> Option<Handler> {
    read(section, behind, |_| Vec::new())
}

fn read(
    section: &Section<'_>,
    behind: Option<&Ready>,
    segments: impl Fn(&Section<'_>) -> Vec<String>,
) -> Option<Handler> {
    let table = section.section("restate");
    let (reader, is_cluster) = (section.reader(), behind?.upstream.cluster.is_some());
    match (is_cluster, table.exists()) {
        (false, true) => {
            let what = "`restate` has no effect: the upstream is not of kind \"restate\"";
            reader.mistake(&section.place("restate"), what, "remove it, or name another upstream");
            return None;
        }
        (false, false) => return None,
        (true, false) => {
            section.require(
                "restate",
                "say which handler, such as { service = \"Payments\", handler = \"charge\" }",
            );
            return None;
        }
        (true, true) => {}
    }
    table.require("service", "name the service");
    table.require("handler", "name the handler");
    let service = table.parsed("service", name);
    let handler = table.parsed("handler", |text| match text {
        "{provider}" => Ok(text.to_owned()),
        _ => name(text),
    });
    let key = table.text("key");
    let workflow = table.flag("workflow").is_some_and(|workflow| workflow.value);
    if workflow && key.is_none() {
        table.require("key", "say where the workflow's key stands, such as \"{id}\" or \"/id\"");
    }
    let key = match key {
        None => None,
        Some(text) => match object_key(text.value, &segments(section)) {
            Ok(key) => Some(key),
            Err(remedy) => {
                reader.mistake(&text.at, format!("`key` cannot be {:?}", text.value), remedy);
                return None;
            }
        },
    };
    let takes_nothing = table.word("input", &INPUTS).is_some_and(|input| input.value);
    if takes_nothing && matches!(key, Some(ObjectKey::Body(_))) {
        let what = "`input = \"none\"`: without a body nothing names the object";
        reader.mistake(&table.place("input"), what, "remove it, or take the key from the path");
    }
    let envelope = table.flag("envelope").is_some_and(|envelope| envelope.value);
    let (service, name) = (service?.value, handler?.value);
    Some(Handler { service, name, key, workflow, takes_nothing, envelope })
}

/// The segments of a route's path.
fn segments(section: &Section<'_>) -> Vec<String> {
    let path = section.text("path").map(|path| path.value.to_owned()).unwrap_or_default();
    path.split('/').skip(1).map(str::to_owned).collect()
}

/// Names of services and handlers as they are registered: they stand in paths.
fn name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match starts_well && text.len() <= limits::HANDLER_NAME && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "use 1 to {} of A-Z, a-z, 0-9, `.`, `_` and `-`, starting with a letter",
            limits::HANDLER_NAME
        )),
    }
}

/// `"{id}"` is a segment of the path, `"/a/b"` a pointer into the body.
fn object_key(text: &str, segments: &[String]) -> Result<ObjectKey, String> {
    if text.starts_with('/') {
        let pointer = Pointer::new(text).map_err(|error| error.message().to_owned())?;
        return Ok(ObjectKey::Body(pointer));
    }
    let name = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).filter(|name| !name.is_empty());
    let name =
        name.ok_or("write a parameter of the path, such as \"{id}\", or a JSON pointer, such as \"/id\"")?;
    let number = segments.iter().position(|segment| segment == text);
    let number = number.ok_or("no segment of the path is this parameter alone")?;
    Ok(ObjectKey::Segment { number, name: name.to_owned() })
}

/// What routes and deliveries to clusters may not say together: keys of two operations on one handler would meet, and a service keeps
/// everything equally long.
pub(super) fn check(section: &Section<'_>, found: &[Found], webhooks: Option<&webhooks::Found>) {
    let reader = section.reader();
    let mut handlers: BTreeMap<(String, String, String), &Declared> = BTreeMap::new();
    let mut services = Services::new();
    for (route, declared) in found.iter().filter_map(|found| found.meant.as_ref()) {
        let (Some(handler), Some(rule)) = (&route.handler, &route.rule) else { continue };
        rejects(reader, route, declared);
        let upstream = route.upstream.name.clone();
        let place = (upstream, handler.service.clone(), handler.name.clone());
        if let Some(other) = handlers.insert(place, declared) {
            let name = other.operation.as_ref().map_or("another one", |operation| operation.as_str());
            let what = format!(
                "{}/{} is the handler of `{name}`, too: with one key, both would be one call",
                handler.service, handler.name
            );
            reader.mistake(&declared.place, what, "let one route with a key lead to each handler");
        }
        let kept = (rule.retention, declared.retention_class.as_deref());
        keeps(reader, &mut services, route, kept, &declared.place);
    }
    if let Some(found) = webhooks {
        let kept = (found.webhooks.rule.retention, found.retention_class.as_deref());
        keeps(reader, &mut services, &found.webhooks.route, kept, &section.place("retention"));
    }
}

/// How long the outcomes of each service of a cluster are kept, as it is written down: a class, or a span.
type Services = BTreeMap<(String, String), String>;

/// Whether a service can keep what a route or a delivery to it says.
fn keeps(
    reader: &Reader<'_>,
    services: &mut Services,
    route: &Route,
    (retention, class): (Retention, Option<&str>),
    place: &Place,
) {
    let Some(handler) = &route.handler else { return };
    if retention == Retention::Forever {
        let what =
            format!("a cluster keeps nothing for ever, and {} is one of its services", handler.service);
        reader.mistake(place, what, "say a span, such as `retention = \"30d\"`, or a class that is one");
    }
    let kept = class.map_or_else(|| retention_text(retention), str::to_owned);
    let service = (route.upstream.name.clone(), handler.service.clone());
    let other = services.entry(service).or_insert_with(|| kept.clone());
    if *other != kept {
        let what = format!(
            "the service {} is kept as {other:?} by another route or by deliveries, and as {kept:?} here",
            handler.service
        );
        let remedy =
            "name one retention for all that leads to a service: the cluster keeps it for the service";
        reader.mistake(place, what, remedy);
    }
}

/// Whether a call is under way is only known where the cluster says it.
fn rejects(reader: &Reader<'_>, route: &Route, declared: &Declared) {
    let is_marker =
        route.upstream.cluster.as_ref().is_some_and(|cluster| cluster.classify == Classify::Marker);
    if is_marker && route.rule.as_ref().is_some_and(|rule| rule.attach == Attach::Reject) {
        let what = "`attach = \"reject\"` needs `classify = \"exact\"`: in one round trip a call that is under way is joined";
        reader.mistake(&declared.place, what, "say `attach = \"wait\"`, or `classify = \"exact\"`");
    }
}
