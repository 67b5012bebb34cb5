//! How large the future of a protected request is, which a connection keeps for each of them: with the progress shared between the call
//! and its caller it had 2,576 bytes.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Key, LeafKey, Scope, Width};
use hapax_exec::{Attempt, Executor};
use hapax_store::{Options, memory::Memory};
use hapax_tower::answer::IDEMPOTENCY_KEY;
use hapax_tower::{Claimant, KeyedRequest, Message, Protect, Rule, SendError, Wait, WireKey, Work};
use http::{HeaderMap, Method, Response, Uri};
use http_body_util::Full;

/// Work that takes no room of its own.
struct Nothing;

impl Work for Nothing {
    type Body = Full<Bytes>;

    async fn send(self, _: Arc<KeyedRequest>, _: Attempt) -> Result<Response<Full<Bytes>>, SendError> {
        Ok(Response::new(Full::default()))
    }
}

fn request() -> Arc<KeyedRequest> {
    let rule = Rule::new("charges.create").unwrap();
    let (method, uri) = (Method::POST, Uri::from_static("/charges"));
    let message = Message::new(method, uri, HeaderMap::new(), Bytes::new());
    let wire_key = Some(WireKey::in_header(IDEMPOTENCY_KEY, Key::new("k").unwrap()));
    let fingerprint = message.fingerprint(&rule.recipe, rule.max_request_body);
    let claimant =
        Claimant::new(Scope::local(), Width::Subject, rule.source(), wire_key.as_ref(), &fingerprint);
    let identity = claimant.under(&rule);
    Arc::new(KeyedRequest {
        identity,
        wire_key,
        fingerprint,
        rule: Arc::new(rule),
        message,
        wait: Wait::default(),
    })
}

#[tokio::test]
async fn the_future_of_a_protected_request_stays_small() {
    let protect = Protect::new(Executor::new(Memory::open(Options::default())), LeafKey::new([7; 32]));
    let running = protect.run(request(), Nothing, (), ());
    assert!(size_of_val(&running) <= 2_152, "run: {}", size_of_val(&running));
    assert_eq!(running.await.response.status(), 200);
}
