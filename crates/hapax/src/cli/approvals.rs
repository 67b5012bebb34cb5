//! `hapax approvals`, `receipts`, `lanes` and `alerts`: what operators see of agents' actions, and decide about them, through a server (X, M2).

use clap::{Args as ClapArgs, Subcommand};
use hapax_api::{
    AcknowledgeAlert, ActionDecision, Alert, AlertsQuery, Approval, ApprovalsQuery, ConfirmAction, Epoch,
    Json, Lane, LanesQuery, Nothing, Receipt, ReceiptsQuery, ReleaseAction, Time, operations as op,
};
use hapax_core::OperationId;
use serde::Serialize;

use super::claims::Why;
use super::remote::{Remote, Server};
use super::{Failed, say};

/// Whom to ask, and how to tell.
#[derive(Debug, ClapArgs)]
pub(crate) struct Place {
    #[command(flatten)]
    server: Server,
    /// Print JSON, one line for each record.
    #[arg(long)]
    json: bool,
}

/// What can be done about actions of unknown fate.
#[derive(Debug, Subcommand)]
pub(crate) enum Approvals {
    /// List actions of which it is not known whether they happened.
    List {
        /// Only of this tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// Only of this project.
        #[arg(long)]
        project: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Show one of them.
    Show {
        /// The operation id.
        #[arg(value_name = "OPERATION_ID")]
        id: String,
        #[command(flatten)]
        place: Place,
    },
    /// It happened: the key is used up, and the lane opens.
    Confirm(Confirm),
    /// It did not happen, or may happen again: proposed again, it runs.
    Release(Release),
}

/// What was seen of an action.
#[derive(Debug, ClapArgs)]
pub(crate) struct Seen {
    /// The operation id.
    #[arg(value_name = "OPERATION_ID")]
    id: String,
    /// The digest you saw; without it, the one that the action has now.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// The epoch you saw; without it, the one that the action has now.
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<String>,
}

/// `hapax approvals confirm`
#[derive(Debug, ClapArgs)]
pub(crate) struct Confirm {
    #[command(flatten)]
    seen: Seen,
    /// What the tool answered, as JSON.
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    place: Place,
}

/// `hapax approvals release`
#[derive(Debug, ClapArgs)]
pub(crate) struct Release {
    #[command(flatten)]
    seen: Seen,
    /// Even while the former call may still be on its way.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    place: Place,
}

/// What can be asked about receipts.
#[derive(Debug, Subcommand)]
pub(crate) enum Receipts {
    /// List what became of a tenant's actions, newest first.
    List(ListReceipts),
    /// Tell the end of a tenant's chain: compare it with one that was noted earlier.
    Head {
        /// The tenant.
        #[arg(long)]
        tenant: String,
        #[command(flatten)]
        place: Place,
    },
}

/// `hapax receipts list`
#[derive(Debug, ClapArgs)]
pub(crate) struct ListReceipts {
    /// The tenant.
    #[arg(long)]
    tenant: String,
    /// Only of this project.
    #[arg(long)]
    project: Option<String>,
    /// Only of actions on this entity.
    #[arg(long)]
    entity: Option<String>,
    /// Only of actions with this key.
    #[arg(long)]
    key: Option<String>,
    /// Only with this decision: ALLOW, ALERT, BLOCK, DEDUP, confirm, release, reopen or purge.
    #[arg(long)]
    decision: Option<ActionDecision>,
    /// Only those written since this time, such as 2026-11-19T04:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only those written before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// `hapax lanes`
#[derive(Debug, ClapArgs)]
pub(crate) struct Lanes {
    /// Only of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only of this project.
    #[arg(long)]
    project: Option<String>,
    /// Only of this entity.
    #[arg(long, requires = "tenant", requires = "project")]
    entity: Option<String>,
    /// Also those in which nothing waits, runs or is closed.
    #[arg(long)]
    idle: bool,
    #[command(flatten)]
    place: Place,
}

/// What can be done about alerts.
#[derive(Debug, Subcommand)]
pub(crate) enum Alerts {
    /// List actions that were let through and are raised for people.
    List {
        /// Only of this tenant.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Say that an alert was seen.
    Acknowledge {
        /// The id of the alert.
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        why: Why,
        #[command(flatten)]
        place: Place,
    },
}

fn line(record: &impl Serialize) -> Result<(), Failed> {
    let text = serde_json::to_string(record);
    say::data(
        text.map_err(|error| Failed::unavailable(format!("the answer cannot be written as JSON: {error}")))?,
    )
}

/// A page of records: as lines of JSON, or as a table whose headings stand before the first.
fn page<R: Serialize>(
    records: &[R],
    json: bool,
    heads: &mut Option<&[&str]>,
    row: impl Fn(&R) -> Vec<String>,
) -> Result<(), Failed> {
    if json {
        return records.iter().try_for_each(line);
    }
    if records.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = records.iter().map(row).collect();
    match heads.take() {
        Some(heads) => say::data(say::table(heads, &rows)),
        None => rows.iter().try_for_each(|row| say::data(say::clean(&row.join("  ")))),
    }
}

fn time(time: Option<&Time>) -> String {
    time.map(ToString::to_string).unwrap_or_default()
}

/// What is none is told here: as a part of a path it would ask for something else.
fn checked(id: &str) -> Result<&str, Failed> {
    id.parse::<OperationId>().map(|_| id).map_err(|error| Failed::misuse(error.to_string()))
}

/// Runs `hapax approvals`.
pub(crate) async fn approvals(command: Approvals) -> Result<(), Failed> {
    match command {
        Approvals::List { tenant, project, place } => {
            let remote = Remote::new(&place.server)?;
            let mut query = ApprovalsQuery { tenant, project, ..ApprovalsQuery::default() };
            let mut heads: Option<&[&str]> =
                Some(&["OPERATION ID", "TENANT", "PROJECT", "KEY", "SINCE", "WHY"]);
            loop {
                let told = remote.call::<op::ListApprovals>("", &query, &Nothing {}).await?;
                page(&told.approvals, place.json, &mut heads, approval_row)?;
                query.after = told.next;
                if query.after.is_none() {
                    return Ok(());
                }
            }
        }
        Approvals::Show { id, place } => {
            let remote = Remote::new(&place.server)?;
            let told = remote.call::<op::ShowApproval>(checked(&id)?, &Nothing {}, &Nothing {}).await?;
            if place.json {
                return line(&told);
            }
            let lines = [
                ("operation", told.operation_id.to_string()),
                ("tenant", told.tenant.clone()),
                ("project", told.project.clone()),
                ("key", say::clean(&told.key)),
                ("digest", told.digest.clone()),
                ("epoch", told.epoch.to_string()),
                ("since", time(told.since.as_ref())),
                ("doubt", told.doubt.to_string()),
                ("entity", say::clean(told.entity_key.as_deref().unwrap_or("(no lane is closed by it)"))),
                ("tool", say::clean(told.tool.as_deref().unwrap_or("(not known)"))),
                ("cause", say::clean(told.cause.as_deref().unwrap_or("its process ended without a word"))),
            ];
            lines.iter().try_for_each(|(name, value)| say::data(format!("{name:<10}  {value}")))
        }
        Approvals::Confirm(confirm) => confirm.run().await,
        Approvals::Release(release) => release.run().await,
    }
}

fn approval_row(waits: &Approval) -> Vec<String> {
    vec![
        waits.operation_id.to_string(),
        waits.tenant.clone(),
        waits.project.clone(),
        waits.key.clone(),
        time(waits.since.as_ref()),
        waits.cause.clone().unwrap_or_else(|| told_by_the_lane(waits)),
    ]
}

/// What is known of an action whose process ended without a word.
fn told_by_the_lane(waits: &Approval) -> String {
    let parts = [waits.tool.as_deref(), waits.entity_key.as_deref()];
    match parts.into_iter().flatten().collect::<Vec<_>>().join(" on ") {
        known if known.is_empty() => waits.doubt.to_string(),
        known => format!("{known}: {}", waits.doubt),
    }
}

impl Seen {
    /// The digest and the epoch that are decided about.
    async fn of(&self, remote: &Remote) -> Result<(String, Epoch), Failed> {
        if let (Some(digest), Some(epoch)) = (&self.digest, &self.epoch) {
            return Ok((digest.clone(), Epoch::from(epoch.clone())));
        }
        let now = remote.call::<op::ShowApproval>(checked(&self.id)?, &Nothing {}, &Nothing {}).await?;
        let epoch = self.epoch.clone().map_or(now.epoch, Epoch::from);
        Ok((self.digest.clone().unwrap_or(now.digest), epoch))
    }
}

impl Confirm {
    async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let parsed = self.result.as_deref().map(serde_json::from_str).transpose();
        let result =
            parsed.map_err(|error| Failed::misuse(format!("--result takes JSON: {error}")))?.map(Json);
        let (digest, epoch) = self.seen.of(&remote).await?;
        let (reason, by) = self.why.into_parts();
        let body = ConfirmAction { digest, epoch, result, reason, by };
        let told = remote.call::<op::ConfirmAction>(checked(&self.seen.id)?, &Nothing {}, &body).await?;
        tell(&told, "confirmed", self.place.json)
    }
}

impl Release {
    async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let (digest, epoch) = self.seen.of(&remote).await?;
        let (reason, by) = self.why.into_parts();
        let body = ReleaseAction { digest, epoch, force: self.force, reason, by };
        let told = remote.call::<op::ReleaseAction>(checked(&self.seen.id)?, &Nothing {}, &body).await?;
        tell(&told, "released", self.place.json)
    }
}

fn tell(told: &hapax_api::Decided, done: &str, json: bool) -> Result<(), Failed> {
    let said = if json { line(told) } else { say::data(format!("{done} {}", told.operation_id)) };
    said.map_err(|failed| failed.and("the decision was carried out"))
}

/// Runs `hapax receipts`.
pub(crate) async fn receipts(command: Receipts) -> Result<(), Failed> {
    match command {
        Receipts::List(list) => list.run().await,
        Receipts::Head { tenant, place } => {
            let remote = Remote::new(&place.server)?;
            let told = remote.call::<op::ReceiptsHead>(&tenant, &Nothing {}, &Nothing {}).await?;
            match place.json {
                true => line(&told),
                false => {
                    let hash = told.hash.as_deref().unwrap_or("(none)");
                    say::data(format!("{}  {} receipts  {hash}", told.tenant, told.receipts))
                }
            }
        }
    }
}

impl ListReceipts {
    async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let mut query = ReceiptsQuery {
            tenant: Some(self.tenant),
            project: self.project,
            entity: self.entity,
            key: self.key,
            decision: self.decision,
            since: self.since,
            until: self.until,
            ..ReceiptsQuery::default()
        };
        let mut heads: Option<&[&str]> =
            Some(&["SEQ", "TIME", "DECISION", "END", "TOOL", "ENTITY", "KEY", "WHY"]);
        loop {
            let told = remote.call::<op::ListReceipts>("", &query, &Nothing {}).await?;
            page(&told.receipts, self.place.json, &mut heads, receipt_row)?;
            query.after = told.next;
            if query.after.is_none() {
                return Ok(());
            }
        }
    }
}

fn receipt_row(receipt: &Receipt) -> Vec<String> {
    let decision = receipt.decision.map_or("(not readable)", ActionDecision::as_str);
    let why = receipt.rule.clone().or_else(|| receipt.code.clone()).or_else(|| receipt.reason.clone());
    vec![
        receipt.seq.to_string(),
        time(receipt.at.as_ref()),
        decision.to_owned(),
        if receipt.ok { "ok" } else { "-" }.to_owned(),
        format!("{}/{}", receipt.connector, receipt.tool),
        receipt.entity_key.clone(),
        receipt.key.clone().unwrap_or_default(),
        why.unwrap_or_default(),
    ]
}

/// Runs `hapax lanes`.
pub(crate) async fn lanes(args: Lanes) -> Result<(), Failed> {
    let remote = Remote::new(&args.place.server)?;
    let (tenant, project, entity, idle) = (args.tenant, args.project, args.entity, args.idle);
    let mut query = LanesQuery { tenant, project, entity, idle, ..LanesQuery::default() };
    let mut heads: Option<&[&str]> = Some(&["TENANT", "PROJECT", "ENTITY", "SERVED", "WAITING", "CLOSED BY"]);
    loop {
        let told = remote.call::<op::ListLanes>("", &query, &Nothing {}).await?;
        page(&told.lanes, args.place.json, &mut heads, lane_row)?;
        query.after = told.next;
        if query.after.is_none() {
            return Ok(());
        }
    }
}

fn lane_row(lane: &Lane) -> Vec<String> {
    let served = match &lane.served {
        None => String::new(),
        Some(ticket) => {
            ticket.claim.as_ref().map_or_else(|| "an action".to_owned(), |claim| claim.key.clone())
        }
    };
    let closed = lane.closed_by.as_ref().map(|claim| format!("{} ({})", claim.operation_id, claim.state));
    vec![
        lane.tenant.clone(),
        lane.project.clone(),
        lane.entity_key.clone(),
        served,
        lane.waiting.to_string(),
        closed.unwrap_or_default(),
    ]
}

/// Runs `hapax alerts`.
pub(crate) async fn alerts(command: Alerts) -> Result<(), Failed> {
    match command {
        Alerts::List { tenant, place } => {
            let remote = Remote::new(&place.server)?;
            let mut query = AlertsQuery { tenant, ..AlertsQuery::default() };
            let mut heads: Option<&[&str]> = Some(&["ID", "TIME", "TENANT", "TOOL", "ENTITY", "RULE"]);
            loop {
                let told = remote.call::<op::ListAlerts>("", &query, &Nothing {}).await?;
                page(&told.alerts, place.json, &mut heads, alert_row)?;
                query.after = told.next;
                if query.after.is_none() {
                    return Ok(());
                }
            }
        }
        Alerts::Acknowledge { id, why, place } => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if id.is_empty() || !id.bytes().all(plain) {
                return Err(Failed::misuse("the id of an alert is as `hapax alerts list --json` has it"));
            }
            let remote = Remote::new(&place.server)?;
            let (reason, by) = why.into_parts();
            let body = AcknowledgeAlert { reason, by };
            let told = remote.call::<op::AcknowledgeAlert>(&id, &Nothing {}, &body).await?;
            let said = if place.json { line(&told) } else { say::data(format!("acknowledged {}", told.id)) };
            said.map_err(|failed| failed.and("the alert was acknowledged"))
        }
    }
}

fn alert_row(alert: &Alert) -> Vec<String> {
    vec![
        alert.id.to_string(),
        time(alert.at.as_ref()),
        alert.tenant.clone(),
        format!("{}/{}", alert.connector, alert.tool),
        alert.entity_key.clone(),
        alert.rule.clone().unwrap_or_default(),
    ]
}
