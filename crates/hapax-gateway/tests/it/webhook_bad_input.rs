//! Deliveries that are signed well and bad all the same, and those that are not signed: the right problem, nothing claimed, nothing
//! forwarded, everything counted (W3).

use std::time::UNIX_EPOCH;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_core::Inspect as _;
use hapax_gateway::webhooks::provider::Secret;
use hapax_gateway::webhooks::record::Secrets;

use crate::webhooks::{SECRET, github_signature_with, take, webhook};
use crate::world::World;

fn now() -> u64 {
    UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn mac(algorithm: hmac::Algorithm, text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(algorithm, SECRET.as_bytes()), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What Stripe signs at this time.
fn stripe(time: u64, body: &str) -> Vec<(&'static str, String)> {
    let v1 = hex(&mac(hmac::HMAC_SHA256, &format!("{time}.{body}")));
    vec![("stripe-signature", format!("t={time},v1={v1}"))]
}

fn slack(body: &str) -> Vec<(&'static str, String)> {
    let time = now();
    let v0 = hex(&mac(hmac::HMAC_SHA256, &format!("v0:{time}:{body}")));
    vec![("x-slack-request-timestamp", time.to_string()), ("x-slack-signature", format!("v0={v0}"))]
}

/// What Twilio signs: the URL, and the fields of the form in this order.
fn twilio(id: &str, fields: &str) -> Vec<(&'static str, String)> {
    let text = format!("https://hooks.example/hooks/twilio/{id}{fields}");
    let algorithm = hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY;
    vec![("x-twilio-signature", STANDARD.encode(mac(algorithm, &text)))]
}

/// One delivery that must not come in.
struct Bad {
    what: &'static str,
    provider: &'static str,
    headers: Vec<(&'static str, String)>,
    body: String,
    refused: (u16, &'static str),
}

fn bad(
    what: &'static str,
    provider: &'static str,
    headers: Vec<(&'static str, String)>,
    body: &str,
    refused: (u16, &'static str),
) -> Bad {
    Bad { what, provider, headers, body: body.to_owned(), refused }
}

const SIGNATURE: (u16, &str) = (401, "signature-invalid");
const IDENTIFIER: (u16, &str) = (400, "translation-failed");

fn all(twilio_id: &str) -> Vec<Bad> {
    let right = "{\"id\":\"evt_1\"}";
    let deep = format!("{{\"id\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let github = |body: &str, ids: &[&str]| {
        let mut headers = vec![("x-hub-signature-256", github_signature_with(SECRET, body))];
        headers.extend(ids.iter().map(|id| ("x-github-delivery", (*id).to_owned())));
        headers
    };
    let mut found = vec![
        bad("stale", "stripe", stripe(now() - 400, right), right, SIGNATURE),
        bad("from the future", "stripe", stripe(now() + 400, right), right, SIGNATURE),
        bad("another body", "stripe", stripe(now(), right), "{\"id\":\"evt_2\"}", SIGNATURE),
        bad("no signature", "stripe", Vec::new(), right, SIGNATURE),
        bad(
            "not signed as a form",
            "twilio",
            twilio(twilio_id, ""),
            "MessageSid=SM1&SmsStatus=sent",
            SIGNATURE,
        ),
        bad(
            "JSON where a form is meant",
            "twilio",
            twilio(twilio_id, ""),
            "{\"MessageSid\":\"SM1\"}",
            SIGNATURE,
        ),
        bad(
            "a form with two identifiers",
            "twilio",
            twilio(twilio_id, "MessageSidSM1MessageSidSM2SmsStatussent"),
            "MessageSid=SM1&MessageSid=SM2&SmsStatus=sent",
            IDENTIFIER,
        ),
        bad("two headers with identifiers", "github", github("{}", &["a", "b"]), "{}", IDENTIFIER),
        bad("no identifier", "github", github("{}", &[]), "{}", IDENTIFIER),
        bad("a long identifier", "github", github("{}", &[&"a".repeat(201)]), "{}", IDENTIFIER),
        bad("an identifier with a colon", "github", github("{}", &["a:b"]), "{}", IDENTIFIER),
    ];
    for (what, body) in [
        ("not JSON", "x"),
        ("no identifier", "{}"),
        ("a number", "{\"id\":7}"),
        ("two identifiers", "{\"id\":\"a\",\"id\":\"b\"}"),
        ("10,000 deep", deep.as_str()),
        ("a form", "id=evt_1"),
    ] {
        found.push(bad(what, "stripe", stripe(now(), body), body, IDENTIFIER));
    }
    // A command of Slack is a form, and has no identifier.
    let command = "token=x&command=%2Fweather&text=94070";
    found.push(bad("a form", "slack", slack(command), command, IDENTIFIER));
    // The signature does not matter: it is not read so far.
    found.push(bad("20 MiB", "stripe", stripe(now(), "x"), &"x".repeat(20 << 20), (413, "body-too-large")));
    found
}

#[tokio::test]
async fn every_bad_delivery_is_told_what_is_wrong_counted_and_goes_nowhere_w3() {
    let world = World::with(take).await;
    let mut ids = std::collections::BTreeMap::new();
    for provider in ["stripe", "github", "twilio", "slack"] {
        ids.insert(provider, webhook(&world.store, provider, |_| {}).await);
    }
    let all = all(&ids["twilio"]);
    let mut counts = std::collections::BTreeMap::new();
    for Bad { what, provider, headers, body, refused } in &all {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let line = format!("POST /hooks/{provider}/{}", ids[provider]);
        let answer = world.ask(&line, "", &headers, body).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            *refused,
            "{provider}: {what}: {:.200}",
            answer.text()
        );
        assert!(!answer.text().contains(SECRET), "{what}");
        *counts.entry((*provider, refused.1)).or_insert(0) += 1;
    }
    assert_eq!(world.service.count(), 0);
    let claims = world.store.list(&Default::default(), None, 10).await.unwrap();
    assert!(claims.items.is_empty(), "{claims:?}");
    let text = world.gateway.metrics().render();
    for ((provider, cause), count) in counts {
        let line =
            format!("hapax_deliveries_refused_total{{provider=\"{provider}\",cause=\"{cause}\"}} {count}\n");
        assert!(text.contains(&line), "{line} in {text}");
        let tally = world.gateway.refusals(&ids[provider]).unwrap();
        assert_eq!(tally.refused[cause], count, "{provider} {cause}");
    }
    // What is good comes in still.
    let good = "{\"id\":\"evt_1\"}";
    let headers = stripe(now(), good);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(
        world.ask(&format!("POST /hooks/stripe/{}", ids["stripe"]), "", &headers, good).await.status,
        201
    );
}

#[tokio::test]
async fn an_empty_secret_signs_nothing_w3() {
    let world = World::with(take).await;
    let empty = Secrets::Kept(vec![Secret::new(""), Secret::new(SECRET)]);
    let id = webhook(&world.store, "github", |record| record.secrets = empty).await;
    let nothing =
        webhook(&world.store, "github", |record| record.secrets = Secrets::Kept(vec![Secret::new("")])).await;
    let deliver = async |id: &str, secret: &str| {
        let signature = github_signature_with(secret, "{}");
        let headers = [("x-hub-signature-256", signature.as_str()), ("x-github-delivery", "a")];
        world.ask(&format!("POST /hooks/github/{id}"), "", &headers, "{}").await
    };
    assert_eq!(deliver(&id, "").await.code(), "signature-invalid");
    assert_eq!(deliver(&nothing, "").await.code(), "ledger-unavailable");
    assert_eq!(world.service.count(), 0);
    assert_eq!(deliver(&id, SECRET).await.status, 201);
}
