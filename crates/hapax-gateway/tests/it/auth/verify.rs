//! Keys that an outside service knows (A7): asked once for many, remembered for a while, closed when there is no answer.

use hapax_gateway::settings::VerifyService;
use hapax_testkit::port::Port;
use hapax_testkit::raw::PATIENCE;

use super::outside::Outside;
use super::*;

fn settings(service: &Outside) -> Auth {
    let verify = VerifyService {
        url: service.url(),
        token: "unkey_root".into(),
        remember: Duration::from_secs(30),
        timeout: PATIENCE,
    };
    Auth { verify: Some(verify), api_keys: true, ..with_secret() }
}

fn valid() -> Value {
    json!({ "valid": true, "code": "VALID", "externalId": "acme", "meta": { "project": "web", "subject": "service:ci" } })
}

async fn world(says: impl ToString) -> (Outside, Authenticator<Memory>) {
    let service = Outside::start().await;
    service.say(200, says);
    let authenticator = open(&settings(&service)).await;
    (service, authenticator)
}

#[tokio::test]
async fn a_valid_key_names_its_caller_in_every_shape_of_the_answer_a7() {
    let data = json!({
        "valid": true, "keyId": "key_1", "identity": { "id": "i", "externalId": "acme" }, "meta": { "project": "web" },
    });
    for (says, expected) in [
        (valid(), "acme web service:ci Project"),
        (json!({ "valid": true, "ownerId": "acme", "keyId": "key_1" }), "acme - client:key_1 Project"),
        (
            json!({ "valid": true, "ownerId": "acme", "keyId": "k", "meta": { "project_id": "web" } }),
            "acme web client:k Project",
        ),
        (
            json!({ "valid": true, "ownerId": "acme", "keyId": "k", "meta": { "project_id": "a", "project": "b" } }),
            "acme a client:k Project",
        ),
        (json!({ "meta": { "requestId": "r" }, "data": data }), "acme web client:key_1 Project"),
        (
            json!({ "valid": true, "ownerId": "acme", "meta": { "subject": "tenant_member:bob" } }),
            "acme - tenant_member:bob Tenant",
        ),
    ] {
        let (_, authenticator) = world(&says).await;
        assert_eq!(said(&ask(&authenticator, "some_key").await.unwrap()), expected, "{says}");
    }
}

#[tokio::test]
async fn the_service_is_asked_as_it_expects_to_be_a7() {
    let (service, authenticator) = world(valid()).await;
    ask(&authenticator, "some_\"key").await.unwrap();
    let (headers, body) = service.last();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), json!({ "key": "some_\"key" }));
    assert_eq!(headers["authorization"], "Bearer unkey_root");
    assert_eq!(headers["content-type"], "application/json");
}

#[tokio::test]
async fn an_answer_is_remembered_and_not_for_ever_a7() {
    let (service, authenticator) = world(valid()).await;
    for _ in 0..5 {
        ask(&authenticator, "some_key").await.unwrap();
    }
    assert_eq!(service.asked(), 1);
    service.say(200, json!({ "valid": false, "code": "DISABLED" }));
    later(Duration::from_secs(29)).await;
    assert!(ask(&authenticator, "some_key").await.is_ok());
    later(Duration::from_secs(1)).await;
    assert!(is_invalid(&ask(&authenticator, "some_key").await));
    for _ in 0..5 {
        assert!(is_invalid(&ask(&authenticator, "some_key").await));
    }
    assert_eq!(service.asked(), 2, "a refusal is remembered, too");
    service.say(200, valid());
    later(Duration::from_secs(5)).await;
    assert!(ask(&authenticator, "some_key").await.is_ok());
}

#[tokio::test]
async fn a_refusal_is_remembered_no_longer_than_any_answer_a7() {
    let service = Outside::start().await;
    service.say(200, json!({ "valid": false, "code": "DISABLED" }));
    let mut settings = settings(&service);
    settings.verify.as_mut().unwrap().remember = Duration::from_millis(500);
    let authenticator = open(&settings).await;
    assert!(is_invalid(&ask(&authenticator, "some_key").await));
    service.say(200, valid());
    later(Duration::from_millis(500)).await;
    assert!(ask(&authenticator, "some_key").await.is_ok());
}

#[tokio::test]
async fn a_key_is_not_remembered_beyond_its_own_expiry_a7() {
    let mut says = valid();
    says["expires"] = json!(in_seconds(20) * 1000);
    let (service, authenticator) = world(says).await;
    ask(&authenticator, "some_key").await.unwrap();
    later(Duration::from_secs(20)).await;
    ask(&authenticator, "some_key").await.unwrap();
    assert_eq!(service.asked(), 2);
}

#[tokio::test]
async fn without_an_answer_nobody_comes_in_a7() {
    let (service, authenticator) = world("").await;
    for (status, body) in [
        (500, valid().to_string()),
        (401, String::new()),
        (302, String::new()),
        (200, "not JSON".into()),
        (200, "{}".into()),
        (200, json!({ "valid": "true", "externalId": "acme" }).to_string()),
        (200, json!({ "data": [valid()] }).to_string()),
        (200, format!("{}{}", " ".repeat(100 << 10), valid())),
    ] {
        service.say(status, &body);
        let refused = ask(&authenticator, "some_key").await;
        assert!(is_unreachable(&refused), "{status} {refused:?}");
    }
    service.say(200, valid());
    assert!(ask(&authenticator, "some_key").await.is_ok(), "a failure is not remembered");
}

#[tokio::test]
async fn a_service_that_is_away_or_slow_lets_nobody_in_a7() {
    let service = Outside::start().await;
    service.say(200, valid());
    let _held = service.hold().await;
    let mut hasty = settings(&service);
    hasty.verify.as_mut().unwrap().timeout = Duration::from_secs(1);
    assert!(is_unreachable(&ask(&open(&hasty).await, "some_key").await));
    let nobody = Port::reserve().unwrap();
    let mut away = settings(&service);
    away.verify.as_mut().unwrap().url = format!("http://{}/", nobody.address());
    assert!(is_unreachable(&ask(&open(&away).await, "some_key").await));
}

#[tokio::test]
async fn a_valid_key_that_names_nobody_who_can_be_opens_nothing_a7() {
    for says in [
        json!({ "valid": true, "keyId": "k" }),
        json!({ "valid": true, "externalId": "acme" }),
        json!({ "valid": true, "externalId": "Not A Slug", "keyId": "k" }),
        json!({ "valid": true, "externalId": "acme", "keyId": "k", "meta": { "project": "_tenant" } }),
        json!({ "valid": true, "externalId": "acme", "meta": { "subject": "service:scheduler" } }),
        json!({ "valid": true, "externalId": "acme", "meta": { "subject": "ci" } }),
    ] {
        let (_, authenticator) = world(&says).await;
        assert!(is_invalid(&ask(&authenticator, "some_key").await), "{says}");
    }
}

#[tokio::test]
async fn many_requests_with_one_key_ask_once_a7() {
    for says in [valid(), json!({ "valid": false })] {
        let (service, authenticator) = world(says).await;
        service.take(Duration::from_millis(50));
        let asking = (0..50).map(|_| ask(&authenticator, "some_key"));
        let asked = futures_util::future::join_all(asking).await;
        assert!(asked.windows(2).all(|pair| pair[0].is_ok() == pair[1].is_ok()));
        assert_eq!(service.asked(), 1);
    }
}

#[tokio::test]
async fn the_service_sees_neither_tokens_nor_api_keys_a7() {
    let (service, authenticator) = world(valid()).await;
    assert!(ask(&authenticator, &signed_with_secret(&claims(json!({})))).await.is_ok());
    assert!(is_invalid(&ask(&authenticator, &signed_with_secret(&claims(json!({ "sub": null })))).await));
    assert!(is_invalid(&ask(&authenticator, "hpx_mistyped").await));
    let without_keys = Auth { api_keys: false, ..settings(&service) };
    assert!(is_invalid(&ask(&open(&without_keys).await, "hpx_mistyped").await));
    assert_eq!(service.asked(), 0);
}
