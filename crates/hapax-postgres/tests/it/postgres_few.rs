//! A store that has some of its connections to PostgreSQL and not all of them, or none for a while (L14).

use std::sync::{Arc, Barrier};
use std::time::Duration;

use hapax_core::{Ending, Kind, Ledger as _, Report, Terms};
use hapax_postgres::Postgres;
use hapax_store::conformance::{DAY, ok, request};
use hapax_store::{Lifecycle as _, Options};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::postgres::{SOON, by_hand, connect, hold, open};
use crate::server::{Database, is_alone, run_alone};

const CLIENTS: usize = 64;

#[tokio::test]
async fn a_server_with_room_for_few_connections_serves_over_those_l14() {
    let database = Database::fresh().await;
    let client = connect(database.url()).await;
    open(&database, by_hand()).await.close().await.unwrap();
    let role = format!("few_{:?}", hapax_core::AttemptId::random());
    // The heart, the ear, and one for batches.
    let make = format!(
        "CREATE ROLE {role} LOGIN CONNECTION LIMIT 3; GRANT ALL ON SCHEMA hapax TO {role}; \
         GRANT ALL ON ALL TABLES IN SCHEMA hapax TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA hapax TO {role}"
    );
    client.batch_execute(&make).await.unwrap();
    let (_, rest) = database.url().split_once('@').unwrap();
    let options = Options { sweeper: false, term: Duration::from_millis(1_500), ..Options::default() };
    let store = Postgres::open(&format!("postgres://{role}@{rest}"), options).await.unwrap();
    // For longer than the session would last by itself, with enough callers for two batches at a time.
    for round in 0..6 {
        let mut callers = JoinSet::new();
        for caller in 0..CLIENTS {
            let store = store.clone();
            callers.spawn(async move {
                let (id, epoch) = hold(&store, &format!("{round}-{caller}")).await;
                let ending = store.report(id, epoch, Report::Settle(ok("done"), DAY), vec![]).await.unwrap();
                assert!(matches!(ending, Ending::Settled(_)), "{ending:?}");
            });
        }
        let all = timeout(SOON, callers.join_all()).await;
        assert!(all.is_ok(), "round {round}: nobody waits for a connection that cannot be had");
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    assert!(!store.session().left.is_zero());
}

/// In a process of its own: both connections for batches have served, and both are gone as soon as each has served once more.
async fn lose_both_connections() {
    let (database, options) =
        (Database::fresh().await, Options { patience: Duration::from_millis(300), ..by_hand() });
    let store = open(&database, options).await;
    // Neither batch is sent before the other one is under way as well.
    let both = Arc::new(Barrier::new(2));
    let wait = move || {
        both.wait();
    };
    fail::cfg_callback("postgres.before_commit", wait).unwrap();
    tokio::join!(hold(&store, "first"), hold(&store, "second"));
    database.lets_in(false).await;
    fail::cfg("postgres.cut_when_answered", "2*return").unwrap();
    tokio::join!(hold(&store, "third"), hold(&store, "fourth"));
    fail::remove("postgres.before_commit");
    let claim = timeout(SOON, store.claim(request("new", "body", Terms::default())));
    assert_eq!(claim.await.expect("an answer").unwrap_err().kind(), Kind::Unavailable);
    database.lets_in(true).await;
    let back = async { while store.claim(request("new", "body", Terms::default())).await.is_err() {} };
    timeout(SOON, back).await.expect("it comes back");
}

#[tokio::test]
async fn where_both_connections_for_batches_are_lost_at_once_commands_are_refused_l14() {
    if is_alone() {
        return lose_both_connections().await;
    }
    run_alone(
        "postgres_few::where_both_connections_for_batches_are_lost_at_once_commands_are_refused_l14",
        &[],
    );
}

#[tokio::test]
async fn a_command_that_breaks_every_connection_is_refused_when_patience_ends_l14() {
    let database = Database::fresh().await;
    let options = Options { patience: Duration::from_millis(500), ..by_hand() };
    let (store, client) = (open(&database, options).await, connect(database.url()).await);
    let breaking = request("breaking", "body", Terms::default());
    let digest: String =
        breaking.identity.claim_id().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let trigger = format!(
        "CREATE FUNCTION hapax.break() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
            IF NEW.digest = '\\x{digest}' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; \
            RETURN NEW; END $$; \
         CREATE TRIGGER break BEFORE INSERT ON hapax.claims FOR EACH ROW EXECUTE FUNCTION hapax.break()"
    );
    client.batch_execute(&trigger).await.unwrap();
    // As long as others are served, each connection can leave it to the other one.
    let mut others = JoinSet::new();
    for caller in 0..8 {
        let store = store.clone();
        others.spawn(async move {
            for number in 0.. {
                let _ = store.claim(request(&format!("{caller}-{number}"), "body", Terms::default())).await;
            }
        });
    }
    let refused = timeout(SOON, store.claim(breaking)).await.expect("an answer");
    assert_eq!(refused.unwrap_err().kind(), Kind::Unavailable);
}
