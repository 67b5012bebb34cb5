//! The transactional guard (L16), killed between any two of its steps.
//!
//! The work of a guarded worker is a business row in the database that holds the ledger: begin, insert, guard, commit. The
//! row and the settled claim are both there or neither, wherever the process dies; and making the call again ends with one
//! row. The cycle is the one of [`crash`]; only the work, the points and the count of effects are others.

use std::path::Path;

use anyhow::{Context as _, Result};
use hapax_core::{Kind, Outcome, Retention};
use hapax_exec::{Attempt, Ended};
use hapax_postgres::guard;
use hapax_testkit::upstream::Effect;
use tokio_postgres::{Client, NoTls, Transaction};

use crate::crash::{self, Plan, Work};
use crate::place::{self, Kind as Store};
use crate::report::Report;
use crate::words::{Run, outcome};

/// The business table. A second row for a key is possible, so that it can be found.
pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS books (key text NOT NULL, token text NOT NULL)";

/// The guard under `kill -9`.
pub fn plan(kills: usize, seed: u64) -> Plan {
    Plan {
        work: Work::Guarded,
        tracks: 3,
        least_hits: 5.min(kills / 9),
        ..Plan::slice(Store::Postgres, kills, seed)
    }
}

/// Carries it out.
pub fn run(program: &Path, kills: usize, seed: u64) -> Result<Report> {
    crash::run(program, &plan(kills, seed))
}

/// All business rows, as effects.
pub fn rows(url: &str) -> Result<Vec<Effect>> {
    place::runtime()?.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let driver = tokio::spawn(connection);
        let rows = client.query("SELECT key, token FROM books", &[]).await?;
        drop(client);
        let _ = driver.await;
        let effect = |row: tokio_postgres::Row| Effect { key: row.get(0), attempt: row.get(1), process: 0 };
        Ok(rows.into_iter().map(effect).collect())
    })
}

/// The application's own connection to its database.
pub(crate) struct Books {
    url: String,
    /// Off only to show that its absence is found.
    guarded: bool,
}

impl Books {
    /// Makes sure that the database can be reached.
    pub(crate) async fn open(url: &str, guarded: bool) -> Result<Books> {
        let books = Books { url: url.to_owned(), guarded };
        books.connect().await?;
        Ok(books)
    }

    async fn connect(&self) -> Result<Client> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls)
            .await
            .context("the application cannot reach its database")?;
        // It ends with the client.
        drop(tokio::spawn(connection));
        Ok(client)
    }

    /// The work: one row, and the outcome that belongs to it, in one transaction.
    pub(crate) async fn enter(&self, run: &Run, attempt: Attempt, token: &str) -> Ended {
        match self.transact(run, attempt, token).await {
            Ok(ended) => ended,
            Err(error) => Ended::NotRun(format!("{error:#}")),
        }
    }

    async fn transact(&self, run: &Run, attempt: Attempt, token: &str) -> Result<Ended> {
        let mut client = self.connect().await?;
        let tx = client.transaction().await?;
        fail::fail_point!("guard.begun");
        tx.execute("INSERT INTO books (key, token) VALUES ($1, $2)", &[&run.key, &token]).await?;
        fail::fail_point!("guard.inserted");
        let outcome = Outcome::Succeeded(outcome(token, run.size));
        if self.guarded {
            settle(&tx, attempt, &outcome).await?;
        }
        fail::fail_point!("guard.guarded");
        if let Err(error) = tx.commit().await {
            return Ok(Ended::Unknown(format!("COMMIT: {error}")));
        }
        fail::fail_point!("guard.committed");
        Ok(Ended::Settled(outcome))
    }
}

async fn settle(tx: &Transaction<'_>, attempt: Attempt, outcome: &Outcome) -> Result<()> {
    let (claim, epoch) = attempt.claim.zip(attempt.epoch).context("guarded work has a claim")?;
    match guard(tx, claim, epoch, outcome, Retention::Forever).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == Kind::LostLease => {
            Err(error).context("the guard refused a stale epoch")
        }
        Err(error) => Err(error).context("the guard could not settle"),
    }
}
