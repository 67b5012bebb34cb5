//! Deliveries of webhooks that reach a handler (W5).

use serde_json::Value;

use super::*;
use crate::rig::caller;

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_reaches_a_handler_once_under_what_identifies_it_w5() {
    let mut ground = Ground::new(1, "").await;
    // `echo` is a route's, too: deliveries have keys of their own.
    ground.sections = "[webhooks]\nupstream = \"engine\"\nenabled = [\"github\", \"standard\"]\n\
                       restate = { service = \"Trouble\", handler = \"echo\" }\n\
                       retention = \"interactive\"\n[retention]\ninteractive = \"7d\"\n"
        .into();
    let edge = ground.edge("one").await;
    let mut paths = Vec::new();
    for _ in 0..2 {
        let made =
            serde_json::json!({ "tenant": "acme", "project": "web", "provider": "github", "secret": SECRET });
        let made = edge.ask("POST /v1/webhooks", &made.to_string()).await;
        assert_eq!(made.status, 201, "{made:?}");
        paths.push(made.json()["path"].as_str().unwrap().to_owned());
    }
    let deliver = async |path: &str, id: &str, event: &str| {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\nx-github-delivery: {id}\r\nx-github-event: {event}\r\n\
             x-hub-signature-256: {SIGNATURE}\r\ncontent-length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        caller::send(edge.edge, request.as_bytes()).await.expect("an answer")
    };
    let first = deliver(&paths[0], "d1", "push").await;
    assert_eq!(first.status, 200, "{first:?} {}", edge.told());
    shows_nothing_of_the_cluster(&first);
    let again = deliver(&paths[0], "d1", "push").await;
    assert!(again.is_replay() && again.body == first.body, "{again:?}");
    // Another event under the same identifier, and the same delivery to another webhook, are others.
    assert!(!deliver(&paths[0], "d1", "release").await.is_replay());
    assert!(!deliver(&paths[1], "d1", "push").await.is_replay());
    assert_eq!(ground.count("echo"), 3);
    let keys = ground.restate.query("SELECT idempotency_key FROM sys_invocation");
    let keys: Vec<_> =
        keys.iter().filter_map(|row| row["idempotency_key"].as_str().map(str::to_owned)).collect();
    let begins = "t-acme:web:service:webhook-ingest:wh_";
    assert!(keys.iter().all(|key| key.starts_with(begins)), "{keys:?}");
    assert!(keys.iter().any(|key| key.ends_with(".github-d1%3Apush")), "{keys:?}");
    let _: Value = first.json();
}

const SECRET: &str = "It's a Secret to Everybody";
const BODY: &str = "{\"hello\":\"world\"}";
/// The HMAC of that body with that secret.
const SIGNATURE: &str = "sha256=f96e2f2d25f3a0a0ebc0d8ab645f4dd49bd0f0f80db32c4b68d047c7b06dd8d0";
