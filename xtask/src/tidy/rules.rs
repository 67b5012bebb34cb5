//! `docs/rules.md` and the tests name each other: a rule that no test is named after is a promise, no more.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;

/// The page that lists the rules.
const PAGE: &str = "docs/rules.md";
/// Where behaviour is written as text; a scenario names its rules in its first lines.
const SCENARIOS: &str = "scenarios/";

/// Each rule stands in one row, a test or a scenario names it, and no test names a rule that is not there.
pub(crate) fn rules_and_tests_agree(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let mut rules = BTreeMap::new();
    for (number, line) in tree.text(PAGE).unwrap_or_default().lines().enumerate() {
        for id in ids_of_row(line) {
            if let Some(before) = rules.insert(id.to_owned(), number + 1) {
                found.push(format!("{PAGE}:{}: `{id}` is a rule of line {before} already", number + 1));
            }
        }
    }
    let letters: BTreeSet<u8> = rules.keys().map(|id| id.as_bytes()[0]).collect();
    let mut named = BTreeSet::new();
    for (path, text) in tree.rust() {
        for (number, line) in text.lines().enumerate() {
            for id in tags(line).into_iter().filter(|id| letters.contains(&id.as_bytes()[0])) {
                if !rules.contains_key(&id) {
                    found.push(format!(
                        "{path}:{}: a test is named after `{id}`, which is no rule",
                        number + 1
                    ));
                }
                named.insert(id);
            }
        }
    }
    let scenarios: String =
        tree.texts().filter(|(path, _)| path.starts_with(SCENARIOS)).map(|(_, text)| text).collect();
    named.extend(scenarios.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned));
    let untested = rules.iter().filter(|(id, _)| !named.contains(*id));
    found.extend(untested.map(|(id, line)| format!("{PAGE}:{line}: no test is named after `{id}`")));
    found
}

/// The rules of a row such as `| L10, L11 | … |`.
fn ids_of_row(line: &str) -> Vec<&str> {
    let first = line.strip_prefix("| ").and_then(|rest| rest.split(" |").next()).unwrap_or_default();
    let ids: Vec<&str> = first.split(", ").collect();
    if ids.iter().all(|id| is_id(id, u8::is_ascii_uppercase)) { ids } else { Vec::new() }
}

/// The rules that a function is named after: `fn a_late_truth_counts_l5_l15()`.
fn tags(line: &str) -> Vec<String> {
    let Some((before, rest)) = line.split_once("fn ") else { return Vec::new() };
    if !before.trim().is_empty() && !before.trim_end().ends_with("async") {
        return Vec::new();
    }
    let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let words = name.rsplit('_').take_while(|word| is_id(word, u8::is_ascii_lowercase));
    words.map(str::to_ascii_uppercase).collect()
}

/// A letter and a number without a leading zero.
fn is_id(word: &str, is_letter: fn(&u8) -> bool) -> bool {
    match word.as_bytes() {
        [letter, digits @ ..] => {
            is_letter(letter) && matches!(digits, [b'1'..=b'9'] | [b'1'..=b'9', b'0'..=b'9'])
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_without_a_test_and_tests_without_a_rule_are_found() {
        let page = "# Rules\n| id | rule |\n|---|---|\n| L5 | late |\n| L10, L11 | kept |\n| B6 | ends |\n| B6 | again |\n";
        let tests =
            "    async fn a_late_truth_counts_l5_l15() {}\n// fn not_a_test_l11\nfn sums_up_v1() {}\n";
        let tree = Tree::of(&[
            (PAGE, page),
            ("crates/a/tests/it/one.rs", tests),
            ("scenarios/31-retentions.txt", "# Kept as long as its class says (L10)\n"),
        ]);
        let wanted = [
            "docs/rules.md:7: `B6` is a rule of line 6 already",
            "crates/a/tests/it/one.rs:1: a test is named after `L15`, which is no rule",
            "docs/rules.md:7: no test is named after `B6`",
            "docs/rules.md:5: no test is named after `L11`",
        ];
        assert_eq!(rules_and_tests_agree(&tree), wanted);
    }
}
