//! Sessions, and what hangs on them: leases and waiting.

use std::time::Duration;

use hapax_core::claim::Terms;
use hapax_core::{
    ClaimId, ClaimRequest, Ending, Epoch, Fingerprint, Identity, Inspect as _, Key, Kind, Lease, Leases,
    Ledger, Operation, Particular, Project, Report, Rerun, Scope, SessionId, Source, Subject, Tenant,
    Verdict, View, Watch, Width,
};
use tokio::time::timeout;

use super::{DAY, Harness, granted, ok, request};
use crate::{Lifecycle, Options};

/// L4, L6.
pub async fn a_claim_lapses_with_its_session<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let term = store.session().term;
    let safe = Terms { rerun: Rerun::Safe, ..Terms::default() };
    let (unsafe_, safe) = (request("unsafe", "body", Terms::default()), request("safe", "body", safe));
    let old = granted(&store, &unsafe_).await;
    granted(&store, &safe).await;
    harness.advance(term - Duration::from_secs(1));
    assert_eq!(store.session().left, Duration::from_secs(1));
    let again = |first: &hapax_core::ClaimRequest| {
        request(first.identity.key().as_str(), "body", first.terms.clone())
    };
    assert!(matches!(store.claim(again(&unsafe_)).await, Ok(Verdict::Held { .. })));
    harness.advance(Duration::from_secs(1));
    assert_eq!(store.session().left, Duration::ZERO);
    assert!(matches!(store.claim(again(&unsafe_)).await, Ok(Verdict::InDoubt { .. })));
    assert!(matches!(store.claim(again(&safe)).await, Ok(Verdict::Granted(_))));
    let settle = Report::Settle(ok("late"), DAY);
    let late =
        store.report(unsafe_.identity.claim_id(), old.epoch, settle, Vec::new()).await.expect("settle");
    assert!(matches!(late, Ending::Settled(_)), "a true outcome is never thrown away (L5)");
}

/// L4.
pub async fn a_renewed_session_takes_its_claims_along<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let term = store.session().term;
    let first = request("renewed", "body", Terms::default());
    let grant = granted(&store, &first).await;
    for _ in 0..5 {
        harness.advance(term * 2 / 3);
        store.renew_session().await.expect("renew");
        assert_eq!(store.session().left, term);
        let seen = store.peek(first.identity.claim_id()).await.expect("peek");
        assert!(matches!(seen, Some(View::Held { .. })), "{seen:?}");
    }
    harness.advance(term * 2 / 3);
    let renewed =
        store.report(first.identity.claim_id(), grant.epoch, Report::Renew, Vec::new()).await.expect("renew");
    assert_eq!(renewed, Ending::Renewed { until: harness.now().after(term) }, "a renewal renews the session");
    assert_eq!(store.session().left, term);
    store.close().await.expect("close");
}

const MINUTE: Duration = Duration::from_secs(60);

/// Claims under a lease and must be granted.
async fn granted_under<L: Leases>(ledger: &L, lease: SessionId, key: &str, rerun: Rerun) -> (ClaimId, Epoch) {
    let request = request(key, "body", Terms { rerun, ..Terms::default() });
    let claim = request.identity.claim_id();
    match ledger.claim_under(lease, request).await.expect("the ledger answers") {
        Verdict::Granted(grant) => (claim, grant.epoch),
        other => panic!("expected a grant, got {other:?}"),
    }
}

async fn view<L: Ledger>(ledger: &L, claim: ClaimId) -> Option<View> {
    ledger.peek(claim).await.expect("peek")
}

/// M1, L4, L6.
pub async fn a_lease_lapses_unless_it_is_renewed_and_its_claims_with_it<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let lease = store.open_lease(&Scope::local(), MINUTE).await.expect("open");
    assert_eq!(lease.until, harness.now().after(MINUTE));
    let (unsafe_, epoch) = granted_under(&store, lease.id, "unsafe", Rerun::Unsafe).await;
    let (safe, _) = granted_under(&store, lease.id, "safe", Rerun::Safe).await;
    for _ in 0..5 {
        harness.advance(MINUTE - Duration::from_secs(1));
        let renewed = store.renew_lease(&Scope::local(), lease.id).await.expect("renew");
        assert_eq!(renewed, Lease { id: lease.id, until: harness.now().after(MINUTE) });
        // The process's own session has lapsed long ago, and nothing hangs on it.
        assert!(matches!(view(&store, unsafe_).await, Some(View::Held { .. })));
    }
    harness.advance(MINUTE);
    assert!(matches!(view(&store, unsafe_).await, Some(View::InDoubt { .. })));
    assert!(matches!(view(&store, safe).await, Some(View::Released { .. })));
    let swept = store.sweep(10).await.expect("sweep");
    assert_eq!((swept.in_doubt, swept.released), (1, 1));
    let settle = Report::Settle(ok("late"), DAY);
    let late = store.report(unsafe_, epoch, settle, Vec::new()).await.expect("settle");
    assert!(matches!(late, Ending::Settled(_)), "a true outcome is never thrown away (L5)");
}

/// M1.
pub async fn a_lease_that_is_over_is_neither_renewed_nor_claimed_under<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    for term in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(3601)] {
        assert_eq!(store.open_lease(&Scope::local(), term).await.expect_err("refused").kind(), Kind::Invalid);
    }
    let [lapsed, ended] = [
        store.open_lease(&Scope::local(), MINUTE).await.expect("open").id,
        store.open_lease(&Scope::local(), MINUTE * 2).await.expect("open").id,
    ];
    let (claim, _) = granted_under(&store, ended, "ended", Rerun::Unsafe).await;
    store.end_lease(&Scope::local(), ended).await.expect("end");
    assert!(matches!(view(&store, claim).await, Some(View::InDoubt { .. })), "what it held lapses at once");
    harness.advance(MINUTE);
    // Nor is the session of a process a lease that anybody could renew or end.
    store.renew_session().await.expect("renew");
    let own = store.session().id;
    store.end_lease(&Scope::local(), own).await.expect("nothing happens");
    assert!(store.session().left > Duration::ZERO);
    for over in [lapsed, ended, own, SessionId(9_999)] {
        assert_eq!(
            store.renew_lease(&Scope::local(), over).await.expect_err("it is over").kind(),
            Kind::LostLease
        );
        let asked = store.claim_under(over, request("new", "body", Terms::default())).await;
        assert_eq!(asked.expect_err("it is over").kind(), Kind::LostLease);
        store.end_lease(&Scope::local(), over).await.expect("it is over already");
    }
    assert_eq!(view(&store, request("new", "body", Terms::default()).identity.claim_id()).await, None);
}

/// M1, K8.
pub async fn a_lease_is_absent_to_every_scope_but_its_own<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let lease = store.open_lease(&Scope::local(), MINUTE).await.expect("open").id;
    let (claim, _) = granted_under(&store, lease, "own", Rerun::Unsafe).await;
    let local = Scope::local();
    let (tenant, project) = (local.tenant().clone(), local.project().expect("it has one").clone());
    let subject = Subject::from_credential_text("service:other").expect("a good subject");
    let same_project = Scope::new(tenant.clone(), project.clone(), subject.clone());
    let same_subject = Scope::new(
        tenant,
        Project::new("other").expect("a good name"),
        local.subject().expect("it has one").clone(),
    );
    for other in [same_project, same_subject] {
        let refused = store.renew_lease(&other, lease).await.expect_err("it is not there");
        let absent = store.renew_lease(&other, SessionId(9_999)).await.expect_err("it is not there");
        assert_eq!((refused.kind(), refused.to_string()), (Kind::LostLease, absent.to_string()));
        store.end_lease(&other, lease).await.expect("nothing happens");
        // The key is shared by all of the project: whose lease it is counts all the same.
        for width in [Width::Subject, Width::Tenant] {
            let asked = in_scope(&other, width, "theirs");
            let claim = asked.identity.claim_id();
            let refused = store.claim_under(lease, asked).await.expect_err("it is not there");
            assert_eq!((refused.kind(), view(&store, claim).await), (Kind::LostLease, None));
        }
    }
    assert!(matches!(view(&store, claim).await, Some(View::Held { .. })));
    harness.advance(MINUTE);
    assert!(matches!(view(&store, claim).await, Some(View::InDoubt { .. })), "no other scope has renewed it");
}

/// M1, H12.
pub async fn a_tenant_opens_so_many_leases_at_once_and_those_that_are_over_have_no_place<H: Harness>(
    harness: &H,
) {
    const MOST: usize = 4;
    let store = harness.fresh(Options { leases_of_tenant: MOST, ..harness.options() }).await;
    let local = Scope::local();
    let of_tenant = |name: &str, subject: &str| {
        let tenant = Tenant::new(name).expect("a good name");
        let subject = Subject::from_credential_text(subject).expect("a good subject");
        Scope::new(tenant, local.project().expect("it has one").clone(), subject)
    };
    let (scope, colleague) = (of_tenant("acme", "service:once"), of_tenant("acme", "service:other"));
    for _ in 0..3 * MOST {
        let lease = store.open_lease(&scope, MINUTE * 60).await.expect("the one before was ended").id;
        store.end_lease(&scope, lease).await.expect("end");
    }
    for round in 0..3 {
        for number in 0..MOST {
            let own = if number % 2 == 0 { &scope } else { &colleague };
            store.open_lease(own, MINUTE).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        for own in [&scope, &colleague] {
            let refused = store.open_lease(own, MINUTE).await.expect_err("there are so many");
            assert_eq!(refused.particular(), Some(&Particular::TooMany), "{refused:#}");
        }
        store.open_lease(&of_tenant("globex", "service:once"), MINUTE).await.expect("a place of its own");
        // All of them lapse.
        harness.advance(MINUTE);
    }
}

fn in_scope(scope: &Scope, width: Width, key: &str) -> ClaimRequest {
    let (operation, key) = (Operation::new("conformance.op"), Key::new(key));
    let (operation, key) = (operation.expect("a good name"), key.expect("a good key"));
    let identity = Identity::new(Source::Header, scope.clone(), width, operation, key);
    ClaimRequest::new(identity, Fingerprint::of_bytes(b"body"))
}

/// M1, L13.
pub async fn an_attempt_that_asks_again_under_its_lease_gets_the_grant_that_stands<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let (term, bound) = (MINUTE, MINUTE / 2);
    let lease = store.open_lease(&Scope::local(), term).await.expect("open").id;
    let other = store.open_lease(&Scope::local(), term * 9).await.expect("open").id;
    let asked = request("asked", "body", Terms::default());
    let bounded = request("bounded", "body", Terms { max_run: bound, ..Terms::default() });
    let [mut first, mut short] = [None, None];
    for _ in 0..2 {
        let verdict = store.claim_under(lease, asked.clone()).await.expect("the ledger answers");
        assert!(matches!(verdict, Verdict::Granted(_)), "{verdict:?}");
        assert_eq!(*first.get_or_insert(verdict.clone()), verdict, "the same grant");
        let verdict = store.claim_under(other, bounded.clone()).await.expect("the ledger answers");
        assert_eq!(*short.get_or_insert(verdict.clone()), verdict, "the same grant");
    }
    let again = async |lease, request: &ClaimRequest| store.claim_under(lease, request.clone()).await;
    let lost = |asked: Result<Verdict, hapax_core::Error>| asked.expect_err("no grant").kind();
    assert_eq!(lost(again(other, &asked).await), Kind::LostLease, "it hangs on another lease");
    harness.advance(bound);
    assert_eq!(lost(again(other, &bounded).await), Kind::LostLease, "its time to run is over");
    harness.advance(term - bound);
    assert_eq!(lost(again(lease, &asked).await), Kind::LostLease, "its lease has lapsed");
    assert_eq!(lost(again(other, &asked).await), Kind::LostLease, "and is not replaced by another one");
    let anew = request("asked", "body", Terms::default());
    assert!(matches!(again(other, &anew).await, Ok(Verdict::InDoubt { .. })), "another attempt is told");
    let Some(Verdict::Granted(grant)) = first else { unreachable!("it was granted") };
    let settle = Report::Settle(ok("late"), DAY);
    store.report(asked.identity.claim_id(), grant.epoch, settle, Vec::new()).await.expect("settle");
    assert!(matches!(again(other, &asked).await, Ok(Verdict::Replay(_))), "and so is who has settled it");
}

/// M1, L4.
pub async fn a_renewal_of_a_claim_renews_the_lease_that_it_hangs_on<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let lease = store.open_lease(&Scope::local(), MINUTE).await.expect("open").id;
    let (claim, epoch) = granted_under(&store, lease, "renewed", Rerun::Unsafe).await;
    harness.advance(MINUTE / 2);
    let renewed = store.report(claim, epoch, Report::Renew, Vec::new()).await.expect("renew");
    assert_eq!(renewed, Ending::Renewed { until: harness.now().after(MINUTE) });
    harness.advance(MINUTE / 2);
    let stale = Epoch::from_packed(epoch.packed() - 1);
    let lost = store.report(claim, stale, Report::Renew, Vec::new()).await.expect("renew");
    assert_eq!(lost, Ending::LostLease);
    harness.advance(MINUTE / 2);
    assert!(matches!(view(&store, claim).await, Some(View::InDoubt { .. })), "a stale epoch renews nothing");
    let lost = store.report(claim, epoch, Report::Renew, Vec::new()).await.expect("renew");
    assert_eq!(lost, Ending::LostLease);
}

/// M1, L5.
pub async fn a_lease_is_renewed_and_its_claims_are_settled_at_another_instance<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let other = harness.join(harness.options()).await.expect("another process");
    let lease = store.open_lease(&Scope::local(), MINUTE).await.expect("open").id;
    let (first, first_epoch) = granted_under(&store, lease, "first", Rerun::Unsafe).await;
    store.close().await.expect("close");
    harness.advance(MINUTE / 2);
    other.renew_lease(&Scope::local(), lease).await.expect("renew");
    harness.advance(MINUTE / 2);
    assert!(matches!(view(&other, first).await, Some(View::Held { .. })), "it outlives who opened it");
    let (second, _) = granted_under(&other, lease, "second", Rerun::Unsafe).await;
    let settle = || Report::Settle(ok("done"), DAY);
    let done = other.report(first, first_epoch, settle(), Vec::new()).await.expect("settle");
    assert!(matches!(done, Ending::Settled(_)), "{done:?}");
    harness.advance(MINUTE);
    assert!(matches!(view(&other, second).await, Some(View::InDoubt { .. })));
}

/// L9, within one process.
pub async fn a_settle_wakes_whoever_watches<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    wakes(&store, &store, "woken").await;
}

/// L4, L6: `max_run` bounds a lease whose session lives on, and the sweeper finds it.
pub async fn a_claim_whose_time_to_run_is_over_is_swept_although_its_session_lives<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let term = store.session().term;
    let bounded = request("bounded", "body", Terms { max_run: term / 2, ..Terms::default() });
    let id = bounded.identity.claim_id();
    granted(&store, &bounded).await;
    granted(&store, &request("unbounded", "body", Terms::default())).await;
    assert_eq!(store.sweep(10).await.expect("sweep").in_doubt, 0);
    harness.advance(term / 2);
    store.renew_session().await.expect("renew");
    assert_eq!(store.sweep(10).await.expect("sweep").in_doubt, 1);
    assert!(matches!(store.peek(id).await, Ok(Some(View::InDoubt { .. }))));
}

/// L6, L9: the sweeper's word counts like a holder's. Polling is off.
pub async fn a_sweep_wakes_whoever_watches<H: Harness>(harness: &H) {
    let store = harness.fresh(Options { poll: false, ..harness.options() }).await;
    let first = request("swept", "body", Terms::default());
    let id = first.identity.claim_id();
    granted(&store, &first).await;
    let mut watch = store.watch(id);
    assert!(matches!(store.peek(id).await, Ok(Some(View::Held { .. }))));
    // What the beginning of the watch itself has brought about is over.
    while timeout(Duration::from_millis(300), watch.changed()).await.is_ok() {}
    harness.advance(store.session().term);
    let swept = store.sweep(10).await.expect("sweep");
    assert_eq!(swept.in_doubt, 1);
    timeout(Duration::from_secs(20), watch.changed()).await.expect("the watch wakes");
    assert!(matches!(store.peek(id).await, Ok(Some(View::InDoubt { .. }))));
}

/// L9, across processes: polling is off.
pub async fn a_settle_elsewhere_wakes_by_notification_alone<H: Harness>(harness: &H) {
    let store = harness.fresh(Options { poll: false, ..harness.options() }).await;
    let Some(other) = harness.join(Options { poll: false, ..harness.options() }).await else {
        panic!("this check is for stores that several processes share")
    };
    for round in 0..5 {
        wakes(&store, &other, &format!("notified{round}")).await;
    }
}

/// L9, across processes: every notification is dropped.
pub async fn a_settle_elsewhere_wakes_by_polling_alone<H: Harness>(harness: &H) {
    let store = harness.fresh(Options { notify: false, ..harness.options() }).await;
    let Some(other) = harness.join(Options { notify: false, ..harness.options() }).await else {
        panic!("this check is for stores that several processes share")
    };
    wakes(&store, &other, "polled").await;
}

/// One runs, the other subscribes, reads and waits.
async fn wakes<L: Ledger>(runner: &L, waiter: &L, key: &str) {
    let first = request(key, "body", Terms::default());
    let id = first.identity.claim_id();
    let grant = granted(runner, &first).await;
    let mut watch = waiter.watch(id);
    assert!(matches!(waiter.peek(id).await, Ok(Some(View::Held { .. }))));
    let settle = Report::Settle(ok("done"), DAY);
    runner.report(id, grant.epoch, settle, Vec::new()).await.expect("settle");
    // Generous: what is tested is that it wakes at all.
    let woken = timeout(Duration::from_secs(20), async {
        while !matches!(waiter.peek(id).await.expect("peek"), Some(View::Settled(_))) {
            watch.changed().await;
        }
        watch.changed().await;
    });
    woken.await.expect("the watch wakes");
}
