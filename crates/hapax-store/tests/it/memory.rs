//! The memory store against the conformance suite and the scenarios.

use std::time::Duration;

use hapax_core::claim::{DoubtEnds, DoubtThen, Terms};
use hapax_core::{Counts, Doubt, Filter, Inspect as _, Ledger as _, Report, Retention};
use hapax_store::conformance::{granted, ok, request};
use hapax_store::memory::Memory;
use hapax_store::{Options, conformance_tests, conformance_tests_of_sharing};
use hapax_testkit::scenario::store::play_all;

use crate::harness::InMemory;

conformance_tests!(conformance, InMemory::default());
conformance_tests_of_sharing!(sharing, InMemory::default());

#[tokio::test]
async fn scenarios_play_as_they_say_b2() {
    play_all(InMemory::default).await;
}

#[tokio::test]
async fn what_is_over_is_forgotten_without_anybody_asking_l10() {
    let store = Memory::open(Options::default());
    let soon = Duration::from_millis(1);
    let ends = DoubtEnds { after: soon, then: DoubtThen::Forget };
    // More than one visit takes, with one claim among them that stays.
    for number in 0..1_500 {
        let request =
            request(&format!("k-{number}"), "body", Terms { doubt: Some(ends), ..Terms::default() });
        let epoch = granted(&store, &request).await.epoch;
        let report = match number % 2 {
            _ if number == 700 => Report::Settle(ok("kept"), Retention::Forever),
            0 => Report::Settle(ok("over"), Retention::For(soon)),
            _ => Report::Doubt(Doubt::Failed),
        };
        store.report(request.identity.claim_id(), epoch, report, Vec::new()).await.unwrap();
    }
    let swept = async {
        let kept = Counts { settled: 1, ..Counts::default() };
        while store.count(&Filter::default()).await.unwrap() != kept {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(20), swept).await;
    assert!(within.is_ok(), "{:?}", store.count(&Filter::default()).await);
}
