//! Work that is begun under a lease of a holder elsewhere, and concluded at any instance (M1, L5, L13).

use std::time::Duration;

use hapax_core::{
    AttemptId, ClaimId, Identity, Key, Leases, Ledger, Operation, Outcome, Project, Retry, Scope, SessionId,
    Source, Subject, Tenant, View, Width,
};
use hapax_exec::{Attach, Call, Ended, Entered, Error, Executor, How, Lent, Reason, Settings};
use hapax_sqlite::Embedded;
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;

use crate::{call, eventually, executor};

const MINUTE: Duration = Duration::from_secs(60);

async fn entered<L: Leases>(
    executor: &Executor<L>,
    lease: SessionId,
    attempt: AttemptId,
    call: Call,
) -> Result<Entered<Lent, &'static str>, Error> {
    executor.enter_under(lease, attempt, call.attach(Attach::Reject), "the request").await
}

/// Asks and must be granted.
async fn lent<L: Leases>(executor: &Executor<L>, lease: SessionId, attempt: AttemptId, key: &str) -> Lent {
    match entered(executor, lease, attempt, call(key)).await {
        Ok(Entered::Held(lent, "the request")) => lent,
        other => panic!("expected a grant, got {other:?}"),
    }
}

async fn is_held<L: Ledger>(ledger: &L, claim: ClaimId) -> bool {
    matches!(ledger.peek(claim).await.unwrap(), Some(View::Held { .. }))
}

/// The same call of another subject, whose key is another one.
fn call_of_another() -> Call {
    let subject = Subject::from_credential_text("service:other").unwrap();
    let scope = Scope::new(Tenant::new("local").unwrap(), Project::new("local").unwrap(), subject);
    let (operation, key) = (Operation::new("charge").unwrap(), Key::new("k").unwrap());
    Call::of(Identity::new(Source::Derived, scope, Width::Subject, operation, key)).body(b"10 EUR")
}

/// What must hold on every store, at two instances of it where it has two.
pub(crate) async fn a_grant_is_lent_and_concluded_elsewhere<L: Leases>(here: L, elsewhere: L) {
    let lease = here.open_lease(&Scope::local(), MINUTE).await.unwrap().id;
    let (here, elsewhere) = (Executor::new(here), Executor::new(elsewhere));
    let attempt = AttemptId::random();
    let first = lent(&here, lease, attempt, "k").await;
    assert_eq!((first.lease, first.earlier_may_have_run, first.must_ask), (lease, false, false));
    assert_eq!(lent(&elsewhere, lease, attempt, "k").await, first, "asked again, it is the same grant");
    let other = entered(&here, lease, AttemptId::random(), call("k")).await.unwrap_err();
    assert_eq!((other.code(), other.operation_id()), ("in-progress", Some(first.operation_id)));
    let foreign = entered(&here, lease, AttemptId::random(), call_of_another()).await.unwrap_err();
    assert!(matches!(foreign.reason(), Reason::LeaseOver), "{foreign}");
    assert_eq!((foreign.code(), foreign.retry()), ("lease-over", Retry::Never));

    // Nothing of it hangs on a process: one that only looks at it changes nothing.
    drop(elsewhere.running(first.claim, first.epoch, call("k")));
    assert!(is_held(elsewhere.ledger(), first.claim).await);
    let running = elsewhere.running(first.claim, first.epoch, call("k"));
    let done = running.conclude(Ended::succeeded("paid")).await.unwrap();
    assert_eq!(
        (done.value, done.operation_id, done.how),
        (Outcome::Succeeded("paid".into()), Some(first.operation_id), How::Executed)
    );
    // Told again, by a holder that has not heard the first answer, it is what is kept.
    let again = here.running(first.claim, first.epoch, call("k"));
    let again = again.conclude(Ended::succeeded("paid twice")).await.unwrap();
    assert_eq!((again.value, again.how), (Outcome::Succeeded("paid".into()), How::Replayed));
    for attempt in [attempt, AttemptId::random()] {
        let Ok(Entered::Done(done)) = entered(&here, lease, attempt, call("k")).await else {
            panic!("not done")
        };
        assert_eq!((done.value, done.how), (Outcome::Succeeded("paid".into()), How::Replayed));
    }

    // An attempt that was given back is used up; another one has its turn.
    let attempt = AttemptId::random();
    let given_back = lent(&here, lease, attempt, "back").await;
    let running = here.running(given_back.claim, given_back.epoch, call("back"));
    let told = running.conclude(Ended::NotRun("no such card".into())).await.unwrap_err();
    assert!(matches!(told.reason(), Reason::AttemptFailed { .. }), "{told}");
    let spent = entered(&elsewhere, lease, attempt, call("back")).await.unwrap_err();
    assert!(matches!(spent.reason(), Reason::AttemptFailed { .. }), "{spent}");
    let next = lent(&elsewhere, lease, AttemptId::random(), "back").await;
    assert!(next.epoch > given_back.epoch && next.operation_id == given_back.operation_id);

    // When the lease ends, what it held is as after any lapse.
    elsewhere.ledger().end_lease(&Scope::local(), lease).await.unwrap();
    let over = entered(&here, lease, AttemptId::random(), call("new")).await.unwrap_err();
    assert!(matches!(over.reason(), Reason::LeaseOver), "{over}");
    let doubt = here.once(call("back"), |_| async { Ended::succeeded("twice") }).await.unwrap_err();
    assert_eq!(doubt.code(), "outcome-unknown");
    let late = here.running(next.claim, next.epoch, call("back"));
    assert!(
        late.conclude(Ended::succeeded("late")).await.is_ok(),
        "a true outcome is never thrown away (L5)"
    );
}

#[tokio::test]
async fn a_grant_is_lent_and_concluded_on_a_memory_store() {
    let store = Memory::open(Options::default());
    a_grant_is_lent_and_concluded_elsewhere(store.clone(), store).await;
}

#[tokio::test]
async fn a_grant_is_lent_and_concluded_on_an_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), Options::default()).unwrap();
    a_grant_is_lent_and_concluded_elsewhere(store.clone(), store).await;
}

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_not_given_back_but_asked_for_again_l13() {
    let (executor, ledger) = executor();
    let lease = ledger.open_lease(&Scope::local(), MINUTE).await.unwrap().id;
    let attempt = AttemptId::random();
    ledger.lose_claims(1);
    let lost = entered(&executor, lease, attempt, call("k")).await.unwrap_err();
    assert_eq!(lost.code(), "ledger-unavailable");
    // What is owed is paid by one thread in its order: this one comes after anything that the lost claim could have left behind.
    ledger.lose_claims(1);
    executor.once(call("owed"), |_| async { Ended::succeeded("never") }).await.unwrap_err();
    eventually("the other claim was given back", async || ledger.reports() > 0).await;
    lent(&executor, lease, attempt, "k").await;
    assert_eq!(ledger.reports(), 1);
}

#[tokio::test]
async fn an_outcome_from_elsewhere_that_was_spooled_is_settled_as_soon_as_the_ledger_is_back_l15() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Faulty::new(Memory::open(Options::default()));
    let settings = Settings { spool: Some(folder.path().to_owned()), ..Settings::default() };
    let executor = Executor::open(ledger.clone(), settings).await.unwrap();
    let lease = ledger.open_lease(&Scope::local(), MINUTE).await.unwrap().id;
    let lent = lent(&executor, lease, AttemptId::random(), "k").await;
    ledger.set_away(true);
    let running = executor.running(lent.claim, lent.epoch, call("k"));
    let pending = running.conclude(Ended::succeeded("paid")).await.unwrap_err();
    assert_eq!(pending.code(), "outcome-pending");
    ledger.set_away(false);
    eventually("the outcome is settled", async || {
        matches!(ledger.peek(lent.claim).await, Ok(Some(View::Settled(_))))
    })
    .await;
    eventually("the spool is empty", async || std::fs::read_dir(folder.path()).unwrap().count() == 0).await;
}

#[tokio::test]
async fn an_outcome_from_elsewhere_that_is_told_twice_at_once_is_never_lost_l15() {
    // The holder has not heard the first answer and tells it again, while the ledger is away: neither takes the other's file.
    let folder = tempfile::tempdir().unwrap();
    let ledger = Faulty::new(Memory::open(Options::default()));
    let settings = Settings { spool: Some(folder.path().to_owned()), ..Settings::default() };
    let executor = Executor::open(ledger.clone(), settings).await.unwrap();
    let lease = ledger.open_lease(&Scope::local(), MINUTE).await.unwrap().id;
    let lent = lent(&executor, lease, AttemptId::random(), "k").await;
    ledger.set_away(true);
    let running = || executor.running(lent.claim, lent.epoch, call("k"));
    let tell = async || running().conclude(Ended::succeeded("paid")).await.unwrap_err().code();
    assert_eq!(tokio::join!(tell(), tell()), ("outcome-pending", "outcome-pending"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    ledger.set_away(false);
    eventually("the spool is empty", async || std::fs::read_dir(folder.path()).unwrap().count() == 0).await;
    assert!(matches!(ledger.peek(lent.claim).await, Ok(Some(View::Settled(_)))));
}
