//! Waiting for somebody else's outcome: L9 and the burst of 200.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{Executed, Ledger, Outcome, Rerun, Retention, Retry};
use hapax_exec::{Attach, Ended, Executor, How, OnRelease};
use hapax_sqlite::Embedded;
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;
use tokio::task::JoinSet;

use crate::{Effects, call, eventually, executor, identity};

/// 200 callers with one key over these ledgers: one execution, 200 equal answers.
pub(crate) async fn burst<L: Ledger>(ledgers: &[L], key: &str) {
    let (effects, ledgers) =
        (Effects::default(), ledgers.iter().cloned().map(Faulty::new).collect::<Vec<_>>());
    let mut callers = JoinSet::new();
    for caller in 0..200 {
        let (effects, call) = (effects.clone(), call(key));
        let (executor, ledgers) = (Executor::new(ledgers[caller % ledgers.len()].clone()), ledgers.clone());
        callers.spawn(async move {
            let work = move |_| async move {
                effects.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                // Whoever is told that it is held reads, and then waits.
                while ledgers.iter().map(Faulty::peeks).sum::<usize>() < 199 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ended::succeeded(format!("answer of caller {caller}"))
            };
            executor.once(call, work).await.expect("everybody is answered")
        });
    }
    let answers = callers.join_all().await;
    assert_eq!(effects.count(), 1, "the work ran once");
    assert!(answers.iter().all(|done| done.value == answers[0].value), "everybody has the same answer");
    assert!(answers.iter().all(|done| done.operation_id == answers[0].operation_id));
    let executed = answers.iter().filter(|done| done.how == How::Executed).count();
    assert_eq!(executed, 1);
    assert!(answers.iter().any(|done| done.how == How::Attached), "somebody waited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_run_it_once_in_memory() {
    let store = Memory::open(Options::default());
    burst(std::slice::from_ref(&store), "one").await;
    let three: Vec<_> = (0..3).map(|_| store.join()).collect();
    burst(&three, "three").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_callers_run_it_once_on_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options { poll: false, ..Options::default() }).unwrap();
    for round in 0..3 {
        burst(std::slice::from_ref(&store), &format!("round{round}")).await;
    }
}

#[tokio::test]
async fn a_waiter_is_told_that_the_attempt_failed_and_may_retry_if_it_said_so() {
    let (executor, ledger) = executor();
    for (on_release, code) in [(OnRelease::Fail, Some("attempt-failed")), (OnRelease::Retry(1), None)] {
        let (effects, key) = (Effects::default(), format!("{on_release:?}").replace(['(', ')'], ""));
        let (started, go) = (
            std::sync::Arc::new(tokio::sync::Notify::new()),
            std::sync::Arc::new(tokio::sync::Notify::new()),
        );
        let first = tokio::spawn({
            let (executor, call, started, go) = (executor.clone(), call(&key), started.clone(), go.clone());
            async move {
                let work = |_| async move {
                    started.notify_one();
                    go.notified().await;
                    Ended::NotRun("refused to connect".into())
                };
                executor.once(call, work).await
            }
        });
        started.notified().await;
        let reads = ledger.peeks();
        let second = tokio::spawn({
            let (executor, call, effects) =
                (executor.clone(), call(&key).on_release(on_release), effects.clone());
            async move { executor.once(call, effects.then(Ended::succeeded("second"))).await }
        });
        eventually("the second one waits", async || ledger.peeks() > reads).await;
        go.notify_one();
        assert_eq!(first.await.unwrap().unwrap_err().code(), "attempt-failed");
        match (second.await.unwrap(), code) {
            (Err(error), Some(code)) => assert_eq!((error.code(), effects.count()), (code, 0)),
            (Ok(done), None) => assert_eq!((done.how, effects.count()), (How::Executed, 1)),
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn who_waited_for_an_outcome_that_is_gone_is_not_told_that_the_attempt_failed_l9_l10_h9() {
    let (executor, ledger) = executor();
    for on_release in [OnRelease::Fail, OnRelease::Retry(1)] {
        let (effects, key) = (Effects::default(), format!("{on_release:?}").replace(['(', ')'], ""));
        // Over before the work ends: what is settled then is absent at once.
        let call = || call(&key).retention(Retention::SinceGrant(Duration::from_millis(1)));
        let (started, go) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let first = tokio::spawn({
            let (executor, call, started, go) = (executor.clone(), call(), started.clone(), go.clone());
            async move {
                let work = |attempt: hapax_exec::Attempt| async move {
                    started.notify_one();
                    go.notified().await;
                    Ended::succeeded(format!("{:?}", attempt.epoch))
                };
                executor.once(call, work).await
            }
        });
        started.notified().await;
        let reads = ledger.peeks();
        let second = tokio::spawn({
            let (executor, call, effects) =
                (executor.clone(), call().on_release(on_release), effects.clone());
            async move { executor.once(call, effects.then(Ended::succeeded("second"))).await }
        });
        eventually("the second one waits", async || ledger.peeks() > reads).await;
        let asking = tokio::spawn({
            let (executor, claim) = (executor.clone(), identity(&key).claim_id());
            async move { executor.recall(claim, None, Duration::from_secs(60)).await }
        });
        eventually("somebody asks for it", async || ledger.peeks() > reads + 1).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        go.notify_one();
        assert_eq!(first.await.unwrap().unwrap().how, How::Executed);
        for error in [second.await.unwrap().unwrap_err(), asking.await.unwrap().unwrap_err()] {
            assert_eq!((error.code(), error.executed()), ("outcome-not-kept", Executed::Unknown), "{error}");
            assert_eq!(error.retry(), Retry::Never, "it would be done a second time");
        }
        assert_eq!(effects.count(), 0, "{on_release:?}");
    }
}

#[tokio::test]
async fn a_call_that_may_retry_waits_until_the_former_run_has_been_silent_or_its_bound_is_reached_l6_l9() {
    let (executor, _) = executor();
    for (quiet, bound, code) in [(300, 60_000, None), (3_600_000, 100, Some("in-progress"))] {
        let (effects, key) = (Effects::default(), quiet.to_string());
        let (quiet, bound) = (Duration::from_millis(quiet), Duration::from_millis(bound));
        let call = || call(&key).rerun(Rerun::Safe).quiet(quiet).on_release(OnRelease::Retry(1));
        let failed = executor.once(call(), effects.then(Ended::Unknown("reset".into()))).await.unwrap_err();
        assert_eq!(failed.code(), "attempt-failed");
        let call = call().attach(Attach::Wait(bound));
        match (executor.once(call, effects.then(Ended::succeeded("second"))).await, code) {
            (Ok(done), None) => assert_eq!((done.how, effects.count()), (How::Executed, 2)),
            (Err(error), Some(code)) => assert_eq!((error.code(), effects.count()), (code, 1)),
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_thousand_waiters_read_when_they_come_and_when_they_are_woken_and_not_in_between() {
    let ((executor, ledger), go) = (executor(), std::sync::Arc::new(tokio::sync::Notify::new()));
    let first = tokio::spawn({
        let (executor, go) = (executor.clone(), go.clone());
        async move {
            let work = |_| async move {
                go.notified().await;
                Ended::succeeded("done")
            };
            executor.once(call("crowd"), work).await
        }
    });
    while ledger.claims() == 0 {
        tokio::task::yield_now().await;
    }
    let mut waiters = JoinSet::new();
    for _ in 0..1000 {
        let executor = executor.clone();
        waiters.spawn(async move {
            let call = call("crowd").attach(Attach::Wait(Duration::from_secs(60)));
            executor.once(call, |_| async { Ended::succeeded("never") }).await.unwrap()
        });
    }
    eventually("all of them wait", async || ledger.peeks() >= 1000).await;
    go.notify_one();
    let answers = waiters.join_all().await;
    first.await.unwrap().unwrap();
    assert!(answers.iter().all(|done| done.value == Outcome::Succeeded("done".into())));
    assert!(ledger.peeks() <= 2000, "{} reads", ledger.peeks());
}

#[tokio::test]
async fn a_settle_between_the_read_and_the_wait_is_not_missed() {
    // L9: subscribe, then read, then wait.
    let (executor, ledger) = executor();
    let go = std::sync::Arc::new(tokio::sync::Notify::new());
    let first = tokio::spawn({
        let (executor, go) = (executor.clone(), go.clone());
        async move {
            let work = |_| async move {
                go.notified().await;
                Ended::succeeded("done")
            };
            executor.once(call("between"), work).await
        }
    });
    while ledger.claims() == 0 {
        tokio::task::yield_now().await;
    }
    let settled = ledger.clone();
    ledger.after_next_peek(move || async move {
        go.notify_one();
        first.await.unwrap().unwrap();
        assert_eq!(settled.reports(), 1);
    });
    let waiter = call("between").attach(Attach::Wait(Duration::from_secs(30)));
    let done = executor.once(waiter, |_| async { Ended::succeeded("never") }).await.unwrap();
    assert_eq!((done.how, done.value), (How::Attached, Outcome::Succeeded("done".into())));
}
