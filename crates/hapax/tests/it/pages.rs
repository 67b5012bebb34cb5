//! Pages that are followed word for word: their files are written, their commands run in one shell, and what they say is printed is
//! looked for.
//!
//! A block ```` ```console ```` is commands, each behind `$ `, and lines that they print; `…` stands for anything. A block
//! ```` ```toml ```` whose first line is a comment is a file of that name. Everything else on a page is not run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::claims_cli::told;

/// A block of a page: what it is, and its lines.
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) lines: Vec<String>,
}

pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(kind) if !is_open => blocks.push(Block { kind: kind.to_owned(), lines: Vec::new() }),
            Some(_) => {}
            None if is_open => blocks.last_mut().unwrap().lines.push(line.to_owned()),
            None => {}
        }
        is_open ^= line.starts_with("```");
    }
    blocks
}

/// A command, and what the page says it prints.
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) prints: Vec<String>,
}

pub(crate) fn steps(blocks: &[Block]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in blocks.iter().filter(|block| block.kind == "console").flat_map(|block| &block.lines) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_owned(), prints: Vec::new() }),
            // A command goes on in the next line.
            (None, Some(step)) if step.command.ends_with('\\') => {
                step.command.truncate(step.command.len() - 1);
                step.command.push_str(line.trim_start());
            }
            (None, step) => step.expect("a command comes first").prints.push(line.clone()),
        }
    }
    steps
}

/// One shell for all commands. A command that goes on in the background is waited for until it has printed what it should.
pub(crate) fn script(steps: &[Step]) -> String {
    let mut script = "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n".to_owned();
    for (number, step) in steps.iter().enumerate() {
        match step.command.strip_suffix('&') {
            None => writeln!(script, "{{ {} ; }} > out.{number} 2>&1", step.command).unwrap(),
            Some(command) => {
                let (first, rounds) = (&step.prints[0], 600);
                writeln!(script, "{command} > out.{number} 2>&1 &").unwrap();
                writeln!(
                    script,
                    "for _ in $(seq {rounds}); do grep -qF '{first}' out.{number} && break; sleep 0.1; done"
                )
                .unwrap();
            }
        }
    }
    script
}

/// Whether a line was printed; `…` stands for anything, and several blanks for any number.
pub(crate) fn is_printed(line: &str, out: &str) -> bool {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = flat(line);
    let fits = |printed: &str| {
        let mut rest = printed;
        wanted.split('…').all(|part| match rest.find(part.trim()) {
            Some(at) => {
                rest = &rest[at + part.trim().len()..];
                true
            }
            None => false,
        })
    };
    out.lines().any(|printed| fits(&flat(printed)))
}

/// Follows a page in a folder. `before` is what the shell knows already.
pub(crate) async fn follow(page: &str, folder: &Path, before: &str, variables: &[(&str, &str)]) {
    let blocks = blocks(page);
    for block in blocks.iter().filter(|block| block.kind == "toml") {
        if let Some(name) = block.lines[0].strip_prefix("# ") {
            std::fs::write(folder.join(name), block.lines.join("\n") + "\n").unwrap();
        }
    }
    let steps = steps(&blocks);
    assert!(steps.len() > 1, "the page has lost its commands");
    let mut shell = Command::new("bash");
    let path = format!("{}:{}", program().display(), std::env::var("PATH").unwrap());
    shell.args(["-c", &format!("{before}\n{}", script(&steps))]).current_dir(folder);
    shell.env_remove("HAPAX_STORE").env_remove("HAPAX_LOG").env("PATH", path).env("USER", "alice");
    shell.envs(variables.iter().copied());
    let ran = told(shell).await;
    for (number, Step { command, prints }) in steps.iter().enumerate() {
        let out = std::fs::read_to_string(folder.join(format!("out.{number}"))).unwrap();
        for line in prints {
            assert!(
                is_printed(line, &out),
                "{command}\nprints\n{out}\nand the page says\n{line}\n{}",
                ran.err
            );
        }
    }
}

/// The folder of the program.
fn program() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_hapax")).parent().unwrap().to_owned()
}

#[test]
fn what_is_printed_is_looked_for_with_gaps_and_in_one_line() {
    let out = "op_1f  in_doubt  charge\nnothing else";
    assert!(is_printed("op_…  in_doubt", out) && is_printed("…", out) && is_printed("nothing", out));
    assert!(!is_printed("in_doubt … op_", out) && !is_printed("op_… nothing", out));
}
