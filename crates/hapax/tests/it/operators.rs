//! Operators at the command line, and callers at the edge of the same process: what one decides, the other sees.

use serde_json::Value;

use crate::claims_cli::Told;
use crate::office::carried_out;
use crate::retention_cli::{DAY, kept_for, kept_since};
use crate::rig::caller::{self, ALICE};
use crate::rig::{Database, Ground, Hapax, Kind, Who};

async fn run(ground: &Ground, edge: &Hapax, args: &[&str]) -> Told {
    let url = format!("http://{}", edge.admin);
    ground.run(&[args, &["--admin", &url]].concat()).await
}

async fn json(ground: &Ground, edge: &Hapax, args: &[&str]) -> Value {
    let told = run(ground, edge, &[args, &["--json"]].concat()).await;
    assert_eq!(told.code, 0, "{args:?}: {}", told.err);
    serde_json::from_str(&told.out).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doubt_is_found_resolved_and_replayed_as_stated_l8() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let unknown = edge.post("/charges", "k", "{}", "cut").await;
    assert_eq!(unknown.problem(), (409, "outcome-unknown".into()));
    let listed = json(&ground, &edge, &["claims", "list", "--state", "in_doubt"]).await;
    let id = listed["claims"][0]["operation_id"].as_str().unwrap();
    assert_eq!(Some(id), unknown.header("x-operation-id"), "the caller's receipt is what operators see");
    assert_eq!(json(&ground, &edge, &["claims", "show", id]).await["state"], "in_doubt");
    let body = ground.folder.path().join("answer.json");
    std::fs::write(&body, r#"{"charged": true}"#).unwrap();
    let resolve = [
        "claims",
        "resolve",
        id,
        "--settle-status",
        "201",
        "--settle-body",
        &body.display().to_string(),
        "--settle-header",
        "Content-Type: application/json",
        "--settle-header",
        "Location: /charges/7",
        "--reason",
        "in the books",
    ];
    assert_eq!(run(&ground, &edge, &resolve).await.code, 0);
    let stated = edge.post("/charges", "k", "{}", "").await;
    assert_eq!(
        (stated.status, stated.is_replay(), stated.text()),
        (201, true, r#"{"charged": true}"#.into())
    );
    assert_eq!(
        (stated.header("content-type"), stated.header("location")),
        (Some("application/json"), Some("/charges/7"))
    );
    assert_eq!(stated.header("x-operation-id"), Some(id));
    let recalled = edge.send(ALICE, "GET /charges/by-idempotency-key/k", &[], "").await;
    assert_eq!(recalled.body, stated.body);
    assert_eq!(run(&ground, &edge, &resolve).await.code, 1, "a second operator comes too late");
    assert_eq!(ground.service.count(), 1);

    // Reopened: the next request runs, and gets another answer.
    assert_eq!(run(&ground, &edge, &["claims", "reopen", id, "--reason", "wrong books"]).await.code, 0);
    assert_eq!(edge.post("/charges", "k", "{}", "").await.text(), "answer 2 to {}");
    // Purged: the key is a new one, also for another request.
    assert_eq!(run(&ground, &edge, &["claims", "purge", id, "--reason", "a test"]).await.code, 0);
    assert_eq!(edge.post("/charges", "k", r#"{"other": 1}"#, "").await.text(), r#"answer 3 to {"other": 1}"#);
    let audit = edge.ask("GET /v1/audit", "").await.json();
    let decided = carried_out(&audit);
    let verbs: Vec<_> = decided.iter().map(|event| event["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["purge", "reopen", "resolve-settle"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_doubt_runs_again_for_the_next_caller_l8() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let unknown = edge.post("/charges", "k", "{}", "cut").await;
    let id = unknown.header("x-operation-id").unwrap();
    let early =
        run(&ground, &edge, &["claims", "resolve", id, "--release", "--reason", "not in the books"]).await;
    assert_eq!(early.code, 1, "the former call may still be under way: {}", early.err);
    assert_eq!(edge.post("/charges", "k", "{}", "").await.problem(), (409, "outcome-unknown".into()));
    let forced = ["claims", "resolve", id, "--release", "--force", "--reason", "not in the books"];
    assert_eq!(run(&ground, &edge, &forced).await.code, 0);
    let again = edge.post("/charges", "k", "{}", "").await;
    assert_eq!((again.text(), again.header("x-operation-id")), ("answer 2 to {}".into(), Some(id)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_key_opens_the_edge_until_it_is_revoked_a2() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let make = ["keys", "create", "--tenant", "acme", "--project", "web", "--subject", "service:ci"];
    let made = json(&ground, &edge, &make).await;
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let ask = async |key: &str| {
        let request = format!(
            "POST /charges HTTP/1.1\r\nhost: edge\r\nauthorization: Bearer {key}\r\nidempotency-key: k\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        caller::send(edge.edge, request.as_bytes()).await.unwrap()
    };
    assert_eq!(ask(key).await.status, 201);
    let arrived = &ground.service.done()[0];
    assert_eq!((arrived.header("x-subject"), arrived.header("authorization")), (Some("service:ci"), None));
    assert_eq!(ask(&format!("{}x", &key[..key.len() - 1])).await.problem(), (401, "unauthenticated".into()));
    let listed = json(&ground, &edge, &["keys", "list"]).await;
    assert_eq!(listed["keys"][0]["id"], id);
    let replay =
        edge.send(Who("acme", "web", "service:ci"), "POST /charges", &[("idempotency-key", "k")], "{}").await;
    assert!(replay.is_replay(), "one subject, however it comes in");
    assert_eq!(run(&ground, &edge, &["keys", "revoke", id]).await.code, 0);
    assert_eq!(ask(key).await.status, 401, "at once, where it was revoked");
    assert_eq!(ground.service.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_of_a_subject_is_erased_and_nothing_else_b9() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let others = [Who("acme", "web", "user:bob"), Who("globex", "web", "user:alice")];
    for number in 0..450 {
        let key = format!("k-{number}");
        let path = if number % 2 == 0 { "/charges" } else { "/notes" };
        assert_eq!(edge.post(path, &key, r#"{"iban": "erase-me"}"#, "").await.status, 201);
    }
    for who in others {
        edge.send(who, "POST /charges", &[("idempotency-key", "k-0")], r#"{"iban": "keep-me"}"#).await;
    }
    assert_eq!(edge.post("/charges", "doubt", "{}", "cut").await.status, 409);
    let before = ground.service.count();
    let erase = [
        "claims",
        "erase",
        "--tenant",
        "acme",
        "--subject",
        "user:alice",
        "--reason",
        "asked to be forgotten",
        "--json",
    ];
    let told = run(&ground, &edge, &erase).await;
    let counted: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&counted["erased"], &counted["left"]), (&450.into(), &1.into()), "{}", told.err);
    assert!(
        told.code == 1 && told.err.contains("in doubt"),
        "what is left must be come back to: {}",
        told.err
    );
    for (path, key) in [("/charges", "k-0"), ("/notes", "k-449"), ("/charges", "k-200")] {
        let gone = edge.post(path, key, r#"{"iban": "erase-me"}"#, "").await;
        assert_eq!(gone.problem(), (409, "outcome-not-kept".into()), "{key}");
    }
    for who in others {
        let kept =
            edge.send(who, "POST /charges", &[("idempotency-key", "k-0")], r#"{"iban": "keep-me"}"#).await;
        assert!(kept.is_replay(), "{who:?}: {kept:?}");
    }
    assert_eq!(ground.service.count(), before, "keys stay used up");
    // The doubt is resolved: then nothing is left, and what was erased is not counted again.
    let id = edge.claims("in_doubt").await[0]["operation_id"].as_str().unwrap().to_owned();
    let settle = ["claims", "resolve", &id, "--settle-status", "201", "--reason", "done"];
    assert_eq!(run(&ground, &edge, &settle).await.code, 0);
    let told = run(&ground, &edge, &erase).await;
    let counted: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((told.code, &counted["erased"], &counted["left"]), (0, &1.into(), &0.into()), "{}", told.err);
    let misspelt = ["claims", "erase", "--tenant", "acme", "--subject", "alice", "--reason", "x"];
    assert_eq!(run(&ground, &edge, &misspelt).await.code, 2, "no subject is written like this");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_reopen_set_aside_is_erased_with_its_subject_on_postgres_too_b9() {
    for kind in [Kind::Embedded, Kind::Postgres] {
        let ground = Ground::new(kind).await;
        let edge = ground.serve().await;
        let body = r#"{"iban": "erase-me"}"#;
        let mut ids = Vec::new();
        for key in ["free", "again", "running"] {
            let first = edge.post("/charges", key, body, "").await;
            let id = first.header("x-operation-id").unwrap().to_owned();
            assert_eq!(run(&ground, &edge, &["claims", "reopen", &id, "--reason", "resend"]).await.code, 0);
            ids.push(id);
        }
        // One is free, one has a second answer, one is in doubt, and one was given back without any answer.
        assert_eq!(edge.post("/charges", "again", body, "").await.status, 201);
        assert_eq!(edge.post("/charges", "running", body, "cut").await.status, 409);
        let unknown = edge.post("/charges", "empty", body, "cut").await;
        let empty = unknown.header("x-operation-id").unwrap();
        let release = ["claims", "resolve", empty, "--release", "--force", "--reason", "not in the books"];
        assert_eq!(run(&ground, &edge, &release).await.code, 0);
        let kinds = async || {
            let events = edge.ask("GET /v1/audit", "").await.json()["events"].clone();
            let mut kinds: Vec<_> = events
                .as_array()
                .unwrap()
                .iter()
                .filter(|event| event["verb"] == "reopen")
                .map(|event| (event["operation_id"].clone(), event["outcome"]["kind"].clone()))
                .collect();
            kinds.reverse();
            kinds
        };
        let told = |kinds: [&str; 3]| -> Vec<(Value, Value)> {
            ids.iter().zip(kinds).map(|(id, kind)| (id.as_str().into(), kind.into())).collect()
        };
        assert_eq!(kinds().await, told(["succeeded"; 3]));
        let erase =
            ["claims", "erase", "--tenant", "acme", "--subject", "user:alice", "--reason", "asked", "--json"];
        let erased = async || {
            let told = run(&ground, &edge, &erase).await;
            let counted: Value = serde_json::from_str(&told.out).unwrap();
            (told.code, counted["erased"].as_u64().unwrap(), counted["left"].as_u64().unwrap())
        };
        assert_eq!(erased().await, (1, 2, 1), "what had an answer is counted, and what is in doubt is left");
        assert_eq!(kinds().await, told(["erased", "erased", "succeeded"]));
        let resolve = ["claims", "resolve", &ids[2], "--release", "--force", "--reason", "not in the books"];
        assert_eq!(run(&ground, &edge, &resolve).await.code, 0);
        assert_eq!(erased().await, (0, 1, 0), "and nothing is counted twice");
        assert_eq!(kinds().await, told(["erased"; 3]));
        assert_eq!(edge.post("/charges", "free", body, "").await.status, 201, "what was free stays free");
    }
}

/// Says that the only claim in doubt was done.
async fn settle(ground: &Ground, edge: &Hapax) {
    let doubts = edge.claims("in_doubt").await;
    let id = doubts[0]["operation_id"].as_str().unwrap();
    let resolve = ["claims", "resolve", id, "--settle-status", "201", "--reason", "in the books"];
    assert_eq!((run(ground, edge, &resolve).await.code, doubts.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_settled_is_kept_as_the_route_says_also_under_its_former_name_l8_k6() {
    let route = |names: &str| {
        format!(
            "[[routes]]\nmethod = \"POST\"\npath = \"/payments\"\npolicy = \"REQUIRED_A\"\nupstream = \"service\"\n\
             retention = \"7d\"\n{names}\n"
        )
    };
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = route("operation = \"pay\"");
    let edge = ground.serve().await;
    assert_eq!(edge.post("/payments", "before", "{}", "cut").await.status, 409);
    settle(&ground, &edge).await;
    assert_eq!(edge.post("/payments", "renamed", "{}", "cut").await.status, 409);
    edge.kill();
    ground.routes = route("operation = \"pay2\"\nwas = \"pay\"");
    let edge = ground.serve().await;
    settle(&ground, &edge).await;
    assert_eq!((kept_for(&edge, "before").await, kept_for(&edge, "renamed").await), (7 * DAY, 7 * DAY));
    assert!(edge.post("/payments", "renamed", "{}", "").await.is_replay());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_settled_for_a_derived_key_is_kept_for_its_window_only_l8_h9() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = "[[routes]]\nmethod = \"POST\"\npath = \"/orders\"\noperation = \"order\"\npolicy = \"ACCEPTED\"\n\
                     upstream = \"service\"\nrerun = \"unsafe\"\nkey_from = \"fingerprint\"\nwindow = \"1h\"\n"
        .to_owned();
    let edge = ground.serve().await;
    let ask = async |told: &str| edge.send(ALICE, "POST /orders", &[("x-do", told)], "{}").await;
    assert_eq!(ask("cut").await.problem(), (409, "outcome-unknown".into()));
    settle(&ground, &edge).await;
    assert!(ask("").await.is_replay());
    let claim = edge.claims("settled").await.remove(0);
    assert_eq!((&claim["source"], kept_since(&claim, "granted_at")), (&"derived".into(), DAY / 24));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_says_that_a_seal_key_does_not_open_the_store_as_serve_does_b9_m6() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let config = ground.write("keyless").display().to_string();
    ground.sections = "[seal]\nkey_env = \"SEAL\"\n".into();
    let sealed = ground.write("sealed");
    let (key, other) = ("01".repeat(32), "02".repeat(32));
    let doctor = async |key: &str| {
        let mut command = crate::rig::hapax(&["doctor", "--json", "--config", &sealed.display().to_string()]);
        command.env("SEAL", key);
        let told = crate::claims_cli::told(command).await;
        (told.code, crate::doctor::level(&told, "seal"), told.out)
    };
    let (code, level, _) = doctor(&key).await;
    assert_eq!((code, level.as_str()), (0, "ok"), "there is no store yet");
    let edge = Hapax::start(&sealed, &[("SEAL", key.as_str())]).await;
    edge.post("/charges", "k", "{}", "").await;
    edge.kill();
    let (code, level, _) = doctor(&key).await;
    assert_eq!((code, level.as_str()), (0, "ok"));
    let (code, level, out) = doctor(&other).await;
    assert_eq!((code, level.as_str()), (1, "fail"), "{out}");
    assert!(out.contains("sealed with a key that is not known here"), "{out}");
    let keyless = ground.run(&["doctor", "--json", "--config", &config]).await;
    assert_eq!((keyless.code, crate::doctor::level(&keyless, "seal").as_str()), (1, "fail"));
    assert!(keyless.out.contains("no key is set"), "{}", keyless.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_sealed_with_a_key_that_has_gone_is_told_to_be_so_b9() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let (old, new) = ("01".repeat(32), "02".repeat(32));
    let start = async |ground: &mut Ground, names: &str| {
        ground.sections = format!("[seal]\nkey_env = [{names}]\n");
        let variables = [("OLD", old.as_str()), ("NEW", new.as_str())];
        Hapax::start(&ground.write("hapax"), &variables).await
    };
    let edge = start(&mut ground, "\"OLD\"").await;
    assert_eq!(edge.post("/charges", "k", "{}", "").await.status, 201);
    edge.kill();
    start(&mut ground, "\"NEW\", \"OLD\"").await.kill();
    let edge = start(&mut ground, "\"NEW\"").await;
    let claim = edge.claims("settled").await.remove(0);
    let id = claim["operation_id"].as_str().unwrap();
    let admin = format!("http://{}", edge.admin);
    let show = ["claims", "show", id, "--outcome", "--admin", &admin];
    let shown = ground.run(&show).await;
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.err.contains("sealed with a key that is not known here"), "{}", shown.err);
    assert!(!shown.err.contains("no text"), "{}", shown.err);
    let json = ground.run(&[&show[..], &["--json"]].concat()).await.out;
    let told: serde_json::Value = serde_json::from_str(&json).unwrap();
    let why = told["outcome"]["unreadable"].as_str().unwrap_or_default();
    assert!(why.contains("sealed with a key that is not known here"), "{told:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_claim_on_postgres_keeps_operators_from_no_other_l17_b9() {
    let database = Database::fresh().await;
    let ground = Ground::at(database.url.clone()).await;
    let edge = ground.serve().await;
    let zoe = Who("acme", "web", "user:zoe");
    let broken = edge.post("/charges", "broken", "{}", "").await.header("x-operation-id").unwrap().to_owned();
    let hers =
        async || edge.send(zoe, "POST /charges", &[("idempotency-key", "hers")], r#"{"iban": "zoe"}"#).await;
    assert_eq!(hers().await.status, 201);
    let spoil = "UPDATE hapax.claims SET terms = '\\x' WHERE replace(operation_id::text, '-', '') = ";
    database.run(&format!("{spoil}'{}'", broken.strip_prefix("op_").unwrap())).await;
    let named = |damaged: &Value| {
        assert_eq!((damaged.as_array().unwrap().len(), damaged[0]["id"].as_str()), (1, Some(&*broken)));
    };
    let listed = json(&ground, &edge, &["claims", "list"]).await;
    assert_eq!(listed["claims"].as_array().unwrap().len(), 1, "{listed}");
    named(&listed["damaged"]);
    let read = run(&ground, &edge, &["claims", "list", "--state", "settled"]).await;
    assert!(read.code == 0 && read.err.contains(&format!("cannot be read: {broken}")), "{}", read.err);
    let erase =
        ["claims", "erase", "--tenant", "acme", "--subject", "user:zoe", "--reason", "asked", "--json"];
    let told = run(&ground, &edge, &erase).await;
    assert!(told.code == 1 && told.err.contains("perhaps they are this subject's"), "{}", told.err);
    let counted: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&counted["erased"], &counted["left"]), (&1.into(), &0.into()), "{counted}");
    named(&counted["damaged"]);
    assert_eq!(hers().await.problem(), (409, "outcome-not-kept".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_examines_what_a_configuration_names_m6() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let config = ground.write("hapax").display().to_string();
    let absent = ground.run(&["doctor", "--config", &config, "--json"]).await;
    assert_eq!((absent.code, crate::doctor::level(&absent, "store").as_str()), (0, "warn"), "{}", absent.err);
    assert!(!ground.folder.path().join("data").exists(), "nothing is made");
    let edge = ground.serve().await;
    edge.post("/charges", "k", "{}", "cut").await;
    let beside = ground.run(&["doctor", "--config", &config, "--json"]).await;
    assert_eq!(beside.code, 0, "{} {}", beside.out, beside.err);
    for (what, level) in
        [("configuration", "ok"), ("seal", "warn"), ("store", "ok"), ("records", "ok"), ("claims", "warn")]
    {
        assert_eq!(crate::doctor::level(&beside, what), level, "{what}: {}", beside.out);
    }
    ground.routes.push_str("[[routes]]\ncolour = 1\n");
    ground.write("hapax");
    let wrong = ground.run(&["doctor", "--config", &config]).await;
    assert_eq!(wrong.code, 1);
    let told: Vec<_> = wrong.out.lines().filter(|line| line.starts_with("fail  configuration")).collect();
    assert!(
        told.len() > 1 && told.iter().any(|line| line.contains("colour")),
        "every mistake: {}",
        wrong.out
    );
}
