//! An OpenAPI 3.1 document of the edge's routes, or the same added to a document that exists (P4).
//!
//! What hapax adds is marked `x-hapax` where that is allowed, so that a second run replaces it and changes nothing else.

use std::collections::BTreeMap;

use hapax_core::Policy;
use hapax_gateway::settings::{Level, Route};
use serde_json::{Map, Value as Json, json};

use super::{EXTENSION, OURS, responses};
use crate::config::{
    BY_ID, Config, Declared, Pattern, RECALL, fingerprint_word, level_word, retention_text, words,
};

/// A document of the routes alone.
pub fn document(config: &Config, prefix: &str) -> Json {
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {"title": "What hapax protects", "version": env!("CARGO_PKG_VERSION")},
        "paths": {},
    });
    add(&mut document, config, prefix);
    document
}

/// Adds the routes to a document and keeps everything else. `prefix` stands before every path of the document; routes
/// without it are left out. The error says what is in the way.
pub fn into(document: &mut Json, config: &Config, prefix: &str) -> Result<(), String> {
    let version = document.get("openapi").and_then(Json::as_str).unwrap_or_default();
    if !version.starts_with("3.") {
        return Err("this is no OpenAPI 3 document".into());
    }
    for pointer in ["", "/paths", "/components", "/components/schemas"] {
        if document.pointer(pointer).is_some_and(|value| !value.is_object()) {
            return Err(format!("#{pointer} is no object"));
        }
    }
    add(document, config, prefix);
    Ok(())
}

fn add(document: &mut Json, config: &Config, prefix: &str) {
    let prefix = prefix.trim_end_matches('/');
    let within =
        |path: &str| path.strip_prefix(prefix).filter(|rest| rest.starts_with('/')).map(str::to_owned);
    object(object(document, "components"), "schemas")["Problem"] = responses::schema();
    let paths = object(document, "paths");
    for (route, declared) in config.settings.routes.iter().zip(&config.declared) {
        if let Some(path) = within(&route.path) {
            let item = object(paths, &path);
            operation(item, route, declared);
        }
    }
    for (path, name) in recall_paths(config) {
        if let Some(path) = within(&path) {
            let item = object(paths, &path);
            if item.get("get").is_none_or(is_ours) {
                item["get"] = recall(&path, &name);
            }
        }
    }
}

/// The member of this name, made an object if it is none.
fn object<'j>(parent: &'j mut Json, name: &str) -> &'j mut Json {
    let member = &mut parent[name];
    if !member.is_object() {
        *member = Json::Object(Map::new());
    }
    member
}

fn is_ours(value: &Json) -> bool {
    value.get(OURS).is_some()
}

fn operation(item: &mut Json, route: &Route, declared: &Declared) {
    let shared = item.get("parameters").cloned();
    let operation = object(item, &route.method.as_str().to_ascii_lowercase());
    if let Some(members) = operation.as_object_mut() {
        members.retain(|name, _| !name.starts_with(EXTENSION));
    }
    if let Some(name) = &declared.operation {
        operation["operationId"] = name.as_str().into();
    }
    for (name, value) in extensions(route) {
        operation[format!("{EXTENSION}{name}")] = value;
    }
    parameters(operation, route, shared.as_ref());
    all_responses(operation, route);
}

/// What the document says of a route, so that it can be read back.
fn extensions(route: &Route) -> Vec<(&'static str, Json)> {
    let mut all = vec![("policy", Json::from(route.policy.as_str()))];
    if route.level != Level::Project {
        all.push(("level", level_word(route.level).into()));
    }
    if route.lenient {
        all.push(("lenient", true.into()));
    }
    let Some(rule) = &route.rule else { return all };
    all.push(("retention", retention_text(rule.retention).into()));
    all.push(("rerun", words::rerun(rule.rerun).into()));
    all.push(("scope", rule.width.as_str().into()));
    all.push(("fingerprint", fingerprint_word(rule).into()));
    if let ignored @ [_, ..] = rule.recipe.ignored() {
        all.push(("ignore", ignored.iter().map(|pointer| pointer.as_str()).collect()));
    }
    if let headers @ [_, ..] = rule.recipe.headers() {
        all.push(("fingerprint-headers", headers.into()));
    }
    if let Some(path) = &route.reconcile {
        all.push(("reconcile", path.as_str().into()));
    }
    if let Some(window) = rule.derived {
        all.push(("key-from", "fingerprint".into()));
        all.push(("window", words::duration(window).into()));
    }
    all
}

/// The key, where the policy reads one, and the parameters of the path, where nobody has declared them.
fn parameters(operation: &mut Json, route: &Route, shared: Option<&Json>) {
    let mut parameters = match operation.get("parameters") {
        Some(Json::Array(parameters)) => parameters.clone(),
        _ => Vec::new(),
    };
    let reads_key = matches!(route.policy, Policy::RequiredA | Policy::Accepted);
    parameters.retain(|parameter| !(is_key(parameter) && (reads_key || is_ours(parameter))));
    let shared = shared.and_then(Json::as_array).into_iter().flatten();
    let declared: Vec<String> = parameters.iter().chain(shared).filter_map(path_parameter).collect();
    let pattern = Pattern::parse(&route.path).ok();
    for name in pattern
        .iter()
        .flat_map(Pattern::parameters)
        .filter(|name| !declared.iter().any(|known| known == name))
    {
        parameters.push(json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    }
    if reads_key {
        parameters.push(key_parameter(route.policy == Policy::RequiredA));
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    } else if let Some(members) = operation.as_object_mut() {
        members.remove("parameters");
    }
}

fn is_key(parameter: &Json) -> bool {
    let name = parameter.get("name").and_then(Json::as_str).unwrap_or_default();
    parameter.get("in").and_then(Json::as_str) == Some("header")
        && name.eq_ignore_ascii_case("idempotency-key")
}

fn path_parameter(parameter: &Json) -> Option<String> {
    let is_path = parameter.get("in").and_then(Json::as_str) == Some("path");
    parameter.get("name").and_then(Json::as_str).filter(|_| is_path).map(str::to_owned)
}

fn key_parameter(required: bool) -> Json {
    json!({
        OURS: "key",
        "name": "Idempotency-Key",
        "in": "header",
        "required": required,
        "description": "Names one intent: the same request with the same key is done once and answered alike.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": 257,
            "pattern": "^(?:[A-Za-z0-9._~\\-]{1,255}|\"[A-Za-z0-9._~\\-]{1,255}\")$",
        },
    })
}

/// Problem responses; a response that is described already gets the problem as one more form of its content.
fn all_responses(operation: &mut Json, route: &Route) {
    let responses = object(operation, "responses");
    if let Some(members) = responses.as_object_mut() {
        members.retain(|_, response| !is_ours(response));
        members.values_mut().for_each(remove_ours);
    }
    if responses.as_object().is_some_and(Map::is_empty) {
        responses["default"] = json!({OURS: "answer", "description": "The answer of the service"});
    }
    for (status, problem) in responses::of_route(route) {
        let described = &mut responses[status.as_str()];
        if described.is_null() {
            *described = problem;
        } else if described.get("$ref").is_none() {
            let content = object(described, "content");
            let media = "application/problem+json";
            if content.get(media).is_none() {
                content[media] = problem["content"][media].clone();
                content[media][OURS] = "problem".into();
            }
        }
    }
}

/// Takes away the forms of a response's content that an earlier run has added.
fn remove_ours(response: &mut Json) {
    let Some(Json::Object(content)) = response.get_mut("content") else { return };
    content.retain(|_, form| !is_ours(form));
    if content.is_empty()
        && let Some(response) = response.as_object_mut()
    {
        response.remove("content");
    }
}

/// The recall routes (H7) and the operation whose name they get. Several methods of one path share theirs.
fn recall_paths(config: &Config) -> BTreeMap<String, String> {
    let mut paths = BTreeMap::new();
    let named = |more: &str, name: &str| {
        format!("{name}.{}", if more.ends_with("output") { "output" } else { "recall" })
    };
    for rule in config.settings.routes.iter().filter_map(|route| Some((route, route.rule.as_ref()?))) {
        let Ok(pattern) = Pattern::parse(&rule.0.path) else { continue };
        for more in RECALL {
            let name = named(more, rule.1.operation.as_str());
            paths.entry(pattern.then(more).as_str().to_owned()).or_insert(name);
        }
    }
    if let Ok(prefix) = Pattern::parse(&config.settings.edge.operations_prefix) {
        for more in BY_ID {
            paths.insert(prefix.then(more).as_str().to_owned(), named(more, "operations"));
        }
    }
    paths
}

fn recall(path: &str, name: &str) -> Json {
    let at_once = path.ends_with("/output");
    let pattern = Pattern::parse(path).ok();
    let parameter =
        |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    let mut responses: Map<String, Json> = responses::of_recall().into_iter().collect();
    responses.insert("default".into(), json!({"description": "The outcome, as it was first answered"}));
    json!({
        OURS: "recall",
        "operationId": name,
        "summary": if at_once { "The outcome, if there is one" } else { "Waits for the outcome" },
        "parameters": pattern.iter().flat_map(Pattern::parameters).map(parameter).collect::<Vec<_>>(),
        "responses": responses,
    })
}
