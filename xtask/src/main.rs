//! `cargo xtask`: the project's own commands, one file each.
//!
//! They are Rust and not shell so that every contributor runs the same thing, with clear messages, and so that
//! servers they start are stopped whatever happens. This file only reads the command line.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod bench;
mod debian;
mod deny;
mod fuzz;
mod postgres;
mod process;
mod test;
mod tidy;
mod torture;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Test(test::Args),
    Tidy(tidy::Args),
    Postgres(postgres::Args),
    Bench(bench::Args),
    Torture(torture::Args),
    Deny(deny::Args),
    Fuzz(fuzz::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = process::listen_for_signals().and_then(|()| match cli.command {
        Command::Test(args) => test::run(&args),
        Command::Tidy(args) => tidy::run(&args),
        Command::Postgres(args) => postgres::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Torture(args) => torture::run(&args),
        Command::Deny(args) => deny::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
    });
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
