//! `hapax attention`: what waits for a person, and saying that somebody has seen it (L8, M2).

use clap::{Args as ClapArgs, Subcommand};
use hapax_api::{Nothing, Remark, operations as op};

use super::claims::Why;
use super::remote::{Remote, Server};
use super::{Failed, say};

/// What can be done with what waits for a person.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List what waits: doubts, late outcomes that disagree, damaged records, executions that are paused, alerts of actions.
    List(List),
    /// Say that somebody has seen an item: it is not counted any more.
    Acknowledge(Acknowledge),
}

/// `hapax attention list`
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `hapax attention acknowledge`
#[derive(Debug, ClapArgs)]
pub(crate) struct Acknowledge {
    /// The id of the item, as `hapax attention list` shows it.
    id: String,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `hapax attention`.
pub(crate) async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::List(list) => list.run().await,
        Command::Acknowledge(acknowledge) => acknowledge.run().await,
    }
}

impl List {
    async fn run(self) -> Result<(), Failed> {
        let found =
            Remote::new(&self.server)?.call::<op::ListAttention>("", &Nothing {}, &Nothing {}).await?;
        if self.json {
            return say::json(&found);
        }
        if found.items.is_empty() {
            say::note("nothing waits for a person");
            return Ok(());
        }
        let row = |item: &hapax_api::AttentionItem| {
            let seen = item.acknowledged.as_ref().map(|seen| seen.by.clone()).unwrap_or_default();
            let since = item.since.as_ref().map(ToString::to_string).unwrap_or_default();
            vec![item.id.clone(), item.kind.to_string(), since, item.text.clone(), seen]
        };
        let rows: Vec<_> = found.items.iter().map(row).collect();
        say::data(say::table(&["ID", "KIND", "SINCE", "WHAT", "SEEN BY"], &rows))
    }
}

impl Acknowledge {
    async fn run(self) -> Result<(), Failed> {
        let (reason, by) = self.why.into_parts();
        let remote = Remote::new(&self.server)?;
        let item =
            remote.call::<op::AcknowledgeAttention>(&self.id, &Nothing {}, &Remark { reason, by }).await?;
        match self.json {
            true => say::json(&item),
            false => {
                say::note("acknowledged; the audit keeps it");
                Ok(())
            }
        }
    }
}
