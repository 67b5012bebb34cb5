//! `hapax doctor` and `hapax claims --store` on PostgreSQL, with a database of its own for each test (M6).

use std::process::Command;

use hapax_exec::{Ended, Executor};
use hapax_postgres::{Postgres, SCHEMA_VERSION};
use hapax_store::{Lifecycle as _, Options};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::claims_cli::told;
use crate::doctor::{doctor, level};
use crate::office::call;
use crate::rig::{self, Database, Ground};

/// A database in which hapax has worked.
async fn used() -> Database {
    let database = Database::fresh().await;
    let store = Postgres::open(&database.url, Options::default()).await.unwrap();
    let lost =
        Executor::new(store.clone()).once(call("order-1"), |_| async { Ended::Unknown("lost".into()) }).await;
    assert!(lost.is_err());
    store.close().await.unwrap();
    database
}

#[tokio::test]
async fn a_sound_database_passes_and_what_is_in_doubt_is_told_m6() {
    let database = used().await;
    let told = doctor(&["--store", &database.url, "--json"]).await;
    assert_eq!(told.code, 0, "{} {}", told.out, told.err);
    for what in [
        "server",
        "version",
        "fsync",
        "full_page_writes",
        "synchronous_commit",
        "replicas",
        "clock",
        "schema",
        "LISTEN and NOTIFY",
    ] {
        assert_eq!(level(&told, what), "ok", "{what}: {}", told.out);
    }
    assert_eq!(level(&told, "claims"), "warn");
}

#[tokio::test]
async fn an_empty_database_is_left_empty_m6() {
    let database = Database::fresh().await;
    let told = doctor(&["--store", &database.url, "--json"]).await;
    assert_eq!((told.code, level(&told, "schema").as_str()), (0, "warn"), "{}", told.out);
    database.run("DO $$ BEGIN ASSERT to_regnamespace('hapax') IS NULL; END $$").await;
}

#[tokio::test]
async fn a_database_that_does_not_wait_for_its_disk_is_refused_m6() {
    let database = used().await;
    database.run(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.name())).await;
    let told = doctor(&["--store", &database.url, "--json"]).await;
    assert_eq!((told.code, level(&told, "synchronous_commit").as_str()), (1, "fail"), "{}", told.out);
    assert_eq!(level(&told, "fsync"), "ok", "the others are told all the same");
}

#[tokio::test]
async fn a_schema_of_another_hapax_is_neither_used_nor_migrated_m6() {
    let database = used().await;
    let newer = SCHEMA_VERSION + 1;
    database
        .run(&format!(
            "INSERT INTO hapax.schema_version (version, oldest_compatible) VALUES ({newer}, {newer})"
        ))
        .await;
    let told = doctor(&["--store", &database.url, "--json"]).await;
    assert_eq!((told.code, level(&told, "schema").as_str()), (1, "fail"), "{}", told.out);
    database.run(&format!("DELETE FROM hapax.schema_version WHERE version >= {SCHEMA_VERSION}")).await;
    let told = doctor(&["--store", &database.url, "--json"]).await;
    assert_eq!((told.code, level(&told, "schema").as_str()), (0, "warn"), "{}", told.out);
    let untouched = format!(
        "DO $$ BEGIN ASSERT (SELECT coalesce(max(version), 0) FROM hapax.schema_version) = {}; END $$",
        SCHEMA_VERSION - 1
    );
    database.run(&untouched).await;
}

#[tokio::test]
async fn a_pooler_that_drops_notifications_is_refused_m6() {
    let database = used().await;
    let through = deaf_pooler(&database).await;
    let told = doctor(&["--store", &through, "--json"]).await;
    assert_eq!((told.code, level(&told, "LISTEN and NOTIFY").as_str()), (1, "fail"), "{}", told.out);
    assert_eq!(level(&told, "schema"), "ok");
}

/// Passes everything on but notifications, as a pooler does that gives each transaction another connection.
async fn deaf_pooler(database: &Database) -> String {
    let config: tokio_postgres::Config = database.url.parse().unwrap();
    let port = config.get_ports()[0];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let ((mut asks, mut hears), (mut answers, mut takes)) =
                (client.into_split(), server.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut asks, &mut takes).await });
            tokio::spawn(async move {
                // A message: its kind, the length of the rest, the rest.
                let mut head = [0; 5];
                while answers.read_exact(&mut head).await.is_ok() {
                    let length = u32::from_be_bytes(head[1..].try_into().unwrap()) - 4;
                    let mut rest = vec![0; usize::try_from(length).unwrap()];
                    if answers.read_exact(&mut rest).await.is_err() {
                        return;
                    }
                    if head[0] != b'A'
                        && (hears.write_all(&head).await.is_err() || hears.write_all(&rest).await.is_err())
                    {
                        return;
                    }
                }
            });
        }
    });
    database.url.replace(&format!(":{port}/"), &format!(":{own}/"))
}

#[tokio::test]
async fn claims_are_read_in_the_database_without_a_server_m2() {
    let database = used().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(["claims", "list", "--state", "in_doubt", "--json", "--store", &database.url]);
    let listed = told(command).await;
    assert_eq!(listed.code, 0, "{}", listed.err);
    let page: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((&page["claims"][0]["key"], &page["claims"][1]), (&"order-1".into(), &Value::Null));
}

#[tokio::test]
async fn a_database_that_cannot_be_had_is_exit_code_3_m2() {
    let missing = Ground::at(format!("{}_missing", Database::fresh().await.url)).await;
    let config = missing.write("hapax").display().to_string();
    for args in [
        &["serve", "--config", &config][..],
        &["claims", "list", "--store", &missing.store],
        &["keys", "list", "--store", &missing.store],
    ] {
        let told = missing.run(args).await;
        assert_eq!(told.code, 3, "{args:?}: {}", told.err);
        assert!(told.err.contains("does not exist"), "{args:?}: {}", told.err);
    }
}

#[tokio::test]
async fn whoever_only_looks_leaves_a_database_as_it_is_m2() {
    let empty = Database::fresh().await;
    for args in [
        &["claims", "count", "--store", &empty.url][..],
        &["claims", "list", "--store", &empty.url],
        &["keys", "list", "--store", &empty.url],
        &["keys", "revoke", "hpx_0", "--store", &empty.url],
    ] {
        let refused = told(rig::hapax(args)).await;
        assert_eq!(refused.code, 3, "{args:?}: {}", refused.err);
        for part in ["there is no store", empty.name(), "makes no store"] {
            assert!(refused.err.contains(part), "{args:?}: {}", refused.err);
        }
    }
    empty.run("DO $$ BEGIN ASSERT to_regnamespace('hapax') IS NULL; END $$").await;
    let used = used().await;
    used.run("DELETE FROM hapax.sessions").await;
    for args in [
        &["claims", "count", "--store", &used.url][..],
        &["claims", "list", "--store", &used.url],
        &["keys", "list", "--store", &used.url],
        &["doctor", "--store", &used.url],
        &[
            "keys",
            "create",
            "--tenant",
            "acme",
            "--project",
            "p",
            "--subject",
            "service:ci",
            "--store",
            &used.url,
        ],
    ] {
        let done = told(rig::hapax(args)).await;
        assert_eq!(done.code, 0, "{args:?}: {}", done.err);
        used.run("DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM hapax.sessions); END $$").await;
    }
}

#[tokio::test]
async fn a_role_that_cannot_make_the_schema_is_told_before_it_serves_m6() {
    let database = Database::fresh().await;
    let role = format!("{}_guest", database.name());
    database.run(&format!("CREATE ROLE {role} LOGIN")).await;
    let (_, rest) = database.url.split_once('@').unwrap();
    let guest = format!("postgres://{role}@{rest}");
    let told = doctor(&["--store", &guest, "--json"]).await;
    assert_eq!((told.code, level(&told, "schema").as_str()), (1, "fail"), "{}", told.out);
    assert!(
        told.out.contains(&format!("GRANT CREATE ON DATABASE {} TO {role}", database.name())),
        "{}",
        told.out
    );
    database.run(&format!("GRANT CREATE ON DATABASE {} TO {role}", database.name())).await;
    let told = doctor(&["--store", &guest, "--json"]).await;
    assert_eq!((told.code, level(&told, "schema").as_str()), (0, "warn"), "{}", told.out);
}
