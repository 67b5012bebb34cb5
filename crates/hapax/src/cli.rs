//! The command line. Data goes to standard output, everything else to standard error; the exit code is 0 for done, 1 when
//! the answer is no, 2 for misuse and 3 when something needed is not available.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::demo;

/// Makes a request happen once: a retried request gets the first answer back, and the work does not run again.
#[derive(Debug, Parser)]
#[command(name = "hapax", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a small payments service that charges once, and say what to try.
    Demo(demo::Args),
}

/// What a command could not do, and the exit code that says so to scripts.
#[derive(Debug)]
pub struct Failed {
    message: String,
    code: u8,
}

impl Failed {
    /// Something needed is not available.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Failed { message: message.into(), code: 3 }
    }

    /// The command was used in a way that cannot work.
    pub fn misuse(message: impl Into<String>) -> Self {
        Failed { message: message.into(), code: 2 }
    }
}

impl From<hapax_core::Error> for Failed {
    fn from(error: hapax_core::Error) -> Self {
        match error.kind() {
            hapax_core::Kind::Invalid => Failed::misuse(format!("{error:#}")),
            _ => Failed::unavailable(format!("{error:#}")),
        }
    }
}

/// Runs the command line.
#[allow(clippy::print_stderr, reason = "this is where a command's failure is told")]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("hapax: the runtime cannot start: {error}");
            return ExitCode::from(3);
        }
    };
    let done = match cli.command {
        Command::Demo(args) => runtime.block_on(demo::run(args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("hapax: {}", failed.message);
            ExitCode::from(failed.code)
        }
    }
}
