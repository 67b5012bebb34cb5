//! The embedded store against the conformance suite and the scenarios.

use hapax_store::conformance_tests;
use hapax_testkit::scenario::store::play_all;

use crate::harness::InAFolder;

conformance_tests!(suite, InAFolder::default());

#[tokio::test]
async fn scenarios_play_as_they_say_b2() {
    play_all(InAFolder::default).await;
}
