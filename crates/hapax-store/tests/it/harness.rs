//! How the tests get at the memory store, with a clock that stands still until it is moved.

use std::sync::Mutex;
use std::time::Duration;

use hapax_core::{Clock as _, Error, Timestamp};
use hapax_store::conformance::{Harness, frozen};
use hapax_store::memory::Memory;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;
use hapax_testkit::scenario::store::Processes;

/// The memory store.
#[derive(Default)]
pub(crate) struct InMemory {
    clock: VirtualClock,
    latest: Mutex<Option<Memory>>,
}

impl Harness for InMemory {
    type Store = Memory;

    fn options(&self) -> Options {
        frozen(self.clock.clone())
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

impl Processes for InMemory {
    type Store = Memory;

    async fn first(&self) -> Memory {
        self.fresh(self.options()).await
    }

    async fn another(&self) -> Option<Memory> {
        self.join(self.options()).await
    }

    async fn renew(&self, store: &Memory) -> Result<(), Error> {
        store.renew_session().await
    }

    fn pass(&self, by: Duration) {
        self.advance(by);
    }

    async fn restart(&self, old: Memory) -> Memory {
        old.close().await.unwrap();
        old.join()
    }
}
