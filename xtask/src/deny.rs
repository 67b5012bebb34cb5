//! `cargo xtask deny`: licences, sources, versions and advisories of the dependencies (deny.toml).
//!
//! What depends on this checkout alone is also a step of `cargo xtask test`. Advisories are not: their database changes from day
//! to day, so that an unchanged commit could fail, and it is a git repository on the network.

use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::{process, workspace};

/// The version that is installed where none is there; any other that understands deny.toml will do.
const VERSION: &str = "0.20.2";
/// What depends on this checkout alone.
const WITHOUT_ADVISORIES: [&str; 3] = ["licenses", "bans", "sources"];

/// Check licences, sources, versions and advisories of all dependencies (deny.toml).
///
/// `cargo xtask test` checks all of that but the advisories. They need the network, and the answer changes from day to day
/// without a change here: run this before a release, and from time to time. Installs cargo-deny if it is missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs every check, advisories included.
pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    install()?;
    process::run(workspace::cargo().args(arguments(&[]))).map(process::exit_code)
}

/// Runs the checks of the test command.
pub(crate) fn check_without_advisories() -> Result<()> {
    install()?;
    let status = process::run(workspace::cargo().args(arguments(&WITHOUT_ADVISORIES)))?;
    ensure!(
        status.success(),
        "a dependency breaks deny.toml ({status}): see above, and replace it or say there why not"
    );
    Ok(())
}

/// Duplicate versions are warnings and would fill pages: the log has errors only.
fn arguments<'a>(checks: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["deny", "--log-level", "error", "--all-features", "check"];
    arguments.extend(checks);
    arguments
}

fn install() -> Result<()> {
    let here = || process::succeeds(workspace::cargo().args(["deny", "--version"]));
    if here() {
        return Ok(());
    }
    println!("cargo-deny is not here; installing it, which takes some minutes");
    let status =
        process::run(workspace::cargo().args(["install", "--locked", "cargo-deny", "--version", VERSION]))?;
    ensure!(
        status.success() && here(),
        "cargo-deny is missing: `cargo install --locked cargo-deny --version {VERSION}` installs it"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_command_leaves_out_advisories_and_nothing_else() {
        assert!(arguments(&WITHOUT_ADVISORIES).ends_with(&["check", "licenses", "bans", "sources"]));
        assert!(arguments(&[]).ends_with(&["check"]), "without a list cargo-deny makes all its checks");
    }
}
