//! Deliveries at the edge (W): verified, done once, the first answer again.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::claim::audit::Setting;
use hapax_core::{
    Fingerprint, Inspect as _, Policy, Project, Registry as _, Rerun, Retention, Source, Tenant, Timestamp,
    Width,
};
use hapax_gateway::settings::{Level, Route, Settings, Webhooks};
use hapax_gateway::webhooks::provider::Secret;
use hapax_gateway::webhooks::record::{Dedupe, Desk, Record, Secrets};
use hapax_store::memory::Memory;
use hapax_tower::Rule;
use http::Method;

use crate::world::{Got, World};

pub(crate) const SECRET: &str = "It's a Secret to Everybody";

/// Takes webhooks at `/hooks`, for `/internal/{provider}` of the service.
pub(crate) fn take(settings: &mut Settings) {
    let upstream = settings.routes[0].upstream.clone();
    let route = Route {
        method: Method::POST,
        path: "/hooks/{provider}/{webhook_id}".into(),
        policy: Policy::RequiredB,
        lenient: false,
        public: false,
        recall: false,
        level: Level::Project,
        upstream,
        rule: None,
        reconcile: None,
        handler: None,
    };
    let rule = Rule {
        rerun: Rerun::Safe,
        retention: Retention::For(Duration::from_secs(7 * 86_400)),
        ..Rule::new("webhook").unwrap()
    };
    settings.webhooks = Some(Arc::new(Webhooks {
        prefix: "/hooks".into(),
        path: "/internal/{provider}".into(),
        public_url: Some("https://hooks.example".into()),
        route: Arc::new(route),
        rule,
        wait: None,
        enabled: Vec::new(),
        providers: Default::default(),
        kv: None,
        verify: false,
    }));
}

/// A webhook of acme/web, changed by the test.
pub(crate) async fn webhook(store: &Memory, provider: &str, change: impl FnOnce(&mut Record)) -> String {
    let desk = Desk::new(store.clone(), None);
    let mut record = Record {
        id: Desk::<Memory>::fresh_id().unwrap(),
        tenant: Tenant::new("acme").unwrap(),
        project: Project::new("web").unwrap(),
        provider: provider.into(),
        secrets: Secrets::Kept(vec![Secret::new(SECRET)]),
        dedupe: Dedupe::usual(provider),
        keeps_4xx: false,
        sha256: false,
        label: String::new(),
        created_at: Timestamp::ZERO,
        revoked_at: None,
    };
    change(&mut record);
    let (name, body) = desk.written(&record).unwrap();
    let setting = Setting {
        verb: "webhook-create".into(),
        actor: "test".into(),
        reason: "test".into(),
        name: record.id.clone(),
        before: None,
        after: None,
    };
    store.decide_setting(&name, 0, Some(body), setting).await.unwrap();
    record.id
}

fn github_signature(body: &str) -> String {
    github_signature_with(SECRET, body)
}

pub(crate) fn github_signature_with(secret: &str, body: &str) -> String {
    use aws_lc_rs::hmac;
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body.as_bytes());
    format!("sha256={}", mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

impl World {
    /// GitHub delivers.
    async fn github(&self, id: &str, delivery: &str, body: &str, more: &[(&str, &str)]) -> Got {
        let signature = github_signature(body);
        let mut headers = vec![
            ("x-hub-signature-256", signature.as_str()),
            ("x-github-delivery", delivery),
            ("x-github-event", "push"),
        ];
        headers.extend(more);
        self.ask(&format!("POST /hooks/github/{id}"), "", &headers, body).await
    }
}

#[tokio::test]
async fn a_delivery_is_verified_done_once_and_answered_again_w4() {
    let world = World::with(take).await;
    let id = webhook(&world.store, "github", |_| {}).await;
    let first = world.github(&id, "72d3162e", "{\"zen\":1}", &[]).await;
    assert_eq!((first.status, first.is_replay()), (201, false), "{}", first.text());
    let again = world.github(&id, "72d3162e", "{\"zen\":2}", &[]).await;
    assert_eq!(
        (again.status, again.is_replay(), again.text()),
        (201, true, first.text()),
        "another body replays"
    );
    assert_eq!(world.service.count(), 1);
    let arrived = world.service.last();
    assert_eq!(arrived.line(), "POST /internal/github HTTP/1.1");
    assert_eq!(arrived.body, b"{\"zen\":1}");
    let key = "t-acme:web:service:webhook-ingest:github-72d3162e";
    assert_eq!(arrived.header("idempotency-key").as_deref(), Some(key));
    assert_eq!(arrived.header("x-tenant-id").as_deref(), Some("acme"));
    assert_eq!(arrived.header("x-subject").as_deref(), Some("service:webhook-ingest"));
    assert_eq!(arrived.header("x-github-event").as_deref(), Some("push"));
    let claims = world.store.list(&Default::default(), None, 10).await.unwrap().items;
    let claim = &claims[0].identity;
    let parts = (claim.source(), claim.operation().as_str(), claim.key().as_str(), claim.width());
    let operation = format!("webhook.github.{id}");
    assert_eq!(parts, (Source::Transport, operation.as_str(), "github-72d3162e:push", Width::Subject));
    assert_eq!((claims.len(), claims[0].claim.fingerprint), (1, Fingerprint::none()), "never a mismatch");
}

#[tokio::test]
async fn unknown_revoked_and_wrong_provider_are_one_404_before_any_body_is_read_w1() {
    let world = World::with(take).await;
    let id = webhook(&world.store, "github", |_| {}).await;
    let revoked = webhook(&world.store, "github", |record| record.revoked_at = Some(Timestamp::ZERO)).await;
    let mut answers = Vec::new();
    for path in [
        format!("/hooks/github/wh_{}", "1".repeat(32)),
        format!("/hooks/github/{revoked}"),
        format!("/hooks/stripe/{id}"),
        "/hooks/github/nothing".to_owned(),
        format!("/hooks/acme/{id}"),
    ] {
        // The body never comes: the answer does.
        let head = format!("POST {path} HTTP/1.1\r\nhost: edge.example\r\ncontent-length: 1000\r\n\r\n");
        let answer = world.send(head).await.expect("an answer");
        assert_eq!((answer.status, answer.code().as_str()), (404, "not-found"), "{path}");
        answers.push(answer.without_marks());
    }
    assert!(answers.windows(2).all(|two| two[0] == two[1]), "{answers:?}");
    assert_eq!(world.service.count(), 0);
}

#[tokio::test]
async fn nothing_is_claimed_or_forwarded_before_the_signature_holds_w3() {
    let world = World::with(take).await;
    let id = webhook(&world.store, "github", |_| {}).await;
    let line = format!("POST /hooks/github/{id}");
    let right = github_signature("{}");
    for (headers, status, code) in [
        (vec![("x-github-delivery", "a")], 401, "signature-invalid"),
        (vec![("x-github-delivery", "a"), ("x-hub-signature-256", "sha256=00")], 401, "signature-invalid"),
        (vec![("x-hub-signature-256", right.as_str())], 400, "translation-failed"),
        (
            vec![("x-hub-signature-256", right.as_str()), ("x-github-delivery", "a b")],
            400,
            "translation-failed",
        ),
    ] {
        let answer = world.ask(&line, "", &headers, "{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{headers:?}");
    }
    assert_eq!(world.service.count(), 0);
    let claims = world.store.list(&Default::default(), None, 10).await.unwrap();
    assert!(claims.items.is_empty(), "{claims:?}");
    let text = world.gateway.metrics().render();
    for (cause, count) in [("signature-invalid", 2), ("translation-failed", 2)] {
        let line =
            format!("hapax_deliveries_refused_total{{provider=\"github\",cause=\"{cause}\"}} {count}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
    let line = "transport_translation_failed_total{tenant=\"acme\",project=\"web\",\
                endpoint=\"/hooks/{provider}/{webhook_id}\",provider=\"github\"} 2\n";
    assert!(text.contains(line), "{text}");
}

#[tokio::test]
async fn the_kind_of_event_is_part_of_the_identity_w5() {
    let world = World::with(take).await;
    let id = webhook(&world.store, "github", |_| {}).await;
    let body = "{}";
    let signature = github_signature(body);
    let deliver = async |kind: &str| {
        let headers = [
            ("x-hub-signature-256", signature.as_str()),
            ("x-github-delivery", "d"),
            ("x-github-event", kind),
        ];
        world.ask(&format!("POST /hooks/github/{id}"), "", &headers, body).await
    };
    assert!(!deliver("push").await.is_replay());
    assert!(!deliver("ping").await.is_replay(), "another kind is another delivery");
    assert!(deliver("push").await.is_replay());
    assert_eq!(world.service.count(), 2);
}

#[tokio::test]
async fn with_dedupe_content_a_captured_delivery_under_a_fresh_id_has_no_second_effect_w5() {
    let world = World::with(take).await;
    let by_id = webhook(&world.store, "github", |_| {}).await;
    let by_content = webhook(&world.store, "github", |record| record.dedupe = Dedupe::Content).await;
    world.github(&by_id, "a", "{}", &[]).await;
    assert!(!world.github(&by_id, "b", "{}", &[]).await.is_replay(), "dispatch events are genuine");
    let first = world.github(&by_content, "a", "{}", &[]).await;
    let captured = world.github(&by_content, "b", "{}", &[("x-github-event", "forged")]).await;
    assert_eq!((first.is_replay(), captured.is_replay(), captured.text()), (false, true, first.text()));
    assert_eq!(world.service.count(), 3);
    let text = world.gateway.metrics().render();
    assert!(text.contains("hapax_delivery_content_repeated_total{provider=\"github\"} 2\n"), "{text}");
}

#[tokio::test]
async fn only_successes_are_kept_so_that_a_bad_deploy_heals_w8() {
    let world = World::with(take).await;
    let id = webhook(&world.store, "github", |_| {}).await;
    for status in ["404", "302", "500", "410"] {
        let answer = world.github(&id, "d", "{}", &[("x-do", &format!("status={status}"))]).await;
        assert_eq!((answer.status.to_string().as_str(), answer.is_replay()), (status, false));
    }
    assert_eq!(world.github(&id, "d", "{}", &[]).await.status, 201);
    assert!(world.github(&id, "d", "{}", &[("x-do", "status=404")]).await.is_replay());
    // The service's own word goes before.
    let kept = [("x-do", "status=422;outcome=keep")];
    assert_eq!(world.github(&id, "e", "{}", &kept).await.status, 422);
    let again = world.github(&id, "e", "{}", &[]).await;
    assert_eq!((again.status, again.is_replay()), (422, true));
    let keeps = webhook(&world.store, "github", |record| record.keeps_4xx = true).await;
    assert_eq!(world.github(&keeps, "f", "{}", &[("x-do", "status=404")]).await.status, 404);
    assert!(world.github(&keeps, "f", "{}", &[]).await.is_replay());
    for status in ["302", "500", "401"] {
        let answer = world.github(&keeps, "g", "{}", &[("x-do", &format!("status={status}"))]).await;
        assert_eq!((answer.status.to_string().as_str(), answer.is_replay()), (status, false), "4xx alone");
    }
    assert_eq!(world.github(&keeps, "g", "{}", &[]).await.status, 201);
}

#[tokio::test]
async fn where_deliveries_are_unsafe_to_repeat_what_the_service_answers_is_released_all_the_same_w8() {
    let world = World::with(|settings| {
        take(settings);
        Arc::make_mut(settings.webhooks.as_mut().unwrap()).rule.rerun = Rerun::Unsafe;
    })
    .await;
    let id = webhook(&world.store, "github", |_| {}).await;
    for status in ["500", "503", "302", "404"] {
        let answer = world.github(&id, "d", "{}", &[("x-do", &format!("status={status}"))]).await;
        assert_eq!((answer.status.to_string().as_str(), answer.is_replay()), (status, false));
    }
    assert_eq!(world.github(&id, "d", "{}", &[]).await.status, 201);
    // These can be the word of something in between, which knows nothing of the work.
    for (delivery, status) in [("e", "502"), ("f", "504")] {
        world.github(&id, delivery, "{}", &[("x-do", &format!("status={status}"))]).await;
        let again = world.github(&id, delivery, "{}", &[]).await;
        assert_eq!((again.status, again.code().as_str()), (409, "outcome-unknown"), "{status}");
    }
}

#[tokio::test]
async fn a_sender_is_told_that_its_idempotency_key_has_no_effect_p1() {
    let world = World::with(take).await;
    let id = webhook(&world.store, "github", |_| {}).await;
    let key = [("idempotency-key", "mine")];
    let taken = world.github(&id, "d", "{}", &key).await;
    let unknown = world.github(&format!("wh_{}", "1".repeat(32)), "d", "{}", &key).await;
    for (answer, status) in [(taken, 201), (unknown, 404), (world.github(&id, "a b", "{}", &key).await, 400)]
    {
        let told = answer.header("idempotency-key-ignored");
        assert_eq!((answer.status, told), (status, Some("true")));
    }
    assert_eq!(world.github(&id, "e", "{}", &[]).await.header("idempotency-key-ignored"), None);
}

/// Twilio calls about a step of a call, which only the token in its headers names.
async fn twilio_voice(world: &World, id: &str, query: &str, token: &str) -> Got {
    use aws_lc_rs::hmac;
    use base64::Engine as _;
    let target = format!("/hooks/twilio/{id}{query}");
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, SECRET.as_bytes());
    let mac =
        hmac::sign(&key, format!("https://hooks.example{target}CallSidCA1CallStatusringing").as_bytes());
    let signature = base64::engine::general_purpose::STANDARD.encode(mac.as_ref());
    let headers = [
        ("x-twilio-signature", signature.as_str()),
        ("i-twilio-idempotency-token", token),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    world.ask(&format!("POST {target}"), "", &headers, "CallSid=CA1&CallStatus=ringing").await
}

#[tokio::test]
async fn a_captured_step_of_a_call_under_fresh_tokens_is_counted_w5() {
    let world = World::with(take).await;
    let id = webhook(&world.store, "twilio", |_| {}).await;
    for token in ["k1", "k2", "k3", "k1"] {
        assert_eq!(twilio_voice(&world, &id, "", token).await.status, 201, "{token}");
    }
    assert_eq!(world.gateway.refusals(&id).unwrap().content_repeated, 2);
}

#[tokio::test]
async fn by_content_a_delivery_is_what_is_signed_the_url_of_twilio_too_w5() {
    let world = World::with(take).await;
    let id = webhook(&world.store, "twilio", |record| record.dedupe = Dedupe::Content).await;
    let one = twilio_voice(&world, &id, "?order=1", "k1").await;
    let other = twilio_voice(&world, &id, "?order=2", "k2").await;
    assert_eq!((one.status, other.status, other.is_replay()), (201, 201, false));
    assert!(twilio_voice(&world, &id, "?order=2", "k3").await.is_replay());
    assert_eq!(world.service.count(), 2);
}

#[tokio::test]
async fn a_sender_waits_no_longer_than_it_would_and_its_retry_attaches_w9() {
    let world = World::with(|settings| {
        take(settings);
        let webhooks = Arc::make_mut(settings.webhooks.as_mut().unwrap());
        webhooks.wait = Some(Duration::from_millis(200));
    })
    .await;
    let id = webhook(&world.store, "github", |_| {}).await;
    let first = world.github(&id, "d", "{}", &[("x-do", "hold")]).await;
    assert_eq!((first.status, first.code().as_str()), (504, "upstream-timeout"));
    world.service.let_go();
    let again = world.github(&id, "d", "{}", &[]).await;
    assert_eq!((again.status, again.is_replay()), (201, true), "{}", again.text());
    assert_eq!(world.service.count(), 1);
}

#[tokio::test]
async fn slacks_question_is_answered_and_nothing_is_claimed_w2() {
    use aws_lc_rs::hmac;
    let world = World::with(take).await;
    let id = webhook(&world.store, "slack", |_| {}).await;
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs().to_string();
    let deliver = async |body: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let mac = hmac::sign(&key, format!("v0:{now}:{body}").as_bytes());
        let hex: String = mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let signature = format!("v0={hex}");
        let headers =
            [("x-slack-request-timestamp", now.as_str()), ("x-slack-signature", signature.as_str())];
        world.ask(&format!("POST /hooks/slack/{id}"), "", &headers, body).await
    };
    let answer = deliver("{\"type\":\"url_verification\",\"challenge\":\"abc\"}").await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "abc"));
    assert_eq!(world.service.count(), 0);
    assert!(world.store.list(&Default::default(), None, 10).await.unwrap().items.is_empty());
    assert_eq!(deliver("{\"type\":\"event_callback\",\"event_id\":\"Ev1\"}").await.status, 201);
}

#[tokio::test]
async fn one_webhooks_deliveries_are_not_anothers_k5() {
    let world = World::with(take).await;
    let acme = webhook(&world.store, "github", |_| {}).await;
    let globex =
        webhook(&world.store, "github", |record| record.tenant = Tenant::new("globex").unwrap()).await;
    let other = webhook(&world.store, "github", |_| {}).await;
    for id in [&acme, &globex, &other] {
        assert!(!world.github(id, "same", "{}", &[]).await.is_replay());
    }
    assert_eq!(world.service.count(), 3);
}

#[tokio::test]
async fn two_hundred_simultaneous_deliveries_run_once_w4() {
    let world = Arc::new(World::with(take).await);
    let id = webhook(&world.store, "github", |_| {}).await;
    let calls = (0..200).map(|_| {
        let (world, id) = (world.clone(), id.clone());
        tokio::spawn(async move { world.github(&id, "burst", "{}", &[]).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().status, 201);
    }
    assert_eq!(world.service.count(), 1);
}

#[tokio::test]
async fn a_secret_is_kept_sealed_where_there_is_a_seal_b9() {
    let world = World::with(take).await;
    let seal = Arc::new(hapax_exec::Seal::new(vec![[1; 32]]).unwrap());
    let desk = Desk::new(world.store.clone(), Some(seal));
    let id = webhook(&world.store, "github", |_| {}).await;
    let (record, _) = desk.get(&id).await.unwrap().expect("a plain secret is read");
    let (name, body) = desk.written(&record).unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let plain = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, SECRET);
    assert!(!text.contains(&plain) && !text.contains(SECRET), "{text}");
    let version = world.store.get(&name).await.unwrap().unwrap().version;
    world.store.put(&name, version, body).await.unwrap();
    let (read, _) = desk.get(&id).await.unwrap().unwrap();
    assert_eq!(read.secrets, Secrets::Kept(vec![Secret::new(SECRET)]));
    assert!(Desk::new(world.store.clone(), None).get(&id).await.is_err(), "without the key");
}
