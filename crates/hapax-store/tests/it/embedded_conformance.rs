//! The embedded store against the conformance suite.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_core::{Clock as _, Timestamp};
use hapax_store::conformance::Harness;
use hapax_store::embedded::Embedded;
use hapax_store::{Options, conformance_tests};
use hapax_testkit::clock::VirtualClock;
use tempfile::TempDir;

#[derive(Default)]
struct InAFolder {
    clock: VirtualClock,
    folders: Mutex<Vec<TempDir>>,
}

impl Harness for InAFolder {
    type Store = Embedded;

    fn options(&self) -> Options {
        let clock = Some(Arc::new(self.clock.clone()) as _);
        Options { heartbeat: false, sweeper: false, clock, ..Options::default() }
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

conformance_tests!(conformance, InAFolder::default());
