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

/// An execution on PostgreSQL, where no checksum of ours lies over the chain, and what it was before it was tampered with.
struct Bare {
    store: hapax::Store,
    sql: tokio_postgres::Client,
}

const TABLES: [&str; 3] = ["streams", "events", "checkpoints"];

impl Bare {
    /// With two executions of six events each: checkpoints at events 2 and 4, and a pause at the end.
    async fn new() -> Bare {
        let url = crate::world::database().await;
        let store = hapax::Store::open(&url, Options::default()).await.unwrap();
        let (sql, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let bare = Bare { store, sql };
        for name in ["e-1", "e-2"] {
            let run = bare.executions().create(creation(name)).await.unwrap();
            for n in 0..2 {
                run.append("NOTE", &json!({ "n": n, "of": name }), None).await.unwrap();
                run.complete_iteration(n, &json!({ "n": n })).await.unwrap();
            }
            run.pause("wait").await.unwrap();
        }
        for table in TABLES {
            let keep = format!("CREATE TABLE kept_{table} AS TABLE hapax.{table}");
            bare.sql.batch_execute(&keep).await.unwrap();
        }
        assert_eq!(bare.broken_at().await, None);
        bare
    }

    fn executions(&self) -> Executions<hapax::Store> {
        Executions::new(Executor::new(self.store.clone()), Scope::local())
    }

    async fn broken_at(&self) -> Option<u64> {
        let stream = self.executions().stream(&id("e-1")).unwrap();
        verify(&self.store, &stream).await.unwrap().broken.map(|broken| broken.position)
    }

    /// The same in pages.
    async fn broken_in_pages(&self) -> Option<u64> {
        let stream = self.executions().stream(&id("e-1")).unwrap();
        let mut from = Some(0);
        while let Some(next) = from {
            let (report, more) =
                hapax_agent::durable::verify_page(&self.store, &stream, next, 2).await.unwrap();
            if let Some(broken) = report.broken {
                return Some(broken.position);
            }
            from = more;
        }
        None
    }

    /// As it was.
    async fn put_back(&self) {
        for table in TABLES {
            let columns = "SELECT string_agg(quote_ident(attname), ',') FROM pg_attribute \
                           WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped";
            let row = self.sql.query_one(columns, &[&format!("hapax.{table}")]).await.unwrap();
            let columns: String = row.get(0);
            let back = format!(
                "DELETE FROM hapax.{table}; INSERT INTO hapax.{table} ({columns}) OVERRIDING SYSTEM VALUE \
                 SELECT {columns} FROM kept_{table}"
            );
            self.sql.batch_execute(&back).await.unwrap();
        }
    }
}

/// The first execution's rows; the second's.
const MINE: &str = "stream = (SELECT id FROM hapax.streams WHERE name LIKE '%/e-1')";
const OTHER: &str = "stream = (SELECT id FROM hapax.streams WHERE name LIKE '%/e-2')";

/// What the head says beside the chain is compared with the events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_or_a_checkpoint_that_was_changed_on_postgres_shows_and_is_not_resumed_j3() {
    let (head, mine) = ("WHERE name LIKE '%/e-1'", MINE);
    let changes: Vec<(Vec<String>, u64)> = vec![
        (
            vec![
                format!("UPDATE hapax.checkpoints SET seq = 2, bytes = '{{\"n\":0}}' WHERE {mine}"),
                format!("UPDATE hapax.streams SET checkpoint = 2 {head}"),
            ],
            4,
        ),
        (
            vec![
                format!("DELETE FROM hapax.checkpoints WHERE {mine}"),
                format!("UPDATE hapax.streams SET checkpoint = NULL {head}"),
            ],
            4,
        ),
        (vec![format!("UPDATE hapax.streams SET checkpoint = NULL {head}")], 4),
        (vec![format!("UPDATE hapax.streams SET checkpoint = 3 {head}")], 3),
        (vec![format!("DELETE FROM hapax.checkpoints WHERE {mine}")], 4),
        (vec![format!("UPDATE hapax.checkpoints SET bytes = '{{\"n\":0}}' WHERE {mine}")], 4),
        (vec![format!("UPDATE hapax.streams SET status = 'COMPLETED' {head}")], 5),
        (vec![format!("UPDATE hapax.streams SET status = 'RUNNING' {head}")], 5),
        (vec![format!("UPDATE hapax.streams SET agent = 'another' {head}")], 0),
        (vec![format!("UPDATE hapax.streams SET subject = 'user:bob' {head}")], 0),
        (vec![format!("UPDATE hapax.streams SET subject = NULL {head}")], 0),
        (vec![format!("UPDATE hapax.events SET subject = 'user:bob' WHERE seq = 0 AND {mine}")], 0),
        (vec![format!("UPDATE hapax.events SET subject = 'user:bob' WHERE seq = 3 AND {mine}")], 3),
    ];
    let bare = Bare::new().await;
    for (statements, at) in changes {
        for statement in &statements {
            assert_eq!(bare.sql.execute(statement.as_str(), &[]).await.unwrap(), 1, "{statement}");
        }
        assert_eq!(bare.broken_at().await, Some(at), "{statements:?}");
        // A page tells the first checkpoint that the head does not know of.
        let in_pages = bare.broken_in_pages().await;
        assert!(
            in_pages == Some(at) || (at == 4 && in_pages == Some(2)),
            "{statements:?}: {in_pages:?} in pages"
        );
        // By force, so that it is looked at even where the head says that somebody runs it.
        let forced = Resume { force: true, ..Resume::default() };
        let resumed = bare.executions().resume(&id("e-1"), forced).await;
        assert!(
            matches!(&resumed, Err(Error::ExecutionCorrupted { position, .. }) if *position == at),
            "{statements:?}: {resumed:?}"
        );
        bare.put_back().await;
        assert_eq!(bare.broken_at().await, None, "as it was");
    }
    bare.executions().resume(&id("e-1"), Resume::default()).await.unwrap();
}

/// Each byte of each event, and events that are dropped, swapped, put in or taken from elsewhere: the chain alone tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chain_alone_shows_what_was_changed_on_postgres_j3() {
    let bare = Bare::new().await;
    let mut flips = 0;
    for place in 0..6_i64 {
        let at = format!("{MINE} AND seq = {place}");
        for column in ["payload", "salt", "hash", "checkpoint", "kind", "at"] {
            let bytes = match column {
                "kind" => "convert_to(kind, 'UTF8')".to_owned(),
                "at" => "int8send(at)".to_owned(),
                column => column.to_owned(),
            };
            let query = format!("SELECT {bytes} FROM hapax.events WHERE {at}");
            let Some(kept) = bare.sql.query_one(&query, &[]).await.unwrap().get::<_, Option<Vec<u8>>>(0)
            else {
                continue;
            };
            for number in 0..kept.len() {
                // Text stays text, and a time stays within its bounds.
                let bit = if column == "at" || column == "kind" { 0 } else { number % 8 };
                if column == "at" && number < 2 {
                    continue;
                }
                let mut changed = kept.clone();
                changed[number] ^= 1 << bit;
                let hex: String = changed.iter().map(|byte| format!("{byte:02x}")).collect();
                let value = match column {
                    "kind" => format!("convert_from('\\x{hex}', 'UTF8')"),
                    "at" => format!("('x{hex}')::bit(64)::bigint"),
                    _ => format!("'\\x{hex}'"),
                };
                let change = format!("UPDATE hapax.events SET {column} = {value} WHERE {at}");
                assert_eq!(bare.sql.execute(change.as_str(), &[]).await.unwrap(), 1);
                assert_eq!(bare.broken_at().await, Some(place as u64), "{change}");
                flips += 1;
            }
            let back = format!(
                "UPDATE hapax.events e SET {column} = k.{column} FROM kept_events k \
                 WHERE e.stream = k.stream AND e.seq = k.seq AND e.seq = {place}"
            );
            bare.sql.execute(back.as_str(), &[]).await.unwrap();
        }
    }
    assert!(flips > 500, "{flips} bytes were changed");
    let taken = |seq: i64| {
        format!(
            "INSERT INTO hapax.events (stream, seq, kind, at, salt, payload, digest, subject, checkpoint, hash) \
             SELECT (SELECT id FROM hapax.streams WHERE name LIKE '%/e-1'), {seq}, kind, at, salt, payload, digest, \
             subject, checkpoint, hash FROM hapax.events WHERE "
        )
    };
    let drop = |seq: i64| format!("DELETE FROM hapax.events WHERE {MINE} AND seq = {seq}");
    let renumber =
        |from: i64, to: i64| format!("UPDATE hapax.events SET seq = {to} WHERE {MINE} AND seq = {from}");
    let mut cases: Vec<(Vec<String>, u64)> = (0..6).map(|seq| (vec![drop(seq)], seq as u64)).collect();
    // The events after a dropped one close up.
    cases.push(((2..6).map(|seq| if seq == 2 { drop(2) } else { renumber(seq, seq - 1) }).collect(), 2));
    cases.push((vec![renumber(1, 99), renumber(3, 1), renumber(99, 3)], 1));
    cases.push((vec![format!("{} {MINE} AND seq = 5", taken(6))], 6));
    for seq in 0..6 {
        cases.push((vec![drop(seq), format!("{} {OTHER} AND seq = {seq}", taken(seq))], seq as u64));
    }
    for (statements, at) in cases {
        for statement in &statements {
            assert_eq!(bare.sql.execute(statement.as_str(), &[]).await.unwrap(), 1, "{statement}");
        }
        assert_eq!(bare.broken_at().await, Some(at), "{statements:?}");
        bare.put_back().await;
    }
}
