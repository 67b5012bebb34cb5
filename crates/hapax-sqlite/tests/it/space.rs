//! Disks that are full, or nearly (B5): real file systems, small ones. Needs the right to mount, which the tests' machine gives.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax_core::{Ending, Epoch, Error, Kind, Ledger as _, Outcome, Report, Verdict};
use hapax_sqlite::Embedded;
use hapax_store::conformance::{DAY, granted, ok};
use hapax_store::{Lifecycle as _, Options};

use crate::shared::{ask, part, play, retried, runtime};

/// Plays something on a disk of so many MiB.
fn on_a_disk_of<F: Future<Output = ()>>(
    size: usize,
    scene: impl FnOnce(PathBuf) -> F + std::panic::UnwindSafe,
) {
    let folder = tempfile::tempdir().unwrap();
    let size = format!("size={size}m");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).status();
    assert!(mounted.is_ok_and(|status| status.success()), "a small file system can be mounted");
    let disk = folder.path().to_owned();
    let result = std::panic::catch_unwind(|| runtime().block_on(scene(disk)));
    let unmounted = Command::new("umount").arg(folder.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// What somebody else has on the disk.
const SOMEBODY: &str = "somebody";

/// Somebody else takes all but so many bytes.
fn leave(disk: &Path, bytes: u64) {
    let mut file = OpenOptions::new().append(true).create(true).open(disk.join(SOMEBODY)).unwrap();
    while free(disk) > bytes && file.write_all(&[1; 4096]).is_ok() {}
}

fn free(disk: &Path) -> u64 {
    rustix::fs::statvfs(disk).map(|disk| disk.f_bavail * disk.f_frsize).unwrap()
}

/// An answer of so many bytes.
fn long(bytes: usize) -> Outcome {
    Outcome::Succeeded(vec![7; bytes].into())
}

/// Settles a claim that was granted.
async fn settle(store: &Embedded, key: &str, epoch: Epoch, outcome: Outcome) -> Result<Ending, Error> {
    store.report(ask(key).identity.claim_id(), epoch, Report::Settle(outcome, DAY), Vec::new()).await
}

#[test]
fn a_disk_without_room_refuses_claims_and_still_keeps_outcomes_b5() {
    on_a_disk_of(72, async |disk| {
        let store = Embedded::open(disk.join("store"), Options::default()).unwrap();
        let grant = granted(&store, &ask("running")).await;
        let large = granted(&store, &ask("large")).await;
        // Room is kept back for what was granted before the disk is full, so that it need not be fought for.
        leave(&disk, 30 << 20);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(store.claim(ask("early")).await.unwrap_err().kind(), Kind::Unavailable);
        // Somebody else fills the disk to the last byte.
        leave(&disk, 0);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(store.claim(ask("new")).await.unwrap_err().kind(), Kind::Unavailable);
        let ending = settle(&store, "running", grant.epoch, ok("done")).await;
        assert!(matches!(ending.unwrap(), Ending::Settled(_)));
        // A large outcome needs the ballast.
        let ending = settle(&store, "large", large.epoch, long(4 << 20)).await;
        assert!(matches!(ending.unwrap(), Ending::Settled(_)));
        assert_eq!(store.claim(ask("new")).await.unwrap_err().kind(), Kind::Unavailable);
        std::fs::remove_file(disk.join(SOMEBODY)).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        granted(&store, &ask("new")).await;
        assert_eq!(retried(&store, "running").await, Ok(ok("done")));
    });
}

#[test]
fn a_nearly_full_disk_grants_only_what_it_has_room_to_keep_b5() {
    // Sixty calls at once, each of which may come back with as much as is ever kept.
    on_a_disk_of(120, async |disk| {
        let store = Embedded::open(disk.join("store"), Options::default()).unwrap();
        leave(&disk, 44 << 20);
        let keys: Vec<String> = (0..60).map(|number| format!("call-{number}")).collect();
        let verdicts = futures_util::future::join_all(keys.iter().map(|key| store.claim(ask(key)))).await;
        let mut running = Vec::new();
        for (key, verdict) in keys.iter().zip(verdicts) {
            match verdict {
                Ok(Verdict::Granted(grant)) => running.push((key, grant.epoch)),
                Ok(other) => panic!("{other:?}"),
                Err(error) => assert_eq!(error.kind(), Kind::Unavailable, "{error:#}"),
            }
        }
        assert!(!running.is_empty());
        let settles = running.iter().map(|(key, epoch)| settle(&store, key, *epoch, long(1 << 20)));
        for ending in futures_util::future::join_all(settles).await {
            assert!(matches!(ending.unwrap(), Ending::Settled(_)), "{} were granted", running.len());
        }
    });
}

/// Has calls under way, one of which comes back with more than anybody could have made room for; then the disk is full.
async fn calls_on_a_full_disk(store: &Embedded, disk: &Path) -> Vec<(String, Epoch, Outcome)> {
    let mut calls = Vec::new();
    for number in 0..41 {
        let key = format!("call-{number}");
        let epoch = granted(store, &ask(&key)).await.epoch;
        calls.push((key, epoch, if number == 20 { long(40 << 20) } else { ok("done") }));
    }
    leave(disk, 0);
    calls
}

/// Settles them all at once.
async fn settle_together(store: &Embedded, calls: &[(String, Epoch, Outcome)]) -> Vec<Result<Ending, Error>> {
    let settles = calls.iter().map(|(key, epoch, outcome)| settle(store, key, *epoch, outcome.clone()));
    futures_util::future::join_all(settles).await
}

fn small() -> Options {
    Options { largest_outcome: 64 << 10, ..Options::default() }
}

#[test]
fn of_outcomes_that_come_together_those_are_kept_that_have_room_b5() {
    on_a_disk_of(72, async |disk| {
        let store = Embedded::open(disk.join("store"), small()).unwrap();
        let calls = calls_on_a_full_disk(&store, &disk).await;
        for (number, ending) in settle_together(&store, &calls).await.into_iter().enumerate() {
            match (number, ending) {
                (20, Err(error)) => assert_eq!(error.kind(), Kind::Unavailable, "{error:#}"),
                (_, Ok(Ending::Settled(_))) => assert_ne!(number, 20),
                (number, other) => panic!("{number}: {other:?}"),
            }
        }
    });
}

#[test]
fn nothing_is_written_after_a_failed_sync_also_where_the_disk_is_full_b4() {
    // In a process of its own, because fail points are for all threads.
    if part().is_some() {
        return on_a_disk_of(72, async |disk| {
            let store = Embedded::open(disk.join("store"), small()).unwrap();
            let calls = calls_on_a_full_disk(&store, &disk).await;
            let commits = Arc::new(AtomicUsize::new(0));
            let counted = commits.clone();
            let count = move || {
                counted.fetch_add(1, Ordering::SeqCst);
            };
            fail::cfg_callback("embedded.before_commit", count).unwrap();
            fail::cfg("embedded.commit", "return").unwrap();
            let endings = settle_together(&store, &calls).await;
            assert!(endings.iter().all(Result::is_err), "{endings:?}");
            assert_eq!(commits.load(Ordering::SeqCst), 1);
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let this = "space::nothing_is_written_after_a_failed_sync_also_where_the_disk_is_full_b4";
    let output = play(this, folder.path(), "").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_store_can_be_opened_on_a_full_disk_b5() {
    on_a_disk_of(72, async |disk| {
        let (at, ballast) = (disk.join("store"), disk.join("store/hapax.ballast"));
        let store = Embedded::open(&at, Options::default()).unwrap();
        let epoch = granted(&store, &ask("kept")).await.epoch;
        settle(&store, "kept", epoch, ok("done")).await.unwrap();
        let late = granted(&store, &ask("late")).await.epoch;
        store.close().await.unwrap();
        drop(store);
        assert!(ballast.exists());
        leave(&disk, 0);

        let store = Embedded::open(&at, Options::default()).unwrap();
        assert_eq!(retried(&store, "kept").await, Ok(ok("done")));
        assert_eq!(store.claim(ask("new")).await.unwrap_err().kind(), Kind::Unavailable);
        // What was running when the process ended comes to its end now.
        settle(&store, "late", late, ok("late")).await.unwrap();
        assert_eq!(retried(&store, "late").await, Ok(ok("late")));
        std::fs::remove_file(disk.join(SOMEBODY)).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        granted(&store, &ask("new")).await;
        assert!(ballast.exists(), "it is taken again");
    });
}

#[test]
fn whoever_expects_larger_outcomes_has_room_for_them_from_then_on_and_for_those_before_b5() {
    on_a_disk_of(120, async |disk| {
        let store = Embedded::open(disk.join("store"), small()).unwrap();
        leave(&disk, 44 << 20);
        let before = granted(&store, &ask("before")).await;
        store.reckon_with(1 << 30);
        assert_eq!(store.claim(ask("new")).await.unwrap_err().kind(), Kind::Unavailable);
        // Less than before does not make room for anybody.
        store.reckon_with(1);
        assert_eq!(store.claim(ask("new")).await.unwrap_err().kind(), Kind::Unavailable);
        let ending = settle(&store, "before", before.epoch, long(1 << 20)).await;
        assert!(matches!(ending.unwrap(), Ending::Settled(_)));
        store.close().await.unwrap();
        drop(store);
        // With the next start it does.
        let store = Embedded::open(disk.join("store"), small()).unwrap();
        granted(&store, &ask("new")).await;
    });
}
