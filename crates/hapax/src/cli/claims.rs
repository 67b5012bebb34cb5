//! `hapax claims`: look at claims, and decide about those that need somebody to decide (M2, L8, L17).
//!
//! Looking works through a server or beside it, on its store (B8). Deciding always goes through a server. What people read
//! is written in `tell`; `--json` prints what the admin API answers.

mod decide;
mod erase;
mod source;
mod tell;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args as ClapArgs, Subcommand};
use hapax_api::{
    ClaimOrder, Claims, ClaimsQuery, CountsQuery, DoubtReason, LookupQuery, Nothing, OutcomeKind, Remark,
    State, Time, operations as op,
};
use hapax_core::OperationId;
use hapax_core::limits::MAX_PAGE;

use super::remote::{Remote, Server};
use super::{Failed, say};
use crate::limits;
use source::Source;

pub(in crate::cli) use decide::Why;
pub(in crate::cli) use tell::damaged;

/// What can be done with claims.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List claims, oldest first.
    List(List),
    /// Show one claim.
    Show(Show),
    /// Count claims by state.
    Count(Count),
    /// Find the claims of one caller's key, without reading any others.
    Find(Find),
    /// Show what happened to a claim, as far as it is known.
    Timeline(One),
    /// Find claims that may be of the same deed: the same key elsewhere, and the same request under another key.
    Related(One),
    /// Write down what was found out about a claim, which stays as it is.
    Note(Note),
    /// End a doubt: release the claim, or settle it with an answer.
    Resolve(decide::Resolve),
    /// Set a settled claim's answer aside, so that the next request with its key runs.
    Reopen(decide::Plain),
    /// Forget a settled claim: the next request with its key is a new one.
    Purge(decide::Plain),
    /// Destroy a claim's answer, also what was set aside, or those of everything that a subject has asked for; used keys
    /// stay used up, free ones free.
    Erase(erase::Erase),
}

/// Where claims are read.
#[derive(Debug, ClapArgs)]
struct Place {
    #[command(flatten)]
    server: Server,
    /// Read this store instead, beside the server that may have it open: embedded:PATH or postgres://…
    #[arg(long, value_name = "URL", conflicts_with = "admin")]
    store: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Which shelf is meant.
#[derive(Debug, ClapArgs)]
struct Shelf {
    /// Only of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only of this project.
    #[arg(long)]
    project: Option<String>,
    /// Only on this operation, by any name that it had.
    #[arg(long)]
    operation: Option<String>,
}

/// `hapax claims list`
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    #[command(flatten)]
    shelf: Shelf,
    /// Only of this subject, such as service:ci.
    #[arg(long)]
    subject: Option<String>,
    /// Only with this key.
    #[arg(long)]
    key: Option<String>,
    /// Only in this state.
    #[arg(long, value_parser = PossibleValuesParser::new(State::ALL.iter().map(|state| state.as_str())).try_map(|text| text.parse::<State>()))]
    state: Option<State>,
    /// Only first granted before this time, such as 2026-11-15T22:52:49Z.
    #[arg(long, value_name = "TIME")]
    opened_before: Option<String>,
    /// Only first granted at least this long ago, such as 15m or 24h.
    #[arg(long, value_name = "SPAN", conflicts_with = "opened_before")]
    age: Option<String>,
    /// Only first granted at or after this time.
    #[arg(long, value_name = "TIME")]
    opened_after: Option<String>,
    /// Only in doubt for this reason.
    #[arg(long, value_parser = PossibleValuesParser::new(DoubtReason::ALL.iter().map(|word| word.as_str())).try_map(|text| text.parse::<DoubtReason>()))]
    doubt: Option<DoubtReason>,
    /// Only with an outcome of this kind.
    #[arg(long, value_parser = PossibleValuesParser::new(OutcomeKind::ALL.iter().map(|word| word.as_str())).try_map(|text| text.parse::<OutcomeKind>()))]
    outcome: Option<OutcomeKind>,
    /// The newest first.
    #[arg(long)]
    newest: bool,
    /// At most so many claims.
    #[arg(long, default_value_t = limits::PAGE)]
    limit: usize,
    /// Go on where an earlier list ended.
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// `hapax claims show`
#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// The public id of the operation, as callers see it in x-operation-id.
    operation_id: String,
    /// Tell the kept answer, too; needs a token with the role operate.
    #[arg(long, conflicts_with = "store")]
    outcome: bool,
    #[command(flatten)]
    place: Place,
}

/// `hapax claims count`
#[derive(Debug, ClapArgs)]
pub(crate) struct Count {
    #[command(flatten)]
    shelf: Shelf,
    #[command(flatten)]
    place: Place,
}

/// `hapax claims find`
#[derive(Debug, ClapArgs)]
pub(crate) struct Find {
    /// The key.
    key: String,
    /// Of this tenant.
    #[arg(long)]
    tenant: String,
    /// Of this project.
    #[arg(long)]
    project: String,
    /// Of this subject, such as service:ci.
    #[arg(long)]
    subject: String,
    /// On this operation, by any name that it had; without it, on all.
    #[arg(long)]
    operation: Option<String>,
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `hapax claims timeline` and `hapax claims related`
#[derive(Debug, ClapArgs)]
pub(crate) struct One {
    /// The public id of the operation, as callers see it in x-operation-id.
    operation_id: String,
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `hapax claims note`
#[derive(Debug, ClapArgs)]
pub(crate) struct Note {
    /// The public id of the operation, as callers see it in x-operation-id.
    operation_id: String,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `hapax claims`.
pub(crate) async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::List(list) => list.run().await,
        Command::Show(show) => show.run().await,
        Command::Count(count) => count.run().await,
        Command::Find(find) => find.run().await,
        Command::Timeline(one) => one.timeline().await,
        Command::Related(one) => one.related().await,
        Command::Note(note) => note.run().await,
        Command::Resolve(resolve) => resolve.run().await,
        Command::Reopen(plain) => plain.run::<op::ReopenClaim>().await,
        Command::Purge(plain) => plain.run::<op::PurgeClaim>().await,
        Command::Erase(erase) => erase.run().await,
    }
}

/// An operation id. What is none is told here: as a part of a path it would ask for something else.
pub(super) fn checked(id: &str) -> Result<OperationId, Failed> {
    Ok(id.parse()?)
}

impl List {
    async fn run(self) -> Result<(), Failed> {
        if self.limit == 0 {
            return Err(Failed::misuse("--limit 0 lists nothing"));
        }
        let Shelf { tenant, project, operation } = self.shelf;
        let query = ClaimsQuery {
            tenant,
            project,
            operation,
            subject: self.subject,
            key: self.key,
            state: self.state,
            opened_before: self.opened_before.map(Time::from),
            age: self.age,
            opened_after: self.opened_after.map(Time::from),
            doubt: self.doubt,
            outcome: self.outcome,
            order: self.newest.then_some(ClaimOrder::Newest),
            limit: None,
            after: self.after,
        };
        let source = Source::open(&self.place.server, self.place.store.as_deref()).await?;
        let found = gathered(&source, query.clone(), self.limit).await?;
        source.close().await?;
        match self.place.json {
            true => say::json(&found),
            false => {
                tell::list(&found, &query)?;
                tell::damaged(&found.damaged);
                Ok(())
            }
        }
    }
}

/// Pages until there are enough claims, or no more. A page may be empty and still have a next one.
async fn gathered(source: &Source, mut query: ClaimsQuery, limit: usize) -> Result<Claims, Failed> {
    let mut all = Claims::default();
    for _ in 0..limits::REMOTE_PAGES {
        query.limit = Some((limit - all.claims.len()).min(MAX_PAGE));
        let page = source.list(&query).await?;
        all.claims.extend(page.claims);
        all.damaged.extend(page.damaged);
        query.after = page.next;
        if query.after.is_none() || all.claims.len() >= limit {
            break;
        }
    }
    all.next = query.after;
    Ok(all)
}

impl Find {
    async fn run(self) -> Result<(), Failed> {
        let Find { key, tenant, project, subject, operation, server, json } = self;
        let query = LookupQuery { tenant, project, subject, key, operation };
        let found = Remote::new(&server)?.call::<op::LookupClaims>("", &query, &Nothing {}).await?;
        if json {
            return say::json(&found);
        }
        let claims = Claims { claims: found.claims, looked_at: found.looked_at, ..Claims::default() };
        tell::list(&claims, &ClaimsQuery { key: Some(query.key), ..ClaimsQuery::default() })
    }
}

impl One {
    async fn timeline(self) -> Result<(), Failed> {
        let (remote, id) = (Remote::new(&self.server)?, checked(&self.operation_id)?.to_string());
        let told = remote.call::<op::ClaimTimeline>(&id, &Nothing {}, &Nothing {}).await?;
        if self.json {
            return say::json(&told);
        }
        let row = |event: &hapax_api::TimelineEvent| {
            let source = event.source.to_string();
            let more =
                [&event.more, &event.actor].into_iter().flatten().cloned().collect::<Vec<_>>().join(", ");
            vec![event.at.to_string(), source, event.text.clone(), more]
        };
        let rows: Vec<_> = told.events.iter().map(row).collect();
        say::data(say::table(&["AT", "SOURCE", "WHAT", "MORE"], &rows))
    }

    async fn related(self) -> Result<(), Failed> {
        let (remote, id) = (Remote::new(&self.server)?, checked(&self.operation_id)?.to_string());
        let found = remote.call::<op::RelateClaim>(&id, &Nothing {}, &Nothing {}).await?;
        if self.json {
            return say::json(&found);
        }
        for (what, claims) in [
            ("the same key, on other operations:", found.same_key),
            ("the same request, under another key:", found.same_request),
        ] {
            if !claims.is_empty() {
                say::note(what);
                tell::list(&Claims { claims, ..Claims::default() }, &ClaimsQuery::default())?;
            } else {
                say::note(format!("{what} none"));
            }
        }
        Ok(())
    }
}

impl Note {
    async fn run(self) -> Result<(), Failed> {
        let (reason, by) = self.why.into_parts();
        let (remote, id) = (Remote::new(&self.server)?, checked(&self.operation_id)?.to_string());
        let claim = remote.call::<op::NoteClaim>(&id, &Nothing {}, &Remark { reason, by }).await?;
        match self.json {
            true => say::json(&claim),
            false => {
                say::note("noted; the audit keeps it");
                Ok(())
            }
        }
    }
}

impl Show {
    async fn run(self) -> Result<(), Failed> {
        let source = Source::open(&self.place.server, self.place.store.as_deref()).await?;
        let claim = source.show(checked(&self.operation_id)?, self.outcome).await?;
        source.close().await?;
        match self.place.json {
            true => say::json(&claim),
            false => tell::claim(&claim),
        }
    }
}

impl Count {
    async fn run(self) -> Result<(), Failed> {
        let Shelf { tenant, project, operation } = self.shelf;
        let source = Source::open(&self.place.server, self.place.store.as_deref()).await?;
        let counts = source.count(&CountsQuery { tenant, project, operation }).await?;
        source.close().await?;
        match self.place.json {
            true => say::json(&counts),
            false => tell::counts(&counts),
        }
    }
}
