//! When the ledger is away or its answers get lost: L5, L13, L14, L4.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax_core::journal::{Append, Author, NewEvent, Stream};
use hapax_core::{
    ClaimRequest, Executed, Fingerprint, Inspect as _, Journal as _, Ledger as _, Outcome, Report, Retry,
    Verdict, View,
};
use hapax_exec::{Ended, Executor, How};
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;

use crate::{Effects, call, claim_id, eventually, executor, identity};

#[tokio::test]
async fn an_unreachable_ledger_runs_nothing() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.set_away(true);
    let error = executor.once(call("k"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!(
        (error.code(), error.executed(), effects.count()),
        ("ledger-unavailable", Executed::Unknown, 0)
    );
    assert!(matches!(error.retry(), Retry::SameKey(_)));
    ledger.set_away(false);
    eventually("the key can be used again", async || {
        executor.once(call("k"), effects.then(Ended::succeeded("paid"))).await.is_ok()
    })
    .await;
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_given_back_and_not_held_for_ever() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.lose_claims(1);
    let error = executor.once(call("lost"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), effects.count()), ("ledger-unavailable", 0));
    eventually("the lost grant is released", async || {
        matches!(ledger.peek(claim_id("lost")).await, Ok(Some(View::Released { .. })))
    })
    .await;
    let done = executor.once(call("lost"), effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 1));
}

#[tokio::test]
async fn a_ledger_that_does_not_say_in_time_whose_turn_it_is_counts_as_away_and_what_it_grants_is_given_back_l14_l13()
 {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.after_next_claim(std::future::pending);
    let late = call("late").ask_within(Duration::from_millis(50));
    let error = executor.once(late.clone(), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!(
        (error.code(), error.executed(), effects.count()),
        ("ledger-unavailable", Executed::Unknown, 0)
    );
    assert!(matches!(error.retry(), Retry::SameKey(_)));
    eventually("what was granted late is released", async || {
        matches!(ledger.peek(claim_id("late")).await, Ok(Some(View::Released { .. })))
    })
    .await;
    let done = executor.once(late, effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 1));
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_and_whose_lapse_is_written_down_is_given_back_l13() {
    // A server that was away for longer than the term: the session lives again, and the lapse was seen by somebody. Nobody may
    // have to decide what certainly did not run, and an operator could not: its holder lives.
    let ((executor, ledger), effects) = (executor(), Effects::default());
    let meddler = ledger.clone();
    ledger.after_next_claim(move || async move {
        let epoch = meddler.inner().record(claim_id("lapsed")).await.unwrap().unwrap().claim.epoch;
        let lapse = Report::Doubt(hapax_core::Doubt::Lapsed);
        meddler.report(claim_id("lapsed"), epoch, lapse, vec![]).await.unwrap();
    });
    ledger.lose_claims(1);
    let error = executor.once(call("lapsed"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), effects.count()), ("ledger-unavailable", 0));
    eventually("the lapsed grant is released", async || {
        matches!(ledger.peek(claim_id("lapsed")).await, Ok(Some(View::Released { .. })))
    })
    .await;
    let done = executor.once(call("lapsed"), effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 1));
}

#[tokio::test]
async fn a_report_that_the_ledger_could_not_take_is_told_again_although_it_was_there_l13() {
    // The process lives, so its lease does not lapse: given up, the claim would be held for as long as `max_run`.
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.refuse_reports(2);
    let error =
        executor.once(call("refused"), async |_| Ended::NotRun("no connection".into())).await.unwrap_err();
    // A report whose answer is lost may have given the claim back, and another attempt may have run since.
    assert_eq!((error.code(), error.executed()), ("attempt-failed", Executed::Unknown));
    eventually("the claim is given back", async || {
        matches!(ledger.peek(claim_id("refused")).await, Ok(Some(View::Released { .. })))
    })
    .await;
    let done = executor.once(call("refused"), effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 1));
}

#[tokio::test]
async fn an_attempt_that_did_not_run_does_not_speak_for_an_earlier_one_that_may_have() {
    // Invariant 5: what is not known is not called "no".
    let (executor, ledger) = executor();
    let safe = || call("twice").rerun(hapax_core::Rerun::Safe);
    let cut = executor.once(safe(), async |_| Ended::Unknown("reset".into())).await.unwrap_err();
    assert_eq!((cut.code(), cut.executed()), ("attempt-failed", Executed::Unknown));
    let not_run = async |_| Ended::NotRun("no connection".into());
    let refused = executor.once(safe(), not_run).await.unwrap_err();
    assert_eq!((refused.code(), refused.executed()), ("attempt-failed", Executed::Unknown));
    // Nor where the ledger is away when that is to be reported, or before the work begins.
    let away = ledger.clone();
    ledger.after_next_claim(move || async move { away.set_away(true) });
    let unheard = executor.once(safe(), not_run).await.unwrap_err();
    assert_eq!((unheard.code(), unheard.executed()), ("attempt-failed", Executed::Unknown));
    ledger.set_away(false);
    eventually("the claim is given back", async || {
        matches!(ledger.peek(claim_id("twice")).await, Ok(Some(View::Released { .. })))
    })
    .await;
    ledger.set_no_time_left(true);
    ledger.lose_reports(1);
    let unsure = executor.once(safe(), not_run).await.unwrap_err();
    assert_eq!((unsure.code(), unsure.executed()), ("ledger-unavailable", Executed::Unknown));
}

#[tokio::test]
async fn a_straggling_claim_is_not_granted_to_nobody() {
    // The command that was given up on arrives after it was abandoned: the tombstone stops it.
    let (_, ledger) = executor();
    let request = ClaimRequest::new(identity("straggler"), Fingerprint::of_bytes(b"10 EUR"));
    let Verdict::Granted(grant) = ledger.claim(request.clone()).await.unwrap() else {
        panic!("expected a grant")
    };
    ledger
        .report(claim_id("straggler"), grant.epoch, Report::Release(hapax_core::Ran::No), vec![])
        .await
        .unwrap();
    assert_eq!(ledger.claim(request).await.unwrap(), Verdict::Spent);
}

#[tokio::test]
async fn what_is_owed_can_be_waited_for_before_a_session_ends_l13() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    executor.debts_paid().await;
    // The answer to a claim is lost, and the ledger takes its time when it is asked what became of it.
    let slow = ledger.clone();
    ledger.lose_claims(1);
    ledger.after_next_claim(move || async move {
        slow.after_next_claim(|| tokio::time::sleep(Duration::from_millis(100)));
    });
    executor.once(call("k"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert!(matches!(ledger.inner().peek(claim_id("k")).await, Ok(Some(View::Held { .. }))));
    executor.debts_paid().await;
    assert!(matches!(ledger.inner().peek(claim_id("k")).await, Ok(Some(View::Released { .. }))));
}

#[tokio::test]
async fn an_outcome_whose_settle_was_lost_is_recorded_behind_the_scenes_and_replayed() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.lose_reports(1);
    let error = executor.once(call("s"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!(error.code(), "outcome-unknown", "without a spool nobody may be told that it is kept");
    eventually("the outcome is recorded", async || {
        matches!(ledger.peek(claim_id("s")).await, Ok(Some(View::Settled(_))))
    })
    .await;
    let done = executor.once(call("s"), effects.then(Ended::succeeded("again"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Replayed, 1));
}

#[tokio::test]
async fn whoever_lost_the_lease_answers_from_the_ledger() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    let meddling = ledger.clone();
    let counted = effects.clone();
    let done = executor
        .once(call("zombie"), |attempt| async move {
            counted.0.fetch_add(1, Ordering::SeqCst);
            // Meanwhile the claim lapses, and an operator settles it by hand.
            let (id, epoch) = (attempt.claim.unwrap(), attempt.epoch.unwrap());
            let doubt = Report::Doubt(hapax_core::Doubt::Lapsed);
            meddling.report(id, epoch, doubt, vec![]).await.unwrap();
            let decision = hapax_core::Decision {
                seen: epoch,
                verb: hapax_core::Verb::Settle(
                    hapax_core::Outcome::Succeeded("by hand".into()),
                    hapax_core::Retention::Forever,
                ),
                actor: "ann".into(),
                reason: "asked the bank".into(),
            };
            meddling.inner().decide(id, decision).await.unwrap();
            Ended::succeeded("my own result")
        })
        .await
        .unwrap();
    assert_eq!(done.value, hapax_core::Outcome::Succeeded("by hand".into()));
    assert_ne!(done.how, How::Executed);
}

#[tokio::test]
async fn a_lease_with_too_little_left_is_renewed_before_anything_runs() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.set_no_time_left(true);
    let done = executor.once(call("renewed"), effects.then(Ended::succeeded("paid"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Executed, 1));
    // The renewal cannot be had: then nothing runs, and the claim is given back.
    ledger.set_no_time_left(true);
    ledger.lose_reports(1);
    let error = executor.once(call("stuck"), effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), effects.count()), ("ledger-unavailable", 1));
    eventually("the claim is given back", async || {
        matches!(ledger.peek(claim_id("stuck")).await, Ok(Some(View::Released { .. })))
    })
    .await;
}

#[tokio::test]
async fn a_lease_of_which_less_than_a_third_is_left_is_renewed_although_it_lives() {
    // L4: the work takes its time to arrive, so the end of a living lease is no time to begin.
    let ((executor, ledger), effects) = (executor(), Effects::default());
    let term = ledger.session().term;
    for (left, code, ran) in
        [(term / 3, None, 1), (term / 3 - Duration::from_secs(1), Some("ledger-unavailable"), 1)]
    {
        ledger.set_time_left(Some(left));
        // Whoever asks for a renewal now does not get one.
        let away = ledger.clone();
        ledger.after_next_claim(move || async move { away.lose_reports(1) });
        let key = format!("left-{}", left.as_secs());
        let back = ledger.clone();
        let counted = effects.clone();
        let work = |_| async move {
            counted.0.fetch_add(1, Ordering::SeqCst);
            back.lose_reports(0);
            Ended::succeeded("paid")
        };
        let ended = executor.once(call(&key), work).await;
        assert_eq!((ended.err().map(|error| error.code()), effects.count()), (code, ran), "{left:?} left");
    }
}

#[tokio::test]
async fn a_session_that_lapsed_and_came_back_is_not_enough_to_begin() {
    // The session's term ends while the claim waits to be dispatched; by then the heartbeat has renewed it, but an operator
    // has released the claim and somebody else has run it (L4).
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.set_no_time_left(true);
    let (meddler, counted) = (ledger.clone(), effects.clone());
    ledger.after_next_claim(move || {
        meddler.set_no_time_left(false);
        let (meddler, counted) = (meddler.clone(), counted);
        async move {
            let record = meddler.inner().record(claim_id("revived")).await.unwrap().unwrap();
            let (id, epoch) = (claim_id("revived"), record.claim.epoch);
            meddler.report(id, epoch, Report::Doubt(hapax_core::Doubt::Lapsed), vec![]).await.unwrap();
            let verb = hapax_core::Verb::Release { force: true };
            let decision =
                hapax_core::Decision { seen: epoch, verb, actor: "ann".into(), reason: "gone".into() };
            meddler.inner().decide(id, decision).await.unwrap();
            let other = Executor::new(meddler.inner().clone());
            other.once(call("revived"), counted.then(Ended::succeeded("the other's"))).await.unwrap();
        }
    });
    let done = executor.once(call("revived"), effects.then(Ended::succeeded("the zombie's"))).await.unwrap();
    assert_eq!(effects.count(), 1, "the zombie did not begin");
    assert_eq!(done.value, hapax_core::Outcome::Succeeded("the other's".into()));
}

#[tokio::test]
async fn a_process_that_was_stopped_after_its_lease_was_renewed_looks_again_l4() {
    // The renewal is confirmed; before the work begins the process is stopped for longer than lease and give-up last. An operator
    // releases the doubt without force, and another process runs the work. The first one must not begin any more.
    let options = Options { term: Duration::from_millis(200), heartbeat: false, ..Options::default() };
    let memory = Memory::open(options);
    let (ledger, effects) = (Faulty::new(memory.clone()), Effects::default());
    let executor = Executor::new(ledger.clone());
    let give_up = Duration::from_millis(400);
    ledger.set_no_time_left(true);
    let counted = effects.clone();
    ledger.after_next_report(move || async move {
        tokio::time::sleep(Duration::from_millis(600)).await;
        let other = memory.join();
        let id = claim_id("stopped");
        let seen = other.record(id).await.unwrap().unwrap().claim.epoch;
        let verb = hapax_core::Verb::Release { force: false };
        let decision = hapax_core::Decision { seen, verb, actor: "ann".into(), reason: "it is dead".into() };
        let released = other.decide(id, decision).await.unwrap();
        assert!(matches!(released, hapax_core::Operated::Done(_)), "{released:?}");
        let other = Executor::new(other);
        let call = call("stopped").give_up(give_up);
        other.once(call, counted.then(Ended::succeeded("the other's"))).await.unwrap();
    });
    let call = call("stopped").give_up(give_up);
    let _ = executor.once(call, effects.then(Ended::succeeded("the late one's"))).await;
    assert_eq!(effects.count(), 1, "the work ran twice after an unforced release");
}

#[tokio::test]
async fn a_renewal_counts_from_when_it_was_sent_and_not_from_its_answer_l4() {
    // The answer takes longer than the term: by then the lease has ended, and another renewal is needed.
    let options = Options { term: Duration::from_millis(200), heartbeat: false, ..Options::default() };
    let (ledger, effects) = (Faulty::new(Memory::open(options)), Effects::default());
    ledger.set_no_time_left(true);
    ledger.after_next_report(|| tokio::time::sleep(Duration::from_millis(300)));
    let done = Executor::new(ledger.clone()).once(call("slow"), effects.then(Ended::succeeded("paid"))).await;
    // The second renewal was in time, or was refused because the lease had been acted on; nothing began in between.
    assert_eq!(ledger.reports(), 3, "renewed twice and settled: {done:?}");
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn work_is_not_polled_once_its_time_is_over_l8() {
    let (executor, _) = executor();
    let polled = Arc::new(AtomicUsize::new(0));
    let counting = polled.clone();
    let work = |_| {
        std::future::poll_fn(move |cx| {
            if counting.fetch_add(1, Ordering::SeqCst) == 0 {
                // The thread is stopped for longer than the call has, and the work could go on at once.
                std::thread::sleep(Duration::from_millis(60));
                cx.waker().wake_by_ref();
            }
            std::task::Poll::<Ended>::Pending
        })
    };
    let call = call("overslept").give_up(Duration::from_millis(50));
    let error = executor.once(call, work).await.unwrap_err();
    assert_eq!((error.code(), polled.load(Ordering::SeqCst)), ("outcome-unknown", 1));
}

#[tokio::test]
async fn work_whose_time_is_over_does_not_begin() {
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.after_next_claim(|| tokio::time::sleep(Duration::from_millis(30)));
    let call = call("late").give_up(Duration::from_millis(20));
    let error = executor.once(call, effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), error.executed(), effects.count()), ("attempt-failed", Executed::No, 0));
}

#[tokio::test]
async fn work_whose_max_run_was_over_before_it_began_does_not_begin_l4() {
    // The session has its whole term left, but the lease ended with `max_run`, and others may have acted on that.
    let ((executor, ledger), effects) = (executor(), Effects::default());
    ledger.after_next_claim(|| tokio::time::sleep(Duration::from_millis(30)));
    let call = call("overrun").max_run(Duration::from_millis(20));
    let error = executor.once(call, effects.then(Ended::succeeded("paid"))).await.unwrap_err();
    assert_eq!((error.code(), error.executed(), effects.count()), ("attempt-failed", Executed::No, 0));
}

#[tokio::test]
async fn the_guard_settles_and_once_answers_what_it_settled() {
    // The guard of L16 settles under the attempt's own epoch; here it is played by a report.
    let (executor, ledger) = executor();
    let done = executor
        .once(call("guarded"), |attempt| async move {
            let outcome = hapax_core::Outcome::Succeeded("in the transaction".into());
            let settle = Report::Settle(outcome, hapax_core::Retention::Forever);
            ledger.report(attempt.claim.unwrap(), attempt.epoch.unwrap(), settle, vec![]).await.unwrap();
            Ended::succeeded("outside of it")
        })
        .await
        .unwrap();
    assert_eq!(done.value, hapax_core::Outcome::Succeeded("in the transaction".into()));
    assert_eq!(done.how, How::Executed);
}

#[tokio::test]
async fn a_report_that_the_ledger_has_confirmed_is_not_sent_again() {
    // L13: what is owed is what was not confirmed.
    let ((executor, ledger), effects) = (executor(), Effects::default());
    executor.once(call("settled"), effects.then(Ended::succeeded("paid"))).await.unwrap();
    executor.once(call("released"), effects.then(Ended::NotRun("no route".into()))).await.unwrap_err();
    executor.once(call("doubted"), effects.then(Ended::Unknown("reset".into()))).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(ledger.reports(), 3);
}

#[tokio::test]
async fn what_is_owed_is_delivered_however_long_the_ledger_was_away() {
    // L13: the first tries fail, too.
    let (executor, ledger) = executor();
    let away = ledger.clone();
    let work = |_| async move {
        away.set_away(true);
        Ended::succeeded("paid")
    };
    executor.once(call("owed"), work).await.unwrap_err();
    let at_once = ledger.reports();
    eventually("it was tried again in vain", async || ledger.reports() >= at_once + 2).await;
    ledger.set_away(false);
    eventually("the outcome is recorded", async || {
        matches!(ledger.peek(claim_id("owed")).await, Ok(Some(View::Settled(_))))
    })
    .await;
}

pub(crate) fn an_event(version: Option<u64>) -> Append {
    let stream = Stream::new("receipts/local").unwrap();
    Append::new(stream, Author::Anyone { version }).with(vec![NewEvent::new("PAID", "{}")])
}

#[tokio::test]
async fn an_outcome_is_kept_although_the_journal_has_moved_on() {
    // L5, L18: the events can no longer be written where they belong, but what they tell of is true.
    let (executor, ledger) = executor();
    let ended = Ended::succeeded("paid").with(vec![an_event(Some(7))]);
    let done = executor.once(call("moved"), |_| async { ended }).await.unwrap();
    assert_eq!((done.how, done.value), (How::Executed, Outcome::Succeeded("paid".into())));
    assert!(!done.events_written);
    assert_eq!(ledger.inner().head(&Stream::new("receipts/local").unwrap()).await.unwrap(), None);

    // The same with nobody there to hear of the conflict: the call is gone when the ledger is back.
    let away = ledger.clone();
    let work = |_| async move {
        away.set_away(true);
        Ended::succeeded("paid").with(vec![an_event(Some(7))])
    };
    executor.once(call("owed"), work).await.unwrap_err();
    ledger.set_away(false);
    eventually("the outcome is recorded", async || {
        matches!(ledger.peek(claim_id("owed")).await, Ok(Some(View::Settled(_))))
    })
    .await;
}
