//! Taking a backup. It is written under another name (`PATH.writing`) and gets its own when it is whole and synced.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read as _, Seek as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use hapax_core::Error;
use hapax_sqlite::StoreCopy;
use rustix::fs::{FlockOperation, flock};

use super::manifest::{Manifest, Packed, Sum};
use super::pack::{Envelope, new_file};
use super::{DATABASE, MANIFEST, Place, SPOOL, cannot, parent, sync_folder};
use crate::{limits, when};

/// The name of a copy that is yet to be sealed. It has no name any more when the first byte is written to it.
const UNSEALED: &str = "unsealed";

/// Takes a backup. `progress` hears how many bytes of how many are done.
pub(crate) fn take(of: &Place, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Manifest, Error> {
    refuse_within(&of.store, to)?;
    let writing = Writing::begin(to)?;
    let id = new_id()?;
    let envelope = Envelope { id: &id, seal: of.seal.as_ref() };
    // An outcome leaves the spool when the store has it. So the spool is read first: what has left it by then is in the copy.
    let taken_at = when::now();
    let mut files = spool(&of.spool, &writing.folder, envelope)?;
    let (incarnation, database) = database(&of.store, &writing.folder, envelope, progress)?;
    files.push(database);
    let manifest = Manifest::new(id.clone(), taken_at, incarnation, of.seal.is_some(), files);
    let text = manifest.clone().write(of.seal.as_ref())?;
    let path = writing.folder.join(MANIFEST);
    let plain = Envelope { id: &id, seal: None };
    plain.pack(MANIFEST, (&mut &text[..], text.len() as u64), &path, |_| {})?;
    writing.finish(to)?;
    Ok(manifest)
}

/// Refuses a backup within the folder of its store: it would be lost with it.
fn refuse_within(store: &Path, to: &Path) -> Result<(), Error> {
    let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // The place itself is not there yet, and perhaps not even what it is to be in.
    let place = parent(to);
    match place.ancestors().any(|above| whole(above) == whole(store)) {
        true => Err(Error::invalid(format!(
            "{} is in the folder of the store: name a place on another disk, so that the backup is not lost with the store",
            to.display()
        ))),
        false => Ok(()),
    }
}

fn new_id() -> Result<String, Error> {
    let mut id = [0_u8; 16];
    getrandom::fill(&mut id)
        .map_err(|error| Error::unavailable("there is no randomness").with_detail(error))?;
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Copies the database; which life of the store it is.
fn database(
    store: &Path,
    folder: &Path,
    envelope: Envelope<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(u16, Packed), Error> {
    let is_sealed = envelope.seal.is_some();
    let path = folder.join(DATABASE);
    let copied = if is_sealed { folder.join(UNSEALED) } else { path.clone() };
    let broken = |error: &std::io::Error| cannot("the backup cannot be written", &copied, error);
    drop(new_file(&copied)?);
    let copy = StoreCopy::begin(store, &copied)?;
    if is_sealed {
        // The copy is gone with this process then, whatever ends it.
        fs::remove_file(&copied).map_err(|error| broken(&error))?;
    }
    let (incarnation, all) = (copy.incarnation(), 2 * copy.bytes());
    let mut file = copy.run(|copied| progress(copied.done, all))?;
    file.rewind().map_err(|error| broken(&error))?;
    let length = file.metadata().map_err(|error| broken(&error))?.len();
    let told = |done| progress(length + done, 2 * length);
    let packed = match is_sealed {
        true => envelope.pack(DATABASE, (&mut file, length), &path, told)?,
        false => packed(DATABASE, &mut file, told).map_err(|error| broken(&error))?,
    };
    Ok((incarnation, packed))
}

/// What there is to say of a file that is in its place already.
fn packed(name: &str, file: &mut File, mut progress: impl FnMut(u64)) -> std::io::Result<Packed> {
    let (mut sum, mut bytes) = (Sum::new(), 0);
    let mut piece = vec![0; usize::try_from(limits::BACKUP_PIECE).unwrap_or_default()];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(Packed { name: name.to_owned(), bytes, sha256: sum.finish() }),
            length => {
                sum.add(&piece[..length]);
                bytes += length as u64;
                progress(bytes);
            }
        }
    }
}

/// Copies what is in the spool: what waits for the store, and what was set aside.
fn spool(from: &Path, folder: &Path, envelope: Envelope<'_>) -> Result<Vec<Packed>, Error> {
    let unreadable = |error: &std::io::Error| cannot("the spool cannot be read", from, error);
    let mut packed = Vec::new();
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(packed),
        Err(error) => return Err(unreadable(&error)),
    };
    let to = folder.join(SPOOL);
    for entry in entries {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        let is_outcome = path
            .extension()
            .is_some_and(|kind| kind == "outcome" || kind == "refused" || kind == "unreadable");
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| is_outcome) else {
            continue;
        };
        let content = match fs::read(&path) {
            Ok(content) => content,
            // The store has heard of it meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(cannot("the spool cannot be read", &path, &error)),
        };
        if packed.is_empty() {
            DirBuilder::new()
                .mode(0o700)
                .create(&to)
                .map_err(|error| cannot("the backup cannot be written", &to, &error))?;
        }
        let content = (&mut &content[..], content.len() as u64);
        packed.push(envelope.pack(&format!("{SPOOL}/{name}"), content, &to.join(name), |_| {})?);
    }
    if !packed.is_empty() {
        sync_folder(&to).map_err(|error| cannot("the backup cannot be written", &to, &error))?;
    }
    Ok(packed)
}

/// The folder of a backup that is not whole yet.
struct Writing {
    folder: PathBuf,
    /// Locked, so that two backups to one place do not mix.
    _lock: File,
}

impl Writing {
    fn begin(to: &Path) -> Result<Self, Error> {
        let broken = "the backup cannot be written";
        if fs::symlink_metadata(to).is_ok() {
            let what = format!("{} is there already: a backup goes to a new place", to.display());
            return Err(Error::conflict(what));
        }
        let Some(name) = to.file_name() else {
            return Err(Error::invalid("--to names no place for a backup"));
        };
        let mut name = name.to_owned();
        name.push(".writing");
        let folder = to.with_file_name(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(cannot(broken, &folder, &error));
            }
            _ => {}
        }
        let lock = File::open(&folder).map_err(|error| cannot(broken, &folder, &error))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Error::conflict(format!("another backup is being written to {}", to.display())));
        }
        clear(&folder)?;
        Ok(Writing { folder, _lock: lock })
    }

    fn finish(self, to: &Path) -> Result<(), Error> {
        let done = sync_folder(&self.folder)
            .and_then(|()| fs::rename(&self.folder, to))
            .and_then(|()| sync_folder(&parent(to)));
        done.map_err(|error| cannot("the backup cannot be written", to, &error))
    }
}

/// Removes what a backup that was killed has left. What no backup makes is left alone.
fn clear(folder: &Path) -> Result<(), Error> {
    let broken = |error: &std::io::Error| cannot("the backup cannot be written", folder, error);
    for entry in fs::read_dir(folder).map_err(|error| broken(&error))? {
        let path = entry.map_err(|error| broken(&error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name {
            SPOOL => fs::remove_dir_all(&path),
            DATABASE | MANIFEST | UNSEALED => fs::remove_file(&path),
            _ => {
                return Err(Error::conflict(format!(
                    "{} is no part of a backup: move it away",
                    path.display()
                )));
            }
        }
        .map_err(|error| broken(&error))?;
    }
    Ok(())
}
