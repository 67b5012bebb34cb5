//! `cargo xtask bench`: a measurement, in a release build, with the server it needs.

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Result, bail};

use crate::postgres::{Programs, Server};
use crate::{process, workspace};

/// The measurements that compare with PostgreSQL.
const NEED_POSTGRES: &[&str] = &["ledger"];

/// Run one measurement of `bench/` in a release build.
///
/// The figures go to target/bench/NAME.json. The measurement `ledger` gets a private PostgreSQL, and `pgbench`
/// on its PATH; the server is stopped and deleted afterwards.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The measurement, for example `ledger`
    name: String,
    /// What the measurement takes itself
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Runs the measurement and says where its figures are.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--package", "hapax-bench", "--"]).arg(&args.name).args(&args.args);

    let mut server = None;
    if NEED_POSTGRES.contains(&args.name.as_str()) {
        let programs = Programs::find_or_install()?;
        if !programs.bin_dir().join("pgbench").is_file() {
            bail!(
                "`pgbench` is not in {}: install PostgreSQL's client programs (Debian: postgresql-contrib)",
                programs.bin_dir().display()
            );
        }
        server.insert(Server::start(&programs)?).set_env(&mut command);
    }

    let began = SystemTime::now();
    let status = process::run_in_foreground(&mut command)?;
    let figures = workspace::target_dir().join("bench").join(format!("{}.json", args.name));
    let written = fs::metadata(&figures).and_then(|file| file.modified());
    if written.is_ok_and(|written| written >= began) {
        println!("figures: {}", figures.display());
    } else {
        println!("no new figures in {}", figures.display());
    }
    Ok(process::exit_code(status))
}
