//! Outcomes that the ledger could not take: L15.

use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt as _;
use hapax_core::journal::Stream;
use hapax_core::{
    Decision, Doubt, Epoch, Executed, Inspect as _, Journal as _, Ledger as _, Operated, Outcome, Report,
    Retention, Verb, View,
};
use hapax_exec::{Attempt, Concluded, Done, Ended, Error, Executor, How, Settings};
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;
use hapax_testkit::lines::Lines;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::faults::an_event;
use crate::{Effects, call, claim_id, eventually};

async fn spooling(ledger: &Faulty<Memory>, folder: &Path) -> Executor<Faulty<Memory>> {
    let settings = Settings { spool: Some(folder.to_owned()), ..Settings::default() };
    Executor::open(ledger.clone(), settings).await.unwrap()
}

fn waiting(folder: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Work during which the ledger goes away.
async fn spooled(
    executor: &Executor<Faulty<Memory>>,
    ledger: &Faulty<Memory>,
    effects: &Effects,
) -> hapax_exec::Error {
    let (away, effects) = (ledger.clone(), effects.clone());
    let work = |_| async move {
        effects.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        away.set_away(true);
        Ended::succeeded("paid")
    };
    executor.once(call("k"), work).await.unwrap_err()
}

#[tokio::test]
async fn an_outcome_goes_to_the_spool_before_the_caller_is_told_and_is_settled_when_the_ledger_is_back() {
    let (folder, effects) = (tempfile::tempdir().unwrap(), Effects::default());
    let ledger = Faulty::new(Memory::open(Options::default()));
    let executor = spooling(&ledger, folder.path()).await;
    let error = spooled(&executor, &ledger, &effects).await;
    assert_eq!((error.code(), error.executed()), ("outcome-pending", Executed::Yes));
    assert_eq!(
        (waiting(folder.path()).len(), executor.waiting()),
        (1, (1, 1)),
        "one report, in one file (O1)"
    );
    ledger.set_away(false);
    eventually("the spool is empty", async || waiting(folder.path()).is_empty()).await;
    eventually("nothing is owed", async || executor.waiting() == (0, 0)).await;
    let done = executor.once(call("k"), effects.then(Ended::succeeded("again"))).await.unwrap();
    assert_eq!(
        (done.how, done.value, effects.count()),
        (How::Replayed, Outcome::Succeeded("paid".into()), 1)
    );
}

#[tokio::test]
async fn a_spooled_outcome_outlives_the_process_and_is_settled_before_traffic_is_accepted() {
    let (folder, effects) = (tempfile::tempdir().unwrap(), Effects::default());
    let ledger = Faulty::new(Memory::open(Options::default()));
    let executor = spooling(&ledger, folder.path()).await;
    spooled(&executor, &ledger, &effects).await;
    let left = waiting(folder.path());
    // The process "dies": what it owed is gone, the file is not.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(folder.path().join(&left[0]), copy.path().join(&left[0])).unwrap();
    let settings = Settings { spool: Some(copy.path().to_owned()), ..Settings::default() };
    assert!(
        Executor::open(ledger.clone(), settings).await.is_err(),
        "no traffic while the outcome cannot be settled"
    );
    assert_eq!(waiting(copy.path()), left, "nothing is lost");
    drop(executor);
    ledger.set_away(false);
    let next = spooling(&ledger, copy.path()).await;
    assert!(waiting(copy.path()).is_empty());
    let done = next.once(call("k"), effects.then(Ended::succeeded("again"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Replayed, 1));
    let Some(View::Settled(kept)) = ledger.peek(claim_id("k")).await.unwrap() else { panic!("not settled") };
    let a_day = Duration::from_secs(24 * 60 * 60);
    assert_eq!(kept.keep_until, kept.settled_at.after(a_day), "the retention was spooled, too");
}

#[tokio::test]
async fn a_disk_that_takes_its_time_holds_up_no_other_call_of_the_same_thread_l15() {
    // Whoever opens a pipe for writing waits until somebody reads from it: that is the disk.
    let folder = tempfile::tempdir().unwrap();
    let ledger = Faulty::new(Memory::open(Options::default()));
    let executor = spooling(&ledger, folder.path()).await;
    let (at, away) = (folder.path().to_owned(), ledger.clone());
    let (told, mut pipe) = tokio::sync::oneshot::channel();
    let work = |attempt: hapax_exec::Attempt| async move {
        let name = format!("{}-{}.writing", attempt.claim.unwrap(), attempt.epoch.unwrap().packed());
        let pipe = at.join(name);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // A limit, so that a call which waits on this thread is a failure and no hang.
        let reader = pipe.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(10));
            let _ = std::fs::OpenOptions::new().read(true).write(true).open(reader);
        });
        told.send(pipe).unwrap();
        away.set_away(true);
        Ended::succeeded("paid")
    };
    let mut writing = Box::pin(executor.once(call("slow"), work));
    assert!(futures_util::poll!(&mut writing).is_pending(), "the thread waited for the disk");
    let pipe = pipe.try_recv().unwrap();
    ledger.set_away(false);
    let other = executor.once(call("other"), Effects::default().then(Ended::succeeded("paid"))).await;
    assert_eq!(other.unwrap().how, How::Executed);
    assert!(futures_util::poll!(&mut writing).is_pending(), "told before it was on disk");
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(pipe).unwrap();
    // A pipe cannot be synced.
    assert_eq!(writing.await.unwrap_err().code(), "outcome-unknown");
    drop(reader);
    assert_eq!(waiting(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_call_that_is_dropped_while_it_is_spooled_is_settled_and_leaves_nothing_behind_l13_l15() {
    let (folder, effects) = (tempfile::tempdir().unwrap(), Effects::default());
    let ledger = Faulty::new(Memory::open(Options::default()));
    let executor = spooling(&ledger, folder.path()).await;
    let keys: Vec<String> = (0..50).map(|number| format!("dropped-{number}")).collect();
    for key in &keys {
        ledger.set_away(false);
        let (away, effects) = (ledger.clone(), effects.clone());
        let work = |_| async move {
            effects.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            away.set_away(true);
            Ended::succeeded("paid")
        };
        let mut call = Box::pin(executor.once(call(key), work));
        let _ = futures_util::poll!(&mut call);
    }
    assert_eq!(effects.count(), keys.len(), "each got as far as the spool");
    ledger.set_away(false);
    for key in &keys {
        eventually("the outcome is recorded", async || {
            matches!(ledger.peek(claim_id(key)).await, Ok(Some(View::Settled(_))))
        })
        .await;
    }
    eventually("the spool is empty", async || waiting(folder.path()).is_empty()).await;
}

/// A call whose work is done, and whose ledger says nothing about it before it is let go.
fn stuck(
    executor: &Executor<Faulty<Memory>>,
    ledger: &Faulty<Memory>,
) -> (JoinHandle<Result<Done, Error>>, oneshot::Sender<()>) {
    let (let_go, held) = oneshot::channel();
    ledger.before_next_report(|| async { drop(held.await) });
    let executor = executor.clone();
    let work = |_| async { Ended::succeeded("paid") };
    (tokio::spawn(async move { executor.once(call("k"), work).await }), let_go)
}

#[tokio::test]
async fn an_outcome_that_the_ledger_is_long_in_confirming_is_on_disk_meanwhile_l15() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Faulty::new(Memory::open(Options::default()));
    let executor = spooling(&ledger, folder.path()).await;
    let written = || waiting(folder.path()).iter().any(|name| name.ends_with(".outcome"));

    // Whoever ends the process now, however, leaves the outcome to the next one.
    let (ended, let_go) = stuck(&executor, &ledger);
    eventually("the outcome is on disk", async || written()).await;
    assert!(!ended.is_finished(), "the ledger may still confirm it");
    let copy = tempfile::tempdir().unwrap();
    for name in waiting(folder.path()) {
        std::fs::copy(folder.path().join(&name), copy.path().join(&name)).unwrap();
    }
    ended.abort();
    let _ = ended.await;
    drop(let_go);
    let next = spooling(&ledger, copy.path()).await;
    let done = next.once(call("k"), |_| async { Ended::succeeded("again") }).await.unwrap();
    assert_eq!((done.how, done.value), (How::Replayed, Outcome::Succeeded("paid".into())));
    eventually("the spool is empty", async || waiting(folder.path()).is_empty()).await;
}

#[tokio::test]
async fn an_outcome_that_is_confirmed_late_or_not_at_all_leaves_one_file_or_none_l15() {
    for away in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Faulty::new(Memory::open(Options::default()));
        let executor = spooling(&ledger, folder.path()).await;
        let (ended, let_go) = stuck(&executor, &ledger);
        eventually("the outcome is on disk", async || !waiting(folder.path()).is_empty()).await;
        ledger.set_away(away);
        drop(let_go);
        match ended.await.unwrap() {
            Ok(done) => assert_eq!((away, done.how), (false, How::Executed)),
            Err(error) => {
                assert_eq!((away, error.code(), error.executed()), (true, "outcome-pending", Executed::Yes));
                assert_eq!(waiting(folder.path()).len(), 1);
            }
        }
        ledger.set_away(false);
        eventually("the spool is empty", async || waiting(folder.path()).is_empty()).await;
        assert!(matches!(ledger.peek(claim_id("k")).await, Ok(Some(View::Settled(_)))));
    }
}

#[tokio::test]
async fn an_outcome_that_is_refused_late_is_set_aside_unless_the_audit_keeps_it_l8_l15() {
    for purged in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store = memory();
        let ledger = Faulty::new(store.clone());
        let executor = spooling(&ledger, folder.path()).await;
        let (ended, let_go) = stuck(&executor, &ledger);
        let written = || waiting(folder.path()).iter().any(|name| name.ends_with(".outcome"));
        eventually("the outcome is on disk", async || written()).await;
        let mut seen = store.record(claim_id("k")).await.unwrap().unwrap().claim.epoch;
        store.report(claim_id("k"), seen, Report::Doubt(Doubt::Stated), vec![]).await.unwrap();
        let by_hand = Verb::Settle(Outcome::Succeeded("by hand".into()), Retention::Forever);
        for verb in [Some(by_hand), purged.then_some(Verb::Purge)].into_iter().flatten() {
            let decision = Decision { seen, verb, actor: "ann".into(), reason: "asked the bank".into() };
            let decided = store.decide(claim_id("k"), decision).await.unwrap();
            let Operated::Done(epoch) = decided else { panic!("{decided:?}") };
            seen = epoch.unwrap_or(seen);
        }
        drop(let_go);
        let _ = ended.await.unwrap();
        eventually("the file is gone or set aside", async || !written()).await;
        let left = waiting(folder.path());
        assert_eq!(
            left.iter().map(|name| name.ends_with(".refused")).collect::<Vec<_>>(),
            vec![true; purged.into()]
        );
    }
}

/// Runs one of these tests under `strace` and gives what it did to spooled files and their folder, in order.
fn traced(test: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("trace");
    let calls = "trace=?write,?fsync,?fdatasync,?rename,?renameat,?renameat2";
    let run = std::process::Command::new("strace")
        .args(["-f", "-y", "-s", "4096", "-e", calls, "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .output()
        .expect("strace is needed to see what is synced (Debian: apt-get install strace)");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    let lines = std::fs::read_to_string(&log).unwrap();
    let what = |line: &str| {
        let call = ["write(", "sync(", "rename"].into_iter().find(|call| line.contains(call))?;
        let spooled = line.contains(".writing") || line.contains(".outcome");
        (spooled || call == "sync(").then(|| match (call, spooled) {
            ("write(", _) if line.contains(".writing") => "written".to_owned(),
            ("write(", _) => "written under its name".to_owned(),
            ("sync(", true) => "synced".to_owned(),
            ("sync(", false) => "folder synced".to_owned(),
            _ => "named".to_owned(),
        })
    };
    lines.lines().filter(|line| !line.contains("resumed")).filter_map(what).collect()
}

#[test]
fn a_spooled_outcome_is_synced_before_it_has_its_name_and_its_name_before_the_caller_is_told() {
    // L15: over a power cut too, so the order of the calls is what counts.
    let test = "spool::an_outcome_goes_to_the_spool_before_the_caller_is_told_and_is_settled_when_the_ledger_is_back";
    assert_eq!(traced(test), ["written", "synced", "named", "folder synced"]);
}

#[tokio::test]
async fn a_spool_that_cannot_be_written_leaves_the_outcome_unknown() {
    let (folder, effects) = (tempfile::tempdir().unwrap(), Effects::default());
    let ledger = Faulty::new(Memory::open(Options::default()));
    let executor = spooling(&ledger, folder.path()).await;
    folder.close().unwrap();
    let error = spooled(&executor, &ledger, &effects).await;
    assert_eq!(error.code(), "outcome-unknown");
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("half.outcome"), b"hpxspl01 and then nothing").unwrap();
    // Nobody was told of what had not got its name yet.
    std::fs::write(folder.path().join("torn.writing"), b"hpxspl01").unwrap();
    let ledger = Faulty::new(Memory::open(Options::default()));
    let executor = spooling(&ledger, folder.path()).await;
    let mut left = waiting(folder.path());
    left.sort();
    assert_eq!(left, ["half.unreadable", "torn.writing"]);
    assert!(matches!(
        executor.ledger().peek(hapax_core::ClaimId::from_bytes([0; 32])).await,
        Ok(None::<View>)
    ));
}

#[tokio::test]
async fn what_a_killed_process_was_writing_is_removed_when_nobody_can_be_writing_it_any_more_l15() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.writing"), folder.path().join("new.writing"));
    for (path, age) in [(&old, 2 * 60 * 60), (&new, 0)] {
        let file = std::fs::File::create(path).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    drop(spooling(&Faulty::new(memory()), folder.path()).await);
    assert_eq!(waiting(folder.path()), ["new.writing"], "another process may be writing that one");
}

#[test]
fn work_whose_outcome_may_be_spooled_runs_without_a_runtime_too_l15() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Faulty::new(memory());
    let executor = spooling(&ledger, folder.path()).now_or_never().unwrap();
    let work = |_| async { Ended::succeeded("paid") };
    let done = executor.once(call("k"), work).now_or_never().expect("nothing is waited for");
    assert_eq!(done.unwrap().how, How::Executed);
    let (away, work) = (ledger.clone(), |_| async {
        ledger.set_away(true);
        Ended::succeeded("paid")
    });
    let pending = executor.once(call("k2"), work).now_or_never().expect("nothing is waited for");
    assert_eq!(pending.unwrap_err().code(), "outcome-pending");
    away.set_away(false);
}

fn memory() -> Memory {
    Memory::open(Options::default())
}

/// An outcome in the spool that only the next process can settle: this one never reaches the ledger again.
async fn leave_behind<F, E>(store: &Memory, folder: &Path, work: impl FnOnce(Attempt) -> F)
where
    F: Future<Output = E>,
    E: Into<Concluded>,
{
    let cut_off = Faulty::new(store.clone());
    let executor = spooling(&cut_off, folder).await;
    let work = |attempt| {
        cut_off.set_away(true);
        work(attempt)
    };
    assert_eq!(executor.once(call("k"), work).await.unwrap_err().code(), "outcome-pending");
    assert_eq!(waiting(folder).len(), 1);
}

#[tokio::test]
async fn starting_once_on_another_ledger_sets_a_spooled_outcome_aside_and_loses_nothing_l15() {
    let (folder, effects, store) = (tempfile::tempdir().unwrap(), Effects::default(), memory());
    leave_behind(&store, folder.path(), effects.then(Ended::succeeded("paid"))).await;
    let left = waiting(folder.path());

    drop(spooling(&Faulty::new(memory()), folder.path()).await);
    let aside = waiting(folder.path());
    assert_eq!(aside, [left[0].replace(".outcome", ".refused")]);

    // Renamed, and on its own ledger, it is settled.
    std::fs::rename(folder.path().join(&aside[0]), folder.path().join(&left[0])).unwrap();
    let next = spooling(&Faulty::new(store), folder.path()).await;
    assert!(waiting(folder.path()).is_empty());
    let done = next.once(call("k"), effects.then(Ended::succeeded("again"))).await.unwrap();
    assert_eq!((done.how, effects.count()), (How::Replayed, 1));
}

#[tokio::test]
async fn a_spooled_outcome_that_the_audit_keeps_or_that_was_erased_is_not_set_aside_l8_l15() {
    for erase in [false, true] {
        let (folder, store) = (tempfile::tempdir().unwrap(), memory());
        leave_behind(&store, folder.path(), Effects::default().then(Ended::succeeded("paid"))).await;
        let record = store.record(claim_id("k")).await.unwrap().unwrap();
        let doubt = Report::Doubt(Doubt::Stated);
        store.report(claim_id("k"), record.claim.epoch, doubt, vec![]).await.unwrap();
        let by_hand = Verb::Settle(Outcome::Succeeded("by hand".into()), Retention::Forever);
        let mut seen = record.claim.epoch;
        for verb in [Some(by_hand), erase.then_some(Verb::Erase)].into_iter().flatten() {
            let decision = Decision { seen, verb, actor: "ann".into(), reason: "asked the bank".into() };
            let decided = store.decide(claim_id("k"), decision).await.unwrap();
            let Operated::Done(Some(epoch)) = decided else { panic!("{decided:?}") };
            seen = epoch;
        }
        drop(spooling(&Faulty::new(store), folder.path()).await);
        assert_eq!(waiting(folder.path()), [""; 0], "erased: {erase}");
    }
}

/// Somebody else is granted the claim of this attempt, and settles it.
async fn take_over(store: &Memory, seen: Epoch) {
    store.report(claim_id("k"), seen, Report::Doubt(Doubt::Stated), vec![]).await.unwrap();
    let verb = Verb::Release { force: true };
    let decision = Decision { seen, verb, actor: "ann".into(), reason: "it may run again".into() };
    store.decide(claim_id("k"), decision).await.unwrap();
    let other = Executor::new(store.clone());
    other.once(call("k"), |_| async { Ended::succeeded("the other's") }).await.unwrap();
}

#[tokio::test]
async fn a_spooled_outcome_whose_claim_somebody_else_has_settled_is_not_set_aside_l5_l15() {
    let (lines, _guard) = Lines::listen();
    let (folder, store) = (tempfile::tempdir().unwrap(), memory());
    leave_behind(&store, folder.path(), Effects::default().then(Ended::succeeded("paid"))).await;
    let record = store.record(claim_id("k")).await.unwrap().unwrap();
    take_over(&store, record.claim.epoch).await;
    let before = lines.told();
    drop(spooling(&Faulty::new(store), folder.path()).await);
    assert_eq!(waiting(folder.path()), [""; 0]);
    let told = lines.told().replace(&before, "");
    assert!(told.lines().count() == 1 && told.contains("WARN") && told.contains("too late"), "{told}");
}

#[tokio::test]
async fn an_outcome_that_is_overtaken_while_it_is_waited_for_is_told_and_not_set_aside_l5_l15() {
    let (lines, _guard) = Lines::listen();
    let (folder, store) = (tempfile::tempdir().unwrap(), memory());
    let ledger = Faulty::new(store.clone());
    let executor = spooling(&ledger, folder.path()).await;
    let (ended, let_go) = stuck(&executor, &ledger);
    let written = || waiting(folder.path()).iter().any(|name| name.ends_with(".outcome"));
    eventually("the outcome is on disk", async || written()).await;
    let record = store.record(claim_id("k")).await.unwrap().unwrap();
    take_over(&store, record.claim.epoch).await;
    drop(let_go);
    assert_eq!(ended.await.unwrap().unwrap().value, Outcome::Succeeded("the other's".into()));
    eventually("the file is gone or set aside", async || !written()).await;
    assert_eq!(waiting(folder.path()), [""; 0]);
    let told = lines.told();
    assert!(told.lines().count() == 1 && told.contains("WARN") && told.contains("too late"), "{told}");
}

#[tokio::test]
async fn a_spooled_outcome_is_settled_with_its_journal_events_after_a_restart_l18() {
    for (version, length) in [(None, Some(1)), (Some(7), None)] {
        let (folder, store) = (tempfile::tempdir().unwrap(), memory());
        let ended = Ended::succeeded("paid").with(vec![an_event(version)]);
        leave_behind(&store, folder.path(), |_| std::future::ready(ended)).await;
        drop(spooling(&Faulty::new(store.clone()), folder.path()).await);
        let head = store.head(&Stream::new("receipts/local").unwrap()).await.unwrap();
        assert_eq!(head.map(|head| head.length), length, "{version:?}");
        assert!(matches!(store.peek(claim_id("k")).await, Ok(Some(View::Settled(_)))));
    }
}
