//! A request without a key on its way to a Restate cluster: each is a call of its own, and nothing protects it.

use bytes::Bytes;
use hapax_exec::How;
use hapax_http::upstream::Reached;
use hapax_tower::{Answered as Told, Event, Problem};
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap};

use super::answer::from_handler;
use super::ask::Unanswered;
use super::{Delegation, address, cluster_of};
use crate::clock;
use crate::limits;
use crate::outlet::Pools;
use crate::restate::nodes::{JSON, Question, exchange};
use crate::settings::{Handler, Route};
use crate::stack::Answer;

/// Calls the handler of a route once, at one node.
pub(crate) async fn pass(
    delegation: &Delegation,
    route: &Route,
    handler: &Handler,
    path: &str,
    headers: &HeaderMap,
    body: Bytes,
    pools: &Pools,
) -> Result<Answer, Problem> {
    let cluster = cluster_of(route)?;
    let pool = pools.cluster(&route.upstream, cluster)?;
    let address = address(handler, path, &body)?;
    let mut headers = super::call::forwarded(cluster, headers);
    if !handler.takes_nothing {
        headers.insert(CONTENT_TYPE, JSON);
    }
    let question = Question { method: Method::POST, path: address.path("call"), headers, body };
    let (timeout, most) = (route.timeout(), limits::PASSED_ANSWER);
    let until = clock::now() + timeout;
    let mut failed = Unanswered::Suspended(cluster.suspend_for);
    for node in pool.ingress.in_turn() {
        let standing = delegation.circuits.standing(&node.0, cluster, clock::now());
        if matches!(standing, super::circuit::Standing::Suspended(_)) {
            continue;
        }
        match tokio::time::timeout_at(until, exchange(node, &question, most)).await {
            Ok(Ok(reply)) => {
                delegation.circuits.answered(&node.0);
                let found = from_handler(reply, handler.envelope)?;
                let event = Event::Outcome(How::PassedThrough);
                return Ok(Told { response: found.response, event, operation_id: None, cause: None });
            }
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
    let is_untouched = matches!(failed, Unanswered::Suspended(_) | Unanswered::Silent(_, Reached::No));
    let problem = failed.problem(timeout);
    Err(match is_untouched {
        true => problem.with("executed", "no"),
        false => problem
            .not_retryable()
            .detail("what was asked may have been done, and no key protects this request: find out before it is sent again"),
    })
}
