//! A stream to tamper with, and where a store that people can write to by hand must say that it is broken (J3).
//!
//! How it is tampered with is SQL: a store that has no such tables is tried in ways of its own.

use bytes::Bytes;
use hapax_core::journal::{Append, Author, Birth, NewEvent, Runner, Status, Stream};
use hapax_core::{Error, Journal, Ledger, Particular};

/// The stream.
pub fn execution() -> Stream {
    Stream::new("execution/acme/prod/e-1").expect("the suite names streams well")
}

/// An execution with five events, the third of which has a checkpoint.
pub async fn fill<S: Journal + Ledger>(store: &S) {
    let runner = Runner::fresh(store.session().id);
    let birth = Birth { agent: Some("planner".into()), runner: Some(runner), ..Birth::default() };
    let mut create = Append::new(execution(), Author::Creator(birth));
    create.status = Some(Status::Running);
    create.events = ["A", "B", "C"].map(|kind| NewEvent::new(kind, format!("{{\"{kind}\":1}}"))).to_vec();
    create.checkpoint = Some(Bytes::from_static(b"state"));
    store.append(create).await.expect("the stream is made");
    let more = ["D", "E"].map(|kind| NewEvent::new(kind, "{}")).to_vec();
    let more = Append::new(execution(), Author::Runner { id: runner.id, version: 1 }).with(more);
    store.append(more).await.expect("its runner writes to it");
}

/// Where the stream is broken, read in small pages and then its checkpoint; `None` where it is sound.
pub async fn broken_at<S: Journal>(store: &S) -> Option<u64> {
    let place = |error: Error| match error.particular() {
        Some(Particular::BrokenChain { stream, position }) => {
            assert_eq!(stream, execution().as_str());
            Some(*position)
        }
        other => panic!("{other:?}: {error:#}"),
    };
    let mut from = 0;
    loop {
        match store.read(&execution(), from, 2).await {
            Ok(events) if events.is_empty() => break,
            Ok(events) => from += events.len() as u64,
            Err(error) => return place(error),
        }
    }
    store.checkpoint(&execution()).await.err().and_then(place)
}

/// What is done to a stored stream, with `AT(n)` for the event at a place and `STREAM` for the stream's head, and where that shows.
pub const TAMPERED: [(&str, u64); 9] = [
    ("UPDATE events SET payload = 'x' WHERE AT(1)", 1),
    ("UPDATE events SET kind = 'X' WHERE AT(3)", 3),
    ("UPDATE events SET at = at + 1 WHERE AT(0)", 0),
    ("UPDATE events SET salt = NULL WHERE AT(4)", 4),
    ("UPDATE events SET checkpoint = NULL WHERE AT(2)", 2),
    ("DELETE FROM events WHERE AT(2)", 2),
    ("DELETE FROM events WHERE AT(4)", 4),
    ("UPDATE checkpoints SET bytes = 'x'", 2),
    ("DELETE FROM checkpoints", 2),
];
