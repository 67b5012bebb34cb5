//! Streams: who may write, what a write sent again answers, what is read back, and what an erasure leaves (J2, J3, B9).

use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::Terms;
use hapax_core::journal::{
    Append, Author, Birth, Chain, Erasure, Event, Head, NewEvent, Runner, Status, Stream, StreamFilter, Walk,
};
use hapax_core::{
    Ending, Inspect as _, Journal as _, Kind, Leases as _, Ledger as _, Particular, Ran, Report, RunnerId,
    Scope, limits as core_limits,
};

use super::{AllPorts, DAY, Harness, granted, ok, request};
use crate::Lifecycle as _;

fn stream(name: &str) -> Stream {
    Stream::new(name).expect("a good name")
}

fn event(kind: &str, payload: &str) -> NewEvent {
    NewEvent::new(kind, payload.to_owned().into_bytes())
}

fn anyone(stream: &Stream, kinds: &[&str]) -> Append {
    let events = kinds.iter().map(|kind| event(kind, "{}")).collect();
    Append::new(stream.clone(), Author::Anyone { version: None }).with(events)
}

/// An execution with a runner of this session's or lease's.
async fn created<S: AllPorts>(store: &S, name: &str, runner: Runner) -> (Stream, Head) {
    let stream = stream(name);
    let subject = Some("user:alice".to_owned());
    let birth = Birth { agent: Some("planner".into()), subject, runner: Some(runner), chain: Chain::V2 };
    let mut create = Append::new(stream.clone(), Author::Creator(birth)).with(vec![event("CREATED", "{}")]);
    create.status = Some(Status::Running);
    let head = store.append(create).await.expect("create");
    (stream, head)
}

async fn read_all<S: AllPorts>(store: &S, stream: &Stream, limit: usize) -> Vec<Event> {
    let head = store.head(stream).await.expect("head").expect("it exists");
    let (mut walk, mut all) = (Walk::new(stream, head.chain), Vec::new());
    loop {
        let events = store.read(stream, walk.next(), limit).await.expect("read");
        if events.is_empty() {
            walk.finish(&head).expect("it ends as the head says");
            return all;
        }
        events.iter().for_each(|event| walk.step(event).expect("the chain holds"));
        all.extend(events);
    }
}

/// J2, L13: with events and without.
pub async fn an_append_sent_again_writes_nothing_and_answers_its_own_head<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let stream = stream("receipts/acme");
    let writes = [anyone(&stream, &["A", "B"]), anyone(&stream, &[]), anyone(&stream, &["C"])];
    let mut heads = Vec::new();
    for write in &writes {
        harness.advance(Duration::from_secs(1));
        heads.push(store.append(write.clone()).await.expect("append"));
    }
    assert_eq!(
        heads.iter().map(|head| (head.version, head.length)).collect::<Vec<_>>(),
        [(1, 2), (2, 2), (3, 3)]
    );
    for (write, head) in writes.iter().zip(&heads) {
        assert_eq!(&store.append(write.clone()).await.expect("append"), head, "its own head");
    }
    assert_eq!(store.head(&stream).await.expect("head").as_ref(), heads.last());
    assert_eq!(read_all(&store, &stream, 10).await.len(), 3);
    let mut same = tokio::task::JoinSet::new();
    let write = anyone(&stream, &["D"]);
    for _ in 0..20 {
        let (store, write) = (store.clone(), write.clone());
        same.spawn(async move { store.append(write).await.expect("append") });
    }
    let heads = same.join_all().await;
    assert!(heads.iter().all(|head| *head == heads[0] && head.length == 4), "{heads:?}");
}

/// J2, J4: whatever the version; and a result is written whoever the runner is.
pub async fn only_the_runner_writes_until_its_lease_has_lapsed<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let lease = store.open_lease(&Scope::local(), Duration::from_secs(10)).await.expect("lease");
    let runner = Runner::fresh(lease.id);
    let (stream, head) = created(&store, "execution/acme/prod/e-1", runner).await;
    assert_eq!((head.runner, head.agent.as_deref()), (Some(runner), Some("planner")));
    let by = |id, version| {
        Append::new(stream.clone(), Author::Runner { id, version }).with(vec![event("PLAN", "{}")])
    };
    let kind = async |write| store.append(write).await.expect_err("refused").kind();
    for version in [0, 1, 2] {
        assert_eq!(kind(by(RunnerId::random(), version)).await, Kind::Fenced);
    }
    assert_eq!(kind(anyone(&stream, &["X"])).await, Kind::Fenced);
    let late = store.append(by(runner.id, 7)).await.expect_err("refused");
    assert_eq!(late.particular(), Some(&Particular::VersionConflict { expected: 7, found: 1 }));
    assert_eq!(late.kind(), Kind::Conflict);
    let plan = by(runner.id, 1);
    assert_eq!(store.append(plan.clone()).await.expect("the runner's own").version, 2);

    let next = Runner::fresh(store.session().id);
    let take = |version, force| {
        let mut take = Append::new(stream.clone(), Author::Successor { runner: next, version, force });
        take.status = Some(Status::Recovering);
        take
    };
    assert_eq!(kind(take(2, false)).await, Kind::Fenced, "its lease has not lapsed");
    harness.advance(Duration::from_secs(9));
    store.renew_session().await.expect("renew");
    store.renew_lease(&Scope::local(), lease.id).await.expect("renew");
    harness.advance(Duration::from_secs(9));
    assert_eq!(kind(take(2, false)).await, Kind::Fenced, "it was renewed");
    harness.advance(Duration::from_secs(1));
    assert_eq!(kind(take(1, false)).await, Kind::Conflict, "its version counts all the same");
    let taken = store.append(take(2, false)).await.expect("it has lapsed");
    assert_eq!((taken.runner, taken.status), (Some(next), Some(Status::Recovering)));
    assert_eq!(kind(by(runner.id, taken.version)).await, Kind::Fenced, "the former one");
    assert_eq!(store.append(plan).await.expect("what it wrote before").version, 2);
    let result = Append::new(stream.clone(), Author::Step).with(vec![event("RESULT", "{}")]);
    let once = store.append(result.clone()).await.expect("a result");
    assert_eq!(store.append(result).await.expect("a result"), once);
    let other = Runner::fresh(store.session().id);
    let forced = Author::Successor { runner: other, version: once.version, force: true };
    let head = store.append(Append::new(stream.clone(), forced)).await.expect("forced");
    assert_eq!(head.runner, Some(other));
}

/// J2: it never makes a stream, and does not go on after the end.
pub async fn a_result_needs_a_stream_that_is_open<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let runner = Runner::fresh(store.session().id);
    let result =
        |stream: &Stream| Append::new(stream.clone(), Author::Step).with(vec![event("RESULT", "{}")]);
    let absent = stream("execution/acme/prod/none");
    assert_eq!(store.append(result(&absent)).await.expect_err("refused").kind(), Kind::Conflict);
    assert_eq!(store.head(&absent).await.expect("head"), None);
    for status in [Status::Completed, Status::Failed] {
        let name = format!("execution/acme/prod/{}", status.as_str());
        let (stream, _) = created(&store, &name, runner).await;
        let mut end = Append::new(stream.clone(), Author::Runner { id: runner.id, version: 1 });
        end.status = Some(status);
        let head = store.append(end).await.expect("the end");
        assert_eq!(store.append(result(&stream)).await.expect_err("refused").kind(), Kind::Conflict);
        assert_eq!(store.head(&stream).await.expect("head"), Some(head), "nothing is written");
        let again = Append::new(stream, Author::Creator(Birth::default()));
        let refused = store.append(again).await.expect_err("refused");
        assert_eq!(refused.particular(), Some(&Particular::VersionConflict { expected: 0, found: 2 }));
    }
}

/// L18: with its status and its times.
pub async fn streams_are_listed_by_prefix_and_status_in_pages<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let lease = store.open_lease(&Scope::local(), Duration::from_secs(10)).await.expect("lease");
    let runner = Runner::fresh(lease.id);
    let start = harness.now();
    for number in 0..7 {
        let name = format!("execution/acme/prod/e-{number}");
        let (stream, _) = created(&store, &name, runner).await;
        if number % 2 == 0 {
            harness.advance(Duration::from_secs(1));
            let mut pause = Append::new(stream, Author::Runner { id: runner.id, version: 1 });
            pause.status = Some(Status::Paused);
            store.append(pause).await.expect("pause");
        }
    }
    for other in ["execution/acmeb/prod/e-1", "execution/acm", "receipts/acme"] {
        store.append(anyone(&stream(other), &["A"])).await.expect("append");
    }
    let listed = async |prefix: &str, status, limit| {
        let filter = StreamFilter { prefix: prefix.into(), status };
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = store.list_streams(&filter, after.as_deref(), limit).await.expect("list");
            assert!(page.items.len() <= limit && page.damaged.is_empty());
            found.extend(page.items);
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    };
    for limit in [1, 2, 100] {
        let all = listed("execution/acme/", None, limit).await;
        let names: Vec<&str> = all.iter().map(|listed| listed.stream.as_str()).collect();
        let expected: Vec<String> = (0..7).map(|number| format!("execution/acme/prod/e-{number}")).collect();
        assert_eq!(names, expected, "{limit} at a time");
        assert!(all.iter().all(|listed| listed.lives));
        let paused = listed("execution/acme/", Some(Status::Paused), limit).await;
        assert_eq!(paused.len(), 4);
        assert_eq!(listed("execution/", Some(Status::Running), limit).await.len(), 3);
        assert_eq!(listed("", None, limit).await.len(), 10);
        assert_eq!(listed("receipts/", None, limit).await.len(), 1);
    }
    let first = &listed("execution/acme/prod/e-0", None, 10).await[0].head;
    assert_eq!((first.created_at, first.updated_at), (start, start.after(Duration::from_secs(1))));
    harness.advance(Duration::from_secs(60));
    assert!(
        listed("execution/acme/", None, 10).await.iter().all(|listed| !listed.lives),
        "the lease is over"
    );
}

/// J3: it belongs to an event, and is kept until another one comes.
pub async fn a_checkpoint_is_kept_until_another_one_comes<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let stream = stream("execution/acme/prod/e-1");
    assert_eq!(store.checkpoint(&stream).await.expect("checkpoint"), None);
    let large = Bytes::from(vec![7; 1024 * 1024]);
    for (round, bytes) in [large, Bytes::from_static(b"\0\xff")].into_iter().enumerate() {
        let mut write = anyone(&stream, &["PLAN", "ITERATION_COMPLETE"]);
        write.checkpoint = Some(bytes.clone());
        let head = store.append(write).await.expect("append");
        assert_eq!(head.checkpoint, Some(4 * round as u64 + 1));
        for _ in 0..2 {
            store.append(anyone(&stream, &["INTENT"])).await.expect("append");
            let kept = store.checkpoint(&stream).await.expect("checkpoint").expect("there is one");
            assert_eq!((Some(kept.seq), kept.bytes.as_ref()), (head.checkpoint, Some(&bytes)));
        }
    }
    let events = read_all(&store, &stream, 3).await;
    assert_eq!(events.iter().filter(|event| event.checkpoint.is_some()).count(), 2);
}

/// A page of events has a bound in bytes, and at least one event.
pub async fn a_read_is_bounded_in_bytes<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let stream = stream("execution/acme/prod/e-1");
    for _ in 0..4 {
        let large = NewEvent::new("LARGE", vec![b'x'; core_limits::MAX_PAYLOAD_BYTES]);
        let write = Append::new(stream.clone(), Author::Anyone { version: None }).with(vec![large]);
        store.append(write).await.expect("append");
    }
    let most = core_limits::MAX_READ_BYTES / core_limits::MAX_PAYLOAD_BYTES;
    assert_eq!(store.read(&stream, 0, 100).await.expect("read").len(), most);
    assert_eq!(store.read(&stream, 3, 100).await.expect("read").len(), 1);
    assert_eq!(store.read(&stream, 0, 1).await.expect("read").len(), 1);
    assert_eq!(read_all(&store, &stream, 100).await.len(), 4);
    assert_eq!(store.read(&stream, 4, 100).await.expect("read"), []);
    assert_eq!(store.read(&stream, u64::MAX, 100).await.expect("read"), []);
}

/// B9, J3: those of one subject, and nobody else's.
pub async fn a_subjects_payloads_are_erased_and_the_chain_still_verifies<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let runner = Runner::fresh(store.session().id);
    let (stream, _) = created(&store, "execution/acme/prod/e-1", runner).await;
    for version in 1..4 {
        let of = |subject: &str| NewEvent { subject: Some(subject.into()), ..event("NOTE", "\"secret\"") };
        let events = vec![of("user:bob"), event("NOTE", "\"secret\"")];
        let mut write = Append::new(stream.clone(), Author::Runner { id: runner.id, version }).with(events);
        write.checkpoint = Some(Bytes::from_static(b"secret"));
        store.append(write).await.expect("append");
    }
    let head = store.head(&stream).await.expect("head");
    let (mut erased, mut from) = (0, Some(0));
    while let Some(next) = from {
        let round = store.erase_events(&stream, "user:alice", next, 3).await.expect("erase");
        (erased, from) = (erased + round.erased, round.next);
    }
    assert_eq!(erased, 4);
    assert_eq!(store.head(&stream).await.expect("head"), head, "the chain is what it was");
    let events = read_all(&store, &stream, 2).await;
    let left: Vec<u64> =
        events.iter().filter(|event| event.payload.bytes().is_some()).map(|event| event.seq).collect();
    assert_eq!(left, [1, 3, 5], "another subject's");
    let checkpoint = store.checkpoint(&stream).await.expect("checkpoint").expect("there was one");
    assert_eq!((checkpoint.seq, checkpoint.bytes), (6, None));
    let again = store.erase_events(&stream, "user:alice", 0, 100).await.expect("erase");
    assert_eq!(again, Erasure { erased: 0, next: None });
}

/// J3: chosen when it is made.
pub async fn a_stream_keeps_the_chain_that_it_was_made_with<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let stream = stream("execution/acme/prod/old");
    let birth = Birth { chain: Chain::V1, ..Birth::default() };
    let create = Append::new(stream.clone(), Author::Creator(birth)).with(vec![event("A", "{}")]);
    store.append(create).await.expect("create");
    let head = store.append(anyone(&stream, &["B"])).await.expect("append");
    assert_eq!(head.chain, Chain::V1);
    let events = read_all(&store, &stream, 10).await;
    // What `printf 'GENESIS{}' | sha256sum` says, and the same of that text with `{}` behind it.
    assert_eq!(
        events.iter().map(|event| event.hash.to_hex()).collect::<Vec<_>>(),
        [
            "cbe205bed6ddb7e15c01dab12bc6f3b69069ac4fa10525cdf760ffd4d64460a7",
            "e179737dae61e2aba64e3d61fec1624180de42e806110f42799daea59bf5104e"
        ]
    );
}

/// L18: what is told twice is written once, and what was told without events is not told to have them.
pub async fn a_report_has_its_events_or_says_that_it_has_not<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let stream = stream("receipts/acme");
    let held = request("renewed", "body", Terms::default());
    let (id, epoch) = (held.identity.claim_id(), granted(&store, &held).await.epoch);
    for renewal in [Report::Renew, Report::Cleared] {
        let refused = store.report(id, epoch, renewal, vec![anyone(&stream, &["A"])]).await;
        assert_eq!(refused.expect_err("refused").kind(), Kind::Invalid);
    }
    type Make = fn() -> Report;
    let reports: [(&str, Make); 4] = [
        ("settled", || Report::Settle(ok("done"), DAY)),
        ("released", || Report::Release(Ran::No)),
        ("unknown", || Report::Release(Ran::Perhaps)),
        ("doubted", || Report::Doubt(hapax_core::Doubt::Stated)),
    ];
    for (number, (key, report)) in reports.into_iter().enumerate() {
        let held = request(key, "body", Terms::default());
        let (id, epoch) = (held.identity.claim_id(), granted(&store, &held).await.epoch);
        let events = vec![anyone(&stream, &["A"])];
        let told = store.report(id, epoch, report(), events.clone()).await.expect("report");
        for _ in 0..2 {
            let again = store.report(id, epoch, report(), events.clone()).await.expect("sent again");
            assert!(again == told || matches!(again, Ending::AlreadySettled(_)), "{key}: {again:?}");
        }
        assert_eq!(read_all(&store, &stream, 10).await.len(), number + 1, "{key}");
        let other = store.report(id, epoch, report(), vec![anyone(&stream, &["B"])]).await;
        assert_eq!(other.expect_err("it was told without these").kind(), Kind::Conflict, "{key}");
        assert_eq!(read_all(&store, &stream, 10).await.len(), number + 1, "{key}");
    }
    let held = request("fenced", "body", Terms::default());
    let (id, epoch) = (held.identity.claim_id(), granted(&store, &held).await.epoch);
    let (stream, _) = created(&store, "execution/acme/prod/e-1", Runner::fresh(store.session().id)).await;
    let settle = || Report::Settle(ok("done"), DAY);
    let refused = store.report(id, epoch, settle(), vec![anyone(&stream, &["A"])]).await;
    assert_eq!(refused.expect_err("refused").kind(), Kind::Fenced);
    let result = Append::new(stream, Author::Step).with(vec![event("RESULT", "{}")]);
    assert!(matches!(store.report(id, epoch, settle(), vec![result]).await, Ok(Ending::Settled(_))));
}
