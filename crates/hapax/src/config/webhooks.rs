//! Where deliveries of providers come in and where they go (`[webhooks]`, W). Webhooks themselves, with their secrets, are made by
//! `hapax webhooks create`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::json::Pointer;
use hapax_core::{Policy, Rerun, Retention};
use hapax_gateway::settings::{Auth, KvStore, Level, Route, Webhooks};
use hapax_gateway::webhooks::provider::{self, BUILT_IN, Encoding, Generic, Hash};
use hapax_tower::{IdentifierPlace, Rule};
use http::{HeaderName, Method};

use super::Pattern;
use super::edge::{self, fixed_path};
use super::fields::Of;
use super::handler;
use super::route::{self, Context};
use super::rule::{self, KEEPS, RERUNS};
use super::section::{Section, Spot};
use super::tree::Value;
use super::units;
use super::upstream::{Ready, is_name, name_remedy};
use super::url::Url;
use crate::limits;

/// `[webhooks]`, and the class that its outcomes are kept by.
pub(crate) struct Found {
    pub(crate) webhooks: Webhooks,
    pub(crate) retention_class: Option<String>,
}

/// Reads `[webhooks]`.
pub(crate) fn webhooks(section: &Section<'_>, context: &Context<'_>) -> Option<Found> {
    if !section.exists() {
        return None;
    }
    section.require("upstream", "name the upstream that deliveries go to");
    let prefix =
        section.parsed("prefix", fixed_path).map_or_else(|| "/webhooks".into(), |prefix| prefix.value);
    let path = section.parsed("path", target);
    let public_url = section.url("public_url", origin);
    let behind = route::upstream(section, context);
    let is_cluster = behind.is_some_and(|behind| behind.upstream.cluster.is_some());
    let handler = handler::of_webhooks(section, behind);
    if behind.is_some() && !is_cluster {
        section
            .require("path", "say where a verified delivery goes, such as \"/internal/webhooks/{provider}\"");
    }
    for field in section.written(|of| is_cluster && of == Of::Ledger) {
        let what = format!("`{field}` has no effect on deliveries to a handler");
        section.reader().mistake(&section.place(field), what, "remove it");
    }
    let providers = providers(&section.section("providers"));
    let enabled = enabled(section, &providers);
    let (rule, retention_class) = protection(section, context, behind);
    keeps_long_enough(section, &rule, &enabled, &providers);
    let kv = kv(&section.section("kv"));
    let verify = section.flag("verify").is_some_and(|verify| verify.value);
    let wait = section.duration("wait").map(|wait| wait.value);
    if let Some(wait) = wait.filter(|wait| *wait > rule.give_up) {
        let what =
            format!("senders wait for {}, and the call is given up before", units::show_duration(wait));
        section.reader().mistake(&section.place("wait"), what, "make `give_up` at least as long as `wait`");
    }
    let route = Route {
        method: Method::POST,
        path: format!("{prefix}/{{provider}}/{{webhook_id}}").into(),
        policy: Policy::RequiredB,
        lenient: false,
        public: false,
        recall: false,
        level: Level::Project,
        upstream: behind?.upstream.clone(),
        rule: None,
        reconcile: None,
        handler: handler.map(Arc::new),
    };
    if is_cluster && route.handler.is_none() {
        return None;
    }
    let webhooks = Webhooks {
        prefix,
        // What a delivery to a handler was sent to is the webhook's own path.
        path: if is_cluster { "/{provider}/{webhook_id}".into() } else { path?.value },
        public_url: public_url.map(|url| url.value),
        route: Arc::new(route),
        rule,
        wait,
        enabled,
        providers,
        verify,
        kv,
    };
    Some(Found { webhooks, retention_class })
}

/// Ids that another service knows need that service, and a place for their secrets (A7).
pub(crate) fn can_verify(section: &Section<'_>, found: Option<&Found>, auth: &Auth) {
    let Some(webhooks) = found.map(|found| &found.webhooks).filter(|webhooks| webhooks.verify) else {
        return;
    };
    let mistake = |what: &str, remedy: &str| {
        section.reader().mistake(&section.place("verify"), what.to_owned(), remedy);
    };
    if auth.verify.is_none() {
        mistake("there is no service that could be asked for ids of webhooks", "say [auth.verify]");
    }
    if webhooks.kv.is_none() {
        mistake("webhooks that another service knows have their secrets in a KV store", "say [webhooks.kv]");
    }
}

/// Where a delivery goes: a path in which the two known names may stand.
fn target(text: &str) -> Result<String, String> {
    let pattern = Pattern::parse(text)?;
    match pattern.parameters().all(|name| ["provider", "webhook_id"].contains(&name)) {
        true => Ok(text.to_owned()),
        false => Err("only {provider} and {webhook_id} can stand in the path of deliveries".into()),
    }
}

/// The public URL without a path.
fn origin(text: &str) -> Result<String, String> {
    let url = Url::parse(text)?;
    match url.base.is_empty() {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("write scheme, host and port alone, such as \"https://hooks.example\"".into()),
    }
}

/// How deliveries are protected; what differs by webhook is left as it is.
fn protection(
    section: &Section<'_>,
    context: &Context<'_>,
    behind: Option<&Ready>,
) -> (Rule, Option<String>) {
    let mut rule = rule::plain();
    // A sender repeats a delivery until it is taken: what it sends must be safe to run again, unless the service says otherwise.
    rule.rerun = section.word("rerun", &RERUNS[..2]).map_or(Rerun::Safe, |rerun| rerun.value);
    rule.keep = section.word("keep", &KEEPS).map_or(rule.keep, |keep| keep.value);
    rule.max_request_body = edge::max_request_body(section).unwrap_or(context.defaults.max_request_body);
    edge::fits_memory(section, rule.max_request_body, context.max_buffered);
    rule.max_kept_response = edge::max_kept_response(section).unwrap_or(context.defaults.max_kept_response);
    let stated = section.duration("give_up").map(|give_up| give_up.value);
    let inherited = behind.and_then(|upstream| upstream.give_up);
    rule.give_up = stated.or(inherited).unwrap_or(rule.give_up);
    rule.max_run = rule.max_run.max(rule.give_up);
    let (retention, class) = match section.has("retention") {
        true => rule::retention(section, context),
        false => (Retention::For(limits::WEBHOOK_RETENTION), None),
    };
    rule.retention = retention;
    (rule, class)
}

/// Outcomes outlive the time in which a sender may send a delivery again (W6).
fn keeps_long_enough(
    section: &Section<'_>,
    rule: &Rule,
    enabled: &[String],
    providers: &BTreeMap<String, Generic>,
) {
    let Some((name, window)) = longest_window(enabled, providers) else { return };
    if let Retention::For(kept) | Retention::SinceGrant(kept) = rule.retention
        && kept < window
    {
        let what = format!(
            "deliveries are kept for {}, and {name} may send one again for {}",
            units::show_duration(kept),
            units::show_duration(window)
        );
        let remedy = "keep them longer, or name the providers that you have in `enabled`";
        section.reader().mistake(&section.place("retention"), what, remedy);
    }
}

/// The provider that may send a delivery again for the longest time.
pub(crate) fn longest_window(
    enabled: &[String],
    providers: &BTreeMap<String, Generic>,
) -> Option<(String, Duration)> {
    let built_in = BUILT_IN.iter().filter_map(|name| Some(((*name).to_owned(), provider::window(name)?)));
    let declared = providers.iter().map(|(name, provider)| (name.clone(), provider.window));
    let taken = |name: &String| enabled.is_empty() || enabled.contains(name);
    built_in.chain(declared).filter(|(name, _)| taken(name)).max_by_key(|(_, window)| *window)
}

fn enabled(section: &Section<'_>, providers: &BTreeMap<String, Generic>) -> Vec<String> {
    let mut enabled = Vec::new();
    for name in section.texts("enabled").unwrap_or_default() {
        if BUILT_IN.contains(&name.value) || providers.contains_key(name.value) {
            enabled.push(name.value.to_owned());
        } else {
            let known =
                format!("use one of {}, or declare [webhooks.providers.{}]", BUILT_IN.join(", "), name.value);
            section.reader().mistake(&name.at, format!("there is no provider {:?}", name.value), known);
        }
    }
    enabled
}

/// Providers that the configuration declares.
fn providers(section: &Section<'_>) -> BTreeMap<String, Generic> {
    let mut providers = BTreeMap::new();
    for (name, node) in section.entries() {
        let reader = section.reader();
        if BUILT_IN.contains(&name.value.as_str()) {
            let what = format!("the provider {:?} is built in", name.value);
            reader.mistake(&name.at, what, "give yours another name");
        } else if !is_name(&name.value) || name.value.len() > limits::PROVIDER_NAME_BYTES {
            reader.mistake(&name.at, format!("{:?} is no name of a provider", name.value), name_remedy());
        } else if let Value::Table(table) = &node.value {
            if let Some(generic) = generic(&section.named(table, "")) {
                providers.insert(name.value, generic);
            }
        } else {
            let remedy = format!("write [webhooks.providers.{}] and its fields below", name.value);
            reader.mistake(&node.at, format!("`{}` cannot be {}", name.value, node.value.kind()), remedy);
        }
    }
    providers
}

pub(super) const HASHES: [(&str, Hash); 3] =
    [("sha256", Hash::Sha256), ("sha1", Hash::Sha1), ("sha512", Hash::Sha512)];
pub(super) const ENCODINGS: [(&str, Encoding); 2] = [("hex", Encoding::Hex), ("base64", Encoding::Base64)];

fn generic(section: &Section<'_>) -> Option<Generic> {
    let usual = Generic::default();
    section.require("header", "name the header with the signature");
    section.require(
        "identifier",
        "say where a delivery's identifier is, such as { header = \"X-Delivery-Id\" }",
    );
    let header = section.parsed("header", header);
    let identifier = identifier(&section.section("identifier"), self::header);
    let named = |field| section.parsed(field, self::header).map(|name| name.value);
    let generic = Generic {
        prefix: section.text("prefix").map_or(usual.prefix, |prefix| prefix.value.to_owned()),
        hash: section.word("hash", &HASHES).map_or(usual.hash, |hash| hash.value),
        encoding: section.word("encoding", &ENCODINGS).map_or(usual.encoding, |encoding| encoding.value),
        signed: section.text("signed").map_or(usual.signed, |signed| signed.value.to_owned()),
        timestamp_header: named("timestamp_header"),
        identifier_signed: section.flag("identifier_signed").is_some_and(|signed| signed.value),
        kind_header: named("kind_header"),
        wait: section.duration("wait").map_or(usual.wait, |wait| wait.value),
        window: section.duration("window").map_or(usual.window, |window| window.value),
        header: header?.value,
        identifier: identifier?,
    };
    if let Err(error) = generic.check() {
        section.reader().mistake(&section.at(), "this provider cannot be used", error.message());
        return None;
    }
    Some(generic)
}

fn header(text: &str) -> Result<String, String> {
    let name = HeaderName::try_from(text).map_err(|_| "write the name of a header".to_owned())?;
    Ok(name.as_str().to_owned())
}

/// Where an identifier stands: exactly one place.
pub(crate) fn identifier(
    section: &Section<'_>,
    header: fn(&str) -> Result<String, String>,
) -> Option<IdentifierPlace> {
    if !section.exists() {
        return None;
    }
    let header = section.parsed("header", header).map(|name| IdentifierPlace::Header(name.value));
    let json = section.parsed("json", |text| Pointer::new(text).map_err(|error| error.message().to_owned()));
    let json = json.map(|pointer: Spot<Pointer>| IdentifierPlace::Json(pointer.value));
    let form = section.text("form").map(|name| IdentifierPlace::Form(name.value.to_owned()));
    let written = ["header", "json", "form"].iter().filter(|field| section.has(field)).count();
    if written != 1 {
        let remedy = "write one of `header`, `json` and `form`";
        section.reader().mistake(&section.at(), "an identifier stands in one place", remedy);
        return None;
    }
    header.or(json).or(form)
}

fn kv(section: &Section<'_>) -> Option<KvStore> {
    if !section.exists() {
        return None;
    }
    section.require("url", "say where the store is, such as \"http://127.0.0.1:8200\"");
    section.require("token_file", "name the file with the token");
    let url = section.url("url", |text| Url::parse(text).map(|_| text.to_owned()));
    let mount = section.parsed("mount", |text| match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.trim_matches('/').to_owned()),
        false => Err("write the path where the store is mounted, such as \"secret\"".into()),
    });
    let token_file = section.text("token_file").map(|file| section.reader().path(file.value));
    let timeout = section.duration("timeout");
    Some(KvStore {
        url: url?.value,
        mount: mount.map_or_else(|| "secret".into(), |mount| mount.value),
        token_file: token_file?,
        timeout: timeout.map_or(limits::VERIFY_TIMEOUT, |timeout| timeout.value),
    })
}
