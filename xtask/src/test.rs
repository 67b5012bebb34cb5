//! `cargo xtask test`: the one test command.
//!
//! It does everything a fresh machine needs and never passes by leaving something out: what cannot run fails, and
//! says what to do. All steps run even when an early one fails, so that one run shows everything there is to mend.

mod alone;
mod count;
pub(crate) mod peers;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::postgres::{BIN_DIR_VAR, Programs, Server, URL_VAR};
use crate::{debian, deny, process, tidy, workspace};
use count::{Count, Runner};

/// What every test that needs a server has in its path, by convention.
const NEEDS_SERVER: &str = "postgres";

/// What every test that needs a browser has in its path.
const NEEDS_BROWSER: &str = "browser";

/// What `--quick` leaves out: every test with one of these words in its path.
fn left_out() -> impl Iterator<Item = &'static str> {
    [NEEDS_SERVER, NEEDS_BROWSER].into_iter().chain(peers::NEEDS)
}

/// The same for a test binary.
fn skips() -> impl Iterator<Item = &'static str> {
    left_out().flat_map(|word| ["--skip", word])
}

/// Run every check and every test: format, clippy, rustdoc, dependencies, each crate alone, tests on a private PostgreSQL, doc tests, tidy.
///
/// The dependencies' licences, sources and versions are checked; advisories are left to `cargo xtask deny`, because they need the
/// network and change from day to day.
///
/// Installs what is missing (rustfmt, clippy, cargo-deny, PostgreSQL, a browser, peers from npm and for Python), starts a private PostgreSQL on a free
/// port, and stops and deletes it at the end. The tests run with cargo-nextest where it is installed and with `cargo test` otherwise.
/// The last line is "N passed, N failed"; the exit code is 0 only if every step passed and tests did run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test
  cargo xtask test --quick
  cargo xtask test -- second_caller      only tests whose name has this in it; no doc tests")]
pub(crate) struct Args {
    /// Only format, clippy, and the tests that need nothing else (without `postgres`, `browser`, `npm` or `python` in their path)
    #[arg(long)]
    quick: bool,
    /// Arguments for the test runner, after `--`; doc tests are then not run
    #[arg(last = true)]
    runner_args: Vec<OsString>,
}

/// Runs all steps and prints the counts.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut steps = Steps::default();
    steps.run("rust tools", install_rust_tools);
    steps.run("programs for tests", install_programs);
    steps.run("format", || {
        all_well(workspace::cargo().args(["fmt", "--all", "--check"]), "run `cargo fmt --all`")
    });
    steps.run("clippy", || {
        let mut clippy = workspace::cargo();
        clippy.args(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]);
        all_well(&mut clippy, "mend what it names")
    });
    if !args.quick && args.runner_args.is_empty() {
        steps.run("rustdoc", || all_well(&mut rustdoc(), "mend what it names"));
        steps.run("dependencies", deny::check_without_advisories);
        steps.run("each crate alone", alone::check);
    }

    let mut count = Count::default();
    if args.quick {
        run_tests(args, None, &mut steps, &mut count);
    } else {
        let programs = steps.run("PostgreSQL programs", || {
            let programs = Programs::find_or_install()?;
            println!("{}", programs.bin_dir().display());
            Ok(programs)
        });
        let server =
            programs.and_then(|programs| steps.run("PostgreSQL server", || Server::start(&programs)));
        steps.run("browser", install_browser);
        let npm = steps.run("peers from npm", peers::npm);
        let python = steps.run("peers for Python", peers::python);
        let handlers = steps.run("handlers for Restate", peers::handlers);
        if let (Some(server), Some(npm), Some(python), Some(handlers)) = (server, npm, python, handlers) {
            println!("{}", server.url());
            run_tests(args, Some(&Needed { server, npm, python, handlers }), &mut steps, &mut count);
        }
        steps.run("tidy", tidy::check_checkout);
    }
    Ok(steps.finish(&count))
}

/// Every page of the documentation, with links that lead somewhere.
fn rustdoc() -> Command {
    let mut doc = workspace::cargo();
    doc.args(["doc", "--workspace", "--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-D warnings");
    doc
}

/// What tests need beside themselves.
struct Needed {
    server: Server,
    npm: PathBuf,
    python: PathBuf,
    handlers: PathBuf,
}

impl Needed {
    fn set_env(&self, command: &mut Command) {
        self.server.set_env(command);
        command.env(peers::NPM_VAR, &self.npm).env(peers::PYTHON_VAR, &self.python);
        command.env(peers::HANDLERS_VAR, &self.handlers);
    }
}

fn run_tests(args: &Args, needed: Option<&Needed>, steps: &mut Steps, count: &mut Count) {
    let runner = Runner::of_this_machine();
    steps.run(&format!("tests ({runner})"), || {
        count_tests(&mut test_command(runner, args), runner, args, needed, count)
    });
    if args.runner_args.is_empty() {
        let mut command = workspace::cargo();
        command.args(["test", "--doc", "--workspace", "--all-features", "--no-fail-fast"]);
        if args.quick {
            command.arg("--").args(skips());
        }
        steps.run("doc tests", || count_tests(&mut command, Runner::CargoTest, args, needed, count));
    } else {
        println!("\ndoc tests are not run: there are arguments for the runner");
    }
}

/// The command for all tests but the doc tests.
fn test_command(runner: Runner, args: &Args) -> Command {
    let mut command = workspace::cargo();
    match runner {
        Runner::Nextest => command.args(["nextest", "run"]),
        // `--tests` means every target that has tests; without it the doc tests would run here, and twice.
        Runner::CargoTest => command.args(["test", "--tests"]),
    };
    command.args(["--all-features", "--no-fail-fast"]);
    let mut for_runner = args.runner_args.as_slice();
    let mut for_binaries: &[OsString] = &[];
    if let Some(at) = for_runner.iter().position(|arg| arg == "--") {
        (for_runner, for_binaries) = (&for_runner[..at], &for_runner[at + 1..]);
    }
    if !for_runner.iter().any(names_package) {
        command.arg("--workspace");
    }
    if args.quick && runner == Runner::Nextest {
        let words: Vec<_> = left_out().map(|word| format!("test({word})")).collect();
        command.arg("--filterset").arg(format!("not ({})", words.join(" or ")));
    }
    command.args(for_runner).arg("--").args(for_binaries);
    if args.quick && runner == Runner::CargoTest {
        command.args(skips());
    }
    command
}

fn names_package(arg: &OsString) -> bool {
    let arg = arg.to_string_lossy();
    arg == "--package" || arg.starts_with("--package=") || (arg.starts_with("-p") && !arg.starts_with("--"))
}

/// Runs one test command and adds up what it says.
fn count_tests(
    command: &mut Command,
    runner: Runner,
    args: &Args,
    needed: Option<&Needed>,
    total: &mut Count,
) -> Result<()> {
    match needed {
        Some(needed) => needed.set_env(command),
        None => {
            for variable in [URL_VAR, BIN_DIR_VAR, peers::NPM_VAR, peers::PYTHON_VAR, peers::HANDLERS_VAR] {
                command.env_remove(variable);
            }
        }
    }
    let mut count = Count::default();
    let status = process::run_and_read(command, |line| runner.read(line, &mut count));
    total.add(&count);
    let status = status?;
    ensure!(count.failed == 0, "{} failed", count.failed);
    ensure!(status.success(), "the runner failed ({status}): see above");
    let chosen = args.quick || !args.runner_args.is_empty();
    if count.skipped > 0 && !chosen {
        bail!(
            "{} were skipped; a test that does not run proves nothing: remove its `ignore` (a doc example that must \
             not run is `no_run`, one that is no Rust is `text`)",
            count.skipped
        );
    }
    Ok(())
}

/// What tests call as a user would: the demo's guide is run with it.
fn install_programs() -> Result<()> {
    let programs = [
        ("curl", "curl"),
        ("systemd-analyze", "systemd"),
        ("prometheus", "prometheus"),
        ("promtool", "prometheus"),
    ];
    for (program, package) in programs {
        if !process::succeeds(Command::new(program).arg("--version")) {
            let by_hand =
                format!("install {program} (Debian: apt-get install {package}) and put it on the PATH");
            debian::install(program, package, &by_hand)?;
        }
    }
    Ok(())
}

/// What tests of the console drive.
fn install_browser() -> Result<()> {
    if process::succeeds(Command::new("chromium").arg("--version")) {
        return Ok(());
    }
    debian::install(
        "chromium",
        "chromium",
        "install chromium (Debian: apt-get install chromium) and put it on the PATH",
    )
}

fn install_rust_tools() -> Result<()> {
    for (component, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        let here = || process::succeeds(workspace::cargo().args([subcommand, "--version"]));
        if here() {
            continue;
        }
        let mut rustup = Command::new("rustup");
        rustup.current_dir(workspace::root()).args(["component", "add", component]);
        // Without rustup the message below says what to do.
        drop(process::run(&mut rustup));
        ensure!(
            here(),
            "`cargo {subcommand}` is missing: install {component} (`rustup component add {component}`)"
        );
    }
    Ok(())
}

fn all_well(command: &mut Command, remedy: &str) -> Result<()> {
    let status = process::run(command)?;
    ensure!(status.success(), "not clean ({status}): {remedy}");
    Ok(())
}

/// The steps that ran, and those that failed.
#[derive(Default)]
struct Steps {
    failed: Vec<String>,
}

impl Steps {
    /// Runs a step under its heading. After an interrupt nothing more is run.
    fn run<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Option<T> {
        if process::interrupted() {
            return None;
        }
        println!("\n== {name}");
        let began = Instant::now();
        let result = step();
        let took = Seconds(began.elapsed());
        match result {
            Ok(value) => {
                println!("-- {name}: ok, {took}");
                Some(value)
            }
            Err(error) => {
                println!("-- {name}: FAILED, {took}: {error:#}");
                self.failed.push(name.to_owned());
                None
            }
        }
    }

    /// Says how it went; the counts are the last line.
    fn finish(mut self, count: &Count) -> ExitCode {
        println!();
        if process::interrupted() {
            println!("interrupted");
        } else if count.passed + count.failed == 0 {
            self.failed.push("no test ran".to_owned());
        }
        if !self.failed.is_empty() {
            println!("failed: {}", self.failed.join(", "));
        }
        println!("{count}");
        let well = self.failed.is_empty() && count.failed == 0 && !process::interrupted();
        if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(quick: bool, runner: Runner, runner_args: &[&str]) -> String {
        let args = Args { quick, runner_args: runner_args.iter().map(OsString::from).collect() };
        let command = test_command(runner, &args);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn both_runners_get_the_whole_workspace_with_all_features() {
        let nextest = words(false, Runner::Nextest, &[]);
        assert_eq!(nextest, "nextest run --all-features --no-fail-fast --workspace --");
        let cargo = words(false, Runner::CargoTest, &[]);
        assert_eq!(cargo, "test --tests --all-features --no-fail-fast --workspace --");
    }

    #[test]
    fn quick_leaves_out_what_needs_a_server_whatever_the_runner() {
        assert!(
            words(true, Runner::Nextest, &[]).ends_with(
                "--filterset not (test(postgres) or test(browser) or test(npm) or test(python)) --"
            )
        );
        assert!(
            words(true, Runner::CargoTest, &[])
                .ends_with("--workspace -- --skip postgres --skip browser --skip npm --skip python")
        );
    }

    #[test]
    fn extra_arguments_reach_the_runner_and_those_after_a_second_dash_the_binaries() {
        let cargo = words(true, Runner::CargoTest, &["-p", "hapax-core", "once", "--", "--nocapture"]);
        assert_eq!(
            cargo,
            "test --tests --all-features --no-fail-fast -p hapax-core once -- --nocapture --skip postgres --skip browser --skip npm --skip python"
        );
    }

    #[test]
    fn a_failed_step_fails_the_run_even_if_all_tests_passed() {
        let all_passed = Count { passed: 3, failed: 0, skipped: 0 };
        let mut steps = Steps::default();
        assert_eq!(steps.run("good", || Ok(1)), Some(1));
        assert_eq!(steps.run("bad", || -> Result<()> { bail!("planted") }), None);
        assert_eq!(steps.finish(&all_passed), ExitCode::FAILURE);
        assert_eq!(Steps::default().finish(&all_passed), ExitCode::SUCCESS);
    }

    #[test]
    fn a_run_without_tests_is_a_failure() {
        assert_eq!(Steps::default().finish(&Count::default()), ExitCode::FAILURE);
    }
}
