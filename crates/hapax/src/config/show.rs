//! The configuration as it takes effect, with all defaults, for `hapax config show`. Secrets are shown as `(set)`.

mod actions;
mod admin;
mod schedules;

use std::fmt;
use std::time::Duration;

use hapax_core::fingerprint::BodyRecipe;
use hapax_core::json::Pointer;
use hapax_core::{Rerun, Retention};
use hapax_exec::Attach;
use hapax_gateway::settings::{
    Auth, Cluster, Edge, Handler, Jwt, JwtKeys, ObjectKey, OnExhausted, Route, Upstream, UpstreamKey,
    Webhooks,
};
use hapax_gateway::webhooks::provider::Generic;
use hapax_tower::{IdentifierPlace, KeyPlace, Rule};
use serde_json::{Map, Value as Json};

use super::auth::ALGORITHMS;
use super::cluster::CLASSIFY;
use super::fields::{self, Fields, Row};
use super::keys::GRAMMARS;
use super::route::{SHARED_KEYS, level_word};
use super::rule::{ENDS, KEEPS, ON_5XX, RERUNS};
use super::units::{show_duration, show_size};
use super::webhooks::{ENCODINGS, HASHES};
use super::{Config, Declared, LogFormat};

/// What stands for a secret.
const SET: &str = "(set)";

/// A value that is shown. It can hold a secret, so it has no `Debug`.
#[derive(PartialEq)]
pub(super) enum Shown {
    Text(String),
    Number(u64),
    Ratio(f64),
    Flag(bool),
    Texts(Vec<String>),
    Table(Entries),
    Tables(Vec<Entries>),
    Instead(Instead),
}

/// What is shown in place of a value that must not be shown, or of one that was not written.
pub(super) struct Instead {
    shown: Box<Shown>,
    value: String,
}

/// What is shown does not count: behind two secrets that are shown alike are two values.
impl PartialEq for Instead {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

pub(super) type Entries = Vec<(String, Shown)>;

/// Collects entries.
#[derive(Default)]
struct Section(Entries);

impl Section {
    fn put(&mut self, name: &str, value: Shown) -> &mut Self {
        self.0.push((name.to_owned(), value));
        self
    }

    fn text(&mut self, name: &str, text: impl Into<String>) -> &mut Self {
        self.put(name, Shown::Text(text.into()))
    }

    fn texts<T: ToString>(&mut self, name: &str, texts: impl IntoIterator<Item = T>) -> &mut Self {
        self.put(name, Shown::Texts(texts.into_iter().map(|text| text.to_string()).collect()))
    }

    fn number(&mut self, name: &str, number: impl TryInto<u64>) -> &mut Self {
        self.put(name, Shown::Number(number.try_into().unwrap_or(u64::MAX)))
    }

    fn flag(&mut self, name: &str, flag: bool) -> &mut Self {
        self.put(name, Shown::Flag(flag))
    }

    fn duration(&mut self, name: &str, duration: Duration) -> &mut Self {
        self.text(name, show_duration(duration))
    }

    fn size(&mut self, name: &str, bytes: impl TryInto<u64>) -> &mut Self {
        self.text(name, show_size(bytes.try_into().unwrap_or(u64::MAX)))
    }

    fn table(&mut self, name: &str, section: Section) -> &mut Self {
        self.put(name, Shown::Table(section.0))
    }

    fn instead(&mut self, name: &str, shown: Shown, value: impl fmt::Debug) -> &mut Self {
        self.put(name, Shown::Instead(Instead { shown: Box::new(shown), value: format!("{value:?}") }))
    }

    fn maybe<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) -> &mut Self {
        if let Some(value) = value {
            put(self, value);
        }
        self
    }
}

impl Config {
    /// As TOML, as it could have been written, but for secrets.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        toml_section(&mut text, "", &self.shown());
        text
    }

    /// As JSON.
    pub fn to_json(&self) -> Json {
        json(&Shown::Table(self.shown()))
    }

    /// All sections and fields, in the order of the rows.
    fn shown(&self) -> Entries {
        let mut entries = self.shown_but_routes();
        let routes = self.settings.routes.iter().zip(&self.declared);
        let routes = routes.map(|(route, declared)| shown_route(route, declared).0);
        entries.push(("routes".to_owned(), Shown::Tables(routes.collect())));
        ordered(&fields::ROOT, entries)
    }

    /// What there are few of.
    pub(super) fn shown_but_routes(&self) -> Entries {
        let mut root = Section::default();
        if !self.retired.is_empty() {
            root.texts("retired", &self.retired);
        }
        root.table("edge", self.shown_edge());
        let admin = admin::shown(&self.admin);
        let mut store = Section::default();
        store.instead("url", Shown::Text(self.store.shown_url()), &self.store.url);
        let spool = self.store.spool(&self.file).display().to_string();
        store.duration("lease", self.store.lease).instead("spool", Shown::Text(spool), &self.store.spool);
        root.table("admin", admin);
        root.maybe(self.api.as_ref(), |root, api| {
            let mut shown = Section::default();
            shown.text("listen", api.listen.to_string()).texts("hosts", &api.hosts);
            root.table("api", shown);
        });
        root.table("store", store);
        let mut retention = Section::default();
        retention.text("default", &self.retention.default);
        for (class, kept) in &self.retention.classes {
            retention.text(class, retention_text(*kept));
        }
        root.table("retention", retention).table("auth", shown_auth(&self.settings.auth));
        if !self.seal.is_empty() {
            let mut seal = Section::default();
            let shown = Shown::Texts(self.seal.iter().map(|_| SET.to_owned()).collect());
            seal.instead("key", shown, self.seal.iter().map(|key| key.0).collect::<Vec<_>>());
            root.table("seal", seal);
        }
        let mut log = Section::default();
        log.text("format", if self.log.format == LogFormat::Json { "json" } else { "text" });
        log.text("level", self.log.level);
        let mut traces = Section::default();
        if let Some(told) = &self.traces {
            traces.text("endpoint", &told.endpoint).put("ratio", Shown::Ratio(told.sampling.ratio));
            traces.flag("parent", told.sampling.by_parent);
            if !told.headers.is_empty() {
                let headers = told.headers.iter().map(|(name, value)| (name, value.as_bytes()));
                traces.instead("headers", Shown::Text(SET.into()), headers.collect::<Vec<_>>());
            }
        }
        let tenants = &self.settings.tenants;
        let mut limits = Section::default();
        limits.number("held", tenants.held).number("claims_per_second", tenants.claims_per_second);
        limits.number("in_doubt", tenants.in_doubt);
        root.table("log", log);
        if self.traces.is_some() {
            root.table("traces", traces);
        }
        root.table("tenants", limits);
        let mut upstreams = Section::default();
        for (name, upstream) in &self.settings.upstreams {
            upstreams.table(name, shown_upstream(upstream));
        }
        root.table("upstreams", upstreams);
        root.maybe(self.settings.webhooks.as_ref(), |root, webhooks| {
            _ = root.table("webhooks", self.shown_webhooks(webhooks));
        });
        if !self.schedules.is_empty() {
            root.put(
                "schedules",
                Shown::Tables(self.schedules.iter().map(|one| schedules::shown(one).0).collect()),
            );
        }
        root.table("actions", actions::actions(&self.actions));
        if !self.connectors.is_empty() {
            root.table("connectors", actions::connectors(&self.connectors));
        }
        root.table("trust", actions::trust(&self.trust));
        root.0
    }

    fn shown_webhooks(&self, webhooks: &Webhooks) -> Section {
        let rule = &webhooks.rule;
        let mut section = Section::default();
        section.text("prefix", &webhooks.prefix).text("upstream", &webhooks.route.upstream.name);
        match &webhooks.route.handler {
            Some(handler) => section.table("restate", shown_handler(handler)),
            None => section.text("path", &webhooks.path),
        };
        section.maybe(webhooks.public_url.as_ref(), |section, url| _ = section.text("public_url", url));
        match &self.webhook_retention {
            Some(class) => section.text("retention", class),
            None => section.text("retention", retention_text(rule.retention)),
        };
        section.text("rerun", word(&RERUNS, &rule.rerun)).text("keep", word(&KEEPS, &rule.keep));
        section.duration("give_up", rule.give_up);
        section.maybe(webhooks.wait, |section, wait| _ = section.duration("wait", wait));
        section.size("max_request_body", rule.max_request_body);
        section.size("max_kept_response", rule.max_kept_response);
        if !webhooks.enabled.is_empty() {
            section.texts("enabled", &webhooks.enabled);
        }
        section.put("verify", Shown::Flag(webhooks.verify));
        section.maybe(webhooks.kv.as_ref(), |section, kv| {
            let mut table = Section::default();
            table.text("url", &kv.url).text("mount", &kv.mount);
            table.text("token_file", kv.token_file.display().to_string()).duration("timeout", kv.timeout);
            section.table("kv", table);
        });
        if !webhooks.providers.is_empty() {
            let mut providers = Section::default();
            for (name, provider) in &webhooks.providers {
                providers.table(name, shown_provider(provider));
            }
            section.table("providers", providers);
        }
        section
    }

    fn shown_edge(&self) -> Section {
        let edge: &Edge = &self.settings.edge;
        let defaults = &self.route_defaults;
        let mut section = Section::default();
        section.text("listen", edge.listen.to_string()).number("threads", edge.threads);
        section.duration("drain_timeout", edge.drain_timeout).duration("header_timeout", edge.header_timeout);
        section.size("body_rate", edge.body_rate).duration("idle_timeout", edge.idle_timeout);
        section.number("max_connections", edge.max_connections);
        let per_address = u64::try_from(edge.listener().per_address()).unwrap_or(u64::MAX);
        let stated = edge.max_connections_per_address;
        section.instead("max_connections_per_address", Shown::Number(per_address), stated);
        section.size("max_buffered", edge.max_buffered);
        section.number("max_detached", edge.max_detached);
        section.text("operations_prefix", &*edge.operations_prefix);
        section.text("recall_segment", &*edge.recall_segment).text("docs", &edge.docs);
        section.size("max_request_body", defaults.max_request_body);
        section.size("max_kept_response", defaults.max_kept_response);
        section.text("attach", if defaults.waits { "wait" } else { "reject" });
        section.duration("attach_timeout", defaults.attach_timeout);
        section.number("mismatch_status", defaults.mismatch_status);
        section.maybe(edge.tls.as_ref(), |section, tls| {
            let mut files = Section::default();
            files.text("cert", tls.cert.display().to_string()).text("key", tls.key.display().to_string());
            section.table("tls", files);
        });
        section.maybe(edge.cors.as_ref(), |section, cors| {
            let mut table = Section::default();
            table.texts("origins", &cors.origins).texts("headers", &cors.headers);
            table.flag("credentials", cors.credentials).duration("max_age", cors.max_age);
            section.table("cors", table);
        });
        section
    }
}

fn shown_auth(auth: &Auth) -> Section {
    let mut section = Section::default();
    section.maybe(auth.fixed.tenant.as_ref(), |section, name| _ = section.text("tenant", name.as_str()));
    section.maybe(auth.fixed.project.as_ref(), |section, name| _ = section.text("project", name.as_str()));
    section.maybe(auth.jwt.as_ref(), |section, jwt| _ = section.table("jwt", shown_jwt(jwt)));
    let mut api_keys = Section::default();
    api_keys.flag("enabled", auth.api_keys);
    let places = [("x-api-key", auth.key_places.x_api_key), ("basic", auth.key_places.basic)];
    let places = places.into_iter().filter(|(_, counts)| *counts).map(|(word, _)| word);
    api_keys.texts("also_from", places);
    let mut trusted = Section::default();
    trusted.texts("from", &auth.trusted).flag("level", auth.trusted_level);
    section.table("api_keys", api_keys).table("trusted_headers", trusted);
    section.maybe(auth.verify.as_ref(), |section, verify| {
        let mut table = Section::default();
        table.text("url", &verify.url).text("token", SET);
        table.duration("remember", verify.remember).duration("timeout", verify.timeout);
        section.table("verify", table);
    });
    section.maybe(auth.schedules.as_ref(), |section, _| {
        let mut table = Section::default();
        table.text("secret", SET);
        section.table("schedules", table);
    });
    section
}

fn shown_jwt(jwt: &Jwt) -> Section {
    let mut section = Section::default();
    section.texts("algorithms", jwt.algorithms.iter().map(|algorithm| word(&ALGORITHMS, algorithm)));
    match &jwt.keys {
        JwtKeys::Secret(_) => section.text("secret", SET),
        JwtKeys::File(path) => section.text("jwks_file", path.display().to_string()),
        JwtKeys::Url(url) => section.text("jwks_url", url),
    };
    section.maybe(jwt.issuer.as_ref(), |section, issuer| _ = section.text("issuer", issuer));
    section.maybe(jwt.audience.as_ref(), |section, audience| _ = section.text("audience", audience));
    section.duration("leeway", jwt.leeway).text("subject_type", jwt.subject_type.as_str());
    let mut claims = Section::default();
    claims.text("tenant", &jwt.claims.tenant).text("project", &jwt.claims.project);
    claims.text("subject", &jwt.claims.subject);
    claims.maybe(jwt.claims.subject_type.as_ref(), |claims, name| _ = claims.text("subject_type", name));
    claims.maybe(jwt.claims.level.as_ref(), |claims, name| _ = claims.text("level", name));
    section.table("claims", claims);
    section
}

fn shown_provider(provider: &Generic) -> Section {
    let mut section = Section::default();
    section.text("header", &provider.header);
    if !provider.prefix.is_empty() {
        section.text("prefix", &provider.prefix);
    }
    section
        .text("hash", word(&HASHES, &provider.hash))
        .text("encoding", word(&ENCODINGS, &provider.encoding));
    section.text("signed", &provider.signed);
    section.maybe(provider.timestamp_header.as_ref(), |section, name| {
        _ = section.text("timestamp_header", name)
    });
    section
        .table("identifier", shown_identifier(&provider.identifier))
        .flag("identifier_signed", provider.identifier_signed);
    section.maybe(provider.kind_header.as_ref(), |section, name| _ = section.text("kind_header", name));
    section.duration("wait", provider.wait).duration("window", provider.window);
    section
}

fn shown_identifier(place: &IdentifierPlace) -> Section {
    let mut section = Section::default();
    match place {
        IdentifierPlace::Header(name) => section.text("header", name),
        IdentifierPlace::Json(pointer) => section.text("json", pointer.as_str()),
        IdentifierPlace::Form(name) => section.text("form", name),
    };
    section
}

fn shown_upstream(upstream: &Upstream) -> Section {
    let mut section = Section::default();
    if let Some(cluster) = &upstream.cluster {
        return shown_cluster(upstream, cluster);
    }
    let scheme = if upstream.https { "https" } else { "http" };
    section.text("kind", "http");
    section.text("url", format!("{scheme}://{}:{}{}", upstream.host, upstream.port, upstream.base));
    section.duration("timeout", upstream.timeout).duration("connect_timeout", upstream.connect_timeout);
    match upstream.key {
        UpstreamKey::Namespaced => section.text("upstream_key", "namespaced"),
        UpstreamKey::Raw => section.text("upstream_key", "raw"),
        UpstreamKey::None => section.text("upstream_key", "none"),
        UpstreamKey::Digest(chars) => section.text("upstream_key", "digest").number("digest_chars", chars),
    };
    section.number("max_connections", upstream.max_connections).flag("reuse", upstream.reuse);
    if upstream.reuse {
        section.duration("idle_timeout", upstream.idle_timeout);
    }
    section.maybe(upstream.ca.as_ref(), |section, ca| _ = section.text("ca", ca.display().to_string()));
    let mut retry = Section::default();
    retry.number("max_attempts", upstream.retry.max_attempts).duration("backoff", upstream.retry.backoff);
    let end = if upstream.retry.on_exhausted == OnExhausted::Kill { "kill" } else { "pause" };
    retry.text("on_exhausted", end);
    section.table("retry", retry);
    section
}

fn shown_cluster(upstream: &Upstream, cluster: &Cluster) -> Section {
    let mut section = Section::default();
    section.text("kind", "restate").texts("ingress", &cluster.ingress).texts("admin", &cluster.admin);
    section.text("classify", word(&CLASSIFY, &cluster.classify));
    section.texts("headers", cluster.headers.iter().map(|name| name.as_str()));
    section.duration("timeout", upstream.timeout).duration("connect_timeout", cluster.connect_timeout);
    section.number("suspend_after", cluster.suspend_after).duration("suspend_for", cluster.suspend_for);
    section.number("max_connections", cluster.max_connections).duration("idle_timeout", cluster.idle_timeout);
    section.maybe(cluster.ca.as_ref(), |section, ca| _ = section.text("ca", ca.display().to_string()));
    let mut retry = Section::default();
    retry.number("max_attempts", cluster.max_attempts).duration("backoff", cluster.backoff);
    section.table("retry", retry);
    section
}

fn shown_handler(handler: &Handler) -> Section {
    let mut section = Section::default();
    section.text("service", &handler.service).text("handler", &handler.name);
    section.maybe(handler.key.as_ref(), |section, key| {
        _ = match key {
            ObjectKey::Segment { name, .. } => section.text("key", format!("{{{name}}}")),
            ObjectKey::Body(pointer) => section.text("key", pointer.as_str()),
        };
    });
    if handler.workflow {
        section.flag("workflow", true);
    }
    section.text("input", if handler.takes_nothing { "none" } else { "json" });
    section.flag("envelope", handler.envelope);
    section
}

/// The fields of a route as they take effect, for a document of another kind.
pub(crate) fn route_members(route: &Route, declared: &Declared) -> Vec<(String, Json)> {
    let shown = shown_route(route, declared).0;
    shown.into_iter().map(|(name, value)| (name, json(&value))).collect()
}

fn shown_route(route: &Route, declared: &Declared) -> Section {
    let mut section = Section::default();
    section.text("method", route.method.as_str()).text("path", &*route.path);
    section.maybe(declared.operation.as_ref(), |section, name| _ = section.text("operation", name.as_str()));
    section.maybe(declared.was.as_deref(), |section, was| match was {
        [was] => _ = section.text("was", was.as_str()),
        names => _ = section.texts("was", names),
    });
    section.text("policy", route.policy.as_str());
    if route.policy == hapax_core::Policy::Prohibited {
        section.flag("lenient", route.lenient);
    }
    match (route.public, &route.rule) {
        (true, Some(_)) => section.text("public", SHARED_KEYS),
        (public, _) => section.flag("public", public),
    };
    if route.rule.is_some() {
        section.flag("recall", route.recall);
    }
    section.text("level", level_word(route.level)).text("upstream", &route.upstream.name);
    if let Some(rule) = &route.rule {
        shown_rule(&mut section, rule, declared, route.handler.is_some());
    }
    section.maybe(route.reconcile.as_ref(), |section, path| _ = section.text("reconcile", path));
    section.maybe(route.handler.as_ref(), |section, handler| {
        section.table("restate", shown_handler(handler));
    });
    section
}

fn shown_rule(section: &mut Section, rule: &Rule, declared: &Declared, delegated: bool) {
    let retention = declared.retention_class.clone().unwrap_or_else(|| retention_text(rule.retention));
    section.text("retention", retention);
    // What the ledger would do has no meaning where a cluster keeps the claim.
    if !delegated {
        section.text("rerun", word(&RERUNS, &rule.rerun));
    }
    if rule.rerun == Rerun::Safe {
        section.duration("quiet", rule.quiet);
    }
    section.text("scope", rule.width.as_str()).text("fingerprint", fingerprint_word(rule));
    // The place of a key is ignored without a word.
    let is_place = |pointer: &Pointer| rule.keys.places.contains(&KeyPlace::Json(pointer.clone()));
    let ignored: Vec<_> = rule.recipe.ignored().iter().filter(|pointer| !is_place(pointer)).collect();
    if !ignored.is_empty() {
        section.texts("ignore", ignored.iter().map(|pointer| pointer.as_str()));
    }
    if let headers @ [_, ..] = rule.recipe.headers() {
        section.texts("fingerprint_headers", headers);
    }
    section.duration("timeout", rule.timeout);
    if !delegated {
        section.duration("give_up", rule.give_up).duration("max_run", rule.max_run);
    }
    section.maybe(rule.doubt, |section, doubt| {
        let mut table = Section::default();
        table.duration("after", doubt.after).text("then", word(&ENDS, &doubt.then));
        section.table("doubt", table);
    });
    match rule.attach {
        Attach::Wait(bound) => section.text("attach", "wait").duration("attach_timeout", bound),
        Attach::Reject => section.text("attach", "reject"),
    };
    if !delegated {
        section.text("keep", word(&KEEPS, &rule.keep));
    }
    section.maybe(rule.on_5xx, |section, on_5xx| _ = section.text("on_5xx", word(&ON_5XX, &on_5xx)));
    section.number("mismatch_status", rule.mismatch_status);
    section.size("max_request_body", rule.max_request_body).size("max_kept_response", rule.max_kept_response);
    if let places @ [_, ..] = &rule.keys.places[..] {
        section.put("key", Shown::Tables(places.iter().map(|place| shown_place(place).0).collect()));
    }
    match &rule.keys.identifier {
        Some(place) => section.table("identifier", shown_identifier(place)),
        None => section.text("key_grammar", word(&GRAMMARS, &rule.keys.grammar)),
    };
    section.maybe(rule.derived, |section, window| {
        section.text("key_from", "fingerprint").duration("window", window);
    });
}

fn shown_place(place: &KeyPlace) -> Section {
    let mut section = Section::default();
    match place {
        KeyPlace::Header(name) => section.text("header", name.as_str()),
        KeyPlace::Json(pointer) => section.text("json", pointer.as_str()),
    };
    section
}

/// The word of a fingerprint recipe.
fn fingerprint_word(rule: &Rule) -> &'static str {
    match rule.recipe.body() {
        BodyRecipe::Json { .. } => "json",
        BodyRecipe::Form => "form",
        BodyRecipe::None => "none",
        _ => "raw",
    }
}

/// A retention as a route can state it.
pub(crate) fn retention_text(retention: Retention) -> String {
    match retention {
        Retention::For(duration) | Retention::SinceGrant(duration) => show_duration(duration),
        Retention::Forever => "forever".into(),
    }
}

/// The word for a value.
pub(crate) fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word)
}

/// The same entries in the order of their rows.
fn ordered(fields: &Fields, entries: Entries) -> Entries {
    let place = |name: &str| {
        let rows = || fields.rows.iter();
        let place = rows().position(|row| row.tells(name)).or_else(|| rows().position(Row::is_free));
        debug_assert!(place.is_some(), "[{}] has no row for `{name}`", fields.section);
        place.unwrap_or(fields.rows.len())
    };
    let mut placed: Vec<_> = entries.into_iter().map(|(name, value)| (place(&name), name, value)).collect();
    placed.sort_by_key(|(place, ..)| *place);
    let below = |place: usize, value| match (fields.rows.get(place).and_then(|row| row.kind.below()), value) {
        (Some(below), Shown::Table(entries)) => Shown::Table(ordered(below, entries)),
        (Some(below), Shown::Tables(tables)) => {
            Shown::Tables(tables.into_iter().map(|entries| ordered(below, entries)).collect())
        }
        (_, value) => value,
    };
    placed.into_iter().map(|(place, name, value)| (name, below(place, value))).collect()
}

fn json(shown: &Shown) -> Json {
    let object = |entries: &Entries| -> Json {
        Json::Object(entries.iter().map(|(name, value)| (name.clone(), json(value))).collect::<Map<_, _>>())
    };
    match shown {
        Shown::Text(text) => text.as_str().into(),
        Shown::Number(number) => (*number).into(),
        Shown::Ratio(ratio) => (*ratio).into(),
        Shown::Flag(flag) => (*flag).into(),
        Shown::Texts(texts) => texts.clone().into(),
        Shown::Table(entries) => object(entries),
        Shown::Tables(tables) => tables.iter().map(object).collect(),
        Shown::Instead(instead) => json(&instead.shown),
    }
}

/// Writes a section and those below it. Tables within an array are written in one line.
fn toml_section(text: &mut String, path: &str, entries: &Entries) {
    let is_line = |value: &Shown| !matches!(value, Shown::Table(_) | Shown::Tables(_));
    if entries.iter().any(|(_, value)| is_line(value)) {
        if !path.is_empty() {
            text.push_str(&format!("[{path}]\n"));
        }
        toml_lines(text, entries.iter().filter(|(_, value)| is_line(value)));
        text.push('\n');
    }
    for (name, value) in entries {
        let name = toml_key(name);
        let path = if path.is_empty() { name } else { format!("{path}.{name}") };
        match value {
            Shown::Table(entries) => toml_section(text, &path, entries),
            Shown::Tables(tables) => {
                for table in tables {
                    text.push_str(&format!("[[{path}]]\n"));
                    toml_lines(text, table.iter());
                    text.push('\n');
                }
            }
            _ => {}
        }
    }
}

fn toml_lines<'e>(text: &mut String, entries: impl Iterator<Item = &'e (String, Shown)>) {
    for (name, value) in entries {
        text.push_str(&format!("{} = {}\n", toml_key(name), toml_value(value)));
    }
}

/// A name as a key: in quotes where it has more than letters, digits, `-` and `_`.
fn toml_key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match !name.is_empty() && name.bytes().all(bare) {
        true => name.to_owned(),
        false => toml::Value::from(name).to_string(),
    }
}

fn toml_value(shown: &Shown) -> String {
    match shown {
        Shown::Text(text) => toml::Value::from(text.as_str()).to_string(),
        Shown::Number(number) => number.to_string(),
        Shown::Ratio(ratio) => format!("{ratio:?}"),
        Shown::Flag(flag) => flag.to_string(),
        Shown::Texts(texts) => {
            let items: Vec<_> =
                texts.iter().map(|text| toml::Value::from(text.as_str()).to_string()).collect();
            format!("[{}]", items.join(", "))
        }
        Shown::Table(entries) => toml_table(entries),
        Shown::Tables(tables) => {
            format!("[{}]", tables.iter().map(toml_table).collect::<Vec<_>>().join(", "))
        }
        Shown::Instead(instead) => toml_value(&instead.shown),
    }
}

fn toml_table(entries: &Entries) -> String {
    let items: Vec<_> =
        entries.iter().map(|(name, value)| format!("{} = {}", toml_key(name), toml_value(value))).collect();
    format!("{{ {} }}", items.join(", "))
}
