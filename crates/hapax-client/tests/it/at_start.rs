//! What a program does at its start about everything that was under way: the loop of the client guide, as it is printed there
//! (C6, C7).

use std::cell::RefCell;
use std::time::Duration;

use hapax_client::{Answer, Client, Error, Intent, RetryPolicy};
use serde_json::{Value, json};

use crate::server::{Do, Server};

/// What the loop made of each intent, in order.
type Made = RefCell<Vec<(&'static str, String)>>;

const RETENTION: Duration = Duration::from_secs(23 * 60 * 60);

fn body(name: &str) -> Value {
    json!({ "for": name })
}

async fn resume(client: &Client, made: &Made) -> Result<(), Error> {
    let told = |what: &'static str, name: &str| made.borrow_mut().push((what, name.to_owned()));
    let record = |name: &str, _: &Answer| told("recorded", name);
    let refused = |name: &str, _: &Answer| told("refused", name);
    let ask_a_person = |intent: &Intent, _: &str| told("asked", intent.name());
    let ask_again_later = |intent: &Intent, _: &Error| told("later", intent.name());
    // The guide's loop:
    for intent in client.pending()? {
        let found = match client.recall("/charges", intent.key()).await {
            // Nothing is kept, and nothing can have expired: it was not done, or will be found to be under way.
            Ok(None) if intent.age().is_some_and(|age| age < RETENTION) => {
                client.post("/charges").intent(&intent).json(&body(intent.name())).send().await
            }
            // It may have been done and have expired since. The key is free again: sending it could charge twice.
            Ok(None) => {
                ask_a_person(&intent, "what became of it is no longer kept");
                continue;
            }
            Ok(Some(answer)) => Ok(answer),
            Err(error) => Err(error),
        };
        match found {
            // It was done; this is its answer.
            Ok(answer) if (200..300).contains(&answer.status()) => record(intent.name(), &answer),
            // A refusal is kept like any other answer, and a recall hands it out: a 402 is no charge.
            Ok(answer) => refused(intent.name(), &answer),
            // It came to an end, but its answer was not kept: `error.executed()` is what its status alone tells.
            Err(error) if error.code() == Some("outcome-not-kept") => {
                ask_a_person(&intent, "its answer was not kept");
                continue;
            }
            // In doubt, under way, refused just now, or nobody could be asked. It keeps its key, the others go on, and the next
            // round asks again.
            Err(error) => {
                ask_again_later(&intent, &error);
                continue;
            }
        }
        intent.finish()?;
    }
    // Its end.
    Ok(())
}

/// The text between two others, line by line and without indentation.
fn lines<'t>(text: &'t str, from: &str, to: &str) -> Vec<&'t str> {
    let text = &text[text.find(from).unwrap()..];
    text[..text.find(to).unwrap()].lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_loop_that_is_tried_here_is_the_one_of_the_guide() {
    let guide = include_str!("../../../../docs/guides/client.md");
    let from = "for intent in client.pending()? {";
    let printed = lines(guide, from, "let intent = client.intent(");
    let tried = lines(include_str!("at_start.rs"), from, "// Its end.");
    assert_eq!(printed, tried);
}

const PROBLEM: &str = "content-type: application/problem+json\r\n";
const KEPT: &str = "idempotent-replayed: true\r\n";

#[tokio::test]
async fn at_start_each_intent_is_taken_for_what_became_of_it_c7() {
    let folder = tempfile::tempdir().unwrap();
    let absent = || Do::Answer(404, PROBLEM, "{\"code\":\"not-found\"}");
    let server = Server::start([
        Do::Answer(402, KEPT, "declined"),
        Do::Answer(409, PROBLEM, "{\"code\":\"outcome-unknown\"}"),
        Do::Answer(409, PROBLEM, "{\"code\":\"outcome-not-kept\",\"first_status\":201}"),
        absent(),
        Do::Answer(201, "", "charged"),
        absent(),
        Do::Answer(401, PROBLEM, "{\"code\":\"unauthenticated\"}"),
        absent(),
        Do::Answer(201, KEPT, "charged"),
    ])
    .await;
    let client =
        Client::builder(server.url()).policy(RetryPolicy::none()).journal(folder.path()).build().unwrap();
    for name in
        ["1 declined", "2 in doubt", "3 not kept", "4 not sent", "5 locked out", "6 expired", "7 done"]
    {
        client.intent(name).unwrap();
    }
    age(folder.path(), "6 expired");
    let made = Made::default();
    resume(&client, &made).await.unwrap();
    let made: Vec<_> = made.take();
    let made: Vec<_> = made.iter().map(|(what, name)| (*what, name.as_str())).collect();
    assert_eq!(
        made,
        [
            ("refused", "1 declined"),
            ("later", "2 in doubt"),
            ("asked", "3 not kept"),
            ("recorded", "4 not sent"),
            ("later", "5 locked out"),
            ("asked", "6 expired"),
            ("recorded", "7 done"),
        ]
    );
    let left: Vec<_> = client.pending().unwrap().iter().map(|intent| intent.name().to_owned()).collect();
    assert_eq!(left, ["2 in doubt", "3 not kept", "5 locked out", "6 expired"]);
}

/// As if it had been written long ago.
fn age(folder: &std::path::Path, name: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut kept: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        if kept["name"] == name {
            kept["written_ms"] = 1_700_000_000_000_u64.into();
            std::fs::write(&path, kept.to_string()).unwrap();
        }
    }
}
