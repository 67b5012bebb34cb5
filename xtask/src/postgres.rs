//! `cargo xtask postgres`: a private PostgreSQL for one command, or until Ctrl-C.
//!
//! The same server is under `cargo xtask test`, `bench` and `torture`. What runs beside it finds it by two
//! variables: [`URL_VAR`] is the server, [`BIN_DIR_VAR`] is where its programs are, for tests that must kill a
//! server and so start their own.

mod programs;
mod server;

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::process;

pub(crate) use programs::Programs;
pub(crate) use server::Server;

/// Names the server that tests use.
pub(crate) const URL_VAR: &str = "HAPAX_TEST_POSTGRES";
/// Names the directory of `initdb`, `postgres` and the other programs; when it is set already, those are used.
pub(crate) const BIN_DIR_VAR: &str = "HAPAX_TEST_PG_BIN";

/// Start a private PostgreSQL and run a command with it, or wait for Ctrl-C.
///
/// The command gets HAPAX_TEST_POSTGRES and HAPAX_TEST_PG_BIN as in `cargo xtask test`, the server's programs on
/// its PATH, and PGHOST, PGPORT, PGUSER and PGDATABASE for `psql` and its like. The server is stopped and its data
/// deleted at the end. PostgreSQL is installed when it is missing (apt-get, as root or with `sudo -n`).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask postgres -- cargo test -p hapax-postgres postgres
  cargo xtask postgres -- psql -c 'select version()'")]
pub(crate) struct Args {
    /// The command and its arguments, after `--`
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Starts the server, then runs the command or waits.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let server = Server::start(&Programs::find_or_install()?)?;
    let Some((program, rest)) = args.command.split_first() else {
        println!("{URL_VAR}={}", server.url());
        println!("{BIN_DIR_VAR}={}", server.bin_dir().display());
        println!("Ctrl-C stops the server and deletes its data.");
        process::wait_for_interrupt();
        return Ok(ExitCode::SUCCESS);
    };
    let mut command = Command::new(program);
    command.args(rest);
    server.set_client_env(&mut command);
    process::run_in_foreground(&mut command).map(process::exit_code)
}
