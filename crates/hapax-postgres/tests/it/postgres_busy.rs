//! Thousands of running claims on one session, while every core is busy (L4).

use hapax_postgres::Postgres;
use hapax_store::conformance::busy;

use crate::server::Database;

#[tokio::test]
async fn five_thousand_claims_outlive_ten_terms_of_busy_cores() {
    let database = Database::fresh().await;
    busy::none_lapses(Postgres::open(database.url(), busy::options()).await.unwrap()).await;
}
