//! What only the inside can bring about.

use crate::limits;
use hapax_core::View;
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;

use super::*;

#[tokio::test]
async fn a_place_in_the_spool_that_was_given_up_is_not_written_by_somebody_who_comes_late_l15() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Faulty::new(Memory::open(Options::default()));
    let settings = Settings { spool: Some(folder.path().to_owned()), ..Settings::default() };
    let executor = Executor::open(ledger.clone(), settings).await.unwrap();
    let call = Call::local("charge", "order-42").unwrap().body(b"10 EUR");
    let Ok(Entered::Held(held, ())) = executor.enter(call, ()).await else { panic!("not granted") };
    let Ok(Begun::Running(Running(mut held))) = held.begin(async |_| Reconciled::Unknown).await else {
        panic!("not begun")
    };
    let (claim, epoch) = (held.claim, held.epoch);
    let (outcome, retention) = (Outcome::Succeeded("paid".into()), limits::RETENTION);

    // The place was taken because the ledger was slow, and the thread that writes it has not got that far yet.
    let spool = executor.0.spool.clone().unwrap();
    let entry = spool.reserve(claim, epoch, &outcome, retention, &[]).unwrap();
    held.told.spooled = Some(entry.clone());
    ledger.set_away(true);
    std::fs::remove_dir(folder.path()).unwrap();
    held.concluded(Ended::Settled(outcome).into());
    let error = held.close().await.unwrap_err();
    assert_eq!(error.code(), "outcome-unknown");
    std::fs::create_dir(folder.path()).unwrap();
    entry.write().await.unwrap();

    ledger.set_away(false);
    let bound = std::time::Instant::now() + Duration::from_secs(30);
    let left = || std::fs::read_dir(folder.path()).unwrap().count();
    while left() > 0 || !matches!(ledger.peek(claim).await, Ok(Some(View::Settled(_)))) {
        assert!(std::time::Instant::now() < bound, "{} files are left behind", left());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
