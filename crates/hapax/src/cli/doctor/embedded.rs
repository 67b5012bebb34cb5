//! What `hapax doctor` looks at in an embedded store, beside the server that may have it open (B8).

use std::path::Path;

use hapax_core::{Filter, Inspect as _, Kind};
use hapax_sqlite::{Embedded, EmbeddedReader, room_needed};

use super::{Check, doubts, machine};

/// Checks the store in a folder, whose largest outcome may have so many bytes.
pub(super) async fn check(folder: &Path, largest_outcome: usize) -> Vec<Check> {
    let mut checks = Vec::new();
    match Embedded::open_read_only(folder) {
        Ok(reader) => {
            checks.push(Check::ok("store", "opens, and its schema is one that this hapax knows"));
            checks.extend(contents(&reader).await);
        }
        Err(error) if error.kind() == Kind::Unavailable && nothing_there(folder) => {
            let remedy = "`hapax serve` makes it; check the path if there should be one";
            checks.push(Check::warn(
                "store",
                format!("there is no store in {} yet", folder.display()),
                remedy,
            ));
        }
        Err(error) => {
            checks.push(Check::fail(
                "store",
                format!("{error:#}"),
                "restore a backup, or use the hapax that wrote it",
            ));
        }
    }
    let there = folder.ancestors().find(|folder| folder.is_dir());
    let needed = room_needed(folder, largest_outcome);
    checks.extend(there.map(|there| machine::disk(there, needed)).unwrap_or_default());
    checks
}

/// Whether no store was ever made here; a folder with other things in it lost its own.
fn nothing_there(folder: &Path) -> bool {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

async fn contents(reader: &EmbeddedReader) -> Vec<Check> {
    let what = "records";
    let broken = "keep a copy of the folder, then restore a backup";
    let verified = match reader.verify().await {
        Ok(found) if found.is_sound() => {
            Check::ok(what, format!("{} records are as they were written", found.records))
        }
        Ok(found) => {
            let bad = found.first_bad.join("; ");
            Check::fail(
                what,
                format!("{} of {} records are not what was written: {bad}", found.bad, found.records),
                broken,
            )
        }
        Err(error) => Check::fail(what, format!("{error:#}"), broken),
    };
    let counted = match reader.count(&Filter::default()).await {
        Ok(counts) => doubts(&counts),
        Err(error) => Check::fail("claims", format!("{error:#}"), broken),
    };
    vec![verified, counted]
}
