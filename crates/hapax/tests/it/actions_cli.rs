//! `hapax actions`, run as a user would run it: the source's walkthrough, and what is refused before anything happens (X).

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::application::App;
use crate::claims_cli::Told;
use crate::rig::caller::ALICE;
use crate::rig::process::eventually;
use crate::rig::{Ground, Hapax, Kind};

/// So that two plans of a test have two files.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Two tools on the service, and three rules.
pub(crate) fn sections(ground: &Ground) -> String {
    format!(
        "[actions]\nas = {{ tenant = \"acme\", project = \"health-prod\" }}\n\
         [connectors.magento]\nkind = \"http\"\nurl = \"http://{}\"\n\
         [connectors.magento.tools.\"orders.hold\"]\nmethod = \"POST\"\npath = \"/orders/{{order}}/hold\"\n\
         [connectors.magento.tools.\"orders.refund\"]\nmethod = \"POST\"\npath = \"/orders/{{order}}/refund\"\n\
         [connectors.magento.tools.\"orders.get\"]\nmethod = \"GET\"\npath = \"/orders/{{order}}\"\nread_only = true\n\
         [connectors.gone]\nkind = \"http\"\nurl = \"http://127.0.0.1:1\"\n\
         [connectors.gone.tools.send]\nmethod = \"POST\"\npath = \"/send\"\n\
         [[trust.rules]]\nname = \"large refunds are blocked\"\nwhen = 'tool == \"orders.refund\" && args.amount > 1000'\ndecision = \"BLOCK\"\n\
         [[trust.rules]]\nname = \"holds are watched\"\nwhen = 'tool == \"orders.hold\"'\ndecision = \"ALERT\"\n",
        ground.service.address()
    )
}

pub(crate) async fn ground(kind: Kind) -> Ground {
    let mut ground = Ground::new(kind).await;
    ground.sections = sections(&ground);
    ground
}

pub(crate) fn hold() -> Value {
    json!({
        "connector": "magento",
        "tool": "orders.hold",
        "args": { "order": "SO-10884", "reason": "ship-risk-review" },
        "entity_key": "ship-risk:SO-10884",
        "idempotency_key": "ship-risk:SO-10884:hold"
    })
}

/// Writes configuration and plan, and says where.
pub(crate) fn written(ground: &Ground, plan: &Value) -> (String, String) {
    let config = ground.folder.path().join("actions.toml");
    std::fs::write(&config, ground.configuration()).unwrap();
    let file = ground.folder.path().join(format!("plan-{}.json", NEXT.fetch_add(1, Ordering::SeqCst)));
    std::fs::write(&file, plan.to_string()).unwrap();
    (config.display().to_string(), file.display().to_string())
}

pub(crate) async fn actions(ground: &Ground, verb: &str, plan: &Value, more: &[&str]) -> Told {
    let (config, file) = written(ground, plan);
    let mut args = vec!["actions", verb, "--config", &config, "--plan", &file];
    args.extend(more);
    ground.run(&args).await
}

pub(crate) const WHOSE: [&str; 5] = ["--tenant", "acme", "--project", "health-prod", "--json"];

pub(crate) async fn run(ground: &Ground, plan: &Value) -> (u8, Vec<Value>) {
    let told = actions(ground, "run", plan, &WHOSE).await;
    let results = serde_json::from_str(&told.out).unwrap_or_else(|_| panic!("{} {}", told.out, told.err));
    (u8::try_from(told.code).unwrap(), results)
}

async fn walkthrough(kind: Kind) {
    let ground = ground(kind).await;
    let (code, results) = run(&ground, &json!([hold(), hold()])).await;
    assert_eq!(code, 0, "{results:?}");
    assert_eq!((&results[0]["decision"], &results[0]["ok"]), (&json!("ALERT"), &json!(true)));
    assert_eq!(results[1], json!({ "action": hold(), "decision": "DEDUP", "ok": true }));
    // Another process, days later: the key is kept for ever.
    let (code, results) = run(&ground, &json!([hold()])).await;
    assert_eq!((code, &results[0]["decision"]), (0, &json!("DEDUP")));
    let done = ground.service.done();
    assert_eq!(done.len(), 1, "one hold");
    assert!(done[0].is_on("/orders/SO-10884/hold"));
    assert_eq!(
        serde_json::from_str::<Value>(&done[0].body).unwrap(),
        json!({ "reason": "ship-risk-review" })
    );
    assert_eq!(done[0].header("idempotency-key").map(str::len), Some(64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_proposes_one_hold_three_times_places_one_hold_x1_x2() {
    walkthrough(Kind::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_a_plan_that_proposes_one_hold_three_times_places_one_hold_x1_x2() {
    walkthrough(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_and_what_cannot_be_done_are_told_by_result_and_exit_code_x6() {
    let ground = ground(Kind::Embedded).await;
    let action = |tool: &str, args: Value, key: &str| json!({ "connector": "magento", "tool": tool, "args": args, "entity_key": "e", "idempotency_key": key });
    let refund =
        |amount: Value, key: &str| action("orders.refund", json!({ "order": "1", "amount": amount }), key);
    let gone = json!({ "connector": "gone", "tool": "send", "entity_key": "e", "idempotency_key": "g" });
    let plan = json!([
        refund(json!(5000), "a"),
        refund(json!("NaN"), "b"),
        refund(json!(10), "c"),
        action("orders.nothing", json!({}), "d"),
        action("orders.hold", json!({ "order": "1" }), "e"),
        action("orders.hold", json!({}), "no order"),
        gone,
        action("orders.get", json!({ "order": "7" }), "f"),
        action("orders.get", json!({ "order": 9_007_199_254_740_993_u64 }), "g"),
    ]);
    let (code, results) = run(&ground, &plan).await;
    assert_eq!(code, 1);
    let told: Vec<_> = results
        .iter()
        .map(|result| {
            (result["decision"].as_str().unwrap(), result["ok"].as_bool().unwrap(), result["code"].as_str())
        })
        .collect();
    assert_eq!(
        told,
        [
            ("BLOCK", false, None),
            ("BLOCK", false, Some("rule-failed")),
            ("ALLOW", true, None),
            ("BLOCK", false, Some("tool-unknown")),
            ("ALERT", true, None),
            ("BLOCK", false, Some("args-malformed")),
            ("ALLOW", false, Some("attempt-failed")),
            ("ALLOW", true, None),
            ("BLOCK", false, Some("args-malformed")),
        ],
        "{results:#?}"
    );
    assert_eq!(results[0]["error"], "blocked by trust policy");
    assert_eq!(ground.service.count(), 3, "a refund, a hold and a read");
    // What failed without effect may be proposed again.
    let (code, results) = run(&ground, &json!([refund(json!(10), "c"), gone])).await;
    assert_eq!(
        (code, &results[0]["decision"], &results[1]["decision"]),
        (1, &json!("DEDUP"), &json!("ALLOW"))
    );
    for (plan, part) in [
        (json!({}), "array of actions"),
        (json!([{ "connector": "magento" }]), "missing field"),
        (json!([{ "colour": 1 }]), "colour"),
        (json!(vec![gone; 10_001]), "at most 10000 actions"),
    ] {
        let told = actions(&ground, "run", &plan, &WHOSE).await;
        assert_eq!(told.code, 2, "{}", told.err);
        assert!(told.err.contains(part), "{part}: {}", told.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_tells_which_rule_fires_and_does_nothing() {
    let ground = ground(Kind::Embedded).await;
    let refund = json!({
        "connector": "magento", "tool": "orders.refund", "args": { "order": "1", "amount": 5000 }, "entity_key": "e",
        "idempotency_key": "refund:2026-11-19T04:00:00Z"
    });
    let told = actions(&ground, "check", &json!([hold(), refund]), &["--json"]).await;
    assert_eq!(told.code, 1, "{}", told.err);
    let checked: Vec<Value> = serde_json::from_str(&told.out).unwrap();
    assert_eq!(
        (&checked[0]["decision"], &checked[0]["rule"]),
        (&json!("ALERT"), &json!("holds are watched"))
    );
    assert_eq!(
        (&checked[1]["decision"], &checked[1]["rule"]),
        (&json!("BLOCK"), &json!("large refunds are blocked"))
    );
    assert_eq!(checked[0]["warnings"], json!([]));
    assert!(checked[1]["warnings"][0].as_str().unwrap().contains("a time"), "{checked:?}");
    let told = actions(&ground, "check", &json!([hold()]), &[]).await;
    assert!(told.code == 0 && told.out.contains("holds are watched"), "{} {}", told.out, told.err);
    assert_eq!(ground.service.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_store_that_a_server_has_open_is_refused_with_what_to_do_b8() {
    let ground = ground(Kind::Embedded).await;
    let _edge = ground.serve().await;
    let told = actions(&ground, "run", &json!([hold()]), &WHOSE).await;
    assert_eq!(told.code, 3, "{}", told.out);
    assert!(told.err.contains("POST /v1/plans"), "{}", told.err);
    assert_eq!(ground.service.count(), 0);
}

/// A tool whose service breaks the connection after it has done what was asked, and one that can be watched.
pub(crate) async fn doubtful() -> Ground {
    let mut ground = ground(Kind::Embedded).await;
    ground.sections = format!(
        "{}[connectors.lost]\nkind = \"http\"\nurl = \"http://{}\"\nheaders = {{ x-do = \"cut\" }}\n\
         [connectors.lost.tools.send]\nmethod = \"POST\"\npath = \"/send\"\n",
        ground.sections.replace("[actions]\n", "[actions]\ninclude_result = true\n"),
        ground.service.address()
    );
    ground
}

pub(crate) fn send() -> Value {
    json!({ "connector": "lost", "tool": "send", "args": { "text": "hi" }, "entity_key": "kim", "idempotency_key": "kim:send" })
}

/// The lines of a command that asks a server.
pub(crate) async fn asked(ground: &Ground, edge: &Hapax, args: &[&str]) -> (i32, Vec<Value>) {
    let admin = format!("http://{}", edge.admin);
    let args: Vec<_> = args.iter().chain(&["--json", "--admin", &admin]).copied().collect();
    let told = ground.run(&args).await;
    let lines = told.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")));
    (told.code, lines.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_decides_about_an_action_in_doubt_once_and_the_lane_opens_l8_x3() {
    let ground = doubtful().await;
    let other = json!({ "connector": "magento", "tool": "orders.hold", "args": { "order": "1" }, "entity_key": "kim", "idempotency_key": "k" });
    let (code, results) = run(&ground, &json!([send(), other, send()])).await;
    assert_eq!(code, 1, "{results:#?}");
    assert_eq!((&results[0]["decision"], &results[0]["ok"]), (&json!("ALLOW"), &json!(false)));
    assert_eq!(results[1]["code"], "lane-in-doubt", "{results:#?}");
    assert_eq!(ground.service.count(), 1, "and not sent again");
    let edge = ground.serve().await;
    let (_, lanes) = asked(&ground, &edge, &["lanes", "--tenant", "acme"]).await;
    assert_eq!(
        (&lanes[0]["entity_key"], &lanes[0]["closed_by"]["state"]),
        (&json!("kim"), &json!("in_doubt")),
        "{lanes:#?}"
    );
    let (_, waiting) = asked(&ground, &edge, &["approvals", "list"]).await;
    assert_eq!(waiting.len(), 1, "{waiting:#?}");
    assert!(waiting[0]["cause"].as_str().unwrap().starts_with("lost/send on kim: "), "{waiting:#?}");
    let id = waiting[0]["operation_id"].as_str().unwrap();
    // An answer of HTTP is no answer of a tool.
    let body = format!("{}/body.json", ground.folder.path().display());
    std::fs::write(&body, "{}").unwrap();
    let (code, _) = asked(
        &ground,
        &edge,
        &["claims", "resolve", id, "--settle-status", "201", "--settle-body", &body, "--reason", "r"],
    )
    .await;
    assert_eq!(code, 1);
    let (code, _) = asked(
        &ground,
        &edge,
        &["approvals", "confirm", id, "--digest", "00", "--epoch", "1.1", "--reason", "r"],
    )
    .await;
    assert_eq!(code, 2, "another action than the one that was seen");
    let confirm = [
        "approvals",
        "confirm",
        id,
        "--result",
        "{\"sent\": true}",
        "--reason",
        "the service has it",
        "--by",
        "kim",
    ];
    let (code, told) = asked(&ground, &edge, &confirm).await;
    assert_eq!((code, &told[0]["claim"]["state"]), (0, &json!("settled")), "{told:#?}");
    assert_eq!(asked(&ground, &edge, &confirm).await.0, 1, "it is used once");
    assert_eq!(asked(&ground, &edge, &["lanes", "--tenant", "acme"]).await.1.len(), 0, "the lane is open");
    let (_, receipts) =
        asked(&ground, &edge, &["receipts", "list", "--tenant", "acme", "--key", "kim:send"]).await;
    let decisions: Vec<_> = receipts.iter().map(|receipt| receipt["decision"].as_str().unwrap()).collect();
    assert_eq!(decisions, ["confirm", "BLOCK", "ALLOW"], "{receipts:#?}");
    assert_eq!((&receipts[0]["by"], &receipts[2]["connector"]), (&json!("admin/kim"), &json!("lost")));
    let (_, head) = asked(&ground, &edge, &["receipts", "head", "--tenant", "acme"]).await;
    assert_eq!((&head[0]["receipts"], &head[0]["hash"]), (&json!(4), &receipts[0]["hash"]));
    let whole = edge.ask("GET /v1/receipts/acme/verify", "").await.json();
    assert_eq!(
        (&whole["receipts"], &whole["broken"], &whole["hash"]),
        (&json!(4), &json!(null), &receipts[0]["hash"])
    );
    let audit = edge.ask("GET /v1/audit", "").await.json();
    assert_eq!(
        (&audit["events"][0]["verb"], &audit["events"][0]["actor"]),
        (&json!("resolve-settle"), &json!("admin/kim"))
    );
    edge.kill();
    let (code, results) = run(&ground, &json!([send(), other])).await;
    assert_eq!((code, &results[0]["decision"]), (0, &json!("DEDUP")), "{results:#?}");
    assert_eq!(results[0]["result"], json!({ "sent": true }), "in the agent's own form");
    assert_eq!(ground.service.count(), 2);
    let config = ground.folder.path().join("actions.toml").display().to_string();
    let told = ground.run(&["verify", "--config", &config, "--receipts", "acme"]).await;
    assert!(
        told.code == 0 && told.out.contains("sound  receipts/acme  6 events"),
        "{} {}",
        told.out,
        told.err
    );
    assert_eq!(ground.run(&["verify", "--config", &config, "--receipts", "umbrella"]).await.code, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_a_person_releases_may_be_proposed_again_l8() {
    let ground = doubtful().await;
    run(&ground, &json!([send()])).await;
    let edge = ground.serve().await;
    let (_, waiting) = asked(&ground, &edge, &["approvals", "list", "--tenant", "acme"]).await;
    let id = waiting[0]["operation_id"].as_str().unwrap();
    let release = ["approvals", "release", id, "--force", "--reason", "the service has not"];
    let (code, told) = asked(&ground, &edge, &release).await;
    assert_eq!((code, &told[0]["claim"]["state"]), (0, &json!("released")), "{told:#?}");
    assert_eq!(asked(&ground, &edge, &["approvals", "show", id]).await.0, 1);
    edge.kill();
    run(&ground, &json!([send()])).await;
    assert_eq!(ground.service.count(), 2, "proposed again, it ran");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watched_action_raises_one_alert_and_a_repeated_one_none_until_a_person_has_seen_it_x6() {
    let ground = ground(Kind::Embedded).await;
    run(&ground, &json!([hold(), hold()])).await;
    run(&ground, &json!([hold()])).await;
    let edge = ground.serve().await;
    let (_, alerts) = asked(&ground, &edge, &["alerts", "list"]).await;
    assert_eq!(alerts.len(), 1, "{alerts:#?}");
    assert_eq!(
        (&alerts[0]["tool"], &alerts[0]["rule"]),
        (&json!("orders.hold"), &json!("holds are watched"))
    );
    let counts = edge.ask("GET /v1/attention", "").await.json()["counts"].clone();
    assert_eq!(counts["alerts"], 1, "{counts}");
    let id = alerts[0]["id"].as_str().unwrap();
    let acknowledge = ["alerts", "acknowledge", id, "--reason", "looked at it", "--by", "kim"];
    assert_eq!(asked(&ground, &edge, &acknowledge).await.0, 0);
    assert_eq!(asked(&ground, &edge, &acknowledge).await.0, 1);
    assert_eq!(asked(&ground, &edge, &["alerts", "list"]).await.1.len(), 0);
    assert_eq!(edge.ask("GET /v1/attention", "").await.json()["counts"]["alerts"], 0);
    let audit = edge.ask("GET /v1/audit", "").await.json();
    let seen = |event: &Value| event["verb"] == "alert-acknowledge" && event["actor"] == "admin/kim";
    assert!(audit["events"].as_array().unwrap().iter().any(seen), "{audit}");
    let (_, watched) =
        asked(&ground, &edge, &["receipts", "list", "--tenant", "acme", "--decision", "ALERT"]).await;
    assert_eq!((watched.len(), &watched[0]["rule"]), (1, &json!("holds are watched")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_plans_of_its_callers_for_their_tenant_and_project_and_other_rules_with_a_reload_x1_x6()
 {
    let mut ground = ground(Kind::Embedded).await;
    let edge = ground.serve().await;
    let app = App::new(&edge, ALICE);
    let told = app.ask("POST", "/v1/plans", &json!([hold(), hold()]).to_string()).await;
    assert_eq!(told.status, 200, "{}", told.text());
    let results = told.json();
    assert_eq!((&results[0]["decision"], &results[0]["ok"]), (&json!("ALERT"), &json!(true)), "{results:#}");
    assert_eq!(results[1], json!({ "action": hold(), "decision": "DEDUP", "ok": true }));
    assert_eq!(ground.service.count(), 1);
    // One waits in the lane while another one of it is done; their receipts are appended to a journal.
    let gauge = async |name: &str| {
        let text = edge.ask("GET /metrics", "").await.text();
        let value =
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("{name} in {text}"))
    };
    assert!(gauge("hapax_journal_appends_total").await >= 1.0);
    assert_eq!(gauge("hapax_lanes_waiting").await, 0.0);
    ground.service.hold();
    let plans = ["3", "4"].map(|key| {
        let action = json!({ "connector": "magento", "tool": "orders.hold", "args": { "order": key }, "entity_key": "waits", "idempotency_key": key });
        tokio::spawn(async move { app.post("/v1/plans", json!([action])).await })
    });
    eventually("one of the two waits", async || gauge("hapax_lanes_waiting").await == 1.0).await;
    ground.service.let_go();
    for plan in plans {
        assert_eq!(plan.await.unwrap()[0]["ok"], true);
    }
    assert_eq!(gauge("hapax_lanes_waiting").await, 0.0);
    assert_eq!(ground.service.count(), 3);
    let (status, code, _) = app.refused("/v1/plans", json!(vec![hold(); 10_001])).await;
    assert_eq!((status, code.as_str()), (400, "request-malformed"));
    assert_eq!(app.refused("/v1/plans", json!([{ "connector": "magento" }])).await.0, 400);
    // A rule that is none keeps what there is, and is told with its place.
    let good = ground.sections.clone();
    ground.sections = good.replace("args.amount > 1000", "amount > 1000");
    ground.write("hapax");
    edge.reload();
    edge.tells("the configuration was not reloaded").await;
    edge.tells("no variable is called \"amount\"").await;
    let third = json!({ "connector": "magento", "tool": "orders.refund", "args": { "order": "5", "amount": 5000 }, "entity_key": "e", "idempotency_key": "5" });
    let results = app.post("/v1/plans", json!([third])).await;
    assert_eq!(results[0]["error"], "blocked by trust policy", "the old rule holds: {results:#}");
    ground.sections = good.replace("decision = \"ALERT\"", "decision = \"BLOCK\"");
    ground.write("hapax");
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    let other = json!({ "connector": "magento", "tool": "orders.hold", "args": { "order": "2" }, "entity_key": "e", "idempotency_key": "2" });
    let results = app.post("/v1/plans", json!([other])).await;
    assert_eq!(
        (&results[0]["decision"], &results[0]["error"]),
        (&json!("BLOCK"), &json!("blocked by trust policy"))
    );
    assert_eq!(ground.service.count(), 3);
}
