//! An OpenAPI 3.1 document of the edge's routes, or the same added to a document that exists (P4).
//!
//! What hapax adds is marked `x-hapax` where that is allowed, so that a second run replaces it and changes nothing else.

use std::collections::{BTreeMap, HashMap};

use hapax_core::{Grammar, Policy, Retention};
use hapax_gateway::settings::Route;
use hapax_tower::{IdentifierPlace, Keys, limits};
use serde_json::{Map, Value as Json, json};

use super::{OURS, Source, extension_of, field_named, field_of, responses, token};
use crate::config::{self, BY_ID, Config, Declared, Pattern, recall_paths, retention_text};

/// A document of the routes alone.
pub fn document(config: &Config, prefix: &str) -> Result<Json, String> {
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {"title": "What hapax protects", "version": env!("CARGO_PKG_VERSION")},
        "paths": {},
    });
    add(&mut document, config, &Target { prefix, source: None })?;
    Ok(document)
}

/// Where routes are written to.
#[derive(Clone, Copy, Debug)]
pub struct Target<'t> {
    /// What stands before every path of the document; routes without it are left out.
    pub prefix: &'t str,
    /// Set where the configuration reads its routes from this very document. It then says nothing about routes that are
    /// written elsewhere: they would be there twice.
    pub source: Option<&'t Source>,
}

/// Adds the routes to a document: what it says of them is replaced, and everything else is kept. The error says what is in
/// the way; the document is then as it was.
pub fn into(document: &mut Json, config: &Config, target: &Target<'_>) -> Result<(), String> {
    let version = document.get("openapi").and_then(Json::as_str).unwrap_or_default();
    if !version.starts_with("3.") {
        return Err("this is no OpenAPI 3 document".into());
    }
    let mut changed = document.clone();
    add(&mut changed, config, target)?;
    *document = changed;
    Ok(())
}

fn add(document: &mut Json, config: &Config, target: &Target<'_>) -> Result<(), String> {
    let prefix = target.prefix.trim_end_matches('/');
    let within =
        |path: &str| path.strip_prefix(prefix).filter(|rest| rest.starts_with('/')).map(str::to_owned);
    let parameters = document.pointer(PARAMETERS).cloned().unwrap_or_default();
    let mut root = Object::at(document, String::new())?;
    // Whether a cluster keeps some of the claims.
    let delegated = config.settings.routes.iter().any(|route| route.handler.is_some());
    let common = Common { problem: problem(&mut root, delegated)?, parameters };
    let mut paths = root.object("paths")?;
    let mut written = Written::of(&paths);
    let routes = config.settings.routes.iter().zip(&config.declared);
    // A catch-all has no path that callers could be told.
    for (route, declared) in routes.filter(|(route, _)| !route.is_catch_all()) {
        if let Some(path) = within(&route.path) {
            let path = written.name(&paths, path);
            let said = said(route, declared, target.source);
            operation(&mut paths.object(&path)?, &path, route, declared, said, &common)?;
        }
    }
    let problem = common.problem;
    for (path, name) in recalls(config) {
        if let Some(path) = within(&path) {
            let path = written.name(&paths, path);
            let item = paths.object(&path)?;
            item.is_no_reference()?;
            if item.members.get("get").is_none_or(is_ours) {
                item.members.insert("get".into(), recall(&path, &name, problem, delegated));
            }
        }
    }
    Ok(())
}

/// Where parameters are that operations refer to.
const PARAMETERS: &str = "/components/parameters";

/// What the operations of a document have in common.
struct Common {
    /// The name of the schema of problems.
    problem: &'static str,
    /// The parameters that can be referred to.
    parameters: Json,
}

impl Common {
    /// A parameter, or the one that it refers to. What cannot be found here is left to whoever wrote the reference.
    fn parameter<'p>(&'p self, parameter: &'p Json) -> &'p Json {
        let name = parameter.get("$ref").and_then(Json::as_str);
        let name = name.and_then(|text| text.strip_prefix('#')?.strip_prefix(PARAMETERS));
        name.and_then(|pointer| self.parameters.pointer(pointer)).unwrap_or(parameter)
    }
}

/// The paths of a document by their shapes: the names of parameters make no other path, and a document may have it once only.
struct Written {
    by_shape: HashMap<String, String>,
}

impl Written {
    fn of(paths: &Object<'_>) -> Self {
        let shape = |path: &String| Some((Pattern::parse(path).ok()?.shape(), path.clone()));
        Written { by_shape: paths.members.keys().rev().filter_map(shape).collect() }
    }

    /// A path as the document has it, or will have it from now on.
    fn name(&mut self, paths: &Object<'_>, path: String) -> String {
        match Pattern::parse(&path) {
            Ok(pattern) if !paths.members.contains_key(&path) => {
                self.by_shape.entry(pattern.shape()).or_insert(path).clone()
            }
            _ => path,
        }
    }
}

/// An object of the document, and where it is.
struct Object<'j> {
    members: &'j mut Map<String, Json>,
    pointer: String,
}

impl<'j> Object<'j> {
    /// What is no object is somebody's mistake; in its place nothing is written.
    fn at(json: &'j mut Json, pointer: String) -> Result<Self, String> {
        match json {
            Json::Object(members) => Ok(Object { members, pointer }),
            _ => Err(format!("#{pointer} is no object")),
        }
    }

    /// The object of this name, made where there is none.
    fn object(&mut self, name: &str) -> Result<Object<'_>, String> {
        let pointer = self.pointer_to(name);
        Object::at(self.members.entry(name).or_insert_with(|| Map::new().into()), pointer)
    }

    /// Beside a reference nothing counts, so that nothing is written there.
    fn is_no_reference(&self) -> Result<(), String> {
        match self.members.contains_key("$ref") {
            true => Err(format!("#{} is a reference: write the path item there", self.pointer)),
            false => Ok(()),
        }
    }

    fn pointer_to(&self, name: &str) -> String {
        format!("{}/{}", self.pointer, token(name))
    }
}

fn is_ours(value: &Json) -> bool {
    value.get(OURS).is_some()
}

/// Writes the schema of problems, and says under which name: one that the document's author has taken stays as it is.
fn problem(root: &mut Object<'_>, delegated: bool) -> Result<&'static str, String> {
    let mut components = root.object("components")?;
    let schemas = components.object("schemas")?;
    let free = |name: &&str| schemas.members.get(*name).is_none_or(is_ours);
    let name = ["Problem", "HapaxProblem"].into_iter().find(free);
    let name = name.ok_or_else(|| format!("#{} has a HapaxProblem that is not ours", schemas.pointer))?;
    schemas.members.insert(name.into(), responses::schema(delegated));
    Ok(name)
}

/// What callers are told of a route whether or not it states it.
const TOLD: [&str; 5] = ["policy", "retention", "rerun", "scope", "fingerprint"];

/// The extensions of a route, so that it can be read back: everything that it states. What it leaves to defaults is left to
/// them; in the document that it was read from, nothing else is said.
fn said(route: &Route, declared: &Declared, source: Option<&Source>) -> Vec<(String, Json)> {
    let told: &[&str] = match source {
        None => &TOLD,
        Some(source) if source.file == *declared.place.file => &["policy"],
        Some(_) => return Vec::new(),
    };
    let says = |field: &str| told.contains(&field) || declared.stated.contains(&field);
    let fields = config::route_members(route, declared).into_iter();
    let extension = |(field, value): (String, Json)| Some((extension_of(field_named(&field)?), value));
    fields.filter(|(field, _)| says(field)).filter_map(extension).collect()
}

/// Writes one route; `said` is what the document says of it, so that it can be read back.
fn operation(
    item: &mut Object<'_>,
    path: &str,
    route: &Route,
    declared: &Declared,
    said: Vec<(String, Json)>,
    common: &Common,
) -> Result<(), String> {
    item.is_no_reference()?;
    let shared = item.members.get("parameters").cloned();
    let mut operation = item.object(&route.method.as_str().to_ascii_lowercase())?;
    operation.members.retain(|name, _| field_of(name).is_none());
    if let Some(name) = &declared.operation {
        operation.members.insert("operationId".into(), name.as_str().into());
    }
    operation.members.extend(said);
    parameters(&mut operation, path, route, shared.as_ref(), common)?;
    all_responses(&mut operation, route, common.problem)
}

/// The key, where the policy reads one, and the parameters of the path, where nobody has declared them.
fn parameters(
    operation: &mut Object<'_>,
    path: &str,
    route: &Route,
    shared: Option<&Json>,
    common: &Common,
) -> Result<(), String> {
    let mut parameters = match operation.members.get("parameters") {
        Some(Json::Array(parameters)) => parameters.clone(),
        Some(_) => return Err(format!("#{} is no list", operation.pointer_to("parameters"))),
        None => Vec::new(),
    };
    let names = match route.policy {
        Policy::RequiredA | Policy::Accepted => key_headers(route),
        Policy::RequiredB => identifier_header(route).into_iter().collect(),
        Policy::HandlerInternalC | Policy::Prohibited => Vec::new(),
    };
    parameters.retain(|parameter| !(is_ours(parameter) || is_header(common.parameter(parameter), &names)));
    let shared = shared.and_then(Json::as_array).into_iter().flatten();
    let declared = parameters.iter().chain(shared).map(|parameter| common.parameter(parameter));
    let declared: Vec<String> = declared.filter_map(path_parameter).collect();
    let pattern = Pattern::parse(path).ok();
    for name in pattern
        .iter()
        .flat_map(Pattern::parameters)
        .filter(|name| !declared.iter().any(|known| known == name))
    {
        parameters.push(json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    }
    parameters.extend(names.iter().map(|name| key_parameter(route, name)));
    if parameters.is_empty() {
        operation.members.remove("parameters");
    } else {
        operation.members.insert("parameters".into(), parameters.into());
    }
    Ok(())
}

/// The headers that callers are told to send their keys in. A key in a body is described with the body, by who described that.
fn key_headers(route: &Route) -> Vec<String> {
    match route.rule.as_ref().map(|rule| &rule.keys) {
        Some(keys) if !keys.places.is_empty() => {
            keys.headers().map(|name| name.as_str().to_owned()).collect()
        }
        _ => vec!["Idempotency-Key".to_owned()],
    }
}

/// The header that senders are told to name their requests in. An identifier in a body is described with the body.
fn identifier_header(route: &Route) -> Option<String> {
    match route.rule.as_ref()?.keys.identifier.as_ref()? {
        IdentifierPlace::Header(name) => Some(name.clone()),
        IdentifierPlace::Json(_) | IdentifierPlace::Form(_) => None,
    }
}

fn is_header(parameter: &Json, names: &[String]) -> bool {
    let name = parameter.get("name").and_then(Json::as_str).unwrap_or_default();
    let is_header = parameter.get("in").and_then(Json::as_str) == Some("header");
    is_header && names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn path_parameter(parameter: &Json) -> Option<String> {
    let is_path = parameter.get("in").and_then(Json::as_str) == Some("path");
    parameter.get("name").and_then(Json::as_str).filter(|_| is_path).map(str::to_owned)
}

/// What callers must know of the key: how long it counts, too, which the route may leave to its retention class.
fn key_parameter(route: &Route, name: &str) -> Json {
    let is_identifier = route.policy == Policy::RequiredB;
    let kept = route.rule.as_ref().map(|rule| match rule.retention {
        Retention::Forever => ", for ever".to_owned(),
        retention => format!(", for {}", retention_text(retention)),
    });
    let keys = route.rule.as_ref().map_or(Keys::plain(), |rule| &rule.keys);
    let pattern = match keys.grammar {
        _ if is_identifier => "^[A-Za-z0-9._~\\-]{1,200}$",
        Grammar::Plain => "^(?:[A-Za-z0-9._~\\-]{1,255}|\"[A-Za-z0-9._~\\-]{1,255}\")$",
        Grammar::Printable => "^(?:[!#-+\\--~]{1,255}|\"[!#-+\\--~]{1,255}\")$",
    };
    let longest = if is_identifier { limits::IDENTIFIER } else { 257 };
    let meaning = "Names one intent: the same request with the same key is done once and answered alike";
    json!({
        OURS: "key",
        "name": name,
        "in": "header",
        // Where there are several places, each of them will do.
        "required": is_identifier || (route.policy == Policy::RequiredA && keys.places.len() <= 1),
        "description": format!("{meaning}{}.", kept.unwrap_or_default()),
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": longest,
            "pattern": pattern,
        },
    })
}

/// Problem responses; a response that is described already gets the problem as one more form of its content.
fn all_responses(operation: &mut Object<'_>, route: &Route, problem: &str) -> Result<(), String> {
    let mut responses = operation.object("responses")?;
    responses.members.retain(|_, response| !is_ours(response));
    responses.members.values_mut().for_each(remove_ours);
    if responses.members.is_empty() {
        let answer = json!({OURS: "answer", "description": "The answer of the service"});
        responses.members.insert("default".into(), answer);
    }
    for (status, response) in responses::of_route(route, problem) {
        if !responses.members.contains_key(&status) {
            responses.members.insert(status, response);
            continue;
        }
        let mut described = responses.object(&status)?;
        if !described.members.contains_key("$ref") {
            let (media, mut form) = responses::form(&response);
            form[OURS] = "problem".into();
            described.object("content")?.members.entry(media).or_insert(form);
        }
    }
    Ok(())
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
fn recalls(config: &Config) -> BTreeMap<String, String> {
    let mut paths = BTreeMap::new();
    let named = |more: &str, name: &str| {
        format!("{name}.{}", if more.ends_with("output") { "output" } else { "recall" })
    };
    let recalled = config.settings.routes.iter().filter(|route| route.recall);
    for (route, rule) in recalled.filter_map(|route| Some((route, route.rule.as_ref()?))) {
        let Ok(pattern) = Pattern::parse(&route.path) else { continue };
        for more in recall_paths(&config.settings.edge.recall_segment) {
            let name = named(&more, rule.operation.as_str());
            paths.entry(pattern.then(&more).as_str().to_owned()).or_insert(name);
        }
    }
    if let Ok(prefix) = Pattern::parse(&config.settings.edge.operations_prefix) {
        for more in BY_ID {
            paths.insert(prefix.then(more).as_str().to_owned(), named(more, "operations"));
        }
    }
    paths
}

fn recall(path: &str, name: &str, problem: &str, delegated: bool) -> Json {
    let at_once = path.ends_with("/output");
    let pattern = Pattern::parse(path).ok();
    let parameter =
        |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    let mut responses: Map<String, Json> = responses::of_recall(problem, delegated).into_iter().collect();
    responses.insert("default".into(), json!({"description": "The outcome, as it was first answered"}));
    json!({
        OURS: "recall",
        "operationId": name,
        "summary": if at_once { "The outcome, if there is one" } else { "Waits for the outcome" },
        "parameters": pattern.iter().flat_map(Pattern::parameters).map(parameter).collect::<Vec<_>>(),
        "responses": responses,
    })
}
