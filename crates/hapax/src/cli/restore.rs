//! `hapax restore`: puts a backup in the place of a store that was lost (L4, M6).
//!
//! What happened after the backup was taken is not known any more, and no store can tell: so the window in which keys may run
//! again is printed, and somebody must say that it is accepted.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use hapax_core::time::parse_utc;
use serde_json::json;

use super::backup::{Watched, refused};
use super::{Failed, say, store};
use crate::backup::{Manifest, Place, check, restore};
use crate::when;

/// What `hapax restore` can be told.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The backup.
    #[arg(long, value_name = "PATH")]
    from: PathBuf,
    /// The configuration of the server that will open the store; the store goes where it says, and nothing may be there.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Accept that keys which were first used after the backup was taken may run again. Without it the backup is only checked.
    #[arg(long)]
    accept_gap: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Checks a backup, and restores it where the gap is accepted.
pub(crate) fn run(args: &Args) -> Result<(), Failed> {
    store::keep_private();
    let Some(place) = Place::of(&args.config)? else {
        return Err(Failed::misuse(
            "the store is a PostgreSQL database: restore it with the tools of PostgreSQL (docs/operating/backup.md), and then run \
             `hapax doctor`",
        ));
    };
    let mut watched = Watched::start("read");
    let mut progress = |done, all| watched.tell(done, all);
    if !args.accept_gap {
        let manifest = check(&args.from, &place, &mut progress).map_err(refused)?;
        tell(args, &manifest, None)?;
        return Err(Failed::no("nothing was restored: say --accept-gap if that may be"));
    }
    let (manifest, restored) = restore(&args.from, &place, &mut progress).map_err(refused)?;
    tell(args, &manifest, Some(restored.incarnation))?;
    if !args.json {
        let (store, records) = (place.store.display(), restored.records);
        say::note(format!(
            "{store} is restored: {records} records, all as they were written; `hapax serve` opens it"
        ));
    }
    Ok(())
}

/// Says in which window keys may run again.
fn tell(args: &Args, manifest: &Manifest, incarnation: Option<u16>) -> Result<(), Failed> {
    let (from, until) = (manifest.taken_at(), when::now());
    let until_text = when::utc(until).unwrap_or_default();
    let gap = parse_utc(from).map(|from| until.since(from)).unwrap_or_default();
    if args.json {
        return say::json(&json!({
            "id": manifest.id, "gap": { "from": from, "until": until_text, "seconds": gap.as_secs() },
            "restored": incarnation.is_some(), "incarnation": incarnation, "former_incarnation": manifest.incarnation,
            "bytes": manifest.bytes(), "spooled": manifest.spooled(), "sealed": manifest.sealed,
        }));
    }
    say::data(format!(
        "keys may run again that were first used between {from} and {until_text} ({})",
        when::span(gap)
    ))?;
    say::data("what ran when the backup was taken is in doubt, unless its route says `rerun = \"safe\"`")?;
    match incarnation {
        Some(incarnation) => {
            say::data(format!("incarnation {incarnation}; {} is what was copied", manifest.incarnation))
        }
        None => Ok(()),
    }
}
