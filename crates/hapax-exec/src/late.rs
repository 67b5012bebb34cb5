//! What is said about an outcome that reaches the ledger late.
//!
//! Nobody waits for it any more, so the log is where it is told: claims and operations by their ids, never a key or what a
//! caller sent (O2).

use hapax_core::{ClaimId, Ending};

/// Says what became of an outcome that was owed or spooled.
pub(crate) fn heard(claim: ClaimId, ending: &Ending) {
    match ending {
        Ending::Settled(kept) | Ending::AlreadySettled(kept) => {
            let operation_id = kept.operation_id;
            tracing::info!(%claim, %operation_id, "an outcome was delivered late");
        }
        _ => tracing::warn!(%claim, "an outcome came too late: somebody else has had the claim since"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use hapax_store::Options;
    use hapax_store::memory::Memory;
    use hapax_testkit::faulty::Faulty;

    use crate::{Call, Ended, Executor, Settings};

    /// What is logged by one test.
    #[derive(Clone, Default)]
    pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        /// Hears what this thread says until the guard is dropped.
        pub(crate) fn listen() -> (Lines, impl Drop) {
            let lines = Lines::default();
            let writer = lines.clone();
            let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
            let guard = tracing::subscriber::set_default(subscriber.finish());
            // Where there is only one subscriber, whoever logs first asks that of its own thread, and another test's has none.
            std::mem::forget(tracing::Dispatch::new(tracing_subscriber::registry()));
            (lines, guard)
        }

        pub(crate) fn told(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

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
}
