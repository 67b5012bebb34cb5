//! Fetching an outcome that a cluster keeps (D2, H7).

use super::*;
use crate::rig::caller::ALICE;

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_is_fetched_by_its_key_under_its_path_by_its_own_caller_h7() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let first = post(&edge, ALICE, "/echo", "k.1", r#"{"a": 1}"#).await;
    let id = first.header("x-operation-id").unwrap().to_owned();
    for path in ["/echo/by-idempotency-key/k.1", "/echo/by-idempotency-key/k.1/output"] {
        let got = get(&edge, ALICE, path).await;
        assert_eq!((got.status, got.is_replay(), &got.body), (200, true, &first.body), "{got:?}");
        assert_eq!(got.header("x-operation-id"), Some(&*id));
        shows_nothing_of_the_cluster(&got);
    }
    for path in [format!("/operations/{id}"), format!("/operations/{id}/output")] {
        let got = get(&edge, ALICE, &path).await;
        assert_eq!((got.status, got.is_replay(), &got.body), (200, true, &first.body), "{got:?}");
        assert_eq!(got.header("x-operation-id"), Some(&*id));
    }
    // Foreign and absent are the same.
    let absent = get(&edge, ALICE, "/echo/by-idempotency-key/absent").await;
    assert_eq!(absent.problem(), (404, "not-found".into()));
    for (who, path) in [
        (BOB, "/echo/by-idempotency-key/k.1".to_owned()),
        (ELSEWHERE, "/echo/by-idempotency-key/k.1/output".into()),
        (ALICE, "/echo/by-idempotency-key/k.1?a=b".into()),
        (ALICE, "/echo/by-idempotency-key/t-acme:web:user:alice:k.1".into()),
        (BOB, format!("/operations/{id}")),
        (ALICE, format!("/operations/{}", "op_".to_owned() + &"A".repeat(114))),
    ] {
        let got = get(&edge, who, &path).await;
        assert_eq!((got.status, &got.body), (404, &absent.body), "{path} {got:?}");
    }
    // Of an object in the path, a key is found under that path alone.
    assert_eq!(post(&edge, ALICE, "/accounts/7/add", "k", r#"{"amount": 1}"#).await.status, 200);
    assert_eq!(get(&edge, ALICE, "/accounts/7/add/by-idempotency-key/k").await.json()["balance"], 1);
    assert_eq!(get(&edge, ALICE, "/accounts/8/add/by-idempotency-key/k").await.status, 404);
    assert_eq!(ground.count("echo"), 1, "nothing ran again");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_gets_the_outcome_of_what_is_under_way_h7() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let call = edge.begin("/echo", "slow", r#"{"millis": 1200}"#, "");
    let begun = std::time::Instant::now();
    while ground.count("echo") == 0 {
        assert!(begun.elapsed().as_secs() < 20);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let at_once = get(&edge, ALICE, "/echo/by-idempotency-key/slow/output").await;
    assert_eq!(at_once.problem(), (409, "in-progress".into()), "{at_once:?}");
    let waited = get(&edge, ALICE, "/echo/by-idempotency-key/slow").await;
    let called = call.await.unwrap().unwrap();
    assert_eq!((waited.status, waited.body), (200, called.body));
    // One instance's ids are another one's: the secret is the installation's.
    assert_eq!(ground.count("echo"), 1);
}

/// A paused call waits for an operator: nobody else waits with it.
#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_the_outcome_of_a_paused_call_is_told_so_h2_h7() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let paused = post(&edge, ALICE, "/pauses", "p", "{}").await;
    assert_eq!(paused.problem(), (409, "outcome-unknown".into()), "{paused:?}");
    let id = paused.header("x-operation-id").unwrap();
    for path in [
        "/pauses/by-idempotency-key/p/output".to_owned(),
        "/pauses/by-idempotency-key/p".into(),
        format!("/operations/{id}/output"),
        format!("/operations/{id}"),
    ] {
        let got = get(&edge, ALICE, &path).await;
        assert_eq!(got.problem(), (409, "outcome-unknown".into()), "{path} {got:?}");
        shows_nothing_of_the_cluster(&got);
    }
}
