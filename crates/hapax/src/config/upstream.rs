//! The services behind (`[upstreams.<name>]`). Whether one can be reached is not asked here: that is no mistake (P5).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hapax_gateway::settings::{OnExhausted, Retrying, Upstream, UpstreamKey};

use super::cluster;
use super::material;
use super::rule;
use super::section::{Section, Spot};
use super::tree::{Node, Value};
use super::url;
use crate::limits;

/// An upstream as a route finds it.
#[derive(Clone, Debug)]
pub(crate) enum Behind {
    /// It can be used.
    Ready(Ready),
    /// It has mistakes of its own; routes to it are not blamed for them.
    Broken,
}

/// An upstream and what its routes take from it.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) give_up: Option<Duration>,
}

/// The words of `kind`.
pub(super) const KINDS: [(&str, ()); 2] = [("http", ()), ("restate", ())];
/// The words of `upstream_key`.
pub(super) const SENT: [(&str, char); 4] =
    [("namespaced", 'n'), ("raw", 'r'), ("digest", 'd'), ("none", '0')];
/// The words of `on_exhausted`.
pub(super) const EXHAUSTED: [(&str, OnExhausted); 2] =
    [("kill", OnExhausted::Kill), ("pause", OnExhausted::Pause)];

/// Reads all upstreams.
pub(crate) fn upstreams(section: &Section<'_>) -> BTreeMap<String, Behind> {
    section.entries().map(|(name, node)| (name.value.clone(), one(section, &name, node))).collect()
}

fn one<'a>(section: &Section<'a>, name: &Spot<String>, node: &'a Node) -> Behind {
    let reader = section.reader();
    let Value::Table(table) = &node.value else {
        let what = format!("`{}` cannot be {}", name.value, node.value.kind());
        reader.mistake(&node.at, what, format!("write [upstreams.{}] and its fields below", name.value));
        return Behind::Broken;
    };
    let is_cluster = table
        .get("kind")
        .is_some_and(|kind| matches!(&kind.node.value, Value::Text(kind) if kind == "restate"));
    let named_well = is_name(&name.value);
    if !named_well {
        reader.mistake(&name.at, format!("{:?} is no name of an upstream", name.value), name_remedy());
    }
    let read = match is_cluster {
        true => cluster::read(&section.named(table, "restate"), &name.value),
        false => read(&section.named(table, "http"), &name.value),
    };
    match read {
        Some(ready) if named_well => Behind::Ready(ready),
        _ => Behind::Broken,
    }
}

/// Names of upstreams and retention classes appear in metrics, commands and addresses.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.len() <= limits::UPSTREAM_NAME_BYTES
        && text.bytes().all(plain)
}

pub(crate) fn name_remedy() -> String {
    format!("use 1 to {} of a-z, 0-9, - and _, starting with a letter", limits::UPSTREAM_NAME_BYTES)
}

fn read(section: &Section<'_>, name: &str) -> Option<Ready> {
    section.word("kind", &KINDS);
    section.require("url", "say where the service is, such as \"http://127.0.0.1:9000\"");
    let url = section.url("url", url::Url::parse);
    let mut upstream = Upstream::new(name, "", 0);
    for (field, to) in [
        ("timeout", &mut upstream.timeout),
        ("connect_timeout", &mut upstream.connect_timeout),
        ("idle_timeout", &mut upstream.idle_timeout),
    ] {
        if let Some(duration) = section.duration(field) {
            *to = duration.value;
        }
    }
    let most = section.count("max_connections");
    upstream.max_connections = most.unwrap_or(upstream.max_connections);
    upstream.reuse = reuse(section);
    upstream.key = key(section);
    upstream.retry = retry(&section.section("retry"));
    let ca = section.reader().readable(section, "ca");
    let give_up = section.duration("give_up");
    rule::upstream_times(section, &upstream, give_up.as_ref());
    let url = url?.value;
    if !url.https && section.has("ca") {
        section.reader().mistake(
            &section.place("ca"),
            "`ca` has no effect on http",
            "remove it, or use https",
        );
    } else if let Some(ca) = &ca {
        material::ca(section.reader(), ca);
    }
    upstream.ca = ca.map(|ca| ca.value);
    (upstream.https, upstream.host, upstream.port, upstream.base) = (url.https, url.host, url.port, url.base);
    Some(Ready { upstream: Arc::new(upstream), give_up: give_up.map(|give_up| give_up.value) })
}

/// Whether connections are kept for the next request. Without that, for how long one is kept has no effect.
fn reuse(section: &Section<'_>) -> bool {
    let reuse = section.flag("reuse").is_none_or(|reuse| reuse.value);
    if !reuse && section.has("idle_timeout") {
        let what = "`idle_timeout` has no effect with `reuse = false`";
        section.reader().mistake(&section.place("idle_timeout"), what, "remove one of them");
    }
    reuse
}

/// What goes upstream as the key (K4).
fn key(section: &Section<'_>) -> UpstreamKey {
    let word = section.word("upstream_key", &SENT).map_or('n', |word| word.value);
    let chars = digest_chars(section);
    if word != 'd' && section.has("digest_chars") {
        let remedy = "remove it, or say `upstream_key = \"digest\"`";
        let at = section.place("digest_chars");
        section.reader().mistake(&at, "`digest_chars` has an effect only on digests", remedy);
    }
    match word {
        'r' => UpstreamKey::Raw,
        '0' => UpstreamKey::None,
        'd' => UpstreamKey::Digest(chars),
        _ => UpstreamKey::Namespaced,
    }
}

/// How much of a digest is sent.
pub(super) fn digest_chars(section: &Section<'_>) -> usize {
    let chars = section.one_of("digest_chars", "use 32, 40 or 64");
    chars.and_then(|chars| usize::try_from(chars.value).ok()).unwrap_or(64)
}

/// What is tried again (P6).
pub(super) fn retry(section: &Section<'_>) -> Retrying {
    let mut retry = Retrying::default();
    if section.exists() {
        section.require("max_attempts", "say how many attempts there are in all, such as 3");
    }
    if let Some(most) = section.integer("max_attempts") {
        retry.max_attempts = u32::try_from(most.value).unwrap_or(retry.max_attempts);
    }
    if let Some(backoff) = section.duration("backoff") {
        retry.backoff = backoff.value;
    }
    if let Some(end) = section.word("on_exhausted", &EXHAUSTED) {
        retry.on_exhausted = end.value;
    }
    retry
}
