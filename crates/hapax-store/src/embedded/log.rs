//! When the write-ahead log is copied into the database.
//!
//! SQLite would do it within some unlucky commit; here the writer does it between batches, when the log has grown long
//! enough to be worth it or when there is nothing else to do.

use rusqlite::Connection;

use super::fault::Fault;
use super::schema::pragma;
use crate::limits;

/// Commands after which the log's length is looked at.
const LOOK_AFTER: usize = 128;

/// What is known of the log.
#[derive(Debug)]
pub(super) struct Log {
    page: u64,
    /// Commands since the log was last looked at.
    commands: usize,
    /// The log has bytes that are to be destroyed.
    wipe: bool,
    /// The log is not copied again before this many frames wait; raised while readers keep it from being copied.
    wait_for: u64,
}

#[derive(Debug)]
struct Length {
    frames: u64,
    copied: u64,
}

impl Length {
    fn waiting(&self) -> u64 {
        self.frames.saturating_sub(self.copied)
    }
}

impl Log {
    /// The log of a database.
    pub(super) fn new(conn: &Connection) -> Result<Log, Fault> {
        let page = pragma(conn, "page_size")?.cast_unsigned().max(512);
        Ok(Log { page, commands: 0, wipe: false, wait_for: limits::WAL_BYTES / page })
    }

    /// Takes note of a commit.
    pub(super) fn grew(&mut self, commands: usize) {
        self.commands += commands;
    }

    /// The log must be copied and emptied as soon as readers let it: something in it was to be destroyed.
    pub(super) fn wipe(&mut self) {
        self.wipe = true;
    }

    /// Copies the log if it is time to.
    pub(super) fn look(&mut self, conn: &Connection, idle: bool) -> Result<(), Fault> {
        if self.wipe {
            match checkpoint(conn, "TRUNCATE") {
                Ok(left) => self.wipe = left.frames > 0,
                Err(Fault::Full | Fault::Batch(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        if self.commands == 0 || (self.commands < LOOK_AFTER && !idle) {
            return Ok(());
        }
        let length = checkpoint(conn, "NOOP")?;
        if !idle {
            self.commands = 0;
        }
        if length.waiting() < self.wait_for && !idle {
            return Ok(());
        }
        let hard = length.frames * self.page >= limits::WAL_HARD_BYTES;
        let after = match checkpoint(conn, if hard { "RESTART" } else { "PASSIVE" }) {
            Ok(after) => after,
            // No room to copy into: the log goes on for as long as there is room for that.
            Err(Fault::Full | Fault::Batch(_)) => length,
            Err(fault) => return Err(fault),
        };
        if after.waiting() == 0 {
            self.commands = 0;
        }
        self.wait_for = after.waiting() + limits::WAL_BYTES / self.page;
        Ok(())
    }

    /// Copies everything and empties the log.
    pub(super) fn finish(&self, conn: &Connection) -> Result<(), Fault> {
        checkpoint(conn, "TRUNCATE").map(|_| ())
    }
}

fn checkpoint(conn: &Connection, mode: &str) -> Result<Length, Fault> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let length = conn.prepare_cached(&sql)?.query_row([], |row| {
        let (frames, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(Length { frames: frames.max(0).cast_unsigned(), copied: copied.max(0).cast_unsigned() })
    })?;
    Ok(length)
}
