//! Where claims are read: through a server, or on its store (B8).

use hapax_core::StateName;
use hapax_store::Lifecycle as _;
use hapax_store::embedded::EmbeddedReader;
use hapax_store::postgres::Postgres;
use serde_json::Value;

use crate::admin::{self, Which};
use crate::cli::remote::{Remote, Server, encoded};
use crate::cli::{Failed, store};

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

    pub(super) async fn list(&self, which: &Which) -> Result<Value, Failed> {
        match self {
            Source::Server(remote) => remote.get("/v1/claims", &query(which), &["claims", "next"]).await,
            Source::Reader(store) => Ok(admin::list(store, which).await?),
            Source::Shared(store) => Ok(admin::list(store, which).await?),
        }
    }

    pub(super) async fn count(&self, which: &Which) -> Result<Value, Failed> {
        match self {
            Source::Server(remote) => {
                let states = StateName::ALL.map(StateName::as_str);
                remote.get("/v1/claims/count", &query(which), &states).await
            }
            Source::Reader(store) => Ok(admin::count(store, which).await?),
            Source::Shared(store) => Ok(admin::count(store, which).await?),
        }
    }

    pub(super) async fn show(&self, id: &str, outcome: bool) -> Result<Value, Failed> {
        let found = match self {
            Source::Server(remote) => return show(remote, id, outcome).await,
            Source::Reader(store) => admin::show(store, id).await?,
            Source::Shared(store) => admin::show(store, id).await?,
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
pub(super) async fn show(remote: &Remote, id: &str, outcome: bool) -> Result<Value, Failed> {
    let query = if outcome { vec![("outcome", "true".to_owned())] } else { Vec::new() };
    remote.get(&format!("/v1/claims/{}", encoded(id)), &query, &["operation_id", "state", "epoch"]).await
}

fn query(which: &Which) -> Vec<(&'static str, String)> {
    let limit = which.limit.map(|limit| limit.to_string());
    let pairs = [
        ("tenant", &which.tenant),
        ("project", &which.project),
        ("subject", &which.subject),
        ("operation", &which.operation),
        ("key", &which.key),
        ("state", &which.state),
        ("opened_before", &which.opened_before),
        ("age", &which.age),
        ("after", &which.after),
        ("limit", &limit),
    ];
    pairs.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
}
