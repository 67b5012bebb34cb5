//! Full disks and failed writes (B4, B5).

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_core::{Counts, Ending, Epoch, Filter, Inspect as _, Kind, Ledger as _, Report, Verdict};
use hapax_sqlite::{Embedded, Quota};
use hapax_store::conformance::{DAY, granted};
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;

use crate::shared::{ask, fill, frozen, merge_soon, outcome_of, part, play, retried, runtime};

/// Claims until the store refuses, and returns what was granted.
async fn claim_until_refused(store: &Embedded) -> Vec<(String, Epoch)> {
    let mut granted = Vec::new();
    loop {
        let key = format!("claimed-{}", granted.len());
        match store.claim(ask(&key)).await {
            Ok(Verdict::Granted(grant)) => granted.push((key, grant.epoch)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Unavailable, "{error:#}");
                return granted;
            }
        }
    }
}

#[tokio::test]
async fn a_full_store_refuses_claims_and_still_keeps_the_outcomes_of_those_it_granted() {
    // B5.
    let folder = tempfile::tempdir().unwrap();
    merge_soon();
    let clock = VirtualClock::new();
    let quota = Quota { bytes: Some(1024 * 1024) };
    let store = Embedded::open_within(folder.path(), frozen(&clock), quota).unwrap();
    let claims = claim_until_refused(&store).await;
    assert!(claims.len() > 500, "{}", claims.len());
    for (key, epoch) in claims.iter().rev().take(100) {
        let report = Report::Settle(outcome_of(key), DAY);
        let ending = store.report(ask(key).identity.claim_id(), *epoch, report, Vec::new()).await.unwrap();
        assert!(matches!(ending, Ending::Settled(_)), "{ending:?}");
        assert_eq!(retried(&store, key).await, Ok(outcome_of(key)));
    }
    assert_eq!(store.claim(ask("another")).await.unwrap_err().kind(), Kind::Unavailable);
    let database = std::fs::metadata(folder.path().join("hapax.db")).unwrap().len();
    assert!(database <= 1024 * 1024, "{database}");

    // Room comes back with what is forgotten.
    clock.advance(Duration::from_secs(86_400));
    while store.sweep(500).await.unwrap().more {}
    let doubt = store.count(&Filter::default()).await.unwrap();
    assert_eq!(doubt, Counts { in_doubt: claims.len() as u64 - 100, ..Counts::default() });
    granted(&store, &ask("another")).await;
    assert!(store.verify().await.unwrap().is_sound());
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_merge_loses_nothing_b5() {
    // In a process of its own, because fail points are for all threads.
    if let Some(folder) = part() {
        return runtime().block_on(fill_in_the_middle_of_a_merge(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let this = "trouble::a_disk_that_is_full_in_the_middle_of_a_merge_loses_nothing_b5";
    let output = play(this, folder.path(), "").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn fill_in_the_middle_of_a_merge(folder: &Path) {
    merge_soon();
    let options = || Options { table_entries: 0, ..Options::default() };
    let mut store = Embedded::open(folder, options()).unwrap();
    fill(&store, 0..20).await;
    let held = granted(&store, &ask("held")).await;
    fail::cfg("embedded.entering", "1*return").unwrap();
    assert_eq!(store.claim(ask("new")).await.unwrap_err().kind(), Kind::Unavailable);
    let settle = Report::Settle(outcome_of("held"), DAY);
    let ending = store.report(ask("held").identity.claim_id(), held.epoch, settle, Vec::new()).await;
    assert!(matches!(ending.unwrap(), Ending::Settled(_)));
    // There is room again, as far as anybody can see.
    tokio::time::sleep(Duration::from_millis(300)).await;
    granted(&store, &ask("new")).await;
    for reopened in [false, true] {
        if reopened {
            drop(store);
            store = Embedded::open(folder, options()).unwrap();
        }
        assert!(!matches!(store.claim(ask("new")).await.unwrap(), Verdict::Granted(_)));
        for key in (0..20).map(|number| format!("key-{number}")).chain(["held".into()]) {
            assert_eq!(retried(&store, &key).await, Ok(outcome_of(&key)));
        }
        assert!(store.verify().await.unwrap().is_sound());
    }
}

#[test]
fn a_failed_write_stops_the_store() {
    // B4, with a real error of the operating system: the process may not write beyond a size, and the log
    // reaches it.
    if let Some(folder) = part() {
        merge_soon();
        runtime().block_on(async {
            let store = Embedded::open(&folder, Options::default()).unwrap();
            let mut settled = 0;
            let first = loop {
                let key = format!("key-{settled}");
                let grant = match store.claim(ask(&key)).await {
                    Ok(Verdict::Granted(grant)) => grant,
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => break error,
                };
                let report = Report::Settle(outcome_of(&key), DAY);
                match store.report(ask(&key).identity.claim_id(), grant.epoch, report, Vec::new()).await {
                    Ok(_) => settled += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(first.kind(), Kind::Unavailable);
            assert!(first.message().contains("stopped after a failed write"), "{first:#}");
            // Not even what was kept is answered now, and no lease may be counted on.
            for key in ["key-0", "new"] {
                let error = store.claim(ask(key)).await.unwrap_err();
                assert!(error.message().contains("stopped after a failed write"), "{error:#}");
                let id = ask(key).identity.claim_id();
                assert_eq!(store.peek(id).await.unwrap_err().kind(), Kind::Unavailable);
            }
            assert_eq!(store.session().left, Duration::ZERO);
            assert_eq!(store.renew_session().await.unwrap_err().kind(), Kind::Unavailable);
            println!("settled {settled}");
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let this = "trouble::a_failed_write_stops_the_store";
    // 1,024 blocks of 512 bytes or of a KiB, depending on the shell; without the trap the signal would end
    // the process. The ballast is larger than that, so it is not there: the file cannot be made.
    let output = play(this, folder.path(), "trap '' XFSZ; ulimit -f 1024;").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    let settled: usize =
        told.split("settled ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!(settled > 0);
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    runtime().block_on(async {
        for number in 0..settled {
            let key = format!("key-{number}");
            assert_eq!(retried(&store, &key).await, Ok(outcome_of(&key)));
        }
        assert!(store.verify().await.unwrap().is_sound());
    });
}

#[test]
fn a_failed_sync_stops_the_store_and_nothing_of_it_is_acknowledged() {
    // B4: the commit itself says that the sync failed. In a process of its own, because fail points are for
    // all threads.
    if let Some(folder) = part() {
        merge_soon();
        runtime().block_on(async {
            let store = Embedded::open(&folder, Options::default()).unwrap();
            fill(&store, 0..20).await;
            fail::cfg("embedded.commit", "return").unwrap();
            let error = store.claim(ask("lost")).await.unwrap_err();
            assert!(error.message().contains("stopped after a failed write"), "{error:#}");
            fail::remove("embedded.commit");
            assert_eq!(store.claim(ask("lost")).await.unwrap_err().kind(), Kind::Unavailable);
            store.close().await.unwrap_err();
            let store = Embedded::open(&folder, Options::default()).unwrap();
            granted(&store, &ask("lost")).await;
            for number in 0..20 {
                let key = format!("key-{number}");
                assert_eq!(retried(&store, &key).await, Ok(outcome_of(&key)));
            }
            assert!(store.verify().await.unwrap().is_sound());
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let this = "trouble::a_failed_sync_stops_the_store_and_nothing_of_it_is_acknowledged";
    let output = play(this, folder.path(), "").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_process_that_dies_before_its_commit_leaves_nothing_and_after_it_everything() {
    // L13: the caller cannot tell the two apart, and finds out by sending the same command again.
    if let Some(folder) = part() {
        let point = std::env::var("HAPAX_TEST_POINT").unwrap();
        merge_soon();
        runtime().block_on(async {
            let store = Embedded::open(&folder, Options::default()).unwrap();
            fill(&store, 0..20).await;
            fail::cfg_callback(&point, || std::process::abort()).unwrap();
            let _ = store.claim(ask("unknown")).await;
        });
        unreachable!("the process has ended");
    }
    let this = "trouble::a_process_that_dies_before_its_commit_leaves_nothing_and_after_it_everything";
    for (point, held) in
        [("embedded.entering", 0), ("embedded.before_commit", 0), ("embedded.after_commit", 1)]
    {
        let folder = tempfile::tempdir().unwrap();
        let output = play(this, folder.path(), "").env("HAPAX_TEST_POINT", point).output().unwrap();
        assert!(!output.status.success());
        let store = Embedded::open(folder.path(), Options::default()).unwrap();
        runtime().block_on(async {
            let counted = store.count(&Filter::default()).await.unwrap();
            assert_eq!(counted, Counts { settled: 20, held, ..Counts::default() }, "{point}");
            assert!(store.verify().await.unwrap().is_sound(), "{point}");
            assert_eq!(store.peek(ask("unknown").identity.claim_id()).await.unwrap().is_some(), held == 1);
        });
    }
}

#[test]
fn a_replay_asks_nobody_but_the_table() {
    // B7: what was settled here is answered without the writer, and so without the disk.
    if let Some(folder) = part() {
        runtime().block_on(async {
            let quiet = Options { heartbeat: false, sweeper: false, poll: false, ..Options::default() };
            let store = Embedded::open(&folder, quiet).unwrap();
            fill(&store, 0..3).await;
            let batches = Arc::new(AtomicUsize::new(0));
            let counted = batches.clone();
            let count = move || {
                counted.fetch_add(1, Ordering::SeqCst);
            };
            fail::cfg_callback("embedded.before_commit", count).unwrap();
            assert_eq!(retried(&store, "key-1").await, Ok(outcome_of("key-1")));
            assert_eq!(batches.load(Ordering::SeqCst), 0);
            granted(&store, &ask("other")).await;
            assert_eq!(batches.load(Ordering::SeqCst), 1, "everything else does ask");
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = play("trouble::a_replay_asks_nobody_but_the_table", folder.path(), "").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_erased_while_somebody_reads_it_is_not_remembered() {
    // B7, L8: the reader has the bytes in hand when they are destroyed.
    if let Some(folder) = part() {
        runtime().block_on(async {
            // Without a table the first time, so that the second one has nothing in it.
            let store = Embedded::open(&folder, Options::default()).unwrap();
            fill(&store, 0..1).await;
            store.close().await.unwrap();
            let store = Embedded::open(&folder, Options::default()).unwrap();
            let id = ask("key-0").identity.claim_id();
            let seen = store.record(id).await.unwrap().unwrap().claim.epoch;
            let (has_read, reading) = std::sync::mpsc::channel();
            let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
            let (has_read, may_go_on) = (Mutex::new(has_read), Mutex::new(may_go_on));
            let wait = move || {
                has_read.lock().unwrap().send(()).unwrap();
                may_go_on.lock().unwrap().recv().unwrap();
            };
            fail::cfg_callback("embedded.has_read", wait).unwrap();
            let reader = tokio::spawn({
                let store = store.clone();
                async move { store.peek(id).await }
            });
            tokio::task::spawn_blocking(move || reading.recv()).await.unwrap().unwrap();
            fail::remove("embedded.has_read");
            let verb = hapax_core::Verb::Erase;
            let decision = hapax_core::Decision { seen, verb, actor: "ann".into(), reason: "asked".into() };
            store.decide(id, decision).await.unwrap();
            go_on.send(()).unwrap();
            reader.await.unwrap().unwrap();
            assert_eq!(retried(&store, "key-0").await, Ok(hapax_core::Outcome::Erased));
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let this = "trouble::what_is_erased_while_somebody_reads_it_is_not_remembered";
    let output = play(this, folder.path(), "").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_new_store_without_room_says_where_how_much_there_is_and_how_much_it_needs_b5() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap().to_owned();
    let mounted =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs", &at]).status();
    assert!(mounted.is_ok_and(|status| status.success()), "a file system of 64 KiB can be mounted");
    let opened = Embedded::open(folder.path().join("store"), Options::default()).map(drop);
    let unmounted = std::process::Command::new("umount").arg(&at).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    for part in [format!("no room for the store in {at}/store"), "KiB is free".into(), "48 MiB".into()] {
        assert!(error.message().contains(&part), "{error:#}");
    }
}

/// Opens a store in a folder of its own, settles one key and holds another.
async fn opened_and_used() -> (tempfile::TempDir, Embedded, Epoch) {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    fill(&store, 0..1).await;
    let held = granted(&store, &ask("held")).await.epoch;
    (folder, store, held)
}

#[tokio::test]
async fn a_store_whose_files_are_removed_or_replaced_grants_and_keeps_nothing_any_more_b8_l3() {
    for name in ["hapax.lock", "hapax.db", "hapax.db-wal"] {
        for replaced in [false, true] {
            let (folder, store, held) = opened_and_used().await;
            let file = folder.path().join(name);
            let content = std::fs::read(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            if replaced {
                std::fs::write(folder.path().join("beside"), b"so that its number is not used again")
                    .unwrap();
                std::fs::write(&file, content).unwrap();
            }
            let error = store.claim(ask("new")).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Unavailable, "{name}: {error:#}");
            assert!(error.message().contains("removed or replaced"), "{name}: {error:#}");
            let report = Report::Settle(outcome_of("held"), DAY);
            let kept = store.report(ask("held").identity.claim_id(), held, report, Vec::new()).await;
            assert_eq!(kept.unwrap_err().kind(), Kind::Unavailable, "{name}");
            assert!(store.session().left.is_zero(), "{name}: nobody may begin on a lease of it");
        }
    }
}

#[tokio::test]
async fn who_opens_a_store_without_its_lock_is_alone_from_its_first_grant_on_b8() {
    let (folder, store, held) = opened_and_used().await;
    std::fs::remove_file(folder.path().join("hapax.lock")).unwrap();
    let second = Embedded::open(folder.path(), Options::default()).unwrap();
    granted(&second, &ask("new")).await;
    assert_eq!(store.claim(ask("newer")).await.unwrap_err().kind(), Kind::Unavailable);
    let report = Report::Settle(outcome_of("held"), DAY);
    let late = store.report(ask("held").identity.claim_id(), held, report, Vec::new()).await;
    assert_eq!(late.unwrap_err().kind(), Kind::Unavailable);
    let _ = store.close().await;
    drop(store);
    // What the first one leaves behind takes nothing from the second.
    granted(&second, &ask("newest")).await;
    assert_eq!(retried(&second, "key-0").await, Ok(outcome_of("key-0")));
    second.close().await.unwrap();
    let third = Embedded::open(folder.path(), Options::default()).unwrap();
    assert!(matches!(third.claim(ask("newest")).await.unwrap(), Verdict::InDoubt { .. }));
    assert!(third.verify().await.unwrap().is_sound());
}

#[tokio::test]
async fn an_idle_store_notices_that_its_folder_is_gone_b8() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { term: Duration::from_millis(300), ..Options::default() };
    let store = Embedded::open(folder.path().join("data"), options).unwrap();
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();
    let noticed = async {
        while !store.session().left.is_zero() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), noticed).await.expect("its session ends");
}
