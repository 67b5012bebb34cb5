//! What others get wrong, through the whole program: bursts, other bodies, crashes, scopes, odd answers and odd keys. Each on
//! the embedded store and on PostgreSQL.

use crate::rig::caller::ALICE;
use crate::rig::process::eventually;
use crate::rig::{BRIEF, Got, Ground, Hapax, Kind, Who};

macro_rules! on_each_store {
    ($($name:ident)*) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Kind::Embedded).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Kind::Postgres).await;
            })*
        }
    };
}

on_each_store! {
    two_hundred_at_once_run_once_and_get_equal_answers_l2
    another_body_under_the_key_is_refused_at_rest_and_in_flight_k7
    the_key_means_something_else_on_another_path_and_for_another_caller_k5
    a_kill_mid_run_leaves_an_unsafe_call_unknown_and_runs_a_safe_one_again_l6
    what_was_answered_before_a_kill_is_replayed_after_it_l3
    every_kind_of_answer_comes_back_as_it_was_or_is_not_kept_h4
    odd_keys_are_refused_and_a_quoted_one_is_the_bare_one_k1
}

/// So many at once with one key.
async fn burst(edges: &[&Hapax], count: usize, key: &str) -> Vec<Got> {
    let asked: Vec<_> = (0..count)
        .map(|number| edges[number % edges.len()].begin("/charges", key, "{}", "pause=200"))
        .collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.unwrap().expect("an answer"));
    }
    answers
}

/// One of them ran, and all of them got the same.
pub(crate) async fn burst_runs_once(ground: &Ground, edges: &[&Hapax]) {
    for round in 1..=3 {
        let answers = burst(edges, 200, &format!("burst-{round}")).await;
        assert_eq!(ground.service.count(), round, "one execution for each key");
        assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1, "one caller is the first");
        let first = answers[0].clone().kept();
        assert_eq!((first.status, first.text()), (201, format!("answer {round} to {{}}")));
        for answer in answers {
            assert_eq!(answer.kept(), first);
        }
    }
}

async fn two_hundred_at_once_run_once_and_get_equal_answers_l2(kind: Kind) {
    let ground = Ground::new(kind).await;
    let edge = ground.serve().await;
    burst_runs_once(&ground, &[&edge]).await;
}

async fn another_body_under_the_key_is_refused_at_rest_and_in_flight_k7(kind: Kind) {
    let ground = Ground::new(kind).await;
    let edge = ground.serve().await;
    let reused = (422, "key-reused".to_owned());
    ground.service.hold();
    let first = edge.begin("/charges", "k", r#"{"amount": 10}"#, "");
    ground.service.reached(1).await;
    assert_eq!(edge.post("/charges", "k", r#"{"amount": 99}"#, "").await.problem(), reused, "in flight");
    ground.service.let_go();
    let first = first.await.unwrap().unwrap();
    let refused = edge.post("/charges", "k", r#"{"amount": 99}"#, "").await;
    assert_eq!(refused.problem(), reused, "at rest");
    assert!(refused.text().contains("/amount"), "it says what differs (H10): {}", refused.text());
    let again = edge.post("/charges", "k", r#"{ "amount":10 }"#, "").await;
    assert_eq!((again.is_replay(), again.kept()), (true, first.kept()), "the same JSON is the same request");
    assert_eq!(ground.service.count(), 1);
}

async fn the_key_means_something_else_on_another_path_and_for_another_caller_k5(kind: Kind) {
    let ground = Ground::new(kind).await;
    let edge = ground.serve().await;
    let mut bodies = std::collections::HashSet::new();
    let callers = [
        ALICE,
        Who("acme", "web", "user:bob"),
        Who("acme", "app", "user:alice"),
        Who("globex", "web", "user:alice"),
    ];
    for path in ["/charges", "/notes", "/files"] {
        for who in callers {
            let line = format!("POST {path}");
            let first = edge.send(who, &line, &[("idempotency-key", "k")], "{}").await;
            assert!(first.status == 201 && !first.is_replay(), "{who:?} {first:?}");
            let again = edge.send(who, &line, &[("idempotency-key", "k")], "{}").await;
            assert!(again.is_replay() && again.body == first.body, "{who:?} {again:?}");
            bodies.insert(first.body);
        }
    }
    assert_eq!((bodies.len(), ground.service.count()), (12, 12));
    let foreign =
        edge.send(Who("acme", "web", "user:mallory"), "GET /charges/by-idempotency-key/k", &[], "").await;
    assert_eq!(foreign.problem(), (404, "not-found".into()));
}

async fn a_kill_mid_run_leaves_an_unsafe_call_unknown_and_runs_a_safe_one_again_l6(kind: Kind) {
    let mut ground = Ground::new(kind).await;
    ground.lease = BRIEF;
    let edge = ground.serve().await;
    ground.service.hold();
    let (charge, note) = (edge.begin("/charges", "k", "{}", ""), edge.begin("/notes", "k", "{}", ""));
    ground.service.reached(2).await;
    edge.kill();
    assert!(charge.await.unwrap().is_none() && note.await.unwrap().is_none(), "nobody was answered");
    ground.service.let_go();
    let edge = ground.serve().await;
    let unknown = edge.post("/charges", "k", "{}", "").await;
    assert_eq!(unknown.problem(), (409, "outcome-unknown".into()));
    assert!(
        unknown.header("retry-after").is_some() && unknown.header("x-operation-id").is_some(),
        "{unknown:?}"
    );
    assert_eq!(ground.service.count(), 2, "nothing ran");
    assert_eq!(edge.post("/charges", "k", "{}", "").await.problem(), (409, "outcome-unknown".into()));
    // Who waited for the dead run may be told to come back; nobody is told something else, and nobody is left waiting.
    eventually("the safe call is answered", async || {
        let got = edge.post("/notes", "k", "{}", "").await;
        let (status, code) = got.problem();
        assert!(status == 201 || (status, code.as_str()) == (503, "attempt-failed"), "{got:?}");
        assert!(status != 201 || got.text() == "answer 3 to {}", "never an empty success: {got:?}");
        status == 201
    })
    .await;
    assert_eq!(ground.service.count(), 3, "it ran again, once");
    assert!(edge.post("/notes", "k", "{}", "").await.is_replay());
    let epochs: Vec<u64> = ground
        .service
        .done()
        .iter()
        .filter(|done| done.is_on("/notes"))
        .map(|done| done.header("x-operation-epoch").unwrap().parse().unwrap())
        .collect();
    assert!(epochs.len() == 2 && epochs[1] > epochs[0], "the second run has a higher epoch (L4): {epochs:?}");
}

async fn what_was_answered_before_a_kill_is_replayed_after_it_l3(kind: Kind) {
    let ground = Ground::new(kind).await;
    let edge = ground.serve().await;
    let first = edge.post("/charges", "k", "{}", "").await;
    assert_eq!(first.status, 201);
    edge.kill();
    let edge = ground.serve().await;
    let again = edge.post("/charges", "k", "{}", "").await;
    assert_eq!((again.is_replay(), again.kept()), (true, first.kept()));
    assert_eq!(ground.service.count(), 1);
}

async fn every_kind_of_answer_comes_back_as_it_was_or_is_not_kept_h4(kind: Kind) {
    let mut ground = Ground::new(kind).await;
    for (name, what) in [
        ("release", "on_5xx = \"release\""),
        ("keep", "rerun = \"safe\"\non_5xx = \"keep\""),
        ("doubt", "on_5xx = \"doubt\""),
    ] {
        ground.routes.push_str(&format!(
            "[[routes]]\nmethod = \"POST\"\npath = \"/{name}\"\noperation = \"{name}\"\npolicy = \"REQUIRED_A\"\nupstream = \"service\"\n{what}\n"
        ));
    }
    let edge = ground.serve().await;
    let kept = |path: &'static str, status: u16| (path, status, (status, String::new()), true);
    let free = |path: &'static str, status: u16| (path, status, (status, String::new()), false);
    let unknown = |path: &'static str, status: u16| (path, status, (409, "outcome-unknown".to_owned()), true);
    for (number, (path, status, wanted, closed)) in [
        kept("/charges", 200),
        kept("/charges", 302),
        kept("/charges", 404),
        kept("/charges", 402),
        free("/charges", 429),
        free("/charges", 409),
        kept("/charges", 500),
        free("/charges", 503),
        unknown("/charges", 502),
        free("/notes", 500),
        free("/release", 500),
        kept("/keep", 503),
        unknown("/doubt", 500),
    ]
    .into_iter()
    .enumerate()
    {
        let (key, told) = (format!("answer-{number}"), format!("status={status}"));
        let before = ground.service.count();
        let first = edge.post(path, &key, "{}", &told).await;
        assert_eq!(first.problem(), wanted, "{path} {status}: {first:?}");
        let again = edge.post(path, &key, "{}", &told).await;
        assert_eq!(again.problem(), wanted, "{path} {status}: {again:?}");
        assert_eq!(ground.service.count(), before + if closed { 1 } else { 2 }, "{path} {status}");
        if closed && wanted.1.is_empty() {
            assert!(again.is_replay(), "{again:?}");
            assert!(first.header("set-cookie").is_some() && again.header("set-cookie").is_none());
            let custom: Vec<_> = again.headers.iter().filter(|(name, _)| name == "x-custom").collect();
            assert_eq!(custom.len(), 2, "custom headers, all of them: {again:?}");
            assert!(
                again.header("location").is_some_and(|place| place.starts_with("/charges/")),
                "{again:?}"
            );
            assert_eq!(again.kept(), first.kept());
        }
    }
    // The service breaks off: done, and nobody heard. Unsafe work is not done again, safe work is.
    assert_eq!(edge.post("/charges", "cut", "{}", "cut").await.problem(), (409, "outcome-unknown".into()));
    let before = ground.service.count();
    assert_eq!(edge.post("/charges", "cut", "{}", "").await.problem(), (409, "outcome-unknown".into()));
    assert_eq!(ground.service.count(), before);
    assert_eq!(edge.post("/notes", "cut", "{}", "cut").await.status, 503);
    assert_eq!(edge.post("/notes", "cut", "{}", "").await.status, 201);
    // Bytes are bytes.
    let binary = edge.post("/files", "binary", "{}", "binary").await;
    assert_eq!(binary.body, (0..=255).collect::<Vec<u8>>());
    assert_eq!(edge.post("/files", "binary", "{}", "").await.kept(), binary.kept());
}

async fn odd_keys_are_refused_and_a_quoted_one_is_the_bare_one_k1(kind: Kind) {
    let ground = Ground::new(kind).await;
    let edge = ground.serve().await;
    let long = "k".repeat(10 * 1024);
    for key in ["", "\"\"", "a b", "a:b", "...", "\"open", "\u{e9}", &long, &"k".repeat(256)] {
        assert_eq!(
            edge.post("/charges", key, "{}", "").await.problem(),
            (400, "key-malformed".into()),
            "{key:?}"
        );
    }
    let twice = [("idempotency-key", "k"), ("idempotency-key", "k")];
    assert_eq!(
        edge.send(ALICE, "POST /charges", &twice, "{}").await.problem(),
        (400, "key-duplicated".into())
    );
    assert_eq!(edge.send(ALICE, "POST /charges", &[], "{}").await.problem(), (400, "key-missing".into()));
    assert_eq!(ground.service.count(), 0, "a bad key is no reason to go on without one");
    let first = edge.post("/charges", "\"k\"", "{}", "").await;
    let again = edge.post("/charges", "k", "{}", "").await;
    assert_eq!((again.is_replay(), again.kept()), (true, first.kept()));
    assert_eq!(ground.service.count(), 1);
}
