//! `cargo xtask tidy`: the project's own rules, those that no linter knows.
//!
//! A check is a function from the [`Tree`] of tracked files to what is wrong in it. It does no I/O, so that its
//! tests plant a violation in a made-up tree; one more test runs all of them over the real checkout.

mod claim;
mod connect;
mod console;
mod direction;
mod documents;
mod sha256;
mod source;
mod tree;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace;
use tree::Tree;

/// Check the project's own rules over all tracked files.
///
/// Every source file opens with what it is for; nothing unfinished is left in the source; the crates depend on each
/// other only as the architecture allows; only `once` claims; only the executor of actions calls connectors; no path of one machine; the console is small and makes no markup of text; ADRs, README, links and the files that maps name.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// A named rule.
struct Check {
    name: &'static str,
    run: fn(&Tree) -> Vec<String>,
}

const CHECKS: &[Check] = &[
    Check { name: "source files open with what they are for", run: source::opens_with_purpose },
    Check { name: "nothing unfinished in the source", run: source::nothing_unfinished },
    Check { name: "no path of one machine", run: source::no_machine_paths },
    Check { name: "dependency direction", run: direction::follows_architecture },
    Check { name: "only `once` claims", run: claim::only_once_claims },
    Check { name: "only the executor calls connectors", run: connect::only_the_executor_invokes },
    Check { name: "decisions have their headings", run: documents::decisions_have_headings },
    Check { name: "README names the commands", run: documents::readme_names_commands },
    Check { name: "links resolve", run: documents::links_resolve },
    Check { name: "maps name files that are there", run: documents::maps_name_files },
    Check { name: "measurements are short", run: documents::measurements_are_short },
    Check { name: "the console's text stays text", run: console::text_stays_text },
    Check { name: "the console's files are short", run: console::is_short_and_says_what_it_is_for },
    Check { name: "the console is small", run: console::is_small },
    Check { name: "what is vendored is as it was", run: console::vendored_is_as_it_was },
];

/// Runs all checks over the checkout.
pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    check_checkout()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints each check's result; an error when one failed.
pub(crate) fn check_checkout() -> Result<()> {
    let tree = Tree::read(workspace::root())?;
    let mut failed = 0;
    for Check { name, run } in CHECKS {
        let violations = run(&tree);
        println!("{} {name}", if violations.is_empty() { "ok    " } else { "FAILED" });
        for violation in &violations {
            println!("         {violation}");
        }
        failed += usize::from(!violations.is_empty());
    }
    if failed > 0 {
        bail!("{failed} of {} checks failed", CHECKS.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(name: &str) -> Vec<String> {
        let check = CHECKS.iter().find(|check| check.name == name).unwrap();
        (check.run)(&Tree::read(workspace::root()).unwrap())
    }

    /// One test per check, so that a run's list of tests says which rule is broken.
    macro_rules! over_the_checkout {
        ($($test:ident: $name:literal,)+) => {
            $(#[test]
            fn $test() {
                let found = violations($name);
                assert!(found.is_empty(), "\n{}\n", found.join("\n"));
            })+

            #[test]
            fn every_check_has_a_test_over_the_checkout() {
                let tested = [$($name),+];
                assert_eq!(CHECKS.iter().map(|check| check.name).collect::<Vec<_>>(), tested);
            }
        };
    }

    over_the_checkout! {
        source_files_open_with_what_they_are_for: "source files open with what they are for",
        nothing_unfinished_in_the_source: "nothing unfinished in the source",
        no_path_of_one_machine: "no path of one machine",
        crates_depend_on_each_other_as_the_architecture_says: "dependency direction",
        only_once_claims: "only `once` claims",
        only_the_executor_calls_connectors: "only the executor calls connectors",
        decisions_have_their_headings: "decisions have their headings",
        readme_names_the_commands: "README names the commands",
        links_resolve: "links resolve",
        maps_name_files_that_are_there: "maps name files that are there",
        measurements_are_short: "measurements are short",
        the_consoles_text_stays_text: "the console's text stays text",
        the_consoles_files_are_short: "the console's files are short",
        the_console_is_small: "the console is small",
        what_is_vendored_is_as_it_was: "what is vendored is as it was",
    }
}
