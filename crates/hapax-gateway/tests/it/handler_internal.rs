//! Routes whose handler tells repetitions apart by itself (P1, case C), and what it says about that.

use crate::world::{Got, World};

/// Whether this answer tells the caller about the handler's token, in whatever spelling.
fn tells_of_a_hit(got: &Got) -> bool {
    got.headers.iter().any(|(name, _)| name.replace('_', "-") == "idempotency-handler-hit")
}

/// How often a hit was counted, wherever; and the lines that say so.
fn hits(world: &World) -> Vec<String> {
    let text = world.gateway.metrics().render();
    text.lines()
        .filter(|line| line.starts_with("handler_internal_dedup_hit_total"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn what_a_handler_says_of_its_token_is_counted_and_goes_no_further_p1_o1() {
    let world = World::start().await;
    let internal =
        async |told: &str| world.ask("POST /internal", &world.alice, &[("x-do", told)], "{}").await;
    for told in ["", "hit=false", "hit=", "hit=TRUE", "hit=1", "hit=true;hit=true", "hit=true, true"] {
        let got = internal(told).await;
        assert_eq!((got.status, tells_of_a_hit(&got)), (201, false), "{told}");
        assert_eq!(hits(&world), [""; 0], "{told}");
    }
    for told in ["hit=true", "hit=true;status=409"] {
        assert!(!tells_of_a_hit(&internal(told).await), "{told}");
    }
    let line = "handler_internal_dedup_hit_total{tenant=\"acme\",project=\"web\",endpoint=\"/internal\"} 2";
    assert_eq!(hits(&world), [line]);
    // A caller cannot say it to the handler.
    let headers = [("idempotency-handler-hit", "true"), ("idempotency_handler_hit", "true")];
    assert_eq!(world.ask("POST /internal", &world.alice, &headers, "{}").await.status, 201);
    let arrived = world.service.last();
    assert_eq!(
        (arrived.all("idempotency-handler-hit"), arrived.all("idempotency_handler_hit")),
        (vec![], vec![])
    );
    // The handler runs each time: the edge keeps nothing for it, and a key makes no difference.
    let with_key = [("idempotency-key", "k"), ("x-do", "hit=true")];
    for _ in 0..2 {
        let got = world.ask("POST /internal", &world.alice, &with_key, "{}").await;
        assert_eq!((got.is_replay(), got.header("idempotency-key-ignored")), (false, Some("true")));
        assert_eq!(world.service.last().header("idempotency-key"), None);
    }
    assert_eq!(world.service.count(), 12);
    assert!(hits(&world)[0].ends_with(" 4"), "{:?}", hits(&world));
}

#[tokio::test]
async fn under_every_other_policy_it_counts_for_nothing_and_is_removed_all_the_same_p1() {
    let world = World::start().await;
    let told = ("x-do", "hit=true");
    for (line, headers) in [
        ("POST /open", &[told][..]),
        ("GET /charges", &[told]),
        ("POST /orders/1/notes", &[told]),
        ("POST /orders/1/notes", &[told, ("idempotency-key", "n")]),
        ("POST /charges", &[told, ("idempotency-key", "k")]),
        ("POST /charges", &[told, ("idempotency-key", "k")]),
        ("POST /raw", &[told, ("idempotency-key", "k")]),
    ] {
        let got = world.ask(line, &world.alice, headers, "").await;
        assert_eq!((got.status, tells_of_a_hit(&got)), (201, false), "{line}");
    }
    assert!(world.ask("POST /charges", &world.alice, &[("idempotency-key", "k")], "").await.is_replay());
    assert_eq!(hits(&world), [""; 0]);
    // Neither a replay nor a recall has it.
    let recalled = world.ask("GET /raw/by-idempotency-key/k", &world.alice, &[], "").await;
    assert_eq!((recalled.status, tells_of_a_hit(&recalled)), (201, false));
}
