//! Keys, attempts, errors and the journal of the plain client.

use std::time::{Duration, Instant};

use hapax_client::{Client, IdempotencyKey, Kind, Plain409, RetryPolicy};
use hapax_core::{Executed, Retry};
use hapax_testkit::lines::Lines;

use crate::server::{Do, Server, WHOLE};

const PROBLEM: &str = "content-type: application/problem+json\r\n";

fn quick(attempts: u32) -> RetryPolicy {
    RetryPolicy::new(attempts, Duration::from_millis(1), Duration::from_millis(5), 0.1).unwrap()
}

fn client(server: &Server) -> Client {
    Client::builder(server.url()).policy(quick(3)).build().unwrap()
}

#[tokio::test]
async fn every_post_and_patch_has_a_fresh_key_and_nothing_else_has_one_c1() {
    let server = Server::start([]).await;
    let client = client(&server);
    client.post("/a").json(&serde_json::json!({"amount": 10})).send().await.unwrap();
    client.patch("/a").send().await.unwrap();
    client.put("/a").send().await.unwrap();
    client.get("/a").send().await.unwrap();
    client.delete("/a").send().await.unwrap();
    let keys = server.keys();
    let (first, second) = (keys[0].clone().unwrap(), keys[1].clone().unwrap());
    assert_ne!(first, second);
    assert_eq!(first.len(), 36, "a UUID: {first}");
    assert_eq!(keys[2..], [None, None, None]);
    assert_eq!(server.came()[0].body, "{\"amount\":10}");
}

#[tokio::test]
async fn all_attempts_of_a_call_share_their_key_and_what_they_send_c1() {
    let down = Do::Answer(503, "", "");
    let server = Server::start([
        down.clone(),
        Do::Cut(0),
        Do::Answer(201, "idempotent-replayed: true\r\n", "charged"),
    ])
    .await;
    let answer = client(&server).post("/charges").key("order-42").body("ten").send().await.unwrap();
    assert_eq!((answer.status(), answer.text().as_str(), answer.attempts()), (201, "charged", 3));
    assert!(answer.is_replayed());
    assert_eq!(answer.key(), Some("order-42"));
    assert_eq!(server.keys(), vec![Some("order-42".to_owned()); 3]);
    assert!(server.came().iter().all(|came| came.body == "ten"));
}

#[tokio::test]
async fn without_a_key_a_post_is_one_attempt_c1() {
    for plan in [Do::Answer(503, "", ""), Do::Cut(0)] {
        let server = Server::start([plan]).await;
        let error = client(&server).post("/a").no_key().send().await.unwrap_err();
        assert!(matches!(error.kind(), Kind::Server | Kind::Network));
        assert_eq!(error.retry(), Retry::Never, "another attempt could do it twice");
        assert_eq!(server.keys(), [None]);
    }
    let server = Server::start([Do::Answer(503, "", "")]).await;
    assert_eq!(client(&server).get("/a").send().await.unwrap().attempts(), 2, "a GET can be repeated");
}

#[tokio::test]
async fn mistakes_are_told_before_anything_is_sent_c1() {
    let server = Server::start([]).await;
    let client = client(&server);
    for bad in ["", "a b", "t-x", &"x".repeat(256)] {
        assert_eq!(client.post("/a").key(bad).send().await.unwrap_err().kind(), Kind::Invalid, "{bad:?}");
    }
    assert!(client.post("no-slash").send().await.is_err());
    assert!(client.post("/a").header("idempotency-key", "k").send().await.is_err());
    assert!(client.post("/a").header("x", "a\nb").send().await.is_err());
    assert!(client.intent("x").is_err(), "no journal");
    for base in ["", "ftp://a", "127.0.0.1:80", "http://"] {
        assert!(Client::builder(base).build().is_err(), "{base:?}");
    }
    for tail in ["/?a=1", "?a", "/#a", "/v1#"] {
        let base = format!("{}{tail}", server.url());
        assert!(Client::builder(&base).build().is_err(), "every path would be lost behind it: {base}");
    }
    assert!(
        Client::builder(server.url()).header("Idempotency-Key", "k").build().is_err(),
        "all calls would share it"
    );
    assert_eq!(server.came().len(), 0);
}

#[tokio::test]
async fn a_deadline_may_be_as_long_as_a_duration_can_be_c3() {
    let server = Server::start([Do::Answer(503, "", "")]).await;
    let built = Client::builder(server.url()).policy(quick(3)).deadline(Duration::MAX);
    let client = built.attempt_timeout(Duration::MAX).build().unwrap();
    assert_eq!(client.post("/a").send().await.unwrap().attempts(), 2);
}

#[test]
fn what_is_sent_along_is_shown_by_nothing_that_is_put_together_c8() {
    let builder =
        Client::builder("http://me:SECRET@127.0.0.1:1").bearer("SECRET").header("x-api-key", "SECRET");
    let shown = format!("{builder:?}");
    let client = builder.build().unwrap();
    let call = client.post("/a?token=SECRET").header("authorization", "SECRET").body("SECRET");
    let shown = format!("{shown}{client:?}{call:?}");
    assert!(!shown.contains("SECRET"), "{shown}");
    assert!(shown.contains("RetryPolicy"), "{shown}");
}

#[tokio::test]
async fn an_answer_cut_at_any_byte_is_asked_for_again_with_the_same_key_c2() {
    for cut in 0..WHOLE.len() {
        let server = Server::start([Do::Cut(cut), Do::Answer(201, "", "charged")]).await;
        let answer = client(&server).post("/charges").send().await.unwrap();
        assert_eq!((answer.text().as_str(), answer.attempts()), ("charged", 2), "cut after {cut} bytes");
        let keys = server.keys();
        assert!(keys.len() == 2 && keys[0] == keys[1], "cut after {cut} bytes: {keys:?}");
    }
}

#[tokio::test]
async fn only_what_can_help_is_tried_again_c2() {
    for status in [429, 502, 503, 504] {
        let server = Server::start([Do::Answer(status, "", "")]).await;
        assert_eq!(client(&server).post("/a").send().await.unwrap().attempts(), 2, "{status}");
    }
    for status in [400, 401, 403, 404, 408, 409, 410, 422, 423, 425, 500, 501, 505] {
        let server = Server::start([Do::Answer(status, "", "")]).await;
        let error = client(&server).post("/a").send().await.unwrap_err();
        assert_eq!((error.status(), error.attempts()), (Some(status), 1));
    }
    let busy = Do::Answer(409, PROBLEM, "{\"code\":\"in-progress\"}");
    let server = Server::start([busy]).await;
    assert_eq!(client(&server).post("/a").send().await.unwrap().attempts(), 2);
}

#[tokio::test]
async fn what_a_server_asks_for_is_waited_for_and_never_beyond_the_deadline_c3() {
    let server = Server::start([Do::Answer(429, "retry-after: 1\r\n", "")]).await;
    let began = Instant::now();
    client(&server).post("/a").send().await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1));
    let soon = "retry-after: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    let server = Server::start([Do::Answer(503, soon, "")]).await;
    assert_eq!(client(&server).post("/a").send().await.unwrap().attempts(), 2, "a date that has passed");
    let server = Server::start([Do::Answer(429, "retry-after: 3600\r\n", "")]).await;
    let error = client(&server).post("/a").deadline(Duration::from_secs(60)).send().await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::RateLimited, 1));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn what_surfaces_when_the_attempts_are_used_up_says_what_happened_c4() {
    let storm = |status| Server::start(vec![Do::Answer(status, "x-operation-id: op_1\r\n", "sorry"); 9]);
    let server = storm(503).await;
    let error = client(&server).post("/a").key("k").send().await.unwrap_err();
    assert_eq!((error.kind(), error.status(), error.attempts()), (Kind::Server, Some(503), 3));
    assert_eq!(
        (error.key(), error.request_id(), &error.body()[..]),
        (Some("k"), Some("op_1"), &b"sorry"[..])
    );
    assert!(matches!(error.retry(), Retry::SameKey(_)));
    assert_eq!(error.executed(), Executed::Unknown);
    assert_eq!(server.came().len(), 3);
    assert_eq!(client(&storm(429).await).post("/a").send().await.unwrap_err().kind(), Kind::RateLimited);
    let nobody = Server::start(vec![Do::Cut(0); 9]).await;
    let error = client(&nobody).post("/a").send().await.unwrap_err();
    assert_eq!((error.kind(), error.status(), error.attempts()), (Kind::Network, None, 3));
    assert!(std::error::Error::source(&error).is_some());
    let refused = Client::builder("http://127.0.0.1:9").policy(quick(2)).build().unwrap();
    assert_eq!(refused.post("/a").send().await.unwrap_err().attempts(), 2);
}

#[tokio::test]
async fn mismatches_and_their_relatives_are_told_apart_c4() {
    let answers = [
        (422, "key-reused", Kind::Mismatch),
        (409, "key-reused", Kind::Mismatch),
        (409, "outcome-unknown", Kind::OutcomeUnknown),
        (409, "outcome-not-kept", Kind::Conflict),
        (400, "key-malformed", Kind::Invalid),
    ];
    for (status, code, kind) in answers {
        let body: &'static str = format!("{{\"code\":\"{code}\"}}").leak();
        let server = Server::start([Do::Answer(status, PROBLEM, body)]).await;
        let error = client(&server).post("/a").key("k").send().await.unwrap_err();
        assert_eq!((error.kind(), error.code(), error.key()), (kind, Some(code), Some("k")));
        assert_eq!(error.is_conflict(), kind != Kind::Invalid);
    }
    for (meaning, kind) in [
        (Plain409::Conflict, Kind::Conflict),
        (Plain409::Mismatch, Kind::Mismatch),
        (Plain409::InProgress, Kind::InProgress),
    ] {
        let server = Server::start(vec![Do::Answer(409, "", ""); 3]).await;
        let client = Client::builder(server.url()).policy(quick(3)).plain_409(meaning).build().unwrap();
        let error = client.post("/a").send().await.unwrap_err();
        let attempts = if kind == Kind::InProgress { 3 } else { 1 };
        assert_eq!((error.kind(), error.attempts()), (kind, attempts));
    }
}

#[tokio::test]
async fn each_retry_is_logged_at_info_under_one_target_c5() {
    let (lines, _listening) = Lines::listen();
    let server = Server::start([Do::Answer(503, "", ""), Do::Cut(0)]).await;
    client(&server).post("/a").send().await.unwrap();
    let told = lines.told();
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|line| line.contains("INFO hapax_client::retry:")), "{told:?}");
    assert!(told[0].contains("status 503 on attempt 1; sleeping 0.00s"), "{told:?}");
    assert!(told[1].contains("no answer on attempt 2; sleeping"), "{told:?}");
}

#[tokio::test]
async fn a_kept_answer_is_recalled_where_the_server_hands_it_out_c6() {
    let server = Server::start([]).await;
    let built = |segment: &str| Client::builder(server.url()).recall_segment(segment).build();
    let key = IdempotencyKey::new("order-42").unwrap();
    let _ = built("kept:by-key").unwrap().recall("/charges?to=1", &key).await;
    let line = server.came()[0].head.lines().next().unwrap().to_owned();
    assert_eq!(line, "GET /charges/kept:by-key/order-42?to=1 HTTP/1.1");
    for bad in ["", "..", "a/b", "a?b", "a#b", "a%20b", "a b", "ä"] {
        assert_eq!(built(bad).map(|_| ()).unwrap_err().kind(), Kind::Invalid, "{bad:?}");
    }
}

#[tokio::test]
async fn a_kept_answer_is_recalled_by_its_key_c6() {
    let kept = Do::Answer(201, "idempotent-replayed: true\r\n", "charged");
    let absent = Do::Answer(404, PROBLEM, "{\"code\":\"not-found\"}");
    let doubt = Do::Answer(409, PROBLEM, "{\"code\":\"outcome-unknown\"}");
    let refused = Do::Answer(402, "idempotent-replayed: true\r\n", "declined");
    let server = Server::start([kept, absent, doubt, refused]).await;
    let (client, key) = (client(&server), IdempotencyKey::new("order-42").unwrap());
    assert_eq!(client.recall("/charges", &key).await.unwrap().unwrap().text(), "charged");
    assert!(client.recall("/charges/", &key).await.unwrap().is_none());
    assert_eq!(client.recall("/charges", &key).await.unwrap_err().kind(), Kind::OutcomeUnknown);
    assert_eq!(
        client.recall("/charges", &key).await.unwrap().unwrap().status(),
        402,
        "a kept refusal is an answer"
    );
    let lines: Vec<_> =
        server.came().iter().map(|came| came.head.lines().next().unwrap().to_owned()).collect();
    assert!(
        lines.iter().all(|line| line == "GET /charges/by-idempotency-key/order-42 HTTP/1.1"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn the_key_of_an_attempt_that_failed_is_free_and_is_not_asked_for_again_c6() {
    // As an edge says it, or one that says no more than that.
    for failed in [
        Do::Answer(503, PROBLEM, "{\"code\":\"attempt-failed\",\"executed\":\"unknown\"}"),
        Do::Answer(503, PROBLEM, "{\"code\":\"attempt-failed\"}"),
    ] {
        let server = Server::start(vec![failed; 3]).await;
        let (client, key) = (client(&server), IdempotencyKey::new("order-42").unwrap());
        assert!(client.recall("/charges", &key).await.unwrap().is_none());
        assert_eq!(server.came().len(), 1);
    }
}

#[tokio::test]
async fn an_intent_has_its_key_on_disk_before_anything_is_sent_c7() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start([Do::Answer(503, "", "")]).await;
    let make =
        || Client::builder(server.url()).policy(RetryPolicy::none()).journal(folder.path()).build().unwrap();
    let intent = make().intent("charge order 42").unwrap();
    assert!(make().post("/charges").intent(&intent).send().await.is_err());
    // As if the process had ended here: the next one finds what was about to be done.
    let client = make();
    let pending = client.pending().unwrap();
    assert_eq!((pending.len(), pending[0].name(), pending[0].key()), (1, "charge order 42", intent.key()));
    assert_eq!(client.post("/charges").intent(&pending[0]).send().await.unwrap().status(), 200);
    let keys = server.keys();
    assert_eq!(keys[0], keys[1]);
    pending.into_iter().for_each(|intent| intent.finish().unwrap());
    assert!(client.pending().unwrap().is_empty());
}
