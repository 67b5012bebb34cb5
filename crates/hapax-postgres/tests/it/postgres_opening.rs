//! Opening the PostgreSQL store: migrations, incarnations, and what is refused.

use std::time::Duration;

use hapax_core::claim::Terms;
use hapax_core::{Filter, Inspect as _, Kind, Ledger as _};
use hapax_postgres::Postgres;
use hapax_store::conformance::request;
use hapax_store::{Lifecycle as _, Options};
use tokio::task::JoinSet;

use crate::postgres::{ask, by_hand, connect, hold, open, settle};
use crate::server::{Database, is_alone, run_alone, until, until_somebody_waits};

async fn refusal(url: &str) -> hapax_core::Error {
    Postgres::open(url, by_hand()).await.expect_err("it must be refused")
}

#[tokio::test]
async fn eight_openers_of_an_empty_database_make_one_schema_b1() {
    let database = Database::fresh().await;
    let mut openers = JoinSet::new();
    for number in 0..8 {
        let url = database.url().to_owned();
        openers.spawn(async move {
            let store = Postgres::open(&url, by_hand()).await.unwrap();
            settle(&store, &format!("k{number}"), "done").await;
            store.session().id
        });
    }
    let mut sessions = openers.join_all().await;
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), 8);
    let client = connect(database.url()).await;
    let row = client.query_one("SELECT count(*), max(version) FROM hapax.schema_version", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), i64::from(row.get::<_, i32>(1)));
}

#[tokio::test]
async fn a_migration_may_take_longer_than_any_other_statement_b1() {
    let database = Database::fresh().await;
    let mut client = connect(database.url()).await;
    let tx = client.transaction().await.unwrap();
    tx.batch_execute("SELECT pg_advisory_xact_lock(hashtext('hapax.schema'))").await.unwrap();
    let url = database.url().to_owned();
    let opening = tokio::spawn(async move { Postgres::open(&url, by_hand()).await });
    // Another process takes longer over it than a server may take for an answer.
    tokio::time::sleep(hapax_postgres::limits::REPLY_WITHIN + Duration::from_secs(1)).await;
    assert!(!opening.is_finished(), "it waits for its turn");
    tx.commit().await.unwrap();
    settle(&opening.await.unwrap().unwrap(), "k", "done").await;
}

#[tokio::test]
async fn a_schema_made_for_a_newer_hapax_is_refused_b8() {
    let database = Database::fresh().await;
    drop(open(&database, by_hand()).await);
    let newer = "INSERT INTO hapax.schema_version (version, oldest_compatible) VALUES (900, 800)";
    connect(database.url()).await.batch_execute(newer).await.unwrap();
    let error = refusal(database.url()).await;
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.message().contains("newer hapax"), "{error}");
    let client = connect(database.url()).await;
    client
        .batch_execute("UPDATE hapax.schema_version SET oldest_compatible = 1 WHERE version = 900")
        .await
        .unwrap();
    let store = open(&database, by_hand()).await;
    settle(&store, "k", "a newer schema that older ones can use is used").await;
}

#[tokio::test]
async fn another_life_of_the_data_begins_another_incarnation_l4() {
    let database = Database::fresh().await;
    let (_, before) = hold(&open(&database, by_hand()).await, "before").await;
    let (_, same) = hold(&open(&database, by_hand()).await, "same").await;
    assert_eq!(before.incarnation(), same.incarnation());
    // As after a promotion or a restore.
    connect(database.url()).await.batch_execute("UPDATE hapax.meta SET origin = 'elsewhere'").await.unwrap();
    let store = open(&database, by_hand()).await;
    let (_, after) = hold(&store, "after").await;
    assert_eq!(after.incarnation(), before.incarnation() + 1);
    assert!(after > same);
}

#[tokio::test]
async fn a_process_that_reconnects_notices_the_new_incarnation_l4() {
    let database = Database::fresh().await;
    let store = open(&database, by_hand()).await;
    let (_, before) = hold(&store, "before").await;
    let client = connect(database.url()).await;
    let cut = "UPDATE hapax.meta SET origin = 'elsewhere'; \
               SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.batch_execute(cut).await.unwrap();
    let (_, after) = hold(&store, "after").await;
    assert_eq!(after.incarnation(), before.incarnation() + 1);
}

#[tokio::test]
async fn a_postgres_that_is_away_is_named_without_its_password_l14() {
    let error = refusal("postgres://hapax:s3cret@127.0.0.1:1/ledger").await;
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.message().contains("127.0.0.1:1, database ledger"), "{error}");
    assert!(!format!("{error:#}").contains("s3cret"));
}

#[tokio::test]
async fn a_wrong_address_is_the_callers_mistake() {
    assert_eq!(refusal("postgres://").await.kind(), Kind::Invalid);
    assert_eq!(refusal("postgres://host/db?sslmode=require").await.kind(), Kind::Invalid);
    let database = Database::fresh().await;
    let error = refusal(&format!("{}_missing", database.url())).await;
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.message().contains("does not exist"), "{error}");
}

#[tokio::test]
async fn a_store_that_is_not_there_is_made_only_where_that_is_wanted_b1() {
    let database = Database::fresh().await;
    let existing = || Options { create: false, ..by_hand() };
    let refused = [
        Postgres::open(database.url(), existing()).await.unwrap_err(),
        Postgres::open_read_only(database.url()).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.message().contains("there is no store in PostgreSQL at 127.0.0.1"), "{error}");
    }
    let client = connect(database.url()).await;
    let made = "SELECT to_regnamespace('hapax') IS NOT NULL";
    assert!(!client.query_one(made, &[]).await.unwrap().get::<_, bool>(0));
    drop(open(&database, by_hand()).await);
    settle(&open(&database, existing()).await, "k", "what is there is used").await;
    client.batch_execute("DELETE FROM hapax.schema_version").await.unwrap();
    let older = Postgres::open(database.url(), existing()).await.unwrap_err();
    assert!(older.message().contains("version 0") && older.message().contains("migrates it"), "{older}");
}

#[tokio::test]
async fn reading_takes_no_more_than_the_right_to_read_and_leaves_nothing_b8() {
    let database = Database::fresh().await;
    let store = open(&database, by_hand()).await;
    let settled = settle(&store, "k1", "done").await;
    hold(&store, "k2").await;
    let client = connect(database.url()).await;
    let role = format!("reader_{:?}", hapax_core::AttemptId::random());
    let make = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA hapax TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA hapax TO {role}"
    );
    client.batch_execute(&make).await.unwrap();
    let (_, rest) = database.url().split_once('@').unwrap();
    let reader = Postgres::open_read_only(&format!("postgres://{role}@{rest}")).await.unwrap();
    let counts = reader.count(&Filter::default()).await.unwrap();
    assert_eq!((counts.settled, counts.held), (1, 1));
    let page = reader.list(&Filter::default(), None, 10).await.unwrap();
    let one = reader.find(page.items[0].claim.operation_id).await.unwrap().unwrap();
    assert_eq!(one.identity, page.items[0].identity);
    assert!(reader.record(settled).await.unwrap().is_some());
    reader.close().await.unwrap();
    // Nor does a role that may write.
    let reader = Postgres::open_read_only(database.url()).await.unwrap();
    let claimed = reader.claim(request("k3", "body", Terms::default())).await;
    assert!(claimed.is_err(), "{claimed:?}");
    reader.close().await.unwrap();
    let sessions: i64 = client.query_one("SELECT count(*) FROM hapax.sessions", &[]).await.unwrap().get(0);
    assert_eq!(sessions, 1, "the writer's own");
}

#[tokio::test]
async fn a_process_that_ends_holding_nothing_leaves_no_session_l4() {
    let database = Database::fresh().await;
    let client = connect(database.url()).await;
    let sessions = async || -> i64 {
        client.query_one("SELECT count(*) FROM hapax.sessions", &[]).await.unwrap().get(0)
    };
    let store = open(&database, Options::default()).await;
    settle(&store, "k1", "done").await;
    assert_eq!(sessions().await, 1);
    store.close().await.unwrap();
    assert_eq!(sessions().await, 0);
    // What it holds hangs on the session, also when the sweeper has met it.
    for swept in [false, true] {
        let store = open(&database, by_hand()).await;
        hold(&store, &format!("held-{swept}")).await;
        if swept {
            store.sweep(100).await.unwrap();
        }
        let before = sessions().await;
        store.close().await.unwrap();
        assert_eq!(sessions().await, before, "swept: {swept}");
    }
}

#[tokio::test]
async fn opening_again_changes_nothing() {
    let database = Database::fresh().await;
    let store = open(&database, Options::default()).await;
    let (id, epoch) = hold(&store, "k").await;
    drop(open(&database, Options::default()).await);
    let record = store.record(id).await.unwrap().unwrap();
    assert_eq!(record.claim.epoch, epoch);
}

/// The threads of all stores in this process.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        // One that has just ended has no name.
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    tasks.map(name).filter(|name| name.starts_with("hapax-")).count()
}

/// In a process of its own, because it counts threads.
async fn stores_that_nobody_has() {
    let database = Database::fresh().await;
    let client = connect(database.url()).await;
    client.batch_execute("SELECT pg_advisory_lock(hashtext('hapax.schema'))").await.unwrap();
    let url = database.url().to_owned();
    let opener = tokio::spawn(async move { Postgres::open(&url, Options::default()).await });
    until_somebody_waits(&database, "pg_advisory_xact_lock").await;
    opener.abort();
    assert!(opener.await.is_err(), "the opener has gone");
    assert_eq!(threads(), 1, "the store is being opened");
    client.batch_execute("SELECT pg_advisory_unlock(hashtext('hapax.schema'))").await.unwrap();
    until(async || threads() == 0).await;
    let opened: i64 = client.query_one("SELECT count(*) FROM hapax.sessions", &[]).await.unwrap().get(0);
    assert_eq!(opened, 1, "it was opened all the same");

    let store = open(&database, Options::default()).await;
    let clone = store.clone();
    drop(store);
    hold(&clone, "k").await;
    assert!(threads() > 1, "somebody has it");
    drop(clone);
    until(async || threads() == 0).await;

    // While a batch is sent again and again.
    let patience = std::time::Duration::from_secs(600);
    let store = open(&database, Options { patience, ..by_hand() }).await;
    database.takes_writes(false).await;
    let client = connect(database.url()).await;
    let refused = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let refused = async || -> i64 { client.query_one(refused, &[]).await.unwrap().get(0) };
    let before = refused().await;
    let claiming = tokio::spawn(async move { ask(&store, "k").await });
    until(async || refused().await > before).await;
    claiming.abort();
    until(async || threads() == 0).await;
}

#[tokio::test]
async fn a_store_that_nobody_has_any_more_ends_its_threads() {
    if is_alone() {
        return stores_that_nobody_has().await;
    }
    run_alone("postgres_opening::a_store_that_nobody_has_any_more_ends_its_threads", &[]);
}
