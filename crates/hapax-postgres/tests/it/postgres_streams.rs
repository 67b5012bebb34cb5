//! Streams on PostgreSQL: what was tampered with, what people read, and appends that share a transaction (J3, B3).

use hapax_core::journal::{Append, Author, NewEvent, Stream};
use hapax_core::{Journal as _, Kind, Particular};
use tokio::task::JoinSet;

use crate::postgres::{by_hand, connect, open};
use crate::server::Database;
use hapax_store::conformance::tampering::{TAMPERED, broken_at, execution, fill};

#[tokio::test]
async fn a_stream_that_was_tampered_with_says_where() {
    for (what, place) in TAMPERED {
        let database = Database::fresh().await;
        let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
        fill(&store).await;
        assert_eq!(broken_at(&store).await, None);
        let mut sql = what.replace("UPDATE ", "UPDATE hapax.").replace("FROM ", "FROM hapax.");
        for place in 0..5 {
            sql = sql.replace(&format!("AT({place})"), &format!("seq = {place}"));
        }
        assert_eq!(client.execute(&sql, &[]).await.unwrap(), 1, "{sql}");
        assert_eq!(broken_at(&store).await, Some(place), "{what}");
    }
}

#[tokio::test]
async fn a_head_or_a_tail_that_was_changed_says_where() {
    let changes = [
        ("UPDATE hapax.streams SET length = 4", 4),
        ("UPDATE hapax.streams SET length = 6", 5),
        ("UPDATE hapax.streams SET hash = sha256('x')", 4),
        ("UPDATE hapax.streams SET chain = 1", 0),
    ];
    for (what, place) in changes {
        let database = Database::fresh().await;
        let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
        fill(&store).await;
        client.execute(what, &[]).await.unwrap();
        assert_eq!(broken_at(&store).await, Some(place), "{what}");
    }
}

#[tokio::test]
async fn a_stream_of_an_unknown_version_is_refused_by_its_number() {
    let database = Database::fresh().await;
    let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
    fill(&store).await;
    client.execute("UPDATE hapax.streams SET chain = 7", &[]).await.unwrap();
    let refused = store.head(&execution()).await.unwrap_err();
    assert_eq!(refused.particular(), Some(&Particular::UnsupportedVersion { version: 7 }));
}

#[tokio::test]
async fn executions_can_be_read_with_sql_j1() {
    let database = Database::fresh().await;
    let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
    fill(&store).await;
    let sql = "SELECT execution_id, agent_id, status, version::int, tenant, project FROM hapax.hapax_executions \
               WHERE created_at <= updated_at";
    let row = client.query_one(sql, &[]).await.unwrap();
    let text = |column| row.get::<_, &str>(column);
    assert_eq!([text(0), text(1), text(2), text(4), text(5)], ["e-1", "planner", "RUNNING", "acme", "prod"]);
    assert_eq!(row.get::<_, i32>(3), 2);
    let sql = "SELECT event_id, execution_id, event_type, schema_version, payload_json, event_hash, created_at::text \
               FROM hapax.hapax_execution_events ORDER BY event_id";
    let rows = client.query(sql, &[]).await.unwrap();
    let text = |column| rows[0].get::<_, &str>(column);
    assert_eq!([text(0), text(1), text(2), text(4)], ["1.0", "e-1", "A", "{\"A\":1}"]);
    assert_eq!((rows[0].get::<_, i32>(3), text(5).len(), rows.len()), (2, 64, 5));
    client.execute("UPDATE hapax.events SET payload = '\\xff' WHERE seq = 0", &[]).await.unwrap();
    let sealed = client.query(sql, &[]).await.unwrap();
    assert_eq!(
        sealed[0].get::<_, Option<&str>>(4),
        None,
        "what is no text stops nobody from reading the rest"
    );
}

#[tokio::test]
async fn appends_that_come_together_are_each_written_or_refused_alone_b3() {
    let database = Database::fresh().await;
    let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
    let mut writers = JoinSet::new();
    for number in 0..200 {
        let store = store.clone();
        writers.spawn(async move {
            let stream = Stream::new(format!("receipts/{}", number % 50)).unwrap();
            // Of four for a stream one expects what cannot be.
            let version = (number < 50).then_some(77);
            let write = Append::new(stream, Author::Anyone { version }).with(vec![NewEvent::new("A", "{}")]);
            (version, store.append(write).await)
        });
    }
    for (version, written) in writers.join_all().await {
        match version {
            Some(_) => assert_eq!(written.unwrap_err().kind(), Kind::Conflict),
            None => assert!(written.unwrap().length <= 3),
        }
    }
    let lengths = client.query("SELECT DISTINCT length FROM hapax.streams", &[]).await.unwrap();
    assert_eq!(lengths.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [3]);
}

#[tokio::test]
async fn a_stream_that_another_transaction_has_keeps_no_other_waiting_b3() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, connect(database.url()).await);
    let write = |name: &str| {
        let stream = Stream::new(name).unwrap();
        Append::new(stream, Author::Anyone { version: None }).with(vec![NewEvent::new("A", "{}")])
    };
    store.append(write("receipts/busy")).await.unwrap();
    let tx = client.transaction().await.unwrap();
    tx.query("SELECT FROM hapax.streams WHERE name = 'receipts/busy' FOR UPDATE", &[]).await.unwrap();
    let waiting = tokio::spawn({
        let (store, write) = (store.clone(), write("receipts/busy"));
        async move { store.append(write).await }
    });
    assert_eq!(store.append(write("receipts/free")).await.unwrap().length, 1);
    tx.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().length, 2);
}
