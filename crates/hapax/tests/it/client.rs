//! The client SDK against the real edge (C1–C7): keys, retries, recall, and a client that is killed between send and answer.

use std::process::{Command, Stdio};
use std::time::Duration;

use hapax_client::{Client, Error, IdempotencyKey, Kind, RetryPolicy};

use crate::crowd::came_in;
use crate::rig::process::eventually;
use crate::rig::{Ground, Kind as Store};

/// Says in which part of a test this process is.
const EDGE: &str = "HAPAX_TEST_CLIENT_EDGE";
const JOURNAL: &str = "HAPAX_TEST_CLIENT_JOURNAL";

fn client(edge: &str, subject: &str) -> hapax_client::ClientBuilder {
    Client::builder(format!("http://{edge}"))
        .header("x-tenant-id", "acme")
        .header("x-project-id", "web")
        .header("x-subject", subject)
        .policy(RetryPolicy::new(5, Duration::from_millis(20), Duration::from_millis(200), 0.1).unwrap())
}

#[tokio::test]
async fn the_client_drives_the_edge_and_its_errors_say_what_to_do_c4() {
    let ground = Ground::new(Store::Embedded).await;
    let hapax = ground.serve().await;
    let alice = client(&hapax.edge.to_string(), "user:alice").build().unwrap();
    let charge = |key: &str, amount: u32| {
        alice.post("/charges").key(key).json(&serde_json::json!({ "amount": amount }))
    };

    let first = charge("order-42", 10).send().await.unwrap();
    let again = charge("order-42", 10).send().await.unwrap();
    assert_eq!((first.status(), first.is_replayed(), again.is_replayed()), (201, false, true));
    assert_eq!((first.body(), first.operation_id()), (again.body(), again.operation_id()));

    let mismatch = charge("order-42", 99).send().await.unwrap_err();
    assert_eq!((mismatch.kind(), mismatch.is_conflict(), mismatch.attempts()), (Kind::Mismatch, true, 1));
    assert_eq!((mismatch.key(), mismatch.request_id()), (Some("order-42"), first.operation_id()));

    let lost = charge("order-44", 10).header("x-do", "cut").send().await.unwrap_err();
    assert_eq!((lost.kind(), lost.code()), (Kind::OutcomeUnknown, Some("outcome-unknown")));

    let key = IdempotencyKey::new("order-42").unwrap();
    assert_eq!(alice.recall("/charges", &key).await.unwrap().unwrap().body(), first.body());
    let bob = client(&hapax.edge.to_string(), "user:bob").build().unwrap();
    assert!(bob.recall("/charges", &key).await.unwrap().is_none(), "H7: somebody else's");
    let doubted = alice.recall("/charges", &IdempotencyKey::new("order-44").unwrap()).await.unwrap_err();
    assert_eq!(doubted.kind(), Kind::OutcomeUnknown);
    assert_eq!(ground.service.done().len(), 2);
}

#[tokio::test]
async fn a_client_whose_calls_are_cut_off_again_and_again_has_one_effect_each_c2() {
    let ground = Ground::new(Store::Embedded).await;
    let hapax = ground.serve().await;
    // The first attempt is given up before the service has answered; the edge goes on, and a later attempt joins.
    let hasty = client(&hapax.edge.to_string(), "user:alice")
        .attempt_timeout(Duration::from_millis(200))
        .policy(RetryPolicy::new(100, Duration::from_millis(20), Duration::from_millis(200), 0.1).unwrap())
        .build()
        .unwrap();
    for number in 0..5 {
        ground.service.hold();
        let before = came_in(&hapax).await;
        let call = tokio::spawn(hasty.post("/charges").body(format!("{number}")).send());
        eventually("it tries again", async || came_in(&hapax).await >= before + 2).await;
        ground.service.let_go();
        let answer = call.await.unwrap().unwrap();
        assert_eq!((answer.status(), answer.attempts() > 1), (201, true));
    }
    assert_eq!(ground.service.done().len(), 5);
}

#[tokio::test]
async fn a_client_killed_between_send_and_answer_finds_its_key_and_has_one_effect_c7() {
    if let (Ok(edge), Ok(journal)) = (std::env::var(EDGE), std::env::var(JOURNAL)) {
        // The part that is killed.
        let client = client(&edge, "user:alice").journal(journal).build().unwrap();
        let intent = client.intent("charge order 42").unwrap();
        let _ = client.post("/charges").intent(&intent).body("10").send().await;
        return;
    }
    let ground = Ground::new(Store::Embedded).await;
    let hapax = ground.serve().await;
    let journal = ground.folder.path().join("keys");
    ground.service.hold();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "client::a_client_killed_between_send_and_answer_finds_its_key_and_has_one_effect_c7",
        ])
        .env(EDGE, hapax.edge.to_string())
        .env(JOURNAL, &journal)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the request has arrived", async || ground.service.done().len() == 1).await;
    child.kill().unwrap();
    child.wait().unwrap();
    ground.service.let_go();

    let client = client(&hapax.edge.to_string(), "user:alice").journal(&journal).build().unwrap();
    let pending = client.pending().unwrap();
    assert_eq!(pending.iter().map(|intent| intent.name()).collect::<Vec<_>>(), ["charge order 42"]);
    let answer = finish(&client, &pending[0]).await.unwrap();
    assert_eq!((answer.status(), answer.is_replayed()), (201, true));
    assert_eq!(ground.service.done().len(), 1, "one effect");
    pending.into_iter().for_each(|intent| intent.finish().unwrap());
    assert!(client.pending().unwrap().is_empty());
}

/// What a program does with what an earlier process left: recall, or send it again with the same key.
async fn finish(client: &Client, intent: &hapax_client::Intent) -> Result<hapax_client::Answer, Error> {
    match client.recall("/charges", intent.key()).await? {
        Some(answer) => Ok(answer),
        None => client.post("/charges").intent(intent).body("10").send().await,
    }
}
