//! `once`, tested on real stores, with a ledger that can be told to misbehave.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod attach;
mod executed;
mod faults;
mod lent;
mod once;
mod peers;
mod postgres;
mod sizes;
mod spool;
mod steps;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax_core::{ClaimId, Identity, Key, Operation, Scope, Source, Width};
use hapax_exec::{Attempt, Call, Ended, Executor};
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;

/// An executor on a memory store with faults to order.
fn executor() -> (Executor<Faulty<Memory>>, Faulty<Memory>) {
    let ledger = Faulty::new(Memory::open(Options::default()));
    (Executor::new(ledger.clone()), ledger)
}

fn call(key: &str) -> Call {
    Call::local("charge", key).unwrap().body(b"10 EUR")
}

/// The identity of [`call`].
fn identity(key: &str) -> Identity {
    let (operation, key) = (Operation::new("charge").unwrap(), Key::new(key).unwrap());
    Identity::new(Source::Derived, Scope::local(), Width::Subject, operation, key)
}

fn claim_id(key: &str) -> ClaimId {
    identity(key).claim_id()
}

/// Counts how often the work ran.
#[derive(Clone, Debug, Default)]
struct Effects(Arc<AtomicUsize>);

impl Effects {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Work that has its effect and then ends like this.
    fn then(&self, ended: Ended) -> impl FnOnce(Attempt) -> std::future::Ready<Ended> + use<> {
        let effects = self.clone();
        move |_| {
            effects.0.fetch_add(1, Ordering::SeqCst);
            std::future::ready(ended)
        }
    }
}

/// Waits until something holds; the bound is generous, and reaching it is a failure.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..6_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("it never came to pass that {what}");
}
