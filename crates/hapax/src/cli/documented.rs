//! Every command of hapax that the documents show is one that the program takes (M2).
//!
//! What stands behind a `$` is read as a shell would read it, and parsed whole. What stands in a sentence may leave out what a reader
//! fills in: there the words and options must exist.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use super::Cli;

/// The pages that tell users what to type.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let mut folders: Vec<_> =
        ["guides", "operating", "reference", "errors"].map(|name| root.join("docs").join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of documents") {
            let path = entry.expect("an entry").path();
            match path.extension() {
                Some(extension) if extension == "md" => pages.push(path),
                None if path.is_dir() => folders.push(path),
                _ => {}
            }
        }
    }
    pages
}

/// Lines with those that they go on in.
fn lines(page: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in page.lines() {
        let (text, more) = line.strip_suffix('\\').map_or((line, false), |text| (text, true));
        match lines.last_mut().filter(|_| goes_on) {
            Some(last) => last.push_str(text),
            None => lines.push(text.to_owned()),
        }
        goes_on = more;
    }
    lines
}

/// The words of a command, up to where a shell ends it.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '|' | ')' | '&' | ';' | '>' | '<' | '`') => break,
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What follows `hapax ` wherever a command can begin in this line of a shell.
fn commands(line: &str) -> Vec<Vec<String>> {
    let begins = |at: usize| {
        let before = line[..at].trim_end();
        before.is_empty() || before.ends_with(['|', '(', '&', ';'])
    };
    line.match_indices("hapax ").filter(|(at, _)| begins(*at)).map(|(at, _)| words(&line[at..])).collect()
}

/// What stands outside of blocks, in one line.
fn sentences(page: &str) -> String {
    let mut is_open = false;
    let outside = page.lines().filter(|line| {
        is_open ^= line.starts_with("```");
        !is_open && !line.starts_with("```")
    });
    outside.collect::<Vec<_>>().join(" ")
}

/// Whether a piece of a sentence shows a command, and not what a program prints or what all commands have in common.
fn is_command(said: &str) -> bool {
    let next = said.strip_prefix("hapax ").and_then(|rest| rest.split(' ').next());
    next.is_some_and(|word| word != "serves" && word.starts_with(|c: char| c.is_ascii_lowercase()))
}

#[test]
fn every_command_that_the_documents_show_is_one_that_the_program_takes_m2() {
    let (mut shown, mut mistakes) = (0, Vec::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        let name = page.file_name().unwrap_or_default().display().to_string();
        for command in lines(&text).iter().filter_map(|line| line.strip_prefix("$ ")).flat_map(commands) {
            shown += 1;
            if let Err(error) = Cli::try_parse_from(&command) {
                mistakes.push(format!("{name}: {}\n{error}", command.join(" ")));
            }
        }
        for said in sentences(&text).split('`').skip(1).step_by(2).filter(|said| is_command(said)) {
            let said = said.split(['(', '[', '{']).next().unwrap_or_default().replace('…', "x");
            let mut command = words(&said);
            command.push("--help".into());
            shown += 1;
            match Cli::try_parse_from(&command) {
                Err(error) if error.kind() != ErrorKind::DisplayHelp => {
                    mistakes.push(format!("{name}: `{said}`\n{error}"));
                }
                _ => {}
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(shown > 60, "the documents show only {shown} commands");
}

#[test]
fn every_command_of_the_program_is_in_the_reference_m2() {
    fn leaves(command: &clap::Command, before: &str, all: &mut Vec<String>) {
        let name = format!("{before}{}", command.get_name());
        let mut parts = command.get_subcommands().filter(|part| part.get_name() != "help").peekable();
        if parts.peek().is_none() {
            all.push(name.clone());
        }
        parts.for_each(|part| leaves(part, &format!("{name} "), all));
    }
    let page = include_str!("../../../../docs/reference/cli.md");
    let words: Vec<String> =
        page.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let mut all = Vec::new();
    leaves(&Cli::command(), "", &mut all);
    let is_told = |leaf: &String| {
        words.iter().any(|line| {
            line == leaf || line.contains(&format!("{leaf} ")) || line.contains(&format!("{leaf}`"))
        })
    };
    let missing: Vec<_> = all.iter().filter(|leaf| !is_told(leaf)).collect();
    assert!(missing.is_empty() && all.len() > 30, "not in docs/reference/cli.md: {missing:?}");
}

#[test]
fn a_command_is_read_as_a_shell_reads_it() {
    let line = r#"KEY=$(printf %s "$A" | hapax keys create --label 'a "b' --tenant "x y") && hapax serve --config a.toml & # hapax no"#;
    let told = commands(line);
    assert_eq!(told[0], ["hapax", "keys", "create", "--label", "a \"b", "--tenant", "x y"]);
    assert_eq!(told[1], ["hapax", "serve", "--config", "a.toml"]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(lines("$ a \\\n  b\nc"), ["$ a   b", "c"]);
}
