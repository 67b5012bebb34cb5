//! Where a run takes place: a folder for effects and embedded stores, and a database that is its own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hapax_testkit::upstream::CountingFile;
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// Names the server; the test command sets it.
pub const SERVER_VAR: &str = "HAPAX_TEST_POSTGRES";

/// Which store is tortured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// A file on this machine.
    Embedded,
    /// A PostgreSQL database.
    Postgres,
}

impl Kind {
    /// As the command line has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Embedded => "embedded",
            Kind::Postgres => "postgres",
        }
    }
}

/// A place of one run; everything in it is gone when it is dropped.
#[derive(Debug)]
pub struct Place {
    // Dropped in this order: the database before the folder.
    database: Option<Database>,
    folder: TempDir,
}

impl Place {
    /// A place for a kind of store.
    pub fn new(kind: Kind) -> Result<Place> {
        match kind {
            Kind::Embedded => Place::embedded(),
            Kind::Postgres => Place::postgres(),
        }
    }

    /// A place for embedded stores.
    pub fn embedded() -> Result<Place> {
        Ok(Place { database: None, folder: folder()? })
    }

    /// A place with a database of its own on the test command's server.
    pub fn postgres() -> Result<Place> {
        let server = std::env::var(SERVER_VAR).ok().with_context(|| {
            format!("{SERVER_VAR} is not set: run this with `cargo xtask test` or `cargo xtask torture`")
        })?;
        Place::on(&server)
    }

    /// A place with a database of its own on this server.
    pub fn on(server: &str) -> Result<Place> {
        Ok(Place { database: Some(Database::create(server)?), folder: folder()? })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A store; embedded ones are different for different names.
    pub fn store(&self, name: &str) -> String {
        match &self.database {
            Some(database) => database.url.clone(),
            None => format!("embedded:{}", self.store_folder(name).display()),
        }
    }

    /// The folder of an embedded store.
    pub fn store_folder(&self, name: &str) -> PathBuf {
        self.folder().join(format!("store-{name}"))
    }

    /// A file to count effects in.
    pub fn effects(&self, name: &str) -> CountingFile {
        CountingFile::new(self.folder().join(format!("effects-{name}")))
    }
}

fn folder() -> Result<TempDir> {
    tempfile::Builder::new().prefix("hapax-torture-").tempdir().context("cannot create a folder")
}

/// A database that is dropped with the value.
#[derive(Debug)]
struct Database {
    server: String,
    name: String,
    url: String,
}

impl Database {
    fn create(server: &str) -> Result<Database> {
        let unique = tempfile::Builder::new().rand_bytes(12).tempfile()?;
        let random: String =
            unique.path().to_string_lossy().chars().filter(char::is_ascii_alphanumeric).collect();
        let tail = random[random.len().saturating_sub(12)..].to_lowercase();
        let name = format!("torture_{}_{tail}", std::process::id());
        execute(server, &format!("CREATE DATABASE {name}"))?;
        Ok(Database { server: server.to_owned(), url: with_database(server, &name), name })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A server that is gone has taken the database along.
        let _ = execute(&self.server, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// The same server's URL with another database.
fn with_database(url: &str, name: &str) -> String {
    let (address, parameters) =
        url.split_once('?').map_or((url, None), |(address, rest)| (address, Some(rest)));
    let start = address.find("://").map_or(0, |at| at + 3);
    let end = address[start..].find('/').map_or(address.len(), |at| start + at);
    let parameters = parameters.map_or_else(String::new, |parameters| format!("?{parameters}"));
    format!("{}/{name}{parameters}", &address[..end])
}

/// Runs one statement on a connection of its own.
pub fn execute(url: &str, sql: &str) -> Result<()> {
    runtime()?.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.context("cannot reach the PostgreSQL server")?;
        let driver = tokio::spawn(connection);
        let done = client.batch_execute(sql).await.with_context(|| format!("PostgreSQL refused `{sql}`"));
        drop(client);
        let _ = driver.await;
        done
    })
}

/// A small runtime for a parent that is not asynchronous itself.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a runtime")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_takes_the_place_of_the_one_in_the_url() {
        let own = |url| with_database(url, "own");
        assert_eq!(
            own("postgres://postgres@127.0.0.1:5432/postgres"),
            "postgres://postgres@127.0.0.1:5432/own"
        );
        assert_eq!(own("postgres://h/db?connect_timeout=3"), "postgres://h/own?connect_timeout=3");
        assert_eq!(own("postgres://h"), "postgres://h/own");
    }
}
