//! How the tests get at each store, with a clock that stands still until it is moved.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_core::{Clock as _, Timestamp};
use hapax_store::conformance::Harness;
use hapax_store::embedded::Embedded;
use hapax_store::memory::Memory;
#[cfg(feature = "postgres")]
use hapax_store::postgres::Postgres;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;
use tempfile::TempDir;

#[cfg(feature = "postgres")]
use crate::server::Database;

/// A harness that can also end a process and start another one on the same data.
pub(crate) trait Restart: Harness {
    /// Ends the process that has this handle and starts another.
    async fn restart(&self, old: Self::Store) -> Self::Store;
}

fn frozen(clock: &VirtualClock) -> Options {
    // A short validity, because nobody's heartbeat acknowledges anything: whoever purges waits for it to run out.
    let table_validity = Duration::from_millis(50);
    let clock = Some(Arc::new(clock.clone()) as _);
    Options { heartbeat: false, sweeper: false, table_validity, clock, ..Options::default() }
}

/// The memory store.
#[derive(Default)]
pub(crate) struct InMemory {
    clock: VirtualClock,
    latest: Mutex<Option<Memory>>,
}

impl Harness for InMemory {
    type Store = Memory;

    fn options(&self) -> Options {
        frozen(&self.clock)
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

impl Restart for InMemory {
    async fn restart(&self, old: Memory) -> Memory {
        old.close().await.unwrap();
        old.join()
    }
}

/// The embedded store, each in a folder of its own.
#[derive(Default)]
pub(crate) struct InAFolder {
    clock: VirtualClock,
    folders: Mutex<Vec<TempDir>>,
}

impl Harness for InAFolder {
    type Store = Embedded;

    fn options(&self) -> Options {
        frozen(&self.clock)
    }

    async fn fresh(&self, options: Options) -> Embedded {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), options).unwrap();
        self.folders.lock().unwrap().push(folder);
        store
    }

    async fn join(&self, _: Options) -> Option<Embedded> {
        None
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Restart for InAFolder {
    async fn restart(&self, old: Embedded) -> Embedded {
        old.close().await.unwrap();
        drop(old);
        let folder = self.folders.lock().unwrap().last().unwrap().path().to_owned();
        Embedded::open(folder, self.options()).unwrap()
    }
}

#[cfg(feature = "postgres")]
/// The PostgreSQL store, each in a database of its own.
#[derive(Default)]
pub(crate) struct OnAServer {
    clock: VirtualClock,
    databases: Mutex<Vec<Database>>,
}

#[cfg(feature = "postgres")]
impl Harness for OnAServer {
    type Store = Postgres;

    fn options(&self) -> Options {
        frozen(&self.clock)
    }

    async fn fresh(&self, options: Options) -> Postgres {
        let database = Database::fresh().await;
        let store = Postgres::open(database.url(), options).await.unwrap();
        self.databases.lock().unwrap().push(database);
        store
    }

    async fn join(&self, options: Options) -> Option<Postgres> {
        let url = self.databases.lock().unwrap().last().map(|database| database.url().to_owned())?;
        Some(Postgres::open(&url, options).await.unwrap())
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[cfg(feature = "postgres")]
impl Restart for OnAServer {
    async fn restart(&self, old: Postgres) -> Postgres {
        old.close().await.unwrap();
        self.join(self.options()).await.unwrap()
    }
}
