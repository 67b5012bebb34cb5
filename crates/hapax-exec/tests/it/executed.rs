//! What an error says about the work when the ledger goes away in the middle of things: L5, L6, L9, H7 and invariant 5.

use std::time::Duration;

use hapax_core::{
    ClaimRequest, Decision, Doubt, Executed, Fingerprint, Inspect as _, Ledger as _, OperationId, Outcome,
    Report, Rerun, Retention, Retry, Terms, Verb, Verdict, View,
};
use hapax_exec::{Attempt, Call, Ended, Executor, Failure, OnRelease, Reason, Reconciled};
use hapax_store::memory::Memory;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::faulty::Faulty;

use crate::{Effects, call, claim_id, eventually, executor, identity};

/// An operator takes the claim away from the attempt that runs.
async fn take_away(ledger: &Faulty<Memory>, attempt: Attempt) {
    let (claim, seen) = (attempt.claim.unwrap(), attempt.epoch.unwrap());
    ledger.report(claim, seen, Report::Doubt(Doubt::Lapsed), vec![]).await.unwrap();
    let verb = Verb::Settle(Outcome::Succeeded("by hand".into()), Retention::Forever);
    let decision = Decision { seen, verb, actor: "ann".into(), reason: "asked the bank".into() };
    ledger.inner().decide(claim, decision).await.unwrap();
}

/// Work that has its effect, loses its lease and ends like this; the report of that is the last thing the ledger hears.
async fn lost(
    (executor, ledger): (Executor<Faulty<Memory>>, Faulty<Memory>),
    ended: Ended,
) -> (hapax_exec::Error, OperationId) {
    let (effects, meddling) = (Effects::default(), ledger.clone());
    let had_effect = effects.then(ended);
    let (told, operation_id) = tokio::sync::oneshot::channel();
    let work = |attempt: Attempt| async move {
        take_away(&meddling, attempt).await;
        told.send(attempt.operation_id.unwrap()).unwrap();
        meddling.go_away_after_reports(1);
        had_effect(attempt).await
    };
    let error = executor.once(call("lost"), work).await.unwrap_err();
    assert_eq!(effects.count(), 1, "the work ran");
    (error, operation_id.await.unwrap())
}

#[tokio::test]
async fn work_that_lost_its_lease_and_then_the_ledger_is_not_said_to_have_run_nothing_l5() {
    for (ended, executed) in [
        (Ended::succeeded("paid"), Executed::Yes),
        (Ended::refused("no such card"), Executed::Unknown),
        (Ended::NotRun("no route".into()), Executed::Unknown),
        (Ended::Unknown("connection reset".into()), Executed::Unknown),
        (Ended::Doubt(Doubt::Paused, "tired".into()), Executed::Unknown),
    ] {
        let told = format!("{ended:?}");
        let (error, operation_id) = lost(executor(), ended).await;
        assert_eq!((error.code(), error.executed()), ("outcome-unknown", executed), "{told}");
        assert_eq!(error.operation_id(), Some(operation_id), "{told}");
        assert!(matches!(error.retry(), Retry::SameKey(_)), "{told}");
        assert!(error.cause().unwrap().contains("away"), "{told}: {error}");
    }
}

/// A ledger on which a process held this key until it was gone, and an executor for whoever asks what became of it.
async fn lapsed(key: &str) -> (Executor<Faulty<Memory>>, Faulty<Memory>) {
    let store = Memory::open(Options::default());
    let other = store.join();
    let request = ClaimRequest {
        terms: asking(),
        ..ClaimRequest::new(identity(key), Fingerprint::of_bytes(b"10 EUR"))
    };
    assert!(matches!(other.claim(request).await.unwrap(), Verdict::Granted(_)));
    other.close().await.unwrap();
    let ledger = Faulty::new(store);
    (Executor::new(ledger.clone()), ledger)
}

fn asking() -> Terms {
    Terms { rerun: Rerun::Ask, ..Terms::default() }
}

#[tokio::test]
async fn a_question_without_an_answer_leaves_doubt_although_the_ledger_has_gone_away_l6() {
    let ((executor, ledger), effects) = (lapsed("asked").await, Effects::default());
    let away = ledger.clone();
    let unknown = call("asked").reconcile(move |_| {
        away.set_away(true);
        async { Reconciled::Unknown }
    });
    let error = executor.once(unknown, effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("outcome-unknown", Executed::Unknown));
    assert!(
        matches!(error.reason(), Reason::OutcomeUnknown { doubt: None }),
        "which doubt, the ledger knows: {error:?}"
    );
    assert!(error.operation_id().is_some() && effects.count() == 0);
    ledger.set_away(false);
    eventually("the doubt is written down", async || {
        matches!(ledger.peek(claim_id("asked")).await, Ok(Some(View::InDoubt { reason: Doubt::Lapsed, .. })))
    })
    .await;
}

#[tokio::test]
async fn a_question_without_an_answer_does_not_hide_what_the_ledger_has_heard_meanwhile_l5_l6() {
    let ((executor, ledger), effects) = (lapsed("asked").await, Effects::default());
    let meddling = ledger.clone();
    let unknown = call("asked").reconcile(move |attempt| {
        let meddling = meddling.clone();
        async move {
            take_away(&meddling, attempt).await;
            Reconciled::Unknown
        }
    });
    let done = executor.once(unknown, effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.value, effects.count()), (Outcome::Succeeded("by hand".into()), 0));
}

#[tokio::test]
async fn a_waiter_whose_ledger_goes_away_does_not_say_that_nothing_was_run_l9() {
    let (executor, ledger) = executor();
    let request = ClaimRequest::new(identity("held"), Fingerprint::of_bytes(b"10 EUR"));
    let Verdict::Granted(grant) = ledger.claim(request).await.unwrap() else { panic!("expected a grant") };
    let away = ledger.clone();
    ledger.after_next_claim(move || async move { away.set_away(true) });
    let error = executor.once(call("held"), |_| async { Ended::succeeded("paid") }).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("ledger-unavailable", Executed::Unknown));
    assert_eq!(error.operation_id(), Some(grant.operation_id));
    assert!(matches!(error.retry(), Retry::SameKey(_)));
    assert!(!error.to_string().contains("nothing was run"), "{error}");
}

#[tokio::test]
async fn a_waiter_who_asks_anew_in_vain_remembers_that_somebody_else_tried_l9() {
    let (executor, ledger) = executor();
    let request = ClaimRequest::new(identity("held"), Fingerprint::of_bytes(b"10 EUR"));
    let Verdict::Granted(grant) = ledger.claim(request).await.unwrap() else { panic!("expected a grant") };
    let meddling = ledger.clone();
    ledger.after_next_claim(move || async move {
        // It is given back before the waiter looks, and then the ledger is away.
        let released = Report::Release(hapax_core::Ran::No);
        meddling.report(claim_id("held"), grant.epoch, released, vec![]).await.unwrap();
        let away = meddling.clone();
        meddling.after_next_peek(move || async move { away.set_away(true) });
    });
    let patient = call("held").on_release(OnRelease::Retry(1));
    let error = executor.once(patient, |_| async { Ended::succeeded("paid") }).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("ledger-unavailable", Executed::Unknown));
    assert_eq!(error.operation_id(), Some(grant.operation_id));
}

#[tokio::test]
async fn a_recall_that_cannot_be_answered_does_not_say_that_nothing_was_run_h7() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    executor.once(call("kept"), effects.then(Ended::succeeded("paid"))).await.unwrap();
    ledger.set_away(true);
    let error = executor.recall(claim_id("kept"), None, Duration::ZERO).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("ledger-unavailable", Executed::Unknown));
    assert!(matches!(error.retry(), Retry::SameKey(_)));
}

#[tokio::test]
async fn a_kept_value_that_cannot_be_read_was_made_all_the_same_e2() {
    let (executor, _) = executor();
    executor.run(call("typed"), |_| async { Ok::<_, Failure>("receipt 7".to_owned()) }).await.unwrap();
    let error = executor.run(call("typed"), |_| async { Ok::<_, Failure>(7_u64) }).await.unwrap_err();
    assert_eq!((error.code(), error.executed(), error.retry()), ("corrupt", Executed::Yes, Retry::Never));
    assert!(error.operation_id().is_some());
}

#[tokio::test]
async fn work_without_a_key_that_may_have_run_is_not_to_be_tried_again_e2() {
    let ((executor, _), effects) = (executor(), Effects::default());
    for (ended, executed) in [
        (Ended::NotRun("no route".into()), Executed::No),
        (Ended::Unknown("connection reset".into()), Executed::Unknown),
        (Ended::Doubt(Doubt::Paused, "tired".into()), Executed::Unknown),
    ] {
        let error = executor.once(Call::unkeyed(), effects.then(ended)).await.unwrap_err();
        assert_eq!((error.code(), error.executed()), ("attempt-failed", executed));
        assert_eq!(error.retry() == Retry::Never, executed != Executed::No, "another run could do it twice");
    }
}

#[tokio::test]
async fn work_that_was_done_while_others_gave_its_claim_back_has_not_failed_l5() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    let (meddling, had_effect) = (ledger.clone(), effects.then(Ended::succeeded("paid")));
    let other = Executor::new(ledger.inner().clone());
    let work = |attempt: Attempt| async move {
        let (claim, seen) = (attempt.claim.unwrap(), attempt.epoch.unwrap());
        meddling.report(claim, seen, Report::Doubt(Doubt::Lapsed), vec![]).await.unwrap();
        let verb = Verb::Release { force: true };
        let decision = Decision { seen, verb, actor: "ann".into(), reason: "took it for dead".into() };
        meddling.inner().decide(claim, decision).await.unwrap();
        other.once(call("lost"), |_| async { Ended::NotRun("no route".into()) }).await.unwrap_err();
        had_effect(attempt).await
    };
    let error = executor.once(call("lost"), work).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("outcome-unknown", Executed::Yes));
    assert!(error.operation_id().is_some() && effects.count() == 1);
}

#[tokio::test]
async fn a_lease_that_cannot_be_renewed_before_the_work_has_run_nothing_and_names_the_operation_l4() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.set_no_time_left(true);
    ledger.lose_reports(1);
    let error = executor.once(call("stuck"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    // Whether another holder has taken the claim meanwhile, only the ledger could say.
    assert_eq!(
        (error.code(), error.executed(), effects.count()),
        ("ledger-unavailable", Executed::Unknown, 0)
    );
    assert!(error.operation_id().is_some());
}

#[tokio::test]
async fn an_answer_that_was_not_kept_is_said_to_have_been_work_only_where_it_was_b9() {
    let (executor, ledger) = executor();
    let cases = [(201, Executed::Yes), (402, Executed::No), (500, Executed::Unknown)];
    for (status, executed) in cases {
        let key = format!("status-{status}");
        let settled = Ended::Settled(Outcome::NotKept { status });
        executor.once(call(&key), Effects::default().then(settled)).await.unwrap();
        let error = executor.run(call(&key), |_| async { Ok::<_, Failure>(7) }).await.unwrap_err();
        assert_eq!((error.code(), error.executed()), ("outcome-not-kept", executed), "{status}");
        assert!(!error.to_string().contains("was done"), "{error}");
    }
    // A refusal says nothing of an attempt before it that may have run.
    let safe = || call("safe").rerun(Rerun::Safe);
    executor.once(safe(), Effects::default().then(Ended::Unknown("reset".into()))).await.unwrap_err();
    let refused = Ended::Settled(Outcome::NotKept { status: 402 });
    let first = executor.once(safe(), Effects::default().then(refused)).await.unwrap();
    let again = executor.once(safe(), Effects::default().then(Ended::succeeded("paid"))).await.unwrap();
    let recalled = executor.recall(claim_id("safe"), None, Duration::ZERO).await.unwrap().unwrap();
    for done in [first, again, recalled] {
        assert_eq!((done.executed, done.value), (Executed::Unknown, Outcome::NotKept { status: 402 }));
    }
    let attempt = tokio::sync::OnceCell::new();
    let paid = |told: Attempt| {
        attempt.set(told).unwrap();
        async { Ok::<_, Failure>(7) }
    };
    executor.run(call("erased"), paid).await.unwrap();
    let (claim, seen) = (attempt.get().unwrap().claim.unwrap(), attempt.get().unwrap().epoch.unwrap());
    let decision = Decision { seen, verb: Verb::Erase, actor: "ann".into(), reason: "asked to".into() };
    ledger.inner().decide(claim, decision).await.unwrap();
    let error = executor.run(call("erased"), |_| async { Ok::<_, Failure>(7) }).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("outcome-not-kept", Executed::Unknown));
    assert!(error.to_string().contains("erased"), "{error}");
}
