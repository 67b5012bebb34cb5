//! Putting a copy in the place of a store that was lost (L4, B8).
//!
//! The copy gets another name in the store's folder first. There it is checked, and a new life of the store begins in it; only then
//! it gets the store's name. So a process that is killed leaves no store, or a whole one; and the lock is held meanwhile, so that no
//! server makes an empty store in between.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hapax_core::{Clock as _, Error, Timestamp};
use hapax_store::SystemClock;
use rusqlite::{Connection, OpenFlags};

use super::copy::is_there;
use super::fault::{Fault, damaged};
use super::folder::{Folder, Lock, RESTORING, own_file};
use super::reader::{Reader, Signs};
use super::schema::{self, Meta};
use super::session::Guarded;
use super::verify;
use crate::limits;

/// What may be in the folder of a store that is to be restored: what a restore that was killed has left, and what belongs to no store.
const NO_STORE: [&str; 5] = [RESTORING, "hapax.restoring-journal", "hapax.lock", "hapax.mark", "lost+found"];

/// A store that is being restored; its folder is locked meanwhile.
#[derive(Debug)]
pub struct Restoring {
    folder: Folder,
    _lock: Lock,
}

/// A store that was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The life of the store that was copied.
    pub former: u16,
    /// The life that begins (L4).
    pub incarnation: u16,
    /// Records that were checked.
    pub records: u64,
}

impl Restoring {
    /// Takes an empty folder, or one that is not there, for a store that is to be restored. `beside` are names in it that do not
    /// belong to the store.
    pub fn begin(folder: impl Into<PathBuf>, beside: &[&str]) -> Result<Self, Error> {
        let folder = Folder::new(folder.into());
        refuse_taken(folder.path(), beside)?;
        let folder = Folder::create(folder.path().to_owned())?;
        let lock = folder.lock()?;
        // Between the first look and the lock a server may have made a store.
        refuse_taken(folder.path(), beside)?;
        let restoring = Restoring { folder, _lock: lock };
        restoring.file()?;
        Ok(restoring)
    }

    /// A new file for the copy, empty. The name is there from now on until the store is: what a former restore has left is emptied, and
    /// not removed.
    pub fn file(&self) -> Result<File, Error> {
        let journal = self.folder.path().join("hapax.restoring-journal");
        if is_there(&journal) {
            fs::remove_file(&journal).map_err(|error| self.cannot(&error))?;
        }
        own_file().truncate(true).open(self.folder.restoring()).map_err(|error| self.cannot(&error))
    }

    /// Checks the copy record by record, begins a new life in it, and gives it the store's name. Every epoch of that life is
    /// greater than any that the store gave out before, and than any of another store that was restored from the same copy (L4).
    pub fn finish(self) -> Result<Restored, Error> {
        let file = self.folder.restoring();
        let now = SystemClock::default().now();
        let (former, meta) = begin_life(&file, now).map_err(|fault| schema::opening_fault(&file, fault))?;
        fail::fail_point!("embedded.restoring");
        let clock = Arc::new(Guarded::new(Arc::new(SystemClock::default()), meta.latest));
        let reader = Reader::open(&file, clock, Signs::Stored, Arc::default())?;
        let found = verify::verify(&reader).map_err(|fault| schema::opening_fault(&file, fault))?;
        drop(reader);
        if !found.is_sound() {
            let named = found.first_bad.join("; ");
            let text =
                format!("{} of {} records are not what was written: {named}", found.bad, found.records);
            return Err(Error::corrupt("the copy is damaged").with_detail(text));
        }
        File::open(&file).and_then(|file| file.sync_all()).map_err(|error| self.cannot(&error))?;
        self.folder.mark()?.write(meta.batch);
        fail::fail_point!("embedded.restored");
        fs::rename(&file, self.folder.database()).map_err(|error| self.cannot(&error))?;
        self.folder.sync()?;
        Ok(Restored { former, incarnation: meta.incarnation, records: found.records })
    }

    fn cannot(&self, error: &std::io::Error) -> Error {
        Error::unavailable("the store cannot be restored")
            .with_detail(format_args!("{}: {error}", self.folder.path().display()))
    }
}

/// Refuses a folder that has a store, or anything else.
fn refuse_taken(folder: &Path, beside: &[&str]) -> Result<(), Error> {
    let shown = folder.display();
    if is_there(&folder.join("hapax.db")) {
        let text = format!("there is a store in {shown} already: move it away, or name another place");
        return Err(Error::conflict(text));
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(Error::unavailable("the store's folder cannot be read")
                .with_detail(format_args!("{shown}: {error}")));
        }
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_known = NO_STORE.iter().chain(beside).any(|known| name == **known);
        if !is_known {
            let text = format!("{shown} is not empty: {} is there; name an empty place", name.display());
            return Err(Error::conflict(text));
        }
    }
    Ok(())
}

/// Begins a new life in a copy that has no log; what it was before, and what it is now.
fn begin_life(file: &Path, now: Timestamp) -> Result<(u16, Meta), Fault> {
    let length = super::folder::check_database(file)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    // All of it is in one file then. The server that opens the store makes a log again.
    let mode: String = conn.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
    if mode != "delete" {
        return Err(damaged(format_args!("the copy has a log: {mode}")).into());
    }
    conn.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON",
    )?;
    schema::check_length(&conn, length)?;
    let mut meta = schema::check_version(&conn)?;
    let former = meta.incarnation;
    meta.begin_life(now)?;
    meta.write(&conn)?;
    conn.close().map_err(|(_, error)| error)?;
    Ok((former, meta))
}

impl Meta {
    /// Begins a new life of the store (L4). Its counter starts at the clock, so that two stores which were restored from the same copy
    /// do not give out the same epochs either: none grants as many claims as the clock's steps.
    pub(super) fn begin_life(&mut self, now: Timestamp) -> Result<(), Error> {
        let incarnation = self.incarnation.checked_add(1);
        self.incarnation = incarnation.ok_or_else(|| Error::internal("no incarnation is left"))?;
        let steps = now.as_micros().max(0).cast_unsigned() / limits::LIFE_STEP.as_micros() as u64;
        self.epoch_reserved = self.epoch_reserved.max(steps);
        hapax_core::Epoch::new(self.incarnation, self.epoch_reserved).map(|_| ())
    }
}
