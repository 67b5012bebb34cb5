//! The memory store against the conformance suite and the scenarios.

use hapax_store::{conformance_tests, conformance_tests_of_sharing};

use crate::harness::InMemory;

conformance_tests!(conformance, InMemory::default());
conformance_tests_of_sharing!(sharing, InMemory::default());

#[tokio::test]
async fn scenarios_play_as_they_say() {
    crate::scenarios::play_all(InMemory::default).await;
}
