//! Copies of a store that is open, and stores that are restored from them (B8, L4).

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hapax_core::{Epoch, Filter, Inspect as _, Kind};
use hapax_sqlite::{Embedded, Restored, Restoring, StoreCopy};
use hapax_store::Options;
use hapax_store::conformance::granted;
use rusqlite::Connection;

use crate::shared::{ask, fill, outcome_of, part, play, retried, runtime};

fn copied(store: &Path, to: &Path) {
    std::fs::write(to, b"").unwrap();
    StoreCopy::begin(store, to).unwrap().run(|_| {}).unwrap();
}

fn restored(copy: &Path, to: &Path) -> Result<Restored, hapax_core::Error> {
    let restoring = Restoring::begin(to, &[])?;
    restoring.file()?.write_all(&std::fs::read(copy).unwrap()).unwrap();
    restoring.finish()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_beside_the_writer_has_all_that_was_answered_before_and_is_of_one_moment_b8() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy, place) =
        (folder.path().join("data"), folder.path().join("copy"), folder.path().join("place"));
    let store = Embedded::open(&data, Options::default()).unwrap();
    fill(&store, 0..500).await;
    let (end, later) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(500)));
    let writing = tokio::spawn({
        let (store, end, later) = (store.clone(), end.clone(), later.clone());
        async move {
            while !end.load(Ordering::SeqCst) {
                let next = later.load(Ordering::SeqCst);
                fill(&store, next..next + 20).await;
                later.store(next + 20, Ordering::SeqCst);
            }
        }
    });
    let before = later.load(Ordering::SeqCst);
    copied(&data, &copy);
    end.store(true, Ordering::SeqCst);
    writing.await.unwrap();
    let after = later.load(Ordering::SeqCst);
    let done = restored(&copy, &place).unwrap();
    assert_eq!((done.former, done.incarnation), (1, 2));
    let found = Embedded::open(&place, Options::default()).unwrap();
    for number in 0..before {
        let key = format!("key-{number}");
        assert_eq!(retried(&found, &key).await, Ok(outcome_of(&key)));
    }
    let counted = found.count(&Filter::default()).await.unwrap().settled as usize;
    assert!((before..=after).contains(&counted), "{before} {counted} {after}");
    assert!(found.verify().await.unwrap().is_sound());
}

#[tokio::test]
async fn two_stores_of_one_copy_share_no_epoch_with_each_other_or_with_the_first_l4() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let store = Embedded::open(at("data"), Options::default()).unwrap();
    fill(&store, 0..10).await;
    copied(&at("data"), &at("copy"));
    let mut last = granted(&store, &ask("after the copy")).await.epoch;
    for place in ["first", "second"] {
        restored(&at("copy"), &at(place)).unwrap();
        let store = Embedded::open(at(place), Options::default()).unwrap();
        let epochs: Vec<Epoch> =
            [granted(&store, &ask("one")).await.epoch, granted(&store, &ask("two")).await.epoch].into();
        assert!(last < epochs[0] && epochs[0] < epochs[1], "{place}: {epochs:?} after {last:?}");
        last = epochs[1];
    }
}

#[tokio::test]
async fn a_restore_goes_only_where_nothing_is_b8() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let store = Embedded::open(at("data"), Options::default()).unwrap();
    fill(&store, 0..10).await;
    copied(&at("data"), &at("copy"));
    for (place, file) in [("a log without its store", "hapax.db-wal"), ("something else", "notes.txt")] {
        std::fs::create_dir(at(place)).unwrap();
        std::fs::write(at(place).join(file), b"x").unwrap();
        let refused = restored(&at("copy"), &at(place)).unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict, "{refused:#}");
        assert!(refused.message().contains(file), "{refused:#}");
        assert_eq!(std::fs::read_dir(at(place)).unwrap().count(), 1, "nothing is left there");
    }
    let refused = restored(&at("copy"), &at("data")).unwrap_err();
    assert!(refused.message().contains("there is a store in"), "{refused:#}");
    fill(&store, 10..20).await;
    assert!(store.verify().await.unwrap().is_sound());
    let _first = Restoring::begin(at("place"), &[]).unwrap();
    assert_eq!(Restoring::begin(at("place"), &[]).unwrap_err().kind(), Kind::Unavailable, "one at a time");
    assert!(Embedded::open(at("place"), Options::default()).is_err(), "no server makes a store meanwhile");
}

/// Damage done to a file.
type Spoil<'a> = &'a dyn Fn(&Path);

#[tokio::test]
async fn what_is_no_whole_store_of_this_version_is_neither_copied_nor_restored_b8() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let store = Embedded::open(at("data"), Options::default()).unwrap();
    fill(&store, 0..200).await;
    copied(&at("data"), &at("copy"));
    drop(store);
    let whole = std::fs::read(at("copy")).unwrap();
    let newer = |path: &Path| {
        Connection::open(path).unwrap().execute("UPDATE store SET oldest_compatible = 99", []).unwrap();
    };
    let cut = |path: &Path| std::fs::write(path, &whole[..whole.len() / 2]).unwrap();
    let other = |path: &Path| {
        Connection::open(path)
            .unwrap()
            .execute("UPDATE claims SET epoch = epoch + 1 WHERE id = (SELECT max(id) FROM claims)", [])
            .unwrap();
    };
    let none = |path: &Path| std::fs::write(path, b"x").unwrap();
    let ways: [(&str, Spoil<'_>); 4] =
        [("newer hapax", &newer), ("malformed", &cut), ("records are not", &other), ("first page", &none)];
    for (number, (told, spoil)) in ways.into_iter().enumerate() {
        let (copy, place) = (at(&format!("copy-{number}")), at(&format!("place-{number}")));
        std::fs::write(&copy, &whole).unwrap();
        spoil(&copy);
        let refused = restored(&copy, &place).unwrap_err();
        assert!(format!("{refused:#}").contains(told), "{told}: {refused:#}");
        assert!(!place.join("hapax.db").exists(), "{told}");
        restored(&at("copy"), &place).unwrap();
    }
    // A database that is behind its mark has lost commits.
    let mark = std::fs::read(at("data").join("hapax.mark")).unwrap();
    std::fs::copy(at("copy"), at("data").join("hapax.db")).unwrap();
    let mut ahead = (u64::from_le_bytes(mark[..8].try_into().unwrap()) + 1_000).to_le_bytes().to_vec();
    ahead.extend(crc32fast::hash(&ahead).to_le_bytes());
    std::fs::write(at("data").join("hapax.mark"), ahead).unwrap();
    std::fs::write(at("late"), b"").unwrap();
    let refused = StoreCopy::begin(at("data"), &at("late")).unwrap_err();
    assert!(format!("{refused:#}").contains("was committed"), "{refused:#}");
    newer(&at("data").join("hapax.db"));
    let refused = StoreCopy::begin(at("data"), &at("late")).unwrap_err();
    assert!(refused.message().contains("newer hapax"), "{refused:#}");
}

#[test]
fn a_restore_that_dies_at_any_step_leaves_no_store_and_can_be_begun_again_b8() {
    if let Some(folder) = part() {
        let point = std::env::var("HAPAX_TEST_POINT").unwrap();
        fail::cfg_callback(&point, || std::process::abort()).unwrap();
        std::fs::write(folder.join("again"), b"").unwrap();
        StoreCopy::begin(folder.join("data"), &folder.join("again")).unwrap().run(|_| {}).unwrap();
        restored(&folder.join("copy"), &folder.join("place")).unwrap();
        unreachable!("the process has ended");
    }
    let this = "backup::a_restore_that_dies_at_any_step_leaves_no_store_and_can_be_begun_again_b8";
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let runtime = runtime();
    let store = runtime.block_on(async {
        let store = Embedded::open(at("data"), Options::default()).unwrap();
        fill(&store, 0..50).await;
        store
    });
    copied(&at("data"), &at("copy"));
    for point in ["embedded.copying", "embedded.restoring", "embedded.restored"] {
        let output = play(this, folder.path(), "").env("HAPAX_TEST_POINT", point).output().unwrap();
        assert!(!output.status.success(), "{point}");
        assert!(!at("place").join("hapax.db").exists(), "{point}");
        if point == "embedded.copying" {
            continue;
        }
        // Nor is an empty store made in its place, which would run everything again.
        let there = Options { create: false, ..Options::default() };
        let openers = [
            Embedded::open(at("place"), Options::default()).map(drop),
            Embedded::open(at("place"), there).map(drop),
            Embedded::open_read_only(at("place")).map(drop),
            Embedded::renew_incarnation(at("place")).map(drop),
        ];
        for refused in openers.map(Result::unwrap_err) {
            assert!(refused.message().contains("a restore to"), "{point}: {refused:#}");
        }
        assert!(!at("place").join("hapax.db").exists(), "{point}");
    }
    assert!(at("place").join("hapax.restoring").exists(), "it was on its way");
    assert_eq!(restored(&at("copy"), &at("place")).unwrap().incarnation, 2);
    runtime.block_on(async {
        fill(&store, 50..60).await;
        let store = Embedded::open(at("place"), Options::default()).unwrap();
        assert_eq!(retried(&store, "key-7").await, Ok(outcome_of("key-7")));
        assert!(store.verify().await.unwrap().is_sound());
    });
}
