//! The database file: how it is opened, what is in it, and when it is refused.

use std::path::Path;

use hapax_core::{Error, Timestamp};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::fault::{Fault, damaged};
use super::finder::Entry;
use super::recent::Told;
use super::rows::unsigned;
use super::space;
use super::sum::Sum;
use crate::limits;

/// Says that a database is a hapax store: "hapx".
pub(super) const APPLICATION_ID: i64 = 0x6861_7078;
/// The version of the tables that this hapax writes. Until 0.1.0 is released they are changed in place.
pub(super) const SCHEMA_VERSION: i64 = 1;
/// The oldest version of the tables whose programs can work on what this one writes.
const OLDEST_COMPATIBLE: i64 = 1;

const TABLES: &str = include_str!("schema.sql");

/// What the store knows of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    /// Schema version below which a program must not touch the store.
    pub(super) oldest_compatible: i64,
    /// Which life of the store this is (L4).
    pub(super) incarnation: u16,
    /// No epoch counter up to this one is given out again.
    pub(super) epoch_reserved: u64,
    /// How many batches were committed.
    pub(super) batch: u64,
    /// The latest time that was written (L12).
    pub(super) latest: Timestamp,
    /// When the store was made.
    pub(super) created_at: Timestamp,
    /// What the index that finds claims has been told, and what it may not have been.
    pub(super) told: Told,
}

impl Meta {
    fn sum(&self) -> Sum {
        Sum::of("store")
            .int(self.oldest_compatible)
            .int(i64::from(self.incarnation))
            .int(self.epoch_reserved.cast_signed())
            .int(self.batch.cast_signed())
            .int(self.latest.as_micros())
            .int(self.created_at.as_micros())
            .int(self.told.from)
            .int(self.told.to)
            .int(self.told.done)
            .int(self.told.round)
            .int(self.told.at.prefix)
            .int(self.told.at.row)
    }

    /// Reads it.
    pub(super) fn read(conn: &Connection) -> Result<Meta, Fault> {
        let sql = "SELECT oldest_compatible, incarnation, epoch_reserved, batch, latest_at, created_at, \
                   recent_from, recent_to, recent_done, recent_round, recent_prefix, recent_claim, crc \
                   FROM store WHERE id = 1";
        let (meta, crc) = conn.prepare_cached(sql)?.query_row([], |row| {
            let meta = Meta {
                oldest_compatible: row.get(0)?,
                incarnation: row.get(1)?,
                epoch_reserved: unsigned(row, 2)?,
                batch: unsigned(row, 3)?,
                latest: Timestamp::from_micros(row.get(4)?),
                created_at: Timestamp::from_micros(row.get(5)?),
                told: Told {
                    from: row.get(6)?,
                    to: row.get(7)?,
                    done: row.get(8)?,
                    round: row.get(9)?,
                    at: Entry { prefix: row.get(10)?, row: row.get(11)? },
                },
            };
            Ok((meta, row.get(12)?))
        })?;
        meta.sum().check(crc, || "the store's own row".into())?;
        Ok(meta)
    }

    /// Writes it.
    pub(super) fn write(&self, conn: &Connection) -> Result<(), Fault> {
        let sql = "INSERT OR REPLACE INTO store (id, oldest_compatible, incarnation, epoch_reserved, batch, latest_at, \
                   created_at, recent_from, recent_to, recent_done, recent_round, recent_prefix, recent_claim, crc) \
                   VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        conn.prepare_cached(sql)?.execute(params![
            self.oldest_compatible,
            self.incarnation,
            self.epoch_reserved.cast_signed(),
            self.batch.cast_signed(),
            self.latest.as_micros(),
            self.created_at.as_micros(),
            self.told.from,
            self.told.to,
            self.told.done,
            self.told.round,
            self.told.at.prefix,
            self.told.at.row,
            self.sum().value(),
        ])?;
        Ok(())
    }
}

/// Opens an existing database for writing. `whole` is the length of the file if it must have all pages.
pub(super) fn open_writer(path: &Path, whole: Option<u64>) -> Result<(Connection, Meta), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|error| opening(path, error))?;
    prepare_writer(&conn, whole).map(|meta| (conn, meta)).map_err(|fault| opening_fault(path, fault))
}

fn prepare_writer(conn: &Connection, whole: Option<u64>) -> Result<Meta, Fault> {
    conn.busy_timeout(limits::FILE_PATIENCE)?;
    conn.set_prepared_statement_cache_capacity(limits::STATEMENTS);
    keep_log(conn)?;
    conn.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY; \
         PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; \
         PRAGMA secure_delete = FAST; PRAGMA cache_size = -{}; PRAGMA journal_size_limit = {}",
        limits::WRITER_PAGES_KIB,
        limits::WAL_KEPT_BYTES,
    ))?;
    if let Some(length) = whole {
        check_length(conn, length)?;
    }
    check_version(conn)
}

/// Switches to a write-ahead log.
fn keep_log(conn: &Connection) -> Result<(), Fault> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Error::unavailable("the file system does not support what the store needs")
            .with_detail(mode)
            .into());
    }
    Ok(())
}

/// Makes an empty store at this path, whole and durable when this returns. `now` is the machine's clock.
pub(super) fn make(path: &Path, now: Timestamp) -> Result<(), Error> {
    let conn = Connection::open(path).map_err(|error| opening(path, error))?;
    make_tables(&conn, now).map_err(|fault| opening_fault(path, fault))?;
    conn.close().map_err(|(_, error)| opening(path, error))
}

fn make_tables(conn: &Connection, now: Timestamp) -> Result<(), Fault> {
    let meta = Meta {
        oldest_compatible: OLDEST_COMPATIBLE,
        incarnation: 1,
        epoch_reserved: 0,
        batch: 0,
        latest: Timestamp::ZERO,
        created_at: now,
        told: Told::default(),
    };
    // Only a database without any table takes the page size.
    conn.execute_batch(&format!("PRAGMA page_size = {}; PRAGMA synchronous = FULL", limits::PAGE_SIZE))?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    conn.execute_batch(TABLES)?;
    conn.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}"
    ))?;
    meta.write(conn)?;
    conn.execute_batch("COMMIT")?;
    keep_log(conn)
}

/// Refuses what is not a hapax store, and one that a newer hapax says we must not touch (B8).
pub(super) fn check_version(conn: &Connection) -> Result<Meta, Fault> {
    if pragma(conn, "application_id")? != APPLICATION_ID {
        return Err(Error::corrupt("this is a database, but not a hapax store").into());
    }
    // Read without its checksum first: a newer version may have another row.
    let oldest: Option<i64> = conn
        .query_row("SELECT oldest_compatible FROM store WHERE id = 1", [], |row| row.get(0))
        .optional()?;
    match oldest {
        None => Err(damaged("the store's own row is missing").into()),
        Some(oldest) if oldest > SCHEMA_VERSION => {
            let written = pragma(conn, "user_version")?;
            let detail =
                format!("schema {written}, needs at least {oldest}, this hapax knows {SCHEMA_VERSION}");
            Err(Error::corrupt("this store was written by a newer hapax; use that one")
                .with_detail(detail)
                .into())
        }
        Some(_) => Meta::read(conn),
    }
}

/// Refuses a database whose file is shorter than its pages, where no log has the rest of them.
pub(super) fn check_length(conn: &Connection, length: u64) -> Result<(), Fault> {
    let whole = pragma(conn, "page_count")?.cast_unsigned() * pragma(conn, "page_size")?.cast_unsigned();
    if length < whole {
        return Err(damaged(format_args!("{length} bytes instead of {whole}")).into());
    }
    Ok(())
}

/// Opens the database for reading beside whoever writes it.
pub(super) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|error| opening(path, error))?;
    let prepare = || -> Result<(), Fault> {
        conn.busy_timeout(limits::FILE_PATIENCE)?;
        conn.set_prepared_statement_cache_capacity(limits::STATEMENTS);
        conn.execute_batch(&format!(
            "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA cache_size = -{}",
            limits::READER_PAGES_KIB
        ))?;
        Ok(())
    };
    prepare().map_err(|fault| opening_fault(path, fault))?;
    Ok(conn)
}

/// Opens the database for copying the log into it.
pub(super) fn open_copier(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|error| opening(path, error))?;
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -64")
        .map_err(|error| opening(path, error))?;
    Ok(conn)
}

/// A pragma that answers with a number.
pub(super) fn pragma(conn: &Connection, name: &str) -> Result<i64, Fault> {
    Ok(conn.prepare_cached(&format!("PRAGMA {name}"))?.query_row([], |row| row.get(0))?)
}

fn opening(path: &Path, error: rusqlite::Error) -> Error {
    match Fault::from(error) {
        Fault::Batch(error) => Error::unavailable("the store's file cannot be opened")
            .with_detail(format_args!("{}: {error:#}", path.display())),
        fault => opening_fault(path, fault),
    }
}

/// The same error, with the file it is about.
pub(super) fn opening_fault(path: &Path, fault: Fault) -> Error {
    if let Fault::Full = fault {
        return space::no_room(path);
    }
    let error = fault.for_reader();
    let detail = format!("{}: {}", path.display(), error.detail().unwrap_or_default());
    error.with_detail(detail)
}
