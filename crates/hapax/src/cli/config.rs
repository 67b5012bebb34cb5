//! `hapax config`: whether a configuration is right, and what it means.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Failed, say};
use crate::config::{self, Config, Mistakes, Secrets, Within};

/// Check a configuration, or show what it means.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say whether a configuration is right, and every mistake if it is not.
    Check(CheckArgs),
    /// Print the configuration as it takes effect, with all defaults and without secrets.
    Show(FileArgs),
}

#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Let variables and files with secrets be absent, as they are in CI. Those that are there are checked.
    #[arg(long)]
    no_secrets: bool,
}

#[derive(Debug, Args)]
struct FileArgs {
    /// The configuration.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `hapax config`.
pub fn run(args: &ConfigArgs) -> Result<(), Failed> {
    match &args.command {
        Command::Check(args) => check(args),
        Command::Show(args) => show(args),
    }
}

/// Loads a configuration with the process's environment, for every command that takes one.
pub fn load(file: &std::path::Path) -> Result<Config, Failed> {
    config::load(file, &environment).map_err(|mistakes| Failed::no(told(&mistakes)))
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn told(mistakes: &Mistakes) -> String {
    let (count, s) = (mistakes.len(), if mistakes.len() == 1 { "" } else { "s" });
    format!("the configuration has {count} mistake{s}\n{mistakes}")
}

fn check(args: &CheckArgs) -> Result<(), Failed> {
    let secrets = if args.no_secrets { Secrets::MayBeAbsent } else { Secrets::Needed };
    let args = &args.file;
    let loaded = config::load_with(&args.file, &environment, secrets);
    if args.json {
        say::data(report(&loaded).to_string())?;
        return loaded.map(drop).map_err(|_| Failed::no(""));
    }
    match loaded {
        Ok(config) => {
            config.notices.iter().for_each(say::note);
            say::data(format!("{}: ok, {}", args.file.display(), summary(&config)))
        }
        Err(mistakes) => {
            say::data(mistakes.to_string())?;
            Err(Failed::no(""))
        }
    }
}

fn summary(config: &Config) -> String {
    let count = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let keyed = config.settings.routes.iter().filter(|route| route.rule.is_some()).count();
    format!(
        "{} ({keyed} keyed), {}, store {}",
        count(config.settings.routes.len(), "route"),
        count(config.settings.upstreams.len(), "upstream"),
        config.store.shown_url(),
    )
}

fn report(loaded: &Result<Config, Mistakes>) -> serde_json::Value {
    match loaded {
        Ok(config) => json!({
            "ok": true,
            "routes": config.settings.routes.len(),
            "upstreams": config.settings.upstreams.len(),
            "notices": config.notices,
            "mistakes": [],
        }),
        Err(mistakes) => {
            let one = |mistake: &config::Mistake| {
                let mut one = json!({
                    "file": mistake.place.file.display().to_string(),
                    "what": mistake.what,
                    "remedy": mistake.remedy,
                });
                match &mistake.place.within {
                    Within::Line(line, column) => {
                        one["line"] = (*line).into();
                        one["column"] = (*column).into();
                    }
                    Within::Pointer(pointer) => one["pointer"] = pointer.as_str().into(),
                    Within::File => {}
                }
                one
            };
            json!({"ok": false, "mistakes": mistakes.iter().map(one).collect::<Vec<_>>()})
        }
    }
}

fn show(args: &FileArgs) -> Result<(), Failed> {
    let config = load(&args.file)?;
    match args.json {
        true => say::json(&config.to_json()),
        false => say::data(config.to_toml().trim_end()),
    }
}
