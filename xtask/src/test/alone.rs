//! Every crate as somebody depends on it: without the others, and with each of its features alone.
//!
//! The other steps build all crates with all features at once, and then what one of them forgot to name is there because another
//! did.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{process, workspace};

/// Checks each crate with no feature, with its default ones, and with each one alone.
pub(super) fn check() -> Result<()> {
    let mut broken = Vec::new();
    for command in commands()? {
        let status = process::run(&mut workspace_cargo(&command))?;
        if !status.success() {
            broken.push(command.join(" "));
        }
    }
    ensure!(broken.is_empty(), "does not build alone: cargo {}", broken.join("; cargo "));
    Ok(())
}

fn workspace_cargo(command: &[String]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(command);
    cargo
}

/// The arguments of each check.
fn commands() -> Result<Vec<Vec<String>>> {
    let mut commands = Vec::new();
    let mut folders = fs::read_dir(workspace::root().join("crates"))?.collect::<Result<Vec<_>, _>>()?;
    folders.sort_by_key(fs::DirEntry::file_name);
    for folder in folders {
        let manifest = folder.path().join("Cargo.toml");
        let text =
            fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        let manifest: toml::Table = toml::from_str(&text)?;
        let name = manifest["package"]["name"].as_str().context("a package without a name")?;
        let features = manifest.get("features").and_then(toml::Value::as_table);
        let features = features.into_iter().flat_map(toml::Table::keys);
        let check = |more: &[&str]| -> Vec<String> {
            ["check", "--quiet", "--package", name]
                .iter()
                .chain(more)
                .map(|word| (*word).to_owned())
                .collect()
        };
        commands.push(check(&[]));
        commands.push(check(&["--no-default-features"]));
        commands.extend(
            features
                .filter(|feature| *feature != "default")
                .map(|feature| check(&["--no-default-features", "--features", feature])),
        );
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_checked_alone() {
        let commands: Vec<String> = commands().unwrap().iter().map(|command| command.join(" ")).collect();
        let store = |with: &str| format!("check --quiet --package hapax-sqlite --no-default-features{with}");
        for command in ["check --quiet --package hapax-core", &store(""), &store(" --features failpoints")] {
            assert!(commands.iter().any(|known| known == command), "{command}: {commands:#?}");
        }
        assert!(commands.iter().all(|command| !command.ends_with("--features default")));
    }
}
