//! The schema and how it comes to be: embedded migrations, carried out by one process at a time (B1).
//!
//! A migration only ever adds (expand), so that older processes go on working beside newer ones; what they no
//! longer need is taken away in a later version (contract), which raises `oldest_compatible`.

use hapax_core::Error;

use super::failure::Failure;
use super::link::Link;
use super::row::get;
use crate::limits;

/// What brings a database from version n to n + 1, from an empty one on.
///
/// Until hapax 0.1.0 is released there is one, which is changed in place.
const MIGRATIONS: &[&str] = &[include_str!("sql/0001_schema.sql")];

/// The version of the schema that this hapax makes and knows.
pub const SCHEMA_VERSION: i32 = MIGRATIONS.len() as i32;

/// The oldest version of the schema whose programs can work on what the last migration leaves.
const OLDEST_COMPATIBLE: i32 = 1;

/// Only one process migrates at a time.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('hapax.schema'))";

/// Makes sure that the schema is there and that this hapax can use it.
pub(super) async fn migrate(link: &mut Link) -> Result<(), Failure> {
    // Another process may be making the tables, which takes a while; changing large ones takes long.
    link.run("SET lock_timeout = '60s'").await?;
    link.allow(limits::MIGRATE_WITHIN);
    let result = migrate_locked(link).await;
    match result {
        Ok(()) => link.commit().await,
        Err(failure) => {
            // The failure says more than a rollback that fails too.
            let _ = link.rollback().await;
            Err(failure)
        }
    }
}

async fn migrate_locked(link: &mut Link) -> Result<(), Failure> {
    link.begin(LOCK, &[]).await.map_err(|failure| match failure {
        Failure::Busy => Error::unavailable("another process is still changing the database's schema").into(),
        failure => failure,
    })?;
    if !is_there(link).await? {
        link.run(
            "CREATE SCHEMA IF NOT EXISTS hapax;
             CREATE TABLE hapax.schema_version (
                 version integer PRIMARY KEY,
                 oldest_compatible integer NOT NULL,
                 applied_at timestamptz NOT NULL DEFAULT now());",
        )
        .await?;
    }
    for next in version(link).await?..SCHEMA_VERSION {
        link.run(MIGRATIONS[next.unsigned_abs() as usize]).await?;
        let insert = "INSERT INTO hapax.schema_version (version, oldest_compatible) VALUES ($1, $2)";
        link.query(insert, &[&(next + 1), &OLDEST_COMPATIBLE]).await?;
    }
    Ok(())
}

/// Makes sure that the schema is there and that this hapax can use it as it is. Changes nothing.
pub(super) async fn find(link: &mut Link, database: &str) -> Result<(), Failure> {
    if !is_there(link).await? {
        return Err(Error::unavailable(format!("there is no store in PostgreSQL at {database}")).into());
    }
    let (found, known) = (version(link).await?, SCHEMA_VERSION);
    if found < known {
        return Err(Error::unavailable(format!(
            "the store in PostgreSQL at {database} has version {found} of the schema, and this hapax knows version {known}: \
             the next `hapax serve` migrates it"
        ))
        .into());
    }
    Ok(())
}

async fn is_there(link: &mut Link) -> Result<bool, Failure> {
    let there = link.query_one("SELECT to_regclass('hapax.schema_version') IS NOT NULL", &[]).await?;
    Ok(get(&there, 0)?)
}

/// The schema's version, unless it is too new.
async fn version(link: &mut Link) -> Result<i32, Failure> {
    let sql =
        "SELECT coalesce(max(version), 0), coalesce(max(oldest_compatible), 0) FROM hapax.schema_version";
    let row = link.query_one(sql, &[]).await?;
    let (version, oldest): (i32, i32) = (get(&row, 0)?, get(&row, 1)?);
    let known = SCHEMA_VERSION;
    if oldest > known {
        return Err(Error::corrupt(format!(
            "the database's schema has version {version}, made for hapax that knows version {oldest} or later; this one \
             knows version {known}: use a newer hapax"
        ))
        .into());
    }
    Ok(version)
}

/// Refuses a server that would lose what it has confirmed (M6).
pub(super) async fn check_server(link: &mut Link) -> Result<(), Failure> {
    let row = link
        .query_one(
            "SELECT current_setting('server_version_num')::integer, current_setting('fsync'), \
             current_setting('full_page_writes'), current_setting('synchronous_commit'), pg_is_in_recovery()",
            &[],
        )
        .await?;
    let version: i32 = get(&row, 0)?;
    if version < 140_000 {
        return Err(Error::invalid("the PostgreSQL server is older than version 14").into());
    }
    for (setting, value) in [("fsync", get::<&str>(&row, 1)?), ("full_page_writes", get(&row, 2)?)] {
        if value != "on" {
            let message =
                format!("the PostgreSQL server has {setting} = {value}: it would lose what it has confirmed");
            return Err(Error::invalid(message).into());
        }
    }
    if !matches!(get(&row, 3)?, "on" | "remote_apply") {
        return Err(Error::invalid("synchronous_commit cannot be switched on for this connection").into());
    }
    if get(&row, 4)? {
        return Err(Error::unavailable("the PostgreSQL server is a replica").into());
    }
    Ok(())
}
