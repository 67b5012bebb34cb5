//! `hapax delegated`: calls whose claims a Restate cluster keeps, looked at, purged and killed (D2).

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args as ClapArgs, Subcommand};
use hapax_api::{
    CallStatus, DecideDelegated, DelegatedCall, DelegatedQuery, DelegatedScope, Nothing, operations as op,
};

use super::claims::Why;
use super::remote::{Remote, Server};
use super::{Failed, say};

/// What can be done about delegated calls.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List calls of one tenant.
    List(List),
    /// Show one call.
    Show(Show),
    /// Forget a call that has come to its end: the next request with its key runs.
    Purge(Decide),
    /// End a call that is under way where it is, and forget it: the next request with its key runs. Nothing that it did is undone, and no compensation runs.
    Kill(Decide),
}

/// Whose calls are meant; a call of anyone else is not found.
#[derive(Debug, ClapArgs)]
struct Whose {
    /// Whose it is.
    #[arg(long, value_name = "TENANT")]
    tenant: String,
    /// In which project.
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Of which subject, such as user:alice.
    #[arg(long, value_name = "SUBJECT", requires = "project")]
    subject: Option<String>,
    /// In which cluster, by the name of its upstream; needed where there are several.
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
}

/// Whom to ask, and how to tell.
#[derive(Debug, ClapArgs)]
struct Place {
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `hapax delegated list`
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    #[command(flatten)]
    whose: Whose,
    /// Only those in this state: pending, ready, running, backing-off, suspended, paused or completed.
    #[arg(long, value_name = "STATUS", value_parser = PossibleValuesParser::new(CallStatus::ALL.iter().map(|status| status.as_str())).try_map(|word| word.parse::<CallStatus>()))]
    status: Option<CallStatus>,
    /// At most so many.
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
    /// Where to start: `next` of the page before.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// `hapax delegated show`
#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// The call: the cluster's id (inv_…), or the one that its callers know (op_…), which needs tenant, project and subject.
    id: String,
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    place: Place,
}

/// `hapax delegated purge` and `hapax delegated kill`
#[derive(Debug, ClapArgs)]
pub(crate) struct Decide {
    /// The call: the cluster's id (inv_…), or the one that its callers know (op_…), which needs tenant, project and subject.
    id: String,
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    place: Place,
}

/// Runs `hapax delegated`.
pub(crate) async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::List(list) => list.run().await,
        Command::Show(show) => show.run().await,
        Command::Purge(decide) => decide.run(true).await,
        Command::Kill(decide) => decide.run(false).await,
    }
}

impl List {
    async fn run(self) -> Result<(), Failed> {
        let Whose { tenant, project, subject, upstream } = self.whose;
        let query = DelegatedQuery {
            tenant: Some(tenant),
            project,
            subject,
            status: self.status,
            upstream,
            limit: self.limit,
            after: self.after,
        };
        let told =
            Remote::new(&self.place.server)?.call::<op::ListDelegated>("", &query, &Nothing {}).await?;
        if self.place.json {
            return say::json(&told);
        }
        if told.calls.is_empty() && told.next.is_none() {
            say::note("there is no such call");
            return Ok(());
        }
        let rows: Vec<_> = told.calls.iter().map(row).collect();
        say::data(say::table(&["CALL", "PROJECT", "SUBJECT", "KEY", "HANDLER", "STATUS", "SINCE"], &rows))?;
        if let Some(next) = told.next {
            say::note(format!("there are more: --after {next}"));
        }
        Ok(())
    }
}

fn row(call: &DelegatedCall) -> Vec<String> {
    vec![
        call.invocation_id.clone(),
        call.project.clone(),
        call.subject.clone(),
        call.key.clone(),
        format!("{}/{}", call.service, call.handler),
        call.status.clone(),
        call.created_at.clone().unwrap_or_default(),
    ]
}

impl Show {
    async fn run(self) -> Result<(), Failed> {
        let Whose { tenant, project, subject, upstream } = self.whose;
        let query = DelegatedScope { tenant: Some(tenant), project, subject, upstream };
        let remote = Remote::new(&self.place.server)?;
        let call = remote.call::<op::ShowDelegated>(&self.id, &query, &Nothing {}).await?;
        match self.place.json {
            true => say::json(&call),
            false => tell(&call),
        }
    }
}

fn tell(call: &DelegatedCall) -> Result<(), Failed> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let lines = [
        ("call", call.invocation_id.clone()),
        ("whose", format!("{}:{}:{}", call.tenant, call.project, call.subject)),
        ("key", call.key.clone()),
        ("handler", format!("{}/{}", call.service, call.handler)),
        ("object", text(&call.object)),
        ("cluster", call.upstream.clone()),
        ("status", call.status.clone()),
        ("accepted at", text(&call.created_at)),
        ("ended at", text(&call.completed_at)),
        ("result", text(&call.result)),
        ("failure", text(&call.failure)),
    ];
    lines
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .try_for_each(|(name, text)| say::data(format!("{name:<12} {}", say::clean(text))))
}

impl Decide {
    async fn run(self, purges: bool) -> Result<(), Failed> {
        let (reason, by) = self.why.into_parts();
        let Whose { tenant, project, subject, upstream } = self.whose;
        let body = DecideDelegated { tenant, project, subject, upstream, reason, by };
        let remote = Remote::new(&self.place.server)?;
        let told = match purges {
            true => remote.call::<op::PurgeDelegated>(&self.id, &Nothing {}, &body).await?,
            false => remote.call::<op::KillDelegated>(&self.id, &Nothing {}, &body).await?,
        };
        if self.place.json {
            return say::json(&told);
        }
        let done = if purges { "purged" } else { "killed and purged" };
        say::data(format!("{} {done}: the next request with its key runs", told.call.invocation_id))
    }
}
