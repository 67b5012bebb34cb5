//! Side-by-side measurements. Each prints what it measured, as ratios to something else in the same run, and leaves the
//! same in `target/bench/NAME.json`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing what was measured is what it is for")]

mod actions;
mod client;
mod edge;
mod embedded;
mod instructions;
mod journal;
mod load;
mod pgbench;
mod postgres;
mod rawlog;
mod report;
mod restate;
mod routes;
mod webhooks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use report::Report;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts, for the measurement of the edge that asks for it; the others hardly allocate while they measure.
#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Measures hapax side by side with something else.
#[derive(Parser)]
#[command(name = "hapax-bench")]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Claim and settle on the embedded store and on PostgreSQL.
    Ledger(LedgerArgs),
    /// Journals and executions beside a raw log, bare SHA-256 and bare `once`.
    Journal(journal::Args),
    /// Actions of agents beside bare `once`, and behind rules beside behind none.
    Actions(actions::Args),
    /// The edge beside nginx.
    Edge(edge::Args),
    /// Instructions of one request through the edge, beside another commit's.
    Instructions(instructions::Args),
    /// The client's middleware beside bare reqwest.
    Client(client::Args),
    /// Finding one of ten thousand routes beside one of ten.
    Routes(routes::Args),
    /// Verified deliveries beside requests with a key.
    Webhooks(webhooks::Args),
    /// Handlers of a Restate server behind the edge beside the same ones asked directly.
    Restate(restate::Args),
    /// The gateway whose allocations are counted; started by `edge`.
    #[command(hide = true)]
    CountedGateway { service: std::net::SocketAddr },
}

/// How the ledger is measured.
#[derive(clap::Args)]
pub(crate) struct LedgerArgs {
    /// Leave one of the stores out: `embedded` or `postgres`.
    #[arg(long)]
    only: Option<String>,
    /// Measure PostgreSQL with so many waiters only, for example `64` or `64,1`, and not how fast waiters are woken.
    #[arg(long, value_delimiter = ',')]
    waiters: Vec<usize>,
    /// Keys that are there before the "many keys" measurement of the embedded store.
    #[arg(long, default_value_t = 5_000_000)]
    keys: usize,
    /// Rows that are there before the "many rows" measurement of PostgreSQL; 0 leaves it out.
    #[arg(long, default_value_t = 2_000_000)]
    rows: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// What a measurement can fail with.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let bench = Cli::parse().bench;
    // One core for the callers, the other for what is measured: what a request core and a store thread have in production.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(run(bench)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

async fn run(bench: Bench) -> Result<(), Failure> {
    match bench {
        Bench::Ledger(args) => {
            let mut report = Report::new("ledger");
            ledger(&args, &mut report).await?;
            report.finish()
        }
        Bench::Journal(args) => {
            let mut report = Report::new("journal");
            journal::measure(&args, &mut report).await?;
            report.finish()
        }
        Bench::Actions(args) => {
            let mut report = Report::new("actions");
            actions::measure(&args, &mut report).await?;
            report.finish()
        }
        Bench::Edge(args) => {
            let mut report = Report::new("edge");
            edge::measure(&args, &mut report).await?;
            report.finish()
        }
        Bench::Instructions(args) => {
            let mut report = Report::new("instructions");
            instructions::measure(&args, &mut report).await?;
            report.finish()
        }
        Bench::Client(args) => {
            let mut report = Report::new("client");
            client::measure(&args, &mut report).await?;
            report.finish()
        }
        Bench::Routes(args) => {
            let mut report = Report::new("routes");
            routes::measure(&args, &mut report)?;
            report.finish()
        }
        Bench::Webhooks(args) => {
            let mut report = Report::new("webhooks");
            webhooks::measure(&args, &mut report).await?;
            report.finish()
        }
        Bench::Restate(args) => {
            let mut report = Report::new("restate");
            restate::measure(&args, &mut report).await?;
            report.finish()
        }
        Bench::CountedGateway { service } => edge::counted::serve(service).await,
    }
}

async fn ledger(args: &LedgerArgs, report: &mut Report) -> Result<(), Failure> {
    if args.only.as_deref() != Some("postgres") {
        embedded::measure(args, report).await?;
    }
    if args.only.as_deref() != Some("embedded") {
        postgres::measure(args, report).await?;
    }
    Ok(())
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("bench: {error:#}");
    ExitCode::FAILURE
}
