//! `cargo xtask deny`: licences, advisories and sources of the dependencies.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{process, workspace};

/// Check the licences, advisories and sources of all dependencies (deny.toml).
///
/// Needs `cargo-deny` and the network, and its answer changes from day to day without a change here: so it is not
/// a part of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs cargo-deny, or says how it is installed.
pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    if !process::succeeds(workspace::cargo().args(["deny", "--version"])) {
        bail!("cargo-deny is not installed; `cargo install --locked cargo-deny` installs it");
    }
    process::run(workspace::cargo().args(["deny", "--all-features", "check"])).map(process::exit_code)
}
