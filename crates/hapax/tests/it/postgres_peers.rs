//! Two instances on one PostgreSQL: to callers they are one.

use crate::fire::burst_runs_once;
use crate::rig::process::eventually;
use crate::rig::{BRIEF, Ground, Kind};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_over_two_instances_run_once_and_get_equal_answers_l2() {
    let ground = Ground::new(Kind::Postgres).await;
    let (a, b) = (ground.serve_as("a").await, ground.serve_as("b").await);
    burst_runs_once(&ground, &[&a, &b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_at_one_instance_gets_what_the_run_of_another_produced_l9() {
    let ground = Ground::new(Kind::Postgres).await;
    let (a, b) = (ground.serve_as("a").await, ground.serve_as("b").await);
    ground.service.hold();
    let first = a.begin("/charges", "k", "{}", "");
    ground.service.reached(1).await;
    let second = b.begin("/charges", "k", "{}", "");
    let reused = b.post("/charges", "k", r#"{"other": 1}"#, "").await;
    assert_eq!(reused.problem(), (422, "key-reused".into()), "in flight elsewhere");
    assert!(!second.is_finished());
    ground.service.let_go();
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!((first.status, first.is_replay(), second.is_replay()), (201, false, true));
    assert_eq!(second.kept(), first.kept());
    assert_eq!(ground.service.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_instance_ran_is_unknown_to_the_other_or_taken_over_l6() {
    let mut ground = Ground::new(Kind::Postgres).await;
    ground.lease = BRIEF;
    let (a, b) = (ground.serve_as("a").await, ground.serve_as("b").await);
    ground.service.hold();
    let _charge = a.begin("/charges", "k", "{}", "");
    let _note = a.begin("/notes", "k", "{}", "");
    ground.service.reached(2).await;
    // They wait already when the instance that runs their work dies.
    let (charge, note) = (b.begin("/charges", "k", "{}", ""), b.begin("/notes", "k", "{}", ""));
    a.kill();
    ground.service.let_go();
    let charge = charge.await.unwrap().unwrap();
    assert_eq!(charge.problem(), (409, "outcome-unknown".into()), "{charge:?}");
    let note = note.await.unwrap().unwrap();
    assert!([(201, String::new()), (503, "attempt-failed".into())].contains(&note.problem()), "{note:?}");
    eventually("the other instance takes over", async || {
        let got = b.post("/notes", "k", "{}", "").await;
        got.status == 201 && got.text() == "answer 3 to {}"
    })
    .await;
    assert_eq!(ground.service.count(), 3, "what may not run again did not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_instance_cannot_overwrite_what_was_decided_since_l5() {
    let mut ground = Ground::new(Kind::Postgres).await;
    ground.lease = BRIEF;
    let (a, b) = (ground.serve_as("a").await, ground.serve_as("b").await);
    ground.service.hold();
    let late = a.begin("/notes", "k", "{}", "");
    ground.service.reached(1).await;
    a.freeze();
    // Only what is asked from now on is answered at once: the first answer waits in the socket of the frozen one.
    ground.service.let_go();
    eventually("the other instance takes over", async || b.post("/notes", "k", "{}", "").await.status == 201)
        .await;
    let taken = b.post("/notes", "k", "{}", "").await;
    assert_eq!(taken.text(), "answer 2 to {}");
    a.thaw();
    let late = late.await.unwrap().unwrap();
    assert_eq!(late.body, taken.body, "its caller gets the answer of the ledger, not its own: {late:?}");
    assert_eq!(a.post("/notes", "k", "{}", "").await.kept(), taken.kept());
    assert_eq!(ground.service.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_operators_decide_at_one_instance_holds_at_the_other_at_once_b7() {
    let ground = Ground::new(Kind::Postgres).await;
    let (a, b) = (ground.serve_as("a").await, ground.serve_as("b").await);
    for verb in ["purge", "reopen", "erase"] {
        let first = a.post("/charges", verb, "{}", "").await;
        for edge in [&a, &b] {
            // Twice: from the store, and from the table in front of it.
            assert!(edge.post("/charges", verb, "{}", "").await.is_replay());
            assert!(edge.post("/charges", verb, "{}", "").await.is_replay());
        }
        let before = ground.service.count();
        let claim = a.claims("settled").await.into_iter().find(|claim| claim["key"] == verb).unwrap();
        let done = a.decide(&claim, verb).await;
        assert_eq!(done.status, 200, "{}", done.text());
        let after = b.post("/charges", verb, "{}", "").await;
        if verb == "erase" {
            assert_eq!(after.problem(), (409, "outcome-not-kept".into()));
            assert_eq!(ground.service.count(), before, "its key stays used up");
            continue;
        }
        assert!(after.status == 201 && !after.is_replay() && after.body != first.body, "{verb}: {after:?}");
        assert_eq!(ground.service.count(), before + 1);
        assert_eq!(a.post("/charges", verb, "{}", "").await.kept(), after.kept());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_was_frozen_does_not_hand_out_what_was_purged_meanwhile_b7() {
    let ground = Ground::new(Kind::Postgres).await;
    let (a, b) = (ground.serve_as("a").await, ground.serve_as("b").await);
    let first = a.post("/charges", "k", "{}", "").await;
    assert!(b.post("/charges", "k", "{}", "").await.is_replay(), "it is in the other one's table, too");
    b.freeze();
    let claim = a.claims("settled").await.remove(0);
    // It cannot acknowledge: the purge waits until what it has in its table is no longer good.
    assert_eq!(a.decide(&claim, "purge").await.status, 200);
    let late = b.begin("/charges", "k", "{}", "");
    b.thaw();
    let late = late.await.unwrap().unwrap();
    assert!(
        late.status == 503 || late.status == 201 && !late.is_replay() && late.body != first.body,
        "{late:?}"
    );
    eventually("it is used again", async || b.post("/charges", "k", "{}", "").await.status == 201).await;
    assert_eq!(ground.service.count(), 2);
    assert_eq!(a.post("/charges", "k", "{}", "").await.text(), "answer 2 to {}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_erased_for_a_subject_at_one_instance_is_gone_at_the_other_b9() {
    let ground = Ground::new(Kind::Postgres).await;
    let (a, b) = (ground.serve_as("a").await, ground.serve_as("b").await);
    for number in 0..30 {
        let key = format!("k-{number}");
        assert_eq!(a.post("/charges", &key, "{}", "").await.status, 201);
        assert!(b.post("/charges", &key, "{}", "").await.is_replay());
    }
    let url = format!("http://{}", a.admin);
    let erase = [
        "claims",
        "erase",
        "--tenant",
        "acme",
        "--subject",
        "user:alice",
        "--reason",
        "asked",
        "--admin",
        &url,
    ];
    let told = ground.run(&erase).await;
    assert_eq!((told.code, told.out.split(' ').next()), (0, Some("30")), "{} {}", told.out, told.err);
    for number in 0..30 {
        let gone = b.post("/charges", &format!("k-{number}"), "{}", "").await;
        assert_eq!(gone.problem(), (409, "outcome-not-kept".into()));
    }
    assert_eq!(ground.service.count(), 30);
}

/// Where one instance would take for a new request what another one has taken for an old one, work would be done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operation_is_identified_by_does_not_change_while_another_instance_serves_k6() {
    const ROUTE: &str = "[[routes]]\nmethod = \"POST\"\npath = \"/refunds\"\noperation = \"refund\"\n\
                         policy = \"REQUIRED_A\"\nupstream = \"service\"\n";
    let mut ground = Ground::new(Kind::Postgres).await;
    ground.routes = ROUTE.to_owned();
    let mut a = ground.serve_as("a").await;
    ground.routes = format!("{ROUTE}scope = \"tenant\"\n");
    let config = ground.write("b").display().to_string();
    let refused = ground.run(&["serve", "--config", &config]).await;
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("\"refund\"") && refused.err.contains("stop them first"), "{}", refused.err);
    a.terminate();
    assert_eq!(a.ended().await.code(), Some(0));
    let b = ground.serve_as("b").await;
    assert_eq!(b.post("/refunds", "k", "{}", "").await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_instances_of_a_store_are_listed_and_so_is_who_holds_a_claim_l4_m1() {
    let mut ground = Ground::new(Kind::Postgres).await;
    ground.lease = BRIEF;
    let (a, b) = (ground.serve_as("a").await, ground.serve_as("b").await);
    ground.service.hold();
    let _charge = b.begin("/charges", "k", "{}", "");
    ground.service.reached(1).await;
    let listed =
        async || a.ask("GET /v1/instances", "").await.json()["instances"].as_array().unwrap().clone();
    let instances = listed().await;
    assert_eq!(instances.len(), 2, "{instances:?}");
    assert!(instances.iter().all(|one| one["alive"] == true && one["name"].is_string()), "{instances:?}");
    let other = instances.iter().find(|one| one["this"] == false).unwrap();
    let id = a.claims("held").await[0]["operation_id"].as_str().unwrap().to_owned();
    let claim = a.ask(&format!("GET /v1/claims/{id}"), "").await.json();
    assert_eq!(claim["holder"]["session"], other["session"], "{claim}");
    assert!(a.ask("GET /v1/store", "").await.json()["bytes"].as_u64().unwrap() > 0);
    b.kill();
    eventually("the other one is told to have ended", async || {
        listed().await.iter().any(|one| one["this"] == false && one["alive"] == false)
    })
    .await;
    ground.service.let_go();
}
