//! The real program under fire: `hapax serve` as a process that a test may kill, the service behind it in the test's own
//! process, where it survives and counts, and callers that send bytes on sockets.

pub(crate) mod caller;
pub(crate) mod cutter;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod service;
pub(crate) mod wire;

use std::path::{Path, PathBuf};
use std::process::Command;

use hapax_core::AttemptId;
use tempfile::TempDir;
use tokio_postgres::NoTls;

pub(crate) use caller::{Got, Who};
pub(crate) use process::Hapax;
pub(crate) use service::Service;

use crate::claims_cli::{Told, told};

/// The operators' token of every instance.
pub(crate) const TOKEN: &str = "operator-0123456789";

/// A lease that a test can wait for, and a living process does not lose at once.
pub(crate) const BRIEF: &str = "3s";

/// Where claims are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Embedded,
    Postgres,
}

/// A folder, a store and a service: everything that outlives a killed instance.
pub(crate) struct Ground {
    pub(crate) folder: TempDir,
    pub(crate) store: String,
    pub(crate) service: Service,
    /// How long a process that died keeps its claims; and so how long one that lives may stall.
    pub(crate) lease: &'static str,
    /// What stands before the routes in every configuration.
    pub(crate) sections: String,
    /// What stands after them.
    pub(crate) routes: String,
    /// Goes when the test ends.
    _database: Option<Database>,
}

impl Ground {
    pub(crate) async fn new(kind: Kind) -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let (store, database) = match kind {
            Kind::Embedded => (format!("embedded:{}", folder.path().join("data").display()), None),
            Kind::Postgres => {
                let database = Database::fresh().await;
                (database.url.clone(), Some(database))
            }
        };
        Self::on(folder, store, database).await
    }

    /// On a store that the test has made.
    pub(crate) async fn at(store: String) -> Ground {
        Self::on(tempfile::tempdir().unwrap(), store, None).await
    }

    async fn on(folder: TempDir, store: String, database: Option<Database>) -> Ground {
        let service = Service::start().await;
        let (sections, routes) = (String::new(), String::new());
        Ground { folder, store, service, lease: "30s", sections, routes, _database: database }
    }

    /// The configuration of the instance with this name.
    pub(crate) fn configuration(&self) -> String {
        let (store, lease, sections, routes) = (&self.store, self.lease, &self.sections, &self.routes);
        let service = self.service.address();
        format!(
            r#"
[edge]
listen = "127.0.0.1:0"
threads = 2
max_connections = 40000
attach_timeout = "300s"
[admin]
listen = "127.0.0.1:0"
token_env = "HAPAX_ADMIN_TOKEN"
[api]
listen = "127.0.0.1:0"
[store]
url = "{store}"
lease = "{lease}"
[auth.trusted_headers]
from = ["127.0.0.1"]
[auth.api_keys]
[log]
format = "text"
{sections}
[upstreams.service]
url = "http://{service}"
timeout = "300s"

# Must not happen twice.
[[routes]]
method = "POST"
path = "/charges"
operation = "charge"
policy = "REQUIRED_A"
upstream = "service"
fingerprint = "json"

# May happen twice.
[[routes]]
method = "POST"
path = "/notes"
operation = "note"
policy = "REQUIRED_A"
upstream = "service"
rerun = "safe"

[[routes]]
method = "POST"
path = "/files"
operation = "file"
policy = "REQUIRED_A"
upstream = "service"

[[routes]]
method = "GET"
path = "/charges"
policy = "PROHIBITED"
upstream = "service"
{routes}
"#
        )
    }

    /// Writes the configuration of an instance, and says where.
    pub(crate) fn write(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(format!("{name}.toml"));
        std::fs::write(&path, self.configuration()).unwrap();
        path
    }

    /// Starts an instance.
    pub(crate) async fn serve(&self) -> Hapax {
        self.serve_as("hapax").await
    }

    /// Starts one of several instances.
    pub(crate) async fn serve_as(&self, name: &str) -> Hapax {
        Hapax::start(&self.write(name), &[]).await
    }

    /// Runs a command line to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Told {
        told(hapax(args)).await
    }
}

/// A command line of the program, with nothing of the test's own environment that it would read.
pub(crate) fn hapax(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(args).env("HAPAX_ADMIN_TOKEN", TOKEN).env("USER", "alice");
    command.env_remove("HAPAX_STORE").env_remove("HAPAX_LOG").stdin(std::process::Stdio::null());
    command
}

/// Whether any file in this folder, or in one within it, holds these bytes.
pub(crate) fn holds(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        match path.is_dir() {
            true => holds(&path, bytes),
            false => std::fs::read(path)
                .is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes)),
        }
    })
}

/// A database that goes when the test ends.
pub(crate) struct Database {
    name: String,
    pub(crate) url: String,
    server: String,
}

impl Database {
    pub(crate) async fn fresh() -> Database {
        let server = std::env::var("HAPAX_TEST_POSTGRES").expect(
            "this test needs a PostgreSQL server: run `cargo xtask test`, or `cargo xtask postgres -- cargo test …`",
        );
        let name = format!("hapax_test_{:?}", AttemptId::random()).replace("at_", "");
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let (base, _) = server.rsplit_once('/').expect("the server's URL names a database");
        Database { url: format!("{base}/{name}"), name, server }
    }

    pub(crate) async fn run(&self, statement: &str) {
        execute(&self.url, statement).await;
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(execute(&server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")));
        });
        // What cannot be dropped goes with the server.
        let _ = dropping.join();
    }
}

async fn execute(server: &str, statement: &str) {
    let (client, connection) = tokio_postgres::connect(server, NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client.batch_execute(statement).await.expect("the statement runs");
}
