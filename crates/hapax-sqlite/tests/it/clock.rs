//! An embedded store whose clock is set forward or back, while it is open and in between (L12).

use std::time::Duration;

use hapax_core::{Clock as _, Ending, Ledger as _, Ran, Report, Rerun, Retention, Terms, Verdict, View};
use hapax_sqlite::Embedded;
use hapax_store::conformance::{DAY, granted, ok, request};
use hapax_testkit::clock::VirtualClock;
use hapax_testkit::lines::Lines;

use crate::shared::frozen;

#[tokio::test]
async fn a_clock_that_is_set_forward_takes_nothing_from_a_living_holder_l12() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), VirtualClock::new());
    let store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    let terms = |rerun| Terms { rerun, ..Terms::default() };
    let asks = [Rerun::Safe, Rerun::Unsafe].map(|rerun| request(&format!("{rerun:?}"), "body", terms(rerun)));
    let mut held = Vec::new();
    for ask in &asks {
        held.push((ask.identity.claim_id(), granted(&store, ask).await.epoch));
    }
    let term = store.session().term;
    clock.advance(term / 2);
    clock.set(clock.now().after(2 * term));
    assert_eq!(store.session().left, term / 2);
    for (ask, (id, _)) in asks.iter().zip(&held) {
        assert!(matches!(store.peek(*id).await.unwrap(), Some(View::Held { .. })), "{ask:?}");
        let told =
            store.claim(request(ask.identity.key().as_str(), "body", ask.terms.clone())).await.unwrap();
        assert!(matches!(told, Verdict::Held { .. }), "{told:?}");
    }
    // What is left of the term passes.
    let moment = Duration::from_micros(1);
    clock.advance(term / 2 - moment);
    for (id, epoch) in &held {
        let renewed = store.report(*id, *epoch, Report::Renew, Vec::new()).await.unwrap();
        assert!(matches!(renewed, Ending::Renewed { .. }), "{renewed:?}");
    }
    let settle = Report::Settle(ok("done"), DAY);
    let ending = store.report(held[0].0, held[0].1, settle, Vec::new()).await.unwrap();
    assert!(matches!(ending, Ending::Settled(_)), "{ending:?}");
    // Whoever is not heard of for a term has lost its lease as ever, set forward or not.
    clock.set(clock.now().after(2 * term));
    clock.advance(term - moment);
    assert!(matches!(store.peek(held[1].0).await.unwrap(), Some(View::Held { .. })));
    clock.advance(moment);
    assert!(matches!(store.peek(held[1].0).await.unwrap(), Some(View::InDoubt { .. })));
}

#[tokio::test]
async fn a_clock_that_was_ahead_once_does_not_make_time_stand_still_l12() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), VirtualClock::new());
    let (lines, _guard) = Lines::listen();
    let mut store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
    let right = clock.now();
    clock.set(right.after(Duration::from_secs(24 * 60 * 60)));
    // The store sees it, and writes it down.
    let terms = Terms { rerun: Rerun::Safe, quiet: Duration::from_secs(6), ..Terms::default() };
    let quiet = request("quiet", "body", terms);
    let (id, epoch) = (quiet.identity.claim_id(), granted(&store, &quiet).await.epoch);
    clock.set(right);
    store.report(id, epoch, Report::Release(Ran::Perhaps), Vec::new()).await.unwrap();
    let minute = Retention::For(Duration::from_secs(60));
    let retry =
        async |store: &Embedded| store.claim(request("quiet", "body", quiet.terms.clone())).await.unwrap();
    assert!(!lines.told().contains("clock"), "{}", lines.told());
    // In this process, and in the next.
    for key in ["first", "second"] {
        let short = request(key, "body", Terms::default());
        let (id, epoch) = (short.identity.claim_id(), granted(&store, &short).await.epoch);
        store.report(id, epoch, Report::Settle(ok("done"), minute), Vec::new()).await.unwrap();
        clock.advance(Duration::from_secs(60));
        assert!(matches!(store.peek(id).await.unwrap(), Some(View::Settled(_))));
        clock.advance(Duration::from_secs(4));
        assert_eq!(store.peek(id).await.unwrap(), None, "a minute has passed, somewhat slower");
        if key == "first" {
            let told = retry(&store).await;
            assert!(matches!(told, Verdict::Granted(_)), "six seconds have passed: {told:?}");
            drop(store);
            store = Embedded::open(folder.path(), frozen(&clock)).unwrap();
            let told = lines.told();
            assert!(told.contains("WARN") && told.contains("the clock is behind"), "{told}");
        }
    }
}
