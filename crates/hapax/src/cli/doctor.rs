//! `hapax doctor`: checks a store and this machine before they are relied on (M6).
//!
//! One line for each check, and what to do about it. It changes nothing: a store that is not there is not made, and a
//! schema that is old is not migrated.

mod embedded;
mod machine;
mod postgres;
mod restate;
mod seal;

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args as ClapArgs};
use hapax_core::Counts;
use serde_json::json;

use super::{Failed, say};
use crate::config::{self, Config};

/// `hapax doctor`
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("what").required(true).args(["config", "store"]))]
pub(crate) struct Args {
    /// Check what this configuration names.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check this store: embedded:PATH or postgres://user@host:port/database
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// It works; somebody should look.
    Warn,
    /// It must not be relied on.
    Fail,
}

/// One check.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    level: Level,
    what: &'static str,
    found: String,
    remedy: Option<String>,
}

impl Check {
    /// As it should be.
    pub(crate) fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Check { level: Level::Ok, what, found: found.into(), remedy: None }
    }

    /// It works; somebody should look.
    pub(crate) fn warn(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Check { level: Level::Warn, what, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// It must not be relied on.
    pub(crate) fn fail(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Check { level: Level::Fail, what, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn word(&self) -> &'static str {
        match self.level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        }
    }

    fn line(&self) -> String {
        let remedy = self.remedy.as_ref().map(|remedy| format!(" – {remedy}")).unwrap_or_default();
        format!("{:<4}  {:<20}  {}{remedy}", self.word(), self.what, self.found)
    }
}

/// Runs `hapax doctor`.
pub(crate) async fn run(args: Args) -> Result<(), Failed> {
    let (mut checks, config) = match &args.config {
        Some(file) => configured(file),
        None => (Vec::new(), None),
    };
    let url = config.as_ref().map(|config| config.store.url.clone()).or(args.store);
    if let Some(config) = &config {
        checks.push(seal::check(config).await);
    }
    if let Some(url) = url {
        let largest = config.as_ref().and_then(|config| config.settings.largest_kept());
        let largest_outcome = largest.unwrap_or(hapax_store::limits::LARGEST_OUTCOME);
        checks.extend(store(&url, largest_outcome).await?);
    }
    if let Some(config) = &config {
        checks.extend(restate::check(config).await);
    }
    checks.push(machine::files());
    tell(&checks, args.json)?;
    let failed = checks.iter().filter(|check| check.level == Level::Fail).count();
    match failed {
        0 => Ok(()),
        1 => Err(Failed::no("one check failed")),
        _ => Err(Failed::no(format!("{failed} checks failed"))),
    }
}

/// What is to be said about a configuration, and what it means; nothing where it has mistakes.
fn configured(file: &Path) -> (Vec<Check>, Option<Config>) {
    let config = match config::load(file, &|name| std::env::var(name).ok()) {
        Ok(config) => config,
        Err(mistakes) => {
            let one = |mistake: &config::Mistake| {
                Check::fail("configuration", format!("{}: {}", mistake.place, mistake.what), &mistake.remedy)
            };
            return (mistakes.iter().map(one).collect(), None);
        }
    };
    let mut checks = vec![Check::ok("configuration", format!("{} routes", config.settings.routes.len()))];
    let look = "read it again; `hapax config show` prints what the file means";
    checks.extend(config.notices.iter().map(|notice| Check::warn("configuration", notice, look)));
    (checks, Some(config))
}

async fn store(url: &str, largest_outcome: usize) -> Result<Vec<Check>, Failed> {
    match url.split_once(':') {
        Some(("memory", "")) => {
            let remedy = "for development only; use embedded:PATH or postgres://…";
            Ok(vec![Check::warn(
                "store",
                "the memory store forgets everything when its process ends",
                remedy,
            )])
        }
        Some(("embedded", path)) if !path.is_empty() => {
            Ok(embedded::check(Path::new(path), largest_outcome).await)
        }
        Some(("postgres" | "postgresql", _)) => postgres::check(url).await,
        _ => Err(Failed::misuse("a store is memory:, embedded:PATH or postgres://user@host:port/database")),
    }
}

fn tell(checks: &[Check], as_json: bool) -> Result<(), Failed> {
    if as_json {
        let told: Vec<_> = checks
            .iter()
            .map(|check| {
                json!({"level": check.word(), "what": check.what, "found": check.found, "remedy": check.remedy})
            })
            .collect();
        let ok = checks.iter().all(|check| check.level != Level::Fail);
        return say::json(&json!({"ok": ok, "checks": told}));
    }
    checks.iter().try_for_each(|check| say::data(check.line()))
}

/// Whether somebody has to decide about something.
fn doubts(counts: &Counts) -> Check {
    let all = counts.held + counts.settled + counts.in_doubt + counts.released;
    match counts.in_doubt {
        0 => Check::ok("claims", format!("{all} claims, nothing in doubt")),
        doubts => Check::warn(
            "claims",
            format!("{all} claims, {doubts} of them in doubt"),
            "`hapax claims list --state in_doubt` lists them; somebody has to decide",
        ),
    }
}
