//! `hapax verify`: checks the hash chains of a store's journals, beside the servers that have it open (J3, J7, B8).
//!
//! One stream after the other, a page of events at a time: memory does not grow with the store. Nothing is changed.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use hapax_agent::actions::receipts;
use hapax_agent::durable::{Broken, ExecutionId, Report, verify};
use hapax_core::journal::{Stream, StreamFilter};
use hapax_core::{Error, Journal, Kind, Tenant};
use hapax_store::Lifecycle as _;

use super::{Failed, say, store};
use crate::config::{self, Secrets};
use crate::limits;

/// What `hapax verify` can be told.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The configuration of the servers; its store is read, and its secrets are not needed.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only executions with this id.
    #[arg(long, value_name = "ID")]
    execution: Option<String>,
    /// Only the receipts of this tenant.
    #[arg(long, value_name = "TENANT", conflicts_with = "execution")]
    receipts: Option<String>,
    /// Print JSON, one line for each journal.
    #[arg(long)]
    json: bool,
}

/// Checks, and says what it found. Broken is the answer no.
pub(crate) async fn run(args: Args) -> Result<(), Failed> {
    let environment = |name: &str| std::env::var(name).ok();
    let config = config::load_with(&args.config, &environment, Secrets::MayBeAbsent)
        .map_err(|mistakes| Failed::no(mistakes.to_string()))?;
    let wanted = match (&args.execution, &args.receipts) {
        (Some(id), _) => {
            Wanted::Execution(ExecutionId::new(id).map_err(|error| Failed::misuse(error.to_string()))?)
        }
        (None, Some(tenant)) => Wanted::Stream(receipts::stream(&Tenant::new(tenant)?)?),
        (None, None) => Wanted::All,
    };
    let told = Told { json: args.json, progress: std::io::stderr().is_terminal() };
    let url = &config.store.url;
    match url.split_once(':') {
        Some(("embedded", path)) => check(&store::read_embedded(path)?, &wanted, &told).await,
        Some(("postgres" | "postgresql", _)) => {
            let store = store::read_postgres(url).await?;
            let checked = check(&store, &wanted, &told).await;
            store.close().await?;
            checked
        }
        _ => Err(Failed::misuse(
            "a memory store lives in its server's memory: there is nothing to read beside it",
        )),
    }
}

struct Told {
    json: bool,
    /// Whether a person watches.
    progress: bool,
}

impl Told {
    fn of(&self, report: &Report) -> Result<(), Failed> {
        if self.json {
            let line = serde_json::to_string(report);
            return say::data(line.map_err(|error| Failed::unavailable(error.to_string()))?);
        }
        let Report { stream, events, erased, .. } = report;
        match &report.broken {
            Some(broken) => {
                say::data(format!("broken  {stream}  at position {}: {}", broken.position, broken.what))
            }
            None if *erased > 0 => say::data(format!("sound  {stream}  {events} events, {erased} erased")),
            None => say::data(format!("sound  {stream}  {events} events")),
        }
    }
}

/// Which journals are checked.
enum Wanted {
    All,
    Execution(ExecutionId),
    Stream(Stream),
}

impl Wanted {
    /// What the names of all of them begin with.
    fn prefix(&self) -> String {
        match self {
            Wanted::All => String::new(),
            Wanted::Execution(_) => "execution/".to_owned(),
            Wanted::Stream(stream) => stream.as_str().to_owned(),
        }
    }

    fn is_meant(&self, stream: &Stream) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Execution(id) => stream.as_str().rsplit('/').next() == Some(id.as_str()),
            Wanted::Stream(wanted) => wanted == stream,
        }
    }
}

async fn check(store: &impl Journal, wanted: &Wanted, told: &Told) -> Result<(), Failed> {
    let prefix = wanted.prefix();
    let filter = StreamFilter { prefix, status: None };
    let (mut after, mut checked, mut broken) = (None, 0_u64, 0_u64);
    loop {
        let page = store.list_streams(&filter, after.as_deref(), limits::PAGE).await.map_err(unlisted)?;
        for damaged in &page.damaged {
            let place = Broken { position: 0, what: damaged.error.clone() };
            let report = Report { stream: damaged.id.clone(), broken: Some(place), ..Report::default() };
            (checked, broken) = (checked + 1, broken + 1);
            told.of(&report)?;
        }
        for listed in page.items.iter().filter(|listed| wanted.is_meant(&listed.stream)) {
            let report = verify(store, &listed.stream).await;
            let report = report
                .map_err(|error| Failed::unavailable(format!("{}: {error}", listed.stream.as_str())))?;
            checked += 1;
            broken += u64::from(!report.is_sound());
            told.of(&report)?;
        }
        if told.progress {
            say::note(format!("{checked} journals checked"));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    match (wanted, checked, broken) {
        (_, _, 1..) => Err(Failed::no(format!("{broken} of {checked} journals are broken"))),
        (Wanted::Execution(id), 0, 0) => Err(Failed::no(format!("there is no execution {id} in this store"))),
        (Wanted::Stream(stream), 0, 0) => {
            Err(Failed::no(format!("there is no journal {} in this store", stream.as_str())))
        }
        _ => Ok(()),
    }
}

/// A listing that cannot be read is broken, too: which journals there are is not known.
fn unlisted(error: Error) -> Failed {
    match error.kind() {
        Kind::Corrupt => Failed::no(format!("the journals cannot be listed: {error:#}")),
        _ => error.into(),
    }
}
