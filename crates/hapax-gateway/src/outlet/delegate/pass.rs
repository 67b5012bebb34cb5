//! A request without a key on its way to a Restate cluster: each is a call of its own, and nothing protects it.

use bytes::Bytes;
use hapax_core::Scope;
use hapax_exec::How;
use hapax_http::upstream::Reached;
use hapax_tower::{Answered as Told, Event, Problem};
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap};

use super::answer::{FromHandler, Outcome, from_handler, not_the_handlers};
use super::ask::Unanswered;
use super::{Delegation, address, cluster_of};
use crate::clock;
use crate::limits;
use crate::outlet::Pools;
use crate::restate::circuit::Standing;
use crate::restate::nodes::{JSON, Question, Reply, exchange};
use crate::restate::{Answered, knows_no_handler};
use crate::settings::{Handler, Route};
use crate::stack::Answer;

/// Calls the handler of a route once, at one node.
pub(crate) async fn pass(
    delegation: &Delegation,
    route: &Route,
    handler: &Handler,
    (path, headers, scope): (&str, &HeaderMap, &Scope),
    body: Bytes,
    pools: &Pools,
) -> Result<Answer, Problem> {
    let cluster = cluster_of(route)?;
    let pool = pools.cluster(&route.upstream, cluster)?;
    let address = address(handler, path, &body)?;
    let mut headers = super::call::forwarded(cluster, headers, scope);
    if !handler.takes_nothing {
        headers.insert(CONTENT_TYPE, JSON);
    }
    let question = Question { method: Method::POST, path: address.path("call"), headers, body };
    let (timeout, most) = (route.timeout(), limits::PASSED_ANSWER);
    let until = clock::now() + timeout;
    let mut failed = Unanswered::Suspended(cluster.suspend_for);
    for node in pool.ingress.in_turn() {
        let standing = delegation.circuits.standing(&node.0, cluster, clock::now());
        if matches!(standing, Standing::Suspended(_)) {
            continue;
        }
        match tokio::time::timeout_at(until, exchange(node, &question, most)).await {
            Ok(Ok(reply)) => match (Answered::of(&reply), reply.status.as_u16()) {
                // It has taken nothing: the next one may.
                (Answered::Busy, 429) => failed = Unanswered::Busy(format!("{} answered 429", node.0)),
                (Answered::Success | Answered::Failure, _) => {
                    delegation.circuits.answered(&node.0);
                    return passed(reply, handler.envelope);
                }
                (answered, status) => {
                    match status {
                        503 => delegation.circuits.failed(&node.0, cluster, clock::now()),
                        _ => delegation.circuits.answered(&node.0),
                    }
                    let problem = not_the_handlers(&reply, answered);
                    return Err(match (status, knows_no_handler(&reply)) {
                        (413, _) => problem,
                        (_, true) => problem.with("executed", "no"),
                        _ => unprotected(problem),
                    });
                }
            },
            Ok(Err(cause)) => {
                delegation.circuits.failed(&node.0, cluster, clock::now());
                let reached = cause.reached;
                failed = Unanswered::Silent(format!("{}: {cause}", node.0), reached);
                // Only where not a byte was sent is it certain that nothing was done.
                if reached == Reached::Perhaps {
                    break;
                }
            }
            Err(_) => {
                failed = Unanswered::TooLate;
                break;
            }
        }
    }
    let is_untouched = match failed {
        Unanswered::Suspended(_) | Unanswered::Busy(_) | Unanswered::Silent(_, Reached::No) => true,
        Unanswered::TooLate | Unanswered::Silent(_, Reached::Perhaps) => false,
    };
    let problem = failed.problem(timeout);
    Err(if is_untouched { problem.with("executed", "no") } else { unprotected(problem) })
}

/// What a handler has answered.
fn passed(reply: Reply, envelope: bool) -> Result<Answer, Problem> {
    match from_handler(reply, envelope)? {
        FromHandler { outcome: Outcome::Ended(problem), .. } => Err(problem),
        FromHandler { outcome: Outcome::Answer(response), .. } => {
            let event = Event::Outcome(How::PassedThrough);
            Ok(Told { response, event, operation_id: None, cause: None })
        }
    }
}

/// Whether anything was done is not known, and sent again it might be done twice.
fn unprotected(problem: Problem) -> Problem {
    problem.not_retryable().detail(
        "what was asked may have been done, and no key protects this request: find out before it is sent again",
    )
}
