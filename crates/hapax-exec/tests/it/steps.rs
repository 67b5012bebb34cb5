//! The steps of a call that a caller takes by itself: a look before the first byte, giving back, and events that are written with how
//! the work ended (X2, L18).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax_core::journal::Stream;
use hapax_core::{Executed, Journal as _, Ledger as _, View};
use hapax_exec::{Begun, Call, Ended, Entered, Executor, Held, How, Reconciled};
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;

use crate::faults::an_event;
use crate::{call, claim_id, eventually, executor};

type Ledger = Faulty<Memory>;

async fn held(executor: &Executor<Ledger>, call: Call) -> Held<Ledger> {
    match executor.enter(call, ()).await {
        Ok(Entered::Held(held, ())) => held,
        other => panic!("expected a grant, got {other:?}"),
    }
}

async fn is_released(ledger: &Ledger, key: &str) -> bool {
    matches!(ledger.inner().peek(claim_id(key)).await, Ok(Some(View::Released { .. })))
}

/// How many events the stream of [`an_event`] has.
async fn events(ledger: &Ledger) -> u64 {
    let stream = Stream::new("receipts/local").unwrap();
    ledger.inner().head(&stream).await.unwrap().map_or(0, |head| head.length)
}

async fn unknown(_: hapax_exec::Attempt) -> Reconciled {
    Reconciled::Unknown
}

#[tokio::test]
async fn a_caller_that_looks_and_sees_no_gives_the_claim_back_and_runs_nothing_x2() {
    let (executor, ledger) = executor();
    let held = held(&executor, call("k")).await;
    assert!(matches!(held.begin_if(unknown, async || false).await, Ok(None)));
    assert!(is_released(&ledger, "k").await);
    let done = executor.once(call("k"), |_| async { Ended::succeeded("paid") }).await.unwrap();
    assert_eq!((done.how, done.executed), (How::Executed, Executed::Yes));
}

#[tokio::test]
async fn a_look_counts_only_if_no_renewal_came_after_it_x2_l4() {
    // The lease is renewed before the first look, which takes longer than that is certain for: renewed again, the caller looks again.
    let (executor, ledger) = executor();
    ledger.set_no_time_left(true);
    let held = held(&executor, call("k")).await;
    let looks = Arc::new(AtomicUsize::new(0));
    let seen = looks.clone();
    let look = async || {
        let look = seen.fetch_add(1, Ordering::SeqCst) + 1;
        assert_eq!(ledger.reports(), look, "a renewal goes before each look");
        // It has taken so long that the session is about to end.
        ledger.set_no_time_left(look == 1);
        true
    };
    let begun = held.begin_if(unknown, look).await.unwrap();
    assert!(matches!(begun, Some(Begun::Running(_))), "{begun:?}");
    assert_eq!((looks.load(Ordering::SeqCst), ledger.reports()), (2, 2));
}

#[tokio::test]
async fn a_caller_that_goes_away_while_it_looks_gives_the_claim_back_at_once_l13() {
    let (executor, ledger) = executor();
    let held = held(&executor, call("k")).await;
    let looking = held.begin_if(unknown, async || std::future::pending().await);
    assert!(tokio::time::timeout(Duration::from_millis(10), looking).await.is_err());
    eventually("it is given back", async || is_released(&ledger, "k").await).await;
}

#[tokio::test]
async fn a_claim_is_given_back_with_its_events_or_without_them_and_says_which_l18() {
    let (executor, ledger) = executor();
    let first = held(&executor, call("k")).await;
    assert!(first.give_back(vec![an_event(None)]).await.unwrap());
    assert_eq!((events(&ledger).await, is_released(&ledger, "k").await), (1, true));
    // The stream has moved on: the claim is given back all the same.
    let second = held(&executor, call("k")).await;
    assert!(!second.give_back(vec![an_event(Some(7))]).await.unwrap());
    assert_eq!((events(&ledger).await, is_released(&ledger, "k").await), (1, true));
}

#[tokio::test]
async fn a_give_back_that_is_not_heard_is_owed_with_its_events_l13_l18() {
    let (executor, ledger) = executor();
    let held = held(&executor, call("k")).await;
    ledger.set_away(true);
    let error = held.give_back(vec![an_event(None)]).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("ledger-unavailable", Executed::Unknown));
    ledger.set_away(false);
    executor.debts_paid().await;
    assert_eq!((events(&ledger).await, is_released(&ledger, "k").await), (1, true));
}

#[tokio::test]
async fn however_the_work_ends_its_caller_is_told_whether_its_events_were_written_l18() {
    let (executor, ledger) = executor();
    let mut written = 0;
    let ends = [
        ("settled", Ended::succeeded("paid")),
        ("released", Ended::NotRun("no such card".into())),
        ("doubted", Ended::Unknown("it broke off".into())),
    ];
    for (key, ended) in ends {
        for (events_fit, version) in [(true, None), (false, Some(77))] {
            let key = format!("{key}-{events_fit}");
            let concluded = ended.clone().with(vec![an_event(version)]);
            let told = match executor.once(call(&key), |_| async { concluded }).await {
                Ok(done) => done.events_written,
                Err(error) => error.events_written(),
            };
            written += u64::from(events_fit);
            assert_eq!((told, events(&ledger).await), (events_fit, written), "{key}");
            let view = ledger.inner().peek(claim_id(&key)).await.unwrap();
            assert!(
                !matches!(view, None | Some(View::Held { .. })),
                "{key}: the report is told either way: {view:?}"
            );
        }
    }
}
