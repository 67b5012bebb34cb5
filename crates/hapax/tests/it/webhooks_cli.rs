//! Webhooks through the real program: made, rotated, revoked and looked at by command, and delivered to at the edge (W, M2).

use std::io::Write as _;
use std::process::{Command, Stdio};

use aws_lc_rs::hmac;
use serde_json::Value;

use crate::claims_cli::Told;
use crate::described;
use crate::office::carried_out;
use crate::rig::caller;
use crate::rig::process::eventually;
use crate::rig::{Got, Ground, Hapax, Kind, hapax};

pub(crate) const SECRET: &str = "It's a Secret to Everybody";

/// What every configuration here has.
pub(crate) const WEBHOOKS: &str = "
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

pub(crate) fn sign(secret: &str, body: &str) -> String {
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
pub(crate) async fn github(edge: &Hapax, path: &str, secret: &str, delivery: &str, told: &str) -> Got {
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
    let decided = carried_out(&audit);
    let verbs: Vec<_> = decided.iter().map(|event| &event["verb"]).collect();
    assert_eq!(verbs, ["webhook-revoke", "webhook-create"], "{audit}");
    assert_eq!(decided[0]["reason"], "leaked");
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
    // The sender has the second one by now: that one stays, and none is made.
    let rotated = run(&edge, "", &["webhooks", "rotate", id, "--drop-former"]).await;
    assert_eq!(rotated.out, format!("{id} has 1 secrets now\n"), "{}", rotated.err);
    assert!(rotated.err.contains("do not count any more: 1"), "{}", rotated.err);
    let refused = github(&edge, path, SECRET, "d", "").await;
    assert_eq!(refused.problem(), (401, "signature-invalid".into()), "dropped at once");
    assert_eq!(github(&edge, path, &second, "d", "").await.status, 201, "what the sender was given counts");
    let rotate = ["webhooks", "rotate", id, "--secret-stdin", "--drop-former", "--json"];
    let rotated = json_of(&run(&edge, "a third one\n", &rotate).await);
    assert_eq!((rotated["secrets"].as_u64(), &rotated["secret"]), (Some(1), &Value::Null));
    let refused = github(&edge, path, &second, "e", "").await;
    assert_eq!(refused.problem(), (401, "signature-invalid".into()), "dropped at once");
    assert_eq!(github(&edge, path, "a third one", "e", "").await.status, 201);
    assert_eq!(ground.service.count(), 5);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_rotated_in_again_drops_none_and_what_is_dropped_is_told_w7() {
    let ground = ground().await;
    let edge = ground.serve().await;
    let made = create(&edge, "github", SECRET, &[]).await;
    let (id, path) = (made["webhook_id"].as_str().unwrap(), made["path"].as_str().unwrap());
    let rotate = ["webhooks", "rotate", id, "--secret-stdin", "--json"];
    let of = |told: &Told| (json_of(told)["secrets"].as_u64(), json_of(told)["dropped"].as_u64());
    for _ in 0..3 {
        assert_eq!(of(&run(&edge, "another\n", &rotate).await), (Some(2), Some(0)), "a script tries again");
    }
    assert_eq!(github(&edge, path, SECRET, "a", "").await.status, 201, "the sender has the first one yet");
    assert_eq!(of(&run(&edge, SECRET, &rotate).await), (Some(2), Some(0)), "back to the first one");
    assert_eq!(of(&run(&edge, "a third one\n", &rotate).await), (Some(3), Some(0)));
    assert_eq!(
        of(&run(&edge, "a fourth one\n", &rotate).await),
        (Some(3), Some(1)),
        "there are three places"
    );
    assert_eq!(github(&edge, path, SECRET, "b", "").await.status, 201);
    assert_eq!(github(&edge, path, "another", "c", "").await.problem(), (401, "signature-invalid".into()));
}

/// What the admin listener says at this path, which its document describes.
async fn get(edge: &Hapax, path: &str) -> Value {
    let got = edge.ask(&format!("GET {path}"), "").await;
    described::check("GET", path, got.status, got.header("content-type").unwrap(), &got.text());
    assert_eq!(got.status, 200, "{}", got.text());
    got.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_refusals_are_reopened_in_bulk_so_that_the_senders_next_tries_run_w8() {
    let ground = ground().await;
    let edge = ground.serve().await;
    let made = create(&edge, "github", SECRET, &["--on-4xx", "keep"]).await;
    let (id, path) = (made["webhook_id"].as_str().unwrap(), made["path"].as_str().unwrap());
    for number in 0..60 {
        let refused = github(&edge, path, SECRET, &format!("gone-{number}"), "status=404").await;
        assert_eq!(refused.status, 404);
    }
    assert_eq!(github(&edge, path, SECRET, "unprocessable", "status=422").await.status, 422);
    assert_eq!(github(&edge, path, SECRET, "fine", "").await.status, 201);
    assert!(github(&edge, path, SECRET, "gone-0", "").await.is_replay(), "a deploy does not heal it");
    let reached = ground.service.count();
    let reopen = |more: &[&'static str]| {
        let mut args = vec!["webhooks", "reopen", id, "--reason", "the deploy was bad", "--json"];
        args.extend(more);
        args
    };
    let of =
        |told: &Told| (json_of(told)["reopened"].as_u64().unwrap(), json_of(told)["left"].as_u64().unwrap());
    assert_eq!(
        of(&run(&edge, "", &reopen(&["--since", "2100-01-01T00:00:00Z"])).await),
        (0, 0),
        "later ones only"
    );
    assert_eq!(of(&run(&edge, "", &reopen(&["--since", "1h", "--status", "404"])).await), (60, 0));
    assert_eq!(
        of(&run(&edge, "", &reopen(&["--since", "1h", "--status", "404"])).await),
        (0, 0),
        "said again"
    );
    assert_eq!(ground.service.count(), reached, "hapax does not send by itself");
    for number in 0..60 {
        let again = github(&edge, path, SECRET, &format!("gone-{number}"), "").await;
        assert_eq!((again.status, again.is_replay()), (201, false), "{number}");
    }
    for (delivery, status) in [("unprocessable", 422), ("fine", 201)] {
        let again = github(&edge, path, SECRET, delivery, "").await;
        assert_eq!((again.status, again.is_replay()), (status, true), "{delivery} stays");
    }
    // Without a status, all of 4xx; never what succeeded.
    assert_eq!(of(&run(&edge, "", &reopen(&["--since", "2020-01-01T00:00:00Z"])).await), (1, 0));
    assert!(!github(&edge, path, SECRET, "unprocessable", "").await.is_replay());
    assert!(github(&edge, path, SECRET, "fine", "").await.is_replay());
    let audit = edge.ask("GET /v1/audit?limit=1000", "").await.json();
    let reopened = audit["events"].as_array().unwrap().iter().filter(|event| event["verb"] == "reopen");
    let reopened: Vec<_> = reopened.collect();
    assert_eq!(reopened.len(), 61, "{audit}");
    assert!(reopened.iter().all(|event| event["reason"] == "the deploy was bad"), "{audit}");
    for args in
        [reopen(&["--since", "yesterday"]), reopen(&["--since", "1h", "--status", "201"]), reopen(&[])]
    {
        let refused = run(&edge, "", &args).await;
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{args:?}: {}", refused.err);
    }
    let body = "{\"since\":\"1h\",\"status\":201,\"reason\":\"x\"}";
    let refused = edge.ask(&format!("POST /v1/webhooks/{id}/reopen"), body).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let unknown = format!("wh_{}", "0".repeat(32));
    let nobody = ["webhooks", "reopen", &unknown, "--since", "1h", "--reason", "x"];
    assert_eq!(run(&edge, "", &nobody).await.code, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_are_shown_with_their_answers_and_refusals_by_cause_w8() {
    let ground = ground().await;
    let edge = ground.serve().await;
    let made = create(&edge, "github", SECRET, &["--on-4xx", "keep", "--label", "ci"]).await;
    let (id, path) = (made["webhook_id"].as_str().unwrap(), made["path"].as_str().unwrap());
    let other = create(&edge, "github", SECRET, &[]).await;
    github(&edge, other["path"].as_str().unwrap(), SECRET, "elsewhere", "").await;
    github(&edge, path, SECRET, "a", "").await;
    github(&edge, path, SECRET, "a", "").await;
    github(&edge, path, SECRET, "b", "status=422").await;
    github(&edge, path, SECRET, "c", "status=503").await;
    for _ in 0..2 {
        github(&edge, path, "wrong", "d", "").await;
    }
    github(&edge, path, SECRET, "not an id", "").await;
    let shown = get(&edge, &format!("/v1/webhooks/{id}")).await;
    assert_eq!((shown["webhook_id"].as_str(), shown["label"].as_str()), (Some(id), Some("ci")));
    assert_eq!(shown["retention"], "7d");
    assert_eq!(shown["deliveries"]["settled"], 2, "{shown}");
    assert_eq!(shown["deliveries"]["released"], 1, "{shown}");
    // One body under three identifiers: a captured delivery, or the sender's own (W5).
    assert_eq!(shown["content_repeated"], 2, "{shown}");
    let refused = serde_json::json!([
        { "cause": "signature-invalid", "count": 2 },
        { "cause": "translation-failed", "count": 1 },
    ]);
    assert_eq!(shown["refused"], refused);
    assert_eq!(shown["refusals"].as_array().unwrap().len(), 3);
    assert_eq!(shown["refusals"][0]["cause"], "translation-failed", "the newest first");
    assert!(shown["refusals"][2]["why"].as_str().unwrap().contains("no secret"), "{shown}");
    let told = run(&edge, "", &["webhooks", "show", id]).await;
    assert!(told.code == 0 && told.out.contains("2 signature-invalid, 1 translation-failed"), "{}", told.out);
    assert_eq!(json_of(&run(&edge, "", &["webhooks", "show", id, "--json"]).await), shown);

    let all = get(&edge, &format!("/v1/webhooks/{id}/deliveries")).await;
    let of = |delivery: &Value| {
        (
            delivery["key"].as_str().unwrap().to_owned(),
            delivery["state"].as_str().unwrap().to_owned(),
            delivery["status"].as_u64(),
        )
    };
    let listed: Vec<_> = all["deliveries"].as_array().unwrap().iter().map(of).collect();
    let row = |key: &str, state: &str, status| (key.to_owned(), state.to_owned(), status);
    let expected = [
        row("github-c:push", "released", None),
        row("github-b:push", "settled", Some(422)),
        row("github-a:push", "settled", Some(201)),
    ];
    assert_eq!(listed, expected, "the newest first");
    let one = get(&edge, &format!("/v1/webhooks/{id}/deliveries?identifier=b:push")).await;
    assert_eq!((of(&one["deliveries"][0]), &one["next"]), (expected[1].clone(), &Value::Null));
    for (query, count) in [
        ("identifier=b:push&state=settled", 1),
        ("identifier=b:push&state=released", 0),
        ("identifier=b", 0),
        ("identifier=z:push", 0),
        ("identifier=", 0),
    ] {
        let found = get(&edge, &format!("/v1/webhooks/{id}/deliveries?{query}")).await;
        assert_eq!(found["deliveries"].as_array().unwrap().len(), count, "{query}");
    }
    let first = get(&edge, &format!("/v1/webhooks/{id}/deliveries?limit=2")).await;
    let next = first["next"].as_str().unwrap();
    let rest = get(&edge, &format!("/v1/webhooks/{id}/deliveries?after={next}")).await;
    assert_eq!(
        (first["deliveries"].as_array().unwrap().len(), of(&rest["deliveries"][0])),
        (2, expected[2].clone())
    );
    let told = run(&edge, "", &["webhooks", "deliveries", id, "--state", "settled"]).await;
    assert!(told.code == 0 && told.out.contains("github-b:push") && told.out.contains("422"), "{}", told.out);
    assert!(!told.out.contains("github-c"), "{}", told.out);
    let unknown = format!("wh_{}", "0".repeat(32));
    assert_eq!(run(&edge, "", &["webhooks", "show", &unknown]).await.code, 1);
    assert_eq!(run(&edge, "", &["webhooks", "deliveries", &unknown]).await.code, 1);
    assert_eq!(run(&edge, "", &["webhooks", "deliveries", id, "--limit", "0"]).await.code, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_field_of_the_log_tells_of_a_delivery_o2() {
    let ground = ground().await;
    let path = ground.folder.path().join("hapax.toml");
    std::fs::write(&path, ground.configuration().replace("format = \"text\"", "format = \"json\"")).unwrap();
    let edge = Hapax::start(&path, &[]).await;
    let made = create(&edge, "github", SECRET, &[]).await;
    let hook = made["path"].as_str().unwrap();
    let first = github(&edge, hook, SECRET, "canary-7", "").await;
    github(&edge, hook, SECRET, "canary-7", "").await;
    github(&edge, hook, "wrong", "canary-8", "").await;
    edge.post("/charges", "canary-9", "{}", "").await;
    let lines = || {
        let told = edge.told();
        let lines = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["target"] == "hapax::request").collect::<Vec<_>>()
    };
    eventually("four lines", async || lines().len() == 4).await;
    let lines = lines();
    let field = |line: usize, name: &str| {
        let line = &lines[line];
        line.get(name).or_else(|| line["fields"].get(name)).cloned().unwrap_or(Value::Null)
    };
    let operation = first.header("x-operation-id").unwrap();
    for (line, hit) in [(0, false), (1, true)] {
        for (name, value) in [
            ("idempotency_case", "B"),
            ("idempotency_source", "transport"),
            ("idempotency_policy", "REQUIRED_B"),
            ("provider", "github"),
            ("restate_invocation_id", operation),
            ("endpoint", "/hooks/{provider}/{webhook_id}"),
            ("tenant", "acme"),
            ("project", "web"),
        ] {
            assert_eq!(field(line, name), value, "{name} of {}", lines[line]);
        }
        assert_eq!(field(line, "restate_cache_hit"), hit, "{}", lines[line]);
        let key = field(line, "idempotency_key_namespaced");
        let key = key.as_str().unwrap();
        assert!(key.starts_with("t-acme:web:service:webhook-ingest:#"), "{key}");
    }
    assert_eq!(field(0, "idempotency_key_namespaced"), field(1, "idempotency_key_namespaced"));
    // One that goes nowhere has no key, and tells why.
    assert_eq!(field(2, "idempotency_case"), Value::Null);
    assert_eq!((field(2, "provider"), field(2, "event")), ("github".into(), "signature-invalid".into()));
    assert!(field(2, "cause").as_str().unwrap().contains("no secret"), "{}", lines[2]);
    // A caller that sends a key.
    for (name, value) in
        [("idempotency_case", "A"), ("idempotency_source", "header"), ("idempotency_policy", "REQUIRED_A")]
    {
        assert_eq!(field(3, name), value, "{name}");
    }
    assert_eq!(field(3, "provider"), Value::Null);
    let told = edge.told();
    assert!(!told.contains("canary-") && !told.contains(SECRET), "what a sender chose is not logged: {told}");
}

/// Neither by command nor by a configuration that takes another provider after the command (W6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_set_by_command_keeps_no_delivery_shorter_than_its_sender_repeats_it_w6() {
    let mut ground = ground().await;
    let with = |enabled: &str, kept: &str| {
        format!("[retention]\nhooks = \"{kept}\"\n{WEBHOOKS}retention = \"hooks\"\nenabled = [{enabled}]\n")
    };
    ground.sections = with("\"stripe\", \"slack\"", "4d");
    let edge = ground.serve().await;
    let set = async |span: &str| {
        run(&edge, "", &["retention", "set", "hooks", span, "--reason", "less is kept"]).await
    };
    let refused = set("2d").await;
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
    assert!(refused.err.contains("stripe may send one again for 3d"), "{}", refused.err);
    assert_eq!(set("3d").await.code, 0);
    let stripe = create(&edge, "stripe", "", &[]).await;
    let kept = async |made: &Value| {
        let told =
            run(&edge, "", &["webhooks", "show", made["webhook_id"].as_str().unwrap(), "--json"]).await;
        json_of(&told)["retention"].clone()
    };
    assert_eq!(kept(&stripe).await, "3d");
    ground.sections = with("\"stripe\", \"slack\", \"github\"", "8d");
    ground.write("hapax");
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    edge.tells("deliveries of webhooks are kept for longer than was set by command").await;
    let github = create(&edge, "github", SECRET, &[]).await;
    assert_eq!((kept(&github).await, kept(&stripe).await), ("7d".into(), "7d".into()));
}
