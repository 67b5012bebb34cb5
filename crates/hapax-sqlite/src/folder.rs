//! The folder of an embedded store: its files, the lock that one writer holds, and the mark of what was
//! committed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use hapax_core::{Error, Timestamp};
use rustix::fs::{FlockOperation, flock};

use super::fault::damaged;
use super::schema;

/// What is kept is nobody's but its user's (B9): modes of a folder and of files that are made here.
const OWN_FOLDER: u32 = 0o700;
/// See [`OWN_FOLDER`].
const OWN_FILE: u32 = 0o600;

/// The name of a copy that is being restored, until it is the store.
pub(super) const RESTORING: &str = "hapax.restoring";

/// Opens a file of the store, or makes it.
pub(super) fn own_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(OWN_FILE);
    options
}

/// The folder, by its absolute path: the process may go elsewhere while the store is open.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// An existing folder.
    pub(super) fn new(path: PathBuf) -> Self {
        Folder(std::path::absolute(&path).unwrap_or(path))
    }

    /// A folder that has a store.
    pub(super) fn with_store(path: PathBuf) -> Result<Self, Error> {
        let folder = Folder::new(path);
        folder.refuse_half_restored()?;
        match folder.database().is_file() {
            true => Ok(folder),
            false => Err(Error::unavailable(format!("there is no store in {}", folder.0.display()))),
        }
    }

    /// The copy in a folder that is being restored, until it is the store.
    pub(super) fn restoring(&self) -> PathBuf {
        self.0.join(RESTORING)
    }

    /// Refuses a folder in which a restore has not come to its end: an empty store in its place would run again what was done before.
    pub(super) fn refuse_half_restored(&self) -> Result<(), Error> {
        if self.database().is_file() || fs::symlink_metadata(self.restoring()).is_err() {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "a restore to {} is under way or was cut off: run `hapax restore` again, or remove {RESTORING} to begin without a backup",
            self.0.display()
        )))
    }

    /// Makes the folder where there is none, durably.
    pub(super) fn create(path: PathBuf) -> Result<Self, Error> {
        let folder = Folder::new(path);
        let cannot = |error| folder.cannot("the store's folder cannot be used", error);
        if !folder.0.is_dir() {
            DirBuilder::new().recursive(true).mode(OWN_FOLDER).create(&folder.0).map_err(cannot)?;
            if let Some(parent) = folder.0.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                File::open(parent).and_then(|parent| parent.sync_all()).map_err(cannot)?;
            }
        }
        Ok(folder)
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The database.
    pub(super) fn database(&self) -> PathBuf {
        self.0.join("hapax.db")
    }

    /// The database's write-ahead log.
    pub(super) fn wal(&self) -> PathBuf {
        self.beside("-wal")
    }

    /// A file that SQLite keeps beside the database; where that is a link, beside what it leads to.
    fn beside(&self, suffix: &str) -> PathBuf {
        let database = self.database();
        let mut name = fs::canonicalize(&database).unwrap_or(database).into_os_string();
        name.push(suffix);
        name.into()
    }

    /// The file that is given up when the disk is full.
    pub(super) fn ballast(&self) -> PathBuf {
        self.0.join("hapax.ballast")
    }

    /// Makes the database where there is none: under another name first, so that whatever ends the process or the
    /// power, the store's own name stands for a whole one.
    pub(super) fn make_database(&self, now: Timestamp) -> Result<(), Error> {
        let cannot = |error| self.cannot("the store cannot be made", error);
        if self.database().try_exists().map_err(cannot)? {
            return Ok(());
        }
        self.refuse_half_restored()?;
        let new = self.0.join("hapax.new");
        for left in ["hapax.new", "hapax.new-journal", "hapax.new-wal", "hapax.new-shm"] {
            match fs::remove_file(self.0.join(left)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot(error)),
                _ => {}
            }
        }
        // SQLite gives its other files the mode of this one.
        own_file().open(&new).map_err(cannot)?;
        schema::make(&new, now)?;
        fs::rename(new, self.database()).map_err(cannot)?;
        self.sync()
    }

    /// Closes to others what an earlier hapax left open to them. A folder stays as its user made it.
    pub(super) fn keep_private(&self) {
        let own = ["hapax.db", "hapax.lock", "hapax.mark", "hapax.ballast"].map(|name| self.0.join(name));
        for file in own.into_iter().chain([self.wal(), self.beside("-shm")]) {
            if fs::metadata(&file).is_ok_and(|found| found.permissions().mode() & 0o077 != 0) {
                // By somebody who may write the file and does not own it, this cannot be done; the store works all the same.
                let _ = fs::set_permissions(&file, Permissions::from_mode(OWN_FILE));
            }
        }
    }

    /// Makes the names of the files durable.
    pub(super) fn sync(&self) -> Result<(), Error> {
        File::open(&self.0)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| self.cannot("the store's folder cannot be synced", error))
    }

    /// Takes the lock that only one process has.
    pub(super) fn lock(&self) -> Result<Lock, Error> {
        let path = self.0.join("hapax.lock");
        let mut file = own_file()
            .open(&path)
            .map_err(|error| self.cannot("the store's lock cannot be opened", error))?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            return Err(Error::unavailable(format!(
                "another process has this store open for writing: {}",
                self.0.display()
            ))
            .with_detail(format_args!("process {}: {error}", holder.trim())));
        }
        // Only told to whoever finds the store locked, so a failure does not matter.
        let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Lock { file })
    }

    /// The files of the store that is open here.
    pub(super) fn files(&self, lock: &Lock) -> Result<Files, Error> {
        let cannot = |error| self.cannot("the store's files cannot be looked at", error);
        let lock = (self.0.join("hapax.lock"), number(&lock.file.metadata().map_err(cannot)?));
        let mut files = vec![lock];
        // These are not opened here: closing them would take away the locks that SQLite has on them.
        for path in [self.database(), self.wal()] {
            let number = number(&fs::metadata(&path).map_err(cannot)?);
            files.push((path, number));
        }
        Ok(Files(files))
    }

    /// Opens the mark.
    pub(super) fn mark(&self) -> Result<Mark, Error> {
        let path = self.0.join("hapax.mark");
        let file = own_file()
            .open(&path)
            .map_err(|error| self.cannot("the store's mark cannot be opened", error))?;
        Ok(Mark { file })
    }

    fn cannot(&self, what: &'static str, error: std::io::Error) -> Error {
        Error::unavailable(what).with_detail(format_args!("{}: {error}", self.0.display()))
    }
}

/// Held as long as the store is open for writing; the system gives it up when the process ends, however it
/// ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

/// Which files stood behind the store's names when it was opened.
#[derive(Debug)]
pub(super) struct Files(Vec<(PathBuf, Number)>);

/// What tells one file from every other one.
type Number = (u64, u64);

fn number(file: &fs::Metadata) -> Number {
    (file.dev(), file.ino())
}

impl Files {
    /// The file that was removed or replaced, if one was. What is written to it from then on is gone when it is closed; and
    /// without the lock, another process may have the store open (B8).
    pub(super) fn missing(&self) -> Option<&Path> {
        let is_gone = |(path, opened): &&(PathBuf, Number)| match fs::metadata(path) {
            Ok(found) => number(&found) != *opened,
            // Where nobody may look any more, it is not known to be gone.
            Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        };
        self.0.iter().find(is_gone).map(|(path, _)| path.as_path())
    }
}

/// The number of the latest committed batch, beside the database.
///
/// It is written after each commit and not synced. Whatever ends the process, the mark is never ahead of what
/// was committed; after a power cut it may be behind. So a database that is behind its mark has lost commits.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
}

impl Mark {
    /// The batch that is marked; 0 where there is no readable mark.
    pub(super) fn read(&self) -> u64 {
        marked(&self.file)
    }

    /// Marks a batch as committed. A mark that cannot be written detects less, and does no harm.
    pub(super) fn write(&self, batch: u64) {
        let number = batch.to_le_bytes();
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&number);
        bytes[8..].copy_from_slice(&crc32fast::hash(&number).to_le_bytes());
        let _ = self.file.write_all_at(&bytes, 0);
    }
}

/// The batch that is marked in a store that others may have open; 0 where there is no readable mark.
pub(super) fn marked_in(folder: &Folder) -> u64 {
    File::open(folder.0.join("hapax.mark")).map_or(0, |file| marked(&file))
}

fn marked(file: &File) -> u64 {
    let mut bytes = [0; 12];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return 0;
    }
    let (number, sum) = bytes.split_at(8);
    if crc32fast::hash(number).to_le_bytes() != sum {
        return 0;
    }
    number.try_into().map_or(0, u64::from_le_bytes)
}

/// Refuses a database file that is too short to be one; SQLite would take some of them for new ones. Returns
/// its length.
///
/// The file is not opened here: closing it again would take away the locks that SQLite has on it in this
/// process.
pub(super) fn check_database(path: &Path) -> Result<u64, Error> {
    let length = fs::metadata(path)
        .map_err(|error| {
            Error::unavailable("there is no store").with_detail(format_args!("{}: {error}", path.display()))
        })?
        .len();
    if length < SMALLEST_DATABASE {
        return Err(damaged(format_args!("{}: cut off within its first page", path.display())));
    }
    Ok(length)
}

/// The least bytes that a database can have: one page of the smallest size.
const SMALLEST_DATABASE: u64 = 512;
