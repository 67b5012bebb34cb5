//! What operators see and do.

use std::collections::HashSet;
use std::time::Duration;

use hapax_core::claim::audit::{About, CONTRADICTED, Note, Setting};
use hapax_core::claim::{Terms, Verb};
use hapax_core::registry::DocumentId;
use hapax_core::{
    ClaimRequest, Counts, Decision, Doubt, Ending, Epoch, Filter, Fingerprint, Inspect, Key, Kind, Ledger,
    ListOrder, Operated, Operation, Outcome, Page, Project, Record, Registry, Report, Retention, Scope,
    Source, StateName, Subject, SweepReport, Tenant, Width,
};

use super::{AllPorts, DAY, Harness, granted, ok, request};

fn of(tenant: &str, project: &str, operation: &str, key: &str) -> ClaimRequest {
    by("user:alice", tenant, project, operation, key)
}

fn by(subject: &str, tenant: &str, project: &str, operation: &str, key: &str) -> ClaimRequest {
    let scope = Scope::new(
        Tenant::new(tenant).expect("a good name"),
        Project::new(project).expect("a good name"),
        Subject::parse(subject).expect("a good subject"),
    );
    let operation = Operation::new(operation).expect("a good name");
    let key = Key::new(key).expect("a good key");
    let identity = hapax_core::Identity::new(Source::Header, scope, Width::Subject, operation, key);
    ClaimRequest::new(identity, Fingerprint::of_bytes(b"body"))
}

async fn list_all<S: AllPorts>(store: &S, filter: &Filter, limit: usize) -> Vec<Record> {
    let (mut found, mut mark) = (Vec::new(), None::<String>);
    loop {
        let Page { items, next, .. } = store.list(filter, mark.as_deref(), limit).await.expect("list");
        assert!(items.len() <= limit);
        found.extend(items);
        match next {
            Some(next) => mark = Some(next),
            None => return found,
        }
    }
}

/// H7, K8.
pub async fn a_public_id_leads_only_its_own_caller_to_a_claim<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let scope = |tenant: &str, project: &str, subject: &str| {
        Scope::new(
            Tenant::new(tenant).expect("a good name"),
            Project::new(project).expect("a good name"),
            Subject::parse(subject).expect("a good subject"),
        )
    };
    let callers = [
        scope("acme", "prod", "user:alice"),
        scope("acme", "prod", "user:bob"),
        scope("acme", "test", "user:alice"),
        scope("globex", "prod", "user:alice"),
    ];
    let widths = [(Width::Subject, 1), (Width::Project, 2), (Width::Tenant, 3)];
    for (number, (width, who_may)) in widths.into_iter().enumerate() {
        let (operation, key) =
            (Operation::new("pay").expect("a name"), Key::new(format!("k{number}")).expect("a key"));
        let identity = hapax_core::Identity::new(Source::Header, callers[0].clone(), width, operation, key);
        let request = ClaimRequest::new(identity.clone(), Fingerprint::of_bytes(b"body"));
        let grant = granted(&store, &request).await;
        for (index, caller) in callers.iter().enumerate() {
            let found = store.locate(grant.operation_id, caller).await.expect("locate");
            assert_eq!(found, (index < who_may).then(|| identity.clone()), "{width:?}, {caller:?}");
        }
        let other = hapax_core::OperationId::mint(&identity.claim_id());
        assert_eq!(store.locate(other, &callers[0]).await.expect("locate"), None);
        let settle = Report::Settle(ok("done"), DAY);
        store.report(identity.claim_id(), grant.epoch, settle, Vec::new()).await.expect("settle");
        harness.advance(Duration::from_secs(25 * 3600));
        assert_eq!(store.locate(grant.operation_id, &callers[0]).await.expect("locate"), None, "expired");
    }
}

/// K5, L17: where the width is wider than subject, a claim is several callers', and its record names who asked first.
pub async fn a_record_names_who_asked_first<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let (alice, bob) = ("user:alice", "user:bob");
    let asked = |subject: &str, key: &str| {
        let narrow = by(subject, "acme", "prod", "pay", key);
        let (scope, operation) = (narrow.identity.scope().clone(), narrow.identity.operation().clone());
        let key = narrow.identity.key().clone();
        let identity = hapax_core::Identity::new(Source::Header, scope, Width::Project, operation, key);
        ClaimRequest::new(identity, narrow.fingerprint)
    };
    let soon_over = Report::Settle(ok("done"), Retention::For(Duration::from_secs(1)));
    // What is taken over stays whose it was; what is granted anew is whose it is now.
    let ways = [("over", Report::Release(hapax_core::Ran::No), alice), ("anew", soon_over, bob)];
    for (key, report, first) in ways {
        let request = asked(alice, key);
        let (id, grant) = (request.identity.claim_id(), granted(&store, &request).await);
        store.report(id, grant.epoch, report, Vec::new()).await.expect("report");
        harness.advance(Duration::from_secs(1));
        granted(&store, &asked(bob, key)).await;
        let record = store.record(id).await.expect("record").expect("it is there");
        assert_eq!(record.identity, asked(first, key).identity, "{key}");
    }
}

/// L17.
pub async fn claims_are_listed_in_pages_and_counted<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let mut wanted = HashSet::new();
    for number in 0..60 {
        let (tenant, operation) = (["acme", "globex"][number % 2], ["pay", "ship", "note"][number % 3]);
        let request = of(tenant, "prod", operation, &format!("k{number}"));
        let grant = granted(&store, &request).await;
        let id = request.identity.claim_id();
        let report = match number % 4 {
            0 => Report::Settle(ok("done"), DAY),
            1 => Report::Doubt(Doubt::Stated),
            2 => Report::Release(hapax_core::Ran::No),
            _ => Report::Renew,
        };
        store.report(id, grant.epoch, report, Vec::new()).await.expect("report");
        wanted.insert(id);
    }
    let all = list_all(&store, &Filter::default(), 7).await;
    let found: HashSet<_> = all.iter().map(|record| record.identity.claim_id()).collect();
    assert_eq!((all.len(), found), (60, wanted));

    let acme = Filter { tenant: Some("acme".into()), ..Filter::default() };
    assert_eq!(list_all(&store, &acme, 100).await.len(), 30);
    let doubts = Filter { state: Some(StateName::InDoubt), ..Filter::default() };
    assert_eq!(list_all(&store, &doubts, 4).await.len(), 15);
    let acme_ships = Filter { operation: Some("ship".into()), ..acme.clone() };
    assert_eq!(list_all(&store, &acme_ships, 3).await.len(), 10);
    let one = Filter { key: Some("k8".into()), subject: Some("user:alice".into()), ..acme.clone() };
    assert_eq!(list_all(&store, &one, 3).await.len(), 1);
    harness.advance(Duration::from_secs(5));
    granted(&store, &of("acme", "prod", "pay", "young")).await;
    let old = Filter { opened_before: Some(harness.now()), ..Filter::default() };
    assert_eq!(list_all(&store, &old, 50).await.len(), 60);

    let counted = store.count(&Filter::default()).await.expect("count");
    assert_eq!(counted, Counts { held: 16, settled: 15, in_doubt: 15, released: 15 });
    let acme = store.count(&acme).await.expect("count");
    assert_eq!(acme, Counts { held: 1, settled: 15, in_doubt: 0, released: 15 - 1 + 1 });
    let doubts =
        store.count(&Filter { state: Some(StateName::InDoubt), ..Filter::default() }).await.expect("count");
    assert_eq!(doubts, Counts { in_doubt: 15, ..Counts::default() });
    assert!(store.count(&Filter { key: Some("k8".into()), ..Filter::default() }).await.is_err());
    assert!(store.list(&Filter::default(), Some("no such mark"), 5).await.is_err());
}

/// L17.
pub async fn the_newest_claims_of_an_operation_are_listed_first<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    for number in 0..40 {
        // Others lie between them.
        granted(&store, &of("acme", "prod", "ship", &format!("k{number}"))).await;
        granted(&store, &of("globex", "prod", "pay", &format!("k{number}"))).await;
        let request = of("acme", "prod", "pay", &format!("k{number}"));
        let grant = granted(&store, &request).await;
        let report = match number % 4 {
            0 => Report::Settle(ok("done"), DAY),
            1 => Report::Doubt(Doubt::Stated),
            2 => Report::Release(hapax_core::Ran::No),
            _ => Report::Renew,
        };
        store.report(request.identity.claim_id(), grant.epoch, report, Vec::new()).await.expect("report");
        harness.advance(Duration::from_millis(1));
    }
    let some = |text: &str| Some(text.to_owned());
    let oldest =
        Filter { tenant: some("acme"), project: some("prod"), operation: some("pay"), ..Filter::default() };
    let keys = |found: Vec<Record>| -> Vec<String> {
        found.into_iter().map(|record| record.identity.key().as_str().to_owned()).collect()
    };
    for state in [None, Some(StateName::Settled), Some(StateName::Held), Some(StateName::InDoubt)] {
        let oldest = Filter { state, ..oldest.clone() };
        let newest = Filter { order: ListOrder::Newest, ..oldest.clone() };
        let mut wanted = keys(list_all(&store, &oldest, 100).await);
        wanted.reverse();
        assert_eq!(wanted.len(), if state.is_none() { 40 } else { 10 }, "{state:?}");
        for limit in [1, 7, 100] {
            assert_eq!(keys(list_all(&store, &newest, limit).await), wanted, "{state:?} by {limit}");
        }
    }
    let newest = Filter { order: ListOrder::Newest, ..oldest.clone() };
    let one = Filter { key: some("k8"), ..newest.clone() };
    assert_eq!(keys(list_all(&store, &one, 3).await), ["k8"]);
    let older = Filter { opened_before: Some(harness.now()), ..newest.clone() };
    let first = store.list(&older, None, 3).await.expect("list");
    assert_eq!(keys(first.items), ["k39", "k38", "k37"]);
    // What comes meanwhile is on no later page, and is the first of the next look.
    granted(&store, &of("acme", "prod", "pay", "young")).await;
    let rest = store.list(&older, first.next.as_deref(), 100).await.expect("list");
    assert_eq!((rest.next, keys(rest.items).first().map(String::as_str)), (None, Some("k36")));
    assert_eq!(keys(list_all(&store, &newest, 1).await)[..2], ["young", "k39"]);
    assert_eq!(list_all(&store, &older, 100).await.len(), 40, "it is younger");
    let none = Filter { operation: some("nothing"), ..newest.clone() };
    assert_eq!(list_all(&store, &none, 5).await.len(), 0);
    for part in [
        Filter { tenant: None, ..newest.clone() },
        Filter { project: None, ..newest.clone() },
        Filter { operation: None, ..newest.clone() },
    ] {
        let refused = store.list(&part, None, 5).await.map(|_| ()).map_err(|error| error.kind());
        assert_eq!(refused, Err(Kind::Invalid), "{part:?} would have to be merged");
    }
}

/// L17.
pub async fn a_listing_looks_at_every_part_of_its_filter<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let two = |number: usize, bit: usize, names: [&'static str; 2]| names[number >> bit & 1];
    for number in 0..32 {
        let (tenant, project) = (two(number, 0, ["acme", "globex"]), two(number, 1, ["prod", "test"]));
        let (operation, key) = (two(number, 2, ["pay", "ship"]), two(number, 3, ["k1", "k2"]));
        let subject = two(number, 4, ["user:alice", "user:bob"]);
        let request = by(subject, tenant, project, operation, key);
        let grant = granted(&store, &request).await;
        if number % 3 == 0 {
            let doubt = Report::Doubt(Doubt::Stated);
            store.report(request.identity.claim_id(), grant.epoch, doubt, Vec::new()).await.expect("doubt");
        }
    }
    let some = |text: &str| Some(text.to_owned());
    let all = Filter {
        tenant: some("globex"),
        project: some("test"),
        operation: some("ship"),
        key: some("k2"),
        subject: some("user:bob"),
        ..Filter::default()
    };
    let parts: [fn(&Filter) -> Filter; 5] = [
        |all| Filter { tenant: all.tenant.clone(), ..Filter::default() },
        |all| Filter { project: all.project.clone(), ..Filter::default() },
        |all| Filter { operation: all.operation.clone(), ..Filter::default() },
        |all| Filter { key: all.key.clone(), ..Filter::default() },
        |all| Filter { subject: all.subject.clone(), ..Filter::default() },
    ];
    for part in parts {
        let filter = part(&all);
        let found = list_all(&store, &filter, 5).await;
        assert_eq!(found.len(), 16, "{filter:?}");
        // Claims that are not settled may be found by another way.
        let states = [(StateName::Held, 10..=11), (StateName::InDoubt, 5..=6), (StateName::Settled, 0..=0)];
        for (state, wanted) in states {
            let filter = Filter { state: Some(state), ..filter.clone() };
            let found = list_all(&store, &filter, 5).await.len();
            assert!(wanted.contains(&found), "{found} for {filter:?}");
        }
    }
    assert_eq!(list_all(&store, &all, 5).await.len(), 1);
    for part in [Filter { subject: some("user:bob"), ..Filter::default() }, parts[3](&all)] {
        assert!(store.count(&part).await.is_err(), "a count by {part:?} would have to read everything");
    }
}

/// L8, L17.
pub async fn a_purged_key_that_is_used_again_is_listed_once<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    for round in 0..3 {
        let request = request("again", "body", Terms::default());
        let (id, grant) = (request.identity.claim_id(), granted(&store, &request).await);
        let all = list_all(&store, &Filter::default(), 1).await;
        assert_eq!(all.len(), 1, "round {round}");
        let settle = Report::Settle(ok("done"), DAY);
        store.report(id, grant.epoch, settle, Vec::new()).await.expect("settle");
        let (actor, reason) = ("ann".to_owned(), "alice asked".to_owned());
        let purge = Decision { seen: grant.epoch, verb: Verb::Purge, actor, reason };
        assert_eq!(store.decide(id, purge).await.expect("purge"), Operated::Done(None));
        assert_eq!(store.count(&Filter::default()).await.expect("count"), Counts::default());
    }
}

/// Invariant 4: by the public id alone only operators read.
pub async fn a_claim_is_found_by_its_public_id<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let first = request("found", "body", Terms::default());
    granted(&store, &first).await;
    let record = store.find(first.operation_id).await.expect("find").expect("it is there");
    assert_eq!(record.identity, first.identity);
    let other = hapax_core::OperationId::for_claim(&first.identity.claim_id(), [9; 6]);
    assert_eq!(store.find(other).await.expect("find"), None);
}

/// L8.
pub async fn decisions_are_audited_and_so_is_a_settle_that_contradicts_one<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let first = request("audited", "body", Terms::default());
    let id = first.identity.claim_id();
    let grant = granted(&store, &first).await;
    store.report(id, grant.epoch, Report::Doubt(Doubt::Stated), Vec::new()).await.expect("doubt");
    let decide = |seen: Epoch, verb: Verb| {
        let decision = Decision { seen, verb, actor: "ann".into(), reason: "called the bank".into() };
        store.decide(id, decision)
    };
    let settle = || Verb::Settle(ok("by hand"), DAY);
    let two = tokio::join!(decide(grant.epoch, settle()), decide(grant.epoch, settle()));
    let done: Vec<Epoch> = [two.0, two.1]
        .into_iter()
        .filter_map(|operated| match operated.expect("decide") {
            Operated::Done(epoch) => epoch,
            _ => None,
        })
        .collect();
    assert_eq!(done.len(), 1, "of two operators at once one wins");
    let late =
        store.report(id, grant.epoch, Report::Settle(ok("true"), DAY), Vec::new()).await.expect("settle");
    assert_eq!(late, Ending::LostLease);
    assert!(
        matches!(decide(done[0], Verb::Reopen).await, Ok(Operated::Done(Some(epoch))) if epoch > done[0])
    );

    let page = store.audit(None, 10).await.expect("audit");
    let verbs: Vec<&str> = page.items.iter().map(|event| event.verb.as_str()).collect();
    assert_eq!(verbs, ["reopen", CONTRADICTED, "resolve-settle"], "newest first");
    assert_eq!(page.items[0].outcome, Some(ok("by hand")), "a reopen keeps the old outcome in the audit");
    assert_eq!(page.items[1].outcome, Some(ok("true")), "an outcome that came too late is not lost");
    assert_eq!((page.items[2].actor.as_str(), page.items[2].reason.as_str()), ("ann", "called the bank"));
    assert_eq!(page.items[2].operation_id(), Some(first.operation_id));
    let first_page = store.audit(None, 2).await.expect("audit");
    let rest = store.audit(first_page.next.as_deref(), 2).await.expect("audit");
    assert_eq!((first_page.items.len(), rest.items.len(), rest.next), (2, 1, None));
}

/// L8.
pub async fn what_operators_set_is_written_with_its_audit_event_or_not_at_all<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let id = DocumentId::new("retention", "critical").expect("a good id");
    let setting = |verb: &str, before: Option<&str>, after: Option<&str>| Setting {
        verb: verb.into(),
        actor: "ann".into(),
        reason: "the bank asks".into(),
        name: "retention/critical".into(),
        before: before.map(str::to_owned),
        after: after.map(str::to_owned),
    };
    let set = || setting("retention-set", None, Some("2d"));
    store.decide_setting(&id, 0, Some("{}".into()), set()).await.expect("set");
    let set_at = store.get(&id).await.expect("get").expect("it was written").updated_at;
    for body in [Some("{}".into()), None] {
        let late = store.decide_setting(&id, 0, body, set()).await.expect_err("somebody was faster");
        assert_eq!(late.kind(), Kind::Conflict);
    }
    harness.advance(Duration::from_secs(1));
    let unset = setting("retention-unset", Some("2d"), None);
    store.decide_setting(&id, 1, None, unset.clone()).await.expect("unset");
    assert_eq!(store.get(&id).await.expect("get"), None);
    let page = store.audit(None, 10).await.expect("audit");
    assert_eq!((page.items.len(), page.next), (2, None), "what was refused is not told");
    assert_eq!(page.items[1], set().event(set_at));
    assert!(page.items[0].at > set_at);
    assert_eq!(page.items[0], unset.event(page.items[0].at));
}

/// L8.
pub async fn a_note_is_written_down_and_changes_nothing<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let request = request("noted", "body", Terms::default());
    let grant = granted(&store, &request).await;
    let before = store.record(request.identity.claim_id()).await.expect("record").expect("it is there");
    let state = before.claim.state.name();
    let about = About::Claim {
        operation_id: request.operation_id,
        epoch: grant.epoch,
        before: state,
        after: Some(state),
    };
    let note =
        |about| Note { verb: "note".into(), actor: "ann".into(), reason: "asked the bank".into(), about };
    store.note(note(about.clone())).await.expect("note");
    let setting = About::Setting { name: "key/hpx_1".into(), before: None, after: None };
    store.note(note(setting.clone())).await.expect("note");
    let page = store.audit(None, 10).await.expect("audit");
    let told: Vec<_> = page.items.iter().map(|event| (&event.about, event.reason.as_str())).collect();
    assert_eq!(told, [(&setting, "asked the bank"), (&about, "asked the bank")]);
    let after = store.record(request.identity.claim_id()).await.expect("record");
    assert_eq!(after, Some(before));
}

/// L17.
pub async fn shelves_are_listed_by_name_with_what_is_on_them<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    assert_eq!(store.shelves(&Filter::default(), None, 10).await.expect("shelves").items, []);
    for (tenant, key) in [("b", "1"), ("a", "1"), ("a", "2")] {
        let request = of(tenant, "prod", "pay", key);
        let grant = granted(&store, &request).await;
        if key == "2" {
            let settle = Report::Settle(Outcome::NotKept { status: 200 }, DAY);
            store.report(request.identity.claim_id(), grant.epoch, settle, Vec::new()).await.expect("settle");
        }
    }
    let all = store.shelves(&Filter::default(), None, 10).await.expect("shelves");
    let told: Vec<_> = all
        .items
        .iter()
        .map(|shelf| (shelf.tenant.as_str(), shelf.counts.held, shelf.counts.settled))
        .collect();
    assert_eq!((told, all.next), (vec![("a", 1, 1), ("b", 1, 0)], None));
    let first = store.shelves(&Filter::default(), None, 1).await.expect("shelves");
    assert_eq!(first.items, all.items[..1]);
    let rest = store.shelves(&Filter::default(), first.next.as_deref(), 1).await.expect("shelves");
    assert_eq!((&rest.items[..], rest.next), (&all.items[1..], None));
    let only = Filter { tenant: Some("b".into()), ..Filter::default() };
    assert_eq!(store.shelves(&only, None, 10).await.expect("shelves").items, all.items[1..]);
    let wrong = store.shelves(&Filter::default(), Some("nowhere"), 10).await.expect_err("no mark");
    assert_eq!(wrong.kind(), Kind::Invalid);
}

/// L10.
pub async fn sweeping_is_bounded_and_says_whether_more_is_due<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    for number in 0..30 {
        let request = request(&format!("swept{number}"), "body", Terms::default());
        let grant = granted(&store, &request).await;
        if number < 20 {
            let settle = Report::Settle(Outcome::NotKept { status: 200 }, DAY);
            store.report(request.identity.claim_id(), grant.epoch, settle, Vec::new()).await.expect("settle");
        }
    }
    harness.advance(Duration::from_secs(86_400));
    let mut total = SweepReport::default();
    for _ in 0..100 {
        let report = store.sweep(7).await.expect("sweep");
        assert!(report.forgotten + report.released + report.in_doubt <= 7, "{report:?}");
        total.forgotten += report.forgotten;
        total.in_doubt += report.in_doubt;
        if !report.more {
            break;
        }
    }
    assert_eq!((total.forgotten, total.in_doubt), (20, 10));
    let counted = store.count(&Filter::default()).await.expect("count");
    assert_eq!(counted, Counts { in_doubt: 10, ..Counts::default() });
}

/// L10.
pub async fn what_is_kept_for_long_does_not_keep_the_sweeper_from_what_is_due<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    for number in 0..30 {
        let request = request(&format!("long{number}"), "body", Terms::default());
        let grant = granted(&store, &request).await;
        let kept = Duration::from_secs(if number < 29 { 61 } else { 60 });
        let settle = Report::Settle(ok("done"), Retention::For(kept));
        store.report(request.identity.claim_id(), grant.epoch, settle, Vec::new()).await.expect("settle");
        harness.advance(Duration::from_millis(1));
    }
    harness.advance(Duration::from_secs(60) - Duration::from_millis(1));
    let swept = store.sweep(5).await.expect("sweep");
    assert_eq!((swept.forgotten, swept.more), (1, false));
    let counted = store.count(&Filter::default()).await.expect("count");
    assert_eq!(counted, Counts { settled: 29, ..Counts::default() });
}
