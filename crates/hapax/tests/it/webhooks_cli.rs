//! Webhooks through the real program: made, rotated, revoked and looked at by command, and delivered to at the edge (W, M2).

use std::io::Write as _;
use std::process::{Command, Stdio};

use aws_lc_rs::hmac;
use serde_json::Value;

use crate::claims_cli::Told;
use crate::rig::caller;
use crate::rig::{Got, Ground, Hapax, Kind, hapax};

const SECRET: &str = "It's a Secret to Everybody";

/// What every configuration here has.
const WEBHOOKS: &str = "
[webhooks]
prefix = \"/hooks\"
upstream = \"service\"
path = \"/internal/{provider}\"
public_url = \"https://hooks.example\"
";

pub(crate) async fn ground() -> Ground {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.sections = WEBHOOKS.into();
    ground
}

/// Runs a command against this server, with this on its standard input.
pub(crate) async fn run(edge: &Hapax, input: &str, args: &[&str]) -> Told {
    let mut command: Command = hapax(args);
    command.args(["--admin", &format!("http://{}", edge.admin)]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        // A command that does not read it may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    });
    let output = output.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Told { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

pub(crate) fn json_of(told: &Told) -> Value {
    assert_eq!(told.code, 0, "{}", told.err);
    serde_json::from_str(&told.out).unwrap_or_else(|_| panic!("{} {}", told.out, told.err))
}

/// Makes a webhook with this secret, or with one of its own; says id and path.
pub(crate) async fn create(edge: &Hapax, provider: &str, secret: &str, more: &[&str]) -> Value {
    let mut args = vec!["webhooks", "create", "--tenant", "acme", "--project", "web", "--json"];
    args.extend(["--provider", provider]);
    if !secret.is_empty() {
        args.push("--secret-stdin");
    }
    args.extend(more);
    json_of(&run(edge, secret, &args).await)
}

fn sign(secret: &str, body: &str) -> String {
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body.as_bytes());
    format!("sha256={}", mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Delivers what a provider would send.
pub(crate) async fn deliver(edge: &Hapax, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
    let mut text = format!("POST {path} HTTP/1.1\r\nhost: hooks.example\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let request = format!("{text}content-length: {}\r\n\r\n{body}", body.len());
    caller::send(edge.edge, request.as_bytes()).await.unwrap_or_else(|| panic!("no answer: {}", edge.told()))
}

/// GitHub delivers, signed with this secret.
async fn github(edge: &Hapax, path: &str, secret: &str, delivery: &str, told: &str) -> Got {
    let body = "{\"zen\":1}";
    let signature = sign(secret, body);
    let headers = [
        ("x-hub-signature-256", signature.as_str()),
        ("x-github-delivery", delivery),
        ("x-github-event", "push"),
        ("x-do", told),
    ];
    deliver(edge, path, &headers, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_webhook_is_a_404_at_once_at_the_server_that_was_asked_w1() {
    let ground = ground().await;
    let edge = ground.serve().await;
    let made = create(&edge, "github", SECRET, &[]).await;
    let (id, path) = (made["webhook_id"].as_str().unwrap(), made["path"].as_str().unwrap());
    assert_eq!(path, format!("/hooks/github/{id}"));
    assert_eq!(github(&edge, path, SECRET, "a", "").await.status, 201);
    let revoked = run(&edge, "", &["webhooks", "revoke", id, "--reason", "leaked"]).await;
    assert_eq!((revoked.code, revoked.out), (0, format!("{id} revoked\n")), "{}", revoked.err);
    assert_eq!(github(&edge, path, SECRET, "b", "").await.problem(), (404, "not-found".into()));
    assert_eq!(ground.service.count(), 1);
    assert_eq!(run(&edge, "", &["webhooks", "revoke", id]).await.code, 0, "said again, it is revoked still");
    let unknown = format!("wh_{}", "0".repeat(32));
    assert_eq!(run(&edge, "", &["webhooks", "revoke", &unknown]).await.code, 1);
    let listed = run(&edge, "", &["webhooks", "list"]).await;
    assert!(listed.out.contains(id) && listed.out.contains("revoked"), "{}", listed.out);
    let audit = edge.ask("GET /v1/audit", "").await.json();
    let verbs: Vec<_> = audit["events"].as_array().unwrap().iter().map(|event| &event["verb"]).collect();
    assert_eq!(verbs, ["webhook-revoke", "webhook-create"], "{audit}");
    assert_eq!(audit["events"][0]["reason"], "leaked");
    assert!(!audit.to_string().contains(SECRET));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_has_two_secrets_until_the_former_is_dropped_w7() {
    let ground = ground().await;
    let edge = ground.serve().await;
    let made = create(&edge, "github", SECRET, &[]).await;
    let (id, path) = (made["webhook_id"].as_str().unwrap(), made["path"].as_str().unwrap());
    assert_eq!(made["secret"], Value::Null, "a secret that was given is not told");
    assert_eq!(github(&edge, path, SECRET, "a", "").await.status, 201);
    // Without one on standard input a secret is made, and shown once.
    let rotated = run(&edge, "", &["webhooks", "rotate", id]).await;
    assert_eq!(rotated.code, 0, "{}", rotated.err);
    let second = rotated.out.trim().to_owned();
    assert!(second.len() >= 40, "{second}");
    for (secret, delivery) in [(SECRET, "b"), (second.as_str(), "c")] {
        assert_eq!(github(&edge, path, secret, delivery, "").await.status, 201, "both count");
    }
    let rotate = ["webhooks", "rotate", id, "--secret-stdin", "--drop-former", "--json"];
    let rotated = json_of(&run(&edge, "a third one\n", &rotate).await);
    assert_eq!((rotated["secrets"].as_u64(), &rotated["secret"]), (Some(1), &Value::Null));
    for former in [SECRET, &second] {
        let refused = github(&edge, path, former, "d", "").await;
        assert_eq!(refused.problem(), (401, "signature-invalid".into()), "dropped at once");
    }
    assert_eq!(github(&edge, path, "a third one", "d", "").await.status, 201);
    assert_eq!(ground.service.count(), 4);
    for (input, args) in [
        ("\n", &["webhooks", "rotate", id, "--secret-stdin"][..]),
        ("", &["webhooks", "create", "--tenant", "acme", "--project", "web", "--provider", "gitlab"]),
        (
            "",
            &[
                "webhooks",
                "create",
                "--tenant",
                "acme",
                "--project",
                "web",
                "--provider",
                "github",
                "--secret-kv",
            ],
        ),
        ("", &["webhooks", "create", "--tenant", "acme", "--project", "_tenant", "--provider", "github"]),
    ] {
        let refused = run(&edge, input, args).await;
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{args:?}: {}", refused.err);
    }
    // What only the store has is not in its files in the clear where there is a seal; here there is none, and it says so.
    let listed = json_of(&run(&edge, "", &["webhooks", "list", "--json"]).await);
    assert!(!listed.to_string().contains("third"), "{listed}");
}
