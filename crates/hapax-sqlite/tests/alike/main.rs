//! The embedded store where many digests begin alike, and where claims go into the index soon.
//!
//! How digests begin is a setting of the whole process, and a store that was opened before it does not find what it wrote. So these
//! tests have a process of their own, in which every store is opened after it.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]
#![allow(dead_code, reason = "these tests use only a part of what the others share")]

#[path = "../it/harness.rs"]
mod harness;
#[path = "../it/history.rs"]
mod history;
#[path = "../it/shared.rs"]
mod shared;

use std::collections::BTreeSet;

use hapax_store::conformance_tests;
use hapax_testkit::scenario::store::play_all;

use harness::InAFolder;
use history::{KEYS, live_through};
use shared::{ask, merge_soon};

conformance_tests!(conformance_while_claims_go_into_the_index, merging());

/// From now on the index knows digests by ten bits.
fn begin_alike() {
    fail::cfg("embedded.prefix", "return").unwrap();
}

/// In so few claims nothing would ever go into the index, and no two digests would begin alike.
fn merging() -> InAFolder {
    begin_alike();
    merge_soon();
    InAFolder::default()
}

#[tokio::test]
async fn scenarios_play_as_they_say() {
    play_all(merging).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_that_begin_alike_are_told_apart_whatever_has_happened_l1() {
    begin_alike();
    let alike: BTreeSet<i64> = (0..KEYS).map(|key| beginning(&key.to_string())).collect();
    assert!(alike.len() < KEYS - 20, "{} beginnings of {KEYS} digests", alike.len());
    live_through(2).await;
}

/// What the index knows of a key's digest while digests begin alike.
fn beginning(key: &str) -> i64 {
    let digest = ask(key).identity.claim_id();
    i64::from_be_bytes(digest.as_bytes()[..8].try_into().unwrap()) & (0x3f << 58 | 0xf << 28)
}
