//! What the rows of [`fields`] say of defaults, of what is shown and of restarts is so.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::super::fields::{Kind, Row, Shown, Usual};
use super::*;

/// What no section can do without.
const LEAST: &str = r#"
[edge.cors]
origins = ["https://a.example"]
[api]
[auth]
tenant = "acme"
project = "shop"
[auth.jwt]
algorithms = ["HS256"]
secret_env = "SECRET"
[auth.api_keys]
[auth.trusted_headers]
[auth.verify]
url = "https://keys.example/verify"
token_env = "SECRET"
[auth.schedules]
secret_env = "SECRET"
[traces]
endpoint = "http://127.0.0.1:4318"
[upstreams.plain]
url = "http://127.0.0.1:9"
[webhooks]
upstream = "plain"
path = "/in"
[webhooks.providers.own]
header = "X-Signature"
identifier = { header = "X-Id" }
[webhooks.kv]
url = "http://127.0.0.1:8200"
token_file = "token"
[connectors.web]
kind = "http"
url = "http://127.0.0.1:9"
[connectors.web.tools.t]
method = "POST"
path = "/t"
[connectors.program]
kind = "mcp"
command = "c"
[[schedules]]
id = "nightly"
cron = "0 3 * * *"
route = "keyed"
[[routes]]
method = "POST"
path = "/keyed"
operation = "keyed"
policy = "ACCEPTED"
upstream = "plain"
[[routes]]
method = "GET"
path = "/plain"
policy = "PROHIBITED"
upstream = "plain"
"#;

/// What is shown only where something else is written.
const BESIDE: &str = r#"
[upstreams.plain]
url = "http://127.0.0.1:9"
upstream_key = "digest"
[upstreams.cluster]
kind = "restate"
ingress = "http://h"
admin = "http://h"
[[routes]]
method = "POST"
path = "/safe"
operation = "safe"
policy = "ACCEPTED"
upstream = "plain"
rerun = "safe"
key_from = "fingerprint"
[[routes]]
method = "POST"
path = "/handler"
operation = "handler"
policy = "REQUIRED_A"
upstream = "cluster"
restate = { service = "S", handler = "h" }
"#;

/// Together with those above, every field.
const MORE: [&str; 3] = [
    r#"
retired = ["gone"]
[edge.tls]
cert = "cert"
key = "key"
[admin]
token_env = "SHORT"
name = "a"
label = "b"
tls = { cert = "cert", key = "key" }
tokens = [{ name = "night-shift", role = "read", env = "HAPAX_ADMIN_TOKEN" }]
links = [{ name = "Trace", url = "https://traces.example/{trace_id}" }]
[auth.jwt]
algorithms = ["ES256"]
jwks_file = "jwks.json"
issuer = "i"
audience = "a"
claims = { level = "level" }
[retention]
critical = "7d"
[seal]
key_env = "SEAL"
[traces]
endpoint = "http://127.0.0.1:4318"
headers_env = "HEADERS"
[upstreams.plain]
url = "https://127.0.0.1:9"
ca = "cert"
[upstreams.cluster]
kind = "restate"
ingress = "http://h"
admin = "http://h"
[webhooks]
upstream = "cluster"
restate = { service = "S", handler = "deliver" }
enabled = ["stripe"]
public_url = "https://a.example"
wait = "1s"
[webhooks.providers.own]
header = "X-Signature"
identifier = { json = "/id" }
identifier_signed = true
prefix = "sha256="
signed = "{timestamp}.{body}"
timestamp_header = "X-Time"
kind_header = "X-Kind"
[webhooks.providers.other]
header = "X-Signature"
identifier = { form = "id" }
identifier_signed = true
[auth.schedules]
secret_env = "SECRET"
[[schedules]]
id = "often"
every = "1h"
route = "asked"
as = { tenant = "acme", project = "shop" }
body = { a = 1 }
[actions]
as = { tenant = "acme", project = "shop" }
[connectors.web]
kind = "http"
url = "http://127.0.0.1:9"
token_env = "SECRET"
headers = { X-A = "a" }
tools = { read = { method = "GET", path = "/r", read_only = true }, own = { method = "POST", path = "/o", vendor_key = true } }
[connectors.program]
kind = "mcp"
command = "c"
env = { A = "a" }
pass_env = ["B"]
[trust]
rules = [{ name = "n", when = "true", decision = "BLOCK" }]
[[routes]]
method = "POST"
path = "/asked/{id}"
operation = "other"
was = "once"
policy = "REQUIRED_A"
upstream = "plain"
fingerprint = "json"
ignore = ["/a"]
fingerprint_headers = ["x-kind"]
doubt = { after = "1d", then = "release" }
on_5xx = "doubt"
key = [{ header = "X-Key" }, { json = "/key" }]
[[routes]]
method = "POST"
path = "/asked"
operation = "asked"
policy = "REQUIRED_A"
upstream = "plain"
rerun = "ask"
reconcile = "/r"
[[routes]]
method = "POST"
path = "/header"
operation = "header"
policy = "REQUIRED_B"
upstream = "plain"
identifier = { header = "X-Id" }
[[routes]]
method = "POST"
path = "/json"
operation = "json"
policy = "REQUIRED_B"
upstream = "plain"
identifier = { json = "/id" }
[[routes]]
method = "POST"
path = "/form"
operation = "form"
policy = "REQUIRED_B"
upstream = "plain"
identifier = { form = "id" }
[[routes]]
method = "POST"
path = "/flow/{id}"
policy = "PROHIBITED"
upstream = "cluster"
restate = { service = "W", handler = "run", key = "{id}", workflow = true }
"#,
    "[auth.jwt]\nalgorithms = [\"ES256\"]\njwks_url = \"https://keys.example/jwks\"\n",
    "[connectors.remote]\nkind = \"mcp\"\nurl = \"http://127.0.0.1:9\"\n\
     tools = { t = { rerun = \"safe\", destructive = false, give_up = \"1s\" } }\n",
];

/// What these configurations show of each field, by its section and its name.
fn shown(texts: &[&str]) -> BTreeMap<(&'static str, &'static str), Vec<Json>> {
    let (cert, key) = certificate();
    let folder = Folder::new(&[("cert", &cert), ("key", &key), ("jwks.json", JWKS), ("token", "t")]);
    let mut seen = BTreeMap::new();
    for text in texts {
        let config = folder.load(text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        look_at(&fields::ROOT, &config.to_json(), &mut seen);
    }
    seen
}

fn look_at(
    fields: &'static Fields,
    shown: &Json,
    seen: &mut BTreeMap<(&'static str, &'static str), Vec<Json>>,
) {
    if let Json::Array(items) = shown {
        items.iter().for_each(|item| look_at(fields, item, seen));
    }
    for (name, value) in shown.as_object().into_iter().flatten() {
        let told = fields.rows.iter().filter(|row| row.tells(name));
        let mut rows: Vec<&Row> = told.collect();
        if rows.is_empty() {
            rows.extend(fields.rows.iter().filter(|row| row.is_free()));
        }
        assert!(!rows.is_empty(), "[{}] has no row for {name}", fields.section);
        for row in rows {
            seen.entry((fields.section, row.name)).or_default().push(value.clone());
            if let Some(below) = row.kind.below() {
                look_at(below, value, seen);
            }
        }
    }
}

fn rows() -> impl Iterator<Item = (&'static str, &'static Row)> {
    let mut sections = Vec::new();
    page::all(&fields::ROOT, &mut sections);
    sections.into_iter().flat_map(|fields| fields.rows.iter().map(|row| (fields.section, row)))
}

#[test]
fn a_default_of_a_row_is_what_holds_where_nothing_is_written() {
    let (least, beside) = (shown(&[LEAST]), shown(&[BESIDE]));
    for (section, row) in rows().filter(|(_, row)| !matches!(row.shown, Shown::Never(_))) {
        let is_default = |value: &Json| match &row.usual {
            Usual::Is(text) => value == text,
            Usual::Lasts(duration) => value == &units::show_duration(*duration),
            Usual::Count(number) => value.as_f64() == Some(*number as f64),
            Usual::Bool(flag) => value == flag,
            Usual::Empty => value.as_array().is_some_and(Vec::is_empty),
            Usual::Absent | Usual::Required | Usual::Told(_) => true,
        };
        let name = (section, row.name);
        match (least.get(&name), beside.get(&name), &row.usual) {
            (Some(least), ..) => assert!(least.iter().all(is_default), "{name:?}: {least:?}"),
            (None, Some(beside), _) => assert!(beside.iter().any(is_default), "{name:?}: {beside:?}"),
            (None, None, Usual::Is(_) | Usual::Lasts(_) | Usual::Count(_) | Usual::Bool(true)) => {
                panic!("{name:?}: its default is not shown")
            }
            _ => {}
        }
    }
}

#[test]
fn every_field_is_shown_or_says_why_it_is_not() {
    let seen = shown(&[&[LEAST, BESIDE][..], &MORE[..]].concat());
    for (section, row) in rows() {
        let is_seen = seen.contains_key(&(section, row.name));
        let is_hidden = matches!(row.shown, Shown::Never(reason) if !reason.is_empty());
        assert!(is_seen != is_hidden || section == "openapi", "{section}.{}: shown: {is_seen}", row.name);
    }
}

#[test]
fn fields_are_shown_in_the_order_of_their_rows() {
    let text = loaded("[log]\nlevel = \"warn\"\n[edge]\nmax_detached = 7\nthreads = 3\n").to_toml();
    let sections = text.lines().filter_map(|line| line.trim_start_matches('[').split(['.', ']']).next());
    let sections = sections.filter(|name| fields::ROOT.rows.iter().any(|row| row.name == *name));
    let edge = text.split_once("[edge]\n").unwrap().1.split_once("\n\n").unwrap().0.lines();
    let edge = edge.map(|line| line.split(' ').next().unwrap());
    for (fields, names) in [(&fields::ROOT, sections.collect::<Vec<_>>()), (&fields::EDGE, edge.collect())] {
        let place = |name: &&str| fields.rows.iter().position(|row| row.tells(name));
        assert!(names.len() > 3 && names.is_sorted_by_key(place), "[{}]: {names:?}", fields.section);
    }
}

#[test]
fn what_a_restart_changes_stands_once_and_under_a_name_of_its_own() {
    for (section, row) in rows().filter(|(_, row)| row.restart) {
        let is_one_table = section.is_empty()
            || fields::ROOT.rows.iter().any(|top| top.name == section && matches!(top.kind, Kind::Table(_)));
        assert!(is_one_table && !row.is_free(), "{section}.{}: no reload compares it", row.name);
        assert!(
            !matches!(row.shown, Shown::Never(_)),
            "{section}.{}: what is not shown is not compared",
            row.name
        );
    }
}

#[test]
fn what_is_not_shown_as_it_is_counts_for_a_restart_p5() {
    let folder = Folder::new(&[]);
    let load = |text: &str| folder.load(text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    for (was, now, names) in [
        // Secrets, which look alike.
        ("[store]\nurl = \"postgres://u:a@h/d\"", "[store]\nurl = \"postgres://u:b@h/d\"", "store.url"),
        ("[seal]\nkey_env = \"SEAL\"", "[seal]\nkey_env = \"OLD_SEAL\"", "seal"),
        (
            "[traces]\nendpoint = \"http://h\"\nheaders_env = \"HEADERS\"",
            "[traces]\nendpoint = \"http://h\"\nheaders_env = \"OTHER_HEADERS\"",
            "traces",
        ),
        // What follows from something else that was written is not named beside it.
        ("[edge]", "[edge]\nmax_connections = 7", "edge.max_connections"),
        ("[store]", "[store]\nurl = \"memory:\"", "store.url"),
        // Once it is written, it is named, also where it was so before.
        (
            "[edge]\nmax_connections = 8",
            "[edge]\nmax_connections = 8\nmax_connections_per_address = 4",
            "edge.max_connections_per_address",
        ),
    ] {
        assert_eq!(load(now).fixed_since(&load(was)).join(", "), names, "{now}");
        assert_eq!(load(was).fixed_since(&load(now)).join(", "), names, "{now}");
    }
}
