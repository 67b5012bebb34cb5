//! What the service behind gets to see, and sending it there (A5, H11, P6).
//!
//! Nothing that only hapax may say passes through from a caller: those fields are removed and written anew. Framing is
//! written by us from the body we hold.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Executed, Identity, Rerun, Scope, Width};
use hapax_exec::Attempt;
use hapax_tower::answer::{EPOCH, IDEMPOTENCY_KEY, is_hop_by_hop, is_ours, named_by_connection};
use hapax_tower::problem::OPERATION_ID;
use hapax_tower::protect::operation_header;
use hapax_tower::{Asked, SendError};
use http::header::{ACCEPT_ENCODING, COOKIE, FORWARDED, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri};

use crate::settings::{Retrying, Upstream, UpstreamKey};
use crate::upstream::{Connected, Failed, Incoming, Outgoing, Pool, Reached};
use crate::{auth, limits};

/// The tenant that hapax has made out.
pub(crate) const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");
/// The project.
pub(crate) const PROJECT: HeaderName = HeaderName::from_static("x-project-id");
/// The subject.
pub(crate) const SUBJECT: HeaderName = HeaderName::from_static("x-subject");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// How a request came in.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    /// From where.
    pub(crate) peer: IpAddr,
    /// Whether over TLS.
    pub(crate) tls: bool,
    /// Whether that peer is believed when it says where a request came from.
    pub(crate) trusted: bool,
    /// For which host.
    pub(crate) host: HeaderValue,
}

/// The headers that go on: without what concerns one connection, without what only hapax may say, with who asks. `Host` and
/// what frames the body are the pool's to see to.
pub(crate) fn headers(from: &HeaderMap, came: &Came, scope: &Scope) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(from.len() + ADDED);
    for (name, value) in from {
        if !stays_here(name, value, came.trusted) {
            headers.append(name, value.clone());
        }
    }
    named_by_connection(from).for_each(|name| drop(headers.remove(name)));
    let parts = scope.narrowed(Width::Subject);
    for (name, text) in [(TENANT, parts.tenant()), (PROJECT, parts.project()), (SUBJECT, parts.subject())] {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    }
    join_cookies(&mut headers);
    say_where_from(&mut headers, came);
    headers
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
        "authorization" => auth::shows_api_key(value.as_bytes()),
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
fn say_where_from(headers: &mut HeaderMap, came: &Came) {
    let (proto, host) = (if came.tls { "https" } else { "http" }, came.host.to_str().unwrap_or_default());
    let address = came.peer.to_string();
    let (open, close) = if came.peer.is_ipv6() { ("\"[", "]\"") } else { ("", "") };
    let entry = ["for=", open, &address, close, ";host=\"", host, "\";proto=", proto];
    for (name, entry) in [(FORWARDED, &entry[..]), (FORWARDED_FOR, &[&*address])] {
        match HeaderValue::try_from(behind(headers, came, &name, entry)) {
            Ok(value) => drop(headers.insert(name, value)),
            Err(_) => drop(headers.remove(name)),
        }
    }
    // What a trusted peer has said about these stays, once.
    let said = |headers: &HeaderMap, name| if came.trusted { headers.get(name).cloned() } else { None };
    let proto = said(headers, FORWARDED_PROTO).unwrap_or_else(|| HeaderValue::from_static(proto));
    headers.insert(FORWARDED_PROTO, proto);
    let host = said(headers, FORWARDED_HOST).unwrap_or_else(|| came.host.clone());
    headers.insert(FORWARDED_HOST, host);
}

/// Our own entry of a list, behind all that a trusted peer has said; of others nothing is left in the headers.
fn behind(headers: &HeaderMap, came: &Came, name: &HeaderName, entry: &[&str]) -> String {
    let mut text = String::with_capacity(FIELD);
    if came.trusted {
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
pub(crate) fn target(uri: &Uri, upstream: &Upstream) -> Uri {
    let asked = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    if upstream.base.is_empty() {
        return Uri::from(asked);
    }
    PathAndQuery::try_from(format!("{}{asked}", upstream.base)).map_or_else(|_| Uri::from(asked), Uri::from)
}

/// The key as this service is to see it (K4).
pub(crate) fn upstream_key(
    upstream: &Upstream,
    identity: &Identity,
) -> Result<Option<HeaderValue>, hapax_core::Error> {
    let key = identity.key();
    let text = match upstream.key {
        UpstreamKey::None => return Ok(None),
        UpstreamKey::Raw => key.as_str().to_owned(),
        UpstreamKey::Digest(digits) => identity.claim_id().to_string()[..digits.min(64)].to_owned(),
        UpstreamKey::Namespaced => {
            hapax_core::scope::namespaced(&identity.scope().narrowed(identity.width()), key)?
        }
    };
    HeaderValue::try_from(text)
        .map(Some)
        .map_err(|_| hapax_core::Error::invalid("the key cannot be written into a header"))
}

/// A keyed request as it came. What goes on is written when it is known that it does: most retries never leave.
pub(crate) struct Inbound {
    pub(crate) asked: Arc<Asked>,
    pub(crate) identity: Identity,
    pub(crate) came: Came,
}

impl Inbound {
    /// The headers that go on.
    pub(crate) fn headers(&self) -> HeaderMap {
        headers(&self.asked.headers, &self.came, &self.asked.scope)
    }

    /// What goes on to this service. Every key that a header can carry has a form that one can.
    pub(crate) fn outbound(self, upstream: &Upstream) -> Result<Outbound, SendError> {
        let unfit =
            |error: hapax_core::Error| SendError { executed: Executed::No, cause: format!("{error:#}") };
        Ok(Outbound {
            uri: target(&self.asked.uri, upstream),
            headers: self.headers(),
            method: self.asked.method.clone(),
            body: self.asked.body.clone(),
            may_overlap: self.asked.rule.rerun == Rerun::Safe && self.asked.rule.quiet.is_zero(),
            key: upstream_key(upstream, &self.identity).map_err(unfit)?,
        })
    }
}

/// A keyed request, ready to be sent as often as it must.
pub(crate) struct Outbound {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) key: Option<HeaderValue>,
    pub(crate) body: Bytes,
    /// Whether it may be sent again while an earlier attempt may still be at work: a safe rerun allows that, `quiet` forbids
    /// it (L6).
    pub(crate) may_overlap: bool,
}

impl Outbound {
    /// The request of one attempt; the last one takes headers and key along.
    fn request(&mut self, attempt: Attempt, is_last: bool) -> Request<Outgoing> {
        let mut headers = if is_last { std::mem::take(&mut self.headers) } else { self.headers.clone() };
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let key = if is_last { self.key.take() } else { self.key.clone() };
        if let Some(key) = key {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        if let Some(id) = attempt.operation_id.and_then(operation_header) {
            headers.insert(OPERATION_ID, id);
        }
        if let Some(epoch) = attempt.epoch {
            headers.insert(EPOCH, HeaderValue::from(epoch.packed()));
        }
        let body = match self.body.is_empty() {
            true => Outgoing::Empty,
            false => Outgoing::Whole(self.body.clone()),
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }

    /// Sends it, and again as far as the service's settings allow (P6): what certainly did not arrive, and for work that
    /// may be done twice at a time, whatever failed.
    pub(crate) async fn send(
        mut self,
        pool: Pool,
        attempt: Attempt,
    ) -> Result<Response<Incoming>, SendError> {
        let retry = &pool.settings().retry;
        let mut tries = Tries::new(retry);
        loop {
            let request = self.request(attempt, tries.is_last());
            let failed = match pool.send(request).await {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            let may_try_again = failed.reached == Reached::No || self.may_overlap;
            if !may_try_again || tries.is_last() {
                return Err(send_error(failed));
            }
            tries.pause().await;
        }
    }
}

/// A connection to the service, tried for as often as its settings allow (P6): without one, certainly nothing was sent.
pub(crate) async fn connected(pool: &Pool) -> Result<Connected, Failed> {
    let mut tries = Tries::new(&pool.settings().retry);
    loop {
        match pool.connected().await {
            Err(_) if !tries.is_last() => tries.pause().await,
            done => return done,
        }
    }
}

/// Attempts at one request, and the pauses between them.
struct Tries<'a> {
    retry: &'a Retrying,
    begun: u32,
    pause: Duration,
}

impl<'a> Tries<'a> {
    /// The first attempt.
    fn new(retry: &'a Retrying) -> Self {
        Tries { retry, begun: 1, pause: retry.backoff }
    }

    /// Whether none may follow.
    fn is_last(&self) -> bool {
        self.begun >= self.retry.max_attempts
    }

    /// Waits for the next attempt.
    async fn pause(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = longer(self.pause, self.retry.backoff);
        self.begun += 1;
    }
}

/// The pause after one that was this long: twice as long, and never shorter than the first.
fn longer(pause: Duration, first: Duration) -> Duration {
    (pause * 2).min(limits::LONGEST_BACKOFF.max(first))
}

fn send_error(failed: Failed) -> SendError {
    let executed = match failed.reached {
        Reached::No => Executed::No,
        Reached::Perhaps => Executed::Unknown,
    };
    SendError { executed, cause: failed.cause }
}

/// Asks a service whether an earlier attempt happened (L6): `GET` of the configured path with the key and the operation.
///
/// Any answer of status 2xx is the outcome. 404 with `Idempotency-Outcome: never` means that it was not done and will not be.
/// Everything else means that nobody can say.
pub(crate) fn reconcile_request(
    path: &str,
    upstream: &Upstream,
    headers: &HeaderMap,
    key: Option<&HeaderValue>,
    attempt: Attempt,
) -> Request<Outgoing> {
    let mut request = Request::new(Outgoing::Empty);
    let path = PathAndQuery::try_from(path).map_or_else(|_| Uri::from_static("/"), Uri::from);
    *request.uri_mut() = target(&path, upstream);
    *request.headers_mut() = headers.clone();
    request.headers_mut().remove(http::header::CONTENT_TYPE);
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(key) = key {
        request.headers_mut().insert(IDEMPOTENCY_KEY, key.clone());
    }
    if let Some(id) = attempt.operation_id.and_then(operation_header) {
        request.headers_mut().insert(OPERATION_ID, id);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_never_shrink_p6() {
        let pauses = |first: u64| -> Vec<u64> {
            let first = Duration::from_millis(first);
            let all = std::iter::successors(Some(first), |pause| Some(longer(*pause, first)));
            all.take(6).map(|pause| pause.as_millis() as u64).collect()
        };
        assert_eq!(pauses(1), [1, 2, 4, 8, 16, 32]);
        assert_eq!(pauses(1500), [1500, 3000, 5000, 5000, 5000, 5000]);
        assert_eq!(pauses(60_000), [60_000; 6], "as it was set");
    }
}
