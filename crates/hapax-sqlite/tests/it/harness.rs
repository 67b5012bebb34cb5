//! How the tests get at the embedded store, with a clock that stands still until it is moved.

use std::sync::Mutex;
use std::time::Duration;

use hapax_core::{Clock as _, Error, Timestamp};
use hapax_sqlite::Embedded;
use hapax_store::conformance::{Harness, frozen};
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;
use hapax_testkit::scenario::store::Processes;
use tempfile::TempDir;

/// The embedded store, each in a folder of its own.
#[derive(Default)]
pub(crate) struct InAFolder {
    clock: VirtualClock,
    folders: Mutex<Vec<TempDir>>,
}

impl Harness for InAFolder {
    type Store = Embedded;

    fn options(&self) -> Options {
        frozen(self.clock.clone())
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

impl Processes for InAFolder {
    type Store = Embedded;

    async fn first(&self) -> Embedded {
        self.fresh(self.options()).await
    }

    async fn another(&self) -> Option<Embedded> {
        self.join(self.options()).await
    }

    async fn renew(&self, store: &Embedded) -> Result<(), Error> {
        store.renew_session().await
    }

    fn pass(&self, by: Duration) {
        self.advance(by);
    }

    async fn restart(&self, old: Embedded) -> Embedded {
        old.close().await.unwrap();
        drop(old);
        let folder = self.folders.lock().unwrap().last().unwrap().path().to_owned();
        Embedded::open(folder, self.options()).unwrap()
    }
}
