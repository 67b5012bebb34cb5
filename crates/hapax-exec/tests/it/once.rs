//! What `once` does when the ledger behaves: E2, E3, E5, L6, L7.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_core::{
    Decision, Doubt, Executed, Identity, Inspect as _, Ledger as _, Operated, OperationId, Outcome, Report,
    Rerun, Retention, Retry, Verb, View,
};
use hapax_exec::{Attach, Call, DeadLetter, Ended, Executor, Failure, How, Reason, Reconciled, Settings};
use hapax_store::memory::Memory;
use hapax_store::{Lifecycle as _, Options};

use crate::{Effects, call, claim_id, eventually, executor};

#[tokio::test]
async fn a_second_call_gets_the_first_answer_and_the_work_does_not_run_again() {
    let ((executor, _), effects) = (executor(), Effects::default());
    let first = executor.once(call("k"), effects.then(Ended::succeeded("paid"))).await.unwrap();
    let again = executor.once(call("k"), effects.then(Ended::succeeded("other"))).await.unwrap();
    assert_eq!((first.how, again.how, effects.count()), (How::Executed, How::Replayed, 1));
    assert_eq!(again.value, Outcome::Succeeded("paid".into()));
    assert_eq!(again.operation_id, first.operation_id);
    assert_eq!(again.keep_until, first.keep_until);
}

#[tokio::test]
async fn without_a_key_the_work_just_runs() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    for _ in 0..2 {
        let done = executor.once(Call::unkeyed(), effects.then(Ended::succeeded("ran"))).await.unwrap();
        assert_eq!((done.how, done.operation_id), (How::PassedThrough, None));
    }
    assert_eq!((effects.count(), ledger.claims()), (2, 0));
}

#[tokio::test]
async fn a_terminal_failure_is_kept_and_a_retryable_one_gives_the_key_back_e3() {
    let (executor, _) = executor();
    let refused =
        executor.run(call("t"), |_| async { Err::<(), _>(Failure::Terminal("no such card".into())) }).await;
    assert!(matches!(refused.unwrap_err().reason(), Reason::Refused(bytes) if bytes == "no such card"));
    let again = executor.run(call("t"), |_| async { Ok::<(), Failure>(()) }).await.unwrap_err();
    assert!(matches!(again.reason(), Reason::Refused(_)), "the refusal is what is replayed");
    assert_eq!(again.executed(), Executed::Unknown, "a terminal error without a status does not tell");

    let busy = executor
        .run(call("r"), |_| async { Err::<u8, _>(Failure::Retryable("busy".into())) })
        .await
        .unwrap_err();
    assert!(matches!(busy.reason(), Reason::AttemptFailed { executed: Executed::No }));
    assert!(matches!(busy.retry(), Retry::SameKey(_)));
    let done = executor.run(call("r"), |_| async { Ok::<_, Failure>(7u8) }).await.unwrap();
    assert_eq!((done.value, done.how), (7, How::Executed));
}

#[tokio::test]
async fn a_function_that_may_have_run_keeps_its_key_whatever_it_returns() {
    // E3, L7
    let (executor, _) = executor();
    let reset = |_| async { Err::<u32, _>(Failure::Unknown("connection reset".into())) };
    let error = executor.run(call("reset"), reset).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("outcome-unknown", Executed::Unknown));

    // JSON has no such keys: the value cannot be kept, but the work was done.
    let pairs = || std::collections::BTreeMap::from([((1, 2), 3)]);
    let effects = Effects::default();
    for _ in 0..2 {
        let counted = effects.clone();
        let work = |_| async move {
            counted.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok::<_, Failure>(pairs())
        };
        let error = executor.run(call("pairs"), work).await.unwrap_err();
        assert!(matches!(error.reason(), Reason::NotKept { status: 0 }), "{error:?}");
    }
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn another_body_under_the_same_key_is_refused_and_runs_nothing() {
    let ((executor, _), effects) = (executor(), Effects::default());
    executor.once(call("m"), effects.then(Ended::succeeded("paid"))).await.unwrap();
    let other = call("m").body(b"99 EUR");
    let error = executor.once(other, effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), error.executed(), error.retry()), ("key-reused", Executed::No, Retry::Never));
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn a_claim_made_under_another_recipe_is_compared_under_that_one() {
    use hapax_core::{Fingerprint, Recipe};
    let ((executor, _), effects) = (executor(), Effects::default());
    let json = |body: &[u8]| {
        let parts = hapax_core::fingerprint::RequestParts {
            method: "POST",
            path: "/pay",
            content_type: Some("application/json"),
            body,
            ..Default::default()
        };
        Recipe::json().fingerprint(&parts)
    };
    let first = call("recipe").fingerprint(json(b"{\"a\": 1}"));
    executor.once(first, effects.then(Ended::succeeded("paid"))).await.unwrap();
    let raw = call("recipe").fingerprint(Fingerprint::of_bytes(b"{\"a\":1}"));
    let same = raw.clone().rehash(Arc::new(move |_: &Recipe| json(b"{\"a\":1}")));
    let done = executor.once(same, effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!(done.how, How::Replayed);
    let other = raw.rehash(Arc::new(move |_: &Recipe| json(b"{\"a\":2}")));
    let error = executor.once(other, effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), effects.count()), ("key-reused", 1));
}

#[tokio::test]
async fn an_unknown_failure_is_in_doubt_unless_running_again_is_safe() {
    let ((executor, _), effects) = (executor(), Effects::default());
    let failed = || Ended::Unknown("connection reset".into());
    let error = executor.once(call("u"), effects.then(failed())).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("outcome-unknown", Executed::Unknown));
    let again = executor.once(call("u"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((again.code(), effects.count()), ("outcome-unknown", 1), "nothing runs until it is resolved");

    let safe = || call("s").rerun(Rerun::Safe);
    let error = executor.once(safe(), effects.then(failed())).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("attempt-failed", Executed::Unknown));
    let done = executor.once(safe(), effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 3));

    let error = executor
        .once(call("p").rerun(Rerun::Safe), effects.then(Ended::Doubt(Doubt::Paused, "tired".into())))
        .await;
    assert_eq!(error.unwrap_err().code(), "outcome-unknown", "a stated doubt is one whatever the terms say");
}

#[tokio::test]
async fn a_panic_is_dealt_with_at_once_e3() {
    let ((executor, _), effects) = (executor(), Effects::default());
    let error = executor.once(call("p"), |_| async { boom() }).await.unwrap_err();
    assert_eq!(error.code(), "outcome-unknown");
    assert!(error.cause().unwrap().contains("boom"));
    let again = executor.once(call("p"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((again.code(), effects.count()), ("outcome-unknown", 0));
    let before_the_future: fn(_) -> std::future::Ready<Ended> = |_| panic!("boom");
    assert_eq!(executor.once(call("q"), before_the_future).await.unwrap_err().code(), "outcome-unknown");
}

#[tokio::test]
async fn a_cancelled_call_is_dealt_with_at_once() {
    let (executor, ledger) = executor();
    for (key, rerun) in [("unsafe", Rerun::Unsafe), ("safe", Rerun::Safe)] {
        let (call, id) = (call(key).rerun(rerun), claim_id(key));
        let started = Arc::new(tokio::sync::Notify::new());
        let work = {
            let started = started.clone();
            move |_| async move {
                started.notify_one();
                std::future::pending::<Ended>().await
            }
        };
        let task = tokio::spawn({
            let executor = executor.clone();
            async move { executor.once(call, work).await }
        });
        started.notified().await;
        task.abort();
        eventually("the ledger hears of the cancelled call", async || {
            let seen = ledger.peek(id).await.unwrap();
            match rerun {
                Rerun::Safe => matches!(seen, Some(View::Released { .. })),
                _ => matches!(seen, Some(View::InDoubt { reason: Doubt::Failed, .. })),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn work_that_takes_too_long_is_given_up() {
    let (executor, _) = executor();
    // Long enough to begin before it is over.
    let call = call("slow").give_up(Duration::from_millis(500));
    let error = executor.once(call, |_| std::future::pending::<Ended>()).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("outcome-unknown", Executed::Unknown));
}

/// A store whose only other process holds a claim and then is gone.
async fn lapsed(key: &str, rerun: Rerun) -> Executor<Memory> {
    let store = Memory::open(Options::default());
    let other = store.join();
    let started = Arc::new(tokio::sync::Notify::new());
    let (executor, call, waiting) = (Executor::new(other.clone()), call(key).rerun(rerun), started.clone());
    tokio::spawn(async move {
        let stuck = |_| async move {
            waiting.notify_one();
            std::future::pending::<Ended>().await
        };
        executor.once(call, stuck).await
    });
    started.notified().await;
    other.close().await.unwrap();
    Executor::new(store)
}

#[tokio::test]
async fn what_a_dead_process_held_is_in_doubt_taken_over_or_asked_about() {
    let effects = Effects::default();
    let executor = lapsed("k", Rerun::Unsafe).await;
    let error = executor.once(call("k"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), effects.count()), ("outcome-unknown", 0));

    let executor = lapsed("k", Rerun::Safe).await;
    let done =
        executor.once(call("k").rerun(Rerun::Safe), effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 1));

    let executor = lapsed("k", Rerun::Ask).await;
    let happened =
        call("k").reconcile(|_| async { Reconciled::Happened(Outcome::Succeeded("found".into())) });
    let done = executor.once(happened, effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!(
        (done.how, done.value, effects.count()),
        (How::Replayed, Outcome::Succeeded("found".into()), 1)
    );

    let executor = lapsed("k", Rerun::Ask).await;
    let never = call("k").reconcile(|_| async { Reconciled::Never });
    let done = executor.once(never, effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 2));

    let executor = lapsed("k", Rerun::Ask).await;
    let asked = Effects::default();
    let counting = asked.clone();
    let unknown = call("k").reconcile(move |_| {
        counting.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async { Reconciled::Unknown }
    });
    for _ in 0..3 {
        let error = executor.once(unknown.clone(), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
        assert_eq!((error.code(), effects.count()), ("outcome-unknown", 2));
        let seen = executor.ledger().peek(claim_id("k")).await.unwrap();
        assert!(matches!(seen, Some(View::InDoubt { reason: Doubt::Lapsed, .. })), "written down: {seen:?}");
    }
    assert_eq!(asked.count(), 1, "a doubt is not asked about more than every 10 s");
}

#[tokio::test]
async fn who_asks_in_vain_is_told_the_true_doubt_and_keeps_no_operator_from_releasing_it_l6_l8() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    let failed = effects.then(Ended::Unknown("reset".into()));
    executor.once(call("k").rerun(Rerun::Ask), failed).await.unwrap_err();
    let unknown = || call("k").reconcile(|_| async { Reconciled::Unknown });
    for _ in 0..2 {
        let error = executor.once(unknown(), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
        assert!(matches!(error.reason(), Reason::OutcomeUnknown { doubt: Some(Doubt::Failed) }), "{error:?}");
    }
    let record = ledger.inner().record(claim_id("k")).await.unwrap().unwrap();
    let decision = Decision {
        seen: record.claim.epoch,
        verb: Verb::Release { force: false },
        actor: "ann".into(),
        reason: "asked the bank".into(),
    };
    let decided = ledger.inner().decide(claim_id("k"), decision).await.unwrap();
    assert!(matches!(decided, Operated::Done(_)), "{decided:?}");
    let done = executor.once(unknown(), effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 2));
}

#[tokio::test]
async fn who_asks_in_vain_and_lost_the_lease_is_answered_from_the_ledger_l5() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    let failed = effects.then(Ended::Unknown("reset".into()));
    executor.once(call("k").rerun(Rerun::Ask), failed).await.unwrap_err();
    let meddling = ledger.clone();
    let late = call("k").reconcile(move |attempt| {
        let meddling = meddling.clone();
        async move {
            // It takes so long that the claim lapses, and an operator settles it meanwhile.
            let (id, epoch) = (attempt.claim.unwrap(), attempt.epoch.unwrap());
            meddling.report(id, epoch, Report::Doubt(Doubt::Lapsed), vec![]).await.unwrap();
            let verb = Verb::Settle(Outcome::Succeeded("by hand".into()), Retention::Forever);
            let (actor, reason) = ("ann".into(), "asked the bank".into());
            let decision = Decision { seen: epoch, verb, actor, reason };
            meddling.inner().decide(id, decision).await.unwrap();
            Reconciled::Unknown
        }
    });
    let done = executor.once(late, effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.value, effects.count()), (Outcome::Succeeded("by hand".into()), 1));
    assert_ne!(done.how, How::Executed);
}

#[tokio::test]
async fn a_question_that_panics_is_no_answer() {
    // L6: only "no, and it never will" lets the work run.
    let (executor, effects) = (lapsed("k", Rerun::Ask).await, Effects::default());
    let panics = call("k").reconcile(|_| async { panic!("the bank's answer cannot be read") });
    let error = executor.once(panics, effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), effects.count()), ("outcome-unknown", 0));
}

#[tokio::test]
async fn whoever_found_out_that_nothing_ran_can_give_the_claim_back() {
    // L6, L7: after "never" this attempt is the only one that may have run, and it says that it did not.
    let (executor, effects) = (lapsed("k", Rerun::Ask).await, Effects::default());
    let never = || call("k").reconcile(|_| async { Reconciled::Never });
    let error = executor.once(never(), effects.then(Ended::NotRun("no route".into()))).await.unwrap_err();
    assert_eq!((error.code(), error.executed()), ("attempt-failed", Executed::No));
    let nobody = call("k").rerun(Rerun::Ask);
    let done = executor.once(nobody, effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 2), "there is nothing left to ask");
}

#[tokio::test]
async fn a_dead_letter_sink_sees_a_refusal_and_cannot_change_it_e5() {
    #[derive(Default)]
    struct Sink(Mutex<Vec<(String, Outcome)>>);
    impl DeadLetter for Sink {
        fn refused(&self, identity: &Identity, _: OperationId, outcome: &Outcome) {
            self.0.lock().unwrap().push((identity.key().as_str().to_owned(), outcome.clone()));
            panic!("a sink that breaks changes nothing");
        }
    }
    let sink = Arc::new(Sink::default());
    let settings = Settings { dead_letter: Some(sink.clone()), ..Settings::default() };
    let executor = Executor::open(Memory::open(Options::default()), settings).await.unwrap();
    let effects = Effects::default();
    executor.once(call("ok"), effects.then(Ended::succeeded("fine"))).await.unwrap();
    for _ in 0..2 {
        let done = executor.once(call("bad"), effects.then(Ended::refused("never"))).await.unwrap();
        assert_eq!(done.value, Outcome::Refused("never".into()));
    }
    let seen = sink.0.lock().unwrap();
    assert_eq!(*seen, [("bad".to_owned(), Outcome::Refused("never".into()))], "once, not on replay");
}

#[tokio::test]
async fn a_call_that_will_not_wait_is_told_that_it_is_in_progress() {
    let (executor, _) = executor();
    let inner = executor.clone();
    let done = executor
        .once(call("busy"), |_| async move {
            let nested = call("busy").attach(Attach::Reject);
            let error = inner.once(nested, |_| async { Ended::succeeded("never") }).await.unwrap_err();
            assert_eq!((error.code(), error.executed()), ("in-progress", Executed::Unknown));
            assert!(matches!(error.retry(), Retry::SameKey(_)));
            let nested = call("busy").attach(Attach::Wait(Duration::from_millis(10)));
            let error = inner.once(nested, |_| async { Ended::succeeded("never") }).await.unwrap_err();
            assert_eq!(error.code(), "in-progress", "a bounded wait ends");
            Ended::succeeded("done")
        })
        .await
        .unwrap();
    assert_eq!(done.how, How::Executed);
}

fn boom() -> Ended {
    panic!("boom")
}
