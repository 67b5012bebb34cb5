//! What the service behind gets to see of a request, with a key or without (A5, H11).
//!
//! Nothing that only hapax may say passes through from a caller: those fields are removed and written anew. Framing is
//! written by us from the body we hold.

use hapax_core::{Scope, Width};
use hapax_tower::answer::{is_hop_by_hop, is_ours, named_by_connection};
use http::Uri;
use http::header::{COOKIE, FORWARDED, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;

use crate::auth::credential;
use crate::intake::Hop;
use crate::settings::Upstream;

/// The tenant that hapax has made out.
const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");
/// The project.
const PROJECT: HeaderName = HeaderName::from_static("x-project-id");
/// The subject.
const SUBJECT: HeaderName = HeaderName::from_static("x-subject");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The headers that go on: without what concerns one connection, without what only hapax may say, with who asks. `Host` and
/// what frames the body are the pool's to see to.
pub(super) fn outgoing(from: &HeaderMap, hop: &Hop, scope: &Scope) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(from.len() + ADDED);
    for (name, value) in from {
        if !stays_here(name, value, hop.trusted) {
            headers.append(name, value.clone());
        }
    }
    named_by_connection(from).for_each(|name| drop(headers.remove(name)));
    headers.extend(who_asks(scope));
    join_cookies(&mut headers);
    say_where_from(&mut headers, hop);
    headers
}

/// What says who asks, as hapax has made it out.
pub(super) fn who_asks(scope: &Scope) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let parts = scope.narrowed(Width::Subject);
    let fields = [(TENANT, parts.tenant()), (PROJECT, parts.project()), (SUBJECT, parts.subject())];
    fields.into_iter().filter_map(|(name, text)| Some((name, HeaderValue::from_str(text).ok()?)))
}

/// How many fields are written by hapax, for the size of the map.
const ADDED: usize = 12;

/// Whether a field does not go on: it concerns one connection, or only hapax may say it, or it is written anew.
fn stays_here(name: &HeaderName, value: &HeaderValue, trusted: bool) -> bool {
    let text = name.as_str();
    match text {
        // What an unknown peer says about others before it is not passed on.
        "forwarded" => !trusted,
        _ if text.starts_with("x-forwarded-") => !trusted,
        // Known to hapax alone: whoever has it can call the edge.
        "authorization" | "x-api-key" => credential::shows_api_key(name, value.as_bytes()),
        // Stays only if it is right; the pool sees to that.
        "content-length" => false,
        _ if is_written_here(text) => true,
        _ if text.contains('_') => is_disguised(text),
        _ => is_hop_by_hop(name) || is_ours(name),
    }
}

/// Whether a field is never passed on as a caller sent it.
fn is_written_here(text: &str) -> bool {
    matches!(
        text,
        "idempotency-key"
            | "x-tenant-id"
            | "x-project-id"
            | "x-subject"
            | "x-level"
            // Good for another five minutes.
            | "x-schedule-signature"
            | "x-real-ip"
            | "expect"
            | "content-length"
            | "host"
    ) || text.starts_with("x-restate-")
}

/// Many servers read `_` in a name as `-`: there, `idempotency_key` would be a key that the edge never saw (A5).
fn is_disguised(text: &str) -> bool {
    let plain = text.replace('_', "-");
    let ours = ["x-forwarded-", "idempotency-", "idempotent-"].iter().any(|prefix| plain.starts_with(prefix));
    let name =
        || HeaderName::from_bytes(plain.as_bytes()).is_ok_and(|name| is_hop_by_hop(&name) || is_ours(&name));
    ours || is_written_here(&plain) || name()
}

/// HTTP/2 may send cookies one by one; in HTTP/1.1 they are one line (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(line) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        headers.insert(COOKIE, line);
    }
}

/// `Forwarded` and its older relatives, behind what a trusted peer has said.
fn say_where_from(headers: &mut HeaderMap, hop: &Hop) {
    let proto = if hop.tls { "https" } else { "http" };
    let host = hop.host.as_ref().and_then(|host| host.to_str().ok());
    let address = hop.peer.to_string();
    let (open, close) = if hop.peer.is_ipv6() { ("\"[", "]\"") } else { ("", "") };
    let (before, after) = if host.is_some() { (";host=\"", "\"") } else { ("", "") };
    let entry = ["for=", open, &address, close, before, host.unwrap_or(""), after, ";proto=", proto];
    for (name, entry) in [(FORWARDED, &entry[..]), (FORWARDED_FOR, &[&*address])] {
        match HeaderValue::try_from(behind(headers, hop, &name, entry)) {
            Ok(value) => drop(headers.insert(name, value)),
            Err(_) => drop(headers.remove(name)),
        }
    }
    // What a trusted peer has said about these stays, once.
    let said = |headers: &HeaderMap, name| if hop.trusted { headers.get(name).cloned() } else { None };
    let proto = said(headers, FORWARDED_PROTO).unwrap_or_else(|| HeaderValue::from_static(proto));
    headers.insert(FORWARDED_PROTO, proto);
    match said(headers, FORWARDED_HOST).or_else(|| hop.host.clone()) {
        Some(host) => drop(headers.insert(FORWARDED_HOST, host)),
        None => drop(headers.remove(FORWARDED_HOST)),
    }
}

/// Our own entry of a list, behind all that a trusted peer has said; of others nothing is left in the headers.
fn behind(headers: &HeaderMap, hop: &Hop, name: &HeaderName, entry: &[&str]) -> String {
    let mut text = String::with_capacity(FIELD);
    if hop.trusted {
        // A list may come in several lines, in order (RFC 9110, 5.3).
        let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        lines.filter(|line| !line.is_empty()).for_each(|line| text.extend([line, ", "]));
    }
    text.extend(entry.iter().copied());
    text
}

/// Room for one entry of `Forwarded`.
const FIELD: usize = 96;

/// The path and query that were matched, behind whatever the service's URL has in front.
pub(super) fn target(uri: &Uri, upstream: &Upstream) -> Uri {
    let asked = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    if upstream.base.is_empty() {
        return Uri::from(asked);
    }
    PathAndQuery::try_from(format!("{}{asked}", upstream.base)).map_or_else(|_| Uri::from(asked), Uri::from)
}
