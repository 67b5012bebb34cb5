//! What both databases must show of streams that were tampered with, and the tables that people read (J3).

use bytes::Bytes;
use hapax_core::journal::{Append, Author, Birth, NewEvent, Runner, Status, Stream};
use hapax_core::{Error, Journal, Ledger, Particular};
use hapax_store::embedded::Embedded;
use hapax_store::{Lifecycle as _, Options};

pub(crate) fn execution() -> Stream {
    Stream::new("execution/acme/prod/e-1").unwrap()
}

/// An execution with five events, the third of which has a checkpoint.
pub(crate) async fn fill<S: Journal + Ledger>(store: &S) {
    let runner = Runner::fresh(store.session().id);
    let birth = Birth { agent: Some("planner".into()), runner: Some(runner), ..Birth::default() };
    let mut create = Append::new(execution(), Author::Creator(birth));
    create.status = Some(Status::Running);
    create.events = ["A", "B", "C"].map(|kind| NewEvent::new(kind, format!("{{\"{kind}\":1}}"))).to_vec();
    create.checkpoint = Some(Bytes::from_static(b"state"));
    store.append(create).await.unwrap();
    let more = ["D", "E"].map(|kind| NewEvent::new(kind, "{}")).to_vec();
    store
        .append(Append::new(execution(), Author::Runner { id: runner.id, version: 1 }).with(more))
        .await
        .unwrap();
}

/// Where the stream is broken, read in small pages and then its checkpoint; `None` where it is sound.
pub(crate) async fn broken_at<S: Journal>(store: &S) -> Option<u64> {
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
pub(crate) const TAMPERED: [(&str, u64); 9] = [
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

#[tokio::test]
async fn an_embedded_stream_that_was_tampered_with_says_where() {
    for (what, place) in TAMPERED {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), Options::default()).unwrap();
        fill(&store).await;
        assert_eq!(broken_at(&store).await, None);
        store.close().await.unwrap();
        let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
        let mut sql = what.replace("'x'", "x'78'");
        for place in 0..5 {
            sql = sql.replace(&format!("AT({place})"), &format!("id & 0xffffffff = {place}"));
        }
        assert_eq!(database.execute(&sql, []).unwrap(), 1, "{sql}");
        drop(database);
        let store = Embedded::open_read_only(folder.path()).unwrap();
        assert_eq!(broken_at(&store).await, Some(place), "{what}");
        assert!(!store.verify().await.unwrap().is_sound(), "{what}");
    }
}

#[tokio::test]
async fn executions_can_be_read_with_sql_in_an_embedded_store_j1() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    fill(&store).await;
    let others = Append::new(Stream::new("receipts/acme").unwrap(), Author::Anyone { version: None });
    store.append(others.with(vec![NewEvent::new("PAID", "{}")])).await.unwrap();
    store.close().await.unwrap();
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    let sql = "SELECT execution_id, agent_id, status, version, created_at IS NOT NULL AND updated_at IS NOT NULL, \
               tenant, project FROM hapax_executions";
    let row: (String, String, String, i64, bool, String, String) = database
        .query_row(sql, [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
        })
        .unwrap();
    let expected = ("e-1", "planner", "RUNNING", 2, true, "acme", "prod");
    assert_eq!((&row.0[..], &row.1[..], &row.2[..], row.3, row.4, &row.5[..], &row.6[..]), expected);
    let sql = "SELECT event_id, execution_id, event_type, schema_version, payload_json, event_hash, created_at \
               FROM hapax_execution_events ORDER BY event_id LIMIT 1";
    let row: (String, String, String, i64, String, String, String) = database
        .query_row(sql, [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
        })
        .unwrap();
    assert_eq!((&row.0[..], &row.1[..], &row.2[..], row.3, &row.4[..]), ("1.0", "e-1", "A", 2, "{\"A\":1}"));
    assert_eq!(row.5.len(), 64);
    let count: i64 =
        database.query_row("SELECT count(*) FROM hapax_execution_events", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 5);
}

#[tokio::test]
async fn nothing_of_an_erased_payload_is_left_in_the_files_b9() {
    use hapax_core::Inspect as _;
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    let secret = "the-secret-of-alice-".repeat(500);
    let event = NewEvent { subject: Some("user:alice".into()), ..NewEvent::new("NOTE", secret.clone()) };
    let mut write = Append::new(execution(), Author::Anyone { version: None }).with(vec![event]);
    write.checkpoint = Some(secret.into());
    store.append(write).await.unwrap();
    assert_eq!(store.erase_events(&execution(), "user:alice", 0, 10).await.unwrap().erased, 1);
    store.close().await.unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let content = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!content.windows(19).any(|window| window == b"the-secret-of-alice"));
    }
}
