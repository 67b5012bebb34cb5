//! One route (`[[routes]]`): what it matches, what it demands of a key (P1) and where it goes. How a keyed one is protected
//! is read in [`rule`](super::rule); how routes get in each other's way is looked at in [`overlaps`](super::overlaps).

use std::collections::BTreeMap;
use std::sync::Arc;

use hapax_core::{Operation, Policy};
use hapax_gateway::settings::{Fixed, Handler, Level, ObjectKey, Route};
use http::Method;

use super::Pattern;
use super::edge::RouteDefaults;
use super::fields::{self, Of};
use super::handler;
use super::keeping::RetentionClasses;
use super::mistakes::Place;
use super::rule;
use super::section::{Section, Spot};
use super::upstream::{Behind, Ready};
use crate::limits;

/// What is known of a route beside what the gateway needs.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Where it is written.
    pub place: Place,
    /// Its name; every keyed route has one (K6).
    pub operation: Option<Operation>,
    /// The names that the operation had before, the newest first; none of them where its keys are new (K6).
    pub was: Option<Vec<Operation>>,
    /// The retention class that it names, or that holds because it names nothing.
    pub retention_class: Option<String>,
    /// The fields that it states; all others have what holds where nothing is said.
    pub stated: Vec<&'static str>,
}

/// What a route is read with.
pub(crate) struct Context<'c> {
    pub(crate) defaults: &'c RouteDefaults,
    pub(crate) upstreams: &'c BTreeMap<String, Behind>,
    pub(crate) retention: &'c RetentionClasses,
    /// What all bodies may take in memory together.
    pub(crate) max_buffered: u64,
    /// Whose callers of public routes are.
    pub(crate) fixed: &'c Fixed,
}

/// A route as it was read; with mistakes, some of it is missing.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) method: Option<Spot<Method>>,
    pub(crate) path: Option<Spot<Pattern>>,
    pub(crate) operation: Option<Spot<Operation>>,
    pub(crate) was: Option<Vec<Spot<Operation>>>,
    pub(crate) keyed: bool,
    /// Whether outcomes are recalled by key below its path.
    pub(crate) recall: bool,
    pub(crate) meant: Option<(Route, Declared)>,
}

/// The words of `level`.
pub(super) const LEVELS: [(&str, Level); 3] =
    [("project", Level::Project), ("tenant", Level::Tenant), ("platform", Level::Platform)];

/// The word of a level.
pub(crate) fn level_word(level: Level) -> &'static str {
    LEVELS.iter().find(|(_, known)| *known == level).map_or("project", |(word, _)| word)
}

/// Reads what [`level_word`] gives.
pub(crate) fn level_of(word: &str) -> Option<Level> {
    LEVELS.iter().find(|(known, _)| *known == word).map(|(_, level)| *level)
}

/// Reads one route.
pub(crate) fn read(section: &Section<'_>, context: &Context<'_>) -> Found {
    section.require("method", "say which, such as \"POST\"");
    section.require("path", "say which, such as \"/api/v1/payments\"");
    let method = section.parsed("method", method);
    let path = section.parsed("path", Pattern::of_route);
    let catches_all = catches_all(section, method.as_ref(), path.as_ref());
    let level = section.word("level", &LEVELS).map_or(Level::Project, |level| level.value);
    let policy = policy(section, level, catches_all);
    let operation = section.parsed("operation", operation);
    let lenient = lenient(section, policy);
    let behind = upstream(section, context);
    let keyed = policy.is_some_and(Policy::is_keyed);
    let public = policy.is_some_and(|_| public(section, level, keyed, context.fixed));
    let recall = recall(section, catches_all, public);
    let mut found = Found { method, path, operation, was: None, keyed, recall: keyed && recall, meant: None };
    if found.keyed {
        section.require("operation", "name the operation of every keyed route, such as \"payments.create\"");
        found.was = former_names(section);
    } else if policy.is_some() {
        without_effect(section);
    }
    let rule = if found.keyed { Some(rule::read(section, context, behind)) } else { None };
    let handler = handler::of_route(section, behind, policy);
    // Only a body names the object, and a recall has none.
    let is_named_by_body =
        handler.as_ref().is_some_and(|handler| matches!(handler.key, Some(ObjectKey::Body(_))));
    found.recall &= !is_named_by_body;
    let demands = Demands { policy, lenient, public, level };
    found.meant = meant(section, &found, &demands, behind, rule, handler);
    found
}

/// What a route demands of a caller.
struct Demands {
    policy: Option<Policy>,
    lenient: bool,
    public: bool,
    level: Level,
}

/// Whether this is the catch-all: `*` and `/{*rest}` go together (P2).
fn catches_all(section: &Section<'_>, method: Option<&Spot<Method>>, path: Option<&Spot<Pattern>>) -> bool {
    let (Some(method), Some(path)) = (method, path) else { return false };
    let (every_method, every_path) = (method.value.as_str() == ANY_METHOD, path.value.is_catch_all());
    if every_method && !every_path {
        let remedy = "say which method, or `path = \"/{*rest}\"` for everything that no other route takes";
        section.reader().mistake(&method.at, "`method = \"*\"` is for a catch-all only", remedy);
    }
    if every_path && !every_method {
        let what = "a catch-all takes every method";
        section.reader().mistake(&method.at, what, "say `method = \"*\"`, or a path without `{*…}`");
    }
    every_path
}

/// The method of a catch-all.
pub(crate) const ANY_METHOD: &str = "*";

/// Whether everybody comes in, with the words that fit: who shares keys with strangers must have said so (A2).
fn public(section: &Section<'_>, level: Level, keyed: bool, fixed: &Fixed) -> bool {
    let reader = section.reader();
    let Some(stated) = section.flag_or_word("public") else { return false };
    let Some(shared) = stated.value else { return false };
    match (shared, keyed) {
        (false, true) => {
            let what = "`public = true` is for routes that take no keys: on this one, every caller who knows a key gets its answer";
            reader.mistake(&stated.at, what, "say `public = \"shared-keys\"` if that is meant");
        }
        (true, false) => {
            let what = "`public = \"shared-keys\"` is for routes that take keys";
            reader.mistake(&stated.at, what, "say `public = true`");
        }
        _ => {}
    }
    if fixed.tenant.is_none() || fixed.project.is_none() {
        let what =
            "a public route needs a tenant and a project of its own, and credentials are not looked at";
        reader.mistake(&stated.at, what, "say `tenant` and `project` in [auth]");
    }
    if level != Level::Project {
        let what = format!("a public route is a project's, not one of level {}", level_word(level));
        reader.mistake(&stated.at, what, "remove `level`, or `public`");
    }
    if section.text("fingerprint").is_some_and(|word| word.value == "none") {
        let what = "`fingerprint = \"none\"` on a public route hands anybody the answer to another request";
        reader.mistake(&section.place("fingerprint"), what, "choose another fingerprint");
    }
    if section.text("scope").is_some_and(|word| word.value != "subject") {
        let what = "`scope` has no effect on a public route, whose callers are one subject";
        reader.mistake(&section.place("scope"), what, "remove it");
    }
    if section.has("key_from") {
        let what = "`key_from` on a public route takes the same request of two callers for one";
        reader.mistake(&section.place("key_from"), what, "remove it, or `public`");
    }
    true
}

/// Keys are shared by all callers of a public route.
pub(crate) const SHARED_KEYS: &str = "shared-keys";

/// Whether outcomes are recalled by key below the path (H7).
fn recall(section: &Section<'_>, catches_all: bool, public: bool) -> bool {
    let stated = section.flag("recall");
    let never = match (catches_all, public) {
        (true, _) => Some("a catch-all"),
        (false, true) => Some("a public route"),
        _ => None,
    };
    if let (Some(which), Some(stated)) = (never, stated.as_ref().filter(|stated| stated.value)) {
        let what = format!("`recall = true`: {which} has no recall by key");
        section.reader().mistake(&stated.at, what, "remove it");
    }
    never.is_none() && stated.is_none_or(|stated| stated.value)
}

/// Brings the parts together, where none is missing.
fn meant(
    section: &Section<'_>,
    found: &Found,
    demands: &Demands,
    behind: Option<&Ready>,
    rule: Option<rule::Protection>,
    handler: Option<Handler>,
) -> Option<(Route, Declared)> {
    let (method, path, policy) = (found.method.as_ref()?, found.path.as_ref()?, demands.policy?);
    let operation = found.operation.as_ref().map(|operation| operation.value.clone());
    let mut declared = Declared {
        place: section.at(),
        operation: operation.clone(),
        was: found.was.as_ref().map(|names| names.iter().map(|name| name.value.clone()).collect()),
        retention_class: None,
        stated: section.written(|_| true).collect(),
    };
    let mut reconcile = None;
    let rule = match rule {
        Some(protection) => {
            let mut rule = protection.rule;
            let first = declared.was.as_ref().and_then(|names| names.last().cloned());
            rule.call(operation?, first);
            rule.policy = policy;
            declared.retention_class = protection.retention_class;
            reconcile = protection.reconcile;
            Some(Arc::new(rule))
        }
        None => None,
    };
    if behind?.upstream.cluster.is_some() && handler.is_none() {
        return None;
    }
    let route = Route {
        method: method.value.clone(),
        path: path.value.as_str().into(),
        policy,
        lenient: demands.lenient,
        public: demands.public,
        recall: found.recall,
        level: demands.level,
        upstream: behind?.upstream.clone(),
        rule,
        reconcile,
        handler: handler.map(Arc::new),
    };
    Some((route, declared))
}

fn method(text: &str) -> Result<Method, String> {
    match text {
        ANY_METHOD => Method::from_bytes(ANY_METHOD.as_bytes()).map_err(|error| error.to_string()),
        "HEAD" | "OPTIONS" => {
            Err("remove the route: HEAD and OPTIONS follow the routes of the path (P7)".into())
        }
        "CONNECT" | "TRACE" => Err("the edge does not forward it".into()),
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase()) => {
            Method::from_bytes(text.as_bytes()).map_err(|_| "write a method such as \"POST\"".into())
        }
        _ => Err("write a method in capitals, such as \"POST\"".into()),
    }
}

fn operation(text: &str) -> Result<Operation, String> {
    // Operators decide about steps with other commands than about requests.
    if text.starts_with("step.") {
        return Err("names that start with `step.` belong to the steps of executions".into());
    }
    Operation::new(text).map_err(|error| error.message().to_owned())
}

/// One name, or several, the newest first.
fn former_names(section: &Section<'_>) -> Option<Vec<Spot<Operation>>> {
    let texts = section.one_or_more("was")?;
    if texts.len() > limits::FORMER_NAMES {
        let what = format!("`was` has {} names", texts.len());
        section.reader().mistake(
            &section.place("was"),
            what,
            format!("use at most {}", limits::FORMER_NAMES),
        );
    }
    Some(names(section, "was", texts))
}

/// Names of operations; those that are none are told.
pub(crate) fn names(section: &Section<'_>, field: &str, texts: Vec<Spot<&str>>) -> Vec<Spot<Operation>> {
    let mut names = Vec::with_capacity(texts.len());
    for text in texts {
        match operation(text.value) {
            Ok(name) => names.push(Spot::new(name, &text.at)),
            Err(remedy) => {
                section.reader().mistake(&text.at, format!("`{field}` cannot be {:?}", text.value), remedy);
            }
        }
    }
    names
}

/// The words of policies.
pub(crate) fn policies() -> [(&'static str, Policy); 5] {
    Policy::ALL.map(|policy| (policy.as_str(), policy))
}

/// Every route declares one; those of a tenant or of the platform and a catch-all prohibit keys unless they say otherwise (P1, P2).
fn policy(section: &Section<'_>, level: Level, catches_all: bool) -> Option<Policy> {
    let words = policies();
    if !section.has("policy") && (catches_all || level != Level::Project) {
        return Some(Policy::Prohibited);
    }
    section.require("policy", "say REQUIRED_A, REQUIRED_B, ACCEPTED, HANDLER_INTERNAL_C or PROHIBITED");
    section.word("policy", &words).map(|policy| policy.value)
}

fn lenient(section: &Section<'_>, policy: Option<Policy>) -> bool {
    let flag = section.flag("lenient");
    if let (Some(flag), Some(policy)) = (&flag, policy)
        && policy != Policy::Prohibited
    {
        let what = format!("`lenient` has no effect on a route that is {policy}");
        section.reader().mistake(&flag.at, what, "remove it; only a prohibited key can be ignored");
    }
    flag.is_some_and(|flag| flag.value)
}

/// Where it goes; `None` where that is no upstream that could be used, which is told.
pub(crate) fn upstream<'c>(section: &Section<'_>, context: &Context<'c>) -> Option<&'c Ready> {
    section.require("upstream", "name one of [upstreams]");
    let name = section.text("upstream")?;
    match context.upstreams.get(name.value) {
        Some(Behind::Ready(ready)) => Some(ready),
        Some(Behind::Broken) => None,
        None => {
            let known = context.upstreams.keys().map(String::as_str);
            let remedy = match fields::nearest(name.value, known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("add [upstreams.{}]", name.value),
            };
            section.reader().mistake(&name.at, format!("there is no upstream {:?}", name.value), remedy);
            None
        }
    }
}

/// A field that does nothing would be taken for protection.
fn without_effect(section: &Section<'_>) {
    for field in section.written(|of| matches!(of, Of::Keyed | Of::Ledger)) {
        let what = format!("`{field}` has no effect on a route that takes no keys");
        section.reader().mistake(&section.place(field), what, remedy_without_effect(field));
    }
}

fn remedy_without_effect(field: &str) -> &'static str {
    match field {
        "timeout" => "remove it, and set the upstream's `timeout`",
        _ => "remove it, or give the route a policy that takes keys",
    }
}
