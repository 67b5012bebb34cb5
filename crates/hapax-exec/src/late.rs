//! What is said about an outcome that reaches the ledger late, or too late.
//!
//! Often nobody waits for it any more, so the log is where it is told: claims and operations by their ids, never a key or what
//! a caller sent (O2). An outcome that contradicts what an operator has settled is counted as well: somebody has to compare
//! the two (L8).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hapax_core::claim::SettledBy;
use hapax_core::{ClaimId, Ending, Epoch, Kept, Ledger, Outcome, View};

/// How many true outcomes were refused because an operator had settled otherwise (L8).
#[derive(Clone, Debug, Default)]
pub(crate) struct Contradicted(Arc<AtomicU64>);

impl Contradicted {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Says what became of an outcome that was owed or spooled.
    pub(crate) async fn heard<L: Ledger>(
        &self,
        ledger: &L,
        (claim, epoch): (ClaimId, Epoch),
        outcome: &Outcome,
        ending: &Ending,
    ) {
        match ending {
            Ending::Settled(kept) | Ending::AlreadySettled(kept) => {
                let operation_id = kept.operation_id;
                tracing::info!(%claim, %operation_id, "an outcome was delivered late");
            }
            _ => {
                tell_too_late((claim, epoch));
                self.refused(ledger, claim, epoch, outcome).await;
            }
        }
    }

    /// A settle was refused: raises it if that is because an operator's outcome stands, and another one. A lease that was lost
    /// in any other way contradicts nobody.
    async fn refused<L: Ledger>(&self, ledger: &L, claim: ClaimId, epoch: Epoch, outcome: &Outcome) {
        if let Ok(Some(View::Settled(kept))) = ledger.peek(claim).await {
            self.compare(&kept, epoch, outcome);
        }
    }

    /// The same, of what the ledger was found to keep.
    pub(crate) fn compare(&self, kept: &Kept, epoch: Epoch, outcome: &Outcome) {
        if kept.by != SettledBy::Operator || kept.epoch <= epoch || kept.outcome == *outcome {
            return;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            operation_id = %kept.operation_id,
            %epoch,
            refused = kind(outcome),
            standing_epoch = %kept.epoch,
            standing = kind(&kept.outcome),
            "an operator settled what has now come to another end: the audit keeps both (settle-refused), compare them"
        );
    }
}

/// Says that an outcome was refused, which is normal where somebody else may take over.
pub(crate) fn tell_too_late((claim, epoch): (ClaimId, Epoch)) {
    tracing::warn!(%claim, %epoch, "an outcome came too late: the claim is not its holder's any more");
}

fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded(_) => "succeeded",
        Outcome::Refused(_) => "refused",
        Outcome::NotKept { .. } => "not_kept",
        Outcome::Erased => "erased",
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{
        Decision, Doubt, Inspect as _, Ledger as _, OperationId, Outcome, Report, Retention, Verb,
    };
    use hapax_store::Options;
    use hapax_store::memory::Memory;
    use hapax_testkit::faulty::Faulty;
    use hapax_testkit::lines::Lines;

    use crate::{Attach, Attempt, Call, Done, Ended, Error, Executor, Settings};

    #[tokio::test]
    async fn an_outcome_that_is_spooled_and_an_entry_that_cannot_be_read_are_told_without_the_key_l15_o2() {
        let (lines, _guard) = Lines::listen();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("half.outcome"), b"hpxspl01 and then nothing").unwrap();
        let ledger = Faulty::new(Memory::open(Options::default()));
        let settings = Settings { spool: Some(folder.path().to_owned()), ..Settings::default() };
        let executor = Executor::open(ledger.clone(), settings).await.unwrap();
        let unreadable = lines.told();
        assert!(unreadable.contains("ERROR") && unreadable.contains("half.outcome"), "{unreadable}");
        assert_eq!(unreadable.lines().count(), 1, "{unreadable}");

        let work = |_| async move {
            ledger.set_away(true);
            Ended::succeeded("paid in full")
        };
        let call = Call::local("charge", "order-42").unwrap().body(b"10 EUR");
        let pending = executor.once(call, work).await.unwrap_err();
        let told = lines.told().replace(&unreadable, "");
        assert!(told.contains("WARN") && told.contains("put into the spool"), "{told}");
        assert!(told.contains(&pending.operation_id().unwrap().to_string()), "{told}");
        for secret in ["order-42", "10 EUR", "paid in full"] {
            assert!(!told.contains(secret), "{told}");
        }
    }

    type Doubted = (Executor<Faulty<Memory>>, Faulty<Memory>);

    /// Work during which its claim lapses and an operator decides about it, and what the caller got then.
    async fn decided_meanwhile(
        (executor, ledger): &Doubted,
        verb: Verb,
        ended: Outcome,
    ) -> Result<Done, Error> {
        let ledger = ledger.clone();
        let work = |attempt: Attempt| async move {
            decide(&ledger, attempt, verb).await;
            Ended::Settled(ended)
        };
        executor.once(a_call().attach(Attach::Reject), work).await
    }

    fn a_call() -> Call {
        Call::local("charge", "order-42").unwrap().body(b"10 EUR")
    }

    async fn decide(ledger: &Faulty<Memory>, attempt: Attempt, verb: Verb) {
        let (claim, seen) = (attempt.claim.unwrap(), attempt.epoch.unwrap());
        ledger.report(claim, seen, Report::Doubt(Doubt::Lapsed), vec![]).await.unwrap();
        let decision = Decision { seen, verb, actor: "ann".into(), reason: "asked the bank".into() };
        ledger.inner().decide(claim, decision).await.unwrap();
    }

    fn doubted() -> Doubted {
        let ledger = Faulty::new(Memory::open(Options::default()));
        (Executor::new(ledger.clone()), ledger)
    }

    fn by_hand() -> Verb {
        Verb::Settle(Outcome::Refused("written by hand".into()), Retention::Forever)
    }

    fn assert_raised(told: &str, operation_id: OperationId) {
        let raised: Vec<&str> = told.lines().filter(|line| line.contains("ERROR")).collect();
        assert_eq!(raised.len(), 1, "{told}");
        for said in
            [&*operation_id.to_string(), "refused=\"succeeded\"", "standing=\"refused\"", "settle-refused"]
        {
            assert!(raised[0].contains(said), "{said}: {told}");
        }
        for secret in ["order-42", "10 EUR", "the true end", "written by hand"] {
            assert!(!told.contains(secret), "{told}");
        }
    }

    #[tokio::test]
    async fn a_true_settle_after_an_operators_is_raised_l8() {
        let (lines, _guard) = Lines::listen();
        let world = doubted();
        let truth = Outcome::Succeeded("the true end".into());
        let done = decided_meanwhile(&world, by_hand(), truth).await.unwrap();
        assert_eq!(done.value, Outcome::Refused("written by hand".into()), "the operator's stands");
        assert_eq!(world.0.contradicted(), 1);
        assert_raised(&lines.told(), done.operation_id.unwrap());
    }

    #[tokio::test]
    async fn a_true_settle_that_was_spooled_is_raised_by_the_next_start_l8_l15() {
        let (lines, _guard) = Lines::listen();
        let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ledger = Faulty::new(Memory::open(Options::default()));
        let settings = |at: &std::path::Path| Settings { spool: Some(at.to_owned()), ..Settings::default() };
        let executor = Executor::open(ledger.clone(), settings(folder.path())).await.unwrap();
        let meddler = ledger.clone();
        let work = |attempt: Attempt| async move {
            decide(&meddler, attempt, by_hand()).await;
            meddler.set_away(true);
            Ended::succeeded("the true end")
        };
        let pending = executor.once(a_call(), work).await.unwrap_err();
        // What a dead process would have left.
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        ledger.set_away(false);
        while executor.contradicted() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let next = Executor::open(ledger, settings(copy.path())).await.unwrap();
        assert_eq!(next.contradicted(), 1);
        assert_raised(&lines.told(), pending.operation_id().unwrap());
    }

    #[tokio::test]
    async fn a_lease_lost_otherwise_and_an_outcome_that_agrees_are_not_raised_l8() {
        let (lines, _guard) = Lines::listen();
        let same = Outcome::Succeeded("the true end".into());
        let agreed = doubted();
        let verb = Verb::Settle(same.clone(), Retention::Forever);
        decided_meanwhile(&agreed, verb, same.clone()).await.unwrap();

        let taken_over = doubted();
        let (other, ledger) = (Executor::new(taken_over.1.inner().clone()), taken_over.1.clone());
        let work = |attempt: Attempt| async move {
            decide(&ledger, attempt, Verb::Release { force: true }).await;
            other.once(a_call(), |_| async { Ended::succeeded("the other's") }).await.unwrap();
            Ended::succeeded("the true end")
        };
        let done = taken_over.0.once(a_call(), work).await.unwrap();
        assert_eq!(done.value, Outcome::Succeeded("the other's".into()));

        let released = doubted();
        let settled = decided_meanwhile(&released, Verb::Release { force: true }, same).await;
        assert!(settled.is_ok(), "after a release it is recorded until the next grant");
        for (executor, _) in [agreed, taken_over, released] {
            assert_eq!(executor.contradicted(), 0);
        }
        assert!(!lines.told().contains("ERROR"), "{}", lines.told());
    }
}
