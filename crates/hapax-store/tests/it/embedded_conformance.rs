//! The embedded store against the conformance suite and the scenarios.

use hapax_store::conformance_tests;

use crate::harness::InAFolder;

conformance_tests!(conformance, InAFolder::default());

#[tokio::test]
async fn scenarios_play_as_they_say_b2() {
    crate::scenarios::play_all(InAFolder::default).await;
}
