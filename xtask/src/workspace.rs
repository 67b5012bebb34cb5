//! Where the checkout is, and how its `cargo` is called.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The root of the checkout: the commands work from any directory inside of it.
///
/// Cargo says where this package is now; the program itself may have been built when it was elsewhere.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let mut root = PathBuf::from(package);
        root.pop();
        root
    });
    &ROOT
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
