//! Room on disk (B5): new claims are refused while there is still room for the outcomes of those that were
//! granted.
//!
//! Two things are kept back. A reserve: below it nothing is granted. And a file of nothing, the ballast, for
//! the case that somebody else fills the disk: when a write finds no room, the ballast is given up and the
//! batch is tried again without its claims.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hapax_core::Error;
use rusqlite::Connection;
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::fault::Fault;
use super::folder::{Folder, own_file};
use super::schema::pragma;
use crate::limits;

/// A store that cannot be opened because the disk is full: this is how much it lacks.
pub(super) fn no_room(file: &Path) -> Error {
    let folder = file.parent().unwrap_or(file);
    let needed = (limits::SPACE_RESERVE + limits::BALLAST_BYTES) >> 20;
    let free = free(folder).map_or_else(|| "too little".to_owned(), |free| format!("{} KiB", free >> 10));
    Error::unavailable(format!(
        "there is no room for the store in {}: {free} is free there; make room for {needed} MiB at least",
        folder.display()
    ))
}

fn free(folder: &Path) -> Option<u64> {
    statvfs(folder).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// How much an embedded store may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// The most bytes that the database may have, its log not counted. An eighth of them is kept for the
    /// outcomes of what was granted.
    pub bytes: Option<u64>,
}

/// The state of the room on disk.
#[derive(Debug)]
pub(super) struct Space {
    folder: PathBuf,
    ballast: PathBuf,
    /// Pages up to which claims are granted, and pages there are in all.
    quota: Option<[i64; 2]>,
    refusing: bool,
    looked: Option<Instant>,
}

impl Space {
    /// Takes the ballast on board and sets the quota.
    pub(super) fn new(conn: &Connection, folder: &Folder, quota: Quota) -> Result<Self, Fault> {
        let quota = match quota.bytes {
            None => None,
            Some(bytes) => {
                let pages = i64::try_from(bytes / u64::from(limits::PAGE_SIZE)).unwrap_or(i64::MAX).max(64);
                conn.execute_batch(&format!("PRAGMA max_page_count = {}", pages - pages / 8))?;
                Some([pages - pages / 8, pages])
            }
        };
        let folder_path = folder.path().to_owned();
        let mut space =
            Space { folder: folder_path, ballast: folder.ballast(), quota, refusing: false, looked: None };
        space.take_ballast();
        Ok(space)
    }

    /// Whether new claims are refused.
    pub(super) fn refusing(&self) -> bool {
        self.refusing
    }

    /// Looks at how much room there is, not too often.
    pub(super) fn look(&mut self, conn: &Connection, held: u64) -> Result<(), Fault> {
        let recent = self.looked.is_some_and(|at| at.elapsed() < limits::SPACE_EVERY);
        if recent && self.quota.is_none() {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let on_disk = self.disk_room() >= limits::SPACE_RESERVE + held.saturating_mul(limits::SPACE_PER_HELD);
        let in_quota = match self.quota {
            None => true,
            Some([granting, _]) => pragma(conn, "page_count")? - pragma(conn, "freelist_count")? < granting,
        };
        if self.refusing && on_disk && in_quota {
            self.refusing = !self.make_ready(conn)?;
        } else {
            self.refusing = !(on_disk && in_quota);
        }
        Ok(())
    }

    /// Gives up what was kept back. `false` when there is nothing left to give up.
    pub(super) fn give_way(&mut self, conn: &Connection) -> Result<bool, Fault> {
        let first = !self.refusing;
        self.refusing = true;
        self.looked = Some(Instant::now());
        let ballast = fs::metadata(&self.ballast).is_ok_and(|file| file.len() > 0);
        if ballast {
            let _ = fs::remove_file(&self.ballast);
        }
        let mut raised = false;
        if let Some([_, all]) = self.quota {
            let before = pragma(conn, "max_page_count")?;
            conn.execute_batch(&format!("PRAGMA max_page_count = {all}"))?;
            raised = before < all;
        }
        Ok(first || ballast || raised)
    }

    /// There is room again: keep things back again.
    fn make_ready(&mut self, conn: &Connection) -> Result<bool, Fault> {
        if let Some([granting, _]) = self.quota {
            conn.execute_batch(&format!("PRAGMA max_page_count = {granting}"))?;
        }
        Ok(self.take_ballast())
    }

    fn take_ballast(&mut self) -> bool {
        let file = own_file().open(&self.ballast);
        let taken = file
            .is_ok_and(|file| fallocate(&file, FallocateFlags::empty(), 0, limits::BALLAST_BYTES).is_ok());
        if !taken {
            let _ = fs::remove_file(&self.ballast);
        }
        taken
    }

    fn disk_room(&self) -> u64 {
        // What cannot be found out is found out when a write fails.
        free(&self.folder).unwrap_or(u64::MAX)
    }
}
