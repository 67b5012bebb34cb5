//! How the tests get at the PostgreSQL store, with a clock that stands still until it is moved.

use std::sync::Mutex;
use std::time::Duration;

use hapax_core::{Clock as _, Error, Timestamp};
use hapax_postgres::Postgres;
use hapax_store::conformance::{Harness, frozen};
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;
use hapax_testkit::scenario::store::Processes;

use crate::server::Database;

/// The PostgreSQL store, each in a database of its own.
#[derive(Default)]
pub(crate) struct OnAServer {
    clock: VirtualClock,
    databases: Mutex<Vec<Database>>,
}

impl Harness for OnAServer {
    type Store = Postgres;

    fn options(&self) -> Options {
        frozen(self.clock.clone())
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

impl Processes for OnAServer {
    type Store = Postgres;

    async fn first(&self) -> Postgres {
        self.fresh(self.options()).await
    }

    async fn another(&self) -> Option<Postgres> {
        self.join(self.options()).await
    }

    async fn renew(&self, store: &Postgres) -> Result<(), Error> {
        store.renew_session().await
    }

    fn pass(&self, by: Duration) {
        self.advance(by);
    }

    async fn restart(&self, old: Postgres) -> Postgres {
        old.close().await.unwrap();
        self.join(self.options()).await.unwrap()
    }
}
