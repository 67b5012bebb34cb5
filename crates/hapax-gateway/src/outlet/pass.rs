//! A request without a key: nothing is claimed and nothing is kept, both bodies pass as they come (H11).
//!
//! On a route of the policy `HANDLER_INTERNAL_C` the handler may say that it found its own token used (P1): that is counted, and goes
//! no further. On every other route it goes no further either, and counts for nothing.
//!
//! Nothing protects such a request. Where it may have arrived, nobody is told to send it again, unless its method says that
//! twice is the same as once.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::Policy;
use hapax_exec::How;
use hapax_http::tunnel;
use hapax_http::upload::{Pace, Upload};
use hapax_tower::{Answered, Body, Code, Event, Problem, answer};
use http::{Method, Request, StatusCode};

use super::delegate::{self, Delegation};
use super::{Pools, headers, tries};
use crate::intake::{PlainBody, PlainRequest};
use crate::record::Seen;
use crate::settings::Edge;
use crate::stack::Answer;
use crate::upstream::{Connected, Failed, FailedKind, Outgoing, Reached};

/// How a request gets to its service.
enum Way {
    Connected(Connected),
    /// On a connection of its own.
    Upgrade(tunnel::Asked),
}

/// Passes a request on, and its answer back.
pub(crate) async fn pass(
    edge: &Edge,
    plain: PlainRequest,
    pools: &Pools,
    delegation: &Delegation,
    seen: &mut Seen,
) -> Result<Answer, Problem> {
    let PlainRequest { mut head, body, scope, route, hop } = plain;
    if let Some(handler) = &route.handler {
        // Its intake has read the body: a handler gets all of it or nothing.
        let PlainBody::Read(body, _room) = body else {
            return Err(Problem::new(Code::Internal).owing_to("the body for a handler was not read"));
        };
        let asked = (head.uri.path(), &head.headers, &scope);
        let passing = delegate::pass::pass(delegation, &route, handler, asked, body, pools);
        return Box::pin(passing).await;
    }
    let pool = pools.of(&route.upstream).map_err(|error| {
        Problem::new(Code::UpstreamUnreachable).with("executed", "no").because(format!("{error:#}"))
    })?;
    let upgrade = tunnel::Asked::of(&mut head);
    let mut headers = headers::outgoing(&head.headers, &hop, &scope);
    if let Some(rule) = &route.rule {
        rule.keys.remove_from(&mut headers);
    }
    // Most bodies have come with their heads. What still comes is passed on as it does, and says how it goes on.
    let (outgoing, pace, _room) = match body {
        PlainBody::Read(whole, room) => (Outgoing::from(whole), None, Some(room)),
        PlainBody::Unread(mut body) => match body.at_hand() {
            Some(whole) => (Outgoing::from(whole), None, None),
            None => {
                let pace = Pace::new();
                (Outgoing::stream(Upload::new(body, edge.pacing(), pace.clone())), Some(pace), None)
            }
        },
    };
    if let Some(upgrade) = &upgrade {
        upgrade.announce(&mut headers);
    }
    let mut request = Request::new(outgoing);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = headers::target(&head.uri, &route.upstream);
    *request.headers_mut() = headers;
    let timeout = route.timeout();
    let mut late = pin!(Pace::still_for(pace.as_deref(), timeout));
    // Nothing is sent before there is a connection, so another one can be tried for whatever the request is (P6).
    let way = match upgrade {
        Some(upgrade) => Way::Upgrade(upgrade),
        None => tokio::select! {
            biased;
            connected = tries::connected(&pool) => match connected {
                Ok(connected) => Way::Connected(connected),
                Err(failed) => return Err(unanswered(&failed, false, &head.method)),
            },
            () = &mut late => return Err(too_late(timeout, Reached::No, &head.method)),
        },
    };
    let sent = async {
        match way {
            Way::Connected(connected) => {
                pool.send_on(connected, request).await.map(|response| response.map(Body::stream))
            }
            // Rare, and far larger than any other call.
            Way::Upgrade(upgrade) => {
                let sent = Box::pin(upgrade.carry_out(&pool, request)).await;
                sent.map(|response| {
                    response.map(|body| body.map_or_else(|| Body::whole(Bytes::new()), Body::stream))
                })
            }
        }
    };
    let sent = tokio::select! {
        biased;
        sent = sent => sent,
        () = &mut late => return Err(too_late(timeout, Reached::Perhaps, &head.method)),
    };
    let mut response = sent.map_err(|failed| {
        let too_slow = pace.as_ref().is_some_and(|pace| pace.was_too_slow());
        unanswered(&failed, too_slow, &head.method)
    })?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        answer::remove_hop_by_hop(response.headers_mut(), &[]);
    }
    seen.handler_hit =
        route.policy == Policy::HandlerInternalC && answer::says_handler_hit(response.headers());
    answer::remove_ours(response.headers_mut());
    Ok(Answered { response, event: Event::Outcome(How::PassedThrough), operation_id: None, cause: None })
}

/// The service has not answered in time. Once something was sent, nobody knows whether it will do what was asked.
fn too_late(timeout: Duration, reached: Reached, method: &Method) -> Problem {
    let (what, cause) = match reached {
        Reached::No => ("the service could not be reached in time", "connection"),
        Reached::Perhaps => ("the service has not answered yet", "answer"),
    };
    let problem = Problem::new(Code::UpstreamTimeout).because(format!("no {cause} within {timeout:?}"));
    unprotected(problem, what, reached, method)
}

/// The service has not answered, and will not.
fn unanswered(failed: &Failed, too_slow: bool, method: &Method) -> Problem {
    let what = match (failed.kind, failed.reached) {
        (FailedKind::RequestBody, reached) if too_slow => {
            let problem = Problem::new(Code::RequestTimeout);
            return unprotected(problem, "the body came too slowly", reached, method);
        }
        (FailedKind::RequestBody, _) => {
            return Problem::new(Code::RequestMalformed).detail("the body cannot be read");
        }
        (_, Reached::No) => "the service could not be reached",
        (FailedKind::Malformed, _) => "the service was reached, and its answer cannot be read",
        _ => "the service was reached, and broke off before it had answered",
    };
    let problem = Problem::new(Code::UpstreamUnreachable).because(&*failed.cause);
    unprotected(problem, what, failed.reached, method)
}

/// What can be said of another attempt where nothing was kept.
fn unprotected(problem: Problem, what: &str, reached: Reached, method: &Method) -> Problem {
    match reached {
        Reached::No => problem.with("executed", "no").detail(format!("{what}; nothing of the request was sent")),
        Reached::Perhaps if method.is_idempotent() => problem
            .with("executed", "unknown")
            .detail(format!("{what}; what was asked may have been done, and {method} can be sent again")),
        Reached::Perhaps => problem.with("executed", "unknown").not_retryable().detail(format!(
            "{what}; what was asked may have been done, and no key protects this request: find out before it is sent again"
        )),
    }
}
