//! `hapax backup`: copies an embedded store beside the server that has it open (B8, B9).

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args as ClapArgs;
use hapax_core::Kind;
use serde_json::json;

use super::{Failed, say, store};
use crate::backup::{Place, take};
use crate::{clock, limits};

/// What `hapax backup` can be told.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The configuration of the server. Of its secrets only the keys of [seal] are needed.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Where the backup goes: a folder that is not there yet.
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Takes a backup, and says what is in it.
pub(crate) fn run(args: &Args) -> Result<(), Failed> {
    store::keep_private();
    let Some(place) = Place::of(&args.config)? else {
        return Err(Failed::misuse(
            "the store is a PostgreSQL database, and PostgreSQL has tools of its own: `pg_dump` for a copy, a base backup with its \
             log for any moment since; docs/operating/backup.md has the steps, and `hapax doctor` checks what was restored",
        ));
    };
    let mut watched = Watched::start("copied");
    let manifest = take(&place, &args.to, &mut |done, all| watched.tell(done, all)).map_err(refused)?;
    let (bytes, spooled) = (manifest.bytes(), manifest.spooled());
    if args.json {
        return say::json(&json!({
            "id": manifest.id, "to": args.to, "taken_at": manifest.taken_at(), "incarnation": manifest.incarnation,
            "bytes": bytes, "spooled": spooled, "sealed": manifest.sealed,
        }));
    }
    let sealed = if manifest.sealed { "sealed" } else { "not sealed" };
    let (mib, to) = (bytes.div_ceil(1 << 20), args.to.display());
    say::data(format!(
        "{to}: {mib} MiB, {sealed}, taken at {}, {spooled} outcomes of the spool",
        manifest.taken_at()
    ))
}

/// The answer is no, or something needed is not available.
pub(super) fn refused(error: hapax_core::Error) -> Failed {
    match error.kind() {
        Kind::Conflict | Kind::Corrupt => Failed::no(format!("{error:#}")),
        _ => error.into(),
    }
}

/// Tells a person at a terminal how far it is.
pub(super) struct Watched {
    what: &'static str,
    told: Option<Instant>,
}

impl Watched {
    pub(super) fn start(what: &'static str) -> Self {
        Watched { what, told: std::io::stderr().is_terminal().then(clock::now) }
    }

    pub(super) fn tell(&mut self, done: u64, all: u64) {
        let is_time = |told: &Instant| told.elapsed() >= limits::BACKUP_TOLD_EVERY;
        if self.told.as_ref().is_some_and(is_time) {
            self.told = Some(clock::now());
            let percent = done.saturating_mul(100) / all.max(1);
            say::note(format!("{} {percent} % of {} MiB", self.what, all >> 20));
        }
    }
}
