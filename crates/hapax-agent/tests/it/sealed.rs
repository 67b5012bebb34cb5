//! What is sealed: payloads, checkpoints and results; and that it opens where it belongs alone (B9).

use std::sync::Arc;

use hapax::Store;
use hapax_agent::durable::{Error, Executions, Resume, Stop, verify};
use hapax_core::Scope;
use hapax_exec::{Executor, Seal};
use hapax_store::{Lifecycle as _, Options};
use serde_json::json;

use crate::world::{World, creation, id};

const SECRET: &str = "the-iban-of-alice";

fn seal(keys: &[u8]) -> Option<Arc<Seal>> {
    Some(Arc::new(Seal::new(keys.iter().map(|byte| [*byte; 32]).collect()).unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_sealed_execution_lies_open_and_it_is_resumed_with_its_keys_b9() {
    let world = World::embedded().await;
    let executions = world.executions().sealed(seal(&[1]));
    let new = hapax_agent::durable::Creation { input: json!({ "seen": [SECRET] }), ..creation("e-1") };
    let run = executions.create(new).await.unwrap();
    world
        .calls
        .end([Ok(json!({ "answer": SECRET })), Err(hapax_agent::durable::ToolError::Unknown("cut".into()))]);
    let agent = world.agent(&[("undeclared", json!(SECRET)), ("unsafe", json!(SECRET))]);
    assert!(matches!(agent.run(&run).await.unwrap(), Stop::Paused(_)));
    // Other keys, or none: it cannot be read, and nothing is written.
    let before = executions.status(&id("e-1")).await.unwrap();
    for other in [world.executions(), world.executions().sealed(seal(&[2]))] {
        assert!(matches!(other.resume(&id("e-1"), Resume::default()).await, Err(Error::Store(_))));
        assert!(matches!(other.read(&id("e-1"), 0, 10).await, Err(Error::Store(_))));
    }
    assert_eq!(executions.status(&id("e-1")).await.unwrap(), before);
    // What is sealed cannot be hashed as chain 1 says.
    let old = hapax_agent::durable::Creation { chain: hapax_core::journal::Chain::V1, ..creation("e-2") };
    assert!(matches!(executions.create(old).await, Err(Error::Invalid(_))));
    // The chain is checked without any key.
    let stream = executions.stream(&id("e-1")).unwrap();
    assert!(verify(&world.store, &stream).await.unwrap().is_sound());
    // With a new key in front of the old one it goes on.
    let rotated = world.executions().sealed(seal(&[2, 1]));
    let waiting = rotated.waiting(&id("e-1")).await.unwrap().remove(0);
    assert_eq!(waiting.intent.args, json!(SECRET));
    let decision = hapax_agent::durable::Decision {
        at: waiting.at,
        digest: waiting.intent.digest,
        epoch: waiting.epoch,
        choice: hapax_agent::durable::Choice::Confirm(json!(SECRET)),
        by: "ann".into(),
        reason: "seen".into(),
    };
    rotated.decide(&id("e-1"), decision).await.unwrap();
    let run = rotated.resume(&id("e-1"), Resume::default()).await.unwrap();
    let stop = agent.run(&run).await.unwrap();
    assert_eq!(
        stop,
        Stop::Completed(json!({ "seen": [{ "value": { "answer": SECRET } }, { "value": SECRET }] }))
    );
    assert_eq!(world.calls.count(), 2);
    world.store.close().await.unwrap();
    let mut files = 0;
    for file in std::fs::read_dir(world.url.strip_prefix("embedded:").unwrap()).unwrap() {
        let content = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!content.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
        files += 1;
    }
    assert!(files > 0);
}

#[tokio::test]
async fn sealed_bytes_of_another_execution_do_not_open_b9() {
    let store = Store::open("memory:", Options::default()).await.unwrap();
    let executions = Executions::new(Executor::new(store.clone()), Scope::local()).sealed(seal(&[1]));
    let run = executions.create(creation("e-1")).await.unwrap();
    run.complete_iteration(0, &json!(SECRET)).await.unwrap();
    let mut export = executions.export(&id("e-1")).await.unwrap();
    let mut lines = Vec::new();
    while let Some(page) = export.next().await.unwrap() {
        lines.extend(page);
    }
    let text = String::from_utf8(lines).unwrap();
    assert!(!text.contains(SECRET), "an export is as sealed as what it was made of");
    let elsewhere = Store::open("memory:", Options::default()).await.unwrap();
    let there =
        |keys: &[u8]| Executions::new(Executor::new(elsewhere.clone()), Scope::local()).sealed(seal(keys));
    let refused = there(&[3]).import(&mut std::io::Cursor::new(text.as_bytes())).await;
    assert!(refused.is_err(), "{refused:?}");
    // Called another name it is another execution, and its bytes are not that one's.
    let other =
        text.replace("local/e-1", "local/e-2").replace("\"executionId\":\"e-1\"", "\"executionId\":\"e-2\"");
    assert!(there(&[1]).import(&mut std::io::Cursor::new(other.as_bytes())).await.is_err());
    there(&[1]).import(&mut std::io::Cursor::new(text.as_bytes())).await.unwrap();
    let shown = there(&[1]).get(&id("e-1"), 0, 10).await.unwrap();
    assert_eq!(shown.checkpoint.unwrap().get(), format!("{SECRET:?}"));
}
