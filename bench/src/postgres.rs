//! The PostgreSQL store beside pgbench on the same server in the same round, and how fast waiters are woken.

use std::path::Path;
use std::time::{Duration, Instant};

use hapax_core::{Ledger as _, Outcome, Report as Said, Retention, Verdict, View, Watch as _};
use hapax_store::postgres::Postgres;
use hapax_store::{Lifecycle as _, Options};
use tokio_postgres::NoTls;

use crate::load::{self, Rate, median};
use crate::report::Report;
use crate::{Failure, LedgerArgs, pgbench};

const OUTCOME: usize = 1_024;

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
    compare(args, report, &store, &url, folder.path(), "empty").await?;
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

/// hapax and the best of pgbench, one after the other.
async fn round(
    args: &LedgerArgs,
    store: &Postgres,
    url: &str,
    folder: &Path,
    waiters: usize,
    clients: &[usize],
    hapax_first: bool,
) -> Result<(Rate, f64), Failure> {
    let hapax = async || load::run(store, waiters, Duration::from_secs(args.seconds), OUTCOME).await;
    let pgbench = async || {
        let mut best: f64 = 0.0;
        for clients in clients {
            best = best.max(pgbench::run(url, folder, *clients, args.seconds).await?);
        }
        Ok::<_, Failure>(best)
    };
    if hapax_first {
        return Ok((hapax().await?, pgbench().await?));
    }
    let best = pgbench().await?;
    Ok((hapax().await?, best))
}

async fn rounds(
    args: &LedgerArgs,
    store: &Postgres,
    url: &str,
    folder: &Path,
    waiters: usize,
    clients: &[usize],
) -> Result<(Rate, f64, f64), Failure> {
    let (mut rates, mut bests, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // Whoever comes second has the server's cleaning up after the first: they take turns.
    for number in 0..args.rounds {
        let (rate, best) = round(args, store, url, folder, waiters, clients, number % 2 == 1).await?;
        ratios.push(rate.pairs / best);
        rates.push(rate);
        bests.push(best);
    }
    ratios.sort_by(f64::total_cmp);
    bests.sort_by(f64::total_cmp);
    Ok((median(rates), bests[bests.len() / 2], ratios[ratios.len() / 2]))
}

async fn compare(
    args: &LedgerArgs,
    report: &mut Report,
    store: &Postgres,
    url: &str,
    folder: &Path,
    what: &str,
) -> Result<(), Failure> {
    for (waiters, clients, wanted) in [(64, &[8, 32, 64][..], 3.5), (512, &[8, 32, 64], 4.5), (1, &[1], 0.9)]
    {
        if !args.waiters.is_empty() && !args.waiters.contains(&waiters) {
            continue;
        }
        let (rate, best, ratio) = rounds(args, store, url, folder, waiters, clients).await?;
        report.figure(&format!("pgbench, best of {clients:?} clients, {what}"), best, "pairs/s");
        report.figure(&format!("hapax, {waiters} waiters, {what}"), rate.pairs, "pairs/s");
        report.figure(&format!("hapax, {waiters} waiters, {what}, claim p50"), rate.percentile(0.50), "ms");
        report.figure(&format!("hapax, {waiters} waiters, {what}, claim p99"), rate.percentile(0.99), "ms");
        report.ratio(&format!("hapax / pgbench, {waiters} waiters, {what}"), ratio, wanted);
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
    let (rate, best, ratio) = rounds(args, store, url, folder, 64, &[8, 32, 64]).await?;
    report.figure(&format!("pgbench, {} rows", args.rows), best, "pairs/s");
    report.figure(&format!("hapax, 64 waiters, {} rows", args.rows), rate.pairs, "pairs/s");
    report.figure(&format!("hapax, 64 waiters, {} rows, claim p99", args.rows), rate.percentile(0.99), "ms");
    report.ratio(&format!("hapax / pgbench, 64 waiters, {} rows", args.rows), ratio, 3.0);
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
