//! Reading the counts out of what the test runners print.

use std::fmt;

use crate::{process, workspace};

/// How many tests passed, failed and did not run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Count {
    /// Ran and passed.
    pub(crate) passed: u64,
    /// Ran and failed: timed out and could not be started, too.
    pub(crate) failed: u64,
    /// Ignored. Tests left out by name do not count for `cargo test`, but do for nextest.
    pub(crate) skipped: u64,
}

impl Count {
    /// Adds another run's counts.
    pub(crate) fn add(&mut self, other: &Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Adds `3 passed`, `1 timed out`, … to the field it belongs to.
    fn add_item(&mut self, item: &str) {
        let Some((number, what)) = item.trim().split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        match what.trim() {
            "passed" => self.passed += number,
            "failed" | "timed out" | "exec failed" => self.failed += number,
            "skipped" | "ignored" => self.skipped += number,
            _ => {}
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Which program runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// cargo-nextest: one process per test.
    Nextest,
    /// What comes with Rust.
    CargoTest,
}

impl fmt::Display for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Runner::Nextest => "cargo nextest",
            Runner::CargoTest => "cargo test",
        })
    }
}

impl Runner {
    /// nextest where it is installed; it is never required.
    pub(crate) fn of_this_machine() -> Runner {
        let nextest = process::succeeds(workspace::cargo().args(["nextest", "--version"]));
        if nextest { Runner::Nextest } else { Runner::CargoTest }
    }

    /// Adds what a line of this runner's output says to the count.
    ///
    /// Each runner's own lines only: nextest shows what a failed test printed, a `test result:` line in it.
    pub(crate) fn read(self, line: &str, count: &mut Count) {
        match self {
            Runner::Nextest => {
                let summary = line.trim_start().strip_prefix("Summary [");
                if let Some((_, counts)) = summary.and_then(|summary| summary.split_once(" run: ")) {
                    without_parentheses(counts).split(',').for_each(|item| count.add_item(item));
                }
            }
            Runner::CargoTest => {
                let result = line.strip_prefix("test result: ");
                if let Some((_, counts)) = result.and_then(|result| result.split_once(". ")) {
                    counts.split(';').for_each(|item| count.add_item(item));
                }
            }
        }
    }
}

/// nextest writes details in parentheses: `5 passed (1 slow, 1 leaky)`.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    text.chars()
        .filter(|char| {
            match char {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => return depth == 0,
            }
            false
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(runner: Runner, output: &str) -> (u64, u64, u64) {
        let mut count = Count::default();
        output.lines().for_each(|line| runner.read(line, &mut count));
        (count.passed, count.failed, count.skipped)
    }

    #[test]
    fn the_summary_of_nextest_is_read() {
        let clean = "        PASS [   0.004s] (1/1) xtask tests::one\n     Summary [   0.005s] 1 test run: 1 passed, 0 skipped";
        assert_eq!(read(Runner::Nextest, clean), (1, 0, 0));
        let mixed = "     Summary [  12.1s] 9/10 tests run: 5 passed (1 slow, 1 leaky), 2 failed (1 due to being leaky), 1 timed out, 1 exec failed, 3 skipped";
        assert_eq!(read(Runner::Nextest, mixed), (5, 4, 3));
    }

    #[test]
    fn what_a_failed_test_printed_is_not_counted_by_nextest() {
        let output = "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out\n     Summary [ 0.1s] 2 tests run: 1 passed, 1 failed, 0 skipped";
        assert_eq!(read(Runner::Nextest, output), (1, 1, 0));
    }

    #[test]
    fn the_results_of_cargo_test_are_summed() {
        let output = "running 3 tests\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s\ntest result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!(read(Runner::CargoTest, output), (4, 2, 1));
    }

    #[test]
    fn the_last_line_is_exact() {
        assert_eq!(Count { passed: 7, failed: 1, skipped: 2 }.to_string(), "7 passed, 1 failed");
    }
}
