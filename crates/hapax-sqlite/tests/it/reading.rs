//! Reading an embedded store beside the process that writes it (B8).

use bytes::Bytes;
use hapax_core::claim::Verb;
use hapax_core::journal::{Append, Author, Stream};
use hapax_core::registry::DocumentId;
use hapax_core::{
    Counts, Decision, Epoch, Filter, Inspect as _, Journal as _, Kind, Ledger as _, Outcome, Registry as _,
    StateName, View,
};
use hapax_sqlite::Embedded;
use hapax_store::Options;
use hapax_store::conformance::{DAY, granted};

use crate::shared::{ask, fill, outcome_of};

#[tokio::test]
async fn a_reader_beside_the_writer_sees_what_was_committed_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    fill(&store, 0..20).await;
    let reader = Embedded::open_read_only(folder.path()).unwrap();
    granted(&store, &ask("running")).await;
    store.put(&DocumentId::new("api-key", "k1").unwrap(), 0, Bytes::from_static(b"one")).await.unwrap();

    let id = ask("key-3").identity.claim_id();
    let Some(View::Settled(kept)) = reader.peek(id).await.unwrap() else { panic!("it is settled") };
    assert_eq!(kept.outcome, outcome_of("key-3"));
    assert_eq!(reader.record(id).await.unwrap(), store.record(id).await.unwrap());
    assert!(reader.find(kept.operation_id).await.unwrap().is_some());
    assert_eq!(reader.list(&Filter::default(), None, 100).await.unwrap().items.len(), 21);
    let held = Filter { state: Some(StateName::Held), ..Filter::default() };
    assert_eq!(reader.list(&held, None, 100).await.unwrap().items.len(), 1, "the writer's session lives");
    assert_eq!(reader.count(&held).await.unwrap(), Counts { held: 1, ..Counts::default() });
    assert_eq!(reader.list_documents("api-key", None, 10).await.unwrap().len(), 1);
    assert_eq!(reader.audit(None, 10).await.unwrap().items, []);
    assert!(reader.verify().await.unwrap().is_sound());

    let decision =
        Decision { seen: Epoch::from_packed(0), verb: Verb::Purge, actor: "a".into(), reason: "b".into() };
    assert_eq!(reader.decide(id, decision).await.unwrap_err().kind(), Kind::Invalid);
    assert_eq!(reader.sweep(10).await.unwrap_err().kind(), Kind::Invalid);
    let document = DocumentId::new("api-key", "k1").unwrap();
    assert_eq!(reader.put(&document, 1, Bytes::new()).await.unwrap_err().kind(), Kind::Invalid);
    let stream = Stream::new("s").unwrap();
    let append = Append::new(stream, Author::Anyone { version: None });
    assert_eq!(reader.append(append).await.unwrap_err().kind(), Kind::Invalid);
    fill(&store, 20..25).await;
}

#[tokio::test]
async fn a_store_that_nobody_has_open_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    fill(&store, 0..5).await;
    drop(store);
    let before = std::fs::read(folder.path().join("hapax.db")).unwrap();
    let reader = Embedded::open_read_only(folder.path()).unwrap();
    assert_eq!(reader.count(&Filter::default()).await.unwrap(), Counts { settled: 5, ..Counts::default() });
    assert!(reader.verify().await.unwrap().is_sound());
    drop(reader);
    assert_eq!(std::fs::read(folder.path().join("hapax.db")).unwrap(), before);
}

#[tokio::test]
async fn people_can_look_into_the_store_with_sql() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    fill(&store, 0..3).await;
    granted(&store, &ask("running")).await;
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    let sql = "SELECT state || ' ' || operation || ' ' || ifnull(outcome, '-') FROM hapax_claims ORDER BY opened_at, 1";
    let mut statement = database.prepare(sql).unwrap();
    let mut rows: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    rows.sort();
    assert_eq!(rows[0], "held conformance.op -");
    assert_eq!(rows[1..], ["settled conformance.op succeeded"; 3]);
    let found: i64 = database
        .query_row("SELECT count(*) FROM hapax_claims WHERE until > datetime('now')", [], |row| row.get(0))
        .unwrap();
    assert_eq!(found, 4);
}

#[tokio::test]
async fn a_listing_reads_what_it_needs_and_nothing_else() {
    // L17: the plans, so that a listing of a large store does not read all of it.
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    fill(&store, 0..3).await;
    let database = rusqlite::Connection::open(folder.path().join("hapax.db")).unwrap();
    let plan = |sql: &str| -> String {
        let mut statement = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    for sql in [
        "SELECT prefix, claim, crc FROM finder WHERE prefix >= 5 ORDER BY prefix, claim",
        "SELECT prefix, claim, crc FROM finder WHERE prefix < 5 ORDER BY prefix DESC, claim DESC LIMIT 2",
        "SELECT id, notes, crc FROM recent WHERE id > 5 - 248 ORDER BY id",
        "SELECT * FROM claims WHERE id > 5 AND id < 9 ORDER BY id",
        "SELECT * FROM claims INDEXED BY claims_open WHERE state = 2 AND state <> 3 AND id > 5 AND id < 9 UNION ALL \
         SELECT * FROM claims INDEXED BY claims_open WHERE state = 4 AND state <> 3 AND id > 5 AND id < 9 ORDER BY id",
        "SELECT digest, epoch FROM claims INDEXED BY claims_due WHERE due <= 7 AND due < 9223372036854775807 \
         ORDER BY due LIMIT 5",
        "SELECT * FROM audit INDEXED BY audit_set_aside WHERE operation_id = x'00' AND outcome_kind <> 6",
        "SELECT digest, epoch, session, until FROM claims INDEXED BY claims_open WHERE state = 2 AND state <> 3",
    ] {
        let plan = plan(sql);
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
    }
}

#[tokio::test]
async fn a_page_of_a_listing_is_bounded_in_what_it_looks_at_and_in_its_bytes() {
    // L17: a filter that means few of many, and outcomes that are large.
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    let large = Outcome::Succeeded(vec![7; 1 << 20].into());
    for number in 0..20 {
        store.set(ask(&format!("large-{number}")), large.clone(), DAY).await.unwrap();
    }
    let page = store.list(&Filter::default(), None, 100).await.unwrap();
    assert_eq!((page.items.len(), page.next.is_some()), (17, true), "16 MiB and what came over it");
    let mut sets = tokio::task::JoinSet::new();
    for number in 0..10_100 {
        let store = store.clone();
        sets.spawn(async move {
            store.set(ask(&format!("n-{number}")), Outcome::NotKept { status: 201 }, DAY).await
        });
    }
    assert!(sets.join_all().await.into_iter().all(|set| set.is_ok()));
    let nobody = Filter { key: Some("nobody".into()), ..Filter::default() };
    let page = store.list(&nobody, None, 100).await.unwrap();
    assert_eq!((page.items.len(), page.next.is_some()), (0, true));
    let rest = store.list(&nobody, page.next.as_deref(), 100).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (0, None));
}
