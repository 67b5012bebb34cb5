//! Operators and the memory tables of several processes: what is changed in the database is answered from memory
//! nowhere, whoever is at it at the same time (L8, B7).

use std::time::Duration;

use hapax_core::{
    ClaimId, Decision, Doubt, Ending, Epoch, Error, Filter, Inspect as _, Ledger as _, Operated, Outcome,
    Ran, Report, StateName, Terms, Verb, Verdict,
};
use hapax_postgres::{Postgres, guard};
use hapax_store::Lifecycle as _;
use hapax_store::conformance::{DAY, granted, ok, request};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_postgres::{Client, GenericClient};

use crate::postgres::{SOON, ask, by_hand, connect, hold, open, replayed, settle};
use crate::server::{Database, until, until_somebody_waits};

/// Decides like an operator, beside the test.
fn decide(
    store: &Postgres,
    id: ClaimId,
    seen: Epoch,
    verb: Verb,
    actor: &str,
) -> JoinHandle<Result<Operated, Error>> {
    let (store, actor) = (store.clone(), actor.to_owned());
    tokio::spawn(async move { store.decide(id, Decision { seen, verb, actor, reason: "test".into() }).await })
}

async fn decided(operator: JoinHandle<Result<Operated, Error>>) -> Operated {
    timeout(SOON, operator).await.expect("it was decided").unwrap().unwrap()
}

async fn seen(store: &Postgres, id: ClaimId) -> Epoch {
    store.record(id).await.unwrap().unwrap().claim.epoch
}

#[tokio::test]
async fn a_claim_that_cannot_be_read_is_named_and_keeps_no_listing_from_the_others_l17() {
    let database = Database::fresh().await;
    let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
    let mut whole = Vec::new();
    for key in ["a", "b", "c"] {
        whole.push(settle(&store, key, "done").await);
        whole.push(hold(&store, &format!("{key}-runs")).await.0);
    }
    let mut broken = Vec::new();
    for (claim, column) in [(whole.remove(2), "terms"), (whole.remove(2), "identity")] {
        broken.push(store.record(claim).await.unwrap().unwrap().claim.operation_id.to_string());
        let spoil = format!("UPDATE hapax.claims SET {column} = '\\x' WHERE digest = $1");
        client.execute(&spoil, &[&&claim.as_bytes()[..]]).await.unwrap();
    }
    let tenant = Some("local".to_owned());
    let filters = [
        (Filter::default(), whole.len(), 2),
        (Filter { tenant, ..Filter::default() }, whole.len(), 2),
        (Filter { state: Some(StateName::Settled), ..Filter::default() }, 2, 2),
        (Filter { state: Some(StateName::Held), ..Filter::default() }, 2, 1),
        (Filter { key: Some("c".to_owned()), ..Filter::default() }, 1, 2),
    ];
    for (filter, expected, damaged) in filters {
        for limit in [1, 100] {
            let (mut found, mut named, mut after) = (Vec::new(), Vec::new(), None);
            loop {
                let page = store.list(&filter, after.as_deref(), limit).await.unwrap();
                assert!(page.items.len() + page.damaged.len() <= limit);
                found.extend(page.items.iter().map(|record| record.identity.claim_id()));
                named.extend(page.damaged);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert!(found.len() == expected && found.iter().all(|id| whole.contains(id)), "{filter:?}");
            assert_eq!(named.len(), damaged, "{filter:?}: {named:?}");
            assert!(named.iter().all(|record| broken.contains(&record.id)), "{named:?}");
        }
    }
}

/// A process whose table answers on and on, and has forgotten nothing: operators wait until the test speaks for it.
struct Silent(Client, #[expect(dead_code, reason = "it goes with it")] JoinSet<()>);

impl Silent {
    async fn beside(database: &Database) -> Silent {
        let client = connect(database.url()).await;
        let sql = "INSERT INTO hapax.sessions (token, opened_at, last, until, acked, table_until) \
                   VALUES (gen_random_uuid(), 0, 0, 0, 0, 9e18::bigint)";
        client.batch_execute(sql).await.unwrap();
        // Whoever does not renew its table is waited for as long as any table answers.
        let (mut renewing, line) = (JoinSet::new(), connect(database.url()).await);
        renewing.spawn(async move {
            let sql = "UPDATE hapax.sessions SET table_until = table_until - 1 WHERE table_until > 8e18";
            while line.batch_execute(sql).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        });
        Silent(client, renewing)
    }

    /// Returns when so many claims were sent away.
    async fn is_told(&self, number: i64) {
        let sql = "SELECT count(*) >= $1 FROM hapax.invalidations";
        until(async || self.0.query_one(sql, &[&number]).await.unwrap().get(0)).await;
    }

    /// Has forgotten the first so many.
    async fn forgets(&self, number: i64) {
        let sql = "UPDATE hapax.sessions SET acked = $1 WHERE table_until > 8e18";
        self.0.execute(sql, &[&number]).await.unwrap();
    }
}

/// Whoever wants to change a claim draws an epoch, the last of which was this.
async fn drawn(client: &impl GenericClient) -> i64 {
    client.query_one("SELECT last_value FROM hapax.epochs", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn of_two_operators_at_once_one_wins_and_the_audit_has_one_l8() {
    let database = Database::fresh().await;
    let (first, second) = (open(&database, by_hand()).await, open(&database, by_hand()).await);
    let mut client = connect(database.url()).await;
    let (id, epoch) = hold(&first, "k").await;
    first.report(id, epoch, Report::Doubt(Doubt::Stated), vec![]).await.unwrap();
    // The first is stopped where it has decided and not committed; only then the second looks.
    let tx = client.transaction().await.unwrap();
    tx.batch_execute("LOCK TABLE hapax.tally IN EXCLUSIVE MODE").await.unwrap();
    let ann = decide(&first, id, epoch, Verb::Settle(ok("by hand"), DAY), "ann");
    until_somebody_waits(&database, "put_claim").await;
    let before = drawn(&tx).await;
    let ben = decide(&second, id, epoch, Verb::Release { force: true }, "ben");
    until(async || drawn(&tx).await > before).await;
    tx.commit().await.unwrap();
    let told = [("ann", decided(ann).await), ("ben", decided(ben).await)];
    let winners = told.iter().filter(|(_, operated)| matches!(operated, Operated::Done(_)));
    let winners: Vec<&str> = winners.map(|(actor, _)| *actor).collect();
    assert_eq!(winners.len(), 1, "{told:?}");
    let audit = first.audit(None, 10).await.unwrap().items;
    assert_eq!(audit.iter().map(|event| event.actor.as_str()).collect::<Vec<_>>(), winners);
}

#[tokio::test]
async fn who_wants_to_reopen_what_another_operator_has_erased_must_look_again_l8() {
    let database = Database::fresh().await;
    let (first, second) = (open(&database, by_hand()).await, open(&database, by_hand()).await);
    let reader = open(&database, by_hand()).await;
    let id = settle(&first, "k", "old").await;
    let epoch = seen(&first, id).await;
    let silent = Silent::beside(&database).await;
    let erase = decide(&first, id, epoch, Verb::Erase, "ann");
    silent.is_told(1).await;
    let reopen = decide(&second, id, epoch, Verb::Reopen, "ben");
    silent.is_told(2).await;
    reader.renew_session().await.unwrap();
    // The first is done: what is erased may be answered from memory.
    silent.forgets(1).await;
    let Operated::Done(Some(now)) = decided(erase).await else { panic!("the first was refused") };
    let is_erased =
        async || matches!(ask(&reader, "k").await, Verdict::Replay(kept) if kept.outcome == Outcome::Erased);
    assert!(is_erased().await, "the key stays burned");
    silent.forgets(2).await;
    assert_eq!(decided(reopen).await, Operated::Changed { epoch: now });
    assert!(is_erased().await, "and nothing was reopened");
}

#[tokio::test]
async fn what_is_settled_while_an_operator_erases_it_leaves_the_tables_first_b7() {
    let database = Database::fresh().await;
    let (store, reader) = (open(&database, by_hand()).await, open(&database, by_hand()).await);
    let mut client = connect(database.url()).await;
    let (id, epoch) = hold(&store, "k").await;
    store.report(id, epoch, Report::Release(Ran::No), vec![]).await.unwrap();
    let silent = Silent::beside(&database).await;
    let tx = client.transaction().await.unwrap();
    guard(&tx, id, epoch, &ok("late"), DAY).await.unwrap();
    // The operator sees what is free and in no table, and finds it locked.
    let before = drawn(&silent.0).await;
    let mut erase = decide(&store, id, epoch, Verb::Erase, "ann");
    until(async || drawn(&silent.0).await > before).await;
    tx.commit().await.unwrap();
    reader.renew_session().await.unwrap();
    assert_eq!(replayed(&ask(&reader, "k").await), Some(&b"late"[..]));
    tokio::select! {
        () = silent.is_told(1) => silent.forgets(1).await,
        done = &mut erase => panic!("a table may answer for it, and yet: {done:?}"),
    }
    assert!(matches!(decided(erase).await, Operated::Done(Some(now)) if now > epoch));
    let Verdict::Replay(kept) = ask(&reader, "k").await else { panic!("the key stays burned") };
    assert_eq!(kept.outcome, Outcome::Erased);
}

#[tokio::test]
async fn a_claim_that_is_about_to_be_changed_is_not_remembered_b7() {
    let database = Database::fresh().await;
    let (store, reader) = (open(&database, by_hand()).await, open(&database, by_hand()).await);
    let silent = Silent::beside(&database).await;
    for (number, key) in [(1, "claimed"), (2, "read")] {
        let id = settle(&store, key, "old").await;
        let purge = decide(&store, id, seen(&store, id).await, Verb::Purge, "ann");
        silent.is_told(number).await;
        reader.renew_session().await.unwrap();
        if key == "claimed" {
            assert_eq!(replayed(&ask(&reader, key).await), Some(&b"old"[..]), "it is there until it is gone");
        } else {
            assert!(reader.peek(id).await.unwrap().is_some());
        }
        silent.forgets(number).await;
        assert_eq!(decided(purge).await, Operated::Done(None));
        let told = ask(&reader, key).await;
        assert!(matches!(told, Verdict::Granted(_)), "{key} while it was purged, from memory: {told:?}");
    }
}

#[tokio::test]
async fn a_purge_waits_for_a_renewal_that_is_under_way_b7() {
    let database = Database::fresh().await;
    let (store, mut client) = (open(&database, by_hand()).await, connect(database.url()).await);
    let _other = open(&database, by_hand()).await;
    let id = settle(&store, "k", "old").await;
    let epoch = seen(&store, id).await;
    // The other process's beat has looked for what to forget, and is not committed yet.
    let tx = client.transaction().await.unwrap();
    let renew = "SELECT * FROM (SELECT id, token FROM hapax.sessions ORDER BY id DESC LIMIT 1) s, \
                 hapax.renew_session(s.id, s.token, NULL, 1000000, 0, 9e15::bigint)";
    tx.query_one(renew, &[]).await.unwrap();
    let mut purge = decide(&store, id, epoch, Verb::Purge, "ann");
    tokio::select! {
        () = until_somebody_waits(&database, "hapax.sessions") => {}
        done = &mut purge => panic!("a renewal is under way, and yet: {done:?}"),
    }
    tx.commit().await.unwrap();
    // Now its table answers until it has heard.
    assert_eq!(replayed(&ask(&store, "k").await), Some(&b"old"[..]));
    client.batch_execute("UPDATE hapax.sessions SET acked = 1").await.unwrap();
    assert_eq!(decided(purge).await, Operated::Done(None));
}

#[tokio::test]
async fn what_is_remembered_of_an_earlier_grant_is_no_part_of_a_later_outcome_b7() {
    let database = Database::fresh().await;
    let (store, other) = (open(&database, by_hand()).await, open(&database, by_hand()).await);
    let mut client = connect(database.url()).await;
    let (id, epoch) = hold(&store, "k").await;
    // Settled and purged where this process does not hear of it, and granted to another one.
    let tx = client.transaction().await.unwrap();
    guard(&tx, id, epoch, &ok("first"), DAY).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(decided(decide(&other, id, epoch, Verb::Purge, "ann")).await, Operated::Done(None));
    let second = request("k", "another body", Terms::default());
    let grant = granted(&other, &second).await;
    store.renew_session().await.unwrap();
    let ending = store.report(id, grant.epoch, Report::Settle(ok("second"), DAY), vec![]).await.unwrap();
    assert!(matches!(ending, Ending::Settled(_)), "{ending:?}");
    let told = store.claim(request("k", "another body", Terms::default())).await.unwrap();
    let Verdict::Replay(kept) = told else { panic!("{told:?}") };
    assert_eq!((kept.epoch, kept.operation_id), (grant.epoch, grant.operation_id));
}

#[tokio::test]
async fn a_process_that_died_before_the_clock_was_set_back_keeps_no_operator_waiting_b7_l12() {
    let database = Database::fresh().await;
    let (store, client) = (open(&database, by_hand()).await, connect(database.url()).await);
    let id = settle(&store, "k", "old").await;
    let epoch = seen(&store, id).await;
    let died = "INSERT INTO hapax.sessions (token, opened_at, last, until, acked, table_until) \
                VALUES (gen_random_uuid(), 0, 0, 0, 0, hapax.clock() + 3600 * 1000000::bigint)";
    client.batch_execute(died).await.unwrap();
    let purged = decided(decide(&store, id, epoch, Verb::Purge, "ann")).await;
    assert!(matches!(purged, Operated::Done(_)), "{purged:?}");
}
