//! When the write-ahead log is copied into the database, and by whom.
//!
//! SQLite would do it within some unlucky commit. Here a thread of its own copies what has gathered, beside
//! the writer and without holding it up. Only the last bit, after which the log can start anew, is copied by
//! the writer between two batches, because the log never ends while somebody else copies it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use hapax_core::Error;
use rusqlite::Connection;

use super::fault::Fault;
use super::schema::{self, pragma};
use super::state::State;
use crate::limits;

/// Commands after which the log's length is looked at.
const LOOK_AFTER: usize = 128;

/// The writer's side of it.
#[derive(Debug)]
pub(super) struct Log {
    page: u64,
    /// Commands since the log was last found copied.
    commands: usize,
    looked_at: usize,
    /// The log has bytes that are to be destroyed.
    wipe: bool,
    copier: SyncSender<()>,
    copying: Arc<AtomicBool>,
}

/// The side of the thread that copies.
pub(super) struct Copier {
    conn: Connection,
    page: u64,
    orders: Receiver<()>,
    copying: Arc<AtomicBool>,
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
    /// The log of a database that is open, and the one who copies it.
    pub(super) fn new(conn: &Connection, database: &Path) -> Result<(Log, Copier), Error> {
        let page = pragma(conn, "page_size").map_err(Fault::for_reader)?.cast_unsigned().max(512);
        let (copier, orders) = sync_channel(1);
        let copying = Arc::new(AtomicBool::new(false));
        let log = Log { page, commands: 0, looked_at: 0, wipe: false, copier, copying: copying.clone() };
        Ok((log, Copier { conn: schema::open_copier(database)?, page, orders, copying }))
    }

    /// Takes note of a commit.
    pub(super) fn grew(&mut self, commands: usize) {
        self.commands += commands;
        self.looked_at += commands;
    }

    /// The log must be copied and emptied as soon as readers let it: something in it was to be destroyed.
    pub(super) fn wipe(&mut self) {
        self.wipe = true;
        self.looked_at = LOOK_AFTER;
    }

    /// Has the log copied if it is time to. `idle` says that there is nothing else to do.
    pub(super) fn look(&mut self, conn: &Connection, idle: bool) -> Result<(), Fault> {
        if self.commands == 0 || (self.looked_at < LOOK_AFTER && !idle) {
            return Ok(());
        }
        self.looked_at = 0;
        let length = checkpoint(conn, "NOOP")?;
        if length.frames * self.page >= limits::WAL_HARD_BYTES {
            return passed(copy(conn, "RESTART", limits::WAL_HARD_WAIT).map(|_| ()));
        }
        if self.wipe {
            return passed(copy(conn, "TRUNCATE", Duration::ZERO).map(|left| self.wipe = left.frames > 0));
        }
        let (all, waiting) = (length.frames * self.page, length.waiting() * self.page);
        // Right after the other thread has copied, little is left to do here; nobody is answered while it is done.
        let little = waiting <= limits::WAL_BYTES / 4 && !self.copying.load(Ordering::Acquire);
        if (all >= limits::WAL_TURN_BYTES && little) || all >= 2 * limits::WAL_TURN_BYTES {
            return passed(copy(conn, "PASSIVE", Duration::ZERO).map(|_| ()));
        }
        if waiting >= limits::WAL_BYTES || (idle && waiting > 0) {
            // One order is enough, however often it is given.
            let _ = self.copier.try_send(());
        } else if waiting == 0 {
            self.commands = 0;
        }
        Ok(())
    }

    /// Copies everything and empties the log.
    pub(super) fn finish(&self, conn: &Connection) -> Result<(), Fault> {
        checkpoint(conn, "TRUNCATE").map(|_| ())
    }
}

impl Copier {
    /// Copies whenever it is told to, until the writer is gone.
    pub(super) fn run(self, state: &State) {
        while self.orders.recv().is_ok() {
            self.copying.store(true, Ordering::Release);
            let copied = self.catch_up();
            self.copying.store(false, Ordering::Release);
            if let Err(Fault::Io(detail)) = copied {
                state.stop(&detail);
                return;
            }
        }
    }

    /// While it copies, the writer goes on: each round has less to do than the one before.
    fn catch_up(&self) -> Result<(), Fault> {
        for _ in 0..limits::WAL_ROUNDS {
            let left = match checkpoint(&self.conn, "PASSIVE") {
                Ok(left) => left,
                Err(fault) => return passed(Err(fault)),
            };
            if left.waiting() * self.page <= limits::WAL_BYTES / 8 {
                break;
            }
        }
        Ok(())
    }
}

/// No room to copy into, or somebody else is at it: the log goes on for as long as there is room for that.
fn passed(copied: Result<(), Fault>) -> Result<(), Fault> {
    match copied {
        Err(Fault::Full | Fault::Batch(_)) => Ok(()),
        copied => copied,
    }
}

/// Copies the log as far as readers let it. How long they are waited for nobody is answered.
fn copy(conn: &Connection, mode: &str, wait: Duration) -> Result<Length, Fault> {
    conn.busy_timeout(wait)?;
    let after = checkpoint(conn, mode);
    conn.busy_timeout(limits::FILE_PATIENCE)?;
    after
}

fn checkpoint(conn: &Connection, mode: &str) -> Result<Length, Fault> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let length = conn.prepare_cached(&sql)?.query_row([], |row| {
        let (frames, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(Length { frames: frames.max(0).cast_unsigned(), copied: copied.max(0).cast_unsigned() })
    })?;
    Ok(length)
}
