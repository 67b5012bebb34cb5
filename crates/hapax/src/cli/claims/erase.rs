//! `hapax claims erase`: one answer, or everything that is kept for a subject (L8, B9).

use clap::{ArgGroup, Args as ClapArgs};
use hapax_api::{EraseSubject, Nothing, operations as op};
use serde_json::json;

use super::decide::How;
use super::tell;
use crate::cli::remote::Remote;
use crate::cli::{Failed, say};
use crate::limits;

/// `hapax claims erase`
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("what").required(true).args(["operation_id", "subject"]))]
pub(crate) struct Erase {
    /// The public id of the operation, as callers see it in x-operation-id.
    operation_id: Option<String>,
    /// Everything that this subject has asked for, such as user:alice.
    #[arg(long, requires = "tenant", conflicts_with = "epoch")]
    subject: Option<String>,
    /// The subject's tenant.
    #[arg(long, requires = "subject", conflicts_with = "operation_id")]
    tenant: Option<String>,
    /// Only in this project.
    #[arg(long, requires = "subject", conflicts_with = "operation_id")]
    project: Option<String>,
    #[command(flatten)]
    how: How,
}

impl Erase {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let Erase { operation_id, subject, tenant, project, how } = self;
        if let Some(id) = operation_id {
            return how.send::<op::EraseClaim>(&id, |decide| decide).await;
        }
        // The command line has checked that both are there.
        let (tenant, subject) = (tenant.unwrap_or_default(), subject.unwrap_or_default());
        erase_all(EraseSubject { tenant, subject, project, ..EraseSubject::default() }, how).await
    }
}

/// Page by page, until there is no more.
async fn erase_all(mut asked: EraseSubject, how: How) -> Result<(), Failed> {
    let remote = Remote::new(&how.server)?;
    (asked.reason, asked.by) = how.why.into_parts();
    let (mut erased, mut events, mut left, mut damaged) = (0, 0, 0, Vec::new());
    let mut more = true;
    for _ in 0..limits::REMOTE_PAGES {
        let page = remote.call::<op::EraseSubject>("", &Nothing {}, &asked).await?;
        erased += page.erased;
        events += page.events;
        left += page.left;
        damaged.extend(page.damaged);
        more = page.next.is_some();
        asked.after = page.next;
        if !more {
            break;
        }
    }
    let told = match how.json {
        true => say::json(&json!({"erased": erased, "events": events, "left": left, "damaged": damaged})),
        false => say::data(format!(
            "{erased} answers and {events} events of executions erased; used keys stay used up, and free ones free"
        )),
    };
    told.map_err(|failed| failed.and(format!("{erased} answers are erased")))?;
    tell::damaged(&damaged);
    if more {
        return Err(Failed::no("there is more to erase: say it again"));
    }
    let mut open = Vec::new();
    if left > 0 {
        open.push(format!(
            "{left} claims or steps of executions run, or are in doubt: they may have an answer later; resolve them, then say it again"
        ));
    }
    if !damaged.is_empty() {
        open.push(format!("{} claims cannot be read: perhaps they are this subject's, too", damaged.len()));
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(Failed::no(open.join("\n"))),
    }
}
