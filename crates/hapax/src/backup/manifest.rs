//! What a backup says of itself: its version, when it was taken, of which life of the store, and its files with sizes and checksums.
//!
//! The manifest is not secret, and it is the last file that is written: a backup without one was cut short. Where the files are
//! sealed its checksum is, too, so that another key is noticed at once, and so is a manifest that was changed.

use std::fs;
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_core::{Error, Timestamp};
use hapax_exec::Seal;
use serde::{Deserialize, Serialize};

use super::{MANIFEST, cannot};
use crate::{limits, when};

/// The version of backups that this hapax writes.
const FORMAT: u64 = 1;

/// What a backup says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The version of the backup.
    format: u64,
    /// The hapax that made it.
    hapax: String,
    /// What tells one backup from every other one.
    pub(crate) id: String,
    /// Everything that was committed before is in it.
    taken_at: String,
    /// The life of the store that was copied (L4).
    pub(crate) incarnation: u16,
    /// Whether its files are sealed.
    pub(crate) sealed: bool,
    /// Its files.
    pub(crate) files: Vec<Packed>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packed {
    /// Its path in the backup.
    pub(crate) name: String,
    /// Bytes that it has there.
    pub(crate) bytes: u64,
    /// Their SHA-256.
    pub(crate) sha256: String,
}

/// A manifest as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    manifest: Manifest,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    seal: Option<String>,
}

/// What every version of a manifest has.
#[derive(Deserialize)]
struct Versioned {
    manifest: Version,
}

#[derive(Deserialize)]
struct Version {
    format: u64,
    #[serde(default)]
    hapax: String,
}

impl Manifest {
    pub(super) fn new(
        id: String,
        taken_at: Timestamp,
        incarnation: u16,
        sealed: bool,
        files: Vec<Packed>,
    ) -> Self {
        let taken_at = when::utc(taken_at).unwrap_or_default();
        Manifest {
            format: FORMAT,
            hapax: env!("CARGO_PKG_VERSION").to_owned(),
            id,
            taken_at,
            incarnation,
            sealed,
            files,
        }
    }

    /// When it was taken.
    pub(crate) fn taken_at(&self) -> &str {
        &self.taken_at
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Outcomes that were in the spool.
    pub(crate) fn spooled(&self) -> usize {
        self.files.iter().filter(|file| file.name != super::DATABASE).count()
    }

    /// The text of the manifest's file.
    pub(super) fn write(self, seal: Option<&Seal>) -> Result<Vec<u8>, Error> {
        let sum = self.sum()?;
        let sealed = seal.map(|seal| STANDARD.encode(seal.seal_bytes(&self.context(), sum.as_bytes())));
        let written = Written { sha256: sum, seal: sealed, manifest: self };
        serde_json::to_vec_pretty(&written)
            .map_err(|error| Error::internal("a manifest is not written").with_detail(error))
    }

    /// Reads the manifest of a backup. One that is missing, damaged, of a newer hapax or of other keys is refused.
    pub(super) fn read(backup: &Path, seal: Option<&Seal>) -> Result<Manifest, Error> {
        let path = backup.join(MANIFEST);
        if !path.is_file() {
            let shown = backup.display();
            return Err(match backup.is_dir() {
                true => Error::corrupt(format!(
                    "{shown} has no {MANIFEST}: it is no backup, or one that was cut short"
                )),
                false => Error::conflict(format!("there is no backup at {shown}")),
            });
        }
        let text = config_text(&path)?;
        let damaged = |why: &dyn std::fmt::Display| {
            Error::corrupt("the backup's manifest is damaged")
                .with_detail(format_args!("{}: {why}", path.display()))
        };
        let Versioned { manifest: Version { format, hapax } } =
            serde_json::from_str(&text).map_err(|error| damaged(&error))?;
        if format > FORMAT {
            let what = format!(
                "the backup was made by a newer hapax ({hapax}, version {format} of backups; this one reads {FORMAT})"
            );
            return Err(Error::conflict(what + ": restore it with that one"));
        }
        let Written { manifest, sha256, seal: sealed } =
            serde_json::from_str(&text).map_err(|error| damaged(&error))?;
        if manifest.sum()? != sha256 {
            return Err(damaged(&"its checksum is another"));
        }
        manifest.check_seal(sealed.as_deref(), seal)?;
        Ok(manifest)
    }

    fn check_seal(&self, sealed: Option<&str>, seal: Option<&Seal>) -> Result<(), Error> {
        let (sealed, seal) = match (self.sealed, sealed, seal) {
            (false, None, _) => return Ok(()),
            (true, Some(sealed), Some(seal)) => (sealed, seal),
            (true, Some(_), None) => {
                return Err(Error::conflict(
                    "the backup is sealed, and the configuration has no [seal]: set the key it was sealed with",
                ));
            }
            _ => {
                return Err(
                    Error::corrupt("the backup's manifest is damaged").with_detail("it is half sealed")
                );
            }
        };
        let sealed = STANDARD.decode(sealed).unwrap_or_default();
        let opened = seal.open_bytes(&self.context(), &sealed).map_err(|error| {
            Error::conflict("the keys of [seal] do not open the backup: add the one it was sealed with")
                .with_detail(format_args!("{error:#}"))
        })?;
        match opened == self.sum()?.as_bytes() {
            true => Ok(()),
            false => Err(Error::corrupt("the backup's manifest was changed after it was sealed")),
        }
    }

    fn sum(&self) -> Result<String, Error> {
        let text = serde_json::to_vec(self)
            .map_err(|error| Error::internal("a manifest is not written").with_detail(error))?;
        let mut sum = Sum::new();
        sum.add(&text);
        Ok(sum.finish())
    }

    fn context(&self) -> Vec<u8> {
        format!("hapax.backup.manifest\0{}", self.id).into_bytes()
    }
}

fn config_text(path: &Path) -> Result<String, Error> {
    let length = fs::metadata(path).map_or(0, |file| file.len());
    if length > limits::MANIFEST_BYTES {
        return Err(
            Error::corrupt("the backup's manifest is damaged").with_detail(format_args!("{length} bytes"))
        );
    }
    let bytes = fs::read(path).map_err(|error| cannot("the backup cannot be read", path, &error))?;
    String::from_utf8(bytes)
        .map_err(|error| Error::corrupt("the backup's manifest is damaged").with_detail(error))
}

/// A SHA-256 that is being made.
pub(super) struct Sum(Context);

impl Sum {
    pub(super) fn new() -> Self {
        Sum(Context::new(&SHA256))
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// In hex.
    pub(super) fn finish(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
