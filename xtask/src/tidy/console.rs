//! Rules about the console's files: no compiler looks at them, and what they must not do is a matter of a slip.

use super::sha256::sha256;
use super::tree::Tree;

const FOLDER: &str = "crates/hapax/console/";
const VENDORED: &str = "crates/hapax/console/vendor/";
const SUMS: &str = "crates/hapax/console/vendor/SHA256SUMS";

/// The most bytes of all files, and of those that the first page fetches.
const ALL_BYTES: usize = 340 * 1024;
const FIRST_BYTES: usize = 160 * 1024;
/// The longest file and the longest function, in lines.
const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 60;

/// What turns text into markup or code. The policy stops it in a browser; here it is found before.
const MARKUP: [&str; 9] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "DOMParser",
    "dangerouslySetInnerHTML",
    "eval(",
    "Function(",
    "setTimeout(\"",
];

fn files(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts().filter(|(path, _)| path.starts_with(FOLDER))
}

/// Those that are written here.
fn own(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    files(tree).filter(|(path, _)| !path.starts_with(VENDORED))
}

/// Text stays text, pages hold neither scripts nor styles, and nothing is fetched from elsewhere.
pub(crate) fn text_stays_text(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in own(tree) {
        for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
            for word in MARKUP.iter().filter(|word| line.contains(**word)) {
                found.push(format!("{path}:{number}: `{word}` makes markup or code of text"));
            }
            if line.contains(" style=") || (path.ends_with(".html") && has_handler(line)) {
                found.push(format!("{path}:{number}: the policy allows neither style nor script in a page"));
            }
            let code = line.split("// ").next().unwrap_or_default();
            // The one name of a namespace that is no address.
            if code.contains("://")
                && !code.contains("http://www.w3.org/2000/svg")
                && !code.contains("`hapax")
            {
                found.push(format!("{path}:{number}: an address: the console asks its own listener only"));
            }
        }
    }
    found
}

/// An attribute such as `onclick=`.
fn has_handler(line: &str) -> bool {
    line.split_whitespace().any(|word| word.starts_with("on") && word.contains('='))
}

/// Files open with what they are for, and are short; so are their functions.
pub(crate) fn is_short_and_says_what_it_is_for(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in own(tree) {
        if path.ends_with(".js") && !text.starts_with("// ")
            || path.ends_with(".css") && !text.starts_with("/* ")
        {
            found.push(format!("{path}:1: open the file with a comment that says what it is for"));
        }
        let lines = text.lines().count();
        if lines > FILE_LINES {
            found.push(format!("{path}: {lines} lines; {FILE_LINES} at most"));
        }
        if path.ends_with(".js") {
            found.extend(long_functions(path, text));
        }
    }
    found
}

/// Functions begin at the left edge, and end with a brace there.
fn long_functions(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut begun = None;
    for (number, line) in text.lines().enumerate() {
        let opens = [
            "function ",
            "async function ",
            "export function ",
            "export async function ",
            "const ",
            "export const ",
        ];
        if opens.iter().any(|word| line.starts_with(word)) && line.ends_with('{') {
            begun = Some(number);
        } else if line.starts_with('}')
            && let Some(from) = begun.take()
            && number - from >= FUNCTION_LINES
        {
            found.push(format!(
                "{path}:{}: a function of {} lines; {FUNCTION_LINES} at most",
                from + 1,
                number - from + 1
            ));
        }
    }
    found
}

/// All files, and those that come before the first screen, are small.
pub(crate) fn is_small(tree: &Tree) -> Vec<String> {
    let served = |path: &str| !path.ends_with("/LICENSES") && !path.ends_with("/SHA256SUMS");
    let size = |is: &dyn Fn(&str) -> bool| -> usize {
        files(tree).filter(|(path, _)| served(path) && is(path)).map(|(_, text)| text.len()).sum()
    };
    let first = |path: &str| !path.contains("/screens/") || path.ends_with("/overview.js");
    let mut found = Vec::new();
    for (what, size, most) in [
        ("all files", size(&|_| true), ALL_BYTES),
        ("what the first page fetches", size(&first), FIRST_BYTES),
    ] {
        if size > most {
            found.push(format!("{FOLDER}: {what}: {size} bytes; {most} at most"));
        }
    }
    found
}

/// The vendored files are those that were looked at.
pub(crate) fn vendored_is_as_it_was(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let sums = tree.text(SUMS).unwrap_or_default();
    let vendored = files(tree).filter(|(path, _)| path.starts_with(VENDORED) && path.ends_with(".mjs"));
    for (path, text) in vendored {
        let name = path.trim_start_matches(VENDORED);
        let line = format!("{}  {name}", sha256(text.as_bytes()));
        if !sums.lines().any(|known| known == line) {
            found.push(format!("{path}: `{line}` is not in {SUMS}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const JS: &str = "crates/hapax/console/one.js";

    #[test]
    fn markup_addresses_and_styles_are_found_and_comments_are_not() {
        for planted in
            [concat!("one.inner", "HTML = text;"), "fetch('https://elsewhere')", "html`<p style=\"x\">`"]
        {
            let text = format!("// One.\n{planted}\n");
            assert_eq!(text_stays_text(&Tree::of(&[(JS, &text)])).len(), 1, "{planted}");
        }
        assert!(text_stays_text(&Tree::of(&[(JS, "// See https://elsewhere\n")])).is_empty());
        let page = "<!doctype html>\n<p onclick=\"x\">\n";
        assert_eq!(text_stays_text(&Tree::of(&[("crates/hapax/console/index.html", page)])).len(), 1);
    }

    #[test]
    fn long_files_long_functions_and_those_without_a_purpose_are_found() {
        let long = format!("// One.\nfunction one() {{\n{}}}\n", "  work();\n".repeat(FUNCTION_LINES));
        assert_eq!(is_short_and_says_what_it_is_for(&Tree::of(&[(JS, &long)])).len(), 1);
        let longer = format!("// One.\n{}", "work();\n".repeat(FILE_LINES));
        assert_eq!(is_short_and_says_what_it_is_for(&Tree::of(&[(JS, &longer)])).len(), 1);
        assert_eq!(is_short_and_says_what_it_is_for(&Tree::of(&[(JS, "work();\n")])).len(), 1);
    }

    #[test]
    fn too_many_bytes_are_found() {
        let much = "x".repeat(FIRST_BYTES + 1);
        assert_eq!(is_small(&Tree::of(&[(JS, &much)])).len(), 1);
        assert_eq!(is_small(&Tree::of(&[("crates/hapax/console/screens/one.js", &much)])).len(), 0);
    }

    #[test]
    fn another_byte_in_a_vendored_file_is_found() {
        let file = "crates/hapax/console/vendor/one.mjs";
        let sums = format!("{}  one.mjs\n", sha256(b"one"));
        assert!(vendored_is_as_it_was(&Tree::of(&[(file, "one"), (SUMS, &sums)])).is_empty());
        assert_eq!(vendored_is_as_it_was(&Tree::of(&[(file, "0ne"), (SUMS, &sums)])).len(), 1);
    }
}
