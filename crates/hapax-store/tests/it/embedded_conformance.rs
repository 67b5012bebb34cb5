//! The embedded store against the conformance suite and the scenarios.

use hapax_store::conformance_tests;

use crate::embedded::{begin_alike, merge_soon};
use crate::harness::InAFolder;

conformance_tests!(conformance, InAFolder::default());
conformance_tests!(conformance_while_claims_go_into_the_index, merging());

/// In so few claims nothing would ever go into the index, and no two digests would begin alike.
fn merging() -> InAFolder {
    merge_soon();
    begin_alike();
    InAFolder::default()
}

#[tokio::test]
async fn scenarios_play_as_they_say() {
    crate::scenarios::play_all(InAFolder::default).await;
    crate::scenarios::play_all(merging).await;
}
