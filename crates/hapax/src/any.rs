//! A store by its URL: one type for programs that learn at start which store they have (B1).

use hapax_core::journal::{Append, Head};
use hapax_core::{
    ClaimId, Decision, Ending, Epoch, Error, Inspect, Journal, Lanes, Leases, Ledger, Operated, Registry,
    Report, Timestamp, forward,
};
use hapax_postgres::Postgres;
use hapax_sqlite::Embedded;
use hapax_store::hub::Watch;
use hapax_store::memory::Memory;
use hapax_store::{Lifecycle, Options, Overview, Tally};

use crate::limits;

/// The environment variable that names a store where nothing else does.
pub const STORE_VARIABLE: &str = "HAPAX_STORE";

/// One of the stores.
#[derive(Clone, Debug)]
pub enum Store {
    /// `memory:`
    Memory(Memory),
    /// `embedded:PATH`
    Embedded(Embedded),
    /// `postgres://user@host:port/database`
    Postgres(Postgres),
}

impl Store {
    /// Opens the store that a URL names: `memory:`, `embedded:PATH` or `postgres://…`.
    pub async fn open(url: &str, options: Options) -> Result<Store, Error> {
        Self::check(url)?;
        match url.split_once(':') {
            Some(("memory", "")) => Ok(Store::Memory(Memory::open(options))),
            Some(("embedded", path)) => Embedded::open(path, options).map(Store::Embedded),
            Some(("postgres" | "postgresql", _)) => Postgres::open(url, options).await.map(Store::Postgres),
            _ => Err(unknown()),
        }
    }

    /// Whether a URL names a store that could be opened. Nothing is opened, and nobody is asked whether it is there.
    pub fn check(url: &str) -> Result<(), Error> {
        if url.is_empty() || url.len() > limits::MAX_URL_BYTES {
            return Err(unknown());
        }
        match url.split_once(':') {
            Some(("memory", "")) => Ok(()),
            Some(("embedded", path)) if !path.is_empty() => Ok(()),
            Some(("postgres" | "postgresql", _)) => Postgres::check(url),
            _ => Err(unknown()),
        }
    }

    /// From now on outcomes of so many bytes may come: an embedded store makes sure that there is room for them (B5).
    pub fn reckon_with(&self, largest_outcome: usize) {
        if let Store::Embedded(store) = self {
            store.reckon_with(largest_outcome);
        }
    }

    /// What an operator must know about this kind of store, in one sentence.
    pub fn notice(&self) -> &'static str {
        match self {
            Store::Memory(_) => {
                "the memory store FORGETS EVERYTHING when this process ends: for development only"
            }
            Store::Embedded(_) => "the embedded store is for a single instance only: a second one is refused",
            Store::Postgres(_) => "the PostgreSQL store is shared by every instance that opens it",
        }
    }
}

fn unknown() -> Error {
    Error::invalid("a store is named as memory:, embedded:PATH or postgres://user@host:port/database")
}

/// Hands a call to whichever store it is.
macro_rules! each {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            Store::Memory($store) => $call,
            Store::Embedded($store) => $call,
            Store::Postgres($store) => $call,
        }
    };
}

impl Store {
    /// What it notes of its own work.
    pub fn tally(&self) -> &Tally {
        each!(self, store => store.tally())
    }
}

impl Ledger for Store {
    type Watch = Watch;

    forward!(each => claim, set, peek, asked, locate, watch, session);

    async fn report(
        &self,
        claim: ClaimId,
        epoch: Epoch,
        report: Report,
        events: Vec<Append>,
    ) -> Result<Ending, Error> {
        let appends = events.len();
        let ending = each!(self, store => store.report(claim, epoch, report, events).await)?;
        self.tally().appended(appends);
        Ok(ending)
    }
}

impl Lifecycle for Store {
    async fn renew_session(&self) -> Result<(), Error> {
        each!(self, store => store.renew_session().await)
    }

    async fn is_shared(&self) -> Result<bool, Error> {
        each!(self, store => store.is_shared().await)
    }

    async fn time(&self) -> Result<Timestamp, Error> {
        each!(self, store => store.time().await)
    }

    async fn overview(&self) -> Result<Overview, Error> {
        each!(self, store => store.overview().await)
    }

    async fn close(&self) -> Result<(), Error> {
        each!(self, store => store.close().await)
    }
}

impl Leases for Store {
    forward!(each => open_lease, renew_lease, end_lease, claim_under);
}

impl Lanes for Store {
    type LaneWatch = Watch;

    forward!(each => enter, begin, leave, look, watch_lane);
}

impl Journal for Store {
    forward!(each => head, read, checkpoint, list_streams);

    async fn append(&self, write: Append) -> Result<Head, Error> {
        let head = each!(self, store => store.append(write).await)?;
        self.tally().appended(1);
        Ok(head)
    }
}

impl Registry for Store {
    forward!(each => get, put, delete, list_documents);
}

impl Inspect for Store {
    forward!(each => record, find, list, count, shelves, decide_setting, lanes, note, sweep, has_set_aside, erase_events, audit);

    async fn decide_with(
        &self,
        claim: ClaimId,
        decision: Decision,
        events: Vec<Append>,
    ) -> Result<Operated, Error> {
        let appends = events.len();
        let operated = each!(self, store => store.decide_with(claim, decision, events).await)?;
        self.tally().appended(appends);
        Ok(operated)
    }
}
