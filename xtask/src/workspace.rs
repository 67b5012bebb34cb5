//! Where the checkout is, and how its `cargo` is called.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the checkout.
///
/// Taken from where this package was compiled: the commands work from any directory inside the checkout.
pub(crate) fn root() -> &'static Path {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().unwrap_or(manifest_dir)
}

/// The directory that Cargo builds into.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// A `cargo` command that runs at the root of the checkout, with the toolchain that built this program.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}
