//! Rules about the Markdown files: decisions, README, links.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::tree::Tree;

/// The headings of an ADR, in their order.
const DECISION_HEADINGS: [&str; 4] = ["Context", "Decision", "Rejected", "Consequence"];
/// The two commands a newcomer needs: start the product, and run every test.
const COMMANDS: [&str; 2] = ["cargo run", "cargo xtask test"];

/// Each ADR says what was rejected and what follows, not only what was decided.
pub(crate) fn decisions_have_headings(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let decisions =
        tree.markdown().filter(|(path, _)| path.starts_with("docs/adr/") && !path.ends_with("/README.md"));
    for (path, text) in decisions {
        let headings = headings(text);
        for wanted in DECISION_HEADINGS {
            if !headings.iter().any(|heading| heading == wanted) {
                found.push(format!("{path}: the heading `{wanted}` is missing"));
            }
        }
    }
    found
}

fn headings(text: &str) -> Vec<String> {
    let mut headings = Vec::new();
    let mut open: Option<String> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => open = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => headings.extend(open.take()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut open {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    headings
}

/// The README says how to start the product and how to test it.
pub(crate) fn readme_names_commands(tree: &Tree) -> Vec<String> {
    let Some(readme) = tree.text("README.md") else {
        return vec!["README.md: is missing".to_owned()];
    };
    let missing = COMMANDS.iter().filter(|command| !readme.contains(**command));
    missing.map(|command| format!("README.md: does not mention `{command}`")).collect()
}

/// Every link to a file of the project leads to one.
pub(crate) fn links_resolve(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.markdown() {
        for (target, at) in links(text) {
            let file = target.split(['#', '?']).next().unwrap_or_default();
            if file.is_empty() || has_scheme(file) {
                continue;
            }
            if !resolve(path, file).is_some_and(|file| tree.contains(&file)) {
                let line = text[..at].matches('\n').count() + 1;
                found.push(format!("{path}:{line}: the link to `{target}` leads nowhere"));
            }
        }
    }
    found
}

/// The targets of links and images, and where they stand. Code is not looked at.
fn links(text: &str) -> Vec<(String, usize)> {
    let events = Parser::new(text).into_offset_iter();
    let links = events.filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((dest_url.into_string(), range.start))
        }
        _ => None,
    });
    links.collect()
}

fn has_scheme(target: &str) -> bool {
    let scheme = target.split_once(':').map_or("", |(scheme, _)| scheme);
    !scheme.is_empty() && scheme.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char))
}

/// The path that a link in `from` names; `None` when it leaves the project or starts at somebody's root.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The longest page of measurements, in words: it is tables, commands and what they do not show.
const MEASUREMENTS: (&str, usize) = ("docs/benchmarks.md", 600);

/// The page of measurements is no diary.
pub(crate) fn measurements_are_short(tree: &Tree) -> Vec<String> {
    let (page, most) = MEASUREMENTS;
    // The bars of a table are no words.
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let words = tree.text(page).unwrap_or_default().split_whitespace().filter(is_word).count();
    let found = (words >= most).then(|| format!("{page}: {words} words, {most} are too many"));
    found.into_iter().collect()
}

/// The documents that say where things are, by paths in code: a reader follows them.
const MAPS: [&str; 2] = ["ARCHITECTURE.md", "docs/rules.md"];

/// Every file of Rust that a map names is there. A map may leave out what is the same everywhere: `core/turn.rs` is
/// `crates/hapax-core/src/turn.rs`, and `http/head.rs` may be said as `head.rs` where it is clear whose.
pub(crate) fn maps_name_files(tree: &Tree) -> Vec<String> {
    let files: Vec<String> = tree.paths().flat_map(|path| [path.to_owned(), shortened(path)]).collect();
    let mut found = Vec::new();
    for map in MAPS {
        for (number, line) in tree.text(map).unwrap_or_default().lines().enumerate() {
            let spans = line.split('`').skip(1).step_by(2);
            for path in spans.filter(|span| span.ends_with(".rs")).flat_map(alternatives) {
                let is_it = |file: &String| {
                    file.strip_suffix(&path).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
                };
                if !files.iter().any(is_it) {
                    found.push(format!("{map}:{}: there is no `{path}`", number + 1));
                }
            }
        }
    }
    found
}

/// A path without what is the same everywhere.
fn shortened(path: &str) -> String {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    path.strip_prefix("hapax-").unwrap_or(path).replace("/src/", "/")
}

/// What braces stand for: `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn alternatives(path: &str) -> Vec<String> {
    let braces = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match braces {
        Some((before, (inside, after))) => {
            inside.split(',').flat_map(|one| alternatives(&format!("{before}{one}{after}"))).collect()
        }
        None => vec![path.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_measurements_that_becomes_a_diary_is_found() {
        let page =
            |words: usize| Tree::of(&[("docs/benchmarks.md", &format!("| {}|", "word ".repeat(words)))]);
        assert_eq!(measurements_are_short(&page(599)), [""; 0]);
        assert_eq!(measurements_are_short(&page(600)), ["docs/benchmarks.md: 600 words, 600 are too many"]);
    }

    #[test]
    fn a_map_that_names_a_file_that_is_not_there_is_found() {
        let map = "| a | `core/{turn,gone}.rs`, `stack.rs` |\n| b | `crates/hapax-core/src/turn.rs`, `ack.rs`, `no/file` |\n";
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", map),
            ("crates/hapax-core/src/turn.rs", ""),
            ("crates/hapax-gateway/src/stack.rs", ""),
        ]);
        let wanted =
            ["ARCHITECTURE.md:1: there is no `core/gone.rs`", "ARCHITECTURE.md:2: there is no `ack.rs`"];
        assert_eq!(maps_name_files(&tree), wanted);
    }

    #[test]
    fn a_decision_without_a_heading_is_found() {
        let whole = "# 1. Epochs\n\n## Context\na\n## Decision\nb\n## Rejected\nc\n## Consequence\nd\n";
        let fenced = whole.replace("## Rejected", "```\n## Rejected\n```");
        let found = decisions_have_headings(&Tree::of(&[
            ("docs/adr/0001-epochs.md", whole),
            ("docs/adr/0002-fenced.md", &fenced),
            ("docs/adr/README.md", "# Decisions"),
            ("docs/start.md", "# Start"),
        ]));
        assert_eq!(found, ["docs/adr/0002-fenced.md: the heading `Rejected` is missing"]);
    }

    #[test]
    fn a_readme_without_a_command_is_found() {
        assert_eq!(readme_names_commands(&Tree::of(&[])), ["README.md: is missing"]);
        let found = readme_names_commands(&Tree::of(&[("README.md", "Run `cargo run -- demo`.")]));
        assert_eq!(found, ["README.md: does not mention `cargo xtask test`"]);
        assert_eq!(
            readme_names_commands(&Tree::of(&[("README.md", "cargo run\ncargo xtask test\n")])),
            [""; 0]
        );
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found_with_its_line() {
        let guide = "# Guide\n\n[gone](gone.md) and ![picture](../pic.png)\n\n[ref]: ../../outside.md\n\n[a][ref] [root](/README.md)\n";
        let found = links_resolve(&Tree::of(&[("docs/guide.md", guide), ("README.md", "")]));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].starts_with("docs/guide.md:3: the link to `gone.md`"), "{found:?}");
    }

    #[test]
    fn links_to_files_directories_headings_and_the_web_are_fine() {
        let text = "[a](docs/a.md#part) [dir](docs/) [dir](./docs) [self](#part) [web](https://example.org/x) \
                    [mail](mailto:a@example.org) `[code](gone.md)`\n\n```\n[code](gone.md)\n```\n";
        let tree = Tree::of(&[("README.md", text), ("docs/a.md", "[up](../README.md) [root](..)")]);
        assert_eq!(links_resolve(&tree), [""; 0]);
    }
}
