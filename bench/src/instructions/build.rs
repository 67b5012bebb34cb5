//! The programs whose instructions are counted: this checkout as it is, and another commit in a work tree of its own under
//! `target/`. Both are built in one manner into one target directory, so that what they depend on is built once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

/// How both are built: each crate is optimised by itself, because a release's link-time optimisation takes many times as long. A
/// function that moves to another crate may therefore count for more here than it does in a release.
pub(super) const MANNER: &str = "release without link-time optimisation, both sides";

/// That manner as a profile, given on the command line because the other commit's manifest does not know it.
const PROFILE: &str = "counted";
/// Where a kernel tells a program of its vDSO, valgrind's unmapped one is read, and the program ends: it asks through libc instead.
const FLAGS: &str = "--cfg rustix_use_libc";
const SETTINGS: [&str; 2] = [r#"profile.counted.inherits = "release""#, r#"profile.counted.lto = "off""#];

/// Where work trees and programs are.
pub(super) fn folder() -> Result<PathBuf, Failure> {
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let folder = target.join("instructions");
    fs::create_dir_all(&folder)?;
    Ok(fs::canonicalize(folder)?)
}

/// The program of this checkout.
pub(super) fn checkout(folder: &Path) -> Result<PathBuf, Failure> {
    build(Path::new("."), folder, "now")
}

/// The program of another commit.
pub(super) fn commit(folder: &Path, commit: &str) -> Result<PathBuf, Failure> {
    let id = git(&["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")])
        .map_err(|_| format!("--against: `{commit}` names no commit of this repository"))?;
    let id = id.trim();
    let tree = folder.join("trees").join(id);
    if !tree.join("Cargo.toml").is_file() {
        // Twice: the work tree may be known to git and gone from the disk.
        git(&["worktree", "add", "--force", "--force", "--detach", &tree.to_string_lossy(), id])?;
    }
    build(&tree, folder, id)
}

fn git(arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new("git").args(arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`git {}` failed: {}", arguments.join(" "), said.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Builds the program and copies it, because the next one is built in the same place.
fn build(tree: &Path, folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let target = folder.join("target");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(tree).env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", FLAGS);
    build.args(["build", "--package", "hapax", "--bin", "hapax", "--profile", PROFILE]);
    for setting in SETTINGS {
        build.args(["--config", setting]);
    }
    if !build.status()?.success() {
        return Err(format!("the program cannot be built in {}", tree.display()).into());
    }
    let program = folder.join(format!("hapax-{name}"));
    fs::copy(target.join(PROFILE).join("hapax"), &program)?;
    Ok(program)
}
