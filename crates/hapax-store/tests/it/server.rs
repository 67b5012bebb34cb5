//! Databases of their own for tests, on the server that `cargo xtask test` starts.

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
