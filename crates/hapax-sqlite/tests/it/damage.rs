//! Damaged files: a typed error or a right answer, never a wrong one and never a panic (B8).

use std::path::Path;

use hapax_core::claim::Verb;
use hapax_core::journal::{Append, Author, NewEvent, Stream};
use hapax_core::{
    ClaimRequest, Decision, Ending, Filter, Fingerprint, Inspect as _, Journal as _, Kind, LeafKey, Leaves,
    Ledger as _, Operated, Outcome, Report, StateName, Verdict, View,
};
use hapax_sqlite::Embedded;
use hapax_store::conformance::{DAY, granted, identity, ok};
use hapax_store::{Lifecycle as _, Options};

use crate::shared::{ask, fill, flip, merge_soon, outcome_of, retried, settle, snapshot};

fn open(folder: &Path) -> Result<Embedded, hapax_core::Error> {
    Embedded::open(folder, Options::default())
}

/// A closed store with this many settled keys, most of them in the index.
async fn closed(keys: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    merge_soon();
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
async fn a_table_that_lacks_what_every_hapax_asks_for_is_damaged_b8() {
    for column in [&b"    latest_at INTEGER"[..], b"    bytes BLOB"] {
        let folder = closed(3).await;
        flip_all(&folder.path().join("hapax.db"), column, 6);
        let error = match open(folder.path()) {
            Ok(store) => store.claim(ask("key-1")).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind(), Kind::Corrupt, "{error:#}");
    }
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

#[tokio::test]
async fn no_damaged_entry_of_the_index_makes_a_claim_seem_absent_b8() {
    // Each place on the page where an entry is said to begin, and the beginning of each entry: a claim that is
    // not found would be granted again.
    let folder = closed(40).await;
    let database = folder.path().join("hapax.db");
    let whole = std::fs::read(&database).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'finder'";
    let root: u32 =
        rusqlite::Connection::open(&database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
    let page = (root as usize - 1) * 4096;
    let number = |at: usize| usize::from(u16::from_be_bytes([whole[page + at], whole[page + at + 1]]));
    let places: Vec<usize> = (0..number(3)).map(|nth| 8 + 2 * nth).collect();
    assert!(places.len() > 20, "{}", places.len());
    let entries = places.iter().flat_map(|at| (0..3).map(|byte| number(*at) + byte));
    let flips = entries.flat_map(|at| [(at, 0x01), (at, 0x04)]);
    let flips = places.iter().flat_map(|at| [(*at, 0x04), (*at + 1, 0x80)]).chain(flips);
    let mut failed = 0;
    for (at, bit) in flips {
        let mut bytes = whole.clone();
        bytes[page + at] ^= bit;
        std::fs::write(&database, bytes).unwrap();
        let store = open(folder.path()).unwrap();
        for number in 0..40 {
            match store.claim(ask(&format!("key-{number}"))).await {
                Ok(Verdict::Replay(_)) => {}
                Ok(other) => panic!("byte {at}, bit {bit}: key-{number} got {other:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Corrupt, "byte {at}: {error:#}");
                    failed += 1;
                }
            }
        }
        drop(store);
        let _ = std::fs::remove_file(folder.path().join("hapax.mark"));
        let _ = std::fs::remove_file(folder.path().join("hapax.db-wal"));
    }
    assert!(failed > 100, "{failed}");
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
async fn a_log_that_was_damaged_before_its_last_commit_is_noticed_without_the_mark() {
    // After a power cut the mark may be behind, and the log has to speak for itself: a torn write is the last one.
    let copy = with_log(20).await;
    let bytes = std::fs::read(copy.path().join("hapax.db-wal")).unwrap();
    let frames: Vec<usize> = (32..bytes.len()).step_by(24 + 4096).collect();
    let commits: Vec<usize> = frames.into_iter().filter(|at| bytes[at + 4..at + 8] != [0; 4]).collect();
    for (back, sound) in [(1, true), (2, false), (3, false)] {
        let copy = with_log(20).await;
        std::fs::remove_file(copy.path().join("hapax.mark")).unwrap();
        let log = copy.path().join("hapax.db-wal");
        std::fs::write(&log, &bytes).unwrap();
        flip(&log, commits[commits.len() - back] + 24 + 1_000);
        match open(copy.path()) {
            Ok(_) => assert!(sound, "{back} from the end"),
            Err(error) => assert_eq!((error.kind(), sound), (Kind::Corrupt, false), "{back} from the end"),
        }
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
        let seen = settle(&store, &key, outcome.clone(), DAY).await;
        let reopen = Decision { seen, verb: Verb::Reopen, actor: "ann".into(), reason: "resend".into() };
        if number > 2 {
            // The same in the audit.
            store.decide(ask(&key).identity.claim_id(), reopen).await.unwrap();
        }
        let seen = if number > 2 { settle(&store, &key, outcome, DAY).await } else { seen };
        keys.push((key, seen));
        fill(&store, 100 + number..101 + number).await;
    }
    for (number, (key, seen)) in keys.into_iter().enumerate() {
        let verb = if number % 2 == 0 { Verb::Erase } else { Verb::Purge };
        let decision = Decision { seen, verb, actor: "ann".into(), reason: "alice asked".into() };
        store.decide(ask(&key).identity.claim_id(), decision).await.unwrap();
    }
    fill(&store, 200..201).await;
    let found_in = |file: &str| {
        let bytes = std::fs::read(folder.path().join(file)).unwrap_or_default();
        let found = (0..6).filter(|number| {
            let secret = secret(*number);
            bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
        });
        found.collect::<Vec<_>>()
    };
    // Before it is closed, too: a server runs for months.
    for _ in 0..200 {
        if found_in("hapax.db-wal").is_empty() {
            break;
        }
        fill(&store, 200..201).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(found_in("hapax.db-wal"), Vec::<usize>::new(), "while the store is open");
    store.close().await.unwrap();
    for file in ["hapax.db", "hapax.db-wal"] {
        assert_eq!(found_in(file), Vec::<usize>::new(), "in {file}");
    }
}

#[tokio::test]
async fn a_damaged_entry_of_the_audit_holds_no_erase_up_and_stays_damaged() {
    // B8, B9
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let id = ask("alice").identity.claim_id();
    let seen = settle(&store, "alice", ok("the secret of alice"), DAY).await;
    let decision = |seen, verb| Decision {
        seen,
        verb,
        actor: "ann".into(),
        reason: "a reason that will be damaged".into(),
    };
    let done = store.decide(id, decision(seen, Verb::Reopen)).await.unwrap();
    let Operated::Done(Some(seen)) = done else { panic!("{done:?}") };
    store.close().await.unwrap();
    let database = folder.path().join("hapax.db");
    flip_all(&database, b"a reason that will be damaged", 3);
    let store = open(folder.path()).unwrap();
    assert_eq!(store.audit(None, 10).await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(store.decide(id, decision(seen, Verb::Erase)).await.unwrap(), Operated::Done(Some(seen)));
    assert_eq!(store.audit(None, 10).await.unwrap_err().kind(), Kind::Corrupt, "nobody vouches for it now");
    store.close().await.unwrap();
    let bytes = std::fs::read(&database).unwrap();
    assert!(!bytes.windows(19).any(|window| window == b"the secret of alice"));
}

#[tokio::test]
async fn a_flipped_byte_in_leaves_is_noticed_and_leaves_go_with_their_claim() {
    // B8, L8
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let body = br#"{"amount": 10, "to": "bob"}"#;
    let leaves = Leaves::of_json(body, &LeafKey::new([7; 32]), &[]).unwrap();
    let explained = |key: &str| ClaimRequest { leaves: Some(leaves.clone().into()), ..ask(key) };
    let mut epochs = Vec::new();
    for key in ["one", "two"] {
        let grant = granted(&store, &explained(key)).await;
        let id = ask(key).identity.claim_id();
        store.report(id, grant.epoch, Report::Settle(ok("done"), DAY), Vec::new()).await.unwrap();
        epochs.push(grant.epoch);
    }
    let purge = Decision { seen: epochs[1], verb: Verb::Purge, actor: "ann".into(), reason: "asked".into() };
    store.decide(ask("two").identity.claim_id(), purge).await.unwrap();
    store.close().await.unwrap();
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    let kept: i64 = database.query_row("SELECT count(*) FROM leaves", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 1, "those of the purged claim are gone");
    let bytes: Vec<u8> = database.query_row("SELECT bytes FROM leaves", [], |row| row.get(0)).unwrap();
    drop(database);
    // The last byte belongs to a hash: whatever it is, it could be one.
    flip_all(&folder.path().join("hapax.db"), &bytes, bytes.len() - 1);
    let store = open(folder.path()).unwrap();
    assert_eq!(store.claim(explained("one")).await.unwrap_err().kind(), Kind::Corrupt);
    granted(&store, &explained("two")).await;
}

#[tokio::test]
async fn a_report_whose_events_cannot_be_written_changes_nothing() {
    // L18, B8: the claim was written already when the damage showed.
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let grant = granted(&store, &ask("both")).await;
    // An event that no head knows of is in the way. Nobody but the writer may write, so this one is quick.
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    database.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    let rogue = "INSERT INTO events (id, kind, at, hash, payload, crc) VALUES (1 << 32, 'X', 0, '', '', 0)";
    database.execute(&rogue.replace("''", "x''"), []).unwrap();
    drop(database);
    let write = Append::new(Stream::new("receipts/acme").unwrap(), Author::Anyone { version: None })
        .with(vec![NewEvent::new("PAID", "{}")]);
    let (id, settle) = (ask("both").identity.claim_id(), Report::Settle(ok("done"), DAY));
    let error = store.report(id, grant.epoch, settle.clone(), vec![write]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(matches!(store.peek(id).await.unwrap(), Some(View::Held { .. })));
    assert_eq!(store.head(&Stream::new("receipts/acme").unwrap()).await.unwrap(), None);
    let alone = store.report(id, grant.epoch, settle, Vec::new()).await.unwrap();
    assert!(matches!(alone, Ending::Settled(_)), "{alone:?}");
}

#[tokio::test]
async fn a_claim_that_cannot_be_read_is_named_and_keeps_no_listing_from_the_others_l17() {
    let folder = closed(6).await;
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    // Two have other values than their checksums say, and one lacks its outcome.
    let spoil = |what: &str, place: usize| {
        let row = format!("(SELECT id FROM claims ORDER BY id LIMIT 1 OFFSET {place})");
        assert_eq!(database.execute(&what.replace("ROW", &row), []).unwrap(), 1, "{what}");
    };
    spoil("UPDATE claims SET quiet = quiet + 1 WHERE id = ROW", 1);
    spoil("UPDATE claims SET identity = x'' WHERE id = ROW", 2);
    spoil("DELETE FROM outcomes WHERE id = (SELECT outcome FROM claims WHERE id = ROW)", 4);
    drop(database);
    let store = Embedded::open_read_only(folder.path()).unwrap();
    for state in [None, Some(StateName::Settled)] {
        for limit in [1, 100] {
            let filter = Filter { state, ..Filter::default() };
            let (mut found, mut named, mut after) = (0, Vec::new(), None);
            loop {
                let page = store.list(&filter, after.as_deref(), limit).await.unwrap();
                found += page.items.len();
                named.extend(page.damaged);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!((found, named.len()), (3, 3), "{named:?}");
            assert!(named.iter().all(|record| record.id.starts_with("op_")), "{named:?}");
        }
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
            Ok(Verdict::Granted(grant)) => {
                assert_eq!(number % 2, 0);
                // L3: whatever was rolled back on the way, what is granted is in the database.
                let id = ask(&format!("new-{number}")).identity.claim_id();
                let record = store.record(id).await.unwrap().expect("a granted claim is there");
                assert_eq!(record.claim.epoch, grant.epoch);
            }
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
