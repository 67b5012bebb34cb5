//! What operators see and do.

use std::collections::HashSet;
use std::time::Duration;

use hapax_core::claim::audit::CONTRADICTED;
use hapax_core::claim::{Terms, Verb};
use hapax_core::{
    ClaimRequest, Counts, Decision, Doubt, Ending, Epoch, Filter, Fingerprint, Inspect, Key, Ledger,
    Operated, Operation, Outcome, Page, Project, Record, Report, Scope, Source, StateName, Subject,
    SweepReport, Tenant, Width,
};

use super::{AllPorts, DAY, Harness, granted, ok, request};

fn of(tenant: &str, project: &str, operation: &str, key: &str) -> ClaimRequest {
    let scope = Scope::new(
        Tenant::new(tenant).expect("a good name"),
        Project::new(project).expect("a good name"),
        Subject::parse("user:alice").expect("a good subject"),
    );
    let operation = Operation::new(operation).expect("a good name");
    let key = Key::new(key).expect("a good key");
    let identity = hapax_core::Identity::new(Source::Header, scope, Width::Subject, operation, key);
    ClaimRequest::new(identity, Fingerprint::of_bytes(b"body"))
}

async fn list_all<S: AllPorts>(store: &S, filter: &Filter, limit: usize) -> Vec<Record> {
    let (mut found, mut mark) = (Vec::new(), None::<String>);
    loop {
        let Page { items, next } = store.list(filter, mark.as_deref(), limit).await.expect("list");
        assert!(items.len() <= limit);
        found.extend(items);
        match next {
            Some(next) => mark = Some(next),
            None => return found,
        }
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
    assert_eq!(page.items[2].operation_id, first.operation_id);
    let first_page = store.audit(None, 2).await.expect("audit");
    let rest = store.audit(first_page.next.as_deref(), 2).await.expect("audit");
    assert_eq!((first_page.items.len(), rest.items.len(), rest.next), (2, 1, None));
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
