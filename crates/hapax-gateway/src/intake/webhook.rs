//! The intake of deliveries (W): senders that do not speak `Idempotency-Key`.
//!
//! In this order: the webhook of the path → is there room → the raw body → the signature → the sender's identifier → the identity.
//! Nothing is claimed for a delivery whose signature does not hold, and nothing is read for a webhook that is not there.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use hapax_core::{Fingerprint, Identity, Key, Ledger, Registry, Source, Width};
use hapax_http::listener;
use hapax_tower::answer::IDEMPOTENCY_KEY;
use hapax_tower::identifier;
use hapax_tower::{Answered, Body, Code, Event, KeyedRequest, Message, Problem, Wait, WireKey};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use http::{Response, request};

use super::{Arrival, Hop, Keyed};
use crate::clock::unix_seconds;
use crate::outlet::Outlet;
use crate::outlet::delegate::Delegate;
use crate::outlet::forward::Forward;
use crate::read;
use crate::record::{Place, Seen};
use crate::route::WebhookPath;
use crate::settings;
use crate::stack::{Answer, Plan, Shared};
use crate::webhooks::provider::{Delivery, Refused};
use crate::webhooks::record::Dedupe;
use crate::webhooks::{Known, Unready, Webhook};

/// Takes a delivery in.
pub(crate) async fn take<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    path: WebhookPath,
    head: request::Parts,
    body: listener::Incoming,
    hop: Hop,
    seen: &mut Seen,
) -> Result<Arrival, Problem> {
    // The webhook is the credential: without one nothing is read.
    let webhooks = plan.webhooks.as_ref().ok_or_else(|| Problem::new(Code::NotFound))?;
    let webhook = match webhooks.find(&path.provider, &path.id).await {
        Ok(webhook) => webhook,
        Err(Unready { problem, webhook: None }) => return Err(problem),
        // It is there, and what its deliveries are signed with cannot be had: operators see that it is dead.
        Err(Unready { problem, webhook: Some(known) }) => {
            let Known { id, name, scope } = *known;
            (seen.scope, seen.provider) = (Some(scope), Some(name.clone()));
            shared.count_refused(&name, &id, &problem);
            return Err(problem);
        }
    };
    let taken = take_in(shared, plan, webhooks.settings(), &webhook, head, body, hop, seen).await;
    taken.inspect_err(|problem| shared.count_refused(&webhook.name, &webhook.id, problem))
}

/// Takes in what came to this webhook.
#[expect(clippy::too_many_arguments, reason = "what the whole request path hands on")]
async fn take_in<L: Ledger, R: Registry>(
    shared: &Shared<L, R>,
    plan: &Plan<R>,
    settings: &settings::Webhooks,
    webhook: &Webhook,
    head: request::Parts,
    body: listener::Incoming,
    hop: Hop,
    seen: &mut Seen,
) -> Result<Arrival, Problem> {
    seen.place = Place::Route(settings.route.clone());
    seen.scope = Some(webhook.scope.clone());
    seen.provider = Some(webhook.name.clone());

    // Is there room?
    let edge = &plan.settings.edge;
    let mut room = shared.admission.enter(edge, shared.protect.calls())?;

    // The body as it came: signatures are over bytes.
    let body = read::whole(body, webhook.rule.max_request_body, edge, &mut room).await?;
    let target = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let delivery =
        Delivery { headers: &head.headers, body: &body, origin: settings.public_url.as_deref(), target };

    // The signature, and then what the sender calls this delivery.
    let verified = webhook.provider.verify(&delivery, &webhook.secrets, unix_seconds());
    verified.map_err(|refused| shared.refuse_delivery(seen, refused))?;
    if let Some(challenge) = webhook.provider.challenge(&delivery) {
        return Ok(Arrival::Answered(answer(challenge)));
    }
    let content = digest(&SHA256, &webhook.provider.content(&delivery));
    let is_named = webhook.provider.signs_identifier(&delivery);
    let keys = keys(webhook, &delivery, content.as_ref());
    let (wire_key, key) = keys.map_err(|refused| shared.refuse_delivery(seen, refused))?;
    seen.key = Some(wire_key.key.clone());
    shared.count_protected(seen);
    if !is_named {
        shared.count_repeated_content(seen, webhook, content.as_ref(), &wire_key.key);
    }

    // What it is claimed under.
    let identity = Identity::new(
        Source::Transport,
        webhook.scope.clone(),
        Width::Subject,
        webhook.rule.operation.clone(),
        key,
    );
    let handler = settings.route.handler.as_ref();
    if handler.is_none() {
        room.count_new(&identity, &plan.settings.tenants, shared.protect.executor().ledger()).await?;
    }

    let uri = settings.target(&webhook.name, &webhook.id, head.uri.query())?;
    let message = Message::new(head.method, uri, head.headers, body);
    let wait = Wait { at_most: Some(webhook.rule.timeout), fetches_at: None };
    let rule = webhook.rule.clone();
    let request = KeyedRequest {
        identity,
        wire_key: Some(wire_key),
        fingerprint: Fingerprint::none(),
        rule,
        message,
        wait,
    };
    let outlet = match handler {
        Some(handler) => {
            let (route, Message { uri, body, .. }) = (&settings.route, &request.message);
            let (provider, id) = (&webhook.name, &webhook.id);
            let delegate = Delegate::of_delivery(route, handler, provider, id, &request.identity, uri, body)?;
            Outlet::Delegate(delegate)
        }
        None => Outlet::Forward(Forward { route: settings.route.clone(), hop }),
    };
    Ok(Arrival::Keyed(Keyed { request: Arc::new(request), outlet, room }))
}

/// The key that service and log see, and the key of the claim.
fn keys(webhook: &Webhook, delivery: &Delivery<'_>, content: &[u8]) -> Result<(WireKey, Key), Refused> {
    let wire_key = wire_key(webhook, delivery)?;
    let key = claim_key(webhook, delivery, &wire_key.key, content)?;
    Ok((wire_key, key))
}

/// The key that service and log see (W4): `{provider}-{identifier}`.
fn wire_key(webhook: &Webhook, delivery: &Delivery<'_>) -> Result<WireKey, Refused> {
    let text = webhook.provider.identifier(delivery)?;
    identifier::check(&text)?;
    let key = Key::new(format!("{}-{text}", webhook.name));
    let key = key.map_err(|_| Refused::Identifier("the identifier cannot be a key"))?;
    Ok(WireKey::in_header(IDEMPOTENCY_KEY, key))
}

/// The key of the claim (W5): the identifier with the kind of event, or the digest of what is signed. A colon stands in no identifier,
/// so that no two of these meet.
fn claim_key(
    webhook: &Webhook,
    delivery: &Delivery<'_>,
    wire_key: &Key,
    content: &[u8],
) -> Result<Key, Refused> {
    let text = match (webhook.dedupe, webhook.provider.kind_header()) {
        (Dedupe::Content, _) => {
            format!("content:{}", content.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        (Dedupe::Identifier, Some(name)) => match delivery.kind(name)? {
            Some(kind) => format!("{}:{kind}", wire_key.as_str()),
            None => wire_key.as_str().to_owned(),
        },
        (Dedupe::Identifier, None) => wire_key.as_str().to_owned(),
    };
    Key::new(text).map_err(|_| Refused::Identifier("the header of the event's kind cannot be read"))
}

/// The answer to a sender that asks whether the endpoint is its owner's.
fn answer(challenge: String) -> Answer {
    let mut response = Response::new(Body::whole(Bytes::from(challenge)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Answered {
        response,
        event: Event::Outcome(hapax_exec::How::PassedThrough),
        operation_id: None,
        cause: None,
    }
}
