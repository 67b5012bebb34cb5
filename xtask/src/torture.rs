//! `cargo xtask torture`: the crash and fault runs, in a release build, with a private PostgreSQL.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::postgres::{Programs, Server};
use crate::{process, workspace};

/// Run the crash and fault tests of `torture/` in a release build.
///
/// They run longer than `cargo xtask test` has time for. A private PostgreSQL is started for them; it is stopped
/// and deleted afterwards.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the program takes itself; `--help` after `--` shows it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Runs the program with the server.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let server = Server::start(&Programs::find_or_install()?)?;
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--package", "hapax-torture", "--"]).args(&args.args);
    server.set_env(&mut command);
    process::run_in_foreground(&mut command).map(process::exit_code)
}
