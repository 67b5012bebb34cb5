//! Where claims are read: through a server, or on its store (B8).

use hapax_api::{Claim, ClaimQuery, Claims, ClaimsQuery, Counts, CountsQuery, Nothing, operations as op};
use hapax_core::OperationId;
use hapax_postgres::Postgres;
use hapax_sqlite::EmbeddedReader;
use hapax_store::Lifecycle as _;

use crate::admin;
use crate::cli::remote::{Remote, Server};
use crate::cli::{Failed, store};
use crate::node::KeptAnswers;

/// A command that reads a store has no key: the status of a sealed answer is left out.
const UNSEALED: KeptAnswers = KeptAnswers::unsealed();

/// Where claims are read.
pub(super) enum Source {
    /// A server.
    Server(Remote),
    /// An embedded store, beside the process that writes it.
    Reader(EmbeddedReader),
    /// A PostgreSQL store, beside the processes that write it.
    Shared(Postgres),
}

impl Source {
    pub(super) async fn open(server: &Server, store: Option<&str>) -> Result<Source, Failed> {
        match store.map(|url| (url, url.split_once(':'))) {
            None => Remote::new(server).map(Source::Server),
            Some((_, Some(("embedded", path)))) if !path.is_empty() => {
                Ok(Source::Reader(store::read_embedded(path)?))
            }
            Some((url, Some(("postgres" | "postgresql", _)))) => {
                Ok(Source::Shared(store::read_postgres(url).await?))
            }
            Some((_, Some(("memory", _)))) => Err(Failed::misuse(
                "a memory store lives in its server's memory: ask the server, without --store",
            )),
            Some(_) => {
                Err(Failed::misuse("--store takes embedded:PATH or postgres://user@host:port/database"))
            }
        }
    }

    pub(super) async fn list(&self, query: &ClaimsQuery) -> Result<Claims, Failed> {
        match self {
            Source::Server(remote) => remote.call::<op::ListClaims>("", query, &Nothing {}).await,
            Source::Reader(store) => Ok(admin::list(store, query, &UNSEALED).await?),
            Source::Shared(store) => Ok(admin::list(store, query, &UNSEALED).await?),
        }
    }

    pub(super) async fn count(&self, query: &CountsQuery) -> Result<Counts, Failed> {
        match self {
            Source::Server(remote) => remote.call::<op::CountClaims>("", query, &Nothing {}).await,
            Source::Reader(store) => Ok(admin::count(store, query).await?),
            Source::Shared(store) => Ok(admin::count(store, query).await?),
        }
    }

    pub(super) async fn show(&self, id: OperationId, outcome: bool) -> Result<Claim, Failed> {
        let found = match self {
            Source::Server(remote) => return show(remote, &id.to_string(), outcome).await,
            Source::Reader(store) => admin::show(store, id, &UNSEALED).await?,
            Source::Shared(store) => admin::show(store, id, &UNSEALED).await?,
        };
        found.ok_or_else(|| Failed::no(format!("there is no claim {id} in this store")))
    }

    /// Ends its connections.
    pub(super) async fn close(self) -> Result<(), Failed> {
        match self {
            Source::Shared(store) => Ok(store.close().await?),
            Source::Server(_) | Source::Reader(_) => Ok(()),
        }
    }
}

/// One claim, from a server.
pub(super) async fn show(remote: &Remote, id: &str, outcome: bool) -> Result<Claim, Failed> {
    remote.call::<op::ShowClaim>(id, &ClaimQuery { outcome }, &Nothing {}).await
}
