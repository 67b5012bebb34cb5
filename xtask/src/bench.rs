//! `cargo xtask bench`: a measurement, in a release build, with the server it needs.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use anyhow::{Result, bail, ensure};

use crate::postgres::{Programs, Server};
use crate::test::peers;
use crate::{debian, process, workspace};

/// The measurements that compare with PostgreSQL.
const NEED_POSTGRES: &[&str] = &["ledger", "journal", "actions"];
/// Those that have nginx beside or behind the program.
const NEED_NGINX: &[&str] = &["edge", "instructions", "webhooks"];
/// Those that measure the program of the same release build.
const NEED_PROGRAM: &[&str] = &["edge", "webhooks", "restate"];
/// Those that need a Restate server and handlers for it.
const NEED_RESTATE: &[&str] = &["restate"];
/// Those that count under valgrind, and build what they count themselves.
const NEED_VALGRIND: &[&str] = &["instructions"];

/// Run one measurement of `bench/`, of release builds.
///
/// The figures go to target/bench/NAME.json. The measurements `ledger`, `journal` and `actions` get a private PostgreSQL, and `pgbench`
/// on its PATH; the server is stopped and deleted afterwards. `edge` measures the program, which is built for it, beside
/// nginx, which is installed when it is missing; `webhooks` measures verified deliveries beside requests with a key. `restate` has a Restate server behind the program and beside it. `instructions` counts under valgrind, which is installed likewise, and builds the
/// program itself, of this checkout and of the commit that `--against` names.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The measurement, for example `ledger` or `edge`
    name: String,
    /// What the measurement takes itself
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Runs the measurement and says where its figures are.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut command = workspace::cargo();
    command.args(["run", "--package", "hapax-bench"]);
    if !NEED_VALGRIND.contains(&args.name.as_str()) {
        command.arg("--release");
    }
    command.arg("--").arg(&args.name).args(&args.args);

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

    if NEED_NGINX.contains(&args.name.as_str()) {
        installed("nginx", "-v")?;
    }
    if NEED_VALGRIND.contains(&args.name.as_str()) {
        installed("valgrind", "--version")?;
    }
    if NEED_RESTATE.contains(&args.name.as_str()) {
        command.env(peers::NPM_VAR, peers::npm()?).env(peers::HANDLERS_VAR, peers::handlers()?);
    }
    if NEED_PROGRAM.contains(&args.name.as_str()) {
        let mut build = workspace::cargo();
        build.args(["build", "--release", "--package", "hapax", "--package", "hapax-bench"]);
        ensure!(process::run(&mut build)?.success(), "the program cannot be built");
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

/// Installs a program whose Debian package has its name, unless it is there.
fn installed(program: &str, version: &str) -> Result<()> {
    if process::succeeds(Command::new(program).arg(version)) {
        return Ok(());
    }
    let by_hand = format!("install {program} (Debian: apt-get install {program}) and put it on the PATH");
    debian::install(program, program, &by_hand)
}
