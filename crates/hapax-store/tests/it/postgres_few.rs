//! A PostgreSQL server that has room for some of a store's connections and not for all of them (L14).

use std::time::Duration;

use hapax_core::{Ending, Ledger as _, Report};
use hapax_store::conformance::{DAY, ok};
use hapax_store::postgres::Postgres;
use hapax_store::{Lifecycle as _, Options};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::postgres::{SOON, by_hand, connect, hold, open};
use crate::server::Database;

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
