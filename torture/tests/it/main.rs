//! Short runs of the torture, and the proof that its judge finds what it is there to find.

#![allow(clippy::print_stdout, reason = "the table of a run is part of its result")]

mod actions;
mod embedded;
mod executions;
mod postgres;

use std::path::Path;

use hapax_torture::report::Report;

/// The program that suffers.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hapax-torture"))
}

/// Nothing was found.
#[track_caller]
fn assert_green(report: &Report) {
    println!("{report}");
    assert!(report.is_green(), "\n{report}");
}

/// Something was found, and it is what was planted.
#[track_caller]
fn assert_red(report: &Report, expected: &str) {
    println!("{report}");
    let found = report.violations.iter().any(|violation| violation.contains(expected));
    assert!(found, "the judge must find `{expected}`:\n{report}");
}
