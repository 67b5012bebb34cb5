//! Room on disk (B5): new claims are refused while there is still room for the outcomes of those that were
//! granted.
//!
//! Two things are kept back. A reserve, without which nothing is granted: 32 MiB, and for each claim that is held twice the
//! largest outcome that it may bring, because that goes to the log and from there to the database. What is the largest
//! is said by the options, and later by whoever expects larger ones; where more than 256 are held, the largest that was seen since the store was opened
//! counts for each of the others, or nobody could have ten thousand small calls under way. And a file of nothing, the
//! ballast, for the case that somebody else fills the disk: when a write finds no room, the ballast is given up and the batch is
//! tried again without its claims.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hapax_core::Error;
use hapax_store::parts::clock;
use rusqlite::Connection;
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::fault::{Fault, full};
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

/// Bytes that must be free on the disk of the store in this folder for it to grant a claim while none is held, if the largest
/// outcome has so many; with those that it takes for itself when it is opened, where it has not yet.
pub fn room_needed(folder: &Path, largest_outcome: usize) -> u64 {
    let ballast = fs::metadata(Folder::new(folder.to_owned()).ballast()).map_or(0, |file| file.len());
    Room::new(largest_outcome).needed(1) + limits::BALLAST_BYTES.saturating_sub(ballast)
}

pub(super) fn free(folder: &Path) -> Option<u64> {
    statvfs(folder).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// How many bytes the files of the store take.
pub(super) fn taken(folder: &Path) -> Option<u64> {
    let sizes = std::fs::read_dir(folder).ok()?.flatten().filter_map(|file| file.metadata().ok());
    Some(sizes.filter(std::fs::Metadata::is_file).map(|file| file.len()).sum())
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
    room: Room,
    looked: Option<Instant>,
}

/// How much room there is for what may be granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// New claims are refused, and whatever else can be done without.
    pub(super) refusing: bool,
    /// Bytes that were free on disk.
    free: u64,
    /// Bytes of the largest outcome that may come.
    largest: u64,
    /// Bytes of the largest outcome that has come.
    seen: u64,
}

impl Room {
    /// Room without end, until something else is known.
    pub(super) fn new(largest: usize) -> Self {
        Room { refusing: false, free: u64::MAX, largest: largest as u64, seen: limits::SPACE_LEAST_HELD }
    }

    /// Refuses a claim, if the outcomes of so many held claims would not have room; says how much is there and how much is kept
    /// back.
    pub(super) fn check(&self, held: u64) -> Result<(), Error> {
        let needed = self.needed(held);
        match (self.refusing, self.free >= needed) {
            (false, true) => Ok(()),
            (_, false) => Err(full().with_detail(format_args!(
                "{} MiB are free on disk, and {} MiB are kept back for the outcomes of {held} claims",
                self.free >> 20,
                needed >> 20
            ))),
            (true, true) => {
                Err(full().with_detail("its quota is used up, or its ballast cannot be taken again"))
            }
        }
    }

    /// Whether the outcomes of so many held claims have room.
    fn is_enough_for(&self, held: u64) -> bool {
        self.free >= self.needed(held)
    }

    /// Bytes that are kept back while so many claims are held.
    fn needed(&self, held: u64) -> u64 {
        let fully = held.min(limits::SPACE_FULL_HELD);
        let outcomes =
            fully.saturating_mul(self.largest).saturating_add((held - fully).saturating_mul(self.seen));
        outcomes.saturating_mul(limits::SPACE_TIMES).saturating_add(limits::SPACE_RESERVE)
    }

    /// Whether there is so much that nobody need look often.
    fn is_ample_for(&self, held: u64) -> bool {
        self.free >= self.needed(held).saturating_add(limits::SPACE_AMPLE)
    }
}

/// Gives up the ballast where there is not even room to open a store: without that, nobody could read what it has kept. A
/// store that is opened takes it again, if there is room for it beside what opening took.
pub(super) fn make_way(folder: &Folder) {
    if disk_room(folder.path()) < limits::SPACE_TO_OPEN {
        // If it is not there, there is nothing to give up.
        let _ = fs::remove_file(folder.ballast());
    }
}

fn disk_room(folder: &Path) -> u64 {
    // What cannot be found out is found out when a write fails.
    statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

impl Space {
    /// Takes the ballast on board and sets the quota.
    pub(super) fn new(
        conn: &Connection,
        folder: &Folder,
        quota: Quota,
        largest: usize,
    ) -> Result<Self, Fault> {
        let quota = match quota.bytes {
            None => None,
            Some(bytes) => {
                let pages = i64::try_from(bytes / u64::from(limits::PAGE_SIZE)).unwrap_or(i64::MAX).max(64);
                conn.execute_batch(&format!("PRAGMA max_page_count = {}", pages - pages / 8))?;
                Some([pages - pages / 8, pages])
            }
        };
        let folder_path = folder.path().to_owned();
        let room = Room::new(largest);
        let mut space = Space { folder: folder_path, ballast: folder.ballast(), quota, room, looked: None };
        space.take_ballast();
        Ok(space)
    }

    /// How much room there is.
    pub(super) fn room(&self) -> Room {
        self.room
    }

    /// Takes note of how large an outcome may come.
    pub(super) fn reckon_with(&mut self, largest: usize) {
        self.room.largest = self.room.largest.max(largest as u64);
    }

    /// Takes note of an outcome that has come.
    pub(super) fn saw(&mut self, bytes: usize) {
        self.room.seen = self.room.seen.max(bytes as u64);
        self.reckon_with(bytes);
    }

    /// Looks at how much room there is, not too often.
    pub(super) fn look(&mut self, conn: &Connection, held: u64) -> Result<(), Fault> {
        let recent = self.looked.is_some_and(|at| at.elapsed() < limits::SPACE_EVERY);
        // Where room is short, whatever is written between two looks counts.
        let enough = self.room.refusing || self.room.is_ample_for(held);
        if recent && enough && self.quota.is_none() {
            return Ok(());
        }
        self.looked = Some(clock::now());
        self.room.free = disk_room(&self.folder);
        let on_disk = self.room.is_enough_for(held);
        let in_quota = match self.quota {
            None => true,
            Some([granting, _]) => pragma(conn, "page_count")? - pragma(conn, "freelist_count")? < granting,
        };
        if self.room.refusing && on_disk && in_quota {
            self.room.refusing = !self.make_ready(conn)?;
            self.room.free = disk_room(&self.folder);
        } else {
            self.room.refusing = !(on_disk && in_quota);
        }
        Ok(())
    }

    /// Gives up what was kept back. `false` when there is nothing left to give up.
    pub(super) fn give_way(&mut self, conn: &Connection) -> Result<bool, Fault> {
        let first = !self.room.refusing;
        self.room.refusing = true;
        self.looked = Some(clock::now());
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
}
