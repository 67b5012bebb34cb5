//! Databases of their own for tests, on the server that `cargo xtask test` starts.

use std::process::Command;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::NoTls;

/// A database that goes when the test ends.
pub(crate) struct Database {
    name: String,
    url: String,
    server: String,
}

impl Database {
    /// Makes one.
    pub(crate) async fn fresh() -> Database {
        let server = std::env::var("HAPAX_TEST_POSTGRES").expect(
            "this test needs a PostgreSQL server: run `cargo xtask test`, or `cargo xtask postgres -- cargo test …`",
        );
        let tail = hapax_core::AttemptId::random();
        let name = format!("hapax_test_{:?}", tail).replace("at_", "");
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let (base, _) = server.rsplit_once('/').expect("the server's URL names a database");
        Database { url: format!("{base}/{name}"), name, server }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether it takes writes from now on; cuts every connection to it, because only new ones learn of it.
    pub(crate) async fn takes_writes(&self, whether: bool) {
        let (name, read_only) = (&self.name, if whether { "off" } else { "on" });
        let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = {read_only}");
        execute(&self.server, &set).await;
        let cut = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
        execute(&self.server, &cut).await;
    }

    /// Whether it lets anybody in from now on. Those who are in stay.
    pub(crate) async fn lets_in(&self, whether: bool) {
        execute(&self.server, &format!("ALTER DATABASE {} ALLOW_CONNECTIONS {whether}", self.name)).await;
    }

    /// How many connections to it were ever made and are gone.
    pub(crate) async fn connections(&self) -> i64 {
        let (client, connection) =
            tokio_postgres::connect(&self.server, NoTls).await.expect("the server answers");
        tokio::spawn(connection);
        let sql = "SELECT sessions FROM pg_stat_database WHERE datname = $1";
        client.query_one(sql, &[&self.name]).await.expect("the server answers").get(0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
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

/// Looks until it is so, and fails if it never is.
pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(20), looking).await.expect("what the test waits for happens");
}

/// Returns when a statement with this in its text waits for a lock in the database. On a connection of its own, because
/// a transaction goes on seeing what was going on when it first looked.
pub(crate) async fn until_somebody_waits(database: &Database, statement: &str) {
    let (client, connection) =
        tokio_postgres::connect(database.url(), NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                   AND wait_event_type = 'Lock' AND position($1 IN query) > 0)";
    until(async || client.query_one(sql, &[&statement]).await.expect("the server answers").get(0)).await;
}

/// Set where a test runs in a process of its own.
const ALONE: &str = "HAPAX_TEST_ALONE";

/// Whether this process runs one test alone.
pub(crate) fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs a test in a process of its own, because what it changes or looks at is the whole process's.
pub(crate) fn run_alone(test: &str, variables: &[(&str, &str)]) {
    // Not by its name: whoever builds meanwhile puts another program there.
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", test, "--nocapture"]).env(ALONE, "1").envs(variables.iter().copied());
    let output = command.output().expect("the test starts");
    let told = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{variables:?}\n{told}\n{complaint}");
}
