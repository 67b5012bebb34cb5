//! Rules about single files: how they open, and what must not be in them.
//!
//! Words that are searched for are put together from two halves, so that this file does not contain them.

use super::tree::Tree;

/// What must not be left in Rust source, and why.
const UNFINISHED: &[(&str, &str)] = &[
    (concat!("to", "do!("), "unfinished code"),
    (concat!("unim", "plemented!("), "unfinished code"),
    (concat!("db", "g!("), "left from debugging"),
    (concat!("FIX", "ME"), "mend it, or write an issue"),
    (concat!("#[ig", "nore"), "a test that does not run proves nothing"),
];

/// Directories at the root of somebody's machine; a path below one of them works nowhere else.
const MACHINE_DIRS: [&str; 3] = ["root", "home", "work"];

/// Every source file starts with a `//!` comment.
pub(crate) fn opens_with_purpose(tree: &Tree) -> Vec<String> {
    let sources = tree.rust().filter(|(path, _)| is_source(path));
    sources
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| format!("{path}:1: open the file with a `//!` comment that says what it is for"))
        .collect()
}

fn is_source(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "src", ..] | ["bench" | "torture" | "xtask", "src", ..])
}

/// No Rust file holds what was meant to be replaced.
pub(crate) fn nothing_unfinished(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.rust() {
        for (number, line) in numbered(text) {
            for (word, why) in UNFINISHED.iter().filter(|(word, _)| has_word(line, word)) {
                found.push(format!("{path}:{number}: `{word}`: {why}"));
            }
        }
    }
    found
}

/// The word, not the end of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|before: char| is_name(before)))
}

/// No text file holds a path that exists on one machine only.
pub(crate) fn no_machine_paths(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.texts() {
        for (number, line) in numbered(text) {
            if let Some(named) = machine_path(line) {
                found.push(format!("{path}:{number}: `{named}` is a path of one machine: name it from the root of the project"));
            }
        }
    }
    found
}

fn machine_path(line: &str) -> Option<&str> {
    MACHINE_DIRS.iter().find_map(|dir| {
        let pattern = format!("/{dir}/");
        line.match_indices(&pattern).find_map(|(at, _)| {
            let before = line[..at].chars().next_back();
            let inside_a_longer_path = before.is_some_and(|char| is_name(char) || ".-/~}$*>".contains(char));
            let rest = &line[at + pattern.len()..];
            let length =
                rest.find(|char: char| !is_name(char) && !"./-".contains(char)).unwrap_or(rest.len());
            let named = &line[at..at + pattern.len() + length];
            (!inside_a_longer_path && length > 0).then_some(named)
        })
    })
}

fn is_name(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_file_without_its_purpose_is_found() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "//! Good.\n"),
            ("crates/a/src/deep/bad.rs", "// Not a module comment.\n"),
            ("crates/a/tests/it/main.rs", "fn main() {}\n"),
            ("xtask/src/empty.rs", ""),
        ]);
        let found = opens_with_purpose(&tree);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/deep/bad.rs:1: "));
        assert!(found[1].starts_with("xtask/src/empty.rs:1: "));
    }

    #[test]
    fn each_unfinished_word_is_found_with_its_line() {
        for (word, _) in UNFINISHED {
            let text = format!("//! Fine.\nfn f() {{ {word} }}\n");
            let found = nothing_unfinished(&Tree::of(&[("tests/a.rs", &text), ("notes.md", &text)]));
            assert_eq!(found.len(), 1, "{word}: {found:?}");
            assert!(found[0].starts_with("tests/a.rs:2: "), "{found:?}");
        }
    }

    #[test]
    fn a_longer_name_is_not_the_word() {
        let text = concat!("my_to", "do!(x); a_db", "g!(y);");
        assert!(nothing_unfinished(&Tree::of(&[("a.rs", text)])).is_empty());
    }

    #[test]
    fn a_path_of_one_machine_is_found_in_any_text() {
        for dir in MACHINE_DIRS {
            let text = format!("fine\nopen \"/{dir}/someone/x.rs\" now\n");
            let found = no_machine_paths(&Tree::of(&[("docs/a.md", &text)]));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(&format!("docs/a.md:2: `/{dir}/someone/x.rs`")), "{found:?}");
        }
    }

    #[test]
    fn routes_links_and_relative_paths_are_no_machine_paths() {
        for fine in [
            "GET /work",
            "docs/home/x",
            "https://example.org/home/x",
            "/workspace/x",
            "$HOME/root/x",
            "/home/",
        ] {
            assert_eq!(machine_path(fine), None, "{fine}");
        }
    }
}
