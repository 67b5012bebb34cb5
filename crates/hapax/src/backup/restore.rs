//! Restoring a backup: into an empty place only, and so that a process that is killed leaves no store or a whole one.
//!
//! The outcomes of the spool come first, under the names that they had, and the store comes last. A restore that was cut short in
//! between is begun again with the same backup.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path};

use hapax_core::Error;
use hapax_sqlite::{Restored, Restoring};

use super::manifest::{Manifest, Packed};
use super::pack::{Envelope, new_file};
use super::{DATABASE, Place, SPOOL, cannot, sync_folder};

/// What the name of a file in the spool ends with that is not whole yet.
const WRITING: &str = "writing";

/// Reads all of a backup, and says what it has. Nothing is written.
pub(crate) fn check(
    backup: &Path,
    to: &Place,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Manifest, Error> {
    let manifest = Manifest::read(backup, to.seal.as_ref())?;
    let envelope = envelope(&manifest, to);
    let (mut before, all) = (0, manifest.bytes());
    for packed in &manifest.files {
        named(packed)?;
        envelope.unpack(packed, &backup.join(&packed.name), &mut std::io::sink(), |done| {
            progress(before + done, all)
        })?;
        before += packed.bytes;
    }
    Ok(manifest)
}

/// Restores a backup.
pub(crate) fn restore(
    backup: &Path,
    to: &Place,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Manifest, Restored), Error> {
    let manifest = Manifest::read(backup, to.seal.as_ref())?;
    let envelope = envelope(&manifest, to);
    let is_within = to.spool == to.store.join(SPOOL);
    let beside: &[&str] = if is_within { &[SPOOL] } else { &[] };
    spool_is_empty(&manifest, &to.spool)?;
    let restoring = Restoring::begin(&to.store, beside)?;
    let Some(database) = manifest.files.iter().find(|packed| packed.name == DATABASE) else {
        return Err(Error::corrupt("the backup's manifest is damaged").with_detail("it names no database"));
    };
    let mut file = restoring.file()?;
    let all = manifest.bytes();
    envelope.unpack(database, &backup.join(DATABASE), &mut file, |done| progress(done, all))?;
    file.sync_all().map_err(|error| cannot("the store cannot be written", &to.store, &error))?;
    drop(file);
    spool(&manifest, backup, envelope, &to.spool)?;
    Ok((manifest, restoring.finish()?))
}

fn envelope<'a>(manifest: &'a Manifest, place: &'a Place) -> Envelope<'a> {
    Envelope { id: &manifest.id, seal: if manifest.sealed { place.seal.as_ref() } else { None } }
}

/// A file's name in the spool; `None` for the database. A manifest that leads out of the backup is refused.
fn named(packed: &Packed) -> Result<Option<&str>, Error> {
    let parts: Vec<Component<'_>> = Path::new(&packed.name).components().collect();
    match parts[..] {
        [Component::Normal(name)] if name == DATABASE => Ok(None),
        [Component::Normal(folder), Component::Normal(name)] if folder == SPOOL => Ok(name.to_str()),
        _ => Err(Error::corrupt("the backup's manifest is damaged")
            .with_detail(format_args!("a file is named {:?}", packed.name))),
    }
}

/// Refuses a spool with outcomes of another store: they would be told to this one.
fn spool_is_empty(manifest: &Manifest, spool: &Path) -> Result<(), Error> {
    let mut ours = HashSet::new();
    for packed in &manifest.files {
        ours.extend(named(packed)?);
    }
    let entries = match fs::read_dir(spool) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot("the spool cannot be read", spool, &error)),
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| ours.contains(name));
        if !is_ours && Path::new(&name).extension().is_none_or(|kind| kind != WRITING) {
            let what = format!("the spool {} is not empty: {} is there", spool.display(), name.display());
            return Err(Error::conflict(what + "; move it away: its outcomes belong to another store"));
        }
    }
    Ok(())
}

/// Puts the outcomes back that were in the spool, whole or not at all.
fn spool(manifest: &Manifest, backup: &Path, envelope: Envelope<'_>, spool: &Path) -> Result<(), Error> {
    let unwritten = |error: &std::io::Error| cannot("the spool cannot be written", spool, error);
    for packed in &manifest.files {
        let Some(name) = named(packed)? else { continue };
        DirBuilder::new().recursive(true).mode(0o700).create(spool).map_err(|error| unwritten(&error))?;
        let writing = spool.join(format!("{name}.{WRITING}"));
        match fs::remove_file(&writing) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritten(&error)),
            _ => {}
        }
        let mut file = new_file(&writing)?;
        envelope.unpack(packed, &backup.join(&packed.name), &mut file, |_| {})?;
        file.flush().and_then(|()| file.sync_all()).map_err(|error| unwritten(&error))?;
        fs::rename(&writing, spool.join(name)).map_err(|error| unwritten(&error))?;
    }
    if manifest.spooled() > 0 {
        sync_folder(spool).map_err(|error| unwritten(&error))?;
        sync_folder(&super::parent(spool)).map_err(|error| unwritten(&error))?;
    }
    Ok(())
}
