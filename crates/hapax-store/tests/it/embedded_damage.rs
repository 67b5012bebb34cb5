//! Damaged files: a typed error or a right answer, never a wrong one and never a panic (B8).

use std::path::Path;

use hapax_core::claim::Verb;
use hapax_core::{
    ClaimRequest, Decision, Fingerprint, Inspect as _, Kind, Ledger as _, Outcome, Report, Verdict,
};
use hapax_store::conformance::{DAY, granted, identity, ok};
use hapax_store::embedded::Embedded;
use hapax_store::{Lifecycle as _, Options};

use crate::embedded::{ask, fill, flip, outcome_of, retried, settle, snapshot};

fn open(folder: &Path) -> Result<Embedded, hapax_core::Error> {
    Embedded::open(folder, Options::default())
}

/// A closed store with this many settled keys.
async fn closed(keys: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    fill(&store, 0..keys).await;
    drop(store);
    folder
}

/// Turns a byte over wherever these bytes are in a file: also in copies that are no longer in use.
fn flip_all(file: &Path, bytes: &[u8], at: usize) {
    let content = std::fs::read(file).unwrap();
    let places = content.windows(bytes.len()).enumerate().filter(|(_, window)| *window == bytes);
    places.for_each(|(place, _)| flip(file, place + at));
}

#[tokio::test]
async fn what_is_not_a_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("hapax.db");
    std::fs::write(&database, b"these are my holiday notes, please keep them".repeat(200)).unwrap();
    assert_eq!(open(folder.path()).unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(Embedded::open_read_only(folder.path()).unwrap_err().kind(), Kind::Corrupt);
    std::fs::write(&database, b"SQLite format 3\0").unwrap();
    assert_eq!(open(folder.path()).unwrap_err().kind(), Kind::Corrupt);
    std::fs::remove_file(&database).unwrap();
    rusqlite::Connection::open(&database).unwrap().execute_batch("CREATE TABLE mine (a)").unwrap();
    let refused = open(folder.path()).unwrap_err();
    assert_eq!(
        (refused.kind(), refused.message()),
        (Kind::Corrupt, "this is a database, but not a hapax store")
    );
    let nothing = tempfile::tempdir().unwrap();
    assert_eq!(Embedded::open_read_only(nothing.path()).unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(std::fs::read_dir(nothing.path()).unwrap().count(), 0, "a reader makes nothing");
}

#[tokio::test]
async fn a_database_that_was_cut_off_is_refused() {
    let folder = closed(40).await;
    let database = folder.path().join("hapax.db");
    let whole = std::fs::read(&database).unwrap();
    for kept in [0, 50, 4096, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&database, &whole[..kept]).unwrap();
        assert_eq!(open(folder.path()).unwrap_err().kind(), Kind::Corrupt, "{kept} bytes kept");
    }
    std::fs::write(&database, &whole).unwrap();
    assert_eq!(retried(&open(folder.path()).unwrap(), "key-7").await, Ok(outcome_of("key-7")));
}

#[tokio::test]
async fn a_store_that_was_half_made_is_made_again() {
    let whole = std::fs::read(closed(0).await.path().join("hapax.db")).unwrap();
    for kept in [0, 1, 1536, 4096, whole.len() - 1, whole.len()] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("hapax.new"), &whole[..kept]).unwrap();
        std::fs::write(folder.path().join("hapax.new-journal"), b"half of a journal").unwrap();
        std::fs::write(folder.path().join("hapax.new-wal"), b"half of a log").unwrap();
        let store = open(folder.path()).unwrap();
        fill(&store, 0..3).await;
        assert_eq!(retried(&store, "key-2").await, Ok(outcome_of("key-2")), "{kept} bytes left");
        let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("new")), "{kept} bytes left");
    }
}

#[tokio::test]
async fn a_flipped_byte_in_an_outcome_fails_that_claim_alone() {
    let folder = closed(40).await;
    let database = folder.path().join("hapax.db");
    flip_all(&database, b"<the answer to key-7>", 5);
    let store = open(folder.path()).unwrap();
    let error = store.claim(ask("key-7")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert_eq!(store.peek(ask("key-7").identity.claim_id()).await.unwrap_err().kind(), Kind::Corrupt);
    for number in (0..40).filter(|number| *number != 7) {
        let key = format!("key-{number}");
        assert_eq!(retried(&store, &key).await, Ok(outcome_of(&key)));
    }
    fill(&store, 100..110).await;
    let found = store.verify().await.unwrap();
    assert_eq!(found.bad, 1, "{found:?}");
    assert!(found.first_bad[0].contains("outcome"), "{found:?}");
}

#[tokio::test]
async fn a_flipped_byte_in_a_claim_fails_that_claim_alone() {
    let folder = closed(40).await;
    let database = folder.path().join("hapax.db");
    // The readable identity is in the row: a key that was changed must not be believed.
    flip_all(&database, b"\0\x05key-7", 6);
    let store = open(folder.path()).unwrap();
    let id = ask("key-7").identity.claim_id();
    assert_eq!(store.record(id).await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(store.claim(ask("key-7")).await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(retried(&store, "key-8").await, Ok(outcome_of("key-8")));
    assert_eq!(store.verify().await.unwrap().bad, 1);
}

#[tokio::test]
async fn a_flipped_byte_anywhere_never_changes_an_answer() {
    let folder = closed(30).await;
    let database = folder.path().join("hapax.db");
    let whole = std::fs::read(&database).unwrap();
    let (mut refused, mut failed, mut sound) = (0, 0, 0);
    for at in (0..whole.len()).step_by(397) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x04;
        std::fs::write(&database, bytes).unwrap();
        let store = match open(folder.path()) {
            Ok(store) => store,
            Err(error) => {
                assert!(matches!(error.kind(), Kind::Corrupt | Kind::Unavailable), "byte {at}: {error:#}");
                refused += 1;
                continue;
            }
        };
        for number in 0..30 {
            let key = format!("key-{number}");
            match store.claim(ask(&key)).await {
                Ok(Verdict::Replay(kept)) => {
                    assert_eq!(kept.outcome, outcome_of(&key), "byte {at}");
                    sound += 1;
                }
                Ok(other) => panic!("byte {at}: {key} got {other:?}"),
                Err(error) => {
                    assert!(
                        matches!(error.kind(), Kind::Corrupt | Kind::Unavailable),
                        "byte {at}: {error:#}"
                    );
                    failed += 1;
                }
            }
        }
        drop(store);
        // The store has written meanwhile; the next round starts from the whole one.
        let _ = std::fs::remove_file(folder.path().join("hapax.mark"));
        let _ = std::fs::remove_file(folder.path().join("hapax.db-wal"));
    }
    assert!(failed > 0 && sound > 0, "refused {refused}, failed {failed}, sound {sound}");
}

/// A store with settled keys whose log has not been copied into the database, as a killed process leaves it.
async fn with_log(keys: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    fill(&store, 0..keys).await;
    snapshot(folder.path())
}

#[tokio::test]
async fn a_log_that_is_whole_is_replayed() {
    let copy = with_log(20).await;
    let store = open(copy.path()).unwrap();
    for number in 0..20 {
        let key = format!("key-{number}");
        assert_eq!(retried(&store, &key).await, Ok(outcome_of(&key)));
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_log_is_noticed_before_anything_is_dropped() {
    let length = std::fs::metadata(with_log(20).await.path().join("hapax.db-wal")).unwrap().len();
    let frame = 24 + 4096;
    let frames = (usize::try_from(length).unwrap() - 32) / frame;
    for (number, at) in
        [8, 32 + 4, 32 + 9, 32 + 24 + 77, 32 + frames / 2 * frame + 2000, 32 + (frames - 1) * frame + 60]
            .into_iter()
            .enumerate()
    {
        let copy = with_log(20).await;
        flip(&copy.path().join("hapax.db-wal"), at);
        let error = open(copy.path()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "flip {number}: {error:#}");
        // It is still refused the next time: the first look has changed nothing.
        assert_eq!(open(copy.path()).unwrap_err().kind(), Kind::Corrupt, "flip {number}");
    }
}

#[tokio::test]
async fn a_write_that_the_power_cut_tore_is_normal() {
    let copy = with_log(20).await;
    // Losing power loses what was not synced: the mark, and the end of a commit that nobody was told of.
    std::fs::remove_file(copy.path().join("hapax.mark")).unwrap();
    let log = copy.path().join("hapax.db-wal");
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 1000]).unwrap();
    let store = open(copy.path()).unwrap();
    assert_eq!(retried(&store, "key-0").await, Ok(outcome_of("key-0")));
    assert!(store.verify().await.unwrap().is_sound());
}

#[tokio::test]
async fn a_log_that_lost_its_end_is_noticed() {
    // The process was killed, the machine went on: then the mark is true.
    let copy = with_log(20).await;
    let log = copy.path().join("hapax.db-wal");
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() / 2]).unwrap();
    let error = open(copy.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.detail().unwrap().contains("hapax.mark"), "{error:#}");
}

#[tokio::test]
async fn what_was_erased_is_in_no_file_any_more() {
    // L8: bytes are destroyed, in small outcomes and in those of many pages.
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    fill(&store, 0..20).await;
    let secret = |number: usize| format!("secret-{number}-of-alice;");
    let mut keys = Vec::new();
    for number in 0..6 {
        let outcome = Outcome::Succeeded(secret(number).repeat(1 + number * 400).into());
        let key = format!("alice-{number}");
        keys.push((key.clone(), settle(&store, &key, outcome, DAY).await));
        fill(&store, 100 + number..101 + number).await;
    }
    for (number, (key, seen)) in keys.into_iter().enumerate() {
        let verb = if number % 2 == 0 { Verb::Erase } else { Verb::Purge };
        let decision = Decision { seen, verb, actor: "ann".into(), reason: "alice asked".into() };
        store.decide(ask(&key).identity.claim_id(), decision).await.unwrap();
    }
    fill(&store, 200..201).await;
    store.close().await.unwrap();
    for file in ["hapax.db", "hapax.db-wal"] {
        let bytes = std::fs::read(folder.path().join(file)).unwrap_or_default();
        let found = (0..6).filter(|number| {
            let secret = secret(*number);
            bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
        });
        assert_eq!(found.collect::<Vec<_>>(), Vec::<usize>::new(), "in {file}");
    }
}

#[tokio::test]
async fn damage_to_what_some_claims_share_leaves_the_others_alone() {
    let folder = closed(5).await;
    let of_other = |key: &str| ClaimRequest::new(identity("other.op", key), Fingerprint::of_bytes(b"body"));
    let store = open(folder.path()).unwrap();
    let grant = granted(&store, &of_other("one")).await;
    drop(store);
    // The counts of one shelf are changed by hand; they are read with the first claim that moves on it.
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    assert_eq!(database.execute("UPDATE shelves SET held = 9 WHERE operation = 'other.op'", []).unwrap(), 1);
    drop(database);
    let store = open(folder.path()).unwrap();
    let mut claims = tokio::task::JoinSet::new();
    for number in 0..100 {
        let store = store.clone();
        let request =
            if number % 2 == 0 { ask(&format!("new-{number}")) } else { of_other(&format!("new-{number}")) };
        claims.spawn(async move { (number, store.claim(request).await) });
    }
    for (number, answer) in claims.join_all().await {
        match answer {
            Ok(Verdict::Granted(_)) => assert_eq!(number % 2, 0),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert_eq!((number % 2, error.kind()), (1, Kind::Corrupt), "{error:#}"),
        }
    }
    let settle = Report::Settle(ok("late"), DAY);
    let settled = store.report(of_other("one").identity.claim_id(), grant.epoch, settle, Vec::new()).await;
    assert_eq!(settled.unwrap_err().kind(), Kind::Corrupt);
    let peeked = store.peek(of_other("one").identity.claim_id()).await.unwrap();
    assert!(peeked.is_some(), "the claim itself is whole");
    assert!(!store.verify().await.unwrap().is_sound());
}
