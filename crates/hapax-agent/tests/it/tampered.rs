//! What tampering shows, and where: every bit of a small log, and random places of a large one (J3, J4).
//!
//! The embedded store's files are changed with SQLite itself, below everything that hapax would check on the way in.

use hapax_agent::durable::{Error, Executions, Resume, verify};
use hapax_core::Scope;
use hapax_core::journal::Stream;
use hapax_exec::Executor;
use hapax_sqlite::{Embedded, EmbeddedReader};
use hapax_store::{Lifecycle as _, Options};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::world::{creation, id};

/// A closed store with two executions.
struct Log {
    folder: TempDir,
    length: u64,
}

impl Log {
    async fn of(notes: u64) -> Log {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), Options::default()).unwrap();
        let executions = Executions::new(Executor::new(store.clone()), Scope::local());
        for name in ["e-1", "e-2"] {
            let run = executions.create(creation(name)).await.unwrap();
            for number in 0..notes {
                run.append("NOTE", &json!({ "n": number, "of": name }), None).await.unwrap();
                if number == notes / 2 {
                    run.complete_iteration(0, &json!({ "state": name })).await.unwrap();
                }
            }
        }
        store.close().await.unwrap();
        Log { folder, length: notes + 2 }
    }

    fn sql(&self) -> Connection {
        Connection::open(self.folder.path().join("hapax.db")).unwrap()
    }

    /// Where the first execution breaks, by `verify` and by `resume`, which must agree and must write nothing.
    async fn broken_at(&self) -> Option<u64> {
        let store = Embedded::open(self.folder.path(), Options::default()).unwrap();
        let executions = Executions::new(Executor::new(store.clone()), Scope::local());
        let stream = executions.stream(&id("e-1")).unwrap();
        let report = verify(&store, &stream).await.unwrap();
        let found = report.broken.map(|broken| broken.position);
        let resumed = executions.resume(&id("e-1"), Resume::default()).await;
        let also = match &resumed {
            Err(Error::ExecutionCorrupted { position, .. }) => Some(*position),
            Ok(_) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(also, found, "{resumed:?}");
        store.close().await.unwrap();
        found
    }

    /// The same without opening the store for writing.
    async fn verified(&self) -> Option<u64> {
        broken(&Embedded::open_read_only(self.folder.path()).unwrap()).await
    }

    fn copy(&self) -> Log {
        let folder = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(self.folder.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
        Log { folder, length: self.length }
    }
}

async fn broken(store: &EmbeddedReader) -> Option<u64> {
    let stream = Stream::new("execution/local/local/e-1").unwrap();
    verify(store, &stream).await.unwrap().broken.map(|broken| broken.position)
}

/// The rows of the first execution.
const FIRST: &str = "e.id >> 32 = (SELECT id FROM streams WHERE name = 'execution/local/local/e-1')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bit_of_a_small_log_that_flips_shows_at_its_place_j3() {
    let log = Log::of(3).await;
    assert_eq!(log.verified().await, None);
    let (sql, mut flips) = (log.sql(), 0);
    let reader = Embedded::open_read_only(log.folder.path()).unwrap();
    let mut flip = async |place: u64, column: &str, bit: usize, there: &str, back: &str| {
        let at = format!("{FIRST} AND e.id & 0xffffffff = {place}");
        assert_eq!(
            sql.execute(&format!("UPDATE events AS e SET {column} = {there} WHERE {at}"), []).unwrap(),
            1
        );
        let found = broken(&reader).await;
        assert_eq!(found, Some(place), "{column} of event {place}, bit {bit}");
        assert_eq!(
            sql.execute(&format!("UPDATE events AS e SET {column} = {back} WHERE {at}"), []).unwrap(),
            1
        );
        flips += 1;
    };
    for place in 0..log.length {
        let at = format!("{FIRST} AND e.id & 0xffffffff = {place}");
        for (column, text) in
            [("payload", false), ("salt", false), ("hash", false), ("checkpoint", false), ("kind", true)]
        {
            let query = format!("SELECT CAST({column} AS BLOB) FROM events e WHERE {at}");
            let bytes: Option<Vec<u8>> = sql.query_row(&query, [], |row| row.get(0)).unwrap();
            let Some(bytes) = bytes else { continue };
            let written = |bytes: &[u8]| {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                if text { format!("CAST(x'{hex}' AS TEXT)") } else { format!("x'{hex}'") }
            };
            for bit in 0..8 * bytes.len() {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                flip(place, column, bit, &written(&flipped), &written(&bytes)).await;
            }
        }
        let time: i64 =
            sql.query_row(&format!("SELECT at FROM events e WHERE {at}"), [], |row| row.get(0)).unwrap();
        for bit in 0..63 {
            flip(place, "at", bit, &(time ^ (1 << bit)).to_string(), &time.to_string()).await;
        }
    }
    assert_eq!(log.verified().await, None, "all is as it was");
    assert!(flips > 3_000, "{flips} bits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dropped_swapped_inserted_transplanted_or_cut_shows_at_its_place_and_nothing_runs_j3_j4() {
    let log = Log::of(3).await;
    let last = log.length - 1;
    let first = "(SELECT id << 32 FROM streams WHERE name = 'execution/local/local/e-1')";
    let second = "(SELECT id << 32 FROM streams WHERE name = 'execution/local/local/e-2')";
    let mut cases: Vec<(String, u64)> = Vec::new();
    for place in 0..=last {
        cases.push((format!("DELETE FROM events WHERE id = {first} + {place}"), place));
        // An event of the other execution in its place.
        cases.push((
            format!("DELETE FROM events WHERE id = {first} + {place}; UPDATE events SET id = {first} + {place} WHERE id = {second} + {place}"),
            place,
        ));
        if place < last {
            let next = place + 1;
            cases.push((
                format!(
                    "UPDATE events SET id = -1 WHERE id = {first} + {place}; UPDATE events SET id = {first} + {place} WHERE id = {first} + {next}; \
                     UPDATE events SET id = {first} + {next} WHERE id = -1"
                ),
                place,
            ));
        }
        // One more in between, the others move up.
        let up: String = (place..=last)
            .rev()
            .map(|seq| format!("UPDATE events SET id = id + 1 WHERE id = {first} + {seq}; "))
            .collect();
        cases.push((
            format!("{up}UPDATE events SET id = {first} + {place} WHERE id = {second} + {place}"),
            place,
        ));
    }
    // One more at the end, which the head does not know of.
    let end = log.length;
    cases.push((format!("UPDATE events SET id = {first} + {end} WHERE id = {second} + 1"), end));
    // A tail that is cut, with a head that was not, and a head that ends otherwise.
    cases.push((format!("DELETE FROM events WHERE id > {first} + 2 AND id <= {first} + {last}"), 3));
    cases.push(("UPDATE checkpoints SET bytes = CAST('{\"state\":\"e-3\"}' AS BLOB)".into(), 3));
    cases.push(("DELETE FROM checkpoints".into(), 3));
    for (what, place) in cases {
        let copy = log.copy();
        copy.sql().execute_batch(&what).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(copy.broken_at().await, Some(place), "{what}");
    }
    assert_eq!(log.copy().broken_at().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_was_changed_is_found_and_nothing_runs_j3() {
    let log = Log::of(3).await;
    for what in ["hash = zeroblob(32)", "length = length - 1", "status = 'PAUSED'", "version = version + 1"] {
        let copy = log.copy();
        let write = format!("UPDATE streams SET {what} WHERE name = 'execution/local/local/e-1'");
        assert_eq!(copy.sql().execute(&write, []).unwrap(), 1);
        assert!(copy.verified().await.is_some(), "{what}");
        let store = Embedded::open(copy.folder.path(), Options::default()).unwrap();
        let executions = Executions::new(Executor::new(store.clone()), Scope::local());
        let forced = executions.resume(&id("e-1"), Resume { force: true, ..Resume::default() }).await;
        assert!(
            matches!(&forced, Err(Error::Store(error)) if error.kind() == hapax_core::Kind::Corrupt),
            "{what}: {forced:?}"
        );
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_harm_to_a_large_log_shows_at_its_place_j3() {
    let log = Log::of(2_000).await;
    let sql = log.sql();
    let reader = Embedded::open_read_only(log.folder.path()).unwrap();
    let mut dice: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut roll = |most: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % most
    };
    for _ in 0..25 {
        let place = roll(log.length);
        let at = format!("{FIRST} AND e.id & 0xffffffff = {place}");
        let column = ["payload", "salt", "hash"][usize::try_from(roll(3)).unwrap()];
        let read = format!("SELECT CAST({column} AS BLOB) FROM events e WHERE {at}");
        let bytes: Vec<u8> = sql.query_row(&read, [], |row| row.get(0)).unwrap();
        let (mut flipped, bit) = (bytes.clone(), usize::try_from(roll(8 * bytes.len() as u64)).unwrap());
        flipped[bit / 8] ^= 1 << (bit % 8);
        let write = format!("UPDATE events AS e SET {column} = ?1 WHERE {at}");
        assert_eq!(sql.execute(&write, [&flipped]).unwrap(), 1);
        assert_eq!(broken(&reader).await, Some(place), "{column} of event {place}, bit {bit}");
        assert_eq!(sql.execute(&write, [&bytes]).unwrap(), 1);
    }
    assert_eq!(log.verified().await, None);
}
