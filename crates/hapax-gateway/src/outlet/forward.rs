//! A keyed request on its way to a service, once the ledger has granted it (K4, L6, P6).
//!
//! Most retries never leave: the pool, the headers and the request that goes out are made when it is known that one does.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Executed, Identity, Key, Rerun};
use hapax_exec::Attempt;
use hapax_tower::answer::{EPOCH, IDEMPOTENCY_KEY};
use hapax_tower::problem::OPERATION_ID;
use hapax_tower::protect::operation_header;
use hapax_tower::{Body, KeyedRequest, Question, SendError, TriedBefore, Work};
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use http::{Method, Request, Response, Uri};

use super::tries::Tries;
use super::{Pools, headers, reconcile};
use crate::intake::Hop;
use crate::settings::{OnExhausted, Route, Upstream};
use crate::trace::Step;
use crate::upstream::{Failed, Incoming, Outgoing, Pool, Reached};

/// The service that a keyed request goes to.
#[derive(Clone)]
pub(crate) struct Forward {
    /// Which service, and where to ask it whether an earlier attempt happened (L6).
    pub(crate) route: Arc<Route>,
    /// How the request came, which the service is told.
    pub(crate) hop: Hop,
}

impl Forward {
    /// The headers that the service gets. Every header that the route reads a key from carries the key as the service is to see it,
    /// wherever that stood (K1).
    pub(super) fn headers(&self, request: &KeyedRequest) -> Result<HeaderMap, hapax_core::Error> {
        let (identity, keys) = (&request.identity, &request.rule.keys);
        let mut headers = headers::outgoing(&request.message.headers, &self.hop, identity.scope());
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        keys.remove_from(&mut headers);
        if let Some(key) = upstream_key(&self.route.upstream, identity, request.shown_key())? {
            keys.headers().for_each(|name| drop(headers.insert(name, key.clone())));
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        Ok(headers)
    }

    /// The work, over the connections of this thread.
    pub(crate) fn over(self, pools: &Arc<Pools>) -> Forwarding {
        Forwarding { forward: self, pools: pools.clone() }
    }
}

/// A request that can be forwarded, and has not been yet.
#[derive(Clone)]
pub(crate) struct Forwarding {
    pub(super) forward: Forward,
    pub(super) pools: Arc<Pools>,
}

impl Forwarding {
    /// The request that goes on, and the connections it goes over. Every key that a request can carry has a form that a header can.
    fn outbound(self, request: &KeyedRequest) -> Result<(Pool, Outbound), hapax_core::Error> {
        let KeyedRequest { rule, message, .. } = request;
        let upstream = &self.forward.route.upstream;
        let outbound = Outbound {
            uri: headers::target(&message.uri, upstream),
            headers: self.forward.headers(request)?,
            method: message.method.clone(),
            body: message.body.clone(),
            may_overlap: rule.rerun == Rerun::Safe && rule.quiet.is_zero(),
        };
        Ok((self.pools.of(upstream)?, outbound))
    }
}

impl Work for Forwarding {
    type Body = Incoming;

    fn pauses(&self) -> bool {
        self.forward.route.upstream.retry.on_exhausted == OnExhausted::Pause
    }

    fn question(&self, request: &Arc<KeyedRequest>) -> Option<Question> {
        self.forward.route.reconcile.as_ref()?;
        Some(reconcile::question(self.clone(), request))
    }

    async fn send(
        self,
        request: Arc<KeyedRequest>,
        attempt: Attempt,
    ) -> Result<Response<Incoming>, SendError> {
        let trace = self.forward.hop.trace.clone();
        let outbound = self.outbound(&request);
        drop(request);
        let unfit =
            |error: hapax_core::Error| SendError { executed: Executed::No, cause: format!("{error:#}") };
        let (pool, outbound) = outbound.map_err(unfit)?;
        let step = |step| trace.iter().for_each(|trace| trace.step(step));
        step(Step::Upstream);
        let sent = outbound.send(pool, attempt).await;
        step(Step::Settle);
        sent
    }
}

/// The key as this service is to see it (K4).
fn upstream_key(
    upstream: &Upstream,
    identity: &Identity,
    key: &Key,
) -> Result<Option<HeaderValue>, hapax_core::Error> {
    let Some(text) = upstream.key_of(identity, key)? else { return Ok(None) };
    HeaderValue::try_from(text)
        .map(Some)
        .map_err(|_| hapax_core::Error::invalid("the key cannot be written into a header"))
}

/// A keyed request, ready to be sent as often as it must.
struct Outbound {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    /// Whether it may be sent again while an earlier attempt may still be at work: a safe rerun allows that, `quiet` forbids
    /// it (L6).
    may_overlap: bool,
}

impl Outbound {
    /// The request of one attempt; the last one takes the headers along.
    fn request(&mut self, attempt: Attempt, is_last: bool) -> Request<Outgoing> {
        let mut headers = if is_last { std::mem::take(&mut self.headers) } else { self.headers.clone() };
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
    /// may be done twice at a time, whatever failed. That a later try did not arrive, or is answered that nothing was done, does not
    /// speak for an earlier one that may have arrived (E6).
    async fn send(mut self, pool: Pool, attempt: Attempt) -> Result<Response<Incoming>, SendError> {
        let retry = &pool.settings().retry;
        let (mut tries, mut reached) = (Tries::new(retry), Reached::No);
        loop {
            let request = self.request(attempt, tries.is_last());
            let failed = match pool.send(request).await {
                Ok(mut response) => {
                    if reached == Reached::Perhaps {
                        response.extensions_mut().insert(TriedBefore);
                    }
                    return Ok(response);
                }
                Err(failed) => failed,
            };
            let may_try_again = failed.reached == Reached::No || self.may_overlap;
            if failed.reached == Reached::Perhaps {
                reached = Reached::Perhaps;
            }
            if !may_try_again || tries.is_last() {
                return Err(send_error(Failed { reached, ..failed }));
            }
            tries.pause().await;
        }
    }
}

fn send_error(failed: Failed) -> SendError {
    let executed = match failed.reached {
        Reached::No => Executed::No,
        Reached::Perhaps => Executed::Unknown,
    };
    SendError { executed, cause: failed.cause }
}

/// What is not kept is passed on as it comes, and is waited for no longer at a time than for an answer (H5).
pub(crate) fn bound_silence(body: &mut Body<Incoming>, silence: std::time::Duration) {
    if let Body::Stream { rest, .. } = body {
        rest.end_after_silence(silence);
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{Operation, Project, Scope, Source, Subject, Tenant, Width};

    use super::*;
    use crate::settings::UpstreamKey;

    /// A delivery is claimed under a digest of what was signed, and shows the key that it came with.
    #[test]
    fn the_service_sees_the_key_that_came_whatever_the_claim_is_kept_under_k4() {
        let scope = Scope::new(
            Tenant::new("acme").unwrap(),
            Project::new("web").unwrap(),
            Subject::from_credential_text("user:alice").unwrap(),
        );
        let (operation, digest) = (Operation::new("webhook").unwrap(), Key::new("5f0c").unwrap());
        let identity = Identity::new(Source::Transport, scope, Width::Project, operation, digest);
        let came = Key::new("github-1").unwrap();
        let shown = |key| {
            let upstream = Upstream { key, ..Upstream::new("a", "localhost", 1) };
            upstream_key(&upstream, &identity, &came).unwrap().map(|key| key.to_str().unwrap().to_owned())
        };
        assert_eq!(shown(UpstreamKey::Namespaced).as_deref(), Some("t-acme:web:_any:github-1"));
        assert_eq!(shown(UpstreamKey::Raw).as_deref(), Some("github-1"));
        assert_eq!(shown(UpstreamKey::Digest(32)).as_deref(), identity.claim_id().to_string().get(..32));
        assert_eq!(shown(UpstreamKey::None), None);
    }
}
