//! Deliveries that nobody here signed: the official packages of providers sign them, for Node and for Python, and the edge verifies
//! them, runs each once and answers the first answer again (W2). A real client writes the secret of one into a KV store (W7).

use std::process::Command;

use hapax_testkit::kv::Kv;
use serde_json::Value;

use crate::claims_cli::told;
use crate::rig::{Ground, Hapax};
use crate::webhooks_cli::{create, deliver, ground};

fn needed(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("`cargo xtask test` installs peers and sets {variable}"))
}

/// What a package says when it signs this.
async fn signed(language: &str, args: &[&str]) -> Vec<(String, String)> {
    let (program, script) = match language {
        "npm" => {
            needed("HAPAX_TEST_NPM");
            ("node".to_owned(), "sign.js")
        }
        _ => (format!("{}/bin/python", needed("HAPAX_TEST_PYTHON")), "sign.py"),
    };
    let mut command = Command::new(program);
    command.arg(format!("{}/tests/it/webhook_senders/{script}", env!("CARGO_MANIFEST_DIR"))).args(args);
    let told = told(command).await;
    assert_eq!(told.code, 0, "{}", told.err);
    let headers: Value = serde_json::from_str(&told.out).unwrap_or_else(|_| panic!("{}", told.out));
    let members = headers.as_object().unwrap().iter();
    members.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// A delivery of a real sender, and what it is known by.
struct Sent<'a> {
    headers: &'a [(String, String)],
    more: &'a [(&'a str, &'a str)],
    body: &'a str,
    key: &'a str,
}

/// The delivery runs once and is answered again; changed by a byte, it does not come in.
async fn runs_once(ground: &Ground, edge: &Hapax, path: &str, sent: Sent<'_>) {
    let query = sent.headers.iter().find(|(name, _)| name == "query").map_or("", |(_, query)| query);
    let headers = sent.headers.iter().filter(|(name, _)| name != "query");
    let mut headers: Vec<_> = headers.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    headers.extend(sent.more);
    let (path, reached) = (format!("{path}{query}"), ground.service.count());
    let first = deliver(edge, &path, &headers, sent.body).await;
    assert_eq!((first.status, first.is_replay()), (201, false), "{path}: {}", first.text());
    let again = deliver(edge, &path, &headers, sent.body).await;
    assert_eq!((again.is_replay(), &again.body), (true, &first.body), "{path}");
    assert_eq!(ground.service.count(), reached + 1, "{path}");
    let done = ground.service.done().pop().unwrap();
    let key = format!("t-acme:web:service:webhook-ingest:{}", sent.key);
    assert_eq!((done.header("idempotency-key"), done.body.as_str()), (Some(key.as_str()), sent.body));
    let changed = format!("{} ", sent.body);
    let refused = deliver(edge, &path, &headers, &changed).await;
    assert_eq!(refused.problem(), (401, "signature-invalid".into()), "{path}");
    assert_eq!(ground.service.count(), reached + 1, "{path}");
}

const SECRET: &str = "a secret that both sides know";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_signed_by_stripes_and_githubs_packages_of_npm_run_once_w2() {
    let ground = ground().await;
    let edge = ground.serve().await;
    let github_headers = [("x-github-delivery", "72d3162e"), ("x-github-event", "push")];
    for (provider, body, more, key) in [
        ("stripe", "{\"id\":\"evt_1P\",\"object\":\"event\",\"data\":{\"é\":1}}", &[][..], "stripe-evt_1P"),
        ("github", "{\"zen\":\"Keep it logically awesome.\"}", &github_headers, "github-72d3162e"),
    ] {
        let made = create(&edge, provider, SECRET, &[]).await;
        let headers = signed("npm", &[provider, SECRET, body]).await;
        let sent = Sent { headers: &headers, more, body, key };
        runs_once(&ground, &edge, made["path"].as_str().unwrap(), sent).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_signed_by_packages_for_python_run_once_w2() {
    let ground = ground().await;
    let edge = ground.serve().await;
    let standard_secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let message = "MessageSid=SM1&MessageStatus=delivered&To=%2B18005551212&Body=a+b%26c&A=2&A=1&A=2&Empty=";
    let call = "CallSid=CA1&CallStatus=in-progress&Digits=1234";
    let token = [("i-twilio-idempotency-token", "tok-1")];
    let events = "[{\"type\":\"com.twilio.messaging.message.sent\"}]";
    let slack = "{\"type\":\"event_callback\",\"event_id\":\"Ev1\",\"text\":\"é\"}";
    for (signer, provider, secret, more, made_with, body, key) in [
        ("standard", "standard", standard_secret, &[][..], &[][..], "{\"a\":1}", "standard-msg_1"),
        ("slack", "slack", SECRET, &[], &[], slack, "slack-Ev1"),
        ("twilio", "twilio", SECRET, &[], &[], message, "twilio-SM1.delivered"),
        ("twilio", "twilio", SECRET, &token, &[], call, "twilio-tok-1"),
        ("twilio_sha256", "twilio", SECRET, &[], &["--sha256"], message, "twilio-SM1.delivered"),
        ("twilio_events", "twilio-events", SECRET, &token, &[], events, "twilio-events-tok-1"),
    ] {
        let made = create(&edge, provider, secret, made_with).await;
        let url = made["url"].as_str().unwrap();
        let headers = signed("python", &[signer, secret, body, url]).await;
        let sent = Sent { headers: &headers, more, body, key };
        runs_once(&ground, &edge, made["path"].as_str().unwrap(), sent).await;
    }
    // The algorithm is the webhook's, never a header's.
    let made = create(&edge, "twilio", SECRET, &[]).await;
    let headers = signed("python", &["twilio_sha256", SECRET, message, made["url"].as_str().unwrap()]).await;
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let refused = deliver(&edge, made["path"].as_str().unwrap(), &headers, message).await;
    assert_eq!(refused.problem(), (401, "signature-invalid".into()));
    // Twilio may have been given the URL with its port.
    let with_port = made["url"].as_str().unwrap().replace("hooks.example", "hooks.example:443");
    let headers = signed("python", &["twilio", SECRET, message, &with_port]).await;
    let sent = Sent { headers: &headers, more: &[], body: message, key: "twilio-SM1.delivered" };
    runs_once(&ground, &edge, made["path"].as_str().unwrap(), sent).await;
    // Slack's first question is answered, and nothing is claimed.
    let made = create(&edge, "slack", SECRET, &[]).await;
    let asks = "{\"type\":\"url_verification\",\"challenge\":\"3eZbrw1aB\"}";
    let headers = signed("python", &["slack", SECRET, asks]).await;
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let reached = ground.service.count();
    let answer = deliver(&edge, made["path"].as_str().unwrap(), &headers, asks).await;
    assert_eq!((answer.status, answer.text().as_str(), ground.service.count()), (200, "3eZbrw1aB", reached));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_hvac_for_python_and_kv_wrote_verifies_deliveries_w7() {
    let kv = Kv::start("kv-token").await.unwrap();
    let mut ground = ground().await;
    let file = ground.folder.path().join("token");
    std::fs::write(&file, "kv-token\n").unwrap();
    let section = format!("[webhooks.kv]\nurl = \"{}\"\ntoken_file = \"{}\"\n", kv.url(), file.display());
    ground.sections.push_str(&section);
    let edge = ground.serve().await;
    let made = create(&edge, "github", "", &["--secret-kv"]).await;
    assert_eq!(made["secret"], Value::Null, "it is made elsewhere");
    let path = made["path"].as_str().unwrap();
    let body = "{\"zen\":1}";
    let headers = signed("python", &["kv", "kv-token", "{\"secret\":\"first\"}", &kv.url()]).await;
    assert_eq!(headers, [("version".to_owned(), "1".to_owned())]);
    let rotated = "{\"secret\":\"second\",\"previous\":\"first\"}";
    let headers = signed("python", &["kv", "kv-token", rotated, &kv.url()]).await;
    assert_eq!(headers, [("version".to_owned(), "2".to_owned())]);
    let asked = kv.asked();
    for (secret, delivery, status) in [("second", "a", 201), ("first", "b", 201), ("third", "c", 401)] {
        let mac = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
        let mac = aws_lc_rs::hmac::sign(&mac, body.as_bytes());
        let hex: String = mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let signature = format!("sha256={hex}");
        let headers = [("x-hub-signature-256", signature.as_str()), ("x-github-delivery", delivery)];
        assert_eq!(deliver(&edge, path, &headers, body).await.status, status, "{secret}");
    }
    assert_eq!(kv.asked(), asked + 1, "asked once, and remembered");
}
