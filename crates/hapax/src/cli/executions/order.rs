//! `hapax executions pause|resume|cancel|archive`: an order about the version that was seen (L8).

use clap::Args as ClapArgs;
use hapax_api::{Execution, Nothing, Operation, OrderExecution, ResumeExecution, operations as op};

use super::{Place, Whose, tell};
use crate::cli::claims::Why;
use crate::cli::remote::Remote;
use crate::cli::{Failed, say};

/// What every order says.
#[derive(Debug, ClapArgs)]
pub(crate) struct Order {
    #[command(flatten)]
    whose: Whose,
    /// The version you saw; without it, the one that the execution has now.
    #[arg(long, value_name = "NUMBER")]
    version: Option<u64>,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    place: Place,
}

/// `hapax executions resume`
#[derive(Debug, ClapArgs)]
pub(crate) struct Resume {
    #[command(flatten)]
    order: Order,
    /// Even while the lease of its runner lasts: that runner is fenced off.
    #[arg(long)]
    force: bool,
}

impl Order {
    /// Whom it is sent to, what it says, how it is told.
    async fn prepared(self) -> Result<(Remote, String, OrderExecution, Place), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let id = self.whose.id()?.to_owned();
        let version = match self.version {
            Some(version) => version,
            None => self.whose.shown(&remote, false).await?.version,
        };
        let (reason, by) = self.why.into_parts();
        let Whose { tenant, project, .. } = self.whose;
        Ok((remote, id, OrderExecution { tenant, project, version, reason, by }, self.place))
    }

    pub(super) async fn run<O>(self) -> Result<(), Failed>
    where
        O: Operation<Query = Nothing, Body = OrderExecution, Answer = Execution>,
    {
        let (remote, id, body, place) = self.prepared().await?;
        place.tell(&remote.call::<O>(&id, &Nothing {}, &body).await?)
    }

    pub(super) async fn archive(self) -> Result<(), Failed> {
        let (remote, id, body, place) = self.prepared().await?;
        let told = remote.call::<op::ArchiveExecution>(&id, &Nothing {}, &body).await?;
        let done = match place.json {
            true => tell::line(&told),
            false => {
                say::data(format!("{} archived, {} claims purged", told.execution.execution_id, told.purged))
            }
        };
        done.map_err(|failed| failed.and("the order was carried out"))
    }
}

impl Resume {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let force = self.force;
        let (remote, id, body, place) = self.order.prepared().await?;
        let OrderExecution { tenant, project, version, reason, by } = body;
        let body = ResumeExecution { tenant, project, version, force, reason, by };
        place.tell(&remote.call::<op::ResumeExecution>(&id, &Nothing {}, &body).await?)
    }
}

impl Place {
    pub(super) fn tell(&self, execution: &Execution) -> Result<(), Failed> {
        let done = match self.json {
            true => tell::line(execution),
            false => say::data(format!("{} {}", execution.execution_id, execution.status)),
        };
        done.map_err(|failed| failed.and("the order was carried out"))
    }
}
