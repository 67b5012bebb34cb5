//! `hapax-torture`: the long runs. The test command runs short ones of the same.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use hapax_torture::burst::{self, Manner};
use hapax_torture::place::Kind;
use hapax_torture::powercut::{self, Syncs};
use hapax_torture::report::Report;
use hapax_torture::zombie::{self, Story};
use hapax_torture::{actions, crash, executions, guard, outage, worker};

/// Kills, stops and unplugs processes that use hapax, and checks that nothing ran twice and nothing was lost.
///
/// Run it with `cargo xtask torture`, which builds it for release and starts the PostgreSQL server it needs. The exit code
/// is 0 only if nothing was found. What was found is printed with the command that repeats it.
#[derive(Debug, Parser)]
#[command(
    name = "hapax-torture",
    after_help = "Examples:
  cargo xtask torture crash --kills 5000
  cargo xtask torture crash --store postgres --kills 500 --seed 7
  cargo xtask torture all"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Kill workers with SIGKILL at every named point in the source and at any time; then restart, retry and compare
    Crash {
        /// The store; both when it is left out
        #[arg(long)]
        store: Option<Kind>,
        /// How many kills, per store
        #[arg(long, default_value_t = 500)]
        kills: usize,
        /// What chance starts from; the time when it is left out
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Stop a worker for longer than its lease, let others go on, and wake it up
    Zombie {
        /// How often each story is played
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Reconstruct what a disk may hold after a power cut from a trace of system calls, and open the store on it
    Powercut {
        /// Outcomes that are settled
        #[arg(long, default_value_t = 1_000)]
        keys: usize,
        /// Power cuts
        #[arg(long, default_value_t = 2_000)]
        cuts: usize,
        /// What chance starts from; the time when it is left out
        #[arg(long)]
        seed: Option<u64>,
    },
    /// 200 callers with one key at once, in one process and in three
    Burst {
        /// Bursts of each kind
        #[arg(long, default_value_t = 20)]
        rounds: usize,
    },
    /// Kill workers between any two steps of an application's transaction that the guard settles in
    Guard {
        /// How many kills
        #[arg(long, default_value_t = 300)]
        kills: usize,
        /// What chance starts from; the time when it is left out
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Kill the database server, and some workers with it, while workers run
    Outage {
        /// How often the server is killed
        #[arg(long, default_value_t = 50)]
        falls: usize,
        /// What chance starts from; the time when it is left out
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Kill processes that run durable executions at every named step, and stop one while another goes on
    Executions {
        /// The store; each, and the memory store, when it is left out
        #[arg(long)]
        store: Option<Kind>,
        /// How many kills at each point, per store
        #[arg(long, default_value_t = 40)]
        kills: usize,
        /// What chance starts from; the time when it is left out
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Actions of agents: three processes on the same lanes, a flood of one message, and a process that is killed while its tool runs
    Actions {
        /// The store; each when it is left out
        #[arg(long)]
        store: Option<Kind>,
        /// How many actions, over a hundred entities
        #[arg(long, default_value_t = 10_000)]
        actions: usize,
    },
    /// Everything above, with what it does by itself
    All,
    /// The process that acts; started by `actions`
    #[command(hide = true)]
    Actor(actions::actor::Setup),
    /// The process that runs an execution; started by `executions`
    #[command(hide = true)]
    Agent(executions::Setup),
    /// The process that suffers; started by the others
    #[command(hide = true)]
    Worker(worker::Setup),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Actor(setup) => match actions::actor::main(&setup) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Command::Agent(setup) => match executions::main(&setup) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Command::Worker(setup) => match worker::main(setup) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        command => run(command).unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }),
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let commands = match command {
        Command::All => vec![
            Command::Crash { store: None, kills: 500, seed: None },
            Command::Zombie { rounds: 5 },
            Command::Powercut { keys: 1_000, cuts: 2_000, seed: None },
            Command::Burst { rounds: 20 },
            Command::Guard { kills: 300, seed: None },
            Command::Outage { falls: 50, seed: None },
            Command::Executions { store: None, kills: 40, seed: None },
            Command::Actions { store: None, actions: 10_000 },
        ],
        one => vec![one],
    };
    let mut green = true;
    for command in commands {
        run_one(&program, command, &mut |report: Report| {
            println!("{report}");
            green &= report.is_green();
        })?;
    }
    Ok(if green { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_one(program: &Path, command: Command, done: &mut dyn FnMut(Report)) -> Result<()> {
    match command {
        Command::Crash { store, kills, seed } => {
            let stores = store.map_or_else(|| vec![Kind::Embedded, Kind::Postgres], |store| vec![store]);
            for store in stores {
                done(crash::run(program, &crash::Plan::slice(store, kills, seed.unwrap_or_else(time)))?);
            }
        }
        Command::Zombie { rounds } => zombies(program, rounds, done)?,
        Command::Powercut { keys, cuts, seed } => {
            let plan = powercut::Plan { keys, cuts, seed: seed.unwrap_or_else(time), syncs: Syncs::Honest };
            done(powercut::run(program, &plan)?);
        }
        Command::Burst { rounds } => {
            let one = Manner { kind: Kind::Embedded, processes: 1, notify: true, poll: true, flaw: None };
            done(burst::run(program, one, rounds)?);
            for (notify, poll) in [(true, true), (true, false), (false, true)] {
                let three = Manner { kind: Kind::Postgres, processes: 3, notify, poll, flaw: None };
                done(burst::run(program, three, rounds)?);
            }
        }
        Command::Guard { kills, seed } => done(guard::run(program, kills, seed.unwrap_or_else(time))?),
        Command::Outage { falls, seed } => done(outage::run(program, falls, seed.unwrap_or_else(time))?),
        Command::Executions { store, kills, seed } => {
            let seed = seed.unwrap_or_else(time);
            let stores = store.map_or_else(|| vec![Kind::Embedded, Kind::Postgres], |store| vec![store]);
            for kind in stores {
                done(executions::run(
                    program,
                    &executions::Plan { kind, kills, tracks: 4, seed, blind: false },
                )?);
            }
            if store.is_none() {
                done(executions::in_memory(kills, seed)?);
            }
            for point in executions::STOPS {
                done(executions::stopped(program, point)?);
            }
        }
        Command::Actions { store, actions: count } => {
            let stores = store.map_or_else(|| vec![Kind::Embedded, Kind::Postgres], |store| vec![store]);
            for kind in stores {
                done(actions::lanes(program, kind, count, 100, false)?);
                done(actions::flood(program, kind, false)?);
                done(actions::doubt(program, kind)?);
            }
        }
        Command::All | Command::Worker(_) | Command::Agent(_) | Command::Actor(_) => {}
    }
    Ok(())
}

fn zombies(program: &Path, rounds: usize, done: &mut dyn FnMut(Report)) -> Result<()> {
    for _ in 0..rounds {
        done(zombie::in_transaction(program)?);
        for drowsy in [false, true] {
            for story in Story::ALL {
                done(zombie::play(program, story, drowsy, None)?);
            }
            for point in ["once.granted", "work.began", "work.done"] {
                done(zombie::embedded(program, point, drowsy)?);
            }
        }
    }
    Ok(())
}

/// A seed that nobody chose.
fn time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() ^ u64::from(since.subsec_nanos())
}
