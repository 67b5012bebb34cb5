//! `hapax status`, `hapax traffic` and `hapax audit`: what operators look at first, through a server (M2, O1, M4).

use clap::Args as ClapArgs;
use hapax_api::{
    Audit, AuditQuery, Event, Instance, Nothing, Pulse, PulseQuery, Time, Traffic, TrafficQuery, TrafficRow,
    operations as op,
};
use hapax_core::limits::MAX_PAGE;
use serde::Serialize;

use super::remote::{Remote, Server};
use super::{Failed, say};
use crate::limits;

/// `hapax status`
#[derive(Debug, ClapArgs)]
pub(crate) struct Status {
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `hapax traffic`
#[derive(Debug, ClapArgs)]
pub(crate) struct TrafficArgs {
    /// Of so long: up to 24h.
    #[arg(long, value_name = "SPAN", default_value = "15m")]
    window: String,
    /// Most first, by this: requests, executed, replayed, mismatch, invalid, in_doubt, hit_rate, p50_ms or p99_ms.
    #[arg(long, value_name = "MEMBER", default_value = "requests")]
    sort: String,
    /// At most so many rows.
    #[arg(long, default_value_t = limits::PAGE)]
    limit: usize,
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `hapax audit`
#[derive(Debug, ClapArgs)]
pub(crate) struct AuditArgs {
    /// Only about this operation.
    #[arg(long, value_name = "OPERATION_ID")]
    operation_id: Option<String>,
    /// Only by this actor: the token's name, or all of it with the name after it.
    #[arg(long)]
    actor: Option<String>,
    /// Only with this verb, such as reopen.
    #[arg(long)]
    verb: Option<String>,
    /// Only at or after this time, such as 2026-11-15T22:52:49Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// At most so many entries.
    #[arg(long, default_value_t = limits::PAGE)]
    limit: usize,
    /// Go on where an earlier list ended.
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `hapax status --json` prints.
#[derive(Serialize)]
struct Told {
    pulse: Pulse,
    instances: Vec<Instance>,
}

/// Runs `hapax status`. A server that cannot serve is a "no".
pub(crate) async fn status(args: Status) -> Result<(), Failed> {
    let remote = Remote::new(&args.server)?;
    let pulse = remote.call::<op::Pulse>("", &PulseQuery::default(), &Nothing {}).await?;
    let instances = remote.call::<op::Instances>("", &Nothing {}, &Nothing {}).await?.instances;
    let ready = pulse.ready;
    match args.json {
        true => say::json(&Told { pulse, instances })?,
        false => say::data(told(&pulse, &instances))?,
    }
    if ready { Ok(()) } else { Err(Failed::no("")) }
}

fn told(pulse: &Pulse, instances: &[Instance]) -> String {
    let ledger = match &pulse.ledger.since {
        Some(since) => format!("does not answer since {since}"),
        None => "answers".into(),
    };
    let (waits, spool) = (&pulse.attention, pulse.spool);
    let failing = pulse.upstreams.iter().map(|one| format!("{} ({})", one.name, one.failures));
    let failing = failing.collect::<Vec<_>>().join(", ");
    let alive = instances.iter().filter(|instance| instance.alive).count();
    let rows = [
        ("ready", if pulse.ready { "yes".into() } else { format!("no: {}", pulse.reasons.join("; ")) }),
        ("ledger", ledger),
        ("instances", format!("{alive} alive of {}", instances.len())),
        ("in doubt", waits.in_doubt.to_string()),
        (
            "waits",
            format!(
                "{} approvals, {} alerts, {} late outcomes, {} damaged records",
                waits.approvals, waits.alerts, waits.late, waits.damaged
            ),
        ),
        ("spool", format!("{} on disk, {} owed", spool.waiting, spool.owed)),
        ("failing", if failing.is_empty() { "none".into() } else { failing }),
    ];
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    say::table(&["WHAT", "STATUS"], &rows)
}

/// Runs `hapax traffic`.
pub(crate) async fn traffic(args: TrafficArgs) -> Result<(), Failed> {
    let query =
        TrafficQuery { window: Some(args.window), sort: Some(args.sort), limit: Some(args.limit.min(200)) };
    let found: Traffic = Remote::new(&args.server)?.call::<op::Traffic>("", &query, &Nothing {}).await?;
    if args.json {
        return say::json(&found);
    }
    if found.rows.is_empty() {
        say::note("no request with a known caller since then");
        return Ok(());
    }
    let row = |row: &TrafficRow| {
        let rate = row.hit_rate.map(|share| format!("{}.{:02} %", share.0 / 100, share.0 % 100));
        let mut cells = vec![row.tenant.clone(), row.project.clone(), row.endpoint.clone()];
        let counts = [row.requests, row.executed, row.replayed, row.attached, row.mismatch, row.in_doubt];
        cells.extend(counts.map(|count| count.to_string()));
        cells.push(rate.unwrap_or_else(|| "-".into()));
        cells
    };
    let heads = [
        "TENANT", "PROJECT", "ENDPOINT", "REQUESTS", "EXECUTED", "REPLAYED", "ATTACHED", "MISMATCH",
        "IN DOUBT", "HIT RATE",
    ];
    say::data(say::table(&heads, &found.rows.iter().map(row).collect::<Vec<_>>()))?;
    say::note(format!("what {} has answered since {}", found.instance, found.since));
    if found.more > 0 {
        say::note(format!("there are {} more: --limit", found.more));
    }
    Ok(())
}

/// Runs `hapax audit`.
pub(crate) async fn audit(args: AuditArgs) -> Result<(), Failed> {
    if args.limit == 0 {
        return Err(Failed::misuse("--limit 0 lists nothing"));
    }
    let operation_id = args.operation_id.as_deref().map(super::claims::checked).transpose()?;
    let mut query = AuditQuery {
        operation_id: operation_id.map(Into::into),
        actor: args.actor,
        verb: args.verb,
        since: args.since.map(Time::from),
        until: args.until.map(Time::from),
        limit: None,
        after: args.after,
    };
    let (remote, mut all) = (Remote::new(&args.server)?, Audit::default());
    for _ in 0..limits::REMOTE_PAGES {
        query.limit = Some((args.limit - all.events.len()).min(MAX_PAGE));
        let page = remote.call::<op::Audit>("", &query, &Nothing {}).await?;
        all.events.extend(page.events);
        query.after = page.next;
        if query.after.is_none() || all.events.len() >= args.limit {
            break;
        }
    }
    all.next = query.after;
    if args.json {
        return say::json(&all);
    }
    if all.events.is_empty() {
        say::note("no such entry");
        return Ok(());
    }
    say::data(say::table(
        &["AT", "VERB", "ACTOR", "ABOUT", "CHANGE", "REASON"],
        &all.events.iter().map(entry).collect::<Vec<_>>(),
    ))?;
    if let Some(next) = &all.next {
        say::note(format!("there are more: --after {next}"));
    }
    Ok(())
}

fn entry(event: &Event) -> Vec<String> {
    let verb = match &event.refused {
        Some(code) => format!("{} (refused: {code})", event.verb),
        None => event.verb.clone(),
    };
    let about = match (&event.operation_id, &event.setting) {
        (Some(id), _) => id.to_string(),
        (None, setting) => setting.clone().unwrap_or_default(),
    };
    let change = match (&event.before, &event.after) {
        (Some(before), Some(after)) if before != after => format!("{before} -> {after}"),
        (_, Some(after)) => after.clone(),
        (Some(before), None) => format!("{before} -> gone"),
        (None, None) => String::new(),
    };
    vec![event.at.to_string(), verb, event.actor.clone(), about, change, event.reason.clone()]
}
