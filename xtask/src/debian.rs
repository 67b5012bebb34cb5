//! Installing a program that is missing, where that is possible without asking anybody.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;

/// Installs a Debian package. `by_hand` says what somebody can do where that does not work.
pub(crate) fn install(program: &str, package: &str, by_hand: &str) -> Result<()> {
    println!("{program} is not here; installing the Debian package `{package}`");
    ensure!(
        process::succeeds(Command::new("apt-get").arg("--version")),
        "{program} is missing and there is no apt-get: {by_hand}"
    );
    let root = rustix::process::geteuid().is_root();
    ensure!(
        root || process::succeeds(Command::new("sudo").args(["-n", "true"])),
        "{program} is missing, and installing it takes root or a `sudo` that asks for no password: {by_hand}"
    );
    for arguments in [&["update"][..], &["install", "--yes", "--no-install-recommends", package]] {
        // `env` as a program: sudo does not pass variables on.
        let mut apt = if root { Command::new("env") } else { Command::new("sudo") };
        if !root {
            apt.args(["-n", "env"]);
        }
        apt.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"]);
        let status = process::run(apt.args(arguments))?;
        ensure!(status.success(), "`apt-get {}` failed ({status}): {by_hand}", arguments.join(" "));
    }
    Ok(())
}
