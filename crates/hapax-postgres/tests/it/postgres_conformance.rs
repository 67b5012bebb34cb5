//! The PostgreSQL store against the conformance suite and the scenarios.

use hapax_store::{conformance_tests, conformance_tests_of_sharing};
use hapax_testkit::scenario::store::play_all;

use crate::harness::OnAServer;

conformance_tests!(conformance, OnAServer::default());
conformance_tests_of_sharing!(sharing, OnAServer::default());

#[tokio::test]
async fn scenarios_play_as_they_say_b2() {
    play_all(OnAServer::default).await;
}
