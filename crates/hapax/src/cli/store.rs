//! Stores that commands open by themselves.
//!
//! A URL that names none is misuse; a store that is named and cannot be had is not available, whatever is in the way: a wrong
//! password as much as a server that is away. Who only looks, or acts on what is there, makes no store and changes no schema.

use hapax_core::Error;
use hapax_postgres::Postgres;
use hapax_sqlite::{Embedded, EmbeddedReader};
use hapax_store::Options;
use rustix::fs::Mode;
use rustix::process::umask;

use super::Failed;
use crate::Store;

/// Opens the store of a server.
pub(crate) async fn open(url: &str, options: Options) -> Result<Store, Failed> {
    Store::check(url)?;
    Store::open(url, options).await.map_err(|error| not_had(&error))
}

/// Opens what `--store` names, to change something in it.
pub(crate) async fn open_named(url: &str, create: bool) -> Result<Store, Failed> {
    Store::check(url)?;
    Store::open(url, Options { create, ..Options::default() }).await.map_err(named_not_had)
}

/// Opens the PostgreSQL store that `--store` names, only to read it.
pub(crate) async fn read_postgres(url: &str) -> Result<Postgres, Failed> {
    Store::check(url)?;
    Postgres::open_read_only(url).await.map_err(named_not_had)
}

/// Opens the embedded store that `--store` names, only to read it.
pub(crate) fn read_embedded(path: &str) -> Result<EmbeddedReader, Failed> {
    Embedded::open_read_only(path).map_err(named_not_had)
}

fn not_had(error: &Error) -> Failed {
    Failed::unavailable(format!("{error:#}"))
}

fn named_not_had(error: Error) -> Failed {
    let failed = not_had(&error);
    if error.message().starts_with("there is no store") {
        // A mistyped name is more likely than a store that is yet to be made.
        return failed.and("look at what --store says: this command makes no store, `hapax serve` does");
    }
    if error.message().starts_with("another process") {
        return failed.and("if that is a server, leave --store out and ask it (--admin URL)");
    }
    failed
}

/// From now on what this process makes is its user's alone: what a service answered is in the store and in the spool (B9).
pub(crate) fn keep_private() {
    umask(Mode::RWXG | Mode::RWXO);
}
