//! What people see of agents' actions, and that what is printed can be done (X6, X8, L8, M2).

use serde_json::{Value, json};

use crate::actions_cli::{asked, doubtful, ground, hold, run, send};
use crate::claims_cli::Told;
use crate::rig::{Ground, Hapax, Kind};

/// What a command that asks a server prints for people.
async fn printed(ground: &Ground, edge: &Hapax, args: &[&str]) -> Told {
    let admin = format!("http://{}", edge.admin);
    ground.run(&[args, &["--admin", &admin]].concat()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_printed_about_an_action_in_doubt_can_be_done_l8_m2() {
    let ground = doubtful().await;
    run(&ground, &json!([send()])).await;
    let edge = ground.serve().await;
    let (_, waiting) = asked(&ground, &edge, &["approvals", "list"]).await;
    let id = waiting[0]["operation_id"].as_str().unwrap();
    let told = printed(&ground, &edge, &["claims", "show", id]).await;
    for command in [format!("hapax approvals confirm {id}"), format!("hapax approvals release {id}")] {
        assert!(told.err.contains(&command), "{command}: {}", told.err);
    }
    assert!(!told.err.contains("claims resolve"), "{}", told.err);
    let done = printed(&ground, &edge, &["approvals", "confirm", id, "--reason", "TEXT"]).await;
    assert_eq!(done.code, 0, "{}", done.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alert_is_acknowledged_by_the_id_that_is_printed_also_in_the_attention_queue_x6_m2() {
    let ground = ground(Kind::Embedded).await;
    let other = |number: u32| json!({ "connector": "magento", "tool": "orders.hold", "args": { "order": number }, "entity_key": "e", "idempotency_key": number.to_string() });
    run(&ground, &json!([hold(), other(1)])).await;
    let edge = ground.serve().await;
    let first_cell = |told: &Told| {
        let line = told.out.lines().nth(1).unwrap_or_else(|| panic!("{} {}", told.out, told.err));
        line.split_whitespace().next().unwrap().to_owned()
    };
    let told = printed(&ground, &edge, &["alerts", "list"]).await;
    let seen =
        printed(&ground, &edge, &["alerts", "acknowledge", &first_cell(&told), "--reason", "seen"]).await;
    assert_eq!(seen.code, 0, "{}", seen.err);
    let attention = edge.ask("GET /v1/attention", "").await.json();
    let items = attention["items"].as_array().unwrap();
    assert_eq!((items.len(), &attention["counts"]["alerts"]), (1, &json!(1)), "{attention:#}");
    assert_eq!(items[0]["kind"], "action-alert");
    let text = items[0]["text"].as_str().unwrap();
    assert!(text.contains("magento/orders.hold on e") && text.contains("holds are watched"), "{text}");
    let told = printed(&ground, &edge, &["attention", "list"]).await;
    let id = first_cell(&told);
    let seen = printed(&ground, &edge, &["attention", "acknowledge", &id, "--reason", "seen"]).await;
    assert_eq!(seen.code, 0, "{}", seen.err);
    let attention = edge.ask("GET /v1/attention", "").await.json();
    assert_eq!((&attention["items"], &attention["counts"]["alerts"]), (&json!([]), &json!(0)));
    assert_eq!(asked(&ground, &edge, &["alerts", "list"]).await.1.len(), 0);
    let audit = edge.ask("GET /v1/audit", "").await.json();
    let acknowledged = |event: &&Value| event["verb"] == "alert-acknowledge";
    assert_eq!(audit["events"].as_array().unwrap().iter().filter(acknowledged).count(), 2, "{audit:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_receipts_and_alerts_keep_can_be_read_x8() {
    let mut ground = ground(Kind::Embedded).await;
    ground.sections = ground.sections.replace("[actions]\n", "[actions]\nreceipts = \"full\"\n");
    run(&ground, &json!([hold()])).await;
    let edge = ground.serve().await;
    let (_, receipts) = asked(&ground, &edge, &["receipts", "list", "--tenant", "acme"]).await;
    assert_eq!(receipts[0]["args"], hold()["args"], "{receipts:#?}");
    let (_, alerts) = asked(&ground, &edge, &["alerts", "list"]).await;
    assert_eq!(alerts[0]["args"], hold()["args"], "{alerts:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_is_reopened_or_purged_says_so_in_its_receipts_l8_x8() {
    let ground = ground(Kind::Embedded).await;
    for verb in ["reopen", "purge"] {
        run(&ground, &json!([hold()])).await;
        let edge = ground.serve().await;
        let claims = edge.ask("GET /v1/claims?operation=action", "").await.json();
        let id = claims["claims"][0]["operation_id"].as_str().unwrap_or_else(|| panic!("{claims:#}"));
        let told = printed(&ground, &edge, &["claims", verb, id, "--reason", "once more"]).await;
        assert_eq!(told.code, 0, "{} {}", told.out, told.err);
        let (_, receipts) = asked(&ground, &edge, &["receipts", "list", "--tenant", "acme"]).await;
        assert_eq!(
            (&receipts[0]["decision"], &receipts[0]["key"], &receipts[0]["ok"], &receipts[0]["reason"]),
            (&json!(verb), &hold()["idempotency_key"], &json!(false), &json!("once more")),
            "{receipts:#?}"
        );
        edge.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_that_was_changed_is_found_with_its_place_x8() {
    let ground = ground(Kind::Embedded).await;
    run(&ground, &json!([hold(), hold(), hold()])).await;
    let folder = ground.store.strip_prefix("embedded:").unwrap();
    let sql = rusqlite::Connection::open(format!("{folder}/hapax.db")).unwrap();
    let changed = sql
        .execute(
            "UPDATE events SET payload = CAST(replace(CAST(payload AS TEXT), 'DEDUP', 'ALLOW') AS BLOB) WHERE id & 0xffffffff = 1 \
             AND id >> 32 = (SELECT id FROM streams WHERE name = 'receipts/acme')",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    drop(sql);
    let config = ground.folder.path().join("actions.toml").display().to_string();
    let told = ground.run(&["verify", "--config", &config, "--receipts", "acme", "--json"]).await;
    let found: Value =
        serde_json::from_str(&told.out).unwrap_or_else(|_| panic!("{} {}", told.out, told.err));
    assert_eq!((told.code, &found["broken"]["position"]), (1, &json!(1)), "{found:#}");
    let edge = ground.serve().await;
    let whole = edge.ask("GET /v1/receipts/acme/verify", "").await.json();
    assert_eq!(whole["broken"]["position"], 1, "{whole:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_honours_the_key_is_called_again_with_it_after_no_answer_x10() {
    let mut ground = doubtful().await;
    ground.sections = ground.sections.replace("path = \"/send\"\n", "path = \"/send\"\nvendor_key = true\n");
    for times in 1..=2 {
        let (code, results) = run(&ground, &json!([send()])).await;
        assert_eq!((code, &results[0]["code"]), (1, &json!("attempt-failed")), "{results:#?}");
        assert_eq!(ground.service.count(), times);
    }
    let done = ground.service.done();
    let key = |at: usize| done[at].header("idempotency-key").unwrap();
    assert_eq!(key(0), key(1), "the same key");
}
