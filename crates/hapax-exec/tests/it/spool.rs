//! Outcomes that the ledger could not take: L15.

use std::path::Path;

use hapax_core::{Executed, Ledger as _, Outcome, View};
use hapax_exec::{Ended, Executor, How, Settings};
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;

use crate::{Effects, call, eventually};

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
    assert_eq!(waiting(folder.path()).len(), 1);
    ledger.set_away(false);
    eventually("the spool is empty", async || waiting(folder.path()).is_empty()).await;
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
    let ledger = Faulty::new(Memory::open(Options::default()));
    let executor = spooling(&ledger, folder.path()).await;
    assert_eq!(waiting(folder.path()), ["half.unreadable"]);
    assert!(matches!(
        executor.ledger().peek(hapax_core::ClaimId::from_bytes([0; 32])).await,
        Ok(None::<View>)
    ));
}
