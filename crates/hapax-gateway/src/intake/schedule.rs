//! The intake of a schedule's ticks (S2): requests that are signed, as `service:scheduler` of a tenant's project.
//!
//! In this order: the signature, over the head → a route that takes keys → whose it is → the key → is there room → the body → its
//! digest → the identity. From there on a tick is a request like any other.

use std::sync::Arc;

use hapax_core::{Ledger, Policy, Registry, Width, key};
use hapax_http::listener;
use hapax_tower::answer::IDEMPOTENCY_KEY;
use hapax_tower::{Code, Message, Problem, WireKey};
use http::request;

use super::{Arrival, Hop, WholeRequest};
use crate::clock::unix_seconds;
use crate::read;
use crate::record::Seen;
use crate::settings::Route;
use crate::stack::{Plan, Shared};

/// Takes a signed request in.
pub(crate) async fn take<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    route: Arc<Route>,
    head: request::Parts,
    body: listener::Incoming,
    hop: Hop,
    seen: &mut Seen,
) -> Result<Arrival, Problem> {
    // Who asks: the signature is the credential.
    let signed = plan.auth.signed(&head, unix_seconds()).map_err(|why| shared.refuse_tick(why))?;
    let scope = signed.principal.scope(route.level);
    seen.scope = scope.clone().or_else(|| Some(signed.principal.own_scope()));

    // Ticks go to routes that take a key of their caller, and nowhere else: without a claim nothing would be done once.
    let rule = match (route.policy, &route.rule) {
        (Policy::RequiredA | Policy::Accepted, Some(rule)) => rule.clone(),
        _ => return Err(Problem::new(Code::KeyProhibited)),
    };
    let scope = scope.ok_or_else(|| Problem::new(Code::Forbidden))?;

    // The key, in either form (K9). It stands in `Idempotency-Key`; another header would not be signed.
    let malformed = |error: hapax_core::HeaderKeyError| {
        Problem::new(Code::KeyMalformed).of_key(error).detail(error.to_string())
    };
    let found = key::of_tick(&signed.key).map_err(malformed).and_then(|key| {
        match rule.keys.headers().any(|name| *name != IDEMPOTENCY_KEY && head.headers.contains_key(name)) {
            true => Err(Problem::new(Code::KeyDuplicated)),
            false => Ok(WireKey::in_header(IDEMPOTENCY_KEY, key)),
        }
    });
    let wire_key = found.inspect_err(|problem| shared.count_key_problem(seen, problem))?;
    seen.key = Some(wire_key.key.clone());
    shared.count_protected(seen);

    // Is there room?
    let edge = &plan.settings.edge;
    let mut room = shared.admission.enter(edge, shared.protect.calls())?;

    // The whole body, which is the one that was signed.
    let body = read::whole(body, rule.max_request_body, edge, &mut room).await?;
    if !signed.covers(&body) {
        return Err(shared.refuse_tick("the body has another digest than was signed"));
    }
    let message = Message::new(head.method, head.uri, head.headers, body);
    if rule.keys.reads_body() {
        let agreed = rule.keys.in_body(route.policy, Some(wire_key.clone()), &message, rule.max_request_body);
        agreed.inspect_err(|problem| shared.count_key_problem(seen, problem))?;
    }

    let whole = WholeRequest {
        route,
        rule,
        scope,
        width: Width::Subject,
        wire_key: Some(wire_key),
        message,
        room,
        hop,
    };
    whole.keyed(shared, plan).await
}
