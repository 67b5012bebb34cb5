//! Restate clusters (`[upstreams.<name>]` with `kind = "restate"`, D1). Whether one can be reached is not asked here: that is for
//! `hapax doctor`.

use std::sync::Arc;

use hapax_gateway::auth::trusted::{PROJECT, SUBJECT, TENANT};
use hapax_gateway::settings::{Classify, Cluster, Node, Upstream};
use http::HeaderName;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST};

use super::keys;
use super::material;
use super::section::{Section, Spot};
use super::upstream;
use super::upstream::Ready;
use super::url::Url;
use crate::limits;

/// The words of `classify`.
pub(crate) const CLASSIFY: [(&str, Classify); 2] = [("exact", Classify::Exact), ("marker", Classify::Marker)];

/// Reads a cluster.
pub(super) fn read(section: &Section<'_>, name: &str) -> Option<Ready> {
    section.word("kind", &upstream::KINDS);
    section.require("ingress", "say where calls go, such as [\"http://127.0.0.1:8080\"]");
    section.require("admin", "say where its admin API is, such as \"http://127.0.0.1:9070\"");
    let ingress = nodes(section, "ingress");
    let admin = nodes(section, "admin");
    let mut cluster = Cluster::new(ingress.unwrap_or_default(), admin.unwrap_or_default());
    let classify = section.word("classify", &CLASSIFY);
    if let Some(marker) = classify.as_ref().filter(|classify| classify.value == Classify::Marker) {
        let text = "`classify = \"marker\"`: two callers at once with one key and different bodies may get one answer, at two instances";
        section.reader().notice(&marker.at, text);
    }
    cluster.classify = classify.map_or(cluster.classify, |classify| classify.value);
    if let Some(names) = section.texts("headers") {
        cluster.headers = headers(section, &names);
    }
    if let Some(after) = section.integer("suspend_after") {
        cluster.suspend_after = u32::try_from(after.value).unwrap_or(cluster.suspend_after);
    }
    let mut upstream = Upstream::new(name, "", 0);
    for (field, to) in [
        ("timeout", &mut upstream.timeout),
        ("connect_timeout", &mut cluster.connect_timeout),
        ("idle_timeout", &mut cluster.idle_timeout),
        ("suspend_for", &mut cluster.suspend_for),
    ] {
        if let Some(duration) = section.duration(field) {
            *to = duration.value;
        }
    }
    let most = section.count("max_connections");
    cluster.max_connections = most.unwrap_or(cluster.max_connections);
    let again = section.section("retry");
    let retry = upstream::retry(&again);
    if again.has("on_exhausted") {
        let what =
            "`on_exhausted` has no effect on a cluster, whose services say themselves what happens then";
        again.reader().mistake(&again.place("on_exhausted"), what, "remove it");
    }
    (cluster.max_attempts, cluster.backoff) = (retry.max_attempts, retry.backoff);
    let ca = section.reader().readable(section, "ca");
    if let Some(ca) = &ca {
        material::ca(section.reader(), ca);
    }
    cluster.ca = ca.map(|ca| ca.value);
    if cluster.ingress.is_empty() || cluster.admin.is_empty() {
        return None;
    }
    upstream.cluster = Some(cluster);
    Some(Ready { upstream: Arc::new(upstream), give_up: None })
}

/// One address, or several.
fn nodes(section: &Section<'_>, field: &str) -> Option<Vec<Node>> {
    let texts = section.one_or_more(field)?;
    let reader = section.reader();
    if texts.is_empty() {
        reader.mistake(&section.place(field), format!("`{field}` is empty"), "name at least one address");
    }
    if texts.len() > limits::CLUSTER_NODES {
        let what = format!("`{field}` has {} addresses", texts.len());
        reader.mistake(&section.place(field), what, format!("use at most {}", limits::CLUSTER_NODES));
    }
    let mut nodes: Vec<Node> = Vec::with_capacity(texts.len());
    for text in texts {
        match Url::parse(text.value) {
            Ok(Url { https, host, port, base }) => {
                let node = Node { https, host, port, base };
                match nodes.contains(&node) {
                    true => {
                        reader.mistake(&text.at, format!("`{field}` names {node} twice"), "remove it once")
                    }
                    false => nodes.push(node),
                }
            }
            Err(remedy) => {
                let what = format!("`{field}` cannot be {:?}", super::url::shown(text.value));
                reader.mistake(&text.at, what, remedy);
            }
        }
    }
    Some(nodes)
}

/// Headers that handlers get to see: the journal keeps them.
fn headers(section: &Section<'_>, names: &[Spot<&str>]) -> Vec<HeaderName> {
    let mut headers = Vec::with_capacity(names.len());
    for name in names {
        let refuse = |what: &str, remedy: &str| {
            section.reader().mistake(&name.at, format!("`headers`: {:?} {what}", name.value), remedy);
        };
        let Ok(header) = HeaderName::try_from(name.value) else {
            refuse("is no header name", "write the name of a header");
            continue;
        };
        // Who asks is said by hapax itself, and only where the name stands here.
        if [TENANT, PROJECT, SUBJECT].contains(&header) {
            headers.push(header);
            continue;
        }
        let is_secret = header == AUTHORIZATION || header == COOKIE || header.as_str() == "x-api-key";
        let is_ours = keys::is_for_hapax(&header)
            || ["x-restate-", "x-hapax-"].iter().any(|prefix| header.as_str().starts_with(prefix))
            || [ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST].contains(&header);
        match (is_secret, is_ours) {
            (true, _) => refuse("would be kept in the journal of every call", "remove it"),
            (_, true) => refuse("is written by hapax itself", "remove it"),
            _ => headers.push(header),
        }
    }
    if headers.len() > limits::CLUSTER_HEADERS {
        let what = format!("`headers` has {} names", headers.len());
        section.reader().mistake(
            &section.place("headers"),
            what,
            format!("use at most {}", limits::CLUSTER_HEADERS),
        );
    }
    headers
}
