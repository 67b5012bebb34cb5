//! The intake of requests that callers send to a route.
//!
//! In this order: who asks → where the key stands → whose it is (a trusted peer's key names the scope) → is there room → the
//! body → the key, where it stands in the body or is what is asked → the identity. Until the body is read, nothing is held for a
//! caller. On a route of the policy `REQUIRED_B` the key is the sender's identifier, and everything else is the same.

use std::mem;
use std::sync::Arc;

use hapax_core::key::is_tick;
use hapax_core::{Ledger, Registry, Width};
use hapax_http::listener;
use hapax_tower::key::{self, Found, Keys};
use hapax_tower::{Code, Message, Problem};
use http::request;

use super::{Arrival, Hop, PlainBody, PlainRequest, WholeRequest};
use crate::auth::caller::Caller;
use crate::limits;
use crate::read;
use crate::record::Seen;
use crate::settings::Route;
use crate::stack::{Plan, Shared};

/// Takes a request in.
pub(crate) async fn take<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    route: Arc<Route>,
    mut head: request::Parts,
    body: listener::Incoming,
    hop: Hop,
    seen: &mut Seen,
) -> Result<Arrival, Problem> {
    seen.key_ignored = key::ignores(route.policy, route.lenient) && key::is_sent(&head.headers);

    // Who asks, on replays too (A6).
    let caller = Caller::of_route(&plan.auth, &route, &head, hop.peer, hop.trusted).await?;
    let own = caller.scope(route.level);
    seen.scope = own.as_ref().ok().cloned().or_else(|| caller.own_scope());

    // Where the key stands: in a header, which is here already, or in the body.
    let keys = route.rule.as_ref().map_or(Keys::plain(), |rule| &rule.keys);
    let found = key::find(&head.headers, route.policy, route.lenient, keys, hop.trusted)
        .inspect_err(|problem| shared.count_key_problem(seen, problem))?;

    // Whose it is: a trusted peer's key names the scope (K3).
    let (scope, width, mut wire_key) = match found {
        // Behind another edge a tick is refused, as every subject is that hapax reserves: no peer signs for a schedule (K9).
        Found::Namespaced(_, _, key) if is_tick(key.key.as_str().as_bytes()) => {
            let problem = Problem::new(Code::KeyReserved);
            shared.count_key_problem(seen, &problem);
            return Err(problem);
        }
        Found::Namespaced(scope, width, key) => {
            let scope = caller.speaks_for(scope, width, &route)?;
            seen.scope = Some(scope.clone());
            (scope, width, Some(key))
        }
        Found::Key(key) => (own?, Width::Subject, Some(key)),
        Found::None | Found::Ignored => (own?, Width::Subject, None),
    };
    seen.key = wire_key.as_ref().map(|wire| wire.key.clone());

    // Is there room? A request without a key takes none.
    let reads_body = keys.reads_body();
    let protected =
        route.rule.as_ref().filter(|rule| wire_key.is_some() || rule.derived.is_some() || reads_body);
    let Some(rule) = protected.cloned() else {
        shared.count_unkeyed(seen);
        if shared.admission.is_draining() {
            return Err(Problem::new(Code::Draining));
        }
        let body = match &route.handler {
            None => PlainBody::Unread(body),
            // A handler gets the whole of a body or nothing of it.
            Some(_) => {
                let edge = &plan.settings.edge;
                let mut room = shared.admission.enter(edge, shared.protect.calls())?;
                let most = route.rule.as_ref().map_or(limits::PASSED_REQUEST, |rule| rule.max_request_body);
                PlainBody::Read(read::whole(body, most, edge, &mut room).await?, room)
            }
        };
        return Ok(Arrival::Plain(PlainRequest { head, body, scope, route, hop }));
    };
    if !reads_body {
        shared.count_protected(seen);
    }
    let edge = &plan.settings.edge;
    let mut room = shared.admission.enter(edge, shared.protect.calls())?;

    // The whole body.
    let body = read::whole(body, rule.max_request_body, edge, &mut room).await?;

    let (method, uri) = (mem::take(&mut head.method), mem::take(&mut head.uri));
    let message = Message::new(method, uri, mem::take(&mut head.headers), body);

    // The key that stands in it.
    if reads_body {
        let found = rule.keys.in_body(route.policy, wire_key, &message, rule.max_request_body);
        wire_key = found.inspect_err(|problem| shared.count_key_problem(seen, problem))?;
        seen.key = wire_key.as_ref().map(|wire| wire.key.clone());
        if wire_key.is_none() && rule.derived.is_none() {
            shared.count_unkeyed(seen);
            (head.method, head.uri, head.headers) = (message.method, message.uri, message.headers);
            let body = PlainBody::Read(message.body, room);
            return Ok(Arrival::Plain(PlainRequest { head, body, scope, route, hop }));
        }
        shared.count_protected(seen);
    }

    WholeRequest { route, rule, scope, width, wire_key, message, room, hop }.keyed(shared, plan).await
}
