//! The three listeners (M1), and what the edge's section says for every route.

use std::net::SocketAddr;
use std::time::Duration;

use hapax_exec::Attach;
use hapax_gateway::settings::{Cors, Edge, Tls};
use hapax_tower::Rule;
use hapax_tower::problem::DOCS;
use http::HeaderName;

use super::Pattern;
use super::admin;
use super::material;
use super::mistakes::Place;
use super::overlaps::OWN;
use super::reader::Reader;
use super::section::{Section, Spot};
use super::url;
use crate::limits;

/// Where applications are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Names that it answers to, beside addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// What routes do where they do not say otherwise.
#[derive(Clone, Debug)]
pub(crate) struct RouteDefaults {
    pub(crate) max_request_body: usize,
    pub(crate) max_kept_response: usize,
    pub(crate) waits: bool,
    pub(crate) attach_timeout: Duration,
    pub(crate) mismatch_status: u16,
}

impl RouteDefaults {
    fn of(rule: &Rule) -> Self {
        let attach = if let Attach::Wait(bound) = rule.attach { Some(bound) } else { None };
        RouteDefaults {
            max_request_body: rule.max_request_body,
            max_kept_response: rule.max_kept_response,
            waits: attach.is_some(),
            attach_timeout: attach.unwrap_or_default(),
            mismatch_status: rule.mismatch_status,
        }
    }
}

/// Reads `[edge]`.
pub(crate) fn edge(section: &Section<'_>, plain: &Rule) -> (Edge, RouteDefaults) {
    let mut edge = Edge::new(listen(section).unwrap_or_else(|| local(8080)));
    let duration = |field, to: &mut Duration| {
        if let Some(value) = section.duration(field) {
            *to = value.value;
        }
    };
    duration("drain_timeout", &mut edge.drain_timeout);
    duration("header_timeout", &mut edge.header_timeout);
    duration("idle_timeout", &mut edge.idle_timeout);
    edge.threads = section.count("threads").unwrap_or(edge.threads);
    edge.max_connections = section.count("max_connections").unwrap_or(edge.max_connections);
    edge.max_connections_per_address = per_address(section, edge.max_connections);
    edge.max_detached = section.count("max_detached").unwrap_or(edge.max_detached);
    edge.body_rate = section.size("body_rate").map_or(edge.body_rate, |size| size.value);
    edge.max_buffered = section.size("max_buffered").map_or(edge.max_buffered, |size| size.value);
    if let Some(segment) = section.parsed("recall_segment", recall_segment) {
        edge.recall_segment = segment.value.into();
    }
    let own = &edge.recall_segment;
    if let Some(prefix) = section.parsed("operations_prefix", |text| operations_prefix(text, own)) {
        edge.operations_prefix = prefix.value.into();
    }
    if let Some(docs) = section.url("docs", docs) {
        edge.docs = docs.value;
    }
    edge.tls = tls(&section.section("tls"));
    edge.cors = cors(&section.section("cors"));
    let defaults = route_defaults(section, plain);
    fits_memory(section, defaults.max_request_body, edge.max_buffered);
    (edge, defaults)
}

/// How many connections one address may have: no more than there may be of all.
fn per_address(section: &Section<'_>, max_connections: usize) -> Option<usize> {
    let most = section.count("max_connections_per_address")?;
    if most > max_connections {
        let what = "`max_connections_per_address` is more than `max_connections`";
        let remedy = "make it smaller, or raise `max_connections`";
        section.reader().mistake(&section.place("max_connections_per_address"), what, remedy);
    }
    Some(most)
}

/// A body that is longer than everything that may be held could never be let in (H12).
pub(crate) fn fits_memory(section: &Section<'_>, max_request_body: usize, max_buffered: u64) {
    if section.has("max_request_body") && max_request_body as u64 > max_buffered {
        let what = "`max_request_body` is more than the edge's `max_buffered`";
        let remedy = "make it smaller, or raise `edge.max_buffered` far beyond it: all bodies share that";
        section.reader().mistake(&section.place("max_request_body"), what, remedy);
    }
}

fn route_defaults(section: &Section<'_>, plain: &Rule) -> RouteDefaults {
    let mut defaults = RouteDefaults::of(plain);
    if let Some(size) = max_request_body(section) {
        defaults.max_request_body = size;
    }
    if let Some(size) = max_kept_response(section) {
        defaults.max_kept_response = size;
    }
    if let Some(waits) = section.word("attach", &ATTACH) {
        defaults.waits = waits.value;
    }
    if let Some(bound) = section.duration("attach_timeout") {
        defaults.attach_timeout = bound.value;
    }
    if let Some(status) = mismatch_status(section) {
        defaults.mismatch_status = status;
    }
    defaults
}

/// Whether a second caller waits.
pub(crate) const ATTACH: [(&str, bool); 2] = [("wait", true), ("reject", false)];

/// The longest body of a request.
pub(crate) fn max_request_body(section: &Section<'_>) -> Option<usize> {
    section.size("max_request_body").and_then(|size| usize::try_from(size.value).ok())
}

/// The longest answer that is kept.
pub(crate) fn max_kept_response(section: &Section<'_>) -> Option<usize> {
    section.size("max_kept_response").and_then(|size| usize::try_from(size.value).ok())
}

/// 422, or 409 for callers that expect that (H2).
pub(crate) fn mismatch_status(section: &Section<'_>) -> Option<u16> {
    let status = section.one_of("mismatch_status", "use 422, or 409 for callers that expect that")?;
    u16::try_from(status.value).ok()
}

/// Reads `[api]`. Without it applications are served nowhere.
pub(crate) fn api(section: &Section<'_>) -> Option<Api> {
    let listen = listen(section).unwrap_or_else(|| local(8082));
    section.exists().then(|| Api { listen, hosts: admin::hosts(section) })
}

/// A listener: its section, where it listens, and the place where that is written, if it is.
pub(crate) type Listener<'l> = (&'l str, SocketAddr, Option<Place>);

/// None of the listeners may stand in another's place (M1). A default is blamed on whoever came too near.
pub(crate) fn listeners_differ(reader: &Reader<'_>, listeners: &[Listener<'_>]) {
    for (index, (name, address, at)) in listeners.iter().enumerate() {
        for (other, taken, earlier) in
            listeners.iter().take(index).filter(|(_, taken, _)| meet(*taken, *address))
        {
            let what = format!("[{name}] listens on {address} and [{other}] on {taken}: the same port");
            let at = at.as_ref().or(earlier.as_ref()).cloned().unwrap_or_else(|| reader.whole_file());
            reader.mistake(&at, what, "give each listener an address of its own");
        }
    }
}

fn meet(a: SocketAddr, b: SocketAddr) -> bool {
    let everywhere = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() == b.port() && a.port() != 0 && (everywhere || a.ip() == b.ip())
}

pub(crate) fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

pub(crate) fn listen(section: &Section<'_>) -> Option<SocketAddr> {
    let parse = |text: &str| {
        text.parse().map_err(|_| "write an IP address and a port, such as \"127.0.0.1:8080\"".to_owned())
    };
    section.parsed("listen", parse).map(|listen| listen.value)
}

/// A path without parameters and without a slash at its end.
pub(crate) fn fixed_path(text: &str) -> Result<String, String> {
    let pattern = Pattern::parse(text)?;
    if pattern.has_parameters() || text.ends_with('/') {
        return Err(
            "write a path such as \"/operations\", without parameters and without a slash at its end".into(),
        );
    }
    Ok(text.to_owned())
}

/// One literal segment.
fn recall_segment(text: &str) -> Result<String, String> {
    let pattern = Pattern::of_requests(&format!("/{text}"));
    match pattern {
        Ok(pattern) if !pattern.has_parameters() && !text.contains('/') => Ok(text.to_owned()),
        _ => Err("write one segment of a path, such as \"by-idempotency-key\"".into()),
    }
}

/// Where the edge serves nothing else of its own.
fn operations_prefix(text: &str, recall_segment: &str) -> Result<String, String> {
    Pattern::of_requests(text)?;
    let path = fixed_path(text)?;
    let own = OWN.map(|segment| format!("/{segment}")).concat();
    let recalls = path.split('/').any(|segment| segment == recall_segment);
    if recalls || path == own || path.starts_with(&format!("{own}/")) {
        return Err(format!(
            "write a path such as \"/operations\", not below {own} and without {recall_segment:?}"
        ));
    }
    Ok(path)
}

/// Where the pages about problems are: somebody else's, or the edge's own. At any other path nobody serves them (H1).
fn docs(text: &str) -> Result<String, String> {
    let known = text.starts_with("https://") || text.starts_with("http://") || text == DOCS;
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte));
    let authority =
        text.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or(""));
    if authority.contains('@') {
        return Err("remove user and password: every caller would be told them".into());
    }
    let leads = text == DOCS || url::host_and_port(authority).is_some();
    if known && plain && leads && text.ends_with('/') {
        return Ok(text.to_owned());
    }
    let own = format!("or remove it: the edge serves the pages at {DOCS}");
    Err(format!("write an http(s) URL that ends with a slash; the code of a problem follows it; {own}"))
}

pub(crate) fn tls(section: &Section<'_>) -> Option<Tls> {
    if !section.exists() {
        return None;
    }
    section.require("cert", "name the PEM file with the certificate chain");
    section.require("key", "name the PEM file with the private key");
    let cert = section.reader().secret_file(section, "cert");
    let key = section.reader().secret_file(section, "key");
    let (cert, key) = (cert?, key?);
    material::pair(section.reader(), &cert, &key);
    Some(Tls { cert: cert.value, key: key.value })
}

fn cors(section: &Section<'_>) -> Option<Cors> {
    if !section.exists() {
        return None;
    }
    section.require("origins", "list the origins, such as [\"https://shop.example\"], or [\"*\"] for any");
    let reader = section.reader();
    let origins = section.texts("origins").unwrap_or_default();
    for origin in origins.iter().filter(|origin| !is_origin(origin.value)) {
        let remedy = "write an origin as browsers send it, such as \"https://shop.example\", without the scheme's own port; or \"*\"";
        reader.mistake(&origin.at, format!("{:?} is no origin", url::shown(origin.value)), remedy);
    }
    let headers = section.texts("headers").unwrap_or_default();
    for header in headers.iter().filter(|header| HeaderName::try_from(header.value).is_err()) {
        reader.mistake(&header.at, format!("{:?} is no header name", header.value), "write a header name");
    }
    let credentials = section.flag("credentials").is_some_and(|flag| flag.value);
    if credentials && let Some(any) = origins.iter().find(|origin| origin.value == "*") {
        let what = "`credentials = true` together with the origin \"*\" would open the edge to every page";
        reader.mistake(&any.at, what, "list the origins that may send credentials");
    }
    let max_age = section.duration("max_age").map(|age| age.value);
    let owned = |texts: Vec<Spot<&str>>| texts.into_iter().map(|text| text.value.to_owned()).collect();
    Some(Cors {
        origins: owned(origins),
        headers: owned(headers),
        credentials,
        max_age: max_age.unwrap_or(limits::CORS_MAX_AGE),
    })
}

/// `scheme://host[:port]`, as the header `Origin` has it.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return text == "*" };
    let lower = text.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase());
    // A browser leaves out the port that a scheme has anyway.
    let sent = url::host_and_port(authority)
        .is_some_and(|(_, port)| !matches!((scheme, port), ("https", Some(443)) | ("http", Some(80))));
    scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && lower
        && !authority.contains(['/', '?', '#', '@', '*', ','])
        && sent
}
