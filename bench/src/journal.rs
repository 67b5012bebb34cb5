//! Journals and executions beside a raw log, bare SHA-256 and bare `once`; and what it takes to resume a long execution.

use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hapax_agent::durable::{
    AgentId, Coordinates, Creation, Declaration, ExecutionId, Executions, PlannedCall, Resume, Run, Step,
    Tools, verify,
};
use hapax_core::journal::{Append, Author, NewEvent, Stream};
use hapax_core::{Journal, Ledger, Scope};
use hapax_exec::{Call, Ended, Executor};
use hapax_postgres::Postgres;
use hapax_sqlite::Embedded;
use hapax_store::{Lifecycle as _, Options};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use crate::report::Report;
use crate::{Failure, rawlog};

/// Bytes of an event's payload.
const PAYLOAD: usize = 200;
const WAITERS: usize = 64;

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave one of the stores out: `embedded` or `postgres`.
    #[arg(long)]
    only: Option<String>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Events of the longest execution that is resumed.
    #[arg(long, default_value_t = 100_000)]
    events: usize,
}

/// Measures it all.
pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<(), Failure> {
    if args.only.as_deref() != Some("postgres") {
        let folder = tempfile::tempdir_in(".")?;
        report.heading("embedded store, events of 200 bytes, each append durable");
        appends(folder.path(), args, report).await?;
        checkpoints(folder.path(), args, report).await?;
        verifying(folder.path(), args, report).await?;
        resuming(folder.path(), args, report).await?;
    }
    if args.only.as_deref() != Some("embedded") {
        steps(args, report).await?;
    }
    Ok(())
}

fn time(args: &Args) -> Duration {
    Duration::from_secs(args.seconds)
}

pub(crate) fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

fn event(bytes: usize) -> NewEvent {
    NewEvent::new("NOTE", Bytes::from(format!("\"{}\"", "x".repeat(bytes))))
}

fn append(stream: &str, bytes: usize) -> Result<Append, Failure> {
    let author = Author::Anyone { version: None };
    Ok(Append::new(Stream::new(stream)?, author).with(vec![event(bytes)]))
}

/// How often so many callers come through in this time, each second.
pub(crate) async fn rate<F, Fut>(waiters: usize, time: Duration, again: F) -> Result<f64, Failure>
where
    F: Fn(usize, u64) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let (started, mut callers) = (Instant::now(), JoinSet::new());
    for waiter in 0..waiters {
        let again = again.clone();
        callers.spawn(async move {
            let mut done = 0;
            while started.elapsed() < time {
                again(waiter, done).await?;
                done += 1;
            }
            Ok::<_, Failure>(done)
        });
    }
    let mut done = 0;
    while let Some(caller) = callers.join_next().await {
        done += caller??;
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

async fn appends(folder: &Path, args: &Args, report: &mut Report) -> Result<(), Failure> {
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        // A pair of the raw log is two appends.
        raw.push(2.0 * rawlog::run(folder, WAITERS, time(args), 0).await?);
        let store = Embedded::open(folder.join(format!("appends{round}")), Options::default())?;
        let to = store.clone();
        let again = move |waiter: usize, _| {
            let store = to.clone();
            async move {
                store
                    .append(append(&format!("bench/{waiter}"), PAYLOAD)?)
                    .await
                    .map(drop)
                    .map_err(Failure::from)
            }
        };
        ours.push(rate(WAITERS, time(args), again).await?);
        store.close().await?;
    }
    let (ours, raw) = (median(ours), median(raw));
    report.figure("raw append + fdatasync log, 64 waiters", raw, "appends/s");
    report.figure("appends to 64 streams, 64 waiters", ours, "appends/s");
    report.ratio("appends / raw log", ours / raw, 0.3);
    Ok(())
}

async fn checkpoints(folder: &Path, args: &Args, report: &mut Report) -> Result<(), Failure> {
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..args.rounds {
        for (large, rates) in rates.iter_mut().enumerate() {
            let store = Embedded::open(folder.join(format!("checkpoint{round}{large}")), Options::default())?;
            let mut first = append("bench/one", PAYLOAD)?;
            first.checkpoint = (large == 1).then(|| Bytes::from(vec![b'x'; 1024 * 1024]));
            store.append(first).await?;
            let to = store.clone();
            let again = move |_, _| {
                let store = to.clone();
                async move { store.append(append("bench/one", PAYLOAD)?).await.map(drop).map_err(Failure::from) }
            };
            rates.push(rate(1, time(args), again).await?);
            store.close().await?;
        }
    }
    let [without, with] = rates.map(median);
    report.figure("appends to one stream, 1 waiter", without, "appends/s");
    report.figure("the same beside a checkpoint of 1 MiB", with, "appends/s");
    report.ratio("with an unchanged checkpoint / without", with / without, 0.8);
    Ok(())
}

async fn verifying(folder: &Path, args: &Args, report: &mut Report) -> Result<(), Failure> {
    for (payload, number) in [(PAYLOAD, 50_000), (4_096, 20_000), (65_536, 2_000)] {
        let store = Embedded::open(folder.join(format!("verify{payload}")), Options::default())?;
        let stream = Stream::new("bench/long")?;
        let number = number.min(args.events);
        fill(&store, &stream, number, payload).await?;
        let bytes = vec![b'x'; number * payload];
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..args.rounds {
            let started = Instant::now();
            std::hint::black_box(Sha256::digest(std::hint::black_box(&bytes)));
            bare.push(bytes.len() as f64 / started.elapsed().as_secs_f64());
            let started = Instant::now();
            if !verify(&store, &stream).await?.is_sound() {
                return Err("a chain that was just written does not hold".into());
            }
            ours.push(bytes.len() as f64 / started.elapsed().as_secs_f64());
        }
        store.close().await?;
        let (ours, bare) = (median(ours), median(bare));
        report.figure(&format!("verify, {number} events of {payload} bytes"), ours / 1e6, "MB/s");
        report.figure("bare SHA-256 over the same bytes", bare / 1e6, "MB/s");
        report.ratio(&format!("verify / bare SHA-256, {payload} bytes"), ours / bare, 0.6);
    }
    Ok(())
}

async fn fill<S: Journal>(store: &S, stream: &Stream, number: usize, payload: usize) -> Result<(), Failure> {
    let chunk = (2 * 1024 * 1024 / payload).clamp(1, 500);
    let mut left = number;
    while left > 0 {
        let some = left.min(chunk);
        let author = Author::Anyone { version: None };
        store.append(Append::new(stream.clone(), author).with(vec![event(payload); some])).await?;
        left -= some;
    }
    Ok(())
}

async fn resuming(folder: &Path, args: &Args, report: &mut Report) -> Result<(), Failure> {
    for number in [1_000, args.events] {
        let store = Embedded::open(folder.join(format!("resume{number}")), Options::default())?;
        let executions = Executions::new(Executor::new(store.clone()), Scope::local());
        let id = ExecutionId::new("long")?;
        let run = created(&executions, &id).await?;
        drop(run);
        // Events of the agent's own, which count for the check alone, written by whoever is the runner.
        let (stream, mut left) = (executions.stream(&id)?, number);
        while left > 0 {
            let some = left.min(500);
            store.append(Append::new(stream.clone(), Author::Step).with(vec![event(PAYLOAD); some])).await?;
            left -= some;
        }
        let before = resident()?;
        let started = Instant::now();
        executions.resume(&id, Resume { force: true, ..Resume::default() }).await?;
        report.figure(&format!("resume with {number} events"), started.elapsed().as_secs_f64(), "s");
        let grown = resident()?.saturating_sub(before) as f64 / 1024.0 / 1024.0;
        report.figure(&format!("memory it took, {number} events"), grown, "MiB");
        store.close().await?;
    }
    Ok(())
}

async fn created<S: Journal + Ledger>(
    executions: &Executions<S>,
    id: &ExecutionId,
) -> Result<Run<S>, Failure> {
    let new = Creation::new(id.clone(), AgentId::new("bench")?, json!({}));
    Ok(executions.create(new).await?)
}

/// Bytes of memory that are this process's.
fn resident() -> Result<usize, Failure> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = text.split(' ').nth(1).ok_or("no resident pages")?.parse()?;
    Ok(pages * 4096)
}

/// Steps of 64 executions beside 64 callers of `once`, in turns.
async fn steps(args: &Args, report: &mut Report) -> Result<(), Failure> {
    let server = std::env::var("HAPAX_TEST_POSTGRES")
        .map_err(|_| "no PostgreSQL to measure on: run `cargo xtask bench journal`, which starts one")?;
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("DROP DATABASE IF EXISTS hapax_bench_journal").await?;
    client.batch_execute("CREATE DATABASE hapax_bench_journal").await?;
    let (base, _) = server.rsplit_once('/').ok_or("the server's URL names no database")?;
    report.heading("PostgreSQL, 64 executions, each step a claim and three durable commits");
    let store = Postgres::open(&format!("{base}/hapax_bench_journal"), Options::default()).await?;
    let executor = Executor::new(store.clone());
    let executions = Executions::new(executor.clone(), Scope::local());
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        let once = executor.clone();
        let again = move |waiter: usize, number: u64| {
            let executor = once.clone();
            async move {
                let call = Call::local("bench", &format!("{round}-{waiter}-{number}"))?;
                executor
                    .once(call, |_| async { Ended::succeeded("{\"value\":1}") })
                    .await
                    .map(drop)
                    .map_err(Failure::from)
            }
        };
        bare.push(rate(WAITERS, time(args), again).await?);
        let mut runs = Vec::new();
        for waiter in 0..WAITERS {
            runs.push(created(&executions, &ExecutionId::new(format!("e-{round}-{waiter}"))?).await?);
        }
        let tools = Tools::new().function("bench", Declaration::NonIdempotent, |_, _| async { Ok(json!(1)) });
        let again = move |waiter: usize, number: u64| {
            let (run, tools) = (runs.get(waiter).cloned(), tools.clone());
            async move {
                let (Some(run), Some(tool)) = (run, tools.get("bench")) else {
                    return Err("no such run".into());
                };
                let at = Coordinates { iteration: 0, call: u32::try_from(number)? };
                let planned = PlannedCall::new("bench", json!(number));
                let step = Step::new(run.id(), at, &planned, Declaration::NonIdempotent)?;
                run.step(step, tool.as_ref()).await.map(drop).map_err(Failure::from)
            }
        };
        ours.push(rate(WAITERS, time(args), again).await?);
    }
    store.close().await?;
    let (ours, bare) = (median(ours), median(bare));
    report.figure("bare once, 64 callers", bare, "calls/s");
    report.figure("steps of 64 executions", ours, "steps/s");
    report.ratio("steps / bare once", ours / bare, 0.2);
    Ok(())
}
