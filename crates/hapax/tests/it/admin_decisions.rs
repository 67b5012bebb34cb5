//! What operators decide over the admin listener: resolve, reopen, purge, erase (L8).

use std::time::Duration;

use hapax_exec::How;
use serde_json::{Value, json};

use crate::office::{Office, call, each};

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// A decision about the epoch that the claim has.
async fn about(office: &Office, id: &str, more: Value) -> Value {
    let mut body = json!({"epoch": office.claim(id).await["epoch"], "reason": "looked at the bank's list"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn a_doubt_that_is_released_runs_again_l8() {
    each(async |office| {
        let id = office.doubt("order-1").await;
        assert!(office.retry("order-1").await.is_err(), "nothing runs while it is in doubt");
        let body = about(office, &id, json!({"release": true, "by": "alice"})).await;
        let done = office.decide(&id, "resolve", body).await;
        assert_eq!(done.status, 200, "{}", done.body);
        assert_eq!(
            (&done.json()["done"], &done.json()["claim"]["state"]),
            (&json!("resolve-release"), &json!("released"))
        );
        assert_eq!(office.retry("order-1").await.unwrap().how, How::Executed);
        let event = office.get("/v1/audit").await.json()["events"][0].clone();
        assert_eq!(
            (text(&event["verb"]), text(&event["actor"])),
            ("resolve-release".into(), "ops/alice".into())
        );
        assert_eq!(
            (&event["operation_id"], &event["reason"]),
            (&json!(id), &json!("looked at the bank's list"))
        );
    })
    .await;
}

#[tokio::test]
async fn a_release_waits_for_the_former_run_unless_it_is_forced_l8() {
    each(async |office| {
        let id = office.doubt_with(call("order-1").give_up(Duration::from_secs(900))).await;
        let body = about(office, &id, json!({"release": true})).await;
        let refused = office.decide(&id, "resolve", body).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "claim-may-still-run"));
        let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=900).contains(&after), "{after}");
        assert_eq!(refused.json()["claim"]["state"], "in_doubt");
        let body = about(office, &id, json!({"release": true, "force": true})).await;
        assert_eq!(office.decide(&id, "resolve", body).await.status, 200);
        assert_eq!(office.claim(&id).await["state"], "released");
    })
    .await;
}

#[tokio::test]
async fn a_doubt_that_is_settled_answers_from_then_on_l8() {
    each(async |office| {
        let id = office.doubt("order-1").await;
        let before = text(&office.claim(&id).await["epoch"]);
        let settle = json!({
            "status": 201, "headers": {"Content-Type": "text/plain", "x-tag": ["a", "b"]},
            "body_base64": "aGVsbG8=", "retention": "7d"
        });
        let body = about(office, &id, json!({"settle": settle})).await;
        let done = office.decide(&id, "resolve", body).await;
        assert_eq!(done.status, 200, "{}", done.body);
        let claim = &done.json()["claim"];
        assert_eq!((&claim["state"], &claim["settled_by"]), (&json!("settled"), &json!("operator")));
        assert_ne!(text(&claim["epoch"]), before, "a later settle of the former run must be refused");
        let kept = office.retry("order-1").await.unwrap();
        assert_eq!(kept.how, How::Replayed);
        let shown = office
            .send("GET", &format!("/v1/claims/{id}?outcome=true"), crate::office::OPERATOR, "")
            .await
            .json();
        assert_eq!(shown["outcome"]["body_base64"], "aGVsbG8=");
        assert_eq!(shown["outcome"]["headers"], json!({"content-type": "text/plain", "x-tag": ["a", "b"]}));
        assert_eq!(
            (&shown["outcome"]["kind"], &shown["outcome"]["status"]),
            (&json!("succeeded"), &json!(201))
        );

        let refusal = office.doubt("order-2").await;
        let body = about(office, &refusal, json!({"settle": {"status": 402}})).await;
        assert_eq!(
            office.decide(&refusal, "resolve", body).await.json()["claim"]["outcome"]["kind"],
            "refused"
        );
    })
    .await;
}

#[tokio::test]
async fn of_two_operators_who_saw_the_same_one_wins_l8() {
    each(async |office| {
        let id = office.doubt("order-1").await;
        let release = about(office, &id, json!({"release": true})).await;
        let settle = about(office, &id, json!({"settle": {"status": 201}})).await;
        let (one, other) =
            tokio::join!(office.decide(&id, "resolve", release), office.decide(&id, "resolve", settle));
        let (won, lost) = if one.status == 200 { (one, other) } else { (other, one) };
        assert_eq!((won.status, lost.status), (200, 409), "{} {}", won.body, lost.body);
        assert!(["claim-changed", "claim-not-applicable"].contains(&lost.code().as_str()), "{}", lost.body);
        assert_eq!(lost.json()["claim"], won.json()["claim"], "the loser is told what the claim is now");
        let audit = office.get("/v1/audit").await.json();
        let refused = |event: &&Value| !event["refused"].is_null();
        let events = audit["events"].as_array().unwrap();
        assert_eq!((events.len(), events.iter().filter(refused).count()), (2, 1), "{audit}");
    })
    .await;
}

#[tokio::test]
async fn a_decision_about_an_epoch_that_is_over_is_refused_l8() {
    each(async |office| {
        let id = office.settled("order-1", "first").await;
        let seen = about(office, &id, json!({})).await;
        assert_eq!(office.decide(&id, "reopen", seen.clone()).await.status, 200);
        office.retry("order-1").await.unwrap();
        let late = office.decide(&id, "purge", seen).await;
        assert_eq!((late.status, late.code().as_str()), (409, "claim-changed"));
        assert_eq!(late.json()["claim"]["epoch"], office.claim(&id).await["epoch"]);
        assert!(office.exists(&id).await);
    })
    .await;
}

#[tokio::test]
async fn a_settled_claim_is_reopened_purged_or_erased_l8() {
    each(async |office| {
        let id = office.settled("reopened", "first").await;
        let body = about(office, &id, json!({})).await;
        assert_eq!(office.decide(&id, "reopen", body).await.json()["claim"]["state"], "released");
        assert_eq!(office.retry("reopened").await.unwrap().how, How::Executed);
        let event = office.get("/v1/audit?limit=1").await.json()["events"][0].clone();
        assert_eq!((&event["verb"], &event["outcome"]["kind"]), (&json!("reopen"), &json!("succeeded")));

        let id = office.settled("purged", "first").await;
        let body = about(office, &id, json!({})).await;
        let purged = office.decide(&id, "purge", body.clone()).await.json();
        assert_eq!((&purged["epoch"], &purged["claim"]), (&Value::Null, &Value::Null));
        assert_eq!(office.decide(&id, "purge", body).await.status, 404);
        assert!(!office.exists(&id).await);
        assert_eq!(office.retry("purged").await.unwrap().how, How::Executed);

        let id = office.settled("erased", "first").await;
        let body = about(office, &id, json!({})).await;
        assert_eq!(office.decide(&id, "erase", body).await.json()["claim"]["outcome"]["kind"], "erased");
        let retried = office.retry("erased").await;
        assert!(
            !matches!(&retried, Ok(done) if done.how == How::Executed),
            "the key stays used up: {retried:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_decision_that_does_not_fit_says_what_does_l8() {
    let office = Office::in_memory().await;
    let (doubt, held, settled) =
        (office.doubt("doubt").await, office.held("held").await, office.settled("settled", "x").await);
    for (id, verb, more, why) in [
        (&doubt, "purge", json!({}), "can be resolved"),
        (&doubt, "erase", json!({}), "can be resolved"),
        (&held, "resolve", json!({"release": true, "force": true}), "wait until it has ended"),
        (&held, "purge", json!({}), "wait until it has ended"),
        (&settled, "resolve", json!({"settle": {"status": 200}}), "reopened, purged or erased"),
    ] {
        let state = office.claim(id).await["state"].clone();
        let body = about(&office, id, more).await;
        let refused = office.decide(id, verb, body).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "claim-not-applicable"),
            "{}",
            refused.body
        );
        assert!(text(&refused.json()["detail"]).contains(why), "{}", refused.body);
        assert_eq!(office.claim(id).await["state"], state);
    }
    let audit = office.get("/v1/audit").await.json();
    assert!(audit["events"].as_array().unwrap().iter().all(|event| !event["refused"].is_null()), "{audit}");
}

#[tokio::test]
async fn decisions_that_cannot_be_understood_change_nothing() {
    let office = Office::in_memory().await;
    let id = office.doubt("order-1").await;
    let epoch = text(&office.claim(&id).await["epoch"]);
    let with = |more: Value| {
        let mut body = json!({"epoch": epoch, "reason": "r"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    let long = "x".repeat(1025);
    for (body, why) in [
        (String::new(), "JSON"),
        ("{".into(), "JSON"),
        ("[]".into(), "JSON"),
        ("\u{1}".into(), "JSON"),
        (json!({"reason": "r", "release": true}).to_string(), "missing field `epoch`"),
        (json!({"epoch": epoch, "release": true}).to_string(), "missing field `reason`"),
        (with(json!({"reason": "", "release": true})), "state a reason"),
        (with(json!({"reason": " ", "release": true})), "state a reason"),
        (with(json!({"reason": long, "release": true})), "state a reason"),
        (with(json!({"reason": "a\nb", "release": true})), "state a reason"),
        (with(json!({"epoch": "7", "release": true})), "epoch"),
        (with(json!({"epoch": 7, "release": true})), "JSON"),
        (with(json!({})), "either"),
        (with(json!({"force": true})), "either"),
        (with(json!({"release": true, "settle": {"status": 200}})), "either"),
        (with(json!({"force": true, "settle": {"status": 200}})), "force belongs to release"),
        (with(json!({"relase": true})), "unknown field"),
        (with(json!({"release": true, "by": "a\u{7}"})), "printable"),
        (with(json!({"settle": {"status": 199}})), "200 to 599"),
        (with(json!({"settle": {"status": 600}})), "200 to 599"),
        (with(json!({"settle": {"status": 200, "body_base64": "%%%"}})), "base64"),
        (with(json!({"settle": {"status": 200, "retention": "soon"}})), "span of time"),
        (with(json!({"settle": {"status": 200, "headers": {"a b": "c"}}})), "no name of a header"),
        (with(json!({"settle": {"status": 200, "headers": {"a": "b\r\nc: d"}}})), "control characters"),
        (with(json!({"settle": {"status": 200, "headers": {"Set-Cookie": "a=b"}}})), "does not have it"),
        (with(json!({"settle": {"status": 200, "headers": {"Content-Length": "9"}}})), "does not have it"),
        (
            with(json!({"settle": {"status": 200, "headers": {"Proxy-Authorization": "a"}}})),
            "does not have it",
        ),
        (
            with(json!({"settle": {"status": 200, "headers": {"Idempotency-Body-Not-Kept": "true"}}})),
            "does not",
        ),
        (with(json!({"settle": {"status": 200, "headers": {"Idempotency-Outcome": "keep"}}})), "does not"),
        (with(json!({"settle": {"status": 200, "headers": {"X-Operation-Epoch": "1"}}})), "does not have it"),
        (with(json!({"settle": {"status": 200, "headers": {"X-Restate-Id": "1"}}})), "does not have it"),
        (with(json!({"settle": {"status": 204, "body_base64": "YQ=="}})), "has no body"),
        (with(json!({"settle": {"status": 205, "body_base64": "YQ=="}})), "has no body"),
        (with(json!({"settle": {"status": 304, "body_base64": "YQ=="}})), "has no body"),
    ] {
        let answer =
            office.send("POST", &format!("/v1/claims/{id}/resolve"), crate::office::OPERATOR, &body).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "request-malformed"),
            "{body}: {}",
            answer.body
        );
        assert!(text(&answer.json()["detail"]).contains(why), "{body}: {}", answer.body);
    }
    assert_eq!(office.claim(&id).await["state"], "in_doubt");
    let absent = "op_00000000000000000000000000000000";
    for (id, status) in [(absent, 404), ("op_7", 400), ("count", 400)] {
        let body: Value = serde_json::from_str(&with(json!({"release": true}))).unwrap();
        assert_eq!(office.decide(id, "resolve", body).await.status, status, "{id}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let office = Office::in_memory().await;
    let id = office.doubt("order-1").await;
    let body = format!("{{\"reason\": \"{}\"}}", "x".repeat(3 << 20));
    let path = format!("/v1/claims/{id}/resolve");
    // Without a length, so that it is the reading that ends it.
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n",
        crate::office::OPERATOR,
        body.len()
    );
    let answer = office.raw(&format!("{head}{body}\r\n0\r\n\r\n")).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "body-too-large"));
}
