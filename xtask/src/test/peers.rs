//! Programs of others that tests run, from npm and for Python: installed once, below the directory that Cargo builds into.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::{debian, process, workspace};

/// Where tests find those from npm.
pub(crate) const NPM_VAR: &str = "HAPAX_TEST_NPM";
/// Where they find the program with the handlers of `examples/restate`.
pub(crate) const HANDLERS_VAR: &str = "HAPAX_TEST_RESTATE_HANDLERS";
/// Where they find the virtual environment of Python.
pub(super) const PYTHON_VAR: &str = "HAPAX_TEST_PYTHON";
/// What every test that needs some of them has in its path, by convention; `--quick` leaves those out.
pub(super) const NEEDS: [&str; 2] = ["npm", "python"];

// Exact versions: tests say what they do. All of them run on the Node.js and the Python of Debian 12.
const FROM_NPM: [&str; 8] = [
    "express@5.3.0",
    "express-idempotency@1.0.6",
    "stripe@22.6.2",
    "@octokit/openapi@23.0.2",
    // Signs as GitHub does.
    "@octokit/webhooks-methods@5.1.1",
    // Keeps claims itself.
    "@restatedev/restate-server@1.7.12",
    // Looks for what keeps people from using a page.
    "axe-core@4.14.0",
    // Tools of an MCP server of revision 2025-11-25.
    "@modelcontextprotocol/server-filesystem@2026.8.31",
];
const FOR_PYTHON: [&str; 11] = [
    "stripe==16.1.0",
    "httpx==0.28.1",
    "squareup==46.0.0.20260916",
    // These sign as the senders of webhooks do.
    "twilio==9.13.0",
    "standardwebhooks==1.1.0",
    "slack-sdk==3.47.0",
    // Writes into a KV version 2 store.
    "hvac==2.4.0",
    // Asks an API for everything that its description allows, and for what it does not.
    "schemathesis==4.32.5",
    // Reads exported spans.
    "opentelemetry-proto==1.45.2",
    // Tools of an MCP server of revision 2026-07-28, and what such servers are made with.
    "mcp-server-git==2026.10.19",
    "mcp==2.3.0",
];

/// The folder with all those from npm, installed if need be.
pub(crate) fn npm() -> Result<PathBuf> {
    let folder = workspace::target_dir().join("npm-peers");
    once(&folder, &FROM_NPM, || {
        let by_hand = "install Node.js 18 or later with npm 9 or later (Debian: apt-get install npm)";
        if !process::succeeds(Command::new("npm").arg("--version")) {
            debian::install("npm", "npm", by_hand)?;
        }
        std::fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
        let mut npm = Command::new("npm");
        npm.current_dir(&folder).args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]);
        let installed = process::run(npm.args(FROM_NPM)).is_ok_and(|status| status.success());
        ensure!(installed, "npm cannot install {}: {by_hand}", FROM_NPM.join(" and "));
        Ok(())
    })?;
    Ok(folder)
}

/// The virtual environment with all those for Python, made if need be.
pub(super) fn python() -> Result<PathBuf> {
    let folder = workspace::target_dir().join("python-peers");
    let python = folder.join("bin/python");
    if !process::succeeds(Command::new(&python).arg("--version")) {
        // The Python it was made from is gone, or it was never made.
        forget(&folder)?;
    }
    once(&folder, &FOR_PYTHON, || {
        let by_hand = "install Python 3.10 or later with venv (Debian: apt-get install python3-venv)";
        if !process::succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
            debian::install("python3 with venv", "python3-venv", by_hand)?;
        }
        let mut venv = Command::new("python3");
        let made = process::run(venv.args(["-m", "venv", "--clear"]).arg(&folder))?;
        ensure!(made.success(), "python3 cannot make a virtual environment ({made}): {by_hand}");
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(FOR_PYTHON);
        let installed = process::run(&mut pip)?;
        ensure!(installed.success(), "pip cannot install {} ({installed})", FOR_PYTHON.join(" and "));
        Ok(())
    })?;
    Ok(folder)
}

/// The handlers of `examples/restate`, built from its own lock file: the workspace does not depend on their SDK.
pub(crate) fn handlers() -> Result<PathBuf> {
    let (folder, target) =
        (workspace::root().join("examples/restate"), workspace::target_dir().join("restate-example"));
    let mut build = workspace::cargo();
    build.current_dir(folder).args(["build", "--locked", "--quiet"]).env("CARGO_TARGET_DIR", &target);
    // How the workspace unifies features is no business of another one.
    build.env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION").env_remove("CARGO_UNSTABLE_FEATURE_UNIFICATION");
    let built = process::run(&mut build)?;
    ensure!(built.success(), "examples/restate cannot be built ({built})");
    Ok(target.join("debug/hapax-example-restate"))
}

/// What says that a folder has everything it should have.
fn mark(folder: &Path) -> PathBuf {
    folder.join("installed")
}

fn forget(folder: &Path) -> Result<()> {
    match std::fs::remove_file(mark(folder)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Installs packages into a folder that does not have exactly these.
fn once(folder: &Path, packages: &[&str], install: impl FnOnce() -> Result<()>) -> Result<()> {
    let wanted = packages.join("\n");
    if std::fs::read_to_string(mark(folder)).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    install()?;
    // Written last, so that half an installation is not taken for a whole one.
    std::fs::write(mark(folder), wanted)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn packages_are_installed_once_and_again_when_others_are_wanted_or_half_of_them_came() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("peers");
        let mut times = 0;
        let mut ask = |packages: &[&str]| {
            once(&folder, packages, || {
                times += 1;
                Ok(())
            })
            .unwrap();
            times
        };
        assert_eq!([ask(&["a==1"]), ask(&["a==1"]), ask(&["a==2"]), ask(&["a==2"])], [1, 1, 2, 2]);
        assert!(once(&folder, &["a==3"], || bail!("planted")).is_err());
        let mut again = false;
        once(&folder, &["a==3"], || {
            again = true;
            Ok(())
        })
        .unwrap();
        assert!(again);
    }
}
