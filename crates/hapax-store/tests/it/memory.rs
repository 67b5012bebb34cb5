//! The memory store against the conformance suite.

use std::sync::Mutex;
use std::time::Duration;

use hapax_core::{Clock as _, Timestamp};
use hapax_store::conformance::Harness;
use hapax_store::memory::Memory;
use hapax_store::{Options, conformance_tests, conformance_tests_of_sharing};
use hapax_testkit::clock::VirtualClock;

#[derive(Default)]
struct InMemory {
    clock: VirtualClock,
    latest: Mutex<Option<Memory>>,
}

impl Harness for InMemory {
    type Store = Memory;

    fn options(&self) -> Options {
        let clock = Some(std::sync::Arc::new(self.clock.clone()) as _);
        Options { heartbeat: false, sweeper: false, clock, ..Options::default() }
    }

    async fn fresh(&self, options: Options) -> Memory {
        let store = Memory::open(options);
        *self.latest.lock().unwrap() = Some(store.clone());
        store
    }

    async fn join(&self, _: Options) -> Option<Memory> {
        self.latest.lock().unwrap().as_ref().map(Memory::join)
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

conformance_tests!(conformance, InMemory::default());
conformance_tests_of_sharing!(sharing, InMemory::default());
