//! What callers are told when a handler fails, is killed, is paused, or takes too long (D, errors).

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::rig::caller::ALICE;

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_error_keeps_status_and_message_and_is_replayed_alike_h3() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    for (key, status, message) in
        [("a", 402, "no funds"), ("b", 409, "taken"), ("c", 500, "broken"), ("d", 404, "not found")]
    {
        let body = json!({ "status": status, "message": message }).to_string();
        let first = post(&edge, ALICE, "/refusals", key, &body).await;
        assert_eq!(
            (first.status, first.json()),
            (status, json!({ "code": status, "message": message })),
            "{first:?}"
        );
        assert!(!first.is_replay(), "{first:?}");
        let again = post(&edge, ALICE, "/refusals", key, &body).await;
        assert_eq!((again.status, again.is_replay(), &again.body), (status, true, &first.body), "{again:?}");
        shows_nothing_of_the_cluster(&first);
    }
    assert_eq!(ground.count("refuse"), 4);
    let metrics = edge.ask("GET /metrics", "").await.text();
    assert!(metrics.contains("restate_status=\"terminal_error\""), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_killed_cancelled_or_paused_is_told_so_and_nobody_hangs_h2() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    // Killed by its own policy, and again for a retry; for another body it is another one's key.
    for replay in [false, true] {
        let got = post(&edge, ALICE, "/kills", "k", "{}").await;
        if got.status != 409 || got.problem().1 != "operation-killed" {
            // What the policy leaves behind is the handler's last failure.
            assert_eq!(got.status, 500, "{replay} {got:?}");
        }
        shows_nothing_of_the_cluster(&got);
    }
    for (verb, code) in [("kill", "operation-killed"), ("cancel", "operation-cancelled")] {
        let waiting = edge.begin("/never", verb, "", "");
        let id = running(&ground, "never").await;
        let (status, _) = ground.restate.admin("PATCH", &format!("/invocations/{id}/{verb}"), "");
        assert!((200..300).contains(&status), "{status}");
        let got = waiting.await.unwrap().expect("an answer");
        assert_eq!(got.problem(), (409, code.into()), "{got:?}");
        assert_eq!(got.json()["retryable"], false);
        let again = post(&edge, ALICE, "/never", verb, "").await;
        assert_eq!(again.problem(), (409, code.into()), "{again:?}");
        assert!(!got.is_replay() && again.is_replay(), "{got:?} {again:?}");
        assert_eq!(again.header("x-operation-id"), got.header("x-operation-id"));
    }
    let begun = Instant::now();
    let paused = post(&edge, ALICE, "/pauses", "p", "{}").await;
    assert_eq!(paused.problem(), (409, "outcome-unknown".into()), "{paused:?}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(paused.header("retry-after").is_some() && paused.header("x-operation-id").is_some());
}

/// The invocation of a handler that is under way.
async fn running(ground: &Ground, handler: &str) -> String {
    let query = format!(
        "SELECT id FROM sys_invocation WHERE target_handler_name = '{handler}' AND status IN ('running', 'suspended')"
    );
    let begun = Instant::now();
    loop {
        if let Some(row) = ground.restate.query(&query).first() {
            return row["id"].as_str().unwrap().to_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_takes_too_long_is_a_504_and_a_retry_gets_its_outcome_h5() {
    for upstream in ["timeout = \"700ms\"", "timeout = \"700ms\"\nclassify = \"marker\""] {
        let ground = Ground::new(1, "").await.with(upstream);
        let edge = ground.edge("one").await;
        let body = r#"{"millis": 1500}"#;
        let begun = Instant::now();
        let late = post(&edge, ALICE, "/echo", "late", body).await;
        assert_eq!(late.problem(), (504, "upstream-timeout".into()), "{late:?}");
        assert!(begun.elapsed() < Duration::from_secs(5) && late.json()["retryable"] == true);
        let done = loop {
            let got = post(&edge, ALICE, "/echo", "late", body).await;
            match got.status {
                504 => assert!(begun.elapsed() < Duration::from_secs(20), "{got:?}"),
                _ => break got,
            }
        };
        assert_eq!((done.status, ground.count("echo")), (200, 1), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_compared_is_not_handed_out_d4() {
    let mut ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let first = post(&edge, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
    assert_eq!(first.status, 200);
    let rows = ground.restate.query("SELECT id FROM sys_invocation WHERE target_handler_name = 'echo'");
    let id = rows[0]["id"].as_str().unwrap().to_owned();
    let (status, _) = ground.restate.admin("PATCH", &format!("/invocations/{id}/purge-journal"), "");
    assert!((200..300).contains(&status));
    let gone = post(&edge, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
    assert_eq!(gone.problem(), (409, "outcome-not-kept".into()), "{gone:?}");
    // An edge that cannot ask the admin API: fresh calls go, retries that must be compared do not.
    let nobody = hapax_testkit::port::Port::reserve().unwrap();
    let text = ground.configuration();
    let from = format!("admin = [\"http://{}\"]", ground.restate.admins()[0]);
    let text = text.replace(&from, &format!("admin = [\"http://{}\"]", nobody.address()));
    let path = ground.folder.path().join("away.toml");
    std::fs::write(&path, text).unwrap();
    let away = Hapax::start(&path, &[]).await;
    assert_eq!(post(&away, ALICE, "/echo", "new", r#"{"a": 1}"#).await.status, 200);
    let refused = post(&away, ALICE, "/echo", "new", r#"{"a": 1}"#).await;
    assert_eq!(refused.problem(), (503, "ledger-unavailable".into()), "{refused:?}");
    // And nothing at all answers.
    ground.restate.kill(0);
    let lost = post(&edge, ALICE, "/echo", "lost", "{}").await;
    assert_eq!(
        (lost.problem(), &lost.json()["executed"]),
        ((502, "upstream-unreachable".into()), &json!("unknown"))
    );
}
