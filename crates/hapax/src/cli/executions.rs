//! `hapax executions`: look at durable executions, order about them, and decide about steps that wait, through a server (J6, M2).
//!
//! What is listed is printed as it comes, so that memory does not grow with it; with `--json` each record is one line.

mod decide;
mod order;
mod tell;
mod transfer;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args as ClapArgs, Subcommand};
use hapax_agent::durable::ExecutionId;
use hapax_api::{
    AllWaitingQuery, Execution, ExecutionEventsQuery, ExecutionQuery, ExecutionScope, ExecutionStatus,
    ExecutionsQuery, Nothing, operations as op,
};

use super::remote::{Remote, Server};
use super::{Failed, say};

/// What can be done about executions.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List executions, in the order of tenant, project and id.
    List(List),
    /// Show one execution, and its events.
    Show(Show),
    /// List steps that wait for a person: of one execution, or of all, whatever their status.
    Waiting(Waiting),
    /// Decide about a step that waits: it happened, it may run again, or it failed. Counts once; the execution waits until it is resumed.
    Decide(decide::Decide),
    /// Fence the runner off, and wait until the execution is resumed. What was begun may still come to its end.
    Pause(order::Order),
    /// Give the execution to whichever process looks for those whose runner has gone; a server runs none itself.
    Resume(order::Resume),
    /// End the execution: it has failed. Nothing is undone.
    Cancel(order::Order),
    /// Let go of the claims of an execution that has ended. Its journal stays, and its id stays used up.
    Archive(order::Order),
    /// Write an execution as lines of JSON, to be imported elsewhere. Needs a token with the role operate.
    Export(transfer::Export),
    /// Import an execution from such lines. It is paused, and steps that were open wait for a person.
    Import(transfer::Import),
}

/// Whom to ask, and how to tell.
#[derive(Debug, ClapArgs)]
struct Place {
    #[command(flatten)]
    server: Server,
    /// Print JSON, one line for each record.
    #[arg(long)]
    json: bool,
}

/// Which execution is meant.
#[derive(Debug, ClapArgs)]
struct Whose {
    /// The execution's id.
    #[arg(value_name = "ID")]
    id: String,
    /// Whose it is.
    #[arg(long, value_name = "TENANT")]
    tenant: String,
    /// In which project.
    #[arg(long, value_name = "PROJECT")]
    project: String,
}

impl Whose {
    /// The id. What is none is told here: as a part of a path it would ask for something else.
    fn id(&self) -> Result<&str, Failed> {
        checked(&self.id)
    }

    fn scope(&self) -> ExecutionScope {
        ExecutionScope { tenant: Some(self.tenant.clone()), project: Some(self.project.clone()) }
    }

    async fn shown(&self, remote: &Remote, checkpoint: bool) -> Result<Execution, Failed> {
        let ExecutionScope { tenant, project } = self.scope();
        let query = ExecutionQuery { tenant, project, checkpoint };
        remote.call::<op::ShowExecution>(self.id()?, &query, &Nothing {}).await
    }
}

fn checked(id: &str) -> Result<&str, Failed> {
    ExecutionId::new(id).map(|_| id).map_err(|error| Failed::misuse(error.to_string()))
}

/// `hapax executions list`
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// Only of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only of this project.
    #[arg(long)]
    project: Option<String>,
    /// Only with this status.
    #[arg(long, value_parser = PossibleValuesParser::new(ExecutionStatus::ALL.iter().map(|status| status.as_str())).try_map(|text| text.to_uppercase().parse::<ExecutionStatus>()), ignore_case = true)]
    status: Option<ExecutionStatus>,
    /// Only of this agent.
    #[arg(long)]
    agent: Option<String>,
    /// Only those that were not written to for at least this long, such as 15m or 24h.
    #[arg(long, value_name = "SPAN")]
    idle_for: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// `hapax executions show`
#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    #[command(flatten)]
    whose: Whose,
    /// Print the events instead, from the first or from --from on.
    #[arg(long)]
    events: bool,
    /// The place of the first event, from 0.
    #[arg(long, value_name = "SEQ", default_value_t = 0, requires = "events")]
    from: u64,
    /// Tell what the events say, too; needs a token with the role operate.
    #[arg(long, requires = "events")]
    payloads: bool,
    /// Tell the latest checkpoint, too; needs a token with the role operate.
    #[arg(long, conflicts_with = "events")]
    checkpoint: bool,
    #[command(flatten)]
    place: Place,
}

/// `hapax executions waiting`
#[derive(Debug, ClapArgs)]
pub(crate) struct Waiting {
    /// The execution's id; without it, all of them.
    #[arg(value_name = "ID", requires = "tenant", requires = "project")]
    id: Option<String>,
    /// Whose it is, or only of this tenant.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// In which project, or only of this one.
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Runs `hapax executions`.
pub(crate) async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::List(list) => list.run().await,
        Command::Show(show) => show.run().await,
        Command::Waiting(waiting) => waiting.run().await,
        Command::Decide(decide) => decide.run().await,
        Command::Pause(order) => order.run::<op::PauseExecution>().await,
        Command::Resume(resume) => resume.run().await,
        Command::Cancel(order) => order.run::<op::CancelExecution>().await,
        Command::Archive(order) => order.archive().await,
        Command::Export(export) => export.run().await,
        Command::Import(import) => import.run().await,
    }
}

impl List {
    async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let mut query = ExecutionsQuery {
            tenant: self.tenant,
            project: self.project,
            status: self.status,
            agent: self.agent,
            idle_for: self.idle_for,
            ..ExecutionsQuery::default()
        };
        let (mut heads, mut found) = (!self.place.json, false);
        loop {
            let page = remote.call::<op::ListExecutions>("", &query, &Nothing {}).await?;
            found |= !page.executions.is_empty();
            tell::executions(&page.executions, self.place.json, &mut heads)?;
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        if !found {
            say::note("no executions");
        }
        Ok(())
    }
}

impl Show {
    async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        if !self.events {
            let execution = self.whose.shown(&remote, self.checkpoint).await?;
            return match self.place.json {
                true => tell::line(&execution),
                false => tell::execution(&execution),
            };
        }
        let ExecutionScope { tenant, project } = self.whose.scope();
        let (from, payloads) = (Some(self.from), self.payloads);
        let mut query = ExecutionEventsQuery { tenant, project, from, limit: None, payloads };
        loop {
            let page = remote.call::<op::ListExecutionEvents>(self.whose.id()?, &query, &Nothing {}).await?;
            for event in &page.events {
                match self.place.json {
                    true => tell::line(event)?,
                    false => tell::event(event)?,
                }
            }
            query.from = page.next;
            if query.from.is_none() {
                return Ok(());
            }
        }
    }
}

impl Waiting {
    async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let mut found = false;
        if let (Some(id), Some(tenant), Some(project)) = (&self.id, &self.tenant, &self.project) {
            found = self.of(&remote, id, tenant, project).await?;
        } else {
            let (tenant, project) = (self.tenant.clone(), self.project.clone());
            let mut query = AllWaitingQuery { tenant, project, ..AllWaitingQuery::default() };
            loop {
                let page = remote.call::<op::ListAllWaiting>("", &query, &Nothing {}).await?;
                for one in &page.waiting {
                    let whose = (&one.execution_id[..], &one.tenant[..], &one.project[..]);
                    tell::waiting(whose, &one.step, self.place.json)?;
                    found = true;
                }
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
        }
        if !found {
            say::note("nothing waits for a person");
        }
        Ok(())
    }

    /// What waits of one execution; whether anything does.
    async fn of(&self, remote: &Remote, id: &str, tenant: &str, project: &str) -> Result<bool, Failed> {
        let scope = ExecutionScope { tenant: Some(tenant.to_owned()), project: Some(project.to_owned()) };
        let told = remote.call::<op::ListWaiting>(checked(id)?, &scope, &Nothing {}).await?;
        for step in &told.waiting {
            tell::waiting((id, tenant, project), step, self.place.json)?;
        }
        Ok(!told.waiting.is_empty())
    }
}
