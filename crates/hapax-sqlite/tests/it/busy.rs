//! Thousands of running claims on one session, while every core is busy (L4).

use hapax_sqlite::Embedded;
use hapax_store::conformance::busy;

#[tokio::test]
async fn five_thousand_claims_outlive_ten_terms_of_busy_cores() {
    let folder = tempfile::tempdir().unwrap();
    busy::none_lapses(Embedded::open(folder.path(), busy::options()).unwrap()).await;
}
