//! The embedded store beside a raw log, beside itself with one commit per operation, and beside itself with many keys.

use std::path::Path;
use std::time::{Duration, Instant};

use hapax_core::Ledger as _;
use hapax_sqlite::Embedded;
use hapax_store::{Lifecycle as _, Options};

use crate::load::{self, Rate, median};
use crate::report::Report;
use crate::{Failure, LedgerArgs, rawlog};

const OUTCOME: usize = 1_024;
const WAITERS: usize = 64;

/// Measures it all.
pub(crate) async fn measure(args: &LedgerArgs, report: &mut Report) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(".")?;
    let time = Duration::from_secs(args.seconds);
    report.heading("embedded store, 1 KiB outcomes, claim and settle each durable");
    let (empty, raw, alone) = at_no_keys(folder.path(), args, time).await?;
    report.figure("raw append + fdatasync log, 64 waiters", raw, "pairs/s");
    report.figure("embedded, 64 waiters", empty.pairs, "pairs/s");
    report.figure("embedded, 64 waiters, claim p50", empty.percentile(0.50), "ms");
    report.figure("embedded, 64 waiters, claim p99", empty.percentile(0.99), "ms");
    report.figure("embedded, 1 waiter (one commit per operation)", alone.pairs, "pairs/s");
    report.ratio("embedded / raw log", empty.pairs / raw, 0.35);
    report.ratio("embedded with group commit / one commit per operation", empty.pairs / alone.pairs, 5.0);
    memory(folder.path(), report).await?;
    many_keys(folder.path(), args, report).await
}

/// Round by round beside each other, because the machine is not the same from one minute to the next.
async fn at_no_keys(folder: &Path, args: &LedgerArgs, time: Duration) -> Result<(Rate, f64, Rate), Failure> {
    let (mut many, mut raw, mut one) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds {
        raw.push(rawlog::run(folder, WAITERS, time, OUTCOME).await?);
        let store = Embedded::open(folder.join(format!("empty{round}")), Options::default())?;
        many.push(load::run(&store, WAITERS, time, OUTCOME).await?);
        one.push(load::run(&store, 1, time, OUTCOME).await?);
        store.close().await?;
    }
    raw.sort_by(f64::total_cmp);
    Ok((median(many), raw[raw.len() / 2], median(one)))
}

/// What claims cost while they run.
async fn memory(folder: &Path, report: &mut Report) -> Result<(), Failure> {
    const CLAIMS: usize = 50_000;
    let store = Embedded::open(folder.join("held"), Options::default())?;
    let before = resident()?;
    for _ in 0..CLAIMS / 1_000 {
        let asked = (0..1_000).map(|_| {
            let store = store.clone();
            async move { store.claim(load::fresh()).await }
        });
        let mut set: tokio::task::JoinSet<_> = asked.collect();
        while let Some(verdict) = set.join_next().await {
            verdict??;
        }
    }
    let grown = resident()?.saturating_sub(before);
    report.figure("memory per live claim", grown as f64 / CLAIMS as f64, "bytes");
    store.close().await?;
    Ok(())
}

/// Resident memory of this process.
fn resident() -> Result<u64, Failure> {
    let pages: u64 =
        std::fs::read_to_string("/proc/self/statm")?.split(' ').nth(1).ok_or("no statm")?.parse()?;
    Ok(pages * 4_096)
}

async fn many_keys(folder: &Path, args: &LedgerArgs, report: &mut Report) -> Result<(), Failure> {
    let place = folder.join("many");
    let store = Embedded::open(&place, Options::default())?;
    load::fill(&store, args.keys, OUTCOME).await?;
    store.close().await?;
    let bytes: u64 = sizes(&place)?;
    report.figure(
        &format!("bytes on disk per claim at {} keys", args.keys),
        bytes as f64 / args.keys as f64,
        "bytes",
    );
    let started = Instant::now();
    let store = Embedded::open(&place, Options::default())?;
    report.figure(&format!("opening with {} keys", args.keys), started.elapsed().as_secs_f64(), "s");
    let (mut full, mut none, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds {
        // Each round beside a store without keys: the machine may have changed while the keys were made.
        let empty = Embedded::open(folder.join(format!("beside{round}")), Options::default())?;
        none.push(load::run(&empty, WAITERS, Duration::from_secs(args.seconds), OUTCOME).await?);
        empty.close().await?;
        full.push(load::run(&store, WAITERS, Duration::from_secs(args.seconds), OUTCOME).await?);
        ratios.push(full[round].pairs / none[round].pairs);
    }
    store.close().await?;
    ratios.sort_by(f64::total_cmp);
    let (full, none) = (median(full), median(none));
    report.figure("embedded, 64 waiters, no keys, in the same rounds", none.pairs, "pairs/s");
    report.figure(&format!("embedded, 64 waiters, {} keys", args.keys), full.pairs, "pairs/s");
    report.figure(
        &format!("embedded, 64 waiters, {} keys, claim p99", args.keys),
        full.percentile(0.99),
        "ms",
    );
    report.ratio("embedded with many keys / with none", ratios[ratios.len() / 2], 0.8);
    Ok(())
}

fn sizes(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
