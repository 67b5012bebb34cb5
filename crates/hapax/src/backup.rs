//! Backups of an embedded store: a folder with a copy of the database, the outcomes that waited in the spool, and a manifest (B8, B9).
//!
//! The copy is made beside the server. Where `[seal]` is set, every file is sealed once more as a whole: what is kept is sealed in
//! the store already, but whose it is and under which key is not, and a backup goes to other disks and other people (ADR 98).

mod manifest;
mod pack;
mod restore;
mod take;

use std::path::{Path, PathBuf};

use hapax_core::Error;
use hapax_exec::Seal;

use crate::cli::Failed;
use crate::config::{self, Config, Secrets};

pub(crate) use manifest::Manifest;
pub(crate) use restore::{check, restore};
pub(crate) use take::take;

/// The database's name in a backup.
const DATABASE: &str = "hapax.db";
/// The folder of the spool in a backup, and the usual one in that of a store.
const SPOOL: &str = "spool";
/// The manifest's name.
const MANIFEST: &str = "manifest.json";

/// The store that a backup is made of, or restored to.
pub(crate) struct Place {
    /// Its folder.
    pub(crate) store: PathBuf,
    /// Where outcomes wait that it has not heard of.
    pub(crate) spool: PathBuf,
    /// What seals backups.
    pub(crate) seal: Option<Seal>,
}

impl Place {
    /// Reads the configuration of a server. Only the secrets of `[seal]` are needed. `None` where the store is a PostgreSQL database.
    pub(crate) fn of(file: &Path) -> Result<Option<Place>, Failed> {
        let environment = |name: &str| std::env::var(name).ok();
        let config = config::load_with(file, &environment, Secrets::SealNeeded)
            .map_err(|mistakes| Failed::no(mistakes.to_string()))?;
        match config.store.url.split_once(':') {
            Some(("embedded", path)) => Ok(Some(Place {
                store: PathBuf::from(path),
                spool: config.store.spool(&config.file),
                seal: seal(&config)?,
            })),
            Some(("memory", _)) => Err(Failed::misuse(
                "a memory store forgets everything when its server ends: there is nothing to back up or to restore",
            )),
            _ => Ok(None),
        }
    }
}

fn seal(config: &Config) -> Result<Option<Seal>, Error> {
    match config.seal.is_empty() {
        true => Ok(None),
        false => Seal::new(config.seal.iter().map(|key| key.0).collect()).map(Some),
    }
}

/// An error of a file, with its name.
fn cannot(what: &'static str, path: &Path, error: &std::io::Error) -> Error {
    Error::unavailable(what).with_detail(format_args!("{}: {error}", path.display()))
}

/// Makes the names in a folder durable.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

/// The folder that something is in.
fn parent(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.parent().map_or_else(|| path.clone(), Path::to_owned)
}
