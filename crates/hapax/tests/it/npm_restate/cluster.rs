//! Three servers, of which some die (D5).

use std::time::{Duration, Instant};

use super::*;
use crate::rig::caller::ALICE;

/// Sends one request until it has an answer that counts, and says how long that took.
async fn insist(edge: &Hapax, key: &str, body: &str) -> (Got, Duration) {
    let begun = Instant::now();
    loop {
        let got = post(edge, ALICE, "/naps", key, body).await;
        if got.status == 200 {
            return (got, begun.elapsed());
        }
        assert!(matches!(got.status, 409 | 502 | 503 | 504), "{got:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{got:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_under_load_loses_nothing_and_two_of_three_are_told_in_time_d5() {
    let mut ground = Ground::new(3, "").await.with("timeout = \"5s\"\nretry = { max_attempts = 4 }");
    let edge = std::sync::Arc::new(ground.edge("one").await);
    let mut callers = Vec::new();
    for caller in 0..8 {
        let edge = edge.clone();
        callers.push(tokio::spawn(async move {
            let (mut answers, mut longest) = (Vec::new(), Duration::ZERO);
            for number in 0..12 {
                let key = format!("n{caller}-{number}");
                let (got, took) =
                    insist(&edge, &key, &format!("{{\"name\": \"{key}\", \"millis\": 100}}")).await;
                longest = longest.max(took);
                answers.push((key, got.body));
            }
            (answers, longest)
        }));
    }
    let begun = Instant::now();
    while ground.count("nap") < 10 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ground.restate.kill(2);
    let (mut answers, mut longest) = (Vec::new(), Duration::ZERO);
    for caller in callers {
        let (theirs, gap) = caller.await.unwrap();
        answers.extend(theirs);
        longest = longest.max(gap);
    }
    println!("a node was killed under load: the longest gap was {longest:?}");
    for (key, body) in &answers {
        let (again, _) = insist(&edge, key, &format!("{{\"name\": \"{key}\", \"millis\": 100}}")).await;
        assert_eq!(&again.body, body, "{key}");
        assert!(again.is_replay(), "{key} {again:?}");
    }
    // A step that was recorded is not taken again; one that was under way when its node died may be.
    let effects = ground.restate.effects();
    for (key, _) in &answers {
        let times = effects.iter().filter(|effect| **effect == format!("nap \"{key}\"")).count();
        assert!((1..=2).contains(&times), "{key} had {times} effects");
    }

    // Two of three: the one that is left says that it is well, and can do nothing.
    ground.restate.kill(1);
    let begun = Instant::now();
    for number in 0..2 {
        let got = post(&edge, ALICE, "/naps", &format!("alone-{number}"), "{\"name\": \"x\"}").await;
        assert!(matches!(got.status, 503 | 504), "{got:?}");
        assert!(begun.elapsed() < Duration::from_secs(8 * (number + 1)), "{:?}", begun.elapsed());
    }
    assert_eq!(ground.restate.admin("GET", "/health", "").0, 200, "it says that it is well");
    ground.restate.restart(1);
    let (got, took) = insist(&edge, "alone-0", "{\"name\": \"x\"}").await;
    println!("after a node came back: {took:?}");
    assert_eq!(got.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_started_again_in_the_midst_goes_on_and_the_retry_joins_d5() {
    let mut ground = Ground::new(1, "").await.with("timeout = \"3s\"");
    let edge = ground.edge("one").await;
    let body = r#"{"name": "long", "millis": 3000}"#;
    let first = edge.begin("/naps", "restart", body, "");
    let begun = Instant::now();
    while ground.count("nap") == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Its step is in the journal by the time that it sleeps.
    let sleeps = "SELECT id FROM sys_journal WHERE entry_type LIKE '%Sleep%'";
    while ground.restate.query(sleeps).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ground.restate.kill(0);
    let broken = first.await.unwrap().expect("an answer");
    assert!(matches!(broken.status, 502..=504), "{broken:?}");
    let ground = tokio::task::spawn_blocking(move || {
        ground.restate.restart(0);
        ground
    });
    let ground = ground.await.unwrap();
    let (got, _) = insist(&edge, "restart", body).await;
    assert_eq!((got.status, ground.count("nap")), (200, 1), "{got:?}");
}
