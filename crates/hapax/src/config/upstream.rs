//! The services behind (`[upstreams.<name>]`). Whether one can be reached is not asked here: that is no mistake (P5).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hapax_gateway::settings::{OnExhausted, Retrying, Upstream, UpstreamKey};

use super::cluster;
use super::fields;
use super::material;
use super::reader::Reader;
use super::rule;
use super::section::{Section, Spot};
use super::tree::{Node, Value};
use super::url;
use crate::limits::{self, range};

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

/// Reads all upstreams.
pub(crate) fn upstreams(section: &Section<'_>) -> BTreeMap<String, Behind> {
    section.entries().map(|(name, node)| (name.value.clone(), one(section.reader(), &name, node))).collect()
}

fn one(reader: &Reader<'_>, name: &Spot<String>, node: &Node) -> Behind {
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
        true => cluster::read(&Section::open(reader, Some(table), &fields::CLUSTER), &name.value),
        false => read(&Section::open(reader, Some(table), &fields::UPSTREAM), &name.value),
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
    section.word("kind", &[("http", ()), ("restate", ())]);
    section.require("url", "say where the service is, such as \"http://127.0.0.1:9000\"");
    let url = section.url("url", url::Url::parse);
    let mut upstream = Upstream::new(name, "", 0);
    for (field, range, to) in [
        ("timeout", &range::TIMEOUT, &mut upstream.timeout),
        ("connect_timeout", &range::TIMEOUT, &mut upstream.connect_timeout),
        ("idle_timeout", &range::IDLE, &mut upstream.idle_timeout),
    ] {
        if let Some(duration) = section.duration(field, range) {
            *to = duration.value;
        }
    }
    let most = section.count("max_connections", &range::CONNECTIONS);
    upstream.max_connections = most.unwrap_or(upstream.max_connections);
    upstream.reuse = reuse(section);
    upstream.key = key(section);
    upstream.retry = retry(&section.section("retry", &fields::RETRY));
    let ca = section.reader().readable(section, "ca");
    let give_up = section.duration("give_up", &range::GIVE_UP);
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
    let words = [("namespaced", 'n'), ("raw", 'r'), ("digest", 'd'), ("none", '0')];
    let word = section.word("upstream_key", &words).map_or('n', |word| word.value);
    let chars = section.integer("digest_chars", &(i64::MIN..=i64::MAX));
    let reader = section.reader();
    if let Some(chars) = chars.as_ref().filter(|_| word != 'd') {
        let remedy = "remove it, or say `upstream_key = \"digest\"`";
        reader.mistake(&chars.at, "`digest_chars` has an effect only on digests", remedy);
    }
    match (word, chars) {
        ('r', _) => UpstreamKey::Raw,
        ('0', _) => UpstreamKey::None,
        ('d', Some(chars)) => match chars.value {
            32 => UpstreamKey::Digest(32),
            40 => UpstreamKey::Digest(40),
            64 => UpstreamKey::Digest(64),
            other => {
                reader.mistake(&chars.at, format!("`digest_chars` cannot be {other}"), "use 32, 40 or 64");
                UpstreamKey::Digest(64)
            }
        },
        ('d', None) => UpstreamKey::Digest(64),
        _ => UpstreamKey::Namespaced,
    }
}

/// What is tried again (P6).
pub(super) fn retry(section: &Section<'_>) -> Retrying {
    let mut retry = Retrying::default();
    if section.exists() {
        section.require("max_attempts", "say how many attempts there are in all, such as 3");
    }
    if let Some(most) = section.integer("max_attempts", &range::ATTEMPTS) {
        retry.max_attempts = u32::try_from(most.value).unwrap_or(retry.max_attempts);
    }
    if let Some(backoff) = section.duration("backoff", &range::BACKOFF) {
        retry.backoff = backoff.value;
    }
    let words = [("kill", OnExhausted::Kill), ("pause", OnExhausted::Pause)];
    if let Some(end) = section.word("on_exhausted", &words) {
        retry.on_exhausted = end.value;
    }
    retry
}
