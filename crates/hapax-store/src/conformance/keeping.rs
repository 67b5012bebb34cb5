//! What is kept comes back as it was, for as long as it should, and never when it should not.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::audit::CONTRADICTED;
use hapax_core::claim::{Terms, Verb};
use hapax_core::journal::{self, Append, Chain, Expect, NewEvent, Stream};
use hapax_core::registry::DocumentId;
use hapax_core::{
    ClaimRequest, Decision, Doubt, Ending, Epoch, Inspect, Journal, Kind, Ledger, Operated, OperationId,
    Outcome, Ran, Registry, Report, Rerun, SetAnswer, Verdict, View,
};

use super::{AllPorts, DAY, Harness, granted, ok, request};
use crate::Lifecycle as _;

async fn settled<S: AllPorts>(store: &S, key: &str, outcome: Outcome) -> (ClaimRequest, Epoch) {
    let request = request(key, "body", Terms::default());
    let grant = granted(store, &request).await;
    let report = Report::Settle(outcome, DAY);
    let ending =
        store.report(request.identity.claim_id(), grant.epoch, report, Vec::new()).await.expect("settle");
    assert!(matches!(ending, Ending::Settled(_)), "{ending:?}");
    (request, grant.epoch)
}

async fn claim_again<S: AllPorts>(store: &S, key: &str) -> Verdict {
    store.claim(request(key, "body", Terms::default())).await.expect("claim")
}

async fn decide<S: AllPorts>(store: &S, request: &ClaimRequest, seen: Epoch, verb: Verb) -> Operated {
    let decision = Decision { seen, verb, actor: "op".into(), reason: "because".into() };
    store.decide(request.identity.claim_id(), decision).await.expect("decide")
}

/// Outcomes of every kind and size, binary too (H3's ground).
pub async fn an_outcome_comes_back_byte_for_byte<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let all_bytes: Vec<u8> = (0..=255).cycle().take(1024 * 1024).collect();
    let outcomes = [
        Outcome::Succeeded(Bytes::new()),
        Outcome::Succeeded(Bytes::from_static(b"\0\xff\r\n")),
        Outcome::Succeeded(all_bytes.into()),
        Outcome::Refused(Bytes::from_static(b"no")),
        Outcome::NotKept { status: 599 },
    ];
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let key = format!("bytes{number}");
        let (first, epoch) = settled(&store, &key, outcome.clone()).await;
        let Verdict::Replay(kept) = claim_again(&store, &key).await else { panic!("expected a replay") };
        assert_eq!((kept.outcome, kept.epoch), (outcome.clone(), epoch));
        assert_eq!((kept.attempt, kept.operation_id), (first.attempt, first.operation_id));
        let Some(View::Settled(kept)) = store.peek(first.identity.claim_id()).await.expect("peek") else {
            panic!("expected a settled claim")
        };
        assert_eq!(kept.outcome, outcome);
    }
}

/// E4.
pub async fn an_outcome_is_set_only_where_nothing_is<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let first = store.set(request("set", "body", Terms::default()), ok("one"), DAY).await.expect("set");
    assert!(matches!(first, SetAnswer::Stored(kept) if kept.outcome == ok("one")));
    let second = store.set(request("set", "body", Terms::default()), ok("two"), DAY).await.expect("set");
    assert!(matches!(second, SetAnswer::Present(View::Settled(kept)) if kept.outcome == ok("one")));
    granted(&store, &request("running", "body", Terms::default())).await;
    let held = store.set(request("running", "body", Terms::default()), ok("three"), DAY).await.expect("set");
    assert!(matches!(held, SetAnswer::Present(View::Held { .. })));
}

/// E6: a refusal alone does not say that nothing was done under its key.
pub async fn an_outcome_tells_whether_an_attempt_before_it_may_have_run<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let safe = Terms { rerun: Rerun::Safe, ..Terms::default() };
    for (key, first_ran, before) in
        [("first", None, false), ("not-run", Some(Ran::No), false), ("perhaps", Some(Ran::Perhaps), true)]
    {
        let asked = || request(key, "body", safe.clone());
        let claim = asked().identity.claim_id();
        if let Some(ran) = first_ran {
            let first = granted(&store, &asked()).await;
            let ending = store.report(claim, first.epoch, Report::Release(ran), Vec::new()).await;
            assert_eq!(ending.expect("release"), Ending::Released);
        }
        let grant = granted(&store, &asked()).await;
        assert_eq!(grant.earlier_may_have_run, before, "{key}");
        let refused = || Report::Settle(Outcome::NotKept { status: 402 }, DAY);
        let ending = store.report(claim, grant.epoch, refused(), Vec::new()).await.expect("settle");
        let Ending::Settled(kept) = ending else { panic!("{ending:?}") };
        assert_eq!(kept.earlier_may_have_run, before, "{key}, settled");
        let ending = store.report(claim, grant.epoch, refused(), Vec::new()).await.expect("settle again");
        assert_eq!(ending, Ending::AlreadySettled(kept.clone()), "{key}");
        assert_eq!(store.claim(asked()).await.expect("claim"), Verdict::Replay(kept.clone()), "{key}");
        assert_eq!(store.peek(claim).await.expect("peek"), Some(View::Settled(kept)), "{key}");
    }
}

/// L10.
pub async fn an_expired_outcome_is_absent_before_it_is_swept<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let (first, epoch) = settled(&store, "expiring", ok("one")).await;
    harness.advance(Duration::from_secs(86_399));
    assert!(matches!(claim_again(&store, "expiring").await, Verdict::Replay(_)));
    harness.advance(Duration::from_secs(1));
    assert_eq!(store.peek(first.identity.claim_id()).await.expect("peek"), None);
    assert_eq!(store.record(first.identity.claim_id()).await.expect("record"), None);
    let second = request("expiring", "another body", Terms::default());
    let grant = granted(&store, &second).await;
    assert!(grant.epoch > epoch);
    assert_eq!(grant.operation_id, second.operation_id, "a grant from absent has a public id of its own");
}

/// L8, B7: after a decision no table in memory may answer what it replaced.
pub async fn what_was_purged_reopened_or_erased_is_never_replayed<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let other = harness.join(harness.options()).await;
    for round in 0..3 {
        for (name, verb) in [("purge", Verb::Purge), ("reopen", Verb::Reopen), ("erase", Verb::Erase)] {
            let key = format!("{name}{round}");
            let (first, epoch) = settled(&store, &key, ok("secret")).await;
            for store in [Some(&store), other.as_ref()].into_iter().flatten() {
                store.renew_session().await.expect("renew");
                assert!(matches!(claim_again(store, &key).await, Verdict::Replay(_)));
            }
            let done = decide(&store, &first, epoch, verb.clone()).await;
            assert!(matches!(done, Operated::Done(_)), "{done:?}");
            let asked = other.as_ref().unwrap_or(&store);
            match (name, claim_again(asked, &key).await) {
                ("erase", Verdict::Replay(kept)) => assert_eq!(kept.outcome, Outcome::Erased),
                ("purge" | "reopen", Verdict::Granted(grant)) => assert!(grant.epoch > epoch),
                (name, verdict) => panic!("after {name}: {verdict:?}"),
            }
        }
    }
}

/// L8, L13: of two operators who saw the same one wins, whatever either wants; nor is a decision carried out twice.
pub async fn of_two_operators_who_saw_the_same_one_wins<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let verbs = [Verb::Erase, Verb::Reopen, Verb::Purge];
    for (first, second) in verbs.iter().flat_map(|first| verbs.iter().map(move |second| (first, second))) {
        let (first_name, second_name) = (first.as_str(), second.as_str());
        let key = format!("{first_name} and {second_name}");
        let (claim, seen) = settled(&store, &key, ok("secret")).await;
        let won = decide(&store, &claim, seen, first.clone()).await;
        let Operated::Done(now) = won else { panic!("{first_name}: {won:?}") };
        assert!(now.is_none_or(|now| now > seen), "{first_name}: {now:?} after {seen}");
        let after = store.record(claim.identity.claim_id()).await.expect("record");
        let told = decide(&store, &claim, seen, second.clone()).await;
        let expected = now.map_or(Operated::Absent, |epoch| Operated::Changed { epoch });
        assert_eq!(told, expected, "{second_name} after {first_name}");
        assert_eq!(store.record(claim.identity.claim_id()).await.expect("record"), after, "{key}");
        let audit = store.audit(None, 100).await.expect("audit").items;
        let told = audit.iter().filter(|event| event.operation_id() == Some(claim.operation_id));
        assert_eq!(told.map(|event| &event.verb[..]).collect::<Vec<_>>(), [first_name], "{key}");
    }
}

/// What the audit keeps of an operation's outcomes, the newest first, each with its verb.
async fn set_aside<S: AllPorts>(store: &S, operation: OperationId) -> Vec<(String, Outcome)> {
    let page = store.audit(None, 100).await.expect("audit");
    assert_eq!(page.next, None, "the check has few entries");
    let own = page.items.into_iter().filter(|event| event.operation_id() == Some(operation));
    own.filter_map(|event| event.outcome.map(|outcome| (event.verb, outcome))).collect()
}

/// Settled and reopened, so that the audit has the outcome; under which epoch the claim stands now.
async fn reopened<S: AllPorts>(store: &S, key: &str) -> (ClaimRequest, Epoch) {
    let (first, epoch) = settled(store, key, ok(&format!("secret of {key}"))).await;
    let Operated::Done(Some(epoch)) = decide(store, &first, epoch, Verb::Reopen).await else {
        panic!("{key} was not reopened")
    };
    let kept = set_aside(store, first.operation_id).await;
    assert_eq!(kept, [("reopen".to_owned(), ok(&format!("secret of {key}")))]);
    assert!(store.has_set_aside(first.operation_id).await.expect("look"), "{key}");
    (first, epoch)
}

async fn settle_again<S: AllPorts>(store: &S, key: &str) -> Epoch {
    let again = request(key, "body", Terms::default());
    let grant = granted(store, &again).await;
    let settle = Report::Settle(ok("the second"), DAY);
    store.report(again.identity.claim_id(), grant.epoch, settle, Vec::new()).await.expect("settle");
    grant.epoch
}

async fn is_forgotten<S: AllPorts>(store: &S, claim: &ClaimRequest) {
    let kept = set_aside(store, claim.operation_id).await;
    assert_eq!(kept, [("reopen".to_owned(), Outcome::Erased)], "the entry stays, its outcome does not");
    assert!(!store.has_set_aside(claim.operation_id).await.expect("look"));
}

/// L8, B9: an outcome that was set aside goes with its claim, and with nobody else's.
pub async fn what_was_set_aside_goes_when_its_claim_is_erased_or_purged<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let (bystander, _) = reopened(&store, "bystander").await;

    let (free, epoch) = reopened(&store, "free").await;
    let before = store.record(free.identity.claim_id()).await.expect("record");
    assert_eq!(decide(&store, &free, epoch, Verb::Erase).await, Operated::Done(Some(epoch)));
    assert_eq!(store.record(free.identity.claim_id()).await.expect("record"), before, "it is free as before");
    is_forgotten(&store, &free).await;

    let (erased, _) = reopened(&store, "erased").await;
    let epoch = settle_again(&store, "erased").await;
    let done = decide(&store, &erased, epoch, Verb::Erase).await;
    assert!(matches!(done, Operated::Done(Some(now)) if now > epoch), "{done:?}");
    is_forgotten(&store, &erased).await;

    let (purged, _) = reopened(&store, "purged").await;
    let epoch = settle_again(&store, "purged").await;
    assert_eq!(set_aside(&store, purged.operation_id).await.len(), 1, "a new run sets nothing aside");
    assert_eq!(decide(&store, &purged, epoch, Verb::Purge).await, Operated::Done(None));
    is_forgotten(&store, &purged).await;

    let left = set_aside(&store, bystander.operation_id).await;
    assert_eq!(left, [("reopen".to_owned(), ok("secret of bystander"))]);
}

/// L8, B9, L10: nor does it outlive the retention of its claim.
pub async fn what_was_set_aside_goes_when_its_claim_expires<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let mut going = Vec::new();
    for key in ["settled", "replaced", "set"] {
        going.push(reopened(&store, key).await.0);
        settle_again(&store, key).await;
    }
    let (tombstone, _) = reopened(&store, "tombstone").await;
    harness.advance(Duration::from_secs(86_400));
    let (staying, _) = reopened(&store, "staying").await;

    let anew = request("replaced", "another body", Terms::default());
    granted(&store, &anew).await;
    is_forgotten(&store, &going[1]).await;
    let anew = request("set", "another body", Terms::default());
    assert!(matches!(store.set(anew, ok("done"), DAY).await, Ok(SetAnswer::Stored(_))));
    is_forgotten(&store, &going[2]).await;

    for _ in 0..500 {
        while store.sweep(50).await.expect("sweep").more {}
        let absent = store.find(going[0].operation_id).await.expect("find").is_none();
        if absent && !store.has_set_aside(tombstone.operation_id).await.expect("look") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    is_forgotten(&store, &going[0]).await;
    is_forgotten(&store, &tombstone).await;
    let left = set_aside(&store, staying.operation_id).await;
    assert_eq!(left, [("reopen".to_owned(), ok("secret of staying"))]);
}

/// L8, B9: so does an outcome that came too late, and one that comes after the claim was erased.
pub async fn an_outcome_that_came_too_late_goes_with_its_claim<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let first = request("late", "body", Terms::default());
    let (id, grant) = (first.identity.claim_id(), granted(&store, &first).await);
    store.report(id, grant.epoch, Report::Doubt(Doubt::Stated), Vec::new()).await.expect("doubt");
    let resolve = Verb::Settle(ok("by hand"), DAY);
    let Operated::Done(Some(epoch)) = decide(&store, &first, grant.epoch, resolve).await else {
        panic!("it was not settled")
    };
    let late = || store.report(id, grant.epoch, Report::Settle(ok("true"), DAY), Vec::new());
    assert_eq!(late().await.expect("settle"), Ending::LostLease);
    let kept = set_aside(&store, first.operation_id).await;
    assert_eq!(kept, [(CONTRADICTED.to_owned(), ok("true"))]);

    assert!(matches!(decide(&store, &first, epoch, Verb::Erase).await, Operated::Done(Some(_))));
    let gone = || (CONTRADICTED.to_owned(), Outcome::Erased);
    assert_eq!(set_aside(&store, first.operation_id).await, [gone()]);
    assert_eq!(late().await.expect("settle"), Ending::LostLease);
    assert_eq!(set_aside(&store, first.operation_id).await, [gone(), gone()], "told of, but not kept");
}

fn event(kind: &str) -> NewEvent {
    NewEvent { kind: kind.into(), payload: Bytes::from_static(b"{}"), chain: Chain::V2 }
}

fn write(stream: &Stream, expect: Expect, kinds: &[&str]) -> Append {
    let events = kinds.iter().map(|kind| event(kind)).collect();
    Append { stream: stream.clone(), expect, events, status: Some("RUNNING".into()), checkpoint: None }
}

/// L18, L13.
pub async fn journal_events_commit_with_the_report_or_not_at_all<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let stream = Stream::new("receipts/acme").expect("a good name");
    let first = request("journal", "body", Terms::default());
    let id = first.identity.claim_id();
    let grant = granted(&store, &first).await;
    let settle = || Report::Settle(ok("done"), DAY);

    let conflict =
        store.report(id, grant.epoch, settle(), vec![write(&stream, Expect::Version(5), &["A"])]).await;
    assert_eq!(conflict.expect_err("a conflict").kind(), Kind::Conflict);
    assert!(
        matches!(store.peek(id).await.expect("peek"), Some(View::Held { .. })),
        "a conflict writes nothing"
    );
    assert_eq!(store.head(&stream).await.expect("head"), None);

    let stale = Epoch::from_packed(grant.epoch.packed() - 1);
    let lost = store
        .report(id, stale, settle(), vec![write(&stream, Expect::Version(0), &["A"])])
        .await
        .expect("report");
    assert_eq!(lost, Ending::LostLease);
    assert_eq!(store.head(&stream).await.expect("head"), None, "a stale report writes no events");

    let events = vec![write(&stream, Expect::Version(0), &["A", "B"])];
    let done = store.report(id, grant.epoch, settle(), events.clone()).await.expect("report");
    assert!(matches!(done, Ending::Settled(_)));
    let again = store.report(id, grant.epoch, settle(), events).await.expect("sent again, it is no conflict");
    assert!(matches!(again, Ending::AlreadySettled(_)));
    assert_eq!(store.head(&stream).await.expect("head").map(|head| head.length), Some(2));

    let second = request("journal-released", "body", Terms::default());
    let grant = granted(&store, &second).await;
    for _ in 0..2 {
        let events = vec![write(&stream, Expect::Any, &["RELEASED"])];
        let release = Report::Release(hapax_core::Ran::No);
        let ending =
            store.report(second.identity.claim_id(), grant.epoch, release, events).await.expect("report");
        assert_eq!(ending, Ending::Released);
    }
    let length = store.head(&stream).await.expect("head").map(|head| head.length);
    assert_eq!(length, Some(3), "a report that is sent again writes its events once");
}

/// L18, L8.
pub async fn journal_events_commit_with_the_decision_or_not_at_all<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let stream = Stream::new("execution/acme/prod/e-7").expect("a good name");
    let length = async || store.head(&stream).await.expect("head").map_or(0, |head| head.length);
    let decision = |seen, verb| Decision { seen, verb, actor: "op".into(), reason: "because".into() };

    let doubted = request("decided", "body", Terms::default());
    let id = doubted.identity.claim_id();
    let epoch = granted(&store, &doubted).await.epoch;
    store.report(id, epoch, Report::Doubt(Doubt::Stated), Vec::new()).await.expect("doubt");
    let settle = || decision(epoch, Verb::Settle(ok("by hand"), DAY));
    let conflict = store.decide_with(id, settle(), vec![write(&stream, Expect::Version(5), &["A"])]).await;
    assert_eq!(conflict.expect_err("a conflict").kind(), Kind::Conflict);
    assert!(matches!(store.peek(id).await.expect("peek"), Some(View::InDoubt { .. })), "nothing is decided");
    assert_eq!((length().await, store.audit(None, 10).await.expect("audit").items), (0, Vec::new()));

    let events = || vec![write(&stream, Expect::Version(0), &["A", "B"])];
    let done = store.decide_with(id, settle(), events()).await.expect("decide");
    assert!(matches!(done, Operated::Done(Some(_))), "{done:?}");
    let late = store.decide_with(id, settle(), events()).await.expect("sent again, it is no conflict");
    assert!(matches!(late, Operated::Changed { .. }), "{late:?}");
    assert_eq!(length().await, 2, "a decision that changes nothing writes no events");

    // What is settled must leave the memory tables first.
    let (settled, epoch) = settled(&store, "purged", ok("done")).await;
    let id = settled.identity.claim_id();
    let purge = || decision(epoch, Verb::Purge);
    let conflict = store.decide_with(id, purge(), vec![write(&stream, Expect::Version(9), &["C"])]).await;
    assert_eq!(conflict.expect_err("a conflict").kind(), Kind::Conflict);
    assert!(matches!(claim_again(&store, "purged").await, Verdict::Replay(_)));
    let done = store.decide_with(id, purge(), vec![write(&stream, Expect::Version(1), &["C"])]).await;
    assert_eq!(done.expect("decide"), Operated::Done(None));
    assert_eq!(length().await, 3);
}

/// What a holder saw is kept with the doubt, and told by inspection alone.
pub async fn a_doubt_keeps_its_cause<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let first = request("caused", "body", Terms::default());
    let id = first.identity.claim_id();
    let epoch = granted(&store, &first).await.epoch;
    let text = "half an answer: “42\n”, then\0the end";
    let doubt = Report::Release(hapax_core::Ran::Perhaps).because(text);
    assert_eq!(store.report(id, epoch, doubt, Vec::new()).await.expect("report"), Ending::InDoubt);
    let cause = async || store.record(id).await.expect("record").and_then(|record| record.claim.cause);
    assert_eq!(cause().await.expect("a cause").as_str(), "half an answer: “42 ”, then the end");
    store.report(id, epoch, Report::Settle(ok("late"), DAY), Vec::new()).await.expect("settle");
    assert_eq!(cause().await, None);
}

/// J2, J3.
pub async fn a_journal_is_chained_and_written_by_compare_and_set<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let stream = Stream::new("execution/acme/prod/e-1").expect("a good name");
    store.append(write(&stream, Expect::Version(0), &["A", "B"])).await.expect("append");
    let late = store.append(write(&stream, Expect::Version(0), &["X"])).await;
    assert_eq!(late.expect_err("a conflict").kind(), Kind::Conflict);
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (store, write) = (store.clone(), write(&stream, Expect::Any, &["C"]));
        writers.spawn(async move { store.append(write).await.expect("append") });
    }
    writers.join_all().await;
    let head = store.head(&stream).await.expect("head").expect("it exists");
    assert_eq!((head.length, head.version, head.status.as_str()), (22, 21, "RUNNING"));
    let (mut previous, mut seq) = (None, 0);
    while seq < head.length {
        for event in store.read(&stream, seq, 5).await.expect("read") {
            previous = Some(journal::verify(&stream, previous, seq, &event).expect("the chain holds"));
            seq += 1;
        }
    }
    assert_eq!(previous, head.hash);
    assert_eq!(store.read(&stream, 22, 5).await.expect("read"), []);
}

/// The registry.
pub async fn documents_change_by_compare_and_set<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let id = DocumentId::new("api-key", "k1").expect("a good name");
    assert_eq!(store.get(&id).await.expect("get"), None);
    assert_eq!(store.put(&id, 0, Bytes::from_static(b"one")).await.expect("put"), 1);
    assert_eq!(
        store.put(&id, 0, Bytes::from_static(b"two")).await.expect_err("conflict").kind(),
        Kind::Conflict
    );
    assert_eq!(store.put(&id, 1, Bytes::from_static(b"two")).await.expect("put"), 2);
    let found = store.get(&id).await.expect("get").expect("it exists");
    assert_eq!((found.version, &found.body[..]), (2, &b"two"[..]));
    for name in ["k3", "k2"] {
        store
            .put(&DocumentId::new("api-key", name).expect("a good name"), 0, Bytes::new())
            .await
            .expect("put");
    }
    store.put(&DocumentId::new("other", "k0").expect("a good name"), 0, Bytes::new()).await.expect("put");
    let names = |documents: Vec<hapax_core::registry::Document>| -> Vec<String> {
        documents.iter().map(|document| document.id.id().to_owned()).collect()
    };
    assert_eq!(names(store.list_documents("api-key", None, 2).await.expect("list")), ["k1", "k2"]);
    assert_eq!(names(store.list_documents("api-key", Some("k2"), 2).await.expect("list")), ["k3"]);
    assert_eq!(store.delete(&id, 1).await.expect_err("conflict").kind(), Kind::Conflict);
    store.delete(&id, 2).await.expect("delete");
    assert_eq!(store.get(&id).await.expect("get"), None);
}
