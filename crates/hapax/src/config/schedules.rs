//! `[[schedules]]` and `[auth.schedules]`: what is dispatched when, and what it is signed with (S, A4).
//!
//! A schedule calls a route of the same file; whether that route can be called is found out here, before the first tick is due.

use std::collections::BTreeMap;
use std::sync::Arc;

use hapax_core::{Policy, Project, Tenant};
use hapax_gateway::auth::scheduled::Secrets;
use hapax_gateway::settings::{Auth, Fixed, Level, Route};
use http::HeaderValue;
use serde_json::{Map, Number, Value as Json};

use super::fields;
use super::route::{Found, level_word};
use super::section::{Section, Spot};
use super::tree::{Node, Value};
use super::{Pattern, units};
use crate::limits;
use crate::schedules::{Overlap, Schedule, Timing, UTC, When};
use crate::when::now;

/// The words for what becomes of a tick while an earlier one has not ended.
pub(crate) const OVERLAPS: [(&str, Overlap); 2] = [("allow", Overlap::Allow), ("skip", Overlap::Skip)];

/// Reads `[auth.schedules]`: the secret that signs, and the one before it.
pub(crate) fn secrets(section: &Section<'_>) -> Option<Secrets> {
    if !section.exists() {
        return None;
    }
    if !section.has("secret_env") && !section.has("secret_file") {
        let remedy = "say `secret_env` or `secret_file`";
        section.reader().mistake(&section.at(), "[auth.schedules] has no secret", remedy);
    }
    let secret = section.reader().secret(section, "secret");
    let previous = section.reader().secret(section, "previous");
    if let Some(secret) =
        secret.as_ref().filter(|secret| secret.value.reveal().len() < limits::SCHEDULE_SECRET_BYTES)
    {
        let least = limits::SCHEDULE_SECRET_BYTES;
        section.reader().notice(&secret.at, format!("the secret of schedules is shorter than {least} bytes"));
    }
    let all = [secret?].into_iter().chain(previous);
    let all: Vec<_> = all.map(|secret| secret.value.reveal().as_bytes().to_vec()).collect();
    Secrets::new(all.iter().map(Vec::as_slice)).ok()
}

/// Reads `[[schedules]]`.
pub(crate) fn schedules(
    root: &Section<'_>,
    auth_section: &Section<'_>,
    auth: &Auth,
    routes: &[Found],
) -> Vec<Schedule> {
    let sections = root.sections("schedules");
    if sections.len() > limits::SCHEDULES {
        let what = format!("there are {} schedules", sections.len());
        root.reader().mistake(
            &root.reader().whole_file(),
            what,
            format!("use at most {}", limits::SCHEDULES),
        );
        return Vec::new();
    }
    if let Some(first) = sections.first()
        && !auth_section.has("schedules")
    {
        let remedy = "add [auth.schedules] with `secret_env`";
        root.reader().mistake(&first.at(), "schedules have nothing to sign their requests with", remedy);
    }
    let mut ids = BTreeMap::new();
    let mut schedules = Vec::with_capacity(sections.len());
    for section in &sections {
        let id = section.parsed("id", id);
        if let Some(id) = &id {
            match ids.get(&id.value) {
                Some(line) => {
                    let what = format!("two schedules are called {:?}; the first is in {line}", id.value);
                    section.reader().mistake(&id.at, what, "give each its own id");
                }
                None => _ = ids.insert(id.value.clone(), section.at().short()),
            }
        }
        schedules.extend(schedule(section, id, &auth.fixed, routes));
    }
    schedules
}

fn schedule(
    section: &Section<'_>,
    id: Option<Spot<String>>,
    fixed: &Fixed,
    routes: &[Found],
) -> Option<Schedule> {
    section.require("id", "name the schedule, such as \"nightly-report\"; its ticks' keys have the name");
    section.require("route", "name the operation of a route, such as \"payments.create\"");
    let timing = timing(section);
    let whose = whose(section, fixed);
    let (body, content_type) = body(section);
    let overlap = section.word("overlap", &OVERLAPS).map_or(Overlap::Allow, |overlap| overlap.value);
    let catch_up = section.count("catch_up").unwrap_or(0);
    let route = route(section, routes);
    if let Some((route, name)) = &route {
        can_be_called(section, route, name, body.len());
    }
    let (tenant, project) = whose?;
    Some(Schedule {
        id: Arc::from(id?.value),
        timing: timing?,
        operation: route?.1.value.to_owned(),
        tenant,
        project,
        content_type,
        body,
        overlap,
        // Bounds keep it within 32 bits.
        catch_up: u32::try_from(catch_up).unwrap_or(u32::MAX),
    })
}

/// An id stands in keys and in paths of the admin API.
fn id(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    match begins && text.len() <= limits::SCHEDULE_ID_BYTES && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("use 1 to 63 of a–z 0–9 - _, a letter or a digit first".into()),
    }
}

fn timing(section: &Section<'_>) -> Option<Timing> {
    let reader = section.reader();
    match (section.has("cron"), section.has("every")) {
        (false, false) => {
            let remedy = "say `cron = \"0 3 * * *\"`, or `every = \"15m\"`";
            reader.mistake(&section.at(), "nothing says when this schedule runs", remedy);
        }
        (true, true) => {
            reader.mistake(
                &section.place("every"),
                "`cron` and `every` are both written",
                "keep one of them",
            );
            return None;
        }
        _ => {}
    }
    if section.has("tz") && section.has("every") {
        let what = "`tz` has no effect on an interval, which is counted from the Unix epoch";
        reader.mistake(&section.place("tz"), what, "remove it, or use `cron`");
    }
    if let Some(every) = section.duration("every") {
        return Some(Timing::Every { every_ms: u64::try_from(every.value.as_millis()).unwrap_or(u64::MAX) });
    }
    let tz = section.parsed("tz", |text| When::of(&Timing::cron("0 0 * * *", text)).map(|_| text.to_owned()));
    if section.has("tz") && tz.is_none() {
        return None;
    }
    let zone = tz.map_or_else(|| UTC.to_owned(), |tz| tz.value);
    let cron = section.parsed("cron", |text| {
        if text.len() > limits::CRON_BYTES {
            return Err(format!("use at most {} characters", limits::CRON_BYTES));
        }
        let when =
            When::of(&Timing::cron(text, &zone)).map_err(|why| format!("it is no cron expression: {why}"))?;
        match when.next(now().as_micros() / 1_000) {
            Some(_) => Ok(text.to_owned()),
            None => Err("it names no time that ever comes".into()),
        }
    });
    Some(Timing::cron(&cron?.value, &zone))
}

/// Whose its ticks are: as it says, or as callers are whose credential does not say.
fn whose(section: &Section<'_>, fixed: &Fixed) -> Option<(Tenant, Project)> {
    let told = |error: hapax_core::Error| error.message().to_owned();
    let own = section.section("as");
    if own.exists() {
        own.require("tenant", "name the tenant");
        own.require("project", "name the project");
        let tenant = own.parsed("tenant", |text| Tenant::new(text).map_err(told));
        let project = own.parsed("project", |text| Project::new(text).map_err(told));
        return Some((tenant?.value, project?.value));
    }
    if section.has("as") {
        return None;
    }
    match (&fixed.tenant, &fixed.project) {
        (Some(tenant), Some(project)) => Some((tenant.clone(), project.clone())),
        _ => {
            let remedy = "say `as = { tenant = \"acme\", project = \"shop\" }`";
            section.reader().mistake(&section.at(), "nothing says for whom this schedule runs", remedy);
            None
        }
    }
}

/// The route of an operation, by the name that it has now.
fn route<'f, 's>(section: &Section<'s>, routes: &'f [Found]) -> Option<(&'f Route, Spot<&'s str>)> {
    let name = section.text("route")?;
    let named = |found: &&Found| {
        found.operation.as_ref().is_some_and(|operation| operation.value.as_str() == name.value)
    };
    match routes.iter().find(named) {
        // What is wrong with the route itself is told there.
        Some(found) => found.meant.as_ref().map(|(route, _)| (route, name)),
        None => {
            let known = routes.iter().filter_map(|found| Some(found.operation.as_ref()?.value.as_str()));
            let remedy = match fields::nearest(name.value, known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "name the `operation` of one of [[routes]]".into(),
            };
            section.reader().mistake(&name.at, format!("there is no operation {:?}", name.value), remedy);
            None
        }
    }
}

/// Whether ticks can be sent to this route: under a key, by the scheduler of a project, at a path that is known.
fn can_be_called(section: &Section<'_>, route: &Route, name: &Spot<&str>, body: usize) {
    let mistake = |what: String, remedy: &str| section.reader().mistake(&name.at, what, remedy);
    let name = name.value;
    if !matches!(route.policy, Policy::RequiredA | Policy::Accepted) {
        let what =
            format!("{name:?} takes no key of its caller ({}), so a tick could run twice", route.policy);
        mistake(what, "name a route that is REQUIRED_A or ACCEPTED");
        return;
    }
    if route.handler.is_some() {
        let what = format!(
            "{name:?} leads to a cluster that keeps its claims itself, and a tick's claim is in the ledger"
        );
        mistake(what, "name a route to an upstream of kind \"http\"");
    }
    if route.public {
        mistake(
            format!("{name:?} is public: no signature is looked at there"),
            "name a route that is not public",
        );
    }
    if route.level != Level::Project {
        let what =
            format!("{name:?} is of level {}, and a schedule runs for a project", level_word(route.level));
        mistake(what, "name a route of level project");
    }
    if route.is_catch_all() {
        mistake(format!("{name:?} is a catch-all: it has no path of its own"), "name a route with a path");
    } else if Pattern::parse(&route.path).is_ok_and(|pattern| pattern.parameters().next().is_some()) {
        let what = format!("the path of {name:?} has parameters: {}", route.path);
        mistake(what, "name a route without parameters");
    }
    if let Some(rule) = route.rule.as_ref().filter(|rule| body > rule.max_request_body) {
        let what = format!(
            "the body is longer than {name:?} takes ({})",
            units::show_size(rule.max_request_body as u64)
        );
        mistake(what, "shorten it, or raise `max_request_body` of the route");
    }
}

/// The body as it is sent, and its type: tables and arrays as JSON, text as it stands.
fn body(section: &Section<'_>) -> (String, Option<String>) {
    let stated = section.parsed("content_type", |text| match HeaderValue::from_str(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("write a media type, such as \"application/json\"".into()),
    });
    let stated = stated.map(|stated| stated.value);
    let Some(node) = section.value("body") else { return (String::new(), stated) };
    let (text, usual) = match &node.value {
        Value::Text(text) => (text.clone(), "text/plain; charset=utf-8"),
        Value::Table(_) | Value::List(_) => match json(section, node) {
            Some(json) => (json.to_string(), "application/json"),
            None => return (String::new(), stated),
        },
        other => {
            let what = format!("`body` cannot be {}", other.kind());
            section.reader().mistake(&node.at, what, "it takes a string, a table or an array");
            return (String::new(), stated);
        }
    };
    if text.len() > limits::TICK_BODY_BYTES {
        let most = units::show_size(limits::TICK_BODY_BYTES as u64);
        section.reader().mistake(&node.at, "`body` is too long", format!("use at most {most}"));
        return (String::new(), stated);
    }
    (text, Some(stated.unwrap_or_else(|| usual.to_owned())))
}

/// A value as JSON; what JSON does not have is told.
fn json(section: &Section<'_>, node: &Node) -> Option<Json> {
    Some(match &node.value {
        Value::Text(text) => Json::from(text.as_str()),
        Value::Integer(number) => Json::from(*number),
        Value::Float(number) => Json::Number(Number::from_f64(*number)?),
        Value::Flag(flag) => Json::from(*flag),
        Value::List(items) => {
            items.iter().map(|item| json(section, item)).collect::<Option<Vec<_>>>()?.into()
        }
        Value::Table(table) => {
            let member = |entry: &super::Entry| Some((entry.name.clone(), json(section, &entry.node)?));
            Json::Object(table.entries.iter().map(member).collect::<Option<Map<_, _>>>()?)
        }
        Value::Other(kind) => {
            section.reader().mistake(
                &node.at,
                format!("{kind} cannot stand in a JSON body"),
                "write it as a string",
            );
            return None;
        }
    })
}
