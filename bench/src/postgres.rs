//! The PostgreSQL store beside pgbench on the same server in the same round, and how fast waiters are woken.

use std::path::Path;
use std::time::{Duration, Instant};

use hapax_core::{Ledger as _, Outcome, Report as Said, Retention, Verdict, View, Watch as _};
use hapax_postgres::Postgres;
use hapax_store::{Lifecycle as _, Options};
use tokio_postgres::NoTls;

use crate::load::{self, Rate, median};
use crate::pgbench::Pair;
use crate::report::Report;
use crate::{Failure, LedgerArgs, pgbench};

pub(crate) const OUTCOME: usize = 1_024;

/// Measures it all.
pub(crate) async fn measure(args: &LedgerArgs, report: &mut Report) -> Result<(), Failure> {
    let server = std::env::var("HAPAX_TEST_POSTGRES")
        .map_err(|_| "no PostgreSQL to measure on: run `cargo xtask bench ledger`, which starts one")?;
    let folder = tempfile::tempdir()?;
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("DROP DATABASE IF EXISTS hapax_bench").await?;
    client.batch_execute("CREATE DATABASE hapax_bench").await?;
    let url = in_database(&server, "hapax_bench")?;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    pgbench::set_up(&client).await?;

    report.heading("PostgreSQL, 1 KiB outcomes, claim and settle each durable");
    let store = Postgres::open(&url, Options::default()).await?;
    compare(args, report, &store, &url, folder.path()).await?;
    if args.waiters.is_empty() {
        waking(report, &store, &url).await?;
    }
    if args.rows > 0 {
        eprintln!("  making {} rows in both …", args.rows);
        load::fill(&store, args.rows, OUTCOME).await?;
        pgbench::fill(&client, args.rows).await?;
        client.batch_execute("CHECKPOINT").await?;
        with_rows(args, report, &store, &url, folder.path()).await?;
    }
    store.close().await?;
    Ok(())
}

fn in_database(server: &str, database: &str) -> Result<String, Failure> {
    let (base, _) = server.rsplit_once('/').ok_or("the server's URL names no database")?;
    Ok(format!("{base}/{database}"))
}

/// What is measured, and beside what.
struct Rounds<'a> {
    args: &'a LedgerArgs,
    store: &'a Postgres,
    url: &'a str,
    folder: &'a Path,
    /// Callers of the store.
    waiters: usize,
    /// The best of these counts.
    clients: &'a [usize],
}

/// The medians of all rounds, beside each pair of statements.
struct Medians {
    rate: Rate,
    own: (f64, f64),
    least: (f64, f64),
}

impl Rounds<'_> {
    async fn hapax(&self) -> Result<Rate, Failure> {
        load::run(self.store, self.waiters, Duration::from_secs(self.args.seconds), OUTCOME).await
    }

    /// The best of pgbench.
    async fn pgbench(&self, pair: Pair) -> Result<f64, Failure> {
        let mut best: f64 = 0.0;
        for clients in self.clients {
            best = best.max(pgbench::run(self.url, self.folder, pair, *clients, self.args.seconds).await?);
        }
        Ok(best)
    }

    /// One after the other. Whoever comes later has the server's cleaning up after the others: they take turns.
    async fn round(&self, number: usize) -> Result<(Rate, f64, f64), Failure> {
        Ok(match number % 3 {
            0 => {
                let (own, least) = (self.pgbench(Pair::Own).await?, self.pgbench(Pair::Least).await?);
                (self.hapax().await?, own, least)
            }
            1 => {
                let (rate, own) = (self.hapax().await?, self.pgbench(Pair::Own).await?);
                (rate, own, self.pgbench(Pair::Least).await?)
            }
            _ => {
                let (least, rate) = (self.pgbench(Pair::Least).await?, self.hapax().await?);
                (rate, self.pgbench(Pair::Own).await?, least)
            }
        })
    }

    async fn medians(&self) -> Result<Medians, Failure> {
        let (mut rates, mut own, mut least) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..self.args.rounds {
            let (rate, own_best, least_best) = self.round(number).await?;
            own.push((own_best, rate.pairs / own_best));
            least.push((least_best, rate.pairs / least_best));
            rates.push(rate);
        }
        Ok(Medians { rate: median(rates), own: middle(own), least: middle(least) })
    }
}

/// The median of each.
fn middle(pairs: Vec<(f64, f64)>) -> (f64, f64) {
    let (mut one, mut other): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    one.sort_by(f64::total_cmp);
    other.sort_by(f64::total_cmp);
    (one[one.len() / 2], other[other.len() / 2])
}

/// Tells what was measured, and what it came to beside each pair of statements.
fn tell(report: &mut Report, rounds: &Rounds<'_>, medians: &Medians, what: &str, wanted: f64) {
    let (waiters, clients) = (rounds.waiters, rounds.clients);
    let (own, least) = (medians.own, medians.least);
    report.figure(&format!("pgbench, same statements, best of {clients:?}, {what}"), own.0, "pairs/s");
    report.figure(&format!("pgbench, least statements, best of {clients:?}, {what}"), least.0, "pairs/s");
    report.figure(&format!("hapax, {waiters} waiters, {what}"), medians.rate.pairs, "pairs/s");
    for (name, part) in [("p50", 0.50), ("p99", 0.99)] {
        let percentile = medians.rate.percentile(part);
        report.figure(&format!("hapax, {waiters} waiters, {what}, claim {name}"), percentile, "ms");
    }
    report.ratio(&format!("hapax / pgbench, same statements, {waiters} waiters, {what}"), own.1, wanted);
    report.ratio(&format!("hapax / pgbench, least statements, {waiters} waiters, {what}"), least.1, wanted);
}

async fn compare(
    args: &LedgerArgs,
    report: &mut Report,
    store: &Postgres,
    url: &str,
    folder: &Path,
) -> Result<(), Failure> {
    for (waiters, clients, wanted) in [(64, &[8, 32, 64][..], 3.5), (512, &[8, 32, 64], 4.5), (1, &[1], 0.9)]
    {
        if !args.waiters.is_empty() && !args.waiters.contains(&waiters) {
            continue;
        }
        let rounds = Rounds { args, store, url, folder, waiters, clients };
        tell(report, &rounds, &rounds.medians().await?, "empty", wanted);
    }
    Ok(())
}

async fn with_rows(
    args: &LedgerArgs,
    report: &mut Report,
    store: &Postgres,
    url: &str,
    folder: &Path,
) -> Result<(), Failure> {
    let rounds = Rounds { args, store, url, folder, waiters: 64, clients: &[8, 32, 64] };
    tell(report, &rounds, &rounds.medians().await?, &format!("{} rows", args.rows), 3.0);
    Ok(())
}

/// From the settle in one process to the wake in another.
async fn waking(report: &mut Report, runner: &Postgres, url: &str) -> Result<(), Failure> {
    for (name, options) in [
        ("by notification", Options { poll: false, ..Options::default() }),
        ("by polling", Options { notify: false, ..Options::default() }),
    ] {
        let waiter = Postgres::open(url, options).await?;
        let mut took = Vec::new();
        for _ in 0..40 {
            took.push(wake_once(runner, &waiter).await?.as_secs_f64() * 1_000.0);
        }
        took.sort_by(f64::total_cmp);
        report.figure(&format!("waking a waiter in another process {name}, p50"), took[20], "ms");
        report.figure(&format!("waking a waiter in another process {name}, p95"), took[38], "ms");
        waiter.close().await?;
    }
    Ok(())
}

async fn wake_once(runner: &Postgres, waiter: &Postgres) -> Result<Duration, Failure> {
    let request = load::fresh();
    let claim = request.identity.claim_id();
    let Verdict::Granted(grant) = runner.claim(request).await? else { return Err("not granted".into()) };
    let mut watch = waiter.watch(claim);
    if !matches!(waiter.peek(claim).await?, Some(View::Held { .. })) {
        return Err("a running claim is not seen as held".into());
    }
    let waiting = async {
        while !matches!(waiter.peek(claim).await?, Some(View::Settled(_))) {
            watch.changed().await;
        }
        Ok::<_, Failure>(Instant::now())
    };
    let settling = async {
        // Let the waiter wait.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let outcome = Outcome::Succeeded("done".into());
        runner.report(claim, grant.epoch, Said::Settle(outcome, Retention::Forever), Vec::new()).await?;
        Ok::<_, Failure>(Instant::now())
    };
    let (woken, settled) = tokio::try_join!(waiting, settling)?;
    Ok(woken.saturating_duration_since(settled))
}
