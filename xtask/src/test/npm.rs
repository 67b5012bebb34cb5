//! Peers from npm that `hapax probe` is tried on: installed once, below the directory that Cargo builds into.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::{debian, process, workspace};

/// Where tests find them.
pub(super) const FOLDER_VAR: &str = "HAPAX_TEST_NPM";
/// What every test that needs them has in its path, by convention; `--quick` leaves those out.
pub(super) const NEEDS_NPM: &str = "npm";

/// Exact versions: a test says what they do.
const PACKAGES: [&str; 2] = ["express@5.3.0", "express-idempotency@1.0.6"];

/// The folder with all of them, installed if need be.
pub(super) fn find_or_install() -> Result<PathBuf> {
    let folder = workspace::target_dir().join("npm-peers");
    // Written last, so that half an installation is not taken for a whole one.
    let (done, wanted) = (folder.join("installed"), PACKAGES.join("\n"));
    if std::fs::read_to_string(&done).is_ok_and(|found| found == wanted) {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    let by_hand = "install Node.js with npm 9 or later (Debian: apt-get install npm)";
    if !process::succeeds(Command::new("npm").arg("--version")) {
        debian::install("npm", "npm", by_hand)?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(&folder).args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).args(PACKAGES);
    let installed = process::run(&mut npm).is_ok_and(|status| status.success());
    ensure!(installed, "npm cannot install {}: {by_hand}", PACKAGES.join(" and "));
    std::fs::write(done, wanted)?;
    Ok(folder)
}
