//! `cargo xtask fuzz`: one fuzz target under libFuzzer, from its seeds. The short runs in the tests need none of this.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use crate::{process, workspace};

/// Run one fuzz target under libFuzzer, for a minute or as long as asked.
///
/// Needs `cargo-fuzz`. What it finds is written to fuzz/libfuzzer/artifacts; put it into fuzz/seeds/NAME, so that the tests
/// keep it, and mend what it shows.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask fuzz against_hyper
  cargo xtask fuzz request_head --seconds 3600")]
pub(crate) struct Args {
    /// The target: a folder of fuzz/seeds
    name: String,
    /// How long
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Runs cargo-fuzz, or says how it is installed.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let folder = workspace::root().join("fuzz");
    let seeds = folder.join("seeds").join(&args.name);
    ensure!(
        seeds.is_dir(),
        "there is no target `{}`; there are: {}",
        args.name,
        targets(&folder)?.join(", ")
    );
    if !process::succeeds(workspace::cargo().args(["fuzz", "--version"])) {
        bail!("cargo-fuzz is not installed; `cargo install --locked cargo-fuzz` installs it");
    }
    let libfuzzer = folder.join("libfuzzer");
    let corpus = libfuzzer.join("corpus").join(&args.name);
    std::fs::create_dir_all(&corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
    // The versions that ship are fuzzed; cargo adds what libFuzzer needs.
    std::fs::copy(workspace::root().join("Cargo.lock"), libfuzzer.join("Cargo.lock"))
        .context("cannot copy Cargo.lock")?;
    let mut fuzz = workspace::cargo();
    // The pinned toolchain is a stable one, which has the coverage that libFuzzer needs and no sanitizers; the code is safe Rust.
    fuzz.env("RUSTC_BOOTSTRAP", "1").args(["fuzz", "run", "--sanitizer", "none", "--fuzz-dir"]);
    fuzz.arg(&libfuzzer).arg(&args.name).arg(&corpus).arg(&seeds);
    fuzz.args(["--", "-max_len=4096", &format!("-max_total_time={}", args.seconds)]);
    process::run(&mut fuzz).map(process::exit_code)
}

fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for seeds in std::fs::read_dir(folder.join("seeds"))? {
        names.push(seeds?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
