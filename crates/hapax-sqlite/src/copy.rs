//! Copying a store as it is at one moment, beside the server that has it open (B8).
//!
//! The copy is read in one view of the store: the server goes on writing, and what it writes meanwhile is not in the copy. While the
//! view is held the server's log cannot start anew, so the view is held no longer than the copying takes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hapax_core::Error;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::fault::{Fault, damaged};
use super::folder::{Folder, marked_in, own_file};
use super::schema::{self, pragma};
use crate::limits;

/// A copy that is about to be made: its moment is chosen.
#[derive(Debug)]
pub struct StoreCopy {
    from: Connection,
    to: Connection,
    file: File,
    database: PathBuf,
    bytes: u64,
    incarnation: u16,
}

/// How far a copy has come, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are copied.
    pub done: u64,
    /// Bytes that there are.
    pub all: u64,
}

impl StoreCopy {
    /// Chooses the moment: everything that the store in this folder has committed before is in the copy. `to` must be there, as an
    /// empty file; its name may be removed as soon as this returns.
    pub fn begin(folder: impl Into<PathBuf>, to: &Path) -> Result<Self, Error> {
        let folder = Folder::with_store(folder.into())?;
        let database = folder.database();
        let file = own_file().open(to).map_err(|error| unwritten(&error))?;
        // Read before the view begins, or the store could have gone on in between.
        let marked = marked_in(&folder);
        let from = schema::open_reader(&database)?;
        let found = || -> Result<_, Fault> {
            from.execute_batch("BEGIN")?;
            let meta = schema::check_version(&from)?;
            if meta.batch < marked {
                let text = format_args!(
                    "batch {marked} was committed and batch {} is the last one there",
                    meta.batch
                );
                return Err(damaged(text).into());
            }
            let pages = pragma(&from, "page_count")?.cast_unsigned();
            Ok((meta.incarnation, pages * pragma(&from, "page_size")?.cast_unsigned()))
        };
        let (incarnation, bytes) = found().map_err(|fault| schema::opening_fault(&database, fault))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let to = Connection::open_with_flags(to, flags).map_err(|error| Fault::from(error).for_reader())?;
        // It is synced as a whole when it is whole.
        to.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
            .map_err(|error| Fault::from(error).for_reader())?;
        Ok(StoreCopy { from, to, file, database, bytes, incarnation })
    }

    /// Which life of the store is copied (L4).
    pub fn incarnation(&self) -> u16 {
        self.incarnation
    }

    /// Bytes that the copy will have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies, and returns the copy, synced. Piece by piece, with a pause after each that is as long as the piece took: what the
    /// server must sync waits behind one piece at most.
    pub fn run(self, mut progress: impl FnMut(Progress)) -> Result<File, Error> {
        let StoreCopy { from, mut to, file, database, bytes, .. } = self;
        let page =
            (bytes / pragma(&from, "page_count").map_err(Fault::for_reader)?.max(1).cast_unsigned()).max(512);
        let pages = i32::try_from(limits::COPY_PIECE / page).unwrap_or(i32::MAX).max(1);
        let copying = Backup::new(&from, &mut to).map_err(|error| Fault::from(error).for_reader())?;
        loop {
            let began = hapax_store::parts::clock::now();
            let step = copying.step(pages).map_err(|error| schema::opening_fault(&database, error.into()))?;
            fail::fail_point!("embedded.copying");
            let at = copying.progress();
            let left = u64::from(at.remaining.max(0).cast_unsigned()) * page;
            progress(Progress { done: bytes.saturating_sub(left), all: bytes });
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                _ => return Err(Error::unavailable("another program has the store's file locked")),
            }
            file.sync_data().map_err(|error| unwritten(&error))?;
            std::thread::sleep(began.elapsed().min(limits::COPY_PAUSE));
        }
        drop(copying);
        to.close().map_err(|(_, error)| Fault::from(error).for_reader())?;
        file.sync_all().map_err(|error| unwritten(&error))?;
        Ok(file)
    }
}

fn unwritten(error: &std::io::Error) -> Error {
    Error::unavailable("the copy cannot be written").with_detail(error)
}

/// Whether a file stands under a name, or something else does.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
