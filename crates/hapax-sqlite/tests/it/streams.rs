//! Streams in an embedded store: what was tampered with, what people read, and what is erased (J1, J3, B9).

use hapax_core::journal::{Append, Author, NewEvent, Stream};
use hapax_core::{Inspect as _, Journal as _};
use hapax_sqlite::Embedded;
use hapax_store::conformance::tampering::{TAMPERED, broken_at, execution, fill};
use hapax_store::{Lifecycle as _, Options};

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
