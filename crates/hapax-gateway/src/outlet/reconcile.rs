//! Asking a service whether an earlier attempt happened (L6): `GET` of the configured path with the key, the operation and the epoch.
//!
//! Any answer of status 2xx is the outcome. 404 with `Idempotency-Outcome: never` means that it was not done and will not be.
//! Everything else means that the service cannot say.

use std::sync::Arc;

use hapax_exec::Attempt;
use hapax_tower::answer::EPOCH;
use hapax_tower::judge::{Said, said};
use hapax_tower::problem::OPERATION_ID;
use hapax_tower::protect::operation_header;
use hapax_tower::{EarlierAttempt, KeyedRequest, Question};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;

use super::forward::Forwarding;
use super::headers;
use crate::limits;
use crate::upstream::{Outgoing, Pool};

/// The question about this request. What it takes to ask it is made when it is asked.
pub(super) fn question(to: Forwarding, request: &Arc<KeyedRequest>) -> Question {
    let request = request.clone();
    Box::new(move |attempt| {
        let (request, pool) = (asking(&to, &request, attempt), to.pools.of(&to.forward.route.upstream));
        Box::pin(async move {
            let (Ok(request), Ok(pool)) = (request, pool) else { return EarlierAttempt::Unknown };
            // The callers of this key wait for it, whatever part of the answer does not come.
            let told = tokio::time::timeout(limits::RECONCILE, ask(pool, request)).await;
            told.unwrap_or(EarlierAttempt::Unknown)
        })
    })
}

fn asking(
    to: &Forwarding,
    request: &KeyedRequest,
    attempt: Attempt,
) -> Result<Request<Outgoing>, hapax_core::Error> {
    let route = &to.forward.route;
    let (upstream, path) = (&route.upstream, route.reconcile.as_deref().unwrap_or("/"));
    let path = PathAndQuery::try_from(path).map_or_else(|_| Uri::from_static("/"), Uri::from);
    let mut headers = to.forward.headers(request)?;
    headers.remove(CONTENT_TYPE);
    if let Some(id) = attempt.operation_id.and_then(operation_header) {
        headers.insert(OPERATION_ID, id);
    }
    // A service that says "never" must refuse what was sent before under a smaller one (ADR 51).
    if let Some(epoch) = attempt.epoch {
        headers.insert(EPOCH, HeaderValue::from(epoch.packed()));
    }
    let mut request = Request::new(Outgoing::Empty);
    *request.uri_mut() = headers::target(&path, upstream);
    *request.headers_mut() = headers;
    Ok(request)
}

/// What the service says about an earlier attempt.
async fn ask(pool: Pool, request: Request<Outgoing>) -> EarlierAttempt {
    let Ok(response) = pool.send(request).await else { return EarlierAttempt::Unknown };
    let (head, body) = response.into_parts();
    match head.status.as_u16() {
        404 if said(&head.headers) == Some(Said::Never) => EarlierAttempt::Never,
        200..300 => match http_body_util::Limited::new(body, limits::RECONCILED).collect().await {
            Ok(body) => EarlierAttempt::Happened(Response::from_parts(head, body.to_bytes())),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                EarlierAttempt::HappenedAtLength(Response::from_parts(head, ()))
            }
            Err(_) => EarlierAttempt::Unknown,
        },
        _ => EarlierAttempt::Unknown,
    }
}
