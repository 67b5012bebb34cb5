//! `hapax actions`, run as a user would run it: the source's walkthrough, and what is refused before anything happens (X).

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::claims_cli::Told;
use crate::rig::{Ground, Kind};

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

pub(crate) async fn actions(ground: &Ground, verb: &str, plan: &Value, more: &[&str]) -> Told {
    let config = ground.folder.path().join("actions.toml");
    std::fs::write(&config, ground.configuration()).unwrap();
    let file = ground.folder.path().join(format!("plan-{}.json", NEXT.fetch_add(1, Ordering::SeqCst)));
    std::fs::write(&file, plan.to_string()).unwrap();
    let (config, file) = (config.display().to_string(), file.display().to_string());
    let mut args = vec!["actions", verb, "--config", &config, "--plan", &file];
    args.extend(more);
    ground.run(&args).await
}

const WHOSE: [&str; 5] = ["--tenant", "acme", "--project", "health-prod", "--json"];

async fn run(ground: &Ground, plan: &Value) -> (u8, Vec<Value>) {
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
        action("orders.hold", json!({}), "e"),
        gone,
        action("orders.get", json!({ "order": "7" }), "f"),
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
            ("ALERT", false, Some("attempt-failed")),
            ("ALLOW", false, Some("attempt-failed")),
            ("ALLOW", true, None),
        ],
        "{results:#?}"
    );
    assert_eq!(results[0]["error"], "blocked by trust policy");
    assert_eq!(ground.service.count(), 2, "a refund and a read");
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
