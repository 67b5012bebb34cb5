//! A ledger that takes its time: who is to blame, and how long a caller waits for it (H5, L14, L15).

use std::time::Duration;

use tokio::sync::oneshot;

use crate::refusals::check;
use crate::refusals_load::faulty;
use crate::world::change_rule;

/// What ends a caller's wait in these tests.
const TIMEOUT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_service_that_has_answered_is_not_said_to_be_late_when_the_ledger_is_h5_l15() {
    for away in [false, true] {
        let (world, ledger, _folder) =
            faulty(|settings| change_rule(settings, "charge", |rule| rule.timeout = TIMEOUT), true).await;
        let (let_go, held) = oneshot::channel::<()>();
        ledger.before_next_report(|| async { drop(held.await) });
        let comes_back = async {
            tokio::time::sleep(4 * TIMEOUT).await;
            ledger.set_away(away);
            drop(let_go);
        };
        let (got, ()) = tokio::join!(world.charge("k-1", "{}", &[]), comes_back);
        match away {
            false => assert_eq!((got.status, got.is_replay()), (201, false), "{}", got.text()),
            true => check(&world, &got, 503, "outcome-pending").await,
        }
        ledger.set_away(false);
        let again = world.charge("k-1", "{}", &[("prefer", "wait=10")]).await;
        assert_eq!((again.status, world.service.count()), (201, 1), "{}", again.text());
    }
}

#[tokio::test]
async fn a_service_that_was_not_asked_because_the_ledger_was_late_is_not_said_to_be_away_l14() {
    let give_up = Duration::from_millis(50);
    let (world, ledger, _folder) = faulty(
        |settings| {
            change_rule(settings, "charge", |rule| rule.give_up = give_up);
        },
        false,
    )
    .await;
    ledger.after_next_claim(move || tokio::time::sleep(2 * give_up));
    let got = world.charge("k-1", "{}", &[]).await;
    check(&world, &got, 503, "ledger-unavailable").await;
    assert!(got.header("x-operation-id").is_some());
    assert_eq!(world.service.count(), 0);
    assert_eq!(world.charge("k-1", "{}", &[]).await.status, 201, "the key is free");
}

#[tokio::test]
async fn a_caller_waits_no_longer_for_the_ledger_than_for_the_service_h5_l14() {
    let (world, ledger, _folder) =
        faulty(|settings| change_rule(settings, "charge", |rule| rule.timeout = TIMEOUT), false).await;
    let (let_go, held) = oneshot::channel::<()>();
    ledger.after_next_claim(|| async { drop(held.await) });
    // Without an end to the wait this would never be answered.
    let got = world.charge("k-1", "{}", &[]).await;
    check(&world, &got, 503, "ledger-unavailable").await;
    assert_eq!(world.service.count(), 0);
    drop(let_go);
    let again = async {
        loop {
            // What was granted late is given back behind the scenes.
            let again = world.charge("k-1", "{}", &[]).await;
            if again.status == 201 {
                return again;
            }
            assert_eq!(again.code(), "attempt-failed", "{}", again.text());
        }
    };
    let again = tokio::time::timeout(hapax_testkit::raw::PATIENCE, again).await.expect("the key is free");
    assert_eq!((again.is_replay(), world.service.count()), (false, 1));
}
